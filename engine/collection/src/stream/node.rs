//! The bytes of a stream's node: some entries in the order of their IDs.
//!
//! ```text
//! 0          16         32       36       40          44
//! +----------+----------+--------+--------+-----------+---------------+-------+-------+--
//! | first ID | last ID  | live   | gone   | peer size | master fields | entry | entry | ..
//! | ms, seq  | ms, seq  | u32    | u32    | u32       | count, names  |       |       |
//! +----------+----------+--------+--------+-----------+---------------+-------+-------+--
//! entry          | bytes of the rest, low bit: same fields | ms - first ms | seq - first seq |
//!   same fields  | value | value ..                  the names are those of the master fields
//!   others       | count | name | value | name ..
//! ```
//! Numbers are in seven bits a byte, the low ones first; a text has its length in front. The difference of the second
//! parts of two IDs may be negative: its sign is its lowest bit. The master fields are those of the entry with which
//! the node began.
//!
//! An entry that is removed leaves no trace but in `gone`: its bytes are taken out. The first ID, the last ID and the
//! number of all entries that the node has ever had stay, and so does the size of redis-server's node with the same
//! entries (`peer size`, a listpack but for its two counts). By these redis-server decides where a node ends and what
//! `XTRIM ~` removes, so both servers answer the same.
//!
//! Not here: where the bytes lie.

use smallvec::SmallVec;
use varve_base::number::parse_i64;

use super::StreamId;

/// Bytes in front of the master fields.
const HEADER_BYTES: usize = 44;
const LAST: usize = 16;
const LIVE: usize = 32;
const GONE: usize = 36;
const PEER: usize = 40;
/// Bytes of a listpack without entries, and of the zero that ends its master fields.
const PEER_EMPTY_BYTES: u64 = 7 + 2;

/// Bytes of an entry, or of a node with one, before they are put where they belong.
pub(super) type Encoded = SmallVec<[u8; 256]>;

/// A node, to read.
#[derive(Clone, Copy, Debug)]
pub struct StreamNode<'a>(pub(super) &'a [u8]);

/// An entry of a node.
#[derive(Clone, Debug)]
pub struct StreamEntry<'a> {
    /// Its ID.
    pub id: StreamId,
    /// Its fields and values in order.
    pub fields: StreamFields<'a>,
}

/// The fields and values of an entry.
#[derive(Clone, Debug)]
pub struct StreamFields<'a> {
    /// The names that are left, where they are not among the entry's own bytes.
    names: Option<&'a [u8]>,
    own: &'a [u8],
    left: usize,
}

/// The entries of a node that are left, in the order of their IDs.
#[derive(Clone, Debug)]
pub(super) struct Entries<'a> {
    node: StreamNode<'a>,
    left: &'a [u8],
}

impl<'a> StreamNode<'a> {
    /// Opens a node of this crate's making.
    #[inline]
    pub(super) fn open(value: &'a [u8]) -> StreamNode<'a> {
        debug_assert!(value.len() > HEADER_BYTES, "a node has master fields");
        StreamNode(value)
    }

    /// The ID of the entry with which the node began; the entry may be gone.
    #[inline]
    pub fn first(&self) -> StreamId {
        id_at(self.0, 0)
    }

    /// The greatest ID that the node has ever had; the entry may be gone.
    #[inline]
    pub fn last(&self) -> StreamId {
        id_at(self.0, LAST)
    }

    /// Number of entries.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "no node is empty")]
    pub fn len(&self) -> usize {
        word(self.0, LIVE) as usize
    }

    /// The node as it is written into another stream ([`super::Stream::append_node`]).
    pub fn raw(&self) -> &'a [u8] {
        self.0
    }

    /// Bytes of the node.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Entries that were removed since the node began.
    pub(super) fn gone(&self) -> usize {
        word(self.0, GONE) as usize
    }

    /// Bytes of redis-server's node with the same history.
    pub(super) fn peer_bytes(&self) -> u64 {
        let counts = peer_integer(i64::from(word(self.0, LIVE))) + peer_integer(i64::from(word(self.0, GONE)));
        u64::from(word(self.0, PEER)) + counts
    }

    /// The names of the master fields.
    pub fn master(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        let (count, mut names) = number(&self.0[HEADER_BYTES..]);
        (0..count as usize).map(move |_| {
            let (name, rest) = text(names);
            names = rest;
            name
        })
    }

    /// The entries in order.
    pub(super) fn entries(&self) -> Entries<'a> {
        let (count, mut left) = number(&self.0[HEADER_BYTES..]);
        for _ in 0..count {
            left = text(left).1;
        }
        Entries { node: *self, left }
    }

    /// Shows the entries in order.
    pub fn for_each(&self, mut show: impl FnMut(StreamEntry<'a>)) {
        self.entries().for_each(|(_, entry)| show(entry));
    }

    /// Panics if the bytes are not what this file makes. O(N).
    pub(super) fn verify(&self) {
        let (mut count, mut before) = (0, None);
        for (_, entry) in self.entries() {
            assert!(before < Some(entry.id) && entry.id >= self.first() && entry.id <= self.last(), "IDs in order");
            (count, before) = (count + 1, Some(entry.id));
            let left = entry.fields.len();
            assert_eq!(entry.fields.count(), left, "an entry has as many fields as it states");
        }
        assert_eq!(count, self.len(), "a node has as many entries as it states");
    }

    /// Whether these names, in this order, are the master fields.
    fn is_master<'f>(&self, fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])>) -> bool {
        let names = self.master();
        names.len() == fields.len() && names.zip(fields).all(|(name, (field, _))| name == field)
    }
}

impl Entries<'_> {
    /// Where in the node the next entry begins.
    pub(super) fn offset(&self) -> usize {
        self.node.0.len() - self.left.len()
    }
}

impl<'a> Iterator for Entries<'a> {
    /// Bytes of the node that the entry takes, and the entry.
    type Item = (usize, StreamEntry<'a>);

    #[inline]
    fn next(&mut self) -> Option<(usize, StreamEntry<'a>)> {
        if self.left.is_empty() {
            return None;
        }
        let (head, rest) = number(self.left);
        let (own, left) = rest.split_at((head >> 1) as usize);
        let bytes = self.left.len() - left.len();
        self.left = left;
        let first = self.node.first();
        let (ms, own) = number(own);
        let (seq, own) = number(own);
        let seq = (seq >> 1) as i64 ^ -((seq & 1) as i64);
        let id = StreamId { ms: first.ms.wrapping_add(ms), seq: first.seq.wrapping_add_signed(seq) };
        let (names, own, left) = if head & 1 == 1 {
            let (count, names) = number(&self.node.0[HEADER_BYTES..]);
            (Some(names), own, count)
        } else {
            let (count, own) = number(own);
            (None, own, count)
        };
        Some((bytes, StreamEntry { id, fields: StreamFields { names, own, left: left as usize } }))
    }
}

impl StreamFields<'_> {
    /// Whether the names are the master fields of the node.
    pub fn are_master(&self) -> bool {
        self.names.is_some()
    }
}

impl<'a> Iterator for StreamFields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        self.left = self.left.checked_sub(1)?;
        let name = match &mut self.names {
            Some(names) => take_text(names),
            None => take_text(&mut self.own),
        };
        Some((name, take_text(&mut self.own)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for StreamFields<'_> {}

/// The bytes of a node with one entry.
pub(super) fn begin<'f>(
    id: StreamId,
    fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone,
    out: &mut Encoded,
) {
    out.clear();
    (0..2).for_each(|_| out.extend_from_slice(&id.bytes()));
    out.extend_from_slice(&[0; HEADER_BYTES - LIVE]);
    put_number(out, fields.len() as u64);
    fields.clone().for_each(|(name, _)| put_text(out, name));
    let names = peer_integer(fields.len() as i64) + fields.clone().map(|(name, _)| peer_text(name)).sum::<u64>();
    let mut entry = Encoded::new();
    let peer = encode(StreamNode(out), id, fields, &mut entry);
    put_behind(out, entry);
    set_word(out, LIVE, 1);
    set_word(out, PEER, (PEER_EMPTY_BYTES + names + peer) as u32);
}

/// The bytes of an entry of a node; gives those that it takes in redis-server's.
pub(super) fn encode<'f>(
    node: StreamNode<'_>,
    id: StreamId,
    fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone,
    out: &mut Encoded,
) -> u64 {
    let first = node.first();
    debug_assert!(id >= first, "entries come in order");
    debug_assert!(fields.len() > 0, "an entry has fields");
    let (ms, seq) = (id.ms - first.ms, id.seq.wrapping_sub(first.seq) as i64);
    let is_same = node.is_master(fields.clone());
    let count = fields.len();
    let mut body = Encoded::new();
    put_number(&mut body, ms);
    put_number(&mut body, (seq << 1 ^ seq >> 63) as u64);
    let mut peer = 2 + peer_integer(ms as i64) + peer_integer(seq);
    if !is_same {
        put_number(&mut body, count as u64);
        peer += peer_integer(count as i64);
    }
    for (name, value) in fields {
        if !is_same {
            put_text(&mut body, name);
            peer += peer_text(name);
        }
        put_text(&mut body, value);
        peer += peer_text(value);
    }
    out.clear();
    put_number(out, (body.len() as u64) << 1 | u64::from(is_same));
    put_behind(out, body);
    peer + peer_integer(if is_same { count + 3 } else { 2 * count + 4 } as i64)
}

/// Counts an entry that was written behind the others, and takes `peer` bytes in redis-server's node.
pub(super) fn count_added(value: &mut [u8], id: StreamId, peer: u64) {
    debug_assert!(peer > 0, "every entry has bytes");
    debug_assert!(id > id_at(value, LAST), "entries come in order");
    value[LAST..LAST + 16].copy_from_slice(&id.bytes());
    set_word(value, LIVE, word(value, LIVE) + 1);
    // A sum that does not fit is beyond every limit of a node all the same.
    let sum = u64::from(word(value, PEER)) + peer;
    set_word(value, PEER, u32::try_from(sum).unwrap_or(u32::MAX));
}

/// Takes `count` entries that stand in a row, and begin at `at`, out of a node; gives the bytes that are left.
pub(super) fn remove(value: &mut [u8], at: usize, bytes: usize, count: usize) -> usize {
    debug_assert!(count < word(value, LIVE) as usize, "a node that is left has entries");
    value.copy_within(at + bytes.., at);
    debug_assert!(at >= HEADER_BYTES && at + bytes <= value.len(), "whole entries");
    set_word(value, LIVE, word(value, LIVE) - count as u32);
    set_word(value, GONE, word(value, GONE) + count as u32);
    value.len() - bytes
}

/// Closes a node: it counts as many entries as gone as it takes for it to take no more.
pub(super) fn close(value: &mut [u8]) {
    debug_assert!(word(value, LIVE) > 0, "no node is empty");
    set_word(value, GONE, u32::MAX - word(value, LIVE));
}

fn id_at(value: &[u8], at: usize) -> StreamId {
    StreamId::of_bytes(value[at..at + 16].try_into().expect("sixteen bytes"))
}

fn word(value: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(value[at..at + 4].try_into().expect("four bytes"))
}

fn set_word(value: &mut [u8], at: usize, word: u32) {
    value[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

pub(super) fn put_number(out: &mut Encoded, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Puts `body` behind the little that `out` has. A long body stays in the memory that it has: to move it is a tenth of the work of
/// touching as much memory anew. Its length could be found first, so that it is written where it belongs; that costs
/// each short entry a pass over its texts, 3% of an XADD.
fn put_behind(out: &mut Encoded, mut body: Encoded) {
    if body.spilled() {
        body.insert_from_slice(0, out);
        *out = body;
    } else {
        out.extend_from_slice(&body);
    }
}

fn put_text(out: &mut Encoded, text: &[u8]) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// A number, and what stands behind it.
#[inline]
pub(super) fn number(bytes: &[u8]) -> (u64, &[u8]) {
    let (mut number, mut shift) = (0, 0);
    for (at, &byte) in bytes.iter().enumerate() {
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (number, &bytes[at + 1..]);
        }
        shift += 7;
    }
    unreachable!("a number ends within its node")
}

/// A text, and what stands behind it.
#[inline]
fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (len, rest) = number(bytes);
    rest.split_at(len as usize)
}

fn take_text<'a>(from: &mut &'a [u8]) -> &'a [u8] {
    let (taken, rest) = text(from);
    *from = rest;
    taken
}

/// Bytes of an integer in a listpack.
fn peer_integer(n: i64) -> u64 {
    match n {
        0..=0x7f => 2,
        -0x1000..=0xfff => 3,
        -0x8000..=0x7fff => 4,
        -0x80_0000..=0x7f_ffff => 5,
        -0x8000_0000..=0x7fff_ffff => 6,
        _ => 10,
    }
}

/// Bytes of a text in a listpack, which may be an integer there.
fn peer_text(text: &[u8]) -> u64 {
    if text.len() <= 20
        && let Some(n) = parse_i64(text)
    {
        return peer_integer(n);
    }
    let len = text.len() as u64;
    let front = match len {
        0..64 => 1,
        64..4096 => 2,
        _ => 5,
    };
    let back = match front + len {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    front + len + back
}
