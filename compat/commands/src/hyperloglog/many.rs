//! PFCOUNT and PFMERGE of many HyperLogLogs, over several turns: a dense one takes some 10 us to read.
//!
//! ```text
//!  one shard held: the next key .. the next key ..    none held: the value that is stored    all held: count, or store
//! ```
//! The command is done at its last instant, if the keys are as they were when they were read; else it begins anew.

use std::sync::Arc;

use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, CommandError, Ongoing, Progress, Sources};
use varve_protocol::{OwnedArgs, Reply};
use varve_store::{NotAdmitted, ShardSet, StoreWorker, Tx};

use super::sketch::{self, DENSE_BYTES, REGISTERS};
use super::{Union, checked, put, sparse_max};

/// A command with this number of keys and more is run in parts.
pub(super) const MANY: usize = 32;

/// The use of the registers of all keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Count,
    /// The first key gets them.
    Merge,
}

/// A command that is under way.
pub(super) struct LongUnion {
    args: Arc<OwnedArgs>,
    purpose: Purpose,
    keys: Sources,
    union: Box<Union>,
    /// The argument that is read next.
    next: usize,
    /// The value of the first key, as it was when it was read; at last the value that it gets.
    target: Vec<u8>,
    /// The registers are in `target`.
    is_made: bool,
    fault: Option<CommandError>,
}

impl LongUnion {
    /// The shards of all keys are held.
    pub(super) fn begin(tx: &mut Tx<'_>, args: &Arc<OwnedArgs>, purpose: Purpose, keeps: bool) -> LongUnion {
        let keys = Sources::begin(tx, args.args().iter().skip(1), None, keeps);
        let (args, union) = (Arc::clone(args), Box::default());
        LongUnion { args, purpose, keys, union, next: 1, target: Vec::new(), is_made: false, fault: None }
    }

    /// Reads a key, whose shard is held.
    fn read(&mut self, tx: &mut Tx<'_>) -> CmdResult {
        let key = tx.key(self.args.args().get(self.next));
        if let Some(value) = checked(tx.get(&key)?)? {
            self.union.add(value)?;
            if self.next == 1 && self.purpose == Purpose::Merge {
                self.target = value.to_vec();
            }
        }
        self.next += 1;
        Ok(())
    }

    /// Makes the value that the first key gets.
    fn make(&mut self, most: usize) -> CmdResult {
        let old = std::mem::take(&mut self.target);
        self.target = self.union.merged(if old.is_empty() { sketch::empty() } else { old }, most)?;
        self.is_made = true;
        Ok(())
    }

    /// Ends the command, all shards held.
    fn end(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        if self.keys.end(tx) {
            return Progress::Anew;
        }
        if let Some(fault) = self.fault.take() {
            return Progress::Failed(fault);
        }
        if self.purpose == Purpose::Count {
            out.integer(self.union.estimate() as i64);
            return Progress::Done;
        }
        let target = tx.key(self.args.args().get(1));
        put(tx, &target, &self.target);
        tx.did(&target, Effect::sent(Class::String, "pfadd", 1));
        out.ok();
        Progress::Done
    }
}

impl Ongoing for LongUnion {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let args = Arc::clone(&self.args);
        let args = args.args();
        if self.fault.is_none() && self.next < args.len() {
            if !tx.try_hold_one(tx.shard_of_bytes(args.get(self.next))) {
                return Progress::Busy;
            }
            self.fault = self.read(tx).err();
            return Progress::More;
        }
        if self.fault.is_none() && self.purpose == Purpose::Merge && !self.is_made {
            self.fault = match tx.admit(DENSE_BYTES as u64) {
                Ok(()) => self.make(sparse_max(tx)).err(),
                Err(NotAdmitted::OutOfMemory) => Some(CommandError::OUT_OF_MEMORY),
                Err(NotAdmitted::Busy) => return Progress::Busy,
            };
            return Progress::More;
        }
        let shards: ShardSet = args.iter().skip(1).map(|key| tx.shard_of_bytes(key)).collect();
        let target = tx.key(args.get(1));
        if !self.keys.try_hold(tx, &shards) || self.purpose == Purpose::Merge && self.keys.bars(tx, &target) {
            return Progress::Busy;
        }
        self.end(tx, out)
    }

    fn writes(&self) -> bool {
        self.purpose == Purpose::Merge
    }

    fn sources(&self) -> Option<&Sources> {
        Some(&self.keys)
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.keys.abandon(worker);
    }

    fn held_bytes(&self) -> usize {
        self.target.capacity() + REGISTERS
    }

    fn kept_bytes(&self) -> usize {
        0
    }
}
