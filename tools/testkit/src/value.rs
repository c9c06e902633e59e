//! One reply of RESP2 or RESP3, as it came over the wire, and its decoder.
//!
//! Numbers with a fraction keep their text, so that two servers can be compared to the letter.
//! The decoder works on a growing buffer: it answers `Ok(None)` while a reply is incomplete and never consumes a part of one.
//! It does not do RESP3's streamed forms (`$?`, `*?`): Redis 7.0 never sends them.

use std::fmt;

/// A reply.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RespValue {
    /// `+text`
    Simple(Vec<u8>),
    /// `-CODE text`, or RESP3's `!` form
    Error(Vec<u8>),
    /// `:n`
    Integer(i64),
    /// `$n`
    Bulk(Vec<u8>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `_`
    Null,
    /// `*n`
    Array(Vec<RespValue>),
    /// `%n`
    Map(Vec<(RespValue, RespValue)>),
    /// `~n`
    Set(Vec<RespValue>),
    /// `>n`
    Push(Vec<RespValue>),
    /// `,text`
    Double(Vec<u8>),
    /// `#t` or `#f`
    Boolean(bool),
    /// `(digits`
    BigNumber(Vec<u8>),
    /// `=n` with its three-letter format and a colon
    Verbatim(Vec<u8>),
    /// `|n` and the reply that it decorates
    Attribute(Vec<(RespValue, RespValue)>, Box<RespValue>),
}

/// The reason why bytes are no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a reply: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl RespValue {
    /// Decodes the first reply in `input`; with it the number of bytes that it took. `None`: more bytes are needed.
    ///
    /// # Errors
    /// When the bytes can be no reply, however many follow.
    pub fn decode(input: &[u8]) -> Result<Option<(RespValue, usize)>, Malformed> {
        let mut decoder = Decoder { input, at: 0 };
        Ok(decoder.value()?.map(|value| (value, decoder.at)))
    }

    /// The bytes of a bulk, simple or verbatim string or of an error.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            RespValue::Simple(b) | RespValue::Error(b) | RespValue::Bulk(b) | RespValue::Verbatim(b) => Some(b),
            _ => None,
        }
    }

    /// The reply as text, for assertions and messages.
    #[must_use]
    pub fn text(&self) -> String {
        self.bytes().map(|b| String::from_utf8_lossy(b).into_owned()).unwrap_or_default()
    }

    /// Is this one of the three nulls?
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, RespValue::NullBulk | RespValue::NullArray | RespValue::Null)
    }

    /// Is this an error reply?
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, RespValue::Error(_))
    }

    /// The number of an integer reply.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        if let RespValue::Integer(n) = self { Some(*n) } else { None }
    }

    /// The elements of an array, set or push.
    #[must_use]
    pub fn elements(&self) -> Option<&[RespValue]> {
        match self {
            RespValue::Array(v) | RespValue::Set(v) | RespValue::Push(v) => Some(v),
            _ => None,
        }
    }
}

impl fmt::Debug for RespValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RespValue::Simple(b) => write!(f, "+{}", b.escape_ascii()),
            RespValue::Error(b) => write!(f, "-{}", b.escape_ascii()),
            RespValue::Integer(n) => write!(f, ":{n}"),
            RespValue::Bulk(b) if b.len() > 200 => write!(f, "\"{}...\"({} bytes)", b[..80].escape_ascii(), b.len()),
            RespValue::Bulk(b) => write!(f, "\"{}\"", b.escape_ascii()),
            RespValue::NullBulk => write!(f, "$-1"),
            RespValue::NullArray => write!(f, "*-1"),
            RespValue::Null => write!(f, "_"),
            RespValue::Array(v) => f.debug_list().entries(v).finish(),
            RespValue::Map(m) => write!(f, "%").and_then(|()| f.debug_list().entries(m).finish()),
            RespValue::Set(v) => f.debug_set().entries(v).finish(),
            RespValue::Push(v) => write!(f, ">").and_then(|()| f.debug_list().entries(v).finish()),
            RespValue::Double(b) => write!(f, ",{}", b.escape_ascii()),
            RespValue::Boolean(b) => write!(f, "#{b}"),
            RespValue::BigNumber(b) => write!(f, "({}", b.escape_ascii()),
            RespValue::Verbatim(b) => write!(f, "={}", b.escape_ascii()),
            RespValue::Attribute(m, v) => write!(f, "|{m:?}").and_then(|()| write!(f, " {v:?}")),
        }
    }
}

struct Decoder<'a> {
    input: &'a [u8],
    at: usize,
}

type Step<T> = Result<Option<T>, Malformed>;

/// `Ok(None)` of a part is `Ok(None)` of the whole.
macro_rules! part {
    ($step:expr) => {
        match $step? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl<'a> Decoder<'a> {
    fn line(&mut self) -> Step<&'a [u8]> {
        let rest = &self.input[self.at..];
        let Some(end) = rest.windows(2).position(|w| w == b"\r\n") else { return Ok(None) };
        self.at += end + 2;
        Ok(Some(&rest[..end]))
    }

    fn number(line: &[u8]) -> Result<i64, Malformed> {
        std::str::from_utf8(line)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Malformed(format!("'{}' is no number", line.escape_ascii())))
    }

    fn blob(&mut self, length: i64) -> Step<Vec<u8>> {
        let length = usize::try_from(length).map_err(|_| Malformed(format!("length {length}")))?;
        let Some(bytes) = self.input.get(self.at..self.at + length + 2) else { return Ok(None) };
        if !bytes.ends_with(b"\r\n") {
            return Err(Malformed("a blob without its line end".into()));
        }
        self.at += length + 2;
        Ok(Some(bytes[..length].to_vec()))
    }

    fn list(&mut self, length: i64) -> Step<Vec<RespValue>> {
        let mut list = Vec::new();
        for _ in 0..length {
            list.push(part!(self.value()));
        }
        Ok(Some(list))
    }

    fn pairs(&mut self, length: i64) -> Step<Vec<(RespValue, RespValue)>> {
        let mut pairs = Vec::new();
        for _ in 0..length {
            let key = part!(self.value());
            pairs.push((key, part!(self.value())));
        }
        Ok(Some(pairs))
    }

    fn value(&mut self) -> Step<RespValue> {
        let line = part!(self.line());
        let Some((&mark, rest)) = line.split_first() else { return Err(Malformed("an empty line".into())) };
        Ok(Some(match mark {
            b'+' => RespValue::Simple(rest.to_vec()),
            b'-' => RespValue::Error(rest.to_vec()),
            b',' => RespValue::Double(rest.to_vec()),
            b'(' => RespValue::BigNumber(rest.to_vec()),
            b'_' => RespValue::Null,
            b'#' => RespValue::Boolean(rest == b"t"),
            b'$' | b'*' | b':' | b'%' | b'~' | b'>' | b'!' | b'=' | b'|' => {
                let length = Self::number(rest)?;
                part!(self.sized(mark, length))
            }
            other => return Err(Malformed(format!("a reply that begins with '{}'", other.escape_ascii()))),
        }))
    }

    fn sized(&mut self, mark: u8, length: i64) -> Step<RespValue> {
        Ok(Some(match (mark, length) {
            (b':', n) => RespValue::Integer(n),
            (b'$', -1) => RespValue::NullBulk,
            (b'*', -1) => RespValue::NullArray,
            (b'$', n) => RespValue::Bulk(part!(self.blob(n))),
            (b'!', n) => RespValue::Error(part!(self.blob(n))),
            (b'=', n) => RespValue::Verbatim(part!(self.blob(n))),
            (b'*', n) => RespValue::Array(part!(self.list(n))),
            (b'~', n) => RespValue::Set(part!(self.list(n))),
            (b'>', n) => RespValue::Push(part!(self.list(n))),
            (b'%', n) => RespValue::Map(part!(self.pairs(n))),
            (_, n) => {
                let attributes = part!(self.pairs(n));
                RespValue::Attribute(attributes, Box::new(part!(self.value())))
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &[u8] =
        b"*6\r\n$-1\r\n:-7\r\n%1\r\n+k\r\n,1.5\r\n~1\r\n#t\r\n=7\r\ntxt:abc\r\n|1\r\n+a\r\n_\r\n(12\r\n";

    #[test]
    fn a_reply_is_decoded_only_when_whole() {
        for cut in 0..REPLY.len() {
            assert_eq!(RespValue::decode(&REPLY[..cut]), Ok(None), "cut at {cut}");
        }
        let (value, used) = RespValue::decode(REPLY).unwrap().unwrap();
        assert_eq!(used, REPLY.len());
        assert_eq!(format!("{value:?}"), "[$-1, :-7, %[(+k, ,1.5)], {#true}, =txt:abc, |[(+a, _)] (12]");
    }

    #[test]
    fn bytes_that_are_no_reply_are_refused() {
        for bad in [&b"hello\r\n"[..], b"\r\n", b":x\r\n", b"$3\r\nabcde", b"$-2\r\n"] {
            assert!(RespValue::decode(bad).is_err(), "{}", bad.escape_ascii());
        }
    }
}
