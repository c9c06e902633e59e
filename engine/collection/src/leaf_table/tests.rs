//! Leaf tables beside a map of what they hold: random operations, reclaim in between, copies, and what drawing promises.
//!
//! The seed is printed; `VARVE_SEED` sets it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use varve_base::hash::hash64;
use varve_base::rng::Rng;
use varve_segment::{Drain, DrainState, LogGeometry, Relocate, Relocated};

use crate::{Forgotten, ReaderBytes, ReaderNumber};

use super::*;

const SEED: u64 = 91;
/// The seed under which all names have one hash.
pub(super) const EQUAL_HASHES: u64 = 92;
const ID: CollectionId = CollectionId::new(7);

struct World {
    log: Log,
    access: Access,
    appender: Appender,
    drain: Option<Drain>,
    table: LeafTable,
    hash_seed: u64,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    rng: Rng,
}

/// Reclaim's questions answered by the one table that there is.
struct Mover<'a> {
    log: &'a Log,
    hash_seed: u64,
    access: &'a mut Access,
    appender: &'a mut Appender,
    table: &'a mut LeafTable,
}

impl Relocate for Mover<'_> {
    fn prepare(&mut self, _heads: &[ObjectHead<'_>]) {}

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        let mut ctx =
            WriteCtx { log: self.log, access: self.access, appender: self.appender, seed: self.hash_seed, id: ID };
        if self.table.relocate(&mut ctx, head) { Relocated::Moved } else { Relocated::Dead }
    }
}

impl World {
    fn new(table: LeafTable, seed: u64) -> World {
        let geometry = LogGeometry {
            segment_bytes: 64 << 10,
            piece_bytes: 4 << 10,
            extent_min_bytes: 32 << 10,
            release_bytes: 4 << 10,
            reserve_bytes: 1 << 32,
        };
        let log = Log::new(geometry).expect("addresses");
        let access = log.access();
        let rng = Rng::seeded(seed);
        World {
            log,
            access,
            appender: Appender::new(),
            drain: None,
            table,
            hash_seed: SEED,
            model: BTreeMap::new(),
            rng,
        }
    }

    fn read(&self) -> ReadCtx<'_> {
        ReadCtx { log: &self.log, access: &self.access, seed: self.hash_seed }
    }

    fn change<R>(&mut self, change: impl FnOnce(&mut LeafTable, &mut WriteCtx<'_>) -> R) -> R {
        let World { log, access, appender, table, hash_seed, .. } = self;
        let done = change(table, &mut WriteCtx { log, access, appender, seed: *hash_seed, id: ID });
        appender.park(log);
        done
    }

    fn put(&mut self, name: &[u8], value: &[u8]) {
        let is_new = self.model.insert(name.to_vec(), value.to_vec()).is_none();
        let form = self.table.form;
        let said = self.change(|table, ctx| match form {
            ElementForm::Member => table.add(ctx, name),
            ElementForm::Pair => table.set(ctx, name, value),
        });
        assert_eq!(said, is_new);
    }

    fn remove(&mut self, name: &[u8]) {
        let was_there = self.model.remove(name).is_some();
        let said = self.change(|table, ctx| table.remove(ctx, name));
        assert_eq!(said, was_there);
    }

    fn look(&self, name: &[u8]) {
        match self.table.form {
            ElementForm::Member => assert_eq!(self.table.contains(self.read(), name), self.model.contains_key(name)),
            ElementForm::Pair => {
                let value = self.table.get(self.read(), name).map(|value| value.text(&mut [0; 20]).to_vec());
                assert_eq!(value.as_ref(), self.model.get(name));
            }
        }
    }

    fn reclaim(&mut self) {
        if self.drain.is_none() {
            self.drain = self.log.choose_victim();
        }
        let Some(drain) = &mut self.drain else { return };
        let World { log, access, appender, table, hash_seed, .. } = self;
        let state = log.drain_step(drain, &mut Mover { log, hash_seed: *hash_seed, access, appender, table }, 20);
        self.appender.park(&self.log);
        if matches!(state, DrainState::Done) {
            self.drain = None;
        }
    }

    fn all(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all = BTreeMap::new();
        let text = |entry: PackedEntry<'_>| entry.text(&mut [0; 20]).to_vec();
        match self.table.form {
            ElementForm::Member => self.table.for_each_member(self.read(), |m| {
                assert!(all.insert(m.to_vec(), Vec::new()).is_none(), "a member is shown once");
            }),
            ElementForm::Pair => self.table.for_each(self.read(), |f, v, _| {
                assert!(all.insert(text(f), text(v)).is_none(), "a field is shown once");
            }),
        }
        all
    }

    /// When the fields of a copy expire.
    fn dates_of_copy(&mut self) -> BTreeMap<Vec<u8>, i64> {
        let (mut appender, other) = (Appender::new(), CollectionId::new(8));
        let mut copy = self.table.copy(self.read(), &mut appender, other);
        appender.park(&self.log);
        copy.verify(self.read(), other, &mut HashSet::new());
        let mut dates = BTreeMap::new();
        copy.for_each(self.read(), |name, _, date| {
            dates.extend(date.map(|date| (name.text(&mut [0; 20]).to_vec(), date)));
        });
        let World { log, access, appender, .. } = self;
        let mut ctx = WriteCtx { log, access, appender, seed: SEED, id: other };
        while !copy.free_step(&mut ctx, 100) {}
        dates
    }

    fn verify(&self) {
        let mut live = HashSet::new();
        self.table.verify(self.read(), ID, &mut live);
        self.log.verify_with(|head, _| live.contains(&head.r));
    }
}

fn seed(default: u64) -> u64 {
    let seed = std::env::var("VARVE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    println!("VARVE_SEED={seed}");
    seed
}

/// A name of one of some shapes: texts, integers, long ones, some over what a leaf takes.
fn name(shape: u64, n: u64) -> Vec<u8> {
    match shape {
        0 => format!("m{n}").into_bytes(),
        1 => n.to_string().into_bytes(),
        2 => [format!("{n}:").into_bytes(), vec![b'x'; (n % 200) as usize]].concat(),
        _ => [format!("{n}:").into_bytes(), vec![b'y'; (n % 1500) as usize]].concat(),
    }
}

#[test]
fn leaf_tables_do_as_maps_do() {
    let seed = seed(5);
    for run in 0..12 {
        let table = if run % 2 == 0 { LeafTable::members() } else { LeafTable::fields() };
        let mut world = World::new(table, seed + run);
        let (shape, names) = (run / 2 % 4, [40, 600, 4000][run as usize % 3]);
        for step in 0..8000 {
            // It grows and shrinks in turns.
            let growing = step / 2000 % 2 == 0;
            let name = name(shape, world.rng.below(names));
            let long = world.rng.below(if shape == 3 { 1400 } else { 40 });
            match world.rng.below(10) {
                0..=2 => world.put(&name, &vec![b'v'; if run % 2 == 0 { 0 } else { long as usize }]),
                3..=5 if growing => world.put(&name, if run % 2 == 0 { b"" } else { b"12345" }),
                3..=7 if !growing => world.remove(&name),
                8 => world.reclaim(),
                _ => world.look(&name),
            }
            if step % 500 == 0 {
                world.verify();
                assert_eq!(world.all(), world.model);
            }
        }
        world.verify();
        assert_eq!(world.all(), world.model);
        assert_eq!(world.table.len(), world.model.len());
    }
}

/// Fields that expire beside a map of their times: set, persisted, removed, moved, split, joined, and removed when they are
/// due, some leaves at a time.
#[test]
fn fields_expire_as_in_a_map() {
    let seed = seed(23);
    for run in 0..6 {
        let mut world = World::new(LeafTable::fields(), seed + run);
        let mut dates: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        let (shape, names, mut now) = ([0, 1, 3][run as usize % 3], [60, 3000][run as usize / 3], 1000);
        for step in 0..6000 {
            let name = name(shape, world.rng.below(names));
            let date = now + world.rng.below(500) as i64;
            match world.rng.below(12) {
                0..=3 => {
                    let value = vec![b'v'; world.rng.below(if shape == 3 { 1400 } else { 30 }) as usize];
                    let is_new = world.model.insert(name.clone(), value.clone()).is_none();
                    assert_eq!(world.change(|table, ctx| table.set_expiring(ctx, &name, &value, date)), is_new);
                    dates.insert(name, date);
                }
                4 => {
                    world.put(&name, b"stays");
                    dates.remove(&name);
                }
                5 | 6 => {
                    let until = (step % 3 > 0).then_some(date);
                    let is_there = world.model.contains_key(&name);
                    assert_eq!(world.change(|table, ctx| table.set_expiry_ms(ctx, &name, until)), is_there);
                    match until.filter(|_| is_there) {
                        Some(date) => _ = dates.insert(name, date),
                        None => _ = dates.remove(&name),
                    }
                }
                7 => {
                    world.remove(&name);
                    dates.remove(&name);
                }
                8 => world.reclaim(),
                9 => {
                    now += world.rng.below(60) as i64;
                    let mut gone = Vec::new();
                    let leaves = 1 + world.rng.below(5) as usize;
                    world.change(|table, ctx| table.remove_due(ctx, now, leaves, |name| gone.push(name.to_vec())));
                    for name in gone {
                        assert!(dates.remove(&name).is_some_and(|date| date <= now), "a field goes when it is due");
                        world.model.remove(&name);
                    }
                    if world.table.next_due_ms().is_none_or(|due| due > now) {
                        assert!(dates.values().all(|&date| date > now), "none that is due is left");
                    }
                }
                _ => {
                    let said = world.table.expiry_ms(world.read(), &name);
                    assert_eq!(said, world.model.contains_key(&name).then(|| dates.get(&name).copied()));
                }
            }
            if step % 500 == 0 {
                world.verify();
                assert_eq!(world.all(), world.model);
                assert_eq!(world.dates_of_copy(), dates);
            }
        }
        world.change(|table, ctx| table.remove_due(ctx, i64::MAX, usize::MAX, |_| {}));
        assert_eq!(world.table.len(), world.model.len() - dates.len());
        assert_eq!((world.table.next_due_ms(), world.table.dues_bytes()), (None, 0), "no entry is left");
        world.verify();
    }
}

#[test]
fn a_field_that_expires_costs_few_bytes() {
    let bytes = |dated: bool| {
        let mut world = World::new(LeafTable::fields(), 1);
        for n in 0..50_000i64 {
            let name = format!("field:{n:09}").into_bytes();
            world.change(|table, ctx| match dated {
                true => table.set_expiring(ctx, &name, b"value", (1 << 40) + n * 7919 % 50_000),
                false => table.set(ctx, &name, b"value"),
            });
        }
        (world.table.object_bytes() as usize + world.table.table_bytes()) as f64 / 50_000.0
    };
    let more = bytes(true) - bytes(false);
    assert!(more < 10.0, "{more} bytes more a field");
}

#[test]
fn copies_are_equal_and_all_of_a_table_is_freed() {
    for table in [LeafTable::members(), LeafTable::fields()] {
        let mut world = World::new(table, 3);
        for n in 0..3000 {
            world.put(&name(3, n), if world.table.form == ElementForm::Member { b"" } else { b"value" });
        }
        let mut appender = Appender::new();
        let other = CollectionId::new(8);
        let mut copy = world.table.copy(world.read(), &mut appender, other);
        appender.park(&world.log);
        copy.verify(world.read(), other, &mut HashSet::new());
        assert_eq!(copy.len(), 3000);
        assert!(copy.object_bytes() < world.table.object_bytes(), "a copy has no free room");
        let live = world.log.live_bytes();
        let mut steps = 0;
        let World { log, access, appender, .. } = &mut world;
        let mut ctx = WriteCtx { log, access, appender, seed: SEED, id: other };
        while !copy.free_step(&mut ctx, 10) {
            steps += 1;
        }
        assert!(steps > 5, "ten leaves a step, not all at once: {steps}");
        assert!(world.log.live_bytes() < live);
        world.verify();
    }
}

#[test]
fn every_element_is_drawn_as_often() {
    let mut world = World::new(LeafTable::members(), 17);
    for n in 0..900 {
        world.put(&name(n % 3, n), b"");
    }
    // Removal leaves leaves of unequal sizes.
    (0..300).for_each(|n| world.remove(&name(n % 3, n)));
    let mut counts: HashMap<Vec<u8>, u64> = HashMap::new();
    let (draws, mut rng) = (300_000, Rng::seeded(seed(1)));
    for _ in 0..draws {
        let number = world.table.sample(&mut rng);
        let name = world.table.element(world.read(), number).0.text(&mut [0; 20]).to_vec();
        *counts.entry(name).or_default() += 1;
    }
    assert_eq!(counts.len(), world.model.len());
    let expected = draws as f64 / counts.len() as f64;
    let chi: f64 = counts.values().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
    let freedom = (counts.len() - 1) as f64;
    // Five standard deviations of chi-square.
    assert!((chi - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(), "chi-square {chi} of {freedom}");
}

#[test]
fn numbers_lead_back_and_taking_takes_all() {
    let mut world = World::new(LeafTable::members(), 2);
    (0..2000).for_each(|n| world.put(&name(0, n), b""));
    let mut numbers = HashSet::new();
    world.table.for_each_number_and_name(world.read(), |number, shown| {
        assert!(numbers.insert(number), "a number is of one element");
        let text = shown.text(&mut [0; 20]).to_vec();
        assert_eq!(world.table.number_of(world.read(), &text), Some(number));
        assert_eq!(world.table.element(world.read(), number).0, shown);
    });
    assert_eq!(numbers.len(), 2000);
    let mut rng = Rng::seeded(8);
    for left in (0..2000).rev() {
        let mut taken = Vec::new();
        let said = world.change(|table, ctx| table.take_drawn(ctx, rng.next_u64(), |m| taken = m.to_vec()));
        assert_eq!(said, left);
        assert!(world.model.remove(&taken).is_some() && (left > 0 || world.model.is_empty()));
        if left % 100 == 0 && left > 0 {
            world.verify();
        }
    }
}

#[test]
fn a_scan_shows_what_is_there_from_first_to_last() {
    let mut world = World::new(LeafTable::members(), 6);
    (0..3000).for_each(|n| world.put(&name(0, n), b""));
    let (mut shown, mut cursor, mut more, mut calls) = (BTreeSet::new(), 0, 3000, 0);
    loop {
        cursor = world.table.scan(world.read(), cursor, 10, &mut |m, _| {
            shown.insert(m.text(&mut [0; 20]).to_vec());
        });
        calls += 1;
        if cursor == 0 {
            break;
        }
        // Meanwhile it is split and joined.
        for _ in 0..15 {
            world.put(&name(0, more), b"");
            more += 1;
        }
        if calls > 10 {
            (3000..more).rev().take(40).for_each(|n| world.remove(&name(0, n)));
        }
    }
    assert!((0..3000).all(|n| shown.contains(&name(0, n))), "a member was there all the time");
    assert!(calls > 10, "{calls} calls");
}

#[test]
fn what_deletion_empties_is_joined() {
    let mut world = World::new(LeafTable::members(), 4);
    (0..60_000).for_each(|n| world.put(&format!("member:{n:09}").into_bytes(), b""));
    world.verify();
    let full = world.table.object_bytes() as f64 / 60_000.0;
    assert!(full < 23.0, "{full} bytes a member of 16 bytes");
    let table = world.table.table_bytes();
    assert!(table < 60_000, "{table} bytes of directory");
    for n in 0..60_000 {
        if n % 10 != 0 {
            world.remove(&format!("member:{n:09}").into_bytes());
        }
    }
    world.verify();
    let left = world.table.object_bytes() as f64 / 6000.0;
    assert!(left < 1.3 * full, "{left} bytes a member after deletion, {full} before");
    assert!(world.table.table_bytes() < table / 3, "{} of {table} bytes of directory", world.table.table_bytes());
}

#[test]
fn moved_leaves_leave_their_room_behind() {
    let mut world = World::new(LeafTable::members(), 4);
    (0..20_000).for_each(|n| world.put(&format!("member:{n:09}").into_bytes(), b""));
    let before = world.table.object_bytes();
    for _ in 0..20_000 {
        world.reclaim();
    }
    world.verify();
    let after = world.table.object_bytes();
    assert!(after < before, "{after} of {before} bytes");
}

fn members(range: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    range.map(|n| format!("member:{n:09}").into_bytes()).collect()
}

/// Issue 11: one command with many members wrote five times what they take, of which nothing is reclaimed meanwhile.
#[test]
fn many_elements_at_once_are_written_about_once() {
    for (before, count) in [(0, 100), (0, 3000), (50, 1000), (2000, 30_000), (20_000, 20_000)] {
        let mut world = World::new(LeafTable::members(), 3);
        let (old, new) = (members(0..before), members(before..before + count));
        old.iter().for_each(|member| world.put(member, b""));
        let used = world.log.used_bytes();
        let added = world.change(|table, ctx| table.add_all(ctx, new.iter().map(Vec::as_slice)));
        world.model.extend(new.into_iter().map(|member| (member, Vec::new())));
        assert_eq!(added, count as usize);
        let written = (world.log.used_bytes() - used) as f64 / f64::from(before + count) / 18.0;
        assert!(written < 1.6, "{before} + {count}: {written} of the bytes that they take");
        world.verify();
        assert_eq!(world.all(), world.model);
    }
    let mut world = World::new(LeafTable::fields(), 3);
    let names = members(0..5000);
    let pairs = names.iter().map(|name| (name.as_slice(), &b"a value of twenty-two."[..]));
    assert_eq!(world.change(|table, ctx| table.set_all(ctx, pairs)), 5000);
    let written = world.log.used_bytes() as f64 / 5000.0 / 41.0;
    assert!(written < 1.6, "{written} of the bytes that the pairs take");
    world.verify();
}

#[test]
fn elements_that_are_expected_and_do_not_come_leave_nothing() {
    let mut world = World::new(LeafTable::members(), 3);
    let few = members(0..40);
    let often = (0..20_000).map(|n| few[n % 40].as_slice());
    assert_eq!(world.change(|table, ctx| table.add_all(ctx, often)), 40);
    world.model.extend(few.iter().map(|member| (member.clone(), Vec::new())));
    world.verify();
    assert_eq!(world.all(), world.model);
    assert!(world.table.table_bytes() < 1000, "{} bytes of directory", world.table.table_bytes());
    let live = world.log.live_bytes();
    assert!(live < 4000, "{live} live bytes for 40 members");
}

/// Issue 11: a command that removed half of a set doubled the memory in use, since leaves were written anew.
#[test]
fn removal_writes_hardly_anything() {
    for keep_each in [2, 3, 10] {
        let mut world = World::new(LeafTable::members(), 3);
        let all = members(0..20_000);
        all.iter().for_each(|member| world.put(member, b""));
        (0..20_000).for_each(|_| world.reclaim());
        let (used, live) = (world.log.used_bytes() as f64, world.log.live_bytes() as f64);
        let gone = |n: usize| !n.is_multiple_of(keep_each);
        world.change(|table, ctx| {
            let doomed = all.iter().enumerate().filter(|&(n, _)| gone(n));
            doomed.for_each(|(_, member)| assert!(table.remove(ctx, member)));
        });
        world.model = all.iter().enumerate().filter(|&(n, _)| !gone(n)).map(|(_, m)| (m.clone(), vec![])).collect();
        let more = (world.log.used_bytes() as f64 - used) / used;
        assert!(more < 0.15, "1/{keep_each} is left: {more} of the memory in use was written");
        // Reclaim finds dead what the elements had, but for the room of some leaves.
        let left = world.log.live_bytes() as f64 / live * keep_each as f64;
        assert!(left < 1.7, "1/{keep_each} is left: {left} of its part lives");
        world.verify();
        assert_eq!(world.all(), world.model);
    }
}

/// Issue 11: a set that is filled in the order of SSCAN has its deep leaves in one place, and draws tried for very long.
#[test]
fn draws_of_a_table_that_was_filled_in_order_end_soon() {
    let mut world = World::new(LeafTable::members(), 3);
    let mut all = members(0..40_000);
    all.sort_by_key(|member| hash64(SEED, member));
    all[..4000].iter().for_each(|member| world.put(member, b""));
    let (mut rng, mut most, mut counts) = (Rng::seeded(seed(4)), 0, HashMap::<Vec<u8>, u64>::new());
    for _ in 0..400_000 {
        let mut asked = 0;
        let (at, cell, index) = world.table.draw(|below| {
            asked += 1;
            rng.below(below)
        });
        most = most.max(asked);
        let leaf = open(&world.log, &world.access, cell.leaf(&world.log).expect("a leaf"));
        assert_eq!(world.table.directory.get(at), cell);
        let name = world.table.member_of(world.read(), leaf.nth(index)).to_vec();
        *counts.entry(name).or_default() += 1;
    }
    assert!(most <= 65, "{most} random numbers for one draw");
    assert_eq!(counts.len(), 4000);
    let chi: f64 = counts.values().map(|&n| (n as f64 - 100.0).powi(2) / 100.0).sum();
    assert!((chi - 3999.0).abs() < 5.0 * (2.0_f64 * 3999.0).sqrt(), "chi-square {chi} of 3999");
}

/// A reader of the test: what it must be shown, and what it was.
struct Shown {
    number: ReaderNumber,
    expected: BTreeMap<Vec<u8>, Vec<u8>>,
    shown: BTreeMap<Vec<u8>, Vec<u8>>,
    below: u64,
    bytes: ReaderBytes,
    /// Some element had an object of its own: showing may have ended behind it.
    has_own: bool,
}

impl World {
    fn begin_reading(&mut self, number: u64) -> Shown {
        let (number, bytes) = (ReaderNumber::new(number), ReaderBytes::default());
        self.table.begin_reading(number, bytes.clone());
        Shown { number, expected: self.model.clone(), shown: BTreeMap::new(), below: 0, bytes, has_own: false }
    }

    /// Whether a reader, which passes what is below the name's hash, finds the name.
    fn contained(&mut self, reader: &mut Shown, name: &[u8]) -> bool {
        let World { log, access, appender, table, .. } = self;
        let mut ctx = WriteCtx { log, access, appender, seed: SEED, id: ID };
        let hash = hash64(SEED, name);
        table.pass(&mut ctx, reader.number, reader.below);
        reader.below = hash;
        table.contained(ctx.read(), reader.number, (hash, name))
    }

    fn end_reading(&mut self, reader: &Shown) -> Forgotten {
        self.change(|table, ctx| table.end_reading(ctx, reader.number))
    }

    /// Shows a reader one leaf more; true if that was the last one.
    fn read_leaf(&mut self, reader: &mut Shown) -> bool {
        let World { log, access, appender, table, rng, hash_seed, .. } = self;
        let mut ctx = WriteCtx { log, access, appender, seed: *hash_seed, id: ID };
        let mut hashes = Vec::new();
        let next = table.read_on(&mut ctx, reader.number, 1, |name, value, _| {
            let (name, value) = (name.text(&mut [0; 20]).to_vec(), value.text(&mut [0; 20]).to_vec());
            hashes.push(hash64(SEED, &name));
            reader.has_own |= name.len() + value.len() > ELEMENT_MAX;
            assert!(reader.shown.insert(name, value).is_none(), "an element is shown once");
            rng.below(4) > 0
        });
        let in_order = *hash_seed == EQUAL_HASHES
            || hashes.iter().all(|&hash| hash >= reader.below && next.is_none_or(|next| hash < next));
        assert!(reader.has_own || in_order, "elements come in order of their leaves");
        assert!(next.is_none_or(|next| next >= reader.below));
        reader.below = next.unwrap_or(u64::MAX);
        if next.is_none() {
            assert_eq!(reader.bytes.get(), 0, "what was shown is not kept");
            assert_eq!(reader.shown, reader.expected, "a reader is shown what was there when it began");
        }
        next.is_none()
    }
}

#[test]
fn readers_are_shown_what_was_there_when_they_began() {
    let seed = seed(23);
    for run in 0..12 {
        let table = if run % 2 == 0 { LeafTable::members() } else { LeafTable::fields() };
        let mut world = World::new(table, seed + run);
        let (shape, names) = (run / 2 % 4, [60, 700, 5000][run as usize % 3]);
        let (mut readers, mut ended): (Vec<Shown>, _) = (Vec::new(), 0);
        for step in 0..12_000_u64 {
            // It grows, and shrinks to nothing, while readers are on their way.
            let growing = step / 3000 % 2 == 0;
            let name = name(shape, world.rng.below(names));
            let long = world.rng.below(if shape == 3 { 1400 } else { 40 });
            match world.rng.below(16) {
                0..=6 if growing => world.put(&name, &vec![b'v'; if run % 2 == 0 { 0 } else { long as usize }]),
                0..=1 => world.put(&name, if run % 2 == 0 { b"" } else { b"12345" }),
                2..=9 if !growing => world.remove(&name),
                7 => world.remove(&name),
                10 => world.reclaim(),
                11 if readers.len() < 4 => {
                    let reader = world.begin_reading(step);
                    readers.push(reader);
                }
                12..=13 if !readers.is_empty() => {
                    let at = world.rng.below(readers.len() as u64) as usize;
                    for _ in 0..world.rng.below(4) + 1 {
                        if world.read_leaf(&mut readers[at]) {
                            readers.swap_remove(at);
                            ended += 1;
                            break;
                        }
                    }
                }
                14 if world.rng.below(40) == 0 && !readers.is_empty() => {
                    let gone = readers.swap_remove(0);
                    while world.end_reading(&gone) == Forgotten::Partly {}
                    assert_eq!(gone.bytes.get(), 0, "what nobody wants is not kept");
                }
                _ => world.look(&name),
            }
            if step % 400 == 0 {
                world.verify();
            }
        }
        readers.into_iter().for_each(|mut reader| while !world.read_leaf(&mut reader) {});
        assert!(ended > 10, "{ended} readers came to the end");
        assert!(!world.table.is_read() && world.table.handed_bytes() == 0, "nothing is left of the readers");
        world.verify();
    }
}

#[test]
fn a_change_hands_one_leaf_over_once() {
    let mut world = World::new(LeafTable::members(), 9);
    (0..20_000).for_each(|n| world.put(&name(0, n), b""));
    let quiet = world.table.table_bytes();
    let mut reader = world.begin_reading(1);
    world.remove(&name(0, 5));
    let one = world.table.handed_bytes();
    assert!((100..6000).contains(&one), "{one} bytes of a leaf and its range");
    world.put(&name(0, 5), b"");
    assert_eq!(world.table.handed_bytes(), one, "the range is found, and nothing is copied");
    (0..20_000).for_each(|n| world.remove(&name(0, n)));
    let all = world.table.handed_bytes();
    assert!(all < 20_000 * 30, "{all} bytes of 20 000 elements and their ranges");
    while !world.read_leaf(&mut reader) {}
    assert!(world.table.table_bytes() < quiet, "the table is empty");
}

/// A leaf was copied with the objects of its elements, for each reader: 12 to 40 ms for one of 200 KB values.
#[test]
fn issue_11_objects_of_elements_are_kept_and_not_copied() {
    const VALUE: usize = 20_000;
    let value = |n: u64| vec![n as u8; VALUE];
    let mut world = World::new(LeafTable::fields(), 5);
    (0..60).for_each(|n| world.put(&name(0, n), &value(n)));
    let mut readers = [1, 2, 3].map(|number| world.begin_reading(number));
    assert!(!world.read_leaf(&mut readers[2]));
    let shown = readers[2].shown.len();
    assert!(shown < 60, "showing ends behind an element: {shown} of a leaf were shown");
    (0..60).step_by(2).for_each(|n| world.put(&name(0, n), &value(n + 1)));
    (1..60).step_by(6).for_each(|n| world.remove(&name(0, n)));
    let handed = world.table.handed_bytes();
    assert!(handed < 40_000, "{handed} bytes of leaves were copied for three readers");
    let kept = readers.each_ref().map(|reader| reader.bytes.get());
    assert!(
        (40 * VALUE..42 * VALUE).contains(&kept[0]) && kept[0] == kept[1],
        "{kept:?} bytes on the readers' account"
    );
    world.verify();
    // Reclaim moves what only the readers have.
    (0..200).for_each(|_| world.reclaim());
    world.verify();
    while world.end_reading(&readers[1]) == Forgotten::Partly {}
    for reader in [0, 2] {
        while !world.read_leaf(&mut readers[reader]) {}
    }
    assert!(!world.table.is_read() && world.table.handed_bytes() == 0);
    world.verify();
}

/// All that had been handed over became one range when a table shrank to one leaf, in one command.
#[test]
fn issue_11_copies_stay_apart_when_leaves_are_joined() {
    let mut world = World::new(LeafTable::members(), 6);
    (0..20_000).for_each(|n| world.put(&name(0, n), b""));
    let mut readers = [world.begin_reading(1), world.begin_reading(2)];
    (0..20_000).for_each(|n| world.remove(&name(0, n)));
    let mut most = 0;
    loop {
        let before = readers[0].shown.len();
        let ended = world.read_leaf(&mut readers[0]);
        most = most.max(readers[0].shown.len() - before);
        if ended {
            break;
        }
    }
    assert!(most < 300, "{most} elements were shown as one leaf");
    while !world.read_leaf(&mut readers[1]) {}
}

#[test]
fn issue_11_a_reader_finds_what_was_there_when_it_began() {
    let seed = seed(31);
    for run in 0..8 {
        let mut world = World::new(LeafTable::members(), seed + run);
        let shape = run % 4;
        (0..3000).for_each(|n| world.put(&name(shape, n * 2), b""));
        let mut reader = world.begin_reading(run);
        let mut asked: Vec<Vec<u8>> = (0..6000).map(|n| name(shape, n)).collect();
        asked.sort_by_key(|name| hash64(SEED, name));
        asked.dedup();
        for asked in asked {
            for _ in 0..3 {
                let name = name(shape, world.rng.below(6000));
                if world.rng.below(3) == 0 { world.put(&name, b"") } else { world.remove(&name) }
            }
            if world.rng.below(40) == 0 {
                world.reclaim();
            }
            assert_eq!(world.contained(&mut reader, &asked), reader.expected.contains_key(&asked));
        }
        world.verify();
        while world.end_reading(&reader) == Forgotten::Partly {}
        assert_eq!((reader.bytes.get(), world.table.is_read()), (0, false));
        world.verify();
    }
}

/// Issue 12: more elements of one hash than a leaf takes stopped the server, or made the directory as large as the memory.
#[test]
fn issue_12_any_number_of_elements_may_have_one_hash() {
    for (table, shape) in [(LeafTable::members(), 0), (LeafTable::members(), 3), (LeafTable::fields(), 2)] {
        let is_set = table.form == ElementForm::Member;
        let mut world = World { hash_seed: EQUAL_HASHES, ..World::new(table, 12) };
        let value: &[u8] = if is_set { b"" } else { b"value" };
        (0..3000).for_each(|n| world.put(&name(shape, n), value));
        world.verify();
        assert!(!world.table.is_by_name(), "no leaf takes 3000 elements");
        assert!(world.table.directory.cells() < 10_000, "{} cells", world.table.directory.cells());
        let (mut readers, mut ended) = (Vec::new(), 0);
        for step in 0..8000 {
            let name = name(shape, world.rng.below(3500));
            match world.rng.below(12) {
                0..=1 => world.put(&name, if is_set { b"" } else { b"a longer value than before" }),
                2..=5 => world.remove(&name),
                6 => world.reclaim(),
                7 if readers.len() < 2 => readers.push(world.begin_reading(step)),
                8..=9 if !readers.is_empty() => {
                    if (0..20).any(|_| world.read_leaf(&mut readers[0])) {
                        readers.swap_remove(0);
                        ended += 1;
                    }
                }
                _ => world.look(&name),
            }
        }
        readers.into_iter().for_each(|mut reader| while !world.read_leaf(&mut reader) {});
        assert!(ended > 0, "no reader came to the end");
        world.verify();
        assert_eq!(world.all(), world.model);
        empty_crowded(&mut world);
    }
}

/// A table whose elements have one hash keeps the promises of any other: a scan shows all, numbers lead back, a copy is
/// whole, and nothing is left at the end.
fn empty_crowded(world: &mut World) {
    let (mut scanned, mut cursor) = (BTreeSet::new(), 0);
    loop {
        cursor = world.table.scan(world.read(), cursor, 10, &mut |name, _| {
            assert!(scanned.insert(name.text(&mut [0; 20]).to_vec()), "nothing has changed meanwhile");
        });
        if cursor == 0 {
            break;
        }
    }
    assert!(scanned.iter().eq(world.model.keys()), "a scan shows all elements");
    world.table.for_each_number_and_name(world.read(), |number, shown| {
        assert_eq!(world.table.number_of(world.read(), shown.text(&mut [0; 20])), Some(number));
    });
    let (mut appender, other) = (Appender::new(), CollectionId::new(8));
    let mut copy = world.table.copy(world.read(), &mut appender, other);
    appender.park(&world.log);
    copy.verify(world.read(), other, &mut HashSet::new());
    world.change(|_, ctx| while !copy.free_step(ctx, 100) {});
    let names: Vec<Vec<u8>> = world.model.keys().cloned().collect();
    names.iter().for_each(|name| world.remove(name));
    world.verify();
    assert_eq!((world.table.len(), world.table.object_bytes()), (0, 0));
}
