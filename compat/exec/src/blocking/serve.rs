//! Serving those who wait, behind the command that made their keys ready.
//!
//! ```text
//!   before a command   any_waiters? --widen--> held: its shards and those that serving may need; no key of them is frozen
//!   the command        tx.changed(k) ... a key of the wanted type: ready list, in order of the first change
//!   behind it          serve_ready: each key, first come first served; what that makes ready follows
//! ```
//! The shards are held from before the command until everybody is served, so nobody sees a key in between. Only where
//! the command let its shards go on the way (to make room) may a target's shard be missing: then all are let go and taken
//! again with it.

use std::collections::VecDeque;
use std::time::Instant;

use varve_protocol::Reply;
use varve_store::{Key, NextWaiter, ReadyKey, ShardSet, StoreWorker, Tx, Waiter, Waiting};

use crate::invoke::{Caller, Observers, Ran};
use crate::waiting::{Served, task};

/// Adds to `shards`, which are held, those that serving the waiters of these keys may need, until there are no more.
/// `take` holds a longer list; false if it could not, and then nothing is held. False also if a key is frozen that the
/// command or those it serves would write.
#[cold]
pub(crate) fn widen<'s, 'k, K: IntoIterator<Item = &'k [u8]>>(
    tx: &mut Tx<'s>,
    shards: &mut ShardSet,
    keys: impl Fn() -> K,
    mut take: impl FnMut(&mut Tx<'s>, &[u16]) -> bool,
) -> bool {
    while tx.widen(shards, keys()) {
        if !take(tx, shards) {
            return false;
        }
    }
    !(tx.store().has_frozen() && tx.any_frozen(keys()))
}

/// Waiters that are served in one hold of the shards, and bytes of their replies after which the rest is put off. One that only
/// reads counts as several: nobody else notices when it is served a little later, while an element that lies where somebody waits for it
/// may be taken by a client that comes later.
const SERVED_AT_ONCE: usize = 512;
const REPLIED_AT_ONCE: usize = 1 << 20;
const READER: usize = 8;

/// How serving the waiters of a key has ended.
enum Serving {
    /// Nobody is left whom the key serves.
    Done,
    /// A shard is missing.
    Far,
    /// The waiters that one hold may serve have been served: more wait.
    Spent,
    /// The next one's target is worked on: it is served behind that, and others are now.
    Later,
}

/// Serves everybody who waits for a key that is ready; beyond some they are put off to [`serve_rest`], since thousands may
/// read one stream. The selected database is the same again afterwards.
#[cold]
pub(crate) fn serve_ready(tx: &mut Tx<'_>, observers: &mut Observers) {
    let db = tx.db();
    let (mut out, mut left) = (Reply::new(), (SERVED_AT_ONCE, REPLIED_AT_ONCE));
    while let Some(ready) = tx.next_ready() {
        tx.select(ready.db);
        let key = tx.key(&ready.bytes);
        match serve_key(tx, &key, observers, &mut out, &mut left) {
            Serving::Done => {}
            Serving::Far => {
                if !tx.regather(ready) {
                    // Busy: later.
                    observers.put_off.append(&mut tx.take_ready());
                }
            }
            Serving::Spent => {
                observers.put_off.push_back(ready);
                observers.put_off.append(&mut tx.take_ready());
            }
            Serving::Later => observers.put_off.push_back(ready),
        }
    }
    tx.hand_on();
    tx.select(db);
}

/// Keys whose waiters were put off that are looked at in one hold: the shards of all are held together.
const KEYS_AT_ONCE: usize = 64;

/// Serves waiters that were put off; the worker is inside the gate. False if nobody was served, and each of the keys that were
/// looked at still has somebody who waits.
#[cold]
pub(crate) fn serve_rest(tx: &mut Tx<'_>, observers: &mut Observers) -> bool {
    let mut ready = std::mem::take(&mut observers.put_off);
    let mut rest = ready.split_off(KEYS_AT_ONCE.min(ready.len()));
    let (looked_at, served) = (ready.len(), observers.served.len());
    if tx.gather_ready(ready) {
        serve_ready(tx, observers);
    } else {
        observers.put_off = tx.take_ready();
    }
    let went_on = observers.served.len() > served || observers.put_off.len() < looked_at;
    // Those that were put off again come behind those that were not looked at.
    rest.append(&mut observers.put_off);
    observers.put_off = rest;
    went_on
}

/// Serves those who wait for one key as long as it has something, with what is `left` of the hold's waiters and bytes.
fn serve_key(
    tx: &mut Tx<'_>,
    key: &Key<'_>,
    observers: &mut Observers,
    out: &mut Reply,
    left: &mut (usize, usize),
) -> Serving {
    loop {
        if left.0 == 0 || left.1 == 0 {
            return Serving::Spent;
        }
        match tx.next_waiter(key) {
            NextWaiter::Nobody => return Serving::Done,
            NextWaiter::Far => return Serving::Far,
            NextWaiter::Later => return Serving::Later,
            NextWaiter::Take(waiter) => {
                if waiter.claim() {
                    let served = serve(tx, &waiter, key, observers, out);
                    let weight = if waiter.only_reads() { READER } else { 1 };
                    *left = (left.0.saturating_sub(weight), left.1.saturating_sub(weight * served.reply.len()));
                    observers.served.push(served);
                }
            }
        }
    }
}

/// Runs a waiter's command on one key.
fn serve(tx: &mut Tx<'_>, waiter: &Waiter, key: &Key<'_>, observers: &mut Observers, out: &mut Reply) -> Served {
    let task = task(waiter);
    let (start, args) = (Instant::now(), task.args.args());
    out.set_resp(task.resp);
    out.set_ceiling(task.ceiling_bytes);
    let mark = out.mark();
    let result = task.resume.resume(tx, args, key, out);
    let (nanos, now_ms) = (start.elapsed().as_nanos() as u64, tx.now_ms());
    let slow = observers.slow.note_served(task.row, args, now_ms, nanos);
    let ran = Ran { row: task.row, args, result, mark, nanos: Some(nanos), now_ms, is_pending: false };
    observers.after(ran, Caller::Waiter, Some(tx), out);
    let reply = Box::new(out.split_off(mark));
    if reply.is_overflown() {
        *out = Reply::new();
    }
    let Waiting { worker, client, .. } = waiter.who();
    Served { worker, client, reply, slow }
}

/// Serves those who wait for the `ready` keys, and, if databases were `exchanged`, everybody else whose key is there: all names that
/// somebody waits for are looked at then. Nobody else is inside the gate.
#[cold]
pub(crate) fn serve_alone(
    worker: &mut StoreWorker,
    ready: VecDeque<ReadyKey>,
    exchanged: bool,
    observers: &mut Observers,
) {
    worker.view(0, |tx| {
        if exchanged {
            tx.recheck(ready);
            serve_ready(tx, observers);
        } else if tx.gather_ready(ready) {
            serve_ready(tx, observers);
        } else {
            observers.put_off.append(&mut tx.take_ready());
        }
    });
}
