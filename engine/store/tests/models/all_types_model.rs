//! The store against a model of every type: random operations on two workers, tiny segments and limits, steps of the
//! background, everything compared. What the fuzz target `world` finds is named here.
//!
//! `VARVE_SEED` sets the first seed, `VARVE_WORLDS` how many of them.

use varve_base::rng::Rng;
use varve_store::Type;

use crate::all_types::{Op, World, operations};
use crate::setting;

#[test]
fn random_operations_agree_with_the_model() {
    let first = setting("VARVE_SEED", 1);
    for seed in first..first + setting("VARVE_WORLDS", 24) {
        println!("VARVE_SEED={seed}");
        let mut rng = Rng::seeded(seed);
        let mut byte = || rng.next_u64() as u8;
        let mut world = World::new(byte());
        // Half of the worlds keep to one type and to what concerns all.
        let families = Type::ALL.map(operations);
        let of_types = families.iter().map(|family| family.end).max().expect("there are types");
        let only =
            Some(&families[usize::from(byte()) % families.len()]).filter(|only| byte() % 2 == 0 && !only.is_empty());
        for _ in 0..1500 {
            let mut what = byte();
            if let Some(only) = only
                && what % 64 < of_types
            {
                what = what & 192 | (only.start + what % 64 % only.len() as u8);
            }
            world.apply(Op { what, one: byte(), two: byte(), number: byte() });
        }
        world.finish();
    }
}
