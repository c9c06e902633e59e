//! Licences, sources and advisories of the dependencies, without network.
//!
//! ```text
//!   Cargo.lock    every package comes from the registry, or is the workspace's own
//!   cargo tree    every licence is a choice among those below
//!   a copy of the advisory database (VARVE_ADVISORIES=FOLDER): crates/NAME/ADVISORY.md, its versions
//!                     patched = [">= 1.2.3"]   unaffected = ["< 1.0.0"]       any other version: a complaint
//! ```
//! Without a copy of the database nothing is said about advisories, and the summary says so.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::shell::{Tally, cargo, output, step, workspace};

/// Licences under which a dependency may be used.
const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The one source of packages that are not the workspace's own.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Looks at all three.
pub(crate) fn check() -> Tally {
    step("licences", || {
        let mut tally = Tally::one("licences", licences());
        match packages() {
            Ok(packages) => {
                tally.add(Tally::one("sources", sources(&packages)));
                match std::env::var_os("VARVE_ADVISORIES") {
                    Some(folder) => tally.add(Tally::one("advisories", advisories(Path::new(&folder), &packages))),
                    None => tally.skipped += 1,
                }
            }
            Err(error) => tally.fail(&error),
        }
        tally
    })
}

/// A package of Cargo.lock.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    /// None for the workspace's own.
    source: Option<String>,
}

fn packages() -> Result<Vec<Package>, String> {
    let path = workspace().join("Cargo.lock");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.split("[[package]]").skip(1).map(package).collect())
}

fn package(stanza: &str) -> Package {
    let value = |key: &str| {
        let line = stanza.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let (name, version) = (value("name").unwrap_or_default(), value("version").unwrap_or_default());
    Package { name, version, source: value("source") }
}

fn sources(packages: &[Package]) -> Result<(), String> {
    let foreign = packages.iter().filter(|package| package.source.as_deref().is_some_and(|source| source != REGISTRY));
    let names: Vec<&str> = foreign.map(|package| package.name.as_str()).collect();
    if names.is_empty() { Ok(()) } else { Err(format!("not from the registry: {}", names.join(", "))) }
}

fn licences() -> Result<(), String> {
    let words = ["tree", "--workspace", "--offline", "--locked", "--prefix", "none", "--format", "{l} | {p}"];
    let lines: BTreeSet<String> = output(&mut cargo(&words))?.lines().map(str::to_owned).collect();
    let refused = lines.iter().filter(|line| !line.split(" | ").next().is_some_and(is_allowed));
    let refused: Vec<&str> = refused.filter(|line| !line.trim().is_empty()).map(String::as_str).collect();
    if refused.is_empty() { Ok(()) } else { Err(format!("no licence of the list: {}", refused.join("; "))) }
}

/// True if a licence expression leaves a choice that is allowed. `/` is an old way to write OR.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.trim();
    let whole = expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
    if let Some(inner) = whole.filter(|inner| !inner.contains(['(', ')'])) {
        return is_allowed(inner);
    }
    for (word, all) in [(" OR ", false), ("/", false), (" AND ", true)] {
        let parts = outside_parentheses(expression, word);
        if parts.len() > 1 {
            let mut parts = parts.into_iter();
            return if all { parts.all(is_allowed) } else { parts.any(is_allowed) };
        }
    }
    ALLOWED.contains(&expression)
}

/// The parts of an expression between the words that stand in no parentheses.
fn outside_parentheses<'e>(expression: &'e str, word: &str) -> Vec<&'e str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, letter) in expression.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 && at >= begin && expression[at..].starts_with(word) {
            parts.push(&expression[begin..at]);
            begin = at + word.len();
        }
    }
    parts.push(&expression[begin..]);
    parts
}

fn advisories(folder: &Path, packages: &[Package]) -> Result<(), String> {
    let crates = folder.join("crates");
    if !crates.is_dir() {
        return Err(format!("{} is no copy of the advisory database", folder.display()));
    }
    let mut complaints = Vec::new();
    for package in packages.iter().filter(|package| package.source.is_some()) {
        let Ok(files) = fs::read_dir(crates.join(&package.name)) else { continue };
        for file in files.filter_map(Result::ok) {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            if concerns(&text, &package.version) {
                let name = file.file_name();
                complaints.push(format!("{} {}: {}", package.name, package.version, name.to_string_lossy()));
            }
        }
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("; ")) }
}

/// True if an advisory is about this version: neither patched nor unaffected, nor withdrawn, and no mere notice.
fn concerns(advisory: &str, version: &str) -> bool {
    let is_notice = advisory.contains("\ninformational =") || advisory.contains("\nwithdrawn =");
    let ranges = |key: &str| -> Vec<String> {
        let list = advisory.split_once(&format!("\n{key} =")).map_or("", |(_, rest)| rest);
        let list = list.split_once(']').map_or("", |(list, _)| list);
        list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let spared = ["patched", "unaffected"].iter().flat_map(|key| ranges(key)).any(|range| fits(&range, version));
    !is_notice && !spared
}

/// True if a version lies in a range of the form `>= 1.2.3, < 2.0.0`; `^1.2` goes up to the next number that breaks.
fn fits(range: &str, version: &str) -> bool {
    let version = numbers(version);
    range.split(',').map(str::trim).all(|bound| {
        let end = bound.find(|letter: char| letter.is_ascii_digit()).unwrap_or(bound.len());
        let (sign, bound) = (bound[..end].trim(), numbers(&bound[end..]));
        match sign {
            ">=" => version >= bound,
            ">" => version > bound,
            "<" => version < bound,
            "<=" => version <= bound,
            "=" => version == bound,
            "~" => version >= bound && version[..2] == bound[..2],
            _ => version >= bound && version < next_breaking(bound),
        }
    })
}

/// The three numbers of a version, 0 for those that are not there; of what stands behind them nothing is said.
fn numbers(version: &str) -> [u64; 3] {
    let plain = version.split(['-', '+']).next().unwrap_or_default();
    let mut parts = plain.split('.').map(|part| part.trim().parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

fn next_breaking([major, minor, patch]: [u64; 3]) -> [u64; 3] {
    match (major, minor) {
        (0, 0) => [0, 0, patch + 1],
        (0, _) => [0, minor + 1, 0],
        _ => [major + 1, 0, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_among_licences_is_enough() {
        for (expression, allowed) in [
            ("MIT", true),
            ("MIT OR GPL-3.0", true),
            ("MIT/Apache-2.0", true),
            ("Apache-2.0 / MIT", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0", false),
            ("(MIT OR GPL-3.0)", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression}");
        }
    }

    #[test]
    fn packages_are_read_and_their_sources_told_apart() {
        let ours = package("\nname = \"varve-base\"\nversion = \"0.1.0\"\ndependencies = [\n \"libc\",\n]\n");
        let libc = package(&format!("\nname = \"libc\"\nversion = \"0.2.1\"\nsource = \"{REGISTRY}\"\n"));
        let git = package("\nname = \"x\"\nversion = \"1.0.0\"\nsource = \"git+https://example.org/x\"\n");
        assert_eq!((ours.source.as_deref(), libc.version.as_str()), (None, "0.2.1"));
        assert_eq!(sources(&[ours, libc]), Ok(()));
        assert_eq!(sources(&[git]), Err("not from the registry: x".into()));
    }

    #[test]
    fn an_advisory_concerns_the_versions_that_it_does_not_spare() {
        let advisory =
            "[advisory]\nid = \"X\"\n\n[versions]\npatched = [\">= 1.2.3\", \"^1.0.9\"]\nunaffected = [\"< 0.5.0\"]\n";
        for (version, concerned) in
            [("1.2.2", false), ("1.0.8", true), ("0.4.9", false), ("0.5.0", true), ("1.2.3", false), ("2.0.0", false)]
        {
            assert_eq!(concerns(advisory, version), concerned, "{version}");
        }
        assert!(concerns("[advisory]\n[versions]\npatched = []\n", "9.9.9"), "nothing mends it");
        assert!(!concerns("[advisory]\ninformational = \"unmaintained\"\n\n[versions]\npatched = []\n", "1.0.0"));
        assert!(
            fits("~1.2.3", "1.2.9") && !fits("~1.2.3", "1.3.0") && fits("^0.2.1", "0.2.9") && !fits("^0.2.1", "0.3.0")
        );
    }
}
