//! A small sorted set: a packed node of pairs in the order of (score, member).
//!
//! ```text
//!   | member | score | member | score | …
//!
//!   score    an integer entry           whole, under 2^62
//!            a string of 1 to 7 bytes   its shortest decimal text
//!            a string of 8 bytes        the bits of the f64, little-endian: where the text would be longer
//! ```
//! All three read back exactly, -0 as well. Functions over nodes: where the node lies and whether it has room is the caller's.

use std::cmp::Ordering;
use std::io::Write;

use varve_packed::Full;
use varve_packed::node::{Coded, EntryPos, Node, NodeMut, PackedEntry};

use super::rank_span;
use super::types::{LexBound, ScoreBound, ZRange};

/// Whole scores up to here are integers.
const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;
/// Texts longer than this are longer than the bits.
const TEXT_MAX: usize = 7;

/// A score ready to be written.
#[derive(Clone, Copy, Debug)]
enum PackedScore {
    Whole(i64),
    Text([u8; 8], usize),
}

impl PackedScore {
    fn of(score: f64) -> PackedScore {
        if score.abs() <= WHOLE_MAX && score.trunc() == score && (score != 0.0 || score.is_sign_positive()) {
            return PackedScore::Whole(score as i64);
        }
        let mut text = [0; TEXT_MAX];
        let mut rest = &mut text[..];
        let fits = write!(rest, "{score:?}").is_ok();
        let len = TEXT_MAX - rest.len();
        if !fits {
            return PackedScore::Text(score.to_le_bytes(), 8);
        }
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&text[..len]);
        PackedScore::Text(bytes, len)
    }

    fn coded(&self) -> Coded<'_> {
        match self {
            PackedScore::Whole(value) => Coded::int(*value),
            PackedScore::Text(bytes, len) => Coded::raw(&bytes[..*len]),
        }
    }
}

/// The score that an entry keeps.
#[inline]
fn read_score(entry: PackedEntry<'_>) -> f64 {
    match entry {
        PackedEntry::Int(value) => value as f64,
        PackedEntry::Bytes(bytes) => match bytes.try_into() {
            Ok(bits) => f64::from_le_bytes(bits),
            Err(_) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).expect("the text of a score"),
        },
    }
}

/// Number of members.
#[inline]
pub fn len(node: Node<'_>) -> usize {
    node.len() / 2
}

/// Bytes of a pair's entries.
pub fn pair_bytes(member: &[u8], score: f64) -> usize {
    debug_assert!(!score.is_nan(), "no score is NaN");
    Coded::of(member).size() + PackedScore::of(score).coded().size()
}

/// A member's place, rank and score.
pub fn find(node: Node<'_>, member: &[u8]) -> Option<(EntryPos, usize, f64)> {
    let (place, passed) = node.find(&Coded::of(member), node.first()?, 2)?;
    Some((place, passed / 2, score_at(node, place)))
}

fn score_at(node: Node<'_>, place: EntryPos) -> f64 {
    read_score(node.get(node.next(place).expect("a member has a score")))
}

/// All pairs in order: the member's place, member and score.
fn pairs<'a>(node: Node<'a>) -> impl Iterator<Item = (EntryPos, PackedEntry<'a>, f64)> {
    let mut next = node.first();
    std::iter::from_fn(move || {
        let place = next?;
        let score = node.next(place).expect("a member has a score");
        next = node.next(score);
        Some((place, node.get(place), read_score(node.get(score))))
    })
}

/// Shows every pair in order.
pub fn for_each(node: Node<'_>, mut show: impl FnMut(&[u8], f64)) {
    for (_, member, score) in pairs(node) {
        show(member.text(&mut [0; 20]), score);
    }
}

fn compare(member: PackedEntry<'_>, other: &[u8]) -> Ordering {
    member.text(&mut [0; 20]).cmp(other)
}

/// Adds a member that is not there yet, where it belongs.
///
/// # Errors
/// If there is no room for [`pair_bytes`]; nothing is changed then.
pub fn insert(node: &mut NodeMut<'_>, member: &[u8], score: f64) -> Result<(), Full> {
    debug_assert!(find(node.node(), member).is_none(), "a member is there once");
    debug_assert!(!score.is_nan(), "no score is NaN");
    let (coded, packed) = (Coded::of(member), PackedScore::of(score));
    if node.node().room() < coded.size() + packed.coded().size() {
        return Err(Full { needed: node.node().needed_bytes(coded.size() + packed.coded().size()) });
    }
    let behind = |(_, other, at): &(EntryPos, PackedEntry<'_>, f64)| {
        *at > score || *at == score && compare(*other, member).is_gt()
    };
    let place = pairs(node.node()).find(behind).map(|(place, ..)| place);
    match place {
        Some(place) => {
            let place = node.insert_before(place, &coded)?;
            node.insert_after(place, &packed.coded())?;
        }
        None => push(node, member, score)?,
    }
    Ok(())
}

/// Adds a pair behind all others.
///
/// # Errors
/// If there is no room for it.
pub fn push(node: &mut NodeMut<'_>, member: &[u8], score: f64) -> Result<(), Full> {
    debug_assert!(node.node().len().is_multiple_of(2), "entries come in pairs");
    node.push_back(&Coded::of(member))?;
    node.push_back(&PackedScore::of(score).coded())
}

/// Removes the pair at a member's place.
pub fn remove(node: &mut NodeMut<'_>, place: EntryPos) {
    node.remove_range(place, 2);
}

/// Removes the pairs number `from..to`.
pub fn remove_span(node: &mut NodeMut<'_>, (from, to): (u64, u64)) {
    debug_assert!(from <= to && to <= len(node.node()) as u64, "positions {from}..{to} of {}", len(node.node()));
    node.remove_indices(2 * from as usize, 2 * to as usize);
}

/// The positions of a range from the low end: from the first to behind the last. `rev` turns ranks only.
pub fn span(node: Node<'_>, range: &ZRange<'_>, rev: bool) -> (u64, u64) {
    let (mut from, mut count) = (0, 0);
    let mut all = pairs(node);
    match *range {
        ZRange::Rank { start, stop } => return rank_span(start, stop, len(node) as u64, rev),
        ZRange::Score { min, max } => {
            for (_, _, score) in all {
                match (over(score, min), under(score, max)) {
                    (false, _) => from += 1,
                    (true, true) => count += 1,
                    (true, false) => break,
                }
            }
        }
        ZRange::Lex { min, max } => {
            let inside = |member| {
                let low = over_lex(member, min);
                low.then(|| under_lex(member, max))
            };
            for (_, member, _) in all.by_ref() {
                match (count, inside(member)) {
                    (0, None) => from += 1,
                    (_, Some(true) | None) => count += 1,
                    (_, Some(false)) => break,
                }
            }
        }
    }
    (from, from + count)
}

fn over(score: f64, min: ScoreBound) -> bool {
    if min.open { score > min.value } else { score >= min.value }
}

fn under(score: f64, max: ScoreBound) -> bool {
    if max.open { score < max.value } else { score <= max.value }
}

fn over_lex(member: PackedEntry<'_>, min: LexBound<'_>) -> bool {
    match min {
        LexBound::Min => true,
        LexBound::Max => false,
        LexBound::Incl(bound) => compare(member, bound).is_ge(),
        LexBound::Excl(bound) => compare(member, bound).is_gt(),
    }
}

fn under_lex(member: PackedEntry<'_>, max: LexBound<'_>) -> bool {
    match max {
        LexBound::Min => false,
        LexBound::Max => true,
        LexBound::Incl(bound) => compare(member, bound).is_le(),
        LexBound::Excl(bound) => compare(member, bound).is_lt(),
    }
}

/// Shows `count` pairs from position `from` on, upwards or downwards.
pub fn walk(node: Node<'_>, from: u64, rev: bool, count: u64, emit: &mut dyn FnMut(&[u8], f64)) {
    debug_assert!(rev || from + count <= len(node) as u64, "{count} pairs from {from} of {}", len(node));
    let Some(mut place) = node.nth(2 * from as usize) else { return };
    let mut scratch = [0; 20];
    for _ in 0..count {
        emit(node.get(place).text(&mut scratch), score_at(node, place));
        let next = if rev {
            node.prev(place).and_then(|score| node.prev(score))
        } else {
            node.next(place).and_then(|score| node.next(score))
        };
        match next {
            Some(next) => place = next,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_base::rng::Rng;

    #[test]
    fn scores_read_back() {
        let mut rng = Rng::seeded(9);
        let random = (0..20_000).map(|_| f64::from_bits(rng.next_u64())).filter(|score| !score.is_nan());
        let edges = [
            -0.0,
            0.5,
            12.25,
            0.1,
            1e300,
            -1e-300,
            f64::INFINITY,
            f64::NEG_INFINITY,
            WHOLE_MAX,
            1e19,
            5e-324,
            1e7 + 0.5,
        ];
        for score in random.chain(edges).chain((-2000..2000).map(f64::from)) {
            let packed = PackedScore::of(score);
            let entry = match packed {
                PackedScore::Whole(value) => PackedEntry::Int(value),
                PackedScore::Text(ref bytes, len) => PackedEntry::Bytes(&bytes[..len]),
            };
            assert_eq!(read_score(entry).to_bits(), score.to_bits(), "{score}");
        }
        assert!(matches!(PackedScore::of(0.0), PackedScore::Whole(0)));
        assert_eq!(PackedScore::of(12.25).coded().size(), 7);
        assert_eq!(PackedScore::of(1.0 / 3.0).coded().size(), 10);
    }
}
