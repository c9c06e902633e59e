//! A vector that never moves much: what grows with a collection of millions must not be copied at once.
//!
//! ```text
//! first chunk  [ . . . . | room ]       grows by an eighth at a time, up to 2^SHIFT items
//! others       [ . . . . . . . . ]      2^SHIFT items at once
//! ```
//! Items go from the end, and chunks with them; the first chunk gives room back when more than half of it is not used. Not
//! here: which items are in use.

use std::ops::{Index, IndexMut};

use smallvec::SmallVec;

/// Items in chunks of `2^SHIFT`, which is to come to some tens of kilobytes.
#[derive(Clone, Debug)]
pub(crate) struct Arena<T, const SHIFT: usize> {
    chunks: SmallVec<[Vec<T>; 1]>,
}

impl<T, const SHIFT: usize> Arena<T, SHIFT> {
    const CHUNK: usize = 1 << SHIFT;

    pub(crate) fn new() -> Arena<T, SHIFT> {
        Arena { chunks: SmallVec::new() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * Self::CHUNK + last.len(),
            None => 0,
        }
    }

    /// Bytes of memory. O(1).
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let Some(last) = self.chunks.last() else { return 0 };
        let items = (self.chunks.len() - 1) * Self::CHUNK + last.capacity();
        let spilled = if self.chunks.spilled() { self.chunks.capacity() } else { 0 };
        items * size_of::<T>() + spilled * size_of::<Vec<T>>()
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at >> SHIFT)?.get(at & (Self::CHUNK - 1))
    }

    pub(crate) fn push(&mut self, item: T) {
        let first = self.chunks.len() <= 1;
        match self.chunks.last_mut() {
            Some(last) if last.len() < Self::CHUNK => {
                if last.len() == last.capacity() {
                    debug_assert!(first, "other chunks have all their room");
                    last.reserve_exact((last.len() / 8 + 1).min(Self::CHUNK - last.len()));
                }
                last.push(item);
            }
            Some(_) => {
                let mut chunk = Vec::with_capacity(Self::CHUNK);
                chunk.push(item);
                self.chunks.push(chunk);
            }
            None => self.chunks.push(vec![item]),
        }
    }

    /// Takes the last item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let (first, last) = (self.chunks.len() == 1, self.chunks.last_mut()?);
        let item = last.pop();
        if !first && last.is_empty() {
            self.chunks.pop();
        } else if first && last.len() < last.capacity() / 2 {
            last.shrink_to(last.len() + last.len() / 8 + 1);
        }
        item
    }

    /// Two different items.
    pub(crate) fn pair_mut(&mut self, a: usize, b: usize) -> [&mut T; 2] {
        const TWO: &str = "two different items of the arena";
        let (mask, [first, second]) = (Self::CHUNK - 1, [a >> SHIFT, b >> SHIFT]);
        if first == second {
            return self.chunks[first].get_disjoint_mut([a & mask, b & mask]).expect(TWO);
        }
        let [first, second] = self.chunks.get_disjoint_mut([first, second]).expect(TWO);
        [&mut first[a & mask], &mut second[b & mask]]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Gives the last chunk back, with what is in it; true when none is left.
    pub(crate) fn shrink(&mut self) -> bool {
        self.chunks.pop();
        self.chunks.is_empty()
    }
}

impl<T, const SHIFT: usize> Index<usize> for Arena<T, SHIFT> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        &self.chunks[at >> SHIFT][at & (Self::CHUNK - 1)]
    }
}

impl<T, const SHIFT: usize> IndexMut<usize> for Arena<T, SHIFT> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at >> SHIFT][at & (Self::CHUNK - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn what_is_popped_gives_its_room_back() {
        let mut arena = Arena::<u32, 4>::new();
        (0..40).for_each(|n| arena.push(n));
        let mut most = arena.bytes();
        for n in (0..40).rev() {
            assert_eq!((arena.pop(), arena.len()), (Some(n), n as usize));
            assert!(arena.bytes() <= most, "memory does not grow");
            most = arena.bytes();
            let chunks = 4 * size_of::<Vec<u32>>();
            assert!(n >= 16 || arena.bytes() <= n as usize * 8 + 12 + chunks, "{} bytes for {n} items", arena.bytes());
        }
        assert_eq!(arena.pop(), None);
        arena.push(7);
        assert_eq!((arena.len(), arena[0]), (1, 7));
    }

    #[test]
    fn items_keep_their_places_over_many_chunks() {
        let mut arena = Arena::<u32, 4>::new();
        assert_eq!((arena.len(), arena.bytes(), arena.get(0)), (0, 0, None));
        for n in 0..100 {
            arena.push(n);
            assert_eq!((arena.len(), arena[n as usize], arena.get(n as usize + 1)), (n as usize + 1, n, None));
            assert!(arena.bytes() >= arena.len() * 4 && (n > 15 || arena.bytes() <= (n as usize + 1) * 9 / 8 * 4 + 4));
        }
        assert!(arena.iter().copied().eq(0..100));
        for (a, b) in [(3, 5), (3, 90), (90, 3), (15, 16)] {
            let [x, y] = arena.pair_mut(a, b);
            std::mem::swap(x, y);
            assert_eq!((arena[a], arena[b]), (b as u32, a as u32));
            let [x, y] = arena.pair_mut(b, a);
            std::mem::swap(x, y);
        }
        for n in (50..100).rev() {
            assert_eq!((arena.pop(), arena.len(), arena.get(n as usize)), (Some(n), n as usize, None));
        }
        (50..100).for_each(|n| arena.push(n));
        assert!(arena.iter().copied().eq(0..100));
        let mut sheds = 1;
        while !arena.shrink() {
            sheds += 1;
        }
        assert_eq!((sheds, arena.len(), arena.bytes() < 1000), (7, 0, true));
    }
}
