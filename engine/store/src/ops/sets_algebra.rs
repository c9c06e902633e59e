//! Intersections, unions and differences of sets: shown, or stored under a key.
//!
//! ```text
//! intersection   the smallest set's members, those that all others have, the next smallest asked first
//! union          integers alone: merged by sorting; few sets: each one's members that no set before it has;
//!                many: all members through one table of those that were shown
//! difference     one: the first set's members that no other has, the largest asked first
//!                two: the others' members that the first has are excluded, then the first set's that are not
//! ```
//! A difference goes way one unless that asks more than twice as often as there are members in all, as the peer
//! decides it; what is stored has the encoding that the peer's result has. What is built to be stored is written
//! beside the sets that it is made of, and put in its key's place at the end, so that the key may be one of them.

use std::collections::HashSet;

use smallvec::SmallVec;
use varve_base::number::parse_i64;
use varve_collection::leaf_table::LeafTable;
use varve_collection::{Collection, CollectionId, WriteCtx};
use varve_packed::intset::{IntSet, IntSetMut};
use varve_packed::leaf::PackedLeaf;
use varve_packed::node::PackedEntry;
use varve_segment::{Access, Appender};

use super::Tx;
use super::opened::Opened;
use super::set_leaf::LeafBuild;
use super::sets::SetView;
use crate::keyspace::guards::ShardGuards;
use crate::keyspace::store::Store;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::small::SmallSet;
use crate::state::types::{Type, WrongType};

/// Unions of at most this number of sets look members up in the sets before; unions of more sets remember the members
/// that were shown.
const PROBED_SETS_MAX: usize = 4;
/// Bytes that an integer may need as a member of a big set.
const INTEGER_AS_MEMBER_BYTES: usize = 40;

type OpenedSets = SmallVec<[Option<Opened>; 8]>;

/// The operations on several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    /// Members of all.
    Intersection,
    /// Members of any.
    Union,
    /// Members of the first and of no other.
    Difference,
}

/// Sets up to this number are all combined, though one of them be named several times.
const FEW: usize = 8;

/// Sets to be combined, in the order of the request; `None` for a key that is not there.
#[derive(Debug)]
pub struct SetViews<'a> {
    all: SmallVec<[Option<SetView<'a>>; 8]>,
    /// Places of sets that need not be looked at ([`named_again`]).
    repeated: HashSet<usize>,
}

/// Places of sets that were named before. The first set's name does not count: a difference takes it away from itself. A key
/// that a client names ten thousand times would be asked as often for each member.
pub(super) fn named_again(sets: &[Option<Opened>]) -> HashSet<usize> {
    if sets.len() <= FEW {
        return HashSet::new();
    }
    let mut named = HashSet::new();
    (1..sets.len()).filter(|&at| !named.insert(sets[at].map(|set| set.at.r))).collect()
}

impl<'a> SetViews<'a> {
    fn open(held: &'a ShardGuards<'_>, store: &'a Store, sets: &[Option<Opened>]) -> SetViews<'a> {
        let all = sets.iter().map(|set| set.map(|set| SetView::open(held, store, set))).collect();
        SetViews { all, repeated: named_again(sets) }
    }

    /// Shows the members of the result, none twice; of an intersection until `show` says that it is enough.
    pub fn show(&self, op: SetOp, mut show: impl FnMut(PackedEntry<'a>) -> bool) {
        match op {
            SetOp::Intersection => self.intersection(&mut show),
            SetOp::Union => self.union(&mut |member| {
                show(member);
            }),
            SetOp::Difference => self.difference(&mut |member| {
                show(member);
            }),
        }
    }

    /// Those that are there, from one of them on.
    fn present(&self, from: usize) -> SmallVec<[SetView<'a>; 8]> {
        let places = (from..self.all.len()).filter(|at| !self.repeated.contains(at));
        places.filter_map(|at| self.all[at]).collect()
    }

    fn intersection(&self, show: &mut dyn FnMut(PackedEntry<'a>) -> bool) {
        if self.all.iter().any(Option::is_none) {
            return;
        }
        let mut sets = self.present(0);
        sets.sort_by_key(SetView::len);
        let Some((smallest, others)) = sets.split_first() else { return };
        smallest.groups(&mut |group| {
            if let Some(next) = others.first() {
                group.iter().for_each(|&member| next.prefetch(member));
            }
            group.iter().any(|&member| others.iter().all(|set| set.has(member)) && show(member))
        });
    }

    fn union(&self, show: &mut dyn FnMut(PackedEntry<'a>)) {
        let mut sets = self.present(0);
        let integers: Option<SmallVec<[IntSet<'a>; 8]>> = sets.iter().map(SetView::integers).collect();
        if let Some(sets) = integers {
            let mut all: Vec<i64> = sets.iter().flat_map(IntSet::iter).collect();
            all.sort_unstable();
            all.dedup();
            all.into_iter().for_each(|value| show(PackedEntry::Int(value)));
        } else if sets.len() <= PROBED_SETS_MAX {
            sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
            for (n, set) in sets.iter().enumerate() {
                set.without(&sets[..n], show);
            }
        } else {
            union_of_many(&sets, show);
        }
    }

    fn difference(&self, show: &mut dyn FnMut(PackedEntry<'a>)) {
        let Some(first) = self.all.first().copied().flatten() else { return };
        let mut others = self.present(1);
        if !self.uses_exclusion_set() {
            others.sort_by_key(|set| std::cmp::Reverse(set.len()));
            return first.without(&others, show);
        }
        let mut excluded = HashSet::new();
        for set in others {
            set.for_each(|member| excluded.extend(first.member_id(member)));
            if excluded.len() == first.len() {
                return;
            }
        }
        first.for_each_id(|id, member| {
            if !excluded.contains(&id) {
                show(member);
            }
        });
    }

    /// Whether a difference goes way two.
    fn uses_exclusion_set(&self) -> bool {
        let first = self.all.first().copied().flatten().map_or(0, |set| set.len());
        let (one, two) = self.all.iter().flatten().fold((0, 0), |(one, two), set| (one + first, two + set.len()));
        one / 2 > two
    }

    /// Whether the peer makes a hash table of the result of a difference even if integers are left: going way two, it
    /// begins with all members of the first set.
    fn leaves_hash_table(&self, integers_max: u64) -> bool {
        let Some(first) = self.all.first().copied().flatten().filter(|_| self.uses_exclusion_set()) else {
            return false;
        };
        let mut text = false;
        first.groups(&mut |group| {
            text = group.iter().any(|&member| integer(member).is_none());
            text
        });
        text || first.len() as u64 > integers_max
    }

    /// Bounds on the members of the result and on their bytes.
    fn bounds(&self, op: SetOp) -> (usize, usize) {
        let sets = self.present(0);
        let mut sizes = sets.iter().map(|set| match set.integers() {
            Some(set) => (set.len(), set.len() * INTEGER_AS_MEMBER_BYTES),
            None => (set.len(), set.bytes()),
        });
        match op {
            SetOp::Intersection => sizes.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))).unwrap_or_default(),
            SetOp::Union => sizes.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
            SetOp::Difference => sizes.next().unwrap_or_default(),
        }
    }
}

impl<'a> SetView<'a> {
    /// Shows the members that none of the others has.
    fn without(&self, others: &[SetView<'a>], show: &mut dyn FnMut(PackedEntry<'a>)) {
        self.groups(&mut |group| {
            if let Some(first) = others.first() {
                group.iter().for_each(|&member| first.prefetch(member));
            }
            let new = group.iter().filter(|&&member| !others.iter().any(|set| set.has(member)));
            new.for_each(|&member| show(member));
            false
        });
    }
}

fn union_of_many<'a>(sets: &[SetView<'a>], show: &mut dyn FnMut(PackedEntry<'a>)) {
    let (mut integers, mut texts) = (HashSet::new(), HashSet::new());
    for set in sets {
        set.for_each(|member| {
            let new = match (integer(member), member) {
                (None, PackedEntry::Bytes(text)) => texts.insert(text),
                (value, _) => integers.insert(value),
            };
            if new {
                show(member);
            }
        });
    }
}

/// A member as the number that it may be.
fn integer(member: PackedEntry<'_>) -> Option<i64> {
    match member {
        PackedEntry::Int(value) => Some(value),
        PackedEntry::Bytes(text) => parse_i64(text),
    }
}

impl Tx<'_> {
    /// The sets at these keys, to combine them; counts hits and misses.
    ///
    /// # Errors
    /// [`WrongType`] if one of them holds another type.
    pub fn set_views(&mut self, keys: &[Key<'_>]) -> Result<SetViews<'_>, WrongType> {
        let sets: OpenedSets = keys.iter().map(|k| self.open_read(k, Type::Set)).collect::<Result<_, _>>()?;
        Ok(self.views_at(&sets))
    }

    fn views_at(&self, sets: &[Option<Opened>]) -> SetViews<'_> {
        SetViews::open(&self.held, self.store, sets)
    }

    /// A bound on the bytes that storing the result needs, for [`Tx::admit_more`]. Counts hits and misses.
    ///
    /// # Errors
    /// [`WrongType`] if one of the keys holds another type.
    pub fn set_op_bytes(&mut self, op: SetOp, keys: &[Key<'_>]) -> Result<u64, WrongType> {
        Ok(self.set_views(keys)?.bounds(op).1 as u64)
    }

    /// Makes a key of what the operation gives, in the place of whatever it held, or removes it if that is nothing; how
    /// many members there are. The sets may be this key's own. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if one of the sets' keys holds another type.
    pub fn set_store(&mut self, op: SetOp, to: &Key<'_>, keys: &[Key<'_>]) -> Result<usize, WrongType> {
        let sets: OpenedSets = keys.iter().map(|k| self.open(k, Type::Set)).collect::<Result<_, _>>()?;
        let built = self.built(op, to, &sets);
        self.put_result(to, built)
    }

    /// Whether the result of an operation is a hash table even if integers are left ([`Tx::set_store_members`]). No hit or
    /// miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if one of the sets' keys holds another type.
    pub fn set_op_leaves_hash_table(&mut self, op: SetOp, keys: &[Key<'_>]) -> Result<bool, WrongType> {
        let sets: OpenedSets = keys.iter().map(|k| self.open(k, Type::Set)).collect::<Result<_, _>>()?;
        Ok(op == SetOp::Difference && self.views_at(&sets).leaves_hash_table(self.integers_max()))
    }

    /// Makes a key of these members, each named once, in the place of whatever it held, or removes it if there are none; a
    /// `hashed` set is no set of integers.
    pub fn set_store_members<'m>(&mut self, to: &Key<'_>, members: impl Iterator<Item = &'m [u8]>, hashed: bool) {
        let (integers_max, shard) = (self.integers_max(), self.store.shard_of(to.hash));
        let mut result = Build::new((self.store, shard), self.local.appender(), integers_max);
        result.hashed = hashed;
        members.for_each(|member| result.add(PackedEntry::Bytes(member)));
        let built = result.finish();
        self.put_result(to, built).expect("any type is replaced");
    }

    fn built(&mut self, op: SetOp, to: &Key<'_>, sets: &[Option<Opened>]) -> Built {
        let (store, integers_max) = (self.store, self.integers_max());
        let held = &self.held;
        let sets = SetViews::open(held, store, sets);
        let id = store.shard_of(to.hash);
        let mut result = Build::new((store, id), self.local.appender(), integers_max);
        (result.bounds, result.is_union) = (sets.bounds(op), op == SetOp::Union);
        result.hashed = op == SetOp::Difference && sets.leaves_hash_table(integers_max);
        sets.show(op, |member| {
            result.add(member);
            false
        });
        result.finish()
    }

    fn put_result(&mut self, to: &Key<'_>, built: Built) -> Result<usize, WrongType> {
        let old = self.live(to);
        let len = match &built {
            Built::Big(_, elements) => elements.len(),
            Built::Leaf(leaf) => PackedLeaf::open(leaf).len(),
            Built::Integers(integers) => IntSet::open(integers).len(),
        };
        match (built, old) {
            (_, Some(p)) if len == 0 => {
                let p = self.before(p);
                self.remove_at(to, p);
                return Ok(0);
            }
            (_, None) if len == 0 => return Ok(0),
            (Built::Big(id, elements), _) => {
                self.put_built(to, old, Type::Set, id, Collection::Set(elements));
            }
            (Built::Leaf(leaf), _) => {
                self.put_small(to, old, Type::Set, Encoding::Outgrown, &leaf);
            }
            (Built::Integers(integers), _) => {
                self.put_small(to, old, Type::Set, Encoding::Small, &integers);
            }
        }
        self.wrote(to);
        Ok(len)
    }
}

/// A result that has one in this number of the members that it may have is expected to get all of them.
const EXPECTS_FROM: usize = 8;

/// The result of an operation, to be put under its key.
enum Built {
    Integers(Vec<u8>),
    Leaf(Vec<u8>),
    Big(CollectionId, LeafTable),
}

/// A set in the making, which nothing leads to yet.
struct Build<'b> {
    store: &'b Store,
    /// The shard of its key.
    shard: usize,
    /// Opens the new objects: nothing leads to them yet, so nobody else does.
    access: Access,
    appender: &'b mut Appender,
    integers_max: u64,
    /// Bounds on its members and on their bytes. A union comes near them; another result is expected to once it has
    /// 1/8 of the members.
    bounds: (usize, usize),
    is_union: bool,
    /// It becomes a big one in the end, whatever it holds.
    hashed: bool,
    integers: Vec<u8>,
    /// Its members, once not all of them are integers, until it is big.
    leaf: Option<LeafBuild>,
    /// Its collection id and members, once it is big.
    big: Option<(CollectionId, LeafTable)>,
}

impl<'b> Build<'b> {
    fn new((store, shard): (&'b Store, usize), appender: &'b mut Appender, integers_max: u64) -> Build<'b> {
        let mut integers = vec![0; 64];
        IntSetMut::init(&mut integers).expect("there is room for a head");
        let access = store.log().access();
        Build {
            store,
            shard,
            access,
            appender,
            integers_max,
            bounds: (0, 0),
            is_union: false,
            hashed: false,
            integers,
            leaf: None,
            big: None,
        }
    }

    /// Adds a member, which may be there already.
    fn add(&mut self, member: PackedEntry<'_>) {
        match integer(member) {
            Some(value) if self.big.is_none() && self.leaf.is_none() => {
                self.add_integer(value);
                if IntSet::open(&self.integers).len() as u64 > self.integers_max {
                    self.leave_integers();
                }
            }
            _ => {
                self.leave_integers();
                self.add_member(member);
            }
        }
    }

    fn add_integer(&mut self, value: i64) {
        while let Err(full) = IntSetMut::open(&mut self.integers).insert(value) {
            self.integers.resize(full.needed * 2, 0);
        }
    }

    fn leave_integers(&mut self) {
        if self.big.is_some() || self.leaf.is_some() {
            return;
        }
        let integers = std::mem::take(&mut self.integers);
        self.leaf = Some(LeafBuild::new(self.store));
        SmallSet::Integers(IntSet::open(&integers)).members().for_each(|member| self.add_member(member));
    }

    /// Adds a member to the leaf, or to the big set that it becomes.
    fn add_member(&mut self, member: PackedEntry<'_>) {
        if let Some(leaf) = &mut self.leaf {
            if leaf.add(member.text(&mut [0; 20])) {
                return;
            }
            let id = self.store.ground().take_number(self.shard);
            self.big = Some((id, LeafTable::members()));
            let leaf = self.leaf.take().expect("a leaf");
            SmallSet::Texts(leaf.leaf()).members().for_each(|member| self.add_to_big(member));
        }
        self.add_to_big(member);
    }

    fn add_to_big(&mut self, member: PackedEntry<'_>) {
        let (id, elements) = self.big.as_mut().expect("it is big");
        let (log, seed) = (self.store.log(), self.store.seed());
        let mut ctx = WriteCtx { log, access: &mut self.access, appender: self.appender, seed, id: *id };
        if elements.len() == if self.is_union { 0 } else { self.bounds.0 / EXPECTS_FROM } {
            elements.expect(self.bounds.0 - elements.len(), self.bounds.1);
        }
        elements.add(&mut ctx, member.text(&mut [0; 20]));
    }

    /// The value of a small set in its shortest form, or the parts of a big one.
    fn finish(mut self) -> Built {
        let is_integers = self.big.is_none() && self.leaf.is_none();
        if self.hashed && is_integers && !IntSet::open(&self.integers).is_empty() {
            self.leave_integers();
        }
        if let Some((id, mut elements)) = self.big {
            let (log, seed) = (self.store.log(), self.store.seed());
            elements.settle(&mut WriteCtx { log, access: &mut self.access, appender: self.appender, seed, id });
            return Built::Big(id, elements);
        }
        if let Some(leaf) = self.leaf {
            return Built::Leaf(leaf.finish());
        }
        let set = IntSet::open(&self.integers);
        let mut shortest = vec![0; set.copied_bytes()];
        set.copy_into(&mut shortest).expect("it has the bytes that the set asked for");
        Built::Integers(shortest)
    }
}
