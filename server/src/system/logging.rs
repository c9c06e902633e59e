//! The log: `tracing` events as lines of Redis's form, to standard output or a file, and to the system's log.
//!
//! ```text
//!   4711:M 21 Nov 2026 02:29:54.140 * Ready to accept connections
//!   pid  role  local time       level: . debug  - verbose  * notice  # warning       role: M primary, S replica
//! ```
//! TRACE is Redis's debug, DEBUG its verbose, INFO its notice, WARN and ERROR its warning. The file is opened for each
//! line, so that it may be moved away at any time. Spans are not used and not kept. A line that cannot be written is
//! lost: there is nobody to tell.

use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber, span};
use varve_base::shared::{SharedBool, SharedU8};

use super::sys::{LocalTime, local_time};
use super::syslog::{Severity, Syslog};

/// How much is written to the log; each level includes the later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogLevel {
    Debug,
    Verbose,
    Notice,
    Warning,
}

/// The level in force, as the discriminant of `LogLevel`: CONFIG SET changes it while every thread logs.
static LEVEL: SharedU8 = SharedU8::new(LogLevel::Notice as u8);
/// The process follows a primary.
static IS_REPLICA: SharedBool = SharedBool::new(false);

/// Starts the log of this process; once. The file's directory must be there. Lines go to `syslog` as well.
pub(crate) fn start(level: LogLevel, file: Option<&Path>, syslog: Option<Syslog>) -> std::io::Result<()> {
    set_level(level);
    let file = file.map(std::path::absolute).transpose()?;
    if let Some(path) = &file {
        OpenOptions::new().append(true).create(true).open(path)?;
    }
    tracing::subscriber::set_global_default(Log { file, syslog }).map_err(std::io::Error::other)
}

/// Changes how much is logged.
pub(crate) fn set_level(level: LogLevel) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Lines say from now on that they are a replica's, or a primary's.
pub(crate) fn set_replica(is_replica: bool) {
    IS_REPLICA.store(is_replica, Ordering::Relaxed);
}

struct Log {
    file: Option<PathBuf>,
    syslog: Option<Syslog>,
}

fn level_of(level: Level) -> LogLevel {
    match level {
        Level::TRACE => LogLevel::Debug,
        Level::DEBUG => LogLevel::Verbose,
        Level::INFO => LogLevel::Notice,
        _ => LogLevel::Warning,
    }
}

impl Subscriber for Log {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The level may change at any time.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Messages of libraries about themselves do not concern an operator.
        metadata.target().starts_with("varve") && level_of(*metadata.level()) as u8 >= LEVEL.load(Ordering::Relaxed)
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let level = level_of(*event.metadata().level());
        let role = if IS_REPLICA.load(Ordering::Relaxed) { 'S' } else { 'M' };
        let line = line((std::process::id(), role), now.as_millis() as u64, level, &message.0);
        // See the module's page: a line that cannot be written is lost.
        let _ = match &self.file {
            None => std::io::stdout().lock().write_all(line.as_bytes()),
            Some(path) => OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .and_then(|mut file| file.write_all(line.as_bytes())),
        };
        if let Some(syslog) = &self.syslog {
            syslog.send(severity(level), &system_date(now.as_secs()), &message.0);
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The text of an event: its message, then its other fields as ` name=value`.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("writing to a String cannot fail");
    }
}

fn line((pid, role): (u32, char), unix_ms: u64, level: LogLevel, message: &str) -> String {
    let sign = match level {
        LogLevel::Debug => '.',
        LogLevel::Verbose => '-',
        LogLevel::Notice => '*',
        LogLevel::Warning => '#',
    };
    format!("{pid}:{role} {} {sign} {message}\n", date(unix_ms))
}

fn severity(level: LogLevel) -> Severity {
    match level {
        LogLevel::Debug => Severity::Debug,
        LogLevel::Verbose => Severity::Info,
        LogLevel::Notice => Severity::Notice,
        LogLevel::Warning => Severity::Warning,
    }
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Nov 21 02:29:54` of a time in seconds since 1970, as the system's log wants it: a day below 10 has a blank before it.
fn system_date(unix_s: u64) -> String {
    let LocalTime { month, day, hour, minute, second, .. } = local_time(unix_s as i64);
    format!("{} {day:2} {hour:02}:{minute:02}:{second:02}", MONTHS[usize::from(month)])
}

/// `21 Nov 2026 02:29:54.140` of a time in milliseconds since 1970, in the time zone of the process.
fn date(unix_ms: u64) -> String {
    let LocalTime { year, month, day, hour, minute, second } = local_time((unix_ms / 1000) as i64);
    let ms = unix_ms % 1000;
    format!("{day:02} {} {year} {hour:02}:{minute:02}:{second:02}.{ms:03}", MONTHS[usize::from(month)])
}

#[cfg(test)]
mod tests {
    use super::{LogLevel, date, line, system_date};

    /// The zone of the test's process is not known: it is a whole number of minutes away.
    #[test]
    fn dates_have_the_form_that_log_readers_know() {
        let text = date(1_795_228_194_140);
        let (day, rest) = text.split_once(" Nov 2026 ").expect("a day of that month anywhere");
        assert!(["20", "21"].contains(&day), "{text}");
        assert!(rest.len() == 12 && rest.ends_with(":54.140"), "{text}");
        assert!(date(951_782_400_001).contains(" 2000 "));
        let text = system_date(1_794_018_594);
        assert!(["Nov  7 ", "Nov  6 ", "Nov  8 "].iter().any(|day| text.starts_with(day)), "{text}");
        assert!(text.ends_with(":54"), "{text}");
    }

    #[test]
    fn lines_have_the_form_that_log_readers_know() {
        let line = line((7, 'M'), 1_795_228_194_140, LogLevel::Notice, "Ready to accept connections");
        assert!(line.starts_with("7:M 2") && line.ends_with(":54.140 * Ready to accept connections\n"), "{line}");
    }
}
