//! Commands with large requests and replies are logged, alone, in pipelines, in transactions and in parts.

use varve_exec::stats::CommandLog;

use super::{Server, request};

/// The names of the logged commands and their bytes, the oldest first.
fn logged(server: &Server, log: CommandLog) -> Vec<(String, u64)> {
    let mut logs = server.state().command_logs();
    let entries = logs.of(log).iter().map(|entry| &entry.command);
    let mut all: Vec<_> =
        entries.map(|command| (String::from_utf8_lossy(&command.args[0]).into_owned(), command.amount)).collect();
    all.reverse();
    all
}

fn named(entries: &[(&str, u64)]) -> Vec<(String, u64)> {
    entries.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
}

#[test]
fn large_requests_and_replies_are_logged_with_their_bytes() {
    let config = "commandlog-request-larger-than 328\ncommandlog-reply-larger-than 308\nslowlog-log-slower-than -1\n";
    let server = Server::start(1, config);
    let mut client = server.connect();
    let value = "x".repeat(300);
    let bulk = format!("$300\r\n{value}\r\n");
    client.ask(&["SET", "k", &value], "+OK\r\n");
    client.ask(&["SET", "k2", &value[1..]], "+OK\r\n");
    // Of several requests that come together those are logged that are meant.
    client.send(&[request(&["GET", "none"]), request(&["GET", "k"]), request(&["GET", "k2"])].concat());
    client.expect(format!("$-1\r\n{bulk}$299\r\n{}\r\n", &value[1..]).as_bytes());
    client.send(&[request(&["GET", "none"]), request(&["MGET", "k", "k"])].concat());
    client.expect(format!("$-1\r\n*2\r\n{bulk}{bulk}").as_bytes());
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["GET", "k"], "+QUEUED\r\n");
    client.ask(&["EXEC"], &format!("*1\r\n{bulk}"));
    client.ask(&["ECHO", &value], &bulk);
    assert_eq!(logged(&server, CommandLog::LargeRequest), named(&[("SET", 328), ("SET", 328)]));
    assert_eq!(
        logged(&server, CommandLog::LargeReply),
        named(&[("GET", 308), ("MGET", 620), ("GET", 308), ("ECHO", 308)])
    );
    assert!(logged(&server, CommandLog::Slow).is_empty());
    client.ask(&["COMMANDLOG", "RESET", "large-reply"], "+OK\r\n");
    client.ask(&["COMMANDLOG", "LEN", "LARGE-REQUEST"], ":2\r\n");
    // A value that lies in segments of its own is sent from there.
    let (large, head) = ("y".repeat(300_000), "$300000\r\n");
    client.ask(&["SET", "large", &large], "+OK\r\n");
    client.ask(&["GET", "large"], &format!("{head}{large}\r\n"));
    assert_eq!(logged(&server, CommandLog::LargeReply), named(&[("GET", 300_011)]));
    assert_eq!(logged(&server, CommandLog::LargeRequest).last(), named(&[("SET", 300_035)]).last());
    // A reply behind which there is no room for others, with a request behind it.
    let many = ["MGET"].into_iter().chain(std::iter::repeat_n("large", 20)).collect::<Vec<_>>();
    client.send(&[request(&many), request(&["GET", "none"])].concat());
    client.expect(format!("*20\r\n{}$-1\r\n", format!("{head}{large}\r\n").repeat(20)).as_bytes());
    assert_eq!(logged(&server, CommandLog::LargeReply)[1..], named(&[("MGET", 6_000_225)]));
    client.ask(&["COMMANDLOG", "RESET", "large-reply"], "+OK\r\n");
    client.ask(&["GET", "k"], &bulk);
    for setting in ["commandlog-request-larger-than", "commandlog-reply-larger-than"] {
        client.ask(&["CONFIG", "SET", setting, "-1"], "+OK\r\n");
    }
    client.ask(&["GET", "k"], &bulk);
    client.ask(&["COMMANDLOG", "LEN", "large-reply"], ":1\r\n");
}

/// A command that stands in the request of another one may have a password among its arguments.
#[test]
fn no_log_has_the_password_of_a_command_that_is_asked_about() {
    let server = Server::start(1, "slowlog-log-slower-than 0\n");
    let mut client = server.connect();
    let migrate = ["MIGRATE", "host", "6379", "k", "0", "10", "AUTH", "sekret"];
    let requests = [
        [&["ACL", "DRYRUN", "default", "AUTH"][..], &["sekret"]].concat(),
        [&["ACL", "DRYRUN", "default", "CONFIG"][..], &["SET", "requirepass", "sekret"]].concat(),
        [&["COMMAND", "GETKEYS"][..], &migrate].concat(),
        [&["COMMAND", "GETKEYSANDFLAGS"][..], &migrate].concat(),
    ];
    requests.iter().for_each(|words| client.send(&request(words)));
    client.ask(
        &["ECHO", "the end"],
        "+OK\r\n+OK\r\n*1\r\n$1\r\nk\r\n*1\r\n*2\r\n$1\r\nk\r\n*3\r\n+RW\r\n+access\r\n+delete\r\n$7\r\nthe end\r\n",
    );
    let mut logs = server.state().command_logs();
    let mut shown: Vec<String> = Vec::new();
    for entry in logs.of(CommandLog::Slow).iter() {
        let words: Vec<_> = entry.command.args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
        shown.push(words.join(" "));
    }
    assert!(shown.iter().all(|line| !line.contains("sekret")), "{shown:?}");
    for start in ["ACL DRYRUN default AUTH (redacted)", "COMMAND GETKEYS MIGRATE (redacted)"] {
        assert!(shown.iter().any(|line| line.starts_with(start)), "{shown:?}");
    }
}

/// An entry is kept behind its client: a name of a megabyte in each of them would be memory that no limit counts.
#[test]
fn issue_11_a_long_name_is_cut_in_the_log() {
    let server = Server::start(1, "slowlog-log-slower-than 0\n");
    let mut client = server.connect();
    client.ask(&["CLIENT", "SETNAME", &"n".repeat(1 << 20)], "+OK\r\n");
    client.ask(&["ECHO", "x"], "$1\r\nx\r\n");
    client.ask(&["CLIENT", "SETNAME", "short"], "+OK\r\n");
    client.ask(&["ECHO", "y"], "$1\r\ny\r\n");
    let mut logs = server.state().command_logs();
    let names: Vec<_> = logs.of(CommandLog::Slow).iter().map(|entry| entry.name.clone()).collect();
    assert!(names.iter().all(|name| name.len() < 200), "{:?}", names.iter().map(Vec::len).collect::<Vec<_>>());
    assert!(names.iter().any(|name| name.ends_with(b"... (1048448 more bytes)")) && names.contains(&b"short".to_vec()));
}
