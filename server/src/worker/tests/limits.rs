//! Limits on what clients take: all together (`maxmemory-clients`), and each with its replies. And the latency monitor.

use super::*;

/// The clients whose name begins with `name`, by CLIENT LIST.
fn count_named(control: &mut Client, name: &str) -> usize {
    control.bulk(&["CLIENT", "LIST"]).matches(&format!(" name={name}")).count()
}

/// A client of this name that has sent `bytes` bytes of a request that is not complete.
fn fill(server: &Server, name: &str, bytes: usize) -> Client {
    let mut client = server.connect();
    client.ask(&["CLIENT", "SETNAME", name], "+OK\r\n");
    client.send(format!("*2\r\n${bytes}\r\n").as_bytes());
    client.send(&vec![b'v'; bytes]);
    client
}

#[test]
fn the_largest_clients_are_closed_on_whichever_worker_they_are() {
    let server = Server::start(3, "");
    let mut control = server.connect();
    control.ask(&["CLIENT", "NO-EVICT", "ON"], "+OK\r\n");
    let small: Vec<Client> = (0..6).map(|_| fill(&server, "small", 200_000)).collect();
    let mut large: Vec<Client> = (0..6).map(|_| fill(&server, "large", 2_000_000)).collect();
    let state = server.state();
    let weight = || state.workers().iter().map(|worker| worker.weights().total()).sum::<u64>();
    wait_until("all is read", || weight() >= 6 * 2_200_000);
    control.ask(&["CONFIG", "SET", "maxmemory-clients", "2mb"], "+OK\r\n");
    wait_until("enough are closed", || weight() <= 2 << 20);
    assert_eq!((count_named(&mut control, "small"), count_named(&mut control, "large")), (6, 0));
    assert!(large.iter_mut().all(Client::is_closed));
    assert!(control.bulk(&["INFO", "stats"]).contains("\r\nevicted_clients:6\r\n"));
    // A client that may not be evicted does not count either.
    let mut spared = server.connect();
    spared.ask(&["CLIENT", "NO-EVICT", "ON"], "+OK\r\n");
    spared.ask(&["CLIENT", "SETNAME", "spared"], "+OK\r\n");
    spared.send(b"*2\r\n$3000000\r\n");
    spared.send(&vec![b'v'; 3_000_000]);
    wait_until("it is read", || control.bulk(&["CLIENT", "LIST"]).contains(" qbuf=3000000 "));
    assert_eq!((count_named(&mut control, "small"), count_named(&mut control, "spared")), (6, 1));
    drop(small);
    wait_until("they are gone", || weight() == 0);
}

/// Clients that wait for many keys, or for one with a long name, took memory that no limit counted.
#[test]
fn a_client_that_waits_weighs_what_its_wait_takes() {
    let server = Server::start(2, "");
    let mut control = server.connect();
    control.ask(&["CLIENT", "NO-EVICT", "ON"], "+OK\r\n");
    let state = server.state();
    let weight = || state.workers().iter().map(|worker| worker.weights().total()).sum::<u64>();
    let names: Vec<String> = (0..10_000).map(|nth| format!("{nth:0100}")).collect();
    let mut words = vec!["BLPOP"];
    words.extend(names.iter().map(String::as_str).chain(["0"]));
    let request = request(&words);
    let mut waits = server.connect();
    waits.send(&request);
    let blocked = || state.total(|stats| &stats.blocked) == 1;
    wait_until("it waits", blocked);
    // Each name is in the request that is kept, in the list of its keys, and in their shards.
    wait_until("it is weighed", || weight() > 3 * 10_000 * 100);
    let used = control.bulk(&["INFO", "memory"]);
    let field = |name: &str| used.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap_or(0);
    assert!(field("mem_clients_normal:") > 3_000_000, "{used}");
    control.ask(&["RPUSH", names[7].as_str(), "x"], ":1\r\n");
    wait_until("it is served", || !blocked());
    wait_until("nothing of it is left", || weight() < 1_000_000);
    // One that takes more than all may have is closed.
    control.ask(&["CONFIG", "SET", "maxmemory-clients", "2mb"], "+OK\r\n");
    waits.send(&request);
    wait_until("it is closed", || waits.is_closed());
    wait_until("it waits no longer", || state.total(|stats| &stats.blocked) == 0);
}

/// Without a limit of the settings the machine is one: each client that does not read may be small, and all together are not.
#[test]
fn clients_that_do_not_read_share_what_the_machine_has() {
    const ROOM: u64 = 40 << 20;
    let server = Server::start(2, "");
    let mut control = server.connect();
    control.ask(&["SET", "k", &"v".repeat(60_000)], "+OK\r\n");
    let state = server.state();
    state.client_room().set_bytes(ROOM);
    let weight = || state.workers().iter().map(|worker| worker.weights().total()).sum::<u64>();
    let mut most = 0;
    let clients: Vec<Client> = (0..12)
        .map(|nth| {
            let mut client = server.connect();
            // 24 MB of replies, of which the sockets take some.
            client.send(&request(&["GET", "k"]).repeat(400));
            wait_until("it was served, or is gone", || {
                let list = control.bulk(&["CLIENT", "LIST"]);
                most = most.max(weight());
                weight() > (nth + 1).min(2) * (8 << 20) && list.lines().count() > 1
            });
            client
        })
        .collect();
    // On a busy machine the last ones have not been served yet.
    let evicted = || state.total(|stats| &stats.evicted);
    wait_until("those that are too much are closed", || evicted() > 0 && weight() <= ROOM);
    assert!(most < 2 * ROOM, "{most} bytes");
    // The others get their replies as there is room.
    assert!(state.connections() <= clients.len() as u64, "and those are closed");
    control.ask(&["PING"], "+PONG\r\n");
}

#[test]
fn subscriptions_and_replies_that_wait_weigh_too() {
    let server = Server::start(1, "maxmemory-clients 300kb");
    let mut control = server.connect();
    let mut listener = server.connect();
    for n in 0..5000 {
        let channel = format!("channel {n}");
        if listener.stream.write_all(&request(&["SUBSCRIBE", &channel])).is_err() {
            break;
        }
        if matches!(listener.stream.read(&mut [0; 256]), Ok(0) | Err(_)) {
            break;
        }
    }
    wait_until("it is closed", || control.bulk(&["CLIENT", "LIST"]).lines().count() == 1);
    control.ask(&["SET", "k", &"v".repeat(100_000)], "+OK\r\n");
    let mut slow = server.connect();
    for _ in 0..200 {
        if slow.stream.write_all(&request(&["GET", "k"])).is_err() {
            break;
        }
    }
    wait_until("it is closed", || control.bulk(&["CLIENT", "LIST"]).lines().count() == 1);
}

/// A published message that nobody has read counts as used memory: once, however many are to get it.
#[test]
fn large_messages_that_wait_are_counted_once() {
    let server = Server::start(2, "client-output-buffer-limit pubsub 0 0 0");
    let mut publisher = server.connect();
    let mut deaf: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for client in &mut deaf {
        client.ask(&["SUBSCRIBE", "c"], "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    }
    // More than sockets take.
    let payload = "x".repeat(400_000);
    (0..100).for_each(|_| publisher.ask(&["PUBLISH", "c", &payload], ":4\r\n"));
    let used = || server.state().store().used_memory();
    wait_until("it is counted", || (20 << 20..60 << 20).contains(&used()));
    drop(deaf);
    wait_until("it is given back", || used() < 10 << 20);
    assert_eq!(server.state().pubsub().payload_bytes(), 0);
}

#[test]
fn outputs_keep_their_room_while_nothing_is_resized() {
    let server = Server::start(1, "enable-debug-command yes");
    let (mut control, mut client) = (server.connect(), server.connect());
    let room = |control: &mut Client| -> usize {
        let list = control.bulk(&["CLIENT", "LIST", "ID", "2"]);
        list.split(' ').find_map(|field| field.strip_prefix("tot-mem=")).unwrap().parse().unwrap()
    };
    client.ask(&["PING"], "+PONG\r\n");
    control.ask(&["DEBUG", "REPLYBUFFER", "RESIZING", "0"], "+OK\r\n");
    // More than the socket takes at once: the rest waits in the connection's output.
    let value = "x".repeat(20 << 20);
    client.send(&request(&["ECHO", &value]));
    client.expect(format!("${}\r\n{value}\r\n", value.len()).as_bytes());
    wait_until("it is written", || control.bulk(&["CLIENT", "LIST", "ID", "2"]).contains(" oll=0 "));
    assert!(room(&mut control) > 1 << 20, "{}", room(&mut control));
    control.ask(&["DEBUG", "REPLYBUFFER", "RESIZING", "1"], "+OK\r\n");
    wait_until("its room is given back", || room(&mut control) < 4096);
}

#[test]
fn replies_over_the_hard_limit_are_not_sent() {
    let server = Server::start(1, "client-output-buffer-limit normal 100000 0 0");
    let mut client = server.connect();
    client.ask(&["SET", "k", &"v".repeat(60_000)], "+OK\r\n");
    let mut other = server.connect();
    other.send(&[request(&["GET", "k"]), request(&["SET", "done", "1"]), request(&["GET", "k"])].concat());
    assert!(other.is_closed());
    client.ask(&["GET", "done"], "$1\r\n1\r\n");
}

#[test]
fn what_takes_long_is_remembered_from_the_threshold_on() {
    let server = Server::start(2, "enable-debug-command yes\nlatency-monitor-threshold 250");
    let mut client = server.connect();
    client.ask(&["DEBUG", "SLEEP", "0.001"], "+OK\r\n");
    client.ask(&["LATENCY", "LATEST"], "*0\r\n");
    client.ask(&["DEBUG", "SLEEP", "0.3"], "+OK\r\n");
    client.send(&request(&["LATENCY", "LATEST"]));
    client.expect(b"*1\r\n*4\r\n$7\r\ncommand\r\n:");
    let (_, last, worst) = (client.line(), client.line(), client.line());
    assert_eq!(last, worst);
    assert!((300..20_000).contains(&last[1..].parse::<u64>().expect(&last)), "{last}");
    assert!(client.bulk(&["LATENCY", "GRAPH", "command"]).starts_with("command - high "));
    assert!(client.bulk(&["LATENCY", "DOCTOR"]).starts_with("command: 1 spikes, "));
    client.ask(&["LATENCY", "RESET", "nonsense"], ":0\r\n");
    client.ask(&["LATENCY", "RESET", "command"], ":1\r\n");
    client.ask(&["LATENCY", "HISTORY", "command"], "*0\r\n");
    client.ask(&["LATENCY", "GRAPH", "command"], "-ERR No samples available for event 'command'\r\n");
}

#[test]
fn histograms_count_each_call_once() {
    let server = Server::start(2, "");
    let (mut client, mut other) = (server.connect(), server.connect());
    client.ask(&["CONFIG", "RESETSTAT"], "+OK\r\n");
    client.ask(&["SET", "a", "1"], "+OK\r\n");
    other.ask(&["SET", "a", "2"], "+OK\r\n");
    client.send(&request(&["LATENCY", "HISTOGRAM", "nonsense", "set"]));
    client.expect(b"*2\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:2\r\n$14\r\nhistogram_usec\r\n*");
    let entries: usize = client.line().parse().unwrap();
    let numbers: Vec<String> = (0..entries).map(|_| client.line()).collect();
    assert_eq!(numbers.last().map(String::as_str), Some(":2"), "the last count is all of them");
}

/// A client weighs what its argument is going to be: the command that brings more than clients may take never runs.
#[test]
fn an_argument_weighs_before_it_is_whole() {
    let server = Server::start(2, "maxmemory-clients 3000000");
    let mut control = server.connect();
    for (name, bytes) in [("a", 2_900_000), ("b", 3_000_000)] {
        let mut client = server.connect();
        // The key is not kept by a client that is closed, however its last bytes come.
        let _ = client.stream.write_all(&request(&["SET", name, &"v".repeat(bytes)]));
        assert_eq!(client.is_closed(), bytes >= 3_000_000, "{bytes} bytes");
    }
    control.ask(&["EXISTS", "a", "b"], ":1\r\n");
    wait_until("it is gone", || server.state().total(|stats| &stats.evicted) == 1);
}

#[test]
fn replies_stop_at_the_limit_while_they_are_made() {
    let server = Server::start(1, "client-output-buffer-limit normal 1mb 0 0");
    let mut control = server.connect();
    control.ask(&["SADD", "s", "a", "b"], ":2\r\n");
    control.ask(&["HSET", "h", "a", "1", "b", "2"], ":2\r\n");
    control.ask(&["ZADD", "z", "1", "a", "2", "b"], ":2\r\n");
    control.ask(&["SET", "k", &"v".repeat(200_000)], "+OK\r\n");
    let endless = "-9223372036854775807";
    let many = [&["MGET"][..], &["k"; 5000]].concat();
    let requests: [&[&str]; 4] =
        [&["SRANDMEMBER", "s", endless], &["HRANDFIELD", "h", endless], &["ZRANDMEMBER", "z", endless], &many];
    for (nth, words) in requests.into_iter().enumerate() {
        let mut client = server.connect();
        client.send(&request(words));
        assert!(client.is_closed(), "request {nth} has more replies than it may have");
        control.ask(&["PING"], "+PONG\r\n");
    }
    assert_eq!(server.state().total(|stats| &stats.output_limit_closed), 4);
    // A transaction that the server drives has the same ceiling.
    let mut client = server.connect();
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["CONFIG", "GET", "port"], "+QUEUED\r\n");
    client.ask(&["SRANDMEMBER", "s", "-1000000"], "+QUEUED\r\n");
    client.send(&request(&["EXEC"]));
    assert!(client.is_closed());
    control.ask(&["PING"], "+PONG\r\n");
}

/// A transaction and a script make replies whole, and nobody can end a command: they draw a million elements and no more.
#[test]
fn draws_without_end_are_refused_where_they_run_whole() {
    const REFUSED: &str = "ERR value is out of range, at most 1000000 elements that may repeat are drawn at once";
    let server = Server::start(1, "");
    let mut client = server.connect();
    client.ask(&["SADD", "s", "a", "b"], ":2\r\n");
    client.ask(&["HSET", "h", "a", "1", "b", "2"], ":2\r\n");
    client.ask(&["ZADD", "z", "1", "a", "2", "b"], ":2\r\n");
    for (command, key) in [("SRANDMEMBER", "s"), ("HRANDFIELD", "h"), ("ZRANDMEMBER", "z")] {
        for count in ["-1000001", "-2000000000"] {
            client.ask(&["MULTI"], "+OK\r\n");
            client.ask(&[command, key, count], "+QUEUED\r\n");
            client.ask(&[command, "nothing", count], "+QUEUED\r\n");
            client.ask(&[command, key, "2000000000"], "+QUEUED\r\n");
            client.send(&request(&["EXEC"]));
            client.expect(format!("*3\r\n-{REFUSED}\r\n*0\r\n*2\r\n").as_bytes());
            (0..4).for_each(|_| _ = client.line());
            let body = "local reply = redis.pcall(ARGV[1], KEYS[1], ARGV[2]) return reply.err or #reply";
            client.ask(&["EVAL", body, "1", key, command, count], &format!("${}\r\n{REFUSED}\r\n", REFUSED.len()));
            client.ask(&["EVAL", body, "1", key, command, "-1000000"], ":1000000\r\n");
        }
    }
}

/// A monitor that does not read is closed by the limit of listeners, and what piles up until then evicts no key.
#[test]
fn a_monitor_that_does_not_read_costs_nobody_a_key() {
    let lines = "client-output-buffer-limit pubsub 4mb 0 0\nmaxmemory 40mb\nmaxmemory-policy allkeys-lru";
    let server = Server::start(2, lines);
    let mut control = server.connect();
    let mut monitor = server.connect();
    monitor.ask(&["MONITOR"], "+OK\r\n");
    let used = server.state().store().used_memory();
    let value = "v".repeat(10_000);
    // 3 MB lie in the monitor's output once its socket is full; then it goes over its limit.
    let mut most = 0;
    for n in 0..4000 {
        control.ask(&["SET", "k", &value], "+OK\r\n");
        most = most.max(server.state().store().used_memory());
        if server.state().total(|s| &s.output_limit_closed) == 1 {
            println!("closed behind {n} lines of 10 KB");
            break;
        }
    }
    assert_eq!(server.state().total(|s| &s.output_limit_closed), 1);
    assert!(most < used + (3 << 20), "used memory grew from {used} to {most}");
    assert_eq!(server.state().store().totals().evicted, 0);
    wait_until("it is gone", || server.state().connections() == 1);
    let info = control.bulk(&["INFO", "clients"]);
    assert!(info.contains("connected_clients:1\r\n"), "{info}");
}

/// Commands that wait in MULTI are no input that waits: EXEC executes them, however long they are.
#[test]
fn the_query_limit_does_not_count_a_transaction() {
    let server = Server::start(1, "client-query-buffer-limit 1mb");
    let mut client = server.connect();
    client.ask(&["MULTI"], "+OK\r\n");
    for n in 0..30 {
        client.ask(&["SET", &format!("k{n}"), &"v".repeat(100_000)], "+QUEUED\r\n");
    }
    client.ask(&["EXEC"], &format!("*30\r\n{}", "+OK\r\n".repeat(30)));
}

/// Replies are made under the limit of the connection's class. What is sent to it later has the limit of that time.
#[test]
fn replies_that_wait_take_more_than_the_limit_that_they_were_made_under() {
    let server = Server::start(2, "client-output-buffer-limit normal 8mb 0 0\nclient-output-buffer-limit pubsub 0 0 0");
    let (mut slow, mut publisher) = (server.connect(), server.connect());
    publisher.ask(&["SET", "k", &"v".repeat(200_000)], "+OK\r\n");
    // More than sockets take, and less than the limit; then it listens.
    // Its first subscription has to be over before the publisher counts who listens.
    slow.ask(&["SUBSCRIBE", "c"], "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    slow.ask(&["UNSUBSCRIBE", "c"], "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n");
    slow.send(&request(&["GET", "k"]).repeat(38));
    slow.send(&request(&["SUBSCRIBE", "c"]));
    wait_until("it listens", || {
        publisher.send(&request(&["PUBLISH", "c", "x"]));
        publisher.line() == ":1"
    });
    for _ in 0..100 {
        publisher.ask(&["PUBLISH", "c", &"m".repeat(100_000)], ":1\r\n");
    }
    let mut got = 0;
    let mut room = vec![0; 1 << 20];
    while got < 38 * 200_000 + 100 * 100_000 {
        let count = slow.stream.read(&mut room).unwrap();
        assert!(count > 0, "it was closed after {got} bytes");
        got += count;
    }
}

/// Each pattern of CONFIG GET is held against all names, and each section of INFO is looked for among all that were asked for.
#[test]
fn issue_11_what_is_asked_for_by_name_is_limited() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let asked = |first: &[&'static str], word: &'static str, count| [first, &vec![word; count]].concat();
    client.ask(&asked(&["CONFIG", "GET"], "a*b", 65), "-ERR at most 64 patterns may be asked for\r\n");
    client.ask(&asked(&["CONFIG", "GET"], "a*b", 64), "*0\r\n");
    client.ask(&asked(&["CONFIG", "GET"], "none", 1024), "*0\r\n");
    client.ask(&asked(&["CONFIG", "GET"], "none", 1025), "-ERR at most 1024 names may be asked for\r\n");
    client.ask(&asked(&["INFO"], "none", 1024), "$0\r\n\r\n");
    client.ask(&asked(&["INFO"], "none", 1025), "-ERR at most 1024 names may be asked for\r\n");
}
