//! The report on paper: the browser prints it, and the file is looked at.
//!
//! ```text
//!   report.html --chromium--> report.pdf: "/Type /Page" once a page, which the browser writes without compression
//! ```

use std::fs;
use std::path::Path;
use std::process::Command;

/// Figures that a page of paper holds, at most: a chart is not divided.
const FIGURES_A_PAGE: usize = 6;
/// Bytes of a chart in the file, at least: its lines and letters.
const CHART_BYTES: usize = 1000;
/// Options under which the browser prints a page and asks the network for nothing.
const WORDS: [&str; 9] = [
    "120",
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--no-pdf-header-footer",
];

/// Prints a page with this number of figures to a file; everything that is wrong with it. The browser keeps its files in `folder`,
/// which is removed again.
pub(super) fn faults(address: &str, figures: usize, file: &Path, folder: &Path) -> Vec<String> {
    let _ = fs::remove_file(file);
    let mut browser = Command::new("timeout");
    browser.args(WORDS).arg(format!("--user-data-dir={}", folder.display()));
    browser.arg(format!("--print-to-pdf={}", file.display())).arg(address);
    let ran = browser.output();
    let _ = fs::remove_dir_all(folder);
    match ran {
        Err(error) => return vec![format!("print: {error}")],
        Ok(output) if !output.status.success() => return vec![format!("print: chromium: {}", output.status)],
        Ok(_) => {}
    }
    match fs::read(file) {
        Err(error) => vec![format!("print: {}: {error}", file.display())],
        Ok(bytes) => faults_of(&bytes, figures),
    }
}

fn faults_of(bytes: &[u8], figures: usize) -> Vec<String> {
    if !bytes.starts_with(b"%PDF-") {
        return vec!["print: no PDF".into()];
    }
    let (pages, mut faults) = (pages(bytes), Vec::new());
    if pages == 0 || pages * FIGURES_A_PAGE < figures {
        faults.push(format!("print: {figures} figures on {pages} pages"));
    }
    if bytes.len() < figures * CHART_BYTES {
        faults.push(format!("print: {figures} figures in {} bytes", bytes.len()));
    }
    faults
}

/// Pages of a PDF. The word for a list of pages has one more letter.
fn pages(bytes: &[u8]) -> usize {
    const PAGE: &[u8] = b"/Type /Page";
    let is_one = |rest: &[u8]| rest.starts_with(PAGE) && rest.get(PAGE.len()).is_some_and(|next| *next != b's');
    (0..bytes.len()).filter(|at| is_one(&bytes[*at..])).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_print_has_pages_for_its_figures() {
        let two = [b"%PDF-1.4 <</Type /Pages>> <</Type /Page\n>> <</Type /Page>>".to_vec(), vec![b' '; 9000]].concat();
        assert_eq!(faults_of(&two, 9), Vec::<String>::new());
        assert_eq!(faults_of(&two, 13), ["print: 13 figures on 2 pages", "print: 13 figures in 9058 bytes"]);
        assert_eq!(faults_of(b"%PDF-1.4 <</Type /Pages>>", 0), ["print: 0 figures on 0 pages"]);
        assert_eq!(faults_of(b"<html>", 1), ["print: no PDF"]);
    }
}
