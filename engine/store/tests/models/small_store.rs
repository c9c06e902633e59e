//! A store of which little is full: its segments fill, and are reclaimed, after some kilobytes.

use std::sync::Arc;

use varve_store::{LogGeometry, Options, Store};

/// One with this number of databases.
pub(crate) fn small_store(databases: u32, seed: u64) -> Arc<Store> {
    let geometry = LogGeometry {
        segment_bytes: 16 << 10,
        piece_bytes: 1 << 10,
        extent_min_bytes: 2 << 10,
        release_bytes: 4 << 10,
        reserve_bytes: 1 << 30,
    };
    let options = Options { databases, shards: 4, seed, geometry, ..Options::default() };
    Store::new(&options).expect("an address range")
}
