//! What a worker counts of the commands it runs: calls, time, refusals, errors, and the slow ones.
//!
//! ```text
//! turn:  t0 |cmd cmd cmd (fast)| t1 |SLOW one| t2 |cmd cmd| t3
//!           time shared out evenly    its own      shared out
//! ```
//! Counters are written by their worker alone and read by INFO; histograms are made at a command's first call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use varve_protocol::Args;
use varve_store::Counter;
use varve_store::hist::Hist;

use crate::descriptor::Descriptor;

/// Most arguments that a slow-log entry keeps.
const SLOW_ARGS_MAX: usize = 32;
/// Most bytes of an argument that a slow-log entry keeps.
const SLOW_ARG_BYTES_MAX: usize = 128;
/// Most kinds of errors that are told apart.
const ERROR_KINDS_MAX: usize = 128;

/// One command's counters.
#[derive(Debug, Default)]
pub struct CommandStat {
    /// Calls that ran.
    pub calls: Counter,
    /// Time in them, nanoseconds.
    pub nanos: Counter,
    /// Calls refused before they ran: arity, authentication, memory.
    pub rejected: Counter,
    /// Calls that replied an error.
    pub failed: Counter,
    /// Their durations, made at the first call.
    pub latency: OnceLock<Hist>,
}

/// A command that took longer than the threshold.
#[derive(Clone, Debug)]
pub struct SlowCommand {
    /// When it ended, seconds of Unix time.
    pub at_s: i64,
    /// How long it took.
    pub micros: u64,
    /// Its arguments, the long ones and the many cut.
    pub args: Vec<Vec<u8>>,
}

/// A worker's counters, shared with whoever asks.
#[derive(Debug)]
pub struct CommandStats {
    commands: Box<[CommandStat]>,
    /// How long shards were locked for commands, measured by the turn: a lock is kept for at most 16 commands.
    pub holds: Hist,
    /// Errors replied, by their first word.
    errors: Mutex<BTreeMap<String, u64>>,
    /// Whether durations go into the histograms (`latency-tracking`).
    tracking: AtomicBool,
    /// Commands that ran.
    pub processed: Counter,
    /// Errors replied.
    pub error_replies: Counter,
}

impl CommandStats {
    /// Counters for every command of the table.
    pub fn new() -> Arc<CommandStats> {
        let commands = (0..crate::table::count_ids()).map(|_| CommandStat::default()).collect();
        Arc::new(CommandStats {
            holds: Hist::new(),
            commands,
            errors: Mutex::default(),
            tracking: AtomicBool::new(true),
            processed: Counter::default(),
            error_replies: Counter::default(),
        })
    }

    /// A command's counters.
    #[inline]
    pub fn of(&self, d: &Descriptor) -> &CommandStat {
        &self.commands[usize::from(d.id)]
    }

    /// Counts `calls` calls that took `nanos` together.
    #[inline]
    pub fn count(&self, d: &Descriptor, calls: u64, nanos: u64) {
        let stat = self.of(d);
        stat.calls.add(calls);
        stat.nanos.add(nanos);
        if self.tracking.load(Ordering::Relaxed) {
            stat.latency.get_or_init(Hist::new).record_many_ns(nanos / calls.max(1), calls);
        }
    }

    /// Has durations go into the histograms from now on, or not.
    pub fn track_latency(&self, on: bool) {
        self.tracking.store(on, Ordering::Relaxed);
    }

    /// Counts an error reply by its first word; after 128 kinds, new ones count as `other`.
    pub fn count_error(&self, text: &[u8]) {
        self.error_replies.add(1);
        let word = text.split(|&b| b == b' ').next().unwrap_or_default();
        let word = String::from_utf8_lossy(word);
        let mut errors = self.errors.lock().expect("no holder panics");
        let word = if errors.len() >= ERROR_KINDS_MAX && !errors.contains_key(&*word) { "other".into() } else { word };
        *errors.entry(word.into_owned()).or_default() += 1;
    }

    /// Errors by their first word.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.lock().expect("no holder panics").clone()
    }

    /// Back to zero (CONFIG RESETSTAT).
    pub fn reset(&self) {
        for stat in &self.commands {
            [&stat.calls, &stat.nanos, &stat.rejected, &stat.failed].into_iter().for_each(|c| c.reset());
            if let Some(latency) = stat.latency.get() {
                latency.reset();
            }
        }
        self.errors.lock().expect("no holder panics").clear();
        self.holds.reset();
        self.processed.reset();
        self.error_replies.reset();
    }
}

/// Copies a request for the slow log: at most 32 arguments of at most 128 bytes, with a word on what was left out.
pub fn slow_command(args: Args<'_>, at_s: i64, micros: u64) -> SlowCommand {
    let shown = if args.len() > SLOW_ARGS_MAX { SLOW_ARGS_MAX - 1 } else { args.len() };
    let mut kept: Vec<Vec<u8>> = (0..shown).map(|n| cut(args.get(n))).collect();
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    SlowCommand { at_s, micros, args: kept }
}

fn cut(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= SLOW_ARG_BYTES_MAX {
        return arg.to_vec();
    }
    let mut kept = arg[..SLOW_ARG_BYTES_MAX].to_vec();
    kept.extend_from_slice(format!("... ({} more bytes)", arg.len() - SLOW_ARG_BYTES_MAX).as_bytes());
    kept
}
