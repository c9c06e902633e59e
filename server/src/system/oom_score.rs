//! The weight of this process for the system's killer, which ends a process where memory is short.
//!
//! ```text
//!   no --> value          the value that the process was started with is kept
//!   value --> no          and is set again
//! ```

use std::io;

use varve_base::shared::SharedMutex;

use super::error_text;

const FILE: &str = "/proc/self/oom_score_adj";

/// The value that the process was started with, once it has been changed.
static BASE: SharedMutex<Option<i32>> = SharedMutex::new(None);

/// A value of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) value: i32,
    /// It is added to the one that the process was started with.
    pub(crate) relative: bool,
}

/// Sets the weight; None: as it was at the start.
///
/// # Errors
/// The system's, which the log says: less than it was needs a privilege.
pub(crate) fn set(weight: Option<Weight>) -> io::Result<()> {
    let mut base = BASE.lock();
    let value = match (weight, *base) {
        (None, None) => return Ok(()),
        (None, Some(before)) => before,
        (Some(weight), before) => {
            let before = before.map_or_else(read, Ok)?;
            *base = Some(before);
            if weight.relative { before + weight.value } else { weight.value }
        }
    };
    if weight.is_none() {
        *base = None;
    }
    std::fs::write(FILE, format!("{}\n", value.clamp(-1000, 1000)))
        .inspect_err(|error| tracing::warn!("Unable to write oom_score_adj: {}", error_text(error)))
}

fn read() -> io::Result<i32> {
    let text = std::fs::read_to_string(FILE)
        .inspect_err(|error| tracing::warn!("Unable to read oom_score_adj: {}", error_text(error)))?;
    text.trim().parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::{Weight, read, set};

    #[test]
    fn a_weight_is_set_and_taken_back() {
        let before = read().unwrap();
        let of = |value, relative| Some(Weight { value, relative });
        set(of(7, true)).unwrap();
        assert_eq!(read().unwrap(), (before + 7).min(1000));
        set(of(9, true)).unwrap();
        assert_eq!(read().unwrap(), (before + 9).min(1000), "not upon the first one");
        set(of(2000, false)).unwrap();
        assert_eq!(read().unwrap(), 1000);
        // Less than it was is for a privileged process, as it is for the peer.
        if set(None).is_ok() {
            assert_eq!(read().unwrap(), before);
        }
        set(None).unwrap();
    }
}
