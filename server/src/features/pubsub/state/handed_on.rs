//! Messages of clients on their way to replicas of this server, whose own listeners get them.
//!
//! ```text
//!   PUBLISH --> held, by author --the visit ends, its effects stand in the journal--> journal --> replicas
//! ```
//! So a listener at a replica that asks for what a message tells of finds it there. The messages of one author keep their order.
//! While no stream is kept, or another server is followed, nothing is held. Not here: this server's listeners.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use varve_exec::journal::{Journal, put_request};

/// The messages of one author.
#[derive(Debug, Default)]
struct Author {
    any: AtomicBool,
    /// A leaf that nobody else takes.
    held: Mutex<Held>,
}

/// Requests, one behind the other.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

/// See the module's picture.
#[derive(Debug)]
pub(super) struct HandedOn {
    journal: Arc<Journal>,
    authors: Box<[Author]>,
}

impl HandedOn {
    /// Of this number of authors.
    pub(super) fn new(authors: usize, journal: Arc<Journal>) -> HandedOn {
        HandedOn { journal, authors: (0..authors).map(|_| Author::default()).collect() }
    }

    /// An author has published a message to a channel, or to a shard channel.
    #[inline]
    pub(super) fn add(&self, author: usize, shard: bool, channel: &[u8], message: &[u8]) {
        if self.journal.takes_messages() {
            self.authors[author].add(shard, channel, message);
        }
    }

    /// The visit of this author has ended.
    #[inline]
    pub(super) fn end_visit(&self, author: usize) {
        let author = &self.authors[author];
        if author.any.load(Ordering::Relaxed) {
            author.any.store(false, Ordering::Relaxed);
            let Held { bytes, lengths } = mem::take(&mut *author.held.lock());
            self.journal.hand_on_messages(bytes, &lengths);
        }
    }
}

impl Author {
    #[cold]
    fn add(&self, shard: bool, channel: &[u8], message: &[u8]) {
        let name: &[u8] = if shard { b"SPUBLISH" } else { b"PUBLISH" };
        let mut held = self.held.lock();
        let before = held.bytes.len();
        put_request(&mut held.bytes, [name, channel, message].into_iter());
        let length = held.bytes.len() - before;
        held.lengths.push(length);
        self.any.store(true, Ordering::Relaxed);
    }
}
