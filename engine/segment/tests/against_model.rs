//! Random operations on a log of kilobyte segments, compared with a naive list.

mod model;

use model::{Model, Op, tiny};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use varve_segment::{ObjectKind, SegmentClass};

fn class() -> impl Strategy<Value = SegmentClass> {
    prop_oneof![Just(SegmentClass::Ordinary), Just(SegmentClass::Volatile), Just(SegmentClass::Survivor)]
}

fn expiry() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![Just(None), (0..1i64 << 48).prop_map(Some), any::<i64>().prop_map(Some)]
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..60usize, 3 => 60..700usize, 1 => 700..2100usize, 1 => 2100..20_000usize]
}

fn op() -> impl Strategy<Value = Op> {
    let which = any::<usize>;
    let kind = prop_oneof![
        4 => Just(ObjectKind::key(1)),
        1 => Just(ObjectKind::key(7)),
        1 => Just(ObjectKind::part(8)),
        1 => Just(ObjectKind::part(14)),
        1 => Just(ObjectKind::BARE),
    ];
    let key_len = prop_oneof![9 => 1..40usize, 1 => 200..3000usize];
    let extra = prop_oneof![3 => Just(0usize), 1 => 1..400usize];
    let append = (kind, key_len.clone(), len(), extra, expiry(), class(), any::<u32>()).prop_map(
        |(kind, key_len, len, extra, expiry, class, clock)| Op::Append {
            kind,
            key_len,
            len,
            extra,
            expiry,
            class,
            clock,
        },
    );
    prop_oneof![
        30 => append,
        1 => (key_len, 2049..20_000usize, expiry()).prop_map(|(key_len, len, expiry)| Op::Adopt { key_len, len, expiry }),
        12 => which().prop_map(Op::Kill),
        8 => (which(), len()).prop_map(|(i, len)| Op::Resize(i, len)),
        4 => (which(), 0usize..50, 0usize..300).prop_map(|(i, gap, len)| Op::Extend(i, gap, len)),
        4 => (which(), prop_oneof![0usize..20, 200usize..400, Just(3000)]).prop_map(|(i, len)| Op::Rename(i, len)),
        4 => (which(), expiry()).prop_map(|(i, at)| Op::Expire(i, at)),
        2 => (which(), any::<u32>(), any::<bool>()).prop_map(|(i, clock, saved)| Op::Mark(i, clock, saved)),
        4 => (which(), class()).prop_map(|(i, class)| Op::Relocate(i, class)),
        3 => which().prop_map(Op::Pin),
        2 => which().prop_map(Op::Unpin),
        8 => (which(), which(), 0usize..300).prop_map(|(i, from, len)| Op::Write(i, from, len)),
        4 => (which(), which(), 0usize..3000).prop_map(|(i, from, len)| Op::Read(i, from, len)),
        6 => Just(Op::Park),
        4 => Just(Op::Choose),
        10 => (which(), 1..50usize, any::<u8>(), any::<u8>())
            .prop_map(|(which, objects, evict, busy)| Op::Drain { which, objects, evict, busy }),
        1 => which().prop_map(Op::Abandon),
        1 => Just(Op::SealAll),
        1 => Just(Op::Clear),
        4 => (1..40_000usize).prop_map(Op::Release),
    ]
}

/// The seed is printed and taken from VARVE_SEED.
fn config() -> ProptestConfig {
    let given = std::env::var("VARVE_SEED").ok().map(|seed| seed.parse().expect("VARVE_SEED is a number"));
    let seed = given.unwrap_or_else(|| {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0)
    });
    println!("VARVE_SEED={seed}");
    ProptestConfig {
        cases: 200,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn log_is_its_model(ops in prop::collection::vec(op(), 1..400), page in any::<bool>()) {
        let mut model = Model::new(tiny(page));
        for (i, op) in ops.into_iter().enumerate() {
            model.step(op);
            if i % 16 == 15 {
                model.check();
            }
        }
        model.finish();
    }
}
