//! Collections that are too long for one hold of their shard, shown to the walker of a walk over several.
//!
//! ```text
//!   shard held: reader begins --> Walk::long: [ being shown | waits | waits ]       walk in hand: some elements a step
//! ```
//! The first is shown to its end before the next one and before the walk goes on: the file of a snapshot has the elements
//! of an entry in a row, and what changes meanwhile is kept twice. What a receiver has in front of the elements (the names of a
//! stream's messages) and behind them (its groups) it makes in steps too. Whatever becomes of the key, the root stays until its
//! reader has ended. Not here: how elements are kept as they were (`varve_collection`).

use std::sync::Arc;

use varve_base::Ref;
use varve_collection::list::{NodePart, emit_from};
use varve_collection::{Collection, ReaderBytes, ReaderNumber, WriteCtx};

use super::ground::Ground;
use super::shard::Shard;
use super::store::Store;
use super::worker::WorkerState;
use crate::ListEnd;
use crate::state::walker::{LongValue, PartSink, ValuePart, Walk};

/// Elements, and their bytes, that one step shows: some 50 us.
const STEP_ELEMENTS: usize = 1024;
const STEP_BYTES: usize = 64 << 10;
/// Leaves that one step looks at, where most are empty.
const STEP_LEAVES: usize = 512;

/// How much more one step shows.
struct StepBudget {
    elements: usize,
    bytes: usize,
}

impl StepBudget {
    /// Counts an element; whether there may be more.
    fn takes(&mut self, bytes: usize) -> bool {
        self.elements = self.elements.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.elements > 0 && self.bytes > 0
    }
}

impl Shard {
    /// Begins to read the long collection of a key whose elements the walker wants. `bytes` counts all that is kept for that.
    pub(super) fn begin_long(
        &mut self,
        ground: &Ground,
        r: Ref,
        walk: &Arc<Walk>,
        (sink, bytes): (Box<dyn PartSink>, ReaderBytes),
    ) {
        let link = self.link_of(ground.log(), r).expect("a long value has a root");
        let reader = self.begin_reading(ground, link.place, bytes, |collection, (number, bytes)| match collection {
            Collection::Hash(elements) | Collection::Set(elements) => elements.begin_reading(number, bytes),
            Collection::List(list) => list.begin_reading((number, bytes), 0, list.len(), ListEnd::Front),
            Collection::Zset(set) => set.begin_reading((number, bytes), 0, set.len() as u64, false),
            Collection::Stream(stream) => {
                stream.lend_groups(&bytes);
                stream.begin_reading((number, bytes), 0, stream.len(), false);
            }
        });
        walk.add_long(LongValue { reader, sink, has_begun: false, scratch: Default::default() });
    }
}

impl Store {
    /// Shows some more elements of the long collection that comes first, or has its receiver go on before or behind them; false if none
    /// waits. A shard that is in other
    /// hands is left for the next step.
    pub(super) fn long_step(&self, worker: &mut WorkerState, walk: &Walk) -> bool {
        let Some(mut long) = walk.take_long() else { return false };
        long.has_begun = long.has_begun || !long.sink.begin();
        if !long.has_begun {
            walk.put_long(long);
            return true;
        }
        if !long.reader.has_ended() && self.show_elements(worker, &mut long) {
            long.sink.hold_ended();
            walk.put_long(long);
            return true;
        }
        debug_assert!(long.reader.has_ended(), "its root has forgotten the reader");
        if long.sink.rest() {
            walk.put_long(long);
        } else {
            long.sink.end();
        }
        true
    }

    /// Shows some more elements of a long collection; false if those were the last ones.
    fn show_elements(&self, worker: &mut WorkerState, long: &mut LongValue) -> bool {
        debug_assert!(!long.reader.has_ended(), "one that was shown whole waits no more");
        let (id, number) = (long.reader.id(), long.reader.number());
        let at = self.collections().get(id).expect("the root of a reader stays");
        let Some(mut shard) = self.cells()[at.shard].lock.try_lock() else { return true };
        // RENAME moves a root: it is where it was found if that is still so with the shard held.
        if self.collections().get(id) != Some(at) {
            return true;
        }
        let elements = STEP_ELEMENTS.min(self.ground().readers().bounds().hold_elements);
        let mut budget = StepBudget { elements, bytes: STEP_BYTES };
        let is_left = shard.with_root(self.ground(), worker.appender(), at.place, |root, ctx| {
            show_some(&mut root.body, ctx, number, long, &mut budget)
        });
        if !is_left {
            long.reader.end();
            shard.follow_reader_end(self.ground(), at.place);
        }
        is_left
    }
}

/// Shows elements up to the end of the leaf or node at which the budget is spent; false if all were shown.
fn show_some(
    collection: &mut Collection,
    ctx: &mut WriteCtx<'_>,
    number: ReaderNumber,
    long: &mut LongValue,
    budget: &mut StepBudget,
) -> bool {
    let LongValue { sink, scratch, .. } = long;
    let is_hash = matches!(collection, Collection::Hash(_));
    match collection {
        Collection::Hash(elements) | Collection::Set(elements) => {
            let next = elements.read_on(ctx, number, STEP_LEAVES, |name, value, expiry_ms| {
                let (name_text, value_text) = (&mut [0; 20], &mut [0; 20]);
                let (name, value) = (name.text(name_text), value.text(value_text));
                sink.part(if is_hash { ValuePart::Pair(name, value, expiry_ms) } else { ValuePart::Element(name) });
                budget.takes(name.len() + value.len())
            });
            next.is_some()
        }
        Collection::List(list) => {
            list.read_on(ctx.read(), scratch, (number, ListEnd::Front), |NodePart { node, offset, many }| {
                let mut wants_more = true;
                let shown = emit_from(node, offset, many, ListEnd::Front, &mut |entry| {
                    let text = &mut [0; 20];
                    let element = entry.text(text);
                    sink.part(ValuePart::Element(element));
                    wants_more = budget.takes(element.len());
                });
                (shown, wants_more)
            })
        }
        Collection::Zset(set) => set.read_on(ctx, (number, false), |member, score| {
            sink.part(ValuePart::Scored(member, score));
            budget.takes(member.len() + size_of::<f64>())
        }),
        Collection::Stream(stream) => stream.read_on(ctx.read(), (number, false), |part| {
            sink.part(ValuePart::Entries(part.node));
            budget.elements = budget.elements.saturating_sub(part.len());
            budget.takes(part.node.bytes())
        }),
    }
}
