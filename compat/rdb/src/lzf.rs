//! LZF: the compression of long strings in an RDB file.
//!
//! ```text
//! control byte   000lllll                     l + 1 bytes follow as they are
//!                llldddddd dddddddd           l in 1..=6: copy l + 2 bytes from d + 1 bytes back
//!                111ddddd nnnnnnnn dddddddd   copy n + 9 bytes from d + 1 bytes back
//! ```
//! A copy may overlap what it writes. Distances are at most 8192 bytes, copies at most 264.

/// Longest run of bytes that one control byte introduces.
pub(crate) const LITERAL_MAX: usize = 32;
/// Longest copy.
pub(crate) const COPY_MAX: usize = 264;
/// Shortest copy.
pub(crate) const COPY_MIN: usize = 3;
/// Farthest distance of a copy.
pub(crate) const DISTANCE_MAX: usize = 1 << 13;
/// Bits of the largest table that remembers where three bytes were seen.
const TABLE_BITS_MAX: u32 = 14;
/// Bits of the table for the shortest strings.
const TABLE_BITS_MIN: u32 = 6;

/// Why a string is not expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not expand to its length, or a copy begins before the first byte.
    Damaged,
    /// The system refuses the memory.
    Memory,
}

/// The table of a compressor, kept between calls: at most 64 KB.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<u32>);

impl Table {
    /// Begins a string of this length; gives the bits of the table's part that it uses. It costs by the string's length
    /// what is forgotten here.
    fn begin(&mut self, len: usize) -> u32 {
        let bits = len.next_power_of_two().trailing_zeros().clamp(TABLE_BITS_MIN, TABLE_BITS_MAX);
        self.0.clear();
        self.0.resize(1 << bits, 0);
        bits
    }
}

/// Appends `from` compressed to `to`; false, and `to` is as it was, unless that takes at most `most` bytes.
pub(crate) fn compress(table: &mut Table, from: &[u8], most: usize, to: &mut Vec<u8>) -> bool {
    let start = to.len();
    if u32::try_from(from.len()).is_err() || !shrink(table, from, start + most, to) {
        to.truncate(start);
        return false;
    }
    true
}

/// Three bytes as a place in the table.
fn place(from: &[u8], at: usize, bits: u32) -> usize {
    let three = u32::from(from[at]) << 16 | u32::from(from[at + 1]) << 8 | u32::from(from[at + 2]);
    (three.wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize
}

fn shrink(table: &mut Table, from: &[u8], end: usize, to: &mut Vec<u8>) -> bool {
    // Places are kept plus one, so that zero is none: those of the last string would point into another one.
    let bits = table.begin(from.len());
    let (mut at, mut literal) = (0, 0);
    while at + 2 < from.len() {
        let entry = &mut table.0[place(from, at, bits)];
        let seen = std::mem::replace(entry, at as u32 + 1) as usize;
        let distance = (at + 1).wrapping_sub(seen);
        if seen == 0 || distance > DISTANCE_MAX || from[seen - 1..seen + 2] != from[at..at + 3] {
            at += 1;
            continue;
        }
        let seen = seen - 1;
        let longest = COPY_MAX.min(from.len() - at);
        let len = 3 + from[at + 3..at + longest].iter().zip(&from[seen + 3..]).take_while(|(a, b)| a == b).count();
        push_literals(&from[literal..at], to);
        push_copy(len, distance - 1, to);
        if to.len() > end {
            return false;
        }
        let next = at + len;
        // Some of the places inside the copy: enough that the next repetition is found.
        for inside in (at + 1..next).rev().take(2).filter(|inside| inside + 2 < from.len()) {
            table.0[place(from, inside, bits)] = inside as u32 + 1;
        }
        (at, literal) = (next, next);
    }
    push_literals(&from[literal..], to);
    to.len() <= end
}

/// Appends bytes as they are.
pub(crate) fn push_literals(bytes: &[u8], to: &mut Vec<u8>) {
    for run in bytes.chunks(LITERAL_MAX) {
        to.push(run.len() as u8 - 1);
        to.extend_from_slice(run);
    }
}

/// Appends a copy of `len` bytes from `back + 1` bytes back.
pub(crate) fn push_copy(len: usize, back: usize, to: &mut Vec<u8>) {
    let (high, low) = ((back >> 8) as u8, back as u8);
    match len - 2 {
        short @ ..7 => to.push((short as u8) << 5 | high),
        long => to.extend_from_slice(&[7 << 5 | high, (long - 7) as u8]),
    }
    to.push(low);
}

/// Appends `from` expanded to `to`, which gives exactly `len` bytes.
///
/// # Errors
/// [`Fault::Damaged`] if it does not, or if a copy begins before the first byte; [`Fault::Memory`] if the system
/// refuses the memory.
pub(crate) fn expand(from: &[u8], len: usize, to: &mut Vec<u8>) -> Result<(), Fault> {
    let start = to.len();
    make_room(from.len(), len, to)?;
    let done = expand_some(from, (start, start + len), usize::MAX, to)?;
    debug_assert_eq!(done, from.len(), "nothing but the end stops it");
    if to.len() - start == len { Ok(()) } else { Err(Fault::Damaged) }
}

/// Bytes that `from` compressed bytes may expand to, where they say to be `len`: a length that lies costs no more than this.
pub(crate) fn expanded_bytes(from: u64, len: u64) -> u64 {
    // The three bytes of a long copy make the most, and two bytes stand for the last one where a string has no third.
    len.min((from.saturating_add(2) / 3).saturating_mul(COPY_MAX as u64))
}

/// Has `to` take what [`expanded_bytes`] says without another allocation.
///
/// # Errors
/// The system refuses the memory.
pub(crate) fn make_room(from: usize, len: usize, to: &mut Vec<u8>) -> Result<(), Fault> {
    let bytes = expanded_bytes(from as u64, len as u64) as usize;
    to.try_reserve_exact(bytes).map_err(|_| Fault::Memory)
}

/// Appends what `from` expands to, until that are `most` bytes, about, or `from` ends: the bytes of `from` that were used. Copies
/// begin at `start` or behind it, and the last byte stands before `end`.
///
/// # Errors
/// That is not so.
pub(crate) fn expand_some(
    from: &[u8],
    (start, end): (usize, usize),
    most: usize,
    to: &mut Vec<u8>,
) -> Result<usize, Fault> {
    let (mut rest, stop) = (from, to.len().saturating_add(most));
    while let Some((&control, behind)) = rest.split_first().filter(|_| to.len() < stop) {
        rest = obey(control, behind, (start, end), to).ok_or(Fault::Damaged)?;
    }
    Ok(from.len() - rest.len())
}

/// Bytes behind a control byte that belong to it.
pub(crate) fn bytes_of(control: u8) -> usize {
    match usize::from(control) {
        run if run < LITERAL_MAX => run + 1,
        copy if copy >> 5 == 7 => 2,
        _ => 1,
    }
}

/// Appends what a control byte and the bytes behind it stand for to `to`, where copies begin at `start` or behind it and
/// the last byte stands before `end`. Returns what is behind; None if that is not so, or bytes are missing.
#[inline]
pub(crate) fn obey<'f>(
    control: u8,
    behind: &'f [u8],
    (start, end): (usize, usize),
    to: &mut Vec<u8>,
) -> Option<&'f [u8]> {
    let (control, room) = (usize::from(control), end.saturating_sub(to.len()));
    if control < LITERAL_MAX {
        let (run, behind) = behind.split_at_checked(control + 1).filter(|(run, _)| run.len() <= room)?;
        to.extend_from_slice(run);
        return Some(behind);
    }
    let (count, back, behind) = copy_of(control, behind)?;
    if back > to.len() - start || count > room {
        return None;
    }
    copy_back(to, back, count);
    Some(behind)
}

/// The bytes of a copy, their distance, and what is behind it.
fn copy_of(control: usize, rest: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (count, rest) = match control >> 5 {
        7 => {
            let (&more, rest) = rest.split_first()?;
            (usize::from(more) + 9, rest)
        }
        count => (count + 2, rest),
    };
    let (&low, rest) = rest.split_first()?;
    Some((count, ((control & 0x1f) << 8 | usize::from(low)) + 1, rest))
}

fn copy_back(to: &mut Vec<u8>, back: usize, count: usize) {
    let from = to.len() - back;
    if back >= count {
        to.extend_from_within(from..from + count);
        return;
    }
    // It overlaps: what has been written is its own source, and doubles with each step.
    let mut left = count;
    while left > 0 {
        let piece = left.min(to.len() - from);
        to.extend_from_within(from..from + piece);
        left -= piece;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn both_ways(bytes: &[u8]) -> usize {
        let (mut table, mut small, mut large) = (Table::default(), b"front".to_vec(), b"x".to_vec());
        assert!(compress(&mut table, bytes, bytes.len() + bytes.len() / 32 + 1, &mut small));
        expand(&small[5..], bytes.len(), &mut large).unwrap_or_else(|fault| panic!("{bytes:?}: {fault:?}"));
        assert_eq!(&large[1..], bytes);
        small.len() - 5
    }

    #[test]
    fn what_repeats_becomes_short() {
        assert!(both_ways(&[b'a'; 100_000]) < 1200);
        assert!(both_ways(&b"abcdefgh".repeat(1000)) < 120);
        assert_eq!(both_ways(b""), 0);
        assert_eq!(both_ways(b"ab"), 3);
    }

    #[test]
    fn memory_that_is_refused_is_no_damage() {
        let small = [0x00, b'a', 0xe0, 0xff, 0x00];
        let refused = make_room(usize::MAX / 128, usize::MAX / 2 + 1, &mut Vec::new());
        assert!(matches!(refused, Err(Fault::Memory)));
        // A length that lies takes no more memory than the bytes may make.
        let mut to = Vec::new();
        assert!(matches!(expand(&small, 1 << 30, &mut to), Err(Fault::Damaged)));
        assert!(to.capacity() <= 2 * COPY_MAX, "{} bytes", to.capacity());
    }

    #[test]
    fn some_steps_make_what_one_makes() {
        let (mut table, mut small, text) = (Table::default(), Vec::new(), b"some words, ".repeat(2000));
        assert!(compress(&mut table, &text, text.len(), &mut small));
        let (mut to, mut at, mut steps) = (b"front".to_vec(), 0, 0);
        while at < small.len() {
            let before = to.len();
            at += expand_some(&small[at..], (5, 5 + text.len()), 1000, &mut to).expect("it is sound");
            assert!(to.len() - before < 1000 + COPY_MAX);
            steps += 1;
        }
        assert!(to[5..] == text && steps > 15, "{steps} steps");
    }

    #[test]
    fn a_string_that_does_not_shrink_leaves_nothing() {
        let (mut table, mut to) = (Table::default(), b"front".to_vec());
        assert!(!compress(&mut table, b"abcdefghijklmnopqrstuvwxyz", 22, &mut to));
        assert_eq!(to, b"front");
    }

    #[test]
    fn damage_is_refused() {
        let refused = |from: &[u8], len: usize| matches!(expand(from, len, &mut Vec::new()), Err(Fault::Damaged));
        assert!(refused(&[0x05, b'a'], 6), "a run that ends early");
        assert!(refused(&[0x00, b'a'], 2), "too few bytes");
        assert!(refused(&[0x01, b'a', b'b'], 1), "too many bytes");
        assert!(refused(&[0x20, 0x00], 3), "a copy of nothing");
        assert!(refused(&[0x00, b'a', 0xe0, 0xff], 300), "a copy without its distance");
        assert!(refused(&[0x00, b'a', 0xe0, 0xff, 0x00], 200), "a copy that is too long");
        assert!(expand(&[0x00, b'a', 0xe0, 0xff, 0x00], 265, &mut Vec::new()).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_go_both_ways(bytes in vec(0u8..4, 0..3000)) {
            both_ways(&bytes);
        }

        #[test]
        fn long_distances_go_both_ways(gap in 0usize..20_000, word in vec(any::<u8>(), 3..400)) {
            let mut bytes = word.clone();
            bytes.extend((0..gap).map(|i| ((i * 7919) >> 5) as u8));
            bytes.extend_from_slice(&word);
            both_ways(&bytes);
        }

        #[test]
        fn any_bytes_are_answered(bytes in vec(any::<u8>(), 0..200), len in 0usize..5000) {
            let mut to = Vec::new();
            if expand(&bytes, len, &mut to).is_ok() {
                prop_assert_eq!(to.len(), len);
            }
        }
    }
}
