//! A log and beside it a naive list of what should be in it, driven by operations: of the property test and of the fuzz
//! target alike.

use std::collections::HashMap;

use varve_segment::{
    Access, Appender, Drain, DrainState, Log, LogGeometry, NewObject, NewValue, ObjectHead, ObjectKind, ObjectTag,
    Owner, Pin, Ref, Relocate, Relocated, SLICE, SegmentClass, Way, WholePin,
};

/// An operation; `usize`s choose a thing, a drain or a pin, whatever their number.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum Op {
    Append {
        kind: ObjectKind,
        key_len: usize,
        len: usize,
        extra: usize,
        expiry: Option<i64>,
        class: SegmentClass,
        clock: u32,
    },
    Adopt {
        key_len: usize,
        len: usize,
        expiry: Option<i64>,
    },
    Kill(usize),
    Resize(usize, usize),
    Extend(usize, usize, usize),
    Rename(usize, usize),
    Expire(usize, Option<i64>),
    Mark(usize, u32, bool),
    Relocate(usize, SegmentClass),
    Pin(usize),
    Unpin(usize),
    Write(usize, usize, usize),
    Read(usize, usize, usize),
    Park,
    Choose,
    Drain {
        which: usize,
        objects: usize,
        evict: u8,
        busy: u8,
    },
    Abandon(usize),
    Clear,
    SealAll,
    Release(usize),
}

#[derive(Clone, Debug, PartialEq)]
struct Thing {
    kind: ObjectKind,
    owner: Owner,
    key: Vec<u8>,
    value: Vec<u8>,
    expiry: Option<i64>,
    clock: u32,
    tag: ObjectTag,
    saved: bool,
}

/// A store of one shard, without an index.
pub(crate) struct Model {
    log: Log,
    access: Access,
    appender: Appender,
    things: Vec<(Ref, Thing)>,
    drains: Vec<Drain>,
    pins: Vec<(Pin, Vec<u8>)>,
    whole: Vec<(WholePin, Vec<u8>)>,
    number: u64,
}

/// The owner that reclaim asks: it moves most, evicts some, and is busy at times.
struct Owned<'a> {
    log: &'a Log,
    access: &'a mut Access,
    appender: &'a mut Appender,
    things: HashMap<Ref, &'a mut (Ref, Thing)>,
    evicted: Vec<Ref>,
    prepared: Vec<Ref>,
    evict: u8,
    busy: u8,
    number: u8,
}

impl Relocate for Owned<'_> {
    fn prepare(&mut self, heads: &[ObjectHead<'_>]) {
        assert!(!heads.is_empty() && heads.len() <= SLICE);
        self.prepared = heads.iter().map(|head| head.r).collect();
    }

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        assert_eq!(self.prepared.remove(0), head.r);
        let Some(thing) = self.things.get_mut(&head.r) else { panic!("{head:?} is not alive") };
        assert_eq!((head.kind, head.owner, head.key), (thing.1.kind, thing.1.owner, &thing.1.key[..]));
        self.number = self.number.wrapping_mul(167).wrapping_add(13);
        if self.number < self.busy / 4 {
            return Relocated::Busy;
        }
        if self.number < self.evict {
            self.access.kill(self.log, head.r);
            self.evicted.push(head.r);
            return Relocated::Evicted;
        }
        thing.0 = self.appender.relocate(self.log, self.access, head.r, SegmentClass::Survivor);
        Relocated::Moved
    }
}

/// For victims in which nothing lives.
struct Nobody;

impl Relocate for Nobody {
    fn prepare(&mut self, heads: &[ObjectHead<'_>]) {
        panic!("{heads:?} should be dead");
    }

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        panic!("{head:?} should be dead");
    }
}

/// A range of a pinned value, read as it lies together.
fn read(pin: &Pin, range: std::ops::Range<usize>) -> Vec<u8> {
    let mut bytes = Vec::new();
    pin.each_part(range, |part| bytes.extend_from_slice(part));
    bytes
}

/// Segments of two pages or one, pieces and runs of few objects.
pub(crate) fn tiny(page: bool) -> LogGeometry {
    let (segment_bytes, piece_bytes, extent_min_bytes) = if page { (4096, 512, 512) } else { (8192, 1024, 2048) };
    LogGeometry { segment_bytes, piece_bytes, extent_min_bytes, release_bytes: 4096, reserve_bytes: 64 << 20 }
}

impl Model {
    /// An empty log.
    pub(crate) fn new(geometry: LogGeometry) -> Model {
        let log = Log::new(geometry).unwrap();
        let access = log.access();
        let appender = Appender::new();
        Model { log, access, appender, things: vec![], drains: vec![], pins: vec![], whole: vec![], number: 0 }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.number += 1;
        let seed = self.number.wrapping_mul(varve_base::hash::GOLDEN_RATIO);
        (0..len).map(|i| (seed >> (i % 8 * 8)) as u8 ^ i as u8).collect()
    }

    fn pick(&self, which: usize) -> Option<usize> {
        (!self.things.is_empty()).then(|| which % self.things.len())
    }

    fn thing(&mut self, kind: ObjectKind, key_len: usize, len: usize, expiry: Option<i64>, clock: u32) -> Thing {
        let number = self.number as u32;
        let owner = match kind.is_key() {
            true => Owner::Database(if number.is_multiple_of(3) { number as u16 } else { 0 }),
            // Of two bytes or of four.
            false => Owner::Collection(if number.is_multiple_of(4) { number << 16 } else { number }),
        };
        let tag = ObjectTag::new(clock as u8 % 4);
        let clock = if kind.is_key() { clock & 0xff_ffff } else { 0 };
        Thing { kind, owner, key: self.bytes(key_len), value: self.bytes(len), expiry, clock, tag, saved: len % 3 == 1 }
    }

    fn append(&mut self, thing: Thing, extra: usize, class: SegmentClass) {
        let (at, end) = (thing.value.len() / 3, thing.value.len() - thing.value.len() / 5);
        let mut old = thing.value.clone();
        old[at..end].fill(0xee);
        let value = match thing.clock % 3 {
            0 => NewValue::Bytes(&thing.value),
            1 => NewValue::Patched { old: &old, at, part: &thing.value[at..end] },
            _ => NewValue::Patched { old: &old[..end], at, part: &thing.value[at..] },
        };
        let new = NewObject {
            kind: thing.kind,
            owner: thing.owner,
            key: &thing.key,
            value,
            room: thing.value.len() + extra,
            expiry_ms: thing.expiry,
            clock: thing.clock,
            tag: thing.tag,
            saved: thing.saved,
            class,
        };
        let r = self.appender.append(&self.log, &new);
        assert!(self.access.open(&self.log, r).room() >= new.room);
        self.things.push((r, thing));
    }

    fn adopt(&mut self, thing: Thing) {
        let Some(mut run) = self.log.begin_extent(thing.value.len()) else { return };
        assert!(run.rest().iter().all(|&byte| byte == 0));
        let half = thing.value.len() / 2;
        run.rest()[..half].copy_from_slice(&thing.value[..half]);
        run.advance(half);
        if thing.value[0].is_multiple_of(5) {
            return;
        }
        run.rest().copy_from_slice(&thing.value[half..]);
        run.advance(thing.value.len() - half);
        let run = run.finish();
        let new = NewObject {
            expiry_ms: thing.expiry,
            owner: thing.owner,
            clock: thing.clock,
            tag: thing.tag,
            saved: thing.saved,
            ..NewObject::new(thing.kind, thing.owner, &thing.key, &[])
        };
        let r = self.appender.adopt(&self.log, &run, &new);
        if thing.value[0].is_multiple_of(2) {
            self.whole.push((run.pin(), thing.value.clone()));
        }
        self.things.push((r, thing));
    }

    /// Adds to a value, pinned or not, behind a gap.
    fn extend(&mut self, at: usize, gap: usize, len: usize) {
        let part = self.bytes(len);
        let (r, thing) = &mut self.things[at];
        let room = self.access.open(&self.log, *r).room();
        let from = thing.value.len() + gap;
        let done = self.access.open_mut(&self.log, *r).extend_value(from, &part);
        assert_eq!(done, from + len <= room, "{from} and {len} in {room}");
        if done {
            thing.value.resize(from, 0);
            thing.value.extend_from_slice(&part);
        }
    }

    /// Writes over some bytes of a value, pinned or not.
    fn write(&mut self, at: usize, from: usize, len: usize) {
        if self.things[at].1.value.is_empty() {
            return;
        }
        let part = self.bytes(len);
        let (r, thing) = &mut self.things[at];
        let from = from % thing.value.len();
        let part = &part[..len.min(thing.value.len() - from)];
        let kept = self.log.kept_bytes();
        let mut object = self.access.open_mut(&self.log, *r);
        let way = object.make_way(from..from + part.len(), &mut usize::MAX.clone());
        if way == Way::Free && from.is_multiple_of(4) {
            // Its writer is put back all the same.
        } else if way == Way::Free {
            object.write_value(from, part);
            thing.value[from..from + part.len()].copy_from_slice(part);
            // A page for each block that was touched at most.
            let blocks = part.len() / (self.log.geometry().segment_bytes / 128) + 2;
            assert!(self.log.kept_bytes() <= kept + 4096 * blocks as u64, "{} bytes were written", part.len());
        } else {
            assert!(way == Way::Never && object.pinned() && !self.whole.is_empty(), "{way:?}: nobody reads");
        }
    }

    /// Another name for an object in a run.
    fn rename(&mut self, at: usize, len: usize) {
        let key = self.bytes(len);
        let (r, thing) = &mut self.things[at];
        let owner = match thing.owner {
            Owner::Database(_) => Owner::Database((len % 3) as u16),
            number => number,
        };
        let large = self.access.open(&self.log, *r).bytes() > self.log.geometry().extent_min_bytes;
        let renamed = self.log.rename(&mut self.access, *r, owner, &key);
        assert!(large || renamed.is_none());
        if let Some(new) = renamed {
            *r = new;
            (thing.owner, thing.key) = (owner, key);
        }
    }

    fn resize(&mut self, at: usize, len: usize) {
        let (r, thing) = &mut self.things[at];
        let room = self.access.open(&self.log, *r).room();
        // At times up to the last bytes of the room, where the slack was counted.
        let len = if len.is_multiple_of(13) { room - room.min(len % 5) } else { len };
        let mut object = self.access.open_mut(&self.log, *r);
        let old = thing.value.len();
        let (pinned, large) = (object.pinned(), object.read().bytes() > self.log.geometry().extent_min_bytes);
        let may = !pinned && len <= room && (large || len >= old || len >= room / 2);
        let done = object.resize_value(len);
        assert!(!done || may, "resized {old} to {len} of {room}");
        assert!(done || !may || (large && len < old), "not resized {old} to {len} of {room}");
        if done {
            thing.value.resize(len, 0);
            assert!(self.access.open(&self.log, *r).value() == &thing.value[..], "new bytes are zero");
            let mut object = self.access.open_mut(&self.log, *r);
            object.value_mut().iter_mut().for_each(|byte| *byte ^= 0x5a);
            thing.value.iter_mut().for_each(|byte| *byte ^= 0x5a);
        } else if !pinned && len <= room {
            assert!(len < old);
        }
    }

    fn clear(&mut self) {
        self.appender.park(&self.log);
        self.drains.drain(..).for_each(|drain| self.log.abandon(drain));
        self.things.clear();
        self.log.clear();
    }

    fn drain(&mut self, which: usize, objects: usize, evict: u8, busy: u8) {
        let drain = &mut self.drains[which];
        let things = self.things.iter_mut().map(|thing| (thing.0, thing)).collect();
        let (log, access, appender) = (&self.log, &mut self.access, &mut self.appender);
        let number = evict ^ busy;
        let mut owned = Owned { log, access, appender, things, evicted: vec![], prepared: vec![], evict, busy, number };
        let state = self.log.drain_step(drain, &mut owned, objects);
        let evicted = owned.evicted;
        self.things.retain(|(r, _)| !evicted.contains(r));
        if state == DrainState::Done {
            drop(self.drains.swap_remove(which));
        }
    }

    /// Does one operation to both.
    pub(crate) fn step(&mut self, op: Op) {
        match op {
            Op::Append { kind, key_len, len, extra, expiry, class, clock } => {
                // A member is its key alone.
                let (len, extra, expiry) = if kind == ObjectKind::BARE { (0, 0, None) } else { (len, extra, expiry) };
                let thing = self.thing(kind, key_len, len, expiry, clock);
                self.append(thing, extra, class);
            }
            Op::Adopt { key_len, len, expiry } => {
                let thing = self.thing(ObjectKind::key(1), key_len, len, expiry, len as u32);
                self.adopt(thing);
            }
            Op::Choose => self.drains.extend(self.log.choose_victim()),
            Op::Drain { which, objects, evict, busy } if !self.drains.is_empty() => {
                self.drain(which % self.drains.len(), objects, evict, busy);
            }
            Op::Abandon(which) if !self.drains.is_empty() => {
                let drain = self.drains.swap_remove(which % self.drains.len());
                self.log.abandon(drain);
            }
            Op::Unpin(which) if !self.pins.is_empty() => {
                let (pin, value) = self.pins.swap_remove(which % self.pins.len());
                assert!(read(&pin, 0..value.len()) == value, "a pinned value changed");
                self.whole.pop();
            }
            Op::Unpin(_) => drop(self.whole.pop()),
            Op::Read(which, from, len) if !self.pins.is_empty() => {
                let (pin, value) = &self.pins[which % self.pins.len()];
                let from = from % value.len().max(1);
                let range = from..value.len().min(from + len);
                assert!(read(pin, range.clone()) == value[range.clone()], "{range:?} of a pinned value changed");
                let written = pin.next_written(from);
                assert!(value[from..written.start].iter().all(|&byte| byte == 0), "{written:?} was written");
            }
            Op::Park => self.appender.park(&self.log),
            Op::SealAll => self.log.seal_all(),
            Op::Clear => self.clear(),
            Op::Release(bytes) => {
                self.log.release_step(bytes);
            }
            op => self.change(op),
        }
    }

    /// The operations on one thing.
    fn change(&mut self, op: Op) {
        let (Op::Kill(which)
        | Op::Resize(which, _)
        | Op::Extend(which, ..)
        | Op::Rename(which, _)
        | Op::Expire(which, _)
        | Op::Mark(which, ..)
        | Op::Relocate(which, _)
        | Op::Write(which, ..)
        | Op::Pin(which)) = op
        else {
            return;
        };
        let Some(at) = self.pick(which) else { return };
        let (r, thing) = &mut self.things[at];
        match op {
            Op::Kill(_) => {
                self.access.kill(&self.log, *r);
                self.things.swap_remove(at);
            }
            Op::Resize(_, len) => self.resize(at, len),
            Op::Extend(_, gap, len) => self.extend(at, gap, len),
            Op::Rename(_, len) => self.rename(at, len),
            Op::Write(_, from, len) => self.write(at, from, len),
            Op::Expire(_, expiry) => {
                let slack = { self.access.open(&self.log, *r).room() } - thing.value.len();
                if self.access.open_mut(&self.log, *r).set_expiry_ms(expiry) {
                    thing.expiry = expiry;
                } else {
                    assert!(expiry.is_some() && slack < 8);
                }
            }
            Op::Mark(_, clock, saved) => {
                let mut object = self.access.open_mut(&self.log, *r);
                object.set_clock(clock);
                object.set_saved(saved);
                object.set_tag(ObjectTag::new(2));
                thing.clock = if thing.kind.is_key() { clock & 0xff_ffff } else { 0 };
                (thing.saved, thing.tag) = (saved, ObjectTag::new(2));
            }
            Op::Relocate(_, class) => *r = self.appender.relocate(&self.log, &mut self.access, *r, class),
            _ => {
                if let Some(pin) = self.log.pin(&self.access, *r) {
                    self.pins.push((pin, thing.value.clone()));
                }
            }
        }
    }

    /// Compares everything.
    pub(crate) fn check(&mut self) {
        self.appender.park(&self.log);
        for (r, thing) in &self.things {
            let object = self.access.open(&self.log, *r);
            let found = Thing {
                kind: object.kind(),
                owner: object.owner(),
                key: object.key().to_vec(),
                value: object.value().to_vec(),
                expiry: object.expiry_ms(),
                clock: object.clock(),
                tag: object.tag(),
                saved: object.saved(),
            };
            assert!(found == *thing, "{found:?} is not {thing:?}");
        }
        let live: usize = self.things.iter().map(|(r, _)| self.access.open(&self.log, *r).live_bytes()).sum();
        let alive: HashMap<Ref, ()> = self.things.iter().map(|(r, _)| (*r, ())).collect();
        self.log.verify_with(|head, _| alive.contains_key(&head.r));
        let stats = self.log.stats();
        assert_eq!((stats.live_bytes, stats.live_objects), (live as u64, self.things.len() as u64));
        assert!(stats.used_bytes >= stats.live_bytes);
        for (pin, value) in &self.pins {
            assert!(read(pin, 0..value.len()) == *value, "a pinned value changed");
        }
        for (pin, value) in &self.whole {
            assert!(pin[..] == value[..], "a pinned value changed");
        }
    }

    /// Everything dies, everything is given back.
    pub(crate) fn finish(mut self) {
        self.check();
        for (r, _) in std::mem::take(&mut self.things) {
            self.access.kill(&self.log, r);
        }
        self.pins.clear();
        self.whole.clear();
        for drain in std::mem::take(&mut self.drains) {
            self.log.abandon(drain);
        }
        while self.log.release_step(1 << 20) {}
        self.log.seal_all();
        while let Some(mut drain) = self.log.choose_victim() {
            while self.log.drain_step(&mut drain, &mut Nobody, 1000) != DrainState::Done {}
        }
        let stats = self.log.stats();
        assert_eq!((stats.used_bytes, stats.live_bytes, stats.segments, stats.runs), (0, 0, 0, 0), "{stats:?}");
        assert_eq!(stats.kept_bytes, 0, "{stats:?}");
        self.log.verify();
        let most = self.log.geometry().segment_bytes + self.log.geometry().segment_bytes / 4;
        assert!(stats.cached_bytes <= most as u64, "{stats:?}");
    }
}
