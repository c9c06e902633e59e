//! How much of what is owed one turn does: work that many may leave behind, and that nobody is to wait for.

/// A turn does this part of what is owed at least, so that what is owed does not grow without end, however fast it comes.
pub const PART: usize = 128;
/// Milliseconds between two turns that count at most.
const PASSED_MOST_MS: i64 = 64;

/// The items that a turn does of `owed` ones: a [`PART`] of them, `least` at least, and at most `most_a_ms` for each of the
/// milliseconds that have passed since the turn before. A turn before which much was done by others may do more itself: the work of
/// many clients lies between two turns of a busy worker.
pub fn share(owed: usize, least: usize, most_a_ms: usize, passed_ms: i64) -> usize {
    debug_assert!(least <= most_a_ms, "{least} to {most_a_ms} items");
    (owed / PART).clamp(least, most_a_ms * passed_ms.clamp(1, PASSED_MOST_MS) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_grows_with_what_is_owed_up_to_the_time_that_there_was() {
        for (owed, passed_ms, expected) in [
            (0, 1, 10),
            (PART * 10, 1, 10),
            (PART * 50, 1, 50),
            (PART * 500, 1, 100),
            (PART * 500, -7, 100),
            (PART * 500, 3, 300),
            (usize::MAX, 1000, 6400),
        ] {
            assert_eq!(share(owed, 10, 100, passed_ms), expected, "{owed} owed behind {passed_ms} ms");
        }
    }
}
