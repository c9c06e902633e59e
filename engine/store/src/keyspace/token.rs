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
//!
//! Tries that find the other kind leave a wish: newcomers of that kind give way to it until the token was free for this one. Else
//! overviews of several threads, which may overlap without end, would leave no moment for a script, and scripts in a row none
//! for an overview. A wish that nobody renews is forgotten after [`WISH_MS`]: its client may be gone.
//!
//! ```text
//!   wish:  63                    1    0
//!          | until, ms of the clock | kind |     0: none
//! ```

#[cfg(loom)]
use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
#[cfg(not(loom))]
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use std::time::Instant;

use varve_base::rank::{self, Rank, RankToken};

const NOBODY: u32 = 0;
const SCRIPT: u32 = u32::MAX;
/// How long a wish holds after its last try: longer than a turn of a worker's loop mostly takes.
const WISH_MS: u64 = 20;

/// A kind of tries: the lowest bit of its wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Script = 0,
    Overview = 1,
}

/// See the module's picture. A store has one; public for the models of its protocol.
#[derive(Debug)]
pub struct Token {
    held: AtomicU32,
    /// The kind to which the other one gives way, and until when.
    wish: AtomicU64,
    /// The beginning of the clock of wishes.
    epoch: Instant,
}

impl Default for Token {
    fn default() -> Token {
        Token { held: AtomicU32::new(NOBODY), wish: AtomicU64::new(0), epoch: Instant::now() }
    }
}

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
        if self.gives_way_to(Kind::Overview) {
            return None;
        }
        match self.held.compare_exchange(NOBODY, SCRIPT, Acquire, Relaxed) {
            Ok(_) => self.grant(Kind::Script),
            Err(SCRIPT) => return None,
            Err(_) => {
                self.make_wish(Kind::Script);
                return None;
            }
        }
        Some(ScriptToken { token: self, _rank: rank })
    }

    /// The overview, if no script has the token.
    pub fn try_overview(&self) -> Option<Overview<'_>> {
        let rank = rank::enter(Rank::Token);
        if self.gives_way_to(Kind::Script) {
            return None;
        }
        let mut n = self.held.load(Relaxed);
        while n != SCRIPT {
            match self.held.compare_exchange_weak(n, n + 1, Acquire, Relaxed) {
                Ok(_) => {
                    self.grant(Kind::Overview);
                    return Some(Overview { token: self, _rank: rank });
                }
                Err(now) => n = now,
            }
        }
        self.make_wish(Kind::Overview);
        None
    }

    /// True if this kind has a wish, to which the other one gives way.
    #[inline]
    fn gives_way_to(&self, kind: Kind) -> bool {
        let wish = self.wish.load(Relaxed);
        wish != 0 && wish & 1 == kind as u64 && self.now_ms() < wish >> 1
    }

    /// A try of this kind has found the other one: newcomers of that give way, unless this one gives way to them.
    #[cold]
    fn make_wish(&self, kind: Kind) {
        let (wish, now) = (self.wish.load(Relaxed), self.now_ms());
        if wish & 1 == kind as u64 || now >= wish >> 1 {
            // Of two wishes at once one is lost, and made again with the next try.
            self.wish.store((now + WISH_MS) << 1 | kind as u64, Relaxed);
        }
    }

    /// A try of this kind was successful: its wish is over.
    #[inline]
    fn grant(&self, kind: Kind) {
        let wish = self.wish.load(Relaxed);
        if wish != 0 && wish & 1 == kind as u64 {
            self.wish.store(0, Relaxed);
        }
    }

    /// Milliseconds since the token was made; the time of models stands still.
    fn now_ms(&self) -> u64 {
        if cfg!(loom) { 0 } else { self.epoch.elapsed().as_millis() as u64 }
    }
}

impl Drop for ScriptToken<'_> {
    fn drop(&mut self) {
        debug_assert_eq!(self.token.held.load(Relaxed), SCRIPT, "the token is one script's");
        self.token.held.store(NOBODY, Release);
    }
}

impl Drop for Overview<'_> {
    fn drop(&mut self) {
        let before = self.token.held.fetch_sub(1, Release);
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

    /// Runs on a thread of its own: one that has the token or the overview asks for neither.
    fn elsewhere<R: Send>(ask: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| scope.spawn(ask).join().expect("it answers"))
    }

    fn is_free_for(token: &Token, kind: Kind) -> bool {
        elsewhere(|| match kind {
            Kind::Script => token.try_script().is_some(),
            Kind::Overview => token.try_overview().is_some(),
        })
    }

    #[test]
    fn issue_15_scripts_and_overviews_have_the_token_in_turns() {
        let mut token = Token::default();
        let first = token.try_overview().expect("nobody has it");
        assert!(is_free_for(&token, Kind::Overview), "no script wants it");
        assert!(!is_free_for(&token, Kind::Script));
        hold_wish(&token);
        assert!(!is_free_for(&token, Kind::Overview), "overviews that overlap would leave no moment for the script");
        drop(first);
        let script = token.try_script().expect("the wish");
        assert!(!is_free_for(&token, Kind::Overview));
        hold_wish(&token);
        drop(script);
        assert!(!is_free_for(&token, Kind::Script), "scripts in a row would leave no moment for the overview");
        drop(token.try_overview().expect("the wish"));
        assert!(is_free_for(&token, Kind::Script) && is_free_for(&token, Kind::Overview));
        // A wish of a client that is gone.
        let first = token.try_overview().expect("nobody has it");
        assert!(!is_free_for(&token, Kind::Script));
        drop(first);
        token.epoch -= std::time::Duration::from_millis(WISH_MS);
        assert!(is_free_for(&token, Kind::Overview));
    }

    /// Has the wish hold for an hour, on a machine that stands still for a while.
    fn hold_wish(token: &Token) {
        let wish = token.wish.load(Relaxed);
        assert!(wish != 0, "somebody has a wish");
        token.wish.store(wish + (3_600_000 << 1), Relaxed);
    }
}
