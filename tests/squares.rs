//! Requests of many words: four times as many cost about four times as much of the server's CPU, not sixteen times.
//!
//! ```text
//!   few words --> CPU --.
//!   4 x words --> CPU --'--> growth: 4 linear, 16 square; at most 9 passes, as the better of some tries
//! ```
//! CPU is the server's own, so a busy machine makes little difference. Each case took seconds of a worker once.

use varve_testkit::{Client, Launch, RespValue, Server};

/// How much more four times the words may cost.
const GROWTH_MAX: f64 = 9.0;
/// How much more a set may cost that is named four times as often, which adds nothing.
const GROWTH_OF_NAMES_MAX: f64 = 3.0;
/// CPU below which nothing is judged, ns.
const LEAST_NS: u64 = 2_000_000;
const TRIES: usize = 4;

/// A case: prepares what it needs for this number of words, then does what is measured.
struct Case {
    name: &'static str,
    growth_max: f64,
    words: usize,
    prepare: fn(&Server, &mut Client, usize) -> Vec<Client>,
    measured: fn(&mut Client, usize),
}

const CASES: &[Case] = &[
    Case {
        name: "ZDIFF of many sets in a transaction",
        growth_max: GROWTH_MAX,
        words: 400,
        prepare: |_, client, words| {
            for n in 0..words {
                ok(client, &["ZADD", "first", "1", &format!("m{n}")]);
                ok(client, &["ZADD", &format!("other:{n}"), "1", "x"]);
            }
            Vec::new()
        },
        measured: |client, words| {
            let sets = (0..words).map(|n| format!("other:{n}"));
            let mut request = vec!["ZDIFF".to_owned(), (words + 1).to_string(), "first".to_owned()];
            request.extend(sets);
            client.queue(&["MULTI"]);
            client.queue(&request);
            client.queue(&["EXEC"]);
            client.flush().expect("sent");
            let replies: Vec<RespValue> = (0..3).map(|_| client.read().expect("a reply")).collect();
            let RespValue::Array(done) = &replies[2] else { panic!("{:?}", replies[2]) };
            assert!(matches!(&done[0], RespValue::Array(left) if left.len() == words), "no set takes a member away");
        },
    },
    Case {
        name: "a score that changes again and again",
        growth_max: GROWTH_MAX,
        words: 250,
        prepare: |_, _, _| Vec::new(),
        measured: |client, words| {
            let mut request = vec!["ZADD".to_owned(), "sorted".to_owned()];
            request.extend((0..words).flat_map(|n| [(n % 2).to_string(), "m".to_owned()]));
            (0..100).for_each(|_| client.queue(&request));
            take(client, 100);
        },
    },
    Case {
        name: "one set named many times in SINTER",
        growth_max: GROWTH_OF_NAMES_MAX,
        words: 500,
        prepare: |_, client, _| {
            (0..3000).for_each(|n| client.queue(&["SADD", "set", &format!("m{n}")]));
            take(client, 3000);
            Vec::new()
        },
        measured: |client, words| {
            let mut request = vec!["SINTERCARD".to_owned(), words.to_string()];
            request.extend((0..words).map(|_| "set".to_owned()));
            assert_eq!(client.call(&request).expect("a reply").integer(), Some(3000));
        },
    },
    Case {
        name: "keys that somebody waits for, all in one transaction",
        growth_max: GROWTH_MAX,
        words: 2000,
        prepare: |server, _, words| {
            let mut waiter = server.client();
            let mut request = vec!["BLPOP".to_owned()];
            request.extend((0..words).map(|n| format!("list:{n}")));
            request.push("0".to_owned());
            waiter.queue(&request);
            waiter.flush().expect("sent");
            let mut admin = server.client();
            varve_testkit::until("it waits", || admin.cmd("INFO clients").text().contains("blocked_clients:1\r\n"));
            vec![waiter]
        },
        measured: |client, words| {
            client.queue(&["MULTI"]);
            (0..words).for_each(|n| client.queue(&["RPUSH", &format!("list:{n}"), "v"]));
            client.queue(&["EXEC"]);
            take(client, words + 2);
        },
    },
    Case {
        name: "a message of many patterns to its publisher",
        growth_max: GROWTH_MAX,
        words: 2000,
        prepare: |_, client, words| {
            ok(client, &["HELLO", "3"]);
            let mut request = vec!["PSUBSCRIBE".to_owned()];
            request.extend((0..words).map(|n| format!("[c{n}]*")));
            client.queue(&request);
            take(client, words);
            Vec::new()
        },
        measured: |client, words| {
            client.queue(&["PUBLISH", "channel", "v"]);
            take(client, words + 1);
        },
    },
    Case {
        name: "messages beside a long pattern",
        growth_max: GROWTH_MAX,
        words: 20_000,
        prepare: |server, _, words| {
            let mut listener = server.client();
            listener.queue(&["PSUBSCRIBE".to_owned(), format!("{}z", "*".repeat(words))]);
            take(&mut listener, 1);
            vec![listener]
        },
        measured: |client, words| {
            (0..words / 10).for_each(|_| client.queue(&["PUBLISH", "channel", "v"]));
            take(client, words / 10);
        },
    },
    Case {
        name: "writes beside many prefixes that a client tracks",
        growth_max: GROWTH_MAX,
        words: 20_000,
        prepare: |server, _, words| {
            let mut tracker = server.client();
            ok(&mut tracker, &["HELLO", "3"]);
            let mut request: Vec<String> = ["CLIENT", "TRACKING", "ON", "BCAST"].map(String::from).to_vec();
            request.extend((0..words).flat_map(|n| ["PREFIX".to_owned(), format!("prefix:{n:06}:")]));
            ok(&mut tracker, &request);
            vec![tracker]
        },
        measured: |client, words| {
            (0..words / 10).for_each(|n| client.queue(&["SET", &format!("key:{n}"), "v"]));
            take(client, words / 10);
        },
    },
    Case {
        name: "XINFO STREAM FULL of many consumers",
        growth_max: GROWTH_MAX,
        words: 2000,
        prepare: |_, client, words| {
            ok(client, &["XGROUP", "CREATE", "stream", "group", "$", "MKSTREAM"]);
            for n in 0..words {
                ok(client, &["XADD", "stream", "*", "f", "v"]);
                ok(client, &["XREADGROUP", "GROUP", "group", &format!("c{n}"), "STREAMS", "stream", ">"]);
            }
            Vec::new()
        },
        measured: |client, _| ok(client, &["XINFO", "STREAM", "stream", "FULL"]),
    },
    Case {
        name: "SORT with many GETs by a user of patterns",
        growth_max: GROWTH_MAX,
        words: 1000,
        prepare: |_, client, _| {
            ok(client, &["RPUSH", "numbers", "1", "2", "3"]);
            ok(client, &["ACL", "SETUSER", "reader", "on", "nopass", "+@all", "%R~*", "~numbers"]);
            ok(client, &["AUTH", "reader", ""]);
            Vec::new()
        },
        measured: |client, words| {
            let mut request = vec!["SORT".to_owned(), "numbers".to_owned()];
            request.extend((0..words).flat_map(|_| ["GET".to_owned(), "#".to_owned()]));
            assert!(matches!(client.call(&request), Ok(RespValue::Array(all)) if all.len() == 3 * words));
        },
    },
];

/// Sends what is queued, and takes that many replies and messages.
fn take(client: &mut Client, count: usize) {
    client.flush().expect("sent");
    (0..count).for_each(|_| drop(client.read().expect("a reply")));
}

fn ok<A: AsRef<[u8]>>(client: &mut Client, request: &[A]) {
    let reply = client.call(request).expect("a reply");
    assert!(!matches!(reply, RespValue::Error(_)), "{reply:?}");
}

/// The server's CPU of what a case measures, ns.
fn cost(case: &Case, words: usize) -> u64 {
    let server = Launch::varve().config("io-threads 1").start().expect("a server");
    let mut client = server.client();
    let others = (case.prepare)(&server, &mut client, words);
    let before = server.cpu_ns().expect("its CPU");
    (case.measured)(&mut client, words);
    let cost = server.cpu_ns().expect("its CPU") - before;
    drop(others);
    cost
}

/// Issue 11: see each case.
#[test]
fn requests_of_many_words_cost_no_square_of_them() {
    // Two at a time: a test machine has two cores.
    let squares = std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            let cases = CASES.iter().skip(half).step_by(2);
            scope.spawn(move || cases.filter(|case| is_square(case)).map(|case| case.name).collect::<Vec<_>>())
        });
        halves.map(|half| half.join().expect("the cases run")).concat()
    });
    assert!(squares.is_empty(), "four times the words cost too much: {squares:?}");
}

fn is_square(case: &Case) -> bool {
    (0..TRIES).all(|_| {
        let (few, many) = (cost(case, case.words), cost(case, 4 * case.words));
        println!("{}: {} us, then {} us", case.name, few / 1000, many / 1000);
        many.max(LEAST_NS) as f64 / few.max(LEAST_NS) as f64 > case.growth_max
    })
}
