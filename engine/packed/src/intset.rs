//! A set of integers: ascending, all of one width, which is that of the widest that was ever in it.
//!
//! ```text
//!   first byte   7 6 5 4 3 2 1 0
//!               +---------+-+---+
//!               | count   |0| w | count, next 8 bits |                     up to 8191 integers
//!               +---------+-+---+
//!               | count   |1| w | count, next 24 bits |                    up to 2^29 - 1
//!               +---------+-+---+
//!   then count integers of 2 << w bytes (w = 0, 1, 2), signed, little-endian; free room behind them
//! ```
//!
//! Count low bits first. The owner resizes the bytes: a change that does not fit says how many would do, and the set
//! takes its capacity from the slice it is given. Removing never narrows; [`copy_into`](IntSet::copy_into) does.

use crate::{Fault, Full};

/// Most integers in one set.
pub const COUNT_MAX: usize = (1 << 29) - 1;
/// Most integers under the short header.
const SHORT_COUNT_MAX: usize = (1 << 13) - 1;
const SHORT_HEADER: usize = 2;
const LONG_HEADER: usize = 4;
const LONG: u8 = 0b100;

/// Bytes of one integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// Two bytes.
    Two,
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

impl Width {
    /// The least width that holds `value`.
    #[inline]
    pub fn of(value: i64) -> Width {
        if i16::try_from(value).is_ok() {
            Width::Two
        } else if i32::try_from(value).is_ok() {
            Width::Four
        } else {
            Width::Eight
        }
    }

    /// Bytes of one integer.
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Width::Two => 2,
            Width::Four => 4,
            Width::Eight => 8,
        }
    }
}

/// Bytes of a set of `count` integers of a width.
pub const fn buffer_bytes(count: usize, width: Width) -> usize {
    header_bytes(count) + count * width.bytes()
}

const fn header_bytes(count: usize) -> usize {
    if count <= SHORT_COUNT_MAX { SHORT_HEADER } else { LONG_HEADER }
}

/// The header taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    width: Width,
    count: usize,
    /// A set that has shrunk keeps the long header, so this is not a function of the count.
    bytes: usize,
}

impl Header {
    #[inline]
    fn read(buf: &[u8]) -> Header {
        let first = buf[0];
        let width = match first & 0b11 {
            0 => Width::Two,
            1 => Width::Four,
            2 => Width::Eight,
            _ => panic!("a set of integers has no width 3"),
        };
        if first & LONG == 0 {
            let count = usize::from(first >> 3) | usize::from(buf[1]) << 5;
            return Header { width, count, bytes: SHORT_HEADER };
        }
        let rest = u32::from_le_bytes([buf[1], buf[2], buf[3], 0]) as usize;
        Header { width, count: usize::from(first >> 3) | rest << 5, bytes: LONG_HEADER }
    }

    #[inline]
    fn write(self, buf: &mut [u8]) {
        let most = if self.bytes == SHORT_HEADER { SHORT_COUNT_MAX } else { COUNT_MAX };
        debug_assert!(self.count <= most, "{} integers under a header of {} bytes", self.count, self.bytes);
        let first = (self.count << 3) as u8 | self.width as u8;
        let rest = (self.count >> 5) as u32;
        if self.bytes == SHORT_HEADER {
            buf[..2].copy_from_slice(&[first, rest as u8]);
        } else {
            let [a, b, c, _] = rest.to_le_bytes();
            buf[..4].copy_from_slice(&[first | LONG, a, b, c]);
        }
    }

    fn end(self) -> usize {
        self.bytes + self.count * self.width.bytes()
    }
}

/// A set to read.
#[derive(Clone, Copy, Debug)]
pub struct IntSet<'a> {
    head: Header,
    /// The integers, no free room.
    data: &'a [u8],
}

impl<'a> IntSet<'a> {
    /// Opens a set that this crate wrote.
    ///
    /// # Panics
    /// If it does not fit in its bytes.
    #[inline]
    pub fn open(buf: &'a [u8]) -> IntSet<'a> {
        let head = Header::read(buf);
        IntSet { head, data: &buf[head.bytes..head.end()] }
    }

    /// Opens bytes of which nothing is known. O(N).
    pub fn check(buf: &'a [u8]) -> Result<IntSet<'a>, Fault> {
        let first = *buf.first().ok_or(Fault { at: 0, what: "no bytes" })?;
        if first & 0b11 == 3 {
            return Err(Fault { at: 0, what: "no such width" });
        }
        let header = if first & LONG == 0 { SHORT_HEADER } else { LONG_HEADER };
        if buf.len() < header || buf.len() < Header::read(buf).end() {
            return Err(Fault { at: buf.len(), what: "the set is cut off" });
        }
        let set = IntSet::open(buf);
        match (1..set.len()).find(|&i| set.get(i - 1) >= set.get(i)) {
            Some(i) => Err(Fault { at: header + i * set.head.width.bytes(), what: "the integers do not ascend" }),
            None => Ok(set),
        }
    }

    /// Panics if the integers do not ascend. O(N).
    pub fn verify(&self) {
        for i in 1..self.len() {
            assert!(self.get(i - 1) < self.get(i), "integers {} and {i} do not ascend", i - 1);
        }
    }

    /// Number of integers.
    #[inline]
    pub fn len(&self) -> usize {
        self.head.count
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.count == 0
    }

    /// Width of the integers.
    pub fn width(&self) -> Width {
        self.head.width
    }

    /// Bytes from the start of the buffer to the last integer: what has to be kept of it.
    pub fn used(&self) -> usize {
        self.head.end()
    }

    /// Integer number `index` in ascending order, from 0.
    ///
    /// # Panics
    /// If `index` is not below the number of integers.
    #[inline]
    pub fn get(&self, index: usize) -> i64 {
        debug_assert!(index < self.len(), "integer {index} of {}", self.len());
        match self.head.width {
            Width::Two => i16::load(self.data, index),
            Width::Four => i32::load(self.data, index),
            Width::Eight => i64::load(self.data, index),
        }
    }

    /// Where `value` is, or where it would be inserted.
    #[inline]
    pub fn search(&self, value: i64) -> Result<usize, usize> {
        match self.head.width {
            Width::Two => search::<i16>(self.data, value),
            Width::Four => search::<i32>(self.data, value),
            Width::Eight => search::<i64>(self.data, value),
        }
    }

    /// Whether `value` is in the set.
    #[inline]
    pub fn contains(&self, value: i64) -> bool {
        self.search(value).is_ok()
    }

    /// The integers, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + use<'a> {
        let set = *self;
        (0..set.len()).map(move |index| set.get(index))
    }

    /// Bytes of the buffer that `value` needs to be inserted; those in use if it is there.
    pub fn needed_bytes(&self, value: i64) -> usize {
        if self.contains(value) { self.used() } else { self.grown(value).end() }
    }

    /// Bytes that [`copy_into`](IntSet::copy_into) needs.
    pub fn copied_bytes(&self) -> usize {
        buffer_bytes(self.len(), self.narrowest())
    }

    /// Writes the set into another buffer in its narrowest form.
    ///
    /// # Errors
    /// If `into` is smaller than [`copied_bytes`](IntSet::copied_bytes).
    pub fn copy_into(&self, into: &mut [u8]) -> Result<(), Full> {
        let head = Header { width: self.narrowest(), count: self.len(), bytes: header_bytes(self.len()) };
        if into.len() < head.end() {
            return Err(Full { needed: head.end() });
        }
        debug_assert!(head.width <= self.head.width, "integers of {:?} in {:?}", self.head.width, head.width);
        for (index, value) in self.iter().enumerate() {
            store(&mut into[head.bytes..], head.width, index, value);
        }
        head.write(into);
        Ok(())
    }

    /// The integers ascend, so the outermost are the widest.
    fn narrowest(&self) -> Width {
        match self.len() {
            0 => Width::Two,
            n => Width::of(self.get(0)).max(Width::of(self.get(n - 1))),
        }
    }

    /// The header after `value` has been added.
    fn grown(&self, value: i64) -> Header {
        let count = self.head.count + 1;
        let bytes = header_bytes(count).max(self.head.bytes);
        debug_assert!(bytes <= LONG_HEADER, "a header of {bytes} bytes");
        Header { width: self.head.width.max(Width::of(value)), count, bytes }
    }
}

/// A set to change.
#[derive(Debug)]
pub struct IntSetMut<'a> {
    buf: &'a mut [u8],
}

impl<'a> IntSetMut<'a> {
    /// Makes an empty set of `buf`.
    ///
    /// # Errors
    /// If that has under two bytes.
    pub fn init(buf: &'a mut [u8]) -> Result<IntSetMut<'a>, Full> {
        if buf.len() < SHORT_HEADER {
            return Err(Full { needed: SHORT_HEADER });
        }
        Header { width: Width::Two, count: 0, bytes: SHORT_HEADER }.write(buf);
        Ok(IntSetMut { buf })
    }

    /// Opens a set that this crate wrote.
    ///
    /// # Panics
    /// If it does not fit in its bytes.
    #[inline]
    pub fn open(buf: &'a mut [u8]) -> IntSetMut<'a> {
        let head = Header::read(buf);
        assert!(head.end() <= buf.len(), "the set lies in its bytes");
        IntSetMut { buf }
    }

    /// The set, to read.
    #[inline]
    pub fn set(&self) -> IntSet<'_> {
        IntSet::open(self.buf)
    }

    /// Adds `value`; whether it was new.
    ///
    /// # Errors
    /// If there is no room. Nothing is changed then.
    ///
    /// # Panics
    /// If the set has [`COUNT_MAX`] integers.
    pub fn insert(&mut self, value: i64) -> Result<bool, Full> {
        let set = self.set();
        let Err(index) = set.search(value) else { return Ok(false) };
        let (old, new) = (set.head, set.grown(value));
        assert!(new.count <= COUNT_MAX, "a set of integers has at most {COUNT_MAX}");
        if self.buf.len() < new.end() {
            return Err(Full { needed: new.end() });
        }
        if new.width == old.width {
            let (from, size) = (old.bytes + index * old.width.bytes(), new.width.bytes());
            self.buf.copy_within(from..old.end(), from + size + (new.bytes - old.bytes));
            self.buf.copy_within(old.bytes..from, new.bytes);
        } else {
            self.widen(old, new, index);
        }
        store(&mut self.buf[new.bytes..], new.width, index, value);
        new.write(self.buf);
        debug_assert!(self.set().get(index) == value, "{value} is integer {index}");
        debug_assert!(index == 0 || self.set().get(index - 1) < value, "the integers before {value} are less");
        debug_assert!(
            index + 1 == new.count || self.set().get(index + 1) > value,
            "the integers behind {value} are more"
        );
        Ok(true)
    }

    /// Removes `value`; whether it was there.
    pub fn remove(&mut self, value: i64) -> bool {
        let found = self.set().search(value);
        if let Ok(index) = found {
            self.remove_at(index);
        }
        found.is_ok()
    }

    /// Removes the integer number `index`, and returns it.
    ///
    /// # Panics
    /// If `index` is not below the number of integers.
    pub fn remove_at(&mut self, index: usize) -> i64 {
        let value = self.set().get(index);
        let head = Header::read(self.buf);
        let (at, size) = (head.bytes + index * head.width.bytes(), head.width.bytes());
        self.buf.copy_within(at + size..head.end(), at);
        Header { count: head.count - 1, ..head }.write(self.buf);
        value
    }

    /// Rewrites all integers wider, from the last, with a gap at `index`. No integer moves down, so none is overwritten
    /// before it is read.
    fn widen(&mut self, old: Header, new: Header, index: usize) {
        assert!(old.width < new.width && old.bytes <= new.bytes && index <= old.count, "{old:?} becomes {new:?}");
        for i in (0..old.count).rev() {
            let value = load(&self.buf[old.bytes..], old.width, i);
            store(&mut self.buf[new.bytes..], new.width, i + usize::from(i >= index), value);
        }
    }
}

/// An integer of one width.
trait Lane: Copy + Ord + Into<i64> + TryFrom<i64> {
    fn load(data: &[u8], index: usize) -> i64;
    fn at(data: &[u8], index: usize) -> Self;
}

macro_rules! lane {
    ($($t:ty),*) => {$(
        impl Lane for $t {
            #[inline]
            fn load(data: &[u8], index: usize) -> i64 {
                Self::at(data, index).into()
            }

            #[inline]
            fn at(data: &[u8], index: usize) -> Self {
                const BYTES: usize = size_of::<$t>();
                let bytes = &data[index * BYTES..(index + 1) * BYTES];
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as one has"))
            }
        }
    )*};
}

lane!(i16, i32, i64);

fn load(data: &[u8], width: Width, index: usize) -> i64 {
    match width {
        Width::Two => i16::load(data, index),
        Width::Four => i32::load(data, index),
        Width::Eight => i64::load(data, index),
    }
}

fn store(data: &mut [u8], width: Width, index: usize, value: i64) {
    let bytes = width.bytes();
    data[index * bytes..(index + 1) * bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
}

/// Halves what is left without a branch on what it finds: the place is where the last smaller integer ends.
fn search<L: Lane>(data: &[u8], value: i64) -> Result<usize, usize> {
    debug_assert!(data.len().is_multiple_of(size_of::<L>()), "{} bytes of integers", data.len());
    let count = data.len() / size_of::<L>();
    let Ok(wanted) = L::try_from(value) else {
        return Err(if value < 0 { 0 } else { count });
    };
    if count == 0 {
        return Err(0);
    }
    let (mut base, mut left) = (0, count);
    while left > 1 {
        let half = left / 2;
        base = if L::at(data, base + half) <= wanted { base + half } else { base };
        left -= half;
    }
    let found = L::at(data, base);
    if found == wanted { Ok(base) } else { Err(base + usize::from(found < wanted)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widens_at_its_bounds_and_keeps_what_it_has() {
        let mut buf = vec![0; 200];
        let mut set = IntSetMut::init(&mut buf).unwrap();
        for (value, width) in [
            (0, Width::Two),
            (i64::from(i16::MAX), Width::Two),
            (i64::from(i16::MIN), Width::Two),
            (i64::from(i16::MAX) + 1, Width::Four),
            (i64::from(i32::MIN), Width::Four),
            (i64::from(i32::MIN) - 1, Width::Eight),
            (i64::MAX, Width::Eight),
            (i64::MIN, Width::Eight),
        ] {
            assert_eq!(set.insert(value), Ok(true));
            assert_eq!(set.insert(value), Ok(false));
            assert_eq!(set.set().width(), width, "after {value}");
            set.set().verify();
            assert!(set.set().contains(value));
        }
        let mut kept: Vec<i64> = set.set().iter().collect();
        assert_eq!(kept.len(), 8);
        kept.retain(|&v| Width::of(v) > Width::Two);
        kept.iter().for_each(|&v| assert!(set.remove(v)));
        assert_eq!(set.set().width(), Width::Eight);
        let mut small = vec![0; set.set().copied_bytes()];
        set.set().copy_into(&mut small).unwrap();
        assert_eq!((small.len(), IntSet::check(&small).unwrap().width()), (2 + 3 * 2, Width::Two));
        assert!(IntSet::open(&small).iter().eq(set.set().iter()));
    }

    #[test]
    fn the_header_grows_past_8191() {
        let mut buf = vec![0; buffer_bytes(9000, Width::Two)];
        let mut set = IntSetMut::init(&mut buf).unwrap();
        (0..9000).rev().for_each(|i| assert_eq!(set.insert(i), Ok(true)));
        assert_eq!(set.insert(-1), Err(Full { needed: buffer_bytes(9001, Width::Two) }));
        set.set().verify();
        assert_eq!(set.set().used(), LONG_HEADER + 18_000);
        (1000..9000).for_each(|i| assert!(set.remove(i)));
        assert!(set.set().iter().eq(0..1000));
        assert_eq!(set.set().used(), LONG_HEADER + 2000);
        assert_eq!(set.set().copied_bytes(), SHORT_HEADER + 2000);
        assert_eq!(set.insert(2000), Ok(true));
        assert!(set.set().iter().eq((0..1000).chain([2000])));
    }

    #[test]
    fn what_lies_before_the_new_integer_moves_with_a_growing_header() {
        let mut buf = vec![0; buffer_bytes(8192, Width::Two)];
        let mut set = IntSetMut::init(&mut buf).unwrap();
        (0..8191).for_each(|i| assert_eq!(set.insert(i + i64::from(i >= 5000)), Ok(true)));
        assert_eq!(set.insert(5000), Ok(true));
        assert!(set.set().iter().eq(0..8192));
    }

    #[test]
    fn a_value_of_a_greater_width_is_absent_at_an_end() {
        let mut buf = vec![0; 64];
        let mut set = IntSetMut::init(&mut buf).unwrap();
        assert_eq!(set.set().search(5), Err(0));
        [1, 3].iter().for_each(|&v| assert_eq!(set.insert(v), Ok(true)));
        assert_eq!(set.set().search(1 << 40), Err(2));
        assert_eq!(set.set().search(-1 << 40), Err(0));
        assert_eq!([0, 1, 2, 3, 4].map(|v| set.set().search(v)), [Err(0), Ok(0), Err(1), Ok(1), Err(2)]);
        assert_eq!(set.set().needed_bytes(2), 2 + 3 * 2);
        assert_eq!(set.set().needed_bytes(1 << 20), 2 + 3 * 4);
        assert_eq!(set.set().needed_bytes(3), 2 + 2 * 2);
    }

    #[test]
    fn damage_is_found() {
        for (bytes, what) in [
            (&[][..], "no bytes"),
            (&[3, 0], "no such width"),
            (&[4, 0], "the set is cut off"),
            (&[8, 0, 1], "the set is cut off"),
            (&[16, 0, 1, 0, 1, 0], "the integers do not ascend"),
        ] {
            assert_eq!(IntSet::check(bytes).unwrap_err().what, what);
        }
    }

    /// Every sequence of five operations on four integers of all widths, each with and without room, against a sorted list.
    #[test]
    fn every_short_history() {
        const VALUES: [i64; 4] = [-1, 5, 1 << 20, i64::MIN];
        const STEPS: u32 = 5;
        for history in 0..8u32.pow(STEPS) {
            let mut buf = vec![0; buffer_bytes(4, Width::Eight) - 8];
            let mut set = IntSetMut::init(&mut buf).unwrap();
            let mut model: Vec<i64> = vec![];
            for step in 0..STEPS {
                let op = history / 8u32.pow(step) % 8;
                let value = VALUES[op as usize % 4];
                let there = model.binary_search(&value);
                if op >= 4 {
                    assert_eq!(set.remove(value), there.is_ok());
                    there.map(|at| model.remove(at)).ok();
                } else {
                    let needed = set.set().needed_bytes(value);
                    let has = set.buf.len();
                    match set.insert(value) {
                        Ok(new) => {
                            assert!(new == there.is_err() && needed <= has);
                            there.map_or_else(|at| model.insert(at, value), |_| ());
                        }
                        Err(Full { needed: full }) => assert!(full == needed && needed > has && there.is_err()),
                    }
                }
                assert!(set.set().iter().eq(model.iter().copied()), "history {history:o}, step {step}");
                assert!(IntSet::check(set.buf).is_ok());
            }
        }
    }
}
