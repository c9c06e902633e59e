//! The script that runs, as other workers see it: they ask for how long it has run, and they end it.
//!
//! ```text
//!   begin          since: when it began      ends: asked for each tick
//!   has written    may not be ended any more, but with the process
//!   end            nothing runs
//! ```
//! One script runs at a time in a server.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Instant;

use varve_base::shared::{SharedBool, SharedMutex, SharedU8, SharedU64};
use varve_exec::{CommandError, ScriptKind};
use varve_protocol::Args;

use crate::errors;

const IDLE: u8 = 0;
const RUNS: u8 = 1;
/// It has changed something.
const WRITTEN: u8 = 2;
/// It is to end.
const KILLED: u8 = 3;

/// See the module's picture.
#[derive(Debug)]
pub struct Running {
    /// The beginning of the clock of `since`.
    epoch: Instant,
    state: SharedU8,
    /// When the script that runs began, in milliseconds since `epoch`.
    since: SharedU64,
    function: SharedBool,
    /// The function that runs, once it takes time.
    called: SharedMutex<Option<RunningFunction>>,
    /// The server ends: nothing runs any more, whatever it has changed.
    abandoned: SharedBool,
}

/// A function that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningFunction {
    /// Its name, as it was registered.
    pub(crate) name: Vec<u8>,
    /// The request that runs it.
    pub(crate) words: Vec<Box<[u8]>>,
    /// Milliseconds since it began.
    pub(crate) for_ms: u64,
}

impl Default for Running {
    fn default() -> Running {
        Running {
            epoch: Instant::now(),
            state: SharedU8::new(IDLE),
            since: SharedU64::new(0),
            function: SharedBool::new(false),
            called: SharedMutex::default(),
            abandoned: SharedBool::new(false),
        }
    }
}

impl Running {
    /// A script has begun at this time.
    pub(crate) fn begin(&self, kind: ScriptKind, at: Instant) {
        self.since.store(at.saturating_duration_since(self.epoch).as_millis() as u64, Release);
        self.function.store(kind == ScriptKind::Function, Release);
        let before = self.state.swap(RUNS, AcqRel);
        debug_assert_eq!(before, IDLE, "one script at a time");
    }

    /// The function that runs takes time: others may ask for it from now on.
    pub(crate) fn note_function(&self, name: &[u8], args: Args<'_>) {
        let words = args.iter().map(Box::from).collect();
        *self.called.lock() = Some(RunningFunction { name: name.to_vec(), words, for_ms: 0 });
    }

    /// The function that runs, once it has taken some time.
    pub(crate) fn function(&self) -> Option<RunningFunction> {
        let called = self.called.lock().clone();
        let (for_ms, _) = self.busy().filter(|(_, kind)| *kind == ScriptKind::Function)?;
        called.map(|called| RunningFunction { for_ms, ..called })
    }

    /// The script has ended.
    pub(crate) fn end(&self) {
        if self.function.load(Acquire) {
            *self.called.lock() = None;
        }
        self.state.store(IDLE, Release);
    }

    /// The script is about to change something: it is not ended from now on. False if it is to end already.
    pub(crate) fn note_write(&self) -> bool {
        let state = self.state.load(Acquire);
        state == WRITTEN || self.state.compare_exchange(RUNS, WRITTEN, AcqRel, Acquire).is_ok()
    }

    /// True if the script that runs is to end.
    pub(crate) fn is_killed(&self) -> bool {
        self.state.load(Acquire) == KILLED
    }

    /// The server ends: so does whatever script runs.
    pub fn abandon(&self) {
        self.abandoned.store(true, Release);
    }

    /// True if the server ends.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Acquire)
    }

    /// Milliseconds for which a script has run, and its kind; None while none runs.
    pub(crate) fn busy(&self) -> Option<(u64, ScriptKind)> {
        if self.state.load(Acquire) == IDLE {
            return None;
        }
        let kind = if self.function.load(Acquire) { ScriptKind::Function } else { ScriptKind::Script };
        Some((self.now_ms().saturating_sub(self.since.load(Acquire)), kind))
    }

    /// The kind of the script that has run for `threshold_ms` milliseconds or more, if one has; 0: nobody asks.
    #[inline]
    pub fn busy_for(&self, threshold_ms: u64) -> Option<ScriptKind> {
        if self.state.load(Acquire) == IDLE {
            return None;
        }
        self.busy().filter(|(ms, _)| threshold_ms > 0 && *ms >= threshold_ms).map(|(_, kind)| kind)
    }

    /// Ends the script of this kind that runs.
    ///
    /// # Errors
    /// None of this kind runs, or it has changed something.
    pub(crate) fn kill(&self, kind: ScriptKind) -> Result<(), CommandError> {
        match self.busy() {
            None => return Err(errors::NOT_BUSY),
            Some((_, running)) if running != kind => {
                return Err(if kind == ScriptKind::Script {
                    CommandError::BUSY_FUNCTION
                } else {
                    CommandError::BUSY_SCRIPT
                });
            }
            Some(_) => {}
        }
        match self.state.compare_exchange(RUNS, KILLED, AcqRel, Acquire) {
            Ok(_) | Err(KILLED) => Ok(()),
            Err(WRITTEN) => Err(errors::UNKILLABLE),
            Err(_) => Err(errors::NOT_BUSY),
        }
    }

    fn now_ms(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_ended_until_it_has_written() {
        let running = Running::default();
        assert_eq!(running.kill(ScriptKind::Script), Err(errors::NOT_BUSY));
        running.begin(ScriptKind::Script, Instant::now());
        assert_eq!(running.kill(ScriptKind::Function), Err(CommandError::BUSY_SCRIPT));
        assert!(!running.is_killed() && running.busy().is_some());
        assert_eq!(running.kill(ScriptKind::Script), Ok(()));
        assert!(running.is_killed() && !running.note_write(), "it changes nothing any more");
        running.end();
        running.begin(ScriptKind::Function, Instant::now());
        assert!(running.note_write() && running.note_write());
        assert_eq!(running.kill(ScriptKind::Function), Err(errors::UNKILLABLE));
        assert_eq!(running.kill(ScriptKind::Script), Err(CommandError::BUSY_FUNCTION));
        running.end();
        assert!(running.busy().is_none() && !running.is_killed());
    }
}
