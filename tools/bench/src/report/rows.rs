//! Figures from lines: a case a line, one column for each server or for each quantity.

use super::{Better, Figure, Form, Role, Series, Target, Value};
use crate::contenders::PEER;
use crate::say;

/// One case, measured on the servers of a run.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) varve: Value,
    pub(crate) peer: Value,
    pub(crate) floor: Option<Value>,
    pub(crate) target: Option<Target>,
}

/// A figure for each unit, in the order of the rows.
pub(crate) fn figures(title: &str, rows: &[Row]) -> Vec<Figure> {
    let mut units: Vec<&str> = rows.iter().map(|row| row.unit).collect();
    let mut seen = Vec::new();
    units.retain(|unit| !seen.contains(unit) && (seen.push(*unit), true).1);
    units.into_iter().map(|unit| figure(title, unit, rows.iter().filter(|row| row.unit == unit))).collect()
}

fn figure<'r>(title: &str, unit: &str, rows: impl Iterator<Item = &'r Row>) -> Figure {
    let (quantity, better) = quantity(unit);
    let mut figure = Figure::new(format!("{title}: {quantity}"), quantity, better, Form::Dots);
    let mut series = [("Varve", Role::Varve), (PEER, Role::Peer), ("floor", Role::Floor)]
        .map(|(name, role)| Series::new(name, role));
    for (place, row) in rows.enumerate() {
        figure.places.push(row.name.clone());
        figure.targets.push(row.target);
        series[0].push(place, row.varve);
        series[1].push(place, row.peer);
        if let Some(floor) = row.floor {
            series[2].push(place, floor);
        }
    }
    figure.series = series.into_iter().filter(|series| !series.points.is_empty()).collect();
    figure
}

/// The quantity behind a row's unit, and which direction is better.
fn quantity(unit: &str) -> (String, Better) {
    let (text, better) = match unit {
        "us" => ("microseconds", Better::Less),
        "ms" => ("milliseconds", Better::Less),
        "ns" => ("nanoseconds", Better::Less),
        "s" => ("seconds", Better::Less),
        "B" => ("bytes", Better::Less),
        "MB" => ("megabytes", Better::Less),
        "times" | "" => ("ratio", Better::Less),
        "k/s" => ("thousands a second", Better::More),
        other => (other, Better::Less),
    };
    (text.to_string(), better)
}

/// A table of several quantities: a line for each case, a column for each quantity; NaN stands for none.
pub(crate) struct Table {
    columns: &'static [&'static str],
    lines: Vec<(String, Vec<f64>)>,
}

impl Table {
    pub(crate) fn new(columns: &'static [&'static str]) -> Table {
        Table { columns, lines: Vec::new() }
    }

    /// Adds a line and shows it.
    pub(crate) fn add(&mut self, name: String, figures: Vec<f64>) {
        if self.lines.is_empty() {
            let heads: String = self.columns.iter().map(|column| format!(" {column:>12}")).collect();
            say!("{:<44}{heads}", "figure");
        }
        let cell = |figure: &f64| if figure.is_nan() { "-".into() } else { super::short(*figure) };
        say!("{name:<44}{}", figures.iter().map(|figure| format!(" {:>12}", cell(figure))).collect::<String>());
        self.lines.push((name, figures));
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

    /// A figure for each column. Lines whose names end in ", NAME" are that server's: the rest of the name is the case.
    pub(crate) fn apart(&self, title: &str, better: impl Fn(&str) -> Better) -> Vec<Figure> {
        let mut cases: Vec<&str> = Vec::new();
        for (name, _) in &self.lines {
            let case = split(name).0;
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        let place = |line: usize| cases.iter().position(|case| *case == split(&self.lines[line].0).0).unwrap_or(0);
        let mut figures = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            let mut figure = Figure::new(format!("{title}: {column}"), *column, better(column), Form::Dots);
            figure.places = cases.iter().map(ToString::to_string).collect();
            for (name, role) in [("Varve", Role::Varve), (PEER, Role::Peer), ("measured", Role::Other)] {
                let mut series = self.series(name, at, |line| split(line).1 == role, &place);
                series.role = role;
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
        for (number, (line, figures)) in self.lines.iter().enumerate() {
            if wanted(line) {
                series.push(place(number), figures[column]);
            }
        }
        series
    }
}

/// The case of a line's name, and the server that it names at its end.
fn split(name: &str) -> (&str, Role) {
    let cut = |end: &str| name.len().checked_sub(end.len()).filter(|at| name[*at..].eq_ignore_ascii_case(end));
    match (cut(", varve"), cut(", peer")) {
        (Some(at), _) => (&name[..at], Role::Varve),
        (_, Some(at)) => (&name[..at], Role::Peer),
        _ => (name, Role::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_a_figure_a_unit() {
        let row = |name: &str, unit| Row {
            name: name.into(),
            unit,
            varve: 1.0.into(),
            peer: 2.0.into(),
            floor: None,
            target: None,
        };
        let figures = figures("point", &[row("a", "us"), row("b", "MB"), row("c", "us")]);
        assert_eq!(figures.iter().map(|figure| figure.places.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(figures[0].title, "point: microseconds");
    }

    #[test]
    fn a_line_belongs_to_the_server_that_its_name_ends_with() {
        let mut table = Table::new(&["p50", "max"]);
        table.add("quiet, varve".into(), vec![1.0, 2.0]);
        table.add("quiet, peer".into(), vec![3.0, f64::NAN]);
        let figures = table.apart("tails", |_| Better::Less);
        assert_eq!((figures[0].places.len(), figures[0].series.len(), figures[1].series.len()), (1, 2, 1));
        assert_eq!(figures[0].of(Role::Peer).unwrap().at(0).unwrap().median, 3.0);
    }
}
