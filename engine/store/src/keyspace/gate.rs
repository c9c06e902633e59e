//! The gate: a read-write lock whose readers never share a cache line.
//!
//! Every batch of commands runs inside the gate (`enter`), each worker through a seat of its own. What must see the whole
//! keyspace at rest takes the gate exclusively: KEYS, FLUSHALL, SWAPDB, the instant in which a save begins, scripts.
//!
//! ```text
//!   one seat a worker, two cache lines apart           31            2   1    0
//!   (x86 fetches lines in pairs)                       ├── visits ───┼───┼────┤
//!                                                      │             │ C │ IN │
//!                                                      └─────────────┴───┴────┘
//!   IN      the worker is inside                       set and cleared by the worker
//!   C       closed: nobody may go in                   set and cleared by the one that holds the turn
//!   visits  how often the worker has left, modulo 2^30
//!
//!        enter              leave                exclusive: for each seat close, then wait
//!   0 ─────────▶ IN        IN ─────▶ 0           0  ─▶ C        at rest
//!   C, IN|C: wait          IN|C ───▶ C + wake    IN ─▶ IN|C     wait until C
//! ```
//!
//! **Trying** ([`Gate::try_exclusive`]) is how a worker asks that has other clients to serve. A try closes the gate for two
//! milliseconds, in which batches end, and all others stand before it. So that they do not stand for a long transaction of one
//! worker:
//! - No try closes beside a visit that earlier tries have met as well, for as long as four closings take. The number of the visit
//!   tells that it is the same.
//! - Behind a try that was in vain the gate stays open for as long as it was closed.
//! - No try closes while a command works on a key over several visits: it would see the command half done.
//! - A try that is refused leaves a [`Wish`]: until it has its turn, transactions that will be long stand back,
//!   and commands that will take several visits ([`Gate::gives_way`]). Else those of several workers, which overlap, would
//!   leave it none.
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
//!   A worker that tries, and sleeps between its tries ([`Gate::await_open`]), is not let in by name: behind an exclusive worker
//!   that has had such sleepers no try closes the gate for as long as they take to wake up.
//! - **No deadlock**: `turn`, then seats in ascending order; the asker is not inside itself (asserted).
//!
//! A batch pays two uncontended read-modify-writes on a line of its own. The second one, where a plain store would let the
//! worker leave, is the price of knowing that someone waits; a store would need a full fence after it to tell.
//!
//! The gate does not queue: a thread is one worker, and a worker enters once at a time.

use std::time::{Duration, Instant};

use varve_base::rank::{self, Rank, RankToken};

use super::wish::Wish;

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

const IN: u32 = 1;
const CLOSED: u32 = 2;
/// One visit more.
const VISIT: u32 = 4;

/// For how long a try keeps the gate closed: longer than a batch. None under loom, where no time passes.
const CLOSED_MAX: Duration = if cfg!(loom) { Duration::ZERO } else { Duration::from_millis(2) };
/// A visit is long that tries have met for as long as this number of closings takes.
const LONG_CLOSINGS: u32 = 4;
/// After this number of refusals a try keeps the gate closed for twice as long, at most [`DOUBLINGS_MAX`] times: where threads
/// wait for processors, even short batches outlast a closing. Tries of a client come a millisecond apart.
const DOUBLED_AFTER: u32 = 1024;
const DOUBLINGS_MAX: u32 = 3;
/// How long a wish holds behind the last try: the timer, which tries for saves, comes ten times a second.
const WISH_MS: u64 = 200;

/// Looks at a busy seat before sleeping. A pause is about 10 to 40 ns, so this is some microseconds: longer than a batch of
/// a few commands, shorter than going to sleep and back (about 40 us). None under loom: there a pause hands over to the others,
/// and sleeping would hardly be explored.
const SPINS_MAX: u32 = if cfg!(loom) { 0 } else { 200 };
/// For how long no try closes the gate that somebody has slept before, at most: waking up takes some 50 microseconds. Behind a
/// short turn it is open for as long as it was shut. None under loom, where no time passes.
const OPEN_MAX: Duration = if cfg!(loom) { Duration::ZERO } else { Duration::from_micros(200) };

/// The read-write lock over the whole keyspace. See the module.
#[derive(Debug)]
pub struct Gate {
    seats: Box<[Seat]>,
    /// Held by the worker that is exclusive or closing: several askers go one after another.
    turn: Mutex<Turn>,
    bed: Mutex<Bed>,
    wake: Condvar,
    /// Scripts and transactions that rest inside, or alone.
    rests: AtomicU32,
    /// Keys on which commands work over several visits.
    occupied: AtomicU32,
    /// Of the last try that was refused: whether a script that rests was in its way.
    wish: Wish,
}

/// The memory of tries.
#[derive(Debug)]
struct Turn {
    /// The visit of each seat that a try met last, as the seat showed it, and when one met it first.
    met: Box<[(u32, Instant)]>,
    /// Until when the gate stays open.
    open_until: Instant,
    /// How often tries have closed the gate.
    closings: u64,
}

/// A kind of newcomers, which may have to stand back for those who want to be alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newcomer {
    /// A transaction that stays inside for longer than a batch.
    Long,
    /// A command that takes several visits. Beside a script that rests it costs nobody his turn, who waits for the script.
    InParts,
    /// A script: beside one that rests it could not run either.
    Script,
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
    turn: MutexGuard<'g, Turn>,
    begun: Instant,
    _token: RankToken,
}

impl Gate {
    /// An open gate for workers `0..workers`.
    ///
    /// # Panics
    /// If `workers` is 0.
    pub fn new(workers: usize) -> Gate {
        assert!(workers > 0, "a gate needs a worker");
        let now = Instant::now();
        let turn = Turn { met: (0..workers).map(|_| (0, now)).collect(), open_until: now, closings: 0 };
        Gate {
            seats: (0..workers).map(|_| Seat(AtomicU32::new(0))).collect(),
            turn: Mutex::new(turn),
            bed: Mutex::new(Bed::default()),
            wake: Condvar::new(),
            rests: AtomicU32::new(0),
            occupied: AtomicU32::new(0),
            wish: Wish::new(WISH_MS),
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

    /// Sleeps until the gate is open for a worker that is not inside and has other things to do now and then: for no longer than
    /// `limit`. It may be shut again by the time this returns.
    pub fn await_open(&self, worker: usize, limit: Duration) {
        rank::assert_may_wait(Rank::Gate);
        debug_assert!(self.seats[worker].0.load(Ordering::Relaxed) & IN == 0, "worker {worker} is inside");
        let until = Instant::now() + limit;
        let mut bed = lock(&self.bed);
        while !self.is_open(worker) && Instant::now() < until {
            bed.asleep += 1;
            bed = wait_until(&self.wake, bed, until);
            bed.asleep -= 1;
        }
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
        ExclusiveGate { gate: self, turn, begun: Instant::now(), _token: token }
    }

    /// Like [`Gate::exclusive`], but gives up, for a caller that has other things to do and tries again; `tries` is how often it
    /// has been refused before. It gives up at once while another worker is exclusive or tries to be, while a script or
    /// transaction rests, beside a visit that is known to be long, and for a while behind a try that was in vain. Else it keeps
    /// newcomers out for 2 ms, in which batches end, and gives up if one does not: 4, 8, 16 ms from the 1024th, 2048th, 3072nd
    /// try on.
    ///
    /// # Panics
    /// If `worker` is out of range or inside.
    pub fn try_exclusive(&self, worker: usize, tries: u32) -> Option<ExclusiveGate<'_>> {
        self.exclusive_within(worker, CLOSED_MAX * (1 << (tries / DOUBLED_AFTER).min(DOUBLINGS_MAX)))
    }

    /// [`Gate::try_exclusive`], the gate being closed for no longer than `patience`.
    fn exclusive_within(&self, worker: usize, patience: Duration) -> Option<ExclusiveGate<'_>> {
        let token = rank::enter(Rank::Gate);
        let state = self.seats[worker].0.load(Ordering::Relaxed);
        assert!(state & IN == 0, "worker {worker} asks to be exclusive while inside");
        if self.rests.load(Ordering::Relaxed) != 0 {
            // It would outlast every patience.
            self.wish.make(true);
            return None;
        }
        if self.has_occupied() {
            // Nobody sees a command half done. The gate stays open, so that it comes to its end.
            self.wish.make(false);
            return None;
        }
        let mut turn = try_lock(&self.turn)?;
        let begun = Instant::now();
        if turn.meets_long(&self.seats, begun, patience * LONG_CLOSINGS) {
            self.wish.make(false);
            return None;
        }
        if begun < turn.open_until {
            return None;
        }
        turn.closings += 1;
        self.let_sleepers_in();
        self.close();
        let until = begun + patience;
        // One that was inside may have occupied a key meanwhile.
        if self.seats.iter().all(|seat| self.has_left_by(seat, until)) && !self.has_occupied() {
            self.wish.end();
            return Some(ExclusiveGate { gate: self, turn, begun, _token: token });
        }
        self.open();
        self.wish.make(false);
        let opened = Instant::now();
        turn.open_until = opened + (opened - begun);
        None
    }

    /// True while somebody wants to be alone and was refused, to whom this newcomer gives way: its worker puts it back and
    /// tries again.
    #[inline]
    pub fn gives_way(&self, newcomer: Newcomer) -> bool {
        self.wish.whose().is_some_and(|beside_script| match newcomer {
            Newcomer::Long => true,
            Newcomer::InParts => !beside_script,
            Newcomer::Script => beside_script,
        })
    }

    /// A transaction that needs all shards was refused one of them: it is given way to like one who wants to be alone, until
    /// [`Gate::had_room`].
    pub fn ask_for_room(&self) {
        self.wish.make(false);
    }

    /// The transaction has all shards.
    pub fn had_room(&self) {
        self.wish.end();
    }

    /// A script or transaction rests inside, or alone, for the first time: nobody waits for all to leave until it has ended, its
    /// own worker least, since it does not leave before that thread goes on with it.
    pub(crate) fn begin_rests(&self) {
        self.rests.fetch_add(1, Ordering::Relaxed);
    }

    /// A command that is inside will work on a key over several visits. Until it has ended nobody is alone behind the gate by
    /// [`Gate::try_exclusive`]: what is saved, emptied or exchanged is of an instant at which no command is half done.
    pub(crate) fn occupy(&self) {
        self.occupied.fetch_add(1, Ordering::Relaxed);
    }

    /// Such a command, which is inside, has ended.
    pub(crate) fn vacate(&self) {
        let before = self.occupied.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a key that is left was occupied");
    }

    /// True while a command works on a key over several visits.
    #[inline]
    pub fn has_occupied(&self) -> bool {
        self.occupied.load(Ordering::Relaxed) > 0
    }

    /// One that has rested ends.
    pub(crate) fn end_rests(&self) {
        let before = self.rests.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "one that ends has begun");
    }

    /// Keeps newcomers out.
    fn close(&self) {
        for seat in &self.seats {
            // Relaxed: the look that finds the seat left acquires.
            let before = seat.0.fetch_or(CLOSED, Ordering::Relaxed);
            debug_assert!(before & CLOSED == 0, "closed twice");
        }
    }

    /// Lets all in again; true if somebody sleeps. The turn is given up behind this: the seats are open before anybody else has
    /// it.
    fn open(&self) -> bool {
        for seat in &self.seats {
            seat.0.fetch_and(!CLOSED, Ordering::Release);
        }
        let bed = lock(&self.bed);
        self.wake_all(&bed);
        bed.asleep > 0
    }

    /// True if it got in; false if the seat is closed.
    #[inline]
    fn seat_enter(&self, worker: usize) -> bool {
        let seat = &self.seats[worker].0;
        let state = seat.load(Ordering::Relaxed);
        if state & (IN | CLOSED) == 0
            && seat.compare_exchange(state, state | IN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return true;
        }
        assert!(state & IN == 0, "worker {worker} enters the gate twice");
        false
    }

    #[cold]
    fn enter_slow(&self, worker: usize) {
        for _ in 0..SPINS_MAX {
            spin_loop();
            if self.seat_enter(worker) {
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

impl Turn {
    /// Looks who is inside; true if one of them has been for this long as far as tries know, on the same visit.
    fn meets_long(&mut self, seats: &[Seat], now: Instant, long: Duration) -> bool {
        let mut meets = false;
        for (seat, (visit, since)) in seats.iter().zip(&mut self.met) {
            let state = seat.0.load(Ordering::Relaxed) & !CLOSED;
            if state & IN == 0 {
                continue;
            }
            if *visit != state {
                (*visit, *since) = (state, now);
            } else {
                meets |= now - *since >= long;
            }
        }
        meets
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
        // Takes IN away and counts the visit.
        let before = self.gate.seats[self.worker].0.fetch_add(VISIT - IN, Ordering::Release);
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
        if self.gate.open() {
            let now = Instant::now();
            self.turn.open_until = now + OPEN_MAX.min(now - self.begun);
        }
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
    fn a_worker_that_sleeps_before_the_gate_is_woken_and_has_time_to_get_in() {
        let gate = Gate::new(3);
        gate.await_open(1, Duration::from_secs(600));
        let begun = Instant::now();
        let alone = gate.exclusive(0);
        gate.await_open(1, Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20) && !gate.is_open(1), "it is shut still");
        thread::scope(|s| {
            let sleeper = s.spawn(|| gate.await_open(1, Duration::from_secs(600)));
            while gate.bed.lock().asleep == 0 {
                thread::yield_now();
            }
            drop(alone);
            let until = gate.turn.lock().open_until;
            sleeper.join().expect("it is woken long before its time is over");
            assert!(until > begun, "no try closes the gate meanwhile");
            assert!(gate.try_exclusive(2, 0).is_none() || Instant::now() >= until);
            drop(gate.try_enter(1).expect("it is open"));
        });
        // Nobody slept before it: a try follows at once.
        let before = gate.turn.lock().open_until;
        drop(gate.exclusive(0));
        assert_eq!(gate.turn.lock().open_until, before);
    }

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
        gate.begin_rests();
        rank::set_aside();
        for worker in 0..2 {
            assert!(gate.exclusive_within(worker, Duration::from_secs(60)).is_none(), "without a wait");
            assert!(gate.is_open(worker));
        }
        rank::take_back();
        drop(script);
        gate.end_rests();
        assert!(gate.exclusive_within(0, Duration::ZERO).is_some());
    }

    /// Runs `work` on a thread of its own, which is inside no gate.
    fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
        thread::scope(|s| s.spawn(work).join().expect("it ends"))
    }

    /// Each closing has all other workers stand before the gate, for 2 ms that gain nothing beside a long transaction.
    #[test]
    fn issue_11_a_gate_is_not_closed_again_and_again_beside_one_long_visit() {
        let gate = Gate::new(3);
        for round in 1..4 {
            let inside = gate.enter(0);
            let closings = elsewhere(|| {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(40) {
                    assert!(gate.try_exclusive(1, 0).is_none());
                    assert!(gate.try_enter(2).is_some(), "whoever is refused has opened the gate");
                }
                gate.turn.lock().closings
            });
            // 2 ms closed, 2 ms open, 2 ms closed, 2 ms open: then tries have met the visit for 8 ms.
            assert!((1..=2 * round).contains(&closings), "{closings} closings beside {round} visits");
            drop(inside);
        }
        let before = gate.turn.lock().closings;
        elsewhere(|| while gate.try_exclusive(1, 0).is_none() {});
        assert_eq!(gate.turn.lock().closings, before + 1, "with nobody inside the first closing is enough");
    }

    /// The gate is open at least as long as it was closed, whoever is inside.
    #[test]
    fn issue_11_behind_a_try_in_vain_the_gate_stays_open() {
        let gate = Gate::new(3);
        let patience = Duration::from_millis(10);
        let inside = gate.enter(0);
        elsewhere(|| {
            let begun = Instant::now();
            assert!(gate.exclusive_within(1, patience).is_none());
            let open_until = gate.turn.lock().open_until;
            assert!(open_until >= begun + patience * 2);
            while Instant::now() < open_until {
                assert!(gate.exclusive_within(1, patience).is_none());
                let closings = gate.turn.lock().closings;
                assert!(closings == 1 || Instant::now() >= open_until, "{closings} closings");
            }
        });
        drop(inside);
    }

    /// Long transactions of two workers that overlap without end leave somebody a moment who wants to be alone.
    #[test]
    fn issue_11_newcomers_give_way_to_one_who_was_refused() {
        let gate = Gate::new(3);
        assert!(!gate.gives_way(Newcomer::Long));
        let inside = gate.enter(0);
        elsewhere(|| assert!(gate.exclusive_within(1, Duration::ZERO).is_none()));
        gate.wish.prolong();
        assert!(gate.gives_way(Newcomer::Long) && !gate.gives_way(Newcomer::Script));
        drop(inside);
        while gate.try_exclusive(1, 0).is_none() {}
        assert!(!gate.gives_way(Newcomer::Long), "it had its turn");
        gate.begin_rests();
        assert!(gate.try_exclusive(0, 0).is_none());
        assert!(gate.gives_way(Newcomer::Long) && gate.gives_way(Newcomer::Script));
        gate.end_rests();
    }

    /// Nobody is alone while a command works on a key over several visits, and the gate stays open for it.
    #[test]
    fn issue_13_nobody_is_alone_beside_a_command_that_is_half_done() {
        let gate = Gate::new(2);
        let inside = gate.enter(0);
        gate.occupy();
        drop(inside);
        let before = gate.turn.lock().closings;
        assert!(gate.has_occupied() && gate.try_exclusive(1, 0).is_none());
        assert_eq!(gate.turn.lock().closings, before, "others go on");
        gate.wish.prolong();
        assert!(gate.gives_way(Newcomer::InParts), "the next one of its kind waits");
        let inside = gate.enter(0);
        gate.vacate();
        drop(inside);
        while gate.try_exclusive(1, 0).is_none() {}
        assert!(!gate.gives_way(Newcomer::InParts), "it had its turn");
        gate.begin_rests();
        assert!(gate.try_exclusive(1, 0).is_none());
        gate.wish.prolong();
        assert!(
            gate.gives_way(Newcomer::Script) && !gate.gives_way(Newcomer::InParts),
            "the script alone is in the way"
        );
        gate.end_rests();
        gate.wish.end();
        // One that occupies a key while the gate is being closed is seen by the one who closes it.
        let inside = gate.enter(0);
        thread::scope(|scope| {
            let alone = scope.spawn(|| gate.exclusive_within(1, Duration::from_secs(20)).is_some());
            while gate.is_open(0) {
                thread::yield_now();
            }
            gate.occupy();
            drop(inside);
            assert!(!alone.join().expect("it ends"), "it would see half of a command");
        });
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
                while gate.try_exclusive(1, 0).is_none() {}
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
