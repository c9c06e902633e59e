//! Parts that the experiments share: requests from words, rate and CPU of a turn, turns of all servers and of the floor.

use crate::contenders::{self, Contender};
use crate::floor::Under;
use crate::load::{self, Traffic, Writer};
use crate::report::{Role, Row, Target, Value};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use varve_testkit::{Random, Server, client, process};

/// How fast a server answered, and what it spent.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Pace {
    /// Replies a second, as the client saw them.
    pub(crate) per_s: f64,
    /// The server's CPU time per reply, in microseconds.
    pub(crate) cpu_us: f64,
}

/// Runs a load on a server; its pace.
///
/// # Errors
/// When the server is lost, or answers an error.
pub(crate) fn pace(server: &Server, plan: Traffic, write: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<Pace> {
    pace_of(server.address(), server.pid(), plan, write)
}

/// Runs a load on the process that listens at an address; its pace.
///
/// # Errors
/// When the server is lost, or answers an error.
pub(crate) fn pace_of(
    address: SocketAddr,
    pid: u32,
    plan: Traffic,
    write: &mut dyn FnMut(&mut Vec<u8>),
) -> io::Result<Pace> {
    let (before, begun) = (process::cpu_ns(pid)?, Instant::now());
    let outcome = load::drive(address, plan, write)?;
    let (spent, took) = (process::cpu_ns(pid)? - before, begun.elapsed());
    if outcome.errors > 0 {
        return Err(io::Error::other(format!("{} of {} replies were errors", outcome.errors, outcome.replies)));
    }
    let replies = outcome.replies as f64;
    Ok(Pace { per_s: replies / took.as_secs_f64(), cpu_us: spent as f64 / 1000.0 / replies })
}

/// Paces of all contenders and of the floor under the same load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Beside {
    /// Names of the contenders and the parts that they have in figures.
    sides: Vec<(String, Role)>,
    /// Of each contender, in their order; none where a rival has none.
    per_s: Vec<Option<Value>>,
    cpu_us: Vec<Option<Value>>,
    pub(crate) floor_us: Value,
}

/// Makes what writes the requests of a turn, from the turn's number.
pub(crate) type Requests<'r> = dyn Fn(u64) -> Writer<'r> + 'r;

/// Measures a load on all contenders and on the floor, turn by turn. `before` prepares a server before its turn.
///
/// # Errors
/// When Varve, the peer or the floor is lost, or answers an error.
pub(crate) fn beside(
    contenders: &[Contender],
    plan: Traffic,
    turns: u64,
    before: &dyn Fn(&Server) -> io::Result<()>,
    requests: &Requests<'_>,
) -> io::Result<Beside> {
    let under = Under::load(&mut *requests(0))?;
    let mut paces: Vec<Vec<Pace>> = contenders.iter().map(|_| Vec::new()).collect();
    let mut floors = Vec::new();
    for turn in 0..turns {
        for (one, paces) in contenders.iter().zip(&mut paces) {
            let found = before(&one.server).and_then(|()| pace(&one.server, plan, &mut *requests(turn)));
            paces.extend(contenders::spared(&one.name, one.role, found)?);
        }
        floors.push(under.pace(plan)?.cpu_us);
    }
    let of = |from: fn(&Pace) -> f64| {
        let middle = |paces: &Vec<Pace>| Value::of(paces.iter().map(from).collect());
        paces.iter().map(|paces| (!paces.is_empty()).then(|| middle(paces))).collect()
    };
    let sides = contenders.iter().map(|one| (one.name.clone(), one.role)).collect();
    Ok(Beside { sides, per_s: of(|pace| pace.per_s), cpu_us: of(|pace| pace.cpu_us), floor_us: Value::of(floors) })
}

/// Requests of `write`, each made from a random number of the turn.
pub(crate) fn random<'r>(write: impl Fn(&mut Vec<u8>, &mut Random) + Copy + 'r) -> impl Fn(u64) -> Writer<'r> + 'r {
    move |turn| {
        let mut random = Random::new(turn);
        Box::new(move |out| write(out, &mut random))
    }
}

impl Beside {
    /// Requests a second and CPU of a contender, by its number; NaN where a rival has none.
    pub(crate) fn of(&self, number: usize) -> [Value; 2] {
        [&self.per_s, &self.cpu_us].map(|values| values.get(number).copied().flatten().unwrap_or(f64::NAN.into()))
    }

    /// The rows of a case: CPU of an operation with the floor's, and operations a second. The CPU is shown.
    pub(crate) fn rows(&self, name: &str, target: Option<Target>) -> [Row; 2] {
        let shown: Vec<f64> = self.cpu_us.iter().map(|value| value.map_or(f64::NAN, |value| value.median)).collect();
        crate::say!("{name}: {shown:.3?} us, floor {:.3}", self.floor_us);
        self.unshown_rows(name, target)
    }

    /// [`Beside::rows`] of a case that was shown when it was measured.
    pub(crate) fn unshown_rows(&self, name: &str, target: Option<Target>) -> [Row; 2] {
        let row = |unit: &str, values: &[Option<Value>]| {
            let found =
                self.sides.iter().zip(values).filter_map(|((name, role), value)| Some((name, *role, (*value)?)));
            found.fold(Row::alone(name, unit), |row, (server, role, value)| row.with(server, role, value))
        };
        let cpu = row("us of CPU", &self.cpu_us).with("floor", Role::Floor, self.floor_us).at_most(target);
        [cpu, row("/s", &self.per_s)]
    }
}

/// Runs a load; the server's CPU per request in microseconds.
///
/// # Errors
/// When the server is lost, or answers an error.
pub(crate) fn cpu_us(server: &Server, plan: Traffic, write: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<f64> {
    Ok(pace(server, plan, write)?.cpu_us)
}

/// One command, which must not fail.
///
/// # Errors
/// An error reply.
pub(crate) fn must(client: &mut client::Client, command: &str) -> io::Result<varve_testkit::RespValue> {
    let reply = client.try_cmd(command)?;
    if reply.is_error() {
        return Err(io::Error::other(format!("{command}: {reply:?}")));
    }
    Ok(reply)
}

/// Resident bytes once background work has had a moment.
///
/// # Errors
/// When the server is gone.
pub(crate) fn resident(server: &Server) -> io::Result<f64> {
    std::thread::sleep(Duration::from_millis(300));
    Ok(server.memory()?.resident as f64)
}

/// A field of INFO memory.
///
/// # Errors
/// When it is not there.
pub(crate) fn used_memory(client: &mut client::Client) -> io::Result<f64> {
    let info = must(client, "INFO memory")?.text();
    let field = info.lines().find_map(|line| line.trim_end().strip_prefix("used_memory:")?.parse().ok());
    field.ok_or_else(|| io::Error::other("INFO has no used_memory"))
}

/// Writes one request.
pub(crate) fn push(out: &mut Vec<u8>, args: &[&[u8]]) {
    client::encode(out, args);
}

/// Bytes that do not repeat and do not read as a number, the same for the same number.
pub(crate) fn text(number: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(number.wrapping_mul(varve_base::hash::GOLDEN_RATIO) ^ 0x5bd1);
    (0..bytes).map(|i| if i == 0 { b'v' } else { b'a' + random.below(26) as u8 }).collect()
}
