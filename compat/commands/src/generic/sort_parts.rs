//! SORT of a long collection over several turns, where no pattern leads to other keys.
//!
//! ```text
//!  shard held: some elements .. all of them      none held: weights ..   order ..   reply ..
//! ```
//! The elements are those of the instant at which the command began. Not here: what is asked for (`sort`), and how two
//! elements compare (`sort_rows`).

use std::ops::Range;

use varve_exec::{CmdResult, Ongoing, Progress};
use varve_protocol::Reply;
use varve_store::{ReadOn, Tx, ValuePart, WholeReader};

use super::order::OrderInSteps;
use super::sort_rows::{Items, Weights, score};
use crate::errors;

/// Elements that are weighed in one step.
const WEIGH: usize = 4096;
/// Elements, and about their bytes, that one step replies with.
const REPLY: usize = 4096;
const REPLY_BYTES: usize = 128 << 10;

/// The wishes of a SORT that follows no pattern to another key.
#[derive(Clone, Debug)]
pub(super) struct Wishes {
    pub(super) descending: bool,
    pub(super) alpha: bool,
    /// The elements stay in the order that they have, or the reverse.
    pub(super) as_is: bool,
    /// The offset and the number that LIMIT wants.
    pub(super) limits: (i64, i64),
    /// One value an element and GET: the element, or nothing. Without any, the element.
    pub(super) get: Vec<bool>,
}

/// The part of `len` elements that LIMIT leaves.
pub(super) fn limited((offset, count): (i64, i64), len: usize) -> Range<usize> {
    let start = usize::try_from(offset).unwrap_or(0).min(len);
    let count = usize::try_from(count).unwrap_or(len).min(len - start);
    start..start + count
}

/// A SORT that is under way.
pub(super) struct LongSort {
    wishes: Wishes,
    items: Items,
    weights: Weights,
    order: OrderInSteps,
    stage: Stage,
}

/// How far it has come.
enum Stage {
    Read(WholeReader),
    Weigh,
    Order,
    /// The places in the order that are still to be replied.
    Reply(Range<usize>),
}

impl LongSort {
    pub(super) fn new(reader: WholeReader, wishes: Wishes) -> LongSort {
        let weights = if wishes.alpha { Weights::Themselves } else { Weights::Scores(Vec::new()) };
        let stage = Stage::Read(reader);
        LongSort { wishes, items: Items::default(), weights, order: OrderInSteps::default(), stage }
    }

    /// Weighs some more elements.
    fn weigh(&mut self) -> CmdResult {
        let len = self.items.len();
        for at in self.order.len()..len.min(self.order.len() + WEIGH) {
            if let Weights::Scores(scores) = &mut self.weights {
                scores.push(score(self.items.get(at)).ok_or(errors::SORT_NO_SCORE)?);
            }
            self.order.push(at);
        }
        if self.order.len() == len {
            self.stage = Stage::Order;
        }
        Ok(())
    }

    fn begin_reply(&mut self, out: &mut Reply) {
        let shown = limited(self.wishes.limits, self.items.len());
        out.array(shown.len() * self.wishes.get.len().max(1));
        self.stage = Stage::Reply(shown);
    }

    fn reply(&mut self, out: &mut Reply) -> Progress {
        let LongSort { wishes, items, order, stage, .. } = self;
        let Stage::Reply(left) = stage else { unreachable!("its head was replied") };
        let full = out.len() + REPLY_BYTES;
        for place in left.by_ref().take(REPLY) {
            let at = match (wishes.as_is, wishes.descending) {
                (false, _) => order.at(place),
                (true, false) => place,
                (true, true) => items.len() - 1 - place,
            };
            let item = items.get(at);
            if wishes.get.is_empty() {
                out.bulk(item);
            }
            wishes.get.iter().for_each(|&itself| if itself { out.bulk(item) } else { out.null() });
            if out.len() >= full {
                break;
            }
        }
        if left.start < left.end { Progress::More } else { Progress::Done }
    }
}

impl Ongoing for LongSort {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        match &mut self.stage {
            Stage::Read(reader) => {
                let items = &mut self.items;
                let read = tx.read_whole_on(reader, |part| {
                    let (ValuePart::Element(element) | ValuePart::Scored(element, _)) = part else {
                        unreachable!("hashes and strings are not sorted")
                    };
                    items.push(element);
                });
                tx.release();
                match read {
                    ReadOn::Busy => return Progress::Busy,
                    ReadOn::More(_) => {}
                    ReadOn::All if self.wishes.as_is => self.begin_reply(out),
                    ReadOn::All => self.stage = Stage::Weigh,
                }
            }
            Stage::Weigh => {
                if let Err(error) = self.weigh() {
                    return Progress::Failed(error);
                }
            }
            Stage::Order => {
                let LongSort { wishes, items, weights, order, .. } = self;
                if order.step(|a, b| weights.compare(items, (a, b), wishes.descending)) {
                    self.begin_reply(out);
                }
            }
            Stage::Reply(_) => return self.reply(out),
        }
        Progress::More
    }

    fn writes(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        self.items.held_bytes() + self.weights.held_bytes() + self.order.held_bytes()
    }

    fn kept_bytes(&self) -> usize {
        if let Stage::Read(reader) = &self.stage { reader.kept_bytes() } else { 0 }
    }
}
