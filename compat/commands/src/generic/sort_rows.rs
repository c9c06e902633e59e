//! The rows that SORT sorts: the elements, and the weights that they are compared by.
//!
//! Equal weights: numbers are then told apart by the elements' bytes; texts are not, and keep the order in which the
//! elements came.

use std::cmp::Ordering;

use varve_base::number::parse_f64;

use super::texts::{Place, Texts};

/// The elements, in the order in which they came.
#[derive(Default)]
pub(super) struct Items {
    texts: Texts,
    places: Vec<Place>,
}

impl Items {
    pub(super) fn push(&mut self, item: &[u8]) {
        let place = self.texts.push(item);
        self.places.push(place);
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn get(&self, at: usize) -> &[u8] {
        self.texts.get(self.places[at])
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.places.iter().map(|place| self.texts.get(*place))
    }

    /// Bytes that they take.
    pub(super) fn held_bytes(&self) -> usize {
        self.texts.held_bytes() + self.places.capacity() * size_of::<Place>()
    }
}

/// The weights that elements are compared by.
pub(super) enum Weights {
    /// The elements' bytes.
    Themselves,
    /// Numbers, none of them NaN.
    Scores(Vec<f64>),
    /// Texts; those that are not there come first.
    Texts { texts: Items, there: Vec<bool> },
}

impl Weights {
    /// Sorts the numbers of elements.
    pub(super) fn sort(&self, items: &Items, order: &mut [usize], descending: bool) {
        order.sort_by(|&a, &b| self.compare(items, (a, b), descending));
    }

    /// The order of two elements.
    pub(super) fn compare(&self, items: &Items, (a, b): (usize, usize), descending: bool) -> Ordering {
        let order = match self {
            Weights::Themselves => items.get(a).cmp(items.get(b)),
            Weights::Scores(scores) => {
                let by_score = scores[a].partial_cmp(&scores[b]).expect("no score is NaN");
                by_score.then_with(|| items.get(a).cmp(items.get(b)))
            }
            Weights::Texts { texts, there } => match (there[a], there[b]) {
                (true, true) => texts.get(a).cmp(texts.get(b)),
                (a, b) => a.cmp(&b),
            },
        };
        if descending { order.reverse() } else { order }
    }

    /// Bytes that they take.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Weights::Themselves => 0,
            Weights::Scores(scores) => scores.capacity() * size_of::<f64>(),
            Weights::Texts { texts, there } => texts.held_bytes() + there.capacity(),
        }
    }
}

/// A text as a number, with the liberties of C's `strtod`: white space may stand in front, a zero byte ends it, and
/// nothing at all is 0.
pub(super) fn score(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    parse_f64(&text[start..])
}

#[cfg(test)]
mod tests {
    use super::{Items, Weights, score};

    #[test]
    fn scores_are_read_as_strtod_reads_them() {
        for (text, number) in
            [("", 0.0), ("12", 12.0), (" \t-1.5e3", -1500.0), ("7\0x", 7.0), ("\0", 0.0), ("0x10", 16.0)]
        {
            assert_eq!(score(text.as_bytes()), Some(number), "{text:?}");
        }
        assert_eq!(score(b"-inf"), Some(f64::NEG_INFINITY));
        for bad in [" ", "1 ", "x", "nan", "1e999", "--1", "1,5"] {
            assert_eq!(score(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn ties_are_broken_by_bytes_for_numbers_only() {
        let mut items = Items::default();
        ["b", "a", "c"].iter().for_each(|item| items.push(item.as_bytes()));
        let sorted = |weights: &Weights, descending| {
            let mut order = vec![0, 1, 2];
            weights.sort(&items, &mut order, descending);
            order
        };
        assert_eq!(sorted(&Weights::Scores(vec![0.0; 3]), false), [1, 0, 2]);
        assert_eq!(sorted(&Weights::Scores(vec![0.0, -0.0, 0.0]), true), [2, 0, 1]);
        let mut texts = Items::default();
        ["x", "", "x"].iter().for_each(|text| texts.push(text.as_bytes()));
        let weights = Weights::Texts { texts, there: vec![true, false, true] };
        assert_eq!(sorted(&weights, false), [1, 0, 2]);
        assert_eq!(sorted(&weights, true), [0, 2, 1]);
        assert_eq!(sorted(&Weights::Themselves, true), [2, 0, 1]);
    }
}
