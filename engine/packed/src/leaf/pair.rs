//! The elements of a hash's leaf: a field and its value.
//!
//! ```text
//!   | head 1 byte | length of the field, 0 to 2 bytes | field | value | expiry, 0 or 6 bytes |
//!   head    bits 0-4: length of the field, 0 to 29 bytes; 30: the length is in the next byte, 31: in the next two
//!           bit 5: the field expires; the time, in milliseconds of Unix time, stands behind the value
//!           bit 6: the value is an integer in 1, 2, 4 or 8 bytes
//!           bit 7: the field is an integer in 1, 2, 4 or 8 bytes
//! ```
//! A text that is the canonical form of an integer is kept as one where that is shorter. The value takes what the field
//! leaves of the element. A field is an integer exactly if its text would be one, so equal fields have equal bytes and a
//! search compares bytes.

use varve_base::mem::equal;
use varve_base::number::{digits, parse_i64};

use crate::node::PackedEntry;

const LENGTH_BITS: u8 = 0x1f;
const IN_NEXT: u8 = 30;
const IN_NEXT_TWO: u8 = 31;
const EXPIRES: u8 = 1 << 5;
const VALUE_IS_INT: u8 = 1 << 6;
const FIELD_IS_INT: u8 = 1 << 7;

/// Bytes of the time at which a field expires.
const EXPIRY_BYTES: usize = 6;
/// The last time at which a field may expire, in milliseconds of Unix time: in the year 10889.
pub const PAIR_EXPIRY_MAX: i64 = (1 << (8 * EXPIRY_BYTES)) - 1;

/// A text as an element keeps it.
#[derive(Clone, Copy, Debug)]
struct PackedText<'a> {
    text: &'a [u8],
    int: [u8; 8],
    /// Bytes of `int` in use; 0 if the text is kept.
    int_len: u8,
}

impl<'a> PackedText<'a> {
    #[inline]
    fn of(text: &'a [u8]) -> PackedText<'a> {
        let is_candidate = text.first().is_some_and(|&first| first.is_ascii_digit() || first == b'-');
        if is_candidate && let Some(value) = parse_i64(text) {
            let len = int_bytes(value);
            if len < text.len() {
                return PackedText { text, int: value.to_le_bytes(), int_len: len as u8 };
            }
        }
        PackedText { text, int: [0; 8], int_len: 0 }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        if self.int_len > 0 { &self.int[..self.int_len.into()] } else { self.text }
    }

    #[inline]
    fn is_int(&self) -> bool {
        self.int_len > 0
    }
}

/// Bytes of an integer: 1, 2, 4 or 8.
fn int_bytes(value: i64) -> usize {
    if i8::try_from(value).is_ok() {
        1
    } else if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

/// Reads an integer of 1, 2, 4 or 8 bytes.
#[inline]
fn read_int(bytes: &[u8]) -> i64 {
    match *bytes {
        [a] => i64::from(a as i8),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => i64::from_le_bytes(bytes.try_into().expect("an integer of eight bytes")),
    }
}

/// A field to search for, encoded once.
#[derive(Clone, Copy, Debug)]
pub struct LeafField<'a> {
    field: PackedText<'a>,
    head: [u8; 3],
    head_len: u8,
}

impl<'a> LeafField<'a> {
    /// The field of this name. At most 65 535 bytes.
    #[inline]
    pub fn of(field: &'a [u8]) -> LeafField<'a> {
        let field = PackedText::of(field);
        let len = field.bytes().len();
        debug_assert!(len <= u16::MAX.into(), "a field of {len} bytes lies in no leaf");
        let mut head = [0; 3];
        let head_len = if len < IN_NEXT.into() {
            head[0] = len as u8;
            1
        } else if len <= u8::MAX.into() {
            head[..2].copy_from_slice(&[IN_NEXT, len as u8]);
            2
        } else {
            head[0] = IN_NEXT_TWO;
            head[1..].copy_from_slice(&(len as u16).to_le_bytes());
            3
        };
        if field.is_int() {
            head[0] |= FIELD_IS_INT;
        }
        LeafField { field, head, head_len }
    }

    /// Whether an element has this field.
    #[inline(always)]
    pub fn is_of(&self, element: &[u8]) -> bool {
        let head_len = usize::from(self.head_len);
        let bytes = self.field.bytes();
        let Some((head, rest)) = element.split_at_checked(head_len) else { return false };
        let is_head = head[0] & !(VALUE_IS_INT | EXPIRES) == self.head[0] && head[1..] == self.head[1..head_len];
        is_head && rest.get(..bytes.len()).is_some_and(|field| equal(field, bytes))
    }

    /// Shows the parts of the element of this field, a value, and the time at which the field expires, in milliseconds of
    /// Unix time.
    ///
    /// # Panics
    /// If the time is negative or beyond [`PAIR_EXPIRY_MAX`].
    pub fn with_expiring<R>(&self, value: &[u8], expiry_ms: i64, show: impl FnOnce(&[&[u8]]) -> R) -> R {
        assert!((0..=PAIR_EXPIRY_MAX).contains(&expiry_ms), "a field that expires at {expiry_ms}");
        self.with_value(value, |parts| {
            let mut head = self.head;
            head[0] = parts[0][0] | EXPIRES;
            let expiry = expiry_ms.to_le_bytes();
            show(&[&head[..self.head_len.into()], parts[1], parts[2], &expiry[..EXPIRY_BYTES]])
        })
    }

    /// Shows the parts of the element of this field and a value.
    #[inline]
    pub fn with_value<R>(&self, value: &[u8], show: impl FnOnce(&[&[u8]]) -> R) -> R {
        let value = PackedText::of(value);
        let mut head = self.head;
        if value.is_int() {
            head[0] |= VALUE_IS_INT;
        }
        show(&[&head[..self.head_len.into()], self.field.bytes(), value.bytes()])
    }

    /// Bytes of the element of this field and a value.
    #[inline]
    pub fn size_with(&self, value: &[u8]) -> usize {
        self.with_value(value, |parts| parts.iter().map(|part| part.len()).sum())
    }
}

/// Bytes of the element of a field and a value.
pub fn pair_size(field: &[u8], value: &[u8]) -> usize {
    LeafField::of(field).size_with(value)
}

/// The time at which the field of an element expires, in milliseconds of Unix time.
#[inline]
pub fn expiry_ms(element: &[u8]) -> Option<i64> {
    if element[0] & EXPIRES == 0 {
        return None;
    }
    let mut bytes = [0; 8];
    bytes[..EXPIRY_BYTES].copy_from_slice(&element[element.len() - EXPIRY_BYTES..]);
    Some(i64::from_le_bytes(bytes))
}

/// Field and value of an element.
#[inline]
pub fn split(mut element: &[u8]) -> (PackedEntry<'_>, PackedEntry<'_>) {
    let head = element[0];
    if head & EXPIRES != 0 {
        element = &element[..element.len() - EXPIRY_BYTES];
    }
    let (at, len) = match head & LENGTH_BITS {
        IN_NEXT => (2, element[1].into()),
        IN_NEXT_TWO => (3, u16::from_le_bytes([element[1], element[2]]).into()),
        len => (1, usize::from(len)),
    };
    debug_assert!(at + len <= element.len(), "a field of {len} bytes in an element of {}", element.len());
    let (field, value) = element[at..].split_at(len);
    (entry(field, head & FIELD_IS_INT != 0), entry(value, head & VALUE_IS_INT != 0))
}

#[inline]
fn entry(bytes: &[u8], is_int: bool) -> PackedEntry<'_> {
    if is_int { PackedEntry::Int(read_int(bytes)) } else { PackedEntry::Bytes(bytes) }
}

/// Checks that an element is a pair as this module writes it: form, lengths, the shortest form of integers.
///
/// # Errors
/// The fault, in words.
pub fn check(mut element: &[u8]) -> Result<(), &'static str> {
    let whole = element;
    let head = *element.first().ok_or("an element without a head")?;
    if head & EXPIRES != 0 {
        let len = element.len().checked_sub(EXPIRY_BYTES).ok_or("an expiry that reaches past the element")?;
        element = &element[..len];
    }
    let head_len = match head & LENGTH_BITS {
        IN_NEXT => 2,
        IN_NEXT_TWO => 3,
        _ => 1,
    };
    if element.len() < head_len {
        return Err("the head reaches past the element");
    }
    let len = match head_len {
        1 => usize::from(head & LENGTH_BITS),
        2 => element[1].into(),
        _ => usize::from(u16::from_le_bytes([element[1], element[2]])),
    };
    let Some((field, value)) = element[head_len..].split_at_checked(len) else {
        return Err("the field reaches past the element");
    };
    for (bytes, is_int) in [(field, head & FIELD_IS_INT != 0), (value, head & VALUE_IS_INT != 0)] {
        check_text(bytes, is_int)?;
    }
    let (field, _) = split(whole);
    let again = LeafField::of(field.text(&mut [0; 20])).head;
    if head & !(VALUE_IS_INT | EXPIRES) != again[0] || element[1..head_len] != again[1..head_len] {
        return Err("not the shortest head");
    }
    Ok(())
}

/// Checks one half of a pair.
fn check_text(bytes: &[u8], is_int: bool) -> Result<(), &'static str> {
    if !is_int {
        return if PackedText::of(bytes).is_int() { Err("an integer that is kept as a text") } else { Ok(()) };
    }
    if !matches!(bytes.len(), 1 | 2 | 4 | 8) {
        return Err("an integer of no width");
    }
    let value = read_int(bytes);
    let text = usize::from(value < 0) + digits(value.unsigned_abs());
    if int_bytes(value) != bytes.len() || bytes.len() >= text { Err("not the shortest form") } else { Ok(()) }
}
