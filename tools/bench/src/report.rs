//! Figures as a table for people and as JSON for comparison with later runs.

use std::fs;
use std::io;
use std::path::PathBuf;

/// One measured figure for the servers of a run.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) varve: f64,
    pub(crate) peer: f64,
    pub(crate) floor: Option<f64>,
    pub(crate) target: Option<Target>,
}

/// The limit that Varve's figure should not exceed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// of the peer's
    Ratio(f64),
    /// in the row's unit
    AtMost(f64),
}

impl Row {
    fn verdict(&self) -> String {
        let (met, text) = match self.target {
            None => return String::new(),
            Some(Target::Ratio(ratio)) => (self.varve <= ratio * self.peer, format!("at most {ratio} of the peer's")),
            Some(Target::AtMost(most)) => (self.varve <= most, format!("at most {most}")),
        };
        format!("{text}: {}", if met { "met" } else { "missed" })
    }

    fn json(&self) -> String {
        let floor = self.floor.map_or("null".to_string(), |floor| format!("{floor:.4}"));
        format!(
            "{{\"name\":\"{}\",\"unit\":\"{}\",\"varve\":{:.4},\"peer\":{:.4},\"floor\":{floor},\"ratio\":{:.4}}}",
            self.name,
            self.unit,
            self.varve,
            self.peer,
            self.varve / self.peer
        )
    }
}

/// Prints the table and writes `target/bench/NAME.json`.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn finish(name: &str, rows: &[Row]) -> io::Result<()> {
    println!("\n{:<38} {:>10} {:>10} {:>10} {:>7}  {:<8} target", "figure", "varve", "peer", "floor", "ratio", "unit");
    for row in rows {
        let floor = row.floor.map_or(String::new(), |floor| format!("{floor:.3}"));
        let ratio = row.varve / row.peer;
        println!(
            "{:<38} {:>10.3} {:>10.3} {floor:>10} {ratio:>7.2}  {:<8} {}",
            row.name,
            row.varve,
            row.peer,
            row.unit,
            row.verdict()
        );
    }
    let lines: Vec<String> = rows.iter().map(Row::json).collect();
    save(name, &lines)
}

/// A table whose columns are not those of [`Row`]: what a line is about, and its figures; NaN stands for none.
pub(crate) struct Table {
    pub(crate) columns: &'static [&'static str],
    pub(crate) lines: Vec<(String, Vec<f64>)>,
}

impl Table {
    pub(crate) fn new(columns: &'static [&'static str]) -> Table {
        Table { columns, lines: Vec::new() }
    }

    /// Adds a line and shows it.
    pub(crate) fn add(&mut self, name: String, figures: Vec<f64>) {
        if self.lines.is_empty() {
            let heads: String = self.columns.iter().map(|column| format!(" {column:>12}")).collect();
            println!("{:<44}{heads}", "figure");
        }
        println!("{name:<44}{}", figures.iter().map(|figure| format!(" {:>12}", shown(*figure))).collect::<String>());
        self.lines.push((name, figures));
    }

    /// Writes `target/bench/NAME.json`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn save(&self, name: &str) -> io::Result<()> {
        let json = |figure: f64| if figure.is_finite() { format!("{figure:.4}") } else { "null".to_string() };
        let line = |(name, figures): &(String, Vec<f64>)| {
            let pairs = self.columns.iter().zip(figures);
            let fields: String = pairs.map(|(column, figure)| format!(",\"{column}\":{}", json(*figure))).collect();
            format!("{{\"name\":\"{name}\"{fields}}}")
        };
        save(name, &self.lines.iter().map(line).collect::<Vec<_>>())
    }
}

/// Three digits behind the point of small figures, fewer of great ones.
fn shown(figure: f64) -> String {
    match figure.abs() {
        _ if figure.is_nan() => "-".to_string(),
        size if size < 100.0 => format!("{figure:.3}"),
        _ => format!("{figure:.1}"),
    }
}

fn save(name: &str, lines: &[String]) -> io::Result<()> {
    let dir: PathBuf = varve_testkit::server::target_dir().join("bench");
    fs::create_dir_all(&dir)?;
    let file = dir.join(format!("{name}.json"));
    fs::write(&file, format!("[\n  {}\n]\n", lines.join(",\n  ")))?;
    println!("\nalso in {}", file.display());
    Ok(())
}
