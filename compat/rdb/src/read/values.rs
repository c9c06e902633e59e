//! A value, part by part, whatever its encoding.
//!
//! ```text
//! Start ─▶ Done                       a string, a value of a module (passed over)
//! Start ─▶ Stream ─▶ Done             a stream (`streams.rs`)
//! Start ─▶ Elements ─▶ Done           a number of elements, each in the file
//! Start ─▶ Blob ─▶ Done               one packed blob
//! Start ─▶ Nodes ⇄ Node ─▶ Done       a quicklist: packed blobs and large elements
//! ```
//! At most one string, one element or one blob is in memory.

use std::io::Read;

use varve_base::number::{INT_TEXT_MAX, parse_f64, write_i64};

use crate::format::{Encoding, StreamTail};
use crate::read::fault::ReadFault;
use crate::read::packed::{Cursor, Entry, Form};
use crate::read::skip;
use crate::read::source::Source;
use crate::read::streams::{StreamItem, StreamState};

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// A string.
    Whole(&'a [u8]),
    /// An element of a list, a member of a set.
    Element(&'a [u8]),
    /// A field of a hash and its value.
    Pair(&'a [u8], &'a [u8]),
    /// A field, its value and when it expires, in milliseconds of Unix time.
    DatedPair(&'a [u8], &'a [u8], i64),
    /// A member of a sorted set and its score, which is a number.
    Scored(&'a [u8], f64),
    /// An entry of a stream begins: its ID, and how many fields follow as pairs. IDs come in order.
    Entry((u64, u64), u64),
    /// The facts of a stream, behind its entries.
    Tail(StreamTail),
    /// A group of a stream: its name, the ID that was delivered last, and the number of entries read, -1 if that is not known
    /// and `None` if the form does not state it.
    Group(&'a [u8], (u64, u64), Option<i64>),
    /// An entry that is pending in the group: its ID, when it was delivered, in milliseconds of Unix time, and how often.
    Pending((u64, u64), i64, u64),
    /// A consumer of the group: its name, and when it was seen and when it was active, in milliseconds of Unix time.
    Consumer(&'a [u8], i64, i64),
    /// A pending entry of the group is the consumer's.
    Owned((u64, u64)),
    /// The names of a stream's messages, behind its groups, in the form of [`crate::format::MESSAGE_NAMES`].
    Names(&'a [u8]),
}

#[derive(Debug)]
enum State {
    Start,
    Elements(u64),
    Blob(Cursor),
    Nodes(u64),
    Node(Cursor, u64),
    Stream(Box<StreamState>),
    Done,
}

/// Where the bytes of a part are.
#[derive(Clone, Copy)]
enum Slot {
    First,
    Second,
    Blob(Entry),
}

/// A part that has been read.
enum Ready {
    Whole,
    Element(Slot),
    Pair(Slot, Slot, i64),
    Scored(Slot, f64),
    Other(StreamItem),
}

/// A value that is being read, and the memory for its parts, which is kept from value to value.
#[derive(Debug)]
pub(crate) struct Values {
    encoding: Encoding,
    state: State,
    /// The least expiry of a hash's fields, to which those of its fields are relative.
    least_ms: i64,
    first: Vec<u8>,
    second: Vec<u8>,
    blob: Vec<u8>,
    small: Vec<u8>,
    texts: [[u8; INT_TEXT_MAX]; 2],
}

/// Memory of a buffer that is kept from one value to the next.
const KEEP_BYTES: usize = 1 << 20;

impl Default for Values {
    fn default() -> Values {
        Values {
            encoding: Encoding::String,
            state: State::Done,
            least_ms: 0,
            first: Vec::new(),
            second: Vec::new(),
            blob: Vec::new(),
            small: Vec::new(),
            texts: [[0; INT_TEXT_MAX]; 2],
        }
    }
}

impl Values {
    /// Begins a value.
    pub(crate) fn begin(&mut self, encoding: Encoding) {
        (self.encoding, self.state) = (encoding, State::Start);
        for buffer in [&mut self.first, &mut self.second, &mut self.blob, &mut self.small] {
            buffer.clear();
            buffer.shrink_to(KEEP_BYTES);
        }
    }

    /// The encoding of the value that was begun last.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Passes over the value, of which no part has been read.
    pub(crate) fn skip<R: Read>(&mut self, source: &mut Source<R>) -> Result<(), ReadFault> {
        debug_assert!(matches!(self.state, State::Start), "a value is passed over whole");
        self.state = State::Done;
        skip::value(source, self.encoding)
    }

    /// The next part, None behind the last one.
    #[inline]
    pub(crate) fn next_part<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Part<'_>>, ReadFault> {
        Ok(self.step(source)?.map(|ready| self.part(ready)))
    }

    fn part(&mut self, ready: Ready) -> Part<'_> {
        let Values { first, second, blob, texts: [text, other], .. } = self;
        let show = |slot, text| match slot {
            Slot::First => &first[..],
            Slot::Second => &second[..],
            Slot::Blob(Entry::Bytes(at, len)) => &blob[at..at + len],
            Slot::Blob(Entry::Int(n)) => write_i64(text, n),
        };
        match ready {
            Ready::Whole => Part::Whole(first),
            Ready::Element(slot) => Part::Element(show(slot, text)),
            Ready::Pair(field, value, 0) => Part::Pair(show(field, text), show(value, other)),
            Ready::Pair(field, value, until) => Part::DatedPair(show(field, text), show(value, other), until),
            Ready::Scored(member, score) => Part::Scored(show(member, text), score),
            Ready::Other(item) => part_of_stream(item, blob),
        }
    }

    #[inline]
    fn step<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Ready>, ReadFault> {
        loop {
            match &mut self.state {
                State::Start => {
                    if let Some(ready) = self.start(source)? {
                        return Ok(Some(ready));
                    }
                }
                State::Done => return Ok(None),
                State::Elements(0) | State::Nodes(0) => self.state = State::Done,
                State::Elements(left) => {
                    *left -= 1;
                    return self.element(source).map(Some);
                }
                State::Blob(cursor) => match of_blob(self.encoding, cursor, &self.blob)? {
                    Some(ready) => return Ok(Some(ready)),
                    None => self.state = State::Done,
                },
                State::Nodes(left) => {
                    let left = *left - 1;
                    if let Some(ready) = self.node(source, left)? {
                        return Ok(Some(ready));
                    }
                }
                State::Stream(stream) => match stream.next(source, &mut self.blob, &mut self.small)? {
                    Some(StreamItem::Pair(field, value)) => {
                        return Ok(Some(Ready::Pair(Slot::Blob(field), Slot::Blob(value), 0)));
                    }
                    Some(item) => return Ok(Some(Ready::Other(item))),
                    None => self.state = State::Done,
                },
                State::Node(cursor, left) => match cursor.next_entry(&self.blob)? {
                    Some(entry) => return Ok(Some(Ready::Element(Slot::Blob(entry)))),
                    None => self.state = State::Nodes(*left),
                },
            }
        }
    }

    /// Reads what stands in front of the first part; of a string, the string.
    fn start<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Ready>, ReadFault> {
        let form = match self.encoding {
            Encoding::String => {
                self.state = State::Done;
                source.string(&mut self.first, &mut self.small)?;
                return Ok(Some(Ready::Whole));
            }
            Encoding::Stream(form) => {
                self.state = State::Stream(Box::new(StreamState::begin(form, source.length()?)));
                return Ok(None);
            }
            Encoding::Module | Encoding::ModulePreGa => {
                self.skip(source)?;
                return Ok(None);
            }
            Encoding::Quicklist | Encoding::Quicklist2 => {
                self.state = State::Nodes(source.length()?);
                return Ok(None);
            }
            Encoding::List
            | Encoding::Set
            | Encoding::ZsetText
            | Encoding::Zset
            | Encoding::Hash
            | Encoding::HashFieldsPreGa
            | Encoding::HashFieldsValkey => {
                self.state = State::Elements(source.length()?);
                return Ok(None);
            }
            Encoding::HashFields => {
                self.least_ms = i64::from_le_bytes(source.array()?);
                self.state = State::Elements(source.length()?);
                return Ok(None);
            }
            Encoding::HashListpackFields => {
                // The least of the times that stand in the blob as well.
                source.skip(8)?;
                Form::Listpack
            }
            Encoding::HashZipmap => Form::Zipmap,
            Encoding::SetIntset => Form::Intset,
            Encoding::ListZiplist | Encoding::ZsetZiplist | Encoding::HashZiplist => Form::Ziplist,
            Encoding::HashListpack
            | Encoding::ZsetListpack
            | Encoding::SetListpack
            | Encoding::HashListpackFieldsPreGa => Form::Listpack,
        };
        source.string(&mut self.blob, &mut self.small)?;
        self.state = State::Blob(Cursor::open(form, &self.blob)?);
        Ok(None)
    }

    /// An element of a value that is not packed.
    #[inline]
    fn element<R: Read>(&mut self, source: &mut Source<R>) -> Result<Ready, ReadFault> {
        let mut until = 0;
        if matches!(self.encoding, Encoding::HashFields | Encoding::HashFieldsPreGa) {
            until = self.field_expiry(source.length()?)?;
        }
        source.string(&mut self.first, &mut self.small)?;
        Ok(match self.encoding {
            Encoding::Zset => Ready::Scored(Slot::First, number(f64::from_le_bytes(source.array()?))?),
            Encoding::ZsetText => Ready::Scored(Slot::First, score_text(source)?),
            Encoding::Hash | Encoding::HashFields | Encoding::HashFieldsPreGa => {
                source.string(&mut self.second, &mut self.small)?;
                Ready::Pair(Slot::First, Slot::Second, until)
            }
            Encoding::HashFieldsValkey => {
                source.string(&mut self.second, &mut self.small)?;
                let until = i64::from_le_bytes(source.array()?);
                let until = if until == -1 { 0 } else { positive(until)? };
                Ready::Pair(Slot::First, Slot::Second, until)
            }
            _ => Ready::Element(Slot::First),
        })
    }

    /// When a field expires, from the number in front of it: 0 for never.
    fn field_expiry(&self, number: u64) -> Result<i64, ReadFault> {
        const FAR: ReadFault = ReadFault::Odd("a field expires beyond all times");
        let number = i64::try_from(number).map_err(|_| FAR)?;
        match self.encoding {
            _ if number == 0 => Ok(0),
            Encoding::HashFields => positive(self.least_ms.checked_add(number - 1).ok_or(FAR)?),
            _ => Ok(number),
        }
    }

    /// A node of a quicklist: an element by itself, or the blob of several.
    fn node<R: Read>(&mut self, source: &mut Source<R>, left: u64) -> Result<Option<Ready>, ReadFault> {
        let form = match self.encoding {
            Encoding::Quicklist2 => match source.length()? {
                1 => {
                    self.state = State::Nodes(left);
                    source.string(&mut self.first, &mut self.small)?;
                    if self.first.is_empty() {
                        return Err(ReadFault::Odd("a node of a list is an element without bytes"));
                    }
                    return Ok(Some(Ready::Element(Slot::First)));
                }
                2 => Form::Listpack,
                _ => return Err(ReadFault::Odd("a node of a list is of no known form")),
            },
            _ => Form::Ziplist,
        };
        source.string(&mut self.blob, &mut self.small)?;
        self.state = State::Node(Cursor::open(form, &self.blob)?, left);
        Ok(None)
    }
}

/// A part of a stream that is no pair; `name` was read with it.
fn part_of_stream(item: StreamItem, name: &[u8]) -> Part<'_> {
    match item {
        StreamItem::Entry(id, fields) => Part::Entry(id, fields),
        StreamItem::Tail(tail) => Part::Tail(tail),
        StreamItem::Group(last, read) => Part::Group(name, last, read),
        StreamItem::Pending(id, time_ms, count) => Part::Pending(id, time_ms, count),
        StreamItem::Consumer(seen_ms, active_ms) => Part::Consumer(name, seen_ms, active_ms),
        StreamItem::Owned(id) => Part::Owned(id),
        StreamItem::Names => Part::Names(name),
        StreamItem::Pair(..) => unreachable!("a pair is in its node"),
    }
}

/// The next part of a packed collection.
fn of_blob(encoding: Encoding, cursor: &mut Cursor, blob: &[u8]) -> Result<Option<Ready>, ReadFault> {
    let Some(first) = cursor.next_entry(blob)? else { return Ok(None) };
    let slot = Slot::Blob(first);
    match encoding {
        Encoding::ListZiplist | Encoding::SetIntset | Encoding::SetListpack => return Ok(Some(Ready::Element(slot))),
        _ => {}
    }
    let second = cursor
        .next_entry(blob)?
        .ok_or(ReadFault::Odd("a packed collection has a field or member without its value"))?;
    Ok(Some(match encoding {
        Encoding::ZsetZiplist | Encoding::ZsetListpack => Ready::Scored(slot, packed_score(second, blob)?),
        Encoding::HashListpackFields | Encoding::HashListpackFieldsPreGa => {
            let Some(Entry::Int(until)) = cursor.next_entry(blob)? else {
                return Err(ReadFault::Odd("a packed hash has a field without the time of its expiry"));
            };
            Ready::Pair(slot, Slot::Blob(second), if until == 0 { 0 } else { positive(until)? })
        }
        _ => Ready::Pair(slot, Slot::Blob(second), 0),
    }))
}

fn positive(time_ms: i64) -> Result<i64, ReadFault> {
    if time_ms > 0 { Ok(time_ms) } else { Err(ReadFault::Odd("a field expires before all times")) }
}

fn number(score: f64) -> Result<f64, ReadFault> {
    if score.is_nan() { Err(ReadFault::Score) } else { Ok(score) }
}

fn packed_score(entry: Entry, blob: &[u8]) -> Result<f64, ReadFault> {
    match entry {
        Entry::Int(n) => Ok(n as f64),
        Entry::Bytes(at, len) => parse_f64(&blob[at..at + len]).ok_or(ReadFault::Score),
    }
}

/// A score as text, its length in front, or one byte for what is no number or infinite.
fn score_text<R: Read>(source: &mut Source<R>) -> Result<f64, ReadFault> {
    let length = match source.byte()? {
        253 => return Err(ReadFault::Score),
        254 => return Ok(f64::INFINITY),
        255 => return Ok(f64::NEG_INFINITY),
        length => usize::from(length),
    };
    let mut text = [0; 252];
    for byte in &mut text[..length] {
        *byte = source.byte()?;
    }
    parse_f64(&text[..length]).ok_or(ReadFault::Score)
}
