//! The wheel against a map from entry to due time. Seeds are printed; VARVE_SEED repeats one.

use super::*;
use std::collections::{HashMap, HashSet};

/// A small generator of the tests' own: the same numbers for the same seed whatever the engine's generator becomes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(varve_base::hash::GOLDEN_RATIO);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// 0 to 2^bits - 1, each order of magnitude as likely as another.
    fn spread(&mut self, bits: u64) -> i64 {
        let bits = self.below(bits + 1);
        (self.next() & ((1 << bits) - 1)) as i64
    }

    fn bits48(&mut self) -> u64 {
        self.next() >> 16
    }
}

/// Runs `body` for some seeds, or for the one in VARVE_SEED.
fn seeds(rounds: u64, body: impl Fn(&mut Random)) {
    let given = std::env::var("VARVE_SEED").ok().map(|s| s.parse().expect("VARVE_SEED is a number"));
    let first = given.unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos() as u64
    });
    for i in 0..if given.is_some() { 1 } else { rounds } {
        let seed = first.wrapping_add(i);
        println!("VARVE_SEED={seed}");
        body(&mut Random(seed));
    }
}

/// A shard as the wheel sees it: volatile keys with their times, and what came out for them.
struct Owner {
    wheel: Wheel,
    now: i64,
    due: HashMap<u64, i64>,
    /// Entries that came out before their key was due.
    early: usize,
    adds: usize,
}

const START: i64 = 1_700_000_000_000;

impl Owner {
    fn new() -> Owner {
        let mut wheel = Wheel::new();
        assert!(!wheel.advance(START, 0, &mut Vec::new()).more);
        Owner { wheel, now: START, due: HashMap::new(), early: 0, adds: 0 }
    }

    fn set(&mut self, bits: u64, due: i64) {
        let old = self.due.insert(bits, due);
        // A longer TTL needs no entry: the old one asks in time.
        if old.is_none_or(|old| due < old) {
            self.add(bits, due);
        }
    }

    fn add(&mut self, bits: u64, due: i64) {
        self.wheel.add(bits, due);
        self.adds += 1;
    }

    /// Does what the owner does with entries that came out.
    fn settle(&mut self, out: &[u64]) {
        for &bits in out {
            match self.due.get(&bits) {
                Some(&due) if due <= self.now => drop(self.due.remove(&bits)),
                Some(&due) => {
                    self.early += 1;
                    self.add(bits, due);
                }
                None => {}
            }
        }
    }

    /// One call; true while there is more.
    fn step(&mut self, budget: usize) -> bool {
        let mut out = Vec::new();
        let progress = self.wheel.advance(self.now, budget, &mut out);
        assert!(out.len() <= budget);
        self.settle(&out);
        progress.more
    }

    /// Calls until nothing is left; fails if that does not end.
    fn run(&mut self, budget: usize) {
        // Each entry comes out once at one time; besides, chunks are moved.
        let limit = 20 + (self.wheel.len() + self.wheel.bytes() / 64) / budget;
        for _ in 0..limit {
            if !self.step(budget) {
                return;
            }
        }
        panic!("more than {limit} calls at one time: {:?}", self.wheel);
    }

    /// After `run`: whose tick has fully passed is gone.
    fn assert_none_late(&self, slack_ms: i64) {
        for (&bits, &due) in &self.due {
            assert!(tick(due) >= tick(self.now - slack_ms), "{bits:x} is {} ms late", self.now - due);
        }
    }

    /// Takes everything out: each live key comes once.
    fn assert_all_there(mut self) {
        let mut out = Vec::new();
        let len = self.wheel.len();
        while self.wheel.drain_all(7, &mut out).more {
            self.wheel.verify();
        }
        assert!(self.wheel.is_empty() && out.len() <= len);
        let seen: HashSet<u64> = out.iter().copied().collect();
        assert_eq!(seen.len(), out.len(), "each once");
        assert!(self.due.keys().all(|bits| seen.contains(bits)), "a live key is lost");
    }
}

#[test]
fn unused_wheels_are_nearly_free() {
    let mut wheel = Wheel::new();
    assert_eq!((wheel.bytes(), wheel.len(), wheel.next_due(5), wheel.oldest_due()), (0, 0, None, None));
    assert_eq!(wheel.sample(|| 1), None);
    let mut out = Vec::new();
    assert_eq!(wheel.advance(START, 100, &mut out), Progress { more: false });
    assert_eq!(wheel.drain_all(100, &mut out), Progress { more: false });
    assert!(!wheel.should_rebuild(0) && out.is_empty());
    assert_eq!(wheel.bytes(), 0);
}

#[test]
fn an_entry_comes_when_its_tick_has_passed_and_not_before() {
    let mut owner = Owner::new();
    let due = START + 1_000;
    owner.set(42, due);
    let passed = (due / TICK_MS + 1) * TICK_MS;
    let mut out = Vec::new();
    assert_eq!(owner.wheel.next_due(START), Some(passed));
    assert_eq!(owner.wheel.oldest_due(), Some(due / TICK_MS * TICK_MS));
    let _ = owner.wheel.advance(passed - 1, 10, &mut out);
    assert!(out.is_empty());
    assert_eq!(owner.wheel.advance(passed, 10, &mut out), Progress { more: false });
    assert_eq!((out, owner.wheel.len()), (vec![42], 0));
}

#[test]
fn short_times_are_looked_at_once_and_an_hour_three_times() {
    for (ttl_ms, looks) in [(50, 1), (4_000, 1), (5_000, 2), (500_000, 2), (3_600_000, 3), (86_400_000 * 90, 4)] {
        let mut owner = Owner::new();
        owner.set(7, START + ttl_ms);
        let mut calls = 0;
        while !owner.due.is_empty() {
            owner.now = owner.wheel.next_due(owner.now).expect("not empty");
            owner.run(10);
            calls += 1;
        }
        assert_eq!((owner.early + 1, calls), (looks, looks), "TTL {ttl_ms}");
        assert!(owner.now - START - ttl_ms <= TICK_MS);
    }
}

#[test]
fn a_driver_that_sleeps_until_next_due_is_never_a_tick_late() {
    seeds(20, |random| {
        let mut owner = Owner::new();
        for _ in 0..300 {
            let due = START + 1 + random.spread(36);
            owner.set(random.bits48(), due);
        }
        while let Some(next) = owner.wheel.next_due(owner.now) {
            if next > owner.now {
                // Nothing happens before.
                let (len, early) = (owner.wheel.len(), owner.early);
                owner.now = next - 1;
                owner.run(16);
                assert_eq!((owner.wheel.len(), owner.early), (len, early));
            }
            owner.now = next;
            owner.run(16);
            owner.assert_none_late(0);
        }
        assert!(owner.due.is_empty() && owner.wheel.is_empty());
    });
}

/// Keys come, go, and change their times; the clock goes on. `jump` may move it anywhere.
fn churn(random: &mut Random, steps: usize, jump: impl Fn(&mut Random, &mut Owner)) -> Owner {
    let mut owner = Owner::new();
    let mut known: Vec<u64> = Vec::new();
    for _ in 0..steps {
        let due = owner.now + 1 + random.spread(42);
        match random.below(20) {
            0..=7 => {
                let bits = random.bits48();
                known.push(bits);
                owner.set(bits, due);
            }
            8..=10 if !known.is_empty() => {
                let bits = known[random.below(known.len() as u64) as usize];
                owner.set(bits, due);
            }
            11..=12 if !known.is_empty() => {
                let bits = known.swap_remove(random.below(known.len() as u64) as usize);
                owner.due.remove(&bits);
            }
            13..=17 => owner.now += random.spread(22),
            18 => drop(owner.step(random.below(40) as usize)),
            _ => jump(random, &mut owner),
        }
        if random.below(8) == 0 {
            owner.run(1 + random.below(50) as usize);
            owner.wheel.verify();
        }
        if owner.wheel.should_rebuild(owner.due.len()) {
            let mut out = Vec::new();
            let _ = owner.wheel.drain_all(5, &mut out);
            owner.settle(&out);
        }
    }
    owner
}

#[test]
fn churn_with_a_steady_clock_is_never_late_and_seldom_early() {
    seeds(30, |random| {
        let mut owner = churn(random, 3_000, |random, owner| {
            owner.now += random.spread(8);
            owner.run(1 + random.below(50) as usize);
            owner.assert_none_late(0);
        });
        owner.run(64);
        owner.assert_none_late(0);
        let first_adds = owner.adds - owner.early;
        assert!(owner.early <= first_adds * LEVELS, "{} looks ahead for {first_adds} entries", owner.early);
        let least = owner.due.values().min();
        assert!(least.is_none_or(|&least| owner.wheel.oldest_due().is_some_and(|oldest| oldest <= least)));
        owner.assert_all_there();
    });
}

#[test]
fn churn_with_a_clock_that_jumps_loses_nothing() {
    seeds(30, |random| {
        let mut owner = churn(random, 3_000, |random, owner| {
            let far = random.spread(44);
            owner.now = if random.below(2) == 0 { owner.now + far } else { (owner.now - far).max(0) };
            let _ = owner.step(1 + random.below(50) as usize);
        });
        // ReportedMemory the time once, then given a round of the first level: nothing that is due is left.
        owner.run(64);
        owner.now += (CELLS as i64 + 1) * TICK_MS + BACK_TICKS_MAX as i64 * TICK_MS;
        owner.run(64);
        owner.assert_none_late((CELLS as i64 + 1) * TICK_MS + BACK_TICKS_MAX as i64 * TICK_MS);
        owner.wheel.verify();
        owner.assert_all_there();
    });
}

#[test]
fn times_at_the_ends_of_the_range_are_taken() {
    let mut wheel = Wheel::new();
    for (bits, due) in [(1, i64::MIN), (2, -1), (3, 0), (4, i64::MAX), ((1 << 48) - 1, i64::MAX - 1)] {
        wheel.add(bits, due);
    }
    let mut out = Vec::new();
    assert!(!wheel.advance(i64::MAX, 100, &mut out).more);
    assert!([1, 2, 3].iter().all(|bits| out.contains(bits)));
    let left: Vec<u64> = [4, (1 << 48) - 1].into_iter().filter(|bits| !out.contains(bits)).collect();
    assert_eq!(wheel.len(), left.len());
    let _ = (wheel.next_due(i64::MAX), wheel.oldest_due());
    assert!(!wheel.advance(i64::MIN, 100, &mut out).more);
    wheel.verify();
}

#[test]
#[should_panic(expected = "an entry has 48 bits")]
fn an_entry_of_49_bits() {
    Wheel::new().add(1 << 48, 0);
}

#[test]
fn an_idle_century_is_skipped_at_once() {
    let mut owner = Owner::new();
    (0..1_000).for_each(|i| owner.set(i, START + 1 + (i as i64) * 3_600_000));
    owner.now += 100 * 365 * 86_400_000;
    let started = std::time::Instant::now();
    owner.run(100);
    assert!(owner.due.is_empty() && owner.wheel.is_empty());
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn the_two_kinds_do_not_starve_each_other() {
    let mut owner = Owner::new();
    // Due in the first level, and ahead of time at level 1, both more than the budgets below.
    (0..1_000).for_each(|i| owner.set(i, START + 2_000));
    (1_000..2_000).for_each(|i| owner.set(i, START + 6_000));
    owner.now = START + 4_100;
    let mut out = Vec::new();
    assert!(owner.wheel.advance(owner.now, 100, &mut out).more);
    let ahead = out.iter().filter(|&&bits| bits >= 1_000).count();
    assert_eq!((ahead, out.len()), (25, 100));
}

#[test]
fn one_key_added_again_and_again_is_one_entry() {
    let mut wheel = Wheel::new();
    (0..100).for_each(|_| wheel.add(9, 1_000));
    assert_eq!(wheel.len(), 1);
}

#[test]
fn stale_entries_call_for_a_rebuild_that_leaves_the_live_ones() {
    seeds(5, |random| {
        let mut owner = Owner::new();
        let live: Vec<u64> = (0..1_000).map(|_| random.bits48()).collect();
        for round in 0..4 {
            for &bits in &live {
                owner.set(bits, START + 90_000 - round * 10_000);
            }
        }
        assert_eq!(owner.wheel.len(), 4_000);
        assert!(owner.wheel.should_rebuild(1_000) && !owner.wheel.should_rebuild(2_000));
        let mut steps = 0;
        loop {
            let mut out = Vec::new();
            let progress = owner.wheel.drain_all(64, &mut out);
            assert!(out.len() <= 64);
            owner.settle(&out);
            owner.wheel.verify();
            assert!(!owner.wheel.should_rebuild(1_000));
            assert!(owner.wheel.sample(|| random.next()).is_some_and(|bits| live.contains(&bits)));
            steps += 1;
            if !progress.more {
                break;
            }
        }
        assert_eq!(owner.wheel.len(), 1_000);
        assert!((16..80).contains(&steps), "{steps} steps");
        owner.now += 100_000;
        owner.run(64);
        assert!(owner.due.is_empty() && owner.wheel.is_empty());
    });
}

#[test]
fn a_rebuild_goes_on_in_advance() {
    let mut owner = Owner::new();
    (0..1_000).for_each(|i| owner.set(i, START + 60_000 + i as i64));
    let mut out = Vec::new();
    assert!(owner.wheel.drain_all(10, &mut out).more);
    owner.settle(&out);
    assert_eq!(owner.wheel.next_due(owner.now), Some(owner.now));
    owner.run(50);
    assert!(owner.wheel.aside.is_none());
    assert_eq!(owner.wheel.len(), 1_000);
}

#[test]
fn memory_is_about_ten_bytes_an_entry_and_is_given_back() {
    let mut random = Random(1);
    let mut owner = Owner::new();
    let n = 50_000;
    (0..n).for_each(|i| owner.set(i, START + 1 + random.below(3_600_000) as i64));
    let full = owner.wheel.bytes();
    assert!(full <= n as usize * 10, "{} bytes an entry", full as f64 / n as f64);
    // Keys go evenly over all cells: the pool gets holes everywhere.
    let mut out = Vec::new();
    while owner.wheel.drain_all(1_000, &mut out).more {}
    out.iter().filter(|&&bits| bits % 16 == 0).for_each(|&bits| owner.wheel.add(bits, START + 1_800_000));
    owner.run(1_000);
    assert!(owner.wheel.bytes() * 8 < full, "{} of {full}", owner.wheel.bytes());
    drop(owner.wheel.take());
    assert_eq!((owner.wheel.len(), owner.wheel.bytes()), (0, 0));
}

#[test]
fn a_sparse_pool_is_compacted_in_steps_and_keeps_every_entry() {
    seeds(5, |random| {
        let mut owner = Owner::new();
        // Filed by turns, so that each cell's chunks stand all over the pool; then two cells of three expire.
        for i in 0..60_000u64 {
            owner.set(i, START + if i % 30 < 29 { 100 } else { 200_000 } + random.below(2_000) as i64);
        }
        let full = owner.wheel.bytes();
        owner.now += 3_000;
        let (mut steps, mut sampled) = (0, 0);
        while owner.step(64) {
            steps += 1;
            sampled += u64::from(owner.wheel.sample(|| random.next()).is_some());
            if steps % 50 == 0 {
                owner.wheel.verify();
            }
        }
        assert_eq!(sampled, steps);
        owner.wheel.verify();
        owner.assert_none_late(0);
        assert_eq!(owner.due.len(), 2_000);
        assert!(owner.wheel.bytes() * 4 < full, "{} of {full}", owner.wheel.bytes());
        owner.assert_all_there();
    });
}

#[test]
fn sampling_is_about_even() {
    let mut random = Random(3);
    let mut owner = Owner::new();
    (0..100).for_each(|i| owner.set(i, START + 1 + random.spread(30)));
    let mut hits = [0u32; 100];
    (0..20_000).for_each(|_| hits[owner.wheel.sample(|| random.next()).expect("not empty") as usize] += 1);
    assert!(hits.iter().all(|&n| (100..320).contains(&n)), "{hits:?}");
}

#[test]
fn taking_leaves_an_empty_wheel_that_knows_the_time() {
    let mut owner = Owner::new();
    owner.set(1, START + 10);
    let old = owner.wheel.take();
    assert_eq!((old.len(), owner.wheel.len(), owner.wheel.bytes()), (1, 0, 0));
    owner.wheel.add(2, START + 1_000);
    assert_eq!(owner.wheel.oldest_due(), Some((START + 1_000) / TICK_MS * TICK_MS));
}
