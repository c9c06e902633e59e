//! Walking over many entries, and searching them.
//!
//! Plainly, a walk reads the size of an entry, adds it, and reads the next; a search compares each entry on its way.
//! Each step then waits for the load of the one before. Most nodes hold entries of one size, or pairs of two, so the
//! walk guesses that the next four have the sizes of the two before:
//!
//! ```text
//!     at        +a         +a+b       +a+b+a     +a+b+a+b
//!     | a bytes | b bytes  | a bytes  | b bytes  |          sizes that are checked independently of each other
//! ```
//!
//! The first byte gives the size of all but long entries, so four loads that wait for nothing confirm the guess; the first
//! one that is right makes the next one an entry's first byte. Where it is wrong, four plain steps follow before
//! the next guess: on nodes of mixed sizes that costs next to nothing (the bench `walk_8k`).

use super::entry::{Coded, SIZE_BY_FIRST, size_at, size_before, size_by_last};

/// Entries to a guess.
const GROUP: usize = 4;

/// The entry that is searched for. Its first byte is compared first, as it holds the length of most; then eight more: all of an
/// entry that has no more (without its back length), the last eight of others, because names in one collection tend to
/// start alike.
#[derive(Clone, Copy)]
struct Needle<'a> {
    coded: &'a Coded<'a>,
    first: u8,
    word: u64,
    mask: u64,
    /// Where the eight bytes start in the entry.
    offset: usize,
}

impl<'a> Needle<'a> {
    #[inline]
    fn new(coded: &'a Coded<'a>) -> Needle<'a> {
        let body = coded.body();
        debug_assert!(body > 0, "an entry of no bytes");
        let mut bytes = [0; 8];
        coded.copy_body_end(&mut bytes[..body.min(8)]);
        let mask = u64::MAX >> (8 * (8 - body.min(8)));
        let word = u64::from_le_bytes(bytes);
        Needle { coded, first: coded.first_byte(), word, mask, offset: body.saturating_sub(8) }
    }

    /// Whether the entry at `at` is the one.
    #[inline]
    fn is_at(&self, buf: &[u8], at: usize) -> bool {
        buf[at] == self.first && self.is_rest(buf, at)
    }

    /// Whether the entry at `at`, whose first byte is right, is the one.
    #[inline]
    fn is_rest(&self, buf: &[u8], at: usize) -> bool {
        match buf[at..].get(self.offset..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(bytes) => {
                let same = u64::from_le_bytes(*bytes) & self.mask == self.word;
                same && (self.offset == 0 || self.is_whole(buf, at))
            }
            None => self.is_whole(buf, at),
        }
    }

    #[inline(never)]
    fn is_whole(&self, buf: &[u8], at: usize) -> bool {
        self.coded.is_at(buf, at)
    }
}

/// Offset of the entry `many` behind that at `at`. The entries end with `buf`.
pub(super) fn forward(buf: &[u8], mut at: usize, mut many: usize) -> usize {
    debug_assert!(at + many <= buf.len(), "{many} entries behind {at} of {} bytes", buf.len());
    let (mut a, mut b) = (0, 0);
    while many >= GROUP {
        if follow(buf, at, a, b).is_some() {
            at += 2 * (a + b);
        } else {
            at += size_at(buf, at);
            at += size_at(buf, at);
            a = size_at(buf, at);
            at += a;
            b = size_at(buf, at);
            at += b;
        }
        many -= GROUP;
    }
    (0..many).fold(at, |at, _| at + size_at(buf, at))
}

/// Offset of the entry `many` before what starts at `at`. The entries start at `start`.
pub(super) fn backward(buf: &[u8], mut at: usize, start: usize, mut many: usize) -> usize {
    debug_assert!(start + many <= at && at <= buf.len(), "{many} entries before {at} in {start}..{}", buf.len());
    let (mut a, mut b) = (0, 0);
    while many >= GROUP {
        if precede(buf, at, start, a, b) {
            at -= 2 * (a + b);
        } else {
            at -= size_before(buf, at);
            at -= size_before(buf, at);
            a = size_before(buf, at);
            at -= a;
            b = size_before(buf, at);
            at -= b;
        }
        many -= GROUP;
    }
    (0..many).fold(at, |at, _| at - size_before(buf, at))
}

/// The first entry equal to `needle` among that at `at` and every `stride`th behind it: its offset, and how many entries
/// lie between. The entries end with `buf`.
pub(super) fn find(buf: &[u8], needle: &Coded<'_>, at: usize, stride: usize) -> Option<(usize, usize)> {
    let needle = Needle::new(needle);
    match stride {
        0 => panic!("a search moves on"),
        1 => find_guessing::<false>(buf, needle, at),
        2 => find_guessing::<true>(buf, needle, at),
        _ => find_plainly(buf, needle, at, stride),
    }
}

/// The plain meaning of a search.
fn find_plainly(buf: &[u8], needle: Needle<'_>, mut at: usize, stride: usize) -> Option<(usize, usize)> {
    let mut passed = 0;
    while at < buf.len() {
        if needle.is_at(buf, at) {
            return Some((at, passed));
        }
        for _ in 0..stride {
            if at >= buf.len() {
                return None;
            }
            at += size_at(buf, at);
        }
        passed += stride;
    }
    None
}

/// A search by groups of four entries; with `PAIRS`, every second one is passed over.
fn find_guessing<const PAIRS: bool>(buf: &[u8], needle: Needle<'_>, mut at: usize) -> Option<(usize, usize)> {
    let (mut a, mut b, mut passed) = (0, 0, 0);
    loop {
        if let Some(firsts) = follow(buf, at, a, b) {
            if firsts[0] == needle.first && needle.is_rest(buf, at) {
                return Some((at, passed));
            }
            if !PAIRS && firsts[1] == needle.first && needle.is_rest(buf, at + a) {
                return Some((at + a, passed + 1));
            }
            if firsts[2] == needle.first && needle.is_rest(buf, at + a + b) {
                return Some((at + a + b, passed + 2));
            }
            if !PAIRS && firsts[3] == needle.first && needle.is_rest(buf, at + a + b + a) {
                return Some((at + a + b + a, passed + 3));
            }
            at += 2 * (a + b);
            passed += GROUP;
            continue;
        }
        for n in 0..GROUP {
            if at >= buf.len() {
                return None;
            }
            if !(PAIRS && n % 2 == 1) && needle.is_at(buf, at) {
                return Some((at, passed + n));
            }
            let size = size_at(buf, at);
            (a, b) = (b, size);
            at += size;
        }
        passed += GROUP;
    }
}

/// The last entry equal to `needle` among that at `at` and those before it: its offset, and how many entries lie
/// between. The entries start at `start`.
pub(super) fn rfind(buf: &[u8], needle: &Coded<'_>, mut at: usize, start: usize) -> Option<(usize, usize)> {
    let (needle, mut passed) = (Needle::new(needle), 0);
    loop {
        debug_assert!(start <= at && at < buf.len(), "a search at {at} of {start}..{}", buf.len());
        if needle.is_at(buf, at) {
            return Some((at, passed));
        }
        if at <= start {
            return None;
        }
        at -= size_before(buf, at);
        passed += 1;
    }
}

/// The first bytes of the next four entries, if their sizes are a, b, a, b.
#[inline]
fn follow(buf: &[u8], at: usize, a: usize, b: usize) -> Option<[u8; GROUP]> {
    let entries = buf.get(at..at + 2 * (a + b))?;
    if a == 0 || b == 0 {
        return None;
    }
    let firsts = [entries[0], entries[a], entries[a + b], entries[a + b + a]];
    let is = |n: usize, size: usize| usize::from(SIZE_BY_FIRST[usize::from(firsts[n])]) == size;
    (is(0, a) & is(1, b) & is(2, a) & is(3, b)).then_some(firsts)
}

/// Whether the four entries before `at` have the sizes a, b, a, b, the last one first.
#[inline]
fn precede(buf: &[u8], at: usize, start: usize, a: usize, b: usize) -> bool {
    if a == 0 || b == 0 || at - start < 2 * (a + b) {
        return false;
    }
    let is = |end: usize, size: usize| size_by_last(buf[end - 1]) == size;
    is(at, a) & is(at - a, b) & is(at - (a + b), a) & is(at - (a + b + a), b)
}
