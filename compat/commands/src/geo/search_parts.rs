//! A search in a large sorted set, over several turns.
//!
//! ```text
//!  shard held: members of a span near the area    none held: their distances    ..    order ..    reply, or what is stored ..
//! ```
//! The members are those of the instant at which the command began: each span of ranks has a reader. Not here: which spans
//! (`find`), and what a member's reply is (`mod`).

use std::collections::VecDeque;

use varve_exec::notify::Class;
use varve_exec::{CmdResult, Ongoing, Progress, Sources};
use varve_protocol::Reply;
use varve_store::{ReadOn, StoreWorker, Tx, ZsetReader};

use super::cell::Point;
use super::find::{Found, Harvest};
use super::query::{Order, Query};
use super::reply_found;
use super::shape::Window;
use crate::generic::building::{Building, MaybeStored, Report};
use crate::generic::order::OrderInSteps;

/// Members whose numbers one step takes to those that are put in order.
const NUMBERED: usize = 8192;
/// Members that one step replies with, or takes to those that are to be stored; a position is some 1 us of digits.
const SHOWN: usize = 256;

/// A search that is under way.
pub(super) struct LongSearch {
    query: Query,
    window: Window,
    /// Of the spans that are still to be looked through, in their order.
    readers: VecDeque<ZsetReader>,
    /// The members of the last hold that may be in the area.
    near: Near,
    harvest: Harvest,
    order: OrderInSteps,
    /// Where the members go, and the event of a sorted set that is stored.
    result: MaybeStored,
    event: &'static str,
    stage: Stage,
}

/// How far it has come.
enum Stage {
    Read,
    Order,
    /// The place of the member that is replied, or stored, next.
    Show(usize),
}

/// Members with their scores.
#[derive(Default)]
struct Near {
    bytes: Vec<u8>,
    /// The end of each in the bytes.
    members: Vec<(usize, f64)>,
}

impl Near {
    fn push(&mut self, member: &[u8], score: f64) {
        self.bytes.extend_from_slice(member);
        self.members.push((self.bytes.len(), score));
    }
}

impl LongSearch {
    pub(super) fn new(query: Query, readers: Vec<ZsetReader>, event: &'static str) -> LongSearch {
        LongSearch {
            window: query.shape.window(),
            query,
            readers: readers.into(),
            near: Near::default(),
            harvest: Harvest::default(),
            order: OrderInSteps::default(),
            result: MaybeStored::default(),
            event,
            stage: Stage::Read,
        }
    }

    /// Has the result stored.
    pub(super) fn store_in(&mut self, building: Building) {
        self.result.store_in(building);
    }

    /// Looks through some more members.
    fn read(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let LongSearch { readers, near, window, .. } = self;
        let Some(reader) = readers.front_mut() else {
            self.stage = Stage::Order;
            if self.query.order == Order::Found {
                self.begin_reply(out);
            }
            return Progress::More;
        };
        // The distance takes several times as long as this look, and is computed without the shard.
        let read = tx.read_members_on(reader, |member, score| {
            if window.has(Point::of_score(score)) {
                near.push(member, score);
            }
        });
        tx.release();
        match read {
            ReadOn::Busy => return Progress::Busy,
            ReadOn::More(_) => {}
            ReadOn::All => _ = readers.pop_front(),
        }
        self.measure();
        Progress::More
    }

    /// Takes those of the members of the last hold that are in the area.
    fn measure(&mut self) {
        let LongSearch { query, near, harvest, .. } = self;
        let wanted = query.count.unwrap_or(usize::MAX);
        let most = if query.any { wanted } else { usize::MAX };
        let mut start = 0;
        for &(end, score) in &near.members {
            let point = Point::of_score(score);
            if harvest.len() < most
                && let Some(metres) = query.shape.distance_inside(point)
            {
                harvest.push(&near.bytes[start..end], score, point, metres);
            }
            start = end;
        }
        near.bytes.clear();
        near.members.clear();
        if harvest.len() >= most {
            self.readers.clear();
        } else {
            harvest.thin(query.order, wanted);
        }
    }

    /// Puts the members in order, some more.
    fn arrange(&mut self, out: &mut Reply) -> CmdResult {
        let LongSearch { harvest, order, query, .. } = self;
        let (numbered, wanted) = (order.len(), query.count.unwrap_or(usize::MAX));
        if harvest.has_peer_order(query.order, wanted) {
            harvest.arrange(query.order, wanted);
            query.order = Order::Found;
            self.begin_reply(out);
        } else if numbered < harvest.len() {
            (numbered..harvest.len().min(numbered + NUMBERED)).try_for_each(|number| order.push(number))?;
        } else if order.step(|a, b| harvest.compare((a, b), query.order)) {
            self.begin_reply(out);
        }
        Ok(())
    }

    /// Number of members that are replied or stored.
    fn wanted(&self) -> usize {
        self.query.count.unwrap_or(usize::MAX).min(self.harvest.len())
    }

    fn begin_reply(&mut self, out: &mut Reply) {
        if !self.result.is_stored() {
            out.array(self.wanted());
        }
        self.stage = Stage::Show(0);
    }

    /// The member at a place of the result.
    fn at(&self, place: usize) -> (&[u8], Found) {
        self.harvest.at(if self.query.order == Order::Found { place } else { self.order.at(place) })
    }

    fn reply(&mut self, next: usize, out: &mut Reply) -> Progress {
        let end = self.wanted().min(next + SHOWN);
        (next..end).for_each(|place| reply_found(out, &self.query, self.at(place)));
        self.stage = Stage::Show(end);
        if end < self.wanted() { Progress::More } else { Progress::Done }
    }

    /// Stores some more members, and ends with the change of the key.
    fn store(&mut self, next: usize, tx: &mut Tx<'_>, mut building: Building, out: &mut Reply) -> Progress {
        let end = self.wanted();
        let progress = if next == end {
            building.publish(tx, &Report::new(Class::Zset, self.event), |_, _| (), out)
        } else if building.is_full(tx) {
            building.add_on(tx)
        } else {
            let (end, unit) = (end.min(next + SHOWN), self.query.shape.unit);
            let distances = self.query.destination.is_some_and(|destination| destination.distances);
            for (member, found) in (next..end).map(|place| self.at(place)) {
                building.push_scored(member, if distances { found.metres / unit } else { found.score });
            }
            self.stage = Stage::Show(end);
            Progress::More
        };
        self.result.store_in(building);
        progress
    }
}

impl Ongoing for LongSearch {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        match self.stage {
            Stage::Read => return self.read(tx, out),
            Stage::Order => {
                if let Err(too_many) = self.arrange(out) {
                    return Progress::Failed(too_many);
                }
            }
            Stage::Show(next) => match self.result.take() {
                Some(building) => return self.store(next, tx, building, out),
                None => return self.reply(next, out),
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
        let stored = self.result.held_bytes();
        self.near.bytes.capacity() + self.harvest.held_bytes() + self.order.held_bytes() + stored
    }

    fn kept_bytes(&self) -> usize {
        self.readers.iter().map(ZsetReader::kept_bytes).sum()
    }
}
