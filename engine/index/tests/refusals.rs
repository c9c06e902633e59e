//! A table that the system refuses memory goes on as it is, and grows when there is some again.
//! One test, alone in its process, which it limits with prlimit.

use std::process::Command;

use varve_base::Ref;
use varve_base::group::Tag;
use varve_base::hash::hash64;
use varve_index::{IndexGeometry, IndexTable, Rehash};

/// References are the numbers of entries, their hashes are computed.
struct Numbers;

impl Rehash for Numbers {
    fn hash(&self, r: Ref, _: Tag) -> u64 {
        hash_of(r.bits())
    }
}

fn hash_of(n: u64) -> u64 {
    hash64(3, &n.to_le_bytes())
}

fn reference(n: u64) -> Ref {
    // SAFETY: the test follows no reference; it is a number that is not 0.
    unsafe { Ref::from_bits(n) }
}

fn insert(table: &mut IndexTable, numbers: std::ops::Range<u64>) {
    numbers.for_each(|n| table.insert(hash_of(n), reference(n), &Numbers));
}

/// Limits this process to `bytes` of memory of its own, or lifts the limit.
fn limit(bytes: Option<u64>) {
    let value = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
    let me = std::process::id().to_string();
    let done = Command::new("prlimit").args(["--pid", &me, &format!("--data={value}:unlimited")]).status();
    assert!(done.expect("util-linux").success(), "prlimit");
}

/// Bytes that count against such a limit.
fn data_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmData:")).expect("a line of VmData");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("kilobytes") << 10
}

#[test]
fn growth_that_is_refused_is_deferred() {
    let mut table = IndexTable::new(IndexGeometry::default());
    let mut n = 1;
    // Up to just before it grows: two million entries, in some 20 MB.
    while n < 2_000_000 || table.is_moving() || !almost_full(&table) {
        insert(&mut table, n..n + 1);
        n += 1;
    }
    let buckets = table.stats().buckets;
    // The chains of what has no room take up to 16 MB of heap; the next size would take more.
    limit(Some(data_bytes() + (16 << 20)));
    let more = n + n / 6;
    insert(&mut table, n..more);
    assert!(table.is_refused() && !table.is_moving(), "the system has refused more");
    assert_eq!((table.stats().buckets, table.len() as u64), (buckets, more - 1));
    assert!(table.stats().overflow_buckets > 1000, "what has no room stands in chains");
    (1..more).step_by(101).for_each(|n| assert!(table.find_ref(hash_of(n), reference(n)).is_some(), "{n} is lost"));
    assert!(!table.wants_move() || table.step(&Numbers, 1), "the background is not called in vain");
    limit(None);
    // It tries again when it is some entries larger.
    let end = more + more / 32;
    insert(&mut table, more..end);
    assert!(!table.is_refused(), "the system has given it");
    while table.step(&Numbers, 1000) {}
    table.verify(&Numbers);
    assert!(table.stats().buckets > buckets && table.load() <= 0.9, "{:?}", table.stats());
    (1..end).step_by(101).for_each(|n| assert!(table.find_ref(hash_of(n), reference(n)).is_some(), "{n} is lost"));
}

fn almost_full(table: &IndexTable) -> bool {
    table.load() > 0.899
}
