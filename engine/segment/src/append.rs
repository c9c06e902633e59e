//! Writing objects: each worker has an appender, which holds a piece of a segment a class during a batch.
//!
//! ```text
//! size <= left of the held piece                          into it
//! size >  extent_min                                      an extent of its own
//! size >  half a piece, or the held piece has much left   a piece cut to size
//! else                                                    the held piece is spent, another checked out
//! ```
//!
//! In the steady state an append touches nothing shared: pieces are counted when they go back.

use varve_base::Ref;

use crate::extent::FilledExtent;
use crate::kind::{NewObject, NewValue, SegmentClass};
use crate::layout::Plan;
use crate::log::Log;
use crate::object::Access;
use crate::space::Piece;

/// Spent pieces that may wait for the next visit to the mutex.
const SPENT_MAX: usize = 32;

/// One worker's way to write. Park it at the end of each batch: until then the log's figures miss what it wrote, and
/// the segments that it writes to cannot be drained.
#[derive(Debug, Default)]
pub struct Appender {
    held: [Piece; 3],
    spent: Vec<(SegmentClass, Piece)>,
}

impl Appender {
    /// One that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes an object. It is alive from now on, and nobody else can find it before its Ref is published under its
    /// shard's lock. Panics if the reserved range is exhausted.
    #[inline]
    pub fn append(&mut self, log: &Log, o: &NewObject<'_>) -> Ref {
        let plan = Plan::new(o);
        let size = plan.size() as u64;
        if size > self.held[o.class as usize].left()
            && let Some(r) = self.find_place(log, o, size)
        {
            return r;
        }
        write(log, &mut self.held[o.class as usize], &plan, o)
    }

    /// Writes the object anew into `class`, with no more room than its value needs, and marks the old one dead. The
    /// caller makes everything that led to the old one lead to the new one, under the same lock.
    pub fn relocate(&mut self, log: &Log, access: &mut Access, old: Ref, class: SegmentClass) -> Ref {
        self.relocate_with(log, access, old, class, None)
    }

    /// Relocates an object and gives it `value` in place of its own, which a caller may know to say in fewer bytes.
    pub fn relocate_with(
        &mut self,
        log: &Log,
        access: &mut Access,
        old: Ref,
        class: SegmentClass,
        value: Option<&[u8]>,
    ) -> Ref {
        let object = access.open(log, old);
        let value = value.unwrap_or(object.value());
        let o = NewObject { value: NewValue::Bytes(value), room: value.len(), class, ..NewObject::like(&object) };
        let new = self.append(log, &o);
        assert!(new != old, "an object is moved onto itself");
        access.kill(log, old);
        new
    }

    /// Makes an object of a filled extent: `o.value` and `o.room` do not count, the value is the extent's. It is pinned until
    /// the filled extent is dropped. A key that is too long for the front room costs a copy, and so does a second object
    /// of the same extent.
    pub fn adopt(&mut self, log: &Log, filled: &FilledExtent, o: &NewObject<'_>) -> Ref {
        let adopted = log.adopt(filled, o);
        adopted.unwrap_or_else(|| {
            self.append(log, &NewObject { value: NewValue::Bytes(filled), room: filled.len(), ..*o })
        })
    }

    /// Gives all pieces back: the end of a batch.
    #[inline]
    pub fn park(&mut self, log: &Log) {
        if self.spent.is_empty() && self.held.iter().all(|piece| piece.end == 0) {
            return;
        }
        self.give_back(log, true);
    }

    #[cold]
    #[inline(never)]
    fn give_back(&mut self, log: &Log, held_too: bool) {
        let mut space = log.shared.space.lock();
        for (class, piece) in self.spent.drain(..) {
            space.take_back(&log.shared.memory, class, &piece);
        }
        if held_too {
            for class in SegmentClass::ALL {
                let piece = std::mem::take(&mut self.held[class as usize]);
                if piece.end != 0 {
                    space.take_back(&log.shared.memory, class, &piece);
                }
            }
        }
    }

    /// For an object that does not fit into the held piece: makes it fit, or writes it elsewhere.
    #[cold]
    #[inline(never)]
    fn find_place(&mut self, log: &Log, o: &NewObject<'_>, size: u64) -> Option<Ref> {
        let geometry = log.geometry();
        if log.is_extent_size(size as usize) {
            return Some(log.append_extent(o));
        }
        if self.spent.len() >= SPENT_MAX {
            self.give_back(log, false);
        }
        let small = geometry.small_max() as u64;
        let left = self.held[o.class as usize].left();
        if size > geometry.piece_bytes as u64 / 2 || (size > small && left >= small) {
            let mut piece = log.take_piece(|space, memory| space.checkout_exact(memory, o.class, size));
            let r = write(log, &mut piece, &Plan::new(o), o);
            self.spent.push((o.class, piece));
            return Some(r);
        }
        let held = &mut self.held[o.class as usize];
        if held.end != 0 {
            held.spend(&log.shared.memory.mapping);
            self.spent.push((o.class, *held));
        }
        *held = log.take_piece(|space, memory| space.checkout(memory, o.class, size));
        held.populate(&log.shared.memory.mapping);
        assert!(held.left() >= size, "a piece of {} bytes for an object of {size}", held.left());
        None
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        let parked = self.spent.is_empty() && self.held.iter().all(|piece| piece.end == 0);
        debug_assert!(parked || std::thread::panicking(), "an appender was dropped with pieces");
    }
}

/// Writes into a piece that has room for it.
#[inline(always)]
fn write(log: &Log, piece: &mut Piece, plan: &Plan, o: &NewObject<'_>) -> Ref {
    let size = plan.size() as u64;
    debug_assert!(size <= piece.left());
    // SAFETY: the piece is this appender's alone and lies in the opened range; what is written there is an object, so
    // its offset may become a Ref. It is not 0 since the first segment begins at 1.
    unsafe {
        let r = Ref::from_bits(piece.at);
        plan.write(log.place(r).0, o, false);
        piece.at += size;
        piece.objects += 1;
        piece.slack += plan.slack as u64;
        r
    }
}
