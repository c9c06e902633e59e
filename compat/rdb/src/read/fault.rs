//! Why a file is not read further: the offset, the type and the key, and what is wrong there.

use std::fmt;
use std::io;

use crate::format::{Dialect, Encoding, Magic};
use crate::lzf;

/// Something that is wrong with the bytes.
#[derive(Debug)]
pub enum ReadFault {
    /// The input failed.
    Io(io::Error),
    /// The bytes end in the middle of something.
    Truncated,
    /// The file begins with neither magic word.
    Magic,
    /// A compressed file that is not read: what it is compressed by or as.
    Envelope(&'static str),
    /// A version that is not read.
    Version(Magic, u16),
    /// No type and no opcode of this dialect, or none that is known.
    Type(Dialect, u8),
    /// Something that is known and not read: its name.
    Unsupported(&'static str),
    /// An integer or a compressed string where a length has to be.
    NoLength,
    /// A length that nothing can have.
    TooLong(u64),
    /// A string in an unknown encoding.
    StringEncoding(u8),
    /// A compressed string that does not expand to its length.
    Compressed,
    /// A packed blob with something wrong inside: its name and what is wrong.
    Blob(&'static str, &'static str),
    /// A score that is no number.
    Score,
    /// An element, field or member that comes twice.
    Duplicate,
    /// A collection without elements.
    Empty,
    /// The system refuses the memory that the value needs: nothing is wrong with the bytes.
    Memory,
    /// Something that makes no sense where it stands: in words.
    Odd(&'static str),
    /// The checksum in the file, and the one of its bytes.
    Checksum(u64, u64),
}

impl From<lzf::Fault> for ReadFault {
    fn from(fault: lzf::Fault) -> ReadFault {
        match fault {
            lzf::Fault::Damaged => ReadFault::Compressed,
            lzf::Fault::Memory => ReadFault::Memory,
        }
    }
}

impl fmt::Display for ReadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadFault::Io(error) => write!(f, "reading failed: {error}"),
            ReadFault::Truncated => f.write_str("the bytes end too early"),
            ReadFault::Magic => f.write_str("this is no RDB file: it begins with neither REDIS nor VALKEY"),
            ReadFault::Envelope(what) => write!(f, "the file is compressed, with {what}"),
            ReadFault::Version(magic, version) => write!(f, "version {version} of {magic:?} is not known"),
            ReadFault::Type(dialect, number) => {
                write!(f, "type {number} of version {} of {:?} is not known", dialect.version, dialect.magic)
            }
            ReadFault::Unsupported(name) => write!(f, "a {name} cannot be kept here"),
            ReadFault::NoLength => f.write_str("there is no length where one has to be"),
            ReadFault::TooLong(len) => write!(f, "a length of {len} is more than anything has"),
            ReadFault::StringEncoding(number) => write!(f, "a string has the unknown encoding {number}"),
            ReadFault::Compressed => f.write_str("a compressed string does not expand to its length"),
            ReadFault::Blob(name, why) => write!(f, "a {name} is damaged: {why}"),
            ReadFault::Score => f.write_str("a score is not a number"),
            ReadFault::Duplicate => f.write_str("an element comes twice"),
            ReadFault::Empty => f.write_str("a collection has no elements"),
            ReadFault::Memory => f.write_str("the system refuses the memory that it needs"),
            ReadFault::Odd(why) => f.write_str(why),
            ReadFault::Checksum(file, bytes) => {
                write!(f, "RDB CRC error: the checksum is {file:016x}, that of the bytes {bytes:016x}")
            }
        }
    }
}

/// Bytes of a key that an error's text shows: it goes to a log, and a key may have hundreds of megabytes.
const KEY_SHOWN_BYTES: usize = 128;

/// A fault and where it is.
#[derive(Debug)]
pub struct ReadError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    fault: ReadFault,
    offset: u64,
    /// The offset is in what a compressed file unpacks to.
    is_unpacked: bool,
    type_name: Option<&'static str>,
    /// Of a value in a packed form: the name of the form as redis-server's log has it.
    form: Option<&'static str>,
    key: Option<Vec<u8>>,
}

impl ReadError {
    /// A fault at an offset.
    pub fn new(fault: ReadFault, offset: u64) -> ReadError {
        ReadError(Box::new(Inner { fault, offset, is_unpacked: false, type_name: None, form: None, key: None }))
    }

    /// The offset is in what a compressed file unpacks to, if `is_unpacked`.
    #[must_use]
    pub(crate) fn of_unpacked(mut self, is_unpacked: bool) -> ReadError {
        self.0.is_unpacked = is_unpacked;
        self
    }

    /// The fault belongs to the value of this type.
    #[must_use]
    pub fn of_type(mut self, name: &'static str) -> ReadError {
        self.0.type_name = Some(name);
        self
    }

    /// The fault belongs to a value that is written so.
    #[must_use]
    pub(crate) fn of_encoding(mut self, encoding: Encoding) -> ReadError {
        self.0.form = encoding.form(matches!(self.0.fault, ReadFault::Blob(..)));
        self.of_type(encoding.name())
    }

    /// The fault belongs to the value of this key.
    #[must_use]
    pub fn of_key(mut self, key: &[u8]) -> ReadError {
        self.0.key = Some(key.to_vec());
        self
    }

    /// The fault itself.
    pub fn fault(&self) -> &ReadFault {
        &self.0.fault
    }

    /// Bytes that were read before it was found; of a compressed file, bytes of what it unpacks to.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Whether the offset counts the bytes that a compressed file unpacks to, and not its own.
    pub fn is_in_unpacked(&self) -> bool {
        self.0.is_unpacked
    }

    /// The type of the value, if it is in one.
    pub fn type_name(&self) -> Option<&'static str> {
        self.0.type_name
    }

    /// The key, if one was read.
    pub fn key(&self) -> Option<&[u8]> {
        self.0.key.as_deref()
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}", self.0.offset)?;
        if self.0.is_unpacked {
            f.write_str(" of the uncompressed file")?;
        }
        match (self.0.type_name, &self.0.key) {
            (Some(name), Some(_)) => write!(f, ", in the {name}")?,
            (Some(name), None) => write!(f, ", in a {name}")?,
            (None, _) => {}
        }
        if let Some(key) = &self.0.key {
            let shown = &key[..key.len().min(KEY_SHOWN_BYTES)];
            let rest = if shown.len() < key.len() { ".." } else { "" };
            write!(f, " at key \"{}{rest}\"", shown.escape_ascii())?;
        }
        // Those who search for the words of redis-server find what they know.
        if let Some(form) = self.0.form {
            write!(f, ": {form} integrity check failed")?;
        }
        write!(f, ": {}", self.0.fault)
    }
}

impl std::error::Error for ReadError {}
