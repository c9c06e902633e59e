//! The clients of a worker that the page of the metrics port shows: those that wait, then those that take most memory.
//!
//! ```text
//!   page ── wants ──▶ wanted until (atomic) ◀── each tick ── worker
//!   page ◀─ clients ─ list (lock)           ◀── each second, while it is wanted
//! ```
//! While nobody looks at a page the worker does nothing for it.

use std::sync::atomic::Ordering;

use varve_base::shared::{SharedI64, SharedMutex};

/// For how long a page's wish holds, milliseconds: longer than the page's interval.
const WANTED_MS: i64 = 12_000;

/// A client as the page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownClient {
    pub(crate) id: u64,
    /// Its end of the connection.
    pub(crate) peer: String,
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) db: u32,
    /// Its last command.
    pub(crate) command: &'static str,
    /// The reason for which its requests wait; None: they wait for nothing.
    pub(crate) waits_for: Option<&'static str>,
    pub(crate) age_s: u64,
    pub(crate) idle_s: u64,
    /// Bytes that it takes.
    pub(crate) bytes: usize,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct OnShow {
    /// By the steady clock, milliseconds.
    wanted_until_ms: SharedI64,
    /// None: the worker has shown none since a page began to ask.
    clients: SharedMutex<Option<Vec<ShownClient>>>,
}

impl Default for OnShow {
    fn default() -> OnShow {
        OnShow { wanted_until_ms: SharedI64::new(i64::MIN), clients: SharedMutex::default() }
    }
}

impl OnShow {
    /// A page wants to show clients for some seconds from now on.
    pub(crate) fn want(&self, now_ms: i64) {
        if !self.is_wanted(now_ms) {
            // Those of the last time may be gone.
            *self.clients.lock() = None;
        }
        // Relaxed: a wish that is seen late is granted late.
        self.wanted_until_ms.store(now_ms + WANTED_MS, Ordering::Relaxed);
    }

    /// True while a page wants to show clients.
    pub(crate) fn is_wanted(&self, now_ms: i64) -> bool {
        now_ms < self.wanted_until_ms.load(Ordering::Relaxed)
    }

    /// The worker's clients as they are now.
    pub(crate) fn show(&self, clients: Vec<ShownClient>) {
        *self.clients.lock() = Some(clients);
    }

    /// The clients that were shown last; None if the worker has shown none since a page began to ask.
    pub(crate) fn clients(&self) -> Option<Vec<ShownClient>> {
        self.clients.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_done_for_a_page_that_nobody_looks_at() {
        let on_show = OnShow::default();
        assert!(!on_show.is_wanted(0));
        on_show.want(1_000);
        assert!(on_show.is_wanted(1_000 + WANTED_MS - 1) && !on_show.is_wanted(1_000 + WANTED_MS));
        assert_eq!(on_show.clients(), None);
        on_show.show(Vec::new());
        assert_eq!(on_show.clients(), Some(Vec::new()));
        on_show.want(1_000 + WANTED_MS);
        assert_eq!(on_show.clients(), None, "they may be gone");
    }
}
