//! MEMORY: what a key and the store take.
//!
//! Every figure is the store's own: there is no malloc beneath the data, so what Redis tells of its allocator is told
//! here of the segment log.

use varve_protocol::Args;
use varve_store::Store;

use crate::grammar::{Fault, Outcome, help, integer, is, settle};
use crate::segments::Census;
use crate::{Ctx, SessionCtx, WideCtx};

/// MEMORY USAGE key [SAMPLES count]
pub fn memory_usage(ctx: &mut Ctx<'_, '_>) {
    let outcome = usage(ctx);
    settle(ctx, outcome);
}

fn usage(ctx: &mut Ctx<'_, '_>) -> Outcome {
    check_samples(&ctx.args)?;
    let key = ctx.key(2);
    match ctx.tx.object(&key) {
        Some(info) => ctx.out.integer(info.bytes as i64),
        None => ctx.out.null(),
    }
    Ok(())
}

/// The number of samples changes nothing while values have no parts; it must be a number all the same.
fn check_samples(args: &Args<'_>) -> Outcome {
    for at in (3..args.len()).step_by(2) {
        if !is(args.get(at), "SAMPLES") || at + 1 == args.len() || integer(args.get(at + 1))? < 0 {
            return Err(Fault::SYNTAX);
        }
    }
    Ok(())
}

/// What MEMORY tells of the whole store.
struct Figures {
    /// What `maxmemory` bounds.
    used: u64,
    /// Of these in segments.
    appended: u64,
    /// Of these in live objects.
    live: u64,
    segments: u64,
    keys: u64,
}

impl Figures {
    fn of(store: &Store) -> Figures {
        let keys = (0..store.databases()).map(|db| store.len(db)).sum();
        let log = store.log().stats();
        Figures {
            used: store.used_memory(),
            appended: log.used_bytes,
            live: log.live_bytes,
            segments: u64::from(log.segments),
            keys,
        }
    }

    /// Bytes that are not live objects: dead ones that reclaim has not reached, index, wheels, buffers.
    fn overhead(&self) -> u64 {
        self.used.saturating_sub(self.live)
    }

    fn live_percentage(&self) -> f64 {
        100.0 * self.live as f64 / self.used.max(1) as f64
    }
}

/// MEMORY STATS: of Redis's figures those that have a meaning here, and the log's own.
pub fn memory_stats(ctx: &mut WideCtx<'_>) {
    let f = Figures::of(ctx.store);
    let census = Census::of(ctx.store);
    let (cost, totals) = (ctx.store.reclaim_cost(), ctx.store.totals());
    let counts = [
        ("total.allocated", f.used),
        ("overhead.total", f.overhead()),
        ("keys.count", f.keys),
        ("keys.bytes-per-key", f.used / f.keys.max(1)),
        ("dataset.bytes", f.live),
        ("segments.count", f.segments),
        ("segments.bytes", f.appended),
        ("segments.dead-bytes", f.appended.saturating_sub(f.live)),
        ("segments.open", census.open),
        ("segments.sealed", census.sealed),
        ("segments.draining", census.draining),
        ("segments.runs", census.runs),
        ("reclaim.victims", cost.victims),
        ("reclaim.live-bytes", cost.live_bytes),
        ("reclaim.moved-objects", totals.moved),
        ("index.bytes", f.used.saturating_sub(f.appended)),
    ];
    ctx.out.map(counts.len() + 3);
    for (name, value) in counts {
        ctx.out.bulk(name.as_bytes());
        ctx.out.integer(value as i64);
    }
    ctx.out.bulk(b"segments.utilisation");
    ctx.out.bulk(census.utilisation().as_bytes());
    ctx.out.bulk(b"reclaim.cost");
    ctx.out.double(cost.cost);
    ctx.out.bulk(b"dataset.percentage");
    ctx.out.double(f.live_percentage());
}

/// MEMORY DOCTOR
pub fn memory_doctor(ctx: &mut WideCtx<'_>) {
    let text = diagnosis(&Figures::of(ctx.store));
    ctx.out.verbatim("txt", text.as_bytes());
}

/// Below this much there is nothing to say about proportions, in bytes.
const DOCTOR_BYTES_MIN: u64 = 64 << 20;
/// Reclaim keeps a store at its limit above this; without a limit it may stay below for long.
const DOCTOR_LIVE_PERCENT_MIN: f64 = 70.0;

fn diagnosis(f: &Figures) -> String {
    if f.used < DOCTOR_BYTES_MIN {
        return format!("The store holds {} keys in {} bytes, too little to judge.\n", f.keys, f.used);
    }
    let live = f.live_percentage();
    if live < DOCTOR_LIVE_PERCENT_MIN {
        return format!(
            "Of {} bytes in use {live:.0}% are live objects. The rest is mostly objects that were replaced or removed \
             and wait for reclaim; it is used again as new objects need room.\n",
            f.used
        );
    }
    format!("Of {} bytes in use {live:.0}% are live objects: memory is used well.\n", f.used)
}

/// MEMORY PURGE: gives what is freed and still kept back to the system.
pub fn memory_purge(ctx: &mut WideCtx<'_>) {
    ctx.store.purge(ctx.worker);
    ctx.out.ok();
}

/// MEMORY MALLOC-STATS
pub fn memory_malloc_stats(ctx: &mut WideCtx<'_>) {
    let log = ctx.store.log().stats();
    let (census, cost) = (Census::of(ctx.store), ctx.store.reclaim_cost());
    let lines = [
        ("used bytes", log.used_bytes),
        ("live bytes", log.live_bytes),
        ("live objects", log.live_objects),
        ("segments in use", u64::from(log.segments)),
        ("segments open for writing", u64::from(log.open_segments)),
        ("segments free below the last in use", u64::from(log.free_segments)),
        ("large objects", u64::from(log.runs)),
        ("segments of large objects", u64::from(log.run_segments)),
        ("segments full or closed", census.sealed),
        ("segments being drained", census.draining),
        ("segments drained", cost.victims),
        ("live bytes in those", cost.live_bytes),
        ("opened bytes", log.opened_bytes),
        ("bytes kept for new segments", log.warm_bytes),
        ("segment table bytes", log.table_bytes),
    ];
    let mut text = String::from("Segment log\n");
    for (name, value) in lines {
        text.push_str(&format!("  {name}: {value}\n"));
    }
    text.push_str(&format!("  segments by tenths of live bytes: {}\n", census.utilisation()));
    text.push_str(&format!("  sum of the drained segments' utilisation: {:.2}\n", cost.cost));
    ctx.out.verbatim("txt", text.as_bytes());
}

/// MEMORY HELP
pub fn memory_help(ctx: &mut SessionCtx<'_>) {
    help(
        ctx.out,
        "MEMORY",
        &[
            "DOCTOR",
            "    Tell in words whether memory is used well.",
            "MALLOC-STATS",
            "    Tell the figures of the segment log.",
            "PURGE",
            "    Give memory that holds nothing back to the system.",
            "STATS",
            "    Tell what takes how much memory.",
            "USAGE <key> [SAMPLES <count>]",
            "    Tell the bytes that <key> and its value take. Of values with parts, <count>",
            "    parts are measured (5 if not given, 0 for all).",
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::{Figures, diagnosis};

    #[test]
    fn the_doctor_judges_by_the_share_of_live_bytes() {
        let told = |used, live| diagnosis(&Figures { used, appended: used, live, segments: 1, keys: 3 });
        assert!(told(1 << 20, 1 << 10).contains("too little"));
        assert!(told(1 << 30, 1 << 29).contains("50%"));
        assert!(told(1 << 30, 900 << 20).contains("used well"));
    }
}
