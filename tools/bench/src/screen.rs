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
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
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
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
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
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    Ok(())
}

/// The exit status of a process that ^C has ended.
pub(crate) const STOPPED: u8 = 130;

/// From now on the first ^C sets a flag, and the second one ends the process.
///
/// # Errors
/// When the system refuses.
pub(crate) fn watch_interrupts() -> io::Result<()> {
    let flag = STOP.get_or_init(Arc::default);
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, STOPPED.into(), Arc::clone(flag))?;
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

/// The bars of a run of several experiments: of the whole and of the one that runs, each with the time that is left. Time is
/// foreseen from each one's usual seconds and from how this machine has kept to them until now.
pub(crate) struct Progress {
    shown: Arc<Shown>,
}

/// The part of a run that the thread sees which draws the bars.
struct Shown {
    whole: ProgressBar,
    one: ProgressBar,
    times: Mutex<Times>,
}

/// Seconds of a run; usual ones are of the machine that the list of experiments was written on.
struct Times {
    name: String,
    /// Usual seconds of all that is to be run, and of what has been run.
    total_s: f64,
    done_s: f64,
    /// Seconds that what has been run took.
    spent_s: f64,
    /// The experiment that runs: its usual seconds, those of its cases that a run before has kept, when it began.
    usual_s: f64,
    before_s: f64,
    begun: Instant,
}

/// How often the bars are drawn.
const TICK: Duration = Duration::from_millis(500);

impl Progress {
    /// For experiments that usually take this number of seconds together.
    pub(crate) fn new(total_s: f64) -> Progress {
        let screen = MultiProgress::new();
        let bar = |template: &str| {
            let style = ProgressStyle::with_template(template).expect("a template that is known to be right");
            screen.add(ProgressBar::new(1000).with_style(style))
        };
        let whole = bar("all {bar:40} {elapsed} spent, {msg}");
        let one = bar("    {bar:40} {elapsed} spent, {msg}");
        let shown = Arc::new(Shown { whole, one, times: Mutex::new(Times::new(total_s)) });
        let drawn = Arc::downgrade(&shown);
        std::thread::spawn(move || {
            while let Some(shown) = drawn.upgrade() {
                shown.draw();
                drop(shown);
                std::thread::sleep(TICK);
            }
        });
        Progress { shown }
    }

    /// Shows that an experiment begins which usually takes `usual_s` seconds, of which `before_s` were spent by a run before.
    pub(crate) fn begin(&mut self, name: &str, usual_s: f64, before_s: f64) {
        let mut times = self.shown.times();
        (times.name, times.usual_s, times.before_s, times.begun) = (name.into(), usual_s, before_s, Instant::now());
        let (one, all) = times.left_s(0.0);
        drop(times);
        self.shown.one.reset();
        if !io::stderr().is_terminal() {
            eprintln!("{name}: about {}; all: about {} left", time(one), time(all));
        }
    }

    /// Shows that it has ended; the seconds that it took, with those of its kept cases.
    pub(crate) fn end(&mut self) -> f64 {
        let mut times = self.shown.times();
        let took = times.begun.elapsed().as_secs_f64();
        let whole = times.before_s + took;
        times.end(took);
        whole
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shown.one.finish_and_clear();
        self.shown.whole.finish_and_clear();
    }
}

impl Shown {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self) {
        let times = self.times();
        if times.name.is_empty() || self.whole.is_finished() {
            return;
        }
        let here = times.begun.elapsed().as_secs_f64();
        let (one, all) = times.left_s(here);
        let part = |spent: f64, left: f64| (1000.0 * spent / (spent + left).max(1.0)) as u64;
        self.one.set_position(part(times.before_s + here, one));
        self.whole.set_position(part(times.spent_s + times.before_s + here, all));
        let left = if one > 0.0 { format!("about {} left", time(one)) } else { "longer than foreseen".into() };
        self.one.set_message(format!("{}, {} cases, {left}", times.name, crate::kept::count()));
        self.whole.set_message(format!("about {} left", time(all)));
    }
}

impl Times {
    fn new(total_s: f64) -> Times {
        let begun = Instant::now();
        Times { name: String::new(), total_s, done_s: 0.0, spent_s: 0.0, usual_s: 0.0, before_s: 0.0, begun }
    }

    /// Foreseen seconds of what is left of the experiment that runs, `here_s` seconds after it began, and of all.
    fn left_s(&self, here_s: f64) -> (f64, f64) {
        let one = (self.usual_s * self.slowness() - self.before_s - here_s).max(0.0);
        let others = (self.total_s - self.done_s - self.usual_s).max(0.0);
        (one, one + others * self.slowness())
    }

    /// The experiment that runs has taken this number of seconds in this run.
    fn end(&mut self, here_s: f64) {
        self.spent_s += self.before_s + here_s;
        self.done_s += self.usual_s;
        (self.name, self.usual_s, self.before_s) = (String::new(), 0.0, 0.0);
    }

    /// Seconds that this machine takes for a usual second.
    fn slowness(&self) -> f64 {
        if self.done_s < 1.0 { 1.0 } else { self.spent_s / self.done_s }
    }
}

/// A number of seconds for people: in seconds, minutes or hours, by its size.
pub(crate) fn time(seconds: f64) -> String {
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
        let mut times = Times::new(100.0);
        times.usual_s = 10.0;
        assert_eq!(times.left_s(0.0), (10.0, 100.0));
        assert_eq!(times.left_s(4.0), (6.0, 96.0));
        times.end(30.0);
        times.usual_s = 20.0;
        // Cases that a run before has kept are spent already.
        times.before_s = 15.0;
        assert_eq!(times.left_s(5.0), (40.0, 250.0));
        assert_eq!(times.left_s(100.0), (0.0, 210.0), "longer than foreseen");
        assert_eq!([time(45.0), time(600.0), time(9000.0)], ["45 s", "10 min", "2.5 h"]);
    }
}
