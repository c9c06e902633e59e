//! The append-only file beside redis-server's: each loads the folder of the other. Not here: kills (kills.rs).
//!
//! ```text
//!   random commands --> one server --folder--> the other --> equal DEBUG DIGEST, both ways
//! ```

#![forbid(unsafe_code)]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::Command;
use std::thread;
use std::time::Duration;
use varve_testkit::{Client, Launch, Random, RespValue, Server, seed, until};
use varve_tests::appendonly::{digest, field, wait_field, wait_rewrite};
use varve_tests::fill::fill;
use varve_tests::folder::Folder;

#[test]
fn each_server_loads_the_other_ones_folder() {
    let folder = Folder::new("both");
    let first = seed::seed("append-only files of both servers");
    let launches = [Launch::varve(), Launch::peer(), Launch::varve(), Launch::peer(), Launch::varve()];
    let mut known: Option<String> = None;
    for (round, launch) in (0..).zip(launches) {
        let server = folder.start(launch);
        if let Some(known) = &known {
            assert_eq!(*known, digest(&server), "round {round}");
        }
        fill(&server, first + round, 2000);
        if round % 2 == 1 {
            // A base of its own.
            server.client().cmd("BGREWRITEAOF");
        }
        server.client().cmd("PERSIST nothing");
        known = Some(digest(&server));
    }
}

/// A script or a transaction that meets very many due fields would remove them all at once, the others kept out: those of hashes that
/// it names go in front of it, some at a time.
#[test]
fn issue_11_scripts_and_transactions_come_behind_the_fields_that_were_due() {
    let script = ["EVAL", "redis.call('HSET', KEYS[1], 'more', 1) return redis.call('HLEN', KEYS[1])", "1", "hash"];
    comes_behind_due_fields(&[&script]);
    // A command of the server's: it runs the transaction.
    let set = ["HSET", "hash", "more", "1"];
    comes_behind_due_fields(&[&["MULTI"], &["CONFIG", "GET", "save"], &set, &["HLEN", "hash"], &["EXEC"]]);
}

fn comes_behind_due_fields(commands: &[&[&str]]) {
    let folder = Folder::new("due-fields");
    let server = folder.start(Launch::varve());
    let mut client = server.client();
    client.cmd("DEBUG SET-ACTIVE-EXPIRE 0");
    let names: Vec<String> = (0..20_000).map(|n| format!("field:{n}")).collect();
    client.cmd(&format!("HSET hash stays 1 {} v", names.join(" v ")));
    client.cmd(&format!("HPEXPIRE hash 1 FIELDS {} {}", names.len(), names.join(" ")));
    thread::sleep(Duration::from_millis(100));
    let replies: Vec<RespValue> = commands.iter().map(|words| client.call(words).expect("a reply")).collect();
    assert!(!replies.iter().any(RespValue::is_error), "{replies:?}");
    assert_eq!(client.cmd("HLEN hash").integer(), Some(2));
    assert!(!client.cmd("WAITAOF 1 0 10000").is_error());
    let told = fs::read_to_string(folder.last_increment()).expect("an increment");
    let places: Vec<usize> = told.match_indices("HDEL").map(|(at, _)| at).collect();
    let head = &told[..told.find("more").expect("the field that was set")];
    assert!(places.len() > 3 && *places.last().expect("some") < head.len(), "{} HDELs", places.len());
    assert_eq!(head.matches("MULTI").count(), head.matches("EXEC").count(), "its unit has one command");
}

/// `appenddirname` and `appendfilename` name the folder and the beginning of each file's name, as in redis-server.
#[test]
fn issue_13_folder_and_files_have_the_names_that_are_set() {
    let folder = Folder::new("names");
    let named =
        |launch: Launch| folder.start(launch.config("appenddirname parts").config("appendfilename effects.log"));
    let mut known = None;
    for launch in [Launch::varve(), Launch::peer(), Launch::varve()] {
        let server = named(launch);
        if let Some(known) = &known {
            assert_eq!(*known, digest(&server));
        }
        server.client().cmd("RPUSH list a b c");
        let files: Vec<String> = fs::read_dir(folder.path().join("parts"))
            .expect("the folder that was named")
            .map(|file| file.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        assert!(files.iter().all(|name| name.starts_with("effects.log.")), "{files:?}");
        assert!(files.iter().any(|name| name == "effects.log.manifest"), "{files:?}");
        assert!(!folder.path().join("appendonlydir").exists());
        known = Some(digest(&server));
    }
    let refused = Launch::varve().config("appendfilename a/b").start();
    let error = refused.expect_err("a path is no name").to_string();
    assert!(error.contains("appendfilename can't be a path, just a filename"), "{error}");
}

#[test]
fn a_torn_end_is_cut_off_and_damage_is_refused() {
    let folder = Folder::new("torn");
    let server = folder.start(Launch::varve());
    fill(&server, seed::seed("a torn append-only file"), 300);
    let known = digest(&server);
    drop(server);
    let append = |bytes: &[u8]| {
        let mut file = OpenOptions::new().append(true).open(folder.last_increment()).expect("an increment");
        file.write_all(bytes).expect("room");
    };
    for torn in
        [&b"*3\r\n$3\r\nSET\r\n$1\r\nk"[..], &[0; 5000], b"*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"]
    {
        append(torn);
        let refused = Launch::varve().config(format!("dir {}", folder.path().display()));
        let refused = refused.config("appendonly yes").config("aof-load-truncated no").start();
        let error = refused.expect_err("a torn end is not taken").to_string();
        assert!(error.contains("Unexpected end of file reading the append only file"), "{error}");
        let server = folder.start(Launch::varve());
        assert_eq!(digest(&server), known);
        assert!(server.log().contains("loaded anyway because aof-load-truncated is enabled"), "{}", server.log());
    }
    append(b"*3\r\n$3\r\nSET\r\n$1\r\nkx\r\n$1\r\nv\r\n");
    let error = Launch::varve().config(format!("dir {}", folder.path().display())).config("appendonly yes").start();
    let error = error.expect_err("damage is not taken").to_string();
    assert!(error.contains("Bad file format reading the append only file"), "{error}");
}

/// Writes the folder of an append-only file that has these commands.
fn write_increment<W: AsRef<[u8]>>(folder: &Folder, commands: &[&[W]]) {
    let dir = folder.path().join("appendonlydir");
    fs::create_dir_all(&dir).expect("a folder");
    fs::write(dir.join("appendonly.aof.manifest"), "file appendonly.aof.1.incr.aof seq 1 type i\n").expect("room");
    let mut bytes = Vec::new();
    for words in commands {
        write!(bytes, "*{}\r\n", words.len()).expect("memory");
        for word in *words {
            let word = word.as_ref();
            write!(bytes, "${}\r\n", word.len()).expect("memory");
            bytes.extend([word, b"\r\n"].concat());
        }
    }
    fs::write(dir.join("appendonly.aof.1.incr.aof"), bytes).expect("room");
}

/// Nobody knows which files count, so none is loaded, as in redis-server; with the manifest found again nothing is lost.
#[test]
fn files_without_their_manifest_are_kept() {
    let folder = Folder::new("unlisted");
    let server = folder.start(Launch::varve());
    assert_eq!(server.client().cmd("SET k v").text(), "OK");
    drop(server);
    let [manifest, aside] = ["appendonlydir/appendonly.aof.manifest", "aside"].map(|name| folder.path().join(name));
    fs::rename(&manifest, &aside).expect("it is there");
    let server = folder.start(Launch::varve());
    assert_eq!(server.client().cmd("DBSIZE"), RespValue::Integer(0));
    assert_eq!(server.client().cmd("SET other v").text(), "OK");
    drop(server);
    fs::rename(&aside, &manifest).expect("it is there");
    let server = folder.start(Launch::varve());
    assert_eq!(server.client().cmd("GET k").text(), "v");
}

/// The change that the command made when it was written would be missing.
#[test]
fn a_refused_command_of_a_file_ends_the_start() {
    let folder = Folder::new("refused");
    write_increment(&folder, &[&["SET", "k", "v"], &["LPUSH", "l", "a"], &["LPUSH", "k", "a"], &["SET", "k", "w"]]);
    let launch = Launch::varve().config(format!("dir {}", folder.path().display())).config("appendonly yes");
    let error = launch.start().expect_err("the start ends").to_string();
    assert!(error.contains("The command 'LPUSH' at offset 56 was refused (WRONGTYPE"), "{error}");
}

/// Old servers wrote scripts and transactions as they were asked for, and some of these fail in the middle: they fail again, and
/// what they did before stays done. So it is in redis-server with transactions; 7.0.15 crashes at the error of a script.
#[test]
fn scripts_and_transactions_that_fail_in_a_file_are_passed_over() {
    let folder = Folder::new("forgiven");
    let script = "redis.call('SET', KEYS[1], 'done'); return redis.call('LPUSH', KEYS[1], 'x')";
    let commands: [&[&str]; 8] = [
        &["EVAL", script, "1", "a"],
        &["SET", "k", "v"],
        &["MULTI"],
        &["SET", "b", "done"],
        &["LPUSH", "b", "x"],
        &["SET", "c", "done"],
        &["EXEC"],
        &["APPEND", "k", "w"],
    ];
    let kept = |commands: &[&[&str]], launch: Launch| {
        write_increment(&folder, commands);
        let server = folder.start(launch);
        let mut client = server.client();
        assert_eq!(["k", "b", "c"].map(|key| client.cmd(&format!("GET {key}")).text()), ["vw", "done", "done"]);
        (client.cmd("GET a").text(), server.log())
    };
    let (a, log) = kept(&commands, Launch::varve());
    assert_eq!(a, "done");
    let says = "2 scripts and transactions of the append only file appendonly.aof.1.incr.aof were answered by errors";
    assert!(log.contains(says) && log.contains("the command 'EVAL' at offset 0 ("), "{log}");
    kept(&commands[1..], Launch::peer());
}

/// A command that is not known ends the start, as it does in redis-server.
#[test]
fn an_unknown_command_of_a_file_ends_the_start() {
    let folder = Folder::new("unknown");
    for launch in [Launch::varve(), Launch::peer()] {
        write_increment(&folder, &[&["SET", "k", "v"][..], &["JSON.SET", "k", "$", "1"]]);
        let launch = launch.config(format!("dir {}", folder.path().display())).config("appendonly yes");
        let error = launch.start().expect_err("the start ends").to_string();
        assert!(error.contains("Unknown command 'JSON.SET'"), "{error}");
    }
}

/// A time that was to come when a command was written may be over when it is done again: what follows in the file finds the
/// key all the same.
#[test]
fn a_key_whose_time_is_over_is_there_for_the_commands_behind() {
    let folder = Folder::new("overdue");
    let server = Launch::varve().start().expect("the server starts");
    let mut client = server.client();
    client.cmd("SET short v");
    client.cmd(&format!("RPUSH long {}", "element ".repeat(20_000)));
    let mut dump = |key: &str| client.cmd(&format!("DUMP {key}")).bytes().expect("a payload").to_vec();
    let (short, long) = (dump("short"), dump("long"));
    let commands: [&[&[u8]]; 7] = [
        &[b"SET", b"set", b"v", b"PXAT", b"1000"],
        &[b"PERSIST", b"set"],
        &[b"RESTORE", b"restored", b"1000", &short, b"ABSTTL"],
        &[b"RENAME", b"restored", b"renamed"],
        &[b"PERSIST", b"renamed"],
        &[b"RESTORE", b"long", b"1000", &long, b"ABSTTL"],
        &[b"PERSIST", b"long"],
    ];
    write_increment(&folder, &commands);
    drop((client, server));
    let server = folder.start(Launch::varve());
    assert_eq!(server.client().cmd("EXISTS set renamed long").integer(), Some(3));
}

/// No limit holds while a file is loaded, also none that is set meanwhile; behind the loading it holds.
#[test]
fn limits_hold_behind_the_loading() {
    let folder = Folder::new("limits");
    let value = "x".repeat(60_000);
    let keys: Vec<String> = (0..300).map(|n| format!("k{n}")).collect();
    let commands: Vec<[&str; 3]> = keys.iter().map(|key| ["SET", key, &value]).collect();
    write_increment(&folder, &commands.iter().map(|words| &words[..]).collect::<Vec<_>>());
    let launch = Launch::varve()
        .config(format!("dir {}", folder.path().display()))
        .config("appendonly yes")
        .config("key-load-delay 200000")
        .config("maxmemory 1mb")
        .config("maxmemory-policy allkeys-lru");
    let server = launch.start_loading().expect("the server starts");
    let mut client = server.client();
    assert!(client.cmd("GET k1").text().starts_with("LOADING"), "it loads still");
    assert_eq!(client.cmd("CONFIG SET maxmemory 2mb key-load-delay 0").text(), "OK");
    while client.cmd("PING").text().starts_with("LOADING") {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(server.log().contains("DB loaded from incr file"), "{}", server.log());
    assert_eq!(client.cmd("CONFIG GET maxmemory").elements().expect("a pair")[1].text(), "2097152");
    // The limit holds again: something has to go now.
    while client.cmd("DBSIZE").integer() >= Some(300) {
        client.cmd("SET more v");
    }
}

/// CONFIG SET appendonly is refused while the file is loaded: redis-server refuses it too.
#[test]
fn a_file_that_is_loaded_is_not_switched_off() {
    let folder = Folder::new("kept");
    write_increment(&folder, &[&["SET", "k", "v"]]);
    let launch = Launch::varve().config("io-threads 1").config("key-load-delay 500000");
    let launch = launch.config("enable-protected-configs yes");
    let launch = launch.config(format!("dir {}", folder.path().display())).config("appendonly yes");
    let server = launch.start_loading().expect("the server starts");
    let mut client = server.client();
    assert!(client.cmd("GET k").text().starts_with("LOADING"), "it loads still");
    for refused in ["appendonly no key-load-delay 0", "dir .", "repl-diskless-load swapdb"] {
        let reply = client.cmd(&format!("CONFIG SET {refused}")).text();
        assert_eq!(reply, "LOADING Redis is loading the dataset in memory", "{refused}");
    }
    // DEBUG is answered meanwhile, but for what would make keys that are in the file.
    for refused in ["POPULATE 10 k", "RELOAD", "RELOAD NOSAVE NOFLUSH MERGE"] {
        let reply = client.cmd(&format!("DEBUG {refused}")).text();
        assert_eq!(reply, "LOADING Redis is loading the dataset in memory", "{refused}");
    }
    assert_eq!(client.cmd("DEBUG SLEEP 0").text(), "OK");
    assert_eq!(client.cmd("CONFIG SET key-load-delay 0").text(), "OK");
    while client.cmd("PING").text().starts_with("LOADING") {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(client.cmd("SET behind v").text(), "OK");
    assert_eq!(client.cmd("GET k").text(), "v", "{}", server.log());
    drop((client, server));
    let file = fs::read_to_string(folder.last_increment()).expect("text");
    assert!(file.contains("behind"), "{file}");
}

/// Whoever switches a file on that has no folder is told so, as by redis-server, and everybody goes on.
#[test]
fn a_file_without_a_folder_is_not_switched_on() {
    for launch in [Launch::varve(), Launch::peer()] {
        let folder = Folder::new("nowhere");
        let in_the_way = folder.path().join("appendonlydir");
        fs::write(&in_the_way, "no folder").expect("room");
        let launch = launch.config(format!("dir {}", folder.path().display())).config("appendfsync always");
        let server = launch.start().expect("the server starts");
        let mut client = server.client();
        let refused = client.cmd("CONFIG SET appendonly yes").text();
        let reason = "Unable to turn on AOF. Check server logs.";
        assert_eq!(refused, format!("ERR CONFIG SET failed (possibly related to argument 'appendonly') - {reason}"));
        assert_eq!(client.cmd("CONFIG GET appendonly").elements().expect("a pair")[1].text(), "no");
        assert_eq!(client.cmd("SET k v").text(), "OK");
        fs::remove_file(&in_the_way).expect("it is there");
        assert_eq!(client.cmd("CONFIG SET appendonly yes").text(), "OK");
        assert_eq!(client.cmd("SET k w").text(), "OK");
        wait_rewrite(&mut client);
    }
}

/// Runs random commands while this client has rewrites run.
fn fill_while(server: &Server, seed: u64, work: impl FnOnce(&mut Client)) {
    thread::scope(|scope| {
        let filler = scope.spawn(|| fill(server, seed, 4000));
        work(&mut server.client());
        filler.join().expect("it fills");
    });
}

#[test]
fn a_base_and_what_comes_behind_it_are_all_data() {
    let folder = Folder::new("rewrite");
    let first = seed::seed("rewrites of an append-only file");
    let server = folder.start(Launch::varve());
    let mut client = server.client();
    for (round, form) in (0..).zip(["yes", "no", "yes", "no"]) {
        client.cmd(&format!("CONFIG SET aof-use-rdb-preamble {form}"));
        fill_while(&server, first + round, |client| {
            for _ in 0..3 {
                client.cmd("BGREWRITEAOF");
                wait_rewrite(client);
            }
        });
        wait_rewrite(&mut client);
        assert_eq!(field(&mut client, "aof_last_bgrewrite_status"), "ok");
        let known = digest(&server);
        assert_eq!(client.cmd("DEBUG LOADAOF").text(), "OK");
        assert_eq!(digest(&server), known, "round {round}");
    }
    // One that a FLUSHALL among the random commands has ended begins anew.
    assert!(field(&mut client, "aof_rewrites").parse::<u64>().expect("a number") >= 12);
    let names = fs::read_dir(folder.path().join("appendonlydir")).expect("a folder").count();
    assert_eq!(names, 3, "a manifest, a base, an increment");
    let known = digest(&server);
    drop((client, server));
    assert_eq!(digest(&folder.start(Launch::peer())), known, "redis-server loads it");
    assert_eq!(digest(&folder.start(Launch::varve())), known);
}

#[test]
fn the_file_is_switched_on_and_off_while_the_server_runs() {
    let folder = Folder::new("switch");
    let first = seed::seed("switching an append-only file on and off");
    let launch = || Launch::varve().config(format!("dir {}", folder.path().display())).config("appendfsync always");
    let server = launch().start().expect("the server starts");
    let mut client = server.client();
    fill(&server, first, 1000);
    for round in 1..4 {
        fill_while(&server, first + round, |client| {
            assert_eq!(client.cmd("CONFIG SET appendonly yes").text(), "OK");
            wait_rewrite(client);
            client.cmd("CONFIG SET appendonly no");
            client.cmd("CONFIG SET appendonly yes");
            wait_rewrite(client);
        });
        assert_eq!(field(&mut client, "aof_last_bgrewrite_status"), "ok");
        let known = digest(&server);
        client.cmd("DEBUG LOADAOF");
        assert_eq!(digest(&server), known, "round {round}");
        client.cmd("CONFIG SET appendonly no");
        client.cmd("SET unkept v");
    }
    client.cmd("CONFIG SET appendonly yes");
    wait_rewrite(&mut client);
    // In a transaction a rewrite is scheduled: it begins behind it.
    for line in ["MULTI", "SET k v", "BGREWRITEAOF"] {
        client.cmd(line);
    }
    let replies = client.cmd("EXEC");
    let scheduled = &replies.elements().expect("the replies")[1];
    assert_eq!(scheduled.text(), "Background append only file rewriting scheduled");
    wait_rewrite(&mut client);
    client.cmd("SET kept v");
    let known = digest(&server);
    server.signal("KILL").expect("a signal");
    drop((client, server));
    let server = launch().config("appendonly yes").start().expect("the server starts");
    assert_eq!(digest(&server), known, "what was acknowledged is there");
}

#[test]
fn the_file_is_rewritten_when_it_has_grown() {
    let folder = Folder::new("growth");
    let server = folder.start(Launch::varve().config("auto-aof-rewrite-percentage 0"));
    let mut client = server.client();
    let value = "x".repeat(1000);
    for _ in 0..100 {
        client.cmd(&format!("SET k {value}"));
    }
    assert_eq!(field(&mut client, "aof_rewrites"), "0");
    client.cmd("CONFIG SET auto-aof-rewrite-percentage 50 auto-aof-rewrite-min-size 50kb");
    wait_field(&mut client, "aof_rewrites", "1");
    wait_rewrite(&mut client);
    let bytes: u64 = field(&mut client, "aof_current_size").parse().expect("a number");
    assert!(bytes < 10_000, "{bytes} bytes are left");
    assert_eq!(field(&mut client, "aof_base_size"), bytes.to_string());
}

#[test]
fn a_rewrite_that_fails_changes_nothing() {
    let folder = Folder::new("failing");
    let server = folder.start(Launch::varve().config("auto-aof-rewrite-percentage 0"));
    let mut client = server.client();
    fill(&server, seed::seed("rewrites that fail"), 500);
    // The base cannot take its temporary name.
    let in_the_way = folder.path().join(format!("appendonlydir/temp-rewriteaof-bg-{}.rdb", server.pid()));
    fs::create_dir_all(in_the_way.join("x")).expect("room");
    for failures in 1..4 {
        client.cmd("BGREWRITEAOF");
        wait_rewrite(&mut client);
        assert_eq!(field(&mut client, "aof_last_bgrewrite_status"), "err");
        client.cmd(&format!("SET failures {failures}"));
    }
    fs::remove_dir_all(&in_the_way).expect("it is there");
    // FLUSHALL and a slow walk: the rewrite begins anew.
    client.cmd("CONFIG SET rdb-key-save-delay 10000000");
    let known = digest(&server);
    client.cmd("BGREWRITEAOF");
    assert_eq!(client.cmd("BGREWRITEAOF").text(), "ERR Background append only file rewriting already in progress");
    let text = client.cmd("BGSAVE").text();
    assert!(text.starts_with("ERR Another child process is active (AOF?)"), "{text}");
    assert_eq!(client.cmd("DEBUG LOADAOF").text(), "OK");
    assert_eq!(digest(&server), known);
    client.cmd("CONFIG SET rdb-key-save-delay 0");
    client.cmd("FLUSHALL");
    client.cmd("SET k v");
    wait_rewrite(&mut client);
    assert_eq!(field(&mut client, "aof_last_bgrewrite_status"), "ok");
    let known = digest(&server);
    drop((client, server));
    assert_eq!(digest(&folder.start(Launch::varve())), known);
}

/// All workers follow each switch, whoever asked for it, and the last one holds.
#[test]
fn issue_13_workers_that_follow_switches_together_agree() {
    let folder = Folder::new("together");
    let first = seed::seed("clients that switch an append-only file together");
    let launch = || Launch::varve().config("io-threads 3").config(format!("dir {}", folder.path().display()));
    let server = launch().start().expect("the server starts");
    fill_while(&server, first, |client| {
        thread::scope(|scope| {
            for nth in 0..6 {
                let mut other = server.client();
                scope.spawn(move || {
                    let mut random = Random::new(first + nth);
                    for _ in 0..25 {
                        let wanted = if random.one_in(2) { "yes" } else { "no" };
                        assert_eq!(other.cmd(&format!("CONFIG SET appendonly {wanted}")).text(), "OK");
                        (0..random.below(20)).for_each(|_| _ = other.cmd("PING"));
                    }
                });
            }
        });
        assert_eq!(client.cmd("CONFIG SET appendonly yes").text(), "OK");
        wait_field(client, "aof_enabled", "1");
        wait_rewrite(client);
    });
    let known = digest(&server);
    assert_eq!(server.client().cmd("DEBUG LOADAOF").text(), "OK");
    assert_eq!(digest(&server), known, "the file has all");
    // A rewrite that a switch has ended is none that failed: the next one need not wait for minutes.
    assert!(!server.log().contains("terminated with error"), "{}", server.log());
    assert_eq!(server.client().cmd("CONFIG SET appendonly no").text(), "OK");
    drop(server);
    assert_eq!(digest(&folder.start(launch())), known, "the folder has all");
}

/// A file is loaded again at any moment of a rewrite: before its instant, while it is written, when its base takes its place.
#[test]
fn issue_13_loading_again_beside_a_rewrite_loses_nothing() {
    let folder = Folder::new("beside");
    let first = seed::seed("loading an append-only file beside rewrites");
    let server = folder.start(Launch::varve());
    let (mut client, mut random) = (server.client(), Random::new(first));
    for round in 0..15 {
        fill(&server, first + round, 200);
        let known = digest(&server);
        client.cmd("BGREWRITEAOF");
        (0..random.below(60)).for_each(|_| _ = client.cmd("PING"));
        assert_eq!(client.cmd("DEBUG LOADAOF").text(), "OK", "round {round}: {}", server.log());
        assert_eq!(digest(&server), known, "round {round}");
    }
    wait_rewrite(&mut client);
    let known = digest(&server);
    drop((client, server));
    assert_eq!(digest(&folder.start(Launch::varve())), known);
}

/// Files that a rewrite has replaced stay, listed as history, while `aof-disable-auto-gc` is on, and go when it is off.
#[test]
fn replaced_files_stay_while_they_are_not_to_be_removed() {
    let folder = Folder::new("history");
    let server = folder.start(Launch::varve().config("aof-disable-auto-gc yes"));
    let mut client = server.client();
    let dir = folder.path().join("appendonlydir");
    let history = || {
        let manifest = fs::read_to_string(dir.join("appendonly.aof.manifest")).expect("a manifest");
        let lines = manifest.lines().filter(|line| line.ends_with(" type h"));
        lines.map(|line| dir.join(line.split(' ').nth(1).expect("a name"))).collect::<Vec<_>>()
    };
    client.cmd("SET k v");
    client.cmd("BGREWRITEAOF");
    wait_rewrite(&mut client);
    let kept = history();
    assert!(kept.len() >= 2 && kept.iter().all(|path| path.exists()), "{kept:?}");
    client.cmd("CONFIG SET aof-disable-auto-gc no");
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !history().is_empty() || kept.iter().any(|path| path.exists()) {
        assert!(std::time::Instant::now() < end, "{:?}", history());
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.cmd("GET k").text(), "v");
}

/// Commands of many clients beside rewrites are in the base or behind it, and none of them twice.
#[test]
fn issue_13_increments_beside_rewrites_count_once() {
    const CLIENTS: i64 = 20;
    const EACH: i64 = 1000;
    for form in ["yes", "no"] {
        let folder = Folder::new(&format!("counts-{form}"));
        let launch = || Launch::varve().config(format!("aof-use-rdb-preamble {form}"));
        let server = folder.start(launch());
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = server.client();
                    (0..EACH).for_each(|_| _ = client.cmd("INCR foo"));
                });
            }
            let mut client = server.client();
            while client.cmd("INCRBY foo 0").integer() < Some(CLIENTS * EACH) {
                client.cmd("BGREWRITEAOF");
                wait_rewrite(&mut client);
            }
        });
        drop(server);
        assert_eq!(folder.start(launch()).client().cmd("GET foo").text(), (CLIENTS * EACH).to_string());
    }
}

/// A server that ends while the disk takes nothing says how much its file lacks. The system lets no file grow beyond 64 KB
/// here.
#[test]
fn issue_13_a_server_that_ends_on_a_full_disk_says_so() {
    let folder = Folder::new("full");
    let limited = ["bash", "-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "_"];
    let mut server = folder.start(Launch::varve().under(limited).config("save \"\""));
    let mut client = server.client();
    let value = vec![b'v'; 20_000];
    let refused = (0..10_000).map(|n| client.call(&[b"SET", format!("k{n}").as_bytes(), &value]).expect("a reply"));
    let refusal = refused.into_iter().find(RespValue::is_error).expect("writes are refused in the end").text();
    assert!(refusal.starts_with("MISCONF Errors writing to the AOF file: File too large"), "{refusal}");
    server.signal("TERM").expect("a signal");
    assert_eq!(server.wait(Duration::from_secs(20)), Some(true), "{}", server.log());
    let log = server.log();
    let lost = log.split("The append-only file ends without its last ").nth(1).unwrap_or_else(|| panic!("{log}"));
    let lost: u64 = lost.split(' ').next().and_then(|bytes| bytes.parse().ok()).expect("a number");
    assert!(lost > 0 && log.contains("which the disk has not taken"), "{log}");
}

/// Under `always`, a writer whose effect the disk has no room for waits; others are refused, and reads of other shards are served.
/// When there is room again, the writer has its answer and all goes on. The system lets no file grow beyond 64 KB meanwhile.
#[test]
fn a_full_disk_has_a_writer_wait_and_recovers_by_itself() {
    let folder = Folder::new("room");
    let limited = ["bash", "-c", "trap '' XFSZ; ulimit -S -f 64; exec \"$@\"", "_"];
    let launch = Launch::varve().config("save \"\"").config("appendfsync always");
    let server = folder.start(launch.clone().under(limited));
    let (mut other, mut writer) = (server.client(), server.client());
    (0..8).for_each(|n| assert_eq!(other.cmd(&format!("SET small{n} v")).text(), "OK"));
    // It is larger than the room, and is in the journal before the disk has said so.
    writer.queue(&[&b"SET"[..], b"large", &vec![b'v'; 200_000]]);
    writer.flush().expect("it is sent");
    until("the disk is full", || other.cmd("INFO persistence").text().contains("aof_last_write_status:err"));
    let refusal = other.cmd("SET another v").text();
    assert!(refusal.starts_with("MISCONF Errors writing to the AOF file: File too large"), "{refusal}");
    // A key of the shard that the large one is in has to wait as well.
    let served = (0..8).filter(|n| {
        let mut reader = server.client();
        reader.set_timeout(Duration::from_millis(300)).expect("a limit");
        reader.call(&["GET", &format!("small{n}")]).is_ok_and(|reply| reply.text() == "v")
    });
    assert!(served.count() >= 6);
    writer.set_timeout(Duration::from_millis(300)).expect("a limit");
    assert!(writer.read().is_err(), "what is not in the file is not acknowledged");

    let pid = server.pid().to_string();
    let room = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:unlimited"]).status();
    assert!(room.expect("util-linux").success(), "prlimit");
    writer.set_timeout(Duration::from_secs(20)).expect("a limit");
    assert_eq!(writer.read().expect("the answer that waited").text(), "OK");
    until("writes are taken", || other.cmd("SET another v").text() == "OK");
    assert!(server.log().contains("AOF write error looks solved"));
    server.signal("KILL").expect("a signal");
    drop(server);
    let server = folder.start(launch);
    let mut client = server.client();
    assert_eq!(client.cmd("STRLEN large"), RespValue::Integer(200_000));
    assert_eq!((client.cmd("GET small7").text(), client.cmd("GET another").text()), ("v".into(), "v".into()));
}

/// A script of an old file may run for long: nobody ends it, and clients are told that data is being loaded.
#[test]
fn a_slow_script_of_a_file_is_waited_for() {
    let folder = Folder::new("slow");
    let script = "redis.call('SET', KEYS[1], 'y') for i = 1, ARGV[1] do redis.call('PING') end";
    let busy = |rounds: u32, launch: Launch| {
        write_increment(&folder, &[&["EVAL", script, "1", "x", &rounds.to_string()][..]]);
        let launch = launch.config(format!("dir {}", folder.path().display())).config("appendonly yes");
        let server = launch.config("busy-reply-threshold 1").start_loading().expect("it listens");
        let mut client = server.client();
        let mut told = false;
        until("it is loaded", || {
            let reply = client.cmd("GET x").text();
            told |= reply.starts_with("LOADING");
            assert!(reply == "y" || reply.starts_with("LOADING"), "{reply}");
            reply == "y"
        });
        told
    };
    // The rounds of the script grow until a client sees the server load.
    let mut rounds = 100_000;
    while !busy(rounds, Launch::varve()) {
        rounds *= 4;
        assert!(rounds < 100_000_000, "nobody was told that data is being loaded");
    }
}

/// Large arguments stand in the file as they were, whatever has become of their keys.
#[test]
fn issue_13_large_arguments_are_in_the_file() {
    let folder = Folder::new("large");
    let server = folder.start(Launch::varve().config("appendfsync always"));
    let mut client = server.client();
    let value = |byte: u8, len: usize| vec![byte; len];
    let (a, b, c) = (value(b'a', 3 << 20), value(b'b', 9 << 20), value(b'c', 300 << 10));
    let words: [&[&[u8]]; 8] = [
        &[b"SET", b"one", &a, b"EX", b"10000"],
        &[b"MSET", b"two", &b, b"three", &a, b"few", b"x"],
        &[b"APPEND", b"one", &c],
        &[b"SETRANGE", b"one", b"5", &c],
        &[b"HSET", b"hash", b"f", &b, b"g", &c],
        &[b"RPUSH", b"list", &a, b"x", &b],
        &[b"SET", b"gone", &b],
        &[b"DEL", b"gone"],
    ];
    for words in words {
        assert!(!client.call(words).expect("a reply").is_error());
    }
    let known = digest(&server);
    drop((client, server));
    assert_eq!(digest(&folder.start(Launch::varve())), known);
    assert_eq!(digest(&folder.start(Launch::peer())), known);
}

/// Where there is nothing to load nobody is told that something is being loaded.
#[test]
fn issue_13_a_start_without_data_refuses_nobody() {
    for round in 0..10 {
        let folder = Folder::new(&format!("empty-{round}"));
        let launch = Launch::varve().config(format!("dir {}", folder.path().display())).config("appendonly yes");
        let server = launch.start_loading().expect("the server starts");
        assert_eq!(server.client().cmd("SET k v").text(), "OK");
    }
}

/// XSETID leaves a stream's last ID below its greatest deleted one; a base of commands makes it again, which redis-server's
/// does not.
#[test]
fn issue_13_a_stream_below_its_deleted_id_is_rewritten() {
    let folder = Folder::new("streams");
    let server = folder.start(Launch::varve().config("aof-use-rdb-preamble no"));
    let mut client = server.client();
    for line in ["XADD s 1-1 f v", "XADD e 1-1 f v", "XDEL e 1-1"] {
        assert!(!client.cmd(line).is_error(), "{line}");
    }
    for key in ["s", "e"] {
        assert_eq!(client.cmd(&format!("XSETID {key} 9-0 ENTRIESADDED 7 MAXDELETEDID 8-0")).text(), "OK");
        assert_eq!(client.cmd(&format!("XSETID {key} 3-0")).text(), "OK");
    }
    let about = |client: &mut Client| ["s", "e"].map(|key| client.cmd(&format!("XINFO STREAM {key}")));
    let known = about(&mut client);
    client.cmd("BGREWRITEAOF");
    wait_rewrite(&mut client);
    assert_eq!(client.cmd("DEBUG LOADAOF").text(), "OK");
    assert_eq!(about(&mut client), known);
}
