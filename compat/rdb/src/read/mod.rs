//! Reading: a file as events, one value part by part.
//!
//! ```text
//! Reader        Aux .. SelectDb ResizeDb ( Key Part .. ValueEnd ) .. End
//! ValueReader   Part ..                                                      one value in memory: DUMP's, or one that
//!                                                                            Reader::raw_value has cut out of a file
//! StringReader  piece ..                                                     one string of any length
//! ```
//! Whatever the bytes are, the answer is an event or a [`ReadError`]; after an error nothing more is read. Memory is that
//! of the largest single string that the file really has, unless it is read by pieces. Checked here: structure, packed blobs to the last byte, scores,
//! times. Not here: elements that come twice and collections without elements, which the receiver sees.

mod envelope;
mod fault;
mod packed;
mod pieces;
mod skip;
mod source;
mod streams;
mod strings;
mod values;

pub use fault::{ReadError, ReadFault};
pub use values::Part;

use std::io::Read;

use crate::crc::agrees;
use crate::format::{Dialect, Encoding, Kind, Magic, op};
use crate::write::LastUse;
use pieces::Pieces;
pub(crate) use source::Source;
use values::{Got, Values};

/// The next thing in a file.
#[derive(Debug, PartialEq)]
pub enum Event<'a> {
    /// A field about the file itself. Readers pass over those that they do not know.
    Aux {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// The keys that follow are of this database.
    SelectDb(u64),
    /// Numbers of keys that follow and of those that expire: a hint.
    ResizeDb {
        /// All keys.
        keys: u64,
        /// Keys that expire.
        volatile: u64,
    },
    /// A hint about a hash slot of a cluster.
    Slot,
    /// The source text of a library of functions.
    Function(&'a [u8]),
    /// Data that a module keeps beside keys, which was passed over; the module's number.
    ModuleAux(u64),
    /// A key; its value follows.
    Key(KeyHead<'a>),
    /// A part of the value.
    Part(Part<'a>),
    /// The value is complete.
    ValueEnd,
    /// The file is complete, and its checksum right, if that is compared.
    End,
}

/// A key and what is known of it before its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyHead<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The type of its value. Values of modules have no parts: their end follows at once.
    pub kind: Kind,
    /// Number of the type, for [`ValueReader::new`].
    pub type_number: u8,
    /// When it expires, in milliseconds of Unix time.
    pub expiry_ms: Option<i64>,
    /// When it was used.
    pub access: Option<LastUse>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    Entries,
    Value,
    /// A key whose value is not read.
    Refused,
    Ended,
}

/// A file that is being read.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    state: State,
    dialect: Dialect,
    values: Values,
    key: Vec<u8>,
    text: Vec<u8>,
    small: Vec<u8>,
    /// The string that is read by pieces.
    pieces: Option<Pieces>,
    expiry_ms: Option<i64>,
    access: Option<LastUse>,
    type_number: u8,
}

impl<R: Read> Reader<R> {
    /// A file at its first byte. The reader has a buffer of its own, and reads ahead of what it shows.
    pub fn new(input: R) -> Reader<R> {
        Reader {
            source: Source::new(input, usize::MAX, true),
            state: State::Header,
            dialect: Dialect::OURS,
            values: Values::default(),
            key: Vec::new(),
            text: Vec::new(),
            small: Vec::new(),
            pieces: None,
            expiry_ms: None,
            access: None,
            type_number: 0,
        }
    }

    /// Has the reader not compare the checksum at the end of the file with its bytes: they are not summed.
    ///
    /// # Panics
    /// In debug builds, if something was read already.
    pub fn without_checksum(mut self) -> Reader<R> {
        debug_assert!(self.state == State::Header, "the header is summed like the rest");
        self.source.stop_summing();
        self
    }

    /// The server and version that the file is of, known from the first event on.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Bytes of the file that were read: after [`Event::End`] the length of its RDB part.
    pub fn offset(&self) -> u64 {
        self.source.file_offset()
    }

    /// The next event; [`Event::End`] again behind the end.
    ///
    /// # Errors
    /// Whatever is wrong with the bytes, where, and in which key.
    #[inline]
    pub fn next_event(&mut self) -> Result<Event<'_>, ReadError> {
        if self.state != State::Value {
            return match self.entry() {
                Ok(next) => Ok(self.event(next)),
                Err(fault) => Err(self.error(fault)),
            };
        }
        let Reader { source, values, .. } = self;
        match values.next_part(source) {
            // The borrow of a part ends before the error is made.
            Ok(Some(part)) => Ok(Event::Part(part)),
            Ok(None) => {
                self.state = State::Entries;
                Ok(Event::ValueEnd)
            }
            Err(fault) => {
                let error = error_in_value(fault, source.offset(), self.dialect, self.type_number, &self.key);
                Err(error.of_unpacked(source.is_compressed()))
            }
        }
    }

    /// Passes over the value of the key that was shown last, of which no part has been read; nothing packed is looked
    /// into.
    ///
    /// # Errors
    /// Those of [`Reader::next_event`].
    pub fn skip_value(&mut self) -> Result<(), ReadError> {
        if self.state == State::Value {
            self.values.skip(&mut self.source).map_err(|fault| self.error(fault))?;
            self.state = State::Entries;
        }
        Ok(())
    }

    /// The number of bytes of the string that is the value of the key that was shown last, and of which no part has been
    /// read: [`Reader::next_piece`] shows them.
    ///
    /// # Errors
    /// Those of [`Reader::next_event`].
    ///
    /// # Panics
    /// In debug builds, if the value is no string.
    pub fn begin_pieces(&mut self) -> Result<u64, ReadError> {
        debug_assert!(self.state == State::Value && self.values.encoding() == Encoding::String, "a string is next");
        let pieces = Pieces::begin(&mut self.source).map_err(|fault| self.error(fault))?;
        let bytes = pieces.left();
        self.pieces = Some(pieces);
        Ok(bytes)
    }

    /// The next bytes of the string, some tens of kilobytes; None behind the last one.
    ///
    /// # Errors
    /// Those of [`Reader::next_event`].
    pub fn next_piece(&mut self) -> Result<Option<&[u8]>, ReadError> {
        if self.pieces.as_ref().is_some_and(Pieces::is_over) {
            (self.pieces, self.state) = (None, State::Entries);
        }
        let Reader { source, pieces, dialect, type_number, key, .. } = self;
        let (Some(pieces), offset) = (pieces, source.offset()) else { return Ok(None) };
        let is_compressed = source.is_compressed();
        let error = |fault| error_in_value(fault, offset, *dialect, *type_number, key).of_unpacked(is_compressed);
        pieces.next(source).map_err(error)
    }

    /// Appends the value of the key that was shown last, of which no part has been read, to `to` as it stands in the
    /// file, for a [`ValueReader`] elsewhere.
    ///
    /// # Errors
    /// Those of [`Reader::next_event`].
    pub fn raw_value(&mut self, to: &mut Vec<u8>) -> Result<(), ReadError> {
        self.source.begin_copy(std::mem::take(to));
        let result = self.skip_value();
        *to = self.source.end_copy();
        result
    }

    /// Appends a value like [`Reader::raw_value`], unless it is a string of `large` bytes or more: of such a one nothing is
    /// appended, its length is given, and [`Reader::next_piece`] shows its bytes.
    ///
    /// # Errors
    /// Those of [`Reader::next_event`].
    pub fn raw_unless_large(&mut self, to: &mut Vec<u8>, large: u64) -> Result<Option<u64>, ReadError> {
        if self.state != State::Value || self.values.encoding() != Encoding::String {
            return self.raw_value(to).map(|()| None);
        }
        let begin = to.len();
        self.source.begin_copy(std::mem::take(to));
        let begun = Pieces::begin(&mut self.source);
        let skipped = match &begun {
            Ok(pieces) if pieces.left() < large => self.source.skip(pieces.left_in_file()),
            _ => Ok(()),
        };
        *to = self.source.end_copy();
        skipped.map_err(|fault| self.error(fault))?;
        let pieces = begun.map_err(|fault| self.error(fault))?;
        let length = pieces.left();
        if length < large {
            self.state = State::Entries;
            return Ok(None);
        }
        to.truncate(begin);
        self.pieces = Some(pieces);
        Ok(Some(length))
    }

    fn error(&self, fault: ReadFault) -> ReadError {
        let offset = self.source.offset();
        let error = match self.state {
            State::Value => error_in_value(fault, offset, self.dialect, self.type_number, &self.key),
            State::Refused => {
                ReadError::new(fault, offset).of_type(unread_name(self.dialect, self.type_number)).of_key(&self.key)
            }
            _ => ReadError::new(fault, offset),
        };
        error.of_unpacked(self.source.is_compressed())
    }

    /// Reads up to the next event that is not of a value.
    fn entry(&mut self) -> Result<Next, ReadFault> {
        if self.state == State::Ended {
            return Ok(Next::End);
        }
        if self.state == State::Header {
            self.header()?;
            self.state = State::Entries;
        }
        (self.expiry_ms, self.access) = (None, None);
        let mut refusal = None;
        loop {
            let source = &mut self.source;
            match source.byte()? {
                op::EXPIRE_S => {
                    self.expiry_ms = Some(i64::from(i32::from_le_bytes(source.array()?)) * 1000);
                }
                op::EXPIRE_MS => self.expiry_ms = Some(i64::from_le_bytes(source.array()?)),
                op::FREQ => self.access = Some(LastUse::Freq(source.byte()?)),
                op::IDLE => self.access = Some(LastUse::Idle(source.length()?)),
                op::SELECT_DB => return Ok(Next::SelectDb(source.length()?)),
                op::RESIZE_DB => return Ok(Next::ResizeDb(source.length()?, source.length()?)),
                op::AUX => {
                    source.string(&mut self.key, &mut self.small)?;
                    source.string(&mut self.text, &mut self.small)?;
                    return Ok(Next::Aux);
                }
                op::FUNCTION => {
                    source.string(&mut self.text, &mut self.small)?;
                    return Ok(Next::Function);
                }
                op::FUNCTION_PRE_GA => return Err(ReadFault::Unsupported("function of the first form")),
                op::MODULE_AUX => {
                    let module = source.length()?;
                    skip::module(source)?;
                    return Ok(Next::ModuleAux(module));
                }
                op::SLOT_INFO => {
                    for _ in 0..3 {
                        source.length()?;
                    }
                    return Ok(Next::Slot);
                }
                op::KEY_DATA if self.dialect.magic == Magic::Redis => {
                    let count = source.length()?;
                    for _ in 0..count {
                        source.skip(4)?;
                        skip::module(source)?;
                    }
                    // The key that it belongs to follows, and is named.
                    refusal = Some(ReadFault::Unsupported("module's data about a key"));
                }
                op::SLOT_IMPORT if self.dialect.magic == Magic::Valkey => {
                    return Err(ReadFault::Unsupported("slot that was being imported"));
                }
                op::UPDATE if self.dialect.magic == Magic::Valkey => {
                    return Err(ReadFault::Unsupported("change of a key in the middle of a data set"));
                }
                op::EOF => {
                    self.end()?;
                    return Ok(Next::End);
                }
                number => return self.key(number, refusal),
            }
        }
    }

    /// Reads the key behind the number of a type. With a refusal, or of an unknown type, the error names it.
    fn key(&mut self, number: u8, refusal: Option<ReadFault>) -> Result<Next, ReadFault> {
        let Reader { source, key, small, .. } = self;
        let encoding = Encoding::of(self.dialect, number);
        let fault = || ReadFault::Type(self.dialect, number);
        // Behind a number of no type stands no key.
        if encoding.is_none() && number > TYPE_MAX {
            return Err(fault());
        }
        source.string(key, small)?;
        self.type_number = number;
        match (encoding, refusal) {
            (Some(encoding), None) => {
                self.values.begin(encoding);
                self.state = State::Value;
                Ok(Next::Key)
            }
            (_, refusal) => {
                self.state = State::Refused;
                Err(refusal.unwrap_or_else(fault))
            }
        }
    }

    fn event(&self, next: Next) -> Event<'_> {
        match next {
            Next::Aux => Event::Aux { name: &self.key, value: &self.text },
            Next::SelectDb(db) => Event::SelectDb(db),
            Next::ResizeDb(keys, volatile) => Event::ResizeDb { keys, volatile },
            Next::Slot => Event::Slot,
            Next::Function => Event::Function(&self.text),
            Next::ModuleAux(module) => Event::ModuleAux(module),
            Next::Key => Event::Key(KeyHead {
                key: &self.key,
                kind: self.values.encoding().kind(),
                type_number: self.type_number,
                expiry_ms: self.expiry_ms,
                access: self.access,
            }),
            Next::End => Event::End,
        }
    }

    /// Reads the magic word and the version.
    fn header(&mut self) -> Result<(), ReadFault> {
        let mut first: [u8; 5] = self.source.array()?;
        if first.starts_with(&envelope::MAGIC) {
            let [.., version, codec] = first;
            let [flags, kind] = self.source.array()?;
            envelope::check([version, codec, flags, kind])?;
            self.source.begin_frame()?;
            first = self.source.array()?;
        }
        let (magic, digits) = match &first {
            b"REDIS" => (Magic::Redis, self.source.array::<4>()?),
            b"VALKE" => {
                let [last, digits @ ..] = self.source.array::<4>()?;
                if last != b'Y' {
                    return Err(ReadFault::Magic);
                }
                (Magic::Valkey, [b'0', digits[0], digits[1], digits[2]])
            }
            _ => return Err(ReadFault::Magic),
        };
        let version =
            std::str::from_utf8(&digits).ok().and_then(|digits| digits.parse().ok()).ok_or(ReadFault::Magic)?;
        self.dialect = Dialect::of(magic, version).ok_or(ReadFault::Version(magic, version))?;
        if self.dialect.version < CHECKSUM_VERSION {
            self.source.stop_summing();
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), ReadFault> {
        if self.dialect.version >= CHECKSUM_VERSION {
            let bytes = self.source.crc();
            let file = u64::from_le_bytes(self.source.array()?);
            // Zero says that the writer of the file has not summed it.
            if let Some(bytes) = bytes
                && file != 0
                && !agrees(file, bytes)
            {
                return Err(ReadFault::Checksum(file, bytes));
            }
        }
        if self.source.is_compressed() && !self.source.at_end()? {
            return Err(ReadFault::Odd("something follows the end of the compressed file"));
        }
        self.state = State::Ended;
        Ok(())
    }
}

/// Bytes of a file that [`is_rdb`] looks at.
pub const MAGIC_BYTES: usize = 5;

/// Whether a file that begins with these bytes is an RDB file, of whichever server, compressed or not.
pub fn is_rdb(first: &[u8]) -> bool {
    [&b"REDIS"[..], b"VALKE", &envelope::MAGIC].iter().any(|magic| first.starts_with(magic))
}

/// First version whose files end with a checksum.
const CHECKSUM_VERSION: u16 = 5;

/// An event without what it shows.
enum Next {
    Aux,
    SelectDb(u64),
    ResizeDb(u64, u64),
    Slot,
    Function,
    ModuleAux(u64),
    Key,
    End,
}

/// The greatest number that a type may have; opcodes are above.
const TYPE_MAX: u8 = 127;

/// The name of a value that is not read, by the number of its type.
fn unread_name(dialect: Dialect, type_number: u8) -> &'static str {
    match (dialect.magic, type_number) {
        (Magic::Redis, 28) => "array",
        (Magic::Redis, 29..=32) => "hash by a template",
        _ => "value",
    }
}

#[cold]
fn error_in_value(fault: ReadFault, offset: u64, dialect: Dialect, type_number: u8, key: &[u8]) -> ReadError {
    let error = ReadError::new(fault, offset);
    match Encoding::of(dialect, type_number) {
        Some(encoding) => error.of_encoding(encoding),
        None => error.of_type("value"),
    }
    .of_key(key)
}

/// One value: in memory, or wherever its bytes are read from.
#[derive(Debug)]
pub struct ValueReader<R> {
    source: Source<R>,
    values: Values,
    /// Bytes of the value, about.
    bytes: usize,
}

/// The end of a step of a [`ValueReader`].
#[derive(Debug, PartialEq)]
pub enum ReadStep<'a> {
    /// The next part.
    Part(Part<'a>),
    /// Nothing yet: a part of a long string was read, or things were passed over that are no parts.
    More,
    /// The last part was shown, and the bytes have ended with it.
    End,
}

impl<'a> ValueReader<&'a [u8]> {
    /// The value of a type, which the bytes are, nothing before and nothing behind.
    ///
    /// # Errors
    /// The type is not known.
    pub fn new(dialect: Dialect, type_number: u8, bytes: &'a [u8]) -> Result<ValueReader<&'a [u8]>, ReadError> {
        ValueReader::of(dialect, type_number, bytes, bytes.len())
    }

    /// The type and value that DUMP's payload has between its ends ([`crate::dump::open`]).
    ///
    /// # Errors
    /// The type is not known, or there is none.
    pub fn of_dump(dialect: Dialect, typed: &'a [u8]) -> Result<ValueReader<&'a [u8]>, ReadError> {
        let (number, value) = typed.split_first().ok_or_else(|| ReadError::new(ReadFault::Truncated, 0))?;
        ValueReader::new(dialect, *number, value)
    }
}

impl<R: Read> ValueReader<R> {
    /// The value of a type, whose bytes are all that `input` has, about `bytes` of them.
    ///
    /// # Errors
    /// The type is not known.
    pub fn of(dialect: Dialect, type_number: u8, input: R, bytes: usize) -> Result<ValueReader<R>, ReadError> {
        let encoding = Encoding::of(dialect, type_number)
            .ok_or_else(|| ReadError::new(ReadFault::Type(dialect, type_number), 0))?;
        let (source, values) = (Source::new(input, bytes, false), Values::default());
        let mut reader = ValueReader { source, values, bytes };
        reader.values.begin(encoding);
        Ok(reader)
    }

    /// The type of the value.
    pub fn kind(&self) -> Kind {
        self.values.encoding().kind()
    }

    /// The error that is this fault, which the receiver of the parts has found in what was read so far.
    pub fn error(&self, fault: ReadFault) -> ReadError {
        ReadError::new(fault, self.source.offset()).of_encoding(self.values.encoding())
    }

    /// The next part; None behind the last one, when the bytes have ended with it.
    ///
    /// # Errors
    /// Whatever is wrong with the bytes; bytes behind the value are wrong too.
    #[inline]
    pub fn next_part(&mut self) -> Result<Option<Part<'_>>, ReadError> {
        let ValueReader { source, values, .. } = self;
        let encoding = values.encoding();
        match values.next_part(source) {
            Ok(Some(part)) => Ok(Some(part)),
            Ok(None) => ended(source, encoding).map(|()| None),
            Err(fault) => Err(ReadError::new(fault, source.offset()).of_encoding(encoding)),
        }
    }

    /// A step on the way to the next part, for a reader that does a bounded work at a time: it reads or expands 64 KB at most, or
    /// passes over some hundred things. Beyond a string of 64 KB nothing is read, and no memory is taken, before the step that
    /// follows [`ReadStep::More`]: [`ValueReader::wanted_bytes`] says how much that is going to be.
    ///
    /// # Errors
    /// Those of [`ValueReader::next_part`].
    #[inline]
    pub fn step(&mut self) -> Result<ReadStep<'_>, ReadError> {
        let ValueReader { source, values, .. } = self;
        let encoding = values.encoding();
        match values.next(source) {
            Ok(Got::Part(part)) => Ok(ReadStep::Part(part)),
            Ok(Got::More) => Ok(ReadStep::More),
            Ok(Got::End) => ended(source, encoding).map(|()| ReadStep::End),
            Err(fault) => Err(ReadError::new(fault, source.offset()).of_encoding(encoding)),
        }
    }

    /// A measure of the work that was done, which grows only: bytes that were read and those that were expanded, and more for
    /// things that were passed over. 256 KB take some 200 us.
    #[inline]
    pub fn work(&self) -> u64 {
        self.source.work()
    }

    /// Bytes of memory that it has at present: its buffer, and the strings of one part.
    pub fn held_bytes(&self) -> usize {
        self.source.held_bytes() + self.values.held_bytes()
    }

    /// A bound on the bytes of memory that the next steps are going to take for one long string, 0 for none.
    pub fn wanted_bytes(&self) -> u64 {
        self.values.wanted_bytes(self.bytes as u64)
    }

    /// Begins the value once more, whose bytes `input` has from the first one on. The memory for strings stays: what was read once
    /// takes no more the second time.
    pub fn again(&mut self, input: R) {
        self.source.again(input);
        self.values.again(usize::MAX);
    }
}

/// Whether nothing follows the value.
fn ended<R: Read>(source: &mut Source<R>, encoding: Encoding) -> Result<(), ReadError> {
    let fault = match source.at_end() {
        Ok(true) => return Ok(()),
        Ok(false) => ReadFault::Odd("something follows it"),
        Err(fault) => fault,
    };
    Err(ReadError::new(fault, source.offset()).of_encoding(encoding))
}

/// A string in memory, or wherever its bytes are read from, by pieces.
#[derive(Debug)]
pub struct StringReader<R> {
    source: Source<R>,
    pieces: Pieces,
}

impl<R: Read> StringReader<R> {
    /// The string that `input` has, as it stands behind its type.
    ///
    /// # Errors
    /// It has no length.
    pub fn new(input: R) -> Result<StringReader<R>, ReadError> {
        let mut source = Source::new(input, STRING_BUFFER_BYTES, false);
        let pieces = Pieces::begin(&mut source).map_err(|fault| ReadError::new(fault, 0))?;
        Ok(StringReader { source, pieces })
    }

    /// Bytes that were not shown.
    pub fn left(&self) -> u64 {
        self.pieces.left()
    }

    /// The next bytes, some tens of kilobytes; None behind the last one, when the input has ended with it.
    ///
    /// # Errors
    /// Whatever is wrong with the bytes; bytes behind the string are wrong too.
    pub fn next_piece(&mut self) -> Result<Option<&[u8]>, ReadError> {
        let StringReader { source, pieces } = self;
        if pieces.is_over() {
            return match source.at_end() {
                Ok(true) => Ok(None),
                Ok(false) => Err(ReadError::new(ReadFault::Odd("something follows it"), source.offset())),
                Err(fault) => Err(ReadError::new(fault, source.offset())),
            };
        }
        let offset = source.offset();
        pieces.next(source).map_err(|fault| ReadError::new(fault, offset))
    }
}

/// Bytes of a string that are read ahead.
const STRING_BUFFER_BYTES: usize = 64 << 10;
