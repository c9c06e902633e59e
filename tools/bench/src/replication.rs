//! `replication`: what a replica costs its primary, what applying costs the replica, how fast a data set is sent, and how soon a
//! replica serves writes when its primary has been killed, beside the peer.
//!
//! | part | what is measured |
//! |---|---|
//! | cost | the primary's CPU a SET without a replica and with one; the replica's CPU a SET, over the primary's without a replica |
//! | apply | a recorded stream applied in process by one thread and by two ([`crate::apply`]) |
//! | sync | from REPLICAOF until the link is up, at rest and while keys are overwritten: MB of values a second, the primary's CPU at rest, and how much larger the primary is at its largest than while keys are overwritten without a replica |
//! | takeover | from SIGKILL of a primary under load until the replica, which is sent REPLICAOF NO ONE at once, has taken a SET |
//!
//! Primary and replica are the same program, with one worker each. The full form has 2 GB of values; the quick one has 2 MB.

use crate::floor::Under;
use crate::load::{self, Load, Op, Order, Sizes, Traffic};
use crate::point;
use crate::report::{Better, Findings, Table};
use crate::turns::{self, must};
use crate::{apply, kept, screen, spent};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use varve_testkit::client::Client;
use varve_testkit::{Launch, Server};

const KEY_BYTES: usize = 16;
const MB: f64 = 1e6;
/// Pipelines of the SETs whose CPU is measured.
const PIPELINES: [usize; 2] = [1, 16];
/// The aims: the replica's CPU over the primary's, the primary's growth, two threads over one.
const AIMS: &str = "Aims: the replica's CPU a SET is at most 0.8 of the primary's without one; a primary grows by at most 64 MB for a \
                    replica that comes; two threads apply at least 1.5 times as fast as one. A replica that has not arrived after two minutes has no \
                    figure: redis-server's begins anew again and again while its primary is overwritten.";
/// How long a server may take for what is waited for.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a replica may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(120);
/// Time between two looks at a server.
const LOOK: Duration = Duration::from_millis(1);

struct Scale {
    /// SETs whose CPU is measured, of each pipeline.
    requests: u64,
    /// Keys of the data set that is sent, of `value_bytes` each.
    keys: u64,
    value_bytes: usize,
    /// How long keys are overwritten before a replica comes.
    settled: Duration,
    /// Primaries that are killed.
    kills: u64,
    /// How often a replica's cost is measured.
    turns: u64,
}

/// Runs all parts, or one.
///
/// # Errors
/// When a server cannot be started, is lost, or answers an error; a part that there is not.
pub(crate) fn run(quick: bool, part: Option<&str>) -> io::Result<Findings> {
    let scale = match quick {
        true => Scale {
            requests: 4000,
            keys: 20_000,
            value_bytes: 100,
            settled: Duration::from_millis(100),
            kills: 1,
            turns: 1,
        },
        false => Scale {
            requests: 4_000_000,
            keys: 8_000_000,
            value_bytes: 250,
            settled: Duration::from_secs(10),
            kills: 11,
            turns: 3,
        },
    };
    if let Some(part) = part.filter(|part| !["cost", "apply", "sync", "takeover"].contains(part)) {
        return Err(io::Error::other(format!("no part {part}: cost, apply, sync, takeover")));
    }
    let wanted = |name: &str| part.is_none_or(|part| part == name);
    let mut findings = Findings::new("replication", "The cost of a replica").note(AIMS);
    if wanted("cost") {
        findings.add(kept::figures(cost(&scale)?.apart("A replica's cost", better))?);
    }
    if wanted("apply") {
        findings.add(kept::figures(apply::rates(2, quick)?.apart("A stream of commands", better))?);
    }
    if wanted("sync") {
        findings.add(kept::figures(syncs(&scale)?.apart("A data set is sent", better))?);
    }
    if wanted("takeover") {
        findings.add(takeovers(&scale)?.apart("A replica takes over", better));
    }
    Ok(findings)
}

/// The better direction of a column: rates are to be high, all else low.
fn better(column: &str) -> Better {
    match column {
        "data MB" => Better::Neither,
        "MB a second" | "MB/s" | "times one worker" => Better::More,
        _ => Better::Less,
    }
}

/// The name of a server in the figures, and how it is started.
type Program = (&'static str, fn() -> Launch);

/// The programs.
const PROGRAMS: [Program; 2] = [("varve", Launch::varve), ("peer", Launch::peer)];

fn start(launch: fn() -> Launch) -> io::Result<Server> {
    launch().config("io-threads 1").config("repl-diskless-sync-delay 0").config("repl-backlog-size 64mb").start()
}

/// A field of INFO; empty if there is none.
fn field(client: &mut Client, section: &str, name: &str) -> io::Result<String> {
    let info = must(client, &format!("INFO {section}"))?.text();
    let found = info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
    Ok(found.unwrap_or_default().to_owned())
}

/// Looks again and again until `done`.
fn wait(what: &str, mut done: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let begun = Instant::now();
    while !done()? {
        screen::go_on()?;
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("{what} takes too long")));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Has a server follow another one, and waits until it does.
fn follow(replica: &Server, primary: &Server) -> io::Result<()> {
    let mut client = replica.connect()?;
    must(&mut client, &format!("REPLICAOF 127.0.0.1 {}", primary.port()))?;
    wait("a data set", || Ok(field(&mut client, "replication", "master_link_status")? == "up"))
}

/// Waits until the replica has all that its primary, which rests, has sent.
fn caught_up(replica: &Server, primary: &Server) -> io::Result<()> {
    let (mut ours, mut theirs) = (replica.connect()?, primary.connect()?);
    wait("the stream", || {
        let sent = field(&mut theirs, "replication", "master_repl_offset")?;
        Ok(field(&mut ours, "replication", "slave_repl_offset")? == sent)
    })
}

/// SETs of a load, of random keys or of one after the other.
fn sets(scale: &Scale, order: Order, pipeline: usize, requests: u64) -> Load {
    let sizes = Sizes::fixed(scale.value_bytes);
    let (op, keys, connections, seed) = (Op::Set, scale.keys, 10, 1);
    Load { op, keys, key_bytes: KEY_BYTES, sizes, order, connections, pipeline, requests, seed }
}

fn set(server: &Server, load: &Load) -> io::Result<()> {
    point::refuse_errors(&load::run(server.address(), load)?)
}

/// CPU of a primary without a replica and with one, and of the replica.
fn cost(scale: &Scale) -> io::Result<Table> {
    let mut table = Table::new(&[
        "us of CPU a SET, alone",
        "us of CPU a SET, with a replica",
        "with over alone",
        "us of the replica's CPU a SET",
        "replica over alone",
    ]);
    // Few keys: what is measured is no cache miss.
    let few = Scale { keys: scale.keys.min(100_000), value_bytes: 64, ..*scale };
    let loads = PIPELINES.map(|pipeline| {
        let requests = scale.requests / 4 * pipeline.min(4) as u64;
        sets(&few, Order::Random, pipeline, requests)
    });
    for turn in 0..scale.turns {
        for program in PROGRAMS {
            let rows = kept::case(&format!("cost, {}, turn {turn}", program.0), || cost_of(program, &few, &loads))?;
            for (load, row) in loads.iter().zip(rows) {
                table.add(format!("pipeline {}, {}", load.pipeline, program.0), row);
            }
        }
        for load in &loads {
            let Load { connections, pipeline, requests, .. } = *load;
            let under = Under::load(&mut *load::writer(load.clone()))?;
            let floor_us = under.pace(Traffic { connections, pipeline, requests })?.cpu_us;
            table.add(format!("pipeline {pipeline}, floor"), vec![floor_us, floor_us, f64::NAN, f64::NAN, f64::NAN]);
        }
    }
    Ok(table)
}

/// The figures of a server under each load.
fn cost_of((_, launch): Program, few: &Scale, loads: &[Load]) -> io::Result<Vec<Vec<f64>>> {
    let primary = start(launch)?;
    set(&primary, &sets(few, Order::Sequence(0), 100, few.keys))?;
    let mut alone = Vec::new();
    for load in loads {
        let before = primary.cpu_ns()?;
        set(&primary, load)?;
        alone.push((primary.cpu_ns()? - before) as f64 / 1000.0 / load.requests as f64);
    }
    let replica = start(launch)?;
    follow(&replica, &primary)?;
    let mut rows = Vec::new();
    for (load, alone) in loads.iter().zip(alone) {
        let before = [primary.cpu_ns()?, replica.cpu_ns()?];
        set(&primary, load)?;
        caught_up(&replica, &primary)?;
        let after = [primary.cpu_ns()?, replica.cpu_ns()?];
        let us = |nth: usize| (after[nth] - before[nth]) as f64 / 1000.0 / load.requests as f64;
        rows.push(vec![alone, us(0), us(0) / alone, us(1), us(1) / alone]);
    }
    Ok(rows)
}

/// Data sets that are sent, at rest and while keys are overwritten.
fn syncs(scale: &Scale) -> io::Result<Table> {
    let mut table = Table::new(&["data MB", "seconds", "MB/s", "CPU s", "grown MB"]);
    let scenes = [("at rest", false), ("overwritten", true)];
    for (name, launch) in PROGRAMS {
        let found = kept::case(&format!("sync, {name}"), || {
            let primary = start(launch)?;
            set(&primary, &sets(scale, Order::Sequence(0), 100, scale.keys))?;
            let sent = scenes.map(|(_, is_written)| sent(&primary, launch, is_written, scale));
            sent.into_iter().collect::<io::Result<Vec<Sent>>>()
        })?;
        let megabytes = (scale.keys * scale.value_bytes as u64) as f64 / MB;
        for ((scene, is_written), sent) in scenes.into_iter().zip(found) {
            let seconds = sent.seconds.unwrap_or(f64::NAN);
            // While keys are overwritten, most of it is that of the SETs.
            let cpu_s = if is_written { f64::NAN } else { sent.cpu_s };
            table.add(format!("{scene}, {name}"), vec![megabytes, seconds, megabytes / seconds, cpu_s, sent.grown_mb]);
        }
    }
    Ok(table)
}

/// A data set that was sent, or was not in [`ARRIVES_WITHIN`].
#[derive(Serialize, Deserialize)]
struct Sent {
    /// Until the replica's link was up; none if it was not.
    seconds: Option<f64>,
    /// The primary's CPU meanwhile, with that of its child.
    cpu_s: f64,
    /// MB by which the primary was larger meanwhile than before.
    grown_mb: f64,
}

/// The figures of [`send`], at rest or while keys are overwritten.
fn sent(primary: &Server, launch: fn() -> Launch, is_written: bool, scale: &Scale) -> io::Result<Sent> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = is_written.then(|| scope.spawn(|| overwrite(primary, scale, &over)));
        let sent = send(primary, launch, if is_written { scale.settled } else { Duration::ZERO });
        over.store(true, Relaxed);
        writer.map_or(Ok(()), |writer| writer.join().expect("it returns what fails"))?;
        sent
    })
}

/// Overwrites keys until it is over.
fn overwrite(primary: &Server, scale: &Scale, over: &AtomicBool) -> io::Result<()> {
    let mut seed = 2;
    while !over.load(Relaxed) {
        set(primary, &Load { seed, ..sets(scale, Order::Random, 10, 1000) })?;
        seed += 1;
    }
    Ok(())
}

/// Has a replica come when the primary was looked at for a while.
fn send(primary: &Server, launch: fn() -> Launch, settled: Duration) -> io::Result<Sent> {
    let replica = start(launch)?;
    let (begun, mut before) = (Instant::now(), primary.memory()?.resident);
    while begun.elapsed() < settled {
        before = before.max(primary.memory()?.resident);
        thread::sleep(LOOK);
    }
    let (begun, spent, mut most) = (Instant::now(), spent::cpu_s(primary.pid())?, before);
    let mut client = replica.connect()?;
    must(&mut client, &format!("REPLICAOF 127.0.0.1 {}", primary.port()))?;
    let mut is_up = false;
    while !is_up && begun.elapsed() < ARRIVES_WITHIN {
        screen::go_on()?;
        thread::sleep(LOOK);
        most = most.max(primary.memory()?.resident);
        is_up = field(&mut client, "replication", "master_link_status")? == "up";
    }
    let seconds = is_up.then(|| begun.elapsed().as_secs_f64());
    // A child's CPU counts when its primary has seen its end.
    let mut asked = primary.connect()?;
    wait("a child's end", || Ok(!is_up || field(&mut asked, "persistence", "rdb_bgsave_in_progress")? == "0"))?;
    let cpu_s = spent::cpu_s(primary.pid())? - spent;
    Ok(Sent { seconds, cpu_s, grown_mb: most.saturating_sub(before) as f64 / MB })
}

/// Primaries that are killed, each with its replica, the two programs in turns.
fn takeovers(scale: &Scale) -> io::Result<Table> {
    let mut table = Table::new(&["ms"]);
    for kill in 0..scale.kills {
        for (name, launch) in PROGRAMS {
            let time = kept::case(&format!("takeover, {name}, {kill}"), || take_over(launch))?;
            table.add(format!("killed, {name}"), vec![time]);
        }
    }
    Ok(table)
}

/// Milliseconds from a primary's end to the first SET that its replica takes.
fn take_over(launch: fn() -> Launch) -> io::Result<f64> {
    let [primary, replica] = [start(launch)?, start(launch)?];
    follow(&replica, &primary)?;
    let (address, mut client) = (primary.address(), replica.connect()?);
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        // It ends with its primary.
        let writer = scope.spawn(move || {
            let plan = Traffic { connections: 4, pipeline: 16, requests: 10_000 };
            while !over.load(Relaxed) {
                let mut next = 0_u64;
                let write = &mut |out: &mut Vec<u8>| {
                    next += 1;
                    turns::push(out, &[b"SET", &turns::text(next % 100, 16), b"value"]);
                };
                if load::drive(address, plan, write).is_err() {
                    return;
                }
            }
        });
        thread::sleep(Duration::from_millis(50));
        let begun = Instant::now();
        primary.signal("KILL")?;
        must(&mut client, "REPLICAOF NO ONE")?;
        wait("a write", || Ok(!client.try_cmd("SET first written")?.is_error()))?;
        let taken = begun.elapsed().as_secs_f64() * 1000.0;
        over.store(true, Relaxed);
        writer.join().expect("it returns");
        Ok(taken)
    })
}
