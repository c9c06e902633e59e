//! A walk: a walker is shown each key of the keyspace once, as it was when the walk began, while commands go on. A snapshot
//! is one, and so is a reader that takes long.
//!
//! ```text
//! places, shard by shard      0 ........ cursor ................. end
//!                             passed     ahead
//! mark SAVED of an object     never      set: has been shown, or was not there when the walk began
//!                                        clear: is shown by the first change, else by the walk, which clears the mark
//! ```
//! So an object that is written during a walk is born marked if its place is ahead, and unmarked if its place has been
//! passed, wherever its value comes from: RENAME shows the value under its old name.
//!
//! ```text
//! a long collection   met by the walk, or about to change --reader begins--> waits --some elements a step--> all shown
//! ```
//! The elements of a collection that is too long for one hold of its shard are shown over several, one collection after
//! the other and before the walk goes on: a reader keeps them as they were (`state/readers.rs`).
//!
//! Not here: the calls (`keyspace/door.rs`), the steps of a walk (`keyspace/walking.rs`, `keyspace/long_values.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use varve_base::Ref;
use varve_base::rank::{Rank, RankedMutex};
use varve_collection::list::{CompressScratch, End, QuicklistReader};
use varve_collection::stream::{Groups, StreamFacts, StreamNode, StreamReader};
use varve_collection::{Collection, KeptBytes, ReadCtx, ReaderBytes};
use varve_packed::leaf::pair;
use varve_segment::{Object, Pin};

use super::clock::{KeyUse, UseMeter};
use super::key::{Place, database_of};
use super::outline::{LeftOutlines, StreamOutline};
use super::readers::{CollectionReader, ReadBounds};
use super::small::{Small, SmallSet, due_of, here, pairs_of};
use super::types::{SmallForm, Type};

/// Elements, and bytes of them, up to which a walk shows a collection whole: a bucket of the index may have seven of them,
/// which are shown in one hold of the shard, some 200 us.
const WHOLE_ELEMENTS: u64 = 1024;
const WHOLE_BYTES: u64 = 64 << 10;

/// Is shown each object once, as it was when the walk began. Called with the object's shard held: it may take locks that
/// are leaves, and waits for nothing.
pub trait Walker: Send + Sync {
    /// The walk has come to the object, or the object is about to change or to be removed. Its bytes, and its elements,
    /// are as they were when the walk began. A key whose time has come is shown like any other.
    fn before(&self, old: &Before<'_>);

    /// The walk has come to a collection that is too long for one hold of its shard, or it is about to change or to be
    /// removed. Gives the receiver of its elements, None if they are not wanted.
    fn before_long(self: Arc<Self>, old: &Before<'_>) -> Option<Box<dyn PartSink>>;

    /// Every database is about to be emptied at once: the walk ends, and nothing more is shown.
    fn before_all(&self);

    /// The walk has come to its end: every object has been shown, or the walk was abandoned and all marks are gone. Nothing
    /// more is shown. Not called for a walk that FLUSHALL ends.
    fn ended(&self);

    /// False while the steps of the walk are to wait. Objects that are about to change are shown all the same.
    fn has_room(&self) -> bool {
        true
    }

    /// True while nothing that can wait is to remove a key that has not been shown: eviction, sweeps.
    fn is_full(&self) -> bool {
        false
    }

    /// The sum of what long collections keep for the walk: elements as they were, which have changed and are not shown yet.
    fn kept_bytes(&self) -> KeptBytes {
        KeptBytes::default()
    }
}

/// Receives the elements of a long collection as they were when the walk began. Dropped before its end, it receives no
/// more: the walk was abandoned.
pub trait PartSink: Send {
    /// No element has been given, and no shard is held: goes on with what the receiver puts in front of the elements, some
    /// hundred microseconds. Is called again, in later steps of the walk, until it gives false: nothing was left to do.
    fn begin(&mut self) -> bool {
        false
    }

    /// An element. The collection's shard is held.
    fn part(&mut self, part: ValuePart<'_>);

    /// Some elements have been given, and no shard is held.
    fn hold_ended(&mut self);

    /// All elements have been given, and no shard is held: goes on with what the receiver itself has of the value, some
    /// hundred microseconds. Is called again, in later steps of the walk, until it gives false.
    fn rest(&mut self) -> bool {
        false
    }

    /// All elements have been given, and nothing is left of the rest. No shard is held.
    fn end(self: Box<Self>);
}

/// A collection whose elements are on their way to a walker.
pub(crate) struct LongValue {
    pub(crate) reader: CollectionReader,
    pub(crate) sink: Box<dyn PartSink>,
    /// All that stands in front of the elements is done.
    pub(crate) has_begun: bool,
    pub(crate) scratch: CompressScratch,
}

/// A walk under way.
pub(crate) struct Walk {
    walker: Arc<dyn Walker>,
    /// Places before this one have been passed. It changes with the shard of the place locked, so that who holds a shard
    /// knows of each of its places on which side it is.
    cursor: AtomicU64,
    /// Collections that are to be shown over several holds, in the order in which they were met.
    long: RankedMutex<VecDeque<LongValue>>,
    /// The walker is shown nothing more: what is left of the walk takes the marks away.
    abandoned: AtomicBool,
}

impl Walk {
    /// A walk that begins.
    pub(crate) fn new(walker: Arc<dyn Walker>) -> Walk {
        let long = RankedMutex::new(Rank::Leaf, VecDeque::new());
        Walk { walker, cursor: AtomicU64::new(0), long, abandoned: AtomicBool::new(false) }
    }

    /// The place from which on nothing has been passed.
    pub(crate) fn cursor(&self) -> Place {
        Place(self.cursor.load(Relaxed))
    }

    /// Passes all places before this one, the last one's shard locked.
    pub(crate) fn pass(&self, to: Place) {
        debug_assert!(self.cursor() <= to, "a walk does not go back");
        self.cursor.store(to.0, Relaxed);
    }

    /// True if it is the walk of this walker.
    pub(crate) fn is_of(&self, walker: &dyn Walker) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.walker), walker)
    }

    /// Shows the walker nothing more.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Relaxed);
        self.drop_long();
    }

    /// The receiver of a long collection's elements, if the walker wants them.
    pub(crate) fn sink_of(&self, old: &Before<'_>) -> Option<Box<dyn PartSink>> {
        Arc::clone(&self.walker).before_long(old)
    }

    /// The sum of what long collections keep for it.
    pub(crate) fn kept_bytes(&self) -> KeptBytes {
        self.walker.kept_bytes()
    }

    /// Has a long collection shown behind those that wait.
    pub(crate) fn add_long(&self, long: LongValue) {
        self.long.lock().push_back(long);
    }

    /// The long collection that is to be shown next; the caller has the walk in hand, and puts it back unless all was shown.
    pub(crate) fn take_long(&self) -> Option<LongValue> {
        self.long.lock().pop_front()
    }

    /// Puts a long collection back, of which more is to be shown, unless the walk was abandoned.
    pub(crate) fn put_long(&self, long: LongValue) {
        self.long.lock().push_front(long);
        // Whoever has abandoned the walk meanwhile has not found it there.
        if self.abandoned.load(Relaxed) {
            self.drop_long();
        }
    }

    /// Number of long collections of which elements are being shown or wait to be.
    pub(crate) fn long_count(&self) -> usize {
        self.long.lock().iter().filter(|long| !long.reader.has_ended()).count()
    }

    /// Ends the readers of all long collections.
    pub(crate) fn drop_long(&self) {
        // Outside of the lock: a reader that ends takes another one.
        let dropped = std::mem::take(&mut *self.long.lock());
        drop(dropped);
    }

    /// The walker, unless the walk was abandoned.
    pub(crate) fn walker(&self) -> Option<&dyn Walker> {
        if self.abandoned.load(Relaxed) { None } else { Some(&*self.walker) }
    }

    /// True if the steps of the walk may go on: an abandoned walk shows nothing, and needs no room.
    pub(crate) fn may_go_on(&self) -> bool {
        self.walker().is_none_or(Walker::has_room)
    }

    /// Reports the end of the walk to the walker.
    pub(crate) fn report_end(&self) {
        debug_assert!(self.long.lock().is_empty(), "long collections are shown before the walk goes on");
        self.walker.ended();
    }
}

/// A shard's part in the walk that is under way.
pub(crate) struct Walking {
    walk: Arc<Walk>,
    /// The number of the shard.
    shard: usize,
}

impl Walking {
    /// The part of the shard with this number.
    pub(crate) fn new(walk: &Arc<Walk>, shard: usize) -> Walking {
        Walking { walk: Arc::clone(walk), shard }
    }

    /// True if the walk has not come to the place of this hash, which is one of the shard.
    pub(crate) fn is_ahead(&self, hash: u64) -> bool {
        Place::of(self.shard, hash) >= self.walk.cursor()
    }

    /// The walker, unless the walk was abandoned.
    pub(crate) fn walker(&self) -> Option<&dyn Walker> {
        self.walk.walker()
    }

    /// The walk.
    pub(crate) fn walk(&self) -> &Arc<Walk> {
        &self.walk
    }
}

/// A part of a value.
#[derive(Clone, Copy, Debug)]
pub enum ValuePart<'a> {
    /// A string.
    Whole(&'a [u8]),
    /// An element of a list, a member of a set.
    Element(&'a [u8]),
    /// A field of a hash, its value, and when it expires, in milliseconds of Unix time.
    Pair(&'a [u8], &'a [u8], Option<i64>),
    /// A member of a sorted set and its score.
    Scored(&'a [u8], f64),
    /// A node of a stream: some entries in order.
    Entries(StreamNode<'a>),
    /// The facts of a stream, behind its entries.
    Facts(StreamFacts),
    /// The groups of a stream that has any, behind its facts.
    Groups(&'a Groups),
}

impl StreamOutline {
    /// Shows the parts that go behind the entries.
    pub fn for_each(&self, mut show: impl FnMut(ValuePart<'_>)) {
        show(ValuePart::Facts(self.facts));
        if let Some(groups) = self.groups() {
            show(ValuePart::Groups(groups.all()));
        }
    }
}

/// An object as a walker is shown it.
pub struct Before<'a> {
    r: Ref,
    object: Object<'a>,
    collection: Option<&'a Collection>,
    ctx: ReadCtx<'a>,
    bytes: Option<ReaderBytes>,
    left: &'a Arc<LeftOutlines>,
}

impl std::fmt::Debug for Before<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Before").field("db", &self.db()).finish_non_exhaustive()
    }
}

impl<'a> Before<'a> {
    /// The object at `r`, with its elements if they are a big collection. What an outline of it leaves behind goes to `left`.
    pub(crate) fn new(
        r: Ref,
        collection: Option<&'a Collection>,
        ctx: ReadCtx<'a>,
        left: &'a Arc<LeftOutlines>,
    ) -> Before<'a> {
        Before { r, object: ctx.access.open(ctx.log, r), collection, ctx, bytes: None, left }
    }

    /// The object with an account for what is kept of it while it is shown.
    pub(crate) fn counted_in(self, bytes: &ReaderBytes) -> Before<'a> {
        Before { bytes: Some(bytes.clone()), ..self }
    }

    /// The physical number of the key's database.
    pub fn db(&self) -> u16 {
        database_of(&self.object)
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.object.key()
    }

    /// The type of its value.
    pub fn ty(&self) -> Type {
        Type::of_kind(self.object.kind())
    }

    /// The key's expiry in milliseconds of Unix time.
    pub fn expiry_ms(&self) -> Option<i64> {
        self.object.expiry_ms()
    }

    /// A time before which no field of the hash expires, in milliseconds of Unix time; `None` if none does.
    pub fn fields_due_ms(&self) -> Option<i64> {
        match self.collection {
            Some(collection) => collection.next_due_ms(),
            None => due_of(&self.object),
        }
    }

    /// How the key was used, as far as `uses` looks at that; `now_ms` is Unix time.
    pub fn last_use(&self, uses: UseMeter, now_ms: i64) -> Option<KeyUse> {
        uses.read(self.object.clock(), now_ms)
    }

    /// Number of elements of a collection, members or fields; 1 for a string.
    pub fn len(&self) -> u64 {
        match (self.collection, Small::of(&self.object)) {
            (Some(Collection::List(list)), _) => list.len(),
            (Some(Collection::Hash(table) | Collection::Set(table)), _) => table.len() as u64,
            (Some(Collection::Zset(set)), _) => set.len() as u64,
            (Some(Collection::Stream(stream)), _) => stream.len(),
            (None, Some(small)) => small.len() as u64,
            (None, None) => 1,
        }
    }

    /// A stream without its entries; `None` for other types.
    pub fn stream(&self) -> Option<StreamOutline> {
        let stream = match (self.collection, Small::of(&self.object)) {
            (Some(Collection::Stream(stream)), _) => StreamReader::Big(stream, self.ctx),
            (_, Some(Small::Stream(stream, _))) => StreamReader::Small(stream),
            _ => return None,
        };
        Some(StreamOutline::new(stream, self.bytes.clone(), self.left))
    }

    /// False: there is no key without a value.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// True if the elements are too many, or too large, to be shown in one hold of the shard.
    pub(crate) fn is_long(&self, bounds: ReadBounds) -> bool {
        let (len, bytes) = match self.collection {
            Some(Collection::List(list)) => (list.len(), list.object_bytes()),
            Some(Collection::Hash(table) | Collection::Set(table)) => (table.len() as u64, table.object_bytes()),
            Some(Collection::Zset(set)) => (set.len() as u64, set.object_bytes()),
            Some(Collection::Stream(stream)) => {
                (stream.len() + stream.parts_behind(WHOLE_ELEMENTS + 1), stream.object_bytes())
            }
            None => return false,
        };
        len > WHOLE_ELEMENTS.min(bounds.hold_elements as u64) || bytes > WHOLE_BYTES
    }

    /// Bytes of the value that are copied when it is shown, about.
    pub(crate) fn bytes_to_show(&self) -> usize {
        match self.collection {
            Some(Collection::List(list)) => list.object_bytes() as usize,
            Some(Collection::Hash(table) | Collection::Set(table)) => table.object_bytes() as usize,
            Some(Collection::Zset(set)) => set.object_bytes() as usize,
            Some(Collection::Stream(stream)) => stream.object_bytes() as usize,
            None => self.object.value().len(),
        }
    }

    /// The bytes of a large string, readable after the shard is let go until the pin is dropped. None for all other values.
    pub fn pin(&self) -> Option<Pin> {
        if self.may_be_pinned() { self.ctx.log.pin(self.ctx.access, self.r) } else { None }
    }

    /// True if the value is a string that is not copied when it is shown, since it has an extent.
    pub(crate) fn may_be_pinned(&self) -> bool {
        // Others may be as large in one object, and are shown part by part.
        self.ty() == Type::String && self.ctx.log.is_extent_size(self.object.bytes())
    }

    /// Shows the value: a string whole, a list and a stream from front to back, other collections in no order.
    pub fn for_each(&self, show: &mut dyn FnMut(ValuePart<'_>)) {
        match (self.collection, Small::of(&self.object)) {
            (Some(collection), _) => self.for_each_of(collection, show),
            (None, None) => show(ValuePart::Whole(self.object.value())),
            (None, Some(Small::Packed(node))) => {
                node.iter().for_each(|entry| show(ValuePart::Element(entry.text(&mut [0; 20]))));
            }
            (None, Some(Small::Stream(stream, _))) => for_each_part(StreamReader::Small(stream), show),
            (None, Some(Small::Scored(set))) => set.for_each(|member, score| show(ValuePart::Scored(member, score))),
            (None, Some(Small::Dated(leaf, _))) => {
                for (_, element) in leaf.iter() {
                    let (field, value) = pair::split(here(element));
                    let expiry_ms = pair::expiry_ms(here(element));
                    show(ValuePart::Pair(field.text(&mut [0; 20]), value.text(&mut [0; 20]), expiry_ms));
                }
            }
            (None, Some(Small::Leaf(leaf))) if self.ty().row().small == SmallForm::Fields => {
                for (field, value) in pairs_of(leaf) {
                    show(ValuePart::Pair(field.text(&mut [0; 20]), value.text(&mut [0; 20]), None));
                }
            }
            (None, Some(Small::Leaf(leaf))) => for_each_member(SmallSet::Texts(leaf), show),
            (None, Some(Small::Integers(integers))) => for_each_member(SmallSet::Integers(integers), show),
        }
    }

    fn for_each_of(&self, collection: &Collection, show: &mut dyn FnMut(ValuePart<'_>)) {
        let ctx = self.ctx;
        match collection {
            Collection::List(list) => {
                let mut reader = QuicklistReader { list, ctx, scratch: &mut CompressScratch::default() };
                reader.range(0, list.len(), End::Front, |entry| show(ValuePart::Element(entry.text(&mut [0; 20]))));
            }
            Collection::Hash(fields) => fields.for_each(ctx, |field, value, expiry_ms| {
                show(ValuePart::Pair(field.text(&mut [0; 20]), value.text(&mut [0; 20]), expiry_ms));
            }),
            Collection::Set(members) => members.for_each_member(ctx, |member| show(ValuePart::Element(member))),
            Collection::Zset(set) => {
                set.walk(ctx, 0, false, set.len() as u64, |member, score| show(ValuePart::Scored(member, score)));
            }
            Collection::Stream(stream) => {
                for_each_part(StreamReader::Big(stream, ctx), show);
            }
        }
    }
}

fn for_each_part(stream: StreamReader<'_>, show: &mut dyn FnMut(ValuePart<'_>)) {
    stream.for_each_node(|node| show(ValuePart::Entries(node)));
    show(ValuePart::Facts(stream.facts()));
    if let Some(groups) = stream.groups() {
        show(ValuePart::Groups(groups));
    }
}

fn for_each_member(set: SmallSet<'_>, show: &mut dyn FnMut(ValuePart<'_>)) {
    set.members().for_each(|member| show(ValuePart::Element(member.text(&mut [0; 20]))));
}
