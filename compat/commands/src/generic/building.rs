//! The result of a command that stores it, made over several turns.
//!
//! ```text
//!   elements --> batch --> few: the value of the key, at the end                         at the end, with the shards of
//!                    `---> many: some a hold, to a collection that no key leads to yet   sources and key held
//! ```
//! The key changes only if the sources are as they were when they were read: then all of the command is done at that instant.
//! Not here: where the elements come from.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use varve_exec::notify::{self, Class};
use varve_exec::{Progress, Sources};
use varve_protocol::{OwnedArgs, Reply};
use varve_store::{Key, NameWatch, ReadOn, StoreWorker, StreamOutline, Tx, Type, Unpublished, ValuePart};

use super::texts::{Place, Texts};

/// Elements that are added in one hold of the shard: some 500 us where each finds its place in a large collection.
const HOLD: usize = 512;
/// How long all shards are waited for, if all are needed: those that were free are kept meanwhile.
const HOLD_ALL_WITHIN: Duration = Duration::from_micros(200);
/// Nodes of a stream, of some KB each, that are added in one hold.
const HOLD_NODES: usize = 64;
/// About the bytes that an element takes in the store beside its own.
const ELEMENT_OVERHEAD_BYTES: usize = 48;

/// A result in the making.
pub(crate) struct Building {
    args: Arc<OwnedArgs>,
    /// The argument that is the key, and that of each source.
    to: usize,
    /// The database of that key.
    db: u32,
    sources: Vec<usize>,
    named: Sources,
    /// The names of other keys that it is made of, watched since they were read.
    names: Option<NameWatch>,
    ty: Type,
    /// A set that is no set of integers, whatever is in it.
    hashed: bool,
    /// It is a big collection, however few elements it has.
    big: bool,
    batch: Batch,
    /// The elements of the batch that were added to the collection.
    added: usize,
    built: Option<Unpublished>,
    /// Of a stream, what goes behind its entries.
    outline: Option<StreamOutline>,
    /// All elements so far.
    count: u64,
}

/// The destination of a command that replies with its result, or stores it.
#[derive(Default)]
pub(crate) struct MaybeStored(Option<Building>);

impl MaybeStored {
    /// Has the result stored.
    pub(crate) fn store_in(&mut self, building: Building) {
        self.0 = Some(building);
    }

    /// Whether the result is stored.
    pub(crate) fn is_stored(&self) -> bool {
        self.0.is_some()
    }

    /// The result that is stored, to add to.
    pub(crate) fn building(&mut self) -> Option<&mut Building> {
        self.0.as_mut()
    }

    /// Takes the result that is stored out while all else of its command is needed, which puts it back by `store_in`.
    pub(crate) fn take(&mut self) -> Option<Building> {
        self.0.take()
    }

    /// The sources of what is stored.
    pub(crate) fn sources(&self) -> Option<&Sources> {
        self.0.as_ref().map(Building::sources)
    }

    /// Lets go of the sources, if it has not ended.
    pub(crate) fn abandon(&mut self, worker: &mut StoreWorker) {
        if let Some(building) = &mut self.0 {
            building.abandon(worker);
        }
    }

    /// Bytes that wait to be stored.
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Building::held_bytes)
    }
}

/// Elements that wait, in the order in which they came.
#[derive(Default)]
struct Batch {
    texts: Texts,
    /// Fields and values by turns in a hash.
    places: Vec<Place>,
    scores: Vec<f64>,
    /// When each field of a hash expires.
    dates: Vec<Option<i64>>,
}

impl Batch {
    fn text(&self, at: usize) -> &[u8] {
        self.texts.get(self.places[at])
    }

    /// About the bytes that some texts take in the store.
    fn bytes(&self, which: Range<usize>) -> u64 {
        self.places[which].iter().map(|place| (place.len() + ELEMENT_OVERHEAD_BYTES) as u64).sum()
    }

    fn from(&self, at: usize) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.places[at..].iter().map(|place| self.texts.get(*place))
    }
}

/// How a result is stored.
pub(crate) struct Report {
    pub(crate) class: Class,
    pub(crate) event: &'static str,
    /// Each element counts as a change; else all of them as one.
    pub(crate) each_counts: bool,
    /// The key is a copy: it is removed before, so that it is new, and the reply is whether it was made.
    pub(crate) copies: bool,
    /// A key that is there is replaced; else it stays.
    pub(crate) replaces: bool,
}

/// How a part ends that has read on for a building: a reader that has shown all goes, and what was built is published next.
pub(crate) fn after_read<R>(reader: &mut Option<R>, read: ReadOn) -> Progress {
    match read {
        ReadOn::Busy => return Progress::Busy,
        ReadOn::More(_) => {}
        ReadOn::All => *reader = None,
    }
    Progress::More
}

impl Report {
    /// The result of a command that replies with the number of its elements.
    pub(crate) fn new(class: Class, event: &'static str) -> Report {
        Report { class, event, each_counts: false, copies: false, replaces: true }
    }
}

impl Building {
    /// A result of this type for the key that argument `to` names, made of the keys that the `sources` name; writers are kept
    /// from all of them if it `keeps` them. The shards of all of them are held.
    pub(crate) fn begin(
        tx: &mut Tx<'_>,
        args: &Arc<OwnedArgs>,
        (to, ty): (usize, Type),
        sources: Vec<usize>,
        keeps: bool,
    ) -> Building {
        let words = args.args();
        let named = Sources::begin(tx, sources.iter().map(|&at| words.get(at)), Some(words.get(to)), keeps);
        Building {
            args: Arc::clone(args),
            to,
            db: tx.db(),
            sources,
            named,
            names: None,
            ty,
            hashed: false,
            big: false,
            batch: Batch::default(),
            added: 0,
            built: None,
            outline: None,
            count: 0,
        }
    }

    /// The result is made of keys of these names as well, whichever shards they are in.
    pub(crate) fn follow_names(&mut self, names: NameWatch) {
        self.names = Some(names);
    }

    /// The result is no set of integers, whatever is in it.
    pub(crate) fn set_hashed(&mut self, hashed: bool) {
        self.hashed = hashed;
    }

    /// The result is a big collection, however few elements it has, of a key of this database.
    pub(crate) fn set_copy(&mut self, db: u32) {
        (self.db, self.big) = (db, true);
    }

    /// The result is a stream, with this behind its nodes.
    pub(crate) fn set_outline(&mut self, outline: Option<StreamOutline>) {
        self.outline = outline;
    }

    /// The sources.
    pub(crate) fn sources(&self) -> &Sources {
        &self.named
    }

    /// Lets go of the sources, if it has not ended.
    pub(crate) fn abandon(&mut self, worker: &mut StoreWorker) {
        self.named.abandon(worker);
    }

    /// Adds an element of a list, or a new member of a set.
    pub(crate) fn push(&mut self, element: &[u8]) {
        let place = self.batch.texts.push(element);
        self.batch.places.push(place);
        self.count += 1;
    }

    /// Adds a new member of a sorted set.
    pub(crate) fn push_scored(&mut self, member: &[u8], score: f64) {
        self.push(member);
        self.batch.scores.push(score);
    }

    /// Adds a new field of a hash.
    fn push_pair(&mut self, field: &[u8], value: &[u8], expiry_ms: Option<i64>) {
        self.push(field);
        self.batch.dates.push(expiry_ms);
        let place = self.batch.texts.push(value);
        self.batch.places.push(place);
    }

    /// Adds an element as its collection has it.
    pub(crate) fn push_part(&mut self, part: ValuePart<'_>) {
        match part {
            ValuePart::Element(element) => self.push(element),
            ValuePart::Scored(member, score) => self.push_scored(member, score),
            ValuePart::Pair(field, value, expiry_ms) => self.push_pair(field, value, expiry_ms),
            ValuePart::Entries(node) => self.push(node.raw()),
            ValuePart::Whole(_) | ValuePart::Facts(_) | ValuePart::Groups(_) => {
                unreachable!("no string is copied in parts, and no reader shows what is behind a stream's entries")
            }
        }
    }

    /// Texts of an element.
    fn texts_each(&self) -> usize {
        if self.ty == Type::Hash { 2 } else { 1 }
    }

    /// Whether enough waits for [`Building::add_on`].
    pub(crate) fn is_full(&self, tx: &Tx<'_>) -> bool {
        let few = tx.store().shapes().small(self.ty).entries().max(HOLD as u64) as usize;
        let waiting = self.batch.places.len() / self.texts_each();
        waiting > if self.big || self.built.is_some() { self.hold() } else { few }
    }

    /// Elements that are added in one hold.
    fn hold(&self) -> usize {
        if self.ty == Type::Stream { HOLD_NODES } else { HOLD }
    }

    /// Adds some of what waits to the collection. The shards that were held are let go.
    pub(crate) fn add_on(&mut self, tx: &mut Tx<'_>) -> Progress {
        let hold = self.hold();
        let Some(built) = &mut self.built else { return self.begin_collection(tx) };
        tx.release();
        let (batch, from) = (&self.batch, self.added);
        let end = batch.places.len().min(from + hold);
        if let Err(refusal) = tx.admit(batch.bytes(from..end)) {
            return refusal.into();
        }
        let pairs = || (from / 2..end / 2).map(|i| (batch.text(2 * i), batch.text(2 * i + 1)));
        let texts = || batch.from(from).take(end - from);
        let new = match self.ty {
            Type::List => tx.unpublished_push(built, texts()),
            Type::Set => tx.unpublished_add(built, texts()),
            Type::Hash => {
                let dates = &batch.dates[from / 2..end / 2];
                let new = if dates.iter().all(Option::is_none) {
                    tx.unpublished_set(built, pairs())
                } else {
                    let dated = pairs().zip(dates).map(|((field, value), &expiry_ms)| (field, value, expiry_ms));
                    tx.unpublished_set_dated(built, dated)
                };
                new.map(|new| 2 * new)
            }
            Type::Stream => tx.unpublished_stream(built, |stream| texts().map(|node| stream.append_node(node)).count()),
            _ => tx.unpublished_score(built, texts().zip(batch.scores[from..end].iter().copied())),
        };
        // The shard stays held: the executor counts for how long.
        let Some(new) = new else { return Progress::Busy };
        debug_assert_eq!(new, end - from, "an element comes once");
        self.added = end;
        if end == self.batch.places.len() {
            (self.batch, self.added) = (Batch::default(), 0);
        }
        Progress::More
    }

    fn begin_collection(&mut self, tx: &mut Tx<'_>) -> Progress {
        let args = self.args.args();
        let key = tx.key_in(self.db, args.get(self.to));
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        self.built = Some(tx.begin_unpublished(&key, self.ty));
        tx.release();
        Progress::More
    }

    /// Gives a stream that has all nodes what goes behind them; false if its shard is busy.
    fn end_stream(&mut self, tx: &mut Tx<'_>) -> bool {
        let (Some(outline), Some(built)) = (&self.outline, &mut self.built) else { return true };
        tx.release();
        let done = tx.unpublished_stream(built, |stream| {
            stream.set_state(outline.facts.state);
            if let Some(groups) = outline.groups() {
                stream.set_groups(groups);
            }
            if let Some(kept) = outline.idempotence() {
                stream.change_idempotence(|| kept.clone(), |_| ());
            }
        });
        if done.is_some() {
            self.outline = None;
        }
        done.is_some()
    }

    /// All elements have come: adds what waits, and changes the key at last, which `report` reports and `reply` answers.
    pub(crate) fn publish(
        &mut self,
        tx: &mut Tx<'_>,
        report: &Report,
        finish: impl FnOnce(&mut Tx<'_>, &Key<'_>),
        out: &mut Reply,
    ) -> Progress {
        let is_big = self.big || self.built.is_some();
        if self.is_full(tx) || is_big && (self.built.is_none() || !self.batch.places.is_empty()) {
            return self.add_on(tx);
        }
        if self.outline.is_some() {
            return if self.end_stream(tx) { Progress::More } else { Progress::Busy };
        }
        // Few elements are added at the end, and may be long.
        if let Err(refusal) = tx.admit(self.batch.bytes(0..self.batch.places.len())) {
            return refusal.into();
        }
        let args = Arc::clone(&self.args);
        let args = args.args();
        let key = tx.key_in(self.db, args.get(self.to));
        if !self.try_hold_for_end(tx, &key) || self.named.bars(tx, &key) || tx.sheds_due_fields(&key) {
            return Progress::Busy;
        }
        let names_changed = self.names.as_ref().is_some_and(NameWatch::is_touched);
        if self.named.end(tx) || names_changed {
            return Progress::Anew;
        }
        let taken = tx.exists(&key);
        if taken && !report.replaces {
            out.integer(0);
            return Progress::Done;
        }
        if report.copies {
            tx.remove(&key);
        }
        match (self.built.take(), self.ty) {
            (Some(built), _) => tx.publish_built(&key, built),
            (None, Type::List) => _ = tx.list_store(&key, self.batch.from(0)),
            (None, Type::Set) => tx.set_store_members(&key, self.batch.from(0), self.hashed),
            (None, Type::Zset) => {
                let scores = self.batch.scores.iter().copied();
                tx.zset_store(&key, &mut self.batch.from(0).zip(scores).collect::<Vec<_>>());
            }
            (None, _) => unreachable!("the copy of a hash is a big one"),
        }
        finish(tx, &key);
        let changes = if report.each_counts { self.count } else { u64::from(self.count > 0) };
        notify::did_store(tx, (report.class, report.event), &key, changes, taken);
        out.integer(if report.copies { 1 } else { self.count as i64 });
        Progress::Done
    }

    /// A source has changed: lets go of all, so that the command may begin anew.
    pub(crate) fn begin_anew(&mut self, tx: &mut Tx<'_>) -> Progress {
        let args = Arc::clone(&self.args);
        let key = tx.key_in(self.db, args.args().get(self.to));
        if !self.try_hold_for_end(tx, &key) {
            return Progress::Busy;
        }
        self.named.end(tx);
        Progress::Anew
    }

    /// Tries to hold all that the last part needs: the shards of the sources, and of what is built. Where names are watched,
    /// their keys may be in any shard.
    fn try_hold_for_end(&self, tx: &mut Tx<'_>, key: &Key<'_>) -> bool {
        if self.names.is_some() {
            let all: Vec<u16> = (0..tx.store().shard_count() as u16).collect();
            return tx.hold_within(&all, HOLD_ALL_WITHIN);
        }
        let args = self.args.args();
        let named = self.sources.iter().map(|&at| tx.shard_of(tx.key(args.get(at)).hash));
        let shards: Vec<u16> = named.chain([tx.shard_of(key.hash)]).collect();
        let shards = tx.with_shard_of(shards.into_iter(), self.built.as_ref());
        self.named.try_hold(tx, &shards)
    }

    /// Bytes that wait.
    pub(crate) fn held_bytes(&self) -> usize {
        let Batch { texts, places, scores, dates } = &self.batch;
        texts.held_bytes()
            + places.capacity() * size_of::<Place>()
            + scores.capacity() * size_of::<f64>()
            + dates.capacity() * size_of::<Option<i64>>()
    }
}
