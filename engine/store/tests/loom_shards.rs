//! Shard locks under loom: the protocol by which a command takes its shards.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p varve-store --test loom_shards --release`. Without `--cfg loom` this file is empty.
//! A command takes all its shards in ascending order by `try_lock`. If one is busy it lets go of all, has done nothing, and is
//! put back in the queue; the third time it keeps those that it has while it looks for the others a few times more, still
//! ascending, still before it changes a byte. A script, which has the token, takes shards in any order and waits for each; while
//! it waits, others pass by the shard that it wants.

#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use varve_base::rank::{Rank, RankedGuard, RankedMutex};
use varve_store::Token;

const TRIES_MAX: u32 = 2;
/// How often a command that was put back twice looks for a shard while it keeps others.
const LOOKS: u32 = 1;

/// The lock of a shard, and the word of a script that waits for it (`ShardCell` of the store).
struct Shard {
    lock: RankedMutex<u32>,
    wanted: AtomicBool,
}

impl Shard {
    fn lock(&self) -> RankedGuard<'_, u32> {
        self.lock.lock()
    }

    fn try_lock(&self) -> Option<RankedGuard<'_, u32>> {
        if self.wanted.load(Relaxed) { None } else { self.lock.try_lock() }
    }

    fn lock_for_script(&self) -> RankedGuard<'_, u32> {
        self.lock.try_lock_beside().unwrap_or_else(|| {
            self.wanted.store(true, Relaxed);
            let guard = self.lock.lock_beside();
            self.wanted.store(false, Relaxed);
            guard
        })
    }
}

fn shards(n: u32) -> Arc<Vec<Shard>> {
    let shard = |i| Shard { lock: RankedMutex::new(Rank::Shard(i), 0), wanted: AtomicBool::new(false) };
    Arc::new((0..n).map(shard).collect())
}

/// All of `wanted` (ascending), or nothing.
fn try_all<'s>(shards: &'s [Shard], wanted: &[usize]) -> Option<Vec<RankedGuard<'s, u32>>> {
    wanted.iter().map(|&i| shards[i].try_lock()).collect()
}

/// All of `wanted` (ascending), or nothing. A busy shard is looked at `looks` times more.
fn take_all<'s>(shards: &'s [Shard], wanted: &[usize], looks: u32) -> Option<Vec<RankedGuard<'s, u32>>> {
    let take = |&i: &usize| {
        (0..=looks).find_map(|look| {
            if look > 0 {
                thread::yield_now();
            }
            shards[i].try_lock()
        })
    };
    wanted.iter().map(take).collect()
}

/// Tries until it succeeds: the worker serves others meanwhile.
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        match attempt() {
            Some(done) => return done,
            None => thread::yield_now(),
        }
    }
}

/// Runs a script that adds 1 to each of these shards, in this order, once it has the token.
fn run_script(token: &Token, shards: &[Shard], order: &[usize]) {
    let _token = until(|| token.try_script());
    let mut held: Vec<_> = order.iter().map(|&i| shards[i].lock_for_script()).collect();
    let before = *held[0];
    for shard in &held {
        assert_eq!(**shard, before, "another was seen half done");
    }
    held.iter_mut().for_each(|shard| **shard += 1);
}

/// Runs one command that adds 1 to each wanted shard; how often it was found busy.
fn run(shards: &[Shard], wanted: &[usize]) -> u32 {
    assert!(wanted.is_sorted());
    let mut busy = 0;
    let mut held = loop {
        let looks = if busy < TRIES_MAX { 0 } else { LOOKS };
        if let Some(held) = take_all(shards, wanted, looks) {
            break held;
        }
        // Busy: nothing is held and nothing has been changed. The worker serves others.
        if busy < TRIES_MAX {
            busy += 1;
            thread::yield_now();
        } else {
            // Time passes until each of them has been free once: loom has no clock, and would try for ever.
            wanted.iter().for_each(|&i| drop(shards[i].lock()));
        }
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

#[test]
fn a_script_takes_shards_in_any_order_beside_commands() {
    model(3, || {
        let (token, shards) = (Arc::new(Token::default()), shards(2));
        let other = {
            let shards = shards.clone();
            thread::spawn(move || run(&shards, &[0, 1]))
        };
        run_script(&token, &shards, &[1, 0]);
        other.join().unwrap();
        assert_eq!([*shards[0].lock(), *shards[1].lock()], [2, 2]);
    });
}

#[test]
fn two_scripts_that_take_shards_in_opposite_orders_go_one_after_the_other() {
    model(3, || {
        let (token, shards) = (Arc::new(Token::default()), shards(2));
        let other = {
            let (token, shards) = (token.clone(), shards.clone());
            thread::spawn(move || run_script(&token, &shards, &[0, 1]))
        };
        run_script(&token, &shards, &[1, 0]);
        other.join().unwrap();
        assert_eq!([*shards[0].lock(), *shards[1].lock()], [2, 2]);
    });
}

/// The word of a script that waits for a shard: others pass by the shard and change nothing meanwhile, one after the other, and
/// the word is gone once the script has the lock.
#[test]
fn a_shard_that_a_script_waits_for_is_passed_by_and_free_behind_it() {
    model(2, || {
        let (token, shards) = (Arc::new(Token::default()), shards(1));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let shards = shards.clone();
                thread::spawn(move || {
                    try_all(&shards, &[0]).map_or(0, |mut held| {
                        *held[0] += 1;
                        1
                    })
                })
            })
            .collect();
        run_script(&token, &shards, &[0]);
        let done: u32 = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert_eq!(*shards[0].try_lock().expect("no word is left"), 1 + done);
    });
}

/// The script rests with shard 1 held, as one does whose slice is over: its thread tries for locks, and waits for none.
#[test]
fn a_script_that_rests_waits_for_nobody_and_is_gone_on_with() {
    model(3, || {
        let (token, shards) = (Arc::new(Token::default()), shards(2));
        let other = {
            let shards = shards.clone();
            thread::spawn(move || run(&shards, &[0, 1]))
        };
        {
            let _token = token.try_script().expect("nobody else asks");
            let mut first = shards[1].lock_for_script();
            // The thread's other part, which serves others in between.
            assert!(shards[1].try_lock().is_none() && token.try_script().is_none());
            drop(shards[0].try_lock());
            let mut second = shards[0].lock_for_script();
            *first += 1;
            *second += 1;
        }
        other.join().unwrap();
        assert_eq!([*shards[0].lock(), *shards[1].lock()], [2, 2]);
    });
}
