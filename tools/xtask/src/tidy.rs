//! The house rules that a program can check, each a function from the workspace's files to complaints.
//!
//! | rule | limit |
//! |---|---|
//! | a `.rs` file opens with `//!` | |
//! | length of a file without its tests | 800 lines |
//! | length of a function | 70 lines |
//! | marks of unfinished work, ignored tests, `dbg!` | none |
//! | `unsafe` | only in [`UNSAFE_PLACES`] |
//! | edges between crates | [`EDGES`] |
//! | ARCHITECTURE.md | names every crate; each path that it names exists |
//! | paths of somebody's machine | none |
//!
//! What is over a limit and stays so for a while is in [`EXCEPTIONS`]; an entry that is not needed is a complaint too, so the
//! list only shrinks. Rust is not parsed: rustfmt has put a function's last brace under its first letter.

use crate::shell::Tally;
use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Files (path) and functions (path#name) over a limit, with the length that they may have at most.
const EXCEPTIONS: &[(&str, usize)] = &[];

/// Where `unsafe` may stand.
const UNSAFE_PLACES: &[&str] = &["engine/base/", "engine/segment/", "engine/index/", "server/src/sys"];

/// Crates (directories) and the crates of the workspace that they may depend on. Tests may use testkit beside these.
const EDGES: &[(&str, &[&str])] = &[
    ("engine/base", &[]),
    ("engine/segment", &["varve-base"]),
    ("engine/packed", &["varve-base"]),
    ("engine/index", &["varve-base"]),
    ("engine/collection", &["varve-base", "varve-segment", "varve-index", "varve-packed"]),
    ("engine/store", &["varve-base", "varve-segment", "varve-index", "varve-packed", "varve-collection"]),
    ("compat/protocol", &["varve-base"]),
    ("compat/command", &["varve-base", "varve-store", "varve-protocol"]),
    ("server", &["varve-base", "varve-store", "varve-protocol", "varve-command"]),
    ("tools/testkit", &[]),
    ("tools/loops", &["varve-store", "varve-protocol", "varve-command", "varve-testkit"]),
    ("tools/bench", &["varve-store", "varve-testkit"]),
    ("tools/xtask", &[]),
    ("tests", &["varve-testkit"]),
];

/// Directories that hold nothing of ours.
const NOT_OURS: &[&str] = &["target", ".git", ".test-tools", "corpus", "artifacts", "proptest-regressions"];

/// A file of the workspace.
struct File {
    /// relative to the root, with slashes
    path: String,
    text: String,
}

/// Checks everything. Each rule is one test of the tally.
pub(crate) fn run(root: &Path) -> Tally {
    let mut files = Vec::new();
    collect(root, root, &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut tally = Tally::default();
    for (rule, complaints) in [
        ("module docs", module_docs(&files)),
        ("lengths", lengths(&files, EXCEPTIONS)),
        ("unfinished work", unfinished(&files)),
        ("unsafe", unsafe_places(&files)),
        ("edges", edges(&files)),
        ("architecture", architecture(&files, root)),
        ("machine paths", machine_paths(&files)),
    ] {
        let result = if complaints.is_empty() { Ok(()) } else { Err(format!("\n  {}", complaints.join("\n  "))) };
        tally.add(Tally::one(&format!("tidy, {rule}"), result));
    }
    tally
}

fn collect(root: &Path, dir: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && !NOT_OURS.contains(&name.as_str()) {
            collect(root, &path, files);
        } else if path.is_file()
            && ["rs", "md", "toml", "txt", "py", "tcl"].iter().any(|ext| path.extension().is_some_and(|e| e == *ext))
            && let (Ok(text), Ok(relative)) = (fs::read_to_string(&path), path.strip_prefix(root))
        {
            files.push(File { path: relative.to_string_lossy().into_owned(), text });
        }
    }
}

fn rust(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.path.ends_with(".rs"))
}

/// Is the whole file tests?
fn all_tests(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.starts_with("tests/") || path.contains("/tests/") || path.contains("/benches/")
}

fn module_docs(files: &[File]) -> Vec<String> {
    rust(files)
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| format!("{}: opens without //!", file.path))
        .collect()
}

fn lengths(files: &[File], exceptions: &[(&str, usize)]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut used = Vec::new();
    let mut check = |what: String, length: usize, limit: usize| {
        if length <= limit {
            return;
        }
        match exceptions.iter().find(|(name, _)| *name == what) {
            Some((name, most)) if length <= *most => used.push(*name),
            _ => complaints.push(format!("{what}: {length} lines, at most {limit}")),
        }
    };
    for file in rust(files) {
        if !all_tests(&file.path) {
            check(file.path.clone(), lines_without_tests(&file.text), FILE_LINES_MAX);
        }
        for (name, length) in functions(&file.text) {
            check(format!("{}#{name}", file.path), length, FUNCTION_LINES_MAX);
        }
    }
    complaints.extend(
        exceptions
            .iter()
            .filter(|(name, _)| !used.contains(name))
            .map(|(name, _)| format!("{name}: is no exception any more")),
    );
    complaints
}

/// Lines up to the tests module, which stands last.
fn lines_without_tests(text: &str) -> usize {
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let next_is_tests = lines.peek().is_some_and(|(_, next)| next.starts_with("mod tests {"));
        if line.starts_with("#[cfg(") && line.contains("test") && next_is_tests {
            return number;
        }
    }
    text.lines().count()
}

/// Names of functions and their lengths in lines, from `fn` to the closing brace.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let Some(name) = function_name(code) else { continue };
        let body = &lines[start..];
        let closes =
            |line: &&str| line.len() > indent && line[..indent].trim().is_empty() && line[indent..].starts_with('}');
        if code.ends_with('}') || code.ends_with(';') {
            continue;
        }
        // A declaration without a body ends with a semicolon before any line closes.
        if let Some(end) = body.iter().skip(1).position(closes) {
            let declaration =
                body[..=end].iter().take_while(|line| !line.ends_with('{')).any(|line| line.ends_with(';'));
            if !declaration {
                found.push((name.to_string(), end + 2));
            }
        }
    }
    found
}

fn function_name(code: &str) -> Option<&str> {
    let mut words = code.split(' ');
    loop {
        match words.next()? {
            "fn" => break,
            word if word.starts_with("pub")
                || ["const", "unsafe", "async", "extern", "\"C\"", "super)", "self)"].contains(&word) => {}
            _ => return None,
        }
    }
    words.next()?.split(['(', '<']).next()
}

fn unfinished(files: &[File]) -> Vec<String> {
    // Written in parts, so that this file passes.
    let marks = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["dbg", "!("], ["#[ign", "ore"]].map(|parts| parts.concat());
    let mut complaints = Vec::new();
    for file in rust(files) {
        for (number, line) in file.text.lines().enumerate() {
            complaints.extend(
                marks
                    .iter()
                    .filter(|mark| line.contains(mark.as_str()))
                    .map(|mark| format!("{}:{}: {mark}", file.path, number + 1)),
            );
        }
    }
    complaints
}

fn unsafe_places(files: &[File]) -> Vec<String> {
    let word = ["un", "safe"].concat();
    let mut complaints = Vec::new();
    for file in rust(files).filter(|file| !UNSAFE_PLACES.iter().any(|place| file.path.starts_with(place))) {
        for (number, line) in file.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let is_word = |(at, _): (usize, &str)| {
                let before = code[..at].chars().next_back();
                let after = code[at + word.len()..].chars().next();
                let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"' || c == '`');
                !part(before) && !part(after)
            };
            if code.match_indices(&word).any(is_word) {
                complaints.push(format!("{}:{}: {word} has no place here", file.path, number + 1));
            }
        }
        let root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
        let denied = ["#![for", "bid(", &word, "_code)]"].concat();
        let softer = ["#![de", "ny(", &word, "_code)]"].concat();
        if root && !file.text.contains(&denied) && !(file.path.starts_with("server/") && file.text.contains(&softer)) {
            complaints.push(format!("{}: {denied} is missing", file.path));
        }
    }
    complaints
}

fn edges(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with("/Cargo.toml") && !file.path.starts_with("fuzz/")) {
        let dir = file.path.trim_end_matches("/Cargo.toml");
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == dir) else {
            complaints.push(format!("{dir}: a crate that the table of edges does not know"));
            continue;
        };
        let mut section = "";
        for line in file.text.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let name = line.split([' ', '=', '.']).next().unwrap_or_default();
            let for_tests = section.contains("dev-dependencies") && name == "varve-testkit";
            if section.contains("dependencies") && name.starts_with("varve-") && !allowed.contains(&name) && !for_tests
            {
                complaints.push(format!("{dir} -> {name}: an edge that the table does not have"));
            }
        }
    }
    complaints
}

fn architecture(files: &[File], root: &Path) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == "ARCHITECTURE.md") else {
        return vec!["ARCHITECTURE.md is not there".into()];
    };
    let mut complaints: Vec<String> = named_paths(&page.text)
        .into_iter()
        .filter(|path| !root.join(path).exists())
        .map(|path| format!("ARCHITECTURE.md names {}, which is not there", path.display()))
        .collect();
    let unnamed = EDGES.iter().filter(|(dir, _)| !page.text.contains(dir));
    complaints.extend(unnamed.map(|(dir, _)| format!("ARCHITECTURE.md does not name {dir}")));
    complaints
}

/// What stands in back quotes and looks like a path of the workspace.
fn named_paths(text: &str) -> Vec<PathBuf> {
    let tops = ["engine/", "compat/", "server/", "tools/", "tests/", "fuzz/", "docs/", ".ci/", ".cargo/"];
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            tops.iter().any(|top| word.starts_with(top))
                && !word.contains(|c: char| c == '*' || c == '{' || c.is_whitespace())
        })
        .map(PathBuf::from)
        .collect()
}

fn machine_paths(files: &[File]) -> Vec<String> {
    let marks = [["/ro", "ot/"], ["/ho", "me/"], ["/wo", "rk/"]].map(|parts| parts.concat());
    let mut complaints = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark.as_str())) {
                complaints.push(format!("{}:{}: a path of somebody's machine", file.path, number + 1));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn lengths_of_functions_are_counted() {
        let long = format!(
            "//! a\nimpl X {{\n    pub(crate) fn long(\n        a: u8,\n    ) -> u8 {{\n{}    }}\n    fn short() {{}}\n}}\n",
            "        x;\n".repeat(80)
        );
        assert_eq!(functions(&long), [("long".to_string(), 84)]);
        let files = [file("engine/base/src/a.rs", &long)];
        assert_eq!(lengths(&files, &[]).len(), 1);
        assert!(lengths(&files, &[("engine/base/src/a.rs#long", 84)]).is_empty());
        assert_eq!(lengths(&files, &[("engine/base/src/a.rs#long", 83)]).len(), 2);
        assert_eq!(lengths(&[], &[("gone.rs", 900)]).len(), 1);
    }

    #[test]
    fn tests_do_not_count_in_a_file() {
        assert_eq!(lines_without_tests("//! a\nfn x() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 3);
    }

    #[test]
    fn an_edge_upward_is_found() {
        let files = [file(
            "engine/index/Cargo.toml",
            "[dependencies]\nvarve-base = { workspace = true }\nvarve-segment.workspace = true\n",
        )];
        assert_eq!(edges(&files), ["engine/index -> varve-segment: an edge that the table does not have"]);
        let tests = [file("engine/index/Cargo.toml", "[dev-dependencies]\nvarve-testkit = { workspace = true }\n")];
        assert!(edges(&tests).is_empty());
    }

    #[test]
    fn words_out_of_place_are_found() {
        let bad = format!("//! a\n{} {{ x }}\n// {} in a comment\n", ["un", "safe"].concat(), ["un", "safe"].concat());
        assert_eq!(unsafe_places(&[file("compat/protocol/src/a.rs", &bad)]).len(), 1);
        assert!(unsafe_places(&[file("engine/base/src/a.rs", &bad)]).is_empty());
        assert_eq!(unfinished(&[file("a.rs", &format!("// {}: later\n", ["TO", "DO"].concat()))]).len(), 1);
        assert_eq!(module_docs(&[file("a.rs", "use x;\n")]).len(), 1);
    }

    #[test]
    fn paths_of_the_architecture_page() {
        let text = "see `engine/base`, `engine/*/src` and `Tx::get`, but not engine/none";
        assert_eq!(named_paths(text), [PathBuf::from("engine/base")]);
    }
}
