//! A server that the system refuses memory: it answers with an error and goes on; where it cannot go on, it ends at once.

use std::process::Command;
use std::time::Duration;

use varve_testkit::{Client, Launch, RespValue, Server, until};

/// How long an end may take. Nothing is judged by it but that the end comes.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Limits a process to `bytes` of memory of its own, or lifts the limit.
fn limit(server: &Server, bytes: Option<u64>) {
    let value = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
    let pid = server.pid().to_string();
    let done = Command::new("prlimit").args(["--pid", &pid, &format!("--data={value}:unlimited")]).status();
    assert!(done.expect("util-linux").success(), "prlimit");
}

/// Bytes that count against such a limit.
fn data_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmData:")).expect("a line of VmData");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("kilobytes") << 10
}

fn set(client: &mut Client, n: usize, value: &str) -> String {
    client.call(&["SET", &format!("key:{n}"), value]).expect("the server lives").text()
}

/// Engine 2.2: the refusal was a panic under a shard's lock, and the panic did not end the process.
#[test]
fn memory_that_the_system_refuses_is_an_error_for_the_client() {
    let mut server = Launch::varve().config("io-threads 2").start().expect("a server");
    limit(&server, Some(data_bytes(&server) + (900 << 20)));
    let mut client = server.client();
    let value = "v".repeat(100_000);
    let refused = (0..20_000).map(|n| (n, set(&mut client, n, &value))).find(|(_, reply)| reply != "OK");
    let (written, reply) = refused.expect("900 MB are full at last");
    assert!(reply.starts_with("OOM "), "{reply}");
    assert!(written > 1500, "{written} values of 100 KB in 900 MB");
    // Everything that needs no memory goes on.
    assert_eq!(client.cmd("PING").text(), "PONG");
    assert_eq!(client.cmd("STRLEN key:7").integer(), Some(100_000));
    assert_eq!(client.cmd("DBSIZE").integer(), Some(written as i64));
    for n in 0..written / 2 {
        assert_eq!(client.cmd(&format!("DEL key:{n}")).integer(), Some(1));
    }
    // The background gives the segments of what died back to the log.
    let again = (0..2000).find(|_| {
        std::thread::sleep(Duration::from_millis(5));
        set(&mut client, written, &value) == "OK"
    });
    assert!(again.is_some(), "deletions make room");
    limit(&server, None);
    let again = (0..2000).find(|_| {
        std::thread::sleep(Duration::from_millis(5));
        (0..200).all(|n| set(&mut client, 100_000 + n, &value) == "OK")
    });
    assert!(again.is_some(), "with memory all goes on");
    server.signal("TERM").expect("kill");
    assert_eq!(server.wait(END_LIMIT), Some(true), "it ends when it is asked to: {}", server.log());
}

#[test]
fn a_panic_ends_the_process_though_no_memory_is_left() {
    for io_threads in ["io-threads 1", "io-threads 4"] {
        // With the environment that made the standard library print a backtrace.
        let mut server =
            Launch::varve().config(io_threads).under(["env", "RUST_BACKTRACE=1"]).start().expect("a server");
        let mut client = server.client();
        limit(&server, Some(1 << 20));
        // No reply comes: the connection ends with the process.
        let _ = client.call(&["DEBUG", "PANIC"]);
        assert_eq!(server.wait(END_LIMIT), Some(false), "it still runs: {}", server.log());
        let log = server.log();
        assert!(log.contains("VARVE PANIC") || log.contains("Out of memory"), "the last line names the reason: {log}");
        assert!(
            !log.contains("stack backtrace:"),
            "the standard library, whose printing needs memory, is silent: {log}"
        );
    }
}

/// A client decides how long its requests are, and how many of them wait in a transaction: what has no room is refused, and the
/// server goes on.
#[test]
fn requests_without_room_end_no_more_than_their_connection() {
    let mut server = Launch::varve().config("io-threads 1").start().expect("a server");
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(other.cmd("PING").text(), "PONG");
    limit(&server, Some(data_bytes(&server) + (200 << 20)));
    // 8 MB of arguments that are short enough to be read with the request.
    let value = "v".repeat(200_000);
    let words: Vec<&str> = std::iter::once("MSET").chain((0..40).flat_map(|_| ["k", value.as_str()])).collect();
    assert_eq!(client.cmd("MULTI").text(), "OK");
    let last = (0..100)
        .map(|_| client.call(&words).map(|reply| reply.text()))
        .find(|reply| !matches!(reply.as_deref(), Ok("QUEUED")));
    match last.expect("800 MB of commands in 200 MB") {
        Ok(refused) => {
            assert!(refused.starts_with("OOM "), "{refused}");
            assert!(client.cmd("EXEC").text().starts_with("EXECABORT "));
        }
        // The request itself had no room.
        Err(_) => drop(client),
    }
    assert_eq!(other.cmd("PING").text(), "PONG");
    limit(&server, None);
    assert_eq!(other.call(&["SET", "k", &value]).expect("it lives").text(), "OK");
    server.signal("TERM").expect("kill");
    assert_eq!(server.wait(END_LIMIT), Some(true), "it ends when it is asked to: {}", server.log());
}

/// Memory that the server keeps for its clients beside the data: what is held in reserve is spent when the system refuses some, and
/// then commands that would have it keep more are refused.
#[test]
fn issue_11_clients_that_hoard_are_refused_when_memory_is() {
    let name = "n".repeat(50_000);
    let hoard = |client: &mut Client, how: &str, n: usize| {
        let named = format!("{n}:{name}");
        let words: &[&str] = match how {
            "WATCH" => &["WATCH", &named],
            "SUBSCRIBE" => &["SUBSCRIBE", &named],
            _ => &["SCRIPT", "LOAD", &format!("return '{named}'")],
        };
        client.call(words).map(|reply| reply.text())
    };
    for how in ["WATCH", "SUBSCRIBE", "SCRIPT LOAD"] {
        let mut server = Launch::varve().config("io-threads 2").start().expect("a server");
        let (mut hoarder, mut other) = (server.client(), server.client());
        assert_eq!(other.cmd("SET key value").text(), "OK");
        assert_eq!(other.cmd(&format!("SET long {}", "l".repeat(200_000))).text(), "OK");
        assert_eq!(other.cmd("RPUSH list element").integer(), Some(1));
        assert_eq!(other.cmd("RPUSH other element").integer(), Some(1));
        limit(&server, Some(data_bytes(&server) + (64 << 20)));
        let refusal = (0..6000).map(|n| hoard(&mut hoarder, how, n)).find(|reply| !is_taken(reply));
        let refusal = refusal.unwrap_or_else(|| panic!("{how}: 300 MB in 64 MB"));
        assert!(refusal.as_ref().is_ok_and(|text| text.starts_with("OOM ")), "{how}: {refusal:?}\n{}", server.log());
        // Reads go on, short and long, and so do deletions. Commands that would keep memory are refused to others too.
        for (command, reply) in [("PING", "PONG"), ("GET key", "value")] {
            assert_eq!(other.cmd(command).text(), reply, "{how}");
        }
        assert_eq!([other.cmd("EXISTS key").integer(), other.cmd("DEL absent").integer()], [Some(1), Some(0)], "{how}");
        assert_eq!(other.cmd("GET long").text().len(), 200_000, "{how}");
        for command in ["WATCH key", "BLPOP nothing 1", "SUBSCRIBE channel", "EVAL return 0", "CLIENT TRACKING ON"] {
            assert_eq!(other.cmd(command).text(), "OOM the system refuses memory", "{how}: {command}");
        }
        assert_eq!(other.cmd("LPOP list").text(), "element", "{how}");
        let popped = ["other", "element"].map(|text| RespValue::Bulk(text.into())).to_vec();
        assert_eq!(other.cmd("BLPOP other 1"), RespValue::Array(popped), "{how}");
        // A transaction is refused as a whole, also to a client that has sent all of it.
        for words in [&["MULTI"][..], &["DEL", "key"], &["RENAME", "long", "key"], &["EXEC"]] {
            other.queue(words);
        }
        other.flush().expect("sent");
        let replies: Vec<String> = (0..4).map(|_| other.read().expect("a reply").text()).collect();
        let refused = "OOM the system refuses memory";
        assert_eq!(replies[..3], ["OK", refused, refused], "{how}");
        assert!(replies[3].starts_with("EXECABORT "), "{how}: {}", replies[3]);
        assert_eq!(other.cmd("GET key").text(), "value", "{how}");
        assert_eq!(server.client().cmd("GET key").text(), "value", "{how}: a new client");
        until("the log says so", || server.log().contains("The system refuses memory."));
        drop(hoarder);
        limit(&server, None);
        until("memory is there again", || other.cmd("WATCH key").text() == "OK");
        assert_eq!(other.cmd("SET key other").text(), "OK");
        assert_eq!(server.client().cmd("GET key").text(), "other");
        assert!(server.log().contains("The system gives memory again."), "{how}: {}", server.log());
        server.signal("TERM").expect("kill");
        assert_eq!(server.wait(END_LIMIT), Some(true), "{how}: it ends when it is asked to: {}", server.log());
    }
}

/// Whether the server has kept what a hoarder gave it.
fn is_taken(reply: &std::io::Result<String>) -> bool {
    reply.as_ref().is_ok_and(|text| !text.starts_with("OOM "))
}

/// Reading commands are not refused: what is held in reserve is there for their small needs.
#[test]
fn issue_11_readers_go_on_while_the_system_refuses_memory() {
    let server = Launch::varve().config("io-threads 2").start().expect("a server");
    let mut client = server.client();
    client.cmd("RPUSH list a b c");
    client.cmd("HSET hash f v g w");
    let name = "n".repeat(50_000);
    limit(&server, Some(data_bytes(&server) + (32 << 20)));
    let mut hoarder = server.client();
    let refused = (0..6000).any(|n| !is_taken(&hoarder.call(&["WATCH", &format!("{n}:{name}")]).map(|r| r.text())));
    assert!(refused, "300 MB in 32 MB");
    for n in 0..20_000 {
        let command = ["LRANGE list 0 -1", "HGETALL hash", "INFO", "TYPE list", "SCAN 0", "CLIENT LIST"][n % 6];
        assert!(client.call(&command.split(' ').collect::<Vec<_>>()).is_ok(), "{command}: {}", server.log());
    }
    assert_eq!(hoarder.cmd("UNWATCH").text(), "OK");
    assert_eq!(client.cmd("DEL list hash").integer(), Some(2));
}

#[test]
fn an_allocation_that_is_refused_ends_the_process() {
    let mut server = Launch::varve().under(["env", "RUST_BACKTRACE=1"]).start().expect("a server");
    let mut client = server.client();
    limit(&server, Some(1 << 20));
    // The names of watched keys lie in ordinary memory.
    let name = "k".repeat(60_000);
    let ended = (0..5000).any(|n| client.call(&["WATCH", &format!("{n}:{name}")]).is_err());
    assert!(ended, "300 MB of watched keys in a process that gets no memory");
    assert_eq!(server.wait(END_LIMIT), Some(false), "it still runs: {}", server.log());
    assert!(server.log().contains("Out of memory: the system refuses"), "{}", server.log());
}
