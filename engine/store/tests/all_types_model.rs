//! The store against a model of every type: random operations on two workers, tiny segments and limits, steps of the
//! background, everything compared. What the fuzz target `world` finds is named here.
//!
//! `VARVE_SEED` sets the first seed, `VARVE_WORLDS` how many of them.

mod all_types;
mod walker;

use all_types::{Op, World};
use varve_base::rng::Rng;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

#[test]
fn random_operations_agree_with_the_model() {
    let first = setting("VARVE_SEED", 1);
    for seed in first..first + setting("VARVE_WORLDS", 24) {
        println!("VARVE_SEED={seed}");
        let mut rng = Rng::seeded(seed);
        let mut byte = || rng.next_u64() as u8;
        let (mut world, kinds) = (World::new(byte()), byte());
        for _ in 0..1500 {
            let mut what = byte();
            // Half of the worlds keep to one type and to what concerns all.
            if kinds.is_multiple_of(2) && what % 64 < 43 {
                let (from, many) = [(0, 12), (12, 10), (22, 8), (30, 13)][usize::from(kinds / 2 % 4)];
                what = what & 192 | (from + what % 64 % many);
            }
            world.apply(Op { what, one: byte(), two: byte(), number: byte() });
        }
        world.finish();
    }
}
