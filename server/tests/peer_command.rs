//! COMMAND's replies beside those of the redis-server that is installed, in RESP2 and RESP3, field by field.
//!
//! Excused: texts in our own words (summary, complexity, changes in the history), the order of subcommands, commands
//! and subcommands that the peer has and we do not (yet), or that are newer than the peer, and HELP.

mod common;

use std::collections::BTreeMap;

use common::{elements, ours, with_peer};
use varve_exec::{Command, CommandTable};
use varve_server::commands;
use varve_testkit::RespValue;

/// The version beside which commands are compared.
const PEER: [u32; 3] = [7, 0, 15];
/// Commands that no other server has.
const OWN: [&str; 4] = ["segments", "memory|prefixes", "memory|largest", "memory|expiries"];
/// Fields of COMMAND DOCS whose text is our own.
const OWN_WORDS: [&str; 2] = ["summary", "complexity"];

/// True for a command that redis-server does not have, or not in this form.
fn is_newer(command: &Command) -> bool {
    let newer = |version: &str| version.split('.').map(|part| part.parse::<u32>().expect("a number")).gt(PEER);
    OWN.contains(&command.full_name)
        || newer(command.since)
        || command.history.iter().any(|(version, _)| newer(version))
}

/// Names of all commands and subcommands that both have.
fn shared_names() -> Vec<&'static str> {
    let table = CommandTable::new(commands());
    let all = table.iter().flat_map(|c| std::iter::once(c).chain(c.subcommands));
    let mut names: Vec<&str> = all.filter(|c| !is_newer(c)).map(|c| c.full_name).collect();
    names.sort_unstable();
    assert!(names.len() > 90);
    names
}

/// A reply with its maps sorted by name and what is excused taken out.
fn comparable(value: RespValue) -> RespValue {
    match value {
        RespValue::Map(pairs) => {
            let pairs: BTreeMap<String, RespValue> = pairs.into_iter().map(|(k, v)| (k.text(), v)).collect();
            RespValue::Array(pairs.into_iter().filter_map(|(name, value)| field(name, value)).collect())
        }
        RespValue::Array(elements) => RespValue::Array(elements.into_iter().map(comparable).collect()),
        RespValue::Set(elements) => RespValue::Set(elements.into_iter().map(comparable).collect()),
        other => other,
    }
}

/// A named field, if it is to be compared.
fn field(name: String, value: RespValue) -> Option<RespValue> {
    let value = match name.as_str() {
        "subcommands" => return None, // each is compared by itself
        name if OWN_WORDS.contains(&name) => return None,
        "history" => versions(value),
        _ => comparable(value),
    };
    Some(RespValue::Array(vec![RespValue::Bulk(name.into_bytes()), value]))
}

/// A history without its texts.
fn versions(history: RespValue) -> RespValue {
    let is_set = matches!(history, RespValue::Set(_));
    let versions = elements(history).into_iter().map(|change| elements(change).swap_remove(0)).collect();
    if is_set { RespValue::Set(versions) } else { RespValue::Array(versions) }
}

/// The reply of COMMAND DOCS in RESP2 as the map that it is in RESP3, all the way down.
fn as_map(value: RespValue, in_docs: bool) -> RespValue {
    let RespValue::Array(flat) = value else { return value };
    let is_map =
        in_docs && flat.len() % 2 == 0 && flat.first().is_some_and(|first| matches!(first, RespValue::Bulk(_)));
    if !is_map {
        return RespValue::Array(flat.into_iter().map(|value| as_map(value, in_docs)).collect());
    }
    let mut pairs = Vec::new();
    let mut flat = flat.into_iter();
    while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
        let value = if name.text() == "history" { value } else { as_map(value, true) };
        pairs.push((name, value));
    }
    RespValue::Map(pairs)
}

#[test]
fn the_names_that_the_readme_counts_from_are_the_peers() {
    with_peer(|both| {
        let [_, list] = both.ask(&["COMMAND", "LIST"]);
        let mut lines: Vec<String> = elements(list)
            .iter()
            .map(|name| {
                let [_, docs] = both.ask(&["COMMAND", "DOCS", &name.text()]);
                let RespValue::Map(docs) = as_map(docs, true) else { panic!("a map") };
                let RespValue::Map(fields) = docs.into_iter().next().expect("the command").1 else { panic!("a map") };
                let group = fields.iter().find(|(field, _)| field.text() == "group").expect("a group").1.text();
                format!("{group} {}\n", name.text())
            })
            .collect();
        lines.sort();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/peer_commands.txt");
        if std::env::var_os("VARVE_RECORD").is_some() {
            std::fs::write(path, lines.concat()).expect("the list is written");
        }
        assert_eq!(std::fs::read_to_string(path).expect("the list"), lines.concat());
    });
}

#[test]
fn info_is_the_same_field_by_field() {
    with_peer(|both| {
        for name in shared_names() {
            let [ours, peer] =
                both.ask(&["COMMAND", "INFO", name]).map(|reply| elements(elements(reply).swap_remove(0)));
            assert_eq!(ours[..9], peer[..9], "{name}");
            let listed = |reply: &[RespValue]| std::mem::discriminant(&reply[9]);
            assert_eq!(listed(&ours), listed(&peer), "{name}");
        }
    });
}

#[test]
fn docs_are_the_same_but_for_words() {
    with_peer(|both| {
        for name in shared_names() {
            let [ours, peer] = both.ask(&["COMMAND", "DOCS", name]).map(|reply| comparable(as_map(reply, true)));
            assert_eq!(ours, peer, "{name}");
        }
    });
}

#[test]
fn keys_are_found_as_the_peer_finds_them() {
    with_peer(|both| {
        for request in [
            "get a",
            "mget a b c",
            "mset a 1 b 2",
            "mset a 1 b",
            "set a 1",
            "set a 1 ex 10 GET",
            "set a 1 px 5",
            "copy a b",
            "rename a b",
            "del a b c",
            "object encoding a",
            "object help",
            "memory usage a samples 5",
            "lcs a b len",
            "getex a ex 10",
            "ping",
            "foo a",
            "get",
            "get a b",
            "config get a",
            "object foo",
            "object",
            "memory usage",
            "expire a 1 nx",
            "scan 0",
            "keys a",
            "append a b",
            "getdel a",
            "config",
            "info",
            "echo a",
            "zadd a 1 b",
            "zmpop 2 a b min",
            "zmpop 3 a b",
            "zunion 2 a b withscores",
            "zunion 0 a",
            "zunion x a",
            "zinterstore d 2 a b weights 1 2",
            "zinterstore d 5 a b",
            "zdiffstore d 0 a b",
            "zrangestore a b 0 1",
            "sort a by x_* store b",
            "sort a store b store c",
            "sort a by store c",
            "sort a limit store b store c",
            "sort a get store store d",
            "sort a store",
            "sort_ro a store b",
            "sort_ro a by x_*",
        ] {
            both.same(&format!("COMMAND GETKEYS {request}"));
            both.same(&format!("COMMAND GETKEYSANDFLAGS {request}"));
        }
    });
}

#[test]
fn errors_and_filters_are_the_same() {
    with_peer(|both| {
        for line in [
            "COMMAND FOO",
            "COMMAND GETKEYS",
            "COMMAND GETKEYSANDFLAGS get",
            "COMMAND COUNT a",
            "COMMAND INFO foo",
            "COMMAND INFO foo config|foo get|a",
            "COMMAND DOCS foo",
            "COMMAND LIST a",
            "COMMAND LIST FILTERBY foo bar",
            "COMMAND LIST FILTERBY module foo",
            "COMMAND LIST FILTERBY aclcat foo",
            "COMMAND LIST FILTERBY pattern",
            "COMMAND LIST filterby PATTERN rename",
            "COMMAND LIST filterby PATTERN CONFIG|RE[V-Z]*",
            "COMMAND LIST filterby PATTERN nothing*",
            "SELECT a",
            "SELECT 16",
            "SELECT -1",
            "SELECT 99999999999",
            "SELECT 15",
            "SELECT",
            "PING",
            "PING a",
            "PING a b",
            "ECHO a",
            "ECHO",
            "OBJECT",
            "OBJECT FOO",
            "CONFIG GET",
            "MEMORY FOO a",
            "GET",
            "GeT a b",
            "FOO",
            "FOO a b",
        ] {
            both.same(line);
        }
        for filter in [
            &["FILTERBY", "ACLCAT", "string"][..],
            &["FILTERBY", "ACLCAT", "CONNECTION"],
            &["FILTERBY", "PATTERN", "*E*"],
            &[],
        ] {
            let args = [&["COMMAND", "LIST"], filter].concat();
            let shared = shared_names();
            let [ours, peer] = both.ask(&args).map(|reply| {
                let mut names: Vec<String> = elements(reply).iter().map(RespValue::text).collect();
                names.retain(|name| shared.contains(&name.as_str()));
                names.sort();
                names
            });
            assert_eq!(ours, peer, "{filter:?}");
        }
    });
}

#[test]
fn the_whole_list_holds_what_the_count_says() {
    let server = ours();
    let mut client = server.client();
    let count = CommandTable::new(commands()).len();
    assert_eq!(client.cmd("COMMAND COUNT"), RespValue::Integer(count as i64));
    for (list, len) in [("COMMAND", count), ("COMMAND INFO", count), ("COMMAND LIST", commands().ids())] {
        assert_eq!(elements(client.cmd(list)).len(), len);
    }
}
