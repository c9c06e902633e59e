//! Sets: what changes one, and the view through which one is read.
//!
//! ```text
//! SADD of integers --> Integers --a text, or more than set-max-intset-entries--> Big: an object for each member
//! ```
//! A set never goes back; one that is made by a STORE command starts anew. Members of a set of integers are shown as
//! numbers, in ascending order; those of a big one as texts, in no order.

use smallvec::SmallVec;
use varve_base::Ref;
use varve_base::number::parse_i64;
use varve_base::rng::Rng;
use varve_collection::field_table::FieldTable;
use varve_collection::{Collection, ReadCtx};
use varve_packed::intset;
use varve_packed::intset::{IntSet, IntSetMut, Width};
use varve_packed::node::PackedEntry;

use super::{Found, Tx};
use crate::keyspace::guards::ShardGuards;
use crate::keyspace::store::Store;
use crate::state::key::Key;
use crate::state::link::{Encoding, Link};
use crate::state::types::{Type, WrongType};

/// Below this many bytes a set of integers is not written anew only because it has become too large for what it holds.
const SHRINK_FROM: usize = 256;
/// Members that are looked at together.
const GROUP: usize = 16;

/// A set to read, its shard held.
#[derive(Clone, Copy)]
pub struct SetView<'a>(View<'a>);

#[derive(Clone, Copy)]
enum View<'a> {
    Integers(IntSet<'a>),
    Big { elements: &'a FieldTable, ctx: ReadCtx<'a> },
}

impl std::fmt::Debug for SetView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetView").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<'a> SetView<'a> {
    /// The set at a place.
    pub(super) fn open(held: &'a ShardGuards<'_>, store: &'a Store, p: Found) -> SetView<'a> {
        let shard = held.at(p.shard);
        let object = shard.open(store.log(), p.r);
        SetView(match Encoding::of(object.tag()) {
            Encoding::Big => {
                let elements = members_of(&shard.root(Link::read(object.value()).place).body);
                View::Big { elements, ctx: ReadCtx { log: store.log(), access: shard.access(), seed: store.seed() } }
            }
            _ => View::Integers(IntSet::open(object.value())),
        })
    }

    /// Number of members, never 0.
    #[allow(clippy::len_without_is_empty, reason = "an empty set is no key")]
    pub fn len(&self) -> usize {
        match self.0 {
            View::Integers(set) => set.len(),
            View::Big { elements, .. } => elements.len(),
        }
    }

    /// Bytes of its members and of what finds them.
    pub(super) fn bytes(&self) -> usize {
        match self.0 {
            View::Integers(set) => set.used(),
            View::Big { elements, .. } => elements.object_bytes() as usize + elements.table_bytes(),
        }
    }

    /// The integers, if it holds nothing else and is kept that way.
    pub(super) fn integers(&self) -> Option<IntSet<'a>> {
        match self.0 {
            View::Integers(set) => Some(set),
            View::Big { .. } => None,
        }
    }

    /// Whether it has this member.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        match self.0 {
            View::Integers(set) => parse_i64(member).is_some_and(|value| set.contains(value)),
            View::Big { elements, ctx } => elements.find(ctx, member).is_some(),
        }
    }

    /// As `contains`, for a member that another set shows.
    #[inline]
    pub fn has(&self, member: PackedEntry<'_>) -> bool {
        match (self.0, member) {
            (View::Integers(set), PackedEntry::Int(value)) => set.contains(value),
            _ => self.contains(member.text(&mut [0; 20])),
        }
    }

    /// Announces that the member will be looked for.
    #[inline]
    pub(super) fn prefetch(&self, member: PackedEntry<'_>) {
        if let View::Big { elements, ctx } = self.0 {
            elements.prefetch(ctx.seed, member.text(&mut [0; 20]));
        }
    }

    /// Shows every member.
    pub fn for_each(&self, mut show: impl FnMut(PackedEntry<'a>)) {
        match self.0 {
            View::Integers(set) => set.iter().for_each(|value| show(PackedEntry::Int(value))),
            View::Big { elements, ctx } => {
                elements.for_each_ref(ctx.log, |r| show(PackedEntry::Bytes(ctx.access.open(ctx.log, r).key())));
            }
        }
    }

    /// Shows members in small groups until `show` says that it is enough; their objects are fetched together.
    pub(super) fn groups(&self, show: &mut dyn FnMut(&[PackedEntry<'a>]) -> bool) {
        let mut group = SmallVec::<[PackedEntry<'a>; GROUP]>::new();
        match self.0 {
            View::Integers(set) => {
                let mut values = set.iter();
                while values.len() > 0 {
                    group.clear();
                    group.extend(values.by_ref().take(GROUP).map(PackedEntry::Int));
                    if show(&group) {
                        return;
                    }
                }
            }
            View::Big { elements, ctx } => elements.groups(ctx, GROUP, &mut |refs| {
                refs.iter().for_each(|&r| ctx.log.prefetch(r));
                group.clear();
                group.extend(refs.iter().map(|&r| PackedEntry::Bytes(ctx.access.open(ctx.log, r).key())));
                show(&group)
            }),
        }
    }

    /// Where in this set a member is, which no other member shares.
    pub(super) fn seat(&self, member: PackedEntry<'_>) -> Option<u64> {
        match (self.0, member) {
            (View::Integers(set), PackedEntry::Int(value)) => set.search(value).ok().map(|at| at as u64),
            (View::Integers(set), PackedEntry::Bytes(text)) => set.search(parse_i64(text)?).ok().map(|at| at as u64),
            (View::Big { elements, ctx }, _) => {
                elements.find(ctx, member.text(&mut [0; 20])).map(|found| found.r.bits())
            }
        }
    }

    /// Shows every member with where it is.
    pub(super) fn for_each_seat(&self, mut show: impl FnMut(u64, PackedEntry<'a>)) {
        match self.0 {
            View::Integers(set) => {
                set.iter().enumerate().for_each(|(at, value)| show(at as u64, PackedEntry::Int(value)))
            }
            View::Big { elements, ctx } => {
                elements
                    .for_each_ref(ctx.log, |r| show(r.bits(), PackedEntry::Bytes(ctx.access.open(ctx.log, r).key())));
            }
        }
    }

    /// SCAN's step: shows some members from `cursor` on, about `count`, and gives the next cursor, 0 at the end. A set of
    /// integers is shown whole.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(PackedEntry<'_>)) -> u64 {
        let View::Big { elements, ctx } = self.0 else {
            self.for_each(show);
            return 0;
        };
        elements.scan(ctx, cursor, count, &mut |member, _| show(PackedEntry::Bytes(member)))
    }

    /// Shows one member, each as likely as any other.
    pub(super) fn sample(&self, rng: &mut Rng, show: &mut dyn FnMut(PackedEntry<'_>)) {
        match self.0 {
            View::Integers(set) => show(PackedEntry::Int(set.get(rng.below(set.len() as u64) as usize))),
            View::Big { elements, ctx } => {
                let r = elements.sample(rng).expect("a set is never empty");
                show(PackedEntry::Bytes(ctx.access.open(ctx.log, r).key()));
            }
        }
    }
}

impl SetView<'_> {
    /// Shows `count` members of a big set at random, none twice, with their objects.
    pub(super) fn draw_refs(&self, rng: &mut Rng, count: usize, mut show: impl FnMut(Ref, PackedEntry<'_>)) {
        let View::Big { elements, ctx } = self.0 else { unreachable!("integers are no objects") };
        for r in elements.sample_distinct(rng, count) {
            show(r, PackedEntry::Bytes(ctx.access.open(ctx.log, r).key()));
        }
    }
}

impl Tx<'_> {
    /// The set at a key, to read; counts a hit or a miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub fn set_view(&mut self, k: &Key<'_>) -> Result<Option<SetView<'_>>, WrongType> {
        let found = self.typed_read(k, Type::Set)?;
        Ok(found.map(|p| SetView::open(&self.held, self.store, p)))
    }

    /// As [`Tx::set_view`] without a lookup counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub fn set_peek(&mut self, k: &Key<'_>) -> Result<Option<SetView<'_>>, WrongType> {
        let found = self.typed(k, Type::Set)?;
        Ok(found.map(|p| SetView::open(&self.held, self.store, p)))
    }

    /// Adds members, making the set if there is none; how many are new.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn set_add<'m>(
        &mut self,
        k: &Key<'_>,
        members: impl IntoIterator<Item = &'m [u8], IntoIter: Clone>,
    ) -> Result<usize, WrongType> {
        let mut members = members.into_iter();
        let found = match self.look(k, Type::Set)? {
            Some((p, Some(link))) => {
                let added = self.big_at(p, link, |body, hands| {
                    let elements = members_of_mut(body);
                    members.filter(|member| elements.add(hands, member)).count()
                });
                if added > 0 {
                    self.changed_at(k, p, added as u64);
                }
                return Ok(added);
            }
            found => found.map(|(p, _)| p),
        };
        let all = members.clone();
        let mut next = members.next();
        if next.is_none() {
            return Ok(0);
        }
        let mut p = match found {
            Some(p) => p,
            None => self.new_set(k, all),
        };
        let mut added = 0;
        while let Some(member) = next
            && self.encoding(p) == Some(Encoding::Integers)
        {
            match parse_i64(member) {
                Some(value) => {
                    added += usize::from(self.add_integer(k, &mut p, value));
                    next = members.next();
                }
                None => self.leave_integers(k, &mut p),
            }
        }
        if let Some(member) = next {
            added += self.big(p, |body, hands| {
                let elements = members_of_mut(body);
                std::iter::once(member).chain(members).filter(|member| elements.add(hands, member)).count()
            });
        }
        if added > 0 {
            self.changed(k, added as u64);
        }
        Ok(added)
    }

    /// An empty set of the encoding that its first member asks for, with room for all of them.
    fn new_set<'m>(&mut self, k: &Key<'_>, members: impl Iterator<Item = &'m [u8]>) -> Found {
        let integers_max = self.integers_max().max(1) as usize;
        let (mut count, mut width) = (0, Width::of(0));
        for value in members.take(integers_max).map_while(parse_i64) {
            count += 1;
            width = width.max(Width::of(value));
        }
        if count == 0 {
            return self.put_big(k, None, Type::Set, |hands| Collection::Set(FieldTable::members(hands.id, 1)));
        }
        let mut scratch = self.local.lend_scratch();
        scratch.clear();
        scratch.resize(intset::buffer_bytes(count, width), 0);
        IntSetMut::init(&mut scratch).expect("there is room for a head");
        let p = self.put_small(k, None, Type::Set, Encoding::Integers, &scratch);
        self.local.return_scratch(scratch);
        p
    }

    /// Adds an integer to a set of integers, which may become too long for that.
    fn add_integer(&mut self, k: &Key<'_>, p: &mut Found, value: i64) -> bool {
        if self.integers(*p).contains(value) {
            return false;
        }
        self.edit_integers(k, p, value, |set| set.insert(value)).expect("there is room for it");
        if self.integers(*p).len() as u64 > self.integers_max() {
            self.leave_integers(k, p);
        }
        true
    }

    /// Most integers in a set of integers.
    pub(super) fn integers_max(&self) -> u64 {
        self.store.shapes().set_entries()
    }

    /// Turns a set of integers into a big one.
    #[cold]
    fn leave_integers(&mut self, k: &Key<'_>, p: &mut Found) {
        self.make_big(k, p, |hands, old| {
            let old = IntSet::open(old);
            let mut elements = FieldTable::members(hands.id, old.len());
            for value in old.iter() {
                elements.add(hands, PackedEntry::Int(value).text(&mut [0; 20]));
            }
            Collection::Set(elements)
        });
    }

    /// Removes members; how many there were. An empty set is no key any more.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn set_remove<'m>(
        &mut self,
        k: &Key<'_>,
        members: impl IntoIterator<Item = &'m [u8]>,
    ) -> Result<usize, WrongType> {
        let Some(mut p) = self.typed(k, Type::Set)? else { return Ok(0) };
        let (removed, left) = if self.encoding(p) == Some(Encoding::Integers) {
            self.thin_integers(k, &mut p, |set| {
                let values = members.into_iter().filter_map(parse_i64);
                (values.filter(|&value| set.remove(value)).count(), set.set().len())
            })
        } else {
            self.big(p, |body, hands| {
                let elements = members_of_mut(body);
                let gone = members.into_iter().filter(|member| elements.remove(hands, member)).count();
                (gone, elements.len())
            })
        };
        self.after_removal(k, p, removed, left);
        Ok(removed)
    }

    /// Follows the removal of members: of the key too, if none is left.
    pub(super) fn after_removal(&mut self, k: &Key<'_>, mut p: Found, removed: usize, left: usize) {
        if left == 0 {
            if removed > 1 {
                self.changed(k, removed as u64 - 1);
            }
            return self.remove_at(k, self.before(p));
        }
        if removed > 0 {
            self.changed(k, removed as u64);
            self.trim_integers(k, &mut p);
        }
    }

    /// Writes a set of integers anew that leaves most of its room unused.
    fn trim_integers(&mut self, k: &Key<'_>, p: &mut Found) {
        let object = self.object_at(*p);
        if Encoding::of(object.tag()) != Encoding::Integers {
            return;
        }
        let (used, has) = (IntSet::open(object.value()).used(), object.value().len());
        if has > SHRINK_FROM && used * 4 < has {
            let mut scratch = self.local.lend_scratch();
            scratch.clear();
            scratch.resize(used + used / 4, 0);
            self.integers(*p).copy_into(&mut scratch).expect("the narrowest form is no longer");
            self.rewrite_small(k, p, Encoding::Integers, &scratch);
            self.local.return_scratch(scratch);
        }
    }

    /// Moves a member to another set, which is made if there is none; false, and nothing has changed, if it is not in
    /// the first.
    ///
    /// # Errors
    /// [`WrongType`] if the first key exists and one of the two holds another type.
    pub fn set_move(&mut self, from: &Key<'_>, to: &Key<'_>, member: &[u8]) -> Result<bool, WrongType> {
        let Some(p) = self.typed(from, Type::Set)? else { return Ok(false) };
        let there = SetView::open(&self.held, self.store, p).contains(member);
        self.typed(to, Type::Set)?;
        if !there || (from.db, from.bytes) == (to.db, to.bytes) {
            return Ok(there);
        }
        self.set_remove(from, [member])?;
        self.set_add(to, [member])?;
        Ok(true)
    }
}

/// The members of a big set.
#[inline]
pub(super) fn members_of(body: &Collection) -> &FieldTable {
    match body {
        Collection::Set(elements) => elements,
        _ => unreachable!("a set's root has a set's body"),
    }
}

/// As `members_of`, to change them.
#[inline]
pub(super) fn members_of_mut(body: &mut Collection) -> &mut FieldTable {
    match body {
        Collection::Set(elements) => elements,
        _ => unreachable!("a set's root has a set's body"),
    }
}
