//! The token of scripts.
//!
//! A script may hold shards for as long as it likes, and waits for more of them while it does: one script at a time, since two
//! could wait for each other. Its thread has the token meanwhile. Nobody waits for the token; a script that finds it taken is put
//! back and tried again. Nobody else waits without an end for a shard beside others: the script that holds it may need the very
//! thread that would wait.

#[cfg(loom)]
use loom::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
#[cfg(not(loom))]
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};

use varve_base::rank::{self, Rank, RankToken};

/// See the module. A store has one; public for the models of its protocol.
#[derive(Debug)]
pub struct Token {
    held: AtomicBool,
}

// Not derived: loom's atomics have no default.
impl Default for Token {
    fn default() -> Token {
        Token { held: AtomicBool::new(false) }
    }
}

/// The right to take shards in any order and to wait for them while others are held: one thread at a time has it, inside the
/// gate.
#[must_use = "the token is held only as long as this lives"]
#[derive(Debug)]
pub struct ScriptToken<'s> {
    token: &'s Token,
    _rank: RankToken,
}

impl Token {
    /// The token, if nobody has it.
    pub fn try_script(&self) -> Option<ScriptToken<'_>> {
        let rank = rank::enter(Rank::Token);
        let taken = self.held.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        taken.then(|| ScriptToken { token: self, _rank: rank })
    }
}

impl Drop for ScriptToken<'_> {
    fn drop(&mut self) {
        debug_assert!(self.token.held.load(Relaxed), "the token is one script's");
        self.token.held.store(false, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_script_has_the_token() {
        let token = Token::default();
        let script = token.try_script().expect("nobody has it");
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(token.try_script().is_none()));
        });
        drop(script);
        assert!(token.try_script().is_some());
    }
}
