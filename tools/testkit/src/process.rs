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
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
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
/// When the process is gone.
pub fn memory(pid: u32) -> io::Result<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok())
            .map_or(0, |kilobytes| kilobytes * 1024)
    };
    Ok(Memory { resident: field("VmRSS:"), peak: field("VmHWM:") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_this_process() {
        let me = std::process::id();
        let memory = memory(me).unwrap();
        assert!(memory.resident > 100_000 && memory.peak >= memory.resident / 2, "{memory:?}");
        let before = cpu_ns(me).unwrap();
        let mut x = 1_u64;
        while cpu_ns(me).unwrap() < before + 1_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(cpu_ticks(me).is_ok());
    }
}
