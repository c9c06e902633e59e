//! The append-only file on disk: increments are appended to, and a disk that fails costs nothing that was promised.
//!
//! ```text
//!   positions of the journal:   start .......... synced ......... written ........ end
//!                               |<- in the file ->|<-- kept in memory ----------->|
//!   healthy  --a write fails-----> healthy, the rest is written with the next call
//!   healthy  --a sync fails------> broken     nobody knows what of the file is on disk behind `synced`
//!   healthy  --a cut, roll---> healthy, a new increment; a rewrite's base takes the place of all before it (rebase)
//!   broken   --mend--> a new increment has the rest, synced --> the manifest lists it, and the bytes of the old one that
//!                      count --> the old one is cut there, for redis-server, which knows no such bound --> healthy
//! ```
//! So whenever the process ends, each effect that was written is in one file that counts, and in no other. A new increment
//! begins with the database that is selected where it begins.
//!
//! Where a file begins to be kept while the server runs, the manifest on disk stays as it is until the first base is there:
//! increments are unlisted until then.
//!
//! State decides what comes next, not the order of calls: after any failure the next call begins from what is known. The
//! manifest in memory is replaced when the new one is on disk; if that is in doubt, the writer is broken, and mending
//! writes it again.
//!
//! Not here: when to write and sync (`thread.rs`), paths and the manifest on disk (`place.rs`), what becomes of files that were
//! replaced (`writer/history.rs`), reading (`load.rs`).

#[cfg(test)]
mod crashes;
mod history;

pub(super) use history::PastBounds;

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use varve_aof::{Entry, Form, Manifest, own_selection};
use varve_exec::journal::{Chunk, Cut, Taken};

use super::place::{Place, WRITE_BYTES_MAX, shown, write_all};
use crate::features::replication::state::past::Past;
use crate::system::disk::DiskFile;
use crate::system::error_text;

/// See the module's picture.
#[derive(Debug)]
pub(super) struct Writer {
    place: Place,
    manifest: Manifest,
    file: Box<dyn DiskFile>,
    /// Length of the file.
    file_bytes: u64,
    /// Nothing was put since the file began.
    is_fresh: bool,
    /// Bytes that the file is to have before the next chunk: the database in which that is done.
    head: Vec<u8>,
    /// Bytes of it in all, while the chunk behind it is kept.
    head_bytes: u64,
    /// Length of the file up to `kept_from`, and up to `synced`: positions count other bytes than the file has (chunk.rs of
    /// the journal).
    kept_from_bytes: u64,
    synced_bytes: u64,
    /// Bytes from `kept_from` to `end`.
    kept: VecDeque<Arc<Chunk>>,
    kept_from: u64,
    /// The chunk of `kept` that is written next, and the bytes of it that the file has.
    next: (usize, usize),
    /// The end of the last chunk that is written whole.
    written: u64,
    synced: u64,
    end: u64,
    /// The database that is selected at `end`; None at the beginning of a file.
    db: Option<u32>,
    /// Bytes are kept until they are synced; else until they are written.
    keeps_unsynced: bool,
    broken: bool,
    /// Bytes of the files before the one that is written.
    older_bytes: u64,
    /// The cut at `end`, which is still to be done.
    cut: Option<Cut>,
    /// The position and the number of the increment that the last cut began.
    begun: Option<(u64, u64)>,
    /// The number of the first increment that the manifest on disk does not list, since there is no base.
    unlisted_from: Option<u64>,
    emptied: Vec<Vec<u8>>,
    /// Bytes of large arguments that are being written.
    room: Vec<u8>,
    /// The part of the replication stream that the files have.
    past: Arc<Past>,
}

impl Writer {
    /// Goes on with the last increment that the manifest lists, or begins one, at position `at`. What the increment has is
    /// synced, and so is the manifest.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn open(place: Place, mut manifest: Manifest, at: u64) -> io::Result<Writer> {
        place.settle()?;
        let (file, opened_bytes) = match manifest.increments().last() {
            // An increment that has ended is followed by another one, whatever was done to the manifest.
            Some(entry) if entry.length.is_none() => {
                let (mut file, bytes) = place.disk.append(&place.path(&entry.name))?;
                file.sync()?;
                (file, bytes)
            }
            _ => {
                let entry = manifest.next_increment(place.names());
                let mut file = place.disk.create(&place.path(&entry.name))?;
                file.sync()?;
                manifest.add_increment(entry);
                place.save(&manifest)?;
                (file, 0)
            }
        };
        Ok(Writer::of(place, manifest, file, at, opened_bytes))
    }

    /// Begins an increment at position `at` that is not listed before a base is there.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn waiting(place: Place, mut manifest: Manifest, at: u64) -> io::Result<Writer> {
        place.settle()?;
        let entry = manifest.next_increment(place.names());
        let (file, unlisted_from) = (place.disk.create(&place.path(&entry.name))?, Some(entry.seq));
        manifest.add_increment(entry);
        Ok(Writer { unlisted_from, is_fresh: true, ..Writer::of(place, manifest, file, at, 0) })
    }

    fn of(place: Place, manifest: Manifest, file: Box<dyn DiskFile>, at: u64, opened_bytes: u64) -> Writer {
        let files: Vec<&Entry> = manifest.files().collect();
        let older_bytes = place.bytes(&files[..files.len() - 1]);
        let (past, last) = (Past::default(), files[files.len() - 1]);
        past.begin_file(last.seq, place.path(&last.name));
        past.wrote(opened_bytes);
        Writer {
            past: Arc::new(past),
            place,
            manifest,
            file,
            file_bytes: opened_bytes,
            is_fresh: false,
            head: Vec::new(),
            head_bytes: 0,
            kept_from_bytes: opened_bytes,
            synced_bytes: opened_bytes,
            kept: VecDeque::new(),
            kept_from: at,
            next: (0, 0),
            written: at,
            synced: at,
            end: at,
            db: None,
            keeps_unsynced: true,
            broken: false,
            older_bytes,
            cut: None,
            begun: None,
            unlisted_from: None,
            emptied: Vec::new(),
            room: Vec::new(),
        }
    }

    /// The position up to which the bytes outlive a crash of the machine.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    /// The position up to which the bytes are in the file.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes of the file that a crash of the machine may take: also those of a mark, which has no position of its own.
    pub(super) fn unsynced_bytes(&self) -> u64 {
        self.file_bytes - self.synced_bytes
    }

    /// The position behind all bytes that were put.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The position up to which the bytes are no longer in memory.
    pub(super) fn released(&self) -> u64 {
        self.kept_from
    }

    /// Bytes of all files that count.
    pub(super) fn bytes(&self) -> u64 {
        self.older_bytes + self.file_bytes
    }

    /// The cut that is still to be done: nothing more is put before that.
    pub(super) fn at_cut(&self) -> Option<Cut> {
        self.cut
    }

    /// The part of the replication stream that the files have.
    pub(super) fn past(&self) -> &Arc<Past> {
        &self.past
    }

    /// True if the increment that a cut at this position asks for has begun.
    pub(super) fn has_begun(&self, at: u64) -> bool {
        self.begun.is_some_and(|(position, _)| position >= at)
    }

    /// True if a sync has failed, or the manifest on disk is in doubt: [`Writer::mend`] is needed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Keeps bytes in memory until they are synced, or only until they are written, where nobody syncs.
    pub(super) fn keep_unsynced(&mut self, keep: bool) {
        self.keeps_unsynced = keep;
    }

    /// Chunks whose bytes are needed no more.
    pub(super) fn emptied(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.emptied
    }

    /// Takes bytes that are to be written.
    pub(super) fn put(&mut self, taken: Taken) {
        let bytes: usize = taken.chunks.iter().map(|chunk| chunk.len()).sum();
        assert_eq!(self.end + bytes as u64, taken.end, "the journal has no holes");
        assert!(self.cut.is_none(), "what comes behind a cut belongs to another file");
        if let Some(first) = taken.chunks.first().filter(|_| self.is_fresh) {
            // Bytes of another server say their database once, wherever files begin.
            first.db.iter().for_each(|db| self.head.extend(own_selection(*db)));
            (self.is_fresh, self.head_bytes) = (false, self.head.len() as u64);
        }
        self.kept.extend(taken.chunks);
        (self.end, self.db, self.cut) = (taken.end, taken.db, taken.cut);
    }

    /// Writes all that was put.
    ///
    /// # Errors
    /// The disk's: what was written is written, and the rest is tried again by the next call.
    pub(super) fn write(&mut self) -> io::Result<()> {
        assert!(!self.broken, "a broken file is not written to");
        let done = self.write_kept();
        self.past.wrote(self.file_bytes);
        done?;
        assert_eq!(self.written, self.end, "all that is kept was written");
        self.release();
        Ok(())
    }

    fn write_kept(&mut self) -> io::Result<()> {
        while let Some(chunk) = self.kept.get(self.next.0) {
            if let Some(mark) = chunk.stream_mark().filter(|_| self.next.1 == 0) {
                self.past.mark(mark, self.file_bytes);
            }
            let begins = !self.head.is_empty();
            let rest = if begins { &self.head[..] } else { chunk.file_part(self.next.1, &mut self.room) };
            if rest.is_empty() {
                self.next = (self.next.0 + 1, 0);
                self.written += chunk.len() as u64;
                continue;
            }
            match self.file.write(&rest[..rest.len().min(WRITE_BYTES_MAX)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.file_bytes += written as u64;
                    if begins { drop(self.head.drain(..written)) } else { self.next.1 += written }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Syncs what is written.
    ///
    /// # Errors
    /// The disk's: the writer is broken then.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        assert!(!self.broken, "a broken file is not synced again: the system has forgotten what it lost");
        assert_eq!(self.written, self.end, "what is synced ends with a chunk");
        self.file.sync().inspect_err(|_| self.broken = true)?;
        (self.synced, self.synced_bytes) = (self.written, self.file_bytes);
        self.release();
        Ok(())
    }

    /// Has a new increment take what is kept, and ends the old one at its synced end. All is synced then.
    ///
    /// # Errors
    /// The disk's: the writer is as broken as before, and mending begins anew with the next call.
    pub(super) fn mend(&mut self) -> io::Result<()> {
        // Where nobody synced, what was written is released: it stays in the file. That is so just after `appendfsync no`
        // has ended, too.
        let (from, old_bytes) = (self.synced, self.synced_bytes).max((self.kept_from, self.kept_from_bytes));
        let (entry, mut file) = self.increment_behind(&self.manifest)?;
        let (head, rest) = self.kept_behind(from);
        write_all(&mut *file, &head)?;
        let mut new_bytes = head.len() as u64;
        for chunk in rest {
            chunk.try_each_file_part(|part| write_all(&mut *file, part))?;
            new_bytes += chunk.file_len() as u64;
        }
        file.sync()?;
        self.list(|manifest| {
            manifest.end_increment(old_bytes);
            manifest.add_increment(entry);
        })?;
        self.older_bytes += old_bytes;
        // Couriers may have read what the old file has behind its new end.
        self.past.forget();
        let last = self.manifest.increments().last().expect("one was listed");
        self.past.begin_file(last.seq, self.place.path(&last.name));
        self.past.wrote(new_bytes);
        let mut old = std::mem::replace(&mut self.file, file);
        if let Err(error) = old.set_len(old_bytes).and_then(|()| old.sync()) {
            tracing::warn!(
                "The old increment of the append-only file could not be cut at {old_bytes} bytes, where the manifest ends \
                 it: {}. redis-server would run twice what stands behind.",
                error_text(&error)
            );
        }
        (self.file_bytes, self.synced_bytes) = (new_bytes, new_bytes);
        (self.written, self.synced, self.next) = (self.end, self.end, (0, 0));
        (self.broken, self.is_fresh) = (false, self.is_fresh && self.kept.is_empty());
        self.head.clear();
        self.head_bytes = 0;
        // All of it is synced, in the new file.
        while let Some(chunk) = self.kept.pop_front() {
            self.give_up(chunk);
        }
        self.release();
        Ok(())
    }

    /// The beginning of a file that goes on at this position, and the chunks that it takes.
    fn kept_behind(&self, from: u64) -> (Vec<u8>, impl Iterator<Item = &Arc<Chunk>>) {
        let (mut at, mut count) = (self.kept_from, 0);
        while at < from {
            at += self.kept[count].len() as u64;
            count += 1;
        }
        assert_eq!(at, from, "a file ends with a chunk");
        let mut head = Vec::new();
        if let Some(db) = self.kept.get(count).map_or(self.db, |chunk| chunk.db) {
            head.extend(own_selection(db));
        }
        (head, self.kept.iter().skip(count))
    }

    /// Does the cut: begins a new increment. All that was put is synced.
    ///
    /// # Errors
    /// The disk's: the cut is still to be done.
    pub(super) fn roll(&mut self) -> io::Result<()> {
        assert_eq!(
            (self.cut, self.synced),
            (Some(Cut::NewFile), self.end),
            "a file that is followed by another is whole"
        );
        assert_eq!(self.unsynced_bytes(), 0, "and so are the marks at its end");
        let old_bytes = self.file_bytes;
        let mut manifest = self.manifest.clone();
        // An increment that nobody lists begins anew: what it has is in the base to come. Until the new one is there, it is
        // known all the same: mending ends the last increment that is known, and may end none that is listed.
        if let Some(first) = self.unlisted_from {
            self.log_unlisted(first);
            manifest.forget_increments(first);
            self.past.forget();
            self.begun = None;
        }
        let (entry, mut file) = self.increment_behind(&manifest)?;
        file.sync()?;
        let (seq, name) = (entry.seq, entry.name.clone());
        manifest.add_increment(entry);
        self.list(|listed| *listed = manifest)?;
        tracing::info!("Creating AOF incr file {} on background rewrite", shown(&name));
        self.past.begin_file(seq, self.place.path(&name));
        self.older_bytes += if self.unlisted_from.is_none() { old_bytes } else { 0 };
        (self.file, self.file_bytes, self.synced_bytes, self.kept_from_bytes) = (file, 0, 0, 0);
        (self.begun, self.cut, self.db, self.is_fresh) = (Some((self.end, seq)), None, None, true);
        Ok(())
    }

    /// Has a base take its name, and the place of all files before the increment that the last cut began. They become
    /// history.
    ///
    /// # Errors
    /// The disk's: the base does not count.
    pub(super) fn rebase(&mut self, temp: &Path, form: Form) -> io::Result<()> {
        let (_, first) = self.begun.expect("an increment has begun behind the base");
        let entry = self.manifest.next_base(self.place.names(), form);
        self.place.disk.rename(temp, &self.place.path(&entry.name))?;
        let unlisted = self.unlisted_from.take();
        self.list(|manifest| manifest.replace_base(entry, first)).inspect_err(|_| self.unlisted_from = unlisted)?;
        let files: Vec<&Entry> = self.manifest.files().collect();
        self.older_bytes = self.place.bytes(&files[..files.len() - 1]);
        Ok(())
    }

    /// Removes the increments that no manifest lists: the file is not kept any more. They stay if a manifest that lists them
    /// may be on disk, and cannot be replaced.
    pub(super) fn drop_unlisted(&mut self) {
        let Some(first) = self.unlisted_from else { return };
        if self.broken
            && let Err(error) = self.list(|_| {})
        {
            tracing::warn!(
                "The new increments of the append-only file stay, they may be listed: {}",
                error_text(&error)
            );
            return;
        }
        self.log_unlisted(first);
        for entry in self.manifest.increments().iter().filter(|entry| entry.seq >= first) {
            if let Err(error) = self.place.disk.remove(&self.place.path(&entry.name)) {
                tracing::warn!("Removing {}: {}", shown(&entry.name), error_text(&error));
            }
        }
    }

    fn log_unlisted(&self, first: u64) {
        for entry in self.manifest.increments().iter().filter(|entry| entry.seq >= first) {
            tracing::info!("Removing the temp incr aof file {} in the background", shown(&entry.name));
        }
    }

    /// Makes the increment that comes next in this manifest.
    fn increment_behind(&self, manifest: &Manifest) -> io::Result<(Entry, Box<dyn DiskFile>)> {
        let entry = manifest.next_increment(self.place.names());
        let file = self.place.disk.create(&self.place.path(&entry.name))?;
        Ok((entry, file))
    }

    /// Changes the manifest on disk, then in memory. Unlisted increments stay out of it; it is written all the same if what
    /// is on disk is in doubt, since it may list a base whose files do not grow any more.
    fn list(&mut self, change: impl FnOnce(&mut Manifest)) -> io::Result<()> {
        let mut manifest = self.manifest.clone();
        change(&mut manifest);
        match self.unlisted_from {
            None => {
                // A disk without room fails here, where nothing is in doubt: the call is tried again.
                self.place.stage(&manifest)?;
                // From here on the new one may be on disk all the same.
                self.place.publish(&manifest).inspect_err(|_| self.broken = true)?;
            }
            Some(first) if self.broken => {
                let mut listed = manifest.clone();
                listed.forget_increments(first);
                self.place.save(&listed)?;
            }
            Some(_) => {}
        }
        self.manifest = manifest;
        Ok(())
    }

    /// Gives up chunks that are needed no more.
    fn release(&mut self) {
        while self.next.0 > 0
            && let Some(chunk) = self.kept.front()
        {
            let bytes = self.head_bytes + chunk.file_len() as u64;
            if !self.is_safe(self.kept_from + chunk.len() as u64, self.kept_from_bytes + bytes) {
                break;
            }
            let chunk = self.kept.pop_front().expect("it is at the front");
            (self.kept_from_bytes, self.head_bytes) = (self.kept_from_bytes + bytes, 0);
            self.next.0 -= 1;
            self.give_up(chunk);
        }
        if self.kept.is_empty() {
            // Mending has begun another file in between.
            self.kept_from_bytes = self.file_bytes;
        }
    }

    /// True if a chunk that ends at this position, and there in the file, is needed no more. A mark has no bytes of the
    /// stream: it is synced with its bytes of the file.
    fn is_safe(&self, position: u64, file_bytes: u64) -> bool {
        match self.keeps_unsynced {
            true => position <= self.synced && file_bytes <= self.synced_bytes,
            false => position <= self.written,
        }
    }

    /// A chunk that was the first of those that are kept is needed no more.
    fn give_up(&mut self, chunk: Arc<Chunk>) {
        self.kept_from += chunk.len() as u64;
        chunk.let_pinned_go();
        // A replica may still be sent it.
        if let Ok(Chunk { mut bytes, .. }) = Arc::try_unwrap(chunk) {
            bytes.clear();
            self.emptied.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
