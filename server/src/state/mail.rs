//! Mailboxes: how one thread tells a worker something.
//!
//! A message is put under a short lock; the worker's poll is woken only when the box was empty, so that a burst costs one
//! write to the event descriptor. The lock is a leaf: nothing else is taken under it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use mio::Waker;
use varve_base::shared::SharedMutex;

use varve_exec::Served;
use varve_exec::link::Link;
use varve_store::StoreWorker;

use super::ask_all_workers::Gather;
use crate::config::ShutdownOptions;
use crate::features::pubsub::state::ConnRef;
use crate::net::conn::Newcomer;
use crate::net::links::Resolved;

/// A message to a worker.
#[derive(Debug)]
pub(crate) enum Message {
    /// A connection that was accepted is this worker's from now on.
    Adopt(Newcomer),
    /// Answer this question for your connections.
    Ask(Arc<Gather>),
    /// All workers have answered this question, which one of your connections asked.
    Gathered(Arc<Gather>),
    /// One of your connections waited for keys, and was served; its reply leaves when the append-only file is synced up to
    /// this position.
    Served { served: Served, filed: u64 },
    /// The work has ended, or has failed, for which this connection of yours waits.
    WorkDone { conn: ConnRef, done: bool },
    /// The name of a link's server has been resolved, or a thread has connected to it.
    Resolved { link: Arc<Link>, resolved: Resolved },
    /// The clients take too much together, and the largest are yours.
    EvictClients,
    /// There is more for your replicas.
    Stream,
    /// One of your connections waited for copies of what was written, and there may be enough.
    Copied { client: u64 },
    /// The configuration has changed: take the current snapshot.
    Refresh,
    /// Data is being loaded, and some of it waits for a worker.
    Load,
    /// DEBUG SLEEP: do nothing while it lasts.
    Sleep,
    /// Do this alone behind the gate.
    Alone(AloneWork),
    /// The server follows another one: end the waits of your clients for keys. Answer when you have ended the turn in which you
    /// heard of it, and the commands of yours that are brought to their end.
    Follows(SyncSender<()>),
    /// Answer when you have ended the turn in which you heard of this, and the commands of yours that are brought to their end.
    Settle(SyncSender<()>),
    /// The operator asks for the end of the server.
    Shutdown(ShutdownOptions),
    /// The server goes on, for whose end this client of yours waits.
    Stays { client: u64 },
    /// Write what is written and end.
    Stop,
}

/// Something that needs the gate alone, for a thread that has no place at the gate.
pub(crate) struct AloneWork {
    work: Box<dyn FnOnce(&mut StoreWorker) + Send>,
    done: SyncSender<()>,
}

impl AloneWork {
    /// This work; `done` is told of its end.
    pub(crate) fn new(work: impl FnOnce(&mut StoreWorker) + Send + 'static, done: SyncSender<()>) -> AloneWork {
        AloneWork { work: Box::new(work), done }
    }

    /// Does it. The worker is alone behind the gate.
    pub(crate) fn run(self, worker: &mut StoreWorker) {
        (self.work)(worker);
        // Whoever asked for it may be gone.
        let _ = self.done.send(());
    }
}

impl fmt::Debug for AloneWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AloneWork")
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Mailbox {
    queue: SharedMutex<Vec<Message>>,
    waker: Arc<Waker>,
}

impl Mailbox {
    pub(crate) fn new(waker: Arc<Waker>) -> Mailbox {
        Mailbox { queue: SharedMutex::new(Vec::new()), waker }
    }

    /// Puts a message and wakes the worker.
    pub(crate) fn send(&self, message: Message) {
        let was_empty = {
            let mut queue = self.queue.lock();
            queue.push(message);
            queue.len() == 1
        };
        if was_empty {
            self.wake().expect("an event descriptor takes a count of one after the worker has read it");
        }
    }

    /// Takes all messages, in the order in which they came; `into` is empty before and lends its room to the box.
    pub(crate) fn collect(&self, into: &mut Vec<Message>) {
        assert!(into.is_empty(), "messages taken before have been handled");
        std::mem::swap(&mut *self.queue.lock(), into);
    }

    fn wake(&self) -> io::Result<()> {
        self.waker.wake()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token};
    use std::time::Duration;

    #[test]
    fn a_burst_wakes_once_and_keeps_its_order() {
        let mut poll = Poll::new().unwrap();
        let mailbox = Mailbox::new(Arc::new(Waker::new(poll.registry(), Token(7)).unwrap()));
        for _ in 0..3 {
            mailbox.send(Message::Refresh);
        }
        mailbox.send(Message::Stop);
        let mut events = Events::with_capacity(8);
        poll.poll(&mut events, Some(Duration::from_secs(5))).unwrap();
        assert_eq!(events.iter().count(), 1);
        let mut messages = Vec::new();
        mailbox.collect(&mut messages);
        assert_eq!(messages.len(), 4);
        assert!(matches!(messages[3], Message::Stop));
    }
}
