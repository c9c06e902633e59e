//! Rewrites of an append-only file that fail, wait behind a save, or are given up, beside redis-server's: manifests and temporary
//! files. `rdb-key-save-delay` has a walk last as long as the test wants. Not here: data of rewrites under load (appendonly.rs).
//!
//! ```text
//!   a save, an order to keep a file, writes    --> one rewrite behind the save: all is in the file
//!   a rewrite, an order to keep no file        --> the rewrite ends, and nothing of it stays
//!   rewrites that fail, a file loaded again    --> the lines of redis-server's manifest
//! ```

#![forbid(unsafe_code)]

use std::fs;
use std::process::Command;

use varve_testkit::{Client, Launch, Server, until};
use varve_tests::appendonly::{digest, field, wait_field, wait_rewrite};
use varve_tests::folder::Folder;

/// A walk of a key lasts ten seconds: longer than the requests of a test that are to come while it goes on.
const SLOW: &str = "rdb-key-save-delay 10000000";

/// Has a rewrite run to its end, in which it succeeds or does not.
fn rewrite(client: &mut Client, status: &str) {
    let reply = client.cmd("BGREWRITEAOF").text();
    assert_eq!(reply, "Background append only file rewriting started");
    wait_rewrite(client);
    assert_eq!(field(client, "aof_last_bgrewrite_status"), status);
}

/// The temporary files below a folder.
fn temporary(folder: &Folder) -> Vec<String> {
    let folders = [folder.path().to_owned(), folder.path().join("appendonlydir")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("temp")).collect()
}

/// A file that is switched on beside a save gets its base behind it. Writes go on meanwhile, and all of them are in the file.
#[test]
fn issue_13_a_file_that_is_switched_on_beside_a_save_has_what_was_written_meanwhile() {
    let folder = Folder::new("beside-save");
    let launch = || Launch::varve().config(format!("dir {}", folder.path().display())).config("appendfsync always");
    let server = launch().config(SLOW).start().expect("the server starts");
    let mut client = server.client();
    client.cmd("SET before v");
    assert_eq!(client.cmd("BGSAVE").text(), "Background saving started");
    assert_eq!(client.cmd("CONFIG SET appendonly yes rdb-key-save-delay 0").text(), "OK");
    let info = client.cmd("INFO persistence").text();
    for line in ["rdb_bgsave_in_progress:1", "aof_rewrite_scheduled:1", "aof_rewrite_in_progress:0"] {
        assert!(info.lines().any(|found| found == line), "{line}: {info}");
    }
    assert_eq!(client.cmd("RPUSH meanwhile a b").integer(), Some(2), "writes go on");
    let mut count = 0;
    while field(&mut client, "rdb_bgsave_in_progress") == "1" {
        count += 1;
        assert_eq!(client.cmd("INCR count").integer(), Some(count));
    }
    wait_rewrite(&mut client);
    assert_eq!(field(&mut client, "aof_last_bgrewrite_status"), "ok");
    client.cmd("APPEND before w");
    let known = digest(&server);
    server.signal("KILL").expect("a signal");
    drop((client, server));
    let server = launch().config("appendonly yes").start().expect("the server starts");
    assert_eq!(digest(&server), known);
    assert_eq!(server.client().cmd("GET before").text(), "vw");
}

/// A rewrite ends when its file is switched off, long before its walk would, and takes its temporary files along.
#[test]
fn issue_13_a_file_that_is_switched_off_ends_its_rewrite_and_leaves_no_temporary_file() {
    for form in ["yes", "no"] {
        let folder = Folder::new(&format!("off-{form}"));
        let server = folder.start(Launch::varve().config(format!("aof-use-rdb-preamble {form}")));
        let mut client = server.client();
        assert_eq!(client.cmd("DEBUG POPULATE 100").text(), "OK");
        client.cmd(&format!("CONFIG SET {SLOW}"));
        let before = folder.manifest();
        client.cmd("BGREWRITEAOF");
        wait_field(&mut client, "aof_rewrite_in_progress", "1");
        until("the base grows under its temporary name", || !temporary(&folder).is_empty());
        assert_eq!(client.cmd("CONFIG SET appendonly no").text(), "OK");
        wait_rewrite(&mut client);
        assert_eq!(temporary(&folder), [""; 0], "{}", server.log());
        assert_eq!(folder.manifest().lines().next(), before.lines().next(), "the base is the old one");
        // It was given up and has not failed: the next one begins at once.
        assert_eq!(client.cmd("CONFIG SET appendonly yes rdb-key-save-delay 0").text(), "OK");
        wait_rewrite(&mut client);
        assert_eq!(field(&mut client, "aof_last_bgrewrite_status"), "ok");
        let known = digest(&server);
        drop((client, server));
        assert_eq!(digest(&folder.start(Launch::varve())), known);
    }
}

/// The manifests of Varve and of redis-server behind the same things.
fn manifests(name: &str, mut live: impl FnMut(&Server, &Folder, bool)) {
    let [ours, theirs] = [(Launch::varve(), true), (Launch::peer(), false)].map(|(launch, is_ours)| {
        let folder = Folder::new(&format!("{name}-{is_ours}"));
        let server = folder.start(launch.config("auto-aof-rewrite-percentage 0"));
        live(&server, &folder, is_ours);
        let known = digest(&server);
        drop(server);
        assert_eq!(digest(&folder.start(Launch::varve())), known, "{}", folder.manifest());
        folder.manifest()
    });
    assert_eq!(ours, theirs);
}

/// Numbers of files go on where they were when a file has been loaded again.
#[test]
fn issue_13_numbers_go_on_behind_a_file_that_is_loaded_again() {
    manifests("loaded", |server, folder, _| {
        let mut client = server.client();
        for number in 2..5 {
            client.cmd("INCR n");
            assert_eq!(client.cmd("DEBUG LOADAOF").text(), "OK");
            client.cmd("INCR n");
            rewrite(&mut client, "ok");
            let expected = format!(
                "file appendonly.aof.{number}.base.rdb seq {number} type b\n\
                 file appendonly.aof.{number}.incr.aof seq {number} type i\n"
            );
            assert_eq!(folder.manifest(), expected);
        }
        assert_eq!(client.cmd("GET n").text(), "6");
    });
}

/// The process of redis-server's rewrite.
fn child(server: &Server) -> String {
    let path = format!("/proc/{0}/task/{0}/children", server.pid());
    let mut found = String::new();
    until("a child is there", || {
        found = fs::read_to_string(&path).expect("a list of children").trim().to_owned();
        !found.is_empty()
    });
    found
}

/// Each rewrite that fails leaves the increment that it has begun, and the next one that succeeds takes all of them away.
#[test]
fn issue_13_each_rewrite_that_fails_leaves_an_increment_as_in_redis_server() {
    manifests("failing", |server, folder, is_ours| {
        let mut client = server.client();
        client.cmd("INCR n");
        rewrite(&mut client, "ok");
        let in_the_way = folder.path().join(format!("appendonlydir/temp-rewriteaof-bg-{}.rdb", server.pid()));
        if is_ours {
            // The base cannot take its temporary name.
            fs::create_dir_all(in_the_way.join("x")).expect("room");
        } else {
            client.cmd(&format!("CONFIG SET {SLOW}"));
        }
        for failures in 1..=3 {
            client.cmd("INCR n");
            if is_ours {
                rewrite(&mut client, "err");
            } else {
                client.cmd("BGREWRITEAOF");
                let killed = Command::new("kill").args(["-KILL", &child(server)]).status();
                assert!(killed.is_ok_and(|status| status.success()), "the child is killed");
                wait_rewrite(&mut client);
                assert_eq!(field(&mut client, "aof_last_bgrewrite_status"), "err");
            }
            client.cmd("INCR n");
            let increments =
                (2..=2 + failures).map(|seq| format!("file appendonly.aof.{seq}.incr.aof seq {seq} type i\n"));
            let expected = format!("file appendonly.aof.2.base.rdb seq 2 type b\n{}", increments.collect::<String>());
            // The thread of the file begins the increment, and not the client that asks.
            until(&expected, || folder.manifest() == expected);
        }
        assert_eq!(client.cmd("DEBUG LOADAOF").text(), "OK");
        assert_eq!(client.cmd("GET n").text(), "7", "each increment counts once");
        let _ = fs::remove_dir_all(&in_the_way);
        client.cmd("CONFIG SET rdb-key-save-delay 0");
        rewrite(&mut client, "ok");
        assert!(folder.manifest().ends_with("file appendonly.aof.6.incr.aof seq 6 type i\n"), "{}", folder.manifest());
        wait_removed(folder);
    });
}

/// Waits until the folder has a manifest, a base and an increment: files that were replaced are removed later.
fn wait_removed(folder: &Folder) {
    let dir = folder.path().join("appendonlydir");
    until("replaced files are removed", || fs::read_dir(&dir).expect("a folder").count() == 3);
}
