//! A replica that shares no code with us: redis-replicator, a library in Java, follows Varve under load, through a link that is cut,
//! and ends with the data that the server has.
//!
//! ```text
//!   clients --writes--> Varve --data set, stream--> tests/clients/replicator: the library's parsers, Java's collections --> lines
//!                         `-- read by commands, when clients rest ------------------------------------------------ equal --> lines
//! ```
//! Two values that the library does not read from redis-server either are left out: infinite scores of small sorted sets, and entries
//! of one stream with different numbers of fields. The test runs where Java and Maven are present; elsewhere it says so and passes.

#![forbid(unsafe_code)]

mod programs;

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use programs::java;
use varve_testkit::{Client, Launch, Random, RespValue, Server, seed};
use varve_tests::ending::SetAtEnd;
use varve_tests::folder::Folder;
use varve_tests::replicas::{field, wait};

/// Clients that write.
const WRITERS: usize = 2;
/// Keys of each type in each database.
const KEYS: usize = 12;
/// The databases that are written.
const DATABASES: [u32; 2] = [0, 3];
/// Commands that are run at least in each part of the test.
const COMMANDS: usize = 2_000;
/// The key whose write ends the program.
const END: &str = "end";

/// Random commands, one a line: `K` stands for a key of the type, `L` for another one, `#` for a number, `W` for a word.
const COMMAND_LINES: &[(&str, &[&str])] = &[
    (
        "string",
        &["SET K W", "SET K W PX 900#00000", "SET K W KEEPTTL", "APPEND K W", "GETDEL K", "GETEX K EX 90#00000"],
    ),
    ("number", &["INCR K", "INCRBY K #", "INCRBYFLOAT L 1.25", "SET K #", "DECR K", "MSET K # L 1"]),
    ("list", &["RPUSH K W W #", "LPUSH K W #", "LPOP K", "RPOP K 2", "LTRIM K 1 -2", "LREM K 1 #", "LREM K -2 #"]),
    (
        "list",
        &["LSET K 0 W", "LINSERT K BEFORE # W", "LMOVE K L LEFT RIGHT", "RPOPLPUSH K L", "LMPOP 2 K L RIGHT COUNT 2"],
    ),
    ("hash", &["HSET K # W W #", "HDEL K # W", "HINCRBY K count #", "HINCRBYFLOAT K part 0.5", "HSETNX K # W"]),
    ("set", &["SADD K # # #", "SADD K W", "SREM K #", "SPOP K", "SPOP K 2", "SMOVE K L #"]),
    ("zset", &["ZADD K 1.# W", "ZADD K GT CH # #", "ZINCRBY K 0.5 #", "ZREM K #", "ZPOPMIN K 2", "ZADD K INCR 2 #"]),
    (
        "stream",
        &["XADD K * W # f W", "XADD K MAXLEN = 20 * # W f #", "XADD K MAXLEN ~ 40 * # W W #", "XTRIM K MAXLEN 15"],
    ),
    ("any", &["DEL K", "UNLINK K", "EXPIRE K 900#0", "PERSIST K", "RENAME K L"]),
];
/// Effects of a script, of which one names a random member.
const SCRIPT: &str = "redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2]) redis.call('SADD', KEYS[2], ARGV[2]) \
                      return redis.call('SPOP', KEYS[2])";

/// Sends random commands to a database, some in transactions and scripts, until it is over.
fn write(server: &Server, seed: u64, ran: &AtomicUsize, is_over: &AtomicBool) {
    let (mut client, mut random) = (server.client(), Random::new(seed));
    let mut number = 0;
    while !is_over.load(Relaxed) {
        let database = *random.pick(&DATABASES);
        client.queue(&["SELECT", &database.to_string()]);
        let is_transaction = random.one_in(5);
        let count = 1 + random.below(8);
        if is_transaction {
            client.queue(&["MULTI"]);
        }
        for _ in 0..count {
            number += 1;
            queue_one(&mut client, &mut random, number);
        }
        if is_transaction {
            client.queue(&["EXEC"]);
        }
        client.flush().expect("sent");
        for _ in 0..=count + 2 * usize::from(is_transaction) {
            let reply = client.read().expect("a reply");
            let is_expected =
                ["ERR no such key", "ERR index out of range"].iter().any(|text| reply.text().starts_with(text));
            assert!(!reply.is_error() || is_expected, "{}", reply.text());
        }
        ran.fetch_add(count, Relaxed);
    }
}

fn queue_one(client: &mut Client, random: &mut Random, number: usize) {
    if random.one_in(20) {
        let keys = ["list", "set"].map(|kind| format!("{kind}:{}", random.below(KEYS)));
        let word = format!("script{number}");
        return client.queue(&["EVAL", SCRIPT, "2", &keys[0], &keys[1], &word, &random.below(30).to_string()]);
    }
    let (kind, lines) = *random.pick(COMMAND_LINES);
    let kinds: Vec<&str> = COMMAND_LINES.iter().map(|(kind, _)| *kind).filter(|kind| *kind != "any").collect();
    let kind = if kind == "any" { *random.pick(&kinds) } else { kind };
    let line = *random.pick(lines);
    let words = line.split(' ').map(|word| match word {
        "K" => format!("{kind}:{}", random.below(KEYS)),
        // Numbers with a part behind the point have keys of their own: others are raised by whole numbers.
        "L" if line.starts_with("INCRBYFLOAT") => format!("part:{}", random.below(KEYS)),
        "L" => format!("{kind}:{}", random.below(KEYS)),
        "W" => "\u{e9}w".repeat(1 + random.below(40)) + &number.to_string(),
        word => word.replace('#', &random.below(30).to_string()),
    });
    client.queue(&words.collect::<Vec<String>>());
}

/// Values of every form that a data set has, large ones too.
fn fill(server: &Server) {
    let mut client = server.client();
    client.call(&["SET", "string:large", &"large value ".repeat(50_000)]).expect("a reply");
    for nth in 0..3000 {
        let word = format!("element {nth}");
        client.queue(&["RPUSH", "list:large", &word]);
        client.queue(&["HSET", "hash:large", &word, &"x".repeat(nth % 100)]);
        client.queue(&["SADD", "set:large", &word]);
        client.queue(&["SADD", "set:numbers", &(nth * 100_000).to_string()]);
        client.queue(&["ZADD", "zset:large", &format!("{}", nth as f64 / 7.0), &word]);
        client.queue(&["XADD", "stream:large", &format!("{}-1", nth + 1), "field", &word]);
    }
    client.flush().expect("sent");
    (0..6 * 3000).for_each(|_| assert!(!client.read().expect("a reply").is_error()));
    for line in [
        "ZADD zset:large inf a -inf b -0 c 1e-300 d",
        "SET string:empty ",
        "EXPIRE hash:large 9000000",
        "XDEL stream:large 7-1 2000-1",
    ] {
        assert!(!client.cmd(line).is_error(), "{line}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bulks(reply: &RespValue) -> Vec<Vec<u8>> {
    reply.elements().expect("an array").iter().map(|value| value.bytes().expect("a string").to_vec()).collect()
}

/// The lines of all that a server has, in the form of the program's.
fn lines(server: &Server) -> Vec<String> {
    let (mut client, mut lines) = (server.client(), Vec::new());
    for database in DATABASES {
        client.cmd(&format!("SELECT {database}"));
        let mut keys = bulks(&client.cmd("KEYS *"));
        keys.sort();
        for key in keys {
            let kind = client.call(&[&b"TYPE"[..], &key]).expect("a type").text();
            let mut words = vec![database.to_string(), kind.clone(), hex(&key)];
            words.extend(elements(&mut client, &kind, &key));
            let time = client.call(&[&b"PEXPIRETIME"[..], &key]).expect("a time").integer().expect("a number");
            if time >= 0 {
                words.extend(["px".to_owned(), time.to_string()]);
            }
            lines.push(words.join(" "));
        }
    }
    lines
}

fn elements(client: &mut Client, kind: &str, key: &[u8]) -> Vec<String> {
    let mut ask = |before: &str, behind: &[&str]| {
        let mut words = vec![before.as_bytes(), key];
        words.extend(behind.iter().map(|word| word.as_bytes()));
        client.call(&words).expect("a reply")
    };
    let pairs = |values: Vec<Vec<u8>>| {
        let mut pairs: Vec<[Vec<u8>; 2]> = values.chunks(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect();
        pairs.sort();
        pairs
    };
    match kind {
        "string" => vec![hex(ask("GET", &[]).bytes().expect("a value"))],
        "list" => bulks(&ask("LRANGE", &["0", "-1"])).iter().map(|element| hex(element)).collect(),
        "hash" => pairs(bulks(&ask("HGETALL", &[]))).concat().iter().map(|word| hex(word)).collect(),
        "set" => {
            let mut members = bulks(&ask("SMEMBERS", &[]));
            members.sort();
            members.iter().map(|member| hex(member)).collect()
        }
        "zset" => {
            let bits = |text: &[u8]| {
                let score: f64 = String::from_utf8_lossy(text).parse().expect("a score");
                format!("{:016x}", score.to_bits())
            };
            let pairs = pairs(bulks(&ask("ZRANGE", &["0", "-1", "WITHSCORES"])));
            pairs.iter().flat_map(|[member, score]| [hex(member), bits(score)]).collect()
        }
        "stream" => {
            let about = client.call(&[&b"XINFO"[..], b"STREAM", key]).expect("a reply");
            let words: Vec<String> = about.elements().expect("pairs").iter().map(RespValue::text).collect();
            let last = words.chunks(2).find(|pair| pair[0] == "last-generated-id").expect("its last id");
            let mut words = vec![last[1].clone()];
            let reply = client.call(&[&b"XRANGE"[..], key, b"-", b"+"]).expect("a reply");
            for entry in reply.elements().expect("entries") {
                let [id, fields] = entry.elements().expect("an entry") else { panic!("an entry has two parts") };
                words.push(id.text());
                words.extend(bulks(fields).iter().map(|word| hex(word)));
            }
            words
        }
        other => panic!("a key of type {other}"),
    }
}

/// The program, which ends with the test.
struct Program {
    child: Child,
    folder: Folder,
}

impl Program {
    fn start(command: &mut Command, server: &Server, name: &str) -> Program {
        let folder = Folder::new(name);
        let [lines, errors] = ["lines", "errors"].map(|name| File::create(folder.path().join(name)).expect("a file"));
        let command = command.args([&server.port().to_string(), END]).stdin(Stdio::null());
        let child = command.stdout(lines).stderr(errors).spawn().expect("it starts");
        Program { child, folder }
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect("a file")
    }

    /// Waits until `done`; the program must go on meanwhile.
    fn wait(&mut self, what: &str, server: &Server, mut done: impl FnMut() -> bool) {
        wait(what, server, || {
            let status = self.child.try_wait().expect("its state");
            assert!(status.is_none(), "{what}: {status:?}: {}", self.text("errors"));
            done()
        });
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// How far the program says that it is.
fn acknowledged(server: &Server) -> u64 {
    let replica = field(&mut server.client(), "replication", "slave0");
    let offset = replica.split(',').find_map(|part| part.strip_prefix("offset="));
    offset.and_then(|offset| offset.parse().ok()).unwrap_or(0)
}

/// Runs the program beside clients that write, and cuts its link once it is in the stream.
fn follow_and_compare(diskless: &str, command: &mut Command, seed: u64) {
    let server = Launch::varve().config("io-threads 2").config("repl-diskless-sync-delay 0");
    // The program may come back late where the machine is busy, and clients write meanwhile.
    let server = server.config(format!("repl-diskless-sync {diskless}")).config("repl-backlog-size 512mb");
    let server = server.start().expect("Varve starts");
    fill(&server);
    let (ran, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut program = thread::scope(|scope| {
        let _over = SetAtEnd(&is_over);
        for nth in 0..WRITERS {
            let (server, ran, is_over) = (&server, &ran, &is_over);
            scope.spawn(move || write(server, seed + nth as u64, ran, is_over));
        }
        let go_on = || {
            let end = ran.load(Relaxed) + COMMANDS;
            wait("clients write", &server, || ran.load(Relaxed) >= end);
        };
        go_on();
        let mut program = Program::start(command, &server, &format!("java-{diskless}"));
        program.wait("it has the data set", &server, || acknowledged(&server) > 0);
        let here = field(&mut server.client(), "replication", "master_repl_offset").parse().expect("an offset");
        program.wait("it is in the stream", &server, || acknowledged(&server) >= here);
        server.client().cmd("CLIENT KILL TYPE replica");
        let mut client = server.client();
        let mut went_on = || field(&mut client, "stats", "sync_partial_ok") == "1";
        program.wait("it goes on in the stream", &server, &mut went_on);
        assert_eq!(server.client().cmd("XDEL stream:large 8-1 3000-1").integer(), Some(2));
        go_on();
        program
    });
    server.client().cmd(&format!("SET {END} 1"));
    wait("it ends", &server, || program.child.try_wait().expect("its state").is_some());
    let status = program.child.wait().expect("its end");
    assert!(status.success(), "{status}: {}\n{}", program.text("errors"), server.log());
    let printed = program.text("lines");
    let mut theirs: Vec<&str> = printed.lines().collect();
    assert_eq!(theirs.pop(), Some("replicator: 1 synchronisations"), "{}", server.log());
    let ours = lines(&server);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{}", server.log());
    }
    assert_eq!(ours.len(), theirs.len());
    println!("{} keys are equal behind {} commands, repl-diskless-sync {diskless}", ours.len(), ran.load(Relaxed));
}

#[test]
fn issue_17_a_replica_in_java_has_the_same_data() {
    let Some(program) = java("replicator") else { return };
    let seed = seed::seed("a replica in Java");
    for diskless in ["yes", "no"] {
        follow_and_compare(diskless, &mut program(), seed);
    }
}
