//! Scripts over real sockets: their effects are one, they are beside others or alone, and they end when they are told to.

use std::time::Duration;

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
fn a_script_that_takes_too_long_is_ended_from_another_worker() {
    let server = Server::start(2, "busy-reply-threshold 20");
    let mut runner = server.connect();
    runner.send(&request(&["EVAL", "while true do pcall(redis.call, 'GET', 'a') end", "0"]));
    wait_until("the script runs for too long", || server.state().scripts().running().busy_for(20).is_some());
    // A connection of the other worker: it answers.
    let mut others: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    others.iter_mut().for_each(|other| other.send(&request(&["GET", "a"])));
    let timeout = Some(Duration::from_millis(500));
    others.iter().for_each(|other| other.stream.set_read_timeout(timeout).unwrap());
    let mut other =
        others.into_iter().find(|other| other.stream.peek(&mut [0]).is_ok()).expect("one of the other worker");
    assert_eq!(other.line(), "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
    other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user"));
    other.ask(&["SCRIPT", "KILL"], "-NOTBUSY No scripts in execution right now.\r\n");
    other.ask(&["GET", "a"], "$-1\r\n");
}
