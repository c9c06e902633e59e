//! MONITOR: which workers have connections that want every command, and how the lines get there.
//!
//! ```text
//!   each worker: commands of a turn --anybody?--> lines, one buffer --> inboxes of the workers with monitors
//! ```
//! While nobody monitors, a turn costs one relaxed load. Not here: the lines' form (`varve_exec::monitor`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use varve_base::shared::SharedUsize;
use varve_exec::monitor::Seen;

use crate::features::pubsub::state::{Item, Registry};

/// The number of monitors.
#[derive(Debug)]
pub(crate) struct Monitors {
    all: SharedUsize,
    of_worker: Box<[SharedUsize]>,
}

impl Monitors {
    /// No monitors, with `workers` workers.
    pub(crate) fn new(workers: usize) -> Monitors {
        Monitors { all: SharedUsize::new(0), of_worker: (0..workers).map(|_| SharedUsize::new(0)).collect() }
    }

    /// True if somebody wants every command.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.all.load(Ordering::Relaxed) > 0
    }

    /// One more on this worker, or one less.
    pub(crate) fn count(&self, worker: usize, on: bool) {
        for count in [&self.of_worker[worker], &self.all] {
            if on {
                count.fetch_add(1, Ordering::Relaxed);
            } else {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Sends what a connection has run to all monitors.
    pub(crate) fn send(&self, registry: &Registry, own: usize, address: &str, seen: &[Seen]) {
        let mut lines = Vec::new();
        seen.iter().for_each(|seen| seen.line(address, &mut lines));
        let lines: Arc<[u8]> = lines.into();
        let monitors = |worker: usize| self.of_worker[worker].load(Ordering::Relaxed);
        let wake: Vec<usize> = registry.push_where(monitors, own, || Item::Monitor(Arc::clone(&lines))).collect();
        registry.wake(&wake);
    }
}
