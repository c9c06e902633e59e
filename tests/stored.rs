//! Commands that store what they make of long collections over several turns, while keys are evicted and files are saved.
//!
//! ```text
//!   storers: store a result, compare it, remove it     fillers: SET with an expiry, beyond the limit: evicted
//!   one more: BGSAVE, load the file in another server: each result is in it whole, or not at all
//! ```
//! The sources do not expire and do not change, so that each command has one result. Not here: sources that change (the
//! commands' `stored_in_parts.rs`).

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use varve_testkit::{Client, Launch, RespValue, Server, figure, until};

/// Elements of each source: many times as many as one hold takes.
const ELEMENTS: usize = 30_000;
/// Clients that store.
const STORERS: usize = 2;
/// Files that are saved and looked at.
const FILES: usize = 3;
/// Results that there are at least before the last file is saved.
const RESULTS_MIN: u64 = 30;

/// The commands. `TO` is the key of the result.
const COMMANDS: [&str; 6] = [
    "SINTERSTORE TO s0 s1",
    "SUNIONSTORE TO s0 s1",
    "ZUNIONSTORE TO 2 z0 z1 WEIGHTS 2 1",
    "SORT l0 DESC STORE TO",
    "SORT s0 ALPHA STORE TO",
    "GEOSEARCHSTORE TO g0 FROMLONLAT 15 37 BYBOX 9000 8000 km ASC",
];

fn fill(client: &mut Client) {
    for first in (0..ELEMENTS).step_by(500) {
        let line = |begin: &str, element: &dyn Fn(usize) -> String| {
            (first..first + 500).fold(String::from(begin), |line, n| line + " " + &element(n))
        };
        for line in [
            line("SADD s0", &|n| format!("member:{n}")),
            line("SADD s1", &|n| format!("member:{}", 2 * n)),
            line("ZADD z0", &|n| format!("{} member:{n}", n % 997)),
            line("ZADD z1", &|n| format!("{}.5 member:{}", n % 89, 3 * n)),
            line("RPUSH l0", &|n| (n * 7919 % 30_011).to_string()),
            line("GEOADD g0", &|n| format!("{} {} member:{n}", n * 31 % 61, n * 17 % 67)),
        ] {
            assert!(client.cmd(&line).integer().is_some(), "the sources are filled");
        }
    }
}

/// The command with this key for its result.
fn to(command: &str, key: &str) -> String {
    command.replace(" TO", &format!(" {key}"))
}

/// The reply of each command, and the digest of its result.
fn results(client: &mut Client) -> Vec<(RespValue, String)> {
    let of = |command: &&str| {
        let reply = client.cmd(&to(command, "result"));
        let digest = client.cmd("DEBUG DIGEST-VALUE result").elements().expect("a digest")[0].text();
        client.cmd("DEL result");
        (reply, digest)
    };
    COMMANDS.iter().map(of).collect()
}

fn digests(client: &mut Client, keys: &[String]) -> Vec<String> {
    let reply = client.cmd(&format!("DEBUG DIGEST-VALUE {}", keys.join(" ")));
    reply.elements().expect("digests").iter().map(RespValue::text).collect()
}

/// Stores results in keys of its own and removes each once the next is there.
fn store(server: &Server, who: usize, expected: &[(RespValue, String)], (stop, stored): (&AtomicBool, &AtomicU64)) {
    let mut client = server.client();
    let key = |at: usize| format!("to:{who}:{at}");
    for round in 0.. {
        let at = (round + who * 3) % COMMANDS.len();
        let reply = client.cmd(&to(COMMANDS[at], &key(at)));
        assert_eq!(reply, expected[at].0, "{}", COMMANDS[at]);
        assert_eq!(digests(&mut client, &[key(at)]), [expected[at].1.clone()], "{}", COMMANDS[at]);
        client.cmd(&format!("DEL {}", key((at + COMMANDS.len() - 1) % COMMANDS.len())));
        stored.fetch_add(1, Relaxed);
        if stop.load(Relaxed) {
            return;
        }
    }
}

/// Writes keys that may be evicted.
fn write(server: &Server, stop: &AtomicBool) {
    let mut client = server.client();
    let value = "v".repeat(4000);
    for n in 0_u64.. {
        (0..20).for_each(|i| client.queue(&["SET", &format!("filler:{}", 20 * n + i), &value, "EX", "3000"]));
        client.flush().expect("it is sent");
        (0..20).for_each(|_| assert_eq!(client.read().expect("a reply").text(), "OK"));
        if stop.load(Relaxed) {
            return;
        }
    }
}

/// Saves a file and has another server load it: the sources are there, and of the results all or nothing.
fn check_file(server: &Server, sources: &[String], expected: &[(RespValue, String)]) {
    let mut client = server.client();
    assert_eq!(client.cmd("BGSAVE").text(), "Background saving started");
    until("the file is saved", || figure(&mut client, "rdb_bgsave_in_progress") == 0);
    let folder = std::env::temp_dir().join(format!("varve-stored-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder of our own");
    fs::copy(server.dir().join("dump.rdb"), folder.join("dump.rdb")).expect("the file is there");
    let second = Launch::varve().config(format!("dir {}", folder.display())).start().expect("it loads the file");
    let mut loaded = second.client();
    let names = ["s0", "s1", "z0", "z1", "l0", "g0"].map(String::from);
    assert_eq!(digests(&mut loaded, &names), sources);
    for who in 0..STORERS {
        for (at, (_, digest)) in expected.iter().enumerate() {
            let found = &digests(&mut loaded, &[format!("to:{who}:{at}")])[0];
            let is_absent = found.bytes().all(|digit| digit == b'0');
            assert!(is_absent || found == digest, "a part of the result of {} is in the file", COMMANDS[at]);
        }
    }
    drop((loaded, second));
    fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn issue_11_results_are_whole_while_keys_are_evicted_and_files_are_saved() {
    let limits = ["io-threads 2", "maxmemory-policy volatile-lru", "maxmemory 64mb"];
    let launch = limits.iter().fold(Launch::varve(), |launch, line| launch.config(*line));
    let server = launch.start().expect("varve-server starts");
    let mut client = server.client();
    fill(&mut client);
    let names = ["s0", "s1", "z0", "z1", "l0", "g0"].map(String::from);
    let (sources, expected) = (digests(&mut client, &names), results(&mut client));
    let distinct: BTreeSet<&str> = expected.iter().map(|(_, digest)| digest.as_str()).collect();
    assert_eq!(distinct.len(), COMMANDS.len(), "the results differ");
    let (stop, stored) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for who in 0..STORERS {
            let (server, expected, flags) = (&server, &expected, (&stop, &stored));
            scope.spawn(move || store(server, who, expected, flags));
        }
        scope.spawn(|| write(&server, &stop));
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until("keys are evicted", || figure(&mut client, "evicted_keys") > 1000);
            (0..FILES).for_each(|_| check_file(&server, &sources, &expected));
            until("results are stored", || stored.load(Relaxed) >= RESULTS_MIN);
            check_file(&server, &sources, &expected);
        }));
        stop.store(true, Relaxed);
        if let Err(panic) = checked {
            std::panic::resume_unwind(panic);
        }
    });
    assert_eq!(digests(&mut client, &names), sources, "the sources stay");
    assert_eq!(client.cmd("DEBUG VERIFY").text(), "OK");
}
