//! The program: event loops, connections, configuration.

fn main() {}
