//! Fields of hashes that expire: set, told, ended, and removed when their time has come.
//!
//! ```text
//! a command opens a hash --due fields?--> they are removed first, reported as the store's own doing --> the command sees none
//!                                         more of them than one hold removes: the command is put back, and tried again
//! EXEC             asks for the keys of all its commands before the first one runs, and is put back as a whole
//! ```
//! So no command sees a field whose time has come, and no other code asks for times: lengths, draws and readers are right by
//! themselves. The times of a big hash stand in its root (`varve_collection::leaf_table`); a small hash is written anew with each
//! change from its first field that expires on, with the least of the times behind its leaf (`state::small`). RENAME of such a hash
//! files one entry anew.
//!
//! While the store stands still nothing is removed: a field is seen until the pause ends.

use std::time::{Duration, Instant};

use varve_collection::Collection;

use super::hashes_mut::{dated_bytes, set_dated_field};
use super::opened::Opened;
use super::writable::{Writable, sum_up_to};
use super::{Found, Overdue, Tx};
use crate::keyspace::expiry::FieldsLeft;
use crate::state::key::Key;
use crate::state::link::Link;
use crate::state::small::due_of;
use crate::state::types::{Type, WrongType};
use crate::state::wheel::TICK_MS;

/// For how long one hold removes due fields of several hashes.
const SHED_TIME: Duration = Duration::from_micros(500);

/// How many of the due fields of a hash were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shed {
    /// None are due, or they are not to be removed.
    Nothing,
    /// All that were due.
    Some,
    /// Some; more are due.
    More,
}

impl Tx<'_> {
    /// Sets whether a command that meets more due fields than one hold removes may be put back: it fails, and
    /// [`Tx::take_put_back`] says so. Else they are removed all at once.
    /// Gives what was set before.
    pub fn set_patient(&mut self, patient: bool) -> bool {
        std::mem::replace(&mut self.patient, patient)
    }

    /// This view, patient.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    /// Whether a command that cannot run now may be put back.
    pub fn is_patient(&self) -> bool {
        self.patient
    }

    /// The command that runs has met a busy shard, and is to be tried again.
    pub fn put_back(&mut self) {
        debug_assert!(self.patient, "whoever cannot be put back waits");
        self.put_back = true;
    }

    /// Whether the command that runs is to be tried again.
    pub(crate) fn is_put_back(&self) -> bool {
        self.put_back
    }

    /// True, once, if the command that ran is to be tried again. It has changed nothing and its reply is void.
    pub fn take_put_back(&mut self) -> bool {
        std::mem::take(&mut self.put_back)
    }

    /// Removes some of the due fields of the hash at a key, whose shard is held, no more than one hold removes; true if more are
    /// due: the command or transaction that is going to run is to be tried again. It is no use of the key.
    pub fn sheds_due_fields(&mut self, k: &Key<'_>) -> bool {
        self.store.has_dated_hashes() && self.shed_due_fields(k) == Shed::More
    }

    /// Removes due fields of the hashes at keys, whose shards are held, as [`Tx::sheds_due_fields`] does, in one hold for all of them;
    /// true if more may be due.
    pub fn sheds_due_fields_of<'k>(&mut self, keys: impl Iterator<Item = Key<'k>>) -> bool {
        let mut keys = keys.peekable();
        let mut begun = None;
        while let Some(key) = keys.next() {
            let shed = self.shed_due_fields(&key);
            if shed == Shed::More {
                return true;
            }
            if shed == Shed::Some
                && begun.get_or_insert_with(Instant::now).elapsed() >= SHED_TIME
                && keys.peek().is_some()
            {
                return true;
            }
        }
        false
    }

    /// False if fields of a hash at this key are not due, or are not to be removed. No shard needs to be held: a look only, the answer
    /// may be old by the time it is used.
    pub fn may_have_due_fields(&self, k: &Key<'_>) -> bool {
        // The shard's wheel has the time of each hash's next field, to a tick.
        let due_ms = self.store.cells()[self.store.shard_of(k.hash)].due();
        self.overdue == Overdue::Removed && due_ms <= self.local.now_ms() + TICK_MS
    }

    fn shed_due_fields(&mut self, k: &Key<'_>) -> Shed {
        if !self.may_have_due_fields(k) {
            return Shed::Nothing;
        }
        let Some(found) = self.live_inlined(k) else { return Shed::Nothing };
        if !self.has_due_fields(&found) {
            return Shed::Nothing;
        }
        let _ = self.without_due_fields(found, true);
        if self.take_put_back() { Shed::More } else { Shed::Some }
    }

    /// Removes the due fields of the hash that was found; `None` if all fields were due: the key is gone. With `patient`
    /// only some of them are removed, and then the command is to be put back.
    #[cold]
    pub(super) fn without_due_fields(&mut self, found: Found, patient: bool) -> Option<Found> {
        if self.overdue != Overdue::Removed {
            return Some(found);
        }
        loop {
            let id = self.held.id(found.shard);
            let shard = self.held.at_mut(found.shard);
            match self.local.expire_fields(self.store, shard, id, found.entry) {
                FieldsLeft::Alive => return Some(found),
                FieldsLeft::None => return None,
                FieldsLeft::MoreDue => {
                    if patient {
                        self.put_back = true;
                        return Some(found);
                    }
                }
            }
        }
    }

    /// Opens a hash of which fields are due ([`Tx::open`]).
    ///
    /// # Errors
    /// If the command is to be put back.
    #[cold]
    pub(super) fn open_due(&mut self, opened: Opened) -> Result<Option<Opened>, WrongType> {
        let alive = self.without_due_fields(opened.at, self.patient);
        if self.put_back { Err(WrongType) } else { Ok(alive.map(|at| Opened { at, ..opened })) }
    }

    /// When a field expires, in milliseconds of Unix time: `None` without the field or the key, `Some(None)` if it does
    /// not. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_expiry(&mut self, k: &Key<'_>, field: &[u8]) -> Result<Option<Option<i64>>, WrongType> {
        self.hash_peek(k).map(|hash| hash.and_then(|hash| hash.expiry_ms(field)))
    }

    /// Sets when a field expires, in milliseconds of Unix time, or that it does not; false without the field or the key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_set_expiry(&mut self, k: &Key<'_>, field: &[u8], expiry_ms: Option<i64>) -> Result<bool, WrongType> {
        let Some(mut w) = self.open_mut(k, Type::Hash)? else { return Ok(false) };
        if w.is_big() {
            if !self.hash_peek(k)?.is_some_and(|hash| hash.contains(field)) {
                return Ok(false);
            }
        } else {
            let value = self.hash_peek(k)?.and_then(|hash| hash.get(field, |value| value.map(<[u8]>::to_vec)));
            let Some(value) = value else { return Ok(false) };
            if expiry_ms.is_none() && !self.is_dated(&w) {
                return Ok(true);
            }
            let mut small = Some(w);
            if self.set_small_dated(k, &mut small, &[(field, &value[..], expiry_ms)]).is_some() {
                self.wrote(k);
                return Ok(true);
            }
            w = small.expect("it was there");
        }
        self.make_dated(k, &mut w);
        self.change_big(&w, |collection, ctx| collection.hash_mut().set_expiry_ms(ctx, field, expiry_ms));
        self.wrote(k);
        self.follow_fields(k, false);
        Ok(true)
    }

    /// Sets when fields expire, like [`Tx::hash_set_expiry`] of each of them. A small hash is written anew once for all that
    /// it may get in its key's object together: [`REWRITTEN_AT_ONCE`] are a good number.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_set_expiries(
        &mut self,
        k: &Key<'_>,
        fields: &[&[u8]],
        expiry_ms: Option<i64>,
    ) -> Result<(), WrongType> {
        if let [field] = fields {
            return self.hash_set_expiry(k, field, expiry_ms).map(|_| ());
        }
        let Some(w) = self.open_mut(k, Type::Hash)? else { return Ok(()) };
        if !w.is_big() && (expiry_ms.is_some() || self.is_dated(&w)) {
            let mut values = Vec::with_capacity(fields.len());
            for field in fields {
                let value = self.hash_peek(k)?.and_then(|hash| hash.get(field, |value| value.map(<[u8]>::to_vec)));
                values.extend(value.map(|value| (*field, value)));
            }
            let pairs: Vec<_> = values.iter().map(|(field, value)| (*field, &value[..], expiry_ms)).collect();
            if pairs.is_empty() {
                return Ok(());
            }
            if self.set_small_dated(k, &mut Some(w), &pairs).is_some() {
                self.wrote(k);
                return Ok(());
            }
        }
        for field in fields {
            self.hash_set_expiry(k, field, expiry_ms)?;
        }
        Ok(())
    }

    /// Sets fields, each with its value and when it expires, in milliseconds of Unix time, if it does; gives the number of
    /// those that were not there. The key is created if absent, unless there are no pairs.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_set_dated<'p>(
        &mut self,
        k: &Key<'_>,
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8], Option<i64>)>,
    ) -> Result<usize, WrongType> {
        let mut pairs = pairs.peekable();
        if pairs.peek().is_none() {
            return Ok(0);
        }
        let mut w = self.open_mut(k, Type::Hash)?;
        if w.as_ref().is_none_or(|w| !w.is_big()) {
            let all: Vec<_> = pairs.collect();
            if let Some(new) = self.set_small_dated(k, &mut w, &all) {
                self.wrote(k);
                return Ok(new);
            }
            return Ok(self.set_big_dated(k, w, all.into_iter()));
        }
        Ok(self.set_big_dated(k, w, pairs))
    }

    /// Sets fields of a hash like [`Tx::hash_set_dated`], if they are no more bytes than a small one may get; false, and nothing has
    /// changed, if they are: one by one they may have room still, in the places of others.
    pub(super) fn set_kept_at_once(
        &mut self,
        k: &Key<'_>,
        pairs: &[(&[u8], &[u8], Option<i64>)],
    ) -> Result<bool, WrongType> {
        let mut w = self.open_mut(k, Type::Hash)?;
        if w.as_ref().is_some_and(Writable::is_big) {
            self.hash_set_dated(k, pairs.iter().copied())?;
            return Ok(true);
        }
        let is_set = self.set_small_dated(k, &mut w, pairs).is_some();
        if is_set {
            self.wrote(k);
        }
        Ok(is_set)
    }

    /// Sets fields of a hash that becomes a big one, if it is none.
    fn set_big_dated<'p>(
        &mut self,
        k: &Key<'_>,
        w: Option<Writable>,
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8], Option<i64>)>,
    ) -> usize {
        let mut w = w.unwrap_or_else(|| self.put_big(k, None, Type::Hash, |_| Collection::empty_hash()));
        self.make_dated(k, &mut w);
        let new = self.change_big(&w, |collection, ctx| collection.hash_mut().set_all_dated(ctx, pairs));
        self.wrote(k);
        self.follow_fields(k, false);
        new
    }

    /// Sets fields of a hash in its key's object, or makes one of them; the number of those that were not there. `None`, and nothing
    /// has changed, if it would have too many bytes for that.
    fn set_small_dated(
        &mut self,
        k: &Key<'_>,
        w: &mut Option<Writable>,
        pairs: &[(&[u8], &[u8], Option<i64>)],
    ) -> Option<usize> {
        let (seed, most) = (self.store.seed(), self.bytes_max(Type::Hash, true));
        let more = sum_up_to(most + 1, pairs.iter().map(|(field, value, _)| dated_bytes(field, value)));
        if more > most {
            return None;
        }
        self.rewrite_fields(k, w, (more, most), |leaf| {
            let mut new = 0;
            for &(field, value, expiry_ms) in pairs {
                new += usize::from(set_dated_field(leaf, seed, (field, value), expiry_ms).ok()?);
            }
            Some(new)
        })
    }

    /// Follows that a small hash was written anew, in another object if `is_new`: it is counted if it has fields that expire, and its
    /// key is filed by the first of them, unless an entry of `before_ms` is on the wheel, which is not later.
    pub(super) fn follow_small_fields(&mut self, k: &Key<'_>, is_new: bool, before_ms: Option<i64>) {
        let (store, now_ms, id) = (self.store, self.local.now_ms(), self.store.shard_of(k.hash));
        let at = self.held.position(id);
        let shard = self.held.at_mut(at);
        let found = shard.find(store.log(), k).expect("it was written just now");
        let Some(due_ms) = due_of(&shard.open(store.log(), shard.index().get(found))) else { return };
        if is_new {
            shard.count_small_dated(true);
        }
        shard.file_expiry(&store.cells()[id], k.hash, before_ms, due_ms, now_ms);
    }

    /// Follows the times of a hash's fields; those of a key that is `new` at its place have no entry on the wheel.
    pub(super) fn follow_fields(&mut self, k: &Key<'_>, new: bool) {
        let Some(found) = self.live_inlined(k) else { return };
        let (store, now_ms) = (self.store, self.local.now_ms());
        let id = self.held.id(found.shard);
        let shard = self.held.at_mut(found.shard);
        let object = shard.open(store.log(), found.r);
        if object.kind() != Type::Hash.kind() {
            return;
        }
        match Link::of_collection(&object) {
            Some(link) => shard.follow_fields(store.ground(), &store.cells()[id], (k.hash, link.place), new, now_ms),
            None => self.follow_small_fields(k, new, None),
        }
    }
}
