//! Notes: lines between commands that begin with `#`. Whoever runs the commands passes over them.
//!
//! ```text
//!   #TS:1650000000                 the commands behind it ran in this second, or later
//!   #REPL:<id> <offset> <since> <db>   the stream of this history has this offset here, and this database selected; its bytes
//!                                  from `since` on stand before, in this file and in those before it
//!   #REPL:-                        what follows is in no stream
//!   #SAID:REPLCONF GETACK *        here the stream has this request, which says something and changes nothing
//!   #SENT+*3\r\n$7\r\nPUBL|        here the stream has these bytes, of which the next note has more; CR, LF and a backslash are
//!                                  written as two characters
//!   #SENT:ISH\r\n..|               here the stream has these bytes, which end a request
//!   #OWN:23                        the commands in this number of bytes behind the line are the file's own, and in no stream
//! ```
//! So the bytes of a replication stream are found again in a file (`sieve.rs`). redis-server reads lines of up to
//! [`NOTE_BYTES_MAX`] bytes, and takes the rest of a longer one for a command.

use std::ops::Deref;

use varve_base::number::parse_i64;

use super::request::{put_request, select};

/// Bytes of a note at most, with its end.
pub(crate) const NOTE_BYTES_MAX: usize = 127;
/// Digits of an id.
const ID_DIGITS: usize = 40;

/// See the module's picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Unix time in seconds.
    Time(i64),
    /// A place of a stream.
    Stream(StreamPlace),
    /// No stream from here on.
    NoStream,
    /// The words of a request that stands in the stream alone. None has a blank or an end of a line.
    Said(Vec<Vec<u8>>),
    /// Bytes that stand in the stream alone. They end whole requests unless there are more in the next note: of a series whose
    /// last note is missing nothing counts.
    Sent {
        /// The bytes.
        bytes: Vec<u8>,
        /// The next note has more of them.
        more: bool,
    },
    /// The next bytes stand in the file alone: their number.
    Own(u64),
}

/// A place in a replication stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPlace {
    /// The id of the history, 40 hexadecimal digits.
    pub id: String,
    /// Bytes of the stream before it.
    pub offset: u64,
    /// Behind this number of bytes, files have all of them.
    pub since: u64,
    /// The database that the stream has selected there.
    pub db: u32,
}

/// The place of a stream behind what was read of its files, whose commands are read for another purpose.
#[derive(Debug, Default)]
pub struct StreamTrack {
    place: Option<StreamPlace>,
    /// Bytes of the file's own that are still to come.
    own_bytes: u64,
    /// Bytes of the stream alone that were read, of a series that has not ended.
    sent_bytes: u64,
}

impl StreamTrack {
    /// The place; None if what was read last is in no stream.
    pub fn place(self) -> Option<StreamPlace> {
        self.place
    }

    /// A line that begins with `#` was read.
    pub fn read_note(&mut self, line: &[u8]) {
        let note = Note::parse(line);
        let sent_bytes = std::mem::take(&mut self.sent_bytes);
        match note {
            Some(Note::Sent { bytes, more: true }) => self.sent_bytes = sent_bytes + bytes.len() as u64,
            Some(Note::Sent { bytes, more: false }) => self.count(sent_bytes + bytes.len() as u64),
            // Bytes that were announced before it and are not there were not written.
            Some(Note::Stream(place)) => (self.place, self.own_bytes) = (Some(place), 0),
            Some(Note::NoStream) => (self.place, self.own_bytes) = (None, 0),
            Some(Note::Said(words)) => {
                let mut request = Vec::new();
                put_request(&mut request, words.iter().map(Vec::as_slice));
                self.count(request.len() as u64);
            }
            Some(Note::Own(bytes)) => self.own_bytes = bytes,
            Some(Note::Time(_)) | None => {}
        }
    }

    /// Commands of this length were read.
    pub fn read_commands(&mut self, bytes: u64) {
        self.sent_bytes = 0;
        let own_bytes = self.own_bytes.min(bytes);
        self.own_bytes -= own_bytes;
        self.count(bytes - own_bytes);
    }

    /// Behind what was read, commands find this database selected.
    pub fn note_db(&mut self, db: u32) {
        self.place.iter_mut().for_each(|place| place.db = db);
    }

    fn count(&mut self, bytes: u64) {
        self.place.iter_mut().for_each(|place| place.offset += bytes);
    }
}

impl Note {
    /// The note of a line, whose end may be there or not; None if it is none of these.
    pub fn parse(line: &[u8]) -> Option<Note> {
        let line = line.trim_ascii_end().strip_prefix(b"#")?;
        let number = |text: &[u8]| parse_i64(text).and_then(|number| u64::try_from(number).ok());
        if let Some(text) = line.strip_prefix(b"TS:") {
            return parse_i64(text).map(Note::Time);
        }
        if let Some(text) = line.strip_prefix(b"OWN:") {
            return number(text).map(Note::Own);
        }
        if let Some(text) = line.strip_prefix(b"SENT") {
            let more = *text.first()? == b'+';
            let text = text.strip_prefix(if more { b"+" } else { b":" })?.strip_suffix(b"|")?;
            return Some(Note::Sent { bytes: unescaped(text)?, more });
        }
        if let Some(text) = line.strip_prefix(b"SAID:") {
            return Some(Note::Said(text.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect()));
        }
        let text = line.strip_prefix(b"REPL:")?;
        if text == b"-" {
            return Some(Note::NoStream);
        }
        let mut words = text.split(|byte| *byte == b' ');
        let id = words.next().filter(|id| id.len() == ID_DIGITS && id.iter().all(u8::is_ascii_hexdigit))?;
        let (offset, since) = (number(words.next()?)?, number(words.next()?)?);
        let db = u32::try_from(number(words.next()?)?).ok()?;
        let id = String::from_utf8(id.to_vec()).ok()?;
        (words.next().is_none() && since <= offset).then_some(Note::Stream(StreamPlace { id, offset, since, db }))
    }

    /// The line, with its end.
    pub fn line(&self) -> Vec<u8> {
        let mut line = match self {
            Note::Time(seconds) => format!("#TS:{seconds}").into_bytes(),
            Note::Stream(StreamPlace { id, offset, since, db }) => {
                format!("#REPL:{id} {offset} {since} {db}").into_bytes()
            }
            Note::NoStream => b"#REPL:-".to_vec(),
            Note::Said(words) => [b"#SAID:", &words.join(&b' ')[..]].concat(),
            Note::Sent { bytes, more } => {
                let mut line = if *more { b"#SENT+" } else { b"#SENT:" }.to_vec();
                bytes.iter().for_each(|byte| escape(*byte, &mut line));
                line.push(b'|');
                line
            }
            Note::Own(bytes) => format!("#OWN:{bytes}").into_bytes(),
        };
        line.extend_from_slice(b"\r\n");
        assert!(line.len() <= NOTE_BYTES_MAX, "redis-server reads this line whole");
        line
    }
}

/// Appends a byte of the stream as it stands in a line.
fn escape(byte: u8, line: &mut Vec<u8>) {
    match byte {
        b'\r' => line.extend_from_slice(b"\\r"),
        b'\n' => line.extend_from_slice(b"\\n"),
        b'\\' => line.extend_from_slice(b"\\\\"),
        other => line.push(other),
    }
}

/// The bytes of a text of [`escape`]; None if it is none.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut text) = (Vec::with_capacity(text.len()), text.iter());
    while let Some(byte) = text.next() {
        bytes.push(match byte {
            b'\\' => match text.next()? {
                b'r' => b'\r',
                b'n' => b'\n',
                b'\\' => b'\\',
                _ => return None,
            },
            other => *other,
        });
    }
    Some(bytes)
}

/// Appends the notes of bytes that the stream has and the file has not: whole requests, in parts that lie together. No bytes have
/// no notes.
pub fn put_sent(parts: impl Iterator<Item: Deref<Target = [u8]>>, out: &mut Vec<u8>) {
    let (mut begin, begin_all) = (out.len(), out.len());
    let mut put = |byte: u8| {
        // Two for this byte.
        if out.len() == begin_all || out.len() - begin + 2 > NOTE_BYTES_MAX - "|\r\n".len() {
            if out.len() > begin_all {
                out.extend_from_slice(b"|\r\n");
            }
            begin = out.len();
            out.extend_from_slice(b"#SENT+");
        }
        escape(byte, out);
    };
    parts.for_each(|part| part.iter().copied().for_each(&mut put));
    if out.len() > begin_all {
        out[begin + b"#SENT".len()] = b':';
        out.extend_from_slice(b"|\r\n");
    }
}

/// The choice of a database that stands in a file alone, with its note.
pub fn own_selection(db: u32) -> Vec<u8> {
    let mut request = Vec::new();
    select(db, &mut request);
    [Note::Own(request.len() as u64).line(), request].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent() -> impl Iterator<Item = Note> {
        [(&b"a\r\n\\r \0|\xff "[..], true), (b"", false), (b"|", false)]
            .into_iter()
            .map(|(bytes, more)| Note::Sent { bytes: bytes.to_vec(), more })
    }

    /// Requests of any length and any bytes are found again in lines that redis-server reads whole.
    #[test]
    fn issue_17_requests_of_the_stream_stand_in_lines() {
        for len in (0..300).chain([10_000]) {
            let bytes: Vec<u8> = (0..len).map(|nth| b"\r\n\\|#a\0 r"[nth % 9]).collect();
            let mut out = Vec::new();
            put_sent(bytes.chunks(7), &mut out);
            let (mut again, mut ends) = (Vec::new(), 0);
            for line in out.split_inclusive(|byte| *byte == b'\n') {
                assert!(line.starts_with(b"#") && line.ends_with(b"|\r\n") && line.len() <= NOTE_BYTES_MAX);
                let Some(Note::Sent { bytes, more }) = Note::parse(line) else { panic!("{line:?}") };
                again.extend(bytes);
                ends += usize::from(!more);
            }
            assert!(again == bytes, "{len} bytes");
            assert_eq!(ends, usize::from(len > 0), "the last one of {len} bytes says so");
        }
    }

    #[test]
    fn issue_17_what_is_written_is_read() {
        let place = StreamPlace { id: "a".repeat(ID_DIGITS), offset: u64::MAX >> 1, since: u64::MAX >> 1, db: 15 };
        let words = vec![b"REPLCONF".to_vec(), b"GETACK".to_vec(), b"*".to_vec()];
        let notes = [Note::Time(-1), Note::Stream(place), Note::NoStream, Note::Said(words), Note::Own(23)];
        for note in notes.into_iter().chain(sent()) {
            let line = note.line();
            assert!(line.ends_with(b"\r\n") && line.len() <= NOTE_BYTES_MAX);
            assert_eq!(Note::parse(&line), Some(note));
        }
    }

    #[test]
    fn issue_17_the_end_of_a_stream_is_known_when_its_commands_were_read() {
        let place = |offset| StreamPlace { id: "b".repeat(ID_DIGITS), offset, since: 3, db: 0 };
        let mut track = StreamTrack::default();
        track.read_commands(100);
        track.read_note(&Note::Stream(place(50)).line());
        track.read_note(b"#SAID:PING");
        track.read_note(b"#OWN:23");
        track.read_commands(24);
        track.note_db(7);
        assert_eq!(track.place(), Some(StreamPlace { db: 7, ..place(50 + 14 + 1) }));
        let mut track = StreamTrack { place: Some(place(9)), ..StreamTrack::default() };
        track.read_note(b"#SENT+*1\\r\\n|");
        track.read_commands(7);
        assert_eq!(track.place.as_ref().map(|place| place.offset), Some(16), "the series has not ended");
        track.read_note(b"#SENT+*1\\r\\n|");
        track.read_note(b"#SENT:$4\\r\\nPING\\r\\n|");
        assert_eq!(track.place.as_ref().map(|place| place.offset), Some(16 + 14));
        track.read_note(b"#OWN:23");
        track.read_note(&Note::Stream(place(70)).line());
        track.read_commands(24);
        assert_eq!(track.place.as_ref().map(|place| place.offset), Some(70 + 24), "a place ends what was announced");
        track.read_note(b"#SENT+*1\\r\\n|");
        track.read_note(b"#REPL:-");
        track.read_commands(1);
        assert_eq!(track.place(), None);
    }

    #[test]
    fn issue_17_other_lines_are_no_notes() {
        let id = "a".repeat(ID_DIGITS);
        let lines = [
            "# a comment".to_owned(),
            "#REPL:".to_owned(),
            format!("#REPL:{id} 5 5"),
            format!("#REPL:{id} 5 6 0"),
            format!("#REPL:{id} 5 5 5 5"),
            format!("#REPL:{} 5 5 0", "g".repeat(ID_DIGITS)),
            "#OWN:-1".to_owned(),
            "#TS:x".to_owned(),
            "#SENT".to_owned(),
            "#SENT:a".to_owned(),
            "#SENT:\\x|".to_owned(),
            "#SENT:\\|".to_owned(),
            "#SENT-a|".to_owned(),
        ];
        for line in lines {
            assert_eq!(Note::parse(line.as_bytes()), None, "{line}");
        }
    }
}
