//! Libraries of functions in DUMP's frame: the payload of FUNCTION DUMP and FUNCTION RESTORE.
//!
//! ```text
//! | 245 (1) | source text, a string | 245 | text | .. | version (2, low byte first) | CRC-64 (8, low byte first) |
//! ```
//! In a file the same pairs of 245 and text stand in front of the first entry. Not here: the meaning of a text.

use crate::dump;
use crate::format::op;
use crate::read::{ReadFault, Source};
use crate::write::Payload;

/// The reason why a payload is no list of libraries.
#[derive(Debug)]
pub enum LibrariesFault {
    /// The version or the checksum is wrong.
    Frame,
    /// The payload has something else than libraries.
    Type,
    /// A library in the form that release candidates of Redis 7.0 wrote.
    FirstForm,
    /// A text is damaged.
    Text(ReadFault),
    /// A text, or all together, are longer than they may be.
    TooLong,
}

/// The payload of libraries with these source texts.
pub fn seal<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut payload = Payload::of_libraries();
    texts.for_each(|text| payload.encoded().function(text));
    payload.seal()
}

/// The source texts of a payload, each of this number of bytes at most, and of that number all together: some kilobytes may say to be
/// gigabytes, which are not expanded.
///
/// # Errors
/// The payload is no list of libraries, or these are too long.
pub fn open(payload: &[u8], text_max: usize, all_max: usize) -> Result<Vec<Vec<u8>>, LibrariesFault> {
    let (_, typed) = dump::open(payload).ok_or(LibrariesFault::Frame)?;
    let mut source = Source::new(typed, typed.len(), false);
    let (mut texts, mut small, mut left) = (Vec::new(), Vec::new(), all_max);
    while !source.at_end().map_err(LibrariesFault::Text)? {
        match source.byte().map_err(LibrariesFault::Text)? {
            op::FUNCTION => {}
            op::FUNCTION_PRE_GA => return Err(LibrariesFault::FirstForm),
            _ => return Err(LibrariesFault::Type),
        }
        let (mut text, most) = (Vec::new(), text_max.min(left));
        source.string_within(&mut text, &mut small, most).map_err(|fault| match fault {
            ReadFault::TooLong(_) => LibrariesFault::TooLong,
            fault => LibrariesFault::Text(fault),
        })?;
        left = left.checked_sub(text.len()).filter(|_| text.len() <= text_max).ok_or(LibrariesFault::TooLong)?;
        texts.push(text);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = usize::MAX;

    #[test]
    fn texts_that_say_to_be_long_are_not_expanded() {
        let payload = seal([&[b'x'; 5000][..], &[b'y'; 5000]].into_iter());
        assert!(payload.len() < 300, "{} bytes", payload.len());
        assert_eq!(open(&payload, 5000, 10_000).unwrap().len(), 2);
        for (text_max, all_max) in [(4999, MOST), (5000, 9999), (MOST, 9999)] {
            assert!(matches!(open(&payload, text_max, all_max), Err(LibrariesFault::TooLong)), "{text_max} {all_max}");
        }
        // One that is not compressed.
        let payload = seal([&b"short"[..]].into_iter());
        assert!(matches!(open(&payload, 4, MOST), Err(LibrariesFault::TooLong)));
    }

    #[test]
    fn libraries_go_there_and_back() {
        let texts = [&b"#!lua name=a\nreturn 1"[..], &[b'x'; 500]];
        let payload = seal(texts.into_iter());
        assert!(payload.len() < 100, "texts are compressed: {} bytes", payload.len());
        assert_eq!(open(&payload, MOST, MOST).unwrap(), texts);
        assert_eq!(open(&seal([].into_iter()), MOST, MOST).unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn payloads_of_redis_are_read() {
        let payload =
            b"\xf5@B#!lua name=a\nredis.register_function(\"f1\",function() return 2 end)\xf5=#!lua\tname=tab\n\
                        redis.register_function(\"ftab\",function() end)\n\0~\xc1RG*vi\xcc";
        let texts = open(payload, MOST, MOST).unwrap();
        assert_eq!((texts.len(), texts[1].starts_with(b"#!lua\tname=tab\n")), (2, true));
        assert!(matches!(open(&payload[1..], MOST, MOST), Err(LibrariesFault::Frame)));
    }

    #[test]
    fn payloads_of_something_else_are_refused() {
        let sealed = |bytes: &[u8]| {
            let mut payload = bytes.to_vec();
            dump::seal(&mut payload);
            open(&payload, MOST, MOST)
        };
        assert!(matches!(sealed(b"\0\x01v"), Err(LibrariesFault::Type)));
        assert!(matches!(sealed(b"\xf6\x01v"), Err(LibrariesFault::FirstForm)));
        assert!(matches!(sealed(b"\xf5\x09v"), Err(LibrariesFault::Text(_))));
        assert!(matches!(sealed(b"\xf5"), Err(LibrariesFault::Text(_))));
    }
}
