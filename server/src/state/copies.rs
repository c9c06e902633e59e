//! Waiting until replicas have all that was written, while writes are held back: before a server gives its place away or ends.
//!
//! ```text
//!   writes are held back --> nothing goes on that had begun before --> the stream's end stands still --> replicas acknowledge it
//! ```
//! A replica says how far it is each second. It is not asked for it: the question would be one more thing of the stream that it
//! has to have.

use std::thread;
use std::time::{Duration, Instant};

use varve_store::EffectSink;

use super::ServerState;
use super::errands;
use super::mail::Message;

/// How long the thread waits at most before it looks again: a replica may have gone.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How a wait has ended.
#[derive(Debug)]
pub(crate) enum Wait<T> {
    /// There are the copies.
    Reached(T),
    /// The time is up.
    TimeUp,
    /// Somebody wants it no longer.
    GivenUp,
}

/// Waits, writes being held back, until `reached` finds at this offset, the stream's end, what is wanted. `until` is the end of
/// the time for it. The thread holds nothing.
pub(crate) fn wait<T>(
    state: &ServerState,
    until: Option<Instant>,
    is_wanted: impl Fn() -> bool,
    reached: impl Fn(u64) -> Option<T>,
) -> Wait<T> {
    let watchers = state.replication().watchers();
    watchers.begin();
    let ended = wait_watching(state, until, is_wanted, reached);
    watchers.end();
    ended
}

fn wait_watching<T>(
    state: &ServerState,
    until: Option<Instant>,
    is_wanted: impl Fn() -> bool,
    reached: impl Fn(u64) -> Option<T>,
) -> Wait<T> {
    let is_over = || until.is_some_and(|until| Instant::now() >= until);
    let gives_up = || state.is_stopping() || !is_wanted() || is_over();
    let is_still =
        errands::settle(state, Message::Settle, gives_up) && errands::alone(state, |_| (), gives_up).is_some();
    loop {
        if state.is_stopping() || !is_wanted() {
            return Wait::GivenUp;
        }
        let end = state.replication().ids().offset(state.persist().aof.journal().end());
        if let Some(found) = is_still.then(|| reached(end)).flatten() {
            return Wait::Reached(found);
        }
        if is_over() {
            return Wait::TimeUp;
        }
        let left = until.map_or(LOOK_EVERY, |until| until.saturating_duration_since(Instant::now()).min(LOOK_EVERY));
        thread::park_timeout(left);
    }
}
