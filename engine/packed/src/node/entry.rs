//! One entry of a node: a head, the data, and a back length that a reader from behind sees first.
//!
//! ```text
//!   first byte    7 6 5 4 3 2 1 0
//!                +-+-------------+
//!   small        |0| value 0-127 |                          the whole entry: no data, no back length
//!                +-+-+-----------+
//!   string       |1 0| length    | data                     0 to 63 bytes
//!                +---+-+---------+
//!   integer      |1 1 0| high 5  | low 8                    13 bits, signed
//!                +-----+-+-------+
//!   string       |1 1 1 0| high 4| low 8 | data             64 to 4095 bytes
//!                +-------+-------+
//!   string       |1 1 1 1 0 0 0 0| length, 32 | data        4096 bytes and more
//!                +-------+-------+
//!   integer      |1 1 1 1| n - 1 |  n bytes                 signed, n = 2 to 8
//!                +-------+-------+
//!
//!   last byte    00-7f   the whole entry is this byte
//!                80-ef   body of 1 to 112 bytes (body: the entry without its back length)
//!                f0-fd   body of 113 to 3696 bytes: 256 times the low nibble, and the byte before
//!                fe      body in the two bytes before (little-endian)
//!                ff      body in the four bytes before
//! ```
//!
//! Every integer has one form, the shortest; so has every length. Two entries are equal where their bytes are, and
//! a search compares bytes. Text that is the canonical decimal form of an integer becomes one ([`Coded::of`]) unless the
//! caller wants its bytes as they are ([`Coded::raw`]). A byte below 0x80 at either end is an entry by itself, which
//! is why small integers cost one byte and not two.

use varve_base::number::{digits, parse_i64, push_i64, write_i64};

/// Longest string that an entry can hold, in bytes. More than any protocol or setting allows.
pub const STRING_MAX: usize = u32::MAX as usize - 64;

const SMALL_MAX: i64 = 0x7f;
const MIDDLE: std::ops::RangeInclusive<i64> = -4096..=4095;
const STRING_6: u8 = 0x80;
const MIDDLE_13: u8 = 0xc0;
const STRING_12: u8 = 0xe0;
const STRING_32: u8 = 0xf0;
/// Plus the number of bytes less one.
const INTEGER: u8 = 0xf0;
const INTEGER_2: u8 = INTEGER + 1;
const INTEGER_8: u8 = INTEGER + 7;
const STRING_6_MAX: usize = 63;
const STRING_12_MAX: usize = 4095;

/// The first bytes of the forms do not overlap.
const _: () = assert!(STRING_6 as usize + STRING_6_MAX < MIDDLE_13 as usize);
const _: () = assert!(STRING_12 as usize + (STRING_12_MAX >> 8) < STRING_32 as usize);
const _: () = assert!(MIDDLE_13 | 0x1f < STRING_12 && SMALL_MAX < STRING_6 as i64);

const BACK_1: u8 = 0x80;
const BACK_2: u8 = 0xf0;
const BACK_3: u8 = 0xfe;
const BACK_5: u8 = 0xff;
const BACK_1_MAX: usize = 112;
const BACK_2_MAX: usize = BACK_1_MAX + 14 * 256;
/// The last bytes of the forms do not overlap.
const _: () = assert!(BACK_1 as usize + BACK_1_MAX - 1 < BACK_2 as usize);
const _: () = assert!(BACK_2 as usize + ((BACK_2_MAX - BACK_1_MAX - 1) >> 8) < BACK_3 as usize && BACK_3 < BACK_5);

/// The content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedEntry<'a> {
    /// An integer; its text is its decimal form.
    Int(i64),
    /// A string.
    Bytes(&'a [u8]),
}

impl<'a> PackedEntry<'a> {
    /// Length of the text in bytes.
    pub fn text_len(self) -> usize {
        match self {
            PackedEntry::Int(value) => usize::from(value < 0) + digits(value.unsigned_abs()),
            PackedEntry::Bytes(bytes) => bytes.len(),
        }
    }

    /// The text; that of an integer is written into `scratch`.
    pub fn text<'b>(self, scratch: &'b mut [u8; 20]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            PackedEntry::Bytes(bytes) => bytes,
            PackedEntry::Int(value) => write_i64(scratch, value),
        }
    }

    /// Appends the text to `out`.
    pub fn push_to(self, out: &mut Vec<u8>) {
        match self {
            PackedEntry::Int(value) => push_i64(out, value),
            PackedEntry::Bytes(bytes) => out.extend_from_slice(bytes),
        }
    }

    /// The entry as it would be written again.
    pub fn coded(self) -> Coded<'a> {
        match self {
            PackedEntry::Int(value) => Coded::int(value),
            PackedEntry::Bytes(bytes) => Coded::raw(bytes),
        }
    }
}

/// An entry ready to be written or searched for: encoded once, however often it is compared.
#[derive(Clone, Copy, Debug)]
pub struct Coded<'a> {
    head: [u8; 9],
    head_len: u8,
    back_len: u8,
    back: [u8; 5],
    data: &'a [u8],
}

/// A value that can be written as an entry.
pub trait Encoded {
    /// Bytes of the whole entry.
    fn size(&self) -> usize;
    /// Writes the entry over the first [`size`](Encoded::size) bytes of `out`.
    fn write(&self, out: &mut [u8]);
}

/// A string of up to 63 bytes that is no integer, which most are: its entry is a byte, the string, a byte.
#[derive(Clone, Copy, Debug)]
pub struct Short<'a>(&'a [u8]);

impl<'a> Short<'a> {
    /// `text`, if it is one.
    #[inline(always)]
    pub fn of(text: &'a [u8]) -> Option<Short<'a>> {
        let digit = text.first().is_some_and(|&first| first.is_ascii_digit() || first == b'-');
        (text.len() <= STRING_6_MAX && !(digit && parse_i64(text).is_some())).then_some(Short(text))
    }
}

impl Encoded for Short<'_> {
    #[inline(always)]
    fn size(&self) -> usize {
        self.0.len() + 2
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        debug_assert!(self.0.len() <= STRING_6_MAX, "{} bytes in a short string", self.0.len());
        let [head, rest @ ..] = &mut out[..self.0.len() + 2] else { unreachable!("two bytes at least") };
        *head = STRING_6 | self.0.len() as u8;
        let (data, back) = rest.split_at_mut(self.0.len());
        copy_data(data, self.0);
        back[0] = BACK_1 + self.0.len() as u8;
    }
}

impl Encoded for Coded<'_> {
    #[inline]
    fn size(&self) -> usize {
        Coded::size(self)
    }

    #[inline]
    fn write(&self, out: &mut [u8]) {
        Coded::write(self, out);
    }
}

impl<'a> Coded<'a> {
    /// `text` as an integer if it is the canonical form of one, else as a string.
    #[inline]
    pub fn of(text: &'a [u8]) -> Coded<'a> {
        match parse_i64(text) {
            Some(value) => Coded::int(value),
            None => Coded::raw(text),
        }
    }

    /// `bytes` as a string, whatever they say. At most [`STRING_MAX`] bytes.
    #[inline]
    pub fn raw(bytes: &'a [u8]) -> Coded<'a> {
        let len = bytes.len();
        let mut head = [0; 9];
        let head_len = if len <= STRING_6_MAX {
            head[0] = STRING_6 | len as u8;
            1
        } else if len <= STRING_12_MAX {
            head[0] = STRING_12 | (len >> 8) as u8;
            head[1] = len as u8;
            2
        } else {
            assert!(len <= STRING_MAX, "a string of {len} bytes is no entry");
            head[0] = STRING_32;
            head[1..5].copy_from_slice(&(len as u32).to_le_bytes());
            5
        };
        Coded::finish(head, head_len, bytes)
    }

    /// An integer.
    #[inline]
    pub fn int(value: i64) -> Coded<'a> {
        let mut head = [0; 9];
        if (0..=SMALL_MAX).contains(&value) {
            head[0] = value as u8;
            return Coded { head, head_len: 1, back_len: 0, back: [0; 5], data: &[] };
        }
        if MIDDLE.contains(&value) {
            head[0] = MIDDLE_13 | ((value >> 8) as u8 & 0x1f);
            head[1] = value as u8;
            return Coded::finish(head, 2, &[]);
        }
        let n = integer_bytes(value);
        debug_assert!((2..=8).contains(&n), "{value} in {n} bytes");
        head[0] = INTEGER + (n - 1);
        head[1..].copy_from_slice(&value.to_le_bytes());
        Coded::finish(head, 1 + n, &[])
    }

    /// Bytes of the whole entry.
    #[inline]
    pub fn size(&self) -> usize {
        usize::from(self.head_len) + self.data.len() + usize::from(self.back_len)
    }

    #[inline]
    fn finish(head: [u8; 9], head_len: u8, data: &'a [u8]) -> Coded<'a> {
        let body = usize::from(head_len) + data.len();
        let mut back = [0; 5];
        let back_len = if body <= BACK_1_MAX {
            back[0] = BACK_1 + (body - 1) as u8;
            1
        } else if body <= BACK_2_MAX {
            let past = body - BACK_1_MAX - 1;
            back[0] = past as u8;
            back[1] = BACK_2 + (past >> 8) as u8;
            2
        } else if let Ok(body) = u16::try_from(body) {
            back[..2].copy_from_slice(&body.to_le_bytes());
            back[2] = BACK_3;
            3
        } else {
            back[..4].copy_from_slice(&(body as u32).to_le_bytes());
            back[4] = BACK_5;
            5
        };
        Coded { head, head_len, back_len, back, data }
    }

    /// Writes the entry over the first [`size`](Coded::size) bytes of `out`.
    #[inline]
    pub(super) fn write(&self, out: &mut [u8]) {
        let (head_len, data_len) = (usize::from(self.head_len), self.data.len());
        let out = &mut out[..self.size()];
        let (head, rest) = out.split_at_mut(head_len);
        let (data, back) = rest.split_at_mut(data_len);
        copy_short(head, &self.head);
        copy_data(data, self.data);
        copy_short(back, &self.back);
    }

    /// The first byte, in which most entries differ.
    #[inline]
    pub(super) fn first_byte(&self) -> u8 {
        self.head[0]
    }

    /// Bytes of the entry without its back length.
    #[inline]
    pub(super) fn body(&self) -> usize {
        usize::from(self.head_len) + self.data.len()
    }

    /// Writes the last bytes of the body, as many as `out` has and at most all.
    #[inline]
    pub(super) fn copy_body_end(&self, out: &mut [u8]) {
        let (head_len, data_len) = (usize::from(self.head_len), self.data.len());
        debug_assert!(out.len() <= self.body(), "{} of {} bytes", out.len(), self.body());
        let from_data = data_len.min(out.len());
        let from_head = out.len() - from_data;
        let (head, data) = out.split_at_mut(from_head);
        copy_short(head, &self.head[head_len - from_head..head_len]);
        copy_short(data, &self.data[data_len - from_data..]);
    }

    /// Whether the entry at `at` is the same.
    #[inline]
    pub(super) fn is_at(&self, buf: &[u8], at: usize) -> bool {
        let Some(body) = buf.get(at..at + self.body()) else { return false };
        let (head, data) = body.split_at(self.head_len.into());
        head == &self.head[..head.len()] && data == self.data
    }
}

/// Copies all of `from`. Most strings are short, and a call to memcpy costs more than two moves of a fixed size, which may
/// overlap.
#[inline]
fn copy_data(to: &mut [u8], from: &[u8]) {
    #[inline(always)]
    fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
        if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
            *to = *from;
        }
        if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
            *to = *from;
        }
    }
    assert!(to.len() == from.len(), "as many bytes as there is place for");
    match from.len() {
        0..=3 => copy_short(to, from),
        4..=7 => ends::<4>(to, from),
        8..=15 => ends::<8>(to, from),
        16..=32 => ends::<16>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies one to nine bytes; a call to memcpy costs more than they do.
#[inline]
fn copy_short(to: &mut [u8], from: &[u8]) {
    if let ([to], [from, ..]) = (&mut *to, from) {
        *to = *from;
        return;
    }
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// Bytes of the shortest form of an integer past 13 bits: 2 to 8.
fn integer_bytes(value: i64) -> u8 {
    let significant = 65 - (value ^ (value >> 63)).leading_zeros();
    significant.div_ceil(8) as u8
}

/// Bytes of the back length of a body.
#[inline]
fn back_bytes(body: usize) -> usize {
    if body <= BACK_1_MAX {
        1
    } else if body <= BACK_2_MAX {
        2
    } else if body <= 0xffff {
        3
    } else {
        5
    }
}

#[inline]
fn u32_at(buf: &[u8], at: usize) -> usize {
    u32::from_le_bytes(buf[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Bytes of the whole entry by its first byte, 0 where more bytes are needed.
pub(super) const SIZE_BY_FIRST: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut first = 0;
    while first < 256 {
        sizes[first] = match first as u8 {
            0..STRING_6 => 1,
            STRING_6..MIDDLE_13 => first as u8 - STRING_6 + 2,
            MIDDLE_13..STRING_12 => 3,
            INTEGER_2..=INTEGER_8 => first as u8 - INTEGER + 3,
            _ => 0,
        };
        first += 1;
    }
    sizes
};

/// Bytes of the whole entry that starts at `at`.
#[inline]
pub(super) fn size_at(buf: &[u8], at: usize) -> usize {
    debug_assert!(at < buf.len(), "an entry at {at} of {} bytes", buf.len());
    let first = buf[at];
    // Computed for strings, as a load from the table would delay the next step; they are what is met most.
    if (STRING_6..MIDDLE_13).contains(&first) {
        return usize::from(first & 0x3f) + 2;
    }
    match SIZE_BY_FIRST[usize::from(first)] {
        0 => size_of_long(buf, at, first),
        size => size.into(),
    }
}

fn size_of_long(buf: &[u8], at: usize, first: u8) -> usize {
    let body = match first {
        STRING_12..STRING_32 => 2 + string_12(buf, at, first),
        STRING_32 => 5 + u32_at(buf, at + 1),
        _ => panic!("no entry starts with {first:#04x}, at {at}"),
    };
    body + back_bytes(body)
}

/// Bytes of the whole entry by its last byte, 0 where more bytes are needed.
#[inline]
pub(super) fn size_by_last(last: u8) -> usize {
    if last < BACK_1 {
        1
    } else if last < BACK_2 {
        usize::from(last - BACK_1) + 2
    } else {
        0
    }
}

/// Bytes of the whole entry that ends before `end`.
#[inline]
pub(super) fn size_before(buf: &[u8], end: usize) -> usize {
    debug_assert!(0 < end && end <= buf.len(), "an entry that ends at {end} of {} bytes", buf.len());
    let last = buf[end - 1];
    let size = match size_by_last(last) {
        0 => size_before_long(buf, end, last),
        size => size,
    };
    debug_assert!(size_at(buf, end - size) == size, "the two lengths of the entry that ends at {end} differ");
    size
}

fn size_before_long(buf: &[u8], end: usize, last: u8) -> usize {
    match last {
        BACK_3 => usize::from(u16::from_le_bytes([buf[end - 3], buf[end - 2]])) + 3,
        BACK_5 => u32_at(buf, end - 5) + 5,
        _ => {
            let past = usize::from(last - BACK_2) << 8 | usize::from(buf[end - 2]);
            BACK_1_MAX + 1 + past + 2
        }
    }
}

#[inline]
fn string_12(buf: &[u8], at: usize, first: u8) -> usize {
    usize::from(first & 0x0f) << 8 | usize::from(buf[at + 1])
}

/// The content of the entry at `at`.
#[inline]
pub(super) fn entry_at(buf: &[u8], at: usize) -> PackedEntry<'_> {
    let first = buf[at];
    let (from, len) = match first {
        0..STRING_6 => return PackedEntry::Int(i64::from(first)),
        STRING_6..MIDDLE_13 => (at + 1, usize::from(first & 0x3f)),
        MIDDLE_13..STRING_12 => {
            // The sign is bit 12; shifted to the top and back it fills what lies over it.
            let bits = i64::from(first & 0x1f) << 8 | i64::from(buf[at + 1]);
            return PackedEntry::Int(bits << 51 >> 51);
        }
        STRING_12..STRING_32 => (at + 2, string_12(buf, at, first)),
        STRING_32 => (at + 5, u32_at(buf, at + 1)),
        INTEGER_2..=INTEGER_8 => return PackedEntry::Int(integer_at(buf, at + 1, usize::from(first - INTEGER) + 1)),
        _ => panic!("no entry starts with {first:#04x}, at {at}"),
    };
    PackedEntry::Bytes(&buf[from..from + len])
}

fn integer_at(buf: &[u8], at: usize, n: usize) -> i64 {
    debug_assert!((2..=8).contains(&n), "an integer of {n} bytes");
    let mut bytes = [0; 8];
    copy_short(&mut bytes[..n], &buf[at..at + n]);
    let unused = 64 - 8 * n as u32;
    i64::from_le_bytes(bytes) << unused >> unused
}

/// Checks the entry that starts at `at` and may not reach past `end`: form, length, back length. Returns its size.
pub(super) fn check_at(buf: &[u8], at: usize, end: usize) -> Result<usize, &'static str> {
    let buf = &buf[..end];
    let first = *buf.get(at).ok_or("the entries end early")?;
    let head = match first {
        0..STRING_6 => return Ok(1),
        STRING_6..MIDDLE_13 => 1,
        MIDDLE_13..STRING_32 => 2,
        STRING_32 => 5,
        INTEGER_2..=INTEGER_8 => usize::from(first - INTEGER) + 2,
        _ => return Err("no entry starts so"),
    };
    if end - at < head {
        return Err("the head reaches past the end");
    }
    // The head is whole, so its size can be asked for; the data may still be missing.
    let size = size_at(buf, at);
    if end - at < size {
        return Err("the entry reaches past the end");
    }
    let again = entry_at(buf, at).coded();
    // The head follows from the form and the value, so another form of the same value has another size.
    if again.size() != size {
        return Err("not the shortest form");
    }
    let back = &again.back[..again.back_len.into()];
    if !buf[..at + size].ends_with(back) {
        return Err("the back length is not the entry's");
    }
    Ok(size)
}
