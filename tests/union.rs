//! The commands that other servers have and Varve has not: a list that only gets shorter.
//!
//! ```text
//!   the table of all servers' commands, beside the workspace --without Sentinel's and the cluster's--> names
//!   names that have no row here  ==>  must be in MISSING
//! ```
//! Without the table there is nothing to compare, and the test says so.

use std::collections::BTreeSet;
use std::fs;

use varve_server::commands;
use varve_testkit::server::workspace;
use varve_testkit::skip::skipped;

/// The table: a line a command, its name first.
const TABLE: &str = "../shared/commands.csv";
/// Commands of a cluster's nodes and of Sentinel begin so.
const EXCEPTED: [&str; 2] = ["cluster", "sentinel"];
/// Commands that are not there yet. A name is taken off when its command comes, and none is added.
const MISSING: &[&str] = &["module|loadex", "script|show", "sflush"];

#[test]
fn no_command_of_other_servers_is_missed_that_was_there() {
    let path = workspace().join(TABLE);
    let Ok(table) = fs::read_to_string(&path) else {
        skipped("there is no table of the commands of other servers");
        return;
    };
    let known: BTreeSet<&str> = commands().rows().map(|row| row.full_name).collect();
    let names = table.lines().skip(1).filter_map(|line| line.split(',').next()).map(str::to_ascii_lowercase);
    let wanted: BTreeSet<String> =
        names.filter(|name| !EXCEPTED.iter().any(|excepted| name.starts_with(excepted))).collect();
    assert!(wanted.len() > 300, "{} commands in the table", wanted.len());
    let listed: BTreeSet<&str> = MISSING.iter().copied().collect();
    let new: Vec<&String> =
        wanted.iter().filter(|name| !known.contains(name.as_str()) && !listed.contains(name.as_str())).collect();
    assert!(new.is_empty(), "missing, and not on the list: {new:?}");
    let done: Vec<&&str> = listed.iter().filter(|name| known.contains(*name)).collect();
    assert!(done.is_empty(), "they are there, and to be taken off the list: {done:?}");
}
