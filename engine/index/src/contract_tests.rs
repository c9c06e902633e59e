//! Contracts that are broken here once, and damage that `verify` must find: the assertion that states each is seen to
//! stop it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bucket::Bucket;
use crate::part::Part;
use crate::pool::Pool;
use crate::table::NEW;
use crate::{IndexGeometry, IndexTable, Rehash};
use varve_base::Ref;
use varve_base::group::Tag;
use varve_base::hash::mix64;

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

/// Runs `broken` and checks that a panic with `message` in it stops it.
fn stops<T>(message: &str, broken: impl FnOnce() -> T) {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(broken()))).expect_err(message);
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    assert!(text.is_some_and(|text| text.contains(message)), "{text:?} in place of {message:?}");
}

/// A table of four buckets with `entries` entries.
fn table(entries: u64) -> IndexTable {
    let mut table = IndexTable::new(IndexGeometry::default());
    (1..=entries).for_each(|n| table.insert(mix64(n), r(n), &Mixed));
    table
}

#[test]
fn a_table_that_is_emptied_takes_nothing_in() {
    let mut table = table(25);
    assert!(!table.drain_step(1, &mut |_| {}));
    stops("a table that is being emptied takes nothing in", || {
        (100..1000).for_each(|n| table.insert(mix64(n), r(n), &Mixed));
    });
}

#[test]
fn an_entry_is_of_this_table() {
    let (large, small) = (table(2000), table(3));
    // Nearly all buckets of the large table lie beyond the small one's four.
    let entries: Vec<_> = (1..=2000).filter_map(|n| large.find_ref(mix64(n), r(n))).collect();
    stops("a cell of another table", || entries[1000..].iter().map(|&entry| small.get(entry)).collect::<Vec<_>>());
    stops("bits48 >> 48", || small.find_partial(1 << 48, |_| true));
    stops("a cell that is no longer valid", || {
        let mut table = table(1);
        let entry = table.find_ref(mix64(1), r(1)).unwrap();
        table.remove(entry);
        table.remove(entry)
    });
    stops("shard 4 of 4", || IndexGeometry::shard(4, 4));
}

#[test]
fn parts_and_pools_are_used_as_they_are() {
    stops("the stand-in is not for writing", || Part::none().bucket_mut(0).set_chain(None));
    let mut pool = Pool::default();
    pool.allocate();
    stops("1 overflow buckets are in use", || pool.free_chunks(1));
}

#[test]
fn damage_is_found() {
    let damaged = |message, damage: fn(&mut Part)| {
        let mut table = table(3);
        damage(&mut table.parts[NEW]);
        stops(message, || table.verify(&Mixed));
    };
    // Byte 1 has the native bits, byte 58 the extension.
    damaged("native but not valid", |part| *byte(part.bucket_mut(0), 1) |= 0x40);
    damaged("bucket 0: an extension without use", |part| *byte(part.bucket_mut(0), 58) |= 1);
    damaged("bucket 0 extends itself", |part| part.bucket_mut(0).borrow_one(2));
    damaged("overflow bucket 0 is empty", |part| {
        let id = part.pool_mut().allocate();
        part.bucket_mut(0).set_chain(Some(id));
    });
}

/// One byte of a bucket.
fn byte(bucket: &mut Bucket, at: usize) -> &mut u8 {
    // SAFETY: a bucket is 64 bytes without padding, and any bytes are a bucket.
    let bytes = unsafe { &mut *std::ptr::from_mut(bucket).cast::<[u8; 64]>() };
    &mut bytes[at]
}
