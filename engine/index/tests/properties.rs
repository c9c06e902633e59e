//! Random operations on a real table and a naive one. The seed is printed and taken from VARVE_SEED.

#[allow(unreachable_pub, dead_code, reason = "shared with the fuzz target, which uses other parts of it")]
mod model;

use model::{HashKind, Op, World};
use proptest::prelude::*;
use varve_base::Ref;
use varve_base::group::Tag;
use varve_base::hash::mix64;
use varve_base::rng::Rng;
use varve_index::{CellNumber, IndexGeometry, IndexTable, Rehash};

/// References are numbers; their hash is a mix of them.
struct Mixed;

impl Rehash for Mixed {
    fn hash(&self, r: Ref, _: Tag) -> u64 {
        mix64(r.bits())
    }
}

fn r(bits: u64) -> Ref {
    // SAFETY: in range, never followed.
    unsafe { Ref::from_bits(bits) }
}

fn seed() -> u64 {
    let seed = std::env::var("VARVE_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos() as u64));
    println!("VARVE_SEED={seed}");
    seed
}

fn op() -> impl Strategy<Value = Op> {
    let kind = any::<u8>().prop_map(HashKind::of);
    prop_oneof![
        12 => (kind.clone(), any::<u64>()).prop_map(|(kind, x)| Op::Insert(kind, x)),
        5 => any::<u64>().prop_map(Op::Remove),
        1 => any::<u64>().prop_map(Op::RemoveMany),
        3 => any::<u64>().prop_map(Op::Replace),
        3 => any::<u64>().prop_map(Op::Find),
        2 => (kind, any::<u64>()).prop_map(|(kind, x)| Op::FindHash(kind, x)),
        3 => any::<u8>().prop_map(Op::Step),
        6 => Just(Op::Scan),
        1 => any::<u64>().prop_map(Op::Sample),
        1 => Just(Op::Verify),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_list(first in 1u32..6, displace in 0u32..4, ops in prop::collection::vec(op(), 1..400)) {
        let mut world = World::new(IndexGeometry { first_buckets: first, displace, ..IndexGeometry::default() });
        ops.into_iter().for_each(|op| world.apply(op));
        world.finish();
    }

    #[test]
    fn empties_in_steps(first in 1u32..40, displace in 0u32..4, ops in prop::collection::vec(op(), 1..600), seed: u64) {
        let mut world = World::new(IndexGeometry { first_buckets: first, displace, ..IndexGeometry::default() });
        ops.into_iter().for_each(|op| world.apply(op));
        world.drain(seed);
    }
}

/// Long runs that swing between nearly empty and a thousand entries, with one kind of hash or all.
#[test]
fn long_runs() {
    let mut rng = Rng::seeded(seed());
    for run in 0..24u8 {
        let mut world = World::new(IndexGeometry {
            first_buckets: 4,
            displace: u32::from(run % 3),
            move_buckets: 1 + u32::from(run % 2),
            growth: if run % 4 < 2 { 1.25 } else { 1.125 },
            shard_scale: (u32::from(run), 24),
        });
        for i in 0..4_000u32 {
            let growing = i / 1_000 % 2 == 0;
            let kind =
                if run < 6 { HashKind::of(run) } else { HashKind::of([0, 0, 0, rng.next_u64() as u8][i as usize % 4]) };
            let x = rng.next_u64();
            world.apply(match rng.below(20) {
                0..10 if growing => Op::Insert(kind, x),
                0..10 => Op::Remove(x),
                10..12 => Op::Insert(kind, x),
                12 => Op::Replace(x),
                13 => Op::Find(x),
                14 => Op::FindHash(kind, x),
                15 => Op::Sample(x),
                16 if x.is_multiple_of(50) => Op::Verify,
                16 if x % 701 == 1 => Op::Clear,
                17 => Op::Step(x as u8),
                _ => Op::Scan,
            });
        }
        if run % 2 == 0 { world.drain(rng.next_u64()) } else { drop(world.finish()) }
    }
}

/// The load and the entries in overflow buckets of both factors, over two doublings from sizes that they begin at; and
/// what must hold of every move: it ends before the new table is full, and the old one is not overfull meanwhile.
#[test]
fn moves_end_in_time() {
    for (growth, first, least) in [(1.25, 1_000, 0.70), (1.125, 1_000, 0.775), (1.125, 8_000, 0.79)] {
        let mut table = IndexTable::new(IndexGeometry { first_buckets: first, growth, ..IndexGeometry::default() });
        let (mut i, mut moving, mut moves, mut most_chained) = (0u64, false, 0, 0.0f64);
        while i < u64::from(first) * 7 * 3 {
            i += 1;
            table.insert(mix64(i), r(i), &Mixed);
            let stats = table.stats();
            if moving && stats.old_buckets == 0 {
                moves += 1;
                assert!(table.load() < 0.88, "{growth}: a move ended at {}", table.load());
                assert!(table.load() > least, "{growth}: a table begins its life at {}", table.load());
            }
            moving = stats.old_buckets > 0;
            most_chained = most_chained.max(stats.overflow_buckets as f64 / (stats.buckets + stats.old_buckets) as f64);
        }
        table.verify(&Mixed);
        println!("growth {growth} from {first}: {moves} moves, at most {most_chained:.3} overflow buckets a bucket");
        assert!(moves >= 4 && most_chained < 0.08, "{growth}: {moves} moves, {most_chained}");
    }
}

/// Memory goes back while a large table is emptied, in the middle of a move too.
#[test]
fn emptying_gives_memory_back() {
    for many in [300_000u64, 300_500, 301_000, 310_000] {
        let geometry = IndexGeometry { growth: 1.125, ..IndexGeometry::default() };
        let mut table = IndexTable::new(geometry);
        (1..=many).for_each(|i| table.insert(mix64(i), r(i), &Mixed));
        let (full, mut left, mut steps) = (table.bytes(), vec![true; many as usize + 1], 0);
        left[0] = false;
        while !table.drain_step(64, &mut |r| assert!(std::mem::take(&mut left[r.bits() as usize]))) {
            steps += 1;
            let share = table.len() as f64 / many as f64;
            let allowed = full as f64 * share + 700_000.0;
            assert!((table.bytes() as f64) < allowed, "{} bytes for {} of {many}", table.bytes(), table.len());
            if steps % 100 == 50 {
                table.verify(&Mixed);
            }
        }
        assert!(left.iter().all(|&there| !there) && table.bytes() == 0);
    }
}

#[test]
fn many_equal_hashes_end() {
    let mut world = World::new(IndexGeometry::default());
    for _ in 0..500 {
        world.apply(Op::Insert(HashKind::Equal, 0));
    }
    world.verify();
    world.apply(Op::RemoveMany(0));
    let table = world.finish();
    assert_eq!((table.stats().overflow_buckets, table.len()), (0, 0));
}

/// A table large enough for mappings and for memory given back in steps, up and down.
#[test]
fn large_growth_and_shrink() {
    let mut table = IndexTable::new(IndexGeometry::default());
    let many = 200_000u64;
    for i in 1..=many {
        table.insert(mix64(i), r(i), &Mixed);
        if i % 50_000 == 0 || i == 130_003 {
            table.verify(&Mixed);
        }
    }
    assert!(table.load() > 0.7, "{:?}", table.stats());
    let full = table.bytes();
    assert!(full as u64 <= many * 14, "{full} bytes");
    let mut seen = 0u64;
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        cursor = table.scan(from, &Mixed, |_| seen += 1);
    }
    assert_eq!(seen, many);
    for i in 1..=many - 1_000 {
        let entry = table.find_ref(mix64(i), r(i)).expect("it is there");
        table.remove(entry);
    }
    let mut steps = 0;
    while table.step(&Mixed, 64) {
        steps += 1;
        if steps % 200 == 0 {
            table.verify(&Mixed);
        }
    }
    table.verify(&Mixed);
    assert!(table.bytes() <= 16_384, "{:?}", table.stats());
    assert!((0.5..=0.9).contains(&table.load()), "{:?}", table.stats());
}

/// At the fullest few entries are in overflow buckets, and those cost little memory.
#[test]
fn overflow_is_rare_at_full_load() {
    let mut table = IndexTable::new(IndexGeometry { first_buckets: 1_000, ..IndexGeometry::default() });
    let mut last = 0;
    for i in 1..=60_000u64 {
        table.insert(mix64(i), r(i), &Mixed);
        let percent = (table.load() * 100.0) as u64;
        if table.stats().old_buckets == 0 && percent != last && [87, 89].contains(&percent) {
            last = percent;
            let census = table.verify(&Mixed);
            let chained = census.chained as f64 / census.total() as f64;
            let buckets = table.stats().overflow_buckets as f64 / table.stats().buckets as f64;
            println!("load {percent}%: {chained:.4} of the entries chained, {buckets:.4} overflow buckets a bucket");
            assert!(chained < if percent == 87 { 0.011 } else { 0.014 } && buckets < 0.06);
        }
    }
    assert!(last > 0, "never looked");
}

#[test]
fn sampling_reaches_everything() {
    let seed = seed();
    let mut table = IndexTable::new(IndexGeometry::default());
    let mut rng = Rng::seeded(seed);
    assert_eq!(table.sample(&mut rng), None);
    for i in 1..=300u64 {
        table.insert(mix64(i), r(i), &Mixed);
    }
    let mut counts = vec![0u32; 301];
    for _ in 0..300 * 200 {
        counts[table.sample(&mut rng).expect("not empty").bits() as usize] += 1;
    }
    assert!(counts[1..].iter().all(|&n| (100..320).contains(&n)), "seed {seed}: {counts:?}");
}

#[test]
fn sampling_reaches_everything_while_the_table_moves() {
    let seed = seed();
    let (mut table, mut rng) = (IndexTable::new(IndexGeometry::default()), Rng::seeded(seed));
    let (mut counts, mut moves) = (vec![0u32; 1201], 0);
    for i in 1..=1_200u64 {
        table.insert(mix64(i ^ seed), r(i), &Other(seed));
        if !table.is_moving() || !i.is_multiple_of(7) {
            continue;
        }
        moves += 1;
        counts.fill(0);
        for _ in 0..i * 40 {
            counts[table.sample(&mut rng).expect("not empty").bits() as usize] += 1;
        }
        let missed = counts[1..=i as usize].iter().filter(|&&n| n < 4).count();
        assert!(missed == 0, "seed {seed}: {missed} of {i} entries are hardly ever drawn");
    }
    assert!(moves > 10, "{moves} looks at a table that moves");
}

/// Hashes of entries by a seed.
struct Other(u64);

impl Rehash for Other {
    fn hash(&self, r: Ref, _: Tag) -> u64 {
        mix64(r.bits() ^ self.0)
    }
}

#[test]
fn taken_table_lives_on_and_hint_stays() {
    let mut table = IndexTable::new(IndexGeometry::shard(3, 8));
    let hint = table.hint();
    hint.prefetch(1);
    assert_eq!(hint.cells(), 0, "there is no bucket");
    for i in 1..=1_000u64 {
        table.insert(mix64(i), r(i), &Mixed);
        hint.prefetch(mix64(i));
    }
    let taken = table.take();
    taken.verify(&Mixed);
    assert_eq!((taken.len(), table.len(), table.bytes()), (1_000, 0, 0));
    drop(taken);
    hint.prefetch(7);
    table.insert(mix64(1), r(1), &Mixed);
    table.verify(&Mixed);
}

#[test]
#[should_panic(expected = "no longer valid")]
fn stale_entry_panics() {
    let mut table = IndexTable::new(IndexGeometry::default());
    table.insert(mix64(1), r(1), &Mixed);
    let entry = table.find_ref(mix64(1), r(1)).expect("it is there");
    table.remove(entry);
    table.get(entry);
}

/// Numbers that say their hash together with the tag: 32 bits of the position in the number, the other four in the tag.
struct Told;

fn told(n: u64) -> (u64, CellNumber) {
    let hash = mix64(n) & 0x000f_ffff_fff0_ffff;
    let hash = hash | (hash & 0xf000) << 4;
    (hash, CellNumber::new((hash >> 20) << 16 | n & 0xffff))
}

impl Rehash<CellNumber> for Told {
    fn hash(&self, cell: CellNumber, tag: Tag) -> u64 {
        let tag = u64::from(tag.0);
        cell.get() >> 16 << 20 | (tag & 0xf000) << 4 | tag
    }
}

#[test]
fn numbers_say_their_hash_with_the_tag() {
    let mut table = IndexTable::new(IndexGeometry { first_buckets: 1, ..IndexGeometry::default() });
    for n in 0..5_000 {
        let (hash, cell) = told(n);
        table.insert(hash, cell, &Told);
        assert!(n % 500 != 0 || table.verify(&Told).total() as u64 == n + 1);
    }
    let mut seen = 0;
    let mut next = Some(0);
    while let Some(from) = next {
        next = table.scan_tagged(from, &Told, |cell, tag| {
            let hash = Told.hash(cell, tag);
            assert!(table.find_ref(hash, cell).is_some(), "{cell:?}");
            seen += 1;
        });
    }
    assert!(seen >= 5_000);
    for n in 0..4_990 {
        let (hash, cell) = told(n);
        let entry = table.find_ref(hash, cell).expect("it was put in");
        assert_eq!(table.remove(entry), cell);
    }
    while table.step(&Told, 100) {}
    assert_eq!(table.verify(&Told).total(), 10);
}

#[test]
#[should_panic(expected = "a number of 48 bits")]
fn a_number_has_48_bits() {
    CellNumber::new(1 << 48);
}

/// Entries that are expected move nothing: the table has its size from the beginning, or grows to it at once.
#[test]
fn a_table_of_expected_entries_does_not_move_and_does_not_shrink() {
    const ENTRIES: u64 = 10_000;
    for before in [0, 1000] {
        let mut table = IndexTable::new(IndexGeometry::default());
        (1..=before).for_each(|n| table.insert(mix64(n), r(n), &Mixed));
        while table.step(&Mixed, 100) {}
        table.expect(ENTRIES as usize);
        let mut sizes = vec![table.stats().buckets];
        for n in before + 1..=ENTRIES {
            table.insert(mix64(n), r(n), &Mixed);
            assert!(before > 0 || !table.is_moving() && !table.wants_move(), "an entry moves at {n}");
            sizes.push(table.stats().buckets);
        }
        sizes.dedup();
        assert_eq!(sizes.len(), 2, "from the size of {before} entries to the last one: {sizes:?}");
        table.verify(&Mixed);
        (ENTRIES + 1..2 * ENTRIES).for_each(|n| table.insert(mix64(n), r(n), &Mixed));
        assert!(table.stats().buckets > sizes[1], "it grows beyond what was expected");
        while table.step(&Mixed, 100) {}
        table.verify(&Mixed);
    }
    let mut table = IndexTable::new(IndexGeometry::default());
    table.expect(ENTRIES as usize);
    table.insert(mix64(1), r(1), &Mixed);
    let large = table.stats().buckets;
    assert!(!table.step(&Mixed, 1) && table.stats().buckets == large, "the others are still to come");
    table.expect(0);
    assert!(table.wants_move(), "none is to come");
    while table.step(&Mixed, 1000) {}
    assert!(table.stats().buckets < large / 10);
    assert!(table.find_ref(mix64(1), r(1)).is_some());
}
