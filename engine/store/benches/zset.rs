//! A big sorted set of 16-byte members: bytes a member, and time of ZADD, ZSCORE, ZRANK and ranges of ten, without a
//! server; time is the thread's own. Scores are drawn at random, as whole numbers and as fractions, or rise.
//!
//! `VARVE_MEMBERS` sets the number of members (1 000 000); with `--test`, or as `cargo test` runs it, there are
//! few.

use std::time::Duration;

use varve_base::hash::mix64;
use varve_store::{Options, ScoreBound, Store, StoreWorker, Tx, ZAdd, ZRange};

const LOOKS: u64 = 200_000;

fn member(n: u64) -> [u8; 16] {
    let mut text = *b"member:000000000";
    let mut rest = mix64(n) % 1_000_000_000;
    for digit in text[7..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}

fn score(kind: &str, n: u64) -> f64 {
    match kind {
        "whole" => (mix64(n ^ 0x55) % 1_000_000) as f64,
        "fraction" => mix64(n ^ 0x55) as f64 / 1e19,
        _ => n as f64,
    }
}

/// Time that this thread has had a core for, in nanoseconds: other work on the machine does not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number of nanoseconds")
}

/// Runs `work` `count` times on the key, 64 times in a batch, with what the background owes; nanoseconds each.
fn time(worker: &mut StoreWorker, count: u64, mut work: impl FnMut(&mut Tx<'_>, &varve_store::Key<'_>, u64)) -> f64 {
    let start = cpu_ns();
    for first in (0..count).step_by(64) {
        let (store, local) = worker.parts();
        let mut tx = Tx::new(store, local, 0);
        let key = tx.key(b"zset");
        tx.hold(&[tx.shard_of(key.hash)]);
        for n in first..count.min(first + 64) {
            work(&mut tx, &key, n);
        }
        tx.finish();
        worker.background(0, Duration::from_micros(20));
    }
    (cpu_ns() - start) as f64 / count as f64
}

fn run(kind: &str, members: u64) {
    let store = Store::new(&Options::default()).expect("an address range");
    let mut worker = store.worker(0);
    let add = time(&mut worker, members, |tx, key, n| {
        tx.zset_add(key, &member(n), score(kind, n), ZAdd::default()).expect("a sorted set");
    });
    let used = store.used_memory();
    let in_log = store.log().used_bytes();
    let live = store.log().live_bytes();
    let mut own = 0;
    time(&mut worker, 1, |tx, key, _| own = tx.object(key).expect("a sorted set").bytes);
    let some = |n: u64| mix64(n ^ 0x1234) % members;
    let looks = LOOKS.min(members);
    let found = time(&mut worker, looks, |tx, key, n| {
        assert!(tx.zset_score(key, &member(some(n))).expect("a sorted set").is_some());
    });
    let rank = time(&mut worker, looks, |tx, key, n| {
        assert!(tx.zset_rank(key, &member(some(n)), false).expect("a sorted set").is_some());
    });
    let mut shown = 0;
    let by_rank = time(&mut worker, looks, |tx, key, n| {
        let range = ZRange::Rank { start: some(n) / 2, stop: some(n) / 2 + 9 };
        tx.zset_range(key, |_| range, false, (0, usize::MAX), &mut |_: &[u8], _| shown += 1).expect("a sorted set");
    });
    let by_score = time(&mut worker, looks, |tx, key, n| {
        let min = ScoreBound { value: score(kind, some(n)), open: false };
        let range = ZRange::Score { min, max: ScoreBound { value: f64::INFINITY, open: false } };
        tx.zset_range(key, |_| range, false, (0, 10), &mut |_: &[u8], _| shown += 1).expect("a sorted set");
    });
    let moved = time(&mut worker, looks, |tx, key, n| {
        tx.zset_add(key, &member(some(n)), score(kind, n ^ 0x777), ZAdd::default()).expect("a sorted set");
    });
    let nearby = time(&mut worker, looks, |tx, key, n| {
        let how = ZAdd { incr: true, ..ZAdd::default() };
        tx.zset_add(key, &member(some(n)), 1.0, how).expect("a sorted set");
    });
    let each = |bytes: u64| bytes as f64 / members as f64;
    println!("{kind:>9}, {members} members, bytes of each: {:.1} used, {:.1} its own", each(used), each(own as u64));
    println!("          {:.1} in the log and alive, {:.1} used there, {shown} shown", each(live), each(in_log));
    println!(
        "          add {add:.0} ns, score {found:.0}, rank {rank:.0}, ten by rank {by_rank:.0}, ten by score {by_score:.0}"
    );
    println!("          another score {moved:.0}, one more {nearby:.0}");
}

fn main() {
    let asked = |what: &str| std::env::args().any(|arg| arg == what);
    let few = asked("--test") || !asked("--bench");
    let wanted = std::env::var("VARVE_MEMBERS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    for kind in ["whole", "fraction", "rising"] {
        run(kind, if few { 2_000 } else { wanted });
    }
}
