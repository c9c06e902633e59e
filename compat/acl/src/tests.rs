//! Users over a small set of commands. The expected texts were read off redis-server 7.0.15.

use varve_catalog::{Acl, Channels, Flags, Group, KeyFlags, KeySpec, Row};
use varve_protocol::OwnedArgs;

use crate::{Denial, KnownCommands, RuleContext, User, UserLine, Users};

const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const WRITE: KeyFlags = KeyFlags::OW.and(KeyFlags::UPDATE);

fn known() -> KnownCommands {
    let new = |name, arity| Row::new(name, Group::Generic, arity, "1.0.0");
    let sub = |full, name| Row::sub(full, name, Group::Server, -2, "1.0.0");
    let admin: &'static [Flags] = &[Flags::ADMIN];
    let rows = [
        new("get", 2)
            .flags(&[Flags::READONLY, Flags::FAST])
            .acl(&[Acl::STRING])
            .keys(const { &[KeySpec::one(1, READ)] }),
        new("set", -3).flags(&[Flags::WRITE]).acl(&[Acl::STRING]).keys(const { &[KeySpec::one(1, WRITE)] }),
        new("copy", 3)
            .flags(&[Flags::WRITE])
            .acl(&[Acl::KEYSPACE])
            .keys(const { &[KeySpec::one(1, READ), KeySpec::one(2, WRITE)] }),
        new("exists", -2)
            .flags(&[Flags::READONLY, Flags::FAST])
            .acl(&[Acl::KEYSPACE])
            .keys(const { &[KeySpec::range(1, -1, 1, KeyFlags::RO)] }),
        new("select", 2).flags(&[Flags::FAST]).acl(&[Acl::CONNECTION]),
        new("auth", -2).flags(&[Flags::FAST, Flags::NO_AUTH]).acl(&[Acl::CONNECTION]),
        new("publish", 3).flags(&[Flags::PUBSUB, Flags::FAST]).channels(Channels::Published),
        new("subscribe", -2).flags(&[Flags::PUBSUB]).channels(Channels::Listened),
        new("psubscribe", -2).flags(&[Flags::PUBSUB]).channels(Channels::Patterns),
        new("save", 1).flags(admin),
        new("bgsave", 1).flags(admin),
        new("shutdown", 1).flags(admin),
        new("config", -2),
        sub("config|get", "get").flags(admin),
        sub("config|set", "set").flags(admin),
    ];
    let rows = rows.into_iter().enumerate().map(|(id, row)| &*Box::leak(Box::new(row.derive(id as u16, false))));
    KnownCommands::new(rows.collect::<Vec<&'static Row>>().into_iter())
}

fn user(known: &KnownCommands, rules: &str) -> User {
    let users = Users::new(b"", &RuleContext { commands: known, all_channels: false });
    let rules: Vec<Vec<u8>> = rules.split(' ').map(|rule| rule.as_bytes().to_vec()).collect();
    let context = RuleContext { commands: known, all_channels: false };
    users.changed(b"u", &rules, &context).unwrap_or_else(|error| panic!("{}", String::from_utf8_lossy(&error)))
}

/// The line of the user that these rules make, behind its name.
fn line(known: &KnownCommands, rules: &str) -> String {
    let context = RuleContext { commands: known, all_channels: false };
    let mut users = Users::new(b"", &context);
    users.put(user(known, rules), &context);
    let line = users.get(b"u").expect("it was put").line();
    String::from_utf8_lossy(line).strip_prefix("user u ").expect("its name").to_owned()
}

fn check(known: &KnownCommands, user: &User, request: &str) -> Result<(), Denial> {
    let owned = OwnedArgs::from_parts(request.split(' '));
    let args = owned.args();
    let container = known.find(args.get(0)).expect("a command of the test");
    let full = [args.get(0), b"|", args.opt(1).unwrap_or_default()].concat();
    user.check(known.find(&full).unwrap_or(container), args)
}

#[test]
fn lines_are_the_shortest_rules() {
    let known = known();
    for (rules, expected) in [
        ("on", "on resetchannels -@all"),
        ("reset", "off sanitize-payload resetchannels -@all"),
        ("nopass skip-sanitize-payload +@all", "off nopass skip-sanitize-payload resetchannels +@all"),
        ("+@all -get +get", "off resetchannels +@all"),
        ("+get +set -get", "off resetchannels -@all +set"),
        ("+config|get +config", "off resetchannels -@all +config"),
        ("+@all -config +config|get", "off resetchannels +@all -config +config|get"),
        ("+@all -config|set", "off resetchannels +@all -config|set"),
        ("+select|0 +SELECT|1 +select|0", "off resetchannels -@all +select|0 +select|1"),
        ("+select|0 +select", "off resetchannels -@all +select"),
        ("~a %R~a %W~b %rW~c &x", "off ~a %W~b ~c resetchannels &x -@all"),
        ("~* &* +get", "off ~* &* -@all +get"),
        ("(~a +get) (%R~b", "off resetchannels -@all (~a resetchannels -@all +get) (%R~b resetchannels -@all)"),
    ] {
        let rules = if rules.ends_with("(%R~b") { format!("{rules} )") } else { rules.to_owned() };
        assert_eq!(line(&known, &rules), expected, "{rules}");
    }
}

#[test]
fn lines_make_the_same_user_again() {
    let known = known();
    for rules in [
        "on >a >b ~a* %R~b &c +@all -@string -config +config|get",
        "nopass allkeys allchannels +@read -get +select|3 (+@keyspace ~x)",
        "reset +@connection -auth",
    ] {
        let line = line(&known, rules);
        assert_eq!(self::line(&known, &line), line, "{rules}");
    }
}

#[test]
fn rights_are_those_of_one_selector() {
    let known = known();
    for (rules, request, expected) in [
        ("+get ~a*", "get a1", Ok(())),
        ("+get ~a*", "get b", Err(Denial::Key(1))),
        ("+get ~a*", "set a 1", Err(Denial::Command)),
        ("+@all %R~r %W~w", "copy r w", Ok(())),
        ("+@all %R~r %W~w", "copy w r", Err(Denial::Key(1))),
        ("+@all %R~r %W~w", "copy r r", Err(Denial::Key(2))),
        ("+@all %R~r %W~w", "exists r w", Ok(())),
        ("+@all %R~r %W~w", "exists r x", Err(Denial::Key(2))),
        ("(+@all %R~r) (+@all %W~w)", "copy r w", Err(Denial::Key(2))),
        ("(+@all %R~r) (+@all %W~w)", "get r", Ok(())),
        ("+select|0", "select 0", Ok(())),
        ("+select|0", "select 1", Err(Denial::Command)),
        ("-@all", "auth x", Ok(())),
        ("+config|get", "config get x", Ok(())),
        ("+config|get", "config set x y", Err(Denial::Command)),
        ("+@pubsub &a*", "publish a1 b", Ok(())),
        ("+@pubsub &a*", "publish b a", Err(Denial::Channel(1))),
        ("+@pubsub &a*", "subscribe a b", Err(Denial::Channel(2))),
        ("+@pubsub &a*", "psubscribe a*", Ok(())),
        ("+@pubsub &a*", "psubscribe ab*", Err(Denial::Channel(1))),
    ] {
        assert_eq!(check(&known, &user(&known, rules), request), expected, "{rules}: {request}");
    }
}

#[test]
fn a_user_that_may_do_everything_is_full_however_it_was_said() {
    let known = known();
    for (rules, full) in [
        ("allcommands allkeys allchannels", true),
        ("+@all -get +get ~* &*", true),
        ("(+@all ~* &*)", true),
        ("+@all ~* &* -get", false),
        ("+@all &* %R~*", false),
        ("+@all ~*", false),
    ] {
        assert_eq!(user(&known, rules).is_full(), full, "{rules}");
    }
    assert!(
        user(&known, "+get %R~*")
            .may_read_all_keys(known.find(b"get").unwrap(), OwnedArgs::from_parts(["get", "a"]).args())
    );
    assert!(
        !user(&known, "+get ~a")
            .may_read_all_keys(known.find(b"get").unwrap(), OwnedArgs::from_parts(["get", "a"]).args())
    );
}

/// A script may ask of any words, and a line of a file ends where a rule would go on.
#[test]
fn issue_16_short_requests_and_broken_lines_harm_nobody() {
    let known = known();
    let limited = user(&known, "+@all ~* resetchannels &c");
    for (request, expected) in [
        ("publish", Ok(())),
        ("publish c", Ok(())),
        ("publish d", Err(Denial::Channel(1))),
        ("subscribe", Ok(())),
        ("get", Ok(())),
    ] {
        assert_eq!(check(&known, &limited, request), expected, "{request}");
    }
    let context = RuleContext { commands: &known, all_channels: false };
    let users = Users::new(b"", &context);
    for rule in [&b"+select|0\nport 1"[..], b"+select|a b", b"+select|\x07", b"+select|\0"] {
        assert!(users.changed(b"u", &[rule.to_vec()], &context).is_err(), "{}", rule.escape_ascii());
    }
    assert!(users.changed(b"u", &[b"+select|1".to_vec()], &context).is_ok());
}

#[test]
fn a_deleted_user_is_not_the_next_one_of_its_name() {
    let known = known();
    let context = RuleContext { commands: &known, all_channels: false };
    let mut users = Users::new(b"pw", &context);
    users.put(users.changed(b"u", &[b"on".to_vec(), b">x".to_vec()], &context).unwrap(), &context);
    let first = users.admit(b"u", b"x").expect("its password").clone();
    users.put(users.changed(b"u", &[b"+get".to_vec()], &context).unwrap(), &context);
    assert!(users.current(&first).is_some_and(|now| now.line() != first.line()));
    assert!(users.remove(b"u") && !users.remove(b"u"));
    users.put(users.changed(b"u", &[b"on".to_vec(), b"nopass".to_vec()], &context).unwrap(), &context);
    assert!(users.current(&first).is_none() && users.admit(b"u", b"anything").is_some());
    assert!(users.admit(b"default", b"pw").is_some() && users.admit(b"default", b"pW").is_none());
    assert!(users.admit(b"nobody", b"pw").is_none());
    // A file makes all users new but the default one.
    let (default, u) = (users.default_user().clone(), users.get(b"u").unwrap().clone());
    let loaded = users.from_file(&users.file_text(), "f", &context).unwrap();
    assert_eq!(loaded.file_text(), users.file_text());
    assert!(loaded.current(&default).is_some() && loaded.current(&u).is_none());
}

#[test]
fn files_are_taken_whole_or_not_at_all() {
    let known = known();
    let context = RuleContext { commands: &known, all_channels: false };
    let users = Users::new(b"", &context);
    let error = |text: &str| users.from_file(text.as_bytes(), "f", &context).expect_err(text);
    for (text, expected) in [
        ("user a on\nuser a off\n", "WARNING: Duplicate user 'a' found on line 2. "),
        ("# comment", "f:1 should start with user keyword followed by the username. "),
        (
            "\nuser a +nosuch +@nosuch foo bar",
            "f:2: Error in applying operation '+nosuch': Unknown command or category name in ACL. f:2: Error in applying operation '+@nosuch': Unknown command or category name in ACL. f:2: Syntax error. ",
        ),
        ("user a (+get", "f:1: Unmatched parenthesis in selector definition."),
    ] {
        let end = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
        assert_eq!(error(text), format!("{expected}{end}"));
    }
    let line =
        |name: &[u8], rules: &[&[u8]]| UserLine::new(name, &rules.iter().map(|rule| rule.to_vec()).collect::<Vec<_>>());
    let made =
        Users::configured(&[line(b"default", &[b"on", b">x", b"+get"]), line(b"a", &[])], b"pw", &context).unwrap();
    assert_eq!(made.iter().len(), 2);
    assert!(made.default_user().line().ends_with(b" resetchannels -@all +get"), "a declared user begins anew");
    assert!(!made.are_plain(b"pw", &context) && Users::new(b"pw", &context).are_plain(b"pw", &context));
    let unknown = Users::configured(&[line(b"a", &[b"+nosuch"])], b"", &context).expect_err("no such command");
    assert_eq!(
        unknown,
        "Error loading ACL rule '+nosuch' for the user named 'a': Unknown command or category name in ACL"
    );
}

#[test]
fn issue_11_a_set_of_users_knows_its_bytes() {
    let known = known();
    let context = RuleContext { commands: &known, all_channels: false };
    let mut users = Users::new(b"", &context);
    let alone = users.memory();
    let long = format!("~{} &{} +select|{} >password", "k".repeat(1000), "c".repeat(1000), "a".repeat(1000));
    let user = user(&known, &long);
    users.put(user.clone(), &context);
    let with_one = users.memory();
    assert!(with_one > alone + 6000 && with_one < alone + 8000, "{} bytes", with_one - alone);
    users.put(user, &context);
    assert_eq!(users.memory(), with_one, "the same user in the place of itself");
    let sum: usize = users.iter().map(|user| user.memory()).sum();
    assert_eq!(sum, with_one);
    assert!(users.remove(b"u") && !users.remove(b"u"));
    assert_eq!(users.memory(), alone);
}

/// A rule that comes again keeps its place; a user may have any number of patterns, and none is compared with all others.
#[test]
fn issue_11_rules_stand_once_in_the_order_in_which_they_came() {
    let known = known();
    let many: Vec<String> = (0..50_000).rev().map(|n| format!("~k{n} &c{n} +get|A{n} >p{n}")).collect();
    let many = format!("resetchannels {} %R~k7 ~k7 &c7 +get|a7 >p7 <p6", many.join(" "));
    let line = line(&known, &many);
    let count = |sign: &str| line.split(' ').filter(|word| word.starts_with(sign)).count();
    assert_eq!((count("~"), count("&"), count("+get|A"), count("#")), (50_000, 50_000, 50_000, 49_999));
    for (first, second) in [("~k8 ", "~k7 "), ("&c8 ", "&c7 "), ("+get|A8 ", "+get|A7 ")] {
        assert!(line.contains(&format!("{first}{second}")), "{first}{second}");
    }
}
