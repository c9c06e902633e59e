//! The end that nobody asked for, as the machine sees it: no handler of a signal waits for memory or a lock, and behind the
//! report is the core, without data. What a report says: server/tests/process.rs.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use varve_testkit::skip::skipped;
use varve_testkit::{Client, Launch, Server, until};

const SECRET: &str = "a-value-that-no-core-may-have";
/// The words of the library about a call of a handler (shim/handler.c).
const NOTE: &str = "in a handler of a signal: ";

/// The library that notes calls of handlers, built for this run.
fn library() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim/handler.c");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("handler-{}.so", std::process::id()));
    let status = Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).arg(&path).arg(source).status();
    assert!(status.expect("a C compiler").success(), "the library does not compile");
    path
}

/// Sends a command that ends the server, and waits for that.
fn end_by(server: &mut Server, mut client: Client, words: &str) {
    client.queue(&words.split(' ').collect::<Vec<_>>());
    client.flush().expect("sent");
    assert_eq!(server.wait(Duration::from_secs(60)), Some(false), "{words}: it has not ended in order");
}

#[test]
fn handlers_ask_for_no_memory_and_take_no_lock() {
    let library = library();
    let launch = || {
        let words = ["env".to_owned(), format!("LD_PRELOAD={}", library.display())];
        Launch::varve().under(words).config("io-threads 1").start().expect("it starts")
    };
    // One comes in the middle of a command, one from elsewhere to a thread of the system's choice.
    for by_command in [true, false] {
        let mut server = launch();
        let mut client = server.client();
        (0..1000).for_each(|n| drop(client.cmd(&format!("SET key:{n} value"))));
        if by_command {
            end_by(&mut server, client, "DEBUG SEGFAULT");
        } else {
            server.signal("BUS").expect("sent");
            assert_eq!(server.wait(Duration::from_secs(60)), Some(false), "it has not ended in order");
        }
        let log = server.log();
        assert!(log.contains("=== VARVE BUG REPORT END ===") && log.contains("# Keyspace"), "{log}");
        assert!(!log.contains(NOTE), "{log}");
    }
    // The watchdog's alarm comes to a thread in the middle of its work, many times.
    let server = launch();
    let mut client = server.client();
    client.cmd("CONFIG SET watchdog-period 200");
    client.cmd("DEBUG SLEEP 1");
    until("the watchdog has shown a stack", || server.log().contains("--- WATCHDOG TIMER EXPIRED ---"));
    for _ in 0..50 {
        server.signal("ALRM").expect("sent");
        (0..20).for_each(|n| drop(client.cmd(&format!("SET key:{n} value"))));
    }
    let log = server.log();
    assert!(log.matches("Received SIGALRM").count() > 10, "{log}");
    assert!(!log.contains(NOTE), "{log}");
    let _ = fs::remove_file(library);
}

/// The kernel writes a core into the working directory, which the server has made its `dir`, where its pattern is a plain name.
#[test]
fn behind_a_report_is_the_core_without_data() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let name = pattern.trim();
    if name.is_empty() || name.contains(['|', '/', '%']) {
        skipped(format_args!("cores of this machine are not files of the working directory: {name}"));
        return;
    }
    for (setting, has_data) in [("no", false), ("yes", true)] {
        let words = ["sh", "-c", "ulimit -c unlimited && exec \"$0\" \"$@\""];
        let launch = Launch::varve().under(words).config(format!("core-dumps-with-data {setting}"));
        let mut server = launch.start().expect("it starts");
        let mut client = server.client();
        assert_eq!(client.call(&["SET", "key", SECRET]).expect("a reply").text(), "OK");
        let folder = client.cmd("CONFIG GET dir").elements().expect("a pair")[1].text();
        // Buffers of requests and replies are not the data: others take the place of what was in them.
        (0..200).for_each(|n| drop(client.cmd(&format!("SET other:{n} {}", "x".repeat(100)))));
        end_by(&mut server, client, "DEBUG SEGFAULT");
        assert!(server.log().contains("=== VARVE BUG REPORT END ==="), "{}", server.log());
        let files = fs::read_dir(&folder).expect("its folder").flatten().map(|entry| entry.path());
        let core = files.filter(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)));
        let core = core.max().unwrap_or_else(|| panic!("no core in {folder}"));
        let search =
            |words: &str| Command::new("grep").args(["-qaF", words]).arg(&core).status().expect("grep").success();
        assert!(search("varve-server"), "it is a core of the server");
        assert_eq!(search(SECRET), has_data, "core-dumps-with-data {setting}");
        fs::remove_file(core).expect("the core goes");
    }
}
