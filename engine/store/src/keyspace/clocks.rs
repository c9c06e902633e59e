//! The clocks that a worker writes, and the settings of limit and eviction.

use std::sync::atomic::Ordering::Relaxed;

use super::store::Store;
use super::worker::WorkerState;
use crate::state::clock::{Lfu, UseMeter, seconds};
use crate::state::policy::{Eviction, Policy};

impl WorkerState {
    /// The clock of an object that is new.
    #[inline]
    pub(crate) fn new_clock(&self, store: &Store) -> u32 {
        if store.limit().lfu().is_some() { Lfu::first(self.now_ms()) } else { seconds(self.now_ms()) }
    }

    /// An object's clock after one more use.
    #[inline]
    pub(crate) fn used_clock(&mut self, store: &Store, clock: u32) -> u32 {
        match store.limit().lfu() {
            None => seconds(self.now_ms()),
            Some(lfu) => lfu.used(clock, self.now_ms(), self.rng()),
        }
    }
}

impl Store {
    /// Sets `maxmemory` in bytes (0: no limit) and what makes room at it.
    pub fn set_limit(&self, bytes: u64, policy: Policy) {
        self.limit().set(bytes, policy);
    }

    /// Sets how eviction looks at keys.
    pub fn set_eviction(&self, eviction: &Eviction) {
        self.limit().set_eviction(eviction);
    }

    /// Leaves keys and values out of core dumps of the process, or has them in those, as it is at first.
    ///
    /// # Errors
    /// The system's.
    pub fn set_in_core_dumps(&self, has: bool) -> std::io::Result<()> {
        self.log().set_in_core_dumps(has)
    }

    /// `maxmemory` in bytes, 0 for none.
    pub fn limit_bytes(&self) -> u64 {
        self.limit().set_bytes()
    }

    /// A file is being loaded from now on, or no longer: meanwhile no limit holds, and nothing expires or is evicted by
    /// itself, since the file says what went. What is set meanwhile holds from the end of the loading on.
    pub fn set_loading(&self, on: bool) {
        self.loading.store(on, Relaxed);
        self.follow_limit();
        if !on {
            self.expect_keys(0);
        }
    }

    /// True while a file is being loaded.
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.load(Relaxed)
    }

    /// Another server decides from now on which keys go, or no longer: meanwhile nothing expires by itself, and with
    /// `unlimited` no limit holds. Keys go by themselves to which clients give a time meanwhile.
    pub fn set_following(&self, follows: bool, unlimited: bool) {
        self.follows.store(follows, Relaxed);
        self.follows_unlimited.store(follows && unlimited, Relaxed);
        if !follows {
            self.forget_own_dates();
        }
        self.follow_limit();
    }

    /// True while another server decides which keys go.
    pub fn is_following(&self) -> bool {
        self.follows.load(Relaxed)
    }

    /// Two data sets are in memory from now on, or one alone: meanwhile no limit holds.
    pub(crate) fn set_doubled(&self, on: bool) {
        self.is_doubled.store(on, Relaxed);
        self.follow_limit();
    }

    /// Has the limit hold, unless there is a reason for none.
    fn follow_limit(&self) {
        // One after the other: the last to look at the reasons sets what follows from them.
        let _one = self.lifting.lock();
        let reasons = [&self.loading, &self.follows_unlimited, &self.is_doubled];
        self.limit().lift(reasons.iter().any(|reason| reason.load(Relaxed)));
    }

    /// The policy that makes room at the limit.
    pub fn policy(&self) -> Policy {
        self.limit().policy()
    }

    /// How the policy of now looks at the use of keys.
    pub fn use_meter(&self) -> UseMeter {
        self.limit().use_meter()
    }

    /// Sets the bytes that connections' buffers use, which the limit covers. All workers read them: they are written only where
    /// they have changed.
    pub fn set_outside_bytes(&self, bytes: u64) {
        let outside = &self.limit().outside;
        if outside.load(Relaxed) != bytes {
            outside.store(bytes, Relaxed);
        }
    }
}
