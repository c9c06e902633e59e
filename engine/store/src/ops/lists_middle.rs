//! Lists between their ends: replacement, insertion, removal, trimming.
//!
//! A packed list is changed in place as long as it stays within the fill; else it becomes a chain first.

use varve_collection::list::{insert_entry, remove_matches};
use varve_packed::node::Coded;

use super::Tx;
use super::lists::{clip, position};
use crate::ListEnd;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::types::{Type, WrongType};

impl Tx<'_> {
    /// Puts another element in the place of the one at an index, counted from the end where negative: `None` without the
    /// key, false if there is no such element.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; so with all operations on lists.
    pub fn list_set(&mut self, k: &Key<'_>, index: i64, element: &[u8]) -> Result<Option<bool>, WrongType> {
        let Some(mut p) = self.typed(k, Type::List)? else { return Ok(None) };
        let Some(at) = position(index, self.list_len_at(p)) else { return Ok(Some(false)) };
        let entry = Coded::of(element);
        if self.encoding(p) == Some(Encoding::Packed) {
            let node = self.packed(p);
            let old = node.size(node.nth(at as usize).expect("an index below the length"));
            let fits = self.list_shape().takes(node.len() - 1, node.bytes() - old, entry.size());
            if fits {
                self.edit_packed(k, &mut p, entry.size().saturating_sub(old), |node| {
                    let place = node.node().nth(at as usize).expect("an index below the length");
                    node.replace(place, &entry).expect("room was made before");
                });
                self.changed(k, 1);
                return Ok(Some(true));
            }
            self.make_chain(k, &mut p);
        }
        self.with_chain(p, |chain, t| chain.set(t, at, &entry));
        self.changed(k, 1);
        Ok(Some(true))
    }

    /// Adds an element beside the first one equal to `pivot`; gives the new length, 0 if there is no such element, `None`
    /// without the key.
    pub fn list_insert(
        &mut self,
        k: &Key<'_>,
        pivot: &[u8],
        before: bool,
        element: &[u8],
    ) -> Result<Option<u64>, WrongType> {
        let Some(mut p) = self.typed(k, Type::List)? else { return Ok(None) };
        let (needle, entry) = (Coded::of(pivot), Coded::of(element));
        if self.encoding(p) == Some(Encoding::Packed) {
            let node = self.packed(p);
            let first = node.first().expect("no list is empty");
            let Some((_, at)) = node.find(&needle, first, 1) else { return Ok(Some(0)) };
            if self.list_shape().takes(node.len(), node.bytes(), entry.size()) {
                let at = if before { at } else { at + 1 };
                self.edit_packed(k, &mut p, entry.size(), |node| insert_entry(node, at, &entry));
                self.changed(k, 1);
                return Ok(Some(self.list_len_at(p)));
            }
            self.make_chain(k, &mut p);
        }
        let Some(found) = self.with_view(p, |mut view| view.find(&needle)) else { return Ok(Some(0)) };
        self.with_chain(p, |chain, t| chain.insert(t, found, before, &entry));
        self.changed(k, 1);
        Ok(Some(self.list_len_at(p)))
    }

    /// Removes up to `count` elements equal to this one, beginning at an end; gives how many.
    pub fn list_remove(&mut self, k: &Key<'_>, element: &[u8], count: u64, from: ListEnd) -> Result<u64, WrongType> {
        let Some(mut p) = self.typed(k, Type::List)? else { return Ok(0) };
        let (needle, before) = (Coded::of(element), self.list_len_at(p));
        let removed = match self.encoding(p) {
            Some(Encoding::Big) => self.with_chain(p, |chain, t| chain.remove(t, &needle, count, from)),
            _ => self.edit_packed(k, &mut p, 0, |node| {
                remove_matches(node, &needle, usize::try_from(count).unwrap_or(usize::MAX), from);
                before - node.node().len() as u64
            }),
        };
        if removed > 0 {
            self.settle_list(k, &mut p, removed);
        }
        Ok(removed)
    }

    /// Removes all elements but those from `start` to `stop`, both included, counted from the end where negative;
    /// gives their number.
    pub fn list_trim(&mut self, k: &Key<'_>, start: i64, stop: i64) -> Result<u64, WrongType> {
        let Some(mut p) = self.typed(k, Type::List)? else { return Ok(0) };
        let length = self.list_len_at(p);
        let (first, count) = clip(start, stop, length);
        let behind = length - first - count;
        if count == 0 {
            self.remove_at(k, self.before(p));
            self.changed(k, length - 1);
            return Ok(length);
        }
        match self.encoding(p) {
            _ if count == length => {}
            Some(Encoding::Big) => self.with_chain(p, |chain, t| {
                chain.cut(t, ListEnd::Front, first);
                chain.cut(t, ListEnd::Back, behind);
            }),
            _ => self.edit_packed(k, &mut p, 0, |node| {
                node.remove_indices((first + count) as usize, length as usize);
                node.remove_indices(0, first as usize);
            }),
        }
        self.settle_list(k, &mut p, length - count);
        Ok(length - count)
    }
}
