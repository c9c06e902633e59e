//! The past of the replication stream in the increments of the append-only file: which bytes stand where.
//!
//! ```text
//!   files    increment 3, history | increment 4, history | increment 5, which is written
//!   marks    1000      2M     3M    4M      5M      6M     7M      8M    8.9M: an offset of the stream, a byte of a file
//!                 ^ a replica goes on here: its file is read from the mark before it on, through all files behind it
//! ```
//! The marks have no gap: where the stream ends, or a file is cut, all of them are forgotten. Not here: reading
//! (`replication/primary/courier.rs`), and which files are removed when (`aof/writer/history.rs`).

use std::path::PathBuf;

use varve_base::shared::SharedMutex;
use varve_exec::journal::StreamMark;

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Past(SharedMutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Oldest first.
    files: Vec<PastFile>,
    /// In their order.
    marks: Vec<PastMark>,
}

/// An increment.
#[derive(Clone, Debug)]
pub(crate) struct PastFile {
    /// Its number.
    pub(crate) seq: u64,
    pub(crate) path: PathBuf,
    /// The bytes of it that are written, and count.
    pub(crate) bytes: u64,
}

/// A place of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PastMark {
    /// Bytes of the stream before it.
    pub(crate) offset: u64,
    /// The number of the increment in which it stands.
    pub(crate) seq: u64,
    /// Bytes of that file before it.
    pub(crate) at: u64,
}

impl Past {
    /// The files of before the start, and their marks from the oldest on that is not followed by a gap.
    pub(crate) fn restore(&self, files: Vec<PastFile>, marks: Vec<PastMark>) {
        debug_assert!(marks.is_sorted_by_key(|mark| (mark.seq, mark.at)), "marks stand in the order of the stream");
        *self.0.lock() = Inner { files, marks };
    }

    /// Another increment is written from now on.
    pub(crate) fn begin_file(&self, seq: u64, path: PathBuf) {
        let mut inner = self.0.lock();
        inner.files.retain(|file| file.seq < seq);
        inner.files.push(PastFile { seq, path, bytes: 0 });
    }

    /// The increment that is written has this number of bytes.
    pub(crate) fn wrote(&self, bytes: u64) {
        if let Some(last) = self.0.lock().files.last_mut() {
            last.bytes = bytes;
        }
    }

    /// The stream is at this mark where the file that is written has this number of bytes.
    pub(crate) fn mark(&self, mark: StreamMark, at: u64) {
        let mut inner = self.0.lock();
        let (StreamMark::At(offset), Some(seq)) = (mark, inner.files.last().map(|file| file.seq)) else {
            inner.marks.clear();
            return;
        };
        if inner.marks.last().is_some_and(|last| last.offset > offset) {
            inner.marks.clear();
        }
        inner.marks.push(PastMark { offset, seq, at });
    }

    /// Nothing is known of what is written: a file was cut, or is no longer kept.
    pub(crate) fn forget(&self) {
        self.0.lock().marks.clear();
    }

    /// The files up to this number are removed.
    pub(crate) fn forget_files(&self, seq: u64) {
        let mut inner = self.0.lock();
        inner.files.retain(|file| file.seq > seq);
        inner.marks.retain(|mark| mark.seq > seq);
    }

    /// True if the increment of this number has bytes of the stream.
    pub(crate) fn has(&self, seq: u64) -> bool {
        let inner = self.0.lock();
        inner.marks.first().is_some_and(|first| first.seq <= seq) && inner.files.iter().any(|file| file.seq == seq)
    }

    /// The mark from which on the bytes behind this offset are read; None if they are not there.
    pub(crate) fn before(&self, offset: u64) -> Option<PastMark> {
        let inner = self.0.lock();
        let behind = inner.marks.partition_point(|mark| mark.offset <= offset);
        inner.marks[..behind].last().copied()
    }

    /// The increment of this number, if it is there.
    pub(crate) fn file(&self, seq: u64) -> Option<PastFile> {
        let inner = self.0.lock();
        let is_known = !inner.marks.is_empty();
        inner.files.iter().find(|file| file.seq == seq && is_known).cloned()
    }

    /// The number of the increment that follows this one.
    pub(crate) fn next(&self, seq: u64) -> Option<u64> {
        self.0.lock().files.iter().map(|file| file.seq).find(|other| *other > seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_17_marks_have_no_gap() {
        let past = Past::default();
        past.mark(StreamMark::At(5), 0);
        assert_eq!(past.before(5), None, "there is no file");
        past.begin_file(3, "3".into());
        past.mark(StreamMark::At(100), 10);
        past.mark(StreamMark::At(200), 130);
        past.wrote(230);
        past.begin_file(4, "4".into());
        past.mark(StreamMark::At(300), 0);
        assert_eq!(past.before(99), None);
        assert_eq!(past.before(299), Some(PastMark { offset: 200, seq: 3, at: 130 }));
        assert_eq!((past.has(2), past.has(3), past.next(3), past.next(4)), (false, true, Some(4), None));
        assert_eq!(past.file(3).map(|file| file.bytes), Some(230));
        past.forget_files(3);
        assert_eq!((past.before(299), past.before(300).map(|mark| mark.seq)), (None, Some(4)));
        past.mark(StreamMark::None, 50);
        assert_eq!((past.before(300), past.file(4).is_some()), (None, false));
        past.mark(StreamMark::At(300), 60);
        past.mark(StreamMark::At(250), 70);
        assert_eq!(past.before(300), Some(PastMark { offset: 250, seq: 4, at: 70 }), "another history has begun");
    }
}
