//! Operations on several long sets over several turns.
//!
//! ```text
//!  shard of set n held: some members --> batch      none held: batch --> members (by hash), set by set
//!                                                    .. those of the result --> order .. reply
//! ```
//! All sets are read as they were when the command began, the smallest first, so that scores fold in the order in which they
//! do at once; but the scores of a set that is named several times
//! fold together where it is named first. Not here: what is asked for (`combine`), where members wait (`scratch`).

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use varve_exec::notify::Class;
use varve_exec::{CmdResult, Ongoing, Progress};
use varve_protocol::Reply;
use varve_store::{Key, ReadOn, StoreWorker, Tx, Type, ValuePart, WholeReader};

use super::aggregate::{Aggregate, Op, or_zero};
use super::scratch::Scratch;
use super::{reply_head, reply_member};
use crate::generic::building::{Building, MaybeStored, Report};
use crate::generic::order::OrderInSteps;

/// Members that one step takes from the batch, and that are put in order.
const STEP: usize = 1024;
/// Members, and about their bytes, that one step replies with.
const REPLY: usize = 4096;
const REPLY_BYTES: usize = 128 << 10;

/// The form in which the result is replied.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    Members {
        with_scores: bool,
    },
    /// Their number, up to a limit; 0 is none.
    Count {
        limit: usize,
    },
    /// They are stored, and their number is replied.
    Stored {
        event: &'static str,
    },
}

/// A set that is read.
pub(super) struct Part {
    /// One for each time that the set was named.
    weights: SmallVec<[f64; 1]>,
    /// None once all was read.
    reader: Option<WholeReader>,
    /// Members that were read and wait; of a set that is one object all of them, from the beginning.
    batch: Scratch,
    /// Members of the batch that were taken.
    taken: usize,
}

impl Part {
    /// Begins to read the set at a key, whose shard is held.
    pub(super) fn begin(tx: &mut Tx<'_>, key: &Key<'_>, ty: Type, weight: f64) -> Part {
        let reader = tx.begin_reading_whole(key, ty).expect("its type was looked at");
        let mut batch = Scratch::new(0);
        if reader.is_none() {
            tx.look(key, |value| value.for_each(&mut |part| push(&mut batch, part)));
        }
        Part { weights: smallvec![weight], reader, batch, taken: 0 }
    }

    /// The set is named once more, with this weight.
    pub(super) fn weigh_again(&mut self, weight: f64) {
        self.weights.push(weight);
    }
}

fn push(batch: &mut Scratch, part: ValuePart<'_>) {
    match part {
        ValuePart::Element(member) => batch.push(member, 1.0),
        ValuePart::Scored(member, score) => batch.push(member, score),
        ValuePart::Whole(_)
        | ValuePart::Pair(..)
        | ValuePart::Entries(_)
        | ValuePart::Facts(_)
        | ValuePart::Groups(_) => {
            unreachable!("sets are combined")
        }
    }
}

/// An operation that is under way.
pub(super) struct LongCombination {
    op: Op,
    aggregate: Aggregate,
    wish: Wish,
    parts: Vec<Part>,
    members: Scratch,
    order: OrderInSteps,
    /// Where the members go: to the client, or to a set that is stored.
    result: MaybeStored,
    stage: Stage,
}

/// How far it has come.
enum Stage {
    /// The set of this number is being read.
    Read(usize),
    /// The members before this place that belong to the result are in the order.
    Pick(usize),
    Order,
    /// The places in the order that are still to be replied, or stored.
    Reply(Range<usize>),
}

impl LongCombination {
    pub(super) fn new((op, aggregate): (Op, Aggregate), parts: Vec<Part>, seed: u64, wish: Wish) -> LongCombination {
        let (members, order, result) = (Scratch::of_many(seed), OrderInSteps::default(), MaybeStored::default());
        LongCombination { op, aggregate, wish, parts, members, order, result, stage: Stage::Read(0) }
    }

    /// Has the result stored.
    pub(super) fn store_in(&mut self, building: Building) {
        self.result.store_in(building);
    }

    /// Reads or takes members of the set of this number.
    fn read(&mut self, tx: &mut Tx<'_>, at: usize) -> Progress {
        let Some(part) = self.parts.get_mut(at) else {
            self.stage = Stage::Pick(0);
            return Progress::More;
        };
        if part.taken < part.batch.len() {
            self.take(at);
            if let Err(refusal) = self.members.check() {
                return Progress::Failed(refusal);
            }
        } else if let Some(reader) = &mut part.reader {
            (part.batch, part.taken) = (Scratch::new(0), 0);
            let batch = &mut part.batch;
            let read = tx.read_whole_on(reader, |element| push(batch, element));
            tx.release();
            match read {
                ReadOn::Busy => return Progress::Busy,
                ReadOn::More(_) => {}
                ReadOn::All => part.reader = None,
            }
        } else {
            self.stage = Stage::Read(at + 1);
        }
        Progress::More
    }

    /// Takes some members of the batch of a set.
    fn take(&mut self, at: usize) {
        let LongCombination { op, aggregate, parts, members, .. } = self;
        let Part { weights, batch, taken, .. } = &mut parts[at];
        let round = at as u32;
        let (first, again) = weights.split_first().expect("it was named");
        let end = batch.len().min(*taken + STEP.div_ceil(weights.len()));
        for place in *taken..end {
            let (member, score) = batch.at(place);
            let share = |weight: &f64| aggregate.share(*weight, score);
            match op {
                Op::Union => weights.iter().for_each(|weight| {
                    members.merge(member, or_zero(share(weight)), |old, new| aggregate.fold(old, new));
                }),
                Op::Inter if at == 0 => {
                    let shares = again.iter().map(share);
                    members.insert(member, shares.fold(or_zero(share(first)), |sum, new| aggregate.fold(sum, new)));
                }
                Op::Inter => members.meet(member, (round - 1, round), |old| {
                    weights.iter().map(share).fold(old, |sum, new| aggregate.fold(sum, new))
                }),
                Op::Diff if at == 0 => members.insert(member, score),
                Op::Diff => members.strike(member),
            }
        }
        *taken = end;
    }

    /// Picks the members of the result, some of all.
    fn pick(&mut self, from: usize) -> CmdResult {
        let wanted = if self.op == Op::Inter { self.parts.len() as u32 - 1 } else { 0 };
        let end = self.members.len().min(from + STEP);
        (from..end).filter(|&at| self.members.round(at) == wanted).try_for_each(|at| self.order.push(at))?;
        self.stage = if end < self.members.len() { Stage::Pick(end) } else { Stage::Order };
        Ok(())
    }

    fn reply(&mut self, out: &mut Reply) -> Progress {
        let Stage::Reply(left) = &mut self.stage else { unreachable!("its head was replied") };
        let with_scores = matches!(self.wish, Wish::Members { with_scores: true });
        let full = out.len() + REPLY_BYTES;
        for place in left.by_ref().take(REPLY) {
            let (member, score) = self.members.at(self.order.at(place));
            reply_member(out, member, score, with_scores);
            if out.len() >= full {
                break;
            }
        }
        if left.start < left.end { Progress::More } else { Progress::Done }
    }
}

impl LongCombination {
    /// Stores some more members, and ends with the change of the key.
    fn store(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let (Stage::Reply(left), Wish::Stored { event }, Some(building)) =
            (&mut self.stage, self.wish, self.result.building())
        else {
            unreachable!("it is stored")
        };
        if left.start == left.end {
            let report = Report::new(Class::Zset, event);
            return building.publish(tx, &report, |_, _| (), out);
        }
        if building.is_full(tx) {
            return building.add_on(tx);
        }
        for place in left.by_ref().take(STEP) {
            let (member, score) = self.members.at(self.order.at(place));
            building.push_scored(member, score);
        }
        Progress::More
    }
}

impl Ongoing for LongCombination {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        match self.stage {
            Stage::Read(at) => return self.read(tx, at),
            Stage::Pick(from) => {
                if let Err(too_many) = self.pick(from) {
                    return Progress::Failed(too_many);
                }
            }
            Stage::Order => match self.wish {
                Wish::Count { limit } => {
                    let most = if limit == 0 { usize::MAX } else { limit };
                    out.integer(self.order.len().min(most) as i64);
                    return Progress::Done;
                }
                wish => {
                    let members = &self.members;
                    if self.order.step(|a, b| members.compare(a, b)) {
                        if let Wish::Members { with_scores } = wish {
                            reply_head(out, self.order.len(), with_scores);
                        }
                        self.stage = Stage::Reply(0..self.order.len());
                    }
                }
            },
            Stage::Reply(_) if self.result.is_stored() => return self.store(tx, out),
            Stage::Reply(_) => return self.reply(out),
        }
        Progress::More
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.result.abandon(worker);
    }

    fn held_bytes(&self) -> usize {
        let batches = self.parts.iter().map(|part| part.batch.held_bytes()).sum::<usize>();
        self.members.held_bytes() + self.order.held_bytes() + batches + self.result.held_bytes()
    }

    fn kept_bytes(&self) -> usize {
        self.parts.iter().filter_map(|part| part.reader.as_ref()).map(WholeReader::kept_bytes).sum()
    }
}
