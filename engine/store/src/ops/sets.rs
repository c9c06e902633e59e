//! Sets to read: a view that has resolved type and encoding.
//!
//! ```text
//! integers, at most set-max-intset-entries   Integers --a text, or more--> Leaf, or Big if that is too long
//! others, up to some KB                      Leaf     --more-------------> Big: packed leaves in order of hash
//! ```
//! Members of a set of integers are shown as numbers, in ascending order; those of a leaf as texts, in the order in
//! which they came; those of a big one in no order. What changes a set is in `sets_mut`, what is made of several in
//! `sets_algebra`.

use smallvec::SmallVec;
use varve_base::number::parse_i64;
use varve_base::rng::Rng;
use varve_collection::ReadCtx;
use varve_collection::leaf_table::LeafTable;
use varve_packed::intset::IntSet;
use varve_packed::leaf::{ElementPos, LeafElement, PackedLeaf};
use varve_packed::node::PackedEntry;

use super::Tx;
use super::draw::{Lot, Pick};
use super::opened::{Opened, big};
use crate::keyspace::guards::ShardGuards;
use crate::keyspace::store::Store;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::small::{SmallSet, here, leaf_tag, scan_leaf};
use crate::state::types::{Type, WrongType};

/// Members that are looked at together.
const GROUP: usize = 16;

/// A set to read, its shard held.
#[derive(Clone, Copy)]
pub struct SetView<'a>(SetForm<'a>);

#[derive(Clone, Copy)]
enum SetForm<'a> {
    Integers(IntSet<'a>),
    /// A small set that has other members too, and the seed of hashes.
    Leaf(PackedLeaf<'a>, u64),
    Big(&'a LeafTable, ReadCtx<'a>),
}

impl std::fmt::Debug for SetView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetView").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<'a> SetView<'a> {
    /// The set of a key that was opened.
    #[inline(always)]
    pub(super) fn open(held: &'a ShardGuards<'_>, store: &'a Store, opened: Opened) -> SetView<'a> {
        SetView(match opened.link {
            Some(link) => {
                let (collection, ctx) = big(held, store, opened.at, link);
                SetForm::Big(collection.set(), ctx)
            }
            None => {
                let object = held.at(opened.at.shard).open(store.log(), opened.at.r);
                match Encoding::of(object.tag()) {
                    Encoding::Outgrown => SetForm::Leaf(PackedLeaf::open(object.value()), store.seed()),
                    _ => SetForm::Integers(IntSet::open(object.value())),
                }
            }
        })
    }

    /// The members of a small set, or else where those of a big one lie.
    #[inline]
    fn form(&self) -> Result<SmallSet<'a>, (&'a LeafTable, ReadCtx<'a>)> {
        match self.0 {
            SetForm::Integers(set) => Ok(SmallSet::Integers(set)),
            SetForm::Leaf(leaf, _) => Ok(SmallSet::Texts(leaf)),
            SetForm::Big(members, ctx) => Err((members, ctx)),
        }
    }

    /// Number of members, never 0.
    #[allow(clippy::len_without_is_empty, reason = "an empty set is no key")]
    pub fn len(&self) -> usize {
        match self.0 {
            SetForm::Integers(set) => set.len(),
            SetForm::Leaf(leaf, _) => leaf.len(),
            SetForm::Big(members, _) => members.len(),
        }
    }

    /// Whether it may be so long that it is to be read over several holds ([`Tx::begin_reading`]).
    pub fn is_big(&self) -> bool {
        matches!(self.0, SetForm::Big(..))
    }

    /// Whether a reader is shown its members in the order of the hashes of their names.
    pub(super) fn is_by_name(&self) -> bool {
        if let SetForm::Big(members, _) = self.0 { members.is_by_name() } else { true }
    }

    /// Bytes of its members and of what finds them.
    pub(super) fn bytes(&self) -> usize {
        match self.0 {
            SetForm::Integers(set) => set.used(),
            SetForm::Leaf(leaf, _) => leaf.copied_bytes(),
            SetForm::Big(members, _) => members.object_bytes() as usize + members.table_bytes(),
        }
    }

    /// The integers, if it holds nothing else and is kept that way.
    pub(super) fn integers(&self) -> Option<IntSet<'a>> {
        match self.0 {
            SetForm::Integers(set) => Some(set),
            SetForm::Leaf(..) | SetForm::Big(..) => None,
        }
    }

    /// Whether it has this member.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        match self.0 {
            SetForm::Integers(set) => parse_i64(member).is_some_and(|value| set.contains(value)),
            SetForm::Leaf(leaf, seed) => find_member(leaf, seed, member).is_some(),
            SetForm::Big(members, ctx) => members.contains(ctx, member),
        }
    }

    /// Whether it has this member, which another set shows.
    #[inline]
    pub fn has(&self, member: PackedEntry<'_>) -> bool {
        match (self.0, member) {
            (SetForm::Integers(set), PackedEntry::Int(value)) => set.contains(value),
            _ => self.contains(member.text(&mut [0; 20])),
        }
    }

    /// Announces that the member will be looked for.
    #[inline]
    pub(super) fn prefetch(&self, member: PackedEntry<'_>) {
        if let SetForm::Big(members, ctx) = self.0 {
            members.prefetch(ctx.seed, member.text(&mut [0; 20]));
        }
    }

    /// Shows every member.
    pub fn for_each(&self, mut show: impl FnMut(PackedEntry<'a>)) {
        match self.form() {
            Ok(small) => small.members().for_each(show),
            Err((members, ctx)) => members.for_each_member(ctx, |member| show(PackedEntry::Bytes(member))),
        }
    }

    /// Shows members in groups of some dozens until `show` says that it is enough.
    pub(super) fn groups(&self, show: &mut dyn FnMut(&[PackedEntry<'a>]) -> bool) {
        let mut group = SmallVec::<[PackedEntry<'a>; GROUP]>::new();
        let mut show = |members: &mut dyn Iterator<Item = PackedEntry<'a>>| {
            group.clear();
            group.extend(members);
            group.is_empty() || show(&group)
        };
        match self.form() {
            Ok(small) => {
                let mut members = small.members();
                while !show(&mut members.by_ref().take(GROUP)) {}
            }
            Err((members, ctx)) => {
                members.groups(ctx, &mut |of_leaf| show(&mut of_leaf.map(PackedEntry::Bytes)));
            }
        }
    }

    /// The id of a member, which no other member of this set shares.
    pub(super) fn member_id(&self, member: PackedEntry<'_>) -> Option<u64> {
        match (self.0, member) {
            (SetForm::Integers(set), PackedEntry::Int(value)) => set.search(value).ok().map(|at| at as u64),
            (SetForm::Integers(set), PackedEntry::Bytes(text)) => set.search(parse_i64(text)?).ok().map(|at| at as u64),
            (SetForm::Leaf(leaf, seed), _) => {
                find_member(leaf, seed, member.text(&mut [0; 20])).map(|pos| pos.index() as u64)
            }
            (SetForm::Big(members, ctx), _) => members.number_of(ctx, member.text(&mut [0; 20])),
        }
    }

    /// Shows every member with its id.
    pub(super) fn for_each_id(&self, mut show: impl FnMut(u64, PackedEntry<'a>)) {
        match self.form() {
            Ok(small) => small.members().zip(0..).for_each(|(member, at)| show(at, member)),
            Err((members, ctx)) => members.for_each_number_and_name(ctx, show),
        }
    }

    /// SCAN's step: shows some members from `cursor` on, about `count`, and gives the next cursor, 0 at the end. A set of
    /// integers is shown whole.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(PackedEntry<'_>)) -> u64 {
        match self.0 {
            SetForm::Integers(_) => {
                self.for_each(show);
                0
            }
            SetForm::Leaf(leaf, seed) => {
                scan_leaf(leaf, (seed, cursor, count), PackedEntry::Bytes, |member| show(PackedEntry::Bytes(member)))
            }
            SetForm::Big(members, ctx) => members.scan(ctx, cursor, count, &mut |member, _| show(member)),
        }
    }

    pub(super) fn lot(&self) -> Lot<'a> {
        match self.0 {
            SetForm::Integers(_) | SetForm::Leaf(..) => Lot::Numbers(self.len()),
            SetForm::Big(members, ctx) => Lot::Leaves(members, ctx),
        }
    }

    /// The member with an id: the number of an integer, or that of an element of a leaf table.
    pub(super) fn member(&self, id: u64) -> PackedEntry<'a> {
        match self.0 {
            SetForm::Integers(set) => PackedEntry::Int(set.get(id as usize)),
            SetForm::Leaf(leaf, _) => PackedEntry::Bytes(here(leaf.nth(id as usize))),
            SetForm::Big(members, ctx) => members.element(ctx, id).0,
        }
    }

    /// The ids of `count` members at random, none twice.
    pub(super) fn draw(&self, rng: &mut Rng, count: usize) -> Vec<u64> {
        self.lot().distinct(rng, count)
    }

    /// Shows members at random.
    pub fn pick(&self, rng: &mut Rng, pick: Pick, mut show: impl FnMut(PackedEntry<'_>)) {
        match pick {
            Pick::Distinct(count) if count >= self.len() => self.for_each(show),
            _ => self.lot().pick(rng, pick, |id| show(self.member(id))),
        }
    }
}

/// The position of a member in the leaf of a small set.
#[inline]
pub(super) fn find_member(leaf: PackedLeaf<'_>, seed: u64, member: &[u8]) -> Option<ElementPos> {
    leaf.find(leaf_tag(seed, member), |element| element == LeafElement::Here(member))
}

impl Tx<'_> {
    /// The set at a key, to read; counts a hit or a miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub fn set_view(&mut self, k: &Key<'_>) -> Result<Option<SetView<'_>>, WrongType> {
        let found = self.open_read(k, Type::Set)?;
        Ok(found.map(|opened| SetView::open(&self.held, self.store, opened)))
    }

    /// [`Tx::set_view`], with random numbers to draw by.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub fn set_view_and_rng(&mut self, k: &Key<'_>) -> Result<(Option<SetView<'_>>, &mut Rng), WrongType> {
        let found = self.open_read(k, Type::Set)?;
        Ok((found.map(|opened| SetView::open(&self.held, self.store, opened)), self.local.rng()))
    }

    /// The set at a key, to read; no hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub fn set_peek(&mut self, k: &Key<'_>) -> Result<Option<SetView<'_>>, WrongType> {
        let found = self.open(k, Type::Set)?;
        Ok(found.map(|opened| SetView::open(&self.held, self.store, opened)))
    }
}
