//! Lengths and strings, as every part of a file has them.

use std::io::Read;

use varve_base::number::{INT_TEXT_MAX, write_i64};

use crate::format::{MESSAGE_NAME_BYTES_MAX, len};
use crate::lzf;
use crate::read::fault::ReadFault;
use crate::read::source::Source;

/// Bytes of a compressed string when it is whole, at most: no value is longer.
const EXPANDED_BYTES_MAX: usize = 1 << 30;
/// Bytes of a string, and those that it is compressed to, beyond which it is read over several steps.
const LONG_BYTES: u64 = 64 << 10;
const _: () = assert!(LONG_BYTES == MESSAGE_NAME_BYTES_MAX as u64, "the names of messages are read in one step");
/// Bytes of a long string that one step reads or makes: some 20 us.
pub(super) const STEP_BYTES: u64 = 64 << 10;

/// A length prefix.
pub(crate) enum Prefix {
    Length(u64),
    Int(i64),
    /// Bytes when compressed and when not.
    Compressed(u64, u64),
}

/// The rest of a long string.
///
/// ```text
/// Plain ─▶ whole                 Packed ─▶ Expand ─▶ whole          each arrow several steps
/// ```
#[derive(Debug)]
enum Rest {
    /// Bytes that are left in the file.
    Plain(u64),
    /// Compressed bytes that are left in the file, and the bytes of the whole.
    Packed(u64, usize),
    /// The place in the compressed bytes, all of which were read, and the bytes of the whole.
    Expand(usize, usize),
}

/// A string, and its memory, which is kept from one string to the next. One of megabytes is read over several steps, and takes no
/// memory before the second one.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) bytes: Vec<u8>,
    rest: Option<Rest>,
}

impl Text {
    /// Begins the string at which the source is, in the place of what was there; true if it is whole. `small` is for compressed
    /// bytes, and stays this string's until it is whole.
    #[inline]
    pub(crate) fn begin<R: Read>(&mut self, source: &mut Source<R>, small: &mut Vec<u8>) -> Result<bool, ReadFault> {
        self.bytes.clear();
        self.rest = None;
        match source.prefix()? {
            Prefix::Length(length) if length <= LONG_BYTES => source.append(length, &mut self.bytes)?,
            Prefix::Length(length) => self.rest = Some(Rest::Plain(length)),
            Prefix::Int(n) => self.bytes.extend_from_slice(write_i64(&mut [0; INT_TEXT_MAX], n)),
            Prefix::Compressed(bytes, length) => {
                let whole = whole_bytes(length, EXPANDED_BYTES_MAX)?;
                small.clear();
                if bytes <= LONG_BYTES && length <= LONG_BYTES {
                    source.append(bytes, small)?;
                    lzf::expand(small, whole, &mut self.bytes)?;
                    source.worked(length);
                } else {
                    self.rest = Some(Rest::Packed(bytes, whole));
                }
            }
        }
        Ok(self.rest.is_none())
    }

    /// Reads or expands some more; true if it is whole.
    #[inline]
    pub(crate) fn go_on<R: Read>(&mut self, source: &mut Source<R>, small: &mut Vec<u8>) -> Result<bool, ReadFault> {
        if self.rest.is_none() { Ok(true) } else { self.go_on_long(source, small) }
    }

    fn go_on_long<R: Read>(&mut self, source: &mut Source<R>, small: &mut Vec<u8>) -> Result<bool, ReadFault> {
        let Text { bytes, rest } = self;
        match rest.as_mut().expect("a string that is not whole") {
            Rest::Plain(left) => {
                let some = STEP_BYTES.min(*left);
                grow(bytes, some, *left)?;
                source.append(some, bytes)?;
                *left -= some;
                if *left == 0 {
                    *rest = None;
                }
            }
            Rest::Packed(left, whole) => {
                let some = STEP_BYTES.min(*left);
                source.append(some, small)?;
                *left -= some;
                if *left == 0 {
                    lzf::make_room(small.len(), *whole, bytes)?;
                    *rest = Some(Rest::Expand(0, *whole));
                }
            }
            Rest::Expand(at, whole) => {
                let before = bytes.len();
                *at += lzf::expand_some(&small[*at..], (0, *whole), STEP_BYTES as usize, bytes)?;
                source.worked((bytes.len() - before) as u64);
                if *at == small.len() {
                    if bytes.len() != *whole {
                        return Err(ReadFault::Compressed);
                    }
                    *rest = None;
                }
            }
        }
        Ok(rest.is_none())
    }

    /// A bound on the memory that the next steps take for the rest of the string, of which a file has `file_bytes` at most.
    pub(crate) fn wanted_bytes(&self, file_bytes: u64) -> u64 {
        let free = (self.bytes.capacity() - self.bytes.len()) as u64;
        match self.rest {
            None | Some(Rest::Expand(..)) => 0,
            Some(Rest::Plain(left)) => left.min(file_bytes).saturating_sub(free),
            Some(Rest::Packed(left, whole)) => {
                let whole = lzf::expanded_bytes(file_bytes, whole as u64).saturating_sub(free);
                left.min(file_bytes).saturating_add(whole)
            }
        }
    }

    /// Forgets the string, and the memory beyond `keep` bytes.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.rest = None;
        self.bytes.clear();
        self.bytes.shrink_to(keep);
    }
}

/// Makes room for `some` bytes of the `left` that a string says to have: by doubling, since it may lie, and never beyond its end, so
/// that it takes what [`Text::wanted_bytes`] has said.
fn grow(bytes: &mut Vec<u8>, some: u64, left: u64) -> Result<(), ReadFault> {
    if bytes.capacity() - bytes.len() >= some as usize {
        return Ok(());
    }
    let room = left.min(some.max(bytes.len() as u64));
    bytes.try_reserve_exact(usize::try_from(room).map_err(|_| ReadFault::Memory)?).map_err(|_| ReadFault::Memory)
}

/// The length of a string that is expanded, if that is `most` bytes at most.
fn whole_bytes(length: u64, most: usize) -> Result<usize, ReadFault> {
    let whole = usize::try_from(length).ok().filter(|whole| *whole <= most.min(EXPANDED_BYTES_MAX));
    whole.ok_or(ReadFault::TooLong(length))
}

impl<R: Read> Source<R> {
    #[inline]
    pub(crate) fn prefix(&mut self) -> Result<Prefix, ReadFault> {
        let first = self.byte()?;
        Ok(Prefix::Length(match first {
            0..len::BITS_14 => u64::from(first),
            len::BITS_14..len::BITS_32 => u64::from(first & 0x3f) << 8 | u64::from(self.byte()?),
            len::BITS_32 => u64::from(u32::from_be_bytes(self.array()?)),
            len::BITS_64 => u64::from_be_bytes(self.array()?),
            len::INT_8 => return Ok(Prefix::Int(i8::from_le_bytes(self.array()?).into())),
            len::INT_16 => return Ok(Prefix::Int(i16::from_le_bytes(self.array()?).into())),
            len::INT_32 => return Ok(Prefix::Int(i32::from_le_bytes(self.array()?).into())),
            len::LZF => return Ok(Prefix::Compressed(self.length()?, self.length()?)),
            0xc4.. => return Err(ReadFault::StringEncoding(first & 0x3f)),
            _ => return Err(ReadFault::NoLength),
        }))
    }

    /// A length or a number of things.
    #[inline]
    pub(crate) fn length(&mut self) -> Result<u64, ReadFault> {
        match self.prefix()? {
            Prefix::Length(length) => Ok(length),
            Prefix::Int(_) | Prefix::Compressed(..) => Err(ReadFault::NoLength),
        }
    }

    /// Reads a string in the place of what `to` has; `small` is for compressed bytes.
    #[inline]
    pub(crate) fn string(&mut self, to: &mut Vec<u8>, small: &mut Vec<u8>) -> Result<(), ReadFault> {
        self.string_within(to, small, EXPANDED_BYTES_MAX)
    }

    /// Like [`Source::string`]; a compressed one that says to be longer than this is not expanded.
    pub(crate) fn string_within(
        &mut self,
        to: &mut Vec<u8>,
        small: &mut Vec<u8>,
        expanded_max: usize,
    ) -> Result<(), ReadFault> {
        to.clear();
        match self.prefix()? {
            Prefix::Length(length) => self.append(length, to),
            Prefix::Int(n) => {
                to.extend_from_slice(write_i64(&mut [0; INT_TEXT_MAX], n));
                Ok(())
            }
            Prefix::Compressed(bytes, length) => {
                small.clear();
                self.append(bytes, small)?;
                lzf::expand(small, whole_bytes(length, expanded_max)?, to).map_err(ReadFault::from)
            }
        }
    }

    /// Passes over a string.
    pub(crate) fn skip_string(&mut self) -> Result<(), ReadFault> {
        match self.prefix()? {
            Prefix::Length(bytes) | Prefix::Compressed(bytes, _) => self.skip(bytes),
            Prefix::Int(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A string of zeros as a file has it, compressed, which says to have `claimed` bytes.
    fn zeros(bytes: usize, claimed: u64) -> Vec<u8> {
        let mut small = Vec::new();
        assert!(lzf::compress(&mut lzf::Table::default(), &vec![0; bytes], bytes, &mut small));
        let length = |n: u64| [&[0x81][..], &n.to_be_bytes()].concat();
        [&[0xc3][..], &length(small.len() as u64), &length(claimed), &small].concat()
    }

    /// Reads a string to its end; the steps, of which each makes a bounded number of bytes.
    fn steps(file: &[u8], text: &mut Text) -> Result<usize, ReadFault> {
        let (mut source, mut small, mut steps) = (Source::new(file, file.len(), false), Vec::new(), 1);
        let mut is_whole = text.begin(&mut source, &mut small)?;
        while !is_whole {
            let (before, begin) = (source.work(), text.bytes.len());
            is_whole = text.go_on(&mut source, &mut small)?;
            assert!(source.work() - before < 2 * STEP_BYTES && text.bytes.len() - begin < 2 * STEP_BYTES as usize);
            steps += 1;
        }
        Ok(steps)
    }

    #[test]
    fn a_long_string_is_read_over_several_steps() {
        let mut text = Text::default();
        for (bytes, least) in [(1000, 1), (64 << 10, 1), (10 << 20, 160)] {
            let found = steps(&zeros(bytes, bytes as u64), &mut text).expect("it is sound");
            assert!(
                text.bytes == vec![0; bytes] && (least..least + 5).contains(&found),
                "{bytes} bytes: {found} steps"
            );
            let plain = [&[0x80][..], &(bytes as u32).to_be_bytes(), &vec![7; bytes]].concat();
            let found = steps(&plain, &mut text).expect("it is sound");
            assert!(text.bytes == vec![7; bytes] && found + 2 >= least, "{bytes} bytes: {found} steps");
        }
        for claimed in [(10 << 20) - 1, (10 << 20) + 1] {
            assert!(matches!(steps(&zeros(10 << 20, claimed), &mut text), Err(ReadFault::Compressed)));
        }
    }

    #[test]
    fn a_long_string_says_what_it_wants_before_it_takes_it() {
        let (file, mut small, mut text) = (zeros(10 << 20, 10 << 20), Vec::new(), Text::default());
        let mut source = Source::new(&file[..], file.len(), false);
        assert!(!text.begin(&mut source, &mut small).expect("it is sound"));
        assert_eq!((text.bytes.capacity(), small.capacity()), (0, 0));
        let wanted = text.wanted_bytes(file.len() as u64);
        assert!((10 << 20..11 << 20).contains(&wanted), "{wanted} bytes are wanted");
        while !text.go_on(&mut source, &mut small).expect("it is sound") {
            assert!(text.bytes.capacity() as u64 <= wanted);
        }
        let plain = [&[0x80][..], &(10_000_000_u32).to_be_bytes(), &vec![7; 10_000_000]].concat();
        let (mut source, mut text) = (Source::new(&plain[..], plain.len(), false), Text::default());
        assert!(!text.begin(&mut source, &mut small).expect("it is sound"));
        let wanted = text.wanted_bytes(plain.len() as u64);
        while !text.go_on(&mut source, &mut small).expect("it is sound") {
            assert!(text.bytes.capacity() as u64 <= wanted, "{} bytes, {wanted} wanted", text.bytes.capacity());
        }
        // A length that lies wants no more than its bytes may make, and is not believed beyond all values.
        let lie = [&[0xc3, 9, 0x80][..], &(1u32 << 30).to_be_bytes(), &[0; 9]].concat();
        let mut short = Source::new(&lie[..], lie.len(), false);
        assert!(!text.begin(&mut short, &mut small).expect("it is not looked at"));
        assert!(text.wanted_bytes(lie.len() as u64) < 2000, "{}", text.wanted_bytes(lie.len() as u64));
        let lie = zeros(1000, (1 << 30) + 1);
        assert!(matches!(steps(&lie, &mut text), Err(ReadFault::TooLong(_))));
    }
}
