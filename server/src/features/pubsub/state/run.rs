//! A run: messages in a row that go to the same listeners, whose bytes are made once for all of them.
//!
//! ```text
//!   hub's items:   m1 c   m2 c   m3 c | m4 d ...        for one list of listeners of this worker each
//!   run:           [ m1 m2 m3 ] as RESP2, as RESP3: made when the first listener of a version asks
//!   a listener that began at m2:  [ m2 m3 ]
//! ```
//! A message of several lists (its channel's, and patterns' that match) is a run of its own, one list after the other: a
//! client that is subscribed by name and by pattern gets both forms of a message before the next message. A large payload
//! is a run of its own too: it is sent from where it lies.

use std::cell::OnceCell;
use std::sync::Arc;

use varve_protocol::{Mark, Reply, Resp};

use super::{Kind, Message, Name};

/// Bytes of messages from which on a run takes no more of them.
const RUN_BYTES: usize = 16 << 10;
/// Bytes of a message's frame, about.
const FRAME_BYTES: usize = 48;

/// Listeners by the name of a channel, or by a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct List {
    pub(super) kind: Kind,
    pub(super) name: Name,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Run {
    messages: Vec<Arc<Message>>,
    lists: Vec<List>,
    /// The list whose turn it is.
    list: usize,
    /// About the bytes of the messages.
    bytes: usize,
    /// The messages as the current list gets them, by version.
    written: [OnceCell<Box<Written>>; 2],
}

/// Messages as they are sent, one behind the other.
#[derive(Debug)]
struct Written {
    reply: Reply,
    /// Where each message begins.
    starts: Vec<Mark>,
}

impl Run {
    /// A message, and the lists of this worker that it goes to.
    pub(super) fn new(message: Arc<Message>, lists: Vec<List>) -> Run {
        let bytes = message.bytes() + FRAME_BYTES;
        Run { messages: vec![message], lists, list: 0, bytes, written: Default::default() }
    }

    /// True if a message to this list alone may stand behind the others.
    pub(super) fn takes(&self, message: &Message, list: &List) -> bool {
        self.takes_more(message) && self.lists == std::slice::from_ref(list)
    }

    /// True if the message goes where the run's last one goes, as is seen at once: to the same channel, without patterns.
    pub(super) fn is_for_the_same(&self, message: &Message) -> bool {
        let last = self.messages.last().expect("a run has a message");
        let same_channel = Arc::ptr_eq(&last.channel, &message.channel) && last.kind == message.kind;
        same_channel && last.patterns.is_empty() && message.patterns.is_empty() && self.takes_more(message)
    }

    fn takes_more(&self, message: &Message) -> bool {
        let is_small = |message: &Message| !message.payload.is_large();
        self.lists.len() == 1 && self.bytes < RUN_BYTES && is_small(message) && is_small(&self.messages[0])
    }

    /// Puts a message behind the others, of which [`Run::takes`] or [`Run::is_for_the_same`] is true.
    pub(super) fn add(&mut self, message: Arc<Message>) {
        debug_assert!(self.written.iter().all(|written| written.get().is_none()), "a run grows before it is delivered");
        self.bytes += message.bytes() + FRAME_BYTES;
        self.messages.push(message);
    }

    /// The message of this number in the run.
    pub(super) fn message(&self, nth: usize) -> Option<&Arc<Message>> {
        self.messages.get(nth)
    }

    /// All its lists.
    pub(super) fn lists(&self) -> &[List] {
        &self.lists
    }

    /// The place of the list whose turn it is; those before it have had theirs.
    pub(super) fn turn(&self) -> usize {
        self.list
    }

    /// Number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The list whose turn it is; None when all have had theirs.
    pub(super) fn list(&self) -> Option<&List> {
        self.lists.get(self.list)
    }

    /// Goes on with the next list.
    pub(super) fn next_list(&mut self) {
        self.list += 1;
        self.written = Default::default();
    }

    /// Writes the messages from number `from` of the run on, as the current list gets them.
    pub(crate) fn write(&self, from: usize, out: &mut Reply) {
        if self.messages[0].payload.is_large() {
            return self.write_one(&self.messages[0], out);
        }
        let version = usize::from(out.is_resp3());
        let written = self.written[version].get_or_init(|| self.write_all(out.resp()));
        written.reply.since(written.starts[from]).for_each(|part| out.raw(part));
    }

    fn write_all(&self, resp: Resp) -> Box<Written> {
        let mut reply = Reply::new();
        reply.set_resp(resp);
        let mut starts = Vec::with_capacity(self.messages.len());
        for message in &self.messages {
            starts.push(reply.mark());
            self.write_one(message, &mut reply);
        }
        Box::new(Written { reply, starts })
    }

    fn write_one(&self, message: &Message, out: &mut Reply) {
        let List { kind, name } = self.list().expect("a list has its turn");
        match kind {
            Kind::Pattern => {
                out.push(4);
                out.bulk(kind.message().as_bytes());
                out.bulk(name);
            }
            _ => {
                out.push(3);
                out.bulk(message.kind.message().as_bytes());
            }
        }
        out.bulk(&message.channel);
        if message.payload.is_large() {
            out.bulk_pinned(Box::new(message.payload.clone()));
        } else {
            out.bulk(message.payload.as_ref());
        }
    }
}
