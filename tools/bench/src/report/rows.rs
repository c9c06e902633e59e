//! Figures from lines: a case a line, one column for each server or for each quantity.

use super::{Better, Figure, Form, Role, Series, Target, Value};
use crate::contenders;
use crate::say;
use serde::{Deserialize, Serialize};

/// One case, measured on the servers of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: String,
    /// Names of servers, the parts that they have in figures, and what was measured of them.
    values: Vec<(String, Role, Value)>,
    pub(crate) target: Option<Target>,
}

impl Row {
    /// A row with a value for each contender, in their order; one that is not a number is left out.
    pub(crate) fn new<V: Into<Value>>(
        name: impl Into<String>,
        unit: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Row {
        let row = Row { name: name.into(), unit: unit.into(), values: Vec::new(), target: None };
        let named = contenders::sides().into_iter().zip(values);
        named.fold(row, |row, ((name, role), value)| row.with(&name, role, value))
    }

    /// A row whose values come by [`Row::with`].
    pub(crate) fn alone(name: impl Into<String>, unit: impl Into<String>) -> Row {
        Row::new(name, unit, [] as [f64; 0])
    }

    /// Adds the value of another one.
    pub(crate) fn with(mut self, name: &str, role: Role, value: impl Into<Value>) -> Row {
        let value = value.into();
        if value.median.is_finite() {
            self.values.push((name.into(), role, value));
        }
        self
    }

    /// Sets the limit of Varve's value, or none.
    pub(crate) fn at_most(mut self, target: impl Into<Option<Target>>) -> Row {
        self.target = target.into();
        self
    }
}

/// A figure for each unit, in the order of the rows.
pub(crate) fn figures(title: &str, rows: &[Row]) -> Vec<Figure> {
    let mut units: Vec<&str> = rows.iter().map(|row| row.unit.as_str()).collect();
    let mut seen = Vec::new();
    units.retain(|unit| !seen.contains(unit) && (seen.push(*unit), true).1);
    units.into_iter().map(|unit| figure(title, unit, rows.iter().filter(|row| row.unit == unit))).collect()
}

fn figure<'r>(title: &str, unit: &str, rows: impl Iterator<Item = &'r Row>) -> Figure {
    let (quantity, better) = quantity(unit);
    let mut figure = Figure::new(format!("{title}: {quantity}"), quantity, better, Form::Dots);
    for (place, row) in rows.enumerate() {
        figure.places.push(row.name.clone());
        figure.targets.push(row.target);
        for (name, role, value) in &row.values {
            let at = figure.series.iter().position(|series| series.name == *name).unwrap_or_else(|| {
                figure.series.push(Series::new(name.as_str(), *role));
                figure.series.len() - 1
            });
            figure.series[at].push(place, *value);
        }
    }
    figure
}

/// The quantity behind a row's unit, and which direction is better.
fn quantity(unit: &str) -> (String, Better) {
    let (text, better) = match unit {
        "us" => ("microseconds", Better::Less),
        "us of CPU" => ("microseconds of CPU per operation", Better::Less),
        "us of CPU, in process" => ("microseconds of CPU per operation, in process", Better::Less),
        "us of CPU, a handshake" => ("microseconds of CPU per handshake", Better::Less),
        "/s" => ("operations a second", Better::More),
        "ms" => ("milliseconds", Better::Less),
        "ns" => ("nanoseconds", Better::Less),
        "s" => ("seconds", Better::Less),
        "B" => ("bytes", Better::Less),
        "MB" => ("megabytes", Better::Less),
        "times" | "" => ("ratio", Better::Less),
        "k/s" => ("thousands a second", Better::More),
        "times one worker" => ("requests a second, times those of one worker", Better::More),
        other => (other, Better::Less),
    };
    (text.to_string(), better)
}

/// A table of several quantities: a line for each case, a column for each quantity; NaN stands for none. A case that is added again
/// was run again.
pub(crate) struct Table {
    columns: &'static [&'static str],
    /// The name of each case, and its runs.
    lines: Vec<(String, Vec<Vec<f64>>)>,
}

impl Table {
    pub(crate) fn new(columns: &'static [&'static str]) -> Table {
        Table { columns, lines: Vec::new() }
    }

    /// Adds a run of a case and shows it. A server is named at the end of the case's name, behind a comma, or nowhere.
    pub(crate) fn add(&mut self, name: String, figures: Vec<f64>) {
        if self.lines.is_empty() {
            let heads: String = self.columns.iter().map(|column| format!(" {column:>12}")).collect();
            say!("{:<44}{heads}", "figure");
        }
        let cell = |figure: &f64| if figure.is_nan() { "-".into() } else { super::short(*figure) };
        say!("{name:<44}{}", figures.iter().map(|figure| format!(" {:>12}", cell(figure))).collect::<String>());
        debug_assert!(
            [", varve:", ", peer:"].iter().all(|side| !name.contains(side)),
            "{name}: a server within the name would be taken for a part of the case"
        );
        match self.lines.iter_mut().find(|(there, _)| *there == name) {
            Some((_, runs)) => runs.push(figures),
            None => self.lines.push((name, vec![figures])),
        }
    }

    /// One figure with a series for each column: the columns have one unit.
    pub(crate) fn together(&self, title: &str, unit: &str, better: Better) -> Figure {
        let places = self.lines.iter().map(|(name, _)| name);
        let mut figure = Figure::new(title, unit, better, Form::Dots).over("", places);
        for (at, column) in self.columns.iter().enumerate() {
            figure.series.push(self.series(column, at, |_| true, &|place| place));
        }
        figure
    }

    /// A figure for each column. Lines whose names end in ", NAME" are that server's, or the floor's: the rest of the name is
    /// the case.
    pub(crate) fn apart(&self, title: &str, better: impl Fn(&str) -> Better) -> Vec<Figure> {
        let mut sides = contenders::sides();
        sides.push(("floor".into(), Role::Floor));
        let mut cases: Vec<&str> = Vec::new();
        for (name, _) in &self.lines {
            let case = split(name, &sides).0;
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        let place =
            |line: usize| cases.iter().position(|case| *case == split(&self.lines[line].0, &sides).0).unwrap_or(0);
        let mut figures = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            let mut figure = Figure::new(format!("{title}: {column}"), *column, better(column), Form::Dots);
            figure.places = cases.iter().map(ToString::to_string).collect();
            let none = ("measured".to_string(), Role::Other);
            for (number, (name, role)) in sides.iter().chain([&none]).enumerate() {
                let of = |line: &str| split(line, &sides).1.unwrap_or(sides.len()) == number;
                let mut series = self.series(name, at, of, &place);
                series.role = *role;
                if !series.points.is_empty() {
                    figure.series.push(series);
                }
            }
            figures.extend((!figure.series.is_empty()).then_some(figure));
        }
        figures
    }

    fn series(
        &self,
        name: &str,
        column: usize,
        wanted: impl Fn(&str) -> bool,
        place: &dyn Fn(usize) -> usize,
    ) -> Series {
        let mut series = Series::new(name, Role::Other);
        for (number, (line, runs)) in self.lines.iter().enumerate() {
            if wanted(line) {
                let runs = runs.iter().map(|figures| figures[column]).filter(|figure| !figure.is_nan());
                series.push(place(number), Value::of(runs.collect()));
            }
        }
        series
    }
}

/// The case of a line's name, and the number of the server that it names at its end: by its name, or as "peer".
fn split<'l>(line: &'l str, sides: &[(String, Role)]) -> (&'l str, Option<usize>) {
    let cut = |name: &str| {
        let at = line.len().checked_sub(name.len())?;
        let (case, end) = (line.get(..at)?.strip_suffix(", ")?, line.get(at..)?);
        end.eq_ignore_ascii_case(name).then_some(case)
    };
    let of = |(number, (name, role)): (usize, &(String, Role))| {
        let case = cut(name).or_else(|| cut("peer").filter(|_| *role == Role::Peer))?;
        Some((case, Some(number)))
    };
    sides.iter().enumerate().find_map(of).unwrap_or((line, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_a_figure_a_unit() {
        let row = |name: &str, unit| Row::new(name, unit, [1.0, 2.0]).with("floor", Role::Floor, 0.5);
        let figures = figures("point", &[row("a", "us"), row("b", "MB"), row("c", "us")]);
        assert_eq!(figures.iter().map(|figure| figure.places.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(figures[0].title, "point: microseconds");
        let names: Vec<_> = figures[0].series.iter().map(|series| (series.name.as_str(), series.role)).collect();
        assert_eq!(names, [("Varve", Role::Varve), ("redis-server", Role::Peer), ("floor", Role::Floor)]);
        let lost = Row::new("a", "us", [f64::NAN, 2.0]);
        assert_eq!(super::figures("point", &[lost])[0].series.len(), 1, "what is no number is left out");
    }

    #[test]
    fn a_line_belongs_to_the_server_that_its_name_ends_with() {
        let mut table = Table::new(&["p50", "max"]);
        table.add("quiet, varve".into(), vec![1.0, 2.0]);
        table.add("quiet, peer".into(), vec![3.0, f64::NAN]);
        table.add("quiet, floor".into(), vec![0.5, 0.5]);
        let figures = table.apart("tails", |_| Better::Less);
        assert_eq!((figures[0].places.len(), figures[0].series.len(), figures[1].series.len()), (1, 3, 2));
        assert_eq!(figures[0].of(Role::Peer).unwrap().at(0).unwrap().median, 3.0);
        // Runs of the same case.
        table.add("quiet, varve".into(), vec![3.0, f64::NAN]);
        table.add("quiet, varve".into(), vec![2.0, 4.0]);
        let figures = table.apart("tails", |_| Better::Less);
        let [p50, max] = [0, 1].map(|number| figures[number].of(Role::Varve).unwrap().at(0).unwrap());
        assert_eq!((p50.median, p50.low, p50.high, p50.runs), (2.0, 1.0, 3.0, 3));
        assert_eq!((max.high, max.runs), (4.0, 2), "a run without the figure is none");
    }
}
