//! Strings: read, replaced, grown.
//!
//! A write goes in place when the object's room takes it (and at least half of the room stays in use); else the new
//! value is appended and the old object dies. A value that grows gets a quarter more than it needs, so that a run of
//! appends costs amortised O(1) a byte.

use varve_segment::{Class, Form, Kind, NewObject, Owner, Value};

use super::{Place, Tx};
use crate::key::Key;
use crate::types::{Ttl, WrongType};

/// What fills the gap before a part that is written beyond a string's end.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl Tx<'_> {
    /// A string for a reader: counts a hit or miss and moves the access clock.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub fn get(&mut self, k: &Key<'_>) -> Result<Option<&[u8]>, WrongType> {
        match self.live(k) {
            Some(p) => {
                self.local.counters.hits.add(1);
                self.touch_at(p);
                self.string_at(p).map(Some)
            }
            None => {
                self.local.counters.misses.add(1);
                Ok(None)
            }
        }
    }

    /// A string for a writer: no hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn peek(&mut self, k: &Key<'_>) -> Result<Option<&[u8]>, WrongType> {
        match self.live(k) {
            Some(p) => {
                self.touch_at(p);
                self.string_at(p).map(Some)
            }
            None => Ok(None),
        }
    }

    #[inline]
    fn string_at(&self, p: Place) -> Result<&[u8], WrongType> {
        let object = self.object_at(p);
        if object.kind() == Kind::String { Ok(object.value()) } else { Err(WrongType) }
    }

    /// Sets a string, whatever the key held. An expiry that has already come removes nothing here: callers that want
    /// Redis's "a time in the past deletes" remove the key instead.
    pub fn set(&mut self, k: &Key<'_>, value: &[u8], ttl: Ttl, form: Form) {
        let old = self.live(k);
        let expiry = match ttl {
            Ttl::Clear => None,
            Ttl::At(t) => Some(t),
            Ttl::Keep => old.and_then(|p| self.object_at(p).expiry_ms()),
        };
        if old.is_some_and(|p| self.overwrite(k, p, value, expiry, form)) {
            return;
        }
        let clock = self.local.clock();
        let new = NewObject {
            kind: Kind::String,
            owner: Owner::Database(k.db),
            key: k.bytes,
            value: Value::Bytes(value),
            room: value.len(),
            expiry_ms: expiry,
            clock,
            form,
            class: class_of(expiry),
        };
        let r = self.local.appender.append(&self.store.log, &new);
        self.publish(k, old, r, expiry);
    }

    /// Writes a value over a string's old one if its object takes it.
    fn overwrite(&mut self, k: &Key<'_>, p: Place, value: &[u8], expiry: Option<i64>, form: Form) -> bool {
        let clock = self.local.clock();
        let store = self.store;
        let shard = self.held.at_mut(p.shard);
        let mut object = shard.access.open_mut(&store.log, p.r);
        let before = object.read().expiry_ms();
        if object.read().kind() != Kind::String
            || before.is_some() != expiry.is_some()
            || !object.resize_value(value.len())
        {
            return false;
        }
        if before != expiry && !object.set_expiry_ms(expiry) {
            return false;
        }
        object.value_mut().copy_from_slice(value);
        object.set_form(form);
        object.set_clock(clock);
        if let Some(t) = expiry {
            shard.file_expiry(&store.shards[store.shard_of(k.hash)], k.hash, before, t, self.local.now_ms);
        }
        self.local.counters.changes.add(1);
        true
    }

    /// Appends to a string, made if absent; gives the new length in bytes.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn append(&mut self, k: &Key<'_>, tail: &[u8]) -> Result<usize, WrongType> {
        let Some(p) = self.live(k) else {
            self.set(k, tail, Ttl::Clear, Form::Auto);
            return Ok(tail.len());
        };
        let offset = self.string_at(p)?.len();
        // An empty tail too: the string is `raw` afterwards, and the change is seen.
        self.write_part(k, p, offset, tail);
        Ok(offset + tail.len())
    }

    /// Overwrites part of a string from `offset` on, zero-filled up to there; gives the new length in bytes.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn set_range(&mut self, k: &Key<'_>, offset: usize, part: &[u8]) -> Result<usize, WrongType> {
        let place = match self.live(k) {
            Some(p) => p,
            None => {
                self.set(k, b"", Ttl::Clear, Form::Raw);
                self.live(k).expect("just set")
            }
        };
        let len = self.string_at(place)?.len().max(offset + part.len());
        self.write_part(k, place, offset, part);
        Ok(len)
    }

    /// Writes `part` at `offset` of the string at `p`, growing it as needed; it is `raw` from then on.
    fn write_part(&mut self, k: &Key<'_>, p: Place, offset: usize, part: &[u8]) {
        let clock = self.local.clock();
        let shard = self.held.at_mut(p.shard);
        let mut object = shard.access.open_mut(&self.store.log, p.r);
        let old_len = object.value().len();
        let len = old_len.max(offset + part.len());
        if object.resize_value(len) {
            object.value_mut()[offset..offset + part.len()].copy_from_slice(part);
            object.set_form(Form::Raw);
            object.set_clock(clock);
            self.local.counters.changes.add(1);
            return;
        }
        let (r, expiry) = self.append_patched(k, p, offset, part, len);
        self.publish(k, Some(p), r, expiry);
    }

    /// Appends a copy of the string at `p` with `part` written at `offset`, and room to grow.
    fn append_patched(
        &mut self,
        k: &Key<'_>,
        p: Place,
        offset: usize,
        part: &[u8],
        len: usize,
    ) -> (varve_base::Ref, Option<i64>) {
        let clock = self.local.clock();
        let object = self.held.at(p.shard).access.open(&self.store.log, p.r);
        let (old, expiry) = (object.value(), object.expiry_ms());
        let (head, tail) = (&old[..old.len().min(offset)], old.get(offset + part.len()..).unwrap_or_default());
        let mut parts: smallvec::SmallVec<[&[u8]; 8]> = smallvec::smallvec![head];
        let mut zeros = offset - head.len();
        while zeros > 0 {
            let n = zeros.min(ZEROS.len());
            parts.push(&ZEROS[..n]);
            zeros -= n;
        }
        parts.push(part);
        parts.push(tail);
        let new = NewObject {
            kind: Kind::String,
            owner: Owner::Database(k.db),
            key: k.bytes,
            value: Value::Parts(&parts),
            room: len + len / 4,
            expiry_ms: expiry,
            clock,
            form: Form::Raw,
            class: class_of(expiry),
        };
        (self.local.appender.append(&self.store.log, &new), expiry)
    }
}

/// Volatile keys are kept together: they die together.
pub(super) fn class_of(expiry: Option<i64>) -> Class {
    if expiry.is_some() { Class::Volatile } else { Class::Ordinary }
}
