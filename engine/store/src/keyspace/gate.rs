//! The gate: a read-write lock whose readers never share a cache line.
//!
//! Every batch of commands runs inside the gate (`enter`), each worker through a seat of its own. What must see the whole
//! keyspace at rest takes the gate exclusively: KEYS, FLUSHALL, SWAPDB, the instant in which a save begins, scripts.
//!
//! ```text
//!   one seat a worker, two cache lines apart           31            2   1    0
//!   (x86 fetches lines in pairs)                       ├── unused ───┼───┼────┤
//!                                                      │      0      │ C │ IN │
//!                                                      └─────────────┴───┴────┘
//!   IN   the worker is inside           set and cleared by the worker
//!   C    closed: nobody may go in       set and cleared by the one that holds the turn
//!
//!        enter              leave                exclusive: for each seat close, then wait
//!   0 ─────────▶ IN        IN ─────▶ 0           0  ─▶ C        at rest
//!   C, IN|C: wait          IN|C ───▶ C + wake    IN ─▶ IN|C     wait until C
//! ```
//!
//! **Why it is right.** Both sides change a seat by read-modify-write, so all changes of one seat stand in one total order
//! and each sees the one before: `enter` (0 to IN) and `close` (or C) cannot both miss the other. No argument about two
//! variables, hence no sequentially consistent fence, is needed.
//! - A worker that gets in acquires from the release with which the last holder opened the seat: it sees all that was
//!   done exclusively.
//! - The exclusive worker has read every seat without IN, with acquire, and each worker's leaving is a release: it sees all that
//!   the batches did. C stands in every seat until it opens them, so nobody is inside meanwhile.
//! - **No wake-up is lost.** Who sleeps has taken the mutex `bed` and looked at its seat again under it; who changes a
//!   seat that somebody may sleep on does so first and then notifies under `bed`. Either the sleeper saw the change, or
//!   it slept before the notifier could take the mutex. A leaving worker knows that somebody waits from the C that its
//!   own read-modify-write returned.
//! - **No writer starves**: C stops newcomers, and a batch is bounded. **No reader starves**: who takes the turn next lets
//!   the workers in first that slept through the turn before (`Bed::sleepers`), so the two kinds alternate.
//! - **No deadlock**: `turn`, then seats in ascending order; the asker is not inside itself (asserted).
//!
//! A batch pays two uncontended read-modify-writes on a line of its own. The second one, where a plain store would let the
//! worker leave, is the price of knowing that someone waits; a store would need a full fence after it to tell.
//!
//! The gate does not queue: a thread is one worker, and a worker enters once at a time.

use std::time::{Duration, Instant};

use varve_base::rank::{self, Rank, RankToken};

#[cfg(loom)]
use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
};
// Not std's mutex: its waiting is inside the standard library, where the thread sanitizer does not see it.
#[cfg(not(loom))]
use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, Ordering},
};

const OUT: u32 = 0;
const IN: u32 = 1;
const CLOSED: u32 = 2;

/// Looks at a busy seat before sleeping. A pause is about 10 to 40 ns, so this is some microseconds: longer than a batch of
/// a few commands, shorter than going to sleep and back (about 40 us). None under loom: there a pause hands over to the others,
/// and sleeping would hardly be explored.
const SPINS_MAX: u32 = if cfg!(loom) { 0 } else { 200 };

/// The read-write lock over the whole keyspace. See the module.
#[derive(Debug)]
pub struct Gate {
    seats: Box<[Seat]>,
    /// Held by the worker that is exclusive or closing: several askers go one after another.
    turn: Mutex<()>,
    bed: Mutex<Bed>,
    wake: Condvar,
    /// The worker on whose thread a script rests that is inside or alone, from 1; 0 for none.
    rests_on: AtomicU32,
}

/// One worker's seat. Two lines, because the neighbour line is fetched with it.
#[derive(Debug)]
#[repr(align(128))]
struct Seat(AtomicU32);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Seat>() == 128);

/// The state that sleepers share.
#[derive(Debug, Default)]
struct Bed {
    /// Workers that sleep until their seat opens.
    sleepers: u32,
    /// All that sleep, the turn's holder included: without any, nobody pays the system call of a wake-up.
    asleep: u32,
}

/// A worker is inside: a worker that wants to be exclusive waits until this is dropped.
#[must_use = "the worker is inside only as long as this lives"]
#[derive(Debug)]
pub struct InsideGate<'g> {
    gate: &'g Gate,
    worker: usize,
    _token: RankToken,
}

/// No worker is inside, and none gets in until this is dropped.
#[must_use = "the gate is closed only as long as this lives"]
#[derive(Debug)]
pub struct ExclusiveGate<'g> {
    gate: &'g Gate,
    _turn: MutexGuard<'g, ()>,
    _token: RankToken,
}

impl Gate {
    /// An open gate for workers `0..workers`.
    ///
    /// # Panics
    /// If `workers` is 0.
    pub fn new(workers: usize) -> Gate {
        assert!(workers > 0, "a gate needs a worker");
        Gate {
            seats: (0..workers).map(|_| Seat(AtomicU32::new(OUT))).collect(),
            turn: Mutex::new(()),
            bed: Mutex::new(Bed::default()),
            wake: Condvar::new(),
            rests_on: AtomicU32::new(0),
        }
    }

    /// Number of workers that it was made for.
    pub fn workers(&self) -> usize {
        self.seats.len()
    }

    /// Goes in, after a worker that is exclusive or waits to be.
    ///
    /// # Panics
    /// If `worker` is out of range or already inside.
    #[inline]
    pub fn enter(&self, worker: usize) -> InsideGate<'_> {
        let token = rank::enter(Rank::Gate);
        rank::assert_may_wait(Rank::Gate);
        if !self.seat_enter(worker) {
            self.enter_slow(worker);
        }
        InsideGate { gate: self, worker, _token: token }
    }

    /// Goes in if no worker is exclusive or waits to be.
    ///
    /// # Panics
    /// If the worker is inside already, like [`Gate::enter`].
    #[inline]
    pub fn try_enter(&self, worker: usize) -> Option<InsideGate<'_>> {
        let token = rank::enter(Rank::Gate);
        // Not `then_some`: it would make the guard, and drop it, for a seat that was not entered.
        self.seat_enter(worker).then(|| InsideGate { gate: self, worker, _token: token })
    }

    /// False while another worker is exclusive or waits to be: this one would have to wait. A look only, the answer may be
    /// old by the time it is used.
    #[inline]
    pub fn is_open(&self, worker: usize) -> bool {
        self.seats[worker].0.load(Ordering::Relaxed) & CLOSED == 0
    }

    /// Waits until no worker is inside and keeps them all out. `worker` is the asker and must not be inside.
    ///
    /// # Panics
    /// If `worker` is out of range or inside.
    pub fn exclusive(&self, worker: usize) -> ExclusiveGate<'_> {
        let token = rank::enter(Rank::Gate);
        rank::assert_may_wait(Rank::Gate);
        let state = self.seats[worker].0.load(Ordering::Relaxed);
        assert!(state & IN == 0, "worker {worker} asks to be exclusive while inside");
        let turn = lock(&self.turn);
        self.let_sleepers_in();
        self.close();
        for seat in &self.seats {
            self.wait_until_left(seat);
        }
        ExclusiveGate { gate: self, _turn: turn, _token: token }
    }

    /// Like [`Gate::exclusive`], but gives up: at once while another worker is exclusive or waits to be, or a script rests on
    /// any worker's thread, and when workers have not left for about `patience`. Newcomers are kept out meanwhile, so a
    /// patience longer than their batches gets it, and only a long command inside ends it. A script that has rested is none
    /// of these: it would outlast every patience, and all workers would stand before a shut gate for it. The caller has
    /// other things to do and tries again.
    ///
    /// # Panics
    /// If `worker` is out of range or inside.
    pub fn exclusive_within(&self, worker: usize, patience: Duration) -> Option<ExclusiveGate<'_>> {
        let token = rank::enter(Rank::Gate);
        let state = self.seats[worker].0.load(Ordering::Relaxed);
        assert!(state & IN == 0, "worker {worker} asks to be exclusive while inside");
        if self.rests_on.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let turn = try_lock(&self.turn)?;
        self.let_sleepers_in();
        self.close();
        let until = Instant::now() + patience;
        if self.seats.iter().all(|seat| self.has_left_by(seat, until)) {
            return Some(ExclusiveGate { gate: self, _turn: turn, _token: token });
        }
        self.open();
        None
    }

    /// A script rests inside, or alone, on the thread of this worker: nobody waits for all to leave meanwhile, its own worker
    /// least, since the script does not before that thread goes on with it. None: it has ended.
    pub(crate) fn note_rest(&self, worker: Option<usize>) {
        self.rests_on.store(worker.map_or(0, |worker| worker as u32 + 1), Ordering::Relaxed);
    }

    /// Keeps newcomers out.
    fn close(&self) {
        for seat in &self.seats {
            // Relaxed: the look that finds the seat left acquires.
            let before = seat.0.fetch_or(CLOSED, Ordering::Relaxed);
            debug_assert!(before & CLOSED == 0, "closed twice");
        }
    }

    /// Lets all in again. The turn is given up behind this: the seats are open before anybody else has it.
    fn open(&self) {
        for seat in &self.seats {
            seat.0.fetch_and(!CLOSED, Ordering::Release);
        }
        self.wake_all(&lock(&self.bed));
    }

    /// True if it got in; false if the seat is closed.
    #[inline]
    fn seat_enter(&self, worker: usize) -> bool {
        match self.seats[worker].0.compare_exchange(OUT, IN, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(state) => {
                assert!(state & IN == 0, "worker {worker} enters the gate twice");
                false
            }
        }
    }

    #[cold]
    fn enter_slow(&self, worker: usize) {
        for _ in 0..SPINS_MAX {
            spin_loop();
            if self.seats[worker].0.load(Ordering::Relaxed) == OUT && self.seat_enter(worker) {
                return;
            }
        }
        let mut bed = lock(&self.bed);
        if self.seat_enter(worker) {
            return;
        }
        bed.sleepers += 1;
        while !self.seat_enter(worker) {
            bed = self.sleep(bed);
        }
        bed.sleepers -= 1;
        if bed.sleepers == 0 {
            self.wake_all(&bed);
        }
    }

    /// The next holder of the turn waits here for those who slept through the last one. All seats are open now (the last
    /// holder opened them before it gave up the turn, and only the turn's holder closes), so they all come through.
    fn let_sleepers_in(&self) {
        let mut bed = lock(&self.bed);
        while bed.sleepers > 0 {
            bed = self.sleep(bed);
        }
    }

    fn wait_until_left(&self, seat: &Seat) {
        if leaves_soon(seat) {
            return;
        }
        let mut bed = lock(&self.bed);
        while !is_left(seat) {
            bed = self.sleep(bed);
        }
    }

    /// True if the seat is left before the time is up.
    fn has_left_by(&self, seat: &Seat, until: Instant) -> bool {
        if leaves_soon(seat) {
            return true;
        }
        let mut bed = lock(&self.bed);
        while !is_left(seat) {
            if Instant::now() >= until {
                return false;
            }
            bed.asleep += 1;
            bed = wait_until(&self.wake, bed, until);
            bed.asleep -= 1;
        }
        true
    }

    fn sleep<'g>(&'g self, mut bed: MutexGuard<'g, Bed>) -> MutexGuard<'g, Bed> {
        bed.asleep += 1;
        let mut bed = wait(&self.wake, bed);
        bed.asleep -= 1;
        bed
    }

    /// The mutex, of which `bed` is the proof, is what makes the wake-up impossible to miss: see the module.
    fn wake_all(&self, bed: &MutexGuard<'_, Bed>) {
        if bed.asleep > 0 {
            self.wake.notify_all();
        }
    }
}

/// True if no worker is inside on this seat. Acquire pairs with the release of `InsideGate::drop`.
fn is_left(seat: &Seat) -> bool {
    seat.0.load(Ordering::Acquire) & IN == 0
}

/// True if the seat is left within some looks.
fn leaves_soon(seat: &Seat) -> bool {
    for _ in 0..SPINS_MAX {
        if is_left(seat) {
            return true;
        }
        spin_loop();
    }
    is_left(seat)
}

impl Drop for InsideGate<'_> {
    #[inline]
    fn drop(&mut self) {
        let before = self.gate.seats[self.worker].0.fetch_and(!IN, Ordering::Release);
        debug_assert!(before & IN != 0, "left a gate that was not entered");
        if before & CLOSED != 0 {
            self.gate.wake_all(&lock(&self.gate.bed));
        }
    }
}

impl Drop for ExclusiveGate<'_> {
    fn drop(&mut self) {
        let inside = self.gate.seats.iter().any(|seat| !is_left(seat));
        debug_assert!(!inside, "a worker was inside while another was exclusive");
        self.gate.open();
    }
}

#[cfg(not(loom))]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(not(loom))]
fn wait<'g, T>(condvar: &Condvar, mut guard: MutexGuard<'g, T>) -> MutexGuard<'g, T> {
    condvar.wait(&mut guard);
    guard
}

#[cfg(not(loom))]
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock()
}

#[cfg(not(loom))]
fn wait_until<'g, T>(condvar: &Condvar, mut guard: MutexGuard<'g, T>, until: Instant) -> MutexGuard<'g, T> {
    condvar.wait_until(&mut guard, until);
    guard
}

#[cfg(loom)]
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock().ok()
}

/// Under loom no time passes: the limit is none, and nobody sleeps.
#[cfg(loom)]
fn wait_until<'g, T>(_: &Condvar, guard: MutexGuard<'g, T>, _: Instant) -> MutexGuard<'g, T> {
    guard
}

/// A panicking holder leaves nothing half done in these mutexes, so poison means nothing.
#[cfg(loom)]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(loom)]
fn wait<'g, T>(condvar: &Condvar, guard: MutexGuard<'g, T>) -> MutexGuard<'g, T> {
    condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn readers_pass_each_other_and_a_closed_gate_says_so() {
        let gate = Gate::new(3);
        let a = gate.enter(0);
        thread::scope(|s| {
            s.spawn(|| drop(gate.enter(1)));
        });
        drop(a);
        let alone = gate.exclusive(2);
        thread::scope(|s| {
            s.spawn(|| assert!(gate.try_enter(0).is_none()));
        });
        drop(alone);
        assert!(gate.try_enter(0).is_some());
    }

    #[test]
    fn nobody_shuts_the_gate_for_a_script_that_rests() {
        let gate = Gate::new(3);
        let script = gate.enter(2);
        gate.note_rest(Some(1));
        rank::set_aside();
        for worker in 0..2 {
            assert!(gate.exclusive_within(worker, Duration::from_secs(60)).is_none(), "without a wait");
            assert!(gate.is_open(worker));
        }
        rank::take_back();
        drop(script);
        gate.note_rest(None);
        assert!(gate.exclusive_within(0, Duration::ZERO).is_some());
    }

    #[test]
    fn a_waiting_writer_keeps_newcomers_out() {
        let gate = Gate::new(3);
        let a = gate.enter(0);
        thread::scope(|s| {
            let writer = s.spawn(|| drop(gate.exclusive(1)));
            s.spawn(|| {
                let start = Instant::now();
                while gate.try_enter(2).is_some() {
                    assert!(start.elapsed() < Duration::from_secs(20), "the gate never closed");
                    thread::yield_now();
                }
            })
            .join()
            .expect("the gate closes while a reader is inside");
            assert!(!writer.is_finished());
            drop(a);
        });
    }

    /// One who cannot wait gives up beside a worker that stays inside, and lets the others in; it gets in when all leave.
    #[test]
    fn a_writer_with_little_patience_gives_up_and_opens() {
        let gate = Gate::new(3);
        let (go, inside) = (AtomicU64::new(0), gate.enter(0));
        thread::scope(|s| {
            let hasty = s.spawn(|| {
                assert!(gate.exclusive_within(1, Duration::ZERO).is_none());
                assert!(gate.exclusive_within(1, Duration::from_millis(5)).is_none());
                assert!(gate.try_enter(1).is_some(), "it has opened what it closed");
                // Another one that waits has the turn.
                let patient = s.spawn(|| drop(gate.exclusive(2)));
                while gate.is_open(1) {
                    thread::yield_now();
                }
                assert!(gate.exclusive_within(1, Duration::from_secs(60)).is_none(), "without a wait");
                assert!(!patient.is_finished());
                go.store(1, Ordering::Relaxed);
                patient.join().expect("it gets in");
                assert!(gate.exclusive_within(1, Duration::from_secs(60)).is_some());
            });
            while go.load(Ordering::Relaxed) == 0 && !hasty.is_finished() {
                thread::yield_now();
            }
            drop(inside);
        });
        assert!(gate.try_enter(0).is_some());
    }

    /// Readers and writers on more threads than cores: the counter is plain data in spirit (relaxed load and store), so any
    /// overlap of two holders that exclude each other loses an update.
    #[test]
    fn holders_exclude_each_other() {
        const WORKERS: usize = 4;
        const ROUNDS: u64 = 2_000;
        let gate = Gate::new(WORKERS);
        let per_worker: Vec<AtomicU64> = (0..WORKERS).map(|_| AtomicU64::new(0)).collect();
        let add = |cell: &AtomicU64| cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        thread::scope(|s| {
            for worker in 0..WORKERS {
                let (gate, per_worker) = (&gate, &per_worker);
                s.spawn(move || {
                    for round in 0..ROUNDS {
                        if round % 7 == worker as u64 {
                            let _alone = gate.exclusive(worker);
                            per_worker.iter().for_each(add);
                        } else {
                            let _shared = gate.enter(worker);
                            add(&per_worker[worker]);
                        }
                    }
                });
            }
        });
        let alone_of = |worker: u64| (0..ROUNDS).filter(|r| r % 7 == worker).count() as u64;
        let alone_all: u64 = (0..WORKERS as u64).map(alone_of).sum();
        for (worker, cell) in per_worker.iter().enumerate() {
            assert_eq!(cell.load(Ordering::Relaxed), ROUNDS - alone_of(worker as u64) + alone_all);
        }
    }

    #[test]
    #[should_panic(expected = "a gate needs a worker")]
    fn a_gate_without_workers() {
        let _ = Gate::new(0);
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "Gate asked for while Gate is held")]
    fn entering_twice() {
        let gate = Gate::new(2);
        let _a = gate.enter(0);
        let _b = gate.enter(1);
    }

    /// The rank check is silent when another thread uses the worker's number: the seat itself tells.
    #[test]
    fn a_worker_of_two_threads_is_noticed() {
        let gate = Gate::new(1);
        let _a = gate.enter(0);
        thread::scope(|s| {
            assert!(s.spawn(|| drop(gate.enter(0))).join().is_err());
            assert!(s.spawn(|| drop(gate.exclusive(0))).join().is_err());
        });
    }
}
