//! Blocked clients over real sockets: served by other workers, in time, unblocked, gone; what they sent behind waits.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use varve_exec::stats::CommandLog;

use super::{Client, Server, request, wait_until};
use crate::features;

/// Blocked clients, as INFO counts them.
fn blocked(server: &Server) -> u64 {
    server.state().total(|stats| &stats.blocked)
}

fn wait_blocked(server: &Server, count: u64) {
    wait_until("clients block", || blocked(server) == count);
}

fn id(client: &mut Client) -> String {
    client.send(&request(&["CLIENT", "ID"]));
    client.line().trim_start_matches(':').to_owned()
}

#[test]
fn a_push_serves_clients_of_other_workers_in_order() {
    let server = Server::start(3, "");
    let mut poppers: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    for (at, popper) in poppers.iter_mut().enumerate() {
        popper.send(&request(&["BLPOP", "a", "b", "0"]));
        wait_blocked(&server, at as u64 + 1);
    }
    let mut pusher = server.connect();
    pusher.ask(&["RPUSH", "b", "0", "1", "2", "3", "4", "5"], ":6\r\n");
    for (at, popper) in poppers.iter_mut().enumerate() {
        popper.expect(format!("*2\r\n$1\r\nb\r\n$1\r\n{at}\r\n").as_bytes());
    }
    pusher.ask(&["LRANGE", "b", "0", "-1"], "*1\r\n$1\r\n5\r\n");
    wait_blocked(&server, 0);
}

#[test]
fn a_pipeline_behind_a_blocked_command_waits() {
    let server = Server::start(2, "");
    let (mut popper, mut pusher) = (server.connect(), server.connect());
    let pipeline = [&["BLPOP", "a", "0"][..], &["SET", "done", "1"], &["BRPOP", "a", "0"], &["GET", "done"]];
    popper.send(&pipeline.map(request).concat());
    wait_blocked(&server, 1);
    popper.send(&request(&["ECHO", "late"]));
    pusher.ask(&["EXISTS", "done"], ":0\r\n");
    pusher.ask(&["RPUSH", "a", "x"], ":1\r\n");
    popper.expect(b"*2\r\n$1\r\na\r\n$1\r\nx\r\n+OK\r\n");
    wait_blocked(&server, 1);
    pusher.ask(&["RPUSH", "a", "y"], ":1\r\n");
    popper.expect(b"*2\r\n$1\r\na\r\n$1\r\ny\r\n$1\r\n1\r\n$4\r\nlate\r\n");
}

#[test]
fn time_is_up_when_it_is() {
    let server = Server::start(2, "");
    let mut popper = server.connect();
    for (command, seconds) in [(&["BLPOP", "a", "b"][..], "0.05"), (&["BLMOVE", "a", "b", "LEFT", "LEFT"], "0.2")] {
        let start = Instant::now();
        popper.ask(&[command, &[seconds]].concat(), "*-1\r\n");
        let (took, wanted) = (start.elapsed(), Duration::from_secs_f64(seconds.parse().unwrap()));
        assert!(took >= wanted && took < wanted + Duration::from_secs(15), "{took:?}");
    }
    assert_eq!(blocked(&server), 0);
    let mut pusher = server.connect();
    pusher.ask(&["RPUSH", "a", "x"], ":1\r\n");
    pusher.ask(&["LRANGE", "a", "0", "-1"], "*1\r\n$1\r\nx\r\n");
    popper.ask(&["PING"], "+PONG\r\n");
}

#[test]
fn unblocked_by_another_client() {
    let server = Server::start(3, "");
    let (mut popper, mut other) = (server.connect(), server.connect());
    let id = id(&mut popper);
    other.ask(&["CLIENT", "UNBLOCK", &id], ":0\r\n");
    popper.send(&request(&["BLPOP", "a", "0"]));
    wait_blocked(&server, 1);
    let line = other.bulk(&["CLIENT", "LIST", "ID", &id]);
    assert!(line.contains(" flags=b ") && line.contains(" cmd=blpop "), "{line}");
    assert!(other.bulk(&["INFO", "clients"]).contains("blocked_clients:1\r\n"));
    other.ask(&["CLIENT", "UNBLOCK", &id, "ERROR"], ":1\r\n");
    popper.expect(b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    // Both commands have failed, as redis-server counts it, and one error was replied.
    let stats = other.bulk(&["INFO", "commandstats", "errorstats"]);
    for (line, fields) in
        [("cmdstat_blpop:calls=1,", "failed_calls=1"), ("cmdstat_client|unblock:calls=2,", "failed_calls=1")]
    {
        assert!(stats.lines().any(|l| l.starts_with(line) && l.ends_with(fields)), "{line} {fields}: {stats}");
    }
    assert!(stats.contains("errorstat_UNBLOCKED:count=1\r\n"), "{stats}");
    popper.send(&[&["BLPOP", "a", "10"][..], &["PING"]].map(request).concat());
    wait_blocked(&server, 1);
    other.ask(&["CLIENT", "UNBLOCK", &id], ":1\r\n");
    popper.expect(b"*-1\r\n+PONG\r\n");
    other.ask(&["RPUSH", "a", "x"], ":1\r\n");
    other.ask(&["LPOP", "a"], "$1\r\nx\r\n");
}

#[test]
fn who_is_gone_takes_nothing() {
    let server = Server::start(2, "");
    let (mut gone, mut killed, mut half, mut stays) =
        (server.connect(), server.connect(), server.connect(), server.connect());
    let id = id(&mut killed);
    for client in [&mut gone, &mut killed, &mut half, &mut stays] {
        let before = blocked(&server);
        client.send(&request(&["BLPOP", "a", "0"]));
        wait_blocked(&server, before + 1);
    }
    drop(gone);
    half.stream.shutdown(Shutdown::Write).unwrap();
    wait_blocked(&server, 2);
    let mut other = server.connect();
    other.ask(&["CLIENT", "KILL", "ID", &id], ":1\r\n");
    wait_blocked(&server, 1);
    assert!(killed.is_closed() && half.is_closed());
    other.ask(&["RPUSH", "a", "x"], ":1\r\n");
    stays.expect(b"*2\r\n$1\r\na\r\n$1\r\nx\r\n");
}

#[test]
fn blocked_clients_are_not_idle() {
    let server = Server::start(1, "timeout 1\n");
    let (mut popper, mut idle) = (server.connect(), server.connect());
    idle.ask(&["PING"], "+PONG\r\n");
    popper.send(&request(&["BLPOP", "a", "3"]));
    assert!(idle.is_closed());
    popper.expect(b"*-1\r\n");
}

/// EXEC that the server drives, and that leaves a question to all workers behind.
#[test]
fn a_transaction_with_commands_of_the_server_serves_too() {
    let server = Server::start(2, "");
    let (mut popper, mut other, mut pusher) = (server.connect(), server.connect(), server.connect());
    popper.send(&request(&["BLMOVE", "a", "b", "LEFT", "LEFT", "0"]));
    other.send(&request(&["BLPOP", "b", "0"]));
    wait_blocked(&server, 2);
    let lines = [&["MULTI"][..], &["RPUSH", "a", "x"], &["CLIENT", "KILL", "ID", "99"], &["EXEC"]];
    pusher.send(&lines.map(request).concat());
    pusher.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:0\r\n");
    popper.expect(b"$1\r\nx\r\n");
    other.expect(b"*2\r\n$1\r\nb\r\n$1\r\nx\r\n");
}

#[test]
fn a_reply_that_is_not_wanted_is_dropped() {
    let server = Server::start(2, "");
    let (mut popper, mut pusher) = (server.connect(), server.connect());
    popper.send(&[&["CLIENT", "REPLY", "SKIP"][..], &["BLPOP", "a", "0"], &["PING"]].map(request).concat());
    wait_blocked(&server, 1);
    pusher.ask(&["RPUSH", "a", "x"], ":1\r\n");
    popper.expect(b"+PONG\r\n");
}

/// Calls of a command, and those whose duration its histogram has, of all workers.
fn calls_and_durations(server: &Server, name: &str) -> (u64, u64) {
    let commands = features::commands().commands();
    let row = commands.iter().find(|command| command.name == name).expect("a command");
    let stats = server.state().workers().iter().map(|worker| worker.commands().of(row));
    let durations = stats.clone().filter_map(|stat| stat.latency.get()).map(|durations| durations.read().count());
    (stats.map(|stat| stat.calls.get()).sum(), durations.sum())
}

/// Whether a command that waited was slow is known when it is served, and it is so for its client. One whose time is up
/// was never slow.
#[test]
fn a_command_that_waited_is_slow_when_it_is_served() {
    let server = Server::start(2, "slowlog-log-slower-than 0\n");
    let mut pusher = server.connect();
    let logged = |server: &Server| {
        let mut logs = server.state().command_logs();
        logs.of(CommandLog::Slow)
            .iter()
            .filter(|entry| entry.name == b"waits")
            .map(|entry| entry.command.args.clone())
            .collect::<Vec<_>>()
    };
    let waiting = [
        (&["BLPOP", "a", "0"][..], "*2\r\n$1\r\na\r\n$1\r\nx\r\n"),
        (&["BLMOVE", "a", "b", "LEFT", "LEFT", "0"], "$1\r\nx\r\n"),
        (&["BLPOP", "nothing", "0.01"], "*-1\r\n"),
        (&["WAIT", "1", "10"], ":0\r\n"),
    ];
    for (words, reply) in waiting {
        let name = words[0].to_ascii_lowercase();
        let mut popper = server.connect();
        popper.ask(&["CLIENT", "SETNAME", "waits"], "+OK\r\n");
        let (calls, durations) = calls_and_durations(&server, &name);
        let is_served = words[1] == "a";
        popper.send(&request(words));
        if is_served {
            wait_blocked(&server, 1);
            assert_eq!(calls_and_durations(&server, &name), (calls + 1, durations), "{name} waits");
            assert!(logged(&server).iter().all(|args| args[0] != words[0].as_bytes()), "{name} is not served");
            pusher.ask(&["RPUSH", "a", "x"], ":1\r\n");
        }
        popper.expect(reply.as_bytes());
        let served = u64::from(is_served);
        assert_eq!(calls_and_durations(&server, &name), (calls + 1, durations + served), "{name} has ended");
        let found = logged(&server).into_iter().filter(|args| args.iter().eq(words.iter().map(|word| word.as_bytes())));
        assert_eq!(found.count(), served as usize, "{name}");
    }
}

/// Many clients take from one key, each from a thread of its own, while others push: every element comes out once.
#[test]
fn many_clients_at_one_key() {
    const POPPERS: usize = 24;
    const ELEMENTS: usize = 3_000;
    let server = Server::start(3, "");
    let (taken, pushed) = std::thread::scope(|s| {
        let popping: Vec<_> = (0..POPPERS)
            .map(|_| {
                let mut client = server.connect();
                s.spawn(move || {
                    let mut taken = Vec::new();
                    loop {
                        client.send(&request(&["BLPOP", "q", "0"]));
                        let lines: Vec<String> = (0..5).map(|_| client.line()).collect();
                        match lines[4].parse::<usize>() {
                            Ok(n) => taken.push(n),
                            Err(_) => return taken,
                        }
                    }
                })
            })
            .collect();
        let mut pusher = server.connect();
        let mut pushed = Vec::new();
        for n in 0..ELEMENTS {
            let side = if n % 2 == 0 { "RPUSH" } else { "LPUSH" };
            pusher.send(&request(&[side, "q", &n.to_string()]));
            pushed.push(pusher.line());
        }
        wait_until("the queue is empty", || {
            pusher.send(&request(&["LLEN", "q"]));
            pusher.line() == ":0"
        });
        for _ in 0..POPPERS {
            pusher.send(&request(&["RPUSH", "q", "stop"]));
            pusher.line();
        }
        let taken: Vec<usize> = popping.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        (taken, pushed)
    });
    assert_eq!(pushed.len(), ELEMENTS);
    let mut sorted = taken;
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..ELEMENTS), "{} elements came out", sorted.len());
}

#[test]
fn one_entry_serves_all_readers_and_one_of_a_group() {
    let server = Server::start(3, "");
    let mut writer = server.connect();
    writer.ask(&["XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"], "+OK\r\n");
    let mut readers: Vec<Client> = (0..150).map(|_| server.connect()).collect();
    readers.iter_mut().for_each(|reader| reader.send(&request(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"])));
    wait_blocked(&server, 150);
    let mut consumers: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for (at, consumer) in consumers.iter_mut().enumerate() {
        let name = format!("c{at}");
        consumer.send(&request(&["XREADGROUP", "GROUP", "g", &name, "BLOCK", "0", "STREAMS", "s", ">"]));
        wait_blocked(&server, 151 + at as u64);
    }
    writer.ask(&["XADD", "s", "1-1", "a", "b"], "$3\r\n1-1\r\n");
    let reply = b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n";
    readers.iter_mut().chain(&mut consumers[..1]).for_each(|reader| reader.expect(reply));
    wait_blocked(&server, 1);
    writer.ask(&["DEL", "s"], ":1\r\n");
    consumers[1].expect(b"-UNBLOCKED the stream key no longer exists\r\n");
}

#[test]
fn a_stream_that_expires_ends_the_wait_for_its_group() {
    let server = Server::start(2, "");
    let (mut writer, mut consumer) = (server.connect(), server.connect());
    writer.ask(&["XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"], "+OK\r\n");
    consumer.send(&request(&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"]));
    wait_blocked(&server, 1);
    writer.ask(&["PEXPIRE", "s", "20"], ":1\r\n");
    consumer.expect(b"-UNBLOCKED the stream key no longer exists\r\n");
}

/// A client that waits is served with no more than its class may have unsent: a long list that is renamed into its key may
/// be longer than what is left of memory.
#[test]
fn issue_11_a_reply_to_a_waiting_client_has_a_ceiling() {
    let server = Server::start(2, "client-output-buffer-limit normal 1mb 0 0");
    let (mut popper, mut pusher) = (server.connect(), server.connect());
    popper.send(&request(&["BLMPOP", "0", "1", "k", "LEFT", "COUNT", "1000000"]));
    wait_blocked(&server, 1);
    let value = "v".repeat(1000);
    let words: Vec<&str> = ["RPUSH", "long"].into_iter().chain(std::iter::repeat_n(value.as_str(), 500)).collect();
    (1..=40).for_each(|n| pusher.ask(&words, &format!(":{}\r\n", n * 500)));
    pusher.ask(&["RENAME", "long", "k"], "+OK\r\n");
    assert!(popper.is_closed(), "it gets no part of a reply");
    pusher.ask(&["EXISTS", "k"], ":0\r\n");
    let peak = server.state().peak(|stats| &stats.output_peak_bytes);
    assert!(peak < 3 << 20, "{peak} bytes of 20 MB waited");
    // Nobody is closed for a reply that is not wanted.
    let mut silent = server.connect();
    let waits = request(&["BLMPOP", "0", "1", "k", "LEFT", "COUNT", "1000000"]);
    silent.send(&[request(&["CLIENT", "REPLY", "SKIP"]), waits, request(&["PING"])].concat());
    wait_blocked(&server, 1);
    (1..=40).for_each(|n| pusher.ask(&words, &format!(":{}\r\n", n * 500)));
    pusher.ask(&["RENAME", "long", "k"], "+OK\r\n");
    silent.expect(b"+PONG\r\n");
    // The next one is served from an empty buffer.
    let mut popper = server.connect();
    popper.send(&request(&["BLPOP", "k", "0"]));
    wait_blocked(&server, 1);
    pusher.ask(&["RPUSH", "k", "x"], ":1\r\n");
    popper.expect(b"*2\r\n$1\r\nk\r\n$1\r\nx\r\n");
}
