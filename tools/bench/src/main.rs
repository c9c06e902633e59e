//! The experiments: Varve, the peer and a floor server side by side in one run.
//!
//! Absolute times mean nothing on a shared machine; ratios within a run hold. What is measured is the server's CPU time and
//! its resident memory, never the client's.

#![forbid(unsafe_code)]

mod all;
mod apart;
mod apply;
mod collections;
mod commands;
mod contenders;
mod cores;
mod draw;
mod engine;
mod fan_floor;
mod floor;
mod fragmentation;
mod giveback;
mod grid;
mod hitrate;
mod holds;
mod kept;
mod lists;
mod load;
mod long_commands;
mod longlist;
mod machine;
mod misses;
mod mixes;
mod own;
mod pace;
mod paper;
mod pipe;
mod point;
mod publish;
mod published;
mod reclaim;
mod replication;
mod report;
mod save;
mod screen;
mod scripts;
mod segments;
mod size;
mod sizes;
mod so_far;
mod spent;
mod syncs;
mod tails;
mod tls;
mod turns;
mod types;
mod ycsb;
mod ycsb_like;

use crate::report::Findings;
use crate::size::Size;
use clap::{Parser, Subcommand};
use std::io;
use std::process::ExitCode;
use std::time::Instant;

/// The experiments
#[derive(Parser)]
struct Options {
    /// Another server to run beside, where an experiment can: NAME=COMMAND with {port}, as in
    /// valkey='valkey-server --port {port}'
    #[arg(long, global = true)]
    rival: Vec<contenders::Rival>,
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Every experiment into one folder with one report; run again, it goes on with what is missing
    All {
        /// Smaller data and fewer runs: ten minutes in place of a night
        #[arg(long)]
        quick: bool,
        /// Seconds, and a few experiments: a test of the whole
        #[arg(long, conflicts_with = "quick")]
        tiny: bool,
        /// Only these experiments: "lists" stands for all whose names begin with "lists-"
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// The folder; target/bench/quick or target/bench/full without it
        #[arg(long)]
        into: Option<std::path::PathBuf>,
        /// Measures anew what is there
        #[arg(long)]
        again: bool,
    },
    /// CPU per GET and SET, SET with reclaim running, resident bytes a key
    Point {
        /// Tiny sizes: shows in seconds that everything runs; its figures mean nothing
        #[arg(long)]
        quick: bool,
        /// Only this part: cpu, reclaim, memory, paper
        #[arg(long)]
        part: Option<String>,
    },
    /// Pushes and pops at either end of a list at every fill: the quicklist's result sheets
    Lists {
        /// Tiny sizes: shows in seconds that everything runs; its figures mean nothing
        #[arg(long)]
        quick: bool,
        /// Only this part: 40b-piped, 40b-single, 1kb-piped, 1kb-single
        #[arg(long)]
        part: Option<String>,
    },
    /// RPOPLPUSH, and LINDEX, LSET, LRANGE in the middle, of lists of 1 to 1 000 000
    Longlist {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
    },
    /// Resident bytes over payload and CPU per operation of hashes, sets, sorted sets and lists
    Collections {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
        /// Only this part: cpu, memory, table, sizes, ops
        #[arg(long)]
        part: Option<String>,
    },
    /// CPU of scripts and functions, and of commands beside another worker's scripts
    Scripts {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
        /// Only this part: cpu, beside
        #[arg(long)]
        part: Option<String>,
    },
    /// Bytes and CPU of streams, pending entries, fields that expire, geo sets, HyperLogLogs, bitmaps
    Types {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
        /// Only this part: streams, pending, fields, geo, hyperloglog, bitmaps
        #[arg(long)]
        part: Option<String>,
    },
    /// Resident memory, its peak and CPU under the paper's workloads W1-W8 at maxmemory
    Fragmentation {
        /// 48 MB in place of 1 GB
        #[arg(long)]
        quick: bool,
        /// Only this workload, of both tables: W1 to W8
        #[arg(long)]
        only: Option<String>,
        /// Only this table of the paper: 1 or 5
        #[arg(long)]
        table: Option<u32>,
        /// The limit in GB; the paper has 10
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
        gigabytes: Option<u64>,
        /// A redis-server that defragments actively, for table 5, in place of the one that is built from Debian's source
        #[arg(long)]
        also: Option<std::path::PathBuf>,
        /// The paper's own limit: table 5 at 10 GB, redis-server with its own allocator alone
        #[arg(long, value_parser = [fragmentation::TEN_GB], conflicts_with_all = ["quick", "table", "gigabytes"])]
        part: Option<String>,
    },
    /// The paper's ReclaimCost of the three formulas under uniform and hot-cold writes
    Reclaim {
        /// Fewer keys in smaller segments
        #[arg(long)]
        quick: bool,
    },
    /// Memory that goes back after mass deletion and mass expiry, and what others notice of it
    Giveback {
        /// A fiftieth of the keys
        #[arg(long)]
        quick: bool,
        /// Only this part: return, instant, rate
        #[arg(long)]
        part: Option<String>,
    },
    /// Hit rates of the eviction policies on a Zipf trace
    Hitrate {
        /// 16 MB and some seconds a run
        #[arg(long)]
        quick: bool,
    },
    /// Operations a second of the store in process with 1 to N threads, beside dashmap and a locked HashMap
    Engine {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
        /// Threads at most
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// CPU of GET and SET of the store in process with few segments and with 131 072
    Segments {
        /// 4096 segments
        #[arg(long)]
        quick: bool,
    },
    /// GET and SET of servers with 1 and 2 workers (io-threads)
    Cores {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
    },
    /// MB a second of a stream of commands, applied in process by 1 to N lanes
    Apply {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
        /// Lanes at most
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// CPU per operation of redis-benchmark's whole default set at pipelines 1, 16, 100
    Commands {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
        /// Only commands whose names begin so
        #[arg(long)]
        only: Option<String>,
        /// Only this pipeline: 1, 16, 100
        #[arg(long)]
        pipeline: Option<usize>,
    },
    /// One client alone, the paper's mixes with 50 clients, SET that appends at a full keyspace
    Mixes {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
        /// Only this part: alone, mixes, append
        #[arg(long)]
        part: Option<String>,
    },
    /// Workloads A, B, C, D and F of YCSB, by YCSB itself; without Java or Maven by our own generator with its distributions
    Ycsb {
        /// Few records
        #[arg(long)]
        quick: bool,
        /// Only this workload: a, b, c, d, f
        #[arg(long)]
        only: Option<String>,
        /// Our own generator with YCSB's distributions also where YCSB can run
        #[arg(long)]
        own: bool,
    },
    /// Seconds and memory of BGSAVE and of loading, and what GETs and SETs wait meanwhile
    Save {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
    },
    /// The cost of a replica for its primary, the cost of applying, how fast a data set is sent, how soon a replica takes over
    Replication {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
        /// Only this part: cost, apply, sync, takeover
        #[arg(long)]
        part: Option<String>,
    },
    /// How long GETs wait at half load while the server grows, reclaims, expires, deletes
    Tails {
        /// Half a second a scene, a smaller set to delete
        #[arg(long)]
        quick: bool,
        /// Only this scene: quiet, growth, reclaim, expiry, deletion
        #[arg(long)]
        scene: Option<String>,
    },
    /// How long each long command holds shards, and what GETs wait meanwhile
    Holds {
        /// Collections of some ten thousand elements
        #[arg(long)]
        quick: bool,
    },
    /// Time, CPU and query buffer of `redis-cli --pipe`, and what a bystander waits meanwhile
    Pipe {
        /// A few megabytes
        #[arg(long)]
        quick: bool,
    },
    /// CPU, memory and handshakes of TLS, beside the same without it
    Tls {
        /// Tiny sizes
        #[arg(long)]
        quick: bool,
        /// Only this part: cpu, memory, handshakes
        #[arg(long)]
        part: Option<String>,
    },
    /// One publisher and many subscribers: time, CPU and write() calls of the fan-out, a subscriber's longest PING
    Publish {
        /// A fiftieth of the messages
        #[arg(long)]
        quick: bool,
        /// Runs of each scene; a figure is their median
        #[arg(long, default_value_t = 3)]
        turns: usize,
    },
    /// Instructions and simulated cache misses of GET and SET, by function
    Misses {
        /// Few keys
        #[arg(long)]
        quick: bool,
    },
    /// Opens a report in Chromium, and fails if one of its figures or entries is missing
    #[command(hide = true)]
    Look {
        /// The report.html
        report: std::path::PathBuf,
    },
    /// The floor: a server that parses nothing and answers +OK whenever it has got the bytes of one request
    #[command(hide = true)]
    Floor {
        /// Port on 127.0.0.1
        #[arg(long)]
        port: u16,
        /// Bytes of a request
        #[arg(long)]
        request_bytes: usize,
        /// Bytes of a message that all other connections get for each request
        #[arg(long)]
        message_bytes: Option<usize>,
    },
}

fn main() -> ExitCode {
    let options = Options::parse();
    contenders::invite(options.rival);
    let result = match options.experiment {
        Experiment::All { quick, tiny, only, into, again } => {
            let size = if tiny { Size::Tiny } else { Size::of(quick) };
            all::run(&all::Plan { size, only, into, again })
        }
        Experiment::Floor { port, request_bytes, message_bytes: None } => floor::serve(port, request_bytes),
        Experiment::Floor { port, request_bytes, message_bytes: Some(bytes) } => {
            fan_floor::serve(port, request_bytes, bytes)
        }
        Experiment::Look { report } => report::look(&report).map_err(io::Error::other),
        one => run_timed(one).and_then(|findings| {
            report::show(&findings);
            let folder = varve_testkit::server::target_dir().join("bench");
            std::fs::create_dir_all(&folder)?;
            report::write(&folder, &findings)?;
            println!("\nalso in {}", folder.join(format!("{}.json", findings.name)).display());
            Ok(())
        }),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            match screen::is_stopped() {
                true => ExitCode::from(screen::STOPPED),
                false => ExitCode::FAILURE,
            }
        }
    }
}

/// Runs one experiment, and keeps the time that it took.
fn run_timed(experiment: Experiment) -> io::Result<Findings> {
    let begun = Instant::now();
    let findings = run(experiment)?;
    Ok(Findings { took: Some(begun.elapsed().as_secs_f64()), ..findings })
}

/// Runs one experiment.
fn run(experiment: Experiment) -> io::Result<Findings> {
    match experiment {
        Experiment::Point { quick, part } => point::run(quick, part.as_deref()),
        Experiment::Lists { quick, part } => lists::run(Size::of(quick), part.as_deref()),
        Experiment::Longlist { quick } => longlist::run(Size::of(quick)),
        Experiment::Collections { quick, part } => collections::run(quick, part.as_deref()),
        Experiment::Types { quick, part } => types::run(quick, part.as_deref()),
        Experiment::Scripts { quick, part } => scripts::run(quick, part.as_deref()),
        Experiment::Fragmentation { quick, only, table, gigabytes, also, part } => {
            let choice = match part {
                None => fragmentation::Choice { only, table, gigabytes, also, ten_gb: false },
                Some(_) => fragmentation::Choice { only, also, ..fragmentation::Choice::ten_gb(None) },
            };
            fragmentation::run(quick, &choice)
        }
        Experiment::Reclaim { quick } => reclaim::run(quick),
        Experiment::Giveback { quick, part } => giveback::run(quick, part.as_deref()),
        Experiment::Hitrate { quick } => hitrate::run(quick),
        Experiment::Engine { quick, threads } => engine::run(threads, quick),
        Experiment::Segments { quick } => segments::run(quick),
        Experiment::Cores { quick } => cores::run(Size::of(quick)),
        Experiment::Apply { quick, threads } => apply::run(threads, quick),
        Experiment::Commands { quick, only, pipeline } => commands::run(quick, only.as_deref(), pipeline),
        Experiment::Mixes { quick, part } => mixes::run(quick, part.as_deref()),
        Experiment::Ycsb { quick, only, own } => ycsb::run(quick, only.as_deref(), own),
        Experiment::Save { quick } => save::run(quick),
        Experiment::Replication { quick, part } => replication::run(quick, part.as_deref()),
        Experiment::Tails { quick, scene } => tails::run(quick, scene.as_deref()),
        Experiment::Holds { quick } => holds::run(Size::of(quick)),
        Experiment::Pipe { quick } => pipe::run(quick),
        Experiment::Tls { quick, part } => tls::run(quick, part.as_deref()),
        Experiment::Publish { quick, turns } => publish::run(quick, turns),
        Experiment::Misses { quick } => misses::run(quick),
        Experiment::All { .. } | Experiment::Floor { .. } | Experiment::Look { .. } => {
            Err(io::Error::other("not one experiment"))
        }
    }
}
