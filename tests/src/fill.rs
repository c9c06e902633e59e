//! A server filled with random data, whose digest stays the same until somebody writes.

use std::io;

use crate::collections::Types;
use crate::generate::{Generator, Kind};
use varve_testkit::{Client, Server};

const NAMES: [&str; 9] = ["debug", "config", "setex", "psetex", "getex", "expire", "pexpire", "expireat", "pexpireat"];
const WORDS: [&str; 4] = ["ex", "px", "exat", "pxat"];

/// True for commands that change a server's settings; for those with a time, which could be over between two digests; for
/// those that may make a score of -0; and for those that Valkey 9 takes in another way, with which chains are filled. A script that has one of these commands or words is left out as well.
#[must_use]
pub fn is_left_out(args: &[Vec<u8>]) -> bool {
    let has = |arg: &[u8]| is(arg, &WORDS) || quotes(arg, &NAMES) || quotes(arg, &WORDS);
    is(&args[0], &NAMES) || args.iter().any(|arg| has(arg)) || may_make_minus_zero(args) || is_another_in_valkey(args)
}

/// Whether Valkey 9 takes this command otherwise than redis-server 7.0 and Varve do, in a stream too: it refuses numbers in hexadecimal,
/// ends of ranges behind a blank, and the least integer as a count; and it takes the last 32 bits of an index of LSET.
fn is_another_in_valkey(args: &[Vec<u8>]) -> bool {
    let words = || args.iter().map(Vec::as_slice).chain(args.iter().flat_map(|arg| quoted(arg)));
    let is_odd = |word: &[u8]| {
        let number = word.strip_prefix(b"(").unwrap_or(word);
        word.windows(2).any(|two| two.eq_ignore_ascii_case(b"0x"))
            || number.first().is_some_and(u8::is_ascii_whitespace)
            || word == i64::MIN.to_string().as_bytes()
    };
    let is_long = |word: &[u8]| {
        let index: Option<i64> = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
        index.is_some_and(|index| i32::try_from(index).is_err())
    };
    words().any(is_odd) || words().any(|word| is(word, &["lset"])) && words().any(is_long)
}

fn is(arg: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| arg.eq_ignore_ascii_case(name.as_bytes()))
}

/// The words that a script has in quotes.
fn quoted(arg: &[u8]) -> impl Iterator<Item = &[u8]> {
    arg.split(|byte| *byte == b'\'').skip(1).step_by(2)
}

/// Whether a script has one of these in quotes.
fn quotes(arg: &[u8], names: &[&str]) -> bool {
    quoted(arg).any(|word| is(word, names))
}

/// Whether this is a score of -0 in one of its spellings, or may turn one into it.
fn is_minus_zero(arg: &[u8]) -> bool {
    let number: Option<f64> = std::str::from_utf8(arg).ok().and_then(|text| text.parse().ok());
    number.is_some_and(|number| number == 0.0 && number.is_sign_negative()) || arg.eq_ignore_ascii_case(b"weights")
}

/// True for commands and scripts that may make a score of -0: a small sorted set keeps no sign of it, and so no file that is
/// loaded.
#[must_use]
pub fn may_make_minus_zero(args: &[Vec<u8>]) -> bool {
    args.iter().any(|arg| is_minus_zero(arg) || quoted(arg).any(is_minus_zero))
}

/// Runs random commands, also in transactions.
///
/// # Panics
/// When the server is lost.
pub fn fill(server: &Server, seed: u64, commands: usize) {
    fill_while(server, seed, |done| done < commands).expect("a reply");
}

/// Runs the commands of [`fill`] while `goes_on` says so, which is given how many there were.
///
/// # Errors
/// When the server is lost.
pub fn fill_while(server: &Server, seed: u64, mut goes_on: impl FnMut(usize) -> bool) -> io::Result<()> {
    let mut generator = Generator::new(seed, 2, Types::ALL);
    let mut client = Client::connect(server.address())?;
    let (mut done, mut left) = (0, 0);
    while goes_on(done) {
        let mut step = generator.next_step();
        while step.kind != Kind::Call || is_left_out(&step.args) {
            step = generator.next_step();
        }
        if left == 0 {
            client.call(&["MULTI"])?;
            left = 1 + done % 7;
        }
        client.call(&step.args)?;
        (done, left) = (done + 1, left - 1);
        if left == 0 {
            client.call(&["EXEC"])?;
        }
    }
    if left > 0 {
        client.call(&["EXEC"])?;
    }
    Ok(())
}
