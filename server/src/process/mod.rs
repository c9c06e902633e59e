//! The process: its command line, its start and end, its signals, and the thread that has memory ready for it.

pub(crate) mod cli;
mod daemon;
pub(crate) mod machine;
mod memory_ahead;
mod signals;
pub(crate) mod start;
