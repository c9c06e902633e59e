//! A value, part by part, whatever its encoding.
//!
//! ```text
//! Start ─▶ Whole ─▶ Done                                 a string
//! Start ─▶ Done                                          a value of a module, passed over
//! Start ─▶ Stream ─▶ Done                                a stream (`streams.rs`)
//! Start ─▶ Elements ⇄ First, Second ─▶ Done              a number of elements, each in the file: one string or two
//! Start ─▶ Packed ─▶ Blob ─▶ Done                        one packed blob
//! Start ─▶ Nodes ⇄ PackedNode, Node, Alone ─▶ Done       a quicklist: packed blobs and large elements
//! ```
//! At most one string, one element or one blob is in memory. A step passes over a bounded number of things that are no part
//! (nodes without elements), and reads a bounded part of a long string (`strings.rs`).

use std::io::Read;

use varve_base::number::{INT_TEXT_MAX, parse_f64, write_i64};

use crate::format::{Encoding, StreamTail};
use crate::read::fault::ReadFault;
use crate::read::packed::{Cursor, Entry, Form};
use crate::read::skip;
use crate::read::source::Source;
use crate::read::streams::{StreamItem, StreamState, Took};
use crate::read::strings::Text;

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
    /// Names of a stream's messages, behind its groups, in the form of [`crate::format::MESSAGE_NAMES`]: 64 at most. The last such
    /// part has the counts.
    Names(&'a [u8]),
}

/// The place between two steps. Numbers of elements and nodes are those that were not begun.
#[derive(Debug)]
enum State {
    Start,
    /// In a string that is all of the value.
    Whole,
    Elements(u64),
    /// In the first or the second string of an element.
    First(u64),
    Second(u64),
    /// In a packed blob that is all of the value.
    Packed(Form),
    Blob(Cursor),
    Nodes(u64),
    /// In the packed blob of a node.
    PackedNode(Form, u64),
    Node(Cursor, u64),
    /// In a node that is one element.
    Alone(u64),
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

/// The end of a step.
#[derive(Debug)]
pub(crate) enum Got<T> {
    Part(T),
    /// Something was passed over, or a part of a long string was read.
    More,
    End,
}

/// A value that is being read, and the memory for its parts, which is kept from value to value.
#[derive(Debug)]
pub(crate) struct Values {
    encoding: Encoding,
    state: State,
    /// The least expiry of a hash's fields, to which those of its fields are relative.
    least_ms: i64,
    /// When the field that is being read expires.
    until: i64,
    first: Text,
    second: Text,
    blob: Text,
    small: Vec<u8>,
    texts: [[u8; INT_TEXT_MAX]; 2],
}

/// Memory of a buffer that is kept from one value to the next.
const KEEP_BYTES: usize = 1 << 20;
/// Things that one step passes over, at most, and the work of each, in bytes that are expanded in that time.
const PASSED_MAX: usize = 256;
const PASSED_WORK: u64 = 64;

impl Default for Values {
    fn default() -> Values {
        Values {
            encoding: Encoding::String,
            state: State::Done,
            least_ms: 0,
            until: 0,
            first: Text::default(),
            second: Text::default(),
            blob: Text::default(),
            small: Vec::new(),
            texts: [[0; INT_TEXT_MAX]; 2],
        }
    }
}

impl Values {
    /// Begins a value.
    pub(crate) fn begin(&mut self, encoding: Encoding) {
        self.encoding = encoding;
        self.again(KEEP_BYTES);
    }

    /// Begins the value once more, and keeps `keep` bytes of memory for each of its strings.
    pub(crate) fn again(&mut self, keep: usize) {
        self.state = State::Start;
        for text in [&mut self.first, &mut self.second, &mut self.blob] {
            text.clear(keep);
        }
        self.small.clear();
        self.small.shrink_to(keep);
    }

    /// Bytes of memory for strings.
    pub(crate) fn held_bytes(&self) -> usize {
        let texts = [&self.first, &self.second, &self.blob].map(|text| text.bytes.capacity());
        let aside = if let State::Stream(stream) = &self.state { stream.held_bytes() } else { 0 };
        texts.iter().sum::<usize>() + self.small.capacity() + aside
    }

    /// A bound on the memory that the next steps take for a long string, of a value of `file_bytes`.
    pub(crate) fn wanted_bytes(&self, file_bytes: u64) -> u64 {
        [&self.first, &self.second, &self.blob].iter().map(|text| text.wanted_bytes(file_bytes)).sum()
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
        loop {
            match self.step(source)? {
                Got::Part(ready) => return Ok(Some(self.part(ready))),
                Got::More => {}
                Got::End => return Ok(None),
            }
        }
    }

    /// One step on the way to the next part.
    #[inline]
    pub(crate) fn next<R: Read>(&mut self, source: &mut Source<R>) -> Result<Got<Part<'_>>, ReadFault> {
        Ok(match self.step(source)? {
            Got::Part(ready) => Got::Part(self.part(ready)),
            Got::More => Got::More,
            Got::End => Got::End,
        })
    }

    fn part(&mut self, ready: Ready) -> Part<'_> {
        let Values { first, second, blob, texts: [text, other], .. } = self;
        let show = |slot, text| match slot {
            Slot::First => &first.bytes[..],
            Slot::Second => &second.bytes[..],
            Slot::Blob(Entry::Bytes(at, len)) => &blob.bytes[at..at + len],
            Slot::Blob(Entry::Int(n)) => write_i64(text, n),
        };
        match ready {
            Ready::Whole => Part::Whole(&first.bytes),
            Ready::Element(slot) => Part::Element(show(slot, text)),
            Ready::Pair(field, value, 0) => Part::Pair(show(field, text), show(value, other)),
            Ready::Pair(field, value, until) => Part::DatedPair(show(field, text), show(value, other), until),
            Ready::Scored(member, score) => Part::Scored(show(member, text), score),
            Ready::Other(item) => part_of_stream(item, &blob.bytes),
        }
    }

    #[inline]
    fn step<R: Read>(&mut self, source: &mut Source<R>) -> Result<Got<Ready>, ReadFault> {
        for _ in 0..PASSED_MAX {
            let ready = match &mut self.state {
                State::Done => return Ok(Got::End),
                State::Elements(0) | State::Nodes(0) => {
                    self.state = State::Done;
                    continue;
                }
                State::Elements(left) => {
                    let left = *left - 1;
                    self.element(source, left)?
                }
                State::Blob(cursor) => match of_blob(self.encoding, cursor, &self.blob.bytes)? {
                    Some(ready) => Some(ready),
                    None => {
                        self.state = State::Done;
                        continue;
                    }
                },
                State::Node(cursor, left) => match cursor.next_entry(&self.blob.bytes)? {
                    Some(entry) => Some(Ready::Element(Slot::Blob(entry))),
                    None => {
                        self.state = State::Nodes(*left);
                        source.worked(PASSED_WORK);
                        continue;
                    }
                },
                State::Nodes(left) => {
                    let left = *left - 1;
                    if self.node(source, left)? {
                        continue;
                    }
                    None
                }
                State::Stream(stream) => match stream.next(source, &mut self.blob, &mut self.small)? {
                    Took::Item(StreamItem::Pair(field, value)) => {
                        Some(Ready::Pair(Slot::Blob(field), Slot::Blob(value), 0))
                    }
                    Took::Item(item) => Some(Ready::Other(item)),
                    Took::More => None,
                    Took::End => return Ok(Got::End),
                },
                _ => self.go_on(source)?,
            };
            return Ok(ready.map_or(Got::More, Got::Part));
        }
        Ok(Got::More)
    }

    /// A step in front of the first part, or in a string. None if the part is not there yet.
    #[cold]
    fn go_on<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Ready>, ReadFault> {
        let Values { first, second, blob, small, .. } = self;
        let is_whole = match &self.state {
            State::Start => return self.start(source),
            State::Whole | State::First(_) | State::Alone(_) => first.go_on(source, small)?,
            State::Second(_) => second.go_on(source, small)?,
            State::Packed(_) | State::PackedNode(..) => blob.go_on(source, small)?,
            _ => unreachable!("in no string"),
        };
        if is_whole { self.behind_string(source) } else { Ok(None) }
    }

    /// Goes on behind a string, which is whole.
    fn behind_string<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Ready>, ReadFault> {
        match self.state {
            State::Whole => {
                self.state = State::Done;
                return Ok(Some(Ready::Whole));
            }
            State::First(left) => return self.behind_first(source, left),
            State::Second(left) => return self.end_element(source, left).map(Some),
            State::Packed(form) => self.state = State::Blob(Cursor::open(form, &self.blob.bytes)?),
            State::PackedNode(form, left) => self.state = State::Node(Cursor::open(form, &self.blob.bytes)?, left),
            State::Alone(left) => {
                if self.first.bytes.is_empty() {
                    return Err(ReadFault::Odd("a node of a list is an element without bytes"));
                }
                self.state = State::Nodes(left);
                return Ok(Some(Ready::Element(Slot::First)));
            }
            _ => unreachable!("behind no string"),
        }
        Ok(None)
    }

    /// Reads what stands in front of the first part; of a string, the string.
    fn start<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Ready>, ReadFault> {
        let form = match self.encoding {
            Encoding::String => {
                self.state = State::Whole;
                let is_whole = self.first.begin(source, &mut self.small)?;
                return if is_whole { self.behind_string(source) } else { Ok(None) };
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
        self.state = State::Packed(form);
        if self.blob.begin(source, &mut self.small)? { self.behind_string(source) } else { Ok(None) }
    }

    /// An element of a value that is not packed; None if a string of it is long.
    #[inline]
    fn element<R: Read>(&mut self, source: &mut Source<R>, left: u64) -> Result<Option<Ready>, ReadFault> {
        self.until = match self.encoding {
            Encoding::HashFields | Encoding::HashFieldsPreGa => self.field_expiry(source.length()?)?,
            _ => 0,
        };
        self.state = State::First(left);
        if self.first.begin(source, &mut self.small)? { self.behind_first(source, left) } else { Ok(None) }
    }

    /// Goes on behind the first string of an element.
    #[inline]
    fn behind_first<R: Read>(&mut self, source: &mut Source<R>, left: u64) -> Result<Option<Ready>, ReadFault> {
        if matches!(
            self.encoding,
            Encoding::Hash | Encoding::HashFields | Encoding::HashFieldsPreGa | Encoding::HashFieldsValkey
        ) {
            self.state = State::Second(left);
            if !self.second.begin(source, &mut self.small)? {
                return Ok(None);
            }
        }
        self.end_element(source, left).map(Some)
    }

    /// Goes on behind the last string of an element.
    #[inline]
    fn end_element<R: Read>(&mut self, source: &mut Source<R>, left: u64) -> Result<Ready, ReadFault> {
        self.state = State::Elements(left);
        Ok(match self.encoding {
            Encoding::Zset => Ready::Scored(Slot::First, number(f64::from_le_bytes(source.array()?))?),
            Encoding::ZsetText => Ready::Scored(Slot::First, score_text(source)?),
            Encoding::Hash | Encoding::HashFields | Encoding::HashFieldsPreGa => {
                Ready::Pair(Slot::First, Slot::Second, self.until)
            }
            Encoding::HashFieldsValkey => {
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

    /// Begins a node of a quicklist: an element by itself, or the blob of several, which is whole if this is true.
    fn node<R: Read>(&mut self, source: &mut Source<R>, left: u64) -> Result<bool, ReadFault> {
        let form = match self.encoding {
            Encoding::Quicklist2 => match source.length()? {
                1 => {
                    self.state = State::Alone(left);
                    self.first.begin(source, &mut self.small)?;
                    return Ok(false);
                }
                2 => Form::Listpack,
                _ => return Err(ReadFault::Odd("a node of a list is of no known form")),
            },
            _ => Form::Ziplist,
        };
        self.state = State::PackedNode(form, left);
        let is_whole = self.blob.begin(source, &mut self.small)?;
        if is_whole {
            self.state = State::Node(Cursor::open(form, &self.blob.bytes)?, left);
        }
        Ok(is_whole)
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
