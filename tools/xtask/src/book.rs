//! The site of docs/: `cargo xtask long book`, and a step of `test` once that has installed the builder.
//!
//! ```text
//! cargo install mdbook ──▶ .test-tools/mdbook/     once
//! docs/book.toml, SUMMARY.md, *.md ──mdbook──▶ target/book/*.html ──▶ each link leads to a file and a place that are there,
//!                                                                     and no page loads anything of another machine
//! ```
//! The tests below are its cheap part: the summary has every page, and the pages' own links lead somewhere.

use crate::shell::{Tally, cargo, command, run, say, step, target_dir, tools_dir, workspace};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The builder's version, pinned.
const MDBOOK: &str = "0.5.4";

/// Builds the site and looks at its links.
pub(crate) fn all() -> Tally {
    step("book", || Tally::one("book", build().and_then(|()| check(&site()))))
}

/// Builds the site where the builder is there: to make that takes minutes, to use it a second.
pub(crate) fn if_there_is_a_builder() -> Tally {
    if program().exists() {
        return all();
    }
    let mut tally = Tally::default();
    tally.skip("book: there is no mdbook; cargo xtask long book installs it".into());
    tally
}

fn program() -> PathBuf {
    tools_dir().join("mdbook/bin/mdbook")
}

fn site() -> PathBuf {
    target_dir().join("book")
}

fn build() -> Result<(), String> {
    let program = program();
    if !program.exists() {
        let mut install = cargo(&["install", "--quiet", "--locked", "--no-default-features", "--features", "search"]);
        install.args(["mdbook", "--version", MDBOOK, "--root"]).arg(tools_dir().join("mdbook"));
        run(install.arg("--target-dir").arg(target_dir().join("mdbook")))?;
    }
    let mut mdbook = command(&program.to_string_lossy(), &["build", "--dest-dir"]);
    run(mdbook.arg(site()).arg(workspace().join("docs")))
}

/// Looks at every page of a site.
fn check(site: &Path) -> Result<(), String> {
    let pages = pages(site)?;
    let mut faults = Vec::new();
    let mut links = 0;
    for (path, page) in &pages {
        for reference in references(page) {
            links += 1;
            faults.extend(fault(site, path, &reference, &pages).map(|fault| format!("{}: {fault}", path.display())));
        }
    }
    say(&format!("{}: {} pages, {links} links and parts", site.display(), pages.len()));
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// The pages of the site, by their paths. The report among the results has its own test (`varve-bench look`).
fn pages(site: &Path) -> Result<HashMap<PathBuf, String>, String> {
    let mut pages = HashMap::new();
    for folder in [site.to_owned(), site.join("results")] {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".html") && name != "report.html" {
                let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                pages.insert(path, text);
            }
        }
    }
    Ok(pages)
}

/// An address in a page.
#[derive(Debug, PartialEq, Eq)]
struct Reference {
    address: String,
    /// The browser asks for it by itself; otherwise only when a reader follows the link.
    is_loaded: bool,
}

/// The addresses of a page's tags. In its text, quotes stand as entities.
fn references(page: &str) -> Vec<Reference> {
    let mut found = Vec::new();
    for tag in page.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        let name = tag.split_whitespace().next().unwrap_or_default();
        for attribute in [" href=\"", " src=\""] {
            if let Some((_, rest)) = tag.split_once(attribute) {
                let address = rest.split('"').next().unwrap_or_default().to_owned();
                found.push(Reference { address, is_loaded: name != "a" });
            }
        }
    }
    found
}

/// Why an address of a page is none; None for one that is right.
fn fault(site: &Path, page: &Path, reference: &Reference, pages: &HashMap<PathBuf, String>) -> Option<String> {
    let address = reference.address.as_str();
    if address.starts_with("data:") {
        return None;
    }
    if address.contains("://") || address.starts_with("//") {
        return reference.is_loaded.then(|| format!("loads {address}"));
    }
    let (file, place) = address.split_once('#').unwrap_or((address, ""));
    let folder = page.parent().unwrap_or(site);
    let target = match file.split('?').next().unwrap_or_default() {
        "" => page.to_owned(),
        // The page that a server shows for an address that is none stands at the site's root.
        file => file.strip_prefix('/').map_or_else(|| folder.join(file), |file| site.join(file)),
    };
    let target = if target.is_dir() { target.join("index.html") } else { target };
    let Ok(target) = target.canonicalize() else { return Some(format!("no file for {address}")) };
    let shown = pages.iter().find(|(path, _)| path.canonicalize().is_ok_and(|path| path == target));
    let has_place = place.is_empty() || shown.is_none_or(|(_, text)| text.contains(&format!("id=\"{place}\"")));
    (!has_place).then(|| format!("no place for {address}"))
}

/// The summary has every page, and no page twice or that is not there.
#[cfg(test)]
fn summary_faults(docs: &Path) -> Vec<String> {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let listed: Vec<String> = links(&read(&docs.join("SUMMARY.md"))).into_iter().map(|(file, _)| file).collect();
    let mut faults: Vec<String> =
        listed.iter().filter(|file| !docs.join(file).exists()).map(|file| format!("{file} is not there")).collect();
    let names: std::collections::HashSet<&String> = listed.iter().collect();
    if names.len() < listed.len() {
        faults.push("a page is listed twice".into());
    }
    let pages = fs::read_dir(docs).into_iter().flatten().flatten();
    let pages = pages.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let missing = pages.filter(|name| name.ends_with(".md") && name != "SUMMARY.md" && !names.contains(name));
    faults.extend(missing.map(|name| format!("{name} is not listed")));
    faults
}

/// The links of a page to files beside it: the file, and the place in it.
#[cfg(test)]
fn links(page: &str) -> Vec<(String, String)> {
    let all = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let own = all.filter(|address| !address.contains("://") && !address.is_empty());
    own.map(|address| {
        let (file, place) = address.split_once('#').unwrap_or((address, ""));
        (file.to_owned(), place.to_owned())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_lists_every_page() {
        assert_eq!(summary_faults(&workspace().join("docs")), Vec::<String>::new());
    }

    #[test]
    fn the_pages_link_to_files_that_are_there() {
        let docs = workspace().join("docs");
        for entry in fs::read_dir(&docs).expect("docs/").flatten().filter(|entry| entry.path().extension().is_some()) {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            for (file, _) in links(&text) {
                assert!(file.is_empty() || docs.join(&file).exists(), "{}: {file}", entry.path().display());
            }
        }
    }

    #[test]
    fn faults_of_a_site_are_found() {
        let page = "<a href=\"b.html#x\">b</a><a href=\"https://e.org\">e</a><script src=\"https://e.org/s.js\"></script>\
                    <a href=\"c.html\">c</a><a href=\"b.html#y\">b</a><p>&lt;a href=\"</p>";
        let folder = std::env::temp_dir().join(format!("varve-book-{}", std::process::id()));
        fs::create_dir_all(folder.join("results")).expect("a folder");
        fs::write(folder.join("a.html"), page).expect("a file");
        fs::write(folder.join("b.html"), "<h1 id=\"x\">b</h1>").expect("a file");
        let found = check(&folder).expect_err("there are three faults");
        fs::remove_dir_all(&folder).expect("the folder");
        let faults: Vec<&str> = found.lines().filter_map(|line| line.split(": ").nth(1)).collect();
        assert_eq!(faults, ["loads https://e.org/s.js", "no file for c.html", "no place for b.html#y"]);
    }
}
