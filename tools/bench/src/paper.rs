//! The paper's Tiny, Small and Large sets, part `paper` of `point`: bytes a key beyond the key's and the value's own, those that
//! are resident and those that are in use (`used_memory`).
//!
//! | set | key | value |
//! |---|---|---|
//! | Tiny | 8 B | 8 to 16 B |
//! | Small | 16 B | 16 to 128 B |
//! | Large | 128 B | 128 to 1024 B |
//!
//! Each has 5% of values of 1 to 10 KB. Memory is asked for in huge pages and tables double, so a figure depends on the
//! number of keys: each set is measured at several numbers, each with servers of its own. Some requests go ahead of the first
//! look: pages of the program and buffers of connections, which those touch, are 2 MB in Varve however many keys there are.

use crate::load::{self, Load, Sizes, Traffic};
use crate::point::{fill, overhead, refuse_errors, settled};
use crate::report::{Row, Target};
use crate::turns::{must, push, used_memory};
use crate::{contenders, kept, say};
use std::io;
use std::ops::RangeInclusive;
use varve_testkit::Server;

/// Name, bytes of a key, bytes of most values.
const SETS: [(&str, usize, RangeInclusive<usize>); 3] =
    [("tiny", 8, 8..=16), ("small", 16, 16..=128), ("large", 128, 128..=1024)];
/// Keys, and the bytes that a key of each of [`SETS`] may take at that number.
const FULL: [(u64, [f64; 3]); 3] =
    [(300_000, [26.0, 26.0, 31.0]), (400_000, [26.0, 26.0, 31.0]), (1_000_000, [24.0, 24.0, 28.0])];
/// Keys and limits of the quick form. So few keys are less than a huge page: their bytes say nothing of the aims.
const QUICK: [(u64, [f64; 3]); 1] = [(5_000, [f64::INFINITY; 3])];

/// Requests that go ahead of a fill.
const WARM_REQUESTS: u64 = 400;

/// Rows of all sets at all numbers of keys.
///
/// # Errors
/// When a server cannot be started, is lost, or refuses a key.
pub(crate) fn rows(quick: bool) -> io::Result<Vec<Row>> {
    let scale = if quick { &QUICK[..] } else { &FULL[..] };
    let mut rows = Vec::new();
    for (keys, aims) in scale {
        for ((set, key_bytes, most), aim) in SETS.into_iter().zip(aims) {
            let sizes = Sizes { most, rest: 1024..=10_240, rest_percent: 5 };
            let name = format!("bytes a key, the paper's {set} set, {keys} keys");
            let load = fill(*keys, key_bytes, &sizes);
            let all = kept::case(&name, || contenders::one_by_one(&[], &mut |server| bytes_a_key(server, &load)))?;
            let [resident, used] = [0, 1].map(|number| contenders::column(&all, number));
            say!("{name}: {resident:.1?} resident, {used:.1?} in use");
            let target = aim.is_finite().then_some(Target::AtMost(*aim));
            rows.push(Row::new(name.as_str(), "B", resident).at_most(target));
            rows.push(Row::new(format!("{name}, in use"), "B", used).at_most(target));
        }
    }
    Ok(rows)
}

/// Bytes a key beyond key and value after a fill: resident ones, and those in use.
fn bytes_a_key(server: &Server, load: &Load) -> io::Result<Vec<f64>> {
    let mut client = server.connect()?;
    let warm = Traffic { connections: load.connections, pipeline: load.pipeline, requests: WARM_REQUESTS };
    let mut write = |out: &mut Vec<u8>| push(out, &[b"SET", b"warm", &[b'v'; 64]]);
    refuse_errors(&load::drive(server.address(), warm, &mut write)?)?;
    must(&mut client, "DEL warm")?;
    let before = [settled(server)?, used_memory(&mut client)? as u64];
    let outcome = load::run(server.address(), load)?;
    refuse_errors(&outcome)?;
    let payload = outcome.value_bytes + load.keys * load.key_bytes as u64;
    let after = [settled(server)?, used_memory(&mut client)? as u64];
    Ok(before.into_iter().zip(after).map(|(before, after)| overhead(after, before, load.keys, payload)).collect())
}
