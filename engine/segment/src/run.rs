//! Large objects: each alone in a run of whole segments, never moved, growing in place, freed in steps.
//!
//! ```text
//! segment n          n+1                n+2                n+3
//! +----------------------------------------------------------------------------+
//! | first part, key, rest: value ............ | never touched: zero      slack |
//! +----------------------------------------------------------------------------+
//! start                                    fill: the furthest that the value has reached
//!
//! begun, its key not known yet:
//! | front room, never touched | value ....... |                                |
//!                    adopted: head, key, rest up to the value's first byte
//! ```
//!
//! Counted as used: from `start` to `fill`, to the byte; the page that holds the slack's count is not. An object whose
//! room is more than its value, or whose value came from a socket, gets twice the addresses that it needs, since those
//! cost nothing. Between `fill` and the slack's count all bytes are zero, so growing does not touch them.
//!
//! A pin keeps a run's bytes readable without the lock. While there is one the value does not change and, if the object
//! dies, its memory is not released.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use varve_base::Ref;
use varve_base::mem::PAGE_BYTES;

use crate::append::Appender;
use crate::layout::{OVERHEAD_MAX, Plan};
use crate::log::{Log, Shared};
use crate::object::{Access, NewObject, Value};
use crate::table::{Entry, Live};

/// Addresses before the value of a run that was begun without its key. Longer keys are copied with their value.
const FRONT_MAX: usize = 64 << 10;

/// A dead run on its way back.
#[derive(Clone, Copy, Debug)]
struct Release {
    segment: u32,
    /// Released below this, relative to the run.
    done: usize,
    /// Touched below this, but for the slack's count at the end.
    end: usize,
}

/// Dead runs, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Releases(VecDeque<Release>);

/// Bytes of a large value that stay readable after the shard's lock is gone, until this is dropped.
#[derive(Debug)]
pub struct Pin {
    shared: Arc<Shared>,
    segment: u32,
    at: usize,
    len: usize,
}

impl Deref for Pin {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the value of a run; `value_mut` and `resize` refuse while the pin counts, `release_step` waits.
        unsafe { std::slice::from_raw_parts(self.shared.mapping.base().add(self.at), self.len) }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // Releases: what was read through the pin was read before anybody may change it.
        self.shared.table.entry(self.segment).pins.fetch_sub(1, Ordering::Release);
    }
}

/// A run that is being filled before its object exists. Dropped without being adopted, it is given back.
#[derive(Debug)]
pub struct OpenRun {
    shared: Arc<Shared>,
    segment: u32,
    /// Offset of the value in the run, and its length.
    front: usize,
    len: usize,
    adopted: bool,
}

impl OpenRun {
    /// The whole value, to be filled in any order; zero at first.
    pub fn buf(&mut self) -> &mut [u8] {
        let at = self.segment as usize * self.shared.geometry.segment_bytes + self.front;
        // SAFETY: the run belongs to this value alone until it is adopted, which takes it.
        unsafe { std::slice::from_raw_parts_mut(self.shared.mapping.base().add(at), self.len) }
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        if !self.adopted {
            self.shared.retire(self.segment);
        }
    }
}

impl Shared {
    /// Queues the memory of a run that nobody can find any more.
    pub(crate) fn retire(&self, segment: u32) {
        let entry = self.table.entry(segment);
        entry.retire();
        let end = entry.fill.load(Ordering::Relaxed) as usize;
        self.releases.lock().0.push_back(Release { segment, done: 0, end });
    }

    /// Takes segments for `bytes` of object from `start`, of which those from `counted` count as used.
    fn begin_run(&self, front: usize, bytes: usize, counted: usize) -> (u32, usize) {
        let segment_bytes = self.geometry.segment_bytes;
        let count = (front + bytes + 1).div_ceil(segment_bytes) as u32;
        let mut space = self.space.lock();
        let segment = space.take(self, count);
        // No Ref may be 0.
        let start = if segment == 0 { front.max(1) } else { front };
        for tail in segment + 1..segment + count {
            self.table.entry(tail).begin_tail();
        }
        let entry = self.table.entry(segment);
        entry.begin_run(count, start as u64, start as u64);
        self.count_used(entry, counted as u64);
        entry.fill.store((start + counted) as u64, Ordering::Relaxed);
        (segment, start)
    }

    fn free_run(&self, segment: u32, entry: &Entry) {
        let count = entry.run_len.load(Ordering::Relaxed);
        let mut space = self.space.lock();
        entry.free_run();
        for tail in segment + 1..segment + count {
            self.table.entry(tail).free_tail();
        }
        space.ids.give(segment, count);
    }
}

impl Log {
    /// Writes an object into a run of its own.
    pub(crate) fn append_run(&self, o: &NewObject<'_>) -> Ref {
        let shared = &self.shared;
        let need = OVERHEAD_MAX + o.key.len() + o.room;
        // A run's rest has a length of 32 bits, and ends where its last segment does.
        let most = u32::MAX as usize - 2 * shared.geometry.segment_bytes;
        assert!(need <= most, "an object of {need} bytes");
        let wish = if o.room > o.value.len() { (2 * need).min(most) } else { need };
        let value_at = Plan::run_front(o);
        let used = value_at + o.value.len();
        let (segment, start) = shared.begin_run(0, wish, used);
        let entry = shared.table.entry(segment);
        let bytes = entry.run_len.load(Ordering::Relaxed) as usize * shared.geometry.segment_bytes;
        let plan = Plan::filling(o, bytes - start);
        let at = segment as usize * shared.geometry.segment_bytes + start;
        entry.add_live(Live::new(1, (plan.size() - plan.slack) as u64));
        // SAFETY: the run is ours alone until its Ref is published; its memory is fresh and zero; `start` is not 0 in
        // the first segment.
        unsafe {
            let r = Ref::from_bits(at as u64);
            plan.write(self.place(r).0, o, true);
            r
        }
    }

    /// A run for a value of `len` bytes whose key is not known yet, to be filled straight from where it comes from.
    /// It counts as used from now on. Panics if `len` is not more than `run_min_bytes`.
    pub fn begin_run(&self, len: usize) -> OpenRun {
        let shared = &self.shared;
        assert!(self.is_run_size(len) && len <= 1 << 30, "a run for a value of {len} bytes");
        let front = FRONT_MAX.min(shared.geometry.segment_bytes / 4);
        let (segment, front) = shared.begin_run(front, 2 * len, len);
        OpenRun { shared: shared.clone(), segment, front, len, adopted: false }
    }

    /// Keeps the value of an object in a run readable without the lock. None if the object is no such: copy its value.
    pub fn pin(&self, access: &Access, r: Ref) -> Option<Pin> {
        let object = access.open(self, r);
        if !self.is_run_size(object.bytes()) {
            return None;
        }
        let value = object.value();
        let at = value.as_ptr() as usize - self.shared.mapping.base() as usize;
        self.entry(r).pins.fetch_add(1, Ordering::Relaxed);
        let segment = (r.bits() / self.shared.geometry.segment_bytes as u64) as u32;
        Some(Pin { shared: self.shared.clone(), segment, at, len: value.len() })
    }

    #[inline(never)]
    pub(crate) fn pinned(&self, r: Ref) -> bool {
        // Acquires: the counterpart of a pin's end. New pins need the shard's lock, which the caller has.
        self.entry(r).pins.load(Ordering::Acquire) > 0
    }

    /// Up to where, from the object's begin, its value has ever reached.
    pub(crate) fn run_extent(&self, r: Ref) -> usize {
        self.entry(r).fill.load(Ordering::Relaxed) as usize - self.offset(r)
    }

    /// The value now reaches up to `end` from the object's begin.
    pub(crate) fn run_grown(&self, r: Ref, end: usize) {
        let entry = self.entry(r);
        let fill = (self.offset(r) + end) as u64;
        let old = entry.fill.load(Ordering::Relaxed);
        if fill > old {
            entry.fill.store(fill, Ordering::Relaxed);
            self.shared.count_used(entry, fill - old);
        }
    }

    #[cold]
    pub(crate) fn retire_run(&self, r: Ref) {
        self.shared.retire((r.bits() / self.shared.geometry.segment_bytes as u64) as u32);
    }

    /// True if the memory of dead runs waits to be released.
    pub fn owes_release(&self) -> bool {
        !self.shared.releases.lock().0.is_empty()
    }

    /// Releases up to `bytes` (at least one release unit) of dead runs that are not pinned. True while more is left.
    pub fn release_step(&self, bytes: usize) -> bool {
        let shared = &self.shared;
        let mut left = bytes.max(1);
        loop {
            let mut queue = shared.releases.lock();
            let pinned = |release: &Release| shared.table.entry(release.segment).pins.load(Ordering::Acquire) > 0;
            let Some(found) = queue.0.iter().position(|release| !pinned(release)) else { return false };
            if left == 0 {
                return true;
            }
            let mut release = queue.0.remove(found).expect("just found");
            drop(queue);
            let entry = shared.table.entry(release.segment);
            while left > 0 && release.done < release.end {
                left = left.saturating_sub(self.release_some(&mut release, entry));
            }
            if release.done < release.end {
                shared.releases.lock().0.push_front(release);
            } else {
                self.finish_release(&release, entry);
            }
        }
    }

    /// Releases one unit; answers its bytes.
    fn release_some(&self, release: &mut Release, entry: &Entry) -> usize {
        let shared = &self.shared;
        let base = release.segment as usize * shared.geometry.segment_bytes;
        let to = (release.done + shared.geometry.release_bytes).min(release.end.next_multiple_of(PAGE_BYTES));
        // SAFETY: the object is dead, so no Ref leads here, and there are no pins and can be no new ones.
        unsafe { shared.mapping.release(base + release.done..base + to) };
        let start = entry.start.load(Ordering::Relaxed) as usize;
        let counted = to.min(release.end).saturating_sub(release.done.max(start));
        shared.uncount_used(entry, counted as u64);
        let bytes = to - release.done;
        release.done = to;
        bytes
    }

    fn finish_release(&self, release: &Release, entry: &Entry) {
        let shared = &self.shared;
        let count = entry.run_len.load(Ordering::Relaxed) as usize;
        let end = (release.segment as usize + count) * shared.geometry.segment_bytes;
        // SAFETY: as in `release_some`; this is the page of the slack's count.
        unsafe { shared.mapping.release(end - PAGE_BYTES..end) };
        shared.free_run(release.segment, entry);
    }
}

impl Appender {
    /// Makes an object of a filled run: `o.value` and `o.room` do not count, the value is the run's. A key that is too
    /// long for the front room costs a copy.
    pub fn adopt(&mut self, log: &Log, mut run: OpenRun, o: &NewObject<'_>) -> Ref {
        let shared = run.shared.clone();
        assert!(Arc::ptr_eq(&shared, &log.shared), "a run of another log");
        let o = NewObject { value: Value::Zeroed(run.len), room: run.len, ..*o };
        let before = Plan::run_front(&o);
        let base = run.segment as usize * shared.geometry.segment_bytes;
        let Some(start) = run.front.checked_sub(before).filter(|start| base + start > 0) else {
            return self.append(log, &NewObject { value: Value::Bytes(run.buf()), ..o });
        };
        run.adopted = true;
        let entry = shared.table.entry(run.segment);
        entry.start.store(start as u64, Ordering::Relaxed);
        shared.count_used(entry, before as u64);
        let bytes = entry.run_len.load(Ordering::Relaxed) as usize * shared.geometry.segment_bytes;
        let plan = Plan::filling(&o, bytes - start);
        entry.add_live(Live::new(1, (plan.size() - plan.slack) as u64));
        // SAFETY: the run is ours alone until its Ref is published; the head ends where the value begins.
        unsafe {
            let r = Ref::from_bits((base + start) as u64);
            let value = plan.write_head(log.place(r).0, &o);
            debug_assert!(value == log.place(r).0.add(before));
            r
        }
    }
}
