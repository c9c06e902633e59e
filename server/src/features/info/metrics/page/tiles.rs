//! The segment map: what lies in each segment, as numbers that the page paints.
//!
//! ```text
//!   tile   [number of its first segment, segments, state, class, bytes in use, bytes that live, age]
//! ```
//! Of a store with more segments than [`TILES_MAX`], neighbours in number share a tile: its bytes are their sums, its state and
//! class are those of the one that is most in the way of rest (draining before open before sealed), its age is the least. Beside
//! the map stands how full each shard's index is: keys, and those for which it has cells.

use serde_json::{Value, json};
use varve_commands::segments::{class_name, state_name};
use varve_store::{SegmentClass, SegmentInfo, SegmentState};

use crate::state::ServerState;

/// Tiles of a map at most.
const TILES_MAX: usize = 4096;

/// The map as it is now.
pub(super) fn tiles(state: &ServerState) -> Value {
    let log = state.store().log();
    let segments = log.segments();
    let stats = log.stats();
    json!({
        "segment_bytes": log.geometry().segment_bytes,
        "tiles": group(&segments).iter().map(Tile::json).collect::<Vec<_>>(),
        "live_bytes": stats.live_bytes,
        "used_bytes": stats.used_bytes,
        "live_objects": stats.live_objects,
        "free": stats.free_segments,
        "draining": stats.draining_segments,
        "tenths": stats.tenths,
        "index": state.store().index_loads().map(|shard| json!([shard.keys, shard.cells])).collect::<Vec<_>>(),
    })
}

/// Some neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    first: u32,
    count: u32,
    state: SegmentState,
    class: SegmentClass,
    used: u64,
    live: u64,
    age: u64,
}

impl Tile {
    fn of(info: &SegmentInfo) -> Tile {
        let &SegmentInfo { segment, state, class, used, live_bytes, age, .. } = info;
        Tile { first: segment, count: 1, state, class, used, live: live_bytes, age }
    }

    fn add(&mut self, info: &SegmentInfo) {
        let other = Tile::of(info);
        if rank(other.state) > rank(self.state) {
            (self.state, self.class) = (other.state, other.class);
        }
        self.count += 1;
        self.used += other.used;
        self.live += other.live;
        self.age = self.age.min(other.age);
    }

    fn json(&self) -> Value {
        let (state, class) = (state_name(self.state), class_name(self.class));
        json!([self.first, self.count, state, class, self.used, self.live.min(self.used), self.age])
    }
}

/// Tiles of equal numbers of segments, at most [`TILES_MAX`].
fn group(segments: &[SegmentInfo]) -> Vec<Tile> {
    let each = segments.len().div_ceil(TILES_MAX).max(1);
    let tile = |group: &[SegmentInfo]| {
        let mut tile = Tile::of(&group[0]);
        group[1..].iter().for_each(|info| tile.add(info));
        tile
    };
    segments.chunks(each).map(tile).collect()
}

/// How much a state says about a tile that several segments share: the greatest is shown.
fn rank(state: SegmentState) -> u8 {
    match state {
        SegmentState::Free | SegmentState::Tail => 0,
        SegmentState::Sealed => 1,
        SegmentState::Extent => 2,
        SegmentState::Open => 3,
        SegmentState::Retired => 4,
        SegmentState::Draining => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(segment: u32, state: SegmentState, used: u64, age: u64) -> SegmentInfo {
        let class = SegmentClass::Ordinary;
        SegmentInfo { segment, state, class, used, live_bytes: used / 2, live_objects: 1, sealed: 0, age, pins: 0 }
    }

    #[test]
    fn each_segment_has_its_tile_while_they_are_few() {
        let tiles = group(&[info(3, SegmentState::Sealed, 100, 7), info(9, SegmentState::Open, 10, 0)]);
        assert_eq!(tiles.iter().map(|tile| (tile.first, tile.count)).collect::<Vec<_>>(), [(3, 1), (9, 1)]);
        assert_eq!(tiles[0].json(), json!([3, 1, "sealed", "ordinary", 100, 50, 7]));
        assert_eq!(group(&[]), []);
    }

    #[test]
    fn many_segments_share_tiles_and_no_byte_is_lost() {
        let many = 131_072;
        let segments: Vec<SegmentInfo> = (0..many)
            .map(|id| {
                info(id, if id == 70_000 { SegmentState::Draining } else { SegmentState::Sealed }, 8, u64::from(id))
            })
            .collect();
        let tiles = group(&segments);
        assert_eq!(tiles.len(), TILES_MAX);
        assert_eq!(tiles.iter().map(|tile| tile.used).sum::<u64>(), u64::from(many) * 8);
        assert_eq!(tiles.iter().filter(|tile| tile.state == SegmentState::Draining).count(), 1);
        assert_eq!(tiles[1].age, u64::from(many) / TILES_MAX as u64, "the youngest of its segments");
    }
}
