//! Kills at random moments under load: what was acknowledged is there afterwards, and nothing by half.
//!
//! ```text
//!   writers: rising numbers, alone, by MSET, in transactions,          operator: BGSAVE, BGREWRITEAOF, CONFIG SET appendonly
//!     |      by scripts, to a list, a sorted set, a long string and      |
//!     |      all fields of a long hash                                   |
//!   server, with a library before libc (shim/lose.c): what it has written and not synced is lost with the process
//!     | kill -9
//!     |--> dump.rdb, if a save has left one: another server loads it, and nothing of it is half
//!   start --> each key at least as far as the promise goes, no transaction and no command in half --> and again
//! ```
//! The promise of `always`: what was acknowledged. Of `everysec`: what was acknowledged one second before the last sync that
//! has succeeded began. While `appendonly` is switched off and on, both end where it was switched off, until the folder
//! has a new base.

#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use varve_testkit::{Client, Launch, Random, RespValue, Server, seed};
use varve_tests::replicas::{LIMIT, wait};

/// Writers that a kill interrupts.
const WRITERS: usize = 4;
/// Kills of the short form; VARVE_KILLS makes it longer.
const KILLS: u64 = 10;
/// Under `everysec`, nanoseconds before a sync.
const SECOND_NS: u64 = 1_000_000_000;

/// The library, built once a run of the tests.
fn library() -> PathBuf {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut built = BUILT.lock().expect("no test has failed here");
    let path = built.get_or_insert_with(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim/lose.c");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lose-{}.so", std::process::id()));
        let status = Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).arg(&path).arg(source).status();
        assert!(status.expect("a C compiler").success(), "the library does not compile");
        path
    });
    path.clone()
}

/// A folder that outlives its servers, and is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-kills-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }

    /// The line of the manifest that names the base.
    fn base(&self) -> Option<String> {
        let text = fs::read_to_string(self.0.join("appendonlydir/appendonly.aof.manifest")).ok()?;
        text.lines().find(|line| line.ends_with(" type b")).map(str::to_owned)
    }

    fn syncs(&self) -> PathBuf {
        self.0.join("syncs")
    }

    /// When the last sync of an increment that has succeeded began.
    fn last_sync_ns(&self) -> u64 {
        let text = fs::read_to_string(self.syncs()).unwrap_or_default();
        text.lines().last().and_then(|line| line.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64
}

/// Sends a command; an error when the server is gone.
fn ask(client: &mut Client, words: &[&str]) -> io::Result<RespValue> {
    client.queue(words);
    client.flush()?;
    client.read()
}

/// The knowledge of one writer.
#[derive(Debug, Default)]
struct Told {
    /// The last number of which a server had all when it started: the next one may have been sent and half done, and nothing may be
    /// acknowledged before the next kill. So it is with its hash and its long string.
    loaded: u64,
    hash: u64,
    string: u64,
    /// Numbers and when each was acknowledged.
    acknowledged: Vec<(u64, u64)>,
    sent: u64,
}

impl Told {
    /// The last number that was acknowledged before this time.
    fn before(&self, ns: u64) -> u64 {
        let known = self.acknowledged.iter().rev().find(|(_, at)| *at <= ns);
        known.map_or(self.loaded, |(number, _)| *number)
    }

    /// The last one up to `last` that was acknowledged and that `every` divides: one that a kill took away is not sent again.
    fn divided(&self, every: u64, last: u64, loaded: u64) -> u64 {
        let numbers = self.acknowledged.iter().rev().map(|(number, _)| *number);
        numbers.into_iter().find(|number| *number <= last && number.is_multiple_of(every)).unwrap_or(loaded)
    }

    /// The least numbers that have to be there when all up to this one are.
    fn promise(&self, last: u64) -> Promise {
        let hash = self.divided(LONG_EVERY, last, self.hash);
        Promise { each: last, hash, string: self.divided(STRING_EVERY, last, self.string) }
    }
}

/// The least numbers that a server has to have of a writer.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    each: u64,
    hash: u64,
    string: u64,
}

/// Fields of the long hash: more than a command changes at once.
const FIELDS: usize = 1100;
/// Each number that this divides is written to them.
const LONG_EVERY: u64 = 4;

/// Elements that the list keeps, about.
const ELEMENTS: usize = 40;
/// Members of the sorted set: each command gives all of them one score.
const MEMBERS: [&str; 3] = ["a", "b", "c"];
/// Each number that this divides is written to a string that is too long for a segment.
const STRING_EVERY: u64 = 16;
/// Numbers of eight digits, one behind the other, in that string: 300 KB.
const STRING_NUMBERS: usize = 300 << 7;
/// Gives two keys one value.
const SCRIPT: &str = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('SET', KEYS[2], ARGV[1])";

/// Writes rising numbers until the server is gone: alone, to two keys by one command, to two keys in a transaction, to a list
/// and a sorted set, to two keys by a script, and some of them to all fields of a hash and to a long string.
fn write(mut client: Client, writer: usize, told: &mut Told, last: &AtomicU64) {
    loop {
        told.sent += 1;
        let number = told.sent.to_string();
        let key = |name: &str| format!("{name}{writer}");
        client.queue(&["SET", &key("alone"), &number]);
        client.queue(&["MSET", &key("one"), &number, &key("other"), &number]);
        client.queue(&["MULTI"]);
        client.queue(&["SET", &key("left"), &number]);
        client.queue(&["SET", &key("right"), &number]);
        client.queue(&["EXEC"]);
        client.queue(&["RPUSH", &key("list"), &number, &number]);
        client.queue(&["LTRIM", &key("list"), &format!("-{ELEMENTS}"), "-1"]);
        let [a, b, c] = MEMBERS;
        client.queue(&["ZADD", &key("zset"), &number, a, &number, b, &number, c]);
        client.queue(&["EVAL", SCRIPT, "2", &key("first"), &key("second"), &number]);
        let mut replies = 10;
        if told.sent.is_multiple_of(LONG_EVERY) {
            let fields: Vec<String> = (0..FIELDS).map(|field| field.to_string()).collect();
            let hash = key("hash");
            let pairs = fields.iter().flat_map(|field| [field.as_str(), &number]);
            client.queue(&["HSET", &hash].into_iter().chain(pairs).collect::<Vec<_>>());
            replies += 1;
        }
        if told.sent.is_multiple_of(STRING_EVERY) {
            client.queue(&["SET", &key("string"), &format!("{:08}", told.sent).repeat(STRING_NUMBERS)]);
            replies += 1;
        }
        let replies = client.flush().and_then(|()| (0..replies).map(|_| client.read()).last().expect("some replies"));
        match replies {
            Ok(reply) if !reply.is_error() => told.acknowledged.push((told.sent, now_ns())),
            Ok(reply) => panic!("{reply:?}"),
            Err(_) => return,
        }
        last.store(told.sent, Relaxed);
    }
}

/// The numbers that were acknowledged when `appendonly` was switched off, while the folder has no newer base.
type Weak = Option<[u64; WRITERS]>;

/// Waits until no rewrite is under way, and none will begin by itself.
fn await_no_rewrite(client: &mut Client) -> io::Result<()> {
    loop {
        let info = ask(client, &["INFO", "persistence"])?.text();
        if !["aof_rewrite_in_progress:1", "aof_rewrite_scheduled:1"].iter().any(|field| info.contains(field)) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Has other things happen to the files until the server is gone; each of them, in their order.
fn operate(
    mut client: Client,
    folder: &Folder,
    last: &[AtomicU64; WRITERS],
    weak: &Mutex<Weak>,
    mut random: Random,
) -> Vec<&'static str> {
    let mut steps = Vec::new();
    let mut step = || -> io::Result<()> {
        match random.below(5) {
            0 | 1 => {
                steps.push("BGSAVE");
                ask(&mut client, &["BGSAVE", "SCHEDULE"])?;
            }
            2 | 3 => {
                steps.push("BGREWRITEAOF");
                ask(&mut client, &["BGREWRITEAOF"])?;
            }
            _ => {
                steps.push("no");
                *weak.lock().expect("a lock") = Some(last.each_ref().map(|last| last.load(Relaxed)));
                ask(&mut client, &["CONFIG", "SET", "appendonly", "no"])?;
                thread::sleep(Duration::from_millis(random.below(5) as u64));
                // One that was under way, or was to begin behind a save, may still have brought a base: that is not the new one.
                await_no_rewrite(&mut client)?;
                let base = folder.base();
                steps.push("yes");
                ask(&mut client, &["CONFIG", "SET", "appendonly", "yes"])?;
                while folder.base() == base {
                    ask(&mut client, &["PING"])?;
                    thread::sleep(Duration::from_millis(1));
                }
                steps.push("new base");
                *weak.lock().expect("a lock") = None;
            }
        }
        thread::sleep(Duration::from_millis(random.below(20) as u64));
        Ok(())
    };
    while step().is_ok() {}
    steps
}

fn number(client: &mut Client, key: &str) -> u64 {
    client.cmd(&format!("GET {key}")).text().parse().unwrap_or(0)
}

/// The numbers of one writer, as a server has loaded them: the last one of each kind, 0 for none.
struct Found {
    /// By one command, in the order in which they were sent.
    each: Vec<u64>,
    hash: u64,
    string: u64,
}

impl Found {
    /// The last number of which all is there.
    fn least(&self) -> u64 {
        self.each.iter().copied().min().unwrap_or(0)
    }
}

/// The number that all of these are; 0 for none of them.
fn one_number(numbers: impl IntoIterator<Item = u64>, what: &str) -> u64 {
    let mut numbers = numbers.into_iter();
    let first = numbers.next().unwrap_or(0);
    assert!(numbers.all(|number| number == first), "{what}: {first} and others");
    first
}

/// Looks whether what a writer has written is whole: no command, transaction or script in half, and none without an earlier one.
fn whole(client: &mut Client, writer: usize, round: &str) -> Found {
    let mut pair = |one: &str, other: &str, what: &str| {
        let both = [one, other].map(|name| number(client, &format!("{name}{writer}")));
        one_number(both, &format!("{round}: {what} is done in half"))
    };
    let one = pair("one", "other", "a command");
    let left = pair("left", "right", "a transaction");
    let script = pair("first", "second", "a script");
    let alone = number(client, &format!("alone{writer}"));
    let mut elements = |line: String| -> Vec<String> {
        client.cmd(&line).elements().expect("an array").iter().map(RespValue::text).collect()
    };
    let parsed = |text: &String| text.parse::<u64>().expect("a number");
    let list: Vec<u64> = elements(format!("LRANGE list{writer} 0 -1")).iter().map(parsed).collect();
    assert!(list.len().is_multiple_of(2) && list.len() <= ELEMENTS + 2, "{round}: a list of {} elements", list.len());
    assert!(list.chunks(2).all(|pair| pair[0] == pair[1]), "{round}: a push is done in half: {list:?}");
    assert!(list.chunks(2).is_sorted_by(|one, next| one[0] < next[0]), "{round}: a push is done twice: {list:?}");
    let zset = elements(format!("ZRANGE zset{writer} 0 -1 WITHSCORES"));
    assert!([0, 2 * MEMBERS.len()].contains(&zset.len()), "{round}: a sorted set in half: {zset:?}");
    let zset = one_number(zset.iter().skip(1).step_by(2).map(parsed), &format!("{round}: scores in half"));
    let hash = elements(format!("HVALS hash{writer}"));
    assert!(hash.is_empty() || hash.len() == FIELDS, "{round}: {} fields", hash.len());
    let hash = one_number(hash.iter().map(parsed), &format!("{round}: a command that takes long is done in half"));
    let string = client.cmd(&format!("GET string{writer}"));
    let string = string.bytes().unwrap_or_default();
    assert!([0, 8 * STRING_NUMBERS].contains(&string.len()), "{round}: a string of {} bytes", string.len());
    let digits = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).expect("a number");
    let string = one_number(string.chunks(8).map(digits), &format!("{round}: a long string is written in half"));
    let each = vec![alone, one, left, list.last().copied().unwrap_or(0), zset, script];
    assert!(each.is_sorted_by(|one, next| one >= next), "{round}: {each:?}: later commands without earlier ones");
    Found { each, hash, string }
}

/// Looks at what a server has loaded: each writer's numbers are at least these.
fn look(server: &Server, told: &mut [Told; WRITERS], promised: [Promise; WRITERS], round: &str) {
    let mut client = server.client();
    for (writer, (told, promised)) in told.iter_mut().zip(promised).enumerate() {
        let found = whole(&mut client, writer, round);
        let (loaded, Found { each, hash, string }) = (found.least(), found);
        let rare = [(hash, promised.hash), (string, promised.string)];
        for (found, promised) in each.iter().map(|found| (*found, promised.each)).chain(rare) {
            let sent = told.sent;
            assert!(
                (promised..=sent).contains(&found),
                "{round}: {found}, not {promised} to {sent}: {each:?}, {rare:?}"
            );
        }
        *told = Told { loaded, hash, string, acknowledged: Vec::new(), sent: told.sent };
    }
}

/// The file that a save has left, in a folder of its own: another server loads it, and nothing of it is half. `seen` is when the
/// last file was written that was looked at.
fn look_at_save(folder: &Folder, policy: &str, seen: &mut Option<SystemTime>, round: &str) {
    let file = folder.0.join("dump.rdb");
    let Some(written) = fs::metadata(&file).ok().and_then(|facts| facts.modified().ok()) else { return };
    if seen.replace(written) == Some(written) {
        return;
    }
    let copy = Folder::new(&format!("{policy}-save"));
    fs::copy(&file, copy.0.join("dump.rdb")).expect("room for a copy");
    let launch = Launch::varve().config(format!("dir {}", copy.0.display())).config("appendonly no");
    let server = launch.start().expect("what a save has left always loads");
    let (mut client, round) = (server.client(), format!("{round}, the file of a save"));
    (0..WRITERS).for_each(|writer| _ = whole(&mut client, writer, &round));
}

/// Starts, writes, kills at a random moment of `lasts_ms`, and starts again: `kills` times.
fn kill_and_look(policy: &str, kills: u64, lasts_ms: std::ops::Range<u64>) {
    let folder = Folder::new(policy);
    let first = seed::seed(&format!("kills of a server with appendfsync {policy}"));
    let mut random = Random::new(first);
    let launch = Launch::varve()
        .under([
            "env".to_owned(),
            format!("LD_PRELOAD={}", library().display()),
            format!("VARVE_LOSE_LOG={}", folder.syncs().display()),
        ])
        .config(format!("dir {}", folder.0.display()))
        .config("appendonly yes")
        .config(format!("appendfsync {policy}"));
    let (mut told, mut promised) = (<[Told; WRITERS]>::default(), [Promise::default(); WRITERS]);
    let (mut saved, mut saves, mut steps) = (None, 0, Vec::new());
    for round in 0..=kills {
        let (before, name) = (saved, format!("{policy}, round {round}, behind {steps:?}"));
        look_at_save(&folder, policy, &mut saved, &name);
        saves += u64::from(saved != before);
        let server = launch.start().expect("the file always loads");
        look(&server, &mut told, promised, &name);
        if round == kills {
            break;
        }
        let (last, weak) = (<[AtomicU64; WRITERS]>::default(), Mutex::new(None));
        told.iter().zip(&last).for_each(|(told, last)| last.store(told.loaded, Relaxed));
        let operated = random.below(2) == 0;
        let (seed, lasts) = (first + round, random.below((lasts_ms.end - lasts_ms.start) as usize) as u64);
        thread::scope(|scope| {
            for (writer, (told, last)) in told.iter_mut().zip(&last).enumerate() {
                let client = server.client();
                scope.spawn(move || write(client, writer, told, last));
            }
            let operating = operated.then(|| {
                let client = server.client();
                scope.spawn(|| operate(client, &folder, &last, &weak, Random::new(seed)))
            });
            thread::sleep(Duration::from_millis(lasts_ms.start + lasts));
            server.signal("KILL").expect("a signal");
            steps = operating.map_or(Vec::new(), |operating| operating.join().expect("no panic"));
        });
        let until_ns = if policy == "always" { u64::MAX } else { folder.last_sync_ns().saturating_sub(SECOND_NS) };
        let weak: Weak = weak.into_inner().expect("a lock");
        promised = std::array::from_fn(|writer| {
            let known = told[writer].before(until_ns);
            told[writer].promise(weak.map_or(known, |weak| known.min(weak[writer])))
        });
    }
    println!("{policy}: {kills} kills, {saves} files of saves");
}

fn kills() -> u64 {
    std::env::var("VARVE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

#[test]
fn what_was_acknowledged_outlives_a_kill() {
    kill_and_look("always", kills(), 20..250);
}

/// Writes rising numbers to a key until the server is gone; `counted` is the last one of which WAITAOF has counted both files.
fn count(mut client: Client, sent: &mut u64, counted: &AtomicU64) {
    let both = RespValue::Array(vec![RespValue::Integer(1), RespValue::Integer(1)]);
    client.set_timeout(LIMIT).expect("a timeout");
    loop {
        *sent += 1;
        if ask(&mut client, &["SET", "key", &sent.to_string()]).is_err() {
            return;
        }
        match ask(&mut client, &["WAITAOF", "1", "1", "0"]) {
            Ok(reply) => assert_eq!(reply, both, "both files have number {sent}"),
            Err(_) => return,
        }
        counted.store(*sent, Relaxed);
    }
}

/// Both ends lose what they have written and not synced, at random moments under load of a second writer. Behind each second round
/// the replica is promoted, and leads from then on. Its primary follows it.
#[test]
fn what_waitaof_has_counted_outlives_the_end_of_both() {
    let mut folders = [Folder::new("waitaof-one"), Folder::new("waitaof-other")];
    let start = |folder: &Folder, follows: bool| {
        let loses = format!("VARVE_LOSE_LOG={}", folder.syncs().display());
        let launch = Launch::varve().under(["env".to_owned(), format!("LD_PRELOAD={}", library().display()), loses]);
        let launch = launch
            .config("repl-diskless-sync-delay 0")
            .config(format!("dir {}", folder.0.display()))
            .config("appendonly yes")
            .config("appendfsync everysec");
        // Its primary is gone.
        let launch = if follows { launch.config("replicaof 127.0.0.1 1") } else { launch };
        launch.start().expect("the file loads")
    };
    let mut random = Random::new(seed::seed("the end of a primary and of its replica behind WAITAOF"));
    let (counted, mut sent, mut told) = (AtomicU64::new(0), 0, Told::default());
    for round in 0..=kills().div_ceil(2) {
        let [primary, replica] = [start(&folders[0], false), start(&folders[1], true)];
        let (before, last, name) = (counted.load(Relaxed), AtomicU64::new(0), format!("WAITAOF, round {round}"));
        for (server, which) in [(&primary, "primary"), (&replica, "replica")] {
            let mut client = server.client();
            whole(&mut client, 0, &name);
            let found = number(&mut client, "key");
            assert!((before..=sent).contains(&found), "{name}, {which}: {found}, not {before} to {sent}");
        }
        if round == kills().div_ceil(2) {
            break;
        }
        let leads = if round % 2 == 1 {
            assert_eq!(replica.client().cmd("REPLICAOF NO ONE").text(), "OK");
            folders.reverse();
            [replica, primary]
        } else {
            [primary, replica]
        };
        let [primary, replica] = &leads;
        let reply = replica.client().cmd(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        assert!(!reply.is_error(), "{}", reply.text());
        let (counts, pause) = (1 + random.below(3) as u64, random.below(1000) as u64);
        thread::scope(|scope| {
            scope.spawn(|| count(primary.client(), &mut sent, &counted));
            scope.spawn(|| write(primary.client(), 0, &mut told, &last));
            wait("WAITAOF counts", primary, || counted.load(Relaxed) >= before + counts);
            thread::sleep(Duration::from_millis(pause));
            let order = if random.below(2) == 0 { [primary, replica] } else { [replica, primary] };
            order.iter().for_each(|server| server.signal("KILL").expect("a signal"));
        });
        println!("{name}: {} of {sent} counted, {} written beside", counted.load(Relaxed), last.load(Relaxed));
    }
}

/// Each round is longer than a second, so there are fewer.
#[test]
fn what_was_acknowledged_a_second_before_the_last_sync_outlives_a_kill() {
    kill_and_look("everysec", kills().div_ceil(5), 200..3000);
}
