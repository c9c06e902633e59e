//! `docs/commands.md`: every command with its syntax, of its row.

use std::collections::BTreeMap;
use std::fmt::Write;

use varve_catalog::{ArgFlags, ArgKind, Argument, Row};
use varve_server::commands;

const HEAD: &str = "\
# Commands

<!-- Made by `cargo xtask docs` of the commands' rows. -->

The commands that Varve has, as `COMMAND DOCS` answers them too. What clients see is decided by Redis 7.0.15; a version
beyond that is the one of Redis or Valkey that brought the command. A name with a blank is a subcommand. In the syntax,
square brackets are around what may be left out, and a bar stands between words of which one is given.
Commands of a cluster are known, and answer that cluster support is disabled.
";

/// The page.
pub(crate) fn page() -> String {
    let mut groups: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    let rows: Vec<&Row> = commands().rows().collect();
    let is_container = |row: &Row| rows.iter().any(|other| other.is_subcommand() && container(other) == row.full_name);
    for row in rows.iter().filter(|row| !is_container(row) && !row.system) {
        groups.entry(row.group.name()).or_default().push(row);
    }
    let count: usize = groups.values().map(Vec::len).sum();
    let mut page = format!("{HEAD}\n{count} commands, in {} groups.\n", groups.len());
    for (group, mut rows) in groups {
        rows.sort_by_key(|row| row.full_name);
        let _ = write!(page, "\n## {}\n\n| command | since | | cost |\n|---|---|---|---|\n", title(group));
        for row in rows {
            let _ = writeln!(page, "| `{}` | {} | {} | {} |", syntax(row), row.since, about(row), cost(row));
        }
    }
    page
}

fn container(row: &Row) -> &str {
    row.full_name.split('|').next().unwrap_or_default()
}

fn title(group: &str) -> String {
    let mut letters = group.replace('-', " ").chars().collect::<Vec<_>>();
    letters[0] = letters[0].to_ascii_uppercase();
    letters.into_iter().collect()
}

fn about(row: &Row) -> String {
    let old = |old: varve_catalog::Deprecated| format!(" Deprecated since {}: use {}.", old.since, old.replaced_by);
    cell(&format!("{}{}", row.summary, row.deprecated.map(old).unwrap_or_default()))
}

fn cost(row: &Row) -> String {
    cell(row.complexity)
}

/// A text within a table: a bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A command with its arguments.
fn syntax(row: &Row) -> String {
    let name = row.full_name.replace('|', " ").to_uppercase();
    let arguments: String = row.arguments.iter().map(|argument| format!(" {}", shown(argument))).collect();
    cell(&format!("{name}{arguments}"))
}

fn shown(argument: &Argument) -> String {
    let joined = |by: &str| argument.arguments.iter().map(shown).collect::<Vec<_>>().join(by);
    let has = |flag| argument.flags.has(flag);
    let alone = match argument.kind {
        ArgKind::PureToken => String::new(),
        ArgKind::OneOf if argument.arguments.len() > 1 && !has(ArgFlags::OPTIONAL) => format!("<{}>", joined(" | ")),
        ArgKind::OneOf => joined(" | "),
        ArgKind::Block => joined(" "),
        _ => argument.name.to_owned(),
    };
    let with = |text: &str| match (argument.token, text) {
        ("", text) => text.to_owned(),
        (token, "") => token.to_owned(),
        (token, text) => format!("{token} {text}"),
    };
    let once = with(&alone);
    let again = if has(ArgFlags::MULTIPLE_TOKEN) { &once } else { &alone };
    let all = if has(ArgFlags::MULTIPLE) { format!("{once} [{again} ...]") } else { once.clone() };
    if has(ArgFlags::OPTIONAL) { format!("[{all}]") } else { all }
}

#[cfg(test)]
mod tests {
    use super::{commands, page, syntax};

    #[test]
    fn syntax_is_that_of_the_row() {
        let of = |name: &str| syntax(commands().rows().find(|row| row.full_name == name).expect("a command"));
        assert_eq!(of("get"), "GET key");
        assert_eq!(of("mset"), "MSET key value [key value ...]");
        assert!(of("set").starts_with("SET key value [NX \\| XX] [GET]"), "{}", of("set"));
        assert_eq!(of("config|get"), "CONFIG GET parameter [parameter ...]");
    }

    #[test]
    fn containers_have_no_line_of_their_own() {
        let page = page();
        assert!(page.contains("| `CONFIG GET ") && !page.contains("| `CONFIG`"), "a container is not a command");
        assert!(page.contains("| `PING [message]` |"));
    }
}
