//! A base as commands, where `aof-use-rdb-preamble` is off: an RDB file read and written again.
//!
//! ```text
//!   RDB file --events--> SELECT 3 | RPUSH k a b .. (64 elements) | RPUSH k .. | PEXPIREAT k 1700000000000 | ..
//! ```
//! One walk makes both forms; only this one is read twice. Not here: who names the file.

use std::io::{self, Read, Write};

use varve_aof::put_request;
use varve_base::number::push_f64;
use varve_commands::dump::idempotence_of;
use varve_rdb::format::MESSAGE_NAMES;
use varve_rdb::{Event, Kind, Part, ReadError, Reader, StreamTail};
use varve_store::NamedMessage;

/// Elements of a command.
const ELEMENTS_MAX: usize = 64;
/// Bytes of a command's elements after which it ends.
const BYTES_MAX: usize = 1 << 20;

/// Writes what an RDB file has as commands.
///
/// # Errors
/// Those of the files.
pub(super) fn write_commands(from: impl Read, to: &mut dyn Write) -> io::Result<()> {
    let mut reader = Reader::new(from);
    let mut open: Option<Open> = None;
    let (mut bytes, mut selected, mut message_names) = (Vec::new(), None, Vec::<Vec<u8>>::new());
    loop {
        match reader.next_event().map_err(damaged)? {
            Event::SelectDb(db) if selected == Some(db) => {}
            Event::SelectDb(db) => {
                selected = Some(db);
                put_request(&mut bytes, [&b"SELECT"[..], db.to_string().as_bytes()].into_iter());
            }
            Event::Key(head) => {
                if head.kind == Kind::String {
                    let (key, expiry_ms) = (head.key.to_vec(), head.expiry_ms);
                    write_string(&mut reader, &key, &mut bytes, to)?;
                    put_expiry(&key, expiry_ms, &mut bytes);
                } else {
                    open = Some(Open::new(head.kind, head.key, head.expiry_ms)?);
                }
            }
            Event::Part(part) => {
                let open = open.as_mut().expect("a part has a key");
                open.add(part, &mut bytes)?;
            }
            Event::ValueEnd => {
                let open = open.take().expect("a value has a key");
                let names = std::mem::take(&mut message_names);
                if !names.is_empty() {
                    put_message_names(&open.key, names.iter().map(Vec::as_slice), &mut bytes)?;
                }
                open.end(&mut bytes);
            }
            Event::Aux { name: MESSAGE_NAMES, value } => message_names.push(value.to_vec()),
            Event::Aux { .. } | Event::ResizeDb { .. } | Event::Slot => {}
            Event::Function(text) => put_request(&mut bytes, [&b"FUNCTION"[..], b"LOAD", text].into_iter()),
            Event::ModuleAux(_) => unreachable!("this server writes none"),
            Event::End => break,
        }
        if bytes.len() >= BYTES_MAX {
            to.write_all(&bytes)?;
            bytes.clear();
        }
    }
    to.write_all(&bytes)
}

fn damaged(error: ReadError) -> io::Error {
    io::Error::other(error.to_string())
}

/// Writes the command of a string behind what waits in `bytes`: it may be long, so it goes through by pieces.
fn write_string<R: Read>(
    reader: &mut Reader<R>,
    key: &[u8],
    bytes: &mut Vec<u8>,
    to: &mut dyn Write,
) -> io::Result<()> {
    let length = reader.begin_pieces().map_err(damaged)?;
    bytes.extend_from_slice(format!("*3\r\n$3\r\nSET\r\n${}\r\n", key.len()).as_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(format!("\r\n${length}\r\n").as_bytes());
    while let Some(piece) = reader.next_piece().map_err(damaged)? {
        bytes.extend_from_slice(piece);
        if bytes.len() >= BYTES_MAX {
            to.write_all(bytes)?;
            bytes.clear();
        }
    }
    bytes.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends the commands that give the messages of a stream their names. A message whose entry is gone keeps its name.
fn put_message_names<'a>(key: &[u8], fields: impl IntoIterator<Item = &'a [u8]>, to: &mut Vec<u8>) -> io::Result<()> {
    let kept = idempotence_of(fields).ok_or_else(|| io::Error::other("the names of messages are damaged"))?;
    let (seconds, most) = (kept.limits().duration_s.to_string(), kept.limits().names_max.to_string());
    let words: [&[u8]; 6] = [b"XCFGSET", key, b"IDMP-DURATION", seconds.as_bytes(), b"IDMP-MAXSIZE", most.as_bytes()];
    put_request(to, words.into_iter());
    kept.for_each(|NamedMessage { producer, name, id, .. }| {
        let words: [&[u8]; 5] = [b"XIDMPRECORD", key, producer, name, &id_text((id.ms, id.seq))];
        put_request(to, words.into_iter());
    });
    Ok(())
}

/// Appends the command that gives a key its expiry, if it has one.
fn put_expiry(key: &[u8], expiry_ms: Option<i64>, to: &mut Vec<u8>) {
    if let Some(at) = expiry_ms {
        put_request(to, [&b"PEXPIREAT"[..], key, at.to_string().as_bytes()].into_iter());
    }
}

/// A key whose value is being read.
struct Open {
    command: &'static [u8],
    key: Vec<u8>,
    expiry_ms: Option<i64>,
    /// Arguments behind the key.
    words: Vec<Vec<u8>>,
    elements: usize,
    bytes: usize,
    /// The group of a stream that is being made, its pending entries in order, and the consumer whose they are.
    group: Vec<u8>,
    pending: Vec<((u64, u64), i64, u64)>,
    consumer: Vec<u8>,
}

impl Open {
    fn new(kind: Kind, key: &[u8], expiry_ms: Option<i64>) -> io::Result<Open> {
        let command: &[u8] = match kind {
            Kind::String => unreachable!("strings are read by pieces"),
            Kind::List => b"RPUSH",
            Kind::Set => b"SADD",
            Kind::Zset => b"ZADD",
            Kind::Hash => b"HMSET",
            Kind::Stream => b"XADD",
            Kind::Module => return Err(io::Error::other(format!("a {} has no commands", kind.name()))),
        };
        Ok(Open {
            command,
            key: key.to_vec(),
            expiry_ms,
            words: Vec::new(),
            elements: 0,
            bytes: 0,
            group: Vec::new(),
            pending: Vec::new(),
            consumer: Vec::new(),
        })
    }

    fn add(&mut self, part: Part<'_>, to: &mut Vec<u8>) -> io::Result<()> {
        match part {
            Part::Whole(_) => unreachable!("strings are read by pieces"),
            Part::Element(bytes) => self.word(bytes),
            Part::Pair(field, value) => {
                self.word(field);
                self.word(value);
            }
            Part::Scored(member, score) => {
                let mut text = Vec::new();
                push_f64(&mut text, score);
                self.word(&text);
                self.word(member);
            }
            Part::Entry(id, _) => {
                self.flush(to);
                self.word(&id_text(id));
            }
            Part::Tail(tail) => self.tail(&tail, to),
            Part::DatedPair(field, value, expiry_ms) => {
                let until = expiry_ms.to_string();
                let words: [&[u8]; 8] =
                    [b"HSETEX", &self.key, b"PXAT", until.as_bytes(), b"FIELDS", b"1", field, value];
                put_request(to, words.into_iter());
            }
            Part::Group(..) | Part::Pending(..) | Part::Consumer(..) | Part::Owned(_) => self.group(part, to)?,
            Part::Names(names) => put_message_names(&self.key, [names], to)?,
        }
        // An entry of a stream is one command, whatever it has.
        let is_stream = self.command == b"XADD";
        self.elements += 1;
        if is_stream {
            return Ok(());
        }
        if self.elements == ELEMENTS_MAX || self.bytes >= BYTES_MAX {
            self.flush(to);
        }
        Ok(())
    }

    /// Has a stream be what its tail says: without entries it is made by one that is trimmed at once.
    fn tail(&mut self, tail: &StreamTail, to: &mut Vec<u8>) {
        self.flush(to);
        if tail.len == 0 {
            let id = id_text(tail.last.max((0, 1)));
            put_request(to, [b"XADD", &self.key[..], b"MAXLEN", b"0", &id, b"x", b"y"].into_iter());
        }
        // XSETID takes no last ID below the greatest deleted one with it, and a lower one behind it.
        let first = id_text(tail.last.max(tail.max_deleted));
        let (last, added, deleted) = (id_text(tail.last), tail.added.to_string(), id_text(tail.max_deleted));
        let words: [&[u8]; 7] =
            [b"XSETID", &self.key, &first, b"ENTRIESADDED", added.as_bytes(), b"MAXDELETEDID", &deleted];
        put_request(to, words.into_iter());
        if last != first {
            put_request(to, [b"XSETID", &self.key[..], &last].into_iter());
        }
    }

    /// Makes a group, its consumers, and what is pending for them. An entry that is pending and not in the stream any more
    /// has no command: no XCLAIM makes it pending.
    fn group(&mut self, part: Part<'_>, to: &mut Vec<u8>) -> io::Result<()> {
        match part {
            Part::Group(name, last, read) => {
                (self.group, self.pending) = (name.to_vec(), Vec::new());
                let (last, read) = (id_text(last), read.unwrap_or(-1).to_string());
                let words: [&[u8]; 7] = [b"XGROUP", b"CREATE", &self.key, name, &last, b"ENTRIESREAD", read.as_bytes()];
                put_request(to, words.into_iter());
            }
            Part::Pending(id, time_ms, count) => self.pending.push((id, time_ms, count)),
            Part::Consumer(name, ..) => {
                self.consumer = name.to_vec();
                let words: [&[u8]; 5] = [b"XGROUP", b"CREATECONSUMER", &self.key, &self.group, name];
                put_request(to, words.into_iter());
            }
            Part::Owned(id) => {
                let at = self.pending.binary_search_by_key(&id, |(id, ..)| *id);
                let at = at.map_err(|_| io::Error::other("a consumer has an entry that is not pending"))?;
                let (_, time_ms, count) = self.pending[at];
                let (id, time, count) = (id_text(id), time_ms.to_string(), count.to_string());
                let (key, group, consumer) = (&self.key, &self.group, &self.consumer);
                let (time, count) = (time.as_bytes(), count.as_bytes());
                let words: [&[u8]; 12] = [
                    b"XCLAIM",
                    key,
                    group,
                    consumer,
                    b"0",
                    &id,
                    b"TIME",
                    time,
                    b"RETRYCOUNT",
                    count,
                    b"JUSTID",
                    b"FORCE",
                ];
                put_request(to, words.into_iter());
            }
            _ => unreachable!("a part of a group"),
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8]) {
        self.bytes += word.len();
        self.words.push(word.to_vec());
    }

    fn flush(&mut self, to: &mut Vec<u8>) {
        if !self.words.is_empty() {
            let head = [self.command, &self.key];
            let words: Vec<&[u8]> = head.into_iter().chain(self.words.iter().map(Vec::as_slice)).collect();
            put_request(to, words.into_iter());
        }
        self.words.clear();
        (self.elements, self.bytes) = (0, 0);
    }

    fn end(mut self, to: &mut Vec<u8>) {
        self.flush(to);
        put_expiry(&self.key, self.expiry_ms, to);
    }
}

fn id_text((ms, seq): (u64, u64)) -> Vec<u8> {
    format!("{ms}-{seq}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_rdb::{RdbBuffer, Writer, format};

    /// A file that remembers its longest write.
    #[derive(Default)]
    struct Longest(usize, Vec<u8>);

    impl Write for Longest {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.max(bytes.len());
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_large_string_is_written_by_pieces() {
        let text = b"some words that can be compressed ".repeat(300_000);
        let mut sizes = Vec::new();
        for compress in [false, true] {
            let mut entries = RdbBuffer::new(compress);
            entries.begin(Kind::String, b"large", Some(99), None);
            entries.string(&text);
            let mut file = Vec::new();
            let mut writer = Writer::new(&mut file, true);
            writer.header(format::VERSION).and_then(|()| writer.put(&mut entries)).expect("memory");
            writer.end().expect("memory");
            sizes.push(file.len());
            let mut commands = Longest::default();
            write_commands(&file[..], &mut commands).expect("memory");
            let mut expected = Vec::new();
            put_request(&mut expected, [&b"SET"[..], b"large", &text].into_iter());
            put_request(&mut expected, [&b"PEXPIREAT"[..], b"large", b"99"].into_iter());
            assert!(commands.1 == expected, "{} bytes of {}", commands.1.len(), expected.len());
            assert!(commands.0 < 2 * BYTES_MAX, "{} bytes in one write", commands.0);
        }
        assert!(sizes[1] < sizes[0] / 10, "one of the files is compressed");
    }

    #[test]
    fn values_become_commands_of_64_elements() {
        let mut entries = RdbBuffer::new(false);
        entries.select_db(3);
        entries.begin(Kind::String, b"s", Some(1700), None);
        entries.string(b"v");
        entries.begin(Kind::List, b"l", None, None);
        entries.count(65);
        (0..65).for_each(|n| entries.string(format!("{n}").as_bytes()));
        entries.begin(Kind::Zset, b"z", None, None);
        entries.count(2);
        entries.scored(b"a", -0.0);
        entries.scored(b"b", f64::INFINITY);
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, true);
        writer.header(format::VERSION).and_then(|()| writer.put(&mut entries)).expect("memory");
        writer.end().expect("memory");
        let mut commands = Vec::new();
        write_commands(&file[..], &mut commands).expect("memory");
        let text = String::from_utf8(commands).expect("text");
        let lines: Vec<&str> = text.split("\r\n").filter(|line| !line.starts_with('$')).collect();
        let expected =
            ["*2", "SELECT", "3", "*3", "SET", "s", "v", "*3", "PEXPIREAT", "s", "1700", "*66", "RPUSH", "l", "0"];
        assert_eq!(lines[..expected.len()], expected);
        let (rest, zset) = lines.split_at(lines.len() - 8);
        assert_eq!(rest[rest.len() - 4..], ["*3", "RPUSH", "l", "64"]);
        assert_eq!(zset, ["*6", "ZADD", "z", "-0", "a", "inf", "b", ""]);
    }
}
