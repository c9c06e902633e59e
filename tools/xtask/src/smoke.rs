//! The tools that people have, run against Varve: redis-cli, redis-benchmark, redis-py.
//!
//! Each check is one test of the tally. The server is started by a small program of the tests package? No: by hand, here,
//! on a free loopback port, and stopped by its pid.

use crate::shell::Tally;

pub(crate) fn run() -> Tally {
    Tally::default()
}
