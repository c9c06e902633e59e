//! The transfer of keys: what is sent, and what is done with the answers.
//!
//! ```text
//!   sent       [AUTH ..] [SELECT db]   RESTORE a   RESTORE b   RESTORE c ..      no more than some hundred KB ahead
//!   answers    +OK       +OK           +OK         -BUSYKEY ..
//!                                      DEL a       b stays, the error is the client's
//! ```
//! Values of any length are made into payloads in parts, by the same piece as DUMP's. What changes a key although it is
//! frozen (eviction, its end) is seen by a watcher: a key that was changed is not deleted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use varve_exec::journal::{put_head, put_request, put_word};
use varve_exec::link::{LINK_LOW_BYTES, Link, LinkFault, LinkState};
use varve_exec::notify::did_remove;
use varve_exec::{CmdResult, CommandError, Ongoing, Progress};
use varve_protocol::Reply;
use varve_store::{Freeze, Key, Removal, StoreWorker, Tx, Watcher};

use super::options::Options;
use crate::dump::{LongDump, whole};
use crate::errors;

/// Keys that are frozen or thawed in one part at most.
const FREEZES_PER_PART: usize = 64;
/// Keys that are sent in one part at most.
const KEYS_PER_PART: usize = 16;
/// Bytes of payloads after which a part ends.
const PART_BYTES: usize = 64 << 10;
/// Bytes of one answer: longer ones are no RESTORE's.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Bytes that a key on its way takes at most beside its name: here, among the watched keys and among the frozen ones.
const MOVED_BYTES: usize = 400;

/// A key that moves.
pub(super) struct Moved {
    name: Box<[u8]>,
    watcher: Watcher,
    state: State,
}

/// How far a key has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// Commands that would change it wait. When its time is over, milliseconds of Unix time.
    Frozen(Option<i64>),
    /// Nothing is left to do about it here.
    Done,
}

impl Moved {
    pub(super) fn new(name: &[u8]) -> Moved {
        Moved { name: name.into(), watcher: Watcher::default(), state: State::New }
    }

    /// Has those wait who would change the key, whose shard is held; false if another command moves it at present.
    fn freeze(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) -> bool {
        let Some(expiry) = tx.expiry(key) else {
            self.state = State::Done;
            return true;
        };
        if !tx.freeze(key, Freeze::Moving) {
            return false;
        }
        tx.watch(key, &self.watcher);
        self.state = State::Frozen(expiry);
        true
    }

    /// Lets the key be changed again, whose shard is held, and is as it was before it was frozen.
    fn back_off(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) {
        self.thaw(tx, key);
        self.state = State::New;
    }

    /// Lets the key be changed again; its shard is held.
    fn thaw(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) {
        if matches!(self.state, State::Frozen(_)) {
            tx.unwatch(key, &self.watcher);
            tx.thaw(key);
        }
        self.state = State::Done;
    }

    /// True if the key has gone, or has become another one, before its time.
    fn has_changed(&self, tx: &mut Tx<'_>, key: &Key<'_>) -> bool {
        let is_over = matches!(self.state, State::Frozen(Some(until)) if until <= tx.now_ms());
        self.watcher.is_touched() && (!is_over || tx.exists(key))
    }

    /// The other server has the key: deletes it here, its shard held.
    ///
    /// # Errors
    /// The key was changed meanwhile: nothing is deleted.
    fn delete(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) -> CmdResult {
        let changed = self.has_changed(tx, key);
        self.thaw(tx, key);
        if changed {
            return Err(errors::migrate_changed(&self.name));
        }
        if tx.remove(key) {
            did_remove(tx, key, Removal::Deleted);
        }
        Ok(())
    }
}

/// The request that the next answer is for.
#[derive(Clone, Copy)]
enum Asked {
    /// AUTH or SELECT.
    Greeting,
    /// The RESTORE of this key.
    Key(usize),
}

/// A payload of which a part is sent.
struct Payload {
    bytes: Vec<u8>,
    sent: usize,
}

/// Keys on their way.
pub(super) struct Transfer {
    /// The logical database of the keys.
    db: u32,
    link: Arc<Link>,
    options: Options,
    /// In the order of their names: two commands that freeze the same keys do not wait for each other.
    keys: Vec<Moved>,
    /// Bytes of the names, as often as they are kept.
    name_bytes: usize,
    /// The number of keys, from the first on, that are frozen or are not there.
    frozen: usize,
    /// Another command has frozen one of the keys: those before it are let go, and it begins with the first again, so that nobody waits
    /// meanwhile for keys that do not move.
    backs_off: bool,
    /// The link's greeting was sent.
    greeted: bool,
    /// The greeting was refused: no key can have arrived where it should.
    misled: bool,
    /// The key that is sent next.
    next: usize,
    /// At the end: the keys before this one are thawed.
    thawed: usize,
    /// The version of RDB that payloads have, if one is pinned.
    rdb_version: Option<u16>,
    /// Its payload while that is made, if it is long, and its time to live, milliseconds.
    dump: Option<(LongDump, i64)>,
    /// Its payload while that is sent.
    payload: Option<Payload>,
    asked: VecDeque<Asked>,
    received: Vec<u8>,
    /// An answer to a key has come.
    answered: bool,
    retried: bool,
    /// The first error that the other server has answered.
    refusal: Option<CommandError>,
    /// Only the end is left.
    end: Option<CmdResult>,
}

impl Transfer {
    /// Moves these keys, whose names are in order, to a server that has this address and may be silent for this time.
    pub(super) fn new(to: (String, u16, Duration), db: u32, options: Options, keys: Vec<Moved>) -> Transfer {
        Transfer {
            name_bytes: 3 * keys.iter().map(|moved| moved.name.len()).sum::<usize>(),
            db,
            link: Arc::new(Link::new(to.0, to.1, to.2)),
            options,
            keys,
            frozen: 0,
            backs_off: false,
            greeted: false,
            misled: false,
            next: 0,
            thawed: 0,
            rdb_version: None,
            dump: None,
            payload: None,
            asked: VecDeque::new(),
            received: Vec::new(),
            answered: false,
            retried: false,
            refusal: None,
            end: None,
        }
    }

    /// Payloads have this version of RDB, if one is given.
    pub(super) fn pin_version(&mut self, version: Option<u16>) {
        self.rdb_version = version;
    }

    /// Lets go of the last of the keys that are frozen so far. One a part: who waits for it is served with its shard held.
    fn back_off(&mut self, tx: &mut Tx<'_>) -> Progress {
        let Some(last) = self.frozen.checked_sub(1) else {
            self.backs_off = false;
            return Progress::Busy;
        };
        let moved = &mut self.keys[last];
        let name = moved.name.clone();
        let key = tx.key(&name);
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        moved.back_off(tx, &key);
        self.frozen = last;
        Progress::More
    }

    /// Freezes the keys; `Done` when all are.
    fn freeze_some(&mut self, tx: &mut Tx<'_>) -> Progress {
        if self.backs_off {
            return self.back_off(tx);
        }
        for _ in 0..FREEZES_PER_PART {
            let Some(moved) = self.keys.get_mut(self.frozen) else { return Progress::Done };
            let name = moved.name.clone();
            let key = tx.key(&name);
            if !tx.try_hold_one(tx.shard_of(key.hash)) {
                return Progress::Busy;
            }
            if !moved.freeze(tx, &key) {
                self.backs_off = true;
                return Progress::More;
            }
            self.frozen += 1;
            if tx.has_effects() {
                // A key whose time was over: its end is told with its shard held.
                return Progress::More;
            }
        }
        Progress::More
    }

    /// Does what can be done now.
    fn step(&mut self, tx: &mut Tx<'_>) -> Progress {
        if self.frozen < self.keys.len() {
            match self.freeze_some(tx) {
                Progress::Done => {}
                other => return other,
            }
        }
        let state = self.link.state();
        if matches!(state, LinkState::New | LinkState::Connecting) {
            return Progress::Waits;
        }
        self.link.take_received(&mut self.received);
        match self.read_answers(tx) {
            Progress::Done => {}
            other => return other,
        }
        let sends = self.next < self.keys.len() || self.payload.is_some() || self.dump.is_some();
        let is_over = self.greeted && !sends && self.asked.is_empty();
        if let (LinkState::Failed(fault), false) = (state, is_over) {
            self.fail(fault);
            return Progress::More;
        }
        if !self.greeted {
            self.greet();
        }
        if sends {
            let room = self.link.unsent_bytes() < LINK_LOW_BYTES;
            return if room { self.send_some(tx) } else { Progress::Waits };
        }
        if !self.asked.is_empty() {
            return Progress::Waits;
        }
        if state == LinkState::Open {
            self.link.keep(u64::try_from(self.options.db).ok().filter(|_| !self.misled));
        }
        self.end = Some(self.refusal.take().map_or(Ok(()), Err));
        Progress::More
    }

    /// Says who speaks, and of which database, where the link's last user has not.
    fn greet(&mut self) {
        self.greeted = true;
        if let Some(words) = &self.options.auth {
            self.link.send(|out| put_request(out, words.iter().map(Vec::as_slice)));
            self.asked.push_back(Asked::Greeting);
        }
        if self.link.note() != u64::try_from(self.options.db).ok() || self.options.db < 0 {
            let db = self.options.db.to_string();
            self.link.send(|out| put_request(out, [b"SELECT".as_slice(), db.as_bytes()].into_iter()));
            self.asked.push_back(Asked::Greeting);
        }
    }

    /// Sends some keys, or a part of one.
    fn send_some(&mut self, tx: &mut Tx<'_>) -> Progress {
        let before = self.link.unsent_bytes();
        for _ in 0..KEYS_PER_PART {
            if let Some((mut dump, ttl_ms)) = self.dump.take() {
                let progress = dump.read_on(tx);
                if !matches!(progress, Progress::Done) {
                    self.dump = Some((dump, ttl_ms));
                    return progress;
                }
                self.send_key(dump.seal(), ttl_ms);
            }
            if self.payload.is_some() && !self.send_payload() {
                return Progress::Waits;
            }
            let Some(moved) = self.keys.get_mut(self.next) else { break };
            if moved.state == State::Done {
                self.next += 1;
                continue;
            }
            let name = moved.name.clone();
            let key = tx.key(&name);
            if !tx.try_hold_one(tx.shard_of(key.hash)) {
                return Progress::Busy;
            }
            let Some(expiry) = tx.expiry(&key) else {
                if moved.has_changed(tx, &key) {
                    self.refusal.get_or_insert(errors::migrate_changed(&moved.name));
                }
                moved.thaw(tx, &key);
                self.next += 1;
                // Its end is told with its shard held.
                return Progress::More;
            };
            let ttl_ms = expiry.map_or(0, |at| (at - tx.now_ms()).max(1));
            self.dump = LongDump::begin(tx, &key, self.rdb_version).map(|dump| (dump, ttl_ms));
            if self.dump.is_some() {
                return Progress::More;
            }
            let payload = match whole(tx, &key, self.rdb_version) {
                Ok(payload) => payload.expect("the key is there"),
                Err(error) => {
                    // The key stays, and the others go.
                    self.refusal.get_or_insert(error);
                    moved.thaw(tx, &key);
                    self.next += 1;
                    return Progress::More;
                }
            };
            if tx.has_effects() {
                // Fields whose time was over: their end is told with the shard held.
                tx.hand_on();
            }
            tx.release();
            self.send_key(payload, ttl_ms);
            self.send_payload();
            if self.link.unsent_bytes() - before > PART_BYTES {
                break;
            }
        }
        // More is made when this has gone out.
        if self.link.unsent_bytes() > 0 { Progress::Waits } else { Progress::More }
    }

    /// Begins the RESTORE of the next key.
    fn send_key(&mut self, payload: Vec<u8>, ttl_ms: i64) {
        let ttl = ttl_ms.to_string();
        let words = [b"RESTORE", &*self.keys[self.next].name, ttl.as_bytes()];
        self.link.send(|out| {
            put_head(out, b'*', words.len() + 1 + usize::from(self.options.replace));
            words.iter().for_each(|word| put_word(out, word));
            put_head(out, b'$', payload.len());
        });
        self.payload = Some(Payload { bytes: payload, sent: 0 });
        self.asked.push_back(Asked::Key(self.next));
        self.next += 1;
    }

    /// Sends as much of the payload as may be unsent, and ends its request; false if there is more of it.
    fn send_payload(&mut self) -> bool {
        let Some(Payload { bytes, sent }) = &mut self.payload else { return true };
        let room = LINK_LOW_BYTES.saturating_sub(self.link.unsent_bytes()).max(PART_BYTES);
        let end = bytes.len().min(*sent + room);
        self.link.send(|out| {
            out.extend_from_slice(&bytes[*sent..end]);
            if end == bytes.len() {
                out.extend_from_slice(b"\r\n");
                if self.options.replace {
                    put_word(out, b"REPLACE");
                }
            }
        });
        *sent = end;
        let done = end == bytes.len();
        if done {
            self.payload = None;
        }
        done
    }

    /// Acts on the answers that have come; `Done` when there are no more. No part deletes two keys: the effects of a part are
    /// handed on with the shard held that it held last.
    fn read_answers(&mut self, tx: &mut Tx<'_>) -> Progress {
        for _ in 0..KEYS_PER_PART {
            let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") else {
                if self.received.len() > ANSWER_BYTES_MAX {
                    self.link.fail(LinkFault::Broken);
                }
                return Progress::Done;
            };
            let Some(&asked) = self.asked.front() else {
                self.received.clear();
                self.link.fail(LinkFault::Broken);
                return Progress::Done;
            };
            let refused = self.received.starts_with(b"-");
            if let Asked::Key(at) = asked {
                let key = tx.key(&self.keys[at].name).hash;
                if !tx.try_hold_one(tx.shard_of(key)) {
                    return Progress::Busy;
                }
                self.answered = true;
                self.settle(tx, at, refused);
            } else {
                self.misled |= refused;
            }
            if refused && self.refusal.is_none() {
                self.refusal = Some(errors::migrate_refused(&self.received[1..end]));
            }
            self.asked.pop_front();
            self.received.drain(..end + 2);
            self.link.note_progress();
            if tx.has_effects() {
                return Progress::More;
            }
        }
        Progress::More
    }

    /// The answer to a key has come; the key's shard is held.
    fn settle(&mut self, tx: &mut Tx<'_>, at: usize, refused: bool) {
        let moved = &mut self.keys[at];
        let name = moved.name.clone();
        let key = tx.key(&name);
        if refused || self.misled || self.options.copy {
            moved.thaw(tx, &key);
        } else if let Err(error) = moved.delete(tx, &key) {
            self.refusal.get_or_insert(error);
        }
    }

    /// The link is of no more use. Where the other server cannot have said anything of a key, a new one is tried, once: the
    /// socket may be one that the other server has closed since it was last used.
    fn fail(&mut self, fault: LinkFault) {
        if fault == LinkFault::Broken && !self.answered && !self.retried {
            self.retried = true;
            self.link = Arc::new(Link::new(self.link.host().into(), self.link.port(), self.link.idle_max()));
            (self.greeted, self.misled, self.next, self.dump, self.payload) = (false, false, 0, None, None);
            self.refusal = None;
            self.asked.clear();
            self.received.clear();
            return;
        }
        let error = match fault {
            _ if self.refusal.is_some() => self.refusal.take().expect("it was asked for"),
            LinkFault::Refused => errors::MIGRATE_CONNECTING,
            LinkFault::TimedOut if !self.link.was_open() => errors::MIGRATE_CONNECTING,
            _ if self.link.unsent_bytes() > 0 || !self.greeted => errors::MIGRATE_WRITING,
            _ => errors::MIGRATE_READING,
        };
        self.end = Some(Err(error));
    }

    /// Thaws what is left, and replies.
    fn finish(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let mut thaws = 0;
        // From where the last part ended: looked for from the first key on, 200 000 keys took a second.
        while let Some(moved) = self.keys.get_mut(self.thawed) {
            if matches!(moved.state, State::Frozen(_)) {
                if thaws == FREEZES_PER_PART {
                    return Progress::More;
                }
                let name = moved.name.clone();
                let key = tx.key(&name);
                if !tx.try_hold_one(tx.shard_of(key.hash)) {
                    return Progress::Busy;
                }
                moved.thaw(tx, &key);
                thaws += 1;
            }
            self.thawed += 1;
        }
        match self.end.take().expect("the transfer has ended") {
            Ok(()) => out.ok(),
            Err(error) => return Progress::Failed(error),
        }
        Progress::Done
    }
}

impl Ongoing for Transfer {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        if self.end.is_some() { self.finish(tx, out) } else { self.step(tx) }
    }

    fn held_bytes(&self) -> usize {
        let dump = self.dump.as_ref().map_or(0, |(dump, _)| dump.held_bytes());
        let payload = self.payload.as_ref().map_or(0, |payload| payload.bytes.capacity());
        let keys = self.keys.len() * MOVED_BYTES + self.name_bytes;
        keys + dump + payload + self.link.held_bytes() + self.received.capacity()
    }

    fn kept_bytes(&self) -> usize {
        self.dump.as_ref().map_or(0, |(dump, _)| dump.kept_bytes())
    }

    fn link(&self) -> Option<Arc<Link>> {
        Some(Arc::clone(&self.link))
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        for moved in self.keys.iter_mut().filter(|moved| matches!(moved.state, State::Frozen(_))) {
            moved.state = State::Done;
            worker.unwatch(&moved.watcher, std::iter::once((self.db, moved.name.clone())));
            worker.thaw(std::iter::once(&*moved.name));
        }
    }
}
