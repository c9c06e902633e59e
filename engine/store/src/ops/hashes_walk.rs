//! Hashes: all fields, a scan's page of them, fields chosen at random.

use std::collections::HashSet;

use varve_base::rng::Rng;

use super::hashes::{each_pair, fields_of};
use super::{Found, Tx};
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::types::{Type, WrongType};

/// Distinct elements are drawn one by one up to one in so many of all; beyond, all are gone through.
const DRAW_UP_TO_ONE_IN: usize = 3;

/// How many elements to choose at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// So many, each any of all.
    Any(usize),
    /// So many different ones, or all if there are not so many.
    Distinct(usize),
}

impl Tx<'_> {
    /// Shows all fields and values. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_for_each(&mut self, k: &Key<'_>, show: impl FnMut(&[u8], &[u8])) -> Result<(), WrongType> {
        if let Some(p) = self.typed(k, Type::Hash)? {
            self.each_field(p, show);
        }
        Ok(())
    }

    fn each_field(&self, p: Found, show: impl FnMut(&[u8], &[u8])) {
        match self.encoding(p) {
            Some(Encoding::Big) => self.big_ref(p, |body, ctx| fields_of(body).for_each(ctx, show)),
            _ => each_pair(self.packed(p), show),
        }
    }

    /// SCAN's step: shows some fields from `cursor` on, about `count`, and gives the next cursor, 0 at the end. A packed
    /// hash is shown whole. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_scan(
        &mut self,
        k: &Key<'_>,
        cursor: u64,
        count: usize,
        mut show: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, WrongType> {
        let Some(p) = self.typed(k, Type::Hash)? else { return Ok(0) };
        if self.encoding(p) != Some(Encoding::Big) {
            each_pair(self.packed(p), show);
            return Ok(0);
        }
        Ok(self.big_ref(p, |body, ctx| fields_of(body).scan(ctx, cursor, count, &mut show)))
    }

    /// Shows fields chosen at random, with their values; none without the key. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn hash_pick(&mut self, k: &Key<'_>, pick: Pick, show: impl FnMut(&[u8], &[u8])) -> Result<(), WrongType> {
        let Some(p) = self.typed(k, Type::Hash)? else { return Ok(()) };
        let mut rng = self.local.coming_draws();
        match pick {
            Pick::Distinct(many) => self.pick_distinct(p, &mut rng, many, show),
            Pick::Any(many) => self.pick_any(p, &mut rng, many, show),
        }
        *self.local.rng() = rng;
        Ok(())
    }

    fn pick_any(&self, p: Found, rng: &mut Rng, many: usize, mut show: impl FnMut(&[u8], &[u8])) {
        if self.encoding(p) == Some(Encoding::Big) {
            self.big_ref(p, |body, ctx| {
                for _ in 0..many {
                    let r = fields_of(body).sample(rng).expect("a hash is not empty");
                    let object = ctx.access.open(ctx.log, r);
                    show(object.key(), object.value());
                }
            });
            return;
        }
        let node = self.packed(p);
        for _ in 0..many {
            let index = rng.below(node.len() as u64 / 2) as usize * 2;
            let field = node.nth(index).expect("it is below the number of entries");
            let value = node.next(field).expect("a value follows its field");
            show(node.get(field).text(&mut [0; 20]), node.get(value).text(&mut [0; 20]));
        }
    }

    fn pick_distinct(&self, p: Found, rng: &mut Rng, mut many: usize, mut show: impl FnMut(&[u8], &[u8])) {
        let mut left = self.hash_len_at(p);
        if self.encoding(p) == Some(Encoding::Big) && many <= left / DRAW_UP_TO_ONE_IN {
            let mut drawn = HashSet::with_capacity(many);
            self.big_ref(p, |body, ctx| {
                while drawn.len() < many {
                    let r = fields_of(body).sample(rng).expect("a hash is not empty");
                    if drawn.insert(r) {
                        let object = ctx.access.open(ctx.log, r);
                        show(object.key(), object.value());
                    }
                }
            });
            return;
        }
        // Each one in passing, with the chance that as many are found as are wanted.
        self.each_field(p, |field, value| {
            if many > 0 && rng.below(left as u64) < many as u64 {
                show(field, value);
                many -= 1;
            }
            left -= 1;
        });
    }
}
