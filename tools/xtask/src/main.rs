//! cargo xtask: check, tidy, test, bench.

fn main() {}
