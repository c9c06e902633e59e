//! HOTKEYS, and MEMORY's figures of the keyspace: what was used, and what is there, is named.

use super::{Client, Server, request, wait_until};

/// The reply to a request as lines, until one that is asked for behind it.
fn lines(client: &mut Client, words: &[&str]) -> Vec<String> {
    client.send(&[request(words), request(&["PING", "behind"])].concat());
    let mut all = Vec::new();
    loop {
        let line = client.line();
        if line == "behind" {
            // The head of the bulk string before it.
            all.pop();
            return all;
        }
        all.push(line);
    }
}

/// The line behind a name in a reply.
fn behind<'l>(lines: &'l [String], name: &str) -> &'l str {
    let at = lines.iter().position(|line| line == name).unwrap_or_else(|| panic!("no {name} in {lines:?}"));
    &lines[at + 1]
}

fn number_behind(lines: &[String], name: &str) -> i64 {
    behind(lines, name)[1..].parse().unwrap_or_else(|_| panic!("{name}: {lines:?}"))
}

#[test]
fn a_collection_counts_each_command_also_in_transactions_and_scripts() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    assert_eq!(lines(&mut client, &["HOTKEYS", "GET"]), ["$-1"], "nothing was collected");
    client.ask(&["HOTKEYS", "STOP"], "$-1\r\n");
    client.ask(&["HOTKEYS", "START", "METRICS", "2", "CPU", "NET", "COUNT", "3"], "+OK\r\n");
    let value = "x".repeat(1000);
    let pipeline: Vec<u8> = (0..50).flat_map(|_| request(&["SET", "piped", &value])).collect();
    client.send(&pipeline);
    client.expect("+OK\r\n".repeat(50).as_bytes());
    client.send(&[&["MULTI"][..], &["SET", "queued", &value], &["GET", "queued"], &["EXEC"]].map(request).concat());
    client.expect(format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n$1000\r\n{value}\r\n").as_bytes());
    client.ask(&["EVAL", "return redis.call('strlen', 'scripted')", "0"], ":0\r\n");
    client.ask(&["HOTKEYS", "STOP"], "+OK\r\n");
    client.ask(&["SET", "late", &value], "+OK\r\n");
    let got = lines(&mut client, &["HOTKEYS", "GET"]);
    assert_eq!(number_behind(&got, "tracking-active"), 0);
    assert_eq!(number_behind(&got, "sample-ratio"), 1);
    assert!(number_behind(&got, "total-net-bytes") > 50_000, "{got:?}");
    let at = got.iter().position(|line| line == "by-net-bytes").expect("a ranking");
    let names: Vec<&String> = got[at..].iter().filter(|line| line.chars().all(|c| c.is_ascii_lowercase())).collect();
    assert_eq!(names, ["piped", "queued", "scripted"], "{got:?}");
    assert!((50_000..60_000).contains(&number_behind(&got[at..], "piped")), "all fifty: {got:?}");
    assert!(number_behind(&got[at..], "queued") > 2000, "both of the transaction: {got:?}");
    client.ask(&["HOTKEYS", "RESET"], "+OK\r\n");
    client.ask(&["HOTKEYS", "GET"], "$-1\r\n");
}

#[test]
fn what_start_asks_for_is_checked() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    for (words, error) in [
        (&["START"][..], "-ERR METRICS parameter is required"),
        (&["START", "METRICS", "0"], "-ERR METRICS count must be 1 or 2"),
        (&["START", "METRICS", "3", "CPU", "NET"], "-ERR METRICS count must be 1 or 2"),
        (&["START", "METRICS", "2", "CPU"], "-ERR METRICS count does not match number of metric types provided"),
        (&["START", "METRICS", "1", "CPU", "NET"], "-ERR syntax error"),
        (&["START", "METRICS", "1", "GPU"], "-ERR METRICS no valid metrics passed. Valid are: CPU, NET"),
        (&["START", "METRICS", "2", "NET", "NET"], "-ERR METRICS NET given twice"),
        (&["START", "METRICS", "1", "CPU", "COUNT", "65"], "-ERR COUNT must be between 1 and 64"),
        (&["START", "METRICS", "1", "CPU", "COUNT"], "-ERR syntax error"),
        (&["START", "METRICS", "1", "CPU", "SAMPLE", "0"], "-ERR SAMPLE ratio must be positive"),
        (
            &["START", "METRICS", "1", "CPU", "SLOTS", "1", "0"],
            "-ERR SLOTS parameter cannot be used in non-cluster mode",
        ),
        (&["TOP", "COUNT", "0"], "-ERR COUNT must be between 1 and 64"),
    ] {
        client.ask(&[&["HOTKEYS"], words].concat(), &format!("{error}\r\n"));
    }
    client.ask(&["HOTKEYS", "START", "METRICS", "2", "GPU", "CPU", "DURATION", "1"], "+OK\r\n");
    client.ask(&["HOTKEYS", "START", "METRICS", "1", "CPU"], "-ERR hotkey tracking session already in progress\r\n");
    client.ask(&["HOTKEYS", "RESET"], "-ERR hotkey tracking session in progress, stop tracking first\r\n");
    // The clock ends it.
    wait_until("the end of the collection", || {
        number_behind(&lines(&mut client, &["HOTKEYS", "GET"]), "tracking-active") == 0
    });
    client.ask(&["HOTKEYS", "RESET"], "+OK\r\n");
}

#[test]
fn the_keyspace_is_known_after_some_ticks_and_names_can_be_hidden() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    for n in 0..300 {
        client.ask(&["SET", &format!("user:{n}:name"), "someone"], "+OK\r\n");
        client.ask(&["SET", &format!("session:{n}"), "x", "EX", "100"], "+OK\r\n");
    }
    let value = "v".repeat(100_000);
    client.ask(&["SET", "the-large-one", &value], "+OK\r\n");
    // Each worker passes its keys in some ticks, and all of them again each second.
    wait_until("all keys are seen", || {
        let got = lines(&mut client, &["MEMORY", "PREFIXES"]);
        let whole = |name: &str| {
            let at = got.iter().position(|line| line == name);
            at.is_some_and(|at| (299..=301).contains(&number_behind(&got[at..], "keys")))
        };
        whole("user:*:") && whole("session:")
    });
    let large = lines(&mut client, &["MEMORY", "LARGEST", "COUNT", "1"]);
    assert!(large.contains(&"the-large-one".to_owned()), "{large:?}");
    assert!((100_000..110_000).contains(&number_behind(&large, "bytes")), "{large:?}");
    // A figure of looks at different times, some of them before the last keys came.
    wait_until("the keys' ends are known", || {
        let due = lines(&mut client, &["MEMORY", "EXPIRIES"]);
        let keys: Vec<&str> =
            due.iter().enumerate().filter(|(_, line)| *line == "keys").map(|(at, _)| &due[at + 1][..]).collect();
        assert_eq!(keys.len(), 4, "a minute, an hour, a day, a week");
        assert_eq!(keys[0], ":0", "{due:?}");
        keys[1..].iter().all(|keys| (299..=301).contains(&keys[1..].parse::<i64>().unwrap()))
    });
    client.ask(&["CONFIG", "SET", "figures-with-key-names", "no"], "+OK\r\n");
    for words in [&["MEMORY", "PREFIXES"][..], &["MEMORY", "LARGEST"], &["HOTKEYS", "TOP"]] {
        let got = lines(&mut client, words).join(" ");
        assert!(!got.contains("user") && !got.contains("large-one"), "{got}");
        assert!(got.contains(" #"), "a number stands for a name: {got}");
    }
    client.ask(&["FLUSHALL"], "+OK\r\n");
    client.ask(&["MEMORY", "PREFIXES"], "*0\r\n");
}
