//! Values of hundreds of kilobytes to a hundred megabytes: received into runs of segments, sent from where they lie.

use std::io::{Read, Write};
use std::time::Duration;

use varve_store::{Policy, Store};

use super::{Client, Server, request, wait_until};

/// The size from which on a value has a run.
const RUN: usize = 256 << 10;

/// Bytes in which no two places nearby look alike.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    let word = |i: usize| ((i + seed) as u64).wrapping_mul(varve_base::hash::GOLDEN_RATIO).to_le_bytes();
    (0..len.div_ceil(8)).flat_map(word).take(len).collect()
}

fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

impl Client {
    /// Sends a request and waits for this reply.
    fn ask_bytes(&mut self, args: &[&[u8]], reply: &str) {
        self.send(&encode(args));
        self.expect(reply.as_bytes());
    }

    /// The next reply's body, a bulk string.
    fn body(&mut self) -> Vec<u8> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let length: usize = head.trim_end().strip_prefix('$').unwrap_or_else(|| panic!("{head:?}")).parse().unwrap();
        let mut body = vec![0; length + 2];
        self.stream.read_exact(&mut body).unwrap();
        assert!(body.ends_with(b"\r\n"));
        body.truncate(length);
        body
    }

    fn value(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.send(&encode(args));
        self.body()
    }
}

/// A number in a line of CLIENT LIST.
fn field(line: &str, name: &str) -> Option<usize> {
    line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn store(server: &Server) -> &Store {
    server.state().store()
}

/// Runs, and pins on them.
fn runs(server: &Server) -> (u32, u32) {
    let log = store(server).log();
    (log.stats().runs, log.segments().iter().map(|segment| segment.pins).sum())
}

/// Dead small objects, which are not worth a drain.
const CRUMBS: u64 = 1000;

/// Deletes everything key by key; then nothing is used any more.
fn nothing_is_left(server: &Server, client: &mut Client, keys: &[&str]) {
    for key in keys {
        client.send(&request(&["DEL", key]));
        let mut reply = [0; 4];
        client.stream.read_exact(&mut reply).unwrap();
    }
    wait_until("the memory of all values", || runs(server) == (0, 0) && store(server).log().used_bytes() < CRUMBS);
    assert_eq!(store(server).len(0), 0);
}

#[test]
fn values_of_all_sizes_go_in_and_out() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    let sizes =
        [RUN - 64, RUN - 24, RUN - 1, RUN, RUN + 1, RUN + 2, 300_000, 1 << 20, (8 << 20) - 9, 8 << 20, 9_000_001];
    for (n, len) in sizes.into_iter().enumerate() {
        let value = pattern(n, len);
        let mut whole = encode(&[b"SET", b"k", &value]);
        whole.extend(request(&["STRLEN", "k"]));
        // Cut so that a part of the body comes with the head, and the line's end alone.
        let (head, rest) = whole.split_at(33 + n * 1000);
        client.send(head);
        std::thread::sleep(Duration::from_millis(2));
        let (body, end) = rest.split_at(len - n * 1000 - [0, 1, 2, 5][n % 4]);
        client.send(body);
        std::thread::sleep(Duration::from_millis(2));
        client.send(end);
        client.expect(format!("+OK\r\n:{len}\r\n").as_bytes());
        assert!(client.value(&[b"GET", b"k"]) == value, "{len} bytes");
        assert!(client.value(&[b"GETRANGE", b"k", b"5", b"-6"]) == value[5..len - 5], "a part of {len} bytes");
        assert_eq!(client.value(&[b"GETRANGE", b"k", b"-3", b"-1"]), value[len - 3..]);
        if len > RUN {
            wait_until("one run without pins", || runs(&server) == (1, 0));
        }
    }
    nothing_is_left(&server, &mut client, &["k"]);
}

#[test]
fn a_hundred_megabytes_are_held_once() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let value = pattern(1, 100 << 20);
    client.ask_bytes(&[b"SET", b"k", &value], "+OK\r\n");
    let used = store(&server).log().used_bytes();
    assert!((100 << 20..(100 << 20) + 1000).contains(&used), "{used} bytes");
    // Several replies at once take nothing more.
    let mut readers: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    readers.iter_mut().for_each(|reader| reader.send(&request(&["GET", "k"])));
    wait_until("three pins", || runs(&server).1 == 3);
    client.ask(&["RENAME", "k", "a name that is longer"], "+OK\r\n");
    client.ask(&["EXPIRE", "a name that is longer", "1000"], ":1\r\n");
    client.ask(&["APPEND", "a name that is longer", "!"], &format!(":{}\r\n", value.len() + 1));
    let used = store(&server).used_memory();
    assert!(used < (101 << 20), "{used} bytes");
    assert_eq!(runs(&server).0, 1, "nothing was copied");
    let list = client.bulk(&["CLIENT", "LIST"]);
    let unsent = list.lines().filter_map(|line| field(line, "omem"));
    let sending = unsent.filter(|&bytes| bytes > 50 << 20 && bytes < 101 << 20);
    assert_eq!(sending.count(), 3, "replies are shown: {list}");
    for reader in &mut readers {
        assert!(reader.body() == value);
    }
    wait_until("no pins", || runs(&server) == (1, 0));
    nothing_is_left(&server, &mut client, &["a name that is longer"]);
}

#[test]
fn every_command_takes_a_large_argument() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    let (one, two) = (pattern(1, 400_000), pattern(2, 500_000));
    client.ask_bytes(&[b"MSET", b"a", &one, b"s", b"small", b"b", &two], "+OK\r\n");
    assert!(client.value(&[b"GET", b"a"]) == one && client.value(&[b"GET", b"b"]) == two);
    assert_eq!(client.value(&[b"GET", b"s"]), b"small");
    client.send(&request(&["MGET", "a", "nothing", "b"]));
    client.expect(b"*3\r\n");
    assert!(client.body() == one);
    client.expect(b"$-1\r\n");
    assert!(client.body() == two);
    assert!(client.value(&[b"GETSET", b"a", &two]) == one && client.value(&[b"SET", b"a", &one, b"GET"]) == two);
    assert!(client.value(&[b"GETEX", b"a", b"EX", b"100"]) == one && client.value(&[b"GETDEL", b"a"]) == one);
    client.ask_bytes(&[b"SETEX", b"a", b"100", &one], "+OK\r\n");
    client.ask_bytes(&[b"PSETEX", b"b", b"100000", &one], "+OK\r\n");
    client.ask_bytes(&[b"SETNX", b"b", &two], ":0\r\n");
    client.ask_bytes(&[b"SETNX", b"c", &two], ":1\r\n");
    client.ask_bytes(&[b"MSETNX", b"d", &two, b"e", &one], ":1\r\n");
    client.ask_bytes(&[b"SET", b"c", &one, b"XX", b"KEEPTTL"], "+OK\r\n");
    assert!(client.value(&[b"GET", b"c"]) == one && client.value(&[b"GET", b"d"]) == two);
    client.ask_bytes(&[b"APPEND", b"c", &two], ":900000\r\n");
    client.ask_bytes(&[b"SETRANGE", b"c", b"10", &one], ":900000\r\n");
    assert!(client.value(&[b"GET", b"c"]) == [&one[..10], &one, &two[10..]].concat());
    client.ask_bytes(&[b"COPY", b"c", b"f"], ":1\r\n");
    client.ask_bytes(&[b"MOVE", b"c", b"3"], ":1\r\n");
    assert!(client.value(&[b"GET", b"f"])[10..400_010] == one);
    client.ask(&["SELECT", "3"], "+OK\r\n");
    assert!(client.value(&[b"GET", b"c"])[10..400_010] == one);
    client.ask(&["DEL", "c"], ":1\r\n");
    client.ask(&["SELECT", "0"], "+OK\r\n");
    // A large key, a large argument where none belongs, too many arguments, the wrong kind of a number.
    client.ask_bytes(&[b"SET", &one, b"v"], "+OK\r\n");
    assert_eq!(client.value(&[b"GET", &one]), b"v");
    client.ask_bytes(&[b"DEL", &one], ":1\r\n");
    client.ask_bytes(&[b"SET", b"k", b"v", &one], "-ERR syntax error\r\n");
    client.ask_bytes(&[b"SETNX", b"k", b"v", &one], "-ERR wrong number of arguments for 'setnx' command\r\n");
    client.ask_bytes(&[b"INCRBY", b"k", &one], "-ERR value is not an integer or out of range\r\n");
    assert!(client.value(&[b"ECHO", &one]) == one);
    client.ask_bytes(&[b"PING"], "+PONG\r\n");
    nothing_is_left(&server, &mut client, &["a", "b", "d", "e", "f", "s"]);
}

#[test]
fn a_half_sent_value_goes_with_its_client() {
    let server = Server::start(2, "");
    let value = pattern(3, 10 << 20);
    for head in [&[&b"SET"[..], b"k"][..], &[b"MSET", b"a", &value, b"b"], &[b"APPEND", b"k"]] {
        let args: Vec<&[u8]> = head.iter().copied().chain([&value[..]]).collect();
        let whole = encode(&args);
        let mut client = server.connect();
        client.send(&whole[..whole.len() - (6 << 20)]);
        wait_until("the bytes that came", || store(&server).log().used_bytes() >= (4 << 20) - 1000);
        assert_eq!(store(&server).len(0), 0);
        let mut other = server.connect();
        let list = other.bulk(&["CLIENT", "LIST"]);
        let unread = list.lines().filter_map(|line| field(line, "qbuf")).max();
        assert!(unread.is_some_and(|bytes| (4_000_000..15_000_000).contains(&bytes)), "what came is shown: {list}");
        drop(client);
        nothing_is_left(&server, &mut other, &[]);
    }
    // Announced and not sent: it takes nothing.
    let mut client = server.connect();
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nx");
    wait_until("a run", || runs(&server).0 == 1);
    assert_eq!(store(&server).log().used_bytes(), 1);
}

#[test]
fn the_limit_refuses_and_the_connection_goes_on() {
    let server = Server::start(1, "");
    store(&server).set_limit(20 << 20, Policy::NoEviction);
    const DENIED: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    let mut client = server.connect();
    let (fits, large) = (pattern(4, 8 << 20), pattern(5, 30 << 20));
    client.ask(&["SET", "small", "x"], "+OK\r\n");
    for _ in 0..2 {
        client.ask_bytes(&[b"SET", b"k", &large], DENIED);
        client.ask_bytes(&[b"MSET", b"k", &fits, b"l", &large, b"m", &fits], DENIED);
        client.ask_bytes(&[b"APPEND", b"small", &large], DENIED);
        client.ask(&["SETRANGE", "small", "30000000", "x"], DENIED);
        client.ask(&["STRLEN", "small"], ":1\r\n");
        wait_until("what came of them", || runs(&server).0 == 0);
        // A command that needs no memory is not refused.
        assert!(client.value(&[b"ECHO", &large]) == large);
        // The limit covers the connection's buffers, as they were at the last tick.
        wait_until("the buffers to be given back", || store(&server).used_memory() < 1 << 20);
    }
    client.ask_bytes(&[b"SET", b"k", &fits], "+OK\r\n");
    client.ask(&["COPY", "k", "l"], ":1\r\n");
    client.ask(&["COPY", "k", "m"], DENIED);
    client.ask(&["RENAME", "k", "m"], "+OK\r\n");
    assert!(client.value(&[b"GET", b"l"]) == fits);
    store(&server).set_limit(20 << 20, Policy::AllKeysRandom);
    client.ask_bytes(&[b"SET", b"n", &fits], "+OK\r\n");
    assert!(client.value(&[b"GET", b"n"]) == fits);
    assert!(store(&server).used_memory() <= 20 << 20);
    // A request without end: the limit on what is unread closes it.
    client.ask(&["CONFIG", "SET", "client-query-buffer-limit", "2mb"], "+OK\r\n");
    client.ask(&["FLUSHALL"], "+OK\r\n");
    let _ = client.stream.write_all(&encode(&[b"SET", b"k", &fits]));
    assert!(client.is_closed());
    let mut client = server.connect();
    nothing_is_left(&server, &mut client, &["k"]);
}

/// A transaction and a script hold their shards, so that no room can be made for them: what they take beyond the limit is
/// bounded.
#[test]
fn transactions_and_scripts_pass_the_limit_by_an_eighth_at_most() {
    const LIMIT: u64 = 24 << 20;
    const DENIED: &str = "-OOM command not allowed when used memory > 'maxmemory'.";
    let server = Server::start(1, "");
    let mut client = server.connect();
    client.ask_bytes(&[b"SET", b"k", &pattern(4, 2 << 20)], "+OK\r\n");
    store(&server).set_limit(LIMIT, Policy::NoEviction);
    let between = |least: u64, copies: u64| {
        assert!((least..13).contains(&copies), "{copies} copies");
        // Buffers, a script's strings among them, are counted behind it.
        let used = store(&server).log().used_bytes();
        assert!(used <= LIMIT + LIMIT / 8, "{used} bytes");
    };
    let names: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    client.ask(&["MULTI"], "+OK\r\n");
    names.iter().for_each(|name| client.ask(&["COPY", "k", name], "+QUEUED\r\n"));
    client.send(&request(&["EXEC"]));
    client.expect(b"*40\r\n");
    let copied = names.iter().filter(|_| {
        let line = client.line();
        assert!(line == ":1" || line == DENIED, "{line}");
        line == ":1"
    });
    between(8, copied.count() as u64);
    // Lua's strings that are no longer used are counted where a slow machine lets a sum be made within the script.
    for (call, least) in [
        ("redis.pcall('COPY', 'k', 'k' .. i)", 8),
        ("redis.pcall('SET', 'k' .. i, string.rep('x', 2 * 1024 * 1024))", 2),
    ] {
        client.send(&request(&[&["DEL"], &names.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat()));
        client.line();
        wait_until("the copies have gone", || runs(&server).0 == 1);
        let body = format!(
            "local n = 0 for i = 0, 39 do local r = {call} if type(r) ~= 'table' or r.ok then n = n + 1 end end return n"
        );
        client.send(&request(&["EVAL", &body, "0"]));
        let copied = client.line();
        between(least, copied[1..].parse().expect(&copied));
    }
}

#[test]
fn replies_that_nobody_gets_hold_nothing() {
    let server = Server::start(1, "client-output-buffer-limit normal 4mb 0 0\n");
    let mut client = server.connect();
    let value = pattern(6, 10 << 20);
    client.ask_bytes(&[b"SET", b"k", &value[..3 << 20]], "+OK\r\n");
    client.send(&[request(&["CLIENT", "REPLY", "OFF"]), request(&["GET", "k"]).repeat(9)].concat());
    client.ask(&["CLIENT", "REPLY", "ON"], "+OK\r\n");
    client.send(&[request(&["CLIENT", "REPLY", "SKIP"]), request(&["GET", "k"])].concat());
    client.ask(&["PING"], "+PONG\r\n");
    assert_eq!(runs(&server), (1, 0));
    client.ask_bytes(&[b"SET", b"k", &value], "+OK\r\n");
    client.send(&request(&["GET", "k"]));
    wait_until("the client's end", || server.state().total(|stats| &stats.output_limit_closed) == 1);
    let mut client = server.connect();
    nothing_is_left(&server, &mut client, &["k"]);
}

/// Each version of the value is one byte over and over; a reply is whole and of one version, whatever became of the key.
#[test]
fn slow_readers_get_what_they_asked_for() {
    const LEN: usize = 12 << 20;
    let server = Server::start(2, "");
    let mut writer = server.connect();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|n| {
                let (mut client, stop) = (server.connect(), &stop);
                scope.spawn(move || {
                    let mut got = 0;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        client.send(&request(&["GETRANGE", "k", "0", "-1"]));
                        std::thread::sleep(Duration::from_millis(3 * n));
                        let value = client.body();
                        if let Some(&version) = value.first() {
                            assert!(value.iter().all(|&byte| byte == version), "two versions in one reply");
                            assert!(value.len() >= RUN, "{} bytes", value.len());
                            got += 1;
                        }
                    }
                    assert!(got > 0);
                })
            })
            .collect();
        for round in 0..60u8 {
            let value = vec![round; LEN - usize::from(round) * 100_000];
            match round % 6 {
                0 | 3 => writer.ask_bytes(&[b"SET", b"k", &value], "+OK\r\n"),
                1 => {
                    // More of the same: in place, behind what is being sent.
                    let more = vec![round - 1; 100_000];
                    writer.send(&encode(&[b"APPEND", b"k", &more]));
                    writer.send(&request(&["STRLEN", "k"]));
                    let length = LEN - usize::from(round - 1) * 100_000 + more.len();
                    writer.expect(format!(":{length}\r\n:{length}\r\n").as_bytes());
                }
                2 => {
                    writer.ask(&["RENAME", "k", "another name"], "+OK\r\n");
                    writer.ask(&["DEL", "another name"], ":1\r\n");
                }
                4 => {
                    writer.send(&encode(&[b"SETRANGE", b"k", b"0", &vec![round; LEN - 300_000]]));
                    let mut reply = [0; 1];
                    while reply != [b'\n'] {
                        writer.stream.read_exact(&mut reply).unwrap();
                    }
                    writer.ask_bytes(&[b"SET", b"k", &value], "+OK\r\n");
                }
                _ => writer.ask(&["FLUSHALL"], "+OK\r\n"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    nothing_is_left(&server, &mut writer, &[]);
}
