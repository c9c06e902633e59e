//! Messages in the stream, and effects that are for the file alone or for replicas alone: beside redis-server, through chains, out
//! of files.
//!
//! ```text
//!   PUBLISH, MULTI, scripts --> Varve, redis-server    the same commands for a replica
//!   publisher --> top --> middle --> bottom            a listener of each has all messages in their order
//! ```

#![forbid(unsafe_code)]

use std::time::Duration;

use varve_testkit::{Client, Launch, Random, Replica, Server, figure, seed, until};
use varve_tests::folder::Folder;
use varve_tests::replicas::{assert_equal, caught_up, field, follow, stop_following, wait};

/// How long a command of a stream may take.
const LIMIT: Duration = Duration::from_secs(20);

fn peer() -> Server {
    Launch::peer().config("repl-diskless-sync-delay 0").start().expect("redis-server starts")
}

fn varve() -> Server {
    with(&[])
}

fn with(lines: &[&str]) -> Server {
    let launch = Launch::varve().config("repl-diskless-sync-delay 0").config("io-threads 2");
    lines.iter().fold(launch, |launch, line| launch.config(*line)).start().expect("Varve starts")
}

fn call(client: &mut Client, words: &[&str]) -> String {
    let reply = client.call(words).expect("a reply");
    assert!(!reply.is_error(), "{words:?}: {}", reply.text());
    reply.text()
}

fn listener(server: &Server) -> Client {
    let mut client = server.client();
    assert!(!client.cmd("SUBSCRIBE news").is_error());
    assert!(!client.cmd("SSUBSCRIBE shard").is_error());
    client
}

/// The next message of a listener.
fn message(listener: &mut Client) -> String {
    let push = listener.read().expect("a message");
    let words = push.elements().expect("a push").iter().map(|word| word.text());
    words.collect::<Vec<_>>().join(" ")
}

/// The commands that a replica of a server is sent for these calls, and the last one, as text.
fn stream_of(server: &Server, calls: &[&[&str]]) -> Vec<String> {
    let mut replica = Replica::connect(server.address()).expect("a replica");
    let mut client = server.client();
    calls.iter().for_each(|words| _ = call(&mut client, words));
    call(&mut client, &["SET", "last", "1"]);
    let mut stream = Vec::new();
    while stream.last().is_none_or(|last| last != "SET last 1") {
        let words = replica.next(LIMIT).expect("a stream").expect("the last command comes");
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        stream.push(words.join(" "));
    }
    stream
}

#[test]
fn issue_17_messages_are_in_the_stream_where_redis_server_has_them() {
    let only = |what: &str, then: &str| format!("redis.set_repl(redis.REPL_{what}) {then}");
    let set = "redis.call('SET', 'k', '1')";
    let publish = "redis.call('publish', 'c', 'm')";
    let alone = only("AOF", &format!("{set} {set}"));
    let scripts: Vec<String> = [
        publish.to_owned(),
        format!("{set} {publish}"),
        format!("{publish} redis.call('SPUBLISH', 'c', 'm')"),
        only("NONE", publish),
        only("AOF", publish),
        only("REPLICA", publish),
        only("AOF", set),
        only("SLAVE", set),
        only("SLAVE", &format!("{set} {publish}")),
        format!("{set} {} {}", only("AOF", set), only("ALL", set)),
        alone.clone(),
        only("NONE", &format!("{set} {publish}")),
    ]
    .into();
    let mut calls: Vec<&[&str]> = vec![
        &["PUBLISH", "c", "a\r\nb"],
        &["publish", "c", ""],
        &["SPUBLISH", "c", "m"],
        &["MULTI"],
        &["PUBLISH", "c", "m"],
        &["EXEC"],
        &["MULTI"],
        &["SET", "k", "1"],
        &["PUBLISH", "c", "m"],
        &["PUBLISH", "c", "n"],
        &["CONFIG", "SET", "hz", "10"],
        &["GET", "k"],
        &["EXEC"],
        &["MULTI"],
        &["GET", "k"],
        &["EXEC"],
    ];
    let evals: Vec<[&str; 3]> = scripts.iter().map(|script| ["EVAL", &script[..], "0"]).collect();
    calls.extend(evals.iter().map(|eval| &eval[..]));
    let library = "#!lua name=l\nredis.register_function('f', function() return redis.call('PUBLISH', 'c', 'm') end)";
    let load = ["FUNCTION", "LOAD", "REPLACE", library];
    calls.extend([&load[..], &["FCALL", "f", "0"], &["MULTI"], &["FCALL", "f", "0"], &["INCR", "n"], &["EXEC"]]);
    calls.extend([&["SELECT", "3"][..], &["PUBLISH", "c", "m"], &["SELECT", "0"]]);
    let filed = Launch::peer().config("repl-diskless-sync-delay 0").config("appendonly yes").start();
    assert_eq!(stream_of(&with(&["appendonly yes"]), &calls), stream_of(&filed.expect("redis-server starts"), &calls));
    // Without a file, redis-server has no MULTI and EXEC around effects that are all for the file.
    calls.retain(|words| words.get(1).is_none_or(|script| *script != alone));
    assert_eq!(stream_of(&varve(), &calls), stream_of(&peer(), &calls));
}

/// Whoever learns of a key by a message finds it at its own server, and each listener has all messages in their order.
fn one_chain(makers: [fn() -> Server; 3]) {
    const MESSAGES: u32 = 400;
    let [top, middle, bottom] = makers.map(|make| make());
    follow(&middle, &top);
    caught_up(&middle, &top);
    follow(&bottom, &middle);
    caught_up(&bottom, &middle);
    let mut listeners = [&top, &middle, &bottom].map(listener);
    let mut publisher = top.client();
    for n in 0..MESSAGES {
        let (key, value) = (format!("k{}", n % 37), n.to_string());
        match n % 4 {
            0 => {
                publisher.queue(&["SET", &key, &value]);
                publisher.queue(&["PUBLISH", "news", &format!("{key} {value}")]);
            }
            1 => {
                publisher.queue(&["MULTI"]);
                publisher.queue(&["SET", &key, &value]);
                publisher.queue(&["PUBLISH", "news", &format!("{key} {value}")]);
                publisher.queue(&["EXEC"]);
            }
            2 => {
                let script = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('PUBLISH', 'news', KEYS[1]..' '..ARGV[1])";
                publisher.queue(&["EVAL", script, "1", &key, &value]);
            }
            _ => {
                publisher.queue(&["MSET", &key, &value, "other", &value]);
                publisher.queue(&["SPUBLISH", "shard", &format!("{key} {value}")]);
            }
        }
    }
    publisher.flush().expect("sent");
    for (server, listener) in [&top, &middle, &bottom].into_iter().zip(&mut listeners) {
        let mut reader = server.client();
        for n in 0..MESSAGES {
            let (kind, key) = (if n % 4 == 3 { "smessage shard" } else { "message news" }, n % 37);
            assert_eq!(message(listener), format!("{kind} k{key} {n}"), "{}", server.log());
            let value: u32 = reader.cmd(&format!("GET k{key}")).text().parse().expect("a number");
            assert!(value >= n, "message {n} came before its key");
        }
        assert_eq!(listener.cmd("PING").elements().map(<[_]>::len), Some(2), "nothing more came");
    }
    // A message of a replica's own client stays there.
    middle.client().cmd("PUBLISH news own");
    assert_eq!(message(&mut listeners[1]), "message news own");
    assert_eq!(listeners[2].cmd("PING").elements().map(<[_]>::len), Some(2));
    assert_equal(&middle, &top);
    assert_equal(&bottom, &middle);
    let full = |server: &Server| field(&mut server.client(), "stats", "sync_full");
    let before = [full(&middle), full(&top)];
    stop_following(&middle);
    follow(&top, &middle);
    caught_up(&top, &middle);
    wait("it leads", &middle, || middle.client().cmd("SET last 1").text() == "OK");
    middle.client().cmd("PUBLISH news promoted");
    listeners.iter_mut().for_each(|listener| assert_eq!(message(listener), "message news promoted"));
    assert_equal(&top, &middle);
    assert_equal(&bottom, &middle);
    assert_eq!([full(&middle), full(&top)], before, "offsets are equal everywhere");
}

#[test]
fn issue_17_messages_go_through_chains_behind_what_they_tell_of() {
    one_chain([varve, varve, varve]);
    one_chain([peer, varve, peer]);
    one_chain([varve, peer, varve]);
}

/// The channel of a message of [`listener`], its publisher and its number there.
fn numbered(listener: &mut Client) -> (String, usize, usize) {
    let text = message(listener);
    let words: Vec<&str> = text.split(' ').collect();
    let number = |nth: usize| words[nth].parse().unwrap_or_else(|_| panic!("{text}"));
    (words[1].to_owned(), number(2), number(3))
}

/// Publishes messages in every way that there is, some at a time without waiting for replies.
fn publish_numbered(server: &Server, publisher: usize, messages: usize, seed: u64) {
    let (mut client, mut random) = (server.client(), Random::new(seed));
    let (key, mut replies) = (format!("of{publisher}"), 0);
    for n in 0..messages {
        let text = format!("{publisher} {n}");
        let script = "redis.call('INCR', KEYS[1]) redis.call('PUBLISH', 'news', ARGV[1])";
        let requests: &[&[&str]] = match random.below(5) {
            0 => &[&["PUBLISH", "news", &text]],
            1 => &[&["SPUBLISH", "shard", &text]],
            2 => &[&["MULTI"], &["INCR", &key], &["PUBLISH", "news", &text], &["EXEC"]],
            3 => &[&["EVAL", script, "1", &key, &text]],
            _ => &[&["MSET", "last", &text, &key, "0"], &["PUBLISH", "news", &text]],
        };
        requests.iter().for_each(|request| client.queue(request));
        replies += requests.len();
        if random.one_in(6) || n + 1 == messages {
            client.flush().expect("sent");
            (0..std::mem::take(&mut replies))
                .for_each(|_| assert!(!client.read().expect("a reply").is_error(), "publisher {publisher}"));
        }
    }
}

/// Publishers on several workers: each listener has the messages of each publisher in order. Those of one channel have one order for
/// all listeners of the primary. All have one, that of the stream, for the listeners of its replicas, of whatever program, and however
/// often links are cut.
#[test]
fn issue_17_messages_of_several_publishers_have_one_order_at_all_replicas() {
    const PUBLISHERS: usize = 6;
    const MESSAGES: usize = 8_000;
    let seed = seed::seed("several publishers");
    let top = with(&["io-threads 4", "repl-backlog-size 16mb"]);
    let below = [varve(), peer()];
    let last = [peer(), varve()];
    for (replica, last) in below.iter().zip(&last) {
        for (server, of) in [(replica, &top), (last, replica)] {
            follow(server, of);
            caught_up(server, of);
        }
    }
    let mut at_top = [&top, &top, &top].map(listener);
    let mut at_replicas = [&below[0], &below[0], &below[1], &last[0], &last[1], &last[1]].map(listener);
    std::thread::scope(|scope| {
        let top = &top;
        let publish = |nth| scope.spawn(move || publish_numbered(top, nth, MESSAGES, seed + nth as u64));
        let publishers: Vec<_> = (0..PUBLISHERS).map(publish).collect();
        let mut killer = top.client();
        while publishers.iter().any(|publisher| !publisher.is_finished()) {
            killer.cmd("CLIENT KILL TYPE replica");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let all = |listener: &mut Client| {
        let heard: Vec<_> = (0..PUBLISHERS * MESSAGES).map(|_| numbered(listener)).collect();
        assert_eq!(listener.cmd("PING").elements().map(<[_]>::len), Some(2), "nothing came twice");
        for publisher in 0..PUBLISHERS {
            let own = heard.iter().filter(|(_, of, _)| *of == publisher).map(|(_, _, n)| *n);
            assert!(own.eq(0..MESSAGES), "those of publisher {publisher} are in order");
        }
        heard
    };
    let of_channel = |heard: &[(String, usize, usize)], channel: &str| {
        heard.iter().filter(|(of, ..)| of == channel).map(|(_, publisher, n)| (*publisher, *n)).collect::<Vec<_>>()
    };
    let [first, others @ ..] = at_top.each_mut().map(all);
    for (other, channel) in others.iter().flat_map(|other| ["news", "shard"].map(|channel| (other, channel))) {
        assert!(of_channel(other, channel) == of_channel(&first, channel), "{channel} has one order at the primary");
    }
    let links = figure(&mut top.client(), "sync_partial_ok");
    assert!(links >= below.len() as u64, "links were cut under load, and went on: {links}");
    let [of_stream, others @ ..] = at_replicas.each_mut().map(all);
    let turns = of_stream.windows(2).filter(|two| two[0].1 != two[1].1).count();
    assert!(turns > PUBLISHERS, "the publishers ran beside each other");
    for (nth, other) in others.iter().enumerate() {
        let differs = other.iter().zip(&of_stream).position(|(other, first)| other != first);
        assert_eq!(
            differs,
            None,
            "listener {nth} has another order: {:?}",
            differs.map(|at| (&other[at], &of_stream[at]))
        );
    }
    for (replica, last) in below.iter().zip(&last) {
        assert_equal(replica, &top);
        assert_equal(last, replica);
    }
}

/// A file has notes of messages: whoever loads it delivers none, its offset goes on, and a replica is sent them out of it.
#[test]
fn issue_17_a_file_has_notes_of_messages() {
    let folder = Folder::new("messages");
    let lines = ["appendonly yes", "appendfsync always", "repl-backlog-size 16kb", &folder.line()];
    let (primary, replica, ours) = (with(&lines), peer(), with(&["appendonly yes"]));
    for replica in [&replica, &ours] {
        follow(replica, &primary);
        caught_up(replica, &primary);
    }
    let mut listeners = [&replica, &ours].map(listener);
    let mut client = primary.client();
    assert_eq!(client.cmd("CLIENT KILL TYPE replica").integer(), Some(2));
    for replica in [&replica, &ours] {
        // It is away: its primary answers nobody there.
        replica.client().cmd("REPLICAOF NO ONE");
    }
    drop(client);
    let mut client = primary.client();
    for server in [&replica, &ours] {
        follow(server, &primary);
        caught_up(server, &primary);
        server.signal("STOP").expect("a signal");
    }
    let text = "\\\r\n|#x".repeat(20_000);
    for n in 0..20 {
        call(&mut client, &["SET", &format!("k{n}"), "v"]);
        call(&mut client, &["PUBLISH", "news", &format!("{n} {text}")]);
        call(&mut client, &["MULTI"]);
        call(&mut client, &["INCR", "n"]);
        call(&mut client, &["PUBLISH", "news", "short"]);
        call(&mut client, &["EXEC"]);
    }
    client.cmd("CLIENT KILL TYPE replica");
    for (server, listener) in [&replica, &ours].into_iter().zip(&mut listeners) {
        server.signal("CONT").expect("a signal");
        assert_equal(server, &primary);
        for n in 0..20 {
            assert_eq!(message(listener), format!("message news {n} {text}"));
            assert_eq!(message(listener), "message news short");
        }
    }
    let full = figure(&mut client, "sync_full");
    let offset = field(&mut client, "replication", "master_repl_offset");
    let digest = client.cmd("DEBUG DIGEST").text();
    drop(client);
    let mut primary = primary;
    primary.signal("KILL").expect("killed");
    assert!(primary.wait(LIMIT).is_some());
    drop(primary);
    let again = with(&lines);
    let mut client = again.client();
    assert_eq!(client.cmd("DEBUG DIGEST").text(), digest);
    assert_eq!(field(&mut client, "replication", "master_repl_offset"), offset, "{full} full");
    for server in [&replica, &ours] {
        follow(server, &again);
        caught_up(server, &again);
    }
    assert_eq!(figure(&mut client, "sync_full"), 0, "{}", again.log());
    call(&mut client, &["PUBLISH", "news", "behind a start"]);
    listeners.iter_mut().for_each(|listener| assert_eq!(message(listener), "message news behind a start"));
    // The replica's own file has none of them either.
    let mut heard = listener(&ours);
    let before = ours.client().cmd("DEBUG DIGEST").text();
    stop_following(&ours);
    wait("it leads", &ours, || ours.client().cmd("DEL nothing").integer() == Some(0));
    assert!(!ours.client().cmd("DEBUG LOADAOF").is_error());
    assert_eq!(ours.client().cmd("DEBUG DIGEST").text(), before);
    assert_eq!(heard.cmd("PING").elements().map(<[_]>::len), Some(2), "nobody has heard a message twice");
}

/// redis.set_repl: effects of a script that are in the file alone, or at the replicas alone; both servers load the file.
#[test]
fn issue_17_a_script_says_who_has_its_effects() {
    let folder = Folder::new("set_repl");
    let primary = with(&["appendonly yes", "appendfsync always", "aof-use-rdb-preamble no", &folder.line()]);
    let (theirs, ours) = (peer(), varve());
    for replica in [&theirs, &ours] {
        follow(replica, &primary);
        caught_up(replica, &primary);
    }
    let script = "redis.call('INCR', 'all') \
                  redis.set_repl(redis.REPL_AOF) redis.call('INCR', 'file') redis.call('PUBLISH', 'news', 'no') \
                  redis.set_repl(redis.REPL_SLAVE) redis.call('INCR', 'stream') redis.call('PUBLISH', 'news', 'yes') \
                  redis.set_repl(redis.REPL_NONE) redis.call('INCR', 'none')";
    let mut heard = [&theirs, &ours].map(listener);
    let mut client = primary.client();
    call(&mut client, &["EVAL", script, "0"]);
    call(&mut client, &["MULTI"]);
    call(&mut client, &["EVAL", script, "0"]);
    call(&mut client, &["INCR", "all"]);
    call(&mut client, &["EXEC"]);
    call(&mut client, &["EVAL", "redis.set_repl(redis.REPL_AOF) redis.call('INCR', 'file')", "0"]);
    call(&mut client, &["EVAL", "redis.set_repl(redis.REPL_SLAVE) redis.call('INCR', 'stream')", "0"]);
    let keys = ["all", "file", "stream", "none"];
    let values = |server: &Server| keys.map(|key| server.client().cmd(&format!("GET {key}")).text());
    assert_eq!(values(&primary), ["3", "3", "3", "2"]);
    for (replica, heard) in [&theirs, &ours].into_iter().zip(&mut heard) {
        caught_up(replica, &primary);
        assert!(replica.client().cmd("GET file").is_null());
        assert_eq!(values(replica)[0], "3");
        assert_eq!(values(replica)[2], "3");
        assert!(replica.client().cmd("GET none").is_null());
        assert_eq!([message(heard), message(heard)], ["message news yes", "message news yes"]);
    }
    // A cut lies between the file's own and what follows.
    call(&mut client, &["EVAL", "redis.set_repl(redis.REPL_AOF) redis.call('INCR', 'file')", "0"]);
    client.cmd("BGREWRITEAOF");
    until("the rewrite is over", || figure(&mut client, "aof_rewrite_in_progress") == 0);
    call(&mut client, &["EVAL", "redis.set_repl(redis.REPL_AOF) redis.call('INCR', 'file')", "0"]);
    assert_eq!(client.cmd("DEBUG LOADAOF").text(), "OK");
    // The base has all that was there.
    assert_eq!(values(&primary), ["3", "5", "3", "2"]);
    let mut primary = primary;
    primary.signal("KILL").expect("killed");
    assert!(primary.wait(LIMIT).is_some());
    drop(primary);
    let launch = Launch::peer().config("appendonly yes").config(folder.line());
    let reader = launch.start().expect("redis-server loads the file");
    assert_eq!(values(&reader), ["3", "5", "3", "2"]);
}

/// Where no file is kept, what a script has for the file alone is for nobody: the stream goes on without a byte of it.
#[test]
fn issue_17_what_is_for_a_file_alone_is_in_no_stream_without_one() {
    let replica = varve();
    for primary in [varve(), peer()] {
        follow(&replica, &primary);
        caught_up(&replica, &primary);
        let mut client = primary.client();
        // PINGs would move the offset as well.
        client.cmd("CONFIG SET repl-ping-replica-period 1000");
        client.cmd("SET k v");
        caught_up(&replica, &primary);
        let offset = |client: &mut Client| field(client, "replication", "master_repl_offset");
        let before = offset(&mut client);
        let script = "redis.set_repl(redis.REPL_AOF) redis.call('INCR', 'file') redis.call('INCR', 'file')";
        call(&mut client, &["EVAL", script, "0"]);
        call(&mut client, &["MULTI"]);
        call(&mut client, &["EVAL", script, "0"]);
        call(&mut client, &["EXEC"]);
        assert_eq!(offset(&mut client), before);
        assert_eq!(client.cmd("GET file").text(), "4");
        client.cmd("SET k w");
        caught_up(&replica, &primary);
        assert_eq!(replica.client().cmd("GET k").text(), "w");
        assert!(replica.client().cmd("GET file").is_null());
    }
}
