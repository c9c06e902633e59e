//! Packed blobs: a collection's entries one behind the other in one string.
//!
//! ```text
//! ziplist    | bytes (4) | last entry (4) | entries (2) | entry .. | ff |
//!            entry: size of the entry before (1 or 5) | encoding | value
//! listpack   | bytes (4) | entries (2) | entry .. | ff |
//!            entry: encoding | value | its own size, readable backwards (1 to 5)
//! zipmap     | entries (1) | entry .. | ff |
//!            entry: length | field | length | free (1) | value | free bytes
//! intset     | width (4) | number (4) | integer .. |
//! ```
//! All numbers have the low byte first. Every byte is checked before it is used: the sizes in front against the blob's,
//! the sizes behind entries against the entries, the number in front against the entries that there are.

mod listpack;
mod ziplist;

use crate::read::fault::ReadFault;

/// Which blob it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Ziplist,
    Listpack,
    Zipmap,
    Intset,
}

/// An entry of a blob.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Entry {
    /// These bytes of the blob: where they begin and how many they are.
    Bytes(usize, usize),
    /// An integer.
    Int(i64),
}

/// A number of entries that does not fit into its two bytes: nothing is known.
const MANY: u16 = u16::MAX;

/// A place between two entries of a blob.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    form: Form,
    at: usize,
    seen: u64,
    /// Entries that the front promises, if it does.
    promised: Option<u64>,
    /// Of a ziplist: size of the entry before. Of an intset: bytes of an integer. Of a zipmap: 1 before a value.
    aside: usize,
    /// Of an intset: the integer before.
    before: Option<i64>,
}

impl Form {
    fn damaged(self, why: &'static str) -> ReadFault {
        ReadFault::Blob(
            match self {
                Form::Ziplist => "ziplist",
                Form::Listpack => "listpack",
                Form::Zipmap => "zipmap",
                Form::Intset => "intset",
            },
            why,
        )
    }
}

/// `N` bytes at a place.
fn array<const N: usize>(blob: &[u8], at: usize) -> Option<[u8; N]> {
    blob.get(at..)?.first_chunk::<N>().copied()
}

/// The integer of 1 to 8 bytes at a place, low byte first and with a sign.
fn int(blob: &[u8], at: usize, bytes: usize) -> Option<i64> {
    let mut wide = [0; 8];
    wide[8 - bytes..].copy_from_slice(blob.get(at..)?.get(..bytes)?);
    Some(i64::from_le_bytes(wide) >> (8 * (8 - bytes)))
}

impl Cursor {
    /// The front of a blob.
    pub(crate) fn open(form: Form, blob: &[u8]) -> Result<Cursor, ReadFault> {
        let header = || form.damaged("the front does not fit the whole");
        let (at, promised, aside) = match form {
            Form::Ziplist => {
                let (bytes, count) = (array(blob, 0).ok_or_else(header)?, array(blob, 8).ok_or_else(header)?);
                check_front(form, blob, u32::from_le_bytes(bytes), 11)?;
                (10, u16::from_le_bytes(count), 0)
            }
            Form::Listpack => {
                let (bytes, count) = (array(blob, 0).ok_or_else(header)?, array(blob, 4).ok_or_else(header)?);
                check_front(form, blob, u32::from_le_bytes(bytes), 7)?;
                (6, u16::from_le_bytes(count), 0)
            }
            Form::Zipmap => {
                let [count] = array(blob, 0).ok_or_else(header)?;
                check_front(form, blob, u32::try_from(blob.len()).unwrap_or(0), 2)?;
                (1, if count < 254 { u16::from(count) } else { MANY }, 0)
            }
            Form::Intset => return open_intset(blob),
        };
        let promised = (promised != MANY).then_some(u64::from(promised));
        Ok(Cursor { form, at, seen: 0, promised, aside, before: None })
    }

    /// The next entry, None behind the last one.
    #[inline]
    pub(crate) fn next_entry(&mut self, blob: &[u8]) -> Result<Option<Entry>, ReadFault> {
        let entry = match self.form {
            Form::Listpack => listpack::next(self, blob)?,
            Form::Ziplist => ziplist::next(self, blob)?,
            Form::Zipmap => self.next_of_zipmap(blob)?,
            Form::Intset => self.next_of_intset(blob)?,
        };
        match entry {
            Some(_) => self.seen += 1,
            None => self.check_end(blob)?,
        }
        Ok(entry)
    }

    fn check_end(&self, blob: &[u8]) -> Result<(), ReadFault> {
        let entries = if self.form == Form::Zipmap { self.seen / 2 } else { self.seen };
        if self.promised.is_some_and(|promised| promised != entries) {
            return Err(self.form.damaged("it has another number of entries than its front says"));
        }
        // Of a ziplist, the last entry begins where its front says. Nothing here goes backwards; redis-server does.
        let last = (self.at - self.aside) as u32;
        if self.form == Form::Ziplist && array(blob, 4).map(u32::from_le_bytes) != Some(last) {
            return Err(self.form.damaged("its last entry is not where its front says"));
        }
        let end = if self.form == Form::Intset { self.at } else { self.at + 1 };
        if end == blob.len() { Ok(()) } else { Err(self.form.damaged("it ends before its bytes do")) }
    }

    fn next_of_zipmap(&mut self, blob: &[u8]) -> Result<Option<Entry>, ReadFault> {
        let early = || Form::Zipmap.damaged("an entry ends behind it");
        let is_value = self.aside == 1;
        let first = *blob.get(self.at).ok_or_else(early)?;
        let (length, mut at) = match first {
            255 if is_value => return Err(Form::Zipmap.damaged("a field has no value")),
            255 => return Ok(None),
            254 => (u32::from_le_bytes(array(blob, self.at + 1).ok_or_else(early)?) as usize, self.at + 5),
            short => (usize::from(short), self.at + 1),
        };
        let mut free = 0;
        if is_value {
            free = usize::from(*blob.get(at).ok_or_else(early)?);
            at += 1;
        }
        let end = at.checked_add(length + free).filter(|end| *end < blob.len()).ok_or_else(early)?;
        (self.at, self.aside) = (end, usize::from(!is_value));
        Ok(Some(Entry::Bytes(at, length)))
    }

    fn next_of_intset(&mut self, blob: &[u8]) -> Result<Option<Entry>, ReadFault> {
        if self.at == blob.len() {
            return Ok(None);
        }
        let n = int(blob, self.at, self.aside).ok_or_else(|| Form::Intset.damaged("an integer ends behind it"))?;
        if self.before.is_some_and(|before| before >= n) {
            return Err(Form::Intset.damaged("its integers are not in order"));
        }
        (self.at, self.before) = (self.at + self.aside, Some(n));
        Ok(Some(Entry::Int(n)))
    }
}

/// The number of bytes in front is that of the blob, which has at least `least` and ends with its mark.
fn check_front(form: Form, blob: &[u8], bytes: u32, least: usize) -> Result<(), ReadFault> {
    if bytes as usize != blob.len() || blob.len() < least {
        return Err(form.damaged("the front does not fit the whole"));
    }
    if blob.last() != Some(&0xff) { Err(form.damaged("it has no end mark")) } else { Ok(()) }
}

fn open_intset(blob: &[u8]) -> Result<Cursor, ReadFault> {
    let header = || Form::Intset.damaged("the front does not fit the whole");
    let width = u32::from_le_bytes(array(blob, 0).ok_or_else(header)?);
    let count = u64::from(u32::from_le_bytes(array(blob, 4).ok_or_else(header)?));
    if !matches!(width, 2 | 4 | 8) || 8 + count * u64::from(width) != blob.len() as u64 {
        return Err(header());
    }
    Ok(Cursor { form: Form::Intset, at: 8, seen: 0, promised: Some(count), aside: width as usize, before: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(form: Form, blob: &[u8]) -> Result<Vec<String>, String> {
        let mut cursor = Cursor::open(form, blob).map_err(|fault| fault.to_string())?;
        let mut entries = Vec::new();
        while let Some(entry) = cursor.next_entry(blob).map_err(|fault| fault.to_string())? {
            entries.push(match entry {
                Entry::Bytes(at, len) => String::from_utf8_lossy(&blob[at..at + len]).into_owned(),
                Entry::Int(n) => n.to_string(),
            });
        }
        Ok(entries)
    }

    #[test]
    fn integers_of_every_width() {
        for width in [2u32, 4, 8] {
            let mut blob = [width.to_le_bytes(), 3u32.to_le_bytes()].concat();
            for n in [-5i64, 0, 1000] {
                blob.extend_from_slice(&n.to_le_bytes()[..width as usize]);
            }
            assert_eq!(all(Form::Intset, &blob).unwrap(), ["-5", "0", "1000"]);
            for cut in 0..blob.len() {
                assert!(all(Form::Intset, &blob[..cut]).is_err());
            }
            let at = blob.len() - width as usize;
            blob[at..].fill(0);
            assert!(all(Form::Intset, &blob).unwrap_err().contains("not in order"));
        }
        assert!(all(Form::Intset, &[3, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn a_zipmap_with_free_bytes() {
        let blob = b"\x02\x01a\x02\x00xy\x01b\x01\x03zfff\xff";
        assert_eq!(all(Form::Zipmap, blob).unwrap(), ["a", "xy", "b", "z"]);
        assert!(all(Form::Zipmap, b"\x01\x01a\xff").unwrap_err().contains("no value"));
        assert!(all(Form::Zipmap, b"\x01\x01a\x02\x00xy\x01b\x01\x00z\xff").unwrap_err().contains("another number"));
        let long = [b"\xfe\xfe\x2c\x01\x00\x00".as_slice(), &[b'f'; 300], b"\x01\x00v\xff"].concat();
        assert_eq!(all(Form::Zipmap, &long).unwrap()[0].len(), 300);
    }

    #[test]
    fn a_ziplist_of_every_kind() {
        let entries: [&[u8]; 9] = [
            b"\x00\x03abc",
            b"\x05\xf5",
            b"\x02\xfe\x80",
            b"\x03\xc0\x00\x80",
            b"\x04\xf0\x00\x00\x80",
            b"\x05\xd0\x00\x00\x00\x80",
            b"\x06\xe0\x00\x00\x00\x00\x00\x00\x00\x80",
            b"\x0a\x40\x02xy",
            b"\xfe\x05\x00\x00\x00\x80\x00\x00\x00\x01z",
        ];
        let blob = ziplist::tests::blob(&entries);
        let want = ["abc", "4", "-128", "-32768", "-8388608", "-2147483648", "-9223372036854775808", "xy", "z"];
        assert_eq!(all(Form::Ziplist, &blob).unwrap(), want);
        for cut in 0..blob.len() {
            assert!(all(Form::Ziplist, &blob[..cut]).is_err());
        }
        let wrong = ziplist::tests::blob(&[b"\x00\x03abc", b"\x04\xf5"]);
        assert!(all(Form::Ziplist, &wrong).is_err(), "a size before that is another");
        let mut wrong = blob;
        wrong[4] ^= 1;
        assert!(all(Form::Ziplist, &wrong).unwrap_err().contains("not where"));
    }

    #[test]
    fn a_listpack_of_every_kind() {
        let long = [b"\xf0\x2c\x01\x00\x00".as_slice(), &[b'l'; 300]].concat();
        let middle = [b"\xe0\xc8".as_slice(), &[b'm'; 200]].concat();
        let entries: [&[u8]; 10] = [
            b"\x05",
            b"\x83abc",
            b"\xdf\xff",
            b"\xd0\x00",
            b"\xf1\x00\x80",
            b"\xf2\x00\x00\x80",
            b"\xf3\x00\x00\x00\x80",
            b"\xf4\x00\x00\x00\x00\x00\x00\x00\x80",
            &middle,
            &long,
        ];
        let blob = listpack::tests::blob(&entries);
        let found = all(Form::Listpack, &blob).unwrap();
        let want = ["5", "abc", "-1", "-4096", "-32768", "-8388608", "-2147483648", "-9223372036854775808"];
        assert_eq!(found[..8], want);
        assert_eq!((found[8].len(), found[9].len()), (200, 300));
        for cut in 0..blob.len() {
            assert!(all(Form::Listpack, &blob[..cut]).is_err());
        }
        let mut wrong = listpack::tests::blob(&[b"\x83abc", b"\x05"]);
        wrong[10] = 3;
        assert!(all(Form::Listpack, &wrong).is_err(), "a size behind that is another");
    }
}
