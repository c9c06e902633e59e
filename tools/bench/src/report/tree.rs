//! The report's page as a browser has it, a tree as HTML: whether contents, sections, figures and charts belong together, and
//! whether all results that the folder holds are drawn.
//!
//! ```text
//!   <nav>  #point, #point-1, ... #lost      <section id="point">, <figure id="point-1">: each has an entry, each entry has one
//!   <figure id="point-1">                   <svg>: a mark for each value of point.json's first figure, and one a series in the legend
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::Figure;

/// Beginnings of the elements that are marks: circles, and polygons with three or four corners.
const MARKS: [&str; 2] = ["<circle ", "<polygon "];

/// Entries of the contents without a section or figure, these without an entry, and figures without a chart that has marks.
pub(super) fn faults(tree: &str) -> Vec<String> {
    let (sections, figures) = (words(tree, "<section id=\""), words(tree, "<figure id=\""));
    let contents = tree.split("<nav").nth(1).and_then(|rest| rest.split("</nav>").next()).unwrap_or_default();
    let entries = words(contents, "href=\"#");
    let places: BTreeSet<&str> = sections.union(&figures).copied().collect();
    let mut faults: Vec<String> =
        entries.difference(&places).map(|name| format!("no section or figure #{name}")).collect();
    faults.extend(places.difference(&entries).map(|name| format!("no entry of #{name}")));
    let charts = figures.iter().filter(|id| {
        let own = part(tree, id);
        own.contains("<svg ") && own.contains("</text>") && marks(own) > 0
    });
    let (charts, figures) = (charts.count(), figures.len());
    if figures == 0 || charts != figures {
        faults.push(format!("{figures} figures, of which {charts} have a chart with marks"));
    }
    faults
}

/// Figures of the folder's results that are not in the page's tree, or whose charts have another number of marks.
pub(super) fn lost(tree: &str, folder: &Path) -> Vec<String> {
    let Ok(files) = fs::read_dir(folder) else { return vec![format!("{}: cannot be read", folder.display())] };
    let names = files.filter_map(|file| Some(file.ok()?.file_name().to_str()?.strip_suffix(".json")?.to_string()));
    let results = names.filter_map(|name| super::read(folder, &name));
    let fault = |(id, figure): (String, Figure)| match (part(tree, &id), wanted(&figure)) {
        ("", _) => Some(format!("no figure #{id}")),
        (own, wanted) if marks(own) != wanted => {
            Some(format!("#{id} has {} marks, its values and its legend have {wanted}", marks(own)))
        }
        _ => None,
    };
    let figures = results.flat_map(|one| {
        let name = one.name;
        let ids = (1..).map(move |number| format!("{name}-{number}"));
        ids.zip(one.figures)
    });
    figures.filter_map(fault).collect()
}

/// One figure in the middle of each third section, to be looked at.
pub(super) fn chosen(tree: &str) -> Vec<String> {
    let sections = tree.split("<section id=\"").skip(1);
    let middle = |section: &str| {
        let ids: Vec<&str> = section.split("<figure id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        ids.get(ids.len() / 2).map(ToString::to_string)
    };
    sections.skip(1).step_by(3).filter_map(middle).collect()
}

/// The words between a beginning and the next quote.
fn words<'t>(tree: &'t str, start: &str) -> BTreeSet<&'t str> {
    tree.split(start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// The text of a figure; empty where there is none.
fn part<'t>(tree: &'t str, id: &str) -> &'t str {
    let begin = format!("<figure id=\"{id}\"");
    tree.split(&begin).nth(1).and_then(|rest| rest.split("</figure>").next()).unwrap_or_default()
}

fn marks(text: &str) -> usize {
    MARKS.iter().map(|mark| text.matches(mark).count()).sum()
}

/// The marks that a chart should have: one a value, and one a series in the legend.
fn wanted(figure: &Figure) -> usize {
    figure.series.iter().map(|series| series.points.len() + 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Findings, Form, Role, Series, chart, write};

    const CHART: &str = "<svg role=\"img\"><text>1</text><circle cx=\"1\"></circle></svg>";

    #[test]
    fn sections_and_figures_have_entries_and_charts_have_marks() {
        let page = |section: &str, entry: &str, chart: &str| {
            format!(
                "<nav><a href=\"#p\">p</a><a href=\"#{entry}\">a</a></nav>\
                 <section id=\"{section}\"><figure id=\"p-1\">{chart}</figure></section>"
            )
        };
        assert_eq!(faults(&page("p", "p-1", CHART)), Vec::<String>::new());
        assert_eq!(faults(&page("p", "p-2", CHART)), ["no section or figure #p-2", "no entry of #p-1"]);
        assert_eq!(faults(&page("q", "p-1", CHART)), ["no section or figure #p", "no entry of #q"]);
        let bare = ["1 figures, of which 0 have a chart with marks"];
        assert_eq!(faults(&page("p", "p-1", "")), bare);
        assert_eq!(faults(&page("p", "p-1", &CHART.replace("circle", "line"))), bare, "axes alone");
        assert_eq!(faults("<nav></nav>"), ["0 figures, of which 0 have a chart with marks"]);
    }

    #[test]
    fn each_value_that_the_folder_holds_has_its_mark() {
        let folder = std::env::temp_dir().join(format!("varve-look-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("settings.json"), "[]").unwrap();
        let drawn = [Form::Dots, Form::Lines].map(|form| {
            let mut figure = Figure::new("t", "us", Better::Less, form).over("", ["a", "b", "c"]);
            for (name, role) in [("v", Role::Varve), ("p", Role::Peer), ("r", Role::Rival), ("f", Role::Floor)] {
                let mut series = Series::new(name, role);
                [1.0, 2.0, f64::NAN].into_iter().enumerate().for_each(|(place, us)| series.push(place, us));
                figure.series.push(series);
            }
            figure
        });
        write(&folder, &Findings::new("point", "").with(drawn.clone())).unwrap();
        let page = |number: usize, figure| format!("<figure id=\"point-{number}\">{}</figure>", chart::within(figure));
        let whole = page(1, &drawn[0]) + &page(2, &drawn[1]);
        assert_eq!(lost(&whole, &folder), Vec::<String>::new());
        assert_eq!(lost(&page(1, &drawn[0]), &folder), ["no figure #point-2"]);
        let less = whole.replacen("<polygon ", "<line ", 1);
        assert_eq!(lost(&less, &folder), ["#point-1 has 11 marks, its values and its legend have 12"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_figure_of_each_third_section_is_chosen() {
        let section = |name: &str| {
            let figure = |number| format!("<figure id=\"{name}-{number}\"></figure>");
            format!("<section id=\"{name}\">{}{}{}</section>", figure(1), figure(2), figure(3))
        };
        let page: String = ["a", "b", "c", "d", "e"].map(section).concat() + "<section id=\"lost\"></section>";
        assert_eq!(chosen(&page), ["b-2", "e-2"]);
    }
}
