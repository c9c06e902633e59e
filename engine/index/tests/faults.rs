//! The pages of a table: each is put in its place once, by one fault. A page that is read first is the system's page of zeroes, and
//! the write behind that is a second fault, which interrupts all processors on which the process runs.

use std::io::{self, Write as _};

use varve_base::Ref;
use varve_base::group::Tag;
use varve_base::hash::mix64;
use varve_index::{IndexGeometry, IndexTable, Rehash};

struct Mixed;

impl Rehash for Mixed {
    fn hash(&self, r: Ref, _: Tag) -> u64 {
        mix64(r.bits())
    }
}

fn insert(table: &mut IndexTable, n: u64) {
    // SAFETY: in range, never followed.
    table.insert(mix64(n), unsafe { Ref::from_bits(n) }, &Mixed);
}

/// Faults of this thread so far that needed no disk.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("the system's figures");
    let fields = stat.rsplit_once(')').expect("a name in brackets").1;
    fields.split_whitespace().nth(7).and_then(|count| count.parse().ok()).expect("a number of faults")
}

/// Two faults a page would be twice as many.
fn at_most_one_a_page(faults: u64, bytes: usize) {
    let pages = bytes as u64 / 4096;
    assert!(pages > 100, "{pages} pages are too few to see anything");
    assert!(faults < pages * 5 / 4 + 32, "{faults} faults for {pages} pages");
}

/// True under a sanitizer, whose own pages are put beside the table's and count as faults too. The test command counts the line.
fn is_skipped() -> bool {
    let is_skipped = std::env::var_os("VARVE_SANITIZER").is_some();
    if is_skipped {
        let _ = writeln!(io::stdout(), "skipped: a sanitizer has faults of its own");
    }
    is_skipped
}

#[test]
fn a_table_that_moves_takes_one_fault_for_a_page() {
    if is_skipped() {
        return;
    }
    let (mut table, mut n) = (IndexTable::new(IndexGeometry::default()), 1);
    while n < 100_000 || table.is_moving() {
        insert(&mut table, n);
        n += 1;
    }
    while !table.is_moving() {
        insert(&mut table, n);
        n += 1;
    }
    let before = faults();
    while table.is_moving() {
        insert(&mut table, n);
        n += 1;
    }
    at_most_one_a_page(faults() - before, table.stats().bytes);
}

#[test]
fn a_table_of_known_size_takes_one_fault_for_a_page() {
    if is_skipped() {
        return;
    }
    let mut table = IndexTable::new(IndexGeometry::default());
    table.expect(60_000);
    let before = faults();
    for n in 1..=50_000 {
        // A command that puts a key looks for it first.
        assert!(table.find(mix64(n), |_| false).is_none(), "entry {n} is new");
        insert(&mut table, n);
    }
    at_most_one_a_page(faults() - before, table.stats().bytes);
}
