//! The random numbers of `math.random`: those of redis-server, whose scripts and functions all draw from one sequence. It begins
//! alike in each server, so that the same scripts give the same numbers, until one of them calls `math.randomseed`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The sequence of C's `lrand48`: a state of 48 bits.
const FACTOR: u64 = 0x5_deec_e66d;
const ADDEND: u64 = 0xb;
const MASK: u64 = (1 << 48) - 1;
/// The state of a server that starts.
const FIRST: u64 = 0x1234_abcd_330e;
/// The low bits of the state that a seed gives.
const SEEDED: u64 = 0x330e;
/// Numbers are drawn below this one.
const END: u64 = i32::MAX as u64;

/// The random numbers of a server's scripts.
#[derive(Debug)]
pub struct RandomNumbers(AtomicU64);

impl Default for RandomNumbers {
    fn default() -> RandomNumbers {
        RandomNumbers(AtomicU64::new(FIRST))
    }
}

impl RandomNumbers {
    /// The next number, from 0 and less than 1. One script runs at a time: two that draw at once might get the same one.
    pub(crate) fn draw(&self) -> f64 {
        let state = self.0.load(Relaxed).wrapping_mul(FACTOR).wrapping_add(ADDEND) & MASK;
        self.0.store(state, Relaxed);
        debug_assert!(state >> 17 <= END, "31 bits");
        ((state >> 17) % END) as f64 / END as f64
    }

    /// Begins the sequence of a seed, of which C takes 32 bits.
    pub(crate) fn seed(&self, seed: i64) {
        self.0.store(u64::from(seed as u32) << 16 | SEEDED, Relaxed);
    }
}
