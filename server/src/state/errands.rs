//! Things that a thread without a place at the gate has workers do, and waits for.
//!
//! ```text
//!   a thread --settle, to all workers--> each answers when nothing goes on that it had begun      worker/settling.rs
//!            --alone, to one worker----> it takes the gate alone, and does the work
//! ```
//! Behind both nothing is written any more that had begun before: a script that rests is inside the gate.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use varve_store::StoreWorker;

use super::ServerState;
use super::mail::{AloneWork, Message};

/// How often a thread that waits for a worker looks whether it still wants to.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Sends all workers a message that each answers once, and waits for the answers; false if the thread wants them no longer.
pub(crate) fn settle(
    state: &ServerState,
    message: impl Fn(SyncSender<()>) -> Message,
    mut gives_up: impl FnMut() -> bool,
) -> bool {
    let (sender, answers) = sync_channel(state.workers().len());
    state.send_all(|| message(sender.clone()));
    drop(sender);
    state.workers().iter().all(|_| receive(&answers, &mut gives_up))
}

/// Has a worker do something alone behind the gate, and waits for what it gives; None if the thread wants it no longer: it may be
/// done later all the same.
pub(crate) fn alone<T: Send + 'static>(
    state: &ServerState,
    work: impl FnOnce(&mut StoreWorker) -> T + Send + 'static,
    mut gives_up: impl FnMut() -> bool,
) -> Option<T> {
    let (sender, done) = sync_channel(1);
    let (giver, given) = sync_channel(1);
    // Its taker may be gone.
    let work = move |worker: &mut StoreWorker| _ = giver.send(work(worker));
    state.workers()[0].send(Message::Alone(AloneWork::new(work, sender)));
    if receive(&done, &mut gives_up) { given.recv().ok() } else { None }
}

/// Waits for an answer; false if the thread wants it no longer.
fn receive(answers: &Receiver<()>, gives_up: &mut impl FnMut() -> bool) -> bool {
    loop {
        match answers.recv_timeout(LOOK_EVERY) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Timeout) if !gives_up() => {}
            Err(_) => return false,
        }
    }
}
