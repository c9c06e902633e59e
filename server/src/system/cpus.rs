//! Lists of processors, and keeping a thread on them.
//!
//! ```text
//!   0,2-5      0 2 3 4 5
//!   0-7:2      0 2 4 6            every second one
//! ```
//! A list that is not of this form, or names processors that the machine does not have alone, keeps the thread where it is,
//! with a line in the log: redis-server says nothing.

use super::{error_text, sys};

/// Processors that can be named.
const CPUS_MAX: usize = 1024;

/// Keeps the calling thread, and those that it starts from now on, on the processors of a list; empty: on any.
pub(crate) fn keep_thread_on(list: &str) {
    if list.is_empty() {
        return;
    }
    match parse(list) {
        None => tracing::warn!("'{list}' is no list of processors: a thread may run on any"),
        Some(cpus) => {
            if let Err(error) = sys::keep_thread_on(&cpus) {
                tracing::warn!("A thread cannot be kept on the processors '{list}': {}", error_text(&error));
            }
        }
    }
}

fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (range, step) = part.split_once(':').map_or((part, Some(1)), |(range, step)| (range, step.parse().ok()));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let step: usize = step.filter(|&step| step > 0)?;
        if last >= CPUS_MAX || first > last {
            return None;
        }
        cpus.extend((first..=last).step_by(step));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::{keep_thread_on, parse};

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse("0,2-5").unwrap(), [0, 2, 3, 4, 5]);
        assert_eq!(parse("0-7:2,9").unwrap(), [0, 2, 4, 6, 9]);
        for bad in ["a", "3-1", "0-7:0", "0-4096", "1,", "-1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_thread_stays_on_its_processor() {
        let allowed = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap().to_owned()
        };
        let here = std::thread::spawn(move || {
            let before = allowed();
            let one = before.split([':', '-', ',']).nth(1).unwrap().trim().to_owned();
            keep_thread_on("no list");
            assert_eq!(allowed(), before);
            keep_thread_on(&one);
            (allowed(), one)
        });
        let (after, one) = here.join().unwrap();
        assert_eq!(after.split(':').nth(1).unwrap().trim(), one);
    }
}
