//! Measured figures as data. The terminal, the files and the page are users of this one type.
//!
//! ```text
//!   experiment -> Findings -+-> print  a table in the terminal
//!                 Figure    +-> files  NAME.json (read again to resume), NAME.csv, an SVG a figure
//!                 Series    +-> page   report.html: every figure as chart, verdict and table
//!                 Value     +-> verdict
//! ```
//! A figure has places along one axis (fills, lengths, names of cases) and a series for each server, each with a value at
//! some of the places. Nothing here measures.

mod axis;
mod chart;
mod files;
mod look;
mod page;
mod pdf;
mod print;
mod rows;
mod tree;
mod verdict;

pub(crate) use files::{FORM, read, write};
pub(crate) use look::look;
pub(crate) use page::{About, write as write_page};
pub(crate) use print::show;
pub(crate) use rows::{Row, Table, figures};

use crate::screen::time;
use serde::{Deserialize, Serialize};

/// Behind the title of a figure from which the floor is taken off.
const ABOVE_FLOOR: &str = ", above the floor";
/// A value whose range is wider than this part of its median is drawn pale.
const WIDE: f64 = 0.15;

/// The median of some runs, and their range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Value {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Number of runs, at least 1.
    pub(crate) runs: u32,
}

impl Value {
    /// The middle of several runs; none is not a number.
    pub(crate) fn of(mut runs: Vec<f64>) -> Value {
        runs.sort_by(f64::total_cmp);
        let Some((&low, &high)) = runs.first().zip(runs.last()) else { return f64::NAN.into() };
        Value { median: runs[runs.len() / 2], low, high, runs: runs.len() as u32 }
    }

    /// The range as a part of the median.
    pub(crate) fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / self.median.abs() }
    }

    /// True if the runs differ too much for the value to be trusted.
    pub(crate) fn is_wide(&self) -> bool {
        self.spread() > WIDE
    }

    /// This value over another one, with the range of both.
    pub(crate) fn over(self, other: Value) -> Value {
        let (low, high) = (self.low / other.high, self.high / other.low);
        Value { median: self.median / other.median, low, high, runs: self.runs.min(other.runs) }
    }

    /// The value in another unit.
    pub(crate) fn scaled(self, by: f64) -> Value {
        Value { median: self.median * by, low: self.low * by, high: self.high * by, runs: self.runs }
    }
}

impl From<f64> for Value {
    /// One run.
    fn from(value: f64) -> Value {
        Value { median: value, low: value, high: value, runs: 1 }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.median.fmt(to)
    }
}

/// Part that a series has in its figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    Varve,
    /// redis-server, or the program that stands for it.
    Peer,
    /// Another server that was asked for by `--rival`, or another configuration of the peer.
    Rival,
    /// A server that parses nothing.
    Floor,
    /// Numbers that somebody else published, from another machine.
    Published,
    /// Anything else that is measured.
    Other,
}

/// One value, at a place of its figure's axis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) place: usize,
    pub(crate) value: Value,
}

/// The values of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) points: Vec<Point>,
}

impl Series {
    pub(crate) fn new(name: impl Into<String>, role: Role) -> Series {
        Series { name: name.into(), role, points: Vec::new() }
    }

    /// Adds a value; one that is not a number is left out.
    pub(crate) fn push(&mut self, place: usize, value: impl Into<Value>) {
        let value = value.into();
        if value.median.is_finite() {
            self.points.push(Point { place, value });
        }
    }

    /// The value at a place.
    pub(crate) fn at(&self, place: usize) -> Option<Value> {
        self.points.iter().find(|point| point.place == place).map(|point| point.value)
    }
}

/// Which direction is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Better {
    Less,
    More,
    /// Figures that are neither: counts, shares.
    Neither,
}

/// How a figure is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// Places from left to right, values upward, a line for each series.
    Lines,
    /// A row for each place, values from left to right, a dot for each series.
    Dots,
}

/// The limit that Varve's value should keep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Target {
    /// At most this part of the peer's.
    Ratio(f64),
    /// At most this, in the figure's unit.
    AtMost(f64),
}

/// One chart and its table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) title: String,
    /// The quantity, how it is measured, and the finding; may be empty.
    pub(crate) about: String,
    /// Quantity with its unit, for the axis: "requests a second".
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) form: Form,
    /// The places' axis with its unit; empty where places are names of cases.
    pub(crate) axis: String,
    pub(crate) places: Vec<String>,
    pub(crate) series: Vec<Series>,
    /// For each place, or none at all.
    pub(crate) targets: Vec<Option<Target>>,
}

impl Figure {
    /// A figure without series.
    pub(crate) fn new(title: impl Into<String>, unit: impl Into<String>, better: Better, form: Form) -> Figure {
        Figure {
            title: title.into(),
            about: String::new(),
            unit: unit.into(),
            better,
            form,
            axis: String::new(),
            places: Vec::new(),
            series: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Names the axis of the places and its marks.
    pub(crate) fn over<P: ToString>(mut self, axis: &str, places: impl IntoIterator<Item = P>) -> Figure {
        self.axis = axis.into();
        self.places = places.into_iter().map(|place| place.to_string()).collect();
        self
    }

    /// Says what is to be seen.
    pub(crate) fn about(mut self, about: impl Into<String>) -> Figure {
        self.about = about.into();
        self
    }

    /// The first series with this role.
    pub(crate) fn of(&self, role: Role) -> Option<&Series> {
        self.series.iter().find(|series| series.role == role)
    }

    /// True of one that [`Figure::above_floor`] has made: it says again, with other numbers, what another says.
    fn is_above_floor(&self) -> bool {
        self.title.ends_with(ABOVE_FLOOR)
    }

    /// The floor taken off every other measured series of CPU; none where there is no floor. Of delays the floor's is
    /// drawn, but percentiles of two servers have no difference that is one's own.
    pub(crate) fn above_floor(&self) -> Option<Figure> {
        if !self.unit.contains("CPU") {
            return None;
        }
        let floor = self.of(Role::Floor)?;
        let mut above = Figure {
            title: format!("{}{ABOVE_FLOOR}", self.title),
            about: "The figure above minus that of a server that parses nothing: the part that a server's design can \
                    change. The range is that of both. A server that comes out at the floor has no value here."
                .into(),
            series: Vec::new(),
            targets: Vec::new(),
            ..self.clone()
        };
        for series in self.series.iter().filter(|series| !matches!(series.role, Role::Floor | Role::Published)) {
            let mut rest = Series::new(series.name.as_str(), series.role);
            for point in &series.points {
                let Some(base) = floor.at(point.place) else { continue };
                let Value { median, low, high, runs } = point.value;
                let (low, runs) = ((low - base.high).max(0.0), runs.min(base.runs));
                // By noise a server can come out below the floor, which says nothing of it.
                if median > base.median {
                    rest.push(point.place, Value { median: median - base.median, low, high: high - base.low, runs });
                }
            }
            above.series.push(rest);
        }
        above.series.retain(|series| !series.points.is_empty());
        (!above.series.is_empty()).then_some(above)
    }
}

/// All that an experiment found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// Its name on the command line.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) figures: Vec<Figure>,
    /// Sentences on how it was measured.
    pub(crate) notes: Vec<String>,
    /// Sentences on what cannot be reproduced here, and why.
    pub(crate) lost: Vec<String>,
    /// Seconds that it took, with those of cases that a run before had kept; files of older runs do not have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) took: Option<f64>,
    /// Which form of the experiment measured this, counted from 1: a later form measures more, or in another way.
    #[serde(default = "first_edition")]
    pub(crate) edition: u32,
}

/// The edition of files that name none.
fn first_edition() -> u32 {
    1
}

impl Findings {
    pub(crate) fn new(name: &str, title: &str) -> Findings {
        Findings { name: name.into(), title: title.into(), edition: first_edition(), ..Findings::default() }
    }

    /// Adds figures, and behind each one that has a floor what is above it.
    pub(crate) fn add(&mut self, figures: impl IntoIterator<Item = Figure>) {
        for figure in figures {
            let above = figure.above_floor();
            self.figures.push(figure);
            self.figures.extend(above);
        }
    }

    /// Findings with these figures.
    pub(crate) fn with(mut self, figures: impl IntoIterator<Item = Figure>) -> Findings {
        self.add(figures);
        self
    }

    /// Adds a sentence on how it was measured.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Findings {
        self.notes.push(note.into());
        self
    }

    /// Adds a sentence on what cannot be reproduced, and why.
    pub(crate) fn lost(mut self, what: impl Into<String>) -> Findings {
        self.lost.push(what.into());
        self
    }

    /// The sentence on the time that it took, where that is known.
    fn took_note(&self) -> Option<String> {
        self.took.map(|seconds| format!("The experiment took {}.", time(seconds)))
    }
}

/// A number for people: three digits that count, with k, M, G from ten thousand on.
pub(crate) fn short(number: f64) -> String {
    let (divisor, letter) = match number.abs() {
        size if size >= 1e9 => (1e9, " G"),
        size if size >= 1e6 => (1e6, " M"),
        size if size >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let number = number / divisor;
    let digits = match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 || size == 0.0 => 3,
        size => (2.0 - size.log10().floor()).min(12.0) as usize,
    };
    let text = format!("{number:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_median_and_knows_its_range() {
        let value = Value::of(vec![3.0, 1.0, 2.0]);
        assert_eq!(value, Value { median: 2.0, low: 1.0, high: 3.0, runs: 3 });
        assert!(value.is_wide() && !Value::of(vec![1.0, 1.1]).is_wide() && Value::of(vec![]).median.is_nan());
    }

    #[test]
    fn the_floor_is_taken_off_at_each_place() {
        let mut figure = Figure::new("CPU", "us of CPU", Better::Less, Form::Dots).over("", ["a", "b"]);
        for (name, role, values) in [("v", Role::Varve, [3.0, 1.0]), ("floor", Role::Floor, [1.0, 2.0])] {
            let mut series = Series::new(name, role);
            let runs = |value: f64| Value::of(vec![value * 0.5, value, value * 1.5]);
            values.iter().enumerate().for_each(|(place, &value)| series.push(place, runs(value)));
            figure.series.push(series);
        }
        let above = figure.above_floor().unwrap();
        assert!(above.is_above_floor() && !figure.is_above_floor());
        assert_eq!(above.series.len(), 1);
        assert_eq!(above.series[0].at(0), Some(Value { median: 2.0, low: 0.0, high: 4.0, runs: 3 }), "of both ranges");
        assert_eq!(above.series[0].at(1), None, "it came out below the floor");
        assert!(above.above_floor().is_none());
        figure.unit = "us".into();
        assert!(figure.above_floor().is_none(), "delays are not taken off each other");
    }

    #[test]
    fn numbers_are_short() {
        let texts = [1_541_307.0, 724.0, 20_500.0, 0.12, 5.0, 2e9, 0.00041234, 0.0].map(short);
        assert_eq!(texts, ["1.54 M", "724", "20.5 k", "0.12", "5", "2 G", "0.000412", "0"]);
    }
}
