//! Shard locks under loom: the protocol by which a command takes its shards.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p varve-store --test loom_shards --release`. Without `--cfg loom` this file is empty.
//! A command takes all its shards in ascending order by `try_lock`. If one is busy it lets go of all, has done nothing, and is
//! put back in the queue; the third time it waits for each, still ascending, still before it changes a byte.

#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use varve_base::rank::{Rank, RankedGuard, RankedMutex};

const TRIES_MAX: u32 = 2;

type Shard = RankedMutex<u32>;

fn shards(n: u32) -> Arc<Vec<Shard>> {
    Arc::new((0..n).map(|i| RankedMutex::new(Rank::Shard(i), 0)).collect())
}

/// All of `wanted` (ascending), or nothing.
fn try_all<'s>(shards: &'s [Shard], wanted: &[usize]) -> Option<Vec<RankedGuard<'s, u32>>> {
    wanted.iter().map(|&i| shards[i].try_lock()).collect()
}

/// Runs one command that adds 1 to each wanted shard; how often it was found busy.
fn run(shards: &[Shard], wanted: &[usize]) -> u32 {
    assert!(wanted.is_sorted());
    let mut busy = 0;
    let mut held = loop {
        if busy == TRIES_MAX {
            break wanted.iter().map(|&i| shards[i].lock()).collect();
        }
        if let Some(held) = try_all(shards, wanted) {
            break held;
        }
        // Busy: nothing is held and nothing has been changed. The worker serves others.
        busy += 1;
        thread::yield_now();
    };
    let before = *held[0];
    for shard in &held {
        assert_eq!(**shard, before, "a command of both shards was seen half done");
    }
    held.iter_mut().for_each(|shard| **shard += 1);
    busy
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

#[test]
fn two_workers_on_one_shard() {
    model(3, || {
        let shards = shards(1);
        let other = {
            let shards = shards.clone();
            thread::spawn(move || run(&shards, &[0]))
        };
        let busy = run(&shards, &[0]);
        let busy_other = other.join().unwrap();
        assert!(busy <= TRIES_MAX && busy_other <= TRIES_MAX);
        assert_eq!(*shards[0].lock(), 2);
    });
}

#[test]
fn commands_of_two_shards_are_whole_and_never_deadlock() {
    model(3, || {
        let shards = shards(2);
        let other = {
            let shards = shards.clone();
            thread::spawn(move || run(&shards, &[0, 1]))
        };
        run(&shards, &[0, 1]);
        other.join().unwrap();
        assert_eq!([*shards[0].lock(), *shards[1].lock()], [2, 2]);
    });
}

#[test]
fn a_busy_shard_leaves_the_others_free_and_unchanged() {
    model(3, || {
        let shards = shards(2);
        let other = {
            let shards = shards.clone();
            thread::spawn(move || {
                let mut high = shards[1].lock();
                *high += 1;
            })
        };
        if try_all(&shards, &[0, 1]).is_none() {
            assert_eq!(*shards[0].try_lock().expect("let go of"), 0);
        }
        other.join().unwrap();
        assert_eq!(*shards[1].lock(), 1);
    });
}
