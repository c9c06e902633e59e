# RQ, a queue of jobs, against a server: python main.py PORT. VARVE_TLS is a folder with ca.crt, client.crt and client.key, by which
# it speaks TLS. Ends with "rq: N checks" and status 0, or with what failed.
#
#   jobs and results | several workers | failures and retries | dependencies | schedules | locks of redis-py
#
# Each part has keys of its own; the server is taken to be empty.
import logging
import os
import sys
import threading
import time
from datetime import timedelta

import redis
from rq import Queue, Retry, SimpleWorker
from rq.job import Job
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry
from rq.scheduler import RQScheduler
from rq.timeouts import TimerDeathPenalty

CHECKS = 0


def same(what, got, wanted):
    global CHECKS
    assert got == wanted, f"{what}: {got!r}, not {wanted!r}"
    CHECKS += 1


def connect(**options):
    folder = os.environ.get("VARVE_TLS")
    if folder:
        options |= {"ssl": True, "ssl_ca_certs": f"{folder}/ca.crt"}
        options |= {"ssl_certfile": f"{folder}/client.crt", "ssl_keyfile": f"{folder}/client.key"}
    return redis.Redis(host="localhost" if folder else "127.0.0.1", port=int(sys.argv[1]), **options)


# The work of jobs, which workers find by its name.
def add(a, b):
    return a + b


def fail():
    raise ValueError("as it should")


def fail_first(name):
    if connect().incr(name) < 3:
        raise ValueError("not yet")
    return "at last"


def note(name, value):
    connect().rpush(name, value)


class Worker(SimpleWorker):
    """Runs jobs in a thread of this process, so without signals."""

    death_penalty_class = TimerDeathPenalty

    def _install_signal_handlers(self):
        pass


def work(connection, *queues):
    Worker(list(queues), connection=connection).work(burst=True, logging_level="ERROR")


def jobs(server):
    queue = Queue("plain", connection=server)
    many = [queue.enqueue("main.add", n, n) for n in range(50)]
    same("waiting", len(queue), 50)
    work(server, queue)
    same("results", [job.return_value() for job in many], [2 * n for n in range(50)])
    same("finished", FinishedJobRegistry(queue=queue).count, 50)
    same("empty", len(queue), 0)
    late = queue.enqueue("main.add", 1, 2, job_id="chosen")
    same("fetched", Job.fetch("chosen", connection=server).args, (1, 2))
    late.cancel()
    same("cancelled", late.get_status(), "canceled")


def crowd(server):
    queue = Queue("crowd", connection=server)
    for n in range(200):
        queue.enqueue("main.note", "crowd:done", n)
    threads = [threading.Thread(target=work, args=(connect(), Queue("crowd", connection=connect()))) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    done = sorted(int(n) for n in server.lrange("crowd:done", 0, -1))
    same("each job once", done, list(range(200)))


def failures(server):
    queue = Queue("failing", connection=server)
    failed = queue.enqueue("main.fail")
    tried = queue.enqueue("main.fail_first", "tries", retry=Retry(max=3))
    work(server, queue)
    same("failed", failed.get_status(refresh=True), "failed")
    same("in the registry", FailedJobRegistry(queue=queue).get_job_ids(), [failed.id])
    same("its error", "as it should" in failed.latest_result().exc_string, True)
    same("third time", tried.return_value(), "at last")
    failed.requeue()
    same("again", queue.job_ids, [failed.id])


def dependencies(server):
    queue = Queue("after", connection=server)
    first = queue.enqueue("main.note", "order", "first")
    both = [queue.enqueue("main.note", "order", name, depends_on=first) for name in ("second", "third")]
    last = queue.enqueue("main.note", "order", "last", depends_on=both)
    same("only the first waits in the queue", queue.job_ids, [first.id])
    same("held back", last.get_status(), "deferred")
    work(server, queue)
    order = [word.decode() for word in server.lrange("order", 0, -1)]
    same("the last is last", (order[0], order[3], sorted(order[1:3])), ("first", "last", ["second", "third"]))


def schedules(server):
    queue = Queue("later", connection=server)
    soon = queue.enqueue_in(timedelta(seconds=0), "main.add", 1, 1)
    later = queue.enqueue_in(timedelta(hours=1), "main.add", 2, 2)
    registry = ScheduledJobRegistry(queue=queue)
    same("scheduled", registry.count, 2)
    scheduler = RQScheduler([queue], connection=server)
    same("the lock of this scheduler", scheduler.acquire_locks(), {"later"})
    same("no other gets it", RQScheduler([queue], connection=connect()).acquire_locks(), set())
    scheduler.enqueue_scheduled_jobs()
    same("the first is due", (queue.job_ids, registry.get_job_ids()), ([soon.id], [later.id]))
    scheduler.release_locks()


def locks(server):
    total = {"sum": 0}

    def step():
        own = connect()
        for _ in range(25):
            with own.lock("guard", timeout=10, sleep=0.002):
                seen = total["sum"]
                time.sleep(0)
                total["sum"] = seen + 1

    threads = [threading.Thread(target=step) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    same("nobody's step was lost", total["sum"], 200)
    lock = server.lock("short", timeout=5)
    same("acquired", (lock.acquire(blocking=False), server.lock("short").acquire(blocking=False)), (True, False))
    lock.extend(10)
    same("extended", 10000 < server.pttl("short") <= 15000, True)
    lock.reacquire()
    same("back to its time", server.pttl("short") <= 5000, True)
    lock.release()
    try:
        lock.release()
        assert False, "released twice"
    except redis.exceptions.LockError:
        same("gone", server.exists("short"), 0)


if __name__ == "__main__":
    logging.disable()
    server = connect()
    for part in (jobs, crowd, failures, dependencies, schedules, locks):
        part(server)
    print(f"rq: {CHECKS} checks")
