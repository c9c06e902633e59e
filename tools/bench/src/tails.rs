//! `tails`: what one GET in a thousand waits at half load, while the server has other things to do, beside the peer.
//!
//! | scene | what happens meanwhile |
//! |---|---|
//! | quiet | nothing |
//! | growth | new keys come, several times as many as there were: the index grows |
//! | reclaim | values of 16 to 128 B are written at 80% of maxmemory |
//! | expiry | a million keys are due at one time |
//! | deletion | DEL of a set of ten million members |
//!
//! GETs come at a fixed rate, half of what the peer takes at most, and count from when they were due ([`crate::pace`]). The
//! client shares the machine with the server, so what it waits says little of the server alone: that is judged by the
//! server's own histograms (INFO background) of how long a turn of the background and a command held others up. Where there
//! are two cores the server has the first and the client the second, so that neither is put off its core by the other: those
//! histograms are told by a clock that runs on meanwhile.

use crate::apart::Apart;
use crate::floor::Floor;
use crate::load::{self, Op, Order, Sizes, Traffic};
use crate::own;
use crate::pace::{self, Stream};
use crate::point;
use crate::report::{Better, Figure, Findings, Role, Table};
use crate::turns::{must, push, used_memory};
use crate::{contenders, kept, say};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use varve_base::hist::{Counts, Hist};
use varve_testkit::{Launch, Random, Server, process};

const CLIENTS: usize = 50;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 64;
/// Members that one request brings of the set that is deleted.
const SET_STEP: u64 = 100;
/// Requests a second of what happens meanwhile, where that is requests.
const OTHERS_RATE: f64 = 10_000.0;
/// Such requests from which their mean length is taken.
const SAMPLE: u64 = 1000;
/// The server's own histograms and what their p99.99 may be at most, microseconds.
const OWN: [&str; 2] = ["background_slices", "lock_holds"];
const OWN_FIGURES: [&str; 5] = ["count", "p50_us", "p99_us", "p99.99_us", "max_us"];
const OWN_US_MAX: f64 = 500.0;
/// The server's CPU in a scene, a GET: that of what happens meanwhile is in it.
const CPU_COLUMN: &str = "server CPU";
const SCENES: [Scene; 5] = [Scene::Quiet, Scene::Growth, Scene::Reclaim, Scene::Expiry, Scene::Deletion];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scene {
    Quiet,
    Growth,
    Reclaim,
    Expiry,
    Deletion,
}

impl Scene {
    fn name(self) -> &'static str {
        match self {
            Scene::Quiet => "quiet",
            Scene::Growth => "growth",
            Scene::Reclaim => "reclaim",
            Scene::Expiry => "expiry",
            Scene::Deletion => "deletion",
        }
    }
}

struct Scale {
    /// Keys that are read.
    keys: u64,
    expiring: u64,
    members: u64,
    time: Duration,
    /// How often each scene is played.
    turns: u64,
    /// The time that filling the keys that expire may take.
    fill_time: Duration,
}

/// Runs all scenes or one.
///
/// # Errors
/// When a server cannot be started, is lost, or answers an error.
pub(crate) fn run(quick: bool, only: Option<&str>) -> io::Result<Findings> {
    let second = Duration::from_secs(1);
    let scale = match quick {
        true => {
            let (time, fill_time) = (second / 2, second / 2);
            Scale { keys: 20_000, expiring: 10_000, members: 2_000_000, time, turns: 1, fill_time }
        }
        false => {
            let (time, fill_time) = (10 * second, 10 * second);
            Scale { keys: 500_000, expiring: 1_000_000, members: 10_000_000, time, turns: 3, fill_time }
        }
    };
    let scenes: Vec<Scene> = SCENES.into_iter().filter(|scene| only.is_none_or(|name| scene.name() == name)).collect();
    if scenes.is_empty() {
        return Err(io::Error::other("no such scene: quiet, growth, reclaim, expiry, deletion"));
    }
    let apart = Apart::begin();
    let rate = kept::case("half load", || half_load(&scale, &apart))?;
    say!("{rate:.0} GETs a second; times in microseconds");
    let mut table = Table::new(&["p50", "p99", "p99.9", "p99.99", "max", CPU_COLUMN]);
    let mut own = Table::new(&["count", "p50", "p99", "p99.99", "max"]);
    let mut own_lines = Vec::new();
    let turns = scenes.into_iter().flat_map(|scene| (0..scale.turns).map(move |turn| (scene, turn)));
    for (scene, turn) in turns {
        for entrant in contenders::entrants(&[]) {
            let name = format!("{}, {}", scene.name(), entrant.name);
            let found = kept::case(&format!("{name}, turn {turn}"), || {
                let found = entrant.start().and_then(|one| {
                    apart.put(one.server.pid());
                    let waited = play(&one.server, scene, rate, &scale)?;
                    Ok((waited, if one.role == Role::Varve { own_of(&one.server)? } else { Vec::new() }))
                });
                contenders::spared(&entrant.name, entrant.role, found)
            })?;
            let Some((waited, own)) = found else { continue };
            table.add(name, waited);
            let named = OWN.into_iter().zip(own);
            own_lines.extend(named.map(|(field, figures)| (format!("{}, {field}", scene.name()), figures)));
        }
        let name = format!("{}, floor", scene.name());
        let found = kept::case(&format!("{name}, turn {turn}"), || floor(scene, rate, &scale, &apart))?;
        table.add(name, found);
    }
    say!("\nthe server's own, microseconds");
    let missed = own_lines.iter().filter(|(_, figures): &&(String, Vec<f64>)| figures[3] > OWN_US_MAX);
    // Each scene is played several times.
    let missed: BTreeSet<&str> = missed.map(|(name, _)| name.as_str()).collect();
    let missed: Vec<&str> = missed.into_iter().collect();
    let verdict = if missed.is_empty() { "met".into() } else { format!("missed by {}", missed.join("; ")) };
    let verdict = format!("The server's own p99.99 is to be at most {OWN_US_MAX} us: {verdict}.");
    own_lines.into_iter().for_each(|(name, figures)| own.add(name, figures));
    let mut findings = Findings::new("tails", "Times of a GET at half load");
    findings.add(table.apart("A GET at half load", |_| Better::Less).into_iter().map(|figure| {
        let unit = if figure.unit == CPU_COLUMN { "microseconds of server CPU" } else { "microseconds" };
        Figure { unit: unit.into(), ..figure }
    }));
    findings.add([own.together("The server's own, by INFO background", "microseconds", Better::Neither)]);
    Ok(findings.note(format!("{rate:.0} GETs a second.")).note(verdict))
}

/// The server's own histograms of a scene, in the order of [`OWN`].
fn own_of(server: &Server) -> io::Result<Vec<Vec<f64>>> {
    let info = must(&mut server.connect()?, "INFO background")?.text();
    OWN.into_iter().map(|field| own::figures(&info, field, &OWN_FIGURES)).collect()
}

/// The line of a scene's requests at a server that parses nothing: the part of the clients, the kernel and the machine. All
/// requests have one length, since the floor knows but one: the mean of the scene's.
fn floor(scene: Scene, rate: f64, scale: &Scale, apart: &Apart) -> io::Result<Vec<f64>> {
    let (mut gets, mut others) = (Vec::new(), Vec::new());
    get(&mut gets, scale.keys, &mut Random::new(4));
    let mut random = Random::new(5);
    (0..SAMPLE).for_each(|number| other(&mut others, scene, scale.keys, number, &mut random));
    let (count, other_count) = (gets_of(rate, scale), meanwhile(scene, scale).map_or(0, |(_, requests)| requests));
    let bytes = gets.len() as u64 * count + others.len() as u64 / SAMPLE * other_count;
    let request = vec![b'x'; (bytes / (count + other_count).max(1)).max(1) as usize];
    let floor = Floor::start(request.len())?;
    apart.put(floor.pid());
    let mut write = |out: &mut Vec<u8>| out.extend_from_slice(&request);
    let mut write_other = |out: &mut Vec<u8>| out.extend_from_slice(&request);
    let before = process::cpu_ns(floor.pid())?;
    let waited = drive(floor.address(), scene, rate, scale, [&mut write, &mut write_other])?;
    Ok(line(&waited, process::cpu_ns(floor.pid())? - before, count))
}

/// GETs of a scene.
fn gets_of(rate: f64, scale: &Scale) -> u64 {
    (rate * scale.time.as_secs_f64()) as u64
}

/// When the first request of what happens meanwhile is due, and the number of such requests.
fn meanwhile(scene: Scene, scale: &Scale) -> Option<(Duration, u64)> {
    match scene {
        Scene::Quiet | Scene::Expiry => None,
        Scene::Deletion => Some((scale.time / 2, 1)),
        Scene::Growth | Scene::Reclaim => Some((Duration::ZERO, (OTHERS_RATE * scale.time.as_secs_f64()) as u64)),
    }
}

/// Writes a request of what happens meanwhile.
fn other(out: &mut Vec<u8>, scene: Scene, keys: u64, number: u64, random: &mut Random) {
    let value = [b'w'; 128];
    match scene {
        Scene::Deletion => push(out, &[b"DEL", b"big"]),
        Scene::Reclaim => {
            let number = random.below(keys as usize) as u64;
            push(out, &[b"SET", &key("", number), &value[..16 + random.below(113)]]);
        }
        _ => push(out, &[b"SET", &key("n", number), &value[..VALUE_BYTES]]),
    }
}

/// Writers of the GETs and of the requests that come beside them.
type Writers<'w> = [&'w mut dyn FnMut(&mut Vec<u8>); 2];

/// Sends GETs at their rate, and beside them what happens meanwhile; the times of the GETs.
fn drive(address: SocketAddr, scene: Scene, rate: f64, scale: &Scale, [get, other]: Writers<'_>) -> io::Result<Counts> {
    let (waited, others_waited) = (Hist::new(), Hist::new());
    let (requests, first) = (gets_of(rate, scale), Duration::ZERO);
    let mut streams = vec![Stream { connections: CLIENTS, rate, first, requests, write: get, times: &waited }];
    if let Some((first, requests)) = meanwhile(scene, scale) {
        let times = &others_waited;
        streams.push(Stream { connections: 1, rate: OTHERS_RATE, first, requests, write: other, times });
    }
    match pace::run(address, &mut streams)? {
        0 => Ok(waited.read()),
        errors => Err(io::Error::other(format!("{errors} replies were errors"))),
    }
}

/// A line of the table: percentiles in microseconds, and the server's CPU a GET.
fn line(waited: &Counts, cpu_ns: u64, gets: u64) -> Vec<f64> {
    let percentiles = [50.0, 99.0, 99.9, 99.99].map(|percent| waited.percentile_ns(percent) as f64 / 1000.0);
    let ends = [waited.max_ns() as f64 / 1000.0, cpu_ns as f64 / 1000.0 / gets.max(1) as f64];
    percentiles.into_iter().chain(ends).collect()
}

/// Half of the GETs a second that the peer answers when clients ask as fast as they can.
fn half_load(scale: &Scale, apart: &Apart) -> io::Result<f64> {
    let server = Launch::peer().config("io-threads 1").start()?;
    apart.put(server.pid());
    fill(&server, scale.keys, "")?;
    let mut random = Random::new(3);
    let plan = Traffic { connections: CLIENTS, pipeline: 1, requests: scale.keys.min(100_000) };
    let start = std::time::Instant::now();
    load::drive(server.address(), plan, &mut |out| get(out, scale.keys, &mut random))?;
    Ok(plan.requests as f64 / start.elapsed().as_secs_f64() / 2.0)
}

fn key(prefix: &str, number: u64) -> Vec<u8> {
    let mut key = vec![0; KEY_BYTES];
    load::write_key(&mut key, number);
    key[..prefix.len()].copy_from_slice(prefix.as_bytes());
    key
}

fn get(out: &mut Vec<u8>, keys: u64, random: &mut Random) {
    push(out, &[b"GET", &key("", random.below(keys as usize) as u64)]);
}

fn fill(server: &Server, keys: u64, prefix: &str) -> io::Result<()> {
    let mut next = 0;
    pipelined(server, keys, &mut |out| {
        push(out, &[b"SET", &key(prefix, next), &[b'v'; VALUE_BYTES]]);
        next += 1;
    })
}

/// Requests as fast as the server takes them, before a scene begins.
fn pipelined(server: &Server, requests: u64, write: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<()> {
    let plan = Traffic { connections: 4, pipeline: 100, requests };
    point::refuse_errors(&load::drive(server.address(), plan, write)?)
}

/// One scene; its line of the table.
fn play(server: &Server, scene: Scene, rate: f64, scale: &Scale) -> io::Result<Vec<f64>> {
    fill(server, scale.keys, "")?;
    let due_ms = set_up(server, scene, scale)?;
    must(&mut server.connect()?, "CONFIG RESETSTAT")?;
    if let Some(due_ms) = due_ms {
        // They are due in the middle of the scene.
        let begin = (due_ms as i64 - unix_ms() as i64 - scale.time.as_millis() as i64 / 2).max(0);
        std::thread::sleep(Duration::from_millis(begin as u64));
    }
    let (mut random, mut other_random) = (Random::new(4), Random::new(5));
    let mut next = 0;
    let mut write = |out: &mut Vec<u8>| get(out, scale.keys, &mut random);
    let mut write_other = |out: &mut Vec<u8>| {
        next += 1;
        other(out, scene, scale.keys, next, &mut other_random);
    };
    let before = server.cpu_ns()?;
    let waited = drive(server.address(), scene, rate, scale, [&mut write, &mut write_other])?;
    Ok(line(&waited, server.cpu_ns()? - before, gets_of(rate, scale)))
}

/// Prepares what a scene needs beside the keys that are read. Returns when its keys are due, in milliseconds of Unix time.
fn set_up(server: &Server, scene: Scene, scale: &Scale) -> io::Result<Option<u64>> {
    let mut client = server.connect()?;
    let mut next = 0;
    match scene {
        Scene::Quiet | Scene::Growth => {}
        Scene::Reclaim => {
            let used = used_memory(&mut client)? as u64;
            // Of few keys a fifth would not hold the buffers of the connections.
            let limit = (used * 5 / 4).max(used + (16 << 20));
            must(&mut client, &format!("CONFIG SET maxmemory {limit}"))?;
            must(&mut client, "CONFIG SET maxmemory-policy noeviction")?;
            let load = load::Load {
                op: Op::Set,
                keys: scale.keys,
                key_bytes: KEY_BYTES,
                sizes: Sizes::range(16..=128),
                order: Order::Random,
                connections: 4,
                pipeline: 100,
                requests: scale.keys * 2,
                seed: 6,
            };
            point::refuse_errors(&load::run(server.address(), &load)?)?;
        }
        Scene::Expiry => {
            let due = unix_ms() + (scale.fill_time + scale.time / 2).as_millis() as u64;
            let at = due.to_string();
            pipelined(server, scale.expiring, &mut |out| {
                push(out, &[b"SET", &key("x", next), &[b'v'; VALUE_BYTES], b"PXAT", at.as_bytes()]);
                next += 1;
            })?;
            return Ok(Some(due));
        }
        Scene::Deletion => pipelined(server, scale.members / SET_STEP, &mut |out| {
            let members: Vec<Vec<u8>> = (next..next + SET_STEP).map(|number| key("m", number)).collect();
            let mut words: Vec<&[u8]> = vec![b"SADD", b"big"];
            words.extend(members.iter().map(Vec::as_slice));
            push(out, &words);
            next += SET_STEP;
        })?,
    }
    Ok(None)
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_has_its_requests_beside_the_gets() {
        let mut random = Random::new(1);
        let mut text = |scene| {
            let mut out = Vec::new();
            other(&mut out, scene, 10, 7, &mut random);
            String::from_utf8(out).unwrap()
        };
        assert!(text(Scene::Growth).contains("n000000000000007") && text(Scene::Deletion).contains("DEL"));
        assert!(text(Scene::Reclaim).contains("SET"));
        let time = Duration::from_secs(2);
        let scale = Scale { keys: 10, expiring: 0, members: 0, time, turns: 1, fill_time: time };
        assert_eq!(SCENES.map(|scene| meanwhile(scene, &scale).map_or(0, |all| all.1)), [0, 20_000, 20_000, 0, 1]);
        assert_eq!(gets_of(1000.0, &scale), 2000);
    }

    #[test]
    fn keys_of_several_kinds_differ() {
        assert_eq!(key("", 7), b"0000000000000007");
        assert_eq!(key("x", 7), b"x000000000000007");
    }
}
