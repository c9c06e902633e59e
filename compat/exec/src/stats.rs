//! Counts of the commands that a worker runs: calls, time, refusals, errors, and those that stand out: by time, or by the bytes of
//! their request or reply.
//!
//! ```text
//! turn:  t0 |cmd cmd cmd (fast)| t1 |SLOW one| t2 |cmd cmd| t3
//!           time shared out evenly    its own      shared out
//! ```
//! Counters are written by their worker alone and read by INFO; histograms are made at a command's first call.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use varve_base::counter::Counter;
use varve_base::hist::Hist;
use varve_base::shared::SharedBool;
use varve_catalog::{Flags, Row};
use varve_protocol::{Args, Mark, Reply};

use crate::denials;
use crate::errors::CommandError;
use crate::hot_keys::HotKeys;
use crate::monitor;

/// Most arguments that a slow-log entry keeps.
const SLOW_ARGS_MAX: usize = 32;
/// Slow-log thresholds below this time every command by itself, in microseconds.
const TIME_EACH_BELOW_MICROS: i64 = 1000;
/// Bytes among which the code of an error ends, and the space behind it.
const CODE_BYTES_MAX: usize = 31;
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

/// The logs of commands that stand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandLog {
    /// Those that took long.
    Slow,
    /// Those of long requests.
    LargeRequest,
    /// Those of long replies.
    LargeReply,
}

/// A command that goes into a log.
#[derive(Clone, Debug)]
pub struct LoggedCommand {
    /// The log.
    pub log: CommandLog,
    /// When it ended, seconds of Unix time.
    pub at_s: i64,
    /// How long it took in microseconds, or the bytes of its request or its reply.
    pub amount: u64,
    /// Its arguments, the long ones and the many cut.
    pub args: Vec<Vec<u8>>,
}

/// A worker's counters, shared with whoever asks.
#[derive(Debug)]
pub struct CommandStats {
    commands: Box<[CommandStat]>,
    /// How long shards were locked for commands, measured by the turn: a lock is kept for at most 16 commands.
    pub holds: Hist,
    /// The keys that they use most.
    pub hot_keys: HotKeys,
    /// Errors replied, by their first word.
    errors: Mutex<BTreeMap<String, u64>>,
    /// Whether durations go into the histograms (`latency-tracking`).
    tracking: SharedBool,
    /// Errors replied.
    pub error_replies: Counter,
}

impl CommandStats {
    /// Counters for commands and subcommands whose [`Row::id`]s are below `ids`.
    pub fn new(ids: usize) -> Arc<CommandStats> {
        let commands = (0..ids).map(|_| CommandStat::default()).collect();
        Arc::new(CommandStats {
            holds: Hist::new(),
            commands,
            hot_keys: HotKeys::default(),
            errors: Mutex::default(),
            tracking: SharedBool::new(true),
            error_replies: Counter::default(),
        })
    }

    /// A command's counters.
    #[inline]
    pub fn of(&self, d: &Row) -> &CommandStat {
        &self.commands[usize::from(d.id)]
    }

    /// Counts `calls` calls that took `nanos` together.
    #[inline]
    pub fn count(&self, d: &Row, calls: u64, nanos: u64) {
        let stat = self.of(d);
        stat.calls.add(calls);
        stat.nanos.add(nanos);
        self.record(stat, nanos / calls.max(1), calls);
    }

    /// Counts a call that waits, for keys or for a time, and took `nanos` until then: its duration is known when it is
    /// served.
    pub fn count_waiting(&self, d: &Row, nanos: u64) {
        let stat = self.of(d);
        stat.calls.add(1);
        stat.nanos.add(nanos);
    }

    /// Counts the serving of a call that has waited, and was counted then.
    pub(crate) fn count_served(&self, d: &Row, nanos: u64) {
        let stat = self.of(d);
        stat.nanos.add(nanos);
        self.record(stat, nanos, 1);
    }

    /// Puts calls of this duration into a command's histogram.
    #[inline]
    fn record(&self, stat: &CommandStat, nanos: u64, calls: u64) {
        if self.tracking.load(Ordering::Relaxed) {
            stat.latency.get_or_init(Hist::new).record_many_ns(nanos, calls);
        }
    }

    /// Counts a call that goes on after its first part, which took `nanos`.
    #[cold]
    pub(crate) fn begin_parts(&self, d: &Row, nanos: u64) {
        self.of(d).calls.add(1);
        self.of(d).nanos.add(nanos);
    }

    /// Counts the duration of a call that has gone on: its parts took `nanos` together.
    #[cold]
    pub(crate) fn end_parts(&self, d: &Row, nanos: u64) {
        if self.tracking.load(Ordering::Relaxed) {
            self.of(d).latency.get_or_init(Hist::new).record_many_ns(nanos, 1);
        }
    }

    /// Has durations go into the histograms from now on, or not.
    pub fn track_latency(&self, on: bool) {
        self.tracking.store(on, Ordering::Relaxed);
    }

    /// Counts an error reply by its first word, or as `ERR` if no word ends within its first 31 bytes; after 128 kinds, new
    /// ones count as `other`.
    pub fn count_error(&self, text: &[u8]) {
        self.error_replies.add(1);
        let word = text.iter().take(CODE_BYTES_MAX).position(|&b| b == b' ').map_or(&b"ERR"[..], |end| &text[..end]);
        let word = String::from_utf8_lossy(word);
        let mut errors = self.errors.lock().expect("no holder panics");
        let word = if errors.len() >= ERROR_KINDS_MAX && !errors.contains_key(&*word) { "other".into() } else { word };
        *errors.entry(word.into_owned()).or_default() += 1;
    }

    /// A command that ran has failed: takes back what it replied since `mark`, replies the error and counts it.
    #[cold]
    pub fn fail(&self, d: &Row, error: &CommandError, mark: Mark, out: &mut Reply) {
        self.of(d).failed.add(1);
        self.refuse(error, mark, out);
    }

    /// Nothing has run: takes back what was replied since `mark`, replies the error and counts it, unless it is the error of a
    /// script's command, which was counted as that.
    #[cold]
    pub fn refuse(&self, error: &CommandError, mark: Mark, out: &mut Reply) {
        out.truncate(mark);
        error.reply(out);
        if !error.is_counted() {
            self.count_error(error.text());
        }
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
        self.hot_keys.clear();
        self.holds.reset();
        self.error_replies.reset();
    }
}

/// A command that the latency monitor is to remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spike {
    /// The event that took long.
    pub event: SpikeEvent,
    /// When it ended, seconds of Unix time.
    pub at_s: i64,
    /// How long it took, milliseconds.
    pub millis: u64,
}

/// Events of a turn that may take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpikeEvent {
    /// A command.
    Command,
    /// A command that is flagged as fast.
    FastCommand,
    /// Serving a client that waited.
    Unblocking,
    /// Making room for a command by evicting keys.
    Eviction,
}

/// From which amounts on commands are noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedFrom {
    /// `slowlog-log-slower-than`, microseconds; negative: nothing is slow.
    pub slow_us: i64,
    /// `latency-monitor-threshold`, milliseconds; 0: nobody asks.
    pub spike_ms: u64,
    /// `commandlog-request-larger-than`, bytes; negative: no request is long.
    pub request_bytes: i64,
    /// `commandlog-reply-larger-than`, bytes; negative: no reply is long.
    pub reply_bytes: i64,
}

impl Default for NotedFrom {
    fn default() -> NotedFrom {
        NotedFrom { slow_us: 10_000, spike_ms: 0, request_bytes: 1 << 20, reply_bytes: 1 << 20 }
    }
}

/// Notes of commands that stand out, for the logs of commands and the latency monitor.
#[derive(Debug)]
pub struct Slow {
    from: NotedFrom,
    /// A command that took less is of no interest to the slow log and the monitor: the lower one of the two, nanoseconds.
    noted_ns: u64,
    commands: Vec<LoggedCommand>,
    spikes: Vec<Spike>,
}

impl Default for Slow {
    fn default() -> Slow {
        let from = NotedFrom::default();
        let mut slow = Slow { from, noted_ns: 0, commands: Vec::new(), spikes: Vec::new() };
        slow.set(from);
        slow
    }
}

impl Slow {
    /// Sets the thresholds.
    pub fn set(&mut self, from: NotedFrom) {
        let NotedFrom { slow_us, spike_ms, .. } = from;
        let slow_ns = u64::try_from(slow_us).map_or(u64::MAX, |micros| micros.saturating_mul(1000));
        let spike_ns = if spike_ms > 0 { spike_ms.saturating_mul(1_000_000) } else { u64::MAX };
        (self.from, self.noted_ns) = (from, slow_ns.min(spike_ns));
    }

    /// The greatest length of `replies` at which no reply has come to be that is to be noted, since they had `len` bytes.
    #[inline]
    pub(crate) fn reply_ceiling(&self, len: usize) -> usize {
        usize::try_from(self.from.reply_bytes).map_or(usize::MAX, |bytes| len.saturating_add(bytes).saturating_sub(1))
    }

    /// True if one of several requests of `bytes` bytes together may have to be noted.
    #[inline]
    pub(crate) fn may_note_requests(&self, bytes: usize) -> bool {
        usize::try_from(self.from.request_bytes).is_ok_and(|from| bytes >= from)
    }

    /// A command had this request.
    #[cold]
    pub(crate) fn note_request(&mut self, d: &Row, args: Args<'_>, now_ms: i64) {
        let bytes = request_bytes(args);
        if self.may_note_requests(bytes) && !d.flags.has(Flags::SKIP_SLOWLOG) {
            self.commands.push(logged_command(CommandLog::LargeRequest, d, args, now_ms / 1000, bytes as u64));
        }
    }

    /// A command had a reply of this number of bytes.
    #[inline]
    pub(crate) fn note_reply(&mut self, d: &Row, args: Args<'_>, now_ms: i64, bytes: usize) {
        if usize::try_from(self.from.reply_bytes).is_ok_and(|from| bytes >= from) {
            self.note_long_reply(d, args, now_ms, bytes);
        }
    }

    #[cold]
    fn note_long_reply(&mut self, d: &Row, args: Args<'_>, now_ms: i64, bytes: usize) {
        if !d.flags.has(Flags::SKIP_SLOWLOG) {
            self.commands.push(logged_command(CommandLog::LargeReply, d, args, now_ms / 1000, bytes as u64));
        }
    }

    /// Has the thresholds of another one.
    pub(crate) fn follow(&mut self, other: &Slow) {
        (self.from, self.noted_ns) = (other.from, other.noted_ns);
    }

    /// Takes over what another one has noted.
    pub(crate) fn absorb(&mut self, other: &mut Slow) {
        self.commands.append(&mut other.commands);
        self.spikes.append(&mut other.spikes);
    }

    /// True if every command must be timed by itself, cheap as it may be.
    #[inline]
    pub(crate) fn times_each(&self) -> bool {
        self.from.spike_ms > 0 || (0..TIME_EACH_BELOW_MICROS).contains(&self.from.slow_us)
    }

    /// True if somebody asks for spikes.
    #[inline]
    pub(crate) fn has_monitor(&self) -> bool {
        self.from.spike_ms > 0
    }

    /// A command took so long; `now_ms` is its time, milliseconds of Unix time.
    #[inline]
    pub fn note(&mut self, d: &Row, args: Args<'_>, now_ms: i64, nanos: u64) {
        if nanos >= self.noted_ns {
            self.note_long(d, args, now_ms, nanos);
        }
    }

    #[cold]
    fn note_long(&mut self, d: &Row, args: Args<'_>, now_ms: i64, nanos: u64) {
        self.note_spike(SpikeEvent::of(d), now_ms, nanos);
        self.commands.extend(self.slow_command(d, args, now_ms, nanos));
    }

    /// Another client's command that waited was served in this time: its entry for the slow log if it is slow, which is
    /// that client's.
    #[inline]
    pub(crate) fn note_served(
        &mut self,
        d: &Row,
        args: Args<'_>,
        now_ms: i64,
        nanos: u64,
    ) -> Option<Box<LoggedCommand>> {
        if nanos < self.noted_ns {
            return None;
        }
        self.note_spike(SpikeEvent::Unblocking, now_ms, nanos);
        self.slow_command(d, args, now_ms, nanos).map(Box::new)
    }

    fn slow_command(&self, d: &Row, args: Args<'_>, now_ms: i64, nanos: u64) -> Option<LoggedCommand> {
        let is_long = u64::try_from(self.from.slow_us).is_ok_and(|from| nanos / 1000 >= from);
        let is_slow = is_long && !d.flags.has(Flags::SKIP_SLOWLOG);
        is_slow.then(|| logged_command(CommandLog::Slow, d, args, now_ms / 1000, nanos / 1000))
    }

    /// Something took so long.
    #[inline]
    pub fn note_spike(&mut self, event: SpikeEvent, now_ms: i64, nanos: u64) {
        let millis = nanos / 1_000_000;
        if self.has_monitor() && millis >= self.from.spike_ms {
            // The command ended later than its time says.
            self.spikes.push(Spike { event, at_s: (now_ms + millis as i64) / 1000, millis });
        }
    }

    /// The commands that go into logs since the last call, oldest first.
    #[inline]
    pub fn take_commands(&mut self) -> Option<Vec<LoggedCommand>> {
        (!self.commands.is_empty()).then(|| std::mem::take(&mut self.commands))
    }

    /// The spikes since the last call, oldest first.
    #[inline]
    pub fn take_spikes(&mut self) -> Option<Vec<Spike>> {
        (!self.spikes.is_empty()).then(|| std::mem::take(&mut self.spikes))
    }
}

impl SpikeEvent {
    fn of(d: &Row) -> SpikeEvent {
        if d.flags.has(Flags::FAST) { SpikeEvent::FastCommand } else { SpikeEvent::Command }
    }
}

/// Bytes of a request on its way.
fn request_bytes(args: Args<'_>) -> usize {
    let digits = |number: usize| 1 + number.checked_ilog10().unwrap_or(0) as usize;
    let framed = |bytes: usize| 1 + digits(bytes) + 2 + bytes + 2;
    1 + digits(args.len()) + 2 + args.iter().map(|arg| framed(arg.len())).sum::<usize>()
}

/// Copies a request for a log: at most 32 arguments of at most 128 bytes, with a word on what was left out, and
/// without what is secret.
fn logged_command(log: CommandLog, d: &Row, args: Args<'_>, at_s: i64, amount: u64) -> LoggedCommand {
    let shown = if args.len() > SLOW_ARGS_MAX { SLOW_ARGS_MAX - 1 } else { args.len() };
    let show = |arg: Option<&[u8]>| arg.map_or_else(|| monitor::REDACTED.to_vec(), denials::shown);
    let mut kept: Vec<Vec<u8>> = d.shown(args).take(shown).map(show).collect();
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    LoggedCommand { log, at_s, amount, args: kept }
}
