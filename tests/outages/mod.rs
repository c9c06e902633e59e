//! The parts of the test of failovers: three machines, what happens to them, who writes meanwhile, and what must be there behind it.

pub(crate) mod cluster;
pub(crate) mod faults;
pub(crate) mod history;
pub(crate) mod load;
pub(crate) mod report;

/// Machines, each with a server and a Sentinel.
pub(crate) const BOXES: usize = 3;
/// Clients that write.
pub(crate) const WRITERS: usize = 3;
/// Lists of a round, which all writers append to.
pub(crate) const LISTS: usize = 2;
