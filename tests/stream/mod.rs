//! Parts of the test of effects: the table, and the two servers whose streams are compared with it.
//!
//! ```text
//! table   tests/data/effects.txt: cases of commands, each with the effects that it must leave
//! theirs  redis-server, and its stream as a replica gets it
//! ours    Varve's executor in this process, and its stream
//! ```
//! A stream is compared without its SELECTs: each effect carries its database, and they are put back where it changes.

pub(crate) mod ours;
pub(crate) mod table;
pub(crate) mod theirs;

use std::time::{SystemTime, UNIX_EPOCH};

/// Name and arguments.
pub(crate) type Words = Vec<Vec<u8>>;

/// One command of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    /// The database that is selected for it.
    pub(crate) db: u32,
    /// Name and arguments.
    pub(crate) words: Words,
}

/// Follows the SELECTs of a stream.
#[derive(Debug, Default)]
pub(crate) struct Databases {
    db: u32,
}

impl Databases {
    /// A command of the stream as an effect; None for a SELECT.
    pub(crate) fn effect(&mut self, words: Words) -> Option<Effect> {
        if words[0] != b"SELECT" {
            return Some(Effect { db: self.db, words });
        }
        let number = std::str::from_utf8(&words[1]).ok().and_then(|text| text.parse().ok());
        self.db = number.expect("SELECT has a number");
        None
    }
}

/// Milliseconds of Unix time.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

/// Effects as lines of the table, from database `db` on, which becomes the last one's. Times near `now_ms` become `@ms`.
pub(crate) fn lines(effects: &[Effect], db: &mut u32, now_ms: i64) -> Vec<String> {
    let mut lines = Vec::new();
    for effect in effects {
        if effect.db != *db {
            *db = effect.db;
            lines.push(format!("SELECT {db}"));
        }
        lines.push(effect.words.iter().map(|word| show(word, now_ms)).collect::<Vec<_>>().join(" "));
    }
    lines
}

/// Times that differ by less than half of this are shown alike.
const TIME_STEP_MS: i64 = 5000;
/// Times further from now are shown as they are.
const TIME_NEAR_MS: u64 = 10_000_000;

/// A word as the table has it.
fn show(word: &[u8], now_ms: i64) -> String {
    let text = std::str::from_utf8(word).unwrap_or_default();
    if let Ok(time) = text.parse::<i64>()
        && time.abs_diff(now_ms) < TIME_NEAR_MS
    {
        return format!("@{}", (time - now_ms + TIME_STEP_MS / 2).div_euclid(TIME_STEP_MS) * TIME_STEP_MS);
    }
    if !word.is_empty() && word.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'"') {
        text.to_owned()
    } else {
        format!("\"{}\"", word.escape_ascii())
    }
}
