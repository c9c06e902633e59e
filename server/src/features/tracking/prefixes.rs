//! Prefixes of one connection that overlap: a change under two of them would be told twice.
//!
//! In order of their bytes a prefix stands right before those that begin with it. So neighbours are compared, not all pairs: a
//! request may have hundreds of thousands of prefixes.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Two prefixes that overlap.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overlap<'a> {
    /// One that was asked for.
    pub(super) new: &'a [u8],
    pub(super) other: &'a [u8],
    /// The other one is the connection's already; else it stands behind this one in the request.
    pub(super) is_present: bool,
}

fn overlap(a: &[u8], b: &[u8]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// The first of the new prefixes that overlaps with one of the connection's, or with one behind it. No two of the connection's do.
/// O(n log n).
pub(super) fn first_overlap<'a, N>(new: &[&'a [u8]], present: &'a BTreeSet<N>) -> Option<Overlap<'a>>
where
    N: Ord + Borrow<[u8]>,
{
    let of_new = first_of_pairs(new);
    // A new one behind the first that overlaps with another new one is not looked at.
    for &prefix in &new[..of_new.map_or(new.len(), |nth| nth + 1)] {
        if let Some(other) = neighbour(prefix, present) {
            return Some(Overlap { new: prefix, other, is_present: true });
        }
    }
    let nth = of_new?;
    let other = new[nth + 1..].iter().find(|other| overlap(new[nth], other)).expect("one behind it overlaps");
    Some(Overlap { new: new[nth], other, is_present: false })
}

/// The one of these prefixes, none of which overlap, that overlaps with another.
fn neighbour<'a, N: Ord + Borrow<[u8]>>(prefix: &[u8], of: &'a BTreeSet<N>) -> Option<&'a [u8]> {
    let before = of.range::<[u8], _>((Bound::Unbounded, Bound::Included(prefix))).next_back();
    let behind = of.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded)).next();
    [before, behind].into_iter().flatten().map(Borrow::borrow).find(|other| overlap(prefix, other))
}

/// The place of the first prefix that overlaps with another.
fn first_of_pairs(prefixes: &[&[u8]]) -> Option<usize> {
    let mut sorted: Vec<usize> = (0..prefixes.len()).collect();
    sorted.sort_unstable_by_key(|&nth| prefixes[nth]);
    // Each of them begins with those below it.
    let mut above: Vec<usize> = Vec::new();
    let mut first: Option<usize> = None;
    for nth in sorted {
        while above.pop_if(|top| !prefixes[nth].starts_with(prefixes[*top])).is_some() {}
        if let Some(&top) = above.last() {
            first = Some(first.unwrap_or(nth).min(nth).min(top));
        }
        above.push(nth);
    }
    first
}

#[cfg(test)]
mod tests {
    use varve_base::rng::Rng;

    use super::*;

    /// All pairs are compared, in the order of the request.
    fn by_pairs<'a>(new: &[&'a [u8]], present: &'a BTreeSet<Vec<u8>>) -> Option<Overlap<'a>> {
        new.iter().enumerate().find_map(|(nth, &prefix)| {
            let known = present.iter().find(|other| overlap(prefix, other));
            let known = known.map(|other| Overlap { new: prefix, other, is_present: true });
            let behind = || new[nth + 1..].iter().find(|other| overlap(prefix, other));
            known.or_else(|| behind().map(|other| Overlap { new: prefix, other, is_present: false }))
        })
    }

    fn some(rng: &mut Rng, most: u64) -> Vec<Vec<u8>> {
        let text = |rng: &mut Rng| (0..rng.below(6)).map(|_| b'a' + rng.below(3) as u8).collect();
        (0..rng.below(most)).map(|_| text(rng)).collect()
    }

    #[test]
    fn issue_11_the_overlap_is_that_of_all_pairs() {
        let (mut rng, mut found) = (Rng::seeded(11), [0; 3]);
        for _ in 0..20_000 {
            let mut present: BTreeSet<Vec<u8>> = BTreeSet::new();
            for prefix in some(&mut rng, 6) {
                if !present.iter().any(|other| overlap(other, &prefix)) {
                    present.insert(prefix);
                }
            }
            let new = some(&mut rng, 8);
            let new: Vec<&[u8]> = new.iter().map(Vec::as_slice).collect();
            let expected = by_pairs(&new, &present);
            assert_eq!(first_overlap(&new, &present), expected, "{new:?} beside {present:?}");
            found[expected.map_or(0, |overlap| 1 + usize::from(overlap.is_present))] += 1;
        }
        assert!(found.iter().all(|&times| times > 500), "none, among the new ones, with one that is there: {found:?}");
    }
}
