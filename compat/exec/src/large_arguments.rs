//! Large arguments that lie outside their request: in runs of segments, ready to become values.
//!
//! ```text
//!  the parser waits for a body  --Batch::turn--> NeedInput { body }   the caller reads it into a run, step by step,
//!                                                                     each step admitted against the limit
//!  the request is whole         --Batch::turn--> the handler sees slices; SET and its kin adopt the run
//! ```
//!
//! Only for commands that may need memory: what reads or compares has its arguments in the input as ever. If the limit
//! leaves no room, the rest of the request is read and dropped, and the command is refused when it is whole. A request
//! that has bodies makes a turn of its own, which is kept parsed while its shards are busy, because it cannot be parsed again.

use smallvec::SmallVec;
use varve_protocol::Span;
use varve_store::{FilledExtent, NotAdmitted, OpenExtent, StoreWorker, Tx, WholePin};

/// LargeArguments of one request, as far as they are whole.
#[derive(Debug, Default)]
pub struct LargeArguments {
    runs: Vec<FilledExtent>,
    /// All bodies, those that were dropped too.
    count: usize,
    denied: bool,
    /// The request, once it is whole and has not run yet: where its arguments are in the input. It cannot be parsed again.
    parsed: Option<ParsedLarge>,
}

/// A whole request with large arguments, at the front of the input.
#[derive(Clone, Debug)]
pub(crate) struct ParsedLarge {
    pub(crate) spans: Vec<Span>,
    /// Length of the request in the input.
    pub(crate) len: usize,
}

/// The bodies as slices.
pub(crate) type Slices<'b> = SmallVec<[&'b [u8]; 1]>;

impl LargeArguments {
    /// No bodies.
    pub(crate) const NONE: LargeArguments = LargeArguments { runs: Vec::new(), count: 0, denied: false, parsed: None };

    /// True if the request has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The next body.
    pub fn push(&mut self, run: FilledExtent) {
        self.runs.push(run);
        self.count += 1;
    }

    /// The next body was dropped, for want of memory.
    pub fn push_dropped(&mut self) {
        assert!(self.denied, "a request of which bytes are missing is refused");
        self.count += 1;
    }

    /// There is no memory for this request: lets go of what there is. It is refused when it is whole.
    pub fn deny(&mut self) {
        self.runs.clear();
        self.denied = true;
    }

    /// True after [`LargeArguments::deny`].
    #[inline]
    pub fn denied(&self) -> bool {
        self.denied
    }

    /// Keeps the parsed request for the next turn: a shard was busy.
    pub(crate) fn keep_parsed(&mut self, parsed: ParsedLarge) {
        self.parsed = Some(parsed);
    }

    /// The request, if an earlier turn has parsed it.
    pub(crate) fn take_parsed(&mut self) -> Option<ParsedLarge> {
        self.parsed.take()
    }

    /// Bytes of the bodies that are here.
    pub fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Forgets the request's bodies; those that no key has adopted are given back.
    pub fn clear(&mut self) {
        *self = LargeArguments::default();
    }

    /// The i-th body, to be adopted.
    #[inline]
    pub(crate) fn run(&self, i: usize) -> Option<&FilledExtent> {
        self.runs.get(i)
    }

    /// The bodies, to be kept by whoever needs them longer than the request.
    pub(crate) fn pins(&self) -> Vec<WholePin> {
        self.runs.iter().map(FilledExtent::pin).collect()
    }

    /// The bodies as arguments see them. Of a refused request all are empty.
    pub(crate) fn slices(&self) -> Slices<'_> {
        if self.denied {
            return SmallVec::from_elem(&[][..], self.count);
        }
        self.runs.iter().map(|run| &**run).collect()
    }
}

/// Room for a body of `len` bytes that is about to come; None if it is to be read as any other input.
pub fn begin(worker: &StoreWorker, len: usize) -> Option<OpenExtent> {
    worker.store().log().begin_extent(len)
}

/// Admits `bytes` more against the limit, making room if that may be: the next part of a body, or a copy of a request. The
/// worker holds nothing and is outside the gate. None, and nothing is done, where room must be made and another worker is
/// alone behind the gate, or the journal has no room for the keys that would go, or others hold all that may be freed.
pub fn try_admit(worker: &mut StoreWorker, bytes: usize) -> Option<bool> {
    try_admit_by(worker, bytes, |tx, bytes| tx.admit(bytes))
}

/// Admits a transaction whose arguments have `bytes` bytes, like [`try_admit`], but that it waits until there is room for all that
/// is beyond the limit: what it passes the limit by is paid for by the next one.
pub(crate) fn try_admit_transaction(worker: &mut StoreWorker, bytes: usize) -> Option<bool> {
    try_admit_by(worker, bytes, |tx, bytes| tx.admit_whole(bytes))
}

fn try_admit_by(
    worker: &mut StoreWorker,
    bytes: usize,
    admit: impl FnOnce(&mut Tx<'_>, u64) -> Result<(), NotAdmitted>,
) -> Option<bool> {
    if worker.store().has_room(bytes as u64) {
        return Some(true);
    }
    if !worker.store().may_make_room() {
        return None;
    }
    match worker.try_inside(0, |tx| admit(tx, bytes as u64))? {
        Ok(()) => Some(true),
        Err(NotAdmitted::OutOfMemory) => Some(false),
        Err(NotAdmitted::Busy) => None,
    }
}
