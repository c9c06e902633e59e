//! `cores`: growth with cores of whole servers: GET and SET with one worker and with two (`io-threads`), beside the peer.
//!
//! ```text
//!   95:5 and 50:50, uniform and Zipf, 50 connections, pipelines of 1 and 16 -> requests a second, CPU us a request
//! ```
//! The clients share the machine's cores with the server, so that two workers get less than two cores: how the store itself
//! grows is `engine`, in process. A rival runs with the threads of its own command, and once. The floor has one thread.

use crate::contenders::{self, Contender};
use crate::draw::{self, Draw};
use crate::kept;
use crate::load::{self, Sizes, Traffic};
use crate::point::{fill, refuse_errors};
use crate::report::{Findings, Role, Row, figures};
use crate::size::Size;
use crate::turns::{Beside, beside, push};
use std::io;
use varve_testkit::Random;

const CONNECTIONS: usize = 50;
const KEY_BYTES: usize = 16;
const VALUE: [u8; 64] = [b'v'; 64];
const PIPELINES: [usize; 2] = [1, 16];
const WRITES_PERCENT: [usize; 2] = [5, 50];
const WORKERS: [usize; 2] = [1, 2];

/// Runs the experiment.
///
/// # Errors
/// When a server cannot be started, is lost, or answers an error.
pub(crate) fn run(size: Size) -> io::Result<Findings> {
    let keys = size.pick(2_000, 20_000, 1_000_000);
    // By workers: contenders that are filled.
    let mut all: Vec<Vec<Contender>> = Vec::new();
    for workers in WORKERS {
        let entrants = contenders::entrants_with(workers);
        let wanted = entrants.iter().filter(|one| workers == WORKERS[0] || one.role != Role::Rival);
        let started: Vec<Contender> = wanted.map(contenders::Entrant::start).collect::<io::Result<_>>()?;
        for one in &started {
            refuse_errors(&load::run(one.server.address(), &fill(keys, KEY_BYTES, &Sizes::fixed(VALUE.len())))?)?;
        }
        all.push(started);
    }
    let (mut rows, mut growth) = (WORKERS.map(|_| Vec::new()), Vec::new());
    for pipeline in PIPELINES {
        let requests = match pipeline {
            1 => size.pick(500, 10_000, 500_000),
            _ => size.pick(1_000, 50_000, 3_000_000),
        };
        let plan = Traffic { connections: CONNECTIONS, pipeline, requests };
        for writes_percent in WRITES_PERCENT {
            for name in &draw::NAMES[..2] {
                let draw = Draw::named(name, keys);
                let name = format!("{}:{writes_percent} {name}, pipeline {pipeline}", 100 - writes_percent);
                let found = kept::case(&name, || {
                    let of = |contenders: &Vec<Contender>| measure(contenders, plan, size, &draw, writes_percent);
                    all.iter().map(of).collect::<io::Result<Vec<Beside>>>()
                })?;
                for (rows, found) in rows.iter_mut().zip(&found) {
                    rows.extend(found.rows(&name, None));
                }
                growth.push(growth_of(&name, &all[WORKERS.len() - 1], &found));
            }
        }
    }
    let [one, two] = &rows;
    let all = [figures("One worker", one), figures("Two workers", two), figures("Growth with cores", &growth)];
    Ok(Findings::new("cores", "Growth with cores, whole servers").with(all.into_iter().flatten()).note(
        "One worker and two (io-threads) of Varve and redis-server; the clients run on the same cores. The growth of the store \
         in process, without clients, is the experiment engine.",
    ))
}

fn measure(
    contenders: &[Contender],
    plan: Traffic,
    size: Size,
    draw: &Draw,
    writes_percent: usize,
) -> io::Result<Beside> {
    beside(contenders, plan, size.pick(1, 1, 5), &|_| Ok(()), &|turn| {
        let (mut random, mut key) = (Random::new(turn), [0; KEY_BYTES]);
        Box::new(move |out| {
            load::write_key(&mut key, draw.key(&mut random));
            match random.below(100) < writes_percent {
                true => push(out, &[b"SET", &key, &VALUE]),
                false => push(out, &[b"GET", &key]),
            }
        })
    })
}

/// Requests a second with the most workers over those with one, of the servers that have run with both.
fn growth_of(name: &str, contenders: &[Contender], found: &[Beside]) -> Row {
    let (one, most) = (&found[0], &found[found.len() - 1]);
    let row = Row::alone(name, "times one worker");
    contenders.iter().enumerate().fold(row, |row, (number, contender)| {
        let [[alone, _], [together, _]] = [one.of(number), most.of(number)];
        row.with(&contender.name, contender.role, together.median / alone.median)
    })
}
