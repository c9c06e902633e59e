//! README's tables are what the rows say: the commands that there are, and those of redis-server that there are not.
//!
//! ```text
//!   rows --by group, by name--> | group | `GET` `SET` `CONFIG` (`GET` `SET`) ... |             --equal--> README.md
//!   data/peer_commands.txt, the names of redis-server's, without those of the rows: the same   --equal--> README.md
//! ```
//! With `VARVE_RECORD` set, the test writes the tables anew; else it compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use varve_catalog::Group;
use varve_server::commands;

const BEGIN: &str =
    "<!-- commands: written from the rows by VARVE_RECORD=1 cargo test -p varve-server --test readme -->\n";
const MIDDLE: &str = "<!-- end of commands -->\n";
const MISSING: &str = "<!-- missing: written by the same test -->\n";
const END: &str = "<!-- end of missing -->\n";
/// `group name` of every command and subcommand of redis-server 7.0.15; `peer_command.rs` compares and records it.
const PEER: &str = include_str!("data/peer_commands.txt");

fn readme() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root of the workspace").join("README.md")
}

/// A command's name, in capital letters, and those of its subcommands.
type Names = BTreeMap<String, BTreeSet<String>>;

/// A line a group.
fn table(groups: &BTreeMap<&str, Names>) -> String {
    let quoted = |name: &String| format!("`{name}`");
    let command = |(name, subcommands): (&String, &BTreeSet<String>)| match subcommands.len() {
        0 => quoted(name),
        _ => format!("`{name}` ({})", subcommands.iter().map(quoted).collect::<Vec<_>>().join(" ")),
    };
    let line = |(group, names): (&&str, &Names)| {
        format!("| {group} | {} | {} |\n", names.len(), names.iter().map(command).collect::<Vec<_>>().join(" "))
    };
    format!("| group | commands | names |\n|---|---|---|\n{}", groups.iter().map(line).collect::<String>())
}

/// The rows by group. Those of a cluster only say that there is none: they are no support.
fn supported() -> BTreeMap<&'static str, Names> {
    let mut groups: BTreeMap<&str, Names> = BTreeMap::new();
    for row in commands().commands().iter().filter(|row| row.group != Group::Cluster) {
        let subcommands = row.subcommands.iter().map(|sub| sub.name.to_uppercase()).collect();
        groups.entry(row.group.name()).or_default().insert(row.name.to_uppercase(), subcommands);
    }
    groups
}

/// redis-server's commands by group, without ours; of a container that there is, the subcommands that it lacks. HELP
/// is not counted.
fn missing() -> BTreeMap<&'static str, Names> {
    let supported = supported();
    let ours = |group: &str, name: &str| supported.get(group).and_then(|names| names.get(name));
    let mut groups: BTreeMap<&str, Names> = BTreeMap::new();
    for (group, full_name) in PEER.lines().filter_map(|line| line.split_once(' ')) {
        let (name, sub) = full_name.split_once('|').map_or((full_name, None), |(name, sub)| (name, Some(sub)));
        let (name, sub) = (name.to_uppercase(), sub.map(str::to_uppercase));
        let lacks = match (ours(group, &name), &sub) {
            (None, None) => true,
            (Some(subcommands), Some(sub)) => sub != "HELP" && !subcommands.contains(sub),
            _ => false,
        };
        if lacks {
            groups.entry(group).or_default().entry(name).or_default().extend(sub);
        }
    }
    groups
}

#[test]
fn the_readme_lists_the_commands_that_there_are_and_those_that_are_missing() {
    let text = fs::read_to_string(readme()).expect("README.md");
    let (before, rest) = text.split_once(BEGIN).expect("where the table begins");
    let (listed, rest) = rest.split_once(MIDDLE).expect("where it ends");
    let (between, rest) = rest.split_once(MISSING).expect("where the second table begins");
    let (lacked, after) = rest.split_once(END).expect("where it ends");
    let (supported, missing) = (table(&supported()), table(&missing()));
    if std::env::var_os("VARVE_RECORD").is_some() {
        let text = format!("{before}{BEGIN}{supported}{MIDDLE}{between}{MISSING}{missing}{END}{after}");
        fs::write(readme(), text).expect("README.md is written");
        return;
    }
    assert!(listed == supported, "README.md lists other commands than the rows; VARVE_RECORD=1 writes:\n{supported}");
    assert!(lacked == missing, "README.md says that others are missing; VARVE_RECORD=1 writes:\n{missing}");
}
