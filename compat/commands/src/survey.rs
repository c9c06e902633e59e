//! MEMORY PREFIXES, MEMORY LARGEST, MEMORY EXPIRIES: what the keyspace is made of, by the newest looks of the workers at their
//! keys. Nothing is walked for a reply.
//!
//! ```text
//! MEMORY PREFIXES [COUNT n]   a map a prefix: prefix, keys, bytes        most bytes first
//! MEMORY LARGEST [COUNT n]    a map a key: key, db, type, bytes, seen-seconds-ago
//! MEMORY EXPIRIES             a map a span: within-seconds, keys, bytes  a longer span has the shorter ones
//! ```
//! Of a small keyspace the figures are those of the last second or two. Of a large one they are scaled up from 32 768 looks: a
//! share of a tenth is told to about half a percent. Varve's own; no peer has them.

use varve_catalog::{ArgKind, Flags, Group, Row, arg};
use varve_exec::{CmdResult, Command, CommandError, Exec, WideCtx};
use varve_protocol::{Args, Reply};
use varve_store::{KeyShare, Store, Surveyed};

use crate::errors;
use crate::grammar::{integer, is};

/// Entries of a reply where no COUNT is given.
const COUNT: usize = 16;
/// The spans of a forecast, seconds: a minute, an hour, a day, a week.
pub const SPANS_S: [i64; 4] = [60, 3600, 86_400, 604_800];

/// The looks of all workers, as figures of the whole keyspace.
#[derive(Debug)]
pub struct Estimate {
    /// The looks.
    pub surveyed: Surveyed,
    /// Keys of all databases.
    keys: u64,
}

impl Estimate {
    /// Of the looks of all workers.
    pub fn of(store: &Store, now_ms: i64) -> Estimate {
        let keys = store.counts_of_all().iter().map(|(keys, _)| keys).sum();
        Estimate { surveyed: store.surveyed(now_ms, &SPANS_S.map(|seconds| seconds * 1000)), keys }
    }

    /// A share of the looks, scaled up to all keys.
    pub fn scaled(&self, share: KeyShare) -> KeyShare {
        let looks = u128::from(self.surveyed.looks.keys.max(1));
        let scale = |figure: u64| (u128::from(figure) * u128::from(self.keys)).div_ceil(looks) as u64;
        KeyShare { keys: scale(share.keys), bytes: scale(share.bytes) }
    }
}

/// The number behind COUNT, if there is one.
fn count(args: &Args<'_>) -> Result<usize, CommandError> {
    match args.len() {
        2 => Ok(COUNT),
        4 if is(args.get(2), "COUNT") => match integer(args.get(3))? {
            count @ 1.. => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
            _ => Err(errors::COUNT_POSITIVE),
        },
        _ => Err(CommandError::SYNTAX),
    }
}

fn figures(out: &mut Reply, share: KeyShare) {
    for (name, figure) in [("keys", share.keys), ("bytes", share.bytes)] {
        out.bulk(name.as_bytes());
        out.integer(figure as i64);
    }
}

/// MEMORY PREFIXES [COUNT count]
fn prefixes(ctx: &mut WideCtx<'_>) -> CmdResult {
    let count = count(&ctx.args)?;
    let estimate = Estimate::of(ctx.store, ctx.worker.now_ms());
    let shown = &estimate.surveyed.prefixes[..count.min(estimate.surveyed.prefixes.len())];
    ctx.out.array(shown.len());
    for (prefix, share) in shown {
        ctx.out.map(3);
        ctx.out.bulk(b"prefix");
        ctx.out.bulk(prefix);
        figures(ctx.out, estimate.scaled(*share));
    }
    Ok(())
}

/// MEMORY LARGEST [COUNT count]
fn largest(ctx: &mut WideCtx<'_>) -> CmdResult {
    let count = count(&ctx.args)?;
    let now_ms = ctx.worker.now_ms();
    let large = ctx.store.surveyed(now_ms, &[]).large;
    let shown = &large[..count.min(large.len())];
    ctx.out.array(shown.len());
    for key in shown {
        ctx.out.map(5);
        for (name, text) in [("key", &key.name[..]), ("type", key.ty.name().as_bytes())] {
            ctx.out.bulk(name.as_bytes());
            ctx.out.bulk(text);
        }
        let age_s = now_ms.saturating_sub(key.seen_ms).max(0) / 1000;
        for (name, figure) in [("db", i64::from(key.db)), ("bytes", key.bytes as i64), ("seen-seconds-ago", age_s)] {
            ctx.out.bulk(name.as_bytes());
            ctx.out.integer(figure);
        }
    }
    Ok(())
}

/// MEMORY EXPIRIES
fn expiries(ctx: &mut WideCtx<'_>) -> CmdResult {
    let estimate = Estimate::of(ctx.store, ctx.worker.now_ms());
    ctx.out.array(SPANS_S.len());
    for (seconds, share) in SPANS_S.iter().zip(&estimate.surveyed.due) {
        ctx.out.map(3);
        ctx.out.bulk(b"within-seconds");
        ctx.out.integer(*seconds);
        figures(ctx.out, estimate.scaled(*share));
    }
    Ok(())
}

pub(crate) const MEMORY_PREFIXES: Command = Command::new(
    Exec::Figures(prefixes),
    Row::sub("memory|prefixes", "prefixes", Group::Server, -2, "7.0.15")
        .about("Estimates keys and bytes by the prefixes of keys.", "O(1)")
        .flags(&[Flags::ADMIN])
        .tips(&["nondeterministic_output"])
        .args(&[arg("count", ArgKind::Integer).token("COUNT").optional()]),
);

pub(crate) const MEMORY_LARGEST: Command = Command::new(
    Exec::Figures(largest),
    Row::sub("memory|largest", "largest", Group::Server, -2, "7.0.15")
        .about("Lists the largest keys that were seen lately.", "O(1)")
        .flags(&[Flags::ADMIN])
        .tips(&["nondeterministic_output"])
        .args(&[arg("count", ArgKind::Integer).token("COUNT").optional()]),
);

pub(crate) const MEMORY_EXPIRIES: Command = Command::new(
    Exec::Figures(expiries),
    Row::sub("memory|expiries", "expiries", Group::Server, 2, "7.0.15")
        .about("Estimates keys and bytes that expire soon.", "O(1)")
        .flags(&[Flags::ADMIN])
        .tips(&["nondeterministic_output"]),
);
