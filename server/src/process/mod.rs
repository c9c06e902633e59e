//! The process: its command line, its start and end, its signals.

pub(crate) mod cli;
mod daemon;
pub(crate) mod machine;
mod signals;
pub(crate) mod start;
