//! Commands on their way from the router to the workers.
//!
//! ```text
//!  lane 0   front [1: lane 0] [3: lanes 0 1] [4: lane 0]        work number: lanes that it is of
//!  lane 1   front [2: lane 1] [3: lanes 0 1]                    work 3 stands in both; its commands are in the first
//!  lane 2   front [5: lane 2]                                   ready: 1, 2 and 5. Work 3 is when both its lanes have come to it
//! ```
//! Of several workers each has lanes of its own: eight, and fewer beyond eight workers, since there are [`LANES_MAX`] in all. Of the
//! works that are ready in its own lanes it takes the first in the stream; where there is none, of those in other workers' lanes. It is
//! woken for its own only. With one lane a worker each command of several lanes was a meeting: either worker slept until the other
//! had come, and a stream in which one command in a hundred has two keys was applied by two workers at 0.85 of the rate of one.
//!
//! Commands that publish messages follow all before them in the stream: whoever learns of something by a message finds it here. No
//! command waits for them but those of their own lanes.
//!
//! One lock holds all of it: it is taken twice for a work.
//!
//! The works that come at once are a round, which ends where a command of the stream does. While the lanes run, what is applied
//! is no beginning of the stream: one lane is ahead of another. Whoever needs that has no new round begun ([`Applier::hold`]),
//! and waits for the end of those that are.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use parking_lot::Condvar;
use varve_base::shared::{SharedMutex, SharedUsize};

/// Lanes at most: a set of them is one word.
pub const LANES_MAX: usize = u64::BITS as usize;

/// Lanes of a worker, where there are several workers: enough that one of them may run while others wait for a common command.
const LANES_PER_WORKER: usize = 8;

/// Bytes of commands that wait for the workers; a longer command waits alone.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// The router that waited for room is woken when no more than this waits: not for each piece.
const WAITING_BYTES_LOW: usize = 6 << 20;

/// Bytes of the buffers that wait to be filled again at the router, and of those that wait for it while no commands do.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// A buffer of fewer or of more bytes than these is freed: a large one would count for the few commands that are in it next.
const SPARE_BYTES_EACH: std::ops::RangeInclusive<usize> = 4 << 10..=128 << 10;

/// Some lanes or workers, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumberSet(u64);

/// Some lanes.
pub(super) type LaneSet = NumberSet;

/// Some workers that apply a stream.
pub type WorkerSet = NumberSet;

impl NumberSet {
    /// All numbers below `count`.
    pub(super) fn all(count: usize) -> NumberSet {
        NumberSet(u64::MAX >> (LANES_MAX - count))
    }

    /// This number alone.
    pub(super) fn one(number: usize) -> NumberSet {
        NumberSet(1 << number)
    }

    pub(super) fn add(&mut self, others: NumberSet) {
        self.0 |= others.0;
    }

    /// True if this number is one of them.
    fn has(self, number: usize) -> bool {
        self.0 & 1 << number != 0
    }

    /// The lowest one, if there is one.
    pub(super) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// The only one; None if there are more or none.
    pub(super) fn only(self) -> Option<usize> {
        self.first().filter(|first| self == NumberSet::one(*first))
    }

    /// The numbers, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(self.0), |rest| Some(rest & rest.wrapping_sub(1)))
            .take_while(|rest| *rest != 0)
            .map(|rest| rest.trailing_zeros() as usize)
    }
}

/// Whole commands, one behind the other, for some lanes.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    /// The stretches of one database each: where a stretch ends in the bytes, and the database selected at its front.
    pub(super) stretches: Vec<(usize, u32)>,
    /// Where each command stands in the stream.
    pub(super) offsets: Vec<u64>,
    /// They run when everything before this offset is applied: that of the last one of them that publishes a message.
    pub(super) follows: Option<u64>,
}

impl Chunk {
    /// Bytes of memory.
    fn memory(&self) -> usize {
        let places = self.offsets.capacity() * size_of::<u64>() + self.stretches.capacity() * size_of::<(usize, u32)>();
        self.bytes.capacity() + places
    }

    /// Whether it has no buffer.
    pub(super) fn is_bare(&self) -> bool {
        self.bytes.capacity() == 0
    }

    /// Nothing, in these buffers.
    fn emptied(mut self) -> Chunk {
        self.bytes.clear();
        self.stretches.clear();
        self.offsets.clear();
        self.follows = None;
        self
    }
}

/// See the module's picture.
#[derive(Debug)]
struct Work {
    number: u64,
    /// Where its first command stands in the stream.
    offset: u64,
    lanes: LaneSet,
    follows: Option<u64>,
    /// The number of its round, from 1.
    round: u64,
    /// In the first of its lanes.
    chunk: Option<Chunk>,
}

#[derive(Debug, Default)]
struct Waiting {
    works: VecDeque<Work>,
    /// The offset of the work that runs.
    running: Option<u64>,
}

impl Waiting {
    /// Where its first command that is not applied stands in the stream.
    fn first(&self) -> Option<u64> {
        self.running.or_else(|| self.works.front().map(|work| work.offset))
    }
}

/// A command that was refused, where it stands, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) offset: u64,
    pub(super) reason: String,
}

/// Errors of scripts and transactions that were passed over: see [`Applier::forgiving`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgiven {
    /// How many commands were answered so.
    pub commands: u64,
    /// The first of them in the stream: where it stands, and its error in words.
    pub first: Option<(u64, String)>,
}

impl Forgiven {
    /// One more, which stands at this offset.
    pub(super) fn add(&mut self, offset: u64, text: String) {
        self.merge(Forgiven { commands: 1, first: Some((offset, text)) });
    }

    fn merge(&mut self, other: Forgiven) {
        self.commands += other.commands;
        self.first = self.first.take().into_iter().chain(other.first).min_by_key(|(offset, _)| *offset);
    }
}

#[derive(Debug)]
struct State {
    lanes: Vec<Waiting>,
    /// Works so far.
    number: u64,
    /// Rounds so far, and those of them that have begun.
    rounds: u64,
    begun: u64,
    /// No further round begins.
    held: bool,
    waiting_bytes: usize,
    /// Empty chunks whose buffers the router fills again, and how many bytes they have, with those that are full
    /// [`WAITING_BYTES_MAX`] at most: a buffer that one thread takes from the allocator and another gives back costs both.
    spare: Vec<Chunk>,
    spare_bytes: usize,
    /// Up to here the stream was routed.
    routed: u64,
    refused: Option<Refused>,
    forgiven: Forgiven,
    /// Nobody runs anything any more.
    stopped: bool,
}

impl State {
    /// The work that is next in a lane, if it may run now.
    fn ready(&self, lane: usize) -> Option<&Work> {
        let work = self.lanes[lane].works.front()?;
        let is_next = |lane: usize| {
            let waiting = &self.lanes[lane];
            waiting.running.is_none() && waiting.works.front().is_some_and(|next| next.number == work.number)
        };
        let is_ahead = |lane: usize| self.lanes[lane].first().is_none_or(|first| Some(first) >= work.follows);
        let others = || (0..self.lanes.len()).filter(|lane| !work.lanes.has(*lane));
        let is_ready = !(self.held && work.round > self.begun)
            && work.lanes.iter().all(is_next)
            && (work.follows.is_none() || others().all(is_ahead));
        is_ready.then_some(work)
    }

    /// Takes the next work of a lane, which may run now.
    fn begin(&mut self, lane: usize) -> (LaneSet, Chunk) {
        let Work { offset, lanes, round, .. } = *self.ready(lane).expect("what begins is ready");
        self.begun = self.begun.max(round);
        let mut chunk = None;
        for lane in lanes.iter() {
            self.lanes[lane].running = Some(offset);
            let work = self.lanes[lane].works.pop_front().expect("the work is at the front");
            chunk = chunk.or(work.chunk);
        }
        (lanes, chunk.expect("the first lane of a work has its commands"))
    }

    /// Everything before this offset of the stream is applied: nothing behind a command that was refused.
    fn applied(&self) -> u64 {
        let refused = self.refused.iter().map(|refused| refused.offset);
        self.lanes.iter().filter_map(Waiting::first).chain(refused).fold(self.routed, u64::min)
    }

    /// The lane among these whose next work may run now, and stands before the others' in the stream.
    fn first_ready(&self, lanes: impl Iterator<Item = usize>) -> Option<usize> {
        let mut first = (u64::MAX, None);
        for lane in lanes {
            // A work of all lanes stands in each, and is looked at once.
            let is_before = self.lanes[lane].works.front().is_some_and(|work| work.number < first.0);
            if is_before && let Some(work) = self.ready(lane) {
                first = (work.number, Some(lane));
            }
        }
        first.1
    }
}

/// The commands that wait for the workers: shared by the router and them.
#[derive(Debug)]
pub struct Applier {
    workers: usize,
    lanes: usize,
    state: SharedMutex<State>,
    changed: Condvar,
    /// Works that are not done: what idle workers ask.
    works: SharedUsize,
    /// Errors of scripts and transactions do not end the work.
    forgives: bool,
}

impl Applier {
    /// For this number of workers, for a file that may have what was done as it was asked for: scripts, and transactions of which
    /// a command failed. They fail again as they did when the file was written, and what they changed before that is changed
    /// again. Of any other command an error means that something is missing.
    pub fn forgiving(workers: usize) -> Applier {
        Applier { forgives: true, ..Applier::new(workers) }
    }

    /// For this number of workers, from 1; [`LANES_MAX`] at most have something to do.
    pub fn new(workers: usize) -> Applier {
        let workers = workers.clamp(1, LANES_MAX);
        let lanes = if workers == 1 { 1 } else { (workers * LANES_PER_WORKER).min(LANES_MAX) };
        Applier::with_lanes(workers, lanes)
    }

    fn with_lanes(workers: usize, lanes: usize) -> Applier {
        assert!(workers <= lanes && lanes <= LANES_MAX, "each worker has a lane");
        let state = State {
            lanes: (0..lanes).map(|_| Waiting::default()).collect(),
            number: 0,
            rounds: 0,
            begun: 0,
            held: false,
            waiting_bytes: 0,
            spare: Vec::new(),
            spare_bytes: 0,
            routed: 0,
            refused: None,
            forgiven: Forgiven::default(),
            stopped: false,
        };
        let (state, changed) = (SharedMutex::new(state), Condvar::new());
        Applier { workers, lanes, state, changed, works: SharedUsize::new(0), forgives: false }
    }

    /// True if errors of scripts and transactions do not end the work.
    pub(super) fn forgives(&self) -> bool {
        self.forgives
    }

    /// Notes errors that were passed over.
    #[cold]
    pub(super) fn forgive(&self, errors: Forgiven) {
        self.state.lock().forgiven.merge(errors);
    }

    /// The errors that were passed over since the last call.
    pub fn take_forgiven(&self) -> Forgiven {
        std::mem::take(&mut self.state.lock().forgiven)
    }

    /// Number of workers: those whose numbers are below it take part.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Number of lanes.
    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    /// The workers that these lanes belong to.
    fn workers_of(&self, lanes: LaneSet) -> WorkerSet {
        let mut workers = WorkerSet::default();
        lanes.iter().for_each(|lane| workers.add(WorkerSet::one(lane % self.workers)));
        workers
    }

    /// A stream begins at this offset. The one before was finished.
    pub fn begin(&self, offset: u64) {
        let mut state = self.state.lock();
        assert!(self.works.load(Relaxed) == 0, "a stream begins when the one before it is applied");
        state.routed = offset;
        state.refused = state.refused.take().filter(|_| state.stopped);
    }

    /// Everything before this offset of the stream is applied.
    pub fn applied(&self) -> u64 {
        self.state.lock().applied()
    }

    /// Waits until there is room for more commands; false if one was refused, and no more are to come.
    pub fn wait_for_room(&self) -> bool {
        let mut state = self.state.lock();
        if state.waiting_bytes >= WAITING_BYTES_MAX {
            while state.waiting_bytes > WAITING_BYTES_LOW && state.refused.is_none() {
                self.changed.wait(&mut state);
            }
        }
        state.refused.is_none()
    }

    /// Waits at most this long until there is room for more commands; true if there is, or one was refused, and no more are to
    /// come.
    pub fn wait_for_room_within(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        let mut state = self.state.lock();
        if state.waiting_bytes >= WAITING_BYTES_MAX {
            let is_full = |state: &State| state.waiting_bytes > WAITING_BYTES_LOW && state.refused.is_none();
            while is_full(&state) {
                if self.changed.wait_until(&mut state, until).timed_out() {
                    return !is_full(&state);
                }
            }
        }
        true
    }

    /// Why the commands behind one are not run any more: it was refused.
    pub fn refusal(&self) -> Option<String> {
        self.state.lock().refused.as_ref().map(|refused| refused.reason.clone())
    }

    /// Has no further round begin until [`Applier::release`]. True if none is under way: all before [`Applier::applied`], and
    /// nothing behind it, is applied.
    pub fn hold(&self) -> bool {
        let mut state = self.state.lock();
        state.held = true;
        let begun = state.begun;
        let is_over =
            |lane: &Waiting| lane.running.is_none() && lane.works.front().is_none_or(|work| work.round > begun);
        state.lanes.iter().all(is_over)
    }

    /// Rounds may begin again, if [`Applier::hold`] was called. Returns the workers that have something to do then.
    pub fn release(&self) -> WorkerSet {
        let mut state = self.state.lock();
        let mut lanes = LaneSet::default();
        if std::mem::take(&mut state.held) {
            let waiting = state.lanes.iter().enumerate().filter(|(_, lane)| !lane.works.is_empty());
            waiting.for_each(|(lane, _)| lanes.add(LaneSet::one(lane)));
        }
        self.workers_of(lanes)
    }

    /// Waits until everything that was routed is applied.
    ///
    /// # Errors
    /// A command was refused: why.
    pub fn finish(&self) -> Result<(), String> {
        loop {
            if let Some(result) = self.finish_within(Duration::MAX) {
                return result;
            }
        }
    }

    /// Waits at most this long until everything that was routed is applied; None if it is not.
    ///
    /// # Errors
    /// A command was refused: why.
    pub fn finish_within(&self, most: Duration) -> Option<Result<(), String>> {
        let until = Instant::now().checked_add(most);
        let mut state = self.state.lock();
        while self.works.load(Relaxed) > 0 && !state.stopped {
            match until {
                None => self.changed.wait(&mut state),
                Some(until) if self.changed.wait_until(&mut state, until).timed_out() => return None,
                Some(_) => {}
            }
        }
        Some(state.refused.as_ref().map_or(Ok(()), |refused| Err(refused.reason.clone())))
    }

    /// Nobody runs commands any more: whoever waits is told this reason.
    pub fn stop(&self, reason: &str) {
        let mut state = self.state.lock();
        state.stopped = true;
        let offset = state.applied();
        self.refuse(&mut state, Refused { offset, reason: reason.to_owned() });
        self.changed.notify_all();
    }

    /// Puts works behind the others; the stream is routed up to `routed`. Gives the workers that have something to do, and puts
    /// empty chunks into `spare`, up to [`SPARE_BYTES_MAX`].
    pub(super) fn push(&self, works: &mut Vec<(LaneSet, Chunk)>, routed: u64, spare: &mut Vec<Chunk>) -> WorkerSet {
        let mut state = self.state.lock();
        // They stand behind what was refused.
        let refused = state.refused.is_some();
        state.rounds += 1;
        let (round, mut all) = (state.rounds, LaneSet::default());
        for (lanes, chunk) in works.drain(..).filter(|_| !refused) {
            all.add(lanes);
            state.waiting_bytes += chunk.memory();
            state.number += 1;
            self.works.fetch_add(1, Relaxed);
            let (number, offset, follows) = (state.number, chunk.offsets[0], chunk.follows);
            let mut chunk = Some(chunk);
            for lane in lanes.iter() {
                let chunk = chunk.take();
                state.lanes[lane].works.push_back(Work { number, offset, lanes, follows, round, chunk });
            }
        }
        state.routed = routed;
        let mut bytes: usize = spare.iter().map(Chunk::memory).sum();
        while bytes < SPARE_BYTES_MAX
            && let Some(chunk) = state.spare.pop()
        {
            bytes += chunk.memory();
            state.spare_bytes -= chunk.memory();
            spare.push(chunk);
        }
        self.workers_of(all)
    }

    /// The next commands for a worker, and the lanes that they are of; None if none may run now. [`Applier::done`] follows.
    pub(super) fn take(&self, worker: usize) -> Option<(LaneSet, Chunk)> {
        if self.works.load(Relaxed) == 0 {
            return None;
        }
        let mut state = self.state.lock();
        let own = (worker..self.lanes).step_by(self.workers);
        let lane = state.first_ready(own).or_else(|| state.first_ready(0..self.lanes))?;
        Some(state.begin(lane))
    }

    /// Commands that were taken have run, or one of them was refused. Returns the workers that may go on.
    pub(super) fn done(&self, lanes: LaneSet, chunk: Chunk, result: Result<(), Refused>) -> WorkerSet {
        let mut state = self.state.lock();
        for lane in lanes.iter() {
            let was = state.lanes[lane].running.take();
            assert!(was.is_some(), "what is done was taken");
        }
        let (bytes, before) = (chunk.memory(), state.waiting_bytes);
        state.waiting_bytes -= bytes;
        let left = self.works.fetch_sub(1, Relaxed) - 1;
        let spare_max = if left == 0 { SPARE_BYTES_MAX } else { WAITING_BYTES_MAX.saturating_sub(state.waiting_bytes) };
        if SPARE_BYTES_EACH.contains(&bytes) {
            state.spare_bytes += bytes;
            state.spare.push(chunk.emptied());
        }
        while state.spare_bytes > spare_max {
            let chunk = state.spare.pop().expect("what has bytes is there");
            state.spare_bytes -= chunk.memory();
        }
        if let Err(refused) = result {
            self.refuse(&mut state, refused);
        }
        let has_room = before > WAITING_BYTES_LOW && state.waiting_bytes <= WAITING_BYTES_LOW;
        if state.refused.is_some() {
            self.changed.notify_all();
            return WorkerSet::all(self.workers);
        }
        if left == 0 || has_room {
            self.changed.notify_all();
        }
        let follows = |waiting: &Waiting| waiting.works.front().is_some_and(|work| work.follows.is_some());
        let mut ready = LaneSet::default();
        let waits = |lane: &usize| !state.lanes[*lane].works.is_empty();
        lanes.iter().filter(waits).for_each(|lane| ready.add(LaneSet::one(lane)));
        let following = state.lanes.iter().enumerate().filter(|(_, waiting)| follows(waiting));
        following.for_each(|(lane, _)| ready.add(LaneSet::one(lane)));
        self.workers_of(ready)
    }

    /// Keeps the refusal that stands first in the stream, and drops what stands behind it.
    fn refuse(&self, state: &mut State, refused: Refused) {
        if state.refused.as_ref().is_none_or(|first| refused.offset < first.offset) {
            state.refused = Some(refused);
        }
        let until = state.refused.as_ref().map_or(u64::MAX, |first| first.offset);
        for lane in &mut state.lanes {
            while lane.works.back().is_some_and(|work| work.offset > until || state.stopped) {
                if let Some(chunk) = lane.works.pop_back().and_then(|work| work.chunk) {
                    state.waiting_bytes -= chunk.memory();
                    self.works.fetch_sub(1, Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset: u64) -> Chunk {
        Chunk { bytes: vec![b'c'], stretches: vec![(1, 0)], offsets: vec![offset], follows: None }
    }

    fn lanes(numbers: &[usize]) -> LaneSet {
        let mut set = LaneSet::default();
        numbers.iter().for_each(|lane| set.add(LaneSet::one(*lane)));
        set
    }

    /// Takes what is next in a lane; its offset.
    fn take(applier: &Applier, lane: usize) -> Option<(u64, LaneSet, Chunk)> {
        let mut state = applier.state.lock();
        state.ready(lane)?;
        let (lanes, chunk) = state.begin(lane);
        Some((chunk.offsets[0], lanes, chunk))
    }

    /// Lanes 0, 2 and 4 are the first worker's, 1, 3 and 5 the second's.
    #[test]
    fn a_worker_takes_the_first_of_its_own_and_then_of_others() {
        let applier = Applier::with_lanes(2, 6);
        let mut works = vec![(lanes(&[3]), chunk(10)), (lanes(&[2]), chunk(20)), (lanes(&[0]), chunk(30))];
        works.extend([(lanes(&[0, 2]), chunk(40)), (lanes(&[1]), chunk(50))]);
        assert_eq!(applier.push(&mut works, 60, &mut Vec::new()), lanes(&[0, 1]), "both workers have something to do");
        let take = |worker| applier.take(worker).map(|(lanes, chunk)| (chunk.offsets[0], lanes, chunk));
        let (offset, of, first) = take(0).expect("lane 2");
        assert_eq!(offset, 20);
        assert_eq!(take(0).map(|(offset, ..)| offset), Some(30), "lane 0; lane 2 runs");
        assert_eq!(take(0).map(|(offset, ..)| offset), Some(10), "another worker's: its own wait for lane 2");
        assert_eq!(applier.done(of, first, Ok(())), lanes(&[0]));
        assert_eq!(take(1).map(|(offset, ..)| offset), Some(50), "lane 0 runs, and 40 is of it as well");
        assert!(take(1).is_none());
    }

    /// The buffers of what is done come back to the router, up to the bytes that may be waiting.
    #[test]
    fn buffers_are_filled_again() {
        let applier = Applier::new(2);
        let sized = |bytes| Chunk { bytes: Vec::with_capacity(bytes), ..chunk(10) };
        let [least, most] = [*SPARE_BYTES_EACH.start(), *SPARE_BYTES_EACH.end()];
        let sizes = [least, least / 2, most, 2 * most];
        let works = |sizes: &[usize]| sizes.iter().map(|bytes| (lanes(&[0]), sized(*bytes))).collect::<Vec<_>>();
        applier.push(&mut works(&sizes), 20, &mut Vec::new());
        for _ in sizes {
            let (of, chunk) = applier.take(1).expect("a work");
            applier.done(of, chunk, Ok(()));
        }
        let mut spare = Vec::new();
        applier.push(&mut Vec::new(), 30, &mut spare);
        let kept: Vec<_> = spare.iter().map(|chunk| chunk.bytes.capacity()).collect();
        assert_eq!(kept, [least], "smaller ones and larger ones are freed, with the places of their commands");
        assert!(
            spare.iter().all(|chunk| chunk.bytes.is_empty() && chunk.offsets.is_empty() && chunk.stretches.is_empty())
        );
        assert_eq!(applier.state.lock().spare_bytes, 0);
    }

    /// Works of several lanes and long commands bring buffers that no spare one was taken for.
    #[test]
    fn buffers_that_nobody_fills_again_do_not_gather() {
        let (applier, mut spare) = (Applier::new(2), Vec::new());
        for round in 0..2000 {
            let works = (0..1 + round % 200)
                .map(|_| (lanes(&[0, 1]), Chunk { bytes: Vec::with_capacity(16 << 10), ..chunk(10) }));
            applier.push(&mut works.collect(), 20, &mut spare);
            while let Some((of, chunk)) = applier.take(round % 2) {
                applier.done(of, chunk, Ok(()));
            }
            let kept: usize = spare.iter().chain(&applier.state.lock().spare).map(Chunk::memory).sum();
            assert!(kept <= 2 * SPARE_BYTES_MAX + SPARE_BYTES_EACH.end(), "{kept} bytes in round {round}");
        }
        let state = applier.state.lock();
        assert_eq!(state.spare.iter().map(Chunk::memory).sum::<usize>(), state.spare_bytes);
    }

    #[test]
    fn a_work_of_two_lanes_runs_once_behind_all_before_it_in_both() {
        let applier = Applier::with_lanes(3, 3);
        let mut works = vec![(lanes(&[0]), chunk(10)), (lanes(&[0, 1]), chunk(20)), (lanes(&[1]), chunk(30))];
        works.push((lanes(&[2]), chunk(40)));
        applier.push(&mut works, 50, &mut Vec::new());
        assert!(take(&applier, 1).is_none(), "the first lane has something before it");
        let (offset, of, first) = take(&applier, 0).expect("the first of lane 0");
        assert_eq!((offset, applier.applied()), (10, 10));
        assert!(take(&applier, 0).is_none() && take(&applier, 1).is_none(), "lane 0 is running");
        let (_, third, free) = take(&applier, 2).expect("lane 2 waits for nobody");
        applier.done(third, free, Ok(()));
        applier.done(of, first, Ok(()));
        assert_eq!(applier.applied(), 20);
        let (offset, of, both) = take(&applier, 1).expect("either lane may run it");
        assert_eq!((offset, of), (20, lanes(&[0, 1])));
        assert!(take(&applier, 0).is_none() && take(&applier, 1).is_none());
        assert_eq!(applier.done(of, both, Ok(())), lanes(&[1]), "nothing waits in lane 0");
        let (offset, of, last) = take(&applier, 1).expect("the last");
        assert_eq!((offset, applier.applied()), (30, 30));
        applier.done(of, last, Ok(()));
        assert_eq!((applier.applied(), applier.finish()), (50, Ok(())));
        assert_eq!(applier.state.lock().waiting_bytes, 0);
    }

    /// A message comes when all before it is applied in all lanes; what stands behind it in other lanes does not wait for it.
    #[test]
    fn issue_17_a_message_follows_all_before_it() {
        let applier = Applier::with_lanes(2, 2);
        let message = |offset| Chunk { follows: Some(offset), ..chunk(offset) };
        let mut works = vec![(lanes(&[1]), chunk(10)), (lanes(&[0]), message(20)), (lanes(&[1]), chunk(30))];
        works.push((lanes(&[0]), message(40)));
        applier.push(&mut works, 50, &mut Vec::new());
        assert!(take(&applier, 0).is_none(), "lane 1 has something before the message");
        let (_, of, first) = take(&applier, 1).expect("offset 10");
        assert!(take(&applier, 0).is_none(), "it runs");
        assert_eq!(applier.done(of, first, Ok(())), lanes(&[0, 1]), "the lane with the message goes on");
        let (_, of, third) = take(&applier, 1).expect("offset 30 waits for no message");
        let (offset, posts, post) = take(&applier, 0).expect("all before it is applied");
        assert_eq!(offset, 20);
        applier.done(posts, post, Ok(()));
        assert!(take(&applier, 0).is_none(), "offset 30 stands before the second");
        assert_eq!(applier.done(of, third, Ok(())), lanes(&[0]));
        assert_eq!(take(&applier, 0).map(|(offset, ..)| offset), Some(40));
    }

    #[test]
    fn of_several_refusals_the_first_in_the_stream_counts_and_nothing_behind_it_runs() {
        let applier = Applier::with_lanes(2, 2);
        let refused = |offset: u64| Err(Refused { offset, reason: format!("at {offset}") });
        let mut works = vec![(lanes(&[0]), chunk(10)), (lanes(&[1]), chunk(20)), (lanes(&[0]), chunk(30))];
        works.extend([(lanes(&[0, 1]), chunk(40)), (lanes(&[1]), chunk(50))]);
        applier.push(&mut works, 60, &mut Vec::new());
        assert_eq!(applier.applied(), 10);
        let (_, of, later) = take(&applier, 1).expect("offset 20");
        assert_eq!(applier.done(of, later, refused(20)), lanes(&[0, 1]));
        assert!(!applier.wait_for_room() && take(&applier, 1).is_none());
        let (offset, of, earlier) = take(&applier, 0).expect("offset 10 stands before it");
        assert_eq!(offset, 10);
        applier.done(of, earlier, refused(10));
        assert!(take(&applier, 0).is_none());
        applier.push(&mut vec![(lanes(&[0]), chunk(60))], 70, &mut Vec::new());
        assert_eq!(applier.applied(), 10, "what was refused, and what was dropped behind it, is not applied");
        assert_eq!(applier.finish(), Err("at 10".to_owned()));
        assert_eq!(applier.state.lock().waiting_bytes, 0);
        applier.begin(0);
        assert_eq!(applier.finish(), Ok(()));
    }

    #[test]
    fn a_round_that_has_begun_is_brought_to_its_end_and_no_other_begins() {
        let applier = Applier::with_lanes(2, 2);
        assert!(applier.hold(), "nothing is under way");
        applier.push(&mut vec![(lanes(&[0]), chunk(10)), (lanes(&[1]), chunk(20))], 30, &mut Vec::new());
        assert!(take(&applier, 0).is_none() && applier.hold());
        assert_eq!(applier.release(), lanes(&[0, 1]));
        applier.push(&mut vec![(lanes(&[0]), chunk(30))], 40, &mut Vec::new());
        let (_, of, first) = take(&applier, 0).expect("offset 10");
        assert!(!applier.hold(), "a round is under way");
        applier.done(of, first, Ok(()));
        assert!(take(&applier, 0).is_none(), "the next round waits");
        assert!(!applier.hold(), "the other lane is behind");
        let (_, of, second) = take(&applier, 1).expect("offset 20 is of the round that has begun");
        applier.done(of, second, Ok(()));
        assert!(applier.hold());
        assert_eq!(applier.applied(), 30);
        assert_eq!((applier.release(), applier.release()), (lanes(&[0]), lanes(&[])));
        assert!(take(&applier, 0).is_some());
    }

    #[test]
    fn whoever_waits_learns_that_nobody_runs_commands_any_more() {
        let applier = Applier::with_lanes(1, 1);
        applier.push(&mut vec![(lanes(&[0]), chunk(10)), (lanes(&[0]), chunk(20))], 30, &mut Vec::new());
        let _running = take(&applier, 0);
        applier.stop("the end");
        assert_eq!(applier.finish(), Err("the end".to_owned()));
        assert!(!applier.wait_for_room());
    }
}
