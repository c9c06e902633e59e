//! The gate under loom: every interleaving (up to a bound on preemptions) of a few threads.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p varve-store --test loom_gate --release`. Without `--cfg loom` this file is empty.
//! Loom fails a model whose threads all sleep, so a lost wake-up and a deadlock need no assertion here; mutual exclusion is
//! shown by loom's `UnsafeCell`, which reports any access that overlaps a write or is not ordered after it.

#![cfg(loom)]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use varve_store::gate::Gate;

/// Data that the gate protects: readers read their own cell, who is alone writes all.
struct House {
    gate: Gate,
    rooms: Vec<(UnsafeCell<()>, AtomicU32)>,
}

impl House {
    fn new(workers: usize) -> Arc<House> {
        let rooms = (0..workers).map(|_| (UnsafeCell::new(()), AtomicU32::new(0))).collect();
        Arc::new(House { gate: Gate::new(workers), rooms })
    }

    /// A batch: changes the worker's own room.
    fn batch(&self, worker: usize) {
        let _shared = self.gate.enter(worker);
        self.add_one(worker);
    }

    /// Changes every room.
    fn sweep(&self, worker: usize) {
        let _alone = self.gate.exclusive(worker);
        (0..self.rooms.len()).for_each(|room| self.add_one(room));
    }

    /// Loom's cell says that the access must be exclusive, and loom checks that it is; the value stands beside it.
    fn add_one(&self, room: usize) {
        let (claim, value) = &self.rooms[room];
        claim.with_mut(|_| value.store(value.load(Relaxed) + 1, Relaxed));
    }

    fn assert_rooms(&self, want: &[u32]) {
        let _alone = self.gate.exclusive(0);
        let got: Vec<u32> = self.rooms.iter().map(|(claim, value)| claim.with(|_| value.load(Relaxed))).collect();
        assert_eq!(got, want);
    }
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

#[test]
fn two_readers_and_a_writer() {
    // With fewer than 4, no history has both readers inside when the gate closes and one of them waking the writer too early.
    model(4, || {
        let house = House::new(3);
        let readers: Vec<_> = (0..2)
            .map(|worker| {
                let house = house.clone();
                thread::spawn(move || house.batch(worker))
            })
            .collect();
        house.sweep(2);
        readers.into_iter().for_each(|r| r.join().unwrap());
        house.assert_rooms(&[2, 2, 1]);
    });
}

#[test]
fn a_reader_that_comes_back_and_a_writer() {
    model(3, || {
        let house = House::new(2);
        let reader = {
            let house = house.clone();
            thread::spawn(move || {
                house.batch(0);
                house.batch(0);
            })
        };
        house.sweep(1);
        reader.join().unwrap();
        house.assert_rooms(&[3, 1]);
    });
}

#[test]
fn two_writers_take_turns() {
    model(3, || {
        let house = House::new(2);
        let other = {
            let house = house.clone();
            thread::spawn(move || {
                house.sweep(0);
                house.batch(0);
            })
        };
        house.sweep(1);
        other.join().unwrap();
        house.assert_rooms(&[3, 2]);
    });
}

#[test]
fn two_writers_and_a_reader() {
    model(3, || {
        let house = House::new(3);
        let others: Vec<_> = (0..2)
            .map(|worker| {
                let house = house.clone();
                thread::spawn(move || if worker == 0 { house.batch(0) } else { house.sweep(1) })
            })
            .collect();
        house.sweep(2);
        others.into_iter().for_each(|t| t.join().unwrap());
        house.assert_rooms(&[3, 2, 2]);
    });
}

#[test]
fn trying_never_waits_and_never_overlaps() {
    model(3, || {
        let house = House::new(2);
        let trier = {
            let house = house.clone();
            thread::spawn(move || {
                let Some(_shared) = house.gate.try_enter(0) else { return 0 };
                house.add_one(0);
                1
            })
        };
        house.sweep(1);
        let done = trier.join().unwrap();
        house.assert_rooms(&[1 + done, 1]);
    });
}

#[test]
fn one_who_gives_up_lets_the_others_in() {
    model(3, || {
        let house = House::new(2);
        let trier = {
            let house = house.clone();
            thread::spawn(move || {
                let Some(_alone) = house.gate.try_exclusive(0, 0) else { return 0 };
                (0..2).for_each(|room| house.add_one(room));
                1
            })
        };
        house.batch(1);
        house.sweep(1);
        let done = trier.join().unwrap();
        house.assert_rooms(&[1 + done, 2 + done]);
    });
}
