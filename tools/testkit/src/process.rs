//! CPU time and memory of a process, from /proc.

use std::fs;
use std::io;

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// resident now
    pub resident: u64,
    /// the most that was ever resident
    pub peak: u64,
}

/// Time on a CPU, user and system together, summed over the threads that are alive, in nanoseconds.
///
/// # Errors
/// When the process is gone.
pub fn cpu_ns(pid: u32) -> io::Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the look.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        sum += text.split(' ').next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

/// User and system time of the process in clock ticks (of 10 ms on Linux), threads that have ended included.
///
/// # Errors
/// When the process is gone.
pub fn cpu_ticks(pid: u32) -> io::Result<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command's name may hold anything, brackets and spaces too: count from the last bracket.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = rest.split_whitespace().skip(11).map(|field| field.parse().unwrap_or(0));
    Ok((fields.next().unwrap_or(0), fields.next().unwrap_or(0)))
}

/// Resident memory now and at its peak.
///
/// # Errors
/// When the process is gone, or has ended and nobody has waited for it: it has no memory then.
pub fn memory(pid: u32) -> io::Result<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let kilobytes =
            text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok());
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("process {pid} has ended: it has no {name}"));
        kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(gone)
    };
    Ok(Memory { resident: field("VmRSS:")?, peak: field("VmHWM:")? })
}

/// A process, its parent, that one's parent and so on, as far as they can be seen.
#[must_use]
pub fn ancestors(pid: u32) -> Vec<u32> {
    let parent = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let parent = text.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())?;
        (parent != 0).then_some(parent)
    };
    std::iter::successors(Some(pid), parent).collect()
}

/// True if a program is on the path.
#[must_use]
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_this_process() {
        let me = std::process::id();
        let memory = memory(me).unwrap();
        assert!(memory.resident > 100_000 && memory.peak >= memory.resident / 2, "{memory:?}");
        assert!(cpu_ns(me).unwrap() > 0 && cpu_ticks(me).is_ok());
    }

    #[test]
    fn a_process_comes_from_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = ancestors(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found[..2], [child.id(), std::process::id()]);
        assert_eq!(ancestors(child.id()), [child.id()], "one that is gone has no parent");
    }

    #[test]
    fn of_another_that_works_and_then_ends() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = child.id();
        let worked = (0..5_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            cpu_ns(pid).unwrap() > 1_000_000
        });
        child.kill().unwrap();
        // It has ended, and nobody has waited for it.
        let is_gone = (0..5_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            memory(pid).is_err()
        });
        assert!(is_gone, "a process that has ended has no memory, rather than 0 bytes");
        child.wait().unwrap();
        assert!(worked && cpu_ns(pid).is_err());
    }
}
