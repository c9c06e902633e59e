//! A limit of the memory that the system gives a server, by `prlimit` while it runs.
//!
//! | kind | what it counts | a refusal that it stands for |
//! |---|---|---|
//! | `Data` | private memory that may be written: heap, tables, opened parts of the log's range | strict overcommit (`vm.overcommit_memory` 2), which counts the same for a whole machine |
//! | `Addresses` | all mappings; the log's range counts whole from the start | `vm.max_map_count`: what is mapped anew is refused, what is mapped goes on |
//!
//! Each refuses mmap, mremap, mprotect or brk with ENOMEM.

use std::process::Command;

use varve_testkit::Server;

/// See the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// RLIMIT_DATA.
    Data,
    /// RLIMIT_AS.
    Addresses,
}

impl LimitKind {
    /// Lets a server have `bytes` more than it has at this moment.
    ///
    /// # Panics
    /// Without util-linux, or when the server is gone.
    pub fn leave(self, server: &Server, bytes: u64) {
        self.allow(server, self.used_bytes(server) + bytes);
    }

    /// Lets a server have `bytes` in all; if it has more, it keeps them and gets no further ones.
    ///
    /// # Panics
    /// Those of [`LimitKind::leave`].
    pub fn allow(self, server: &Server, bytes: u64) {
        self.set(server, &bytes.to_string());
    }

    /// Lifts the limit.
    ///
    /// # Panics
    /// Those of [`LimitKind::leave`].
    pub fn lift(self, server: &Server) {
        self.set(server, "unlimited");
    }

    fn set(self, server: &Server, value: &str) {
        let resource = match self {
            LimitKind::Data => "data",
            LimitKind::Addresses => "as",
        };
        let (pid, words) = (server.pid().to_string(), format!("--{resource}={value}:unlimited"));
        let done = Command::new("prlimit").args(["--pid", &pid, &words]).status();
        assert!(done.expect("util-linux").success(), "prlimit");
    }

    /// Bytes of a server that count against such a limit.
    fn used_bytes(self, server: &Server) -> u64 {
        let field = match self {
            LimitKind::Data => "VmData:",
            LimitKind::Addresses => "VmSize:",
        };
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("Linux");
        let line = status.lines().find(|line| line.starts_with(field)).expect("a line of the field");
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("kilobytes") << 10
    }
}
