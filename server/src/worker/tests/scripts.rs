//! Scripts over real sockets: their effects are one, they are beside others or alone, and they end when they are told to.

use std::io::Read;

use varve_catalog::Flags;
use varve_exec::Exec;

use super::{Client, Server, request, wait_until};

/// The number of calls of this command, as INFO counts them.
fn calls(client: &mut Client, command: &str) -> u64 {
    let text = client.bulk(&["INFO", "commandstats"]);
    let line = text.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    line.map_or(0, |line| line.split(['=', ',']).nth(1).unwrap().parse().unwrap())
}

#[test]
fn a_script_runs_commands_on_keys_that_it_names_and_makes_up() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    let body = "for i = 1, 300 do redis.call('SET', KEYS[1] .. i, i) end return redis.call('GET', KEYS[1] .. ARGV[1])";
    client.ask(&["EVAL", body, "1", "key", "7"], "$1\r\n7\r\n");
    client.ask(&["DBSIZE"], ":300\r\n");
    assert_eq!(calls(&mut client, "set"), 300);
    client.ask(
        &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
        "-NOSCRIPT No matching script. Please use EVAL.\r\n",
    );
    client.ask(&["EVALSHA", "0123", "x"], "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    client.ask(
        &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "x"],
        "-ERR value is not an integer or out of range\r\n",
    );
    client.ask(&["SCRIPT", "LOAD", "return 1"], "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n");
    let mut others: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for other in &mut others {
        other.ask(&["EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"], ":1\r\n");
    }
    client.ask(&["SCRIPT", "FLUSH"], "+OK\r\n");
    for other in &mut others {
        other.ask(
            &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
            "-NOSCRIPT No matching script. Please use EVAL.\r\n",
        );
    }
}

/// A command may name one value over and over: its reply in a script has an end.
#[test]
fn the_reply_of_a_command_in_a_script_has_an_end() {
    const TOO_LONG: &str = "ERR The reply of this command is too long for a script";
    let server = Server::start(1, "");
    let mut client = server.connect();
    client.ask(&["HSET", "h", "f", &"v".repeat(16 << 20)], ":1\r\n");
    let body = "local fields = {} for i = 1, tonumber(ARGV[1]) do fields[i] = 'f' end \
                local reply = redis.pcall('HMGET', KEYS[1], unpack(fields)) return reply.err or #reply";
    client.ask(&["EVAL", body, "1", "h", "2"], ":2\r\n");
    client.ask(&["EVAL", body, "1", "h", "64"], &format!("${}\r\n{TOO_LONG}\r\n", TOO_LONG.len()));
    client.ask(&["EVAL", body, "1", "h", "2"], ":2\r\n");
}

/// HELP of SCRIPT and FUNCTION may be called by a script, as in redis-server; no other command on scripts may.
#[test]
fn every_command_that_a_script_may_call_can_run_in_one() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    for container in ["script", "function"] {
        client.ask(&["EVAL", "return #redis.call(ARGV[1], 'help') > 5", "0", container], ":1\r\n");
    }
    for command in crate::commands().each().filter(|command| !command.flags.has(Flags::NOSCRIPT)) {
        let alone = matches!(command.exec, Exec::Keeper(_) | Exec::Script(..));
        assert!(!alone, "{} needs what runs scripts", command.full_name);
    }
}

#[test]
fn commands_on_the_whole_keyspace_run_alone_whether_the_text_names_them_or_not() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    client.ask(&["EVAL", "redis.call('SET', 'a', 1) return redis.call('DBSIZE')", "0"], ":1\r\n");
    // Made up, and met before a write: the script begins again.
    let body = "local n = redis.call(ARGV[1]) redis.call('INCR', 'count') return n";
    client.ask(&["EVAL", body, "0", "dbsize"], ":1\r\n");
    client.ask(&["GET", "count"], "$1\r\n1\r\n");
    // And behind a write: refused once, and known from then on.
    let body = "redis.call('INCR', 'count') return redis.call(ARGV[1])";
    client.send(&request(&["EVAL", body, "0", "dbsize"]));
    assert!(client.line().starts_with("-ERR This command sees the whole keyspace"));
    client.ask(&["EVAL", body, "0", "dbsize"], ":2\r\n");
    client.ask(&["EVAL", "redis.call('FLUSHALL') return redis.call('KEYS', '*')", "0"], "*0\r\n");
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["EVAL", "redis.call('SET', 'b', 1) return redis.call('KEYS', '*')", "0"], "+QUEUED\r\n");
    client.ask(&["INCR", "b"], "+QUEUED\r\n");
    client.ask(&["EXEC"], "*2\r\n*1\r\n$1\r\nb\r\n:2\r\n");
}

/// A transaction of another worker may hold a shard for seconds: the script that needs it rests, and its worker serves others.
#[test]
fn issue_11_a_script_waits_at_rest_for_a_shard_that_is_held() {
    let server = Server::start(1, "");
    let store = std::sync::Arc::clone(server.state().store());
    let (mut runner, mut other) = (server.connect(), server.connect());
    // A worker's part of its own: the server's are others.
    let mut holder = store.script_worker(0);
    let mut tx = varve_store::Tx::new(&store, holder.parts().1, 0);
    tx.hold(&[tx.shard_of_bytes(b"held")]);
    let body = "redis.call('SET', 'first', 1) redis.call('INCR', 'held') return redis.call('INCR', 'held')";
    runner.send(&request(&["EVAL", body, "0"]));
    wait_until("the script has begun", || server.state().scripts().running().busy_for(1).is_some());
    // All of them are answered by the worker whose script waits.
    let scripts = ["first", "held"].map(|key| store.shard_of_bytes(key.as_bytes()));
    for key in
        (0..50).map(|n| format!("free:{n}")).filter(|key| !scripts.contains(&store.shard_of_bytes(key.as_bytes())))
    {
        other.ask(&["SET", &key, "1"], "+OK\r\n");
    }
    other.ask(&["PING"], "+PONG\r\n");
    tx.finish();
    runner.expect(b":2\r\n");
    other.ask(&["GET", "held"], "$1\r\n2\r\n");
}

#[test]
fn a_script_serves_those_who_wait_on_other_workers() {
    let server = Server::start(3, "");
    let mut poppers: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for (at, popper) in poppers.iter_mut().enumerate() {
        popper.send(&request(&["BLMOVE", "from", &format!("to{at}"), "LEFT", "RIGHT", "0"]));
        wait_until("a client blocks", || server.state().total(|stats| &stats.blocked) == at as u64 + 1);
    }
    let mut client = server.connect();
    let body =
        "redis.call('RPUSH', 'from', 'x', 'gone') redis.call('RPOP', 'from') redis.call('RPUSH', 'from', 'y') return 1";
    client.ask(&["EVAL", body, "0"], ":1\r\n");
    poppers[0].expect(b"$1\r\nx\r\n");
    poppers[1].expect(b"$1\r\ny\r\n");
    client.ask(&["EVAL", "return redis.call('KEYS', '*') and redis.call('RPUSH', 'from', 'a', 'b')", "0"], ":2\r\n");
    poppers[2].expect(b"$1\r\na\r\n");
    poppers[3].expect(b"$1\r\nb\r\n");
    client.ask(&["LRANGE", "to3", "0", "-1"], "*1\r\n$1\r\nb\r\n");
}

#[test]
fn scripts_of_several_workers_and_transactions_add_up() {
    const TIMES: usize = 200;
    let server = Server::start(4, "");
    let clients: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    std::thread::scope(|scope| {
        for (at, mut client) in clients.into_iter().enumerate() {
            scope.spawn(move || {
                let (first, second) = (format!("k{}", at % 3), format!("k{}", (at + 1) % 3));
                let body = "redis.call('INCR', ARGV[1]) redis.call('INCR', ARGV[2]) return 1";
                for _ in 0..TIMES {
                    if at % 2 == 0 {
                        client.ask(&["EVAL", body, "0", &first, &second], ":1\r\n");
                    } else {
                        client.send(
                            &[&["MULTI"][..], &["INCR", &first], &["INCR", &second], &["EXEC"]].map(request).concat(),
                        );
                        client.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n");
                        client.line();
                        client.line();
                    }
                }
            });
        }
    });
    let mut client = server.connect();
    let body = "return redis.call('GET', 'k0') + redis.call('GET', 'k1') + redis.call('GET', 'k2')";
    client.ask(&["EVAL", body, "0"], &format!(":{}\r\n", 6 * TIMES * 2));
}

#[test]
fn a_script_that_takes_too_long_is_ended_from_either_worker() {
    let server = Server::start(2, "busy-reply-threshold 20");
    let mut runner = server.connect();
    runner.send(&request(&["EVAL", "while true do pcall(redis.call, 'GET', 'a') end", "0"]));
    wait_until("the script runs for too long", || server.state().scripts().running().busy_for(20).is_some());
    // Connections of both workers.
    let mut others: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    let busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";
    others.iter_mut().for_each(|other| other.ask(&["GET", "a"], busy));
    let other = &mut others[0];
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user"));
    other.ask(&["SCRIPT", "KILL"], "-NOTBUSY No scripts in execution right now.\r\n");
    other.ask(&["GET", "a"], "$-1\r\n");
}

/// A loop that SCRIPT KILL alone ends.
const ENDLESS: &str = "while true do end";

/// Starts a script that does not end by itself, and waits until it has rested once.
fn start_endless(server: &Server, body: &str, keys: &[&str]) -> Client {
    let mut runner = server.connect();
    let count = keys.len().to_string();
    runner.send(&request(&[&["EVAL", body, &count], keys].concat()));
    wait_until("the script runs", || server.state().scripts().running().busy_for(1).is_some());
    runner
}

#[test]
fn the_only_worker_serves_others_beside_an_endless_script_and_takes_the_kill() {
    let server = Server::start(1, "");
    let mut other = server.connect();
    other.ask(&["SET", "free", "1"], "+OK\r\n");
    other.ask(&["SET", "held", "1"], "+OK\r\n");
    let mut runner = start_endless(&server, &format!("redis.call('GET', KEYS[1]) {ENDLESS}"), &["held"]);
    // Long before the threshold: everything but the shard of its key.
    other.ask(&["PING"], "+PONG\r\n");
    other.ask(&["GET", "free"], "$1\r\n1\r\n");
    other.ask(&["INCR", "free"], ":2\r\n");
    assert!(other.bulk(&["INFO", "keyspace"]).contains("db0:keys=2"), "counts are shown while it holds a shard");
    // Newcomers as well.
    let mut late = server.connect();
    late.ask(&["GET", "free"], "$1\r\n2\r\n");
    late.send(&request(&["GET", "held"]));
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user"));
    late.expect(b"$1\r\n1\r\n");
    other.ask(&["SCRIPT", "KILL"], "-NOTBUSY No scripts in execution right now.\r\n");
    runner.ask(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "held"], "$1\r\n1\r\n");
}

/// The histogram of holds knew of no hold by a script.
#[test]
fn the_hold_of_a_script_is_counted() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    // One of its own shard, one of the whole keyspace, one that holds nothing.
    for (body, holds) in
        [("redis.call('SET', KEYS[1], 1)", 1), ("redis.call('DBSIZE') redis.call('GET', KEYS[1])", 1), ("", 0)]
    {
        let (before, _) = client.holds();
        client.ask(&["EVAL", &format!("{body} return 7"), "1", "k"], ":7\r\n");
        assert_eq!(client.holds().0 - before, holds, "{body}");
    }
    // Inside EXEC its hold is the transaction's.
    let (before, _) = client.holds();
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "k"], "+QUEUED\r\n");
    client.ask(&["EXEC"], "*1\r\n:2\r\n");
    assert_eq!(client.holds().0 - before, 1);
}

/// A script that rests keeps its shards, and others wait for them: by its own clock its hold had half of that time at most.
#[test]
fn a_script_holds_its_shards_while_it_rests() {
    let server = Server::start(1, "");
    let mut other = server.connect();
    // Some milliseconds a BITCOUNT, in which the script rests: more than its own slices have.
    other.ask(&["SET", "large", &"x".repeat(48 << 20)], "+OK\r\n");
    let mut runner = start_endless(&server, &format!("redis.call('GET', KEYS[1]) {ENDLESS}"), &["held"]);
    other.send(&request(&["BITCOUNT", "large"]).repeat(20));
    (0..20).for_each(|_| assert!(other.line().starts_with(':')));
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user"));
    let stats = other.bulk(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_bitcount:")).expect("it has run");
    let counted_us: f64 = line.split(['=', ',']).nth(3).and_then(|text| text.parse().ok()).expect("a time");
    let (_, longest_us) = other.holds();
    assert!(longest_us >= counted_us, "held for {longest_us} us, beside {counted_us} us of other commands");
}

/// A script rests on the thread whose other client writes at the limit: a wait for the script's shard had no end.
#[test]
fn a_write_at_the_limit_waits_for_the_script_of_its_own_worker() {
    let server = Server::start(1, "maxmemory-policy volatile-ttl");
    let (mut other, mut writer) = (server.connect(), server.connect());
    // All keys that may go are one, far larger than what the server itself takes meanwhile.
    let part = "x".repeat(20_000);
    (1..=100).for_each(|n| other.ask(&["APPEND", "held", &part], &format!(":{}\r\n", n * part.len())));
    other.ask(&["EXPIRE", "held", "1000"], ":1\r\n");
    // The value itself would count among the script's memory, from some time on.
    let mut runner = start_endless(&server, &format!("redis.call('STRLEN', KEYS[1]) {ENDLESS}"), &["held"]);
    let limit = server.state().store().used_memory() + 50_000;
    other.ask(&["CONFIG", "SET", "maxmemory", &limit.to_string()], "+OK\r\n");
    writer.send(&request(&["SET", "new", &"y".repeat(100_000)]));
    (0..100).for_each(|_| other.ask(&["PING"], "+PONG\r\n"));
    other.ask(&["CONFIG", "SET", "maxmemory", "0"], "+OK\r\n");
    writer.expect(b"+OK\r\n");
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user"));
    other.ask(&["EXISTS", "held", "new"], ":2\r\n");
}

/// One call of a library function, which compares the texts at each of millions of places.
#[test]
fn issue_15_a_search_in_a_long_text_rests_and_takes_the_kill() {
    let server = Server::start(1, "");
    let mut other = server.connect();
    let texts = "local t, u = string.rep('a', 8000000), string.rep('a', 4000000) .. 'b' ";
    for call in ["t:find(u, 1, true)", "t:find(u)", "t:match(u)", "t:gmatch(u)()", "t:gsub(u, '')", "t:find('.-.-b')"] {
        let mut runner = start_endless(&server, &format!("{texts} pcall(function() {call} end) return 1"), &[]);
        other.ask(&["PING"], "+PONG\r\n");
        other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
        assert!(runner.line().starts_with("-ERR Script killed by user"), "{call}");
    }
}

#[test]
fn the_memory_of_scripts_is_a_setting() {
    let server = Server::start(1, "script-memory-limit 8mb");
    let mut client = server.connect();
    for text in ["return #string.rep('x', 9000000)", "return #redis.call('GET', KEYS[1])"] {
        client.ask(&["SET", "large", "x"], "+OK\r\n");
        client.ask(&["SETRANGE", "large", "9000000", "x"], ":9000001\r\n");
        client.send(&request(&["EVAL", text, "1", "large"]));
        assert!(client.line().contains("not enough memory"), "{text}");
    }
    client.ask(&["EVAL", "return 1", "0"], ":1\r\n");
    client.ask(&["EVAL", "return tostring(rawget(_G, 'getfenv'))", "0"], "$3\r\nnil\r\n");
    let server = Server::start(1, "lua-enable-deprecated-api yes");
    server.connect().ask(
        &["EVAL", "return type(getfenv) .. type(setfenv) .. type(newproxy)", "0"],
        "$24\r\nfunctionfunctionfunction\r\n",
    );
}

/// Lines of a script's commands come while it runs: they would fill the memory until its end, and nobody saw what it does.
#[test]
fn issue_15_monitors_see_the_commands_of_a_script_that_rests() {
    let server = Server::start(1, "");
    let (mut early, mut late) = (server.connect(), server.connect());
    early.ask(&["MONITOR"], "+OK\r\n");
    // Each command is followed by a while, so that there are few lines.
    let body = "while true do redis.call('GET', KEYS[1]) for i = 1, 100000 do end end";
    let mut runner = start_endless(&server, body, &["held"]);
    let is_call = |line: &str| line.contains(" lua] \"GET\" \"held\"");
    assert!(early.line().contains("\"EVAL\" \"while true do"), "the script is shown before its commands");
    assert!((0..20).all(|_| is_call(&early.line())));
    // One that begins while the script rests.
    late.ask(&["MONITOR"], "+OK\r\n");
    assert!((0..20).all(|_| is_call(&late.line())));
    let mut other = server.connect();
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user"));
    other.ask(&["SET", "behind", "1"], "+OK\r\n");
    for monitor in [&mut early, &mut late] {
        let last = std::iter::from_fn(|| Some(monitor.line())).find(|line| !is_call(line) && !line.contains("KILL"));
        assert!(last.is_some_and(|line| line.contains("\"SET\" \"behind\"")), "nothing is shown twice or late");
    }
}

#[test]
fn behind_the_threshold_the_only_worker_answers_that_it_is_busy() {
    let server = Server::start(1, "busy-reply-threshold 20");
    let mut other = server.connect();
    let mut runner = start_endless(&server, ENDLESS, &[]);
    wait_until("the script runs for too long", || server.state().scripts().running().busy_for(20).is_some());
    let busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";
    other.ask(&["GET", "a"], busy);
    other.ask(&["PING"], busy);
    other.ask(&["EVAL", "return 1", "0"], busy);
    other.ask(&["SCRIPT", "LOAD", "return 1"], busy);
    other.ask(&["SHUTDOWN", "SAVE"], busy);
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user"));
    other.ask(&["GET", "a"], "$-1\r\n");
}

#[test]
fn a_script_that_has_written_ends_with_the_server_alone() {
    let server = Server::start(1, "busy-reply-threshold 20");
    let mut other = server.connect();
    let runner = start_endless(&server, &format!("redis.call('SET', KEYS[1], 1) {ENDLESS}"), &["a"]);
    wait_until("the script runs for too long", || server.state().scripts().running().busy_for(20).is_some());
    other.send(&request(&["SCRIPT", "KILL"]));
    assert!(other.line().starts_with("-UNKILLABLE"));
    other.send(&request(&["SHUTDOWN", "NOSAVE"]));
    assert!(other.is_closed());
    drop(runner);
}

/// A script that rests keeps a copy of its request, and a transaction its commands and replies: they are its client's bytes.
#[test]
fn issue_15_a_client_has_the_bytes_of_its_script_that_rests() {
    const BYTES: usize = 1 << 20;
    let server = Server::start(1, "");
    let (mut other, mut runner) = (server.connect(), server.connect());
    runner.ask(&["CLIENT", "SETNAME", "runner"], "+OK\r\n");
    let large = "x".repeat(BYTES);
    let bytes = |client: &mut Client| -> usize {
        let list = client.bulk(&["CLIENT", "LIST"]);
        let line = list.lines().find(|line| line.contains("name=runner")).expect("it is there");
        line.split(" tot-mem=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a field").parse().unwrap()
    };
    let lines: [&[&str]; 4] = [&["MULTI"], &["ECHO", &large], &["EVAL", ENDLESS, "0"], &["EXEC"]];
    for (asked, copies) in [(request(&["EVAL", ENDLESS, "0", &large]), 1), (lines.map(request).concat(), 2)] {
        runner.send(&asked);
        wait_until("the script runs", || server.state().scripts().running().busy_for(1).is_some());
        let (rests, most) = (bytes(&mut other), copies * BYTES);
        assert!((most..most + BYTES / 2).contains(&rests), "{rests} bytes");
        other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
        while !runner.line().starts_with("-ERR Script killed") {}
        assert!(bytes(&mut other) < BYTES / 2);
    }
}

/// Of a transaction that ends with the server nothing is in the journal: half of it would be wrong.
#[test]
fn issue_15_a_transaction_that_the_end_of_the_server_cuts_off_leaves_no_half() {
    let server = Server::start(1, "");
    server.state().store().keep_effects(true);
    let mut other = server.connect();
    let mut runner = server.connect();
    let lines: [&[&str]; 5] = [&["MULTI"], &["SET", "a", "1"], &["EVAL", ENDLESS, "0"], &["SET", "b", "1"], &["EXEC"]];
    runner.send(&lines.map(request).concat());
    wait_until("the script runs", || server.state().scripts().running().busy_for(1).is_some());
    other.send(&request(&["SHUTDOWN", "NOSAVE"]));
    assert!(other.is_closed());
    wait_until("the script ends", || server.state().scripts().running().busy_for(1).is_none());
    runner.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
    assert!(runner.is_closed());
    assert_eq!(server.state().persist().aof.journal().waiting_bytes(), 0);
}

/// Waiters, watchers and closed connections have entries in the shard that the script holds, on the same thread: nobody may
/// wait for it.
#[test]
fn connections_that_end_leave_nothing_behind_in_a_shard_that_a_script_holds() {
    let server = Server::start(1, "");
    let mut other = server.connect();
    let mut watcher = server.connect();
    watcher.ask(&["WATCH", "held"], "+OK\r\n");
    let mut waiter = server.connect();
    waiter.send(&request(&["BLPOP", "held", "0"]));
    wait_until("a client blocks", || server.state().total(|stats| &stats.blocked) == 1);
    let mut timed = server.connect();
    let mut runner = start_endless(&server, &format!("redis.call('EXISTS', KEYS[1]) {ENDLESS}"), &["held"]);
    watcher.ask(&["UNWATCH"], "+OK\r\n");
    watcher.ask(&["MULTI"], "+OK\r\n");
    drop(waiter);
    wait_until("the waiter is gone", || server.state().total(|stats| &stats.blocked) == 0);
    // A client of the script's own shard that gives up.
    timed.send(&request(&["GET", "held"]));
    drop(timed);
    other.ask(&["PING"], "+PONG\r\n");
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user"));
    wait_until("the entries are gone", || server.state().store().watched_keys() == 0);
    other.ask(&["RPUSH", "held", "x"], ":1\r\n");
    other.ask(&["LLEN", "held"], ":1\r\n");
}

#[test]
fn a_script_goes_on_without_its_client() {
    let server = Server::start(1, "");
    let mut other = server.connect();
    let body = "for i = 1, 3000000 do end redis.call('SET', KEYS[1], 'done') return 1";
    let mut runner = server.connect();
    runner.send(&request(&["EVAL", body, "1", "a"]));
    wait_until("the script runs", || server.state().scripts().running().busy_for(1).is_some());
    drop(runner);
    wait_until("the script has ended", || server.state().scripts().running().busy_for(1).is_none());
    other.ask(&["GET", "a"], "$4\r\ndone\r\n");
}

/// A turn of the loop is as long as the visits of all connections in it: a script goes on between them.
#[test]
fn issue_15_a_script_has_its_share_of_long_turns() {
    const SLICES: u64 = 50;
    let server = Server::start(1, "");
    let mut others: Vec<Client> = (0..16).map(|_| server.connect()).collect();
    // Some milliseconds a BITCOUNT: a visit has one or two.
    others[0].ask(&["SET", "large", &"x".repeat(48 << 20)], "+OK\r\n");
    let mut runner = server.connect();
    runner.ask(&["PING"], "+PONG\r\n");
    others.iter_mut().for_each(|other| other.send(&request(&["BITCOUNT", "large"]).repeat(1000)));
    wait_until("they are served", || server.state().total(|stats| &stats.commands) > 60);
    let before = calls(&mut runner, "bitcount");
    // Each call of the server's is answered between two slices.
    runner.ask(
        &["EVAL", "for i = 1, ARGV[1] do redis.call('LASTSAVE') end return 1", "0", &SLICES.to_string()],
        ":1\r\n",
    );
    let visits = calls(&mut runner, "bitcount") - before;
    assert!(visits < SLICES * 2, "{visits} in {SLICES} slices");
}

#[test]
fn requests_behind_a_script_that_rests_run_behind_it() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let body = "for i = 1, 3000000 do end return redis.call('INCR', KEYS[1])";
    let one = request(&["EVAL", body, "1", "a"]);
    client.send(
        &[request(&["SET", "a", "5"]), one.clone(), request(&["GET", "a"]), one, request(&["GET", "a"])].concat(),
    );
    client.expect(b"+OK\r\n:6\r\n$1\r\n6\r\n:7\r\n$1\r\n7\r\n");
    assert_eq!(calls(&mut client, "eval"), 2);
    assert_eq!(calls(&mut client, "incr"), 2);
}

#[test]
fn a_script_alone_behind_the_gate_rests_as_well() {
    let server = Server::start(2, "busy-reply-threshold 20");
    let mut others: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let mut runner = start_endless(&server, &format!("redis.call('DBSIZE') {ENDLESS}"), &[]);
    wait_until("the script runs for too long", || server.state().scripts().running().busy_for(20).is_some());
    for other in &mut others {
        other.send(&request(&["GET", "a"]));
        assert!(other.line().starts_with("-BUSY"));
    }
    others[0].ask(&["SCRIPT", "KILL"], "+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user"));
    others[1].ask(&["DBSIZE"], ":0\r\n");
}

#[test]
fn a_script_inside_exec_rests_and_takes_the_kill() {
    let server = Server::start(1, "busy-reply-threshold 20");
    let mut other = server.connect();
    let mut runner = server.connect();
    runner.ask(&["WATCH", "a"], "+OK\r\n");
    runner.ask(&["MULTI"], "+OK\r\n");
    runner.ask(&["SELECT", "3"], "+QUEUED\r\n");
    runner.ask(&["EVAL", ENDLESS, "0"], "+QUEUED\r\n");
    runner.ask(&["SET", "a", "1"], "+QUEUED\r\n");
    runner.send(&[request(&["EXEC"]), request(&["GET", "a"])].concat());
    wait_until("the script runs for too long", || server.state().scripts().running().busy_for(20).is_some());
    other.send(&request(&["GET", "a"]));
    assert!(other.line().starts_with("-BUSY"));
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    runner.expect(b"*3\r\n+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user"));
    // The transaction goes on behind it, and the session is as it has left it.
    runner.expect(b"+OK\r\n$1\r\n1\r\n");
    other.ask(&["GET", "a"], "$-1\r\n");
}

/// CLIENT KILL finds the session that stands in for one whose transaction runs.
#[test]
fn a_client_is_killed_while_its_transaction_rests() {
    let server = Server::start(1, "");
    let mut other = server.connect();
    let mut runner = server.connect();
    runner.ask(&["CLIENT", "SETNAME", "runner"], "+OK\r\n");
    runner.send(&[&["MULTI"][..], &["EVAL", ENDLESS, "0"], &["EXEC"]].map(request).concat());
    wait_until("the script runs", || server.state().scripts().running().busy_for(1).is_some());
    let list = other.bulk(&["CLIENT", "LIST"]);
    let line = list.lines().find(|line| line.contains("name=runner")).expect("it is there").to_owned();
    let id = line.split(['=', ' ']).nth(1).expect("its number").to_owned();
    other.ask(&["CLIENT", "KILL", "ID", &id], ":1\r\n");
    runner.expect(b"+OK\r\n+QUEUED\r\n");
    assert!(runner.is_closed());
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    wait_until("the script has ended", || server.state().scripts().running().busy_for(1).is_none());
    other.ask(&["GET", "a"], "$-1\r\n");
}

/// To trackers, and to the append-only file, a script is its worker's: its part of the store has a number of its own.
#[test]
fn what_a_script_changes_is_reported_as_its_workers() {
    for workers in [1, 2] {
        let server = Server::start(workers, "");
        let mut reader = server.connect();
        reader.send(&[request(&["HELLO", "3"]), request(&["PING"])].concat());
        while reader.line() != "+PONG" {}
        reader.ask(&["CLIENT", "TRACKING", "ON"], "+OK\r\n");
        reader.ask(&["GET", "a"], "_\r\n");
        let mut writers: Vec<Client> = (0..4).map(|_| server.connect()).collect();
        writers[3].ask(&["EVAL", "redis.call('SET', KEYS[1], 1) return 1", "1", "a"], ":1\r\n");
        reader.expect(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n");
    }
}

/// The server runs them while the script rests, whatever the script holds.
#[test]
fn scripts_call_commands_of_the_server_that_redis_lets_them() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    client.ask(&["EVAL", "redis.call('SET', KEYS[1], 1) return redis.call('LASTSAVE') > 0", "1", "a"], ":1\r\n");
    let body = "redis.call('SET', 'b', 2) return redis.call('INFO', 'keyspace')";
    assert!(client.bulk(&["EVAL", body, "0"]).contains("db0:keys=2"), "with what the script has written");
    client.ask(&["EVAL", "return redis.call('PUBSUB', 'NUMPAT') + redis.call('DBSIZE')", "0"], ":2\r\n");
    client.ask(
        &["EVAL", "return redis.pcall('SLOWLOG', 'GET', 'x')['err']", "0"],
        "$47\r\nERR count should be greater than or equal to -1\r\n",
    );
    client.send(&request(&["EVAL", "return redis.call('CONFIG', 'GET', 'port')", "0"]));
    assert!(client.line().starts_with("-ERR This Redis command is not allowed from script"));
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["EVAL", "return #redis.call('INFO', 'server') > 0", "0"], "+QUEUED\r\n");
    client.ask(&["EXEC"], "*1\r\n:1\r\n");
    assert_eq!(calls(&mut client, "info"), 2);
    assert_eq!(calls(&mut client, "lastsave"), 1);
}

/// A client that tracks knows what it has sent: a script that reads has read what it declares.
#[test]
fn the_declared_keys_of_a_script_that_reads_are_tracked() {
    let server = Server::start(2, "");
    let mut reader = server.connect();
    reader.send(&[request(&["HELLO", "3"]), request(&["PING"])].concat());
    while reader.line() != "+PONG" {}
    reader.ask(&["CLIENT", "TRACKING", "ON"], "+OK\r\n");
    let mut writer = server.connect();
    // It reads nothing.
    reader.ask(&["EVAL", "redis.call('SET', 'c', 1) return 1", "2", "a", "b"], ":1\r\n");
    writer.ask(&["MSET", "a", "1", "b", "1"], "+OK\r\n");
    // It reads another key than those that it declares.
    reader.ask(&["EVAL_RO", "redis.call('GET', 'c') return 1", "2", "a", "b"], ":1\r\n");
    writer.ask(&["SET", "c", "2"], "+OK\r\n");
    writer.ask(&["SET", "a", "2"], "+OK\r\n");
    reader.expect(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n");
    // Alone behind the gate as well.
    reader.ask(&["EVAL", "redis.call('DBSIZE') return 1", "1", "a"], ":1\r\n");
    writer.ask(&["SET", "a", "3"], "+OK\r\n");
    reader.expect(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n");
    // The first script that read declared this one as well.
    writer.ask(&["SET", "b", "3"], "+OK\r\n");
    reader.expect(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nb\r\n");
}

#[test]
fn scripts_that_declare_that_they_write_nothing_run_while_writes_are_paused() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let reads = "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])";
    client.ask(&["SET", "k", "v", "PX", "30"], "+OK\r\n");
    client.ask(&["SCRIPT", "LOAD", reads], "$40\r\nd623bfea8e37744c1ffa709b62269c5db88a6bc0\r\n");
    client.ask(
        &[
            "FUNCTION",
            "LOAD",
            "#!lua name=lib\nredis.register_function{function_name = 'f', \
        callback = function() return 1 end, flags = {'no-writes'}}",
        ],
        "$3\r\nlib\r\n",
    );
    client.ask(&["CLIENT", "PAUSE", "100000", "WRITE"], "+OK\r\n");
    std::thread::sleep(std::time::Duration::from_millis(50));
    // The key is over, and stays as long as nothing may change.
    client.ask(&["EVAL", reads, "1", "k"], "$-1\r\n");
    client.ask(&["EVALSHA", "d623bfea8e37744c1ffa709b62269c5db88a6bc0", "1", "k"], "$-1\r\n");
    client.ask(&["FCALL", "f", "0"], ":1\r\n");
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["EVAL", reads, "1", "k"], "+QUEUED\r\n");
    client.ask(&["EXEC"], "*1\r\n$-1\r\n");
    assert_eq!(server.state().store().len(0), 1);
    let mut held = server.connect();
    held.send(&request(&["EVAL", "return 1", "0"]));
    wait_until("a script that may write waits", || server.state().total(|stats| &stats.held) == 1);
    client.ask(&["CLIENT", "UNPAUSE"], "+OK\r\n");
    held.expect(b":1\r\n");
}

/// Issue 11: a text of hundreds of megabytes was named and compiled in seconds in which nobody was served.
#[test]
fn issue_11_texts_of_scripts_and_libraries_have_a_length() {
    const MOST: usize = 4 << 20;
    let server = Server::start(1, "");
    let mut client = server.connect();
    let script = |bytes: usize| format!("return 1{}", " ".repeat(bytes - 8));
    let front = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    let library = |bytes: usize| format!("{front}{}", " ".repeat(bytes - front.len()));
    let refused = "-ERR The text of a script or library is longer than 4194304 bytes\r\n";
    client.ask(&["EVAL", &script(MOST), "0"], ":1\r\n");
    client.ask(&["EVAL", &script(MOST + 1), "0"], refused);
    client.ask(&["EVAL_RO", &script(MOST + 1), "0"], refused);
    client.ask(&["SCRIPT", "LOAD", &script(MOST + 1)], refused);
    client.ask(&["FUNCTION", "LOAD", &library(MOST)], "$3\r\nlib\r\n");
    client.ask(&["FUNCTION", "LOAD", "REPLACE", &library(MOST + 1)], refused);
    client.ask(&["FCALL", "f", "0"], ":1\r\n");
}

/// A client that says that it will send nothing more gets the reply of its script, however long that takes.
#[test]
fn issue_11_a_half_closed_client_gets_the_reply_of_its_script() {
    let server = Server::start(1, "");
    let text = "for _ = 1, 3000000 do end return 1";
    for lines in [
        vec![request(&["EVAL", text, "0"])],
        vec![request(&["MULTI"]), request(&["EVAL", text, "0"]), request(&["EXEC"])],
    ] {
        let mut client = server.connect();
        client.send(&lines.concat());
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut replies = String::new();
        client.stream.read_to_string(&mut replies).unwrap();
        assert!(replies.ends_with(":1\r\n"), "{replies}");
    }
}
