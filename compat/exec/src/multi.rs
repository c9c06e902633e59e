//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: what a session keeps for them.
//!
//! ```text
//!            MULTI                 commands: checked, copied, +QUEUED
//!   idle ------------> queueing ------------------------------------> queueing
//!                        |   \-- one that could not be queued --> queueing, spoilt
//!                        |
//!                        +-- DISCARD, RESET, end of the connection --> idle, nothing was done
//!                        +-- EXEC: spoilt -> EXECABORT; a watched key touched -> null; else all run --> idle
//! ```
//! A queued command is a copy of its arguments. How EXEC runs them is batch/transaction.rs; what is watched lies in the shards
//! (the store's watchers), and the session remembers which keys that were.

use std::collections::BTreeSet;

use varve_base::refusable::reserve;
use varve_catalog::{Flags, Row};
use varve_protocol::{Args, OwnedArgs};
use varve_store::{StoreWorker, Tx, Watcher};

use crate::script_rules::ScriptRules;

/// A command that waits for EXEC.
#[derive(Clone, Debug)]
pub struct Queued {
    /// The command's row.
    pub(crate) row: &'static Row,
    /// The flags of the script that it runs, if that declares any.
    pub(crate) rules: Option<ScriptRules>,
    args: OwnedArgs,
}

impl Queued {
    pub(crate) fn new(row: &'static Row, args: Args<'_>) -> Queued {
        Queued { row, rules: None, args: OwnedArgs::from(args) }
    }

    /// The arguments; number 0 is the name as it was sent.
    pub fn args(&self) -> Args<'_> {
        self.args.args()
    }

    /// A copy of a command that runs a script with these flags; None if the system refuses the memory.
    fn try_new(row: &'static Row, rules: Option<ScriptRules>, args: Args<'_>) -> Option<Queued> {
        Some(Queued { row, rules, args: OwnedArgs::try_copy(args)? })
    }

    /// Bytes that it takes.
    fn memory(&self) -> usize {
        self.args.heap_bytes() + size_of::<Queued>()
    }
}

/// How a transaction must run, from what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// The shards of all its keys are held.
    #[default]
    Shards,
    /// All shards are held: it has a command that looks at keys which it does not name.
    AllShards,
    /// Nobody else is inside the gate: it has a command on the whole keyspace that changes more than keys, or a script.
    Exclusive,
    /// Nobody else is inside the gate, and the server drives: it runs some of the commands itself.
    Server,
}

/// The commands of a session between MULTI and EXEC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Multi {
    pub(crate) queue: Vec<Queued>,
    /// A command could not be queued: EXEC does nothing.
    pub(crate) spoilt: bool,
    pub(crate) reach: Reach,
    /// A command may change something.
    pub(crate) changes: bool,
    /// Bytes of the arguments of the commands that may need memory, and of their number; 0 if there is none.
    pub(crate) admit_bytes: u64,
    /// EXEC as the client wrote it, for MONITOR.
    pub(crate) word: [u8; 4],
}

/// Bytes that a key may need beside what its request carries: header, room, index.
const KEY_OVERHEAD_BYTES: u64 = 64;
/// Arguments from which they are taken to be elements of one collection, and bytes that each may need beside its own: half
/// of them as room of the node that it comes to, and what the node has to find it by.
const ELEMENTS_FROM: usize = 64;
const ELEMENT_OVERHEAD_BYTES: u64 = 4;

/// A bound on what a command writes that has this number of arguments, of `bytes` bytes together, and of keys.
#[inline]
pub(crate) fn bytes_to_admit(bytes: usize, args: usize, keys: usize) -> u64 {
    let elements = if args < ELEMENTS_FROM { 0 } else { bytes as u64 / 2 + args as u64 * ELEMENT_OVERHEAD_BYTES };
    bytes as u64 + elements + KEY_OVERHEAD_BYTES * (keys as u64 + 1)
}

impl Multi {
    /// Number of commands that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Takes a copy of a command, which needs this `reach` and runs a script with these flags; gives the bytes that it takes. None,
    /// and nothing is done, if the system refuses the memory.
    pub(crate) fn push(
        &mut self,
        row: &'static Row,
        rules: Option<ScriptRules>,
        args: Args<'_>,
        reach: Reach,
    ) -> Option<usize> {
        reserve(&mut self.queue, 1).ok()?;
        let queued = Queued::try_new(row, rules, args)?;
        let memory = queued.memory();
        self.reach = self.reach.max(reach);
        if rules.map_or(row.flags.has(Flags::DENYOOM), ScriptRules::may_need_memory) {
            let mut keys = 0;
            let _ = row.for_each_key(args, |_| keys += 1);
            self.admit_bytes += bytes_to_admit(args.bytes(), args.len(), keys);
        }
        self.queue.push(queued);
        Some(memory)
    }
}

/// The watched keys of a session, or those that a command has read which goes on and stores what
/// it makes of them.
#[derive(Clone, Debug, Default)]
pub struct Watching {
    pub(crate) watcher: Watcher,
    /// Logical databases and keys.
    keys: BTreeSet<(u32, Box<[u8]>)>,
    /// Bytes that the keys take.
    bytes: usize,
}

/// Bytes that a watched key takes beside its name, in the session and in the shard.
const WATCHED_BYTES: usize = 128;

impl Watching {
    /// True if EXEC would do nothing, as far as is known.
    pub fn is_touched(&self) -> bool {
        self.watcher.is_touched()
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes that the keys take, here and in their shards.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Watches keys of the selected database; their shards are held.
    pub fn add<'k>(&mut self, tx: &mut Tx<'_>, keys: impl Iterator<Item = &'k [u8]>) {
        // A key was touched already: EXEC will do nothing, whatever else is watched.
        if self.is_touched() {
            return;
        }
        let db = tx.db();
        for bytes in keys {
            if self.keys.insert((db, bytes.into())) {
                let key = tx.key(bytes);
                tx.watch(&key, &self.watcher);
                self.bytes += 2 * bytes.len() + WATCHED_BYTES;
            }
        }
    }

    /// Ends the watching, the shards of all keys held; true if a key was touched or its time has come. None is removed.
    pub fn end(&self, tx: &mut Tx<'_>) -> bool {
        let mut has_come = false;
        for (db, bytes) in self.keys() {
            let key = tx.key_in(db, bytes);
            has_come |= tx.unwatch(&key, &self.watcher);
        }
        has_come || self.is_touched()
    }

    /// Ends the watching without a look at the keys. The worker holds nothing and is outside the gate.
    pub fn abandon(self, worker: &mut StoreWorker) {
        worker.unwatch(&self.watcher, self.keys.into_iter());
    }

    /// The logical databases of the keys, and these.
    pub fn keys(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.keys.iter().map(|(db, key)| (*db, &**key))
    }
}
