//! The whole log with segments of a few kilobytes: named cases, and threads. `tests/against_model.rs` has the model.

mod cases;
mod threads;

use crate::{Appender, Geometry, Head, Log, NewObject, Relocate, Settled, Value};

/// Small enough that a few hundred objects fill segments, pieces and runs.
fn tiny() -> Geometry {
    Geometry {
        segment_bytes: 8192,
        piece_bytes: 1024,
        run_min_bytes: 2048,
        release_bytes: 4096,
        reserve_bytes: 64 << 20,
    }
}

fn string<'a>(key: &'a [u8], value: &'a [u8]) -> NewObject<'a> {
    NewObject { value: Value::Bytes(value), ..NewObject::string(key, value) }
}

/// For victims in which nothing lives.
struct Nobody;

impl Relocate for Nobody {
    fn prepare(&mut self, heads: &[Head<'_>]) {
        panic!("{heads:?} should be dead");
    }

    fn settle(&mut self, head: &Head<'_>) -> Settled {
        panic!("{head:?} should be dead");
    }
}

fn parked(log: &Log, work: impl FnOnce(&mut Appender)) {
    let mut appender = Appender::new();
    work(&mut appender);
    appender.park(log);
}
