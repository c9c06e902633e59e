//! The rest of a pattern behind a star, matched within a bound where trying each place has taken too long.
//!
//! ```text
//!   *  plain  *  a?[bc]  *  end         a stretch is what stands between two stars: items, each of one byte
//!      │         │          └ the last one stands at the end of the text
//!      │         └ with wildcards: all its places are tried at once, a bit each
//!      └ nothing but bytes: searched in linear time
//! ```
//! Each stretch is taken at the first place behind the one before: whatever a later place leaves, that one leaves as well.

use memchr::memmem;

use super::set::{self, Mask};
use super::{item, stars};
use crate::refusable::reserve_exact;

/// Items of a stretch that is compared place by place: fewer words than the table of a longer one would take to make.
const FEW: usize = 16;
/// Items of the longest stretch with wildcards, or without regard to case, that is searched for: 16 words of bits.
pub(super) const ITEMS_MAX: usize = 1024;

/// Whether `text` is anything, then what `pattern` says, which begins with an item. Adds up the steps: an item or a word that is
/// looked at.
pub(super) fn matches_behind_star(mut pattern: &[u8], mut text: &[u8], nocase: bool, steps: &mut u64) -> bool {
    loop {
        let Some(stretch) = Stretch::measure(pattern, text.len(), nocase) else { return false };
        let (own, rest) = pattern.split_at(stretch.length);
        *steps += (own.len() + stretch.items) as u64;
        if rest.is_empty() {
            return ends_with(own, &text[text.len() - stretch.items..], nocase);
        }
        let found = match stretch {
            Stretch { items: 0, .. } => unreachable!("stars in a row are one"),
            Stretch { form: Form::Plain, .. } => search_plain((own, stretch.items), text, steps),
            Stretch { items: ..=FEW, .. } => search_few(own, text, nocase, steps),
            Stretch { items: ..=ITEMS_MAX, .. } => search_many((own, stretch.items), text, nocase, steps),
            Stretch { .. } => None,
        };
        let Some(start) = found else { return false };
        text = &text[start + stretch.items..];
        pattern = &rest[stars(rest)..];
        if pattern.is_empty() {
            return true;
        }
    }
}

/// The items of a stretch.
#[derive(Clone, Copy)]
enum Form {
    /// Bytes, each of which stands for itself alone.
    Plain,
    /// Wildcards or letters of any case as well.
    Wild,
}

/// How long a stretch is.
struct Stretch {
    items: usize,
    /// Bytes of the pattern.
    length: usize,
    form: Form,
}

impl Stretch {
    /// Measures the stretch with which `pattern` begins; None if it has more items than `most`.
    fn measure(pattern: &[u8], most: usize, nocase: bool) -> Option<Stretch> {
        let form = if nocase { Form::Wild } else { Form::Plain };
        let mut stretch = Stretch { items: 0, length: 0, form };
        loop {
            let length = match pattern[stretch.length..] {
                [] | [b'*', ..] => return Some(stretch),
                [b'?', ..] => {
                    stretch.form = Form::Wild;
                    1
                }
                [b'[', ref set @ ..] => {
                    stretch.form = Form::Wild;
                    1 + set::length(set)
                }
                [b'\\', _, ..] => 2,
                _ => 1,
            };
            stretch.items += 1;
            stretch.length += length;
            if stretch.items > most {
                return None;
            }
        }
    }
}

/// Whether each item of a stretch holds for the byte in its place.
fn ends_with(mut stretch: &[u8], text: &[u8], nocase: bool) -> bool {
    text.iter().all(|byte| {
        let (holds, length) = item(stretch, *byte, nocase);
        stretch = &stretch[length..];
        holds
    })
}

/// Where plain bytes begin first. Without memory for a copy of them they are nowhere.
fn search_plain((stretch, items): (&[u8], usize), text: &[u8], steps: &mut u64) -> Option<usize> {
    let mut unescaped = Vec::new();
    let bytes = if items == stretch.len() {
        stretch
    } else {
        reserve_exact(&mut unescaped, items).ok()?;
        let mut rest = stretch;
        while let [first, behind @ ..] = rest {
            let (byte, behind) =
                if let ([escaped, behind @ ..], b'\\') = (behind, first) { (escaped, behind) } else { (first, behind) };
            unescaped.push(*byte);
            rest = behind;
        }
        &unescaped
    };
    debug_assert_eq!(bytes.len(), items);
    let found = memmem::find(text, bytes);
    *steps += found.map_or(text.len(), |start| start + items) as u64;
    found
}

/// Shows the bytes for which each item of a stretch holds.
fn each_mask(mut stretch: &[u8], nocase: bool, mut show: impl FnMut(Mask)) {
    loop {
        let (mask, length) = match *stretch {
            [] => return,
            [b'?', ..] => (Mask::ALL, 1),
            [b'[', ref set @ ..] => {
                let (mask, length) = Mask::of_set(set, nocase);
                (mask, 1 + length)
            }
            [b'\\', escaped, ..] => (Mask::of_byte(escaped, nocase), 2),
            [plain, ..] => (Mask::of_byte(plain, nocase), 1),
        };
        show(mask);
        stretch = &stretch[length..];
    }
}

/// Where a stretch of few items begins first: each place is tried.
fn search_few(stretch: &[u8], text: &[u8], nocase: bool, steps: &mut u64) -> Option<usize> {
    let (mut masks, mut items) = ([Mask::default(); FEW], 0);
    each_mask(stretch, nocase, |mask| {
        masks[items] = mask;
        items += 1;
    });
    let masks = &masks[..items];
    text.windows(items).position(|window| {
        window.iter().zip(masks).all(|(byte, mask)| {
            *steps += 1;
            mask.holds(*byte)
        })
    })
}

/// Where a stretch of many items begins first: all places are tried at once. Bit n of the state says that the n + 1 items before
/// the next byte of the text hold for the bytes before it; each byte moves all bits on, and leaves those whose item it is.
fn search_many((stretch, items): (&[u8], usize), text: &[u8], nocase: bool, steps: &mut u64) -> Option<usize> {
    let words = items.div_ceil(64);
    assert!((1..=ITEMS_MAX / 64).contains(&words), "a stretch of {items} items");
    // For each byte, the items that hold for it.
    let mut table = vec![0_u64; 256 * words];
    let (mut nth, mut bits) = (0, 0);
    each_mask(stretch, nocase, |mask| {
        for byte in mask.bytes() {
            table[usize::from(byte) * words + nth / 64] |= 1 << (nth % 64);
        }
        bits += 256;
        nth += 1;
    });
    debug_assert_eq!(nth, items);
    let mut state = [0_u64; ITEMS_MAX / 64];
    let (state, whole) = (&mut state[..words], 1_u64 << ((items - 1) % 64));
    let end = text.iter().position(|byte| {
        let mut carry = 1;
        for (word, holding) in state.iter_mut().zip(&table[usize::from(*byte) * words..]) {
            let moved = *word << 1 | carry;
            carry = *word >> 63;
            *word = moved & holding;
        }
        state[words - 1] & whole != 0
    });
    *steps += bits + (end.map_or(text.len(), |end| end + 1) * words) as u64;
    end.map(|end| end + 1 - items)
}
