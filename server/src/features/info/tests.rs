//! Tests of INFO's sections and numbers.

use super::facts::{CommandFacts, DatabaseFacts, ErrorFacts, Facts};
use super::gather::Costly;
use super::{costly, human, render};

fn info(names: &[&str], facts: &Facts) -> String {
    render(names.iter().map(|name| name.as_bytes()), facts)
}

fn titles(names: &[&str]) -> Vec<String> {
    let text = info(names, &Facts::default());
    text.lines().filter_map(|line| line.strip_prefix("# ")).map(str::to_owned).collect()
}

/// The titles that redis-server 7.0.15 shows.
#[test]
fn sections_as_they_are_asked_for() {
    let default = [
        "Server",
        "Clients",
        "Memory",
        "Persistence",
        "Stats",
        "Replication",
        "CPU",
        "Modules",
        "Errorstats",
        "Cluster",
        "Keyspace",
    ];
    assert_eq!(titles(&[]), default);
    assert_eq!(titles(&["default"]), default);
    assert_eq!(titles(&["all"]).len(), 14);
    assert_eq!(titles(&["everything"]), titles(&["ALL"]));
    assert_eq!(titles(&["CPU", "server", "cpu"]), ["Server", "CPU"]);
    assert_eq!(titles(&["commandstats", "default"]).len(), 12);
    assert_eq!(info(&["nothing"], &Facts::default()), "");
    assert_eq!(info(&["cluster", "modules"], &Facts::default()), "# Modules\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n");
}

/// Facts that look at all segments, or at the histograms of all commands, are gathered where they are shown alone.
#[test]
fn issue_11_costly_facts_are_gathered_where_they_are_shown() {
    let of = |names: &[&str]| {
        let Costly { background, commands } = costly(names.iter().map(|name| name.as_bytes()));
        (background, commands)
    };
    assert_eq!(of(&[]), (false, false));
    assert_eq!(of(&["default", "memory", "replication"]), (false, false));
    assert_eq!(of(&["Background"]), (true, false));
    assert_eq!(of(&["latencystats"]), (false, true));
    assert_eq!(of(&["server", "commandstats"]), (false, true));
    assert_eq!(of(&["all"]), (true, true));
    assert_eq!(of(&["everything"]), (true, true));
}

#[test]
fn bytes_for_humans() {
    let cases = [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.00K"),
        (965_664, "943.03K"),
        (25_276_502_016, "23.54G"),
        (1 << 20, "1.00M"),
    ];
    for (bytes, text) in cases {
        assert_eq!(human(bytes), text);
    }
}

#[test]
fn lists_of_commands_errors_and_databases() {
    let mut facts = Facts::default();
    let percentiles_ns = vec![(50.0, 5023), (99.9, 237_567)];
    let name = "config|get".to_owned();
    facts.commands.push(CommandFacts { name, calls: 2, total_us: 243, rejected: 1, failed: 0, percentiles_ns });
    facts.commands.push(CommandFacts { name: "set".to_owned(), ..CommandFacts::default() });
    facts.errors.push(ErrorFacts { word: "WRONGTYPE".to_owned(), count: 3 });
    facts.errors.push(ErrorFacts { word: "user#script:1:\r\n".to_owned(), count: 1 });
    facts.databases.push(DatabaseFacts { number: 4, keys: 10, volatile_keys: 2, ttl_ms_mean: 7 });
    assert_eq!(
        info(&["commandstats", "errorstats", "latencystats", "keyspace"], &facts),
        "# Commandstats\r\n\
         cmdstat_config|get:calls=2,usec=243,usec_per_call=121.50,rejected_calls=1,failed_calls=0\r\n\r\n\
         # Errorstats\r\nerrorstat_WRONGTYPE:count=3\r\nerrorstat_user_script_1___:count=1\r\n\r\n\
         # Latencystats\r\nlatency_percentiles_usec_config|get:p50=5.023,p99.9=237.567\r\n\r\n\
         # Keyspace\r\ndb4:keys=10,expires=2,avg_ttl=7\r\n"
    );
}

/// Every field name of redis-server 7.0.15, but the three that speak of its compiler and libraries.
#[test]
fn all_field_names_are_there() {
    let text = info(&["all"], &Facts::default());
    for name in include_str!("fields.txt").split_whitespace() {
        assert!(text.contains(&format!("\n{name}:")), "{name} is missing");
    }
}
