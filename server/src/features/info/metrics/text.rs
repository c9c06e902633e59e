//! The figures as text that Prometheus reads (exposition format 0.0.4).
//!
//! ```text
//!   # HELP redis_connected_clients INFO's field connected_clients.
//!   # TYPE redis_connected_clients gauge
//!   redis_connected_clients 12
//! ```
//! The lines of one metric stand together. What begins with `redis_` has redis_exporter's name and meaning; what begins
//! with `varve_` is of this server alone. The text is made from one gathering of INFO's facts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use varve_base::hist::Counts;
use varve_base::shared::SharedUsize;
use varve_commands::segments::class_name;
use varve_exec::stats::CommandLog;
use varve_store::SegmentClass;

use super::super::facts::{CommandFacts, Facts};
use super::super::{Costly, facts, render};
use super::names::{Kind, NAMES};
use super::replication::replication;
use crate::state::{ServerState, WaitsOn};

/// The type of the text, as HTTP names it.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The limits of histograms: 1.024 us, and each four times the one before, to 4.6 minutes.
const FIRST_LIMIT_NS: u64 = 1024;
const LIMITS: usize = 15;

/// All metrics as they are now.
pub(super) fn all(state: &ServerState) -> String {
    // Room for as much as last time: a text that grows is copied again and again.
    static LAST: SharedUsize = SharedUsize::new(32 << 10);
    let facts = facts(state, Costly::ALL);
    let mut text = Text(String::with_capacity(LAST.load(Ordering::Relaxed) + 4096));
    fields(&facts, &mut text);
    instance(state, &facts, &mut text);
    replication(&facts, &mut text);
    slow_log(state, &mut text);
    databases(&facts, &mut text);
    commands(&facts, &mut text);
    latencies(state, &facts, &mut text);
    store(&facts, &mut text);
    LAST.store(text.0.len(), Ordering::Relaxed);
    text.0
}

/// The text as it grows.
pub(super) struct Text(String);

impl Text {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(super) fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Number) {
        self.labelled((name, ""), labels, value);
    }

    /// A line of the metric that has this name with this end.
    fn labelled(&mut self, (name, end): (&str, &str), labels: &[(&str, &str)], value: impl Number) {
        self.0.push_str(name);
        self.0.push_str(end);
        for (at, (label, content)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            let content = escaped(content);
            [*label, "=\"", &content, "\""].iter().for_each(|part| self.0.push_str(part));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        self.0.push(' ');
        value.put(&mut self.0);
        self.0.push('\n');
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Number) {
        self.family(name, kind, help);
        self.line(name, &[], value);
    }

    /// The lines of one histogram. `sum` is in the limits' unit.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], counts: &Counts, limits: &Limits, sum: impl Number) {
        // All lines begin alike, behind the end of the one before: labels are written once, in the first line.
        let (start, count) = (self.0.len(), counts.count());
        [name, "_bucket{"].iter().for_each(|part| self.0.push_str(part));
        for (label, content) in labels {
            [*label, "=\"", &escaped(content), "\","].iter().for_each(|part| self.0.push_str(part));
        }
        self.0.push_str("le=\"");
        let begin = start..self.0.len();
        self.0.reserve((LIMITS + 3) * (begin.len() + 40));
        let below = limits.texts.iter().map(String::as_str).zip(counts.below_each_ns(limits.ns));
        for (nth, (limit, within)) in below.chain([("+Inf\"} ", count)]).enumerate() {
            if nth > 0 {
                self.0.extend_from_within(begin.clone());
            }
            self.0.push_str(limit);
            within.put(&mut self.0);
            self.0.push('\n');
        }
        self.labelled((name, "_sum"), labels, sum);
        self.labelled((name, "_count"), labels, count);
    }
}

/// A figure that can be written. Most are whole, and thousands of them are written at a scrape: not by way of `Display`, which
/// took a sixth of the time.
pub(super) trait Number {
    /// Appends it to a text.
    fn put(self, text: &mut String);
}

macro_rules! whole_numbers {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            fn put(self, text: &mut String) {
                text.push_str(itoa::Buffer::new().format(self));
            }
        }
    )*};
}
whole_numbers!(u32 i32 u64 i64 usize);

impl Number for f64 {
    fn put(self, text: &mut String) {
        // All whole numbers up to here are numbers of this kind.
        const WHOLE_MAX: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
        if self.fract() == 0.0 && self.abs() <= WHOLE_MAX {
            return (self as i64).put(text);
        }
        let _ = write!(text, "{self}");
    }
}

/// A whole number of parts of a unit, of which one has `10^digits`: exact, and written without a fraction's search for its
/// shortest form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) number: u64,
    pub(super) digits: u32,
}

impl Number for Parts {
    fn put(self, text: &mut String) {
        let unit = 10_u64.pow(self.digits);
        (self.number / unit).put(text);
        let (mut rest, mut digits) = (self.number % unit, self.digits);
        if rest == 0 {
            return;
        }
        while rest.is_multiple_of(10) {
            (rest, digits) = (rest / 10, digits - 1);
        }
        let mut buffer = itoa::Buffer::new();
        let shown = buffer.format(rest);
        text.push('.');
        (shown.len()..digits as usize).for_each(|_| text.push('0'));
        text.push_str(shown);
    }
}

impl<T: Number + Copy> Number for &T {
    fn put(self, text: &mut String) {
        (*self).put(text);
    }
}

/// The limits of histograms, and how they are written, up to the value behind them.
struct Limits {
    ns: [u64; LIMITS],
    texts: [String; LIMITS],
}

impl Limits {
    /// In units of which one has `unit_ns` nanoseconds.
    fn new(unit_ns: f64) -> Limits {
        let ns = std::array::from_fn(|step| FIRST_LIMIT_NS << (2 * step));
        Limits { ns, texts: ns.map(|limit| format!("{}\"}} ", limit as f64 / unit_ns)) }
    }
}

/// A label's content: backslashes, quotes and ends of lines are escaped.
fn escaped(content: &str) -> Cow<'_, str> {
    if !content.bytes().any(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        return Cow::Borrowed(content);
    }
    Cow::Owned(content.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// INFO's fields that are numbers.
fn fields(facts: &Facts, text: &mut Text) {
    let shown = render([b"default".as_slice()].into_iter(), facts);
    let values: HashMap<&str, &str> = shown.lines().filter_map(|line| line.split_once(':')).collect();
    for &(field, name, kind) in NAMES {
        let Some(&value) = values.get(field) else { continue };
        let number = match kind {
            Kind::Status => f64::from(u8::from(value == "ok")),
            Kind::Micros => value.parse::<f64>().map_or(0.0, |micros| micros / 1e6),
            Kind::Counter | Kind::Gauge => value.trim_end_matches('%').parse().unwrap_or(0.0),
        };
        text.single(&format!("redis_{name}"), kind.word(), &format!("INFO's field {field}."), number);
    }
}

fn instance(state: &ServerState, facts: &Facts, text: &mut Text) {
    text.single("redis_up", "gauge", "1: the server answers.", 1);
    let start_s = facts.server.now_us as f64 / 1e6 - facts.server.uptime_s as f64;
    text.single("redis_start_time_seconds", "gauge", "When the server began, in Unix time.", start_s.round());
    let shown = render([b"server".as_slice(), b"memory", b"replication"].into_iter(), facts);
    let value = |wanted: &str| {
        let field = shown.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| *name == wanted);
        field.map_or("", |(_, value)| value)
    };
    let port = facts.config.port.to_string();
    let labels = [
        ("role", value("role")),
        ("redis_version", value("redis_version")),
        ("varve_version", value("varve_version")),
        ("redis_build_id", value("redis_build_id")),
        ("redis_mode", value("redis_mode")),
        ("os", value("os")),
        ("maxmemory_policy", value("maxmemory_policy")),
        ("tcp_port", &port),
        ("run_id", state.run_id()),
        ("process_id", value("process_id")),
    ];
    text.family("redis_instance_info", "gauge", "What the server is.");
    text.line("redis_instance_info", &labels, 1);
}

fn slow_log(state: &ServerState, text: &mut Text) {
    let (length, newest) = {
        let mut logs = state.command_logs();
        let slowlog = logs.of(CommandLog::Slow);
        let newest = slowlog.iter().next().map(|entry| (entry.id, entry.command.amount));
        (slowlog.len(), newest)
    };
    let (id, micros) = newest.unwrap_or_default();
    text.single("redis_slowlog_length", "gauge", "Entries of the slow log.", length);
    text.single("redis_slowlog_last_id", "gauge", "The newest entry's number.", id);
    let help = "What the newest entry of the slow log took.";
    text.single("redis_last_slow_execution_duration_seconds", "gauge", help, micros as f64 / 1e6);
}

fn databases(facts: &Facts, text: &mut Text) {
    let of = |number: u32| facts.databases.iter().find(|database| database.number == number);
    let all: Vec<_> = (0..facts.config.databases).map(|number| (format!("db{number}"), of(number))).collect();
    text.family("redis_db_keys", "gauge", "Keys of a database.");
    for (name, database) in &all {
        text.line("redis_db_keys", &[("db", name)], database.map_or(0, |database| database.keys));
    }
    text.family("redis_db_keys_expiring", "gauge", "Keys with a time to live.");
    for (name, database) in &all {
        let keys = database.map_or(0, |database| database.volatile_keys);
        text.line("redis_db_keys_expiring", &[("db", name)], keys);
    }
    text.family("redis_db_avg_ttl_seconds", "gauge", "Mean time to live, 0 where it is not known.");
    for (name, database) in all.iter().filter_map(|(name, database)| Some((name, (*database)?))) {
        text.line("redis_db_avg_ttl_seconds", &[("db", name)], database.ttl_ms_mean as f64 / 1e3);
    }
}

fn commands(facts: &Facts, text: &mut Text) {
    let mut family = |name: &str, help: &str, digits: u32, value: fn(&CommandFacts) -> u64| {
        text.family(name, "counter", help);
        for command in &facts.commands {
            text.line(name, &[("cmd", &command.name)], Parts { number: value(command), digits });
        }
    };
    family("redis_commands_total", "Calls of a command.", 0, |command| command.calls);
    family("redis_commands_duration_seconds_total", "Time in the calls of a command.", 6, |command| command.total_us);
    family("redis_commands_rejected_calls_total", "Calls refused before they ran.", 0, |command| command.rejected);
    family("redis_commands_failed_calls_total", "Calls answered by an error.", 0, |command| command.failed);
    text.family("redis_errors_total", "counter", "Error replies by their first word.");
    for error in &facts.errors {
        text.line("redis_errors_total", &[("err", &error.word)], error.count);
    }
}

fn latencies(state: &ServerState, facts: &Facts, text: &mut Text) {
    const SUMMARY: &str = "redis_latency_percentiles_usec";
    text.family(SUMMARY, "summary", "Microseconds within which a share of a command's calls ended.");
    // All commands have the percentiles that a setting names: they are written once.
    let percents: Vec<String> = facts.config.latency_percentiles.iter().map(ToString::to_string).collect();
    for command in facts.commands.iter().filter(|command| !command.percentiles_ns.is_empty()) {
        for ((_, ns), percent) in command.percentiles_ns.iter().zip(&percents) {
            let labels = [("cmd", command.name.as_str()), ("quantile", percent.as_str())];
            text.line(SUMMARY, &labels, Parts { number: *ns, digits: 3 });
        }
        let labels = [("cmd", command.name.as_str())];
        text.labelled((SUMMARY, "_sum"), &labels, command.total_us);
        text.labelled((SUMMARY, "_count"), &labels, command.calls);
    }
    const HISTOGRAM: &str = "redis_commands_latencies_usec";
    text.family(HISTOGRAM, "histogram", "Microseconds that a command's calls took.");
    let limits = Limits::new(1e3);
    for row in state.commands().each() {
        if let Some(counts) = state.call_durations(row).filter(|counts| counts.max_ns() > 0) {
            let nanos: u64 = state.workers().iter().map(|worker| worker.commands().of(row).nanos.get()).sum();
            let sum = Parts { number: nanos, digits: 3 };
            text.histogram(HISTOGRAM, &[("cmd", row.full_name)], &counts, &limits, sum);
        }
    }
}

/// Varve's own: the segments, their reclaim, and what keeps others waiting.
fn store(facts: &Facts, text: &mut Text) {
    let (background, log) = (&facts.background, &facts.background.log);
    text.family("varve_segments", "gauge", "Segments by what happens to them.");
    let states = [
        ("open", u64::from(log.open_segments)),
        ("sealed", u64::from(log.sealed_segments)),
        ("draining", u64::from(log.draining_segments)),
        ("of_large_values", u64::from(log.extent_segments)),
        ("free", u64::from(log.free_segments)),
    ];
    states.iter().for_each(|(state, count)| text.line("varve_segments", &[("state", state)], count));
    text.family("varve_segments_by_class", "gauge", "Open, sealed and draining segments by what lies in them.");
    for (class, count) in SegmentClass::ALL.into_iter().zip(log.classes) {
        text.line("varve_segments_by_class", &[("class", class_name(class))], count);
    }
    text.single("varve_index_keys", "gauge", "Keys in the index.", background.index.keys);
    text.single("varve_index_cells", "gauge", "Keys for which the index has cells.", background.index.cells);
    let fullest = background.fullest_index.percent() as f64 / 100.0;
    text.single("varve_index_load_max", "gauge", "Keys of a cell in the shard whose index is fullest.", fullest);
    text.family(
        "varve_segments_by_utilisation",
        "gauge",
        "Segments by the share of their bytes that lives, in tenths.",
    );
    for (tenth, count) in log.tenths.iter().enumerate() {
        let labels = [("tenth", tenth.to_string())];
        text.line(
            "varve_segments_by_utilisation",
            &labels.each_ref().map(|(name, tenth)| (*name, tenth.as_str())),
            count,
        );
    }
    let bytes = [
        ("live", log.live_bytes),
        ("used", log.used_bytes),
        ("opened", log.opened_bytes),
        ("kept_for_new_segments", log.cached_bytes),
        ("large_values", log.run_bytes),
        ("tables", log.table_bytes),
    ];
    text.family("varve_log_bytes", "gauge", "Bytes of the segment log.");
    bytes.iter().for_each(|(part, count)| text.line("varve_log_bytes", &[("part", part)], count));
    text.single("varve_log_live_objects", "gauge", "Objects that live in the segment log.", log.live_objects);
    let cost = &background.cost;
    text.single("varve_reclaim_victims_total", "counter", "Segments that were drained.", cost.victims);
    text.single("varve_reclaim_live_bytes_total", "counter", "Live bytes in them.", cost.live_bytes);
    text.single("varve_reclaim_moved_objects_total", "counter", "Objects that were moved.", background.moved_objects);
    if let Some(lag_ms) = facts.stats.expire_lag_ms {
        let help = "How long a key has been due that is still there.";
        text.single("varve_expire_lag_seconds", "gauge", help, lag_ms as f64 / 1e3);
    }
    let times = [
        ("varve_lock_hold_seconds", "How long shards are locked for commands.", &background.holds),
        ("varve_background_turn_seconds", "Turns of the background's work.", &background.slices),
        ("varve_background_step_seconds", "Rounds of steps in those turns.", &background.rounds),
        ("varve_expiry_delay_seconds", "By how much expired keys were late.", &background.expiry_lag),
    ];
    let limits = Limits::new(1e9);
    for (name, help, counts) in times {
        text.family(name, "histogram", help);
        text.histogram(name, &[], counts, &limits, sum_s(counts));
    }
    const WAITS: &str = "varve_wait_seconds";
    text.family(WAITS, "histogram", "How long connections waited for what others hold, or for their clients to read.");
    for ((_, word), counts) in WaitsOn::ALL.iter().zip(&background.waits) {
        text.histogram(WAITS, &[("for", word)], counts, &limits, sum_s(counts));
    }
}

/// The sum of the durations, about, in seconds.
fn sum_s(counts: &Counts) -> f64 {
    counts.mean_ns() * counts.count() as f64 / 1e9
}
