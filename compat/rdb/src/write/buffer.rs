//! A buffer of encoded entries, with marks at the strings that may be compressed.

use varve_base::number::parse_i64;

use crate::format::{Kind, StreamTail, len, op, ty};
use crate::lzf::{self, Table};
use crate::write::Listpack;

/// Strings of more bytes than this are worth compressing.
const COMPRESS_MIN_BYTES: usize = 20;
/// Longest text of an integer that is written as one: the sign and ten digits.
const INT_TEXT_MAX: usize = 11;

/// When a key was used, for a reader that evicts by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastUse {
    /// Seconds since its last use.
    Idle(u64),
    /// The logarithmic counter of its uses.
    Freq(u8),
}

/// RdbBuffer entries, or parts of them.
#[derive(Clone, Debug, Default)]
pub struct RdbBuffer {
    bytes: Vec<u8>,
    /// Where the length prefixes of strings stand that may be compressed.
    marks: Vec<usize>,
    /// Bytes of a string that is marked, at most; 0 where none is.
    compress_max: usize,
}

impl RdbBuffer {
    /// An empty buffer; with `compress` it marks the strings that may be compressed.
    pub fn new(compress: bool) -> RdbBuffer {
        RdbBuffer { compress_max: if compress { usize::MAX } else { 0 }, ..RdbBuffer::default() }
    }

    /// An empty buffer that marks strings of at most this number of bytes.
    pub(crate) fn compressing_up_to(bytes: usize) -> RdbBuffer {
        RdbBuffer { compress_max: bytes, ..RdbBuffer::default() }
    }

    /// The bytes so far, nothing of them compressed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that it has memory for.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forgets everything; the memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.marks.clear();
    }

    /// Whether a string may be compressed.
    pub(crate) fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// The bytes, to be taken out as they are.
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        debug_assert!(!self.has_marks(), "nothing is to be compressed");
        &mut self.bytes
    }

    /// Appends all up to the last marked string to `out`, marked strings compressed, and calls `each` behind each of these.
    /// Gives the number of bytes that are done.
    pub(crate) fn compress_into<E>(
        &self,
        table: &mut Table,
        out: &mut Vec<u8>,
        mut each: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut done = 0;
        for &start in &self.marks {
            let text = self.text_at(start);
            let end = start + prefix_bytes(text.len() as u64) + text.len();
            out.extend_from_slice(&self.bytes[done..start]);
            if !push_compressed(table, text, out) {
                out.extend_from_slice(&self.bytes[start..end]);
            }
            done = end;
            each(out)?;
        }
        Ok(done)
    }

    // Beside entries

    /// A field about the file itself, such as the version of the server.
    pub fn aux(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.push(op::AUX);
        self.string(name);
        self.string(value);
    }

    /// The entries that follow are of this database.
    pub fn select_db(&mut self, db: u64) {
        self.bytes.push(op::SELECT_DB);
        self.count(db);
    }

    /// How many keys of the database follow, and how many of these expire: a hint for the reader's tables.
    pub fn resize_db(&mut self, keys: u64, volatile: u64) {
        self.bytes.push(op::RESIZE_DB);
        self.count(keys);
        self.count(volatile);
    }

    /// A library of functions, by its source text.
    pub fn function(&mut self, text: &[u8]) {
        self.bytes.push(op::FUNCTION);
        self.string(text);
    }

    // Entries

    /// Begins an entry; its value follows. `expiry_ms` is Unix time.
    ///
    /// # Panics
    /// For values of modules, which are not written.
    pub fn begin(&mut self, kind: Kind, key: &[u8], expiry_ms: Option<i64>, access: Option<LastUse>) {
        self.facts(expiry_ms, access);
        self.kind(kind);
        self.string(key);
    }

    /// Begins the entry of a hash with fields that expire, in a file of [`crate::format::FIELD_EXPIRY_VERSION`] or later.
    /// [`RdbBuffer::count_dated`] follows.
    pub fn begin_dated_hash(&mut self, key: &[u8], expiry_ms: Option<i64>, access: Option<LastUse>) {
        self.facts(expiry_ms, access);
        self.dated_hash();
        self.string(key);
    }

    /// The facts about a key that stand in front of the type.
    fn facts(&mut self, expiry_ms: Option<i64>, access: Option<LastUse>) {
        if let Some(expiry_ms) = expiry_ms {
            self.bytes.push(op::EXPIRE_MS);
            self.bytes.extend_from_slice(&expiry_ms.to_le_bytes());
        }
        match access {
            None => {}
            Some(LastUse::Idle(seconds)) => {
                self.bytes.push(op::IDLE);
                self.count(seconds);
            }
            Some(LastUse::Freq(counter)) => self.bytes.extend_from_slice(&[op::FREQ, counter]),
        }
    }

    /// The type of a value, in front of it; an entry has its key between the two, DUMP's payload has none.
    ///
    /// # Panics
    /// For values of modules, which are not written.
    pub fn kind(&mut self, kind: Kind) {
        self.bytes.push(match kind {
            Kind::String => ty::STRING,
            Kind::List => ty::LIST,
            Kind::Set => ty::SET,
            Kind::Hash => ty::HASH,
            Kind::Zset => ty::ZSET,
            Kind::Stream => ty::STREAM,
            Kind::Module => panic!("no module's value is written"),
        });
    }

    /// The type of a hash with fields that expire, as [`RdbBuffer::kind`].
    pub fn dated_hash(&mut self) {
        self.bytes.push(ty::HASH_FIELDS);
    }

    /// The number of fields that follow of a hash with fields that expire; none of these expires before `least_ms`.
    pub fn count_dated(&mut self, least_ms: i64, count: u64) {
        self.bytes.extend_from_slice(&least_ms.to_le_bytes());
        self.count(count);
    }

    /// The number of elements, fields or members that follow, or of a string's bytes that follow as they are.
    pub fn count(&mut self, count: u64) {
        push_length(&mut self.bytes, count);
    }

    /// The value of a string, an element of a list, a member of a set.
    #[inline]
    pub fn string(&mut self, text: &[u8]) {
        if text.len() <= INT_TEXT_MAX && self.integer(text) {
            return;
        }
        if (COMPRESS_MIN_BYTES + 1..=self.compress_max).contains(&text.len()) {
            self.marks.push(self.bytes.len());
        }
        push_length(&mut self.bytes, text.len() as u64);
        self.bytes.extend_from_slice(text);
    }

    /// A field of a hash and its value.
    #[inline]
    pub fn pair(&mut self, field: &[u8], value: &[u8]) {
        self.string(field);
        self.string(value);
    }

    /// A field of a hash with fields that expire, its value, and when it expires, if it does: not before `least_ms`.
    pub fn dated_pair(&mut self, least_ms: i64, expiry_ms: Option<i64>, field: &[u8], value: &[u8]) {
        debug_assert!(expiry_ms.is_none_or(|expiry_ms| expiry_ms >= least_ms), "the least is not the least");
        self.count(expiry_ms.map_or(0, |expiry_ms| (expiry_ms - least_ms) as u64 + 1));
        self.pair(field, value);
    }

    /// A member of a sorted set and its score.
    #[inline]
    pub fn scored(&mut self, member: &[u8], score: f64) {
        self.string(member);
        self.bytes.extend_from_slice(&score.to_le_bytes());
    }

    /// A node of a stream, whose master ID is `first`.
    pub fn entries(&mut self, first: (u64, u64), entries: &Listpack) {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&first.0.to_be_bytes());
        key[8..].copy_from_slice(&first.1.to_be_bytes());
        self.string(&key);
        self.string(&entries.seal());
    }

    /// The facts of a stream, behind its nodes, and the number of its groups.
    pub fn stream_tail(&mut self, tail: &StreamTail, groups: u64) {
        self.count(tail.len);
        for (ms, seq) in [tail.last, tail.first, tail.max_deleted] {
            self.count(ms);
            self.count(seq);
        }
        self.count(tail.added);
        self.count(groups);
    }

    /// A group of a stream; `pending` entries follow, then the number of its consumers, and these.
    pub fn group(&mut self, name: &[u8], last: (u64, u64), read: Option<u64>, pending: u64) {
        self.string(name);
        self.count(last.0);
        self.count(last.1);
        // A number that is not known is -1.
        self.count(read.unwrap_or(u64::MAX));
        self.count(pending);
    }

    /// A pending entry of a group: its ID, when it was delivered, in milliseconds of Unix time, and how often.
    pub fn pending(&mut self, id: (u64, u64), time_ms: i64, count: u64) {
        self.raw_id(id);
        self.bytes.extend_from_slice(&time_ms.to_le_bytes());
        self.count(count);
    }

    /// A consumer of a group, seen then, in milliseconds of Unix time; the IDs of its `owned` pending entries follow.
    pub fn consumer(&mut self, name: &[u8], seen_ms: i64, owned: u64) {
        self.string(name);
        self.bytes.extend_from_slice(&seen_ms.to_le_bytes());
        self.count(owned);
    }

    /// An ID of 16 bytes, high byte first.
    pub fn raw_id(&mut self, (ms, seq): (u64, u64)) {
        self.bytes.extend_from_slice(&ms.to_be_bytes());
        self.bytes.extend_from_slice(&seq.to_be_bytes());
    }

    /// Appends the text of an integer of 32 bits as one; false for any other text.
    fn integer(&mut self, text: &[u8]) -> bool {
        // No integer begins with another byte: most texts are done here.
        if !text.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-') {
            return false;
        }
        let Some(n) = parse_i64(text) else { return false };
        let bytes = n.to_le_bytes();
        match n {
            -0x80..=0x7f => self.bytes.extend_from_slice(&[len::INT_8, bytes[0]]),
            -0x8000..=0x7fff => self.bytes.extend_from_slice(&[len::INT_16, bytes[0], bytes[1]]),
            -0x8000_0000..=0x7fff_ffff => {
                self.bytes.push(len::INT_32);
                self.bytes.extend_from_slice(&bytes[..4]);
            }
            _ => return false,
        }
        true
    }

    /// The string whose length prefix stands here.
    fn text_at(&self, start: usize) -> &[u8] {
        let bytes = &self.bytes[start..];
        let length = match bytes[0] {
            len::BITS_32 => u32::from_be_bytes(bytes[1..5].try_into().expect("four bytes")) as usize,
            len::BITS_64 => u64::from_be_bytes(bytes[1..9].try_into().expect("eight bytes")) as usize,
            first @ len::BITS_14.. => usize::from(first & 0x3f) << 8 | usize::from(bytes[1]),
            first => usize::from(first),
        };
        &bytes[prefix_bytes(length as u64)..][..length]
    }
}

/// Bytes of a length prefix.
fn prefix_bytes(length: u64) -> usize {
    match length {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Appends a length.
pub(super) fn push_length(to: &mut Vec<u8>, length: u64) {
    match length {
        0..0x40 => to.push(length as u8),
        0x40..0x4000 => to.extend_from_slice(&[len::BITS_14 | (length >> 8) as u8, length as u8]),
        0x4000..=0xffff_ffff => {
            to.push(len::BITS_32);
            to.extend_from_slice(&(length as u32).to_be_bytes());
        }
        _ => {
            to.push(len::BITS_64);
            to.extend_from_slice(&length.to_be_bytes());
        }
    }
}

/// Appends a string compressed; false, and nothing was appended, if that saves less than four bytes.
fn push_compressed(table: &mut Table, text: &[u8], to: &mut Vec<u8>) -> bool {
    // The number of compressed bytes stands in front of them and is known behind them.
    let mut small = Vec::with_capacity(text.len() / 2);
    if !lzf::compress(table, text, text.len().saturating_sub(4), &mut small) {
        return false;
    }
    to.push(len::LZF);
    push_length(to, small.len() as u64);
    push_length(to, text.len() as u64);
    to.extend_from_slice(&small);
    true
}
