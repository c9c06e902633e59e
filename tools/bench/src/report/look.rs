//! Opens the experiments' report in a browser without a window, and looks whether it is whole.
//!
//! ```text
//!   report.html --chromium--> its tree: contents, sections, figures and marks belong together ([`super::tree`])
//!               \---------->  its console: nothing; the page's policy forbids every request, and one would be named there
//!   a copy with a line of script that measures: light, dark, and in a frame that is as narrow as a telephone
//!               \---------->  nothing sticks out at the side; light and dark differ
//!   report.pdf beside the report: it has pages for all figures ([`super::pdf`])
//!   light.png, dark.png, phone.png beside the report, and the same of some figures, to be looked at: none is like that of the top
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{pdf, tree};
use varve_testkit::browser::{self, Window};

/// The page's rule that nothing is fetched, as its file has it.
const POLICY: &str =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">";
/// Tells, in the title and to a page around it: by how many pixels the page is wider than its window, the window's width, and
/// the colour behind everything.
const MEASURE: &str = "<script>const root = document.documentElement; \
                       document.title = [root.scrollWidth - root.clientWidth, innerWidth, \
                       getComputedStyle(document.body).backgroundColor].join(' over '); \
                       parent.postMessage(document.title, '*')</script>";
/// A page with the measured copy in a frame: the browser makes no window as narrow as a telephone, and its pictures do not follow
/// an address to a place in the page.
const FRAME: &str = "<!doctype html><title>none</title><style>body { margin: 0 } iframe { border: 0 }</style>\
                     <script>onmessage = told => document.title = told.data</script>\
                     <iframe src=\"measured.html#PLACE\" width=\"WIDTH\" height=\"1400\"></iframe>";
const PHONE_WIDTH: &str = "390";
/// Milliseconds that a page runs: it shows itself at once.
const CLOCK_MS: u32 = 500;
/// Files that are written beside the report and removed again.
const COPIES: [&str; 2] = ["measured.html", "frame.html"];

/// Looks at a report, and draws it beside its file.
///
/// # Errors
/// Everything that is wrong with it, or a browser that does not start.
pub(crate) fn look(report: &Path) -> Result<(), String> {
    let page = fs::read_to_string(report).map_err(|error| format!("{}: {error}", report.display()))?;
    let report = absolute(report)?;
    let light = Window { height: 1400, ..Window::light(1200) };
    let dark = Window { dark: true, ..light };
    let mut faults = Vec::new();
    let shown = open(&report, light)?;
    faults.extend(tree::faults(&shown.tree));
    faults.extend(tree::lost(&shown.tree, report.parent().unwrap_or(Path::new("."))));
    faults.extend(shown.console);
    if !page.contains(POLICY) {
        faults.push("the page does not forbid requests".into());
    }
    let (address, folder) = place(&report)?;
    let figures = shown.tree.matches("<figure ").count();
    faults.extend(pdf::faults(&address, figures, &report.with_extension("pdf"), &folder));
    let measured = page.replace(POLICY, "").replace("</main>", &format!("</main>{MEASURE}"));
    let copies = COPIES.map(|name| report.with_file_name(name));
    for (file, text) in copies.iter().zip([measured.as_str(), &framed("", PHONE_WIDTH)]) {
        fs::write(file, text).map_err(|error| error.to_string())?;
    }
    let phone = Window { height: 1400, ..Window::light(500) };
    let [in_light, in_dark, narrow] = [(&copies[0], light), (&copies[0], dark), (&copies[1], phone)]
        .map(|(file, window)| open(file, window).map(|shown| title(&shown.tree)));
    faults.extend(faults_of_measures(&in_light?, &in_dark?, &narrow?));
    let windows = [("light", "1200", light), ("dark", "1200", dark), ("phone", PHONE_WIDTH, phone)];
    faults.extend(drawn(&page, &copies[1], &windows)?);
    copies.iter().for_each(|file| _ = fs::remove_file(file));
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Pictures of the page's top, of its first figure and of some in its middle, in each window; faults, and pictures that are like
/// that of the top: they do not show their place.
fn drawn(page: &str, frame: &Path, windows: &[(&str, &str, Window)]) -> Result<Vec<String>, String> {
    let first = page.split("<figure id=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let middle = tree::chosen(page);
    let named = middle.iter().filter(|id| *id != first).map(|id| (format!("-{id}"), id.as_str()));
    let places = [(String::new(), ""), ("-figure".to_string(), first)].into_iter().chain(named);
    let (mut faults, mut tops) = (Vec::new(), BTreeMap::new());
    for (end, id) in places {
        for (name, width, window) in windows {
            fs::write(frame, framed(id, width)).map_err(|error| error.to_string())?;
            let picture = frame.with_file_name(format!("{name}{end}.png"));
            let (address, folder) = place(frame)?;
            match browser::picture(*window, &address, CLOCK_MS, &picture, &folder).and_then(|()| fs::read(&picture)) {
                Err(error) => faults.push(error.to_string()),
                Ok(bytes) if id.is_empty() => _ = tops.insert(name, bytes),
                Ok(bytes) if tops.get(name) == Some(&bytes) => {
                    faults.push(format!("{} shows the top of the page", picture.display()));
                }
                Ok(_) => {}
            }
        }
    }
    Ok(faults)
}

fn open(page: &Path, window: Window) -> Result<browser::Opened, String> {
    let (address, folder) = place(page)?;
    browser::open_in(window, &address, CLOCK_MS, &folder).map_err(|error| error.to_string())
}

/// The page with a frame of this width that shows this place of the report.
fn framed(place: &str, width: &str) -> String {
    FRAME.replace("PLACE", place).replace("WIDTH", width)
}

/// The address of a page, and a folder for the browser's files.
fn place(page: &Path) -> Result<(String, PathBuf), String> {
    let path = page.canonicalize().map_err(|error| error.to_string())?;
    Ok((format!("file://{}", path.display()), path.with_file_name("browser")))
}

/// The path of a file that is not there yet.
fn absolute(file: &Path) -> Result<PathBuf, String> {
    std::path::absolute(file).map_err(|error| error.to_string())
}

/// The title in a page's tree.
fn title(tree: &str) -> String {
    tree.split("<title>").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or("no title").to_string()
}

/// The faults by the titles that [`MEASURE`] has written: in a light window, in a dark one, and in a narrow frame.
fn faults_of_measures(light: &str, dark: &str, phone: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let parts = |title: &str| title.split(" over ").map(str::to_string).collect::<Vec<String>>();
    for (name, title) in [("light", light), ("dark", dark), ("as narrow as a telephone", phone)] {
        match &parts(title)[..] {
            [over, _, _] if over == "0" => {}
            [over, _, _] => faults.push(format!("{name}: {over} pixels stick out at the side")),
            _ => faults.push(format!("{name}: the page was not measured: {title}")),
        }
    }
    if parts(phone).get(1).map(String::as_str) != Some(PHONE_WIDTH) {
        faults.push(format!("the page was not shown at the width of a telephone: {phone}"));
    }
    if parts(light).get(2) == parts(dark).get(2) {
        faults.push(format!("light and dark have the same ground: {light}"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_of_three_windows_are_judged() {
        let (light, dark, phone) =
            ("0 over 1200 over rgb(1, 1, 1)", "0 over 1200 over rgb(9, 9, 9)", "0 over 390 over rgb(1, 1, 1)");
        assert_eq!(faults_of_measures(light, dark, phone), Vec::<String>::new());
        assert_eq!(faults_of_measures(light, light, phone).len(), 1, "no dark form");
        assert_eq!(faults_of_measures(light, dark, light).len(), 1, "another width");
        let wide = faults_of_measures(light, dark, "12 over 390 over rgb(1, 1, 1)");
        assert_eq!(wide, ["as narrow as a telephone: 12 pixels stick out at the side"]);
        assert_eq!(faults_of_measures(light, dark, "none").len(), 2);
    }
}
