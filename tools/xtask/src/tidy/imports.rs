//! Which modules a file imports, read from its text.
//!
//! ```text
//!   use crate::{shard::Shard, state::wheel};     crate::shard::Shard   crate::state::wheel
//!   use super::table;                            in src/a/b.rs: crate::a::table
//!   crate::key::hash(x)                          in a line of code: crate::key::hash
//! ```
//! Tests are not read: they may look at anything. Modules that are written inside a file are not told apart from it.

use super::files::File;

/// A path from the crate's root, in parts, and the line on which it begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) line: usize,
    pub(super) path: Vec<String>,
}

/// A file's module path from the crate's root: empty for lib.rs and main.rs.
pub(super) fn module_of(path: &str) -> Vec<String> {
    let inside = path.split_once("src/").map_or(path, |(_, inside)| inside).trim_end_matches(".rs");
    let mut parts: Vec<String> = inside.split('/').map(str::to_string).collect();
    if parts.last().is_some_and(|last| last == "mod" || (parts.len() == 1 && (last == "lib" || last == "main"))) {
        parts.pop();
    }
    parts
}

/// A file's imports from its own crate.
pub(super) fn imports(file: &File) -> Vec<Import> {
    let module = module_of(&file.path);
    let mut found = Vec::new();
    let mut lines = file.code();
    while let Some((line, code)) = lines.next() {
        let mut statement = code.split(" //").next().unwrap_or_default().trim().to_string();
        let Some(at) = use_at(&statement) else {
            found
                .extend(paths_in(&statement).filter_map(|path| Some(Import { line, path: absolute(&path, &module)? })));
            continue;
        };
        while !statement.ends_with(';') {
            let Some((_, more)) = lines.next() else { break };
            statement.push_str(more.split(" //").next().unwrap_or_default().trim());
        }
        let mut paths = Vec::new();
        expand("", &compact(&statement[at..]), &mut paths);
        found.extend(paths.iter().filter_map(|path| Some(Import { line, path: absolute(path, &module)? })));
    }
    found
}

/// Where the tree of a `use` statement begins in a line.
pub(super) fn use_at(statement: &str) -> Option<usize> {
    ["use ", "pub use ", "pub(crate) use ", "pub(super) use "]
        .iter()
        .find(|start| statement.starts_with(*start))
        .map(|start| start.len())
}

/// The tree of a `use` statement without blanks; a new name stands behind an `@`.
pub(super) fn compact(tree: &str) -> String {
    tree.trim_end_matches(';').replace(" as ", "@").replace(' ', "")
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`.
pub(super) fn expand(before: &str, tree: &str, paths: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        paths.push(format!("{before}{tree}"));
        return;
    };
    let before = format!("{before}{}", &tree[..open]);
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&before, &inside[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < inside.len() {
        expand(&before, &inside[start..], paths);
    }
}

/// The paths from `crate` or `super` in a line of code.
fn paths_in(code: &str) -> impl Iterator<Item = String> + '_ {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    ["crate::", "super::"].into_iter().flat_map(move |start| {
        code.match_indices(start)
            .filter(move |(at, _)| !code[..*at].ends_with(is_part))
            .map(move |(at, _)| code[at..].split(|letter| !is_part(letter)).next().unwrap_or_default().to_string())
    })
}

/// A path from the crate's root; None if it leads out of the crate.
fn absolute(path: &str, module: &[String]) -> Option<Vec<String>> {
    let path = path.split('@').next().unwrap_or_default();
    let mut parts = path.trim_end_matches(':').split("::").peekable();
    let mut found: Vec<String> = Vec::new();
    match parts.peek() {
        Some(&"crate") => _ = parts.next(),
        Some(&"self") => {
            parts.next();
            found = module.to_vec();
        }
        Some(&"super") => {
            found = module.to_vec();
            while parts.next_if_eq(&"super").is_some() {
                found.pop();
            }
        }
        _ => return None,
    }
    found.extend(parts.filter(|part| *part != "self" && *part != "*").map(str::to_string));
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::files::Tree;
    use super::*;

    fn paths(path: &str, text: &str) -> Vec<String> {
        imports(&Tree::of(&[(path, text)]).files[0]).iter().map(|import| import.path.join("::")).collect()
    }

    #[test]
    fn imports_are_found_in_all_forms() {
        let text = "//! a\nuse crate::{a::B, c::{self, d::*}};\npub(crate) use super::table::{\n    X, // x\n    Y as Z,\n};\n\
                    use std::fmt;\nfn f() { crate::key::hash(super::super::up::x()); other_crate::no(); }\n\
                    #[cfg(test)]\nmod tests {\n    use crate::only::in_tests;\n}\n";
        let found = paths("engine/a/src/m/n.rs", text);
        assert_eq!(found, ["a::B", "c", "c::d", "m::table::X", "m::table::Y", "key::hash", "up::x"]);
    }

    #[test]
    fn modules_of_files() {
        assert_eq!(module_of("engine/a/src/lib.rs"), Vec::<String>::new());
        assert_eq!(module_of("engine/a/src/b/mod.rs"), ["b"]);
        assert_eq!(module_of("engine/a/src/b/c.rs"), ["b", "c"]);
    }
}
