//! The header of a node, in three widths. Offsets count from the first byte of the node.
//!
//! ```text
//!   Tiny,   up to 255 bytes        | start 8 | end 8 | count 8 |                        3 bytes
//!   Small,  up to 65 535 bytes     | 0 | start 16 | end 16 | count 16 |                 7 bytes
//!   Large,  up to 4 GiB            | 1 | start 32 | end 32 | count 32 |                13 bytes
//!   (a compressed node, `compress`) | 2 | ...
//! ```
//!
//! A tiny node starts at 3 or later, so its first byte cannot be mistaken. No entry is shorter than a byte, so a
//! count has the width of an offset.

use crate::Fault;

/// First byte of a compressed node.
pub(super) const COMPRESSED: u8 = 2;

/// How wide the fields are. The order is that of the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    Tiny,
    Small,
    Large,
}

impl Form {
    /// The form with most room in a buffer of `bytes`: a wider header has to pay for itself first.
    #[inline]
    pub(super) fn for_buffer(bytes: usize) -> Form {
        if bytes < Form::Tiny.limit() + 4 {
            Form::Tiny
        } else if bytes < Form::Small.limit() + 6 {
            Form::Small
        } else {
            Form::Large
        }
    }

    /// Bytes of the header itself.
    #[inline]
    pub(super) const fn header_bytes(self) -> usize {
        match self {
            Form::Tiny => 3,
            Form::Small => 7,
            Form::Large => 13,
        }
    }

    /// Largest offset that the fields can hold.
    #[inline]
    pub(super) const fn limit(self) -> usize {
        match self {
            Form::Tiny => u8::MAX as usize,
            Form::Small => u16::MAX as usize,
            Form::Large => u32::MAX as usize,
        }
    }
}

/// The first byte of a tiny node, its start, is none that means another form.
const _: () = assert!(Form::Tiny.header_bytes() > COMPRESSED as usize);
const _: () = assert!(Form::Tiny.limit() < Form::Small.limit() && Form::Small.limit() < Form::Large.limit());

/// A header taken apart: the entries lie in `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) form: Form,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) count: usize,
}

impl Header {
    /// Reads the header of a node that is taken to be sound.
    #[inline(always)]
    pub(super) fn read(buf: &[u8]) -> Header {
        let four = |at: usize| u32::from_le_bytes([buf[at], buf[at + 1], buf[at + 2], buf[at + 3]]) as usize;
        match buf[0] {
            0 => {
                let small: &[u8; 7] = buf.first_chunk().expect("a small header has seven bytes");
                let two = |at: usize| usize::from(u16::from_le_bytes([small[at], small[at + 1]]));
                Header { form: Form::Small, start: two(1), end: two(3), count: two(5) }
            }
            1 => Header { form: Form::Large, start: four(1), end: four(5), count: four(9) },
            COMPRESSED => panic!("a compressed node is expanded before it is opened"),
            start => Header { form: Form::Tiny, start: start.into(), end: buf[1].into(), count: buf[2].into() },
        }
    }

    /// Writes the header. Its numbers fit its form.
    #[inline]
    pub(super) fn write(self, buf: &mut [u8]) {
        debug_assert!(self.end <= buf.len() && self.end <= self.form.limit(), "the entries end in the buffer");
        debug_assert!(
            self.form.header_bytes() <= self.start && self.start <= self.end,
            "the entries start behind the header"
        );
        debug_assert!(self.count <= self.end - self.start, "no entry is shorter than a byte");
        match self.form {
            Form::Tiny => {
                let header = [self.start as u8, self.end as u8, self.count as u8];
                buf[..3].copy_from_slice(&header);
            }
            Form::Small => {
                let buf = &mut buf[..7];
                buf[0] = 0;
                buf[1..3].copy_from_slice(&(self.start as u16).to_le_bytes());
                buf[3..5].copy_from_slice(&(self.end as u16).to_le_bytes());
                buf[5..7].copy_from_slice(&(self.count as u16).to_le_bytes());
            }
            Form::Large => {
                let buf = &mut buf[..13];
                buf[0] = 1;
                buf[1..5].copy_from_slice(&(self.start as u32).to_le_bytes());
                buf[5..9].copy_from_slice(&(self.end as u32).to_le_bytes());
                buf[9..13].copy_from_slice(&(self.count as u32).to_le_bytes());
            }
        }
    }

    /// Reads a header of which nothing is known.
    pub(super) fn check(buf: &[u8]) -> Result<Header, Fault> {
        let form = match buf.first() {
            None => return Err(Fault { at: 0, what: "no bytes" }),
            Some(0) => Form::Small,
            Some(1) => Form::Large,
            Some(&COMPRESSED) => return Err(Fault { at: 0, what: "a compressed node" }),
            Some(_) => Form::Tiny,
        };
        if buf.len() < form.header_bytes() {
            return Err(Fault { at: buf.len(), what: "the header is cut off" });
        }
        let header = Header::read(buf);
        if header.start < form.header_bytes() || header.end < header.start {
            return Err(Fault { at: 0, what: "the entries start or end too early" });
        }
        if header.end > buf.len() {
            return Err(Fault { at: 0, what: "the entries end too late" });
        }
        Ok(header)
    }
}
