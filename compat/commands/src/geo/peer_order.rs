//! The first members by distance, with members at the same distance in redis-server's order.
//!
//! Where fewer members are wanted than were found, redis-server sorts by the quicksort of Bentley and McIlroy ("Engineering a
//! Sort Function", 1993), leaving out the sides in which nothing is wanted. That sort is not stable: which of several members at
//! the same distance is kept follows from its swaps, so this sort makes the same ones.
//!
//! ```text
//!  partition     = pivot   < pivot   not looked at   > pivot   = pivot
//!                0       a         b               c         d         len
//!  then the two outer parts are swapped to the middle
//! ```
//!
//! A sequence that an attacker has chosen makes it quadratic, so it is for short ones only: [`LONGEST`].

use std::cmp::Ordering;

/// Members up to which the order is redis-server's: with the worst of sequences some 100 000 comparisons, 0.2 ms.
pub(super) const LONGEST: usize = 512;

/// Members below which a part is sorted by insertion.
const INSERTED_BELOW: usize = 7;
/// Members above which the pivot is the median of three medians.
const NINTHER_ABOVE: usize = 40;

/// Sorts so that the first `wanted` items are in order and in their places.
pub(super) fn sort_first<T>(items: &mut [T], wanted: usize, compare: &impl Fn(&T, &T) -> Ordering) {
    let len = items.len();
    if len < INSERTED_BELOW {
        return insert_all(items, compare);
    }
    let pivot = pivot(items, compare);
    items.swap(0, pivot);
    let (mut equal_left, mut left) = (1, 1);
    // One behind the last item that is not looked at, and one behind the last that is not known to equal the pivot.
    let (mut right, mut equal_right) = (len, len);
    loop {
        while left < right {
            match compare(&items[left], &items[0]) {
                Ordering::Greater => break,
                Ordering::Equal => {
                    items.swap(equal_left, left);
                    equal_left += 1;
                }
                Ordering::Less => {}
            }
            left += 1;
        }
        while left < right {
            match compare(&items[right - 1], &items[0]) {
                Ordering::Less => break,
                Ordering::Equal => {
                    equal_right -= 1;
                    items.swap(right - 1, equal_right);
                }
                Ordering::Greater => {}
            }
            right -= 1;
        }
        if left >= right {
            break;
        }
        items.swap(left, right - 1);
        left += 1;
        right -= 1;
    }
    let smaller = left - equal_left;
    let moved = equal_left.min(smaller);
    swap_spans(items, 0, left - moved, moved);
    let larger = equal_right - right;
    let moved = larger.min(len - equal_right);
    swap_spans(items, left, len - moved, moved);
    if smaller > 1 {
        sort_first(&mut items[..smaller], wanted, compare);
    }
    if larger > 1 && wanted > len - larger {
        sort_first(&mut items[len - larger..], wanted - (len - larger), compare);
    }
}

/// Sorts by insertion; equal items stay in their order.
fn insert_all<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && compare(&items[at - 1], &items[at]) == Ordering::Greater {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// The place of the pivot: the middle of 7, the median of three up to 40, above these the median of three medians.
fn pivot<T>(items: &[T], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let (len, mut middle) = (items.len(), items.len() / 2);
    if len == INSERTED_BELOW {
        return middle;
    }
    let (mut first, mut last) = (0, len - 1);
    if len > NINTHER_ABOVE {
        let step = len / 8;
        first = median(items, [0, step, 2 * step], compare);
        middle = median(items, [middle - step, middle, middle + step], compare);
        last = median(items, [last - 2 * step, last - step, last], compare);
    }
    median(items, [first, middle, last], compare)
}

/// The place of the median; of equal ones the one that redis-server takes.
fn median<T>(items: &[T], [a, b, c]: [usize; 3], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let order = |x: usize, y: usize| compare(&items[x], &items[y]);
    if order(a, b) == Ordering::Less {
        match (order(b, c), order(a, c)) {
            (Ordering::Less, _) => b,
            (_, Ordering::Less) => c,
            _ => a,
        }
    } else {
        match (order(b, c), order(a, c)) {
            (Ordering::Greater, _) => b,
            (_, Ordering::Less) => a,
            _ => c,
        }
    }
}

/// Swaps two spans of this length, item by item. They do not overlap.
fn swap_spans<T>(items: &mut [T], a: usize, b: usize, length: usize) {
    (0..length).for_each(|at| items.swap(a + at, b + at));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of every short sequence of few values the wanted ones are in order, and nothing is lost.
    #[test]
    fn the_first_are_in_order() {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..20_000 {
            let (len, values) = (draw(120) as usize + 1, draw(20) + 1);
            let items: Vec<(u64, usize)> = (0..len).map(|at| (draw(values), at)).collect();
            let wanted = draw(len as u64) as usize + 1;
            let mut sorted = items.clone();
            sort_first(&mut sorted, wanted, &|a, b| a.0.cmp(&b.0));
            let mut expected: Vec<u64> = items.iter().map(|item| item.0).collect();
            expected.sort_unstable();
            let first: Vec<u64> = sorted[..wanted].iter().map(|item| item.0).collect();
            assert_eq!(first, expected[..wanted], "round {round}: {items:?}");
            let mut whole = sorted;
            whole.sort_unstable_by_key(|item| item.1);
            assert_eq!(whole, items, "round {round}");
        }
    }
}
