//! The bytes of a replication stream, out of the files in which they stand.
//!
//! ```text
//!   file     #REPL:aaaa 100 0 0   *3 $3 SET ..   #TS:1650000000   *2 $3 DEL ..   #SAID:PING    #OWN:23   *2 $6 SELECT ..   #SENT:*3..|
//!   stream                        *3 $3 SET ..                    *2 $3 DEL ..   *1 $4 PING                                *3..
//!   offset                    100
//! ```
//! Bytes come in parts of any size, from one file behind the other, and leave as they came: a long argument is in memory in no
//! more than the part that is read; a request that stands in notes is in memory whole. Not here: files, and what the commands do.

use varve_base::number::parse_i64;

use super::note::{Note, StreamPlace};
use super::request::put_request;

/// Bytes of a line at most: a longer one is neither a note nor a number.
const LINE_BYTES_MAX: usize = 1024;

/// See the module's picture.
#[derive(Debug, Default)]
pub struct Sieve {
    /// The offset of the stream behind what was read; None before the first place that is noted.
    offset: Option<u64>,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// Arguments of a command that are still to come.
    arguments: u64,
    /// Bytes of an argument that are still to come, with its end.
    argument_bytes: u64,
    /// Bytes of the file's own that are still to come.
    own_bytes: u64,
    /// Bytes of the stream that stand in notes, of a series that has not ended.
    sent: Vec<u8>,
}

/// Why there is no stream behind what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SieveFault {
    /// The stream ends here, or goes on at another offset.
    Gap,
    /// Something is no command.
    Damaged,
}

impl Sieve {
    /// The offset of the stream behind what was read; None before the first place that is noted.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// True between two commands: a file may end here.
    pub fn is_between(&self) -> bool {
        self.line.is_empty() && self.arguments == 0 && self.own_bytes == 0 && self.sent.is_empty()
    }

    /// Reads the next bytes of a file, and appends to `out` what of them is in the stream.
    ///
    /// # Errors
    /// The stream does not go on: `out` has all before that.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), SieveFault> {
        while !bytes.is_empty() {
            if self.argument_bytes == 0 {
                bytes = self.line_part(bytes, out)?;
                continue;
            }
            let passed = self.argument_bytes.min(bytes.len() as u64) as usize;
            self.argument_bytes -= passed as u64;
            self.keep_read(&bytes[..passed], out);
            bytes = &bytes[passed..];
        }
        Ok(())
    }

    /// Reads up to the end of a line; gives the bytes behind it.
    fn line_part<'b>(&mut self, bytes: &'b [u8], out: &mut Vec<u8>) -> Result<&'b [u8], SieveFault> {
        let end = bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n');
        let part = &bytes[..end.map_or(bytes.len(), |end| end + 1)];
        if self.line.len() + part.len() > LINE_BYTES_MAX {
            return Err(SieveFault::Damaged);
        }
        self.line.extend_from_slice(part);
        if end.is_some() {
            let line = std::mem::take(&mut self.line);
            self.whole_line(&line, out)?;
            self.line = line;
            self.line.clear();
        }
        Ok(&bytes[part.len()..])
    }

    fn whole_line(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), SieveFault> {
        let number = |text: &[u8]| parse_i64(text.trim_ascii_end()).and_then(|number| u64::try_from(number).ok());
        match line[0] {
            b'#' if self.arguments == 0 => return self.note(line, out),
            // The rest of a series was not written.
            _ if !self.sent.is_empty() => self.sent.clear(),
            _ => {}
        }
        match line[0] {
            b'*' if self.arguments == 0 => self.arguments = number(&line[1..]).ok_or(SieveFault::Damaged)?,
            b'$' if self.arguments > 0 => {
                self.argument_bytes = number(&line[1..]).ok_or(SieveFault::Damaged)? + b"\r\n".len() as u64;
                self.arguments -= 1;
            }
            _ => return Err(SieveFault::Damaged),
        }
        self.keep_read(line, out);
        Ok(())
    }

    fn note(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), SieveFault> {
        let sent = std::mem::take(&mut self.sent);
        match Note::parse(line) {
            Some(Note::Sent { bytes, more }) => {
                self.sent = sent;
                self.sent.extend(bytes);
                if !more {
                    let sent = std::mem::take(&mut self.sent);
                    self.keep(&sent, out);
                }
            }
            Some(Note::Stream(StreamPlace { offset, .. })) => {
                if self.offset.is_some_and(|before| before != offset) {
                    return Err(SieveFault::Gap);
                }
                // Bytes that were announced before it and are not there were not written.
                (self.offset, self.own_bytes) = (Some(offset), 0);
            }
            Some(Note::NoStream) if self.offset.is_some() => return Err(SieveFault::Gap),
            Some(Note::Said(words)) => {
                let mut request = Vec::new();
                put_request(&mut request, words.iter().map(Vec::as_slice));
                self.keep(&request, out);
            }
            Some(Note::Own(bytes)) => self.own_bytes = bytes,
            Some(Note::NoStream) => self.own_bytes = 0,
            Some(Note::Time(_)) | None => {}
        }
        Ok(())
    }

    /// Keeps bytes of commands, but for the file's own.
    fn keep_read(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let own = self.own_bytes.min(bytes.len() as u64);
        self.own_bytes -= own;
        self.keep(&bytes[own as usize..], out);
    }

    fn keep(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if let Some(offset) = &mut self.offset {
            *offset += bytes.len() as u64;
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn place(offset: u64) -> String {
        format!("#REPL:{ID} {offset} 0 0\r\n")
    }

    /// The stream of a file that is read in parts of this size.
    fn sift(file: &str, part: usize) -> (Result<(), SieveFault>, String, Option<u64>) {
        let (mut sieve, mut out) = (Sieve::default(), Vec::new());
        let result = file.as_bytes().chunks(part).try_for_each(|bytes| sieve.push(bytes, &mut out));
        (result, String::from_utf8(out).expect("text"), sieve.offset())
    }

    #[test]
    fn issue_17_a_stream_is_found_again_in_parts_of_any_size() {
        const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8\r\n#SAID:\r\n\r\n";
        let select = "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n";
        let note = "#TS:1650000000\r\n# more\r\n";
        let (multi, exec) = ("*1\r\n$5\r\nMULTI\r\n", "*1\r\n$4\r\nEXEC\r\n");
        let message = format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$200\r\n{}\r\n", "#\r\n\\|".repeat(40));
        let mut sent = Vec::new();
        crate::note::put_sent([message.as_bytes()].into_iter(), &mut sent);
        let sent = String::from_utf8(sent).expect("text");
        let torn = &sent[..sent.find('\n').expect("a line") + 1];
        let file = format!(
            "#OWN:23\r\n{select}{SET}{}{SET}{note}#SAID:PING\r\n#OWN:23\r\n{select}{SET}{multi}{SET}{sent}{exec}{sent}{torn}{SET}\
             {torn}#TS:1\r\n{SET}",
            place(7)
        );
        let stream = format!("{SET}*1\r\n$4\r\nPING\r\n{SET}{multi}{SET}{message}{exec}{message}{SET}{SET}");
        for part in 1..=file.len() {
            assert_eq!(sift(&file, part), (Ok(()), stream.clone(), Some(7 + stream.len() as u64)), "parts of {part}");
        }
        assert_eq!(sift(SET, 10).2, None, "what stands before the first place is in no stream");
    }

    /// A writer has died behind a note of the file's own bytes, and another one has gone on behind it.
    #[test]
    fn own_bytes_that_were_not_written_swallow_nothing() {
        const DEL: &str = "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";
        let file = format!("{}{DEL}#OWN:23\r\n{}{DEL}#OWN:{}\r\n{DEL}{DEL}", place(5), place(25), DEL.len());
        for part in 1..=file.len() {
            let (result, stream, offset) = sift(&file, part);
            assert_eq!((result, &stream, offset), (Ok(()), &DEL.repeat(3), Some(65)), "parts of {part}");
        }
    }

    #[test]
    fn issue_17_a_stream_ends_where_it_goes_on_elsewhere() {
        const DEL: &str = "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";
        let next = |at: u64| format!("{}{DEL}{}{DEL}", place(5), place(at));
        assert_eq!(sift(&next(25), 9).0, Ok(()));
        assert_eq!(sift(&next(26), 9), (Err(SieveFault::Gap), DEL.to_owned(), Some(25)));
        assert_eq!(sift(&format!("{}{DEL}#REPL:-\r\n", place(5)), 9).0, Err(SieveFault::Gap));
        for bad in ["x\r\n", "*1\r\n*1\r\n", "*x\r\n", "*1\r\n$-1\r\n", &"*".repeat(2000)] {
            assert_eq!(sift(bad, 100).0, Err(SieveFault::Damaged), "{bad}");
        }
    }
}
