//! Lanes: steps of the test command that run side by side.
//!
//! ```text
//!   lane 1   | tests          | end to end                    |              a step at a time in each
//!   lane 2   | loops | peer suite   | redis-py | packages   | fuzz targets |      a lane that is done takes the last step
//!   lane 3   | address sanitizer | loom | several servers |                        of the one with most steps left
//!   printed  "beside others: tests"  ...  all lines of a step together, when it ends
//! ```
//! Many steps wait for most of their time, or use one core. Two beside each other end in little more than half of the time of
//! one behind the other. The lines of two steps would be mixed: so what a step of a lane says is kept in a file, and
//! printed when it ends.

use crate::shell::Tally;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A step of a lane.
pub(crate) type Step<'s> = Box<dyn FnOnce() -> Tally + Send + 's>;

thread_local! {
    /// Where this thread's lines go.
    static LINES: RefCell<Lines> = const { RefCell::new(Lines::Printed) };
}

/// Held while the lines of a step are printed.
static PRINTER: Mutex<()> = Mutex::new(());

enum Lines {
    /// At once.
    Printed,
    /// This thread runs a lane of this number, and is between two of its steps.
    Lane(usize),
    /// Into the file of the lane's step.
    Kept(File),
}

/// Runs the lanes side by side, each lane's steps in their order, but for those that another lane takes, which is done with its
/// own. Steps call [`crate::shell::step`] themselves, and do not need each other.
pub(crate) fn run(lanes: Vec<Vec<Step<'_>>>) -> Tally {
    let mut tally = Tally::default();
    let count = lanes.len();
    let left: Left<'_> = Mutex::new(lanes.into_iter().map(VecDeque::from).collect());
    thread::scope(|scope| {
        let left = &left;
        let threads: Vec<_> = (0..count)
            .map(|number| {
                scope.spawn(move || {
                    LINES.set(Lines::Lane(number));
                    let mut tally = Tally::default();
                    while let Some(step) = next(left, number) {
                        tally.add(step());
                    }
                    tally
                })
            })
            .collect();
        for lane in threads {
            match lane.join() {
                Ok(done) => tally.add(done),
                Err(_) => tally.fail("a lane of the test command panicked"),
            }
        }
    });
    tally
}

/// The steps that no lane has begun, by lanes.
type Left<'s> = Mutex<Vec<VecDeque<Step<'s>>>>;

/// The next step of a lane: its own first one, or the last one of the lane with most steps left.
fn next<'s>(left: &Left<'s>, number: usize) -> Option<Step<'s>> {
    let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
    left[number].pop_front().or_else(|| left.iter_mut().max_by_key(|steps| steps.len())?.pop_back())
}

/// Runs the work of a step. In a lane its lines, and those of the programs that it runs, are printed together at its end.
pub(crate) fn collected<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let lane = LINES.with_borrow(|lines| match lines {
        Lines::Lane(number) => Some(*number),
        Lines::Printed | Lines::Kept(_) => None,
    });
    let Some(number) = lane else { return work() };
    let path = std::env::temp_dir().join(format!("xtask-{}-lane-{number}", std::process::id()));
    // All writers append: this program and those that it runs share the file.
    _ = fs::remove_file(&path);
    let file = File::options().create_new(true).append(true).open(&path);
    let Ok(file) = file.inspect_err(|error| println!("{}: {error}: lines may be mixed", path.display())) else {
        return work();
    };
    println!("beside others: {name}");
    LINES.set(Lines::Kept(file));
    let result = work();
    LINES.set(Lines::Lane(number));
    let _alone = PRINTER.lock().unwrap_or_else(PoisonError::into_inner);
    let shown = fs::read(&path).and_then(|text| io::stdout().lock().write_all(&text));
    if let Err(error) = shown {
        println!("{}: {error}", path.display());
    }
    _ = fs::remove_file(&path);
    result
}

/// Prints a line, or keeps it.
pub(crate) fn say(line: &str) {
    LINES.with_borrow_mut(|lines| match lines {
        Lines::Kept(file) => writeln!(file, "{line}").unwrap_or_else(|error| println!("{line} (not kept: {error})")),
        Lines::Printed | Lines::Lane(_) => println!("{line}"),
    });
}

/// Lets a program print to where this thread's lines go.
///
/// # Errors
/// If the file cannot be shared with it.
pub(crate) fn collect_from(command: &mut Command) -> Result<(), String> {
    LINES.with_borrow(|lines| {
        if let Lines::Kept(file) = lines {
            let shared = || file.try_clone().map_err(|error| format!("the lines of {command:?}: {error}"));
            let (out, err) = (shared()?, shared()?);
            command.stdout(out).stderr(err);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{self, step};

    #[test]
    fn a_lane_that_is_done_takes_the_last_step_of_another() {
        let step = |name: &'static str| Box::new(move || Tally::one(name, Err(String::new()))) as Step<'_>;
        let left = Mutex::new(vec![
            VecDeque::new(),
            VecDeque::from([step("a")]),
            VecDeque::from([step("b"), step("c"), step("d")]),
        ]);
        let taken: Vec<String> = [0, 2, 1, 1, 0]
            .into_iter()
            .map(|lane| next(&left, lane).map_or_else(String::new, |step| step().failures.concat()))
            .collect();
        let begins = ["d", "b", "a", "c", ""];
        assert!(taken.iter().zip(begins).all(|(taken, name)| taken.starts_with(name)), "{taken:?}");
    }

    #[test]
    fn lanes_run_all_steps() {
        let done = Mutex::new(Vec::new());
        let note = |lane: usize, number: usize| {
            let done = &done;
            Box::new(move || {
                step(&format!("step {number} of lane {lane}"), || {
                    assert!(shell::run(&mut shell::command("echo", &["a program's line"])).is_ok());
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((lane, number));
                    Tally::one("it", if number == 2 { Err("fails".into()) } else { Ok(()) })
                })
            }) as Step<'_>
        };
        let tally = run(vec![vec![note(0, 1), note(0, 2)], vec![note(1, 1), note(1, 2), note(1, 3)]]);
        assert_eq!((tally.passed, tally.failed), (3, 2), "{:?}", tally.failures);
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        for lane in 0..2 {
            let mut numbers: Vec<usize> =
                done.iter().filter(|(of, _)| *of == lane).map(|(_, number)| *number).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=2 + lane).collect::<Vec<_>>(), "each once");
        }
    }

    #[test]
    fn a_step_outside_of_lanes_prints_at_once() {
        assert_eq!(collected("x", || 7), 7);
        LINES.with_borrow(|lines| assert!(matches!(lines, Lines::Printed)));
    }
}
