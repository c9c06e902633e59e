//! The experiments, beside the peer in one run.

fn main() {}
