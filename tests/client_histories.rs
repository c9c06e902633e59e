//! Histories of eight clients on four workers, single-key and multi-key string commands over few keys, in pipelines of one
//! to three: each short history must have a legal order (testkit's `linear`). VARVE_STRESS_SECONDS of rounds (10), on
//! segments of 64 KB, beside a ninth client whose writes and deletes keep reclaim and index growth moving.

#![forbid(unsafe_code)]

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use varve_testkit::linear::{Answer, Call, HistoryEvent, Keyspace, check};
use varve_testkit::{Client, Launch, Random, RespValue, seed};
use varve_tests::churn::churn;
use varve_tests::ending::SetAtEnd;

const CLIENTS: usize = 8;
const CALLS: usize = 14;

/// The words of a call in a round whose keys have names of their own.
fn words(call: &Call, round: u64) -> Vec<Vec<u8>> {
    let key = |k: &usize| format!("h:{round}:{k}").into_bytes();
    let name = |text: &str| text.as_bytes().to_vec();
    let list = |text: &str, keys: &[usize]| std::iter::once(name(text)).chain(keys.iter().map(key)).collect();
    let pairs = |text: &str, pairs: &[(usize, Vec<u8>)]| {
        std::iter::once(name(text)).chain(pairs.iter().flat_map(|(k, v)| [key(k), v.clone()])).collect()
    };
    match call {
        Call::Get(k) => vec![name("GET"), key(k)],
        Call::Set(k, v) => vec![name("SET"), key(k), v.clone()],
        Call::Incr(k) => vec![name("INCR"), key(k)],
        Call::Append(k, v) => vec![name("APPEND"), key(k), v.clone()],
        Call::GetSet(k, v) => vec![name("GETSET"), key(k), v.clone()],
        Call::SetNx(k, v) => vec![name("SETNX"), key(k), v.clone()],
        Call::GetDel(k) => vec![name("GETDEL"), key(k)],
        Call::Del(keys) => list("DEL", keys),
        Call::MGet(keys) => list("MGET", keys),
        Call::MSet(p) => pairs("MSET", p),
        Call::MSetNx(p) => pairs("MSETNX", p),
        Call::Rename(from, to) => vec![name("RENAME"), key(from), key(to)],
        Call::Add(..) | Call::Exec(..) => unreachable!("transfers.rs plays these"),
    }
}

fn answer(value: RespValue) -> Answer {
    let one = |value: RespValue| match value {
        RespValue::Bulk(bytes) => Some(bytes),
        RespValue::NullBulk => None,
        other => panic!("no call of ours answers {other:?}"),
    };
    match value {
        RespValue::Simple(_) => Answer::Ok,
        RespValue::Error(_) => Answer::Error,
        RespValue::Integer(n) => Answer::Integer(n),
        RespValue::Array(values) => Answer::Values(values.into_iter().map(one).collect()),
        value => Answer::RespValue(one(value)),
    }
}

fn call(random: &mut Random, keys: usize, unique: u64) -> Call {
    let (a, b) = (random.below(keys), random.below(keys));
    let value = unique.to_string().into_bytes();
    let all = |value: &Vec<u8>| (0..keys).map(|k| (k, value.clone())).collect();
    match random.below(20) {
        0..=2 => Call::Get(a),
        3 | 4 => Call::Set(a, value),
        5..=7 => Call::Incr(a),
        8 => Call::Append(a, value),
        9 => Call::GetSet(a, value),
        10 => Call::SetNx(a, value),
        11 => Call::GetDel(a),
        12 => Call::Del(vec![a, b]),
        13 | 14 => Call::MGet((0..keys).collect()),
        15 => Call::MSet(all(&value)),
        16 => Call::MSetNx(vec![(a, value.clone()), (b, value)]),
        17 => Call::MSet(vec![(a, value.clone()), (b, [value, b"x".to_vec()].concat())]),
        _ => Call::Rename(a, b),
    }
}

/// One client's part of a round.
fn play(client: &mut Client, random: &mut Random, round: u64, id: usize, clock: Instant) -> Vec<HistoryEvent> {
    let keys = 1 + (round as usize % 5);
    let mut events = Vec::new();
    while events.len() < CALLS {
        let count = 1 + random.below(3);
        let unique = |n: usize| (round % 1000) * 100_000 + (id * 1000 + n) as u64;
        let calls: Vec<Call> = (0..count).map(|n| call(random, keys, unique(events.len() + n))).collect();
        calls.iter().for_each(|call| client.queue(&words(call, round)));
        let begin = clock.elapsed().as_nanos() as u64;
        client.flush().expect("sent");
        for call in calls {
            let value = client.read().expect("a reply");
            events.push(HistoryEvent { begin, end: clock.elapsed().as_nanos() as u64, call, answer: answer(value) });
        }
    }
    events
}

fn round(clients: &mut [Client], first_seed: u64, round: u64) {
    let (clock, barrier) = (Instant::now(), Barrier::new(clients.len()));
    let histories: Vec<Vec<HistoryEvent>> = thread::scope(|scope| {
        let work = clients.iter_mut().enumerate().map(|(id, client)| {
            let barrier = &barrier;
            scope.spawn(move || {
                let mut random = Random::new(first_seed.wrapping_mul(1009).wrapping_add(round * 64 + id as u64));
                barrier.wait();
                play(client, &mut random, round, id, clock)
            })
        });
        let work: Vec<_> = work.collect();
        work.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    if let Err(error) = check(&Keyspace::empty(5), &histories) {
        panic!("VARVE_SEED={first_seed}, round {round}: {error}");
    }
}

#[test]
fn histories_have_a_legal_order() {
    let seconds = std::env::var("VARVE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let first_seed = seed::seed("histories");
    let launch = Launch::varve().config("io-threads 4").config("shards 4").config("varve-segment-bytes 65536");
    let server = launch.start().expect("varve-server starts");
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let stop = AtomicBool::new(false);
    let mut rounds = 0;
    thread::scope(|scope| {
        scope.spawn(|| churn(&server, &stop));
        let _stop = SetAtEnd(&stop);
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            round(&mut clients, first_seed, rounds);
            rounds += 1;
        }
    });
    println!("{rounds} histories of {CLIENTS} clients with {CALLS} calls each");
    assert!(rounds > 0);
    assert_eq!(server.client().cmd("DEBUG VERIFY").text(), "OK");
}
