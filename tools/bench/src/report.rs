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

/// What Varve's figure should be at most.
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
    let dir: PathBuf = varve_testkit::server::target_dir().join("bench");
    fs::create_dir_all(&dir)?;
    let lines: Vec<String> = rows.iter().map(Row::json).collect();
    let file = dir.join(format!("{name}.json"));
    fs::write(&file, format!("[\n  {}\n]\n", lines.join(",\n  ")))?;
    println!("\nalso in {}", file.display());
    Ok(())
}
