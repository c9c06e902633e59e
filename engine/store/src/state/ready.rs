//! Keys that became ready in one hold of their shards, in order, each of them once.

use std::collections::{HashSet, VecDeque};

/// A key that got something while somebody waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReadyKey {
    /// Logical database.
    pub db: u32,
    /// The key.
    pub bytes: Box<[u8]>,
}

/// Keys up to this number are looked at one by one; more are found by their hash. One transaction may make tens of
/// thousands ready.
const FEW: usize = 16;

/// The keys that are ready.
#[derive(Debug, Default)]
pub(crate) struct ReadyKeys {
    queue: VecDeque<ReadyKey>,
    /// There once they were more than a few. Each command makes an empty queue, which is small therefore.
    many: Option<Box<Many>>,
}

/// The keys of a long queue.
#[derive(Debug)]
struct Many {
    known: HashSet<ReadyKey>,
}

impl ReadyKeys {
    /// Puts a key behind the others, unless it is there.
    pub(crate) fn note(&mut self, db: u32, bytes: &[u8]) {
        if self.many.is_none() && self.queue.len() < FEW {
            if self.queue.iter().any(|ready| ready.db == db && *ready.bytes == *bytes) {
                return;
            }
        } else {
            let many = self.many.get_or_insert_with(|| Box::new(Many { known: self.queue.iter().cloned().collect() }));
            if !many.known.insert(ReadyKey { db, bytes: bytes.into() }) {
                return;
            }
        }
        self.queue.push_back(ReadyKey { db, bytes: bytes.into() });
    }

    /// The key that became ready first.
    pub(crate) fn pop(&mut self) -> Option<ReadyKey> {
        let first = self.queue.pop_front()?;
        if let Some(many) = &mut self.many {
            many.known.remove(&first);
        }
        Some(first)
    }

    /// Puts a key that was taken before all others. Serving one of its waiters may have noted it once more.
    pub(crate) fn put_back(&mut self, ready: ReadyKey) {
        let is_known = self.many.as_mut().is_none_or(|many| !many.known.insert(ready.clone()));
        if is_known {
            self.queue.retain(|other| *other != ready);
        }
        self.queue.push_front(ready);
    }

    /// All of them, in order; none is left.
    pub(crate) fn take(&mut self) -> VecDeque<ReadyKey> {
        self.many = None;
        std::mem::take(&mut self.queue)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Their names, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.queue.iter().map(|ready| &*ready.bytes)
    }
}

impl From<VecDeque<ReadyKey>> for ReadyKeys {
    fn from(keys: VecDeque<ReadyKey>) -> ReadyKeys {
        let mut ready = ReadyKeys::default();
        keys.iter().for_each(|key| ready.note(key.db, &key.bytes));
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u32) -> Vec<u8> {
        format!("key:{n}").into_bytes()
    }

    #[test]
    fn a_key_is_there_once_and_in_its_place() {
        for many in [3, FEW as u32, FEW as u32 + 1, 1000] {
            let mut ready = ReadyKeys::default();
            for db in [0, 1, 0, 1] {
                (0..many).for_each(|n| ready.note(db, &name(n)));
            }
            let first = ready.pop().expect("it is there");
            assert_eq!((first.db, &*first.bytes), (0, &*name(0)));
            // A key that was taken may become ready again, behind the others; one that was put back may not.
            ready.note(0, &name(0));
            let next = ready.pop().expect("it is there");
            let expected = next.clone();
            if many % 2 == 0 {
                ready.note(0, &expected.bytes);
            }
            ready.put_back(next);
            ready.note(0, &expected.bytes);
            let all: Vec<_> = ready.take().into_iter().map(|key| (key.db, key.bytes.to_vec())).collect();
            let mut wanted: Vec<_> = [0, 1].into_iter().flat_map(|db| (0..many).map(move |n| (db, name(n)))).collect();
            wanted.rotate_left(1);
            assert_eq!(all, wanted, "{many}");
            assert!(ready.is_empty());
        }
    }

    /// Each key was compared with all that were ready: 24 000 keys took 3 s.
    #[test]
    fn many_keys_are_found_by_their_hash() {
        let mut ready = ReadyKeys::default();
        (0..20_000).for_each(|n| ready.note(0, &name(n)));
        let known = |ready: &ReadyKeys| ready.many.as_ref().map(|many| many.known.len());
        assert_eq!(known(&ready), Some(20_000));
        while ready.pop().is_some() {}
        assert_eq!(known(&ready), Some(0));
    }
}
