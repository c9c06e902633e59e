//! Cases that are measured, kept in the folder of a run at once: what is stopped loses at most the case under way.
//!
//! ```text
//!   FOLDER/NAME.cases   a line a case: {"case": "...", "under": "...", "seconds": 12.5, "value": ...}
//!   begin(NAME.cases) -> case("LPUSH 40 B, fill -2", measure) -> its line is there ? its value : measure, write the line
//!                     -> end(): the experiment has written its figures, the lines are removed
//!   figures(...)        a line a figure that is whole while its experiment goes on, for the report of a run that is stopped
//! ```
//! An experiment that is run alone has no folder, and measures each case. Cases of another machine, kernel or server program are
//! measured again: an experiment compares what is measured under one of each.

use crate::report::Figure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One case, as its line has it.
#[derive(Serialize, Deserialize)]
struct Line {
    case: String,
    under: String,
    seconds: f64,
    value: serde_json::Value,
}

/// The cases of the experiment that runs.
struct Kept {
    path: PathBuf,
    file: File,
    under: String,
    there: HashMap<String, serde_json::Value>,
    /// Names that were asked for: a second case of the same name would take the first one's value.
    asked: HashSet<String>,
}

/// Before the title in the name of a line that has a figure.
const FIGURE: &str = "figure: ";

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the cases of the next experiment in this file; the seconds that those took which are there already, of the same machine and
/// program ([`crate::machine::under`]).
///
/// # Errors
/// When the file cannot be read or written.
pub(crate) fn begin(path: &Path, under: &str) -> io::Result<f64> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let mut file = File::options().create(true).append(true).open(path)?;
    if text.last().is_some_and(|last| *last != b'\n') {
        // The last run ended in the middle of this line.
        file.write_all(b"\n")?;
    }
    let (mut there, mut seconds) = (HashMap::new(), 0.0);
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(line) = serde_json::from_slice::<Line>(line).ok().filter(|line| line.under == under) {
            seconds += line.seconds;
            there.insert(line.case, line.value);
        }
    }
    *kept() = Some(Kept { path: path.into(), file, under: under.into(), there, asked: HashSet::new() });
    Ok(seconds)
}

/// The experiment has ended well: its cases are in its figures.
///
/// # Errors
/// When the file cannot be removed.
pub(crate) fn end() -> io::Result<()> {
    let ended = kept().take();
    ended.map_or(Ok(()), |kept| fs::remove_file(kept.path))
}

/// The cases and the figures that a file has, by name, of the machine and program that measured last; and the number of cases.
pub(crate) fn so_far(path: &Path) -> (Vec<(String, serde_json::Value)>, usize) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<Line> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let under = lines.last().map(|line| line.under.clone());
    let mut all: Vec<(String, serde_json::Value)> = Vec::new();
    for line in lines.into_iter().filter(|line| Some(&line.under) == under.as_ref()) {
        all.retain(|(case, _)| *case != line.case);
        all.push((line.case, line.value));
    }
    let cases = all.iter().filter(|(name, _)| is_case(name)).count();
    (all, cases)
}

fn is_case(name: &str) -> bool {
    !name.starts_with(FIGURE)
}

/// The number of cases that are there of the experiment that runs.
pub(crate) fn count() -> usize {
    kept().as_ref().map_or(0, |kept| kept.there.keys().filter(|name| is_case(name)).count())
}

/// Keeps figures that are whole before their experiment has ended, in place of those of the same title, and returns them: the report
/// of a run that is stopped has them.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn figures(all: Vec<Figure>) -> io::Result<Vec<Figure>> {
    if let Some(kept) = kept().as_mut() {
        for figure in &all {
            let name = format!("{FIGURE}{}", figure.title);
            let value = serde_json::to_value(figure).map_err(io::Error::other)?;
            if kept.there.get(&name) != Some(&value) {
                kept.add(&name, 0.0, figure)?;
            }
        }
    }
    Ok(all)
}

/// Gives `measured` on. If it failed because the run is being stopped, the figures that `drawn` makes of the cases until now are kept:
/// else they are drawn when all are there.
///
/// # Errors
/// Those of `measured`, or when the file cannot be written.
pub(crate) fn or_unfinished<T>(measured: io::Result<T>, drawn: impl FnOnce() -> Vec<Figure>) -> io::Result<T> {
    if measured.is_err() && crate::screen::is_stopped() {
        figures(drawn())?;
    }
    measured
}

/// The value of a case: the kept one, else the one that `measure` finds, which is kept. Names are unique within an
/// experiment. A value that JSON cannot hold, as one that is not a number, is measured again after a stop.
///
/// # Errors
/// Those of `measure`, a file that cannot be written, a name that was there before, and the wish to stop.
pub(crate) fn case<T: Serialize + DeserializeOwned>(
    name: &str,
    measure: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    crate::screen::go_on()?;
    if let Some(kept) = kept().as_mut() {
        if !kept.asked.insert(name.into()) {
            return Err(io::Error::other(format!("two cases are called {name}")));
        }
        let found = kept.there.get(name).cloned();
        if let Some(value) = found.and_then(|value| serde_json::from_value(value).ok()) {
            return Ok(value);
        }
    }
    let begun = Instant::now();
    let value = measure()?;
    // A ^C in its middle may have ended what was measured.
    crate::screen::go_on()?;
    if let Some(kept) = kept().as_mut() {
        kept.add(name, begun.elapsed().as_secs_f64(), &value)?;
    }
    Ok(value)
}

impl Kept {
    fn add<T: Serialize>(&mut self, case: &str, seconds: f64, value: &T) -> io::Result<()> {
        let value = serde_json::to_value(value).map_err(io::Error::other)?;
        let line = Line { case: case.into(), under: self.under.clone(), seconds, value };
        let text = serde_json::to_string(&line).map_err(io::Error::other)? + "\n";
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        self.there.insert(line.case, line.value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Form};

    fn failed() -> io::Result<Vec<f64>> {
        Err(io::Error::other("measured again"))
    }

    #[test]
    fn a_measured_case_is_there_after_a_stop() {
        let path = std::env::temp_dir().join(format!("varve-cases-{}", std::process::id()));
        assert_eq!(begin(&path, "machine 1").unwrap(), 0.0);
        assert_eq!(case("a", || Ok(vec![1.5])).unwrap(), [1.5]);
        assert!(case("b", failed).is_err(), "a case that fails is none");
        assert!(case("a", || Ok(vec![2.0])).is_err(), "a name stands for one case");
        // A stop in the middle of a line.
        File::options().append(true).open(&path).unwrap().write_all(b"{\"case\":\"b\",\"sec").unwrap();
        assert!(begin(&path, "machine 1").unwrap() > 0.0 && count() == 1);
        assert_eq!(case("a", failed).unwrap(), [1.5]);
        assert_eq!(case("b", || Ok(vec![3.0])).unwrap(), [3.0]);
        begin(&path, "machine 1").unwrap();
        assert_eq!(case("b", failed).unwrap(), [3.0]);
        let whole = Figure::new("GET", "us", Better::Less, Form::Dots);
        (0..2).for_each(|_| assert_eq!(figures(vec![whole.clone()]).unwrap(), [whole.clone()].as_slice()));
        let more = whole.clone().about("more of it");
        figures(vec![more.clone()]).unwrap();
        let (all, cases) = so_far(&path);
        assert_eq!(all[2].1, serde_json::to_value(more).unwrap(), "the last one of a title");
        assert_eq!((all.iter().map(|one| one.0.as_str()).collect(), cases), (vec!["a", "b", "figure: GET"], 2));
        assert_eq!(count(), 2, "a figure is no case");
        assert_eq!(begin(&path, "machine 2").unwrap(), 0.0, "another machine measures by itself");
        assert_eq!(case("b", || Ok(vec![5.0])).unwrap(), [5.0]);
        assert_eq!(so_far(&path), (vec![("b".to_string(), serde_json::json!([5.0]))], 1), "of the last machine");
        end().unwrap();
        assert!(!path.exists());
        assert_eq!(case("a", || Ok(vec![4.0])).unwrap(), [4.0]);
    }
}
