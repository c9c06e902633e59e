//! Operations that every type has: existence, expiry, removal, names.

use varve_base::Ref;
use varve_index::TableStats;
use varve_segment::{NewObject, Object, Owner};

use super::strings::class_of;
use super::{Kept, Tx};
use crate::keyspace::door::RootTransfer;
use crate::state::clock::{idle_s, minutes, used_before};
use crate::state::events::EventClass;
use crate::state::form::StringForm;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::request::ObjectInfo;
use crate::state::small::due_of;
use crate::state::types::Type;
use crate::state::walker::Before;

impl Tx<'_> {
    /// The type of a key's value; no hit or miss is counted, the access clock stays.
    pub fn type_of(&mut self, k: &Key<'_>) -> Option<Type> {
        self.live(k).map(|p| Type::of_kind(self.object_at(p).kind()))
    }

    /// True if the key exists; no hit or miss is counted, the access clock stays.
    pub fn exists(&mut self, k: &Key<'_>) -> bool {
        self.live(k).is_some()
    }

    /// True if the key exists; counts a hit or miss and moves the access clock.
    pub fn touch(&mut self, k: &Key<'_>) -> bool {
        let place = self.live(k);
        self.note_read(k, place.is_some());
        if let Some(p) = place {
            self.use_at(p);
        }
        place.is_some()
    }

    /// Shows a key's value as a walker sees it; `None` without the key. No hit or miss is counted, the access clock stays.
    pub fn look<R>(&mut self, k: &Key<'_>, look: impl FnOnce(&Before<'_>) -> R) -> Option<R> {
        let p = self.live(k)?;
        Some(look(&self.held.at(p.shard).shown(self.store.ground(), p.r)))
    }

    /// Sets the time since the key's last use, in seconds, as far as the clock reaches back. Under an LFU policy, and
    /// without the key, nothing happens.
    pub fn set_idle(&mut self, k: &Key<'_>, idle_s: u64) {
        if self.store.limit().lfu().is_none() {
            self.set_clock_of(k, used_before(idle_s, self.local.now_ms()));
        }
    }

    /// Sets the counter of the key's uses. Under any but an LFU policy, and without the key, nothing happens.
    pub fn set_freq(&mut self, k: &Key<'_>, counter: u8) {
        if self.store.limit().lfu().is_some() {
            self.set_clock_of(k, minutes(self.local.now_ms()) << 8 | u32::from(counter));
        }
    }

    fn set_clock_of(&mut self, k: &Key<'_>, clock: u32) {
        if let Some(p) = self.live(k) {
            self.held.at_mut(p.shard).set_clock(self.store.log(), p.r, clock);
        }
    }

    /// Counts a hit or miss, for a command that looks at a key without touching it (EXISTS, TYPE, TTL, OBJECT).
    pub fn note_lookup(&mut self, found: bool) {
        let counters = self.local.counters();
        if found { counters.hits.add(1) } else { counters.misses.add(1) }
    }

    /// Notes a lookup like [`Tx::note_lookup`], and reports a miss: all reads but OBJECT do so.
    #[inline]
    pub fn note_read(&mut self, k: &Key<'_>, found: bool) {
        self.note_lookup(found);
        if !found {
            self.emit(EventClass::Miss, "keymiss", k);
        }
    }

    /// Removes a key; true if it was there.
    pub fn remove(&mut self, k: &Key<'_>) -> bool {
        let place = self.live(k);
        if let Some(p) = place {
            let changing = self.before(p);
            self.remove_at(k, changing);
        }
        place.is_some()
    }

    /// The key's expiry in milliseconds of Unix time: `None` without the key, `Some(None)` without expiry.
    pub fn expiry(&mut self, k: &Key<'_>) -> Option<Option<i64>> {
        self.live(k).map(|p| self.object_at(p).expiry_ms())
    }

    /// Sets or clears the key's expiry; false without the key.
    pub fn set_expiry(&mut self, k: &Key<'_>, at: Option<i64>) -> bool {
        let Some(p) = self.live(k) else { return false };
        let before = self.object_at(p).expiry_ms();
        if before == at {
            if at.is_some() {
                self.wrote(k);
            }
            return true;
        }
        let (store, changing) = (self.store, self.before(p));
        let shard = self.held.at_mut(p.shard);
        let mut object = shard.open_mut(store.log(), p.r, changing.shown);
        if object.set_expiry_ms(at) {
            shard.recount_volatile(k.db, before, at);
            if let Some(t) = at {
                shard.file_expiry(&store.cells()[store.shard_of(k.hash)], k.hash, before, t, self.local.now_ms());
                self.note_own_date(k, t);
            }
            self.wrote(k);
            return true;
        }
        let r = self.append_copy(k, p.shard, p.r, self.kept(k, Some(&changing), at), false);
        self.install(k, Some(changing), r, at, RootTransfer::New);
        self.wrote(k);
        true
    }

    /// Appends a copy of an object of a held shard under the key `to`, of a big collection's with the same link. A copy for
    /// COPY differs from the original: an integer is an object of its own. `kept` is of the object whose place the copy takes.
    fn append_copy(&mut self, to: &Key<'_>, shard: usize, r: Ref, kept: Kept, is_copy: bool) -> Ref {
        let object = self.held.at(shard).open(self.store.log(), r);
        let new = NewObject {
            owner: Owner::Database(to.db),
            key: to.bytes,
            expiry_ms: kept.expiry_ms,
            tag: if is_copy && object.kind() == Type::String.kind() && object.tag() == StringForm::Auto.tag() {
                StringForm::Own.tag()
            } else {
                object.tag()
            },
            saved: kept.saved,
            class: class_of(kept.expiry_ms),
            ..NewObject::like(&object)
        };
        self.local.appender().append(self.store.log(), &new)
    }

    /// Moves a key's value and expiry to another key, which is replaced; false without the source. A large value stays
    /// where it lies.
    pub fn rename(&mut self, from: &Key<'_>, to: &Key<'_>) -> bool {
        let Some(source) = self.live(from) else { return false };
        if (from.db, from.bytes) == (to.db, to.bytes) {
            return true;
        }
        let (store, id) = (self.store, self.held.id(source.shard));
        let shard = self.held.at_mut(source.shard);
        let shown = shard.before(store.ground(), source.r);
        let object = shard.open(store.log(), source.r);
        let expiry = object.expiry_ms();
        let was_dated = due_of(&object).is_some();
        let r = shard.detach(store.log(), source.entry, shown);
        if was_dated {
            shard.count_small_dated(false);
        }
        shard.follow_index(store.ground(), id);
        let r = self.carry_root(source.shard, r, to);
        // A walk has been shown the value under its old name: the new name's mark is that of a new key.
        let saved = self.saved_of(to, None);
        let shard = self.held.at_mut(source.shard);
        let new = match shard.rename_detached(store.log(), r, Owner::Database(to.db), to.bytes) {
            Some(new) => {
                shard.set_mark(store.log(), new, saved);
                new
            }
            None => {
                let new = self.append_copy(to, source.shard, r, Kept { expiry_ms: expiry, saved }, false);
                self.held.at_mut(source.shard).kill_detached(store.log(), r);
                new
            }
        };
        let old = self.live(to);
        self.wrote(from);
        let replaced = old.map(|p| self.before(p));
        self.publish(to, replaced, new, expiry);
        self.follow_fields(to, true);
        if old.is_some() {
            self.emit(EventClass::New, "new", to);
        }
        true
    }

    /// Copies a key's value and expiry to another key, which is replaced; false without the source.
    pub fn copy(&mut self, from: &Key<'_>, to: &Key<'_>) -> bool {
        let Some(source) = self.live(from) else { return false };
        if (from.db, from.bytes) == (to.db, to.bytes) {
            return true;
        }
        let old = self.live(to);
        // An expired destination is removed by `live`, and the source's entry is valid only until a change.
        let source = if old.is_some() { source } else { self.live(from).expect("found just now") };
        let expiry = self.object_at(source).expiry_ms();
        if let Some(link) = self.held.at(source.shard).link_of(self.store.log(), source.r) {
            self.copy_big(to, (source, link), old, expiry);
        } else {
            let replaced = old.map(|p| self.before(p));
            let r = self.append_copy(to, source.shard, source.r, self.kept(to, replaced.as_ref(), expiry), true);
            self.publish(to, replaced, r, expiry);
            self.follow_fields(to, true);
        }
        if old.is_some() {
            self.emit(EventClass::New, "new", to);
        }
        true
    }

    /// Figures of the index that a big hash, set or sorted set has: `None` without the key, `Some(None)` without an index.
    pub fn table_stats(&mut self, k: &Key<'_>) -> Option<Option<TableStats>> {
        let p = self.live(k)?;
        let shard = self.held.at(p.shard);
        let link = shard.link_of(self.store.log(), p.r);
        Some(link.and_then(|link| shard.root(link.place).body.table_stats()))
    }

    /// The facts of a key that OBJECT and MEMORY USAGE report; the access clock stays.
    pub fn object(&mut self, k: &Key<'_>) -> Option<ObjectInfo> {
        let p = self.live(k)?;
        let now_ms = self.local.now_ms();
        let shard = self.held.at(p.shard);
        let object = shard.open(self.store.log(), p.r);
        let parts = shard.parts_bytes(self.store.log(), p.r);
        Some(ObjectInfo {
            ty: Type::of_kind(object.kind()),
            encoding: encoding_of(&object),
            is_copy: object.kind() == Type::String.kind() && object.tag() == StringForm::Own.tag(),
            idle_s: u64::from(idle_s(object.clock(), now_ms)),
            freq: self.store.limit().lfu().map_or(0, |lfu| lfu.counter(object.clock(), now_ms)),
            bytes: shard.bytes_of(self.store.log(), &object, parts),
            serialized_bytes: if parts > 0 { parts } else { serialized_len(object.value()) },
        })
    }
}

/// The name of a value's encoding, as Redis 7.0.15 names it.
fn encoding_of(object: &Object<'_>) -> &'static str {
    let ty = Type::of_kind(object.kind());
    if ty == Type::String {
        return StringForm::of(object.tag()).encoding(object.value());
    }
    let (small, big) = ty.row().encodings;
    if Encoding::of(object.tag()) == Encoding::Small { small } else { big }
}

/// The length of a string in an RDB file: a length prefix and its bytes, or an integer of 1, 2 or 4 bytes.
fn serialized_len(value: &[u8]) -> usize {
    if value.len() <= 11 {
        match varve_base::number::parse_i64(value) {
            Some(-0x80..=0x7f) => return 2,
            Some(-0x8000..=0x7fff) => return 3,
            Some(-0x8000_0000..=0x7fff_ffff) => return 5,
            _ => {}
        }
    }
    match value.len() {
        n if n < 1 << 6 => n + 1,
        n if n < 1 << 14 => n + 2,
        n => n + 5,
    }
}
