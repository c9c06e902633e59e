//! The segment log: every byte of user data, appended, counted as long as it lives, reclaimed.
//!
//! ```text
//! one reserved range of addresses; a Ref is a byte offset into it
//! +-----------+-----------+-----------+-----------+-- - - - - - - - - - - --+-----------+-----------+
//! | segment 0 | 1         | 2         | 3         | PROT_NONE until it is   | max - 2   | max - 1   |
//! | sealed    | free      | open      | draining  | needed       <- extents | extent    | tail      |
//! +-----------+-----------+-----------+-----------+-- - - - - - - - - - - --+-----------+-----------+
//! ```
//!
//! | file       | what it knows                                                     |
//! |------------|-------------------------------------------------------------------|
//! | `kind`     | what an object is made from, as plain data                        |
//! | `layout`   | the bytes of one object                                           |
//! | `object`   | views on what was written                                         |
//! | `table`    | a segment's state and counters                                    |
//! | `ids`      | free segment numbers: segments from the bottom, extents from the top |
//! | `memory`   | the range, the system's pages, sums over all segments             |
//! | `fullness` | sealed segments by the share that lives: where victims are found  |
//! | `space`    | pieces: the right to write                                       |
//! | `ahead`    | memory that is put in place before an appender comes to it        |
//! | `append`   | one worker's way to write                                         |
//! | `extent`   | large objects in segments of their own                            |
//! | `pin`      | reading an extent's value without the lock, and writing beside    |
//! | `kept`     | blocks of a pinned extent as they were before a write             |
//! | `written`  | which parts of an extent were ever written                        |
//! | `reclaim`  | moving objects out of a segment and giving its memory back        |
//! | `clear`    | everything dies at once                                           |
//! | `verify`   | the counters against the bytes                                    |
//!
//! The log knows no keys' meaning, no index and no shards: its owner has one `Access` in the mutex of each shard, and
//! answers reclaim through the trait `Relocate`. It has no clock, no threads and no limit but the reserved
//! range.
//!
//! # Safety
//!
//! Nothing in the interface is `unsafe`, so these are the rules that make it sound; the owner upholds the first two.
//!
//! 1. **A Ref is opened with the access of its own shard, and only while its object lives.** Safe code cannot make a
//!    Ref, only keep one too long or mix up shards; its bits may be kept in a value and recalled (`Log::recall`). The owner forgets a Ref under the lock under which it kills it.
//!    A Ref kept too long reads mapped memory all the same (the opened range is never closed): mostly a head of 0, which
//!    every accessor that names a kind refuses.
//! 2. **All of an object but its first part belongs to its shard's lock**, with one exception: the bit DEAD, an atomic.
//!    `Access` is that lock's proof: shared borrows read, a unique borrow writes, so no slice of a value survives a
//!    write, a kill or the lock.
//! 3. **The first part is immutable from publication until its memory is released**, but for an extent's, which is read
//!    under its shard's lock only and may be rewritten by the holder of the locks of its old and its new key. A Ref is published under the
//!    shard's lock, which orders the writes before the reads of whoever opens it. Reclaim reads first parts without any
//!    shard's lock: the writer gave its piece back under the `space` mutex before the segment could be sealed, and the
//!    victim was chosen under that mutex, which orders the same writes.
//! 4. **DEAD is the last touch.** The killer reads all it needs, then sets DEAD with release; reclaim reads it with
//!    acquire and only then lets the memory go. A segment in which nothing lives is not read at all: its counter of live
//!    objects is taken down with release after each DEAD and read with acquire. No segment is free before that counter
//!    is 0: a killer still needs its table entry after DEAD. Memory is released only behind objects
//!    that are dead, so nobody reads or writes there.
//! 5. **A piece belongs to one appender**, from check-out to return, and pieces do not overlap. Parked pieces belong to
//!    whoever holds the mutex.
//! 6. **An extent's value may be read without the lock through a pin.** Pins are made under the lock, or before the object
//!    exists (`FilledExtent`), or beside a `WholePin`; while one counts, the value gets no shorter (`ObjectMut` refuses) and the memory stays. It may
//!    grow behind the pinned bytes; its first part, expiry, clock and flags have places of
//!    their own and may change. A pin ends with release; a thread that finds none has read with acquire. While a `WholePin`
//!    counts, the bytes that the value had do not change. Bytes that a `Pin` reads change under the lock alone, and only once
//!    the block was copied and no `PinRead` that began before is left on it: both are known under the lock of the extent's pins
//!    (`kept`), which orders a reader's end before the write, and the copy before the next reader.
//! 7. **Beyond what an extent's value has ever reached, its memory is zero**: it is fresh from the system, and the only
//!    other bytes ever written there, the slack's count, are zeroed when the slack changes. So is every block of the value whose
//!    bit of `written` is clear.

mod ahead;
mod append;
mod clear;
mod extent;
mod fullness;
mod geometry;
mod ids;
mod kept;
mod kind;
mod layout;
mod leaf_lock;
mod log;
mod memory;
mod object;
mod pin;
mod reclaim;
mod releases;
mod space;
mod table;
mod verify;
mod written;

#[cfg(test)]
mod tests;

pub use append::Appender;
pub use extent::{FilledExtent, OpenExtent};
pub use geometry::LogGeometry;
pub use kind::{NewObject, NewValue, ObjectKind, ObjectTag, Owner, SegmentClass};
pub use log::{Log, LogStats, SegmentInfo};
pub use object::{Access, Object, ObjectMut};
pub use pin::{KeptForPins, Pin, PinRead, Way, WholePin};
pub use reclaim::{Drain, DrainState, Greedy, ObjectHead, Relocate, Relocated, SLICE, VictimPolicy};
pub use table::SegmentState;
pub use varve_base::Ref;
