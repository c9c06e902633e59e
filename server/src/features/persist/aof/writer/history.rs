//! Files that a rewrite has replaced: they go, but for the newest increments, which have the past of the replication stream for
//! replicas that were away.

use std::io::{self, Read};
use std::time::Duration;

use varve_aof::{Entry, Names};

use super::Writer;
use crate::features::replication::state::past::{PastFile, PastMark};

/// The bounds of increments that were replaced and stay, since they have the past of the replication stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct PastBounds {
    /// Bytes of all of them.
    pub(in super::super) bytes: u64,
    /// How long they stay once they are replaced.
    pub(in super::super) time: Duration,
    /// The offset from which on some replica needs them, whatever the bounds are.
    pub(in super::super) needed: u64,
}

impl PastBounds {
    /// None of them stays.
    pub(in super::super) const NONE: PastBounds = PastBounds { bytes: 0, time: Duration::ZERO, needed: u64::MAX };
}

impl Writer {
    /// The files have the stream of before the start, at these marks.
    pub(in super::super) fn restore_past(&self, marks: Vec<PastMark>) {
        let (names, manifest) = (self.place.names(), &self.manifest);
        let all = manifest.history_increments(names).chain(manifest.increments());
        let mut files: Vec<PastFile> = Vec::new();
        for entry in all {
            let path = self.place.path(&entry.name);
            let bytes = entry.length.or_else(|| self.place.disk.size(&path).ok()).unwrap_or(0);
            files.push(PastFile { seq: entry.seq, path, bytes });
        }
        // Behind the last hole all files follow each other.
        let first = (1..files.len()).rev().find(|at| files[*at].seq != files[at - 1].seq + 1).unwrap_or(0);
        files.drain(..first);
        let least = files.first().map_or(u64::MAX, |file| file.seq);
        self.past.restore(files, marks.into_iter().filter(|mark| mark.seq >= least).collect());
    }

    /// Removes the files that a rewrite has replaced, but for the newest increments within these bounds that have the past of
    /// the replication stream; gives their last handles.
    ///
    /// # Errors
    /// The disk's: the files may still be listed as history.
    pub(in super::super) fn remove_history(&mut self, bounds: PastBounds) -> io::Result<Vec<Box<dyn Read + Send>>> {
        if self.manifest.history().is_empty() || self.unlisted_from.is_some() {
            return Ok(Vec::new());
        }
        let (first, names) = (self.first_within(bounds), self.place.names());
        let stays = |entry: &Entry| entry.seq >= first && entry.name == names.increment(entry.seq);
        let removed: Vec<Entry> = self.manifest.history().iter().filter(|entry| !stays(entry)).cloned().collect();
        if removed.is_empty() {
            return Ok(Vec::new());
        }
        self.past.forget_files(first.saturating_sub(1).min(self.newest_replaced()));
        let handles = self.place.remove(&removed);
        let name = self.place.name.clone();
        let names = Names(&name);
        self.list(|manifest| {
            _ = manifest.take_history(|entry| entry.seq >= first && entry.name == names.increment(entry.seq));
        })?;
        Ok(handles)
    }

    /// The number of the newest increment that was replaced; 0 if there is none.
    fn newest_replaced(&self) -> u64 {
        self.manifest.history_increments(self.place.names()).next_back().map_or(0, |entry| entry.seq)
    }

    /// The number of the oldest increment that was replaced and stays; `u64::MAX` if none does.
    fn first_within(&self, bounds: PastBounds) -> u64 {
        let needed = self.past.before(bounds.needed).filter(|_| bounds.needed != u64::MAX).map(|mark| mark.seq);
        let (mut first, mut bytes) = (u64::MAX, 0);
        for entry in self.manifest.history_increments(self.place.names()).rev() {
            let path = self.place.path(&entry.name);
            bytes += self.place.disk.size(&path).unwrap_or(u64::MAX / 4);
            let age = self.place.disk.modified(&path).ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
            let is_within = bytes <= bounds.bytes && age <= bounds.time && self.past.has(entry.seq);
            if !is_within && needed.is_none_or(|needed| entry.seq < needed) {
                break;
            }
            first = entry.seq;
        }
        first
    }
}
