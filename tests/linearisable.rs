//! Are histories of concurrent clients on few keys linearisable? Rounds of short histories, single-key and multi-key
//! commands mixed, each searched for a legal order (testkit's model), for VARVE_STRESS_SECONDS (10) or so.

#![forbid(unsafe_code)]

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use varve_testkit::model::{Call, Event, Keyspace, Reply, linearisable};
use varve_testkit::{Client, Launch, Random, Server, Value, seed};

const CLIENTS: usize = 4;
const KEYS: usize = 5;
const CALLS: usize = 40;

fn key(n: u32) -> String {
    format!("key{n}")
}

fn words(call: &Call) -> Vec<String> {
    let list =
        |name: &str, keys: &[u32]| std::iter::once(name.to_string()).chain(keys.iter().map(|&k| key(k))).collect();
    match call {
        Call::Get(k) => list("GET", &[*k]),
        Call::Set(k, v) => vec!["SET".into(), key(*k), v.to_string()],
        Call::Increment(k, by) => vec!["INCRBY".into(), key(*k), by.to_string()],
        Call::Swap(k, v) => vec!["GETSET".into(), key(*k), v.to_string()],
        Call::Delete(keys) => list("DEL", keys),
        Call::SetMany(pairs) => {
            let words = pairs.iter().flat_map(|(k, v)| [key(*k), v.to_string()]);
            std::iter::once("MSET".to_string()).chain(words).collect()
        }
        Call::GetMany(keys) => list("MGET", keys),
        Call::Rename(from, to) => list("RENAME", &[*from, *to]),
    }
}

fn reply(value: &Value) -> Reply {
    let number = |value: &Value| value.text().parse::<u64>().ok();
    match value {
        Value::Simple(_) => Reply::Done,
        Value::Error(text) if text.ends_with(b"no such key") => Reply::Absent,
        Value::NullBulk => Reply::Absent,
        Value::Integer(n) => Reply::Number(*n as u64),
        Value::Bulk(_) => Reply::Number(number(value).unwrap_or_else(|| panic!("{value:?} is no number of ours"))),
        Value::Array(values) => Reply::Many(values.iter().map(number).collect()),
        other => panic!("a reply that no call of ours has: {other:?}"),
    }
}

fn call(random: &mut Random) -> Call {
    let mut key = || random.below(KEYS) as u32;
    let (a, b) = (key(), key());
    let value = 1 + random.next_u64() % 1000;
    match random.below(10) {
        0 | 1 => Call::Get(a),
        2 => Call::Set(a, value),
        3 | 4 => Call::Increment(a, value),
        5 => Call::Swap(a, value),
        6 => Call::Delete(vec![a, b]),
        7 => Call::SetMany((0..KEYS as u32).map(|k| (k, value)).collect()),
        8 => Call::GetMany((0..KEYS as u32).collect()),
        _ => Call::Rename(a, b),
    }
}

fn round(server: &Server, clients: &mut [Client], seed: u64) {
    server.client().cmd("FLUSHALL");
    let (start, barrier) = (Instant::now(), Barrier::new(clients.len()));
    let mut history = Vec::new();
    thread::scope(|scope| {
        let work = clients.iter_mut().enumerate().map(|(id, client)| {
            let barrier = &barrier;
            scope.spawn(move || {
                let mut random = Random::new(seed * 31 + id as u64);
                barrier.wait();
                let mut events = Vec::new();
                for _ in 0..CALLS {
                    let call = call(&mut random);
                    let begin = start.elapsed().as_nanos() as u64;
                    let value = client.call(&words(&call)).expect("a reply");
                    let end = start.elapsed().as_nanos() as u64;
                    events.push(Event { begin, end, call, reply: reply(&value) });
                }
                events
            })
        });
        let work: Vec<_> = work.collect();
        for events in work {
            history.extend(events.join().expect("a client"));
        }
    });
    if let Err(error) = linearisable(&Keyspace::default(), &history) {
        panic!("seed {seed}: {error}");
    }
}

#[test]
fn histories_on_few_keys_have_a_legal_order() {
    let seconds = std::env::var("VARVE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let first = seed::seed("linearisable");
    let server = Launch::varve().config("io-threads 4").start().expect("varve-server starts");
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0;
    while Instant::now() < end {
        round(&server, &mut clients, first + rounds);
        rounds += 1;
    }
    println!("{rounds} rounds");
    assert!(rounds > 0);
}
