//! `save`: what files cost: BGSAVE, loading at start, and what clients wait meanwhile, beside the peer.
//!
//! | part | what is measured |
//! |---|---|
//! | save | BGSAVE, and BGREWRITEAOF, of a server at rest: seconds, MB of the file (of the base) a second, and the CPU's seconds, those of a child with them; memory that it took beside the data |
//! | load | the start with that file: seconds, MB of the file a second, with one worker and with two, and the CPU's seconds; the same of an append-only file of commands |
//! | tails | GETs and as many SETs at a fixed rate: at rest, while one BGSAVE follows the other, a minute of `appendfsync everysec`, and while one rewrite follows the other |
//! | holds | in the same scenes, Varve's own histograms ([`crate::own`]): how long commands held shards, and how long steps of the background took, and turns of such steps: a step holds a shard no longer |
//! | always | SETs a second of 50 clients that wait for `appendfsync always`, CPU of each, and SETs a sync ([`crate::syncs`]) |
//!
//! The data set has 2 GB of values, and three collections of two million elements each; the quick form has 2 MB.
//!
//! Memory beside the data is what the server says of it (`rdb_last_cow_size`, `aof_last_cow_size`) and the growth of its resident bytes; the
//! peer's copied pages are its child's. A request counts from when it was due ([`crate::pace`]).

use crate::kept;
use crate::load::{self, Sizes, Traffic};
use crate::own;
use crate::pace::{self, Stream};
use crate::point;
use crate::report::{Better, Findings, Table};
use crate::spent;
use crate::syncs::Syncs;
use crate::turns::{must, push};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve_base::hist::Hist;
use varve_testkit::client::Client;
use varve_testkit::{Launch, Random, Server};

const KEY_BYTES: usize = 16;
const CLIENTS: usize = 50;
const MB: f64 = 1e6;

struct Scale {
    keys: u64,
    value_bytes: usize,
    /// Elements of one hash, one list and one set, and of the hash as many fields.
    elements: u64,
    /// GETs a second, and SETs.
    rate: f64,
    /// How long clients are looked at, where files are written and where none are.
    time: Duration,
    /// How long they are looked at beside an append-only file alone.
    minute: Duration,
    /// SETs that are to be synced each.
    synced: u64,
}

/// Runs all parts.
///
/// # Errors
/// When a server cannot be started, is lost, or answers an error.
pub(crate) fn run(quick: bool) -> io::Result<Findings> {
    let scale = if quick {
        let (time, minute) = (Duration::from_millis(500), Duration::from_millis(1500));
        Scale { keys: 20_000, value_bytes: 100, elements: 20_000, rate: 2000.0, time, minute, synced: 500 }
    } else {
        let (time, minute) = (Duration::from_secs(20), Duration::from_secs(60));
        Scale { keys: 8_000_000, value_bytes: 250, elements: 2_000_000, rate: 10_000.0, time, minute, synced: 20_000 }
    };
    let mut tables = Tables::default();
    for (name, launch) in [("varve", Launch::varve as fn() -> Launch), ("peer", Launch::peer)] {
        let parts: [(&str, Part); 3] =
            [("RDB file", part_rdb), ("append-only file", part_commands), ("synced SETs", part_always)];
        for (part, measure) in parts {
            let rows = kept::case(&format!("{part}, {name}"), || {
                let mut rows = Rows::default();
                measure(name, launch, &scale, &mut rows)?;
                Ok(rows)
            })?;
            rows.into_iter().for_each(|(table, line, figures)| tables.0[table as usize].add(line, figures));
        }
    }
    let Tables([saves, loads, tails, holds, synced]) = tables;
    let tables =
        [("Saving", saves), ("Loading", loads), ("Waiting", tails), ("Holds", holds), ("Synced writes", synced)];
    let figures = tables.iter().flat_map(|(title, table)| table.apart(title, better));
    Ok(Findings::new("save", "Saving and loading").with(figures))
}

/// Which of the tables a row belongs to.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Which {
    Saves,
    Loads,
    Tails,
    Holds,
    Synced,
}

/// A table for each of [`Which`], in their order.
struct Tables([Table; 5]);

impl Default for Tables {
    fn default() -> Tables {
        Tables([
            Table::new(&["file MB", "seconds", "MB/s", "CPU s", "MB/CPU s", "beside MB", "grown MB"]),
            Table::new(&["file MB", "seconds", "MB/s", "CPU s", "MB/CPU s"]),
            Table::new(&["p50 us", "p99 us", "p99.9 us", "max us", "saves"]),
            Table::new(&["count", "p99.9 us", "max us"]),
            Table::new(&["SETs/s", "us of CPU a SET", "SETs/sync"]),
        ])
    }
}

/// Rows of the tables: which, the line's name, its figures.
type Rows = Vec<(Which, String, Vec<f64>)>;
/// The measurements in one life of a server, from its name and how it is started; they bring rows.
type Part = fn(&str, fn() -> Launch, &Scale, &mut Rows) -> io::Result<()>;

/// RDB files.
fn part_rdb(name: &str, launch: fn() -> Launch, scale: &Scale, rows: &mut Rows) -> io::Result<()> {
    let server = launch().config("io-threads 2").start()?;
    fill(&server, scale)?;
    rows.push((Which::Saves, format!("BGSAVE, {name}"), save(&server, Form::Rdb)?));
    load_all(name, &server, launch, Form::Rdb, rows)?;
    for (scene, saving) in [("at rest", None), ("BGSAVE", Some("BGSAVE"))] {
        wait(&server, scale, scale.time, saving, (scene, name), rows)?;
        own_holds(name, &server, scene, rows)?;
    }
    Ok(())
}

fn appending(launch: fn() -> Launch, fsync: &str) -> Launch {
    let launch = launch().config("appendonly yes").config("auto-aof-rewrite-percentage 0");
    launch.config(format!("appendfsync {fsync}"))
}

/// Append-only files, synced every second.
fn part_commands(name: &str, launch: fn() -> Launch, scale: &Scale, rows: &mut Rows) -> io::Result<()> {
    let server = appending(launch, "everysec").start()?;
    fill(&server, scale)?;
    load_all(name, &server, launch, Form::Commands, rows)?;
    rows.push((Which::Saves, format!("BGREWRITEAOF, {name}"), save(&server, Form::Commands)?));
    let scenes = [("everysec", scale.minute, None), ("everysec and BGREWRITEAOF", scale.time, Some("BGREWRITEAOF"))];
    for (scene, time, saving) in scenes {
        wait(&server, scale, time, saving, (scene, name), rows)?;
        own_holds(name, &server, scene, rows)?;
    }
    Ok(())
}

/// Writes that wait for their sync.
fn part_always(name: &str, launch: fn() -> Launch, scale: &Scale, rows: &mut Rows) -> io::Result<()> {
    let syncs = Syncs::new()?;
    let server = syncs.under(appending(launch, "always")).start()?;
    rows.push((Which::Synced, format!("appendfsync always, {name}"), always(&server, scale, &syncs)?));
    Ok(())
}

/// The better direction of a column: rates are to be high, all else low.
fn better(column: &str) -> Better {
    match column {
        "file MB" | "saves" | "count" => Better::Neither,
        _ if column.contains('/') => Better::More,
        _ => Better::Less,
    }
}

fn fill(server: &Server, scale: &Scale) -> io::Result<()> {
    let load = point::fill(scale.keys, KEY_BYTES, &Sizes::fixed(scale.value_bytes));
    point::refuse_errors(&load::run(server.address(), &load)?)?;
    let mut next = 0_u64;
    let plan = Traffic { connections: 1, pipeline: 100, requests: scale.elements * 3 };
    let outcome = load::drive(server.address(), plan, &mut |out| {
        let (number, element) = (next / 3, format!("element {}", next / 3));
        match next % 3 {
            0 => push(out, &[b"HSET", b"long hash", element.as_bytes(), number.to_string().as_bytes()]),
            1 => push(out, &[b"SADD", b"long set", element.as_bytes()]),
            _ => push(out, &[b"RPUSH", b"long list", element.as_bytes()]),
        }
        next += 1;
    })?;
    point::refuse_errors(&outcome)
}

/// A field of INFO persistence, as a number.
fn field(client: &mut Client, name: &str) -> io::Result<f64> {
    let info = must(client, "INFO persistence")?.text();
    let value = info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':')?.parse().ok());
    value.ok_or_else(|| io::Error::other(format!("INFO persistence has no number {name}")))
}

/// Has a server write a file, and waits for its end; the most that the server was resident meanwhile, in bytes.
fn write_file(server: &Server, client: &mut Client, command: &str) -> io::Result<u64> {
    must(client, command)?;
    let mut most = 0;
    while field(client, "rdb_bgsave_in_progress")? + field(client, "aof_rewrite_in_progress")? > 0.0 {
        most = most.max(server.memory()?.resident);
        std::thread::sleep(Duration::from_millis(2));
    }
    let status = must(client, "INFO persistence")?.text();
    let is_ok = ["rdb_last_bgsave_status:ok", "aof_last_bgrewrite_status:ok"].iter().all(|ok| status.contains(ok));
    if is_ok { Ok(most) } else { Err(io::Error::other(format!("{command} failed"))) }
}

/// Has a server at rest write its data into a file of this kind.
fn save(server: &Server, form: Form) -> io::Result<Vec<f64>> {
    let mut client = server.connect()?;
    let (command, beside) = match form {
        Form::Rdb => ("BGSAVE", "rdb_last_cow_size"),
        Form::Commands => ("BGREWRITEAOF", "aof_last_cow_size"),
    };
    let (before, start, spent) = (server.memory()?.resident, Instant::now(), spent::cpu_s(server.pid())?);
    let most = write_file(server, &mut client, command)?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu_s = spent::cpu_s(server.pid())? - spent;
    let file = if form == Form::Rdb { server.dir().join("dump.rdb") } else { base_of(server)? };
    let megabytes = fs::metadata(file)?.len() as f64 / MB;
    let beside = field(&mut client, beside)? / MB;
    let grown = most.saturating_sub(before) as f64 / MB;
    Ok(vec![megabytes, seconds, megabytes / seconds, cpu_s, megabytes / cpu_s, beside, grown])
}

/// The base of a server's append-only file, as the manifest names it: files that it names no more may still be there.
fn base_of(server: &Server) -> io::Result<PathBuf> {
    let folder = server.dir().join(APPEND_FOLDER);
    let manifest = fs::read_to_string(folder.join("appendonly.aof.manifest"))?;
    let base = manifest.lines().find(|line| line.ends_with("type b")).and_then(|line| line.split(' ').nth(1));
    base.map(|name| folder.join(name)).ok_or_else(|| io::Error::other(format!("no base is named: {manifest}")))
}

/// A kind of files that a server loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Rdb,
    /// An append-only file of commands.
    Commands,
}

/// The folder of the append-only file in a server's directory.
const APPEND_FOLDER: &str = "appendonlydir";

/// Bytes of the files that a server of this directory loads.
fn bytes_of(saved: &Server, form: Form) -> io::Result<u64> {
    match form {
        Form::Rdb => Ok(fs::metadata(saved.dir().join("dump.rdb"))?.len()),
        Form::Commands => fs::read_dir(saved.dir().join(APPEND_FOLDER))?.map(|file| Ok(file?.metadata()?.len())).sum(),
    }
}

/// Loads the files of a server with one worker and with two, whose names are no peer's: its threads have no part in it.
fn load_all(name: &str, saved: &Server, launch: fn() -> Launch, form: Form, rows: &mut Rows) -> io::Result<()> {
    let what = if form == Form::Rdb { "RDB" } else { "commands" };
    for threads in [1, 2] {
        if name == "varve" || threads == 1 {
            let launch = launch().config(format!("io-threads {threads}"));
            let figures = load_files(saved, launch, form)?;
            rows.push((Which::Loads, format!("{what}, {threads} threads, {name}"), figures));
        }
    }
    Ok(())
}

/// Starts a server that loads a copy of the files of another one.
fn load_files(saved: &Server, launch: Launch, form: Form) -> io::Result<Vec<f64>> {
    let bytes = bytes_of(saved, form)?;
    // The one that loads may write behind its commands.
    let copy = saved.dir().join("copy");
    let from = if form == Form::Rdb { saved.dir().to_path_buf() } else { saved.dir().join(APPEND_FOLDER) };
    let to = if form == Form::Rdb { copy.clone() } else { copy.join(APPEND_FOLDER) };
    fs::create_dir_all(&to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        if form == Form::Commands || file.file_name() == "dump.rdb" {
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    let appends = if form == Form::Rdb { "no" } else { "yes" };
    let launch = launch.config(format!("dir {}", copy.display())).config(format!("appendonly {appends}"));
    let loaded = load_copy(launch, bytes as f64 / MB);
    fs::remove_dir_all(&copy)?;
    loaded
}

fn load_copy(launch: Launch, megabytes: f64) -> io::Result<Vec<f64>> {
    // Loading takes longer than a start may.
    let server = launch.start_loading()?;
    let mut client = server.connect()?;
    while field(&mut client, "loading")? > 0.0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let cpu = server.cpu_ns()? as f64 / 1e9;
    // Both log how long each file took; the peer then has a line with the sum of an append-only file's.
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("DB loaded from ") && !line.contains("append only file"));
    let seconds: f64 =
        lines.filter_map(|line| line.split("seconds").next()?.rsplit(": ").next()?.trim().parse::<f64>().ok()).sum();
    if seconds == 0.0 {
        return Err(io::Error::other(format!("no file was loaded:\n{log}")));
    }
    Ok(vec![megabytes, seconds, megabytes / seconds, cpu, megabytes / cpu])
}

/// The times that GETs and SETs wait at a fixed rate, looked at for this time; with a command, while
/// the files that it writes follow each other.
fn wait(
    server: &Server,
    scale: &Scale,
    time: Duration,
    saving: Option<&str>,
    (scene, name): (&str, &str),
    rows: &mut Rows,
) -> io::Result<()> {
    let (gets, sets) = (Hist::new(), Hist::new());
    let (mut random, mut other) = (Random::new(2), Random::new(3));
    let key = |random: &mut Random| {
        let mut key = vec![0; KEY_BYTES];
        load::write_key(&mut key, random.below(scale.keys as usize) as u64);
        key
    };
    let value = vec![b'w'; scale.value_bytes];
    let mut get = |out: &mut Vec<u8>| push(out, &[b"GET", &key(&mut random)]);
    let mut set = |out: &mut Vec<u8>| match other.below(20) {
        // The long collections change as well while they are saved.
        0 => {
            let element = format!("element {}", other.below(scale.elements as usize));
            push(out, &[b"HSET", b"long hash", element.as_bytes(), b"changed"]);
        }
        _ => push(out, &[b"SET", &key(&mut other), &value]),
    };
    // The server's own histograms are to have this scene alone.
    must(&mut server.connect()?, "CONFIG RESETSTAT")?;
    let requests = (scale.rate * time.as_secs_f64()) as u64;
    let stream =
        |write, times| Stream { connections: CLIENTS, rate: scale.rate, first: Duration::ZERO, requests, write, times };
    let (over, mut saves) = (AtomicBool::new(false), Ok(0));
    let errors = std::thread::scope(|scope| {
        let (over, server) = (&over, server);
        let saver = saving.map(|command| scope.spawn(move || save_on(server, command, over)));
        let errors = pace::run(server.address(), &mut [stream(&mut get, &gets), stream(&mut set, &sets)]);
        over.store(true, Relaxed);
        if let Some(saver) = saver {
            saves = saver.join().expect("it returns what fails");
        }
        errors
    })?;
    if errors > 0 {
        return Err(io::Error::other(format!("{errors} replies were errors")));
    }
    let saves = f64::from(saves?);
    for (what, times) in [("GET", gets.read()), ("SET", sets.read())] {
        let percents = [50.0, 99.0, 99.9].map(|percent| times.percentile_ns(percent) as f64 / 1000.0);
        let figures = [&percents[..], &[times.max_ns() as f64 / 1000.0, saves]].concat();
        rows.push((Which::Tails, format!("{scene}: {what}, {name}"), figures));
    }
    Ok(())
}

/// Adds what Varve's own histograms have of a scene, which has begun with them empty.
fn own_holds(name: &str, server: &Server, scene: &str, rows: &mut Rows) -> io::Result<()> {
    if name == "varve" {
        let info = must(&mut server.connect()?, "INFO background")?.text();
        for times in ["lock_holds", "background_slices", "background_rounds"] {
            let figures = own::figures(&info, times, &["count", "p99.9_us", "max_us"])?;
            rows.push((Which::Holds, format!("{scene}: {times}, {name}"), figures));
        }
    }
    Ok(())
}

/// Saves until it is over; the number of saves.
fn save_on(server: &Server, command: &str, over: &AtomicBool) -> io::Result<u32> {
    let (mut client, mut saves) = (server.connect()?, 0);
    while !over.load(Relaxed) {
        write_file(server, &mut client, command)?;
        saves += 1;
    }
    Ok(saves)
}

/// SETs a second whose replies wait until they are synced, the server's CPU for each, and SETs for each sync.
fn always(server: &Server, scale: &Scale, syncs: &Syncs) -> io::Result<Vec<f64>> {
    let before = syncs.count();
    let (value, mut next) = (vec![b'v'; scale.value_bytes], 0);
    let plan = Traffic { connections: CLIENTS, pipeline: 1, requests: scale.synced };
    let (start, spent) = (Instant::now(), server.cpu_ns()?);
    let outcome = load::drive(server.address(), plan, &mut |out| {
        let mut key = vec![0; KEY_BYTES];
        load::write_key(&mut key, next);
        next += 1;
        push(out, &[b"SET", &key, &value]);
    })?;
    point::refuse_errors(&outcome)?;
    let (seconds, made) = (start.elapsed().as_secs_f64(), syncs.count() - before);
    let (synced, cpu_us) = (scale.synced as f64, (server.cpu_ns()? - spent) as f64 / 1000.0);
    if made == 0 {
        return Err(io::Error::other("the server has made no sync"));
    }
    Ok(vec![synced / seconds, cpu_us / synced, synced / made as f64])
}
