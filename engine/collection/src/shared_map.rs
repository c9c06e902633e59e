//! An ordered map whose copies share what they have in common.
//!
//! ```text
//!   map ----> inner node  | least key | node | .. up to 32      copied before it changes, if another map has it too
//!   copy -/                        |
//!             leaf        | key | value | .. up to 32            so are the nodes below that lead to the change
//! ```
//! A copy costs a counter, whatever the map has. A change of a map that has copies costs a node of each level at most: what a
//! writer does while a file is written of a copy is bounded. Nobody waits for whoever has the copy.
//!
//! The first key of an inner node is no bound: everything that is less than the second one belongs to the first child.
//!
//! Not here: bytes that keys and values have elsewhere.

use std::borrow::Borrow;
use std::sync::Arc;

use smallvec::SmallVec;

/// Entries of a leaf, and children of an inner node.
const NODE_MAX: usize = 32;

/// See the head of the file.
#[derive(Clone, Debug)]
pub struct SharedMap<K, V> {
    /// None of a map without entries.
    root: Option<Arc<Node<K, V>>>,
    len: usize,
    left: u64,
}

#[derive(Clone, Debug)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Inner(Vec<Child<K, V>>),
}

/// A node, if anything is left of it.
type Rest<K, V> = Option<Arc<Node<K, V>>>;

#[derive(Clone, Debug)]
struct Child<K, V> {
    /// No key below is less, and none in front is as great; of a first child it says nothing.
    least: K,
    node: Arc<Node<K, V>>,
}

/// The entries of a map from some key on, in order.
#[derive(Clone, Debug)]
pub struct SharedMapIter<'a, K, V> {
    above: SmallVec<[std::slice::Iter<'a, Child<K, V>>; 4]>,
    leaf: std::slice::Iter<'a, (K, V)>,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> SharedMap<K, V> {
        SharedMap { root: None, len: 0, left: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of nodes that this map has copied since others had them too: all that there ever were. O(1).
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The value of a key. O(log n).
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Inner(children) => node = &children[place(children, key)].node,
                Node::Leaf(entries) => return find(entries, key).ok().map(|at| &entries[at].1),
            }
        }
    }

    /// Whether there is this key. O(log n).
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The value of a key, to change it. O(log n).
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        // Nothing is copied for a key that is not there.
        self.get(key)?;
        let SharedMap { root, left, .. } = self;
        let mut node = own(root.as_mut()?, left);
        loop {
            match node {
                Node::Inner(children) => {
                    let at = place(children, key);
                    node = own(&mut children[at].node, left);
                }
                Node::Leaf(entries) => {
                    let at = find(entries, key).expect("the key is there");
                    return Some(&mut entries[at].1);
                }
            }
        }
    }

    /// Gives a key a value; the one that it had. O(log n).
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let root = self.root.get_or_insert_with(|| Arc::new(Node::Leaf(Vec::new())));
        let (before, right) = insert_below(root, key, value, &mut self.left);
        if let Some(right) = right {
            let first = Child { least: right.least.clone(), node: Arc::clone(root) };
            *root = Arc::new(Node::Inner(vec![first, right]));
        }
        self.len += usize::from(before.is_none());
        debug_assert!(self.len > 0, "an entry was added");
        before
    }

    /// Removes a key; the value that it had. O(log n).
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let root = self.root.as_mut()?;
        let value = remove_below(root, key, &mut self.left);
        self.len -= 1;
        while let Node::Inner(children) = &**root
            && let [only] = &children[..]
        {
            *root = Arc::clone(&only.node);
        }
        if self.len == 0 {
            self.root = None;
        }
        debug_assert!(self.root.is_none() == (self.len == 0), "an empty map has no node");
        Some(value)
    }

    /// All entries in order.
    pub fn iter(&self) -> SharedMapIter<'_, K, V> {
        let mut iter = SharedMapIter { above: SmallVec::new(), leaf: [].iter() };
        if let Some(root) = &self.root {
            iter.descend(root);
        }
        iter
    }

    /// The entry with the greatest key. O(log n).
    pub fn last(&self) -> Option<(&K, &V)> {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Inner(children) => node = &children.last()?.node,
                Node::Leaf(entries) => return entries.last().map(|(key, value)| (key, value)),
            }
        }
    }

    /// Whether another map has all that this one has: what is dropped here costs nothing.
    pub fn is_shared(&self) -> bool {
        self.root.as_ref().is_none_or(|root| Arc::strong_count(root) > 1)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The entries behind a key, which need not be there, in order.
    pub fn behind<Q: Ord + ?Sized>(&self, key: &Q) -> SharedMapIter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let mut iter = SharedMapIter { above: SmallVec::new(), leaf: [].iter() };
        let mut next = self.root.as_deref();
        while let Some(node) = next {
            next = match node {
                Node::Inner(children) => {
                    let at = place(children, key);
                    iter.above.push(children[at + 1..].iter());
                    Some(&children[at].node)
                }
                Node::Leaf(entries) => {
                    let from = find(entries, key).map_or_else(|at| at, |at| at + 1);
                    iter.leaf = entries[from..].iter();
                    None
                }
            };
        }
        iter
    }

    /// Takes a leaf out of a map that is used no more, to give its memory back in steps: its entries, none if another map has
    /// them too. None when nothing is left.
    pub fn pop_leaf(&mut self) -> Option<Vec<(K, V)>> {
        let (entries, rest) = pop_leaf(self.root.take()?);
        debug_assert!(entries.len() <= NODE_MAX, "{} entries of one leaf", entries.len());
        self.len = if rest.is_some() { self.len.saturating_sub(entries.len()) } else { 0 };
        self.root = rest;
        Some(entries)
    }

    /// Panics if anything is inconsistent. O(N).
    pub fn verify(&self) {
        let entries = || self.iter().map(|(key, _)| key);
        assert_eq!(entries().count(), self.len, "entries are counted");
        assert!(entries().zip(entries().skip(1)).all(|(one, next)| one < next), "entries in the order of their keys");
        assert!(entries().all(|key| self.get(key).is_some()), "a search comes to each entry");
    }
}

impl<'a, K, V> SharedMapIter<'a, K, V> {
    /// Goes to the first leaf below a node.
    fn descend(&mut self, mut node: &'a Node<K, V>) {
        loop {
            match node {
                Node::Leaf(entries) => return self.leaf = entries.iter(),
                Node::Inner(children) => {
                    let mut children = children.iter();
                    node = &children.next().expect("an inner node has children").node;
                    self.above.push(children);
                }
            }
        }
    }
}

impl<'a, K, V> Iterator for SharedMapIter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<(&'a K, &'a V)> {
        loop {
            if let Some((key, value)) = self.leaf.next() {
                return Some((key, value));
            }
            match self.above.last_mut()?.next() {
                Some(child) => self.descend(&child.node),
                None => _ = self.above.pop(),
            }
        }
    }
}

/// The node to change it: a copy if another map has it too.
fn own<'a, K: Clone, V: Clone>(node: &'a mut Arc<Node<K, V>>, left: &mut u64) -> &'a mut Node<K, V> {
    if Arc::strong_count(node) > 1 {
        *left += node.bytes() as u64;
    }
    Arc::make_mut(node)
}

/// The child below which a key is, or would be.
fn place<K: Borrow<Q>, V, Q: Ord + ?Sized>(children: &[Child<K, V>], key: &Q) -> usize {
    debug_assert!(!children.is_empty(), "an inner node has children");
    children[1..].partition_point(|child| child.least.borrow() <= key)
}

/// Where a key is in a leaf, or else would be.
fn find<K: Borrow<Q>, V, Q: Ord + ?Sized>(entries: &[(K, V)], key: &Q) -> Result<usize, usize> {
    entries.binary_search_by(|(other, _)| other.borrow().cmp(key))
}

fn insert_below<K: Ord + Clone, V: Clone>(
    node: &mut Arc<Node<K, V>>,
    key: K,
    value: V,
    left: &mut u64,
) -> (Option<V>, Option<Child<K, V>>) {
    match own(node, left) {
        Node::Leaf(entries) => match find(entries, &key) {
            Ok(at) => (Some(std::mem::replace(&mut entries[at].1, value)), None),
            Err(at) => {
                put(entries, at, (key, value));
                let behind = split(entries, at);
                let right =
                    behind.map(|behind| Child { least: behind[0].0.clone(), node: Arc::new(Node::Leaf(behind)) });
                (None, right)
            }
        },
        Node::Inner(children) => {
            let at = place(children, &key);
            let (before, right) = insert_below(&mut children[at].node, key, value, left);
            let Some(right) = right else { return (before, None) };
            put(children, at + 1, right);
            let behind = split(children, at + 1);
            let right =
                behind.map(|behind| Child { least: behind[0].least.clone(), node: Arc::new(Node::Inner(behind)) });
            (before, right)
        }
    }
}

/// Inserts, with little free room: most maps have an entry or two.
fn put<T>(all: &mut Vec<T>, at: usize, one: T) {
    debug_assert!(at <= all.len() && all.len() <= NODE_MAX, "place {at} of {} in a node", all.len());
    if all.len() == all.capacity() {
        all.reserve_exact((all.len() / 2).max(1));
    }
    all.insert(at, one);
}

/// The second half of a node that has become too large by what came at `at`; growth at the end leaves full nodes.
fn split<T>(all: &mut Vec<T>, at: usize) -> Option<Vec<T>> {
    debug_assert!(all.len() <= NODE_MAX + 1, "{} in a node", all.len());
    let from = if at + 1 == all.len() { NODE_MAX } else { NODE_MAX / 2 };
    (all.len() > NODE_MAX).then(|| all.split_off(from))
}

/// Removes a key that is there.
fn remove_below<K: Ord + Clone + Borrow<Q>, V: Clone, Q: Ord + ?Sized>(
    node: &mut Arc<Node<K, V>>,
    key: &Q,
    left: &mut u64,
) -> V {
    match own(node, left) {
        Node::Leaf(entries) => entries.remove(find(entries, key).expect("the key is there")).1,
        Node::Inner(children) => {
            let at = place(children, key);
            let value = remove_below(&mut children[at].node, key, left);
            tidy(children, at, left);
            value
        }
    }
}

/// Removes a child that is empty, or joins one that is small with a neighbour.
fn tidy<K: Clone, V: Clone>(children: &mut Vec<Child<K, V>>, at: usize, left: &mut u64) {
    debug_assert!(at < children.len(), "child {at} of {}", children.len());
    let len = |at: usize| children[at].node.len();
    if len(at) == 0 {
        children.remove(at);
        return;
    }
    if len(at) >= NODE_MAX / 4 {
        return;
    }
    let fits = |first: usize| first + 1 < children.len() && len(first) + len(first + 1) <= NODE_MAX * 3 / 4;
    let first = match at {
        at if fits(at) => at,
        at if at > 0 && fits(at - 1) => at - 1,
        _ => return,
    };
    let mut right = children.remove(first + 1);
    let joined = own(&mut children[first].node, left);
    match (joined, own(&mut right.node, left)) {
        (Node::Leaf(joined), Node::Leaf(behind)) => joined.append(behind),
        (Node::Inner(joined), Node::Inner(behind)) => {
            // It is a first child no more: what bounds it is what has bounded its node.
            behind[0].least = right.least;
            joined.append(behind);
        }
        _ => unreachable!("all leaves are on one level"),
    }
    debug_assert!(children[first].node.len() <= NODE_MAX, "two that fit in one");
}

/// Takes the last leaf below a node away: its entries, and the node if something of it is left. Of two who let go of one node at once
/// exactly one has it then: neither drops all that is below.
fn pop_leaf<K, V>(node: Arc<Node<K, V>>) -> (Vec<(K, V)>, Rest<K, V>) {
    match Arc::into_inner(node) {
        None => (Vec::new(), None),
        Some(Node::Leaf(entries)) => (entries, None),
        Some(Node::Inner(mut children)) => {
            let last = children.pop().expect("an inner node has children");
            let (entries, rest) = pop_leaf(last.node);
            children.extend(rest.map(|node| Child { least: last.least, node }));
            let rest = (!children.is_empty()).then(|| Arc::new(Node::Inner(children)));
            (entries, rest)
        }
    }
}

impl<K, V> Node<K, V> {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Inner(children) => children.len(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len() * size_of::<(K, V)>(),
            Node::Inner(children) => children.len() * size_of::<Child<K, V>>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use varve_base::rng::Rng;

    use super::*;

    fn compare(map: &SharedMap<u64, u64>, model: &BTreeMap<u64, u64>, behind: u64) {
        map.verify();
        assert!(map.iter().eq(model.iter()), "the entries of the model");
        assert_eq!(map.last(), model.last_key_value());
        assert_eq!((map.len(), map.get(&behind)), (model.len(), model.get(&behind)));
        assert!(map.behind(&behind).eq(model.range(behind + 1..)), "the entries behind {behind}");
    }

    #[test]
    fn a_map_and_its_copies_against_maps_that_share_nothing() {
        let seed = std::env::var("VARVE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(31);
        println!("VARVE_SEED={seed}");
        let mut rng = Rng::seeded(seed);
        let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
        let mut copies = Vec::new();
        for step in 0..40_000 {
            let (key, value) = (rng.below(6000), rng.below(1000));
            // It grows to some thousand entries and shrinks again, three levels and one.
            let grows = step % 20_000 < 12_000;
            match rng.below(8) {
                0 => {
                    let (one, other) = (map.get_mut(&key), model.get_mut(&key));
                    assert_eq!(one, other);
                    one.into_iter().chain(other).for_each(|had| *had = value);
                }
                1..5 if grows => assert_eq!(map.insert(key, value), model.insert(key, value)),
                1..5 => {
                    let key = model.range(key..).next().map_or(key, |(key, _)| *key);
                    assert_eq!(map.remove(&key), model.remove(&key));
                }
                5 => assert_eq!(map.remove(&key), model.remove(&key)),
                _ => {}
            }
            if step % 1000 == 0 {
                compare(&map, &model, key);
                copies.push((map.clone(), model.clone()));
            }
        }
        assert!(copies.iter().any(|(_, model)| model.len() > 2000) && model.len() < 500, "it has grown and shrunk");
        copies.iter().for_each(|(map, model)| compare(map, model, 3000));
        model.keys().for_each(|key| assert!(map.remove(key).is_some()));
        compare(&map, &BTreeMap::new(), 0);
        assert!(map.root.is_none(), "an empty map has no node");
    }

    /// The most bytes that one change may copy of a map with four levels.
    const COPIED_MAX: u64 = 4 * ((NODE_MAX + 1) * size_of::<Child<u64, u64>>()) as u64;

    #[test]
    fn a_change_of_a_map_that_is_shared_copies_a_node_of_each_level() {
        let mut map: SharedMap<u64, u64> = SharedMap::default();
        (0..100_000).for_each(|n| assert!(map.insert(2 * n, n).is_none()));
        assert_eq!(map.left(), 0, "nobody has shared it");
        let copy = map.clone();
        assert!(map.get_mut(&1).is_none() && map.remove(&1).is_none());
        assert_eq!(map.left(), 0, "nothing is copied for keys that are not there");
        let mut before = 0;
        for n in 0..2000 {
            match n % 3 {
                0 => *map.get_mut(&(100 * n)).expect("an even number") += 1,
                1 => assert!(map.insert(100 * n + 1, n).is_none()),
                _ => assert!(map.remove(&(100 * n)).is_some()),
            }
            let copied = map.left() - before;
            assert!((0..=COPIED_MAX).contains(&copied), "change {n} has copied {copied} bytes");
            before = map.left();
        }
        assert!(before > 2000 * 32 * 8, "leaves were copied: {before} bytes");
        assert!(
            copy.iter().map(|(key, value)| (*key, *value)).eq((0..100_000).map(|n| (2 * n, n))),
            "the copy is as it was"
        );
    }

    #[test]
    fn a_map_is_given_back_leaf_by_leaf_and_what_others_have_stays() {
        let mut map: SharedMap<u64, u64> = SharedMap::default();
        (0..10_000).for_each(|n| _ = map.insert(n, n));
        let copy = map.clone();
        *map.get_mut(&5000).expect("it is there") = 1;
        let (mut given, mut steps) = (0, 0);
        while let Some(entries) = map.pop_leaf() {
            assert!(entries.len() <= NODE_MAX, "one leaf a step");
            (given, steps) = (given + entries.len(), steps + 1);
        }
        assert!((1..=NODE_MAX).contains(&given) && steps < 4 * NODE_MAX, "{given} entries of its own in {steps} steps");
        copy.verify();
        let mut copy = copy;
        given = 0;
        while let Some(entries) = copy.pop_leaf() {
            given += entries.len();
        }
        assert_eq!((given, copy.len(), copy.pop_leaf().is_none()), (10_000, 0, true));
    }
}
