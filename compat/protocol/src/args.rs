//! A request as commands see it: slices of the bytes that were received.
//!
//! ```text
//!  request   *3\r\n $3\r\n SET\r\n $1\r\n k\r\n $900000\r\n \r\n
//!  spans                    (8, 3)    (17, 1)    (ELSEWHERE + 0, 900000)
//!  bodies                                         [0]: 900000 bytes that lie elsewhere
//! ```

use std::ops::Index;

use varve_base::refusable::reserve_exact;

/// One argument's place, relative to the first byte of its request, so that the caller may move its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
}

/// The arguments of one request; number 0 is the command's name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    request: &'a [u8],
    spans: &'a [Span],
    outside: &'a LargeSlices<'a>,
}

/// The bodies of a request that lie outside of it, in order. Behind one pointer, so that arguments stay small.
#[derive(Clone, Copy, Debug)]
pub struct LargeSlices<'a>(pub &'a [&'a [u8]]);

impl LargeSlices<'_> {
    /// None: all of the request is where it was received.
    pub const NONE: &'static LargeSlices<'static> = &LargeSlices(&[]);
}

/// Offset from which on a span counts the bodies that lie outside the request, in place of its bytes.
const ELSEWHERE: usize = 1 << 62;

impl Span {
    /// The span of the i-th body of a request that lies outside of it.
    pub(crate) fn elsewhere(i: usize, len: usize) -> Span {
        Span { start: ELSEWHERE + i, len }
    }

    /// Which of the bodies outside the request it is, if it is one.
    pub(crate) fn outside(&self) -> Option<usize> {
        self.start.checked_sub(ELSEWHERE)
    }
}

impl<'a> Args<'a> {
    /// The arguments of the request whose first byte is `request[0]`. Panics later, when an argument is read, if a span
    /// reaches beyond it.
    pub fn new(request: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args { request, spans, outside: LargeSlices::NONE }
    }

    /// Arguments like those of [`Args::new`], some of which lie outside the request.
    #[inline]
    pub fn with_large(request: &'a [u8], spans: &'a [Span], outside: &'a LargeSlices<'a>) -> Args<'a> {
        Args { request, spans, outside }
    }

    /// Which of the bodies outside the request the i-th argument is, if it is one.
    #[inline]
    pub fn outside(&self, i: usize) -> Option<usize> {
        if self.outside.0.is_empty() { None } else { self.spans[i].outside() }
    }

    #[inline]
    fn at(&self, span: Span) -> &'a [u8] {
        match self.request.get(span.start..span.start + span.len) {
            Some(bytes) => bytes,
            None => body(self.outside, span.start),
        }
    }

    /// Where the i-th argument lies, if there is one.
    #[inline]
    pub fn span(&self, i: usize) -> Option<Span> {
        self.spans.get(i).copied()
    }

    /// True if all lie in the request's own bytes.
    #[inline]
    pub fn is_in_one(&self) -> bool {
        self.outside.0.is_empty()
    }

    /// Number of arguments, the name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True if there is none, not even a name.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The i-th argument; panics if there is none.
    #[inline]
    pub fn get(&self, i: usize) -> &'a [u8] {
        self.at(self.spans[i])
    }

    /// The i-th argument, if there is one.
    #[inline]
    pub fn opt(&self, i: usize) -> Option<&'a [u8]> {
        (i < self.len()).then(|| self.get(i))
    }

    /// True if the i-th argument exists and is this word, whatever its case.
    #[inline]
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.opt(i).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// All arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        self.spans.iter().map(move |span| args.at(*span))
    }

    /// The arguments from the n-th on; none if there are fewer.
    pub fn skip(&self, n: usize) -> Args<'a> {
        Args { spans: &self.spans[n.min(self.spans.len())..], ..*self }
    }

    /// The arguments before the n-th; all if there are fewer.
    pub fn first(&self, n: usize) -> Args<'a> {
        Args { spans: &self.spans[..n.min(self.spans.len())], ..*self }
    }

    /// Bytes of all arguments together.
    pub fn bytes(&self) -> usize {
        self.spans.iter().map(|span| span.len).sum()
    }
}

/// Takes its parts by value, so that no argument list has to lie in memory for it.
#[cold]
#[inline(never)]
fn body<'a>(outside: &'a LargeSlices<'a>, start: usize) -> &'a [u8] {
    outside.0[start.checked_sub(ELSEWHERE).expect("a span of this request")]
}

impl Index<usize> for Args<'_> {
    type Output = [u8];
    #[inline]
    fn index(&self, i: usize) -> &[u8] {
        self.get(i)
    }
}

impl std::fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(String::from_utf8_lossy)).finish()
    }
}

/// A request with bytes of its own: one that waits, or a test's.
#[derive(Clone, Debug, Default)]
pub struct OwnedArgs {
    /// The arguments, one behind the other.
    bytes: Box<[u8]>,
    spans: Box<[Span]>,
}

impl OwnedArgs {
    /// A copy of these arguments.
    pub fn from_parts<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> OwnedArgs {
        OwnedArgs::copied(parts, 0, 0)
    }

    /// A copy of these arguments; `count` and `bytes` of them are expected.
    fn copied<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>, count: usize, bytes: usize) -> OwnedArgs {
        OwnedArgs::filled(parts, Vec::with_capacity(bytes), Vec::with_capacity(count))
    }

    /// A copy of these arguments; None if the system refuses the memory.
    pub fn try_copy(args: Args<'_>) -> Option<OwnedArgs> {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        reserve_exact(&mut bytes, args.bytes()).ok()?;
        reserve_exact(&mut spans, args.len()).ok()?;
        Some(OwnedArgs::filled(args.iter(), bytes, spans))
    }

    /// A copy of these arguments in this room, which is empty.
    fn filled<T: AsRef<[u8]>>(
        parts: impl IntoIterator<Item = T>,
        mut bytes: Vec<u8>,
        mut spans: Vec<Span>,
    ) -> OwnedArgs {
        for part in parts {
            let part = part.as_ref();
            spans.push(Span { start: bytes.len(), len: part.len() });
            bytes.extend_from_slice(part);
        }
        OwnedArgs { bytes: bytes.into(), spans: spans.into() }
    }

    /// Bytes that it takes beside itself.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.spans)
    }

    /// The arguments.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }
}

impl From<Args<'_>> for OwnedArgs {
    fn from(args: Args<'_>) -> OwnedArgs {
        OwnedArgs::copied(args.iter(), args.len(), args.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, LargeSlices, OwnedArgs, Span};

    #[test]
    fn bodies_may_lie_elsewhere() {
        let spans =
            [Span { start: 0, len: 3 }, Span::elsewhere(0, 5), Span { start: 3, len: 1 }, Span::elsewhere(1, 2)];
        let outside = LargeSlices(&[b"abcde", b"xy"]);
        let args = Args::with_large(b"SETk", &spans, &outside);
        assert_eq!(args.iter().collect::<Vec<_>>(), [&b"SET"[..], b"abcde", b"k", b"xy"]);
        assert_eq!((args.get(1), args.outside(1), args.outside(2)), (&b"abcde"[..], Some(0), None));
        assert_eq!((&args.skip(3)[0], args.skip(3).outside(0)), (&b"xy"[..], Some(1)));
    }

    #[test]
    fn arguments_are_found_and_compared() {
        let owned = OwnedArgs::from_parts(["SET", "k", "", "eX"]);
        let args = owned.args();
        assert_eq!((args.len(), args.bytes()), (4, 6));
        assert_eq!(&args[2], b"");
        assert!(args.is(3, "EX") && !args.is(3, "PX") && !args.is(4, "EX"));
        assert_eq!(args.skip(2).iter().collect::<Vec<_>>(), [&b""[..], b"eX"]);
        assert!(args.skip(9).is_empty());
        assert_eq!(args.opt(4), None);
        assert_eq!(format!("{:?}", OwnedArgs::from(args).args()), r#"["SET", "k", "", "eX"]"#);
    }
}
