//! Keyspace events that a command reports, and those that wait to be taken.

use super::Tx;
use crate::state::events::{Event, EventClass};
use crate::state::key::Key;

impl Tx<'_> {
    /// Tells that something happened to a key, if the class is wanted: a load and a branch if not.
    #[inline]
    pub fn notify(&mut self, class: EventClass, name: &'static str, k: &Key<'_>) {
        self.local.note(self.store, class, name, k.db, k.bytes);
    }

    /// As [`Local::has_events`].
    #[inline]
    pub fn has_events(&self) -> bool {
        self.local.has_events()
    }

    /// As [`Local::take_events`].
    pub fn take_events(&mut self, each: impl FnMut(Event<'_>)) {
        self.local.take_events(each);
    }
}
