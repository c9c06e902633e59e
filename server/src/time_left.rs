//! The time that a work which ends still takes.
//!
//! ```text
//!   0 ..... done ............. total        left: as long as the rest takes at the pace so far
//! ```

/// The seconds that are left at the pace so far, rounded up; None while nothing is done, and where it is longer than can be
/// said. More may be done than was announced.
pub(crate) fn time_left_s(done: u64, total: u64, passed_ms: u64) -> Option<u64> {
    let left = total.saturating_sub(done);
    let left_ms = u128::from(left) * u128::from(passed_ms) / u128::from((done > 0).then_some(done)?);
    u64::try_from(left_ms.div_ceil(1000)).ok()
}

#[cfg(test)]
mod tests {
    use super::time_left_s;

    #[test]
    fn the_time_left_follows_the_pace_so_far() {
        assert_eq!(time_left_s(200, 1000, 10_000), Some(40));
        assert_eq!(time_left_s(999, 1000, 10_000), Some(1), "rounded up: it is not done");
        assert_eq!(time_left_s(1000, 1000, 10_000), Some(0));
        assert_eq!(time_left_s(1001, 1000, 10_000), Some(0), "more came than was announced");
        assert_eq!(time_left_s(0, 1000, 10_000), None);
        assert_eq!(time_left_s(1, u64::MAX, u64::MAX), None, "longer than can be said");
    }
}
