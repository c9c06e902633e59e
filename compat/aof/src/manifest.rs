//! The manifest: which files make up the append-only file, in which order they are read.
//!
//! ```text
//!   file appendonly.aof.2.base.rdb seq 2 type b      at most one base
//!   file appendonly.aof.1.base.rdb seq 1 type h      history: files that a rewrite has replaced, to be removed sooner or later
//!   file appendonly.aof.5.incr.aof seq 5 type i      increments, their numbers rising
//!   file appendonly.aof.6.incr.aof seq 6 type i length 1000      of this one the first 1000 bytes count
//! ```
//! A line has pairs of a key and a value; unknown keys are passed over. Names with blanks or unprintable bytes stand in
//! quotes. Lines that begin with `#` are comments. The texts of errors are redis-server's.

use std::fmt;

use varve_base::number::parse_i64;
use varve_protocol::words::{quote, words};

/// Bytes of a line at most, its end included.
const LINE_BYTES_MAX: usize = 1024;

/// The end of an increment's name.
const INCREMENT_END: &str = ".incr.aof";

/// A file of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the folder of the append-only file: no path.
    pub name: Vec<u8>,
    /// Its number, from 1; bases and increments are numbered apart.
    pub seq: u64,
    /// The bytes of it that count, if some behind them do not: the next increment has them. redis-server knows no such
    /// bound, so the file is cut there as well.
    pub length: Option<u64>,
}

/// See the module's picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    base: Option<Entry>,
    increments: Vec<Entry>,
    history: Vec<Entry>,
    /// Numbers given last.
    base_seq: u64,
    increment_seq: u64,
}

/// The form of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An RDB file.
    Rdb,
    /// Commands.
    Commands,
}

/// The names of the files that belong to one `appendfilename`.
#[derive(Clone, Copy, Debug)]
pub struct Names<'n>(pub &'n [u8]);

/// Why a manifest cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// Number and text of the line, where a line is at fault; the first one is 1.
    pub line: Option<(usize, String)>,
    /// The fault.
    pub reason: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((number, text)) = &self.line {
            writeln!(f, "Reading the manifest file, at line {number}\n>>> '{text}'")?;
        }
        f.write_str(self.reason)
    }
}

impl std::error::Error for ManifestError {}

impl Names<'_> {
    /// The manifest's own name.
    pub fn manifest(self) -> Vec<u8> {
        [self.0, b".manifest"].concat()
    }

    /// The name under which a new manifest is written before it takes the old one's place.
    pub fn new_manifest(self) -> Vec<u8> {
        [b"temp-", self.0, b".manifest"].concat()
    }

    fn base(self, seq: u64, form: Form) -> Vec<u8> {
        let end = match form {
            Form::Rdb => ".base.rdb",
            Form::Commands => ".base.aof",
        };
        self.numbered(seq, end)
    }

    /// The name of the increment that has this number.
    pub fn increment(self, seq: u64) -> Vec<u8> {
        self.numbered(seq, INCREMENT_END)
    }

    /// The number of a base or an increment that has this name.
    pub fn number(self, name: &[u8]) -> Option<u64> {
        let numbered = name.strip_prefix(self.0)?.strip_prefix(b".")?;
        let ends = [".base.rdb", ".base.aof", INCREMENT_END];
        let digits = ends.into_iter().find_map(|end| numbered.strip_suffix(end.as_bytes()))?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    fn numbered(self, seq: u64, end: &str) -> Vec<u8> {
        [self.0, format!(".{seq}{end}").as_bytes()].concat()
    }
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// It is none, or lists files in a way that has no meaning.
    pub fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
        let whole = |reason| ManifestError { line: None, reason };
        if text.is_empty() {
            return Err(whole("Found an empty AOF manifest"));
        }
        let mut manifest = Manifest::default();
        for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if line.first() == Some(&b'#') {
                continue;
            }
            let words = line.trim_ascii();
            let here = |reason| {
                let text = String::from_utf8_lossy(words).into_owned();
                ManifestError { line: Some((number + 1, text)), reason }
            };
            if line.last() != Some(&b'\n') || line.len() > LINE_BYTES_MAX {
                return Err(whole("The AOF manifest file contains too long line"));
            }
            let (entry, kind) = entry(words).map_err(here)?;
            manifest.list(entry, kind).map_err(here)?;
        }
        // A base may have replaced all increments, and their files may still be there.
        let replaced = manifest.history.iter().filter(|entry| entry.name.ends_with(INCREMENT_END.as_bytes()));
        manifest.increment_seq = replaced.map(|entry| entry.seq).fold(manifest.increment_seq, u64::max);
        Ok(manifest)
    }

    fn list(&mut self, entry: Entry, kind: u8) -> Result<(), &'static str> {
        match kind {
            b'b' if self.base.is_some() => return Err("Found duplicate base file information"),
            b'b' => {
                self.base_seq = entry.seq;
                self.base = Some(entry);
            }
            b'h' => self.history.push(entry),
            b'i' if entry.seq <= self.increment_seq => return Err("Found a non-monotonic sequence number"),
            b'i' => self.add_increment(entry),
            _ => return Err("Unknown AOF file type"),
        }
        Ok(())
    }

    /// The manifest as text, which [`Manifest::parse`] reads.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let base = self.base.iter().map(|entry| (entry, 'b'));
        let history = self.history.iter().map(|entry| (entry, 'h'));
        let increments = self.increments.iter().map(|entry| (entry, 'i'));
        for (entry, kind) in base.chain(history).chain(increments) {
            text.extend_from_slice(b"file ");
            text.extend_from_slice(&shown(&entry.name));
            text.extend_from_slice(format!(" seq {} type {kind}", entry.seq).as_bytes());
            if let Some(length) = entry.length {
                text.extend_from_slice(format!(" length {length}").as_bytes());
            }
            text.push(b'\n');
        }
        text
    }

    /// The base, if there is one.
    pub fn base(&self) -> Option<&Entry> {
        self.base.as_ref()
    }

    /// The increments, oldest first.
    pub fn increments(&self) -> &[Entry] {
        &self.increments
    }

    /// Files that a rewrite has replaced, and that are to be removed sooner or later.
    pub fn history(&self) -> &[Entry] {
        &self.history
    }

    /// The files that hold the data, in the order in which they are read.
    pub fn files(&self) -> impl Iterator<Item = &Entry> {
        self.base.iter().chain(&self.increments)
    }

    /// True if it lists no data.
    pub fn is_empty(&self) -> bool {
        self.files().next().is_none()
    }

    /// The increment that comes next. It is not listed yet.
    pub fn next_increment(&self, names: Names<'_>) -> Entry {
        let seq = self.increment_seq + 1;
        Entry { name: names.increment(seq), seq, length: None }
    }

    /// The base that comes next. It is not listed yet.
    pub fn next_base(&self, names: Names<'_>, form: Form) -> Entry {
        let seq = self.base_seq + 1;
        Entry { name: names.base(seq, form), seq, length: None }
    }

    /// Lists an increment behind the others.
    pub fn add_increment(&mut self, entry: Entry) {
        assert!(entry.seq > self.increment_seq, "the numbers of increments rise");
        self.increment_seq = entry.seq;
        self.increments.push(entry);
    }

    /// Of the last increment this number of bytes count: another one goes on behind them.
    pub fn end_increment(&mut self, length: u64) {
        self.increments.last_mut().expect("an increment is written").length = Some(length);
    }

    /// Lists a base that has the data up to where the increment numbered `first_left` begins: the base and the increments
    /// before it become history.
    pub fn replace_base(&mut self, base: Entry, first_left: u64) {
        self.base_seq = base.seq;
        self.history.extend(self.base.replace(base));
        let replaced = self.increments.partition_point(|entry| entry.seq < first_left);
        self.history.extend(self.increments.drain(..replaced));
    }

    /// Forgets the increments from this number on; the next one has it again.
    pub fn forget_increments(&mut self, first: u64) {
        self.increments.retain(|entry| entry.seq < first);
        self.increment_seq = first - 1;
    }

    /// A base of another name: the file of a Redis before 7, which lies in the folder as it was.
    pub fn adopt(name: &[u8]) -> Manifest {
        Manifest { base: Some(Entry { name: name.to_vec(), seq: 1, length: None }), base_seq: 1, ..Manifest::default() }
    }

    /// A manifest of nothing whose files get numbers behind this one.
    pub fn behind(seq: u64) -> Manifest {
        Manifest { base_seq: seq, increment_seq: seq, ..Manifest::default() }
    }

    /// Forgets files that were replaced, all but those that stay; gives them.
    pub fn take_history(&mut self, mut stays: impl FnMut(&Entry) -> bool) -> Vec<Entry> {
        self.history.extract_if(.., |entry| !stays(entry)).collect()
    }

    /// The increments among the files that were replaced, oldest first.
    pub fn history_increments(&self, names: Names<'_>) -> impl DoubleEndedIterator<Item = &Entry> {
        self.history.iter().filter(move |entry| entry.name == names.increment(entry.seq))
    }
}

/// A line's entry, and the letter of its kind.
fn entry(line: &[u8]) -> Result<(Entry, u8), &'static str> {
    const FORMAT: &str = "Invalid AOF manifest file format";
    let words = words(line).filter(|words| words.len() >= 6 && words.len().is_multiple_of(2)).ok_or(FORMAT)?;
    let (mut name, mut seq, mut kind, mut length) = (None, None, None, None);
    for pair in words.chunks_exact(2) {
        match pair[0].to_ascii_lowercase().as_slice() {
            b"file" if pair[1].contains(&b'/') => return Err("File can't be a path, just a filename"),
            b"file" => name = Some(pair[1].clone()),
            b"seq" => seq = parse_i64(&pair[1]).and_then(|seq| u64::try_from(seq).ok()).filter(|seq| *seq > 0),
            b"type" => kind = pair[1].first().copied(),
            b"length" => {
                let bytes = parse_i64(&pair[1]).and_then(|bytes| u64::try_from(bytes).ok());
                length = Some(bytes.ok_or(FORMAT)?);
            }
            _ => {}
        }
    }
    let (Some(name), Some(seq), Some(kind)) = (name, seq, kind) else { return Err(FORMAT) };
    Ok((Entry { name, seq, length }, kind))
}

/// A name as it stands in a line.
fn shown(name: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'\'');
    if !name.is_empty() && name.iter().all(plain) { name.to_vec() } else { quote(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> &'static str {
        Manifest::parse(text.as_bytes()).expect_err("a fault").reason
    }

    #[test]
    fn what_is_written_is_read() {
        let names = Names(b"my \"odd\n name");
        let mut manifest = Manifest::default();
        manifest.replace_base(manifest.next_base(names, Form::Rdb), 1);
        manifest.add_increment(manifest.next_increment(names));
        manifest.add_increment(manifest.next_increment(names));
        manifest.end_increment(77);
        manifest.replace_base(manifest.next_base(names, Form::Commands), 2);
        assert_eq!(Manifest::parse(&manifest.text()), Ok(manifest.clone()));
        let (base, left) = (manifest.base().map(|base| base.seq), manifest.increments().len());
        assert_eq!((base, left, manifest.history().len()), (Some(2), 1, 2));
        assert_eq!(manifest.history_increments(names).count(), 1);
        assert_eq!(manifest.take_history(|entry| entry.name.ends_with(b".aof")).len(), 1);
        assert_eq!(manifest.take_history(|_| false).len(), 1);
        assert_eq!(manifest.next_increment(names).seq, 3);
        let named = |end: &str| [names.0, end.as_bytes()].concat();
        for (end, number) in [(".12.base.rdb", Some(12)), (".3.incr.aof", Some(3)), (".manifest", None)] {
            assert_eq!(names.number(&named(end)), number, "{end}");
        }
        assert_eq!(Manifest::behind(12).next_increment(names).seq, 13);
        manifest.forget_increments(2);
        assert_eq!((manifest.increments().len(), manifest.next_increment(names).seq), (0, 2));
    }

    /// A base that was written while nothing was appended leaves no increment: the next one must not get the name of one that
    /// is history, and would be removed with it.
    #[test]
    fn no_increment_gets_the_number_of_one_that_is_history() {
        let names = Names(b"a");
        let mut manifest = Manifest::default();
        (0..3).for_each(|_| manifest.add_increment(manifest.next_increment(names)));
        manifest.replace_base(manifest.next_base(names, Form::Rdb), u64::MAX);
        let read = Manifest::parse(&manifest.text()).expect("a manifest");
        assert_eq!(read, manifest);
        assert_eq!(read.next_increment(names).seq, 4);
    }

    #[test]
    fn a_manifest_of_redis_is_read() {
        let text = "# a comment\nfile appendonly.aof.2.base.rdb seq 2 type b\r\n\
                    file a.1.incr.aof seq 1 type h more yes\nFILE appendonly.aof.2.incr.aof SEQ 2 TYPE i\n";
        let manifest = Manifest::parse(text.as_bytes()).expect("a manifest");
        let names: Vec<&[u8]> = manifest.files().map(|entry| &entry.name[..]).collect();
        assert_eq!(names, [&b"appendonly.aof.2.base.rdb"[..], b"appendonly.aof.2.incr.aof"]);
        assert_eq!(manifest.history()[0].name, b"a.1.incr.aof");
        let old = Manifest::adopt(b"appendonly.aof");
        assert_eq!(old.text(), b"file appendonly.aof seq 1 type b\n");
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(reason(""), "Found an empty AOF manifest");
        assert_eq!(reason("file a seq 1"), "The AOF manifest file contains too long line");
        let long = format!("file {} seq 1 type b\n", "a".repeat(LINE_BYTES_MAX));
        assert_eq!(reason(&long), "The AOF manifest file contains too long line");
        for line in [
            "\n",
            "file a seq 1\n",
            "file a seq 0 type b\n",
            "file a seq 1 type b more\n",
            "file \"a seq 1 type b\n",
            "file a seq 1 type b length x\n",
        ] {
            assert_eq!(reason(line), "Invalid AOF manifest file format", "{line}");
        }
        assert_eq!(reason("file a/b seq 1 type b\n"), "File can't be a path, just a filename");
        assert_eq!(reason("file a seq 1 type x\n"), "Unknown AOF file type");
        assert_eq!(reason("file a seq 1 type b\nfile b seq 2 type b\n"), "Found duplicate base file information");
        assert_eq!(reason("file a seq 2 type i\nfile b seq 2 type i\n"), "Found a non-monotonic sequence number");
        let error = Manifest::parse(b"file a seq 2 type i\nfile b\n").expect_err("a fault");
        assert_eq!(error.line, Some((2, "file b".to_owned())));
    }
}
