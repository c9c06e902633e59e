//! SORT of a long collection over several turns, where no pattern leads to other keys.
//!
//! ```text
//!  shard held: some elements .. all of them      none held: weights ..   order ..   reply ..
//! ```
//! The elements are those of the instant at which the command began. Not here: what is asked for (`sort`), and how two
//! elements compare (`sort_rows`).

use std::ops::Range;

use varve_exec::notify::Class;
use varve_exec::{CmdResult, Ongoing, Progress};
use varve_protocol::Reply;
use varve_store::{ReadOn, StoreWorker, Tx, ValuePart, WholeReader};

use super::building::{Building, Report};
use super::order::OrderInSteps;
use super::sort_rows::{Items, Weights, score};
use crate::errors;

/// Elements that are weighed in one step.
const WEIGH: usize = 4096;
/// Elements, and about their bytes, that one step replies with.
const REPLY: usize = 4096;
const REPLY_BYTES: usize = 128 << 10;
/// Elements that one step takes to those that are to be stored.
const STORE: usize = 1024;

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
    /// The list that is stored.
    building: Option<Building>,
    stage: Stage,
}

/// How far it has come.
enum Stage {
    Read(WholeReader),
    Weigh,
    Order,
    /// The places in the order that are still to be replied, or stored.
    Reply(Range<usize>),
}

impl LongSort {
    pub(super) fn new(reader: WholeReader, wishes: Wishes) -> LongSort {
        let weights = if wishes.alpha { Weights::Themselves } else { Weights::Scores(Vec::new()) };
        let stage = Stage::Read(reader);
        LongSort { wishes, items: Items::default(), weights, order: OrderInSteps::default(), building: None, stage }
    }

    /// Has the result stored.
    pub(super) fn store_in(&mut self, building: Building) {
        self.building = Some(building);
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
        if self.building.is_none() {
            out.array(shown.len() * self.wishes.get.len().max(1));
        }
        self.stage = Stage::Reply(shown);
    }

    /// The element at a place of the result.
    fn at(&self, place: usize) -> &[u8] {
        let at = match (self.wishes.as_is, self.wishes.descending) {
            (false, _) => self.order.at(place),
            (true, false) => place,
            (true, true) => self.items.len() - 1 - place,
        };
        self.items.get(at)
    }

    /// Stores some more elements, and ends with the change of the key.
    fn store(&mut self, tx: &mut Tx<'_>, mut building: Building, out: &mut Reply) -> Progress {
        let Stage::Reply(left) = &self.stage else { unreachable!("the elements are in order") };
        let (start, end) = (left.start, left.end);
        let progress = if start == end {
            let report = Report { each_counts: true, ..Report::new(Class::List, "sortstore") };
            building.publish(tx, &report, |_, _| (), out)
        } else if building.is_full(tx) {
            building.add_on(tx)
        } else {
            let next = end.min(start + STORE);
            for item in (start..next).map(|place| self.at(place)) {
                if self.wishes.get.is_empty() {
                    building.push(item);
                }
                self.wishes.get.iter().for_each(|&itself| building.push(if itself { item } else { b"" }));
            }
            self.stage = Stage::Reply(next..end);
            Progress::More
        };
        self.building = Some(building);
        progress
    }

    fn reply(&mut self, out: &mut Reply) -> Progress {
        let Stage::Reply(left) = &self.stage else { unreachable!("its head was replied") };
        let (mut next, end, full) = (left.start, left.end, out.len() + REPLY_BYTES);
        for _ in 0..REPLY.min(end - next) {
            let item = self.at(next);
            next += 1;
            if self.wishes.get.is_empty() {
                out.bulk(item);
            }
            self.wishes.get.iter().for_each(|&itself| if itself { out.bulk(item) } else { out.null() });
            if out.len() >= full {
                break;
            }
        }
        self.stage = Stage::Reply(next..end);
        if next < end { Progress::More } else { Progress::Done }
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
            Stage::Reply(_) => match self.building.take() {
                Some(building) => return self.store(tx, building, out),
                None => return self.reply(out),
            },
        }
        Progress::More
    }

    fn writes(&self) -> bool {
        self.building.is_some()
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        if let Some(building) = &mut self.building {
            building.abandon(worker);
        }
    }

    fn held_bytes(&self) -> usize {
        let building = self.building.as_ref().map_or(0, Building::held_bytes);
        self.items.held_bytes() + self.weights.held_bytes() + self.order.held_bytes() + building
    }

    fn kept_bytes(&self) -> usize {
        if let Stage::Read(reader) = &self.stage { reader.kept_bytes() } else { 0 }
    }
}
