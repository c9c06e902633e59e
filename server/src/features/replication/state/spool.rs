//! The spool: the part of the stream that replicas still need, and neither memory nor an append-only file has.
//!
//! ```text
//!   positions   first ............................. end | first of the backlog .... end of the stream
//!   files       | 64 MB | 64 MB | 12 MB, which grows    |  memory
//!                   ^ a replica is sent this: files in front of it are let go of
//! ```
//! Its end is the beginning of the backlog, as long as it has anything that is needed. The files have no name: they go with the
//! process. One thread appends, the journal's, and it alone lets go of the newest file: it writes without the lock. Not here: who
//! needs what (`replicas.rs`), when something comes here (`mod.rs`).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use varve_base::shared::{SharedMutex, SharedU64};
use varve_exec::journal::Chunk;

use crate::system::closed_aside::ClosedAside;
use crate::system::nameless_file;

/// Bytes of a file, about: it ends behind the chunk that reaches them.
const FILE_BYTES: u64 = 64 << 20;

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Spool(SharedMutex<VecDeque<Arc<SpoolFile>>>);

/// One of its files.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    file: ClosedAside,
    /// The position of its first byte.
    first: u64,
    bytes: SharedU64,
}

impl SpoolFile {
    fn end(&self) -> u64 {
        self.first + self.bytes.load(Ordering::Acquire)
    }

    /// Reads from a position on, as many bytes as the room takes and the file has. Returns their number.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn read(&self, from: u64, room: &mut [u8]) -> io::Result<usize> {
        let count = self.end().saturating_sub(from).min(room.len() as u64) as usize;
        self.file.read_exact_at(&mut room[..count], from - self.first)?;
        Ok(count)
    }
}

impl Spool {
    /// Appends a chunk of the stream that begins at this position. Where that is not the spool's end, nobody has needed what is
    /// missing, nor what lies before it: the spool begins anew. New files lie in `folder`. Called by one thread.
    ///
    /// # Errors
    /// Those of the file system. The spool ends where it ended before.
    pub(crate) fn append(&self, folder: &Path, at: u64, chunk: &Chunk) -> io::Result<()> {
        let last = {
            let mut files = self.0.lock();
            if files.back().is_some_and(|last| last.end() != at) {
                files.clear();
            }
            files.back().cloned()
        };
        let file = match last.filter(|last| last.end() - last.first < FILE_BYTES) {
            Some(last) => last,
            None => {
                let file = Arc::new(SpoolFile {
                    file: nameless_file::create(folder, "spool")?.into(),
                    first: at,
                    bytes: SharedU64::new(0),
                });
                self.0.lock().push_back(Arc::clone(&file));
                file
            }
        };
        // Bytes of a chunk that failed lie behind the end: the next one is written over them.
        let mut place = At { file: &file.file, at: at - file.first };
        chunk.try_each_part(|part| place.write_all(part))?;
        file.bytes.fetch_add(chunk.len() as u64, Ordering::Release);
        Ok(())
    }

    /// The file that has the byte at this position.
    pub(crate) fn file_at(&self, position: u64) -> Option<Arc<SpoolFile>> {
        let files = self.0.lock();
        files.iter().find(|file| file.first <= position && position < file.end()).cloned()
    }

    /// Has the bytes from this position on kept for a replica, if they are there: `claim` is called before any can go. False if
    /// they are not.
    pub(crate) fn claim(&self, position: u64, claim: impl FnOnce()) -> bool {
        let files = self.0.lock();
        let has = files.iter().any(|file| file.first <= position && position < file.end());
        if has {
            claim();
        }
        has
    }

    /// The position from which on it has all in front of this one, where the backlog begins: this one if it has nothing.
    pub(crate) fn first_before(&self, position: u64) -> u64 {
        let files = self.0.lock();
        let is_reached = files.back().is_some_and(|last| last.end() >= position);
        files.front().filter(|_| is_reached).map_or(position, |first| first.first.min(position))
    }

    /// Bytes that lie in it.
    pub(crate) fn bytes(&self) -> u64 {
        let files = self.0.lock();
        files.back().map_or(0, |last| last.end()) - files.front().map_or(0, |first| first.first)
    }

    /// Nobody needs anything before this position. Called by the thread that appends.
    pub(crate) fn let_go(&self, needed: impl FnOnce() -> u64) {
        self.let_all_but_go(0, needed);
    }

    /// Does so for any thread: the newest file stays.
    pub(crate) fn let_older_go(&self, needed: impl FnOnce() -> u64) {
        self.let_all_but_go(1, needed);
    }

    fn let_all_but_go(&self, kept: usize, needed: impl FnOnce() -> u64) {
        let mut files = self.0.lock();
        let needed = needed();
        while files.len() > kept && files.front().is_some_and(|file| file.end() <= needed) {
            files.pop_front();
        }
    }
}

/// A file, and where its next bytes go.
struct At<'f> {
    file: &'f File,
    at: u64,
}

impl Write for At<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write_at(bytes, self.at)?;
        self.at += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(byte: u8, len: usize) -> Chunk {
        Chunk::new(vec![byte; len], None)
    }

    #[test]
    fn issue_17_files_are_let_go_of_once_nobody_needs_them() {
        let (spool, folder) = (Spool::default(), std::env::temp_dir());
        let part = 8 << 20;
        for n in 0..20_u64 {
            spool.append(&folder, 1000 + n * part, &chunk(n as u8, part as usize)).expect("there is room");
        }
        assert_eq!((spool.bytes(), spool.0.lock().len()), (20 * part, 3));
        let mut room = vec![0; 100];
        for n in 0..20_u64 {
            let position = 1000 + (n + 1) * part - 40;
            let file = spool.file_at(position).expect("it is there");
            // Files end behind the chunk that fills them: nothing of the next chunk is in one of those.
            let count = file.read(position, &mut room).expect("it can be read");
            assert_eq!((count, room[39]), (if n % 8 == 7 || n == 19 { 40 } else { 100 }, n as u8));
        }
        assert!(spool.file_at(999).is_none() && spool.file_at(1000 + 20 * part).is_none());
        let end = 1000 + 20 * part;
        assert_eq!([spool.first_before(end), spool.first_before(end + 1)], [1000, end + 1], "it ends there");
        assert!(spool.claim(1000, || {}) && !spool.claim(999, || panic!("it begins behind that")));
        spool.let_go(|| 1000 + 8 * part - 1);
        assert_eq!(spool.bytes(), 20 * part);
        spool.let_go(|| 1000 + 8 * part);
        assert_eq!((spool.bytes(), spool.file_at(1000).is_none()), (12 * part, true));
        spool.let_go(|| u64::MAX);
        assert_eq!(spool.bytes(), 0);
        spool.append(&folder, 7, &chunk(b'x', 3)).expect("it begins anywhere");
        assert_eq!(spool.file_at(9).expect("it is there").read(8, &mut room).expect("it can be read"), 2);
    }

    #[test]
    fn issue_17_a_spool_has_no_gap_and_keeps_the_file_that_is_written() {
        let (spool, folder) = (Spool::default(), std::env::temp_dir());
        spool.append(&folder, 7, &chunk(b'x', 3)).expect("there is room");
        spool.let_older_go(|| u64::MAX);
        assert_eq!(spool.bytes(), 3, "its bytes may be on their way");
        spool.append(&folder, 11, &chunk(b'y', 3)).expect("there is room");
        assert!(spool.file_at(7).is_none() && spool.file_at(10).is_none() && spool.file_at(11).is_some());
        assert_eq!(spool.bytes(), 3);
    }
}
