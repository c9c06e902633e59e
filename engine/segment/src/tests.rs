//! The whole log with segments of a few kilobytes: named cases, broken contracts, threads, and costs at
//! scale. `tests/against_model.rs` has the model.

mod ahead;
mod cases;
#[cfg(debug_assertions)]
mod contracts;
mod pins;
mod scale;
mod threads;

use crate::{Appender, Log, LogGeometry, NewObject, ObjectHead, ObjectKind, Owner, Pin, Relocate, Relocated};

/// A kind of keys.
const KEY: ObjectKind = ObjectKind::key(1);

/// Small enough that a few hundred objects fill segments, pieces and runs.
fn tiny() -> LogGeometry {
    LogGeometry {
        segment_bytes: 8192,
        piece_bytes: 1024,
        extent_min_bytes: 2048,
        release_bytes: 4096,
        reserve_bytes: 64 << 20,
    }
}

/// All bytes of a pinned value, read as they lie together.
fn bytes_of(pin: &Pin) -> Vec<u8> {
    let mut bytes = Vec::new();
    pin.each_part(0..pin.len(), |part| bytes.extend_from_slice(part));
    bytes
}

fn plain<'a>(key: &'a [u8], value: &'a [u8]) -> NewObject<'a> {
    NewObject::new(KEY, Owner::Database(0), key, value)
}

/// For victims in which nothing lives.
struct Nobody;

impl Relocate for Nobody {
    fn prepare(&mut self, heads: &[ObjectHead<'_>]) {
        panic!("{heads:?} should be dead");
    }

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        panic!("{head:?} should be dead");
    }
}

fn parked(log: &Log, work: impl FnOnce(&mut Appender)) {
    let mut appender = Appender::new();
    work(&mut appender);
    appender.park(log);
}
