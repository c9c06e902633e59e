//! Findings as files: JSON with everything, which is read again to resume, CSV for other programs, and an SVG a figure.

use super::{Figure, Findings, chart};
use std::fs;
use std::io;
use std::path::Path;

/// Number of the JSON's form; a file with another one is measured again.
pub(crate) const FORM: u32 = 1;

/// Writes `NAME.json`, `NAME.csv` and `NAME-N.svg` for each figure into a folder that exists.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn write(folder: &Path, findings: &Findings) -> io::Result<()> {
    let name = &findings.name;
    let svg = |number: usize| folder.join(format!("{name}-{}.svg", number + 1));
    // Pictures of a run before, which had more figures.
    (findings.figures.len()..).take_while(|&number| fs::remove_file(svg(number)).is_ok()).for_each(drop);
    for (number, figure) in findings.figures.iter().enumerate() {
        fs::write(svg(number), chart::alone(figure))?;
    }
    fs::write(folder.join(format!("{name}.csv")), csv(findings))?;
    let text = serde_json::to_string_pretty(findings).map_err(io::Error::other)?;
    fs::write(folder.join(format!("{name}.json")), text + "\n")
}

/// The findings of an experiment that a folder holds, if there are any that can be read.
pub(crate) fn read(folder: &Path, name: &str) -> Option<Findings> {
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).ok()?;
    serde_json::from_str(&text).ok()
}

fn csv(findings: &Findings) -> String {
    let mut text = "figure,unit,series,place,median,low,high,runs\n".to_string();
    for figure in &findings.figures {
        let Figure { title, unit, places, series, .. } = figure;
        for series in series {
            for point in &series.points {
                let value = point.value;
                let words = [title, unit, &series.name, &places[point.place]].map(|word| quoted(word)).join(",");
                text += &format!("{words},{},{},{},{}\n", value.median, value.low, value.high, value.runs);
            }
        }
    }
    text
}

/// A CSV field: in quotes where it holds a comma, a quote or a line's end.
fn quoted(word: &str) -> String {
    if word.contains([',', '"', '\n']) { format!("\"{}\"", word.replace('"', "\"\"")) } else { word.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Form, Role, Series, Value};

    #[test]
    fn findings_come_back_as_they_were_written() {
        let folder = std::env::temp_dir().join(format!("varve-findings-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut series = Series::new("Varve", Role::Varve);
        series.push(0, Value::of(vec![1.0, 2.0, 4.0]));
        let mut figure = Figure::new("CPU, \"all\"", "us", Better::Less, Form::Lines).over("fill", ["-2"]);
        figure.series.push(series);
        let findings = Findings::new("lists", "Lists").with([figure.clone(), figure.clone()]).note("n").lost("l");
        write(&folder, &findings).unwrap();
        assert_eq!(read(&folder, "lists").unwrap(), findings);
        assert!(!fs::read_to_string(folder.join("lists.json")).unwrap().contains("took"), "as files of older runs are");
        let timed = Findings { took: Some(12.5), ..findings };
        write(&folder, &timed).unwrap();
        assert_eq!(read(&folder, "lists").unwrap(), timed);
        let csv = fs::read_to_string(folder.join("lists.csv")).unwrap();
        assert!(csv.contains("\n\"CPU, \"\"all\"\"\",us,Varve,-2,2,1,4,3\n"), "{csv}");
        write(&folder, &Findings::new("lists", "Lists").with([figure])).unwrap();
        assert!(folder.join("lists-1.svg").exists() && !folder.join("lists-2.svg").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
