//! Reads from a replica while it applies its primary's stream: what `docs/consistency.md` promises of them.
//!
//! ```text
//!  writers: rising numbers to pairs of keys, and to all fields of long hashes --> primary --> replica <-- readers
//! ```
//! A reader never finds half of a command or of a transaction, and never an older state of a key behind a later one.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use varve_testkit::{Client, Launch};
use varve_tests::replicas::{field, follow, wait};

/// Fields of a long hash: more than a command changes at once.
const FIELDS: usize = 1500;
/// Numbers that each writer writes at least, and reads of each reader.
const NUMBERS: u64 = 100;
const READS: u64 = 300;
/// A reader that takes longer than this has found a replica that stands still.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes rising numbers until it is over, by a command of two keys, by a transaction, and by a command that takes long.
fn write(mut client: Client, over: &AtomicBool, written: &AtomicU64) {
    let fields: Vec<String> = (0..FIELDS).map(|field| field.to_string()).collect();
    let mut number = 0;
    while !over.load(Relaxed) || number < NUMBERS {
        number += 1;
        let text = number.to_string();
        client.queue(&["MSET", "one", &text, "other", &text]);
        client.queue(&["MULTI"]);
        client.queue(&["SET", "left", &text]);
        client.queue(&["INCR", "right"]);
        client.queue(&["EXEC"]);
        let pairs = fields.iter().flat_map(|field| [field.as_str(), &text]);
        client.queue(&["HSET", "hash"].into_iter().chain(pairs).collect::<Vec<_>>());
        client.queue(&["LPUSH", "list"].into_iter().chain(fields.iter().map(String::as_str)).collect::<Vec<_>>());
        client.queue(&["LREM", "list", "0", "7"]);
        client.queue(&["DEL", "list"]);
        client.flush().expect("the primary is there");
        for _ in 0..9 {
            let reply = client.read().expect("a reply");
            assert!(!reply.is_error(), "{}", reply.text());
        }
        written.store(number, Relaxed);
    }
}

/// The numbers of two keys, read together.
fn pair(client: &mut Client, names: [&str; 2]) -> [u64; 2] {
    let reply = client.cmd(&format!("MGET {} {}", names[0], names[1]));
    let replies = reply.elements().expect("an array");
    std::array::from_fn(|nth| replies[nth].text().parse().unwrap_or(0))
}

/// The least of rising numbers that is read next.
#[derive(Default)]
struct Rising(u64);

impl Rising {
    fn see(&mut self, number: u64, what: &str) {
        assert!(number >= self.0, "{what}: {number} behind {}", self.0);
        self.0 = number;
    }
}

fn read(mut client: Client) {
    let (mut one, mut left, mut hash) = (Rising::default(), Rising::default(), Rising::default());
    let begun = Instant::now();
    let mut reads = 0;
    // It is no test before the numbers rise.
    while reads < READS || hash.0 < NUMBERS / 2 {
        assert!(begun.elapsed() < PATIENCE, "the replica is at {}", hash.0);
        let [a, b] = pair(&mut client, ["one", "other"]);
        assert_eq!(a, b, "half of an MSET");
        one.see(a, "one");
        let [a, b] = pair(&mut client, ["left", "right"]);
        assert_eq!(a, b, "half of a transaction");
        left.see(a, "left");
        let reply = client.cmd("HVALS hash");
        let fields = reply.elements().expect("an array");
        let numbers: Vec<u64> = fields.iter().map(|field| field.text().parse().expect("a number")).collect();
        assert!(numbers.is_empty() || numbers.len() == FIELDS, "{} fields: half of an HSET", numbers.len());
        let first = numbers.first().copied().unwrap_or(0);
        assert!(numbers.iter().all(|number| *number == first), "half of an HSET: {first} and others");
        hash.see(first, "the hash");
        let length = client.cmd("LLEN list").integer().expect("a number") as usize;
        assert!([0, FIELDS - 1, FIELDS].contains(&length), "{length} elements: half of an LPUSH or an LREM");
        reads += 1;
    }
}

/// A primary and its replica, of these workers each; readers of one connection a worker.
fn look(primary_is_peer: bool) {
    let launch = if primary_is_peer { Launch::peer() } else { Launch::varve().config("io-threads 2") };
    let primary = launch.start().expect("a primary starts");
    let replica = Launch::varve().config("io-threads 2").start().expect("a replica starts");
    let mut client = replica.client();
    follow(&replica, &primary);
    wait("a data set", &replica, || field(&mut client, "replication", "master_link_status") == "up");
    let (over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let writer = primary.client();
        scope.spawn(|| write(writer, &over, &written));
        let readers = [replica.client(), replica.client()].map(|client| scope.spawn(move || read(client)));
        let read = readers.map(|reader| reader.join());
        over.store(true, Relaxed);
        read.into_iter().for_each(|read| read.expect("a reader is content"));
    });
    let last = written.load(Relaxed).to_string();
    wait("the replica has all", &replica, || client.cmd("HGET hash 0").text() == last);
    assert_eq!(pair(&mut client, ["one", "right"]), [last.parse::<u64>().expect("a number"); 2]);
}

#[test]
fn a_replica_shows_no_command_and_no_transaction_by_half() {
    look(false);
}

#[test]
fn a_replica_of_redis_shows_no_command_and_no_transaction_by_half() {
    look(true);
}
