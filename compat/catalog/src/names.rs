//! Names of commands, and finding what one stands for.
//!
//! ```text
//!  name -> length, first 8 and last 8 bytes, case folded -> hash -> cell -> compare these -> &'static T
//! ```
//!
//! A table is one server's: names that its configuration renamed are found under the new name only, those renamed to
//! nothing not at all.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use varve_base::hash::GOLDEN_RATIO;

/// A map from names to values that ignores the case of letters.
#[derive(Clone, Debug)]
pub struct NameTable<T: 'static> {
    /// Open addressing, linear probing; a power of two, at most half full.
    cells: Box<[Option<Named<T>>]>,
    len: usize,
    /// Differs between tables that do not hold the same names.
    edition: u64,
}

/// The edition of the table that was made or changed last.
static EDITIONS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Debug)]
struct Named<T: 'static> {
    print: Print,
    name: Box<[u8]>,
    what: &'static T,
}

/// A print of a name. Names of at most [`Print::WHOLE`] bytes have the same print only if they differ in case alone; longer
/// names may have it by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Print {
    first: u64,
    last: u64,
    len: usize,
}

/// Why a name could not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameError {
    /// Nothing has the old name.
    Unknown,
    /// Something else has the new name.
    Taken,
}

impl<T> NameTable<T> {
    /// These names.
    pub fn new<'n>(names: impl ExactSizeIterator<Item = (&'n str, &'static T)>) -> NameTable<T> {
        let size = (names.len() * 4).next_power_of_two();
        let cells = std::iter::repeat_with(|| None).take(size).collect();
        let mut table = NameTable { cells, len: 0, edition: 0 };
        for (name, what) in names {
            table.insert(name.as_bytes().into(), what);
        }
        table
    }

    /// The value of the old name then has the new name only, and none if that is empty.
    ///
    /// # Errors
    /// Nothing has the old name, or something else has the new one: the table is as it was.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), RenameError> {
        let what = self.get(old).ok_or(RenameError::Unknown)?;
        let mut names: Vec<Named<T>> = self.cells.iter_mut().filter_map(Option::take).collect();
        names.retain(|named| !named.name.eq_ignore_ascii_case(old));
        self.len = 0;
        self.edition = EDITIONS.fetch_add(1, Relaxed) + 1;
        for named in names {
            self.insert(named.name, named.what);
        }
        if new.is_empty() {
            return Ok(());
        }
        if self.get(new).is_some() {
            self.insert(old.into(), what);
            return Err(RenameError::Taken);
        }
        self.insert(new.into(), what);
        Ok(())
    }

    /// A number that no table has which holds other names, 0 for none.
    #[inline]
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if everything was renamed to nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values of all names, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> {
        self.cells.iter().flatten().map(|named| named.what)
    }

    /// The value of a name in any case; None if there is no such name.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&'static T> {
        let mask = self.cells.len() - 1;
        let print = Print::of(name);
        let mut at = print.hash() & mask;
        while let Some(named) = &self.cells[at] {
            if named.print == print && (print.len <= Print::WHOLE || named.name.eq_ignore_ascii_case(name)) {
                return Some(named.what);
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn insert(&mut self, name: Box<[u8]>, what: &'static T) {
        self.edition = EDITIONS.fetch_add(1, Relaxed) + 1;
        let mask = self.cells.len() - 1;
        let print = Print::of(&name);
        let mut at = print.hash() & mask;
        while self.cells[at].is_some() {
            at = (at + 1) & mask;
        }
        self.cells[at] = Some(Named { print, name, what });
        self.len += 1;
    }
}

impl Print {
    /// Names of at most this many bytes are equal, but for case, if their prints are.
    const WHOLE: usize = 16;

    #[inline]
    fn of(name: &[u8]) -> Print {
        let (first, last) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
            (Some(a), Some(b)) => (u64::from_le_bytes(*a), u64::from_le_bytes(*b)),
            _ => short(name),
        };
        Print { first: lower(first), last: lower(last), len: name.len() }
    }

    #[inline]
    fn hash(&self) -> usize {
        let mixed = self.first.wrapping_mul(GOLDEN_RATIO) ^ self.last.rotate_left(23) ^ self.len as u64;
        (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40) as usize
    }
}

/// Eight bytes with the letters among them in lower case.
#[inline]
fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let low = word & !HIGH;
    // A byte's high bit tells that it is at least `A`, and that it is over `Z`.
    let (from_a, over_z) = (low + (0x80 - 0x41) * EACH, low + (0x7f - 0x5a) * EACH);
    let letters = (from_a & !over_z & !word) & HIGH;
    word | letters >> 2
}

/// The bytes of a name of less than 8, as two words.
#[inline]
fn short(name: &[u8]) -> (u64, u64) {
    if let (Some(a), Some(b)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        return (u32::from_le_bytes(*a).into(), u32::from_le_bytes(*b).into());
    }
    let byte = |i: usize| u64::from(name.get(i).copied().unwrap_or(0x20));
    (byte(0) | byte(1) << 8 | byte(2) << 16, 0)
}

#[cfg(test)]
mod tests {
    use super::{NameTable, RenameError, lower};

    static VALUES: [u32; 4] = [0, 1, 2, 3];

    fn table() -> NameTable<u32> {
        NameTable::new(["ping", "echo", "zrangebyscore", "a name of more than sixteen bytes"].into_iter().zip(&VALUES))
    }

    #[test]
    fn names_are_found_in_any_case() {
        let table = table();
        for (name, value) in [("PING", 0), ("eChO", 1), ("ZRangeByScore", 2), ("A NAME OF MORE THAN SIXTEEN BYTES", 3)]
        {
            assert_eq!(table.get(name.as_bytes()), Some(&value), "{name}");
        }
        for name in
            ["", "pin", "pingg", "p\u{e9}ng", "a name of more than sixteen bytez", "a longer name than there is here"]
        {
            assert_eq!(table.get(name.as_bytes()), None, "{name}");
        }
        assert_eq!((table.len(), table.iter().count()), (4, 4));
    }

    #[test]
    fn renamed_names_are_found_under_the_new_one_only() {
        let mut table = table();
        let before = table.edition();
        table.rename(b"PING", b"pong").unwrap();
        assert!(table.get(b"ping").is_none() && table.get(b"PONG") == Some(&0) && table.edition() != before);
        assert_eq!(table.rename(b"ping", b"x"), Err(RenameError::Unknown));
        assert_eq!(table.rename(b"echo", b"pong"), Err(RenameError::Taken));
        assert_eq!(table.get(b"echo"), Some(&1));
        table.rename(b"pong", b"").unwrap();
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn only_letters_have_a_case() {
        for byte in 0..=u8::MAX {
            let word = u64::from_le_bytes([byte, b'A', byte, byte, b'z', byte, b'Z', byte]);
            let lowered = word.to_le_bytes().map(|b| b.to_ascii_lowercase());
            assert_eq!(lower(word).to_le_bytes(), lowered, "{byte:#x}");
        }
    }
}
