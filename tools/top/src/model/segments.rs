//! SEGMENTS' entries.

use varve_testkit::RespValue;

use super::reply::{number, text};

/// A segment of the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) state: String,
    pub(crate) class: String,
    /// Bytes that were written.
    pub(crate) used: u64,
    /// Bytes of them that live.
    pub(crate) live: u64,
}

impl Segment {
    /// Percent of the written bytes that live; 0 of an empty one.
    pub(crate) fn live_percent(&self) -> u64 {
        (100 * self.live.min(self.used)).checked_div(self.used).unwrap_or(0)
    }
}

/// The segments, in order of their numbers.
pub(crate) fn segments(reply: &RespValue) -> Vec<Segment> {
    let of = |one: &RespValue| Segment {
        state: text(one, "state"),
        class: text(one, "class"),
        used: number(one, "used"),
        live: number(one, "live-bytes"),
    };
    reply.elements().unwrap_or_default().iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::recorded;
    use super::*;

    #[test]
    fn a_segment_has_its_live_share() {
        let segments = segments(&recorded::segments());
        assert_eq!((&*segments[0].state, &*segments[0].class, segments[0].live_percent()), ("open", "ordinary", 75));
        assert_eq!(segments[1].live_percent(), 0, "an empty one");
    }
}
