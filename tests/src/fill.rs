//! A server filled with random data, whose digest stays the same until somebody writes.

use crate::collections::Types;
use crate::generate::{Generator, Kind};
use varve_testkit::Server;

/// True for commands that change a server's settings; for those with a time, which could be over between two digests; and
/// for those that may make a score of -0, of which a small sorted set keeps no sign.
fn is_left_out(args: &[Vec<u8>]) -> bool {
    const NAMES: [&str; 9] =
        ["debug", "config", "setex", "psetex", "getex", "expire", "pexpire", "expireat", "pexpireat"];
    const WORDS: [&str; 6] = ["ex", "px", "exat", "pxat", "-0", "weights"];
    let is = |arg: &[u8], names: &[&str]| names.iter().any(|name| arg.eq_ignore_ascii_case(name.as_bytes()));
    is(&args[0], &NAMES) || args.iter().any(|arg| is(arg, &WORDS))
}

/// Runs random commands, also in transactions.
///
/// # Panics
/// When the server is lost.
pub fn fill(server: &Server, seed: u64, commands: usize) {
    let mut generator = Generator::new(seed, 2, Types::ALL);
    let mut client = server.client();
    let (mut ran, mut left) = (0, 0);
    while ran < commands {
        let step = generator.next_step();
        if step.kind != Kind::Call || is_left_out(&step.args) {
            continue;
        }
        if left == 0 {
            client.cmd("MULTI");
            left = 1 + ran % 7;
        }
        drop(client.call(&step.args).expect("a reply"));
        (ran, left) = (ran + 1, left - 1);
        if left == 0 {
            client.cmd("EXEC");
        }
    }
    if left > 0 {
        client.cmd("EXEC");
    }
}
