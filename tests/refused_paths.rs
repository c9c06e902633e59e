//! Paths that ask the system for memory answer with the OOM error when it is refused, and go on when it is given.
//!
//! | path | what is asked for |
//! |---|---|
//! | strings, short, long and growing | segments and extents of the log's range |
//! | keys | the next size of a shard's index |
//! | sets, hashes | leaves in the log, their tables beside it |
//! | sorted sets, lists, streams | nodes in the log, their trees beside it |
//! | a request | a query buffer and the arguments' places |
//! | a request of many arguments | the lists that its command makes of them, or keeps |
//! | a request of long arguments | the copies that its command makes of them |
//! | a reply, replies that nobody reads | reply buffers and outputs |
//! | a transaction | copies of queued commands |
//!
//! Each has a server of its own with a limit above what it has at its start: a whole machine's settings are not touched.

use std::time::Duration;

use varve_testkit::{Client, Launch, Server, until};
use varve_tests::memory_limit::LimitKind;

/// How long an end may take. Nothing is judged by it but that the end comes.
const END_LIMIT: Duration = Duration::from_secs(60);
/// Memory of a server beyond its start. 16 MB of them are its reserve and 128 MB the parts of the log's range that it opens
/// ahead.
const LEFT_BYTES: u64 = 240 << 20;
/// Commands that are sent together.
const BATCH: usize = 500;
/// Bytes of commands after which a path without a refusal has failed.
const BYTES_MAX: usize = 2 << 30;

/// A path: commands that ask for memory for as long as it is given.
struct Path {
    name: &'static str,
    /// Writes the `n`th command; bytes that it brings.
    write: fn(&mut Client, usize) -> usize,
}

fn path(name: &'static str, write: fn(&mut Client, usize) -> usize) -> Path {
    Path { name, write }
}

/// Queues a command; its bytes.
fn queue(client: &mut Client, words: &[&[u8]]) -> usize {
    client.queue(words);
    words.iter().map(|word| word.len() + 16).sum()
}

/// A name that is not met twice.
fn name(n: usize) -> Vec<u8> {
    format!("name:{n:020}").into_bytes()
}

/// Writes that ask for memory of the log, of the index and of the collections' tables.
fn writing_paths() -> Vec<Path> {
    let long: fn(&mut Client, usize) -> usize = |client, n| {
        let value = vec![b'v'; if n.is_multiple_of(BATCH) { 4 << 20 } else { 1 }];
        queue(client, &[b"SET", &name(n), &value])
    };
    vec![
        path("short strings", |client, n| queue(client, &[b"SET", &name(n), &[b'v'; 2000]])),
        path("long strings", long),
        // It moves to a place of its whole length again and again.
        path("a string that grows", |client, _| queue(client, &[b"APPEND", b"string", &[b'v'; 20_000]])),
        path("a string whose parts are written", |client, n| {
            queue(client, &[b"SETRANGE", b"string", (n * 20_000).to_string().as_bytes(), &[b'v'; 20_000]])
        }),
        path("bits", |client, n| queue(client, &[b"SETBIT", b"bits", (n * 160_000).to_string().as_bytes(), b"1"])),
        path("keys", |client, n| queue(client, &[b"SET", &name(n), b"v"])),
        path("keys that expire", |client, n| queue(client, &[b"SET", &name(n), b"v", b"EX", b"100000"])),
        path("a set", |client, n| queue(client, &[b"SADD", b"set", &name(n)])),
        path("a hash", |client, n| queue(client, &[b"HSET", b"hash", &name(n), b"value"])),
        path("a sorted set", |client, n| queue(client, &[b"ZADD", b"zset", n.to_string().as_bytes(), &name(n)])),
        path("a list", |client, n| queue(client, &[b"RPUSH", b"list", &name(n)])),
        path("a stream", |client, n| queue(client, &[b"XADD", b"stream", b"*", b"field", &name(n)])),
    ]
}

/// Sends batches until a reply is an error; that reply.
fn first_refusal(client: &mut Client, path: &Path) -> Option<String> {
    let (mut n, mut bytes) = (0, 0);
    while bytes < BYTES_MAX {
        bytes += (n..n + BATCH).map(|n| (path.write)(client, n)).sum::<usize>();
        n += BATCH;
        client.queue(&["ECHO", "end"]);
        client.flush().expect("the server lives");
        let mut refusal = None;
        loop {
            let reply = client.read().unwrap_or_else(|error| panic!("{}: {error}", path.name));
            if reply.is_error() {
                refusal.get_or_insert_with(|| reply.text());
            } else if reply.text() == "end" {
                break;
            }
        }
        if refusal.is_some() {
            return refusal;
        }
    }
    None
}

/// Plays scenes at once, each with a server of its own: most of their time is the wait until the server takes writes again.
fn side_by_side<S: Send>(scenes: impl Iterator<Item = S>, play: impl Fn(S) + Sync) {
    let play = &play;
    std::thread::scope(|scope| scenes.for_each(|scene| drop(scope.spawn(move || play(scene)))));
}

fn started() -> Server {
    Launch::varve().config("io-threads 1").start().expect("a server")
}

/// Reads and deletions go on, and with memory everything does.
fn goes_on(server: &mut Server, kind: LimitKind, what: &str) {
    // A newcomer is closed while there is no memory for its connection: what the refused one had is given back before long.
    let answers = || Client::connect(server.address()).and_then(|mut client| client.call(&["PING"]));
    until(&format!("{what}: a newcomer is answered"), || answers().is_ok_and(|reply| reply.text() == "PONG"));
    let mut other = server.client();
    assert_eq!(other.cmd("GET kept").text(), "value", "{what}");
    assert_eq!(other.cmd("DEL dropped").integer(), Some(1), "{what}");
    kind.lift(server);
    until("memory is there again", || other.cmd("SET kept again").text() == "OK");
    until("also for long values", || {
        other.call(&["SET", "long", &"l".repeat(1 << 20)]).is_ok_and(|r| r.text() == "OK")
    });
    server.signal("TERM").expect("kill");
    assert_eq!(server.wait(END_LIMIT), Some(true), "{what}: it ends when it is asked to: {}", server.log());
}

fn with_two_keys(server: &Server) -> Client {
    let mut client = server.client();
    assert_eq!(client.cmd("SET kept value").text(), "OK");
    assert_eq!(client.cmd("SET dropped value").text(), "OK");
    client
}

#[test]
fn strings_are_refused_with_an_error_when_memory_is() {
    let by_log = ["short strings", "long strings", "a string that grows", "a string whose parts are written", "bits"];
    let paths = writing_paths().into_iter().filter(|path| by_log.contains(&path.name));
    side_by_side(paths, |path| {
        let what = path.name;
        let mut server = started();
        let mut client = with_two_keys(&server);
        LimitKind::Data.leave(&server, LEFT_BYTES);
        let refusal = first_refusal(&mut client, &path);
        let refusal = refusal.unwrap_or_else(|| panic!("{what}: no refusal\n{}", server.log()));
        assert!(refusal.starts_with("OOM "), "{what}: {refusal}");
        goes_on(&mut server, LimitKind::Data, what);
    });
}

/// Tables, and trees of sorted sets, lists and streams, lie beside the log's range, which is there from the start: they alone are
/// refused by this limit. Trees are ordinary memory: they grow on what the process holds in reserve until writes are refused.
#[test]
fn tables_that_may_not_be_mapped_are_refused_with_an_error() {
    let by_tables = ["keys", "keys that expire", "a set", "a hash", "a sorted set", "a list", "a stream"];
    let paths = writing_paths().into_iter().filter(|path| by_tables.contains(&path.name));
    side_by_side(paths, |path| {
        let what = format!("{}, by addresses", path.name);
        let mut server = started();
        let mut client = with_two_keys(&server);
        LimitKind::Addresses.leave(&server, 24 << 20);
        let refusal = first_refusal(&mut client, &path);
        let refusal = refusal.unwrap_or_else(|| panic!("{what}: no refusal\n{}", server.log()));
        assert!(refusal.starts_with("OOM "), "{what}: {refusal}");
        goes_on(&mut server, LimitKind::Addresses, &what);
    });
}

/// A client decides how long its requests, its transactions and the replies to them are: what has no room ends its connection
/// at most.
#[test]
fn requests_transactions_and_replies_are_refused_when_memory_is() {
    let value = "v".repeat(100_000);
    let long_request: Vec<&str> = ["MSET"].into_iter().chain((0..4000).flat_map(|_| ["k", value.as_str()])).collect();
    let short_words: Vec<&str> = ["MSET"].into_iter().chain((0..1_000_000).flat_map(|_| ["k", "v"])).collect();
    let queued: Vec<&str> = ["MSET"].into_iter().chain((0..40).flat_map(|_| ["k", value.as_str()])).collect();
    let long_reply: Vec<&str> = ["MGET"].into_iter().chain((0..4000).map(|_| "read")).collect();
    let scenes: [(&str, bool, usize, &[&str]); 4] = [
        ("a request", false, 1, &long_request),
        ("short words", false, 20, &short_words),
        ("a transaction", true, 100, &queued),
        ("a reply", false, 1, &long_reply),
    ];
    let scenes = scenes.iter().flat_map(|scene| [LimitKind::Data, LimitKind::Addresses].map(|kind| (scene, kind)));
    side_by_side(scenes, |(&(what, is_queued, times, words), kind)| {
        let what = format!("{what}, {kind:?}");
        let mut server = started();
        let mut client = with_two_keys(&server);
        assert_eq!(client.call(&["SET", "read", &value]).expect("it lives").text(), "OK", "{what}");
        kind.leave(&server, 100 << 20);
        if is_queued {
            assert_eq!(client.cmd("MULTI").text(), "OK", "{what}");
        }
        // 400 MB do not fit; the server may take them in parts, or refuse them with an error or the connection's end.
        let last = (0..times).map(|_| client.call(words)).find(|reply| reply.as_ref().map_or(true, |r| r.is_error()));
        if let Some(Ok(refused)) = &last {
            assert!(refused.text().starts_with("OOM "), "{what}: {refused:?}");
        }
        drop(client);
        goes_on(&mut server, kind, &what);
    });
}

/// A command makes lists of its arguments, and some keep them: none of these can be refused where it is made, so the memory is
/// asked for before the command runs.
#[test]
fn commands_of_many_arguments_are_refused_when_memory_is() {
    let names: Vec<String> = (0..300_000).map(|n| format!("name:{n}")).collect();
    let count = names.len().to_string();
    let commands: [(&[&str], &[&str]); 11] = [
        (&["SUNION"], &[]),
        (&["SINTERSTORE", "to"], &[]),
        (&["ZUNIONSTORE", "to", &count], &[]),
        (&["PFMERGE", "to"], &[]),
        (&["BITOP", "OR", "to"], &[]),
        (&["BLPOP"], &["0.01"]),
        (&["WATCH"], &[]),
        (&["SUBSCRIBE"], &[]),
        (&["EVAL", "return #ARGV", "0"], &[]),
        (&["EVAL", "return #KEYS", &count], &[]),
        (&["SCRIPT", "EXISTS"], &[]),
    ];
    for (head, tail) in commands {
        let words: Vec<&str> =
            head.iter().copied().chain(names.iter().map(String::as_str)).chain(tail.iter().copied()).collect();
        for left in [20, 30, 40, 60] {
            let what = format!("{head:?}, {left} MB");
            let mut server = started();
            let mut client = with_two_keys(&server);
            LimitKind::Addresses.leave(&server, left << 20);
            if let Ok(refused) = client.call(&words)
                && refused.is_error()
            {
                assert!(refused.text().starts_with("OOM "), "{what}: {refused:?}");
            }
            drop(client);
            goes_on(&mut server, LimitKind::Addresses, &what);
        }
    }
}

/// A command copies its arguments where it waits, goes on or keeps them: the memory for that is asked for before it runs.
#[test]
fn issue_11_commands_of_long_arguments_are_refused_when_memory_is() {
    let long = "l".repeat(40 << 20);
    let commands: [&[&str]; 9] = [
        &["LREM", "list", "0", &long],
        &["LINSERT", "list", "BEFORE", &long, "element"],
        &["LINSERT", "list", "BEFORE", "last", &long],
        &["BLPOP", &long, "0.01"],
        &["WATCH", &long],
        &["SUBSCRIBE", &long],
        &["EVAL", "return #ARGV[1]", "0", &long],
        &["EVAL", "return redis.call('RPUSH', 'other', ARGV[1])", "0", &long],
        &["CLIENT", "SETNAME", &long],
    ];
    side_by_side(commands.into_iter(), |words| {
        for left in [60, 90, 120, 160] {
            let what = format!("{}, {left} MB", words[0]);
            let mut server = started();
            let mut client = with_two_keys(&server);
            let elements = vec!["element"; 100_000];
            for _ in 0..3 {
                client.call(&[&["RPUSH", "list"], &elements[..]].concat()).expect("a reply");
            }
            client.call(&["RPUSH", "list", "last"]).expect("a reply");
            LimitKind::Addresses.leave(&server, left << 20);
            if let Ok(refused) = client.call(words)
                && refused.is_error()
                && words[0] != "CLIENT"
            {
                assert!(
                    refused.text().starts_with("OOM "),
                    "{what}: {}",
                    &refused.text()[..80.min(refused.text().len())]
                );
            }
            drop(client);
            goes_on(&mut server, LimitKind::Addresses, &what);
        }
    });
}

/// Replies that their client does not read are kept until the system refuses the memory for them.
#[test]
fn replies_that_nobody_reads_end_their_connection_when_memory_is_refused() {
    for kind in [LimitKind::Data, LimitKind::Addresses] {
        let mut server = started();
        let mut client = with_two_keys(&server);
        let value = "v".repeat(100_000);
        assert_eq!(client.call(&["SET", "read", &value]).expect("it lives").text(), "OK");
        kind.leave(&server, 48 << 20);
        let mut hoarders: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for hoarder in &mut hoarders {
            (0..600).for_each(|_| hoarder.queue(&["GET", "read"]));
            // A connection that is closed in the middle of this has been refused.
            let _ = hoarder.flush();
        }
        until("the server answers others", || client.cmd("PING").text() == "PONG");
        drop(hoarders);
        goes_on(&mut server, kind, &format!("unread replies, {kind:?}"));
    }
}
