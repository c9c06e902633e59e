//! The report: one HTML file without scripts, without network, for screens of any width, both themes and paper.
//!
//! ```text
//!   heading: machine, versions, commit      contents: a line an experiment, one below it for each figure
//!   experiment: notes, figures              figure: title, verdict, chart, table (folded away)
//!   lost: everything that cannot be reproduced, and why
//! ```

use super::verdict::{self, Standing, verdict};
use super::{Figure, Findings, axis, chart, short};
use std::fs;
use std::io;
use std::path::Path;

/// The facts that stand above the figures.
#[derive(Debug, Default)]
pub(crate) struct About {
    /// Names and values: machine, kernel, versions, settings, commit.
    pub(crate) facts: Vec<(String, String)>,
    /// Sentences on the whole run: what was not run, why figures are preliminary.
    pub(crate) warnings: Vec<String>,
}

const STYLE: &str = include_str!("page.css");

/// Writes `report.html` into a folder.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(folder: &Path, about: &About, all: &[Findings]) -> io::Result<()> {
    fs::write(folder.join("report.html"), html(about, all))
}

fn html(about: &About, all: &[Findings]) -> String {
    let colours = chart::colours();
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Varve: the experiments</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <style>{colours}\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>Varve: the experiments</h1>\n"
    );
    page += &heading(about, all);
    page += &contents(all);
    for findings in all {
        page += &section(findings);
    }
    page += &lost(all);
    page + "</main>\n</body>\n</html>\n"
}

fn heading(about: &About, all: &[Findings]) -> String {
    let row = |(name, value): &(String, String)| format!("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
    let facts: String = about.facts.iter().map(row).collect();
    let warn = |text: &String| format!("<p class=\"warning\">{}</p>\n", escaped(text));
    let warnings: String = about.warnings.iter().map(warn).collect();
    // Figures above the floor have the cases of others again.
    let figures: Vec<&Figure> =
        all.iter().flat_map(|findings| &findings.figures).filter(|figure| !figure.is_above_floor()).collect();
    let count = |wanted| figures.iter().filter(|figure| verdict(figure).0 == wanted).count();
    let [ahead, level, behind, alone] =
        [Standing::Ahead, Standing::Level, Standing::Behind, Standing::Alone].map(count);
    let cases = figures.iter().map(|figure| verdict::cases(figure));
    let [cases_ahead, cases_level, cases_behind] = cases.fold([0; 3], |sum, one| [0, 1, 2].map(|at| sum[at] + one[at]));
    let [values, pale, single] = verdict::values(figures.iter().copied());
    format!(
        "<dl>{facts}</dl>\n{warnings}<p>Beside redis-server in the same run, Varve is <b class=\"ahead\">ahead</b> in most \
         cases of {ahead} figures, <b class=\"behind\">behind</b> in most cases of {behind}, <b class=\"level\">level</b> or \
         divided in {level}; {alone} have nothing to be compared with. Of the cases of all these figures it is ahead in \
         {cases_ahead}, level in {cases_level}, behind in {cases_behind}. A figure of what is above the floor counts with the one \
         that it is made of. A value is the median of its runs, with their range as a bar; two servers whose ranges meet are level. A value whose runs differ by more \
         than 15% is pale: {pale} of {values} are. {single} are of one run: beside them a difference counts from 15% on. Published \
         values are from other machines and other years: their shapes compare, their heights do not.</p>\n"
    )
}

/// The anchor of an experiment's figure.
fn anchor(findings: &Findings, number: usize) -> String {
    format!("{}-{}", findings.name, number + 1)
}

fn contents(all: &[Findings]) -> String {
    let mut text = "<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n<ol>\n".to_string();
    for findings in all {
        let (name, title) = (&findings.name, escaped(&findings.title));
        text += &format!("<li><a href=\"#{name}\">{title}</a><ol>");
        for (number, figure) in findings.figures.iter().enumerate() {
            let (word, title) = (verdict(figure).0.word(), escaped(&figure.title));
            let anchor = anchor(findings, number);
            text += &format!("<li><a href=\"#{anchor}\">{title}</a> <span class=\"{word}\">{word}</span></li>");
        }
        text += "</ol></li>\n";
    }
    text + "<li><a href=\"#lost\">What cannot be reproduced, and why</a></li>\n</ol>\n</nav>\n"
}

fn section(findings: &Findings) -> String {
    let (name, title) = (&findings.name, escaped(&findings.title));
    let mut text = format!("<section id=\"{name}\">\n<h2>{title}</h2>\n");
    text += &format!("<p class=\"command\"><code>cargo xtask bench all --only {name}</code></p>\n");
    let notes = findings.notes.iter().cloned().chain(findings.took_note());
    text += &notes.map(|note| format!("<p>{}</p>\n", escaped(&note))).collect::<String>();
    for (number, figure) in findings.figures.iter().enumerate() {
        text += &drawn(figure, &anchor(findings, number));
    }
    text + "</section>\n"
}

fn drawn(figure: &Figure, anchor: &str) -> String {
    let (standing, sentence) = verdict(figure);
    let (word, title) = (standing.word(), escaped(&figure.title));
    let about = match figure.about.as_str() {
        "" => String::new(),
        about => format!("<p>{}</p>\n", escaped(about)),
    };
    format!(
        "<figure id=\"{anchor}\">\n<figcaption><h3>{title}</h3>\n{about}<p class=\"verdict {word}\">{}</p></figcaption>\n\
         <div class=\"chart\">{}</div>\n<details><summary>The figures</summary>\n{}</details>\n</figure>\n",
        escaped(&sentence),
        chart::within(figure),
        table(figure)
    )
}

fn table(figure: &Figure) -> String {
    let heads: String = figure.series.iter().map(|series| format!("<th>{}</th>", escaped(&series.name))).collect();
    let axis = escaped(&figure.axis);
    let caption = escaped(&axis::label(figure));
    let mut text = format!(
        "<div class=\"chart\"><table><caption>{caption}; in the brackets of a value the range of its runs</caption>\n\
         <thead><tr><th>{axis}</th>{heads}</tr></thead>\n<tbody>\n"
    );
    for (place, name) in figure.places.iter().enumerate() {
        text += &format!("<tr><th>{}</th>", escaped(name));
        for series in &figure.series {
            text += &match series.at(place) {
                None => "<td>-</td>".to_string(),
                Some(value) if value.runs < 2 => format!("<td>{}</td>", short(value.median)),
                Some(value) => {
                    let class = if value.is_wide() { " class=\"pale\"" } else { "" };
                    format!("<td{class}>{} ({} to {})</td>", short(value.median), short(value.low), short(value.high))
                }
            };
        }
        text += "</tr>\n";
    }
    text + "</tbody></table></div>\n"
}

fn lost(all: &[Findings]) -> String {
    let line = |findings: &Findings, text: &String| {
        format!("<li><a href=\"#{}\">{}</a>: {}</li>\n", findings.name, escaped(&findings.title), escaped(text))
    };
    let lines: String = all.iter().flat_map(|one| one.lost.iter().map(move |text| line(one, text))).collect();
    let lines = if lines.is_empty() { "<li>Nothing.</li>".to_string() } else { lines };
    format!("<section id=\"lost\">\n<h2>What cannot be reproduced, and why</h2>\n<ul>\n{lines}</ul>\n</section>\n")
}

/// Text with the signs replaced that HTML has a meaning for.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Form, Role, Series};

    #[test]
    fn every_figure_has_its_place_and_its_entry() {
        let mut figure = Figure::new("A < B", "us", Better::Less, Form::Dots).over("", ["GET"]);
        let mut series = Series::new("Varve", Role::Varve);
        series.push(0, 1.0);
        figure.series.push(series);
        let findings = Findings::new("point", "Single keys").with([figure.clone(), figure]).lost("the picture");
        let page = html(&About { facts: vec![("kernel".into(), "6".into())], warnings: vec![] }, &[findings]);
        for text in
            ["href=\"#point-1\"", "id=\"point-1\"", "href=\"#point-2\"", "id=\"point-2\"", "A &lt; B", "picture"]
        {
            assert!(page.contains(text), "{text}");
        }
        assert!(page.contains("<code>cargo xtask bench all --only point</code>"));
        let lists = Findings::new("lists-40b-piped", "");
        assert!(
            section(&lists).contains("bench all --only lists-40b-piped</code>") && !section(&lists).contains(" took ")
        );
        assert!(section(&Findings { took: Some(5400.0), ..lists }).contains("<p>The experiment took 1.5 h.</p>"));
        assert_eq!(page.matches("<svg ").count(), 2);
        assert!(!page.contains("<script") && !page.contains("src="));
    }
}
