//! Opens the experiments' report in a browser without a window, and looks whether it is whole.
//!
//! ```text
//!   report.html --chromium--> its tree: every entry of the contents has its figure, every figure its chart
//!               \---------->  its console: nothing; the page's policy forbids every request, and one would be named there
//!   a copy with a line of script that measures, as narrow as a telephone: nothing sticks out at the side
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use varve_testkit::browser;

/// The page's rule that nothing is fetched, as its file has it.
const POLICY: &str =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">";
/// Writes into the title by how many pixels the page is wider than its window.
const MEASURE: &str = "<script>const root = document.documentElement; \
                       document.title = 'over ' + (root.scrollWidth - root.clientWidth)</script>";
/// Milliseconds that a page runs: it shows itself at once.
const CLOCK_MS: u32 = 100;

/// Looks at a report.
///
/// # Errors
/// Everything that is wrong with it, or a browser that does not start.
pub(crate) fn look(report: &Path) -> Result<(), String> {
    let page = fs::read_to_string(report).map_err(|error| format!("{}: {error}", report.display()))?;
    let narrow = report.with_file_name("narrow.html");
    let mut faults = Vec::new();
    let shown = open(report, 1200)?;
    faults.extend(faults_of(&shown.tree));
    faults.extend(shown.console);
    if !page.contains(POLICY) {
        faults.push("the page does not forbid requests".into());
    }
    let measured = page.replace(POLICY, "").replace("</main>", &format!("</main>{MEASURE}"));
    fs::write(&narrow, measured).map_err(|error| error.to_string())?;
    let tree = open(&narrow, 500)?.tree;
    if !tree.contains("<title>over 0</title>") {
        let title = tree.split("<title>").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or("no title");
        faults.push(format!("the page is wider than a narrow window: {title}"));
    }
    let _ = fs::remove_file(&narrow);
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn open(page: &Path, width: u32) -> Result<browser::Opened, String> {
    let path = page.canonicalize().map_err(|error| error.to_string())?;
    let folder = path.with_file_name("browser");
    browser::open(&format!("file://{}", path.display()), width, CLOCK_MS, &folder).map_err(|error| error.to_string())
}

/// Entries of the contents without a place, figures without an entry, and figures without a chart.
fn faults_of(tree: &str) -> Vec<String> {
    let words = |start: &'static str| {
        tree.split(start).skip(1).filter_map(|rest| rest.split('"').next()).collect::<BTreeSet<&str>>()
    };
    let contents = tree.split("<nav").nth(1).and_then(|rest| rest.split("</nav>").next()).unwrap_or_default();
    let entries: BTreeSet<&str> =
        contents.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let (places, figures) = (words(" id=\""), words("<figure id=\""));
    let mut faults: Vec<String> = entries.difference(&places).map(|name| format!("no place #{name}")).collect();
    faults.extend(figures.difference(&entries).map(|name| format!("no entry of #{name}")));
    let charts = tree.split("<figure id=\"").skip(1).filter(|part| {
        let own = part.split("</figure>").next().unwrap_or_default();
        own.contains("<svg ") && own.contains("</text>")
    });
    let (charts, figures) = (charts.count(), figures.len());
    if figures == 0 || charts != figures {
        faults.push(format!("{figures} figures, of which {charts} have a chart"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_needs_an_entry_and_a_chart() {
        let page = |entry: &str, chart: &str| {
            format!("<nav><a href=\"#{entry}\">a</a></nav><figure id=\"p-1\">{chart}</figure>")
        };
        let chart = "<svg role=\"img\"><text>1</text></svg>";
        assert_eq!(faults_of(&page("p-1", chart)), Vec::<String>::new());
        assert_eq!(faults_of(&page("p-2", chart)), ["no place #p-2", "no entry of #p-1"]);
        assert_eq!(faults_of(&page("p-1", "")), ["1 figures, of which 0 have a chart"]);
        assert_eq!(faults_of("<nav></nav>"), ["0 figures, of which 0 have a chart"]);
    }
}
