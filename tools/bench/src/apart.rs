//! Server and load generator on cores of their own, so that neither puts the other off its core.
//!
//! A server's histograms are told by a clock that runs on while its thread is off its core: beside a load generator that may
//! run anywhere, holds of a fraction of a millisecond are told as four, which is the scheduler's turn.

use std::process::{Command, Stdio};

use crate::say;

/// The cores, by the system's numbers.
const SERVER: u32 = 0;
const CLIENT: u32 = 1;

/// This process is on one core until it goes.
pub(crate) struct Apart {
    /// The cores that the process had; none if it could not be moved.
    before: Option<String>,
}

impl Apart {
    /// Puts this process on its core. It says so where the machine has but one core.
    pub(crate) fn begin() -> Apart {
        let mut before = allowed();
        if !pin(std::process::id(), &CLIENT.to_string()) {
            // Some threads may have been moved.
            before.take().iter().for_each(|cores| _ = pin(std::process::id(), cores));
            say!("client and server could not be given cores of their own: the times are the scheduler's too");
        }
        Apart { before }
    }

    /// Puts a server with all its threads on the other core.
    pub(crate) fn put(&self, pid: u32) {
        if self.before.is_some() && !pin(pid, &SERVER.to_string()) {
            say!("the server could not be given a core of its own: the times are the scheduler's too");
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        if let Some(cores) = &self.before
            && !pin(std::process::id(), cores)
        {
            say!("the load generator stays on one core");
        }
    }
}

/// The cores that this process may use, as `taskset` takes them.
fn allowed() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(list.trim().to_owned())
}

/// Keeps a process with all its threads on some cores; false if that cannot be had.
fn pin(pid: u32, cores: &str) -> bool {
    let mut command = Command::new("taskset");
    command.args(["-acp", cores, &pid.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_gets_its_cores_back() {
        let before = allowed().expect("Linux");
        let apart = Apart::begin();
        match apart.before {
            Some(_) => assert_eq!(allowed().as_deref(), Some("1")),
            None => assert_eq!(allowed(), Some(before.clone())),
        }
        drop(apart);
        assert_eq!(allowed(), Some(before));
    }
}
