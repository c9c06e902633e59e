//! Texts that stand in one place: names of commands in their rows, error texts in `errors.rs`.

use super::files::{File, Tree};

/// Looks at a command's name or at another text of its row, to find out what it does.
const BY_NAME: &[&str] = &[
    "full_name ==",
    "full_name !=",
    "full_name.starts_with",
    "match d.full_name",
    "matches!(d.full_name",
    "matches!(self.full_name",
    "d.name ==",
    "d.name !=",
    "match d.name",
    "matches!(d.name",
    "matches!(self.name",
    "command.name ==",
    "descriptor.name ==",
    "\"O(1)\"",
];
/// Crates that run commands: rows are not read there.
const RUNNERS: &[&str] = &["compat/exec/", "compat/commands/", "server/"];
/// Where error texts may stand.
const ERROR_FILE: &str = "errors.rs";

fn in_code<'t>(tree: &'t Tree, places: &'t [&str]) -> impl Iterator<Item = &'t File> {
    tree.rust().filter(|file| !file.is_tests() && places.iter().any(|place| file.path.starts_with(place)))
}

/// Nobody but a command's row says what it does.
pub(super) fn commands_by_name(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in in_code(tree, RUNNERS) {
        for (number, line) in file.code() {
            // A row says how its command scales.
            let in_row = |mark: &str| {
                mark.starts_with('"') && line.trim_start().starts_with(['"', '.', 'c']) && !line.contains("==")
            };
            let found = BY_NAME.iter().filter(|mark| line.contains(**mark) && !in_row(mark));
            complaints.extend(found.map(|mark| format!("{}:{number}: {mark}: make it a bit of the row", file.path)));
        }
    }
    complaints
}

/// The text of an error is written once, beside the other errors.
pub(super) fn error_texts(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in in_code(tree, &["compat/", "server/"]).filter(|file| !file.path.ends_with(ERROR_FILE)) {
        for (number, line) in file.code() {
            let begins = ["\"ERR ", "\"-ERR ", "b\"ERR ", "b\"-ERR "].iter().any(|start| line.contains(start));
            if begins {
                complaints.push(format!("{}:{number}: the text of an error outside {ERROR_FILE}", file.path));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_known_by_its_name_is_found() {
        let find = |path, line: &str| commands_by_name(&Tree::of(&[(path, line)])).len();
        assert_eq!(find("compat/exec/src/a.rs", "if d.name == \"select\" {\n"), 1);
        assert_eq!(find("compat/exec/src/a.rs", "d.timed = self.complexity != \"O(1)\";\n"), 1);
        assert_eq!(find("compat/commands/src/a.rs", "row(\"get\", 2)\n    .complexity(\"O(1)\")\n"), 0);
        assert_eq!(find("compat/catalog/src/lookup.rs", "if d.name == name {\n"), 0);
    }

    #[test]
    fn error_texts_stand_in_their_file() {
        let text = "//! a\nconst E: &str = \"ERR no\";\n// \"ERR in a comment\n";
        assert_eq!(error_texts(&Tree::of(&[("compat/exec/src/a.rs", text)])).len(), 1);
        assert!(
            error_texts(&Tree::of(&[("compat/exec/src/errors.rs", text), ("compat/exec/src/tests.rs", text)]))
                .is_empty()
        );
    }
}
