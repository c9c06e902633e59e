//! Round trips of random data sets: what one server keeps in files, the other one loads, there and back, and adds to it.
//!
//! ```text
//!   Varve --SAVE or append-only file--> redis-server --> Varve --> redis-server --> Varve      equal DEBUG DIGEST each time
//! ```
//! VARVE_TRIPS is how many of each kind (2).

#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;

use varve_testkit::{Launch, Random, Server, seed};
use varve_tests::fill::fill;

/// Commands of a data set in each round.
const COMMANDS: usize = 1500;

/// The kind of file that keeps the data.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Rdb,
    AppendOnly,
}

/// A folder that outlives its servers, and is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-trips-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }

    fn start(&self, launch: Launch, kept: Kept, random: &mut Random) -> Server {
        let launch = launch
            .config(format!("dir {}", self.0.display()))
            .config(format!("rdbcompression {}", if random.one_in(2) { "yes" } else { "no" }))
            .config(format!("rdbchecksum {}", if random.one_in(4) { "no" } else { "yes" }));
        match kept {
            Kept::Rdb => launch,
            Kept::AppendOnly => launch.config("appendonly yes"),
        }
        .start()
        .expect("the server starts")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Collections that are saved over several holds of their shards, with elements of all sizes.
fn add_long(server: &Server, random: &mut Random) {
    let mut client = server.client();
    let mut sent = 0;
    for (verb, name) in [("RPUSH", "long list"), ("SADD", "long set"), ("HSET", "long hash"), ("ZADD", "long zset")] {
        for _ in 0..random.below(3000) {
            let number = random.below(100_000).to_string();
            let size = if random.one_in(300) { 20_000 } else { 40 };
            let element = [number.as_bytes(), &vec![b'e'; random.below(size)]].concat();
            let words: &[&[u8]] = match verb {
                "HSET" => &[verb.as_bytes(), name.as_bytes(), &element, number.as_bytes()],
                "ZADD" => &[verb.as_bytes(), name.as_bytes(), number.as_bytes(), &element],
                _ => &[verb.as_bytes(), name.as_bytes(), &element],
            };
            client.queue(words);
            sent += 1;
        }
    }
    client.flush().expect("it is sent");
    // A random command before may have given the name to another type.
    (0..sent).for_each(|_| _ = client.read().expect("a reply"));
}

fn digest(server: &Server) -> String {
    server.client().cmd("DEBUG DIGEST").text()
}

/// Keeps what a server holds, for the next one.
fn keep(server: &Server, kept: Kept, random: &mut Random) {
    let mut client = server.client();
    match kept {
        Kept::Rdb if random.one_in(2) => assert_eq!(client.cmd("SAVE").text(), "OK"),
        Kept::Rdb => {
            client.cmd("BGSAVE");
            while client.cmd("INFO persistence").text().contains("rdb_bgsave_in_progress:1") {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        Kept::AppendOnly => {
            assert_eq!(client.cmd("CONFIG SET appendfsync always").text(), "OK");
            // Its reply leaves when all that was appended before is synced.
            assert_eq!(client.cmd("SET last written").text(), "OK");
        }
    }
}

fn trip(kept: Kept, seed: u64) {
    let (folder, mut random) = (Folder::new(&format!("{kept:?}-{seed}")), Random::new(seed));
    let servers = [Launch::varve as fn() -> Launch, Launch::peer];
    let mut known: Option<String> = None;
    for round in 0..5 {
        let server = folder.start(servers[round % 2](), kept, &mut random);
        if let Some(known) = &known {
            assert_eq!(*known, digest(&server), "VARVE_SEED={seed}, {kept:?}, round {round}");
        }
        fill(&server, seed.wrapping_mul(31).wrapping_add(round as u64), COMMANDS);
        add_long(&server, &mut random);
        keep(&server, kept, &mut random);
        known = Some(digest(&server));
    }
}

fn trips(kept: Kept) {
    let count = std::env::var("VARVE_TRIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let first = seed::seed(&format!("trips of {kept:?}"));
    (0..count).for_each(|n| trip(kept, first + n));
}

#[test]
fn what_one_server_saves_the_other_loads_there_and_back() {
    trips(Kept::Rdb);
}

#[test]
fn what_one_server_appends_the_other_loads_there_and_back() {
    trips(Kept::AppendOnly);
}

/// The times of all fields, and what is pending in a group, as a client asks for them.
fn dated(server: &Server, fields: usize) -> Vec<String> {
    let mut client = server.client();
    let mut ask = |line: &str| format!("{line}: {:?}", client.cmd(line));
    let mut all: Vec<String> =
        (0..fields).map(|n| ask(&format!("HPEXPIRETIME hash{} FIELDS 1 field:{n}", n % 7))).collect();
    all.extend((0..7).map(|n| ask(&format!("HLEN hash{n}"))));
    // XINFO GROUPS is not asked: an append-only file does not have how many entries a group was given, as redis-server's has not.
    all.extend(["XPENDING s g", "XRANGE s - +"].map(ask));
    all
}

/// Fields that expire, which redis-server 7.0.15 does not know, with times of all lengths: what Varve keeps it loads. So it does
/// with small streams, and with one that has a group.
#[test]
fn fields_that_expire_come_back_to_the_millisecond() {
    const FIELDS: usize = 400;
    for kept in [Kept::Rdb, Kept::AppendOnly] {
        let first = seed::seed(&format!("fields that expire, {kept:?}"));
        let (folder, mut random) = (Folder::new(&format!("fields-{kept:?}")), Random::new(first));
        let mut known: Option<Vec<String>> = None;
        for round in 0..3 {
            let server = folder.start(Launch::varve(), kept, &mut random);
            if let Some(known) = &known {
                assert_eq!(*known, dated(&server, FIELDS), "VARVE_SEED={first}, {kept:?}, round {round}");
            }
            let mut client = server.client();
            client.cmd("XGROUP CREATE s g 0 MKSTREAM");
            for n in 0..FIELDS {
                let (hash, field) = (format!("hash{}", n % 7), format!("field:{n}"));
                client.cmd(&format!("HSET {hash} {field} {n}"));
                let times = [4_000_000_000_000 + n, 281_474_976_710_655, 2_000_000_000_000 + random.below(1_000_000)];
                match random.below(5) {
                    which @ 0..=2 => client.cmd(&format!("HPEXPIREAT {hash} {} FIELDS 1 {field}", times[which])),
                    3 => client.cmd(&format!("HDEL {hash} {field}")),
                    _ => client.cmd(&format!("HPERSIST {hash} FIELDS 1 {field}")),
                };
                client.cmd(&format!("XADD small{} {}-1 a {n}", n % 50, round * FIELDS + n + 1));
                client.cmd(&format!("XADD s {}-1 a {n}", round * FIELDS + n + 1));
            }
            client.cmd("XREADGROUP GROUP g c COUNT 90 STREAMS s >");
            client.cmd(&format!("XACKDEL s g IDS 2 {}-1 {}-1", round + 1, round + 50));
            keep(&server, kept, &mut random);
            known = Some(dated(&server, FIELDS));
        }
    }
}
