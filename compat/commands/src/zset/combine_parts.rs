//! Operations on several long sets over several turns.
//!
//! ```text
//!  shard of set n held: some members --> batch      none held: batch --> members (by hash), set by set
//!                                                    .. those of the result --> order .. reply
//! ```
//! Sets that are much longer than the leading one are asked, some members a hold, and watched meanwhile: if one of them changes,
//! the command begins anew.
//!
//! All sets are read as they were when the command began, the smallest first, so that scores fold in the order in which they
//! do at once: the journal has a command as it was sent, and it is done again at once. A set that is named twice is read once,
//! and its members are kept for the second time. Not here: what is asked for (`combine`), where members wait (`scratch`).

use std::ops::Range;

use smallvec::SmallVec;
use varve_exec::notify::Class;
use varve_exec::{CmdResult, Ongoing, Progress, Sources};
use varve_protocol::Reply;
use varve_store::{Key, ReadOn, ShardSet, StoreWorker, Tx, Type, ValuePart, WholeReader};

use super::aggregate::{Aggregate, Op, or_zero};
use super::scratch::Scratch;
use super::{reply_head, reply_member};
use crate::generic::building::{Building, MaybeStored, Report};
use crate::generic::order::OrderInSteps;

/// Members that one step takes from the batch, and that are put in order.
const STEP: usize = 1024;
/// To ask a set for a member takes as long as showing this number of them.
const QUESTION_COST: u64 = 16;
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

/// The weights of a set, one for each time that it is named.
pub(super) type Weights = SmallVec<[f64; 1]>;

/// A set that is asked for the members of the leading one.
pub(super) struct Asked {
    name: Box<[u8]>,
    ty: Type,
    weights: Weights,
}

impl Asked {
    pub(super) fn new(name: &[u8], ty: Type, weights: Weights) -> Asked {
        Asked { name: name.into(), ty, weights }
    }
}

/// A set that is read.
pub(super) struct Part {
    weights: Weights,
    /// None once all was read.
    reader: Option<WholeReader>,
    /// Members that were read and wait; of a set that is one object, or is named again, all of them from the beginning.
    batch: Scratch,
    /// It is named again: its members stay in the batch.
    stays: bool,
    /// The place of the part that has the members of the same set.
    of: Option<usize>,
    /// Members of the batch that were taken.
    taken: usize,
}

impl Part {
    /// Begins to read the set at a key, whose shard is held.
    pub(super) fn begin(tx: &mut Tx<'_>, key: &Key<'_>, ty: Type, weights: Weights) -> Part {
        let reader = tx.begin_reading_whole(key, ty).expect("its type was looked at");
        let mut batch = Scratch::new(0);
        if reader.is_none() {
            tx.look(key, |value| value.for_each(&mut |part| push(&mut batch, part)));
        }
        Part { weights, reader, batch, stays: false, of: None, taken: 0 }
    }

    /// Has the set that a part before reads come once more.
    pub(super) fn again(parts: &mut [Part], of: usize, weights: Weights) -> Part {
        let of = parts[of].of.unwrap_or(of);
        parts[of].stays = true;
        Part { weights, reader: None, batch: Scratch::new(0), stays: false, of: Some(of), taken: 0 }
    }
}

/// The score of a member of the sorted set at a key; 1 for a member of a set.
pub(super) fn score(tx: &mut Tx<'_>, (key, ty): (&Key<'_>, Type), member: &[u8]) -> CmdResult<Option<f64>> {
    if ty == Type::Zset {
        Ok(tx.zset_peek(key, member)?)
    } else {
        Ok(tx.set_peek(key)?.filter(|set| set.contains(member)).map(|_| 1.0))
    }
}

/// The weights of a set that the result needs: where there are no scores in it, the set counts once.
fn weights_that_count(weights: &[f64], op: Op, wish: Wish) -> &[f64] {
    if op == Op::Diff || matches!(wish, Wish::Count { .. }) { &weights[..1] } else { weights }
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
    asked: Vec<Asked>,
    /// The sets that are asked; none where the result is stored, whose sources are watched all.
    sources: Sources,
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
    /// The set of this number is asked for the members from this place on.
    Ask(usize, usize),
    /// The members before this place that belong to the result are in the order.
    Pick(usize),
    Order,
    /// The places in the order that are still to be replied, or stored.
    Reply(Range<usize>),
}

impl LongCombination {
    pub(super) fn new(
        (op, aggregate): (Op, Aggregate),
        (parts, asked): (Vec<Part>, Vec<Asked>),
        seed: u64,
        wish: Wish,
    ) -> LongCombination {
        let (members, order, result) = (Scratch::of_many(seed), OrderInSteps::default(), MaybeStored::default());
        let (sources, stage) = (Sources::default(), Stage::Read(0));
        LongCombination { op, aggregate, wish, parts, asked, sources, members, order, result, stage }
    }

    /// Watches the sets that are asked, whose shards are held, or keeps writers from them.
    pub(super) fn watch(&mut self, tx: &mut Tx<'_>, keeps: bool) {
        if !self.asked.is_empty() {
            self.sources = Sources::begin(tx, self.asked.iter().map(|asked| &*asked.name), None, keeps);
        }
    }

    /// Has the result stored.
    pub(super) fn store_in(&mut self, building: Building) {
        self.result.store_in(building);
    }

    /// Reads or takes members of the set of this number.
    fn read(&mut self, tx: &mut Tx<'_>, at: usize) -> Progress {
        let Some(part) = self.parts.get(at) else {
            self.stage = if self.asked.is_empty() { Stage::Pick(0) } else { Stage::Ask(0, 0) };
            return Progress::More;
        };
        let batch = part.of.unwrap_or(at);
        if self.parts[at].taken < self.parts[batch].batch.len() {
            self.take(at, batch);
            if let Err(refusal) = self.members.check() {
                return Progress::Failed(refusal);
            }
            return Progress::More;
        }
        let Part { reader, batch, stays, taken, .. } = &mut self.parts[at];
        let Some(some) = reader else {
            self.stage = Stage::Read(at + 1);
            return Progress::More;
        };
        if !*stays {
            (*batch, *taken) = (Scratch::new(0), 0);
        }
        let read = tx.read_whole_on(some, |element| push(batch, element));
        tx.release();
        match read {
            ReadOn::Busy => return Progress::Busy,
            ReadOn::More(_) => {}
            ReadOn::All => *reader = None,
        }
        Progress::More
    }

    /// Takes some members of the batch of a part for the set of this number.
    fn take(&mut self, at: usize, of: usize) {
        let LongCombination { op, aggregate, wish, parts, members, .. } = self;
        let Part { weights, taken, .. } = &parts[at];
        let (weights, round) = (weights_that_count(weights, *op, *wish), at as u32);
        let (first, again) = weights.split_first().expect("it was named");
        let batch = &parts[of].batch;
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
        parts[at].taken = end;
    }

    /// Asks the set of this number for some members.
    fn ask(&mut self, tx: &mut Tx<'_>, number: usize, from: usize) -> Progress {
        let LongCombination { op, aggregate, wish, parts, asked, members, sources, .. } = self;
        let Some(set) = asked.get(number) else { return self.end_asking(tx) };
        let key = tx.key(&set.name);
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        if sources.is_touched() {
            return self.end_asking(tx);
        }
        let round = (parts.len() + number) as u32;
        let before = if *op == Op::Inter { round - 1 } else { 0 };
        let most = (tx.hold_elements() / QUESTION_COST).max(1) as usize;
        let weights = weights_that_count(&set.weights, *op, *wish);
        let end = members.len().min(from + most.div_ceil(weights.len()));
        for place in from..end {
            if members.round(place) != before {
                continue;
            }
            // Of a stored result a set may have changed: it begins anew at the end, whatever is found here.
            let Ok(Some(score)) = score(tx, (&key, set.ty), members.at(place).0) else { continue };
            match op {
                Op::Inter => members.meet_at(place, round, |old| {
                    let shares = weights.iter().map(|weight| aggregate.share(*weight, score));
                    shares.fold(old, |sum, new| aggregate.fold(sum, new))
                }),
                Op::Diff => members.strike_at(place),
                Op::Union => unreachable!("a union reads all sets"),
            }
        }
        self.stage = if end < members.len() { Stage::Ask(number, end) } else { Stage::Ask(number + 1, 0) };
        Progress::More
    }

    /// Ends the watching: all sets were asked, or one has changed.
    fn end_asking(&mut self, tx: &mut Tx<'_>) -> Progress {
        let shards: ShardSet = self.asked.iter().map(|set| tx.shard_of_bytes(&set.name)).collect();
        if !self.sources.try_hold(tx, &shards) {
            return Progress::Busy;
        }
        if self.sources.end(tx) {
            return Progress::Anew;
        }
        self.stage = Stage::Pick(0);
        Progress::More
    }

    /// Picks the members of the result, some of all.
    fn pick(&mut self, from: usize) -> CmdResult {
        let sets = self.parts.len() + self.asked.len();
        let wanted = if self.op == Op::Inter { sets as u32 - 1 } else { 0 };
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
            Stage::Ask(number, from) => return self.ask(tx, number, from),
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

    fn sources(&self) -> Option<&Sources> {
        self.result.sources().or(Some(&self.sources))
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.sources.abandon(worker);
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
