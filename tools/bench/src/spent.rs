//! CPU of a server with what does not last: threads that have ended, and children, in which redis-server writes its files.
//!
//! The system counts it in ticks of 10 ms, so that it tells of work that takes seconds. A child counts from when its parent has
//! seen its end.

use std::fs;
use std::io;

/// Ticks of a second, on each Linux.
const TICKS_PER_S: f64 = 100.0;

/// Seconds on a CPU of a process, of its threads that have ended, and of its children that have ended.
///
/// # Errors
/// When the process is gone.
pub(crate) fn cpu_s(pid: u32) -> io::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    ticks(&text).map(|ticks| ticks as f64 / TICKS_PER_S).ok_or_else(|| io::Error::other("no ticks of the process"))
}

/// The sum of the fields `utime`, `stime`, `cutime` and `cstime`, which are 14 to 17 of the line.
fn ticks(stat: &str) -> Option<u64> {
    // The command's name may hold anything, brackets and spaces too: fields count from the last bracket, behind which the third
    // one stands.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Option<Vec<u64>> = rest.split_whitespace().skip(11).take(4).map(|field| field.parse().ok()).collect();
    fields.filter(|fields| fields.len() == 4).map(|fields| fields.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_four_fields_are_found_behind_any_name() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 100 20 3000 400 20 0 1 0 5";
        assert_eq!(ticks(line), Some(3520));
        assert_eq!(ticks("7 (a) S 1 2"), None);
    }

    #[test]
    fn a_child_that_has_ended_counts() {
        let before = cpu_s(std::process::id()).unwrap();
        // Some tenths of a second.
        let looped = Command::new("sh").args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]).status();
        assert!(looped.unwrap().success());
        assert!(cpu_s(std::process::id()).unwrap() > before);
    }
}
