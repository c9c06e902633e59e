//! Lists between their ends: replacement, insertion, removal, trimming.
//!
//! A packed list is changed in place as long as it stays within the fill; else it becomes a quicklist first.

use varve_collection::list::{RemovalPart, RemovedPart, insert_entry, remove_matches};
use varve_packed::node::Coded;

use super::Tx;
use super::lists::{ListView, clip, position};
use super::lists_mut::ListViewMut;
use crate::ListEnd;
use crate::state::key::Key;
use crate::state::types::WrongType;

impl Tx<'_> {
    /// Puts another element in the place of the one at an index, counted from the end where negative: `None` without the
    /// key, false if there is no such element.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; so with all operations on lists.
    pub fn list_set(&mut self, k: &Key<'_>, index: i64, element: &[u8]) -> Result<Option<bool>, WrongType> {
        Ok(self.list_mut(k)?.map(|list| list.set(index, element)))
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
        Ok(self.list_mut(k)?.map(|list| list.insert(pivot, before, element)))
    }

    /// Removes up to `count` elements equal to this one, beginning at an end; gives how many.
    pub fn list_remove(&mut self, k: &Key<'_>, element: &[u8], count: u64, from: ListEnd) -> Result<u64, WrongType> {
        let all = RemovalPart { passed: 0, compare: u64::MAX };
        Ok(self.list_remove_some(k, element, (count, from), all)?.removed)
    }

    /// Removes elements like [`Tx::list_remove`], from a part of the list if it is a big one.
    pub fn list_remove_some(
        &mut self,
        k: &Key<'_>,
        element: &[u8],
        (count, from): (u64, ListEnd),
        part: RemovalPart,
    ) -> Result<RemovedPart, WrongType> {
        let list = self.list_mut(k)?;
        Ok(list.map_or(RemovedPart { removed: 0, passed: None }, |list| list.remove(element, (count, from), part)))
    }

    /// Adds an element beside the one at a position of a big list; gives the new length. `None`, and nothing is done, if the
    /// element there is not equal to `pivot`, or there is no such list any more.
    pub fn list_insert_beside(
        &mut self,
        k: &Key<'_>,
        (position, pivot): (u64, &[u8]),
        before: bool,
        element: &[u8],
    ) -> Result<Option<u64>, WrongType> {
        let Some(mut list) = self.list_mut(k)?.filter(|list| list.w.is_big()) else { return Ok(None) };
        let mut is_there = false;
        list.tx.read_list(list.w.opened(), |mut list| {
            if position < list.len() {
                list.get(position, |found| is_there = found.text(&mut [0; 20]) == pivot);
            }
        });
        if !is_there {
            return Ok(None);
        }
        list.change(|list, ctx| list.insert_beside(ctx, position, before, &Coded::of(element)));
        list.tx.wrote(list.k);
        Ok(Some(list.len()))
    }

    /// Removes all elements but those from `start` to `stop`, both included, counted from the end where negative;
    /// gives their number.
    pub fn list_trim(&mut self, k: &Key<'_>, start: i64, stop: i64) -> Result<u64, WrongType> {
        Ok(self.list_mut(k)?.map_or(0, |list| list.trim(start, stop)))
    }
}

impl ListViewMut<'_, '_> {
    fn set(mut self, index: i64, element: &[u8]) -> bool {
        let Some(at) = position(index, self.len()) else { return false };
        let entry = Coded::of(element);
        if !self.w.is_big() {
            let node = self.tx.packed(&self.w);
            let old = node.size(node.nth(at as usize).expect("an index below the length"));
            if self.tx.list_shape().takes(node.len() - 1, node.bytes() - old, entry.size()) {
                let more = entry.size().saturating_sub(old);
                self.tx.edit_packed(self.k, &mut self.w, more, |node| {
                    let pos = node.node().nth(at as usize).expect("an index below the length");
                    node.replace(pos, &entry).expect("room was made before");
                });
                self.tx.wrote(self.k);
                return true;
            }
            self.make_big();
        }
        self.change(|list, ctx| list.set(ctx, at, &entry));
        self.tx.wrote(self.k);
        true
    }

    fn insert(mut self, pivot: &[u8], before: bool, element: &[u8]) -> u64 {
        let (needle, entry) = (Coded::of(pivot), Coded::of(element));
        if !self.w.is_big() {
            let node = self.tx.packed(&self.w);
            let first = node.first().expect("no list is empty");
            let Some((_, at)) = node.find(&needle, first, 1) else { return 0 };
            if self.tx.list_shape().takes(node.len(), node.bytes(), entry.size()) {
                let at = if before { at } else { at + 1 };
                self.tx.edit_packed(self.k, &mut self.w, entry.size(), |node| insert_entry(node, at, &entry));
                self.tx.wrote(self.k);
                return self.len();
            }
            self.make_big();
        }
        let found = self.tx.read_list(self.w.opened(), |list| match list {
            ListView::Big(mut reader) => reader.find(&needle),
            ListView::Packed(_) => unreachable!("it is big by now"),
        });
        let Some(found) = found else { return 0 };
        self.change(|list, ctx| list.insert(ctx, found, before, &entry));
        self.tx.wrote(self.k);
        self.len()
    }

    fn remove(mut self, element: &[u8], (count, from): (u64, ListEnd), part: RemovalPart) -> RemovedPart {
        let (needle, before) = (Coded::of(element), self.len());
        let done = if self.w.is_big() {
            self.change(|list, ctx| list.remove_some(ctx, &needle, count, from, part))
        } else {
            let removed = self.tx.edit_packed(self.k, &mut self.w, 0, |node| {
                remove_matches(node, &needle, usize::try_from(count).unwrap_or(usize::MAX), from);
                before - node.node().len() as u64
            });
            RemovedPart { removed, passed: None }
        };
        if done.removed > 0 {
            self.after_removal(done.removed);
        }
        done
    }

    fn trim(mut self, start: i64, stop: i64) -> u64 {
        let length = self.len();
        let (first, count) = clip(start, stop, length);
        let behind = length - first - count;
        if count == 0 {
            self.remove_key();
            return length;
        }
        if count < length && self.w.is_big() {
            self.change(|list, ctx| {
                list.cut(ctx, ListEnd::Front, first);
                list.cut(ctx, ListEnd::Back, behind);
            });
        } else if count < length {
            self.tx.edit_packed(self.k, &mut self.w, 0, |node| {
                node.remove_indices((first + count) as usize, length as usize);
                node.remove_indices(0, first as usize);
            });
        }
        self.after_removal(length - count);
        length - count
    }
}
