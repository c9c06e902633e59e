//! A replica behind a link that is slower than what its primary is written: it falls behind, its primary stays as small as it was, and
//! it arrives when less is written.
//!
//! ```text
//!   writer --50 MB/s--> primary --20 MB/s, by the kernel--> replica      for two minutes: it falls behind
//!   writer -- 5 MB/s--> primary --20 MB/s----------------> replica      until it has all
//! ```
//! VARVE_SLOW_LINK_SECONDS has it run so, with redis-server behind it for the figures; the short form has half of these rates, for
//! some seconds. Keys are few, and overwritten: the data set does not grow.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use varve_testkit::skip::skipped;
use varve_testkit::{Launch, Random, Server};
use varve_tests::ending::SetAtEnd;
use varve_tests::network::{Network, inside};
use varve_tests::replicas::{assert_equal, field};

const MB: u64 = 1_000_000;
/// Bytes of a value.
const VALUE_BYTES: usize = 16_384;
/// SETs of one batch.
const BATCH: usize = 16;
/// Bytes that the primary may grow by.
const GROWTH_MAX: u64 = 64 * MB;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// How much is written, in bytes a second and seconds.
#[derive(Clone, Copy)]
struct Pace {
    /// Keys that are overwritten.
    keys: usize,
    fast: u64,
    link: u64,
    slow: u64,
    seconds: u64,
    /// How long keys are overwritten before the replica comes.
    settled: Duration,
}

/// The load: its rate in bytes a second, and bytes that were written.
struct Load {
    rate: AtomicU64,
    written: AtomicU64,
    is_over: AtomicBool,
}

/// Overwrites keys at the load's rate at most.
fn overwrite(server: &Server, keys: usize, load: &Load) {
    let (mut client, mut random) = (server.client(), Random::new(1));
    let noise: Vec<u8> = (0..2 * VALUE_BYTES).map(|_| random.next_u64() as u8).collect();
    let mut next = Instant::now();
    while !load.is_over.load(Relaxed) {
        for _ in 0..BATCH {
            let (key, from) = (format!("key:{}", random.below(keys)), random.below(VALUE_BYTES));
            client.queue(&[b"SET", key.as_bytes(), &noise[from..from + VALUE_BYTES]]);
        }
        client.flush().expect("sent");
        (0..BATCH).for_each(|_| assert!(!client.read().expect("a reply").is_error()));
        let bytes = (BATCH * VALUE_BYTES) as u64;
        load.written.fetch_add(bytes, Relaxed);
        // Behind a pause of the machine it does not make up for what was not written.
        next = next.max(Instant::now() - LOOK) + Duration::from_secs_f64(bytes as f64 / load.rate.load(Relaxed) as f64);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn number(server: &Server, name: &str) -> u64 {
    field(&mut server.client(), "replication", name).parse().unwrap_or(0)
}

/// Figures of a run, in bytes.
#[derive(Debug, Default)]
struct Figures {
    before: u64,
    most: u64,
    behind: u64,
    spool: u64,
}

impl Figures {
    fn look(&mut self, primary: &Server, replica: &Server) {
        self.most = self.most.max(primary.memory().expect("the primary lives").resident);
        let sent = number(primary, "master_repl_offset");
        self.behind = self.behind.max(sent.saturating_sub(number(replica, "slave_repl_offset")));
        self.spool = self.spool.max(number(primary, "repl_spool_bytes"));
    }
}

fn start(launch: &Launch, network: &Network, nth: usize) -> Server {
    let launch = launch.clone().config("protected-mode no").config("repl-diskless-sync-delay 0");
    launch.under(network.under(nth)).at((network.ip(nth), 6379).into()).start().expect("a server")
}

/// Writes until the replica has fallen behind and arrived; none where links are not slowed down.
fn run(name: &str, launch: &Launch, number_of_network: u8, pace: Pace) -> Option<Figures> {
    let network = Network::new(number_of_network, 2);
    if let Err(why) = network.slow_down(1, pace.link) {
        skipped(format_args!("no link of this machine is slowed down: {why}"));
        return None;
    }
    let primary = start(launch, &network, 0);
    let load = Load { rate: pace.fast.into(), written: 0.into(), is_over: false.into() };
    let mut figures = Figures::default();
    let replica = thread::scope(|scope| {
        let _over = SetAtEnd(&load.is_over);
        scope.spawn(|| overwrite(&primary, pace.keys, &load));
        let begun = Instant::now();
        while begun.elapsed() < pace.settled {
            figures.before = figures.before.max(primary.memory().expect("the primary lives").resident);
            thread::sleep(LOOK);
        }
        let replica = start(&launch.clone().config(format!("replicaof {} 6379", network.ip(0))), &network, 1);
        let (begun, end) = (Instant::now(), load.written.load(Relaxed) + pace.fast * pace.seconds);
        while load.written.load(Relaxed) < end {
            figures.look(&primary, &replica);
            thread::sleep(LOOK);
        }
        let lasted = begun.elapsed();
        load.rate.store(pace.slow, Relaxed);
        let (begun, mut writer) = (Instant::now(), primary.client());
        // It arrives when it has what was written a moment ago, while more is written.
        let mut has_arrived =
            || writer.cmd("SET mark 1").text() == "OK" && writer.cmd("WAIT 1 1000").integer() == Some(1);
        while !has_arrived() {
            figures.look(&primary, &replica);
            let limit = Duration::from_secs(60 + 4 * pace.seconds);
            assert!(begun.elapsed() < limit, "{name}: {figures:?}\n{}\n----\n{}", primary.log(), replica.log());
        }
        println!(
            "{name}: {} MB in {:.1} s, then {:.1} s until the replica had all; it was behind by up to {} MB; the primary grew from \
             {} to {} MB at most, files without a name had {} MB at most; full synchronisations: {}",
            pace.fast * pace.seconds / MB,
            lasted.as_secs_f64(),
            begun.elapsed().as_secs_f64(),
            figures.behind / MB,
            figures.before / MB,
            figures.most / MB,
            figures.spool / MB,
            field(&mut primary.client(), "stats", "sync_full"),
        );
        replica
    });
    assert_equal(&replica, &primary);
    Some(figures)
}

#[test]
fn issue_17_a_slow_link_does_not_make_the_primary_large() {
    if !inside("issue_17_a_slow_link_does_not_make_the_primary_large") {
        return;
    }
    let seconds = std::env::var("VARVE_SLOW_LINK_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let of_seconds = |count| Duration::from_secs(count);
    let pace = match seconds {
        Some(seconds) => {
            Pace { keys: 4096, fast: 50 * MB, link: 20 * MB, slow: 5 * MB, seconds, settled: of_seconds(20) }
        }
        None => Pace { keys: 512, fast: 25 * MB, link: 10 * MB, slow: 2 * MB, seconds: 6, settled: of_seconds(2) },
    };
    let Some(figures) = run("Varve", &Launch::varve().config("io-threads 2"), 1, pace) else { return };
    assert!(figures.spool > 0, "the replica was behind by more than memory is kept for: {figures:?}");
    assert!(figures.most < figures.before + GROWTH_MAX, "{figures:?}");
    if seconds.is_some() {
        run("redis-server", &Launch::peer(), 2, pace);
    }
}
