//! The token of scripts, and the overview, which excludes it.
//!
//! ```text
//!   0        nobody
//!   SCRIPT   one script runs: its thread adds shards to those that it holds, and waits for them
//!   n        n threads look at the shards one after the other, waiting for each
//! ```
//! A script may hold shards for as long as it likes. A thread that waits for one of them does nothing else meanwhile, and it
//! may be the very thread that has to go on with the script. So a command that waits for shards outside of its own keys'
//! takes the overview: no script holds any then. Nobody waits for either; a command that finds the other one is tried again.

#[cfg(loom)]
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
#[cfg(not(loom))]
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use varve_base::rank::{self, Rank, RankToken};

const NOBODY: u32 = 0;
const SCRIPT: u32 = u32::MAX;

/// See the module's picture. A store has one; public for the models of its protocol.
#[derive(Debug, Default)]
pub struct Token(AtomicU32);

/// The right to take shards in any order and to wait for them while others are held: one thread at a time has it, inside the
/// gate. Nobody waits for it.
#[must_use = "the token is held only as long as this lives"]
#[derive(Debug)]
pub struct ScriptToken<'s> {
    token: &'s Token,
    _rank: RankToken,
}

/// The right to wait for one shard after the other: no script runs beside others meanwhile.
#[must_use = "it is held only as long as this lives"]
#[derive(Debug)]
pub struct Overview<'s> {
    token: &'s Token,
    _rank: RankToken,
}

impl Token {
    /// The token, if nobody has it or the overview.
    pub fn try_script(&self) -> Option<ScriptToken<'_>> {
        let rank = rank::enter(Rank::Token);
        self.0.compare_exchange(NOBODY, SCRIPT, Acquire, Relaxed).ok()?;
        Some(ScriptToken { token: self, _rank: rank })
    }

    /// The overview, if no script has the token.
    pub fn try_overview(&self) -> Option<Overview<'_>> {
        let rank = rank::enter(Rank::Token);
        let mut n = self.0.load(Relaxed);
        while n != SCRIPT {
            match self.0.compare_exchange_weak(n, n + 1, Acquire, Relaxed) {
                Ok(_) => return Some(Overview { token: self, _rank: rank }),
                Err(now) => n = now,
            }
        }
        None
    }
}

impl Drop for ScriptToken<'_> {
    fn drop(&mut self) {
        debug_assert_eq!(self.token.0.load(Relaxed), SCRIPT, "the token is one script's");
        self.token.0.store(NOBODY, Release);
    }
}

impl Drop for Overview<'_> {
    fn drop(&mut self) {
        let before = self.token.0.fetch_sub(1, Release);
        debug_assert!(before != NOBODY && before != SCRIPT, "an overview is given back once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_excludes_scripts_and_overviews() {
        let token = Token::default();
        let script = token.try_script().expect("nobody has it");
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(token.try_script().is_none() && token.try_overview().is_none()));
        });
        drop(script);
        let first = token.try_overview().expect("nobody has it");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                drop(token.try_overview().expect("several look at once"));
                assert!(token.try_script().is_none(), "the first one still looks");
            });
        });
        drop(first);
        assert!(token.try_script().is_some());
    }
}
