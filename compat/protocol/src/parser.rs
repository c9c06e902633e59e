//! Requests: RESP arrays of bulk strings, and inline commands.
//!
//! ```text
//!  *3\r\n  $3\r\n  SET  \r\n  $1\r\n  k  \r\n  $2\r\n  4 2  \r\n          SET k "4 2"\r\n
//!  count   length  body       length           length                  line, LF alone will do
//!
//!            '*'                    count                      length               body, remaining = 0
//!  (start) -------> Count --------------------> Length(n) ---------------> Body(n,len) -----------------> Request
//!     |                 `- count <= 0 --> Empty     ^-------- remaining > 0 --'
//!     `- other --> line up to LF --> words --> Request or Empty
//!
//!                                            a body that the caller takes elsewhere: Body --supply--> Behind --> Count
//! ```
//!
//! Where a body is missing, the caller may take all of it out of the input, to where the value is to lie in the end:
//! what follows the length's line is then what follows the body. Such a request must run when it is whole, since it
//! cannot be parsed again.
//!
//! The parser sees the bytes from the request's first one on, each time it is called; what it has done of a partial
//! request it keeps and never does again. Spans are relative to that first byte. Inline words with escapes are unescaped
//! in place (they only shrink), which is why the input is mutable: a line is touched once, when it is whole, and its
//! bytes are consumed with it.
//!
//! As Redis, it does not look at the LF of a header nor at the two bytes behind a body, and a NUL byte in a header or in
//! an inline command means that the line never ends: it waits until it is too long.
//! Lengths of lines are judged by their own bytes alone, not by how they arrived: a request has one outcome, however it
//! is cut.

use crate::args::Span;
use crate::errors::ProtocolError;
use varve_base::number::parse_i64;
use varve_base::refusable::{reserve, reserve_exact};

/// RequestLimits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of one argument (`proto-max-bulk-len`).
    pub bulk_max: usize,
    /// Arguments of one request.
    pub args_max: usize,
    /// Bytes of an inline command and of each header line.
    pub inline_max: usize,
    /// True as long as the client has to authenticate first: a request then has 10 arguments of 16384 bytes at most.
    pub unauthenticated: bool,
}

/// Arguments of a request before authentication, at most.
const UNAUTHENTICATED_ARGS_MAX: usize = 10;
/// Bytes of an argument before authentication, at most.
const UNAUTHENTICATED_BULK_MAX: usize = 16384;

/// A request that [`Parser::short_request`] takes is allowed without authentication too.
const _: () = assert!(UNAUTHENTICATED_ARGS_MAX > 9 && UNAUTHENTICATED_BULK_MAX > 999);

impl Default for RequestLimits {
    fn default() -> RequestLimits {
        RequestLimits { bulk_max: 512 << 20, args_max: i32::MAX as usize, inline_max: 64 << 10, unauthenticated: false }
    }
}

/// The result of a call to [`Parser::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A whole request; its spans were appended.
    Request {
        /// Bytes of the input that it took.
        consumed: usize,
    },
    /// A request without arguments, to be skipped without a reply.
    Empty {
        /// Bytes of the input that it took.
        consumed: usize,
    },
    /// More input is needed: call again with all bytes of the request, those of this call included.
    Incomplete {
        /// At least this number of bytes is missing; never 0.
        want: usize,
    },
    /// The connection cannot go on: reply the error and close.
    Error(ProtocolError),
}

/// The body that a partial request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeArgument {
    /// Where it begins, from the request's first byte on; what the input has from there belongs to it.
    pub at: usize,
    /// Its length in bytes.
    pub len: usize,
    /// The request's first argument, if that is there already: the command's name.
    pub name: Option<Span>,
}

/// Where a partial request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the first byte; bytes up to this offset hold no line end.
    Start,
    /// Arguments are missing; at the head of the next one.
    Length { remaining: usize },
    /// At the body of an argument.
    Body { remaining: usize, len: usize },
    /// At the two bytes behind a body that lies elsewhere.
    Behind { remaining: usize },
}

/// Splits one connection's input into requests.
#[derive(Debug)]
pub struct Parser {
    limits: RequestLimits,
    state: State,
    /// Offset of the next byte that matters, from the request's first one.
    at: usize,
    /// Bytes behind `at` in which no line end was found.
    searched: usize,
    /// The spans of a partial request; no allocation is kept without one.
    partial: Vec<Span>,
}

impl Parser {
    /// A parser at the start of a connection.
    pub fn new(limits: RequestLimits) -> Parser {
        Parser { limits, state: State::Start, at: 0, searched: 0, partial: Vec::new() }
    }

    /// Changes the limits from the next line on.
    pub fn set_limits(&mut self, limits: RequestLimits) {
        self.limits = limits;
    }

    /// The limits in force.
    pub fn limits(&self) -> RequestLimits {
        self.limits
    }

    /// True if a request has begun and is not whole yet.
    pub fn is_partial(&self) -> bool {
        self.state != State::Start || self.searched != 0
    }

    /// Bytes at the front of a partial line in which its end is not.
    pub fn searched(&self) -> usize {
        self.searched
    }

    /// The body that is missing, if that is what the partial request waits for.
    pub fn body(&self) -> Option<LargeArgument> {
        let State::Body { len, .. } = self.state else { return None };
        Some(LargeArgument { at: self.at, len, name: self.partial.first().copied() })
    }

    /// The body that [`Parser::body`] tells of lies elsewhere, and its bytes are no part of the input: the next call
    /// gets what precedes and what follows them. Panics if no body is missing.
    pub fn supply(&mut self) {
        let State::Body { remaining, len } = self.state else { panic!("no body is missing") };
        let number = self.partial.iter().filter(|span| span.outside().is_some()).count();
        self.partial.push(Span::elsewhere(number, len));
        self.state = State::Behind { remaining };
    }

    /// Bytes held for a partial request, beside the caller's buffer.
    pub fn held_bytes(&self) -> usize {
        self.partial.capacity() * size_of::<Span>()
    }

    /// Bytes at the front of the input that are parsed already, of a partial request.
    pub fn passed_bytes(&self) -> usize {
        self.at
    }

    /// True if the partial request is a multibulk one.
    pub fn in_multibulk(&self) -> bool {
        self.state != State::Start
    }

    /// Forgets a partial request: its bytes are given again from their start.
    pub fn reset(&mut self) {
        self.state = State::Start;
        self.at = 0;
        self.searched = 0;
        self.partial.clear();
    }

    /// Takes one request from `input`, which starts at its first byte, and appends its spans to `args`. A partial
    /// request leaves `args` as it was. After an error the parser is not to be used again.
    pub fn parse(&mut self, input: &mut [u8], args: &mut Vec<Span>) -> Parsed {
        if self.state == State::Start && input.first().is_some_and(|b| *b != b'*') {
            return self.inline(input, args);
        }
        let base = args.len();
        if self.state == State::Start {
            if let Some(consumed) = self.short_request(input, args) {
                return Parsed::Request { consumed };
            }
            let parsed = self.multibulk(input, args);
            if let Parsed::Incomplete { .. } = parsed {
                if reserve_exact(&mut self.partial, args.len() - base).is_err() {
                    return Parsed::Error(ProtocolError::NoMemory);
                }
                self.partial.extend(args.drain(base..));
            }
            return parsed;
        }
        let mut spans = std::mem::take(&mut self.partial);
        let parsed = self.multibulk(input, &mut spans);
        match parsed {
            // Copied, places of a million arguments would take their memory twice.
            Parsed::Request { .. } if args.is_empty() && args.capacity() < spans.len() => *args = spans,
            Parsed::Request { .. } => {
                if reserve(args, spans.len()).is_err() {
                    return Parsed::Error(ProtocolError::NoMemory);
                }
                args.append(&mut spans);
            }
            _ => self.partial = spans,
        }
        parsed
    }

    /// A request of the common form, whole and at its first byte: one to nine arguments, each of less than 1000 bytes,
    /// all numbers canonical. Gives the bytes that it takes. Any other is left as it is, for the general way.
    ///
    /// It may be asked only where no partial request is held.
    #[inline]
    pub fn short_request(&mut self, input: &[u8], args: &mut Vec<Span>) -> Option<usize> {
        debug_assert!(self.state == State::Start, "a partial request is held");
        let [b'*', count, b'\r', _, ..] = input else { return None };
        let count = usize::from(count.wrapping_sub(b'0'));
        if !(1..=9).contains(&count) || count > self.limits.args_max {
            return None;
        }
        let base = args.len();
        args.reserve(count);
        let mut at = 4;
        for _ in 0..count {
            let length = input.get(at..).and_then(|rest| rest.first_chunk()).and_then(short_length);
            let end = match length {
                Some((len, head)) if len <= self.limits.bulk_max => {
                    args.push(Span { start: at + head, len });
                    at + head + len + 2
                }
                _ => usize::MAX,
            };
            if end > input.len() {
                args.truncate(base);
                return None;
            }
            at = end;
        }
        self.searched = 0;
        Some(at)
    }

    /// The next line from `at` on, without its end, and the offset behind it.
    fn line(&mut self, input: &[u8], too_long: ProtocolError) -> Result<(usize, usize), Parsed> {
        let end = self.at + self.searched + search(&input[self.at + self.searched..], b'\r');
        let is_found = input.get(end) == Some(&b'\r');
        let length = if is_found { end - self.at } else { input.len() - self.at };
        if length > self.limits.inline_max {
            return Err(Parsed::Error(too_long));
        }
        if !is_found || end + 2 > input.len() {
            self.searched = end - self.at;
            return Err(Parsed::Incomplete { want: (end + 2).saturating_sub(input.len()).max(1) });
        }
        self.searched = 0;
        Ok((end, end + 2))
    }

    fn multibulk(&mut self, input: &[u8], spans: &mut Vec<Span>) -> Parsed {
        match self.advance(input, spans) {
            Ok(parsed) | Err(parsed) => parsed,
        }
    }

    fn advance(&mut self, input: &[u8], spans: &mut Vec<Span>) -> Result<Parsed, Parsed> {
        loop {
            match self.state {
                State::Start => {
                    let count = self.count(input)?;
                    if count == 0 {
                        let consumed = std::mem::take(&mut self.at);
                        return Ok(Parsed::Empty { consumed });
                    }
                    self.state = State::Length { remaining: count };
                }
                State::Length { remaining: 0 } => {
                    self.state = State::Start;
                    let consumed = std::mem::take(&mut self.at);
                    return Ok(Parsed::Request { consumed });
                }
                State::Length { remaining } => {
                    let len = self.length(input)?;
                    self.state = State::Body { remaining, len };
                }
                State::Body { remaining, len } => {
                    let end = self.at + len + 2;
                    if end > input.len() {
                        return Ok(Parsed::Incomplete { want: end - input.len() });
                    }
                    // A client decides how many there are.
                    if spans.len() == spans.capacity() && reserve(spans, 1).is_err() {
                        return Err(Parsed::Error(ProtocolError::NoMemory));
                    }
                    spans.push(Span { start: self.at, len });
                    self.at = end;
                    self.state = State::Length { remaining: remaining - 1 };
                }
                State::Behind { remaining } => {
                    let end = self.at + 2;
                    if end > input.len() {
                        return Ok(Parsed::Incomplete { want: end - input.len() });
                    }
                    self.at = end;
                    self.state = State::Length { remaining: remaining - 1 };
                }
            }
        }
    }

    /// The count behind `*`; 0 also for a negative one.
    fn count(&mut self, input: &[u8]) -> Result<usize, Parsed> {
        let (end, next) = self.line(input, ProtocolError::CountTooLong)?;
        let wrong = Parsed::Error(ProtocolError::MultibulkLength);
        let count = parse_i64(&input[1..end]).ok_or(wrong)?;
        let count = usize::try_from(count).unwrap_or(0);
        if count > self.limits.args_max {
            return Err(wrong);
        }
        if self.limits.unauthenticated && count > UNAUTHENTICATED_ARGS_MAX {
            return Err(Parsed::Error(ProtocolError::UnauthenticatedMultibulk));
        }
        self.at = next;
        Ok(count)
    }

    /// The length behind `$`.
    #[inline]
    fn length(&mut self, input: &[u8]) -> Result<usize, Parsed> {
        if let Some((len, head)) = input[self.at..].first_chunk().and_then(short_length)
            && len <= self.limits.bulk_max.min(UNAUTHENTICATED_BULK_MAX)
        {
            self.at += head;
            self.searched = 0;
            return Ok(len);
        }
        self.any_length(input)
    }

    /// The plain meaning of [`Parser::length`], whose fast path takes one to three digits.
    #[cold]
    fn any_length(&mut self, input: &[u8]) -> Result<usize, Parsed> {
        let (end, next) = self.line(input, ProtocolError::LengthTooLong)?;
        if input[self.at] != b'$' {
            return Err(Parsed::Error(ProtocolError::ExpectedDollar(input[self.at])));
        }
        let wrong = Parsed::Error(ProtocolError::BulkLength);
        let len = parse_i64(&input[self.at + 1..end]).ok_or(wrong)?;
        let len = usize::try_from(len).map_err(|_| wrong)?;
        if len > self.limits.bulk_max {
            return Err(wrong);
        }
        if self.limits.unauthenticated && len > UNAUTHENTICATED_BULK_MAX {
            return Err(Parsed::Error(ProtocolError::UnauthenticatedBulk));
        }
        self.at = next;
        Ok(len)
    }

    fn inline(&mut self, input: &mut [u8], args: &mut Vec<Span>) -> Parsed {
        let end = self.searched + search(&input[self.searched..], b'\n');
        let is_found = input.get(end) == Some(&b'\n');
        if (if is_found { end } else { input.len() }) > self.limits.inline_max {
            return Parsed::Error(ProtocolError::InlineTooLong);
        }
        if !is_found {
            self.searched = end;
            return Parsed::Incomplete { want: 1 };
        }
        self.searched = 0;
        let line = end - usize::from(end > 0 && input[end - 1] == b'\r');
        let base = args.len();
        if !words(&mut input[..line], args) {
            args.truncate(base);
            return Parsed::Error(ProtocolError::UnbalancedQuotes);
        }
        let consumed = end + 1;
        if args.len() == base { Parsed::Empty { consumed } } else { Parsed::Request { consumed } }
    }
}

/// Where a line's search stops: at its end, at a NUL byte, which no search passes, or behind the last byte.
fn search(bytes: &[u8], end: u8) -> usize {
    bytes.iter().position(|b| *b == end || *b == 0).unwrap_or(bytes.len())
}

/// The length of an argument, canonical and below 1000, and the bytes of its head, which begins here: an argument takes
/// six bytes at least.
#[inline(always)]
fn short_length(head: &[u8; 6]) -> Option<(usize, usize)> {
    let [b'$', a, b, c, d, _] = head else { return None };
    let digit = |b: &u8| usize::from(b.wrapping_sub(b'0'));
    let (first, second, third) = (digit(a), digit(b), digit(c));
    if first > 9 {
        None
    } else if *b == b'\r' {
        Some((first, 4))
    } else if first == 0 || second > 9 {
        None
    } else if *c == b'\r' {
        Some((10 * first + second, 5))
    } else if third <= 9 && *d == b'\r' {
        Some((100 * first + 10 * second + third, 6))
    } else {
        None
    }
}

/// Splits a line into words, unescaping in place; false if a quote is wrong.
fn words(line: &mut [u8], args: &mut Vec<Span>) -> bool {
    let space = |b: u8| b.is_ascii_whitespace() || b == 0x0b;
    let mut from = 0;
    loop {
        while from < line.len() && space(line[from]) {
            from += 1;
        }
        if from == line.len() {
            return true;
        }
        let Some((len, next)) = one_word(line, from) else { return false };
        args.push(Span { start: from, len });
        from = next;
    }
}

/// One word from `start` on, moved together to `start`: its length and where it ended. A quote may open anywhere in it,
/// and closes it.
fn one_word(line: &mut [u8], start: usize) -> Option<(usize, usize)> {
    let (mut from, mut to) = (start, start);
    while from < line.len() {
        match line[from] {
            b' ' | b'\n' | b'\r' | b'\t' => break,
            quote @ (b'"' | b'\'') => {
                let (to, from) = quoted(line, from + 1, to, quote)?;
                return Some((to - start, from));
            }
            byte => {
                line[to] = byte;
                to += 1;
                from += 1;
            }
        }
    }
    Some((to - start, from))
}

/// The rest of a quoted word: where it ends unescaped, and where it ended. None if the quote is not closed or something
/// follows it at once.
fn quoted(line: &mut [u8], mut from: usize, mut to: usize, quote: u8) -> Option<(usize, usize)> {
    loop {
        let rest = line.get(from..)?;
        let (byte, taken) = match *rest {
            [b'\\', ref behind @ ..] if quote == b'"' => {
                let (byte, taken) = escape(behind)?;
                (byte, 1 + taken)
            }
            [b'\\', b'\'', ..] if quote == b'\'' => (b'\'', 2),
            [b, ..] if b == quote => {
                let closed = rest.get(1).is_none_or(|b| b.is_ascii_whitespace() || *b == 0x0b);
                return closed.then_some((to, from + 1));
            }
            [byte, ..] => (byte, 1),
            [] => return None,
        };
        line[to] = byte;
        to += 1;
        from += taken;
    }
}

/// The byte that the text behind a backslash stands for within double quotes, and how much of the text that takes; None
/// if there is no text. Inline requests and configuration files share it.
pub fn escape(text: &[u8]) -> Option<(u8, usize)> {
    let digit = |at: usize| text.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    if text.first() == Some(&b'x')
        && let (Some(high), Some(low)) = (digit(1), digit(2))
    {
        return Some(((high * 16 + low) as u8, 3));
    }
    let byte = match *text.first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    };
    Some((byte, 1))
}

#[cfg(test)]
mod tests;
