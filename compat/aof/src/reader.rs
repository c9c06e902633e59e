//! Commands of a file, in whole commands and with their places.
//!
//! ```text
//!   *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n   *1\r\n$5\r\nMULTI\r\n ...   #TS:1650000000\r\n   *2\r\n$3\r\nDEL\r\n$
//!   |<------------- Piece::Commands ----------------------------->|   |Piece::Note  |    |FileFault::Truncated: valid
//! ```
//! A file ends torn if its writer died: in the middle of a command, inside MULTI, or with zeros that a file system has put
//! in place of pages which were not written. That is [`FileFault::Truncated`], and all before it is good. A note of the
//! file's own bytes (`#OWN:23`) is good if all of these are there: what is written behind it would be taken for them.
//! Everything else that is no command is [`FileFault::Damaged`]. Memory is bounded by the longest command that is
//! really there, whatever a length says.
//!
//! Not here: an RDB file at the front, and what commands do.

use std::io::{self, Read};
use std::ops::Range;

use varve_base::number::parse_i64;

use super::note::Note;

/// Bytes that are read at once, and after which a piece ends.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes of a number's line at most.
const LINE_BYTES_MAX: usize = 32;
/// Bytes of a note's line at most.
const NOTE_BYTES_MAX: usize = 1024;
/// Longest argument.
const ARGUMENT_BYTES_MAX: i64 = 1 << 32;
/// A block that a file system has not written is full of zeros. No disk has smaller ones, and pages end where blocks do.
const BLOCK_BYTES: u64 = 512;
/// A block of zeros this close to the end counts as one that was not written. A writer keeps no more than this unsynced.
const UNSYNCED_BYTES_MAX: u64 = 128 << 20;

/// A part of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'b> {
    /// Whole commands, one behind the other.
    Commands(Vec<u8>),
    /// A line that begins with `#`, without its end.
    Note(&'b [u8]),
}

/// Why a file cannot be read on.
#[derive(Debug)]
pub enum FileFault {
    /// The file cannot be read.
    Io(io::Error),
    /// The file ends torn. The bytes before `valid` are whole commands and whole transactions.
    Truncated {
        /// Bytes of the file that are good.
        valid: u64,
    },
    /// Something that is no command stands at `offset`.
    Damaged {
        /// Place in the file, bytes.
        offset: u64,
        /// The fault.
        reason: &'static str,
        /// The bytes before this one are whole commands and whole transactions.
        valid: u64,
    },
}

/// See the module's picture.
#[derive(Debug)]
pub struct CommandReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are done with.
    done: usize,
    /// Place in the file of the buffer's first byte.
    place: u64,
    ended: bool,
    /// Where the MULTI stands whose EXEC has not come; or what was open before it.
    transaction: Option<u64>,
    own: Option<Own>,
    frame: Frame,
}

/// Commands of the file's own that are not all read.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// Where the note stands that announces them; or what was open before it.
    at: u64,
    /// Bytes of them that are still to come.
    left: u64,
}

/// How far the command at the front is known.
#[derive(Debug, Default)]
struct Frame {
    /// Bytes of it that were looked at.
    seen: usize,
    /// Arguments that are still to come; None before their number is known.
    left: Option<i64>,
    /// The name.
    name: Option<Range<usize>>,
}

/// The state of the command at the front.
enum Step {
    Whole,
    /// The end of what was read.
    More,
    /// No command: the first byte that fits in none, from the command's start.
    Bad(usize, &'static str),
}

impl<R: Read> CommandReader<R> {
    /// Reads a file whose first byte here is at `place` of it.
    pub fn new(source: R, place: u64) -> CommandReader<R> {
        let frame = Frame::default();
        CommandReader { source, buffer: Vec::new(), done: 0, place, ended: false, transaction: None, own: None, frame }
    }

    /// Place in the file up to which it was read, bytes.
    pub fn offset(&self) -> u64 {
        self.place + self.done as u64
    }

    /// The next piece; None at the end.
    ///
    /// # Errors
    /// The file cannot be read, is torn, or is damaged. What came before stands.
    pub fn next_piece(&mut self) -> Result<Option<Piece<'_>>, FileFault> {
        self.forget_done();
        let mut end = 0;
        loop {
            if self.buffer.get(end) == Some(&b'#') {
                if end > 0 {
                    break;
                }
                return self.note().map(Some);
            }
            match self.frame.advance(&self.buffer[end..]) {
                Step::Whole => end += self.end_command(end),
                Step::Bad(..) | Step::More if end > 0 => break,
                Step::Bad(at, reason) => return Err(self.torn_or_damaged(at, reason)),
                Step::More if self.ended => return self.end(),
                Step::More => self.fill()?,
            }
            if end >= PIECE_BYTES {
                break;
            }
        }
        // The buffer itself is given away: a long command is not copied.
        let rest = self.buffer.split_off(end);
        self.place += end as u64;
        Ok(Some(Piece::Commands(std::mem::replace(&mut self.buffer, rest))))
    }

    /// Ends the command that begins at `start` of the buffer; its length.
    fn end_command(&mut self, start: usize) -> usize {
        let frame = std::mem::take(&mut self.frame);
        let name = &self.buffer[start..][frame.name.expect("a whole command has a name")];
        if name.eq_ignore_ascii_case(b"MULTI") {
            self.transaction = Some(self.open_at().unwrap_or(self.place + start as u64));
        } else if name.eq_ignore_ascii_case(b"EXEC") {
            self.transaction = None;
        }
        if let Some(own) = &mut self.own {
            own.left = own.left.saturating_sub(frame.seen as u64);
        }
        self.own = self.own.filter(|own| own.left > 0);
        frame.seen
    }

    /// Where that stands which is open at the end of what was read: a transaction, or bytes of the file's own.
    fn open_at(&self) -> Option<u64> {
        self.transaction.into_iter().chain(self.own.map(|own| own.at)).min()
    }

    /// Bytes of the file that are good, where it cannot be read on.
    fn valid(&self) -> u64 {
        self.open_at().unwrap_or(self.place)
    }

    fn forget_done(&mut self) {
        self.place += self.done as u64;
        self.buffer.drain(..self.done);
        self.done = 0;
    }

    fn fill(&mut self) -> Result<(), FileFault> {
        let old = self.buffer.len();
        let want = PIECE_BYTES.max(old / 2);
        let read = self.source.by_ref().take(want as u64).read_to_end(&mut self.buffer).map_err(FileFault::Io)?;
        self.ended = read < want;
        Ok(())
    }

    /// Nothing whole is left.
    fn end(&mut self) -> Result<Option<Piece<'_>>, FileFault> {
        match self.open_at() {
            Some(valid) => Err(FileFault::Truncated { valid }),
            None if self.buffer.is_empty() => Ok(None),
            None => Err(FileFault::Truncated { valid: self.place }),
        }
    }

    /// A line that begins with `#` stands at the front.
    fn note(&mut self) -> Result<Piece<'_>, FileFault> {
        loop {
            let line = self.buffer.iter().take(NOTE_BYTES_MAX).position(|byte| *byte == b'\n');
            if let Some(end) = line {
                self.done = end + 1;
                // A place of the stream ends what was announced before: an earlier writer has died there.
                match Note::parse(&self.buffer[..end]) {
                    Some(Note::Own(left)) if left > 0 => {
                        self.own = Some(Own { at: self.valid(), left });
                    }
                    Some(Note::Own(_) | Note::Stream(_) | Note::NoStream) => self.own = None,
                    _ => {}
                }
                return Ok(Piece::Note(self.buffer[..end].trim_ascii_end()));
            }
            if self.buffer.len() >= NOTE_BYTES_MAX {
                let zeros = self.buffer.iter().position(|byte| *byte == 0).unwrap_or(0);
                return Err(self.torn_or_damaged(zeros, "a note without an end"));
            }
            if self.ended {
                return Err(FileFault::Truncated { valid: self.valid() });
            }
            self.fill()?;
        }
    }

    /// The bytes at `at` of the buffer fit in no command: if zeros are there up to the end, or up to the end of a
    /// block near the end, the file is torn. They may be few: what was synced can end just before a block does.
    fn torn_or_damaged(&mut self, at: usize, reason: &'static str) -> FileFault {
        let offset = self.place + at as u64;
        let block_left = BLOCK_BYTES - offset % BLOCK_BYTES;
        let (mut zeros, mut left, mut all_zeros) = (0, 0, true);
        let mut chunk = self.buffer.split_off(at);
        loop {
            let run = chunk.iter().take_while(|byte| **byte == 0).count();
            zeros += if all_zeros { run as u64 } else { 0 };
            all_zeros &= run == chunk.len();
            left += chunk.len() as u64;
            chunk.clear();
            match self.source.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut chunk) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return FileFault::Io(error),
            }
        }
        let torn = left > 0 && all_zeros || zeros >= block_left && left <= UNSYNCED_BYTES_MAX;
        let valid = self.valid();
        match torn {
            true => FileFault::Truncated { valid },
            false => FileFault::Damaged { offset, reason, valid },
        }
    }
}

/// A command among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'b> {
    /// Where it begins, bytes from the first command.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Its name.
    pub name: &'b [u8],
}

/// The command that has this number, from 0, among whole commands.
pub fn nth_command(commands: &[u8], nth: usize) -> Option<Found<'_>> {
    let mut start = 0;
    for left in (0..=nth).rev() {
        let mut frame = Frame::default();
        let Step::Whole = frame.advance(&commands[start..]) else { return None };
        if left == 0 {
            let (end, name) = (start + frame.seen, &commands[start..][frame.name?]);
            return Some(Found { start, end, name });
        }
        start += frame.seen;
    }
    None
}

impl Frame {
    /// Looks at more of the command that `bytes` begin with.
    fn advance(&mut self, bytes: &[u8]) -> Step {
        if self.left.is_none() {
            match line(bytes, 0, b'*') {
                Ok(Some((number, end))) if number > 0 && number <= i64::from(i32::MAX) => {
                    (self.left, self.seen) = (Some(number), end);
                }
                Ok(Some(_)) => return Step::Bad(1, "a command has arguments"),
                Ok(None) => return Step::More,
                Err(at) => return Step::Bad(at, "a command begins with '*' and the number of its arguments"),
            }
        }
        while self.left > Some(0) {
            let (length, start) = match line(bytes, self.seen, b'$') {
                Ok(Some((length, start))) if (0..=ARGUMENT_BYTES_MAX).contains(&length) => (length as usize, start),
                Ok(Some(_)) => return Step::Bad(self.seen + 1, "an argument's length is out of range"),
                Ok(None) => return Step::More,
                Err(at) => return Step::Bad(at, "an argument begins with '$' and its length"),
            };
            let end = start + length;
            for (at, wanted) in [(end, b'\r'), (end + 1, b'\n')] {
                match bytes.get(at) {
                    None => return Step::More,
                    Some(byte) if *byte != wanted => return Step::Bad(at, "an argument ends with CR LF"),
                    Some(_) => {}
                }
            }
            self.name.get_or_insert(start..end);
            self.seen = end + 2;
            self.left = self.left.map(|left| left - 1);
        }
        Step::Whole
    }
}

/// The number of a line that begins with `kind` at `at`, and the place behind the line; None if its end has not come.
///
/// # Errors
/// The place of the first byte that is wrong.
fn line(bytes: &[u8], at: usize, kind: u8) -> Result<Option<(i64, usize)>, usize> {
    let Some(text) = bytes.get(at..).filter(|text| !text.is_empty()) else { return Ok(None) };
    if text[0] != kind {
        return Err(at);
    }
    let digits = text[1..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
    let end = 1 + digits;
    if digits > LINE_BYTES_MAX {
        return Err(at + 1);
    }
    for (end, wanted) in [(end, b'\r'), (end + 1, b'\n')] {
        match text.get(end) {
            None => return Ok(None),
            Some(byte) if *byte != wanted => return Err(at + end),
            Some(_) => {}
        }
    }
    let number = parse_i64(&text[1..end]).ok_or(at + 1)?;
    Ok(Some((number, at + end + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(words: &[&[u8]]) -> Vec<u8> {
        let mut out = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        out
    }

    /// A source that gives a few bytes at a time.
    struct Slow<'b>(&'b [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let length = into.len().min(self.1).min(self.0.len());
            into[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    /// The bytes of commands and the notes, and how the reading ended.
    fn read(bytes: &[u8], step: usize) -> (Vec<u8>, Vec<Vec<u8>>, Result<(), FileFault>) {
        let mut reader = CommandReader::new(Slow(bytes, step), 0);
        let (mut commands, mut notes) = (Vec::new(), Vec::new());
        loop {
            match reader.next_piece() {
                Ok(Some(Piece::Commands(piece))) => commands.extend_from_slice(&piece),
                Ok(Some(Piece::Note(note))) => notes.push(note.to_vec()),
                Ok(None) => return (commands, notes, Ok(())),
                Err(fault) => return (commands, notes, Err(fault)),
            }
        }
    }

    fn valid(bytes: &[u8]) -> u64 {
        match read(bytes, 7).2 {
            Err(FileFault::Truncated { valid }) => valid,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_and_notes_are_parted() {
        let (set, del) = (request(&[b"SET", b"k", b"v\r\n"]), request(&[b"DEL", b"k"]));
        let file = [&b"#TS:5\r\n"[..], &set, &del, b"#TS:6\r\n", &set].concat();
        for step in [1, 5, 1000] {
            let (commands, notes, end) = read(&file, step);
            assert_eq!(commands, [&set[..], &del, &set].concat());
            assert_eq!(notes, [b"#TS:5".to_vec(), b"#TS:6".to_vec()]);
            assert!(end.is_ok());
        }
    }

    #[test]
    fn a_torn_end_is_found_behind_the_last_whole_transaction() {
        let set = request(&[b"SET", b"k", b"v"]);
        let (multi, exec) = (request(&[b"multi"]), request(&[b"EXEC"]));
        for cut in 1..set.len() {
            assert_eq!(valid(&[&set[..], &set[..cut]].concat()), set.len() as u64);
        }
        let open = [&set[..], &multi, &set].concat();
        assert_eq!(valid(&open), set.len() as u64);
        assert_eq!(valid(&[&open[..], &exec[..5]].concat()), set.len() as u64);
        assert_eq!(valid(&[&open[..], &[0; 9]].concat()), set.len() as u64);
        assert!(read(&[&open[..], &exec].concat(), 7).2.is_ok());
        assert_eq!(valid(&[&set[..], b"#TS:1"].concat()), set.len() as u64);
    }

    /// A note of the file's own bytes goes with them: what is written behind it would be taken for them.
    #[test]
    fn a_note_of_own_bytes_goes_with_what_was_not_written() {
        let (set, own) = (request(&[b"SET", b"k", b"v"]), [request(&[b"DEL", b"k"]), request(&[b"PING"])].concat());
        let note = format!("#OWN:{}\r\n", own.len()).into_bytes();
        for cut in 0..own.len() {
            assert_eq!(valid(&[&set[..], &note, &own[..cut]].concat()), set.len() as u64, "cut {cut}");
            assert_eq!(valid(&[&set[..], &note, &own[..cut], &[0; 700]].concat()), set.len() as u64, "zeros at {cut}");
        }
        let whole = [&set[..], &note, &own].concat();
        assert!(read(&whole, 7).2.is_ok());
        assert_eq!(valid(&[&whole[..], &set[..5]].concat()), whole.len() as u64);
        let multi = request(&[b"MULTI"]);
        assert_eq!(valid(&[&set[..], &multi, &note, &own[..3]].concat()), set.len() as u64, "the transaction is open");
        // An earlier writer has left such a note, and another one has gone on behind it.
        let left = [&set[..], &note, b"#REPL:-\r\n", &set].concat();
        assert!(read(&left, 7).2.is_ok());
    }

    #[test]
    fn zeros_at_the_end_are_a_torn_end() {
        let set = request(&[b"SET", b"k", &[b'x'; 300]]);
        for cut in 0..set.len() {
            assert_eq!(valid(&[&set[..], &set[..cut], &[0; 700]].concat()), set.len() as u64, "cut {cut}");
        }
    }

    /// A page in the middle that was not written, the next one was.
    #[test]
    fn a_missing_page_near_the_end_is_a_torn_end() {
        let set = request(&[b"SET", b"k", &[b'x'; 100]]);
        let mut file = set.repeat(200);
        let page = 4096;
        file[page..2 * page].fill(0);
        assert_eq!(valid(&file), (page / set.len() * set.len()) as u64);
    }

    /// The last block of what was synced had room for a few bytes more, and was not written again; the next one was.
    #[test]
    fn zeros_up_to_the_end_of_a_block_are_a_torn_end_however_few() {
        let set = request(&[b"SET", b"k", &[b'x'; 100]]);
        let shortest = request(&[b"SET", b"k", b""]).len() + 2;
        for block in [BLOCK_BYTES as usize, 4096, 12_288] {
            for zeros in [1, 2, 4, 7, 8, 50] {
                // A whole command ends where the synced bytes do.
                let begin = block - zeros;
                let whole = begin / set.len() - 1;
                let filler = request(&[b"SET", b"k", &vec![b'y'; begin - whole * set.len() - shortest]]);
                let good = [set.repeat(whole), filler].concat();
                assert_eq!(good.len(), begin);
                let file = [&good[..], &vec![0; zeros], &set.repeat(3)].concat();
                assert_eq!(valid(&file), begin as u64, "{zeros} zeros before {block}");
                // Zeros in the middle of a block are damage, in the same number.
                let early = [&set.repeat(whole)[..], &vec![0; zeros], &[b'z'; 200][..]].concat();
                let end = read(&early, 100).2;
                assert!(matches!(end, Err(FileFault::Damaged { .. })), "{zeros} zeros before {block}: {end:?}");
            }
        }
    }

    #[test]
    fn other_bytes_are_damage() {
        let set = request(&[b"SET", b"k", b"v"]);
        for bad in ["PING\r\n", "*0\r\n", "*-1\r\n", "*1\r\n$-1\r\n", "*1\r\n$4\r\nPINGxx", "*1\r\n*1\r\n", "*x\r\n"] {
            let (commands, _, end) = read(&[&set[..], bad.as_bytes(), &set].concat(), 3);
            assert_eq!(commands, set, "{bad}");
            let Err(FileFault::Damaged { offset, valid, .. }) = end else { panic!("{bad}: {end:?}") };
            assert_eq!(valid as usize, set.len(), "{bad}: what is good ends before it");
            assert!((offset as usize) >= set.len() && (offset as usize) < set.len() + bad.len(), "{bad}: {offset}");
        }
    }

    /// Half a transaction is none.
    #[test]
    fn what_is_good_ends_before_a_transaction_with_damage() {
        let (set, multi) = (request(&[b"SET", b"k", b"v"]), request(&[b"MULTI"]));
        let (_, _, end) = read(&[&set[..], &multi, &set, b"?"].concat(), 100);
        let Err(FileFault::Damaged { offset, valid, .. }) = end else { panic!("{end:?}") };
        assert_eq!((offset as usize, valid as usize), (2 * set.len() + multi.len(), set.len()));
    }

    #[test]
    fn a_command_is_found_by_its_number() {
        let commands = [request(&[b"SET", b"k", b"*1\r\n"]), request(&[b"PING"])].concat();
        let second = commands.len() - request(&[b"PING"]).len();
        assert_eq!(nth_command(&commands, 0), Some(Found { start: 0, end: second, name: b"SET" }));
        assert_eq!(nth_command(&commands, 1), Some(Found { start: second, end: commands.len(), name: b"PING" }));
        assert_eq!(nth_command(&commands, 2), None);
    }

    #[test]
    fn a_lying_length_takes_no_memory() {
        let mut reader = CommandReader::new(&b"*1\r\n$4000000000\r\nabc"[..], 0);
        assert!(matches!(reader.next_piece(), Err(FileFault::Truncated { valid: 0 })));
        assert!(reader.buffer.capacity() < 4 * PIECE_BYTES);
    }

    proptest! {
        /// A torn file that is cut where its good bytes end is whole.
        #[test]
        fn what_is_good_is_whole(parts in proptest::collection::vec(0usize..7, 0..12), cut in 0usize..40) {
            let parts = parts.into_iter().map(|part| match part {
                0 => b"#OWN:15\r\n".to_vec(),
                1 => b"#OWN:60\r\n".to_vec(),
                2 => b"#REPL:-\r\n".to_vec(),
                3 => request(&[b"MULTI"]),
                4 => request(&[b"EXEC"]),
                5 => b"#TS:1\r\n".to_vec(),
                _ => request(&[b"SET", b"k", b"v"]),
            });
            let mut file = parts.collect::<Vec<_>>().concat();
            file.truncate(file.len().saturating_sub(cut));
            if let Err(FileFault::Truncated { valid }) = read(&file, 7).2 {
                prop_assert!(read(&file[..valid as usize], 7).2.is_ok(), "{}", file.escape_ascii());
            }
        }

        #[test]
        fn whatever_the_bytes_it_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300), step in 1usize..50) {
            drop(read(&bytes, step));
        }

        #[test]
        fn what_was_written_is_read(
            words in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..5), 0..30),
            step in 1usize..100,
        ) {
            let is_free = |words: &Vec<Vec<u8>>| !words[0].eq_ignore_ascii_case(b"multi");
            let requests = words.iter().filter(|words| is_free(words));
            let file: Vec<u8> = requests.flat_map(|words| {
                request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
            }).collect();
            let (commands, _, end) = read(&file, step);
            prop_assert!(end.is_ok());
            prop_assert_eq!(commands, file);
        }
    }
}
