//! The screen of a run while it goes: lines of text, two bars with the time that is left, and the wish to stop.
//!
//! ```text
//!   one experiment: say! -> standard output
//!   all of them:    say! -> log.txt of the folder;  bars -> standard error, or a line an experiment where it is no terminal
//!   ^C once: the load ends with an error, what is measured is reported;  ^C twice: the process ends
//! ```

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Shows a line: a table's line, a figure that has just been measured.
#[macro_export]
macro_rules! say {
    () => { $crate::screen::line("") };
    ($($part:tt)*) => { $crate::screen::line(&format!($($part)*)) };
}

/// Where lines go; standard output without one.
static LOG: Mutex<Option<File>> = Mutex::new(None);
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Shows a line, or keeps it in the log.
pub(crate) fn line(text: &str) {
    let mut log = LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match log.as_mut() {
        Some(file) => _ = writeln!(file, "{text}"),
        None => println!("{text}"),
    }
}

/// Sends all lines from now on to a file, behind what it holds.
///
/// # Errors
/// When the file cannot be opened.
pub(crate) fn log_to(path: &Path) -> io::Result<()> {
    let file = File::options().create(true).append(true).open(path)?;
    *LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(file);
    Ok(())
}

/// From now on the first ^C sets a flag, and the second one ends the process.
///
/// # Errors
/// When the system refuses.
pub(crate) fn watch_interrupts() -> io::Result<()> {
    let flag = STOP.get_or_init(Arc::default);
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, Arc::clone(flag))?;
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(flag))?;
    Ok(())
}

/// True once somebody has asked for the end.
pub(crate) fn is_stopped() -> bool {
    STOP.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// An error as soon as somebody has asked for the end.
///
/// # Errors
/// Then.
pub(crate) fn go_on() -> io::Result<()> {
    if is_stopped() { Err(io::Error::new(io::ErrorKind::Interrupted, "stopped")) } else { Ok(()) }
}

/// The bars of a run of several experiments. Time is foreseen from each one's usual seconds and from how this machine has
/// kept to them until now.
pub(crate) struct Progress {
    whole: ProgressBar,
    one: ProgressBar,
    begun: Instant,
    /// Usual seconds of all that is to be run, and of what has been run.
    total_s: f64,
    done_s: f64,
    spent: Duration,
}

impl Progress {
    /// For experiments that usually take this number of seconds together.
    pub(crate) fn new(total_s: f64) -> Progress {
        let screen = MultiProgress::new();
        let bar = |template: &str| {
            let style = ProgressStyle::with_template(template).expect("a template that is known to be right");
            let bar = screen.add(ProgressBar::new(1000).with_style(style));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        };
        let whole = bar("all {bar:40} {elapsed} spent, {msg}");
        let one = bar("    {bar:40} {elapsed} spent, {msg}");
        Progress { whole, one, begun: Instant::now(), total_s, done_s: 0.0, spent: Duration::ZERO }
    }

    /// Shows that an experiment begins which usually takes this number of seconds.
    pub(crate) fn begin(&mut self, name: &str, usual_s: f64) {
        let left = self.left_s();
        let one = usual_s * self.slowness();
        self.whole.set_position((1000.0 * self.done_s / self.total_s.max(1.0)) as u64);
        self.whole.set_message(format!("about {} left", time(left)));
        self.one.reset();
        self.one.set_message(format!("{name}, about {} in all", time(one)));
        if !io::stderr().is_terminal() {
            eprintln!("{name}: about {}; all: about {} left", time(one), time(left));
        }
        self.begun = Instant::now();
    }

    /// Shows that it has ended.
    pub(crate) fn end(&mut self, usual_s: f64) {
        self.spent += self.begun.elapsed();
        self.done_s += usual_s;
        self.one.set_position(1000);
    }

    /// Foreseen seconds of what is left.
    pub(crate) fn left_s(&self) -> f64 {
        (self.total_s - self.done_s) * self.slowness()
    }

    /// Seconds that this machine takes for a usual second.
    fn slowness(&self) -> f64 {
        if self.done_s < 1.0 { 1.0 } else { self.spent.as_secs_f64() / self.done_s }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.one.finish_and_clear();
        self.whole.finish_and_clear();
    }
}

/// Seconds as people say them.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 90.0 => format!("{seconds:.0} s"),
        _ if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_machine_is_foreseen_to_stay_slow() {
        let mut progress = Progress::new(100.0);
        assert_eq!(progress.left_s(), 100.0);
        progress.begin("lists", 10.0);
        progress.end(10.0);
        progress.spent = Duration::from_secs(30);
        assert_eq!(progress.left_s(), 270.0);
        assert_eq!([time(45.0), time(600.0), time(9000.0)], ["45 s", "10 min", "2.5 h"]);
    }
}
