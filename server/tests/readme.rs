//! README's table of supported commands is what the rows say.
//!
//! ```text
//!   rows --by group, by name--> | group | `GET` `SET` `CONFIG` (`GET` `SET`) ... | --equal--> README.md
//! ```
//! With `VARVE_RECORD` set, the test writes the table anew; else it compares.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use varve_exec::Command;
use varve_server::commands;

const BEGIN: &str =
    "<!-- commands: written from the rows by VARVE_RECORD=1 cargo test -p varve-server --test readme -->\n";
const END: &str = "<!-- end of commands -->\n";

fn readme() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root of the workspace").join("README.md")
}

/// The names of commands in back quotes, in order; behind a container those of its subcommands.
fn names(rows: &[Command]) -> String {
    let mut rows: Vec<&Command> = rows.iter().collect();
    rows.sort_unstable_by_key(|row| row.name);
    let name = |row: &&Command| match row.subcommands {
        [] => format!("`{}`", row.name.to_uppercase()),
        subcommands => format!("`{}` ({})", row.name.to_uppercase(), names(subcommands)),
    };
    rows.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn supported() -> String {
    let mut groups: BTreeMap<&str, Vec<Command>> = BTreeMap::new();
    for row in commands().commands() {
        groups.entry(row.group.name()).or_default().push(*row);
    }
    let lines = groups.iter().map(|(group, rows)| format!("| {group} | {} | {} |\n", rows.len(), names(rows)));
    format!("| group | commands | names |\n|---|---|---|\n{}", lines.collect::<String>())
}

#[test]
fn the_readme_lists_the_supported_commands() {
    let text = fs::read_to_string(readme()).expect("README.md");
    let (before, rest) = text.split_once(BEGIN).expect("where the table begins");
    let (listed, after) = rest.split_once(END).expect("where it ends");
    let table = supported();
    if std::env::var_os("VARVE_RECORD").is_some() {
        fs::write(readme(), format!("{before}{BEGIN}{table}{END}{after}")).expect("README.md is written");
        return;
    }
    assert!(listed == table, "README.md lists other commands than the rows; VARVE_RECORD=1 writes it anew:\n{table}");
}
