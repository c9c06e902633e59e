//! SORT of a long collection, or of one that is shown with many patterns, over several turns.
//!
//! ```text
//!  shard held: some elements .. all of them      none held: weights ..   order ..   reply ..
//!                                                patterns that lead to keys, one shard held: weights ..   values ..
//! ```
//! The elements are those of the instant at which the command began. Not here: what is asked for (`sort`), how two
//! elements compare (`sort_rows`), and other keys (`sort_far`).

use std::ops::Range;

use varve_exec::notify::Class;
use varve_exec::{CmdResult, Ongoing, Progress, Sources};
use varve_protocol::Reply;
use varve_store::{ReadOn, StoreWorker, Tx, ValuePart, WholeReader};

use super::building::{Building, MaybeStored, Report};
use super::order::OrderInSteps;
use super::sort_far::Far;
use super::sort_rows::{Items, Weights, score};
use crate::errors;

/// Elements that are weighed in one step.
const WEIGH: usize = 4096;
/// Elements, and about their bytes, that one step replies with.
const REPLY: usize = 4096;
const REPLY_BYTES: usize = 128 << 10;
/// Elements, or values that are shown of them, that one step takes to those that are to be stored.
const STORE: usize = 1024;

/// The wishes of a SORT, but for patterns that lead to keys.
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
    /// The keys to which patterns lead, if there are such patterns.
    far: Option<Far>,
    /// Where the elements go: to the client, or to a list that is stored.
    result: MaybeStored,
    stage: Stage,
}

/// The elements that are sorted.
pub(super) enum Elements {
    /// They are still to be read.
    Reader(WholeReader),
    /// They are few, and here.
    Loaded(Items),
}

/// How far it has come.
enum Stage {
    /// The names of other keys are not watched in all shards yet.
    Watch(Elements),
    Read(WholeReader),
    Weigh,
    Order,
    /// The values of other keys are fetched.
    Fetch,
    /// The places in the order that are still to be replied, or stored.
    Reply(Range<usize>),
}

impl LongSort {
    pub(super) fn new(elements: Elements, wishes: Wishes, far: Option<Far>) -> LongSort {
        let weights = match (wishes.alpha, &far) {
            (false, _) => Weights::Scores(Vec::new()),
            (true, Some(far)) if far.weighs() => Weights::Texts { texts: Items::default(), there: Vec::new() },
            (true, _) => Weights::Themselves,
        };
        let (is_far, items, order) = (far.is_some(), Items::default(), OrderInSteps::default());
        let (result, stage) = (MaybeStored::default(), Stage::Weigh);
        let mut sort = LongSort { wishes, items, weights, order, far, result, stage };
        if is_far {
            sort.stage = Stage::Watch(elements);
        } else {
            sort.take(elements);
        }
        sort
    }

    /// Goes on with the elements.
    fn take(&mut self, elements: Elements) {
        match elements {
            Elements::Reader(reader) => self.stage = Stage::Read(reader),
            Elements::Loaded(items) => (self.items, self.stage) = (items, Stage::Weigh),
        }
    }

    /// Has the result stored.
    pub(super) fn store_in(&mut self, mut building: Building) {
        if let Some(far) = &self.far {
            building.follow_names(far.names().clone());
        }
        self.result.store_in(building);
    }

    /// Has more shards know which names are watched; then the elements are read.
    fn watch(&mut self, tx: &mut Tx<'_>) -> Progress {
        let far = self.far.as_mut().expect("names are watched for patterns");
        match far.watch(tx) {
            // A list that is stored is made anew at its end, where its watching ends.
            Some(Progress::Anew) if self.result.is_stored() => {}
            Some(progress) => return progress,
            None => {}
        }
        if let Stage::Watch(elements) = std::mem::replace(&mut self.stage, Stage::Weigh) {
            self.take(elements);
        }
        Progress::More
    }

    /// Weighs some more elements.
    fn weigh(&mut self) -> CmdResult {
        let len = self.items.len();
        for at in self.order.len()..len.min(self.order.len() + WEIGH) {
            if let Weights::Scores(scores) = &mut self.weights {
                scores.push(score(self.items.get(at)).ok_or(errors::SORT_NO_SCORE)?);
            }
            self.order.push(at)?;
        }
        if self.order.len() == len {
            self.stage = Stage::Order;
        }
        Ok(())
    }

    /// Weighs some more elements by other keys.
    fn weigh_far(&mut self, tx: &mut Tx<'_>) -> Progress {
        let LongSort { items, weights, order, far, result, .. } = self;
        let far = far.as_mut().expect("BY leads to keys");
        let from = order.len();
        let Some(weighed) = far.weigh(tx, items, from, weights) else { return Progress::Busy };
        if let Err(too_many) = (from..from + weighed).try_for_each(|at| order.push(at)) {
            return Progress::Failed(too_many);
        }
        if order.len() < items.len() {
            return Progress::More;
        }
        if far.has_fault() {
            return match result.building() {
                _ if !far.names().is_touched() => Progress::Failed(errors::SORT_NO_SCORE),
                // The text that is no number may have been one at the instant of the command.
                Some(building) => building.begin_anew(tx),
                None => Progress::Anew,
            };
        }
        self.stage = Stage::Order;
        Progress::More
    }

    /// The elements are in order.
    fn follow_order(&mut self, out: &mut Reply) -> Progress {
        if self.far.as_ref().is_some_and(Far::shows) {
            self.stage = Stage::Fetch;
            return Progress::More;
        }
        self.begin_reply(out)
    }

    /// Fetches some more values of other keys.
    fn fetch(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let mut far = self.far.take().expect("GET leads to keys");
        let shown = limited(self.wishes.limits, self.items.len());
        let progress = far.fetch(tx, shown.len(), |place| self.at(shown.start + place));
        self.far = Some(far);
        progress.unwrap_or_else(|| self.begin_reply(out))
    }

    fn begin_reply(&mut self, out: &mut Reply) -> Progress {
        let shown = limited(self.wishes.limits, self.items.len());
        if !self.result.is_stored() {
            if self.far.as_ref().is_some_and(|far| far.names().is_touched()) {
                return Progress::Anew;
            }
            out.array(shown.len() * self.values_each());
        }
        self.stage = Stage::Reply(shown);
        Progress::More
    }

    /// Values that each element is shown with.
    fn values_each(&self) -> usize {
        let far = self.far.as_ref().map_or(0, Far::values_each);
        self.wishes.get.len().max(far).max(1)
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
            let next = end.min(start + (STORE / self.values_each()).max(1));
            let first = limited(self.wishes.limits, self.items.len()).start;
            for place in start..next {
                let item = self.at(place);
                if let Some(far) = self.far.as_ref().filter(|far| far.shows()) {
                    far.store(place - first, &mut building);
                    continue;
                }
                if self.wishes.get.is_empty() {
                    building.push(item);
                }
                self.wishes.get.iter().for_each(|&itself| building.push(if itself { item } else { b"" }));
            }
            self.stage = Stage::Reply(next..end);
            Progress::More
        };
        self.result.store_in(building);
        progress
    }

    fn reply(&mut self, out: &mut Reply) -> Progress {
        let Stage::Reply(left) = &self.stage else { unreachable!("its head was replied") };
        let (mut next, end, full) = (left.start, left.end, out.len() + REPLY_BYTES);
        let first = limited(self.wishes.limits, self.items.len()).start;
        for _ in 0..REPLY.min(end - next) {
            let item = self.at(next);
            next += 1;
            match self.far.as_ref().filter(|far| far.shows()) {
                Some(far) => far.reply(next - 1 - first, out),
                None if self.wishes.get.is_empty() => out.bulk(item),
                None => self.wishes.get.iter().for_each(|&itself| if itself { out.bulk(item) } else { out.null() }),
            }
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
            Stage::Watch(_) => return self.watch(tx),
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
                    ReadOn::All => self.stage = Stage::Weigh,
                }
            }
            Stage::Weigh if self.wishes.as_is => return self.follow_order(out),
            Stage::Weigh if self.far.as_ref().is_some_and(Far::weighs) => return self.weigh_far(tx),
            Stage::Weigh => {
                if let Err(error) = self.weigh() {
                    return Progress::Failed(error);
                }
            }
            Stage::Order => {
                let LongSort { wishes, items, weights, order, .. } = self;
                if order.step(|a, b| weights.compare(items, (a, b), wishes.descending)) {
                    return self.follow_order(out);
                }
            }
            Stage::Fetch => return self.fetch(tx, out),
            Stage::Reply(_) => match self.result.take() {
                Some(building) => return self.store(tx, building, out),
                None => return self.reply(out),
            },
        }
        Progress::More
    }

    fn writes(&self) -> bool {
        self.result.is_stored()
    }

    fn sources(&self) -> Option<&Sources> {
        self.result.sources()
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.result.abandon(worker);
    }

    fn held_bytes(&self) -> usize {
        let far = self.far.as_ref().map_or(0, Far::held_bytes);
        let loaded = if let Stage::Watch(Elements::Loaded(items)) = &self.stage { items.held_bytes() } else { 0 };
        far + loaded
            + self.items.held_bytes()
            + self.weights.held_bytes()
            + self.order.held_bytes()
            + self.result.held_bytes()
    }

    fn kept_bytes(&self) -> usize {
        match &self.stage {
            Stage::Watch(Elements::Reader(reader)) | Stage::Read(reader) => reader.kept_bytes(),
            _ => 0,
        }
    }
}
