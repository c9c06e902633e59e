//! The keys of which a command makes something over several holds of their shards.
//!
//! ```text
//!   first try     watched: a change of one is seen at the end, and the command begins anew
//!   later tries   watched, and kept from writers, as is the key that it stores: commands that name one and would change it wait
//! ```
//! Readers never wait, and no shard is held. Not kept from the keys are the store itself (expiry, eviction), commands that name no
//! key (FLUSHALL, SWAPDB) and scripts that do not declare them: the watch tells of what these change.
//!
//! Commands that keep keys do not wait for each other in a circle: all keys are kept at once, or none. Where writes are held back
//! (CLIENT PAUSE, a failover, the end of following a primary), a command lets its keys go and begins anew behind that: those for whose
//! sake writes wait may want these keys. In a server that follows a primary, commands that only read keep nothing from the
//! primary's stream.

use std::collections::BTreeSet;
use std::time::Duration;

use varve_store::{Freeze, Key, ShardSet, StoreWorker, Tx};

use crate::multi::Watching;

/// For how long the shards of a last part are looked for; the worker stands still meanwhile.
const HOLD_WITHIN: Duration = Duration::from_micros(200);

/// See the module's picture.
#[derive(Debug, Default)]
pub struct Sources {
    /// None once the command has ended, or let go.
    watching: Option<Watching>,
    /// The names of those that are kept from writers.
    kept: BTreeSet<Box<[u8]>>,
}

impl Sources {
    /// Watches these keys of the selected database. If it `keeps` them, as a command does that begins anew, it keeps writers from
    /// them and from the key `to`, of whichever database; not if one of them is frozen for another command. The shards of all are
    /// held.
    pub fn begin<'k>(
        tx: &mut Tx<'_>,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        to: Option<&'k [u8]>,
        keeps: bool,
    ) -> Sources {
        let (mut watching, mut kept) = (Watching::default(), BTreeSet::<Box<[u8]>>::new());
        watching.add(tx, keys.clone());
        if keeps {
            kept = keys.chain(to).map(Box::from).collect();
            // Looked at before one is frozen: to thaw it again would have those tried who wait for it, with no shard held.
            if tx.any_frozen(kept.iter().map(|name| &**name)) {
                kept = BTreeSet::new();
            }
        }
        for name in &kept {
            let key = tx.key(name);
            assert!(tx.freeze(&key, Freeze::Source), "no key was frozen");
        }
        Sources { watching: Some(watching), kept }
    }

    /// True if writers are kept off.
    pub fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// True if one is known to have changed.
    pub fn is_touched(&self) -> bool {
        self.watching.as_ref().is_some_and(Watching::is_touched)
    }

    /// Tries to hold these shards, those of all keys among them, for the last part. While writers are kept off it looks for a little
    /// longer: of many shards one is always busy. Fields of hashes whose time has come are removed first, no more than one hold
    /// removes: false if more are due.
    pub fn try_hold(&self, tx: &mut Tx<'_>, shards: &ShardSet) -> bool {
        let is_held = if self.keeps() { tx.hold_within(shards, HOLD_WITHIN) } else { tx.try_hold(shards) };
        is_held && !(tx.store().has_dated_hashes() && self.meets_due_fields(tx))
    }

    #[cold]
    fn meets_due_fields(&self, tx: &mut Tx<'_>) -> bool {
        let watched = self.watching.iter().flat_map(Watching::keys);
        let keys: Vec<Key<'_>> = watched.map(|(db, key)| tx.key_in(db, key)).collect();
        tx.sheds_due_fields_of(keys.into_iter())
    }

    /// Whether a key, whose shard is held, is frozen for another command, so that this one waits before it changes the key.
    pub fn bars(&self, tx: &Tx<'_>, key: &Key<'_>) -> bool {
        !self.kept.contains(key.bytes) && tx.is_frozen(key)
    }

    /// Ends the watching and lets writers on, the shards of all keys held; true if one has changed, or its time has come. False if
    /// it had ended before.
    pub fn end(&mut self, tx: &mut Tx<'_>) -> bool {
        self.let_go(tx);
        let Some(watching) = self.watching.take() else { return false };
        for (db, bytes) in watching.keys() {
            let key = tx.key_in(db, bytes);
            // Removes it, or fields of it, if their time has come: it has changed then.
            tx.exists(&key);
        }
        tx.hand_on();
        watching.end(tx)
    }

    fn let_go(&mut self, tx: &mut Tx<'_>) {
        for name in std::mem::take(&mut self.kept) {
            let key = tx.key(&name);
            tx.thaw(&key);
        }
    }

    /// Ends the watching and lets writers on without a look at the keys, if it has not ended. The worker holds nothing and is outside
    /// the gate.
    pub fn abandon(&mut self, worker: &mut StoreWorker) {
        worker.thaw(self.kept.iter().map(|name| &**name));
        self.kept.clear();
        if let Some(watching) = self.watching.take() {
            watching.abandon(worker);
        }
    }
}
