//! Sets: members at random, shown or taken out.
//!
//! Every member is as likely as any other, and so is every selection and every order of it. Distinct members are drawn
//! one by one while they are few beside all; else all are gone through. What is remembered of each is its place, 8 bytes.

use std::collections::HashSet;

use varve_base::rng::Rng;
use varve_collection::field_table::shuffle_front;
use varve_packed::intset::{IntSetMut, Width, buffer_bytes};
use varve_packed::node::PackedEntry;

use super::hashes_walk::Pick;
use super::sets::{SetView, members_of_mut};
use super::{Found, Tx};
use crate::state::key::Key;
use crate::state::link::{Encoding, Link};
use crate::state::types::{Type, WrongType};

/// From this many integers on that are taken out of one set at once it is written anew: each by itself moves all behind.
const REWRITE_FROM: usize = 8;

impl SetView<'_> {
    /// Shows members at random.
    pub fn pick(&self, rng: &mut Rng, pick: Pick, mut show: impl FnMut(PackedEntry<'_>)) {
        match (pick, self.integers()) {
            (Pick::Any(count), _) => (0..count).for_each(|_| self.sample(rng, &mut show)),
            (Pick::Distinct(count), _) if count >= self.len() => self.for_each(show),
            (Pick::Distinct(count), Some(set)) => {
                indices(rng, set.len(), count).into_iter().for_each(|at| show(PackedEntry::Int(set.get(at))));
            }
            (Pick::Distinct(count), None) => self.draw_refs(rng, count, |_, member| show(member)),
        }
    }
}

impl Tx<'_> {
    /// As [`Tx::set_view`], with random numbers to draw by.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub fn set_view_and_rng(&mut self, k: &Key<'_>) -> Result<(Option<SetView<'_>>, &mut Rng), WrongType> {
        let found = self.typed_read(k, Type::Set)?;
        Ok((found.map(|p| SetView::open(&self.held, self.store, p)), self.local.rng()))
    }

    /// Takes up to `count` members out at random, showing each; how many. A set of which none is left is no key any more.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn set_pop(
        &mut self,
        k: &Key<'_>,
        count: u64,
        mut show: impl FnMut(PackedEntry<'_>),
    ) -> Result<usize, WrongType> {
        let Some((mut p, link)) = self.look(k, Type::Set)? else { return Ok(0) };
        if count == 1 {
            let left = match link {
                Some(link) => self.pop_member(p, link, &mut show),
                None => self.pop_integer(k, &mut p, &mut show),
            };
            if left > 0 && link.is_some() {
                self.changed_at(k, p, 1);
                return Ok(1);
            }
            self.after_removal(k, p, 1, left);
            return Ok(1);
        }
        let all = SetView::open(&self.held, self.store, p).len();
        let count = usize::try_from(count).unwrap_or(all).min(all);
        if count == all {
            SetView::open(&self.held, self.store, p).for_each(show);
        } else if count == 0 {
            return Ok(0);
        } else if self.encoding(p) == Some(Encoding::Integers) {
            self.pop_integers(k, &mut p, count, &mut show);
        } else {
            self.pop_members(p, count, &mut show);
        }
        self.after_removal(k, p, count, all - count);
        Ok(count)
    }

    /// Takes one member out of a set of integers, unless it is the last: that one goes with the key. How many are left.
    fn pop_integer(&mut self, k: &Key<'_>, p: &mut Found, show: &mut impl FnMut(PackedEntry<'_>)) -> usize {
        let set = self.integers(*p);
        let len = set.len();
        if len == 1 {
            show(PackedEntry::Int(set.get(0)));
            return 0;
        }
        let at = self.local.rng().below(len as u64) as usize;
        show(PackedEntry::Int(self.thin_integers(k, p, |set| set.remove_at(at))));
        len - 1
    }

    /// The same with a big set. The member follows from one random number, so that it can be told ahead.
    fn pop_member(&mut self, p: Found, link: Link, show: &mut impl FnMut(PackedEntry<'_>)) -> usize {
        let number = self.local.rng().next_u64();
        self.big_at(p, link, |body, hands| {
            members_of_mut(body).take_drawn(hands, number, |member| show(PackedEntry::Bytes(member)))
        })
    }

    fn pop_integers(&mut self, k: &Key<'_>, p: &mut Found, count: usize, show: &mut dyn FnMut(PackedEntry<'_>)) {
        if count < REWRITE_FROM {
            for _ in 0..count {
                let len = self.integers(*p).len();
                let at = self.local.rng().below(len as u64) as usize;
                show(PackedEntry::Int(self.thin_integers(k, p, |set| set.remove_at(at))));
            }
            return;
        }
        let all = self.integers(*p).len();
        let mut chosen = indices(self.local.rng(), all, count);
        let set = self.integers(*p);
        chosen.iter().for_each(|&at| show(PackedEntry::Int(set.get(at))));
        chosen.sort_unstable();
        let mut scratch = vec![0; buffer_bytes(all - count, Width::Eight)];
        let mut left = IntSetMut::init(&mut scratch).expect("there is room for a head");
        let mut chosen = chosen.into_iter().peekable();
        for (at, value) in set.iter().enumerate() {
            if chosen.next_if_eq(&at).is_none() {
                left.insert(value).expect("there is room for what is left");
            }
        }
        let bytes = left.set().copied_bytes();
        let mut value = vec![0; bytes];
        left.set().copy_into(&mut value).expect("it has the bytes that the set asked for");
        self.rewrite_small(k, p, Encoding::Integers, &value);
    }

    fn pop_members(&mut self, p: Found, count: usize, show: &mut dyn FnMut(PackedEntry<'_>)) {
        let mut chosen = Vec::with_capacity(count);
        SetView::open(&self.held, self.store, p).draw_refs(self.local.rng(), count, |r, member| {
            show(member);
            chosen.push(r);
        });
        self.big(p, |body, hands| {
            let elements = members_of_mut(body);
            chosen.into_iter().for_each(|r| elements.remove_ref(hands, r));
        });
    }
}

/// `count` different numbers below `all`, in random order.
fn indices(rng: &mut Rng, all: usize, count: usize) -> Vec<usize> {
    if count * 3 > all {
        let mut numbers: Vec<usize> = (0..all).collect();
        shuffle_front(rng, &mut numbers, count);
        numbers.truncate(count);
        return numbers;
    }
    let (mut numbers, mut drawn) = (Vec::with_capacity(count), HashSet::with_capacity(count));
    while numbers.len() < count {
        let at = rng.below(all as u64) as usize;
        if drawn.insert(at) {
            numbers.push(at);
        }
    }
    numbers
}
