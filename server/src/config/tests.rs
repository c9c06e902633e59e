//! Tests of lines, kinds, CONFIG GET and SET, and golden files of CONFIG REWRITE. Expected texts were read off
//! redis-server 7.0.15.

use std::path::Path;

use super::live::{Effects, Ineffective, Live};
use super::rewrite::{UserLines, rewritten};
use super::table::{DIRECTIVES, find};
use super::{Config, LoadError, Loader};
use varve_acl::UserLine;
use varve_exec::CommandError;
use varve_protocol::words::{quote, words};
use varve_store::Policy;

fn load(text: &str) -> Result<super::Loaded, LoadError> {
    let mut loader = Loader::new(varve_commands::commands());
    loader.text("test.conf", text.as_bytes())?;
    Ok(loader.finish())
}

fn value(text: &str, name: &str) -> String {
    load(text).map(|loaded| loaded.values.text(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    match load(text) {
        Err(LoadError::Line { reason, .. }) => reason,
        Err(LoadError::File { reason, .. }) => reason,
        Ok(_) => panic!("{text:?} was taken"),
    }
}

fn live(text: &str) -> Live {
    Live::new(load(text).expect("a good configuration").values, None)
}

/// Takes every change.
struct NoEffects;
impl Effects for NoEffects {
    fn apply(&self, _: &Config, _: &Config) -> Result<(), Ineffective> {
        Ok(())
    }
    fn publish(&self) {}
}

fn set(live: &Live, pairs: &[(&str, &str)]) -> Result<(), String> {
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    live.set(&pairs, true, &NoEffects).map_err(|error| String::from_utf8_lossy(error.text()).into_owned())
}

fn get(live: &Live, patterns: &[&str]) -> Vec<String> {
    let found = live.get(patterns.iter().map(|pattern| pattern.as_bytes()));
    found.into_iter().flat_map(|(name, value)| [name, value]).map(|text| String::from_utf8(text).unwrap()).collect()
}

#[test]
fn the_table_is_sorted_and_its_defaults_are_canonical() {
    let own = DIRECTIVES.iter().position(|row| row.name == "shards").expect("the first of Varve's own");
    let sorted = |row: &[&str]| row[0].replace('_', "-") < row[1].replace('_', "-");
    let names: Vec<&str> = DIRECTIVES[..own].iter().map(|row| row.name).collect();
    assert!(names.windows(2).all(|pair| sorted(pair) || pair[0].contains('_') || pair[1].contains('_')));
    for (at, row) in DIRECTIVES.iter().enumerate() {
        assert_eq!(find(row.name.as_bytes()), Some(at), "{} appears twice", row.name);
        let default = match row.name {
            "io-threads" | "dir" => continue,
            _ => row.default.as_bytes().to_vec(),
        };
        let arguments = if row.kind.takes_many() { super::file::list(&default) } else { vec![default.clone()] };
        let nothing: &[u8] = if row.name == "client-output-buffer-limit" { &default } else { b"" };
        if row.name != "replicaof" {
            assert_eq!(row.kind.parse(&arguments, nothing).as_deref(), Ok(default.as_slice()), "{}", row.name);
        }
    }
}

#[test]
fn words_and_quotes() {
    let cases: [(&str, Option<&[&str]>); 12] = [
        ("a  b\tc", Some(&["a", "b", "c"])),
        ("", Some(&[])),
        ("  ", Some(&[])),
        (r#"save """#, Some(&["save", ""])),
        (r#""a b" c"#, Some(&["a b", "c"])),
        (r#""\x41\n\"\q""#, Some(&["A\n\"q"])),
        (r#""\xzz""#, Some(&["xzz"])),
        (r"'it\'s \n' x", Some(&["it's \\n", "x"])),
        (r#""a"b"#, None),
        (r#""a"#, None),
        ("'a", None),
        (r#""a\"#, None),
    ];
    for (line, expected) in cases {
        let expected = expected.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        assert_eq!(words(line.as_bytes()), expected, "{line:?}");
    }
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(words(&quote(&all)), Some(vec![all]));
}

#[test]
fn values_in_their_canonical_form() {
    let cases = [
        ("APPENDONLY YES", "appendonly", "yes"),
        ("port 0", "port", "0"),
        ("maxmemory 1GB", "maxmemory", "1073741824"),
        ("maxmemory 1g", "maxmemory", "1000000000"),
        ("maxmemory 100mb\nmaxmemory 2kb", "maxmemory", "2048"),
        ("maxmemory mb", "maxmemory", "0"),
        ("maxmemory 99999999999999999999999", "maxmemory", "18446744073709551615"),
        ("maxmemory-clients 5%", "maxmemory-clients", "5%"),
        ("maxmemory-clients 0%", "maxmemory-clients", "0"),
        ("loglevel Debug", "loglevel", "debug"),
        ("slave-priority 7", "replica-priority", "7"),
        ("lua-time-limit 3", "busy-reply-threshold", "3"),
        ("unixsocketperm 0700", "unixsocketperm", "700"),
        ("save 1 2", "save", "1 2"),
        ("save 1 2\nsave 3 4", "save", "1 2 3 4"),
        ("save 1 2\nsave \"\"", "save", ""),
        ("save \"\"\nsave 3 4", "save", "3 4"),
        ("save \"1 2 3 4\"", "save", "1 2 3 4"),
        ("bind 127.0.0.1 -::1", "bind", "127.0.0.1 -::1"),
        ("bind \"\"", "bind", ""),
        ("notify-keyspace-events KEA", "notify-keyspace-events", "AKE"),
        ("notify-keyspace-events Kmn", "notify-keyspace-events", "nKm"),
        ("notify-keyspace-events g$lshzxetdn", "notify-keyspace-events", "An"),
        ("notify-keyspace-events nKmA", "notify-keyspace-events", "AKmn"),
        ("shutdown-on-sigint force nosave now", "shutdown-on-sigint", "nosave now force"),
        ("shutdown-on-sigint \"default force\"", "shutdown-on-sigint", "force"),
        ("latency-tracking-info-percentiles 50 100 0.5 99.99", "latency-tracking-info-percentiles", "50 100 0.5 99.99"),
        ("list-max-ziplist-entries 3", "list-max-listpack-size", "-2"),
        (
            "client-output-buffer-limit replica 1mb 2kb 3",
            "client-output-buffer-limit",
            "normal 0 0 0 slave 1048576 2048 3 pubsub 33554432 8388608 60",
        ),
    ];
    for (text, name, expected) in cases {
        assert_eq!(value(text, name), expected, "{text:?}");
    }
}

#[test]
fn what_is_wrong_with_a_line() {
    let cases = [
        ("nosuch 1", "Bad directive or wrong number of arguments"),
        ("port=7000", "Bad directive or wrong number of arguments"),
        ("rename-command get", "Bad directive or wrong number of arguments"),
        ("port", "wrong number of arguments"),
        ("port 1 2", "wrong number of arguments"),
        ("port \"1", "Unbalanced quotes in configuration line"),
        ("port abc", "argument couldn't be parsed into an integer"),
        ("port 01", "argument couldn't be parsed into an integer"),
        ("port 65536", "argument must be between 0 and 65535 inclusive"),
        ("slowlog-max-len -1", "argument must be between 0 and 9223372036854775807 inclusive"),
        ("appendonly maybe", "argument must be 'yes' or 'no'"),
        ("maxmemory 1.5gb", "argument must be a memory value"),
        ("maxmemory -1", "argument must be a memory value"),
        ("proto-max-bulk-len 1000", "argument must be between 1048576 and 9223372036854775807 inclusive"),
        ("maxmemory-clients 101%", "percentage argument must be less or equal to 100"),
        ("maxmemory-clients -1%", "argument must be a memory or percent value"),
        ("unixsocketperm 999", "argument couldn't be parsed as an octal number"),
        ("unixsocketperm 1777", "argument must be between 0 and 777 inclusive"),
        ("loglevel loud", "argument(s) must be one of the following: debug, verbose, notice, warning"),
        ("save 900", "Invalid save parameters"),
        ("save 0 1", "Invalid save parameters"),
        ("bind 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "Too many bind addresses specified."),
        ("notify-keyspace-events q", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
        ("shutdown-on-sigterm", "argument(s) must be one of the following: default, save, nosave, now, force"),
        ("shutdown-on-sigterm save nosave", "shutdown options SAVE and NOSAVE can't be used simultaneously"),
        ("client-output-buffer-limit normal 1", "Wrong number of arguments in buffer limit configuration."),
        ("client-output-buffer-limit master 1 2 3", "Invalid client class specified in buffer limit configuration."),
        (
            "client-output-buffer-limit normal 1 2 zz",
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
        ),
        ("oom-score-adj-values 1 2", "wrong number of arguments"),
        ("latency-tracking-info-percentiles abc", "Invalid latency-tracking-info-percentiles parameters"),
        ("dir /nonexistent/place", "No such file or directory"),
        ("dbfilename a/b", "dbfilename can't be a path, just a filename"),
        ("appendfilename \"\"", "appendfilename can't be empty"),
        ("proc-title-template {foo}", "template format is invalid or contains unknown variables"),
        ("replicaof --127.0.0.1 abc", "Invalid master port"),
        // Varve's own refusals.
        ("cluster-enabled yes", "cluster mode is not available yet"),
        ("loadmodule /x.so", "modules are not available"),
        (
            "user default on nopass ~* &* +@all\nuser default on nopass ~* &* +@all",
            "Error in user declaration 'default': Duplicate user found. A user can only be defined once in config files",
        ),
        ("bind \"127.0.0.1\\nenable-debug-command yes\"", "the words of a list have no control characters"),
        ("bind 127.0.0.1 \"::1\\r\"", "the words of a list have no control characters"),
        ("hz -1", "argument must be between 0 and 2147483647 inclusive"),
        ("shards 3", "argument must be 0 or a power of two up to 4096"),
    ];
    for (text, expected) in cases {
        assert_eq!(refusal(text), expected, "{text:?}");
    }
}

#[test]
fn an_error_names_the_place_and_quotes_the_line() {
    let error = load("port 1\n\n  foo \"a\nbar").err().expect("quotes that do not close").to_string();
    assert!(error.contains("In test.conf, line 3:\n>>> 'foo \"a'\nUnbalanced quotes"), "{error}");
    assert!(error.contains("*** FATAL CONFIG FILE ERROR (Varve "), "{error}");
}

#[test]
fn includes_bring_the_lines_of_other_files() {
    let directory = std::env::temp_dir().join(format!("varve-config-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("d")).expect("a directory for the test");
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("a file of the test");
    let at = directory.display();
    write("d/1.conf", "hz 20\nport 1");
    write("d/2.conf", "port 2");
    write("d/.hidden.conf", "nosuch 1");
    write("loop.conf", &format!("include {at}/loop.conf"));
    let loaded = load(&format!("hz 10\ninclude {at}/d/*.conf\ninclude {at}/nothing*\ntimeout 3")).expect("good files");
    assert_eq!((loaded.config.hz, loaded.config.port, loaded.config.timeout_s), (20, 2, 3));
    assert_eq!(refusal(&format!("include {at}/missing.conf")), "No such file or directory");
    assert_eq!(refusal(&format!("include {at}/loop.conf")), "Files include each other without end");
    std::fs::remove_dir_all(&directory).expect("the test's own directory");
}

#[test]
fn typed_fields_follow_the_values() {
    let loaded = load(
        "port 7\nmaxmemory 5mb\nmaxmemory-policy allkeys-random\nrequirepass \"a\\x01\"\n\
         bind 127.0.0.1 -::1\nio-threads 3\nvarve-segment-bytes 64kb\nlogfile x.log",
    )
    .expect("a good configuration");
    let config = &loaded.config;
    assert_eq!((config.port, config.memory_bytes_max, config.workers), (7, 5 << 20, 3));
    assert_eq!((config.policy, config.segment_bytes), (Policy::AllKeysRandom, Some(65536)));
    assert_eq!(config.password, super::Password(b"a\x01".to_vec()));
    assert_eq!(config.bind, ["127.0.0.1", "-::1"]);
    assert_eq!(config.log_file.as_deref(), Some(Path::new("x.log")));
    assert_eq!(config.shards, None);
    assert!(Config::default().workers >= 1);
}

#[test]
fn commands_are_renamed_and_taken_away() {
    let commands = load("rename-command ping badger\nrename-command ECHO \"\"").expect("good renames").commands;
    let known = ["ping", "badger", "echo"].map(|name| commands.get(name.as_bytes()).is_some());
    assert_eq!(known, [false, true, false]);
    assert_eq!(refusal("rename-command foo bar"), "No such command in rename-command");
    assert_eq!(refusal("rename-command ping x\nrename-command ping y"), "No such command in rename-command");
    assert_eq!(refusal("rename-command ping echo"), "Target command name already exists");
}

#[test]
fn settings_without_effect_are_remarked_once() {
    let remarks = load("appendonly yes\nreplica-lazy-flush yes\nreplica-lazy-flush yes\nport 1").unwrap().remarks;
    let remark = "replica-lazy-flush is accepted for compatibility and has no effect: data that goes for a primary's is freed in \
                  the background";
    assert_eq!(remarks, [remark]);
}

#[test]
fn get_takes_patterns_names_and_aliases() {
    let live = live("lua-time-limit 3");
    assert_eq!(
        get(&live, &["lua-time*", "busy-reply-threshold"]),
        ["lua-time-limit", "3", "busy-reply-threshold", "3"]
    );
    assert_eq!(get(&live, &["LUA-T*"]), ["lua-time-limit", "3"]);
    assert_eq!(get(&live, &["LUA-TIME-LIMIT"]), ["LUA-TIME-LIMIT", "3"]);
    assert_eq!(get(&live, &["port", "p*rt", "nope"]), ["port", "6379"]);
    assert_eq!(get(&live, &["key-load-delay", "key-load*"]), ["key-load-delay", "0"]);
    assert_eq!(get(&live, &["*"]).len(), 2 * 192, "the names that redis-server 7.0.15 answers");
}

#[test]
fn set_changes_all_or_nothing() {
    let live = live("");
    let failed = |name: &str, reason: &str| {
        Err(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"))
    };
    let unknown = Err("ERR Unknown option or number of arguments for CONFIG SET - 'FOO'".to_owned());
    assert_eq!(set(&live, &[("FOO", "bar"), ("maxmemory", "1")]), unknown);
    assert_eq!(
        set(&live, &[("maxmemory", "1"), ("databases", "3")]),
        failed("databases", "can't set immutable config")
    );
    assert_eq!(set(&live, &[("dir", "/tmp")]), failed("dir", "can't set protected config"));
    assert_eq!(set(&live, &[("maxmemory", "1"), ("MAXMEMORY", "2")]), failed("MAXMEMORY", "duplicate parameter"));
    let integer = "argument couldn't be parsed into an integer";
    assert_eq!(set(&live, &[("maxmemory", "5"), ("hz", "zz")]), failed("hz", integer));
    assert_eq!(live.snapshot().memory_bytes_max, 0);
    assert_eq!(set(&live, &[("slave-priority", "1"), ("replica-priority", "2")]), Ok(()));
    assert_eq!(set(&live, &[("Maxmemory", "5mb"), ("hz", "20"), ("requirepass", "x")]), Ok(()));
    assert_eq!((live.snapshot().memory_bytes_max, live.snapshot().hz), (5 << 20, 20));
    assert_eq!(set(&live, &[("save", "3600 1   300 10")]), failed("save", "Invalid save parameters"));
    assert_eq!(set(&live, &[("save", "")]), Ok(()));
    assert_eq!(get(&live, &["save"]), ["save", ""]);
}

#[test]
fn every_changeable_directive_takes_its_own_value() {
    let live = live("enable-protected-configs local");
    let state = get(&live, &["*"]);
    for pair in state.chunks_exact(2) {
        match set(&live, &[(&pair[0], &pair[1])]) {
            Ok(()) => {}
            Err(error) => assert!(error.contains("can't set immutable config"), "{error}"),
        }
    }
    assert_eq!(get(&live, &["*"]), state);
}

#[test]
fn a_change_that_cannot_take_effect_is_undone() {
    struct Refuses;
    impl Effects for Refuses {
        fn publish(&self) {
            panic!("nothing changed");
        }
        fn apply(&self, _: &Config, new: &Config) -> Result<(), Ineffective> {
            assert_eq!(new.port, 1);
            Err(Ineffective { directive: "port", reason: "Unable to listen on this port".to_owned() })
        }
    }
    let live = live("");
    let error = live.set(&[(b"hz", b"20"), (b"PORT", b"1")], true, &Refuses);
    let expected = "ERR CONFIG SET failed (possibly related to argument 'PORT') - Unable to listen on this port";
    assert_eq!(error, Err(CommandError::owned(expected)));
    assert_eq!(get(&live, &["port", "hz"]), ["port", "6379", "hz", "10"]);
}

const FILE: &str = "\
# a comment
port 17903

# memory
maxmemory 100mb
maxmemory 200mb
slave-priority 50
save 900 1
save 300 10
   # indented comment
rename-command ping badger
client-output-buffer-limit normal 1mb 2 3
client-output-buffer-limit replica 256mb 64mb 60
requirepass \"a b\\x01\"
loglevel notice
bind 127.0.0.1
timeout 0
";

#[test]
fn rewrite_keeps_what_did_not_change() {
    let loaded = load(FILE).expect("a good file");
    let text =
        String::from_utf8(rewritten(FILE.as_bytes(), &loaded.values, false, &UserLines::default())).expect("text");
    let dir = loaded.values.text("dir");
    let expected = FILE
        .replace("maxmemory 100mb\nmaxmemory 200mb\n", "maxmemory 200mb\n")
        .replace("slave-priority", "replica-priority");
    assert_eq!(text, format!("{expected}\n# Generated by CONFIG REWRITE\ndir \"{dir}\"\n"));
    let again = rewritten(text.as_bytes(), &loaded.values, false, &UserLines::default());
    assert_eq!(String::from_utf8(again).expect("text"), text, "a second time changes nothing");
}

#[test]
fn rewrite_says_what_changed() {
    let live = live(FILE);
    let changes = [
        ("save", "1 2"),
        ("maxmemory", "1500mb"),
        ("client-output-buffer-limit", "pubsub 32mb 8mb 61 normal 0 0 0"),
        ("notify-keyspace-events", "KEA"),
        ("shutdown-on-sigint", "now force"),
        ("requirepass", ""),
        ("bind", "127.0.0.1 -::1"),
        ("lua-time-limit", "7"),
    ];
    set(&live, &changes).expect("good changes");
    let values = &live.values();
    let text = String::from_utf8(rewritten(FILE.as_bytes(), values, false, &UserLines::default())).expect("text");
    let expected = "\
# a comment
port 17903

# memory
maxmemory 1500mb
replica-priority 50
save 1 2
   # indented comment
rename-command ping badger
client-output-buffer-limit pubsub 32mb 8mb 61
client-output-buffer-limit normal 0 0 0
requirepass \"\"
loglevel notice
bind 127.0.0.1 -::1
timeout 0

# Generated by CONFIG REWRITE
busy-reply-threshold 7
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("notify-keyspace-events \"AKE\"\nshutdown-on-sigint now force\n"), "{text}");
    assert_eq!(load(&text).expect("our own text").values, *values);
}

#[test]
fn rewriting_everything_says_everything() {
    let values = load(FILE).expect("a good file").values;
    let text = String::from_utf8(rewritten(b"", &values, true, &UserLines::default())).expect("text");
    assert_eq!(load(&text).unwrap_or_else(|error| panic!("{error}")).values, values);
    for row in DIRECTIVES.iter().filter(|row| !row.hidden && row.name != "replicaof") {
        assert!(text.lines().any(|line| line.split(' ').next() == Some(row.name)), "{} is missing", row.name);
    }
}

#[test]
fn users_are_declared_once_and_in_the_right_form() {
    let loaded = load("user alice on >x ~a* +@read (~b +set)\nuser bob +set (~c\nuser carol (~a +get ~b)\n");
    assert!(matches!(loaded, Err(LoadError::Line { number: 2, .. })), "a selector without its end");
    let loaded = load("user alice on >x ~a* (~b +set)\nuser bob +nosuchcommand\n").expect("the start refuses bob");
    let names: Vec<&[u8]> = loaded.values.users().iter().map(|line| line.name.as_slice()).collect();
    assert_eq!(names, [b"alice".as_slice(), b"bob"]);
    let digest = "#2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
    let rules = ["on", digest, "~a*", "(~b +set)"].map(|rule| rule.as_bytes().to_vec());
    assert_eq!(loaded.values.users()[0], UserLine::new(b"alice", &rules), "nothing but the digest is kept");
    for (line, reason) in [
        ("user a on\nuser a off", "Error in user declaration 'a': Duplicate user found."),
        ("user a %X~y", "Error in user declaration '%X~y': Syntax error"),
        ("user a on <secret", "Error in user declaration '(redacted)': The password you are trying to remove"),
        ("user a on (>secret)", "Error in user declaration '(redacted)': "),
        ("user a on hunter2", "Error in user declaration '(redacted)': Syntax error"),
        ("user a ~* ~b", "Error in user declaration '~b': Adding a pattern after the * pattern"),
        ("user a #12", "Error in user declaration '#12': The password hash must be exactly 64"),
    ] {
        assert!(refusal(line).starts_with(reason), "{line}: {}", refusal(line));
    }
}

#[test]
fn errors_show_no_password() {
    for (text, shown) in [
        ("requirepass secret too many", "requirepass (redacted)"),
        ("Requirepass \"secret", "Requirepass (redacted)"),
        ("user u >secret ~* ~secret", "user (redacted)"),
        ("port secret", "port secret"),
    ] {
        let Err(LoadError::Line { text: line, .. }) = load(text) else { panic!("{text} was taken") };
        assert_eq!(line, shown);
    }
}

#[test]
fn rewrite_keeps_the_lines_of_users_true() {
    let file = "port 1\nuser default on >foo ~* &* +@all\n# end\nuser old on\n";
    let text = |file: &str, users: &UserLines| {
        String::from_utf8(rewritten(file.as_bytes(), &live(file).values(), false, users)).expect("text")
    };
    let lines = |lines: &[&str], needed| UserLines {
        lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect(),
        needed,
    };
    let above = |text: String| text.split("\n\n").next().expect("what stands above the marker").trim_end().to_owned();
    assert_eq!(above(text(file, &lines(&["user a on"], true))), "port 1\nuser a on\n# end");
    assert_eq!(above(text(file, &lines(&["user default on nopass"], false))), "port 1\nuser default on nopass\n# end");
    let three = text(file, &lines(&["user a on", "user b on", "user c on"], true));
    assert!(three.contains("port 1\nuser a on\n# end\nuser b on\n") && three.ends_with("\nuser c on\n"), "{three}");
    // Users that have a file of their own, and a file without lines of users.
    assert_eq!(above(text(file, &UserLines::default())), "port 1\n# end");
    assert!(!text("port 1\n", &lines(&["user default on nopass"], false)).contains("user "));
    assert!(text("port 1\n", &lines(&["user a on"], true)).ends_with("\nuser a on\n"));
}

#[test]
fn hz_is_brought_into_its_range() {
    for (given, kept) in [("0", "1"), ("1", "1"), ("500", "500"), ("501", "500"), ("1000", "500")] {
        assert_eq!(value(&format!("hz {given}"), "hz"), kept, "{given}");
    }
}

#[test]
fn a_list_cannot_bring_lines_of_its_own_into_the_file() {
    let live = live("port 0\n");
    let refused = set(&live, &[("bind", "127.0.0.1\nenable-debug-command yes")]).expect_err("a line of its own");
    assert!(refused.contains("'bind') - the words of a list have no control characters"), "{refused}");
    set(&live, &[("bind", "127.0.0.1 a\"b\\c 'd")]).expect("strange, but one line");
    let text = String::from_utf8(rewritten(b"port 0\n", &live.values(), false, &UserLines::default())).expect("text");
    assert!(text.contains("bind 127.0.0.1 \"a\\\"b\\\\c\" \"'d\"\n"), "{text}");
    assert_eq!(load(&text).unwrap().values, live.values(), "{text}");
}
