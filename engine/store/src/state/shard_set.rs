//! A list of shards to hold.

use std::ops::Deref;

/// Numbers of shards in ascending order and without repeats: the order in which shards are held. The buffer stays from
/// one use to the next.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ShardSet(Vec<u16>);

impl ShardSet {
    /// Replaces what the set has by these shards, in any order.
    #[inline]
    pub fn fill(&mut self, ids: impl IntoIterator<Item = u16>) {
        self.0.clear();
        self.add(ids);
    }

    /// Adds shards, in any order.
    #[inline]
    pub fn add(&mut self, ids: impl IntoIterator<Item = u16>) {
        self.0.extend(ids);
        self.0.sort_unstable();
        self.0.dedup();
    }

    /// True if a shard is in the set.
    pub fn has(&self, id: u16) -> bool {
        self.0.binary_search(&id).is_ok()
    }
}

impl FromIterator<u16> for ShardSet {
    fn from_iter<I: IntoIterator<Item = u16>>(ids: I) -> ShardSet {
        let mut set = ShardSet::default();
        set.fill(ids);
        set
    }
}

impl Deref for ShardSet {
    type Target = [u16];

    #[inline]
    fn deref(&self) -> &[u16] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascending_without_repeats() {
        let mut set: ShardSet = [7, 2, 7, 0].into_iter().collect();
        assert_eq!(&*set, [0, 2, 7]);
        set.add([5, 2, 9]);
        assert_eq!(&*set, [0, 2, 5, 7, 9]);
        assert!(set.has(5) && !set.has(6));
        set.fill([3]);
        assert_eq!(&*set, [3], "filling replaces");
    }
}
