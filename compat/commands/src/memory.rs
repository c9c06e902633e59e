//! MEMORY: what a key and the store take.
//!
//! Every figure is the store's own: there is no malloc beneath the data, so what Redis tells of its allocator is told
//! here of the segment log.

use varve_catalog::{ArgKind, Behaviour, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, SessionCtx, WideCtx};
use varve_protocol::Args;
use varve_store::{LogStats, ProcessMemory, Store};

use crate::grammar::{help, integer, is};
use crate::segments::utilisation;
use crate::survey::{MEMORY_EXPIRIES, MEMORY_LARGEST, MEMORY_PREFIXES};

use Figure::{Number, Part, Text};

pub(crate) const ROWS: FileRows = &[MEMORY];

const MEMORY_ROWS: FileRows = &[
    MEMORY_USAGE,
    MEMORY_STATS,
    MEMORY_DOCTOR,
    MEMORY_PURGE,
    MEMORY_MALLOC_STATS,
    MEMORY_PREFIXES,
    MEMORY_LARGEST,
    MEMORY_EXPIRIES,
    MEMORY_HELP,
];

/// MEMORY USAGE key [SAMPLES count]
fn memory_usage(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    check_samples(&ctx.args)?;
    let key = ctx.key(2);
    match ctx.tx.object(&key) {
        Some(info) => ctx.out.integer(info.bytes as i64),
        None => ctx.out.null(),
    }
    Ok(())
}

const MEMORY_USAGE: Command = Command::new(
    Exec::Keys(memory_usage),
    Row::sub("memory|usage", "usage", Group::Server, -3, "4.0.0")
        .about("Tells the bytes that a key takes.", "O(N) in the samples")
        .flags(&[Flags::READONLY])
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).token("SAMPLES").optional()]),
);

/// The number of samples changes nothing while values have no parts; it must be a number all the same.
fn check_samples(args: &Args<'_>) -> CmdResult {
    for at in (3..args.len()).step_by(2) {
        if !is(args.get(at), "SAMPLES") || at + 1 == args.len() || integer(args.get(at + 1))? < 0 {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok(())
}

/// The figures that MEMORY reports of the whole store.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// Bytes that `maxmemory` bounds; behind it that limit.
    used: u64,
    limit: u64,
    /// Of these in segments.
    appended: u64,
    /// Of these in live objects.
    live: u64,
    /// Connection buffers.
    buffers: u64,
    segments: u64,
    /// Large values, those that died included, and bytes of all of them.
    runs: u64,
    run_bytes: u64,
    /// Of these, bytes that died and are being given back.
    retired_bytes: u64,
    /// Memory that is kept for the next segments.
    kept: u64,
    /// Bytes of segments that are open for use.
    opened: u64,
    keys: u64,
    process: ProcessMemory,
    defrag_percent: u32,
}

impl Figures {
    /// Looks at all segments, through `log`.
    fn of(store: &Store, log: &LogStats, now_ms: i64) -> Figures {
        let keys = store.counts_of_all().iter().map(|(keys, _)| keys).sum();
        let used = store.used_memory();
        let process = store.process();
        Figures {
            used,
            limit: store.limit_bytes(),
            appended: log.used_bytes.saturating_sub(log.kept_bytes),
            live: log.live_bytes,
            buffers: store.outside_bytes().saturating_sub(process.startup_used),
            segments: u64::from(log.segments),
            runs: u64::from(log.runs),
            run_bytes: log.run_bytes,
            retired_bytes: log.retired_bytes,
            kept: log.cached_bytes,
            opened: log.opened_bytes,
            keys,
            process: ProcessMemory { peak_used: process.peak_used.max(used), ..process },
            defrag_percent: store.defragged(now_ms).running_percent,
        }
    }

    /// Bytes that died and that reclaim has not reached.
    fn dead(&self) -> u64 {
        self.appended.saturating_sub(self.live)
    }

    /// Index tables, wheels, roots.
    fn tables(&self) -> u64 {
        self.used.saturating_sub(self.appended + self.buffers + self.process.startup_used)
    }

    /// Bytes that are not live objects: dead ones that reclaim has not reached, index, wheels, buffers.
    fn overhead(&self) -> u64 {
        self.used.saturating_sub(self.live)
    }

    /// The figures of redis-server's MEMORY STATS, in its order.
    fn of_redis(&self) -> Vec<(&'static str, Figure)> {
        let (resident, opened) = (self.process.resident, self.opened.max(self.used));
        let over = u64::saturating_sub;
        vec![
            ("peak.allocated", Number(self.process.peak_used)),
            ("total.allocated", Number(self.used)),
            ("startup.allocated", Number(self.process.startup_used)),
            ("replication.backlog", Number(0)),
            ("clients.slaves", Number(0)),
            ("clients.normal", Number(self.buffers)),
            ("cluster.links", Number(0)),
            ("aof.buffer", Number(0)),
            ("lua.caches", Number(self.process.scripts)),
            ("functions.caches", Number(self.process.libraries)),
            ("overhead.total", Number(self.overhead())),
            ("keys.count", Number(self.keys)),
            ("keys.bytes-per-key", Number(self.net() / self.keys.max(1))),
            ("dataset.bytes", Number(self.live)),
            ("dataset.percentage", Part(percent(self.live, self.net()))),
            ("peak.percentage", Part(percent(self.used, self.process.peak_used))),
            ("allocator.allocated", Number(self.live)),
            ("allocator.active", Number(self.used)),
            ("allocator.resident", Number(opened)),
            ("allocator-fragmentation.ratio", Part(ratio(self.used, self.live))),
            ("allocator-fragmentation.bytes", Number(over(self.used, self.live))),
            ("allocator-rss.ratio", Part(ratio(opened, self.used))),
            ("allocator-rss.bytes", Number(over(opened, self.used))),
            ("rss-overhead.ratio", Part(ratio(resident, opened))),
            ("rss-overhead.bytes", Number(over(resident, opened))),
            ("fragmentation", Part(ratio(resident, self.used))),
            ("fragmentation.bytes", Number(over(resident, self.used))),
        ]
    }

    /// Bytes that the data takes, without those that were in use before there was any.
    fn net(&self) -> u64 {
        self.used.saturating_sub(self.process.startup_used)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn ratio(whole: u64, part: u64) -> f64 {
    if part == 0 { 0.0 } else { whole as f64 / part as f64 }
}

/// A figure of MEMORY STATS.
#[derive(Clone)]
enum Figure {
    Number(u64),
    Part(f64),
    Text(String),
}

/// MEMORY STATS: all figures of redis-server in its order, since clients read them by type, then the log's own. Those of
/// parts that there are not (replicas, a cluster, an append-only file) are 0.
fn memory_stats(ctx: &mut WideCtx<'_>) -> CmdResult {
    let log = ctx.store.log().stats();
    let f = Figures::of(ctx.store, &log, ctx.worker.now_ms());
    let figures = [&f.of_redis()[..], &of_the_log(ctx.store, &log, &f)].concat();
    ctx.out.map(figures.len());
    for (name, figure) in figures {
        ctx.out.bulk(name.as_bytes());
        match figure {
            Figure::Number(value) => ctx.out.integer(value as i64),
            Figure::Part(value) => ctx.out.double(value),
            Figure::Text(text) => ctx.out.bulk(text.as_bytes()),
        }
    }
    Ok(())
}

/// The figures that redis-server does not have.
fn of_the_log(store: &Store, log: &LogStats, f: &Figures) -> Vec<(&'static str, Figure)> {
    let (cost, totals) = (store.reclaim_cost(), store.totals());
    vec![
        ("segments.count", Number(f.segments)),
        ("segments.bytes", Number(f.appended)),
        ("segments.dead-bytes", Number(f.dead())),
        ("segments.open", Number(log.open_segments.into())),
        ("segments.sealed", Number(log.sealed_segments.into())),
        ("segments.draining", Number(log.draining_segments.into())),
        ("segments.runs", Number((log.runs - log.retired_runs).into())),
        ("segments.run-bytes", Number(f.run_bytes)),
        ("segments.run-old-bytes", Number(log.kept_bytes)),
        ("segments.kept-bytes", Number(f.kept)),
        ("segments.utilisation", Text(utilisation(log))),
        ("reclaim.victims", Number(cost.victims)),
        ("reclaim.live-bytes", Number(cost.live_bytes)),
        ("reclaim.moved-objects", Number(totals.moved)),
        ("reclaim.cost", Part(cost.cost)),
        ("index.bytes", Number(f.tables())),
    ]
}

const MEMORY_STATS: Command = Command::new(
    Exec::Figures(memory_stats),
    Row::sub("memory|stats", "stats", Group::Server, 2, "4.0.0")
        .about("Tells what memory is used for.", "O(1)")
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// MEMORY DOCTOR
fn memory_doctor(ctx: &mut WideCtx<'_>) -> CmdResult {
    let text = diagnosis(&Figures::of(ctx.store, &ctx.store.log().stats(), ctx.worker.now_ms()));
    ctx.out.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

const MEMORY_DOCTOR: Command = Command::new(
    Exec::Figures(memory_doctor),
    Row::sub("memory|doctor", "doctor", Group::Server, 2, "4.0.0")
        .about("Tells what is wrong with the use of memory.", "O(1)")
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// Below this much there is nothing to say about proportions, in bytes.
const DOCTOR_BYTES_MIN: u64 = 4 << 20;
/// Of what is appended the background lets less than this die, in percent, before it reclaims by itself.
const DEAD_PERCENT_USUAL: f64 = 20.0;
/// Bytes that a process has beyond those in use: program, stacks, memory that is kept for new segments.
const BESIDE_BYTES: u64 = 16 << 20;

/// The findings, and what to do about them, a line each.
fn diagnosis(f: &Figures) -> String {
    if f.used < DOCTOR_BYTES_MIN {
        return format!("The store holds {} keys in {} bytes, too little to judge.\n", f.keys, f.used);
    }
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let mut text = format!(
        "{} in use: {} in {} segments and {} large values ({:.0}% of it live), {} of tables, {} of buffers.\n",
        mb(f.used),
        mb(f.appended),
        f.segments,
        f.runs,
        percent(f.live, f.appended),
        mb(f.tables()),
        mb(f.buffers),
    );
    let findings = findings(f, mb);
    if findings.is_empty() {
        text.push_str("Memory is used well: there is nothing to do.\n");
    }
    findings.iter().for_each(|finding| text.push_str(&format!(" * {finding}\n")));
    text
}

fn findings(f: &Figures, mb: impl Fn(u64) -> String) -> Vec<String> {
    let mut found = Vec::new();
    let dead = percent(f.dead().saturating_sub(f.retired_bytes), f.appended);
    if dead > DEAD_PERCENT_USUAL && f.defrag_percent > 0 {
        found.push(format!("{dead:.0}% of the segments' bytes are dead; active defragmentation is at it."));
    } else if dead > DEAD_PERCENT_USUAL {
        found.push(format!(
            "{dead:.0}% of the segments' bytes are dead: values that were replaced or removed. Writes reuse them at the \
             limit, and the background drains them as it has time; MEMORY PURGE does it now, activedefrag sooner."
        ));
    }
    if f.retired_bytes > 0 {
        found.push(format!("{} of large values died and are being given back.", mb(f.retired_bytes)));
    }
    if f.run_bytes - f.retired_bytes > f.appended / 2 {
        let (bytes, runs) = (mb(f.run_bytes), f.runs);
        found.push(format!(
            "{bytes} are {runs} values over 256 KB, each alone in segments of its own: none is moved, and under a limit \
             each is evicted whole."
        ));
    }
    if f.buffers > f.used / 4 {
        found.push(format!(
            "{} are buffers of clients, which take the place of keys: see CLIENT LIST, maxmemory-clients and \
             client-output-buffer-limit.",
            mb(f.buffers)
        ));
    }
    if f.tables() > f.live {
        found.push(
            "The index and the tables of collections take more than what they lead to: the values are tiny, or \
                    many keys were removed and tables are still shrinking."
                .into(),
        );
    }
    let beside = f.process.resident.saturating_sub(f.used);
    if beside > f.used / 20 + BESIDE_BYTES {
        found.push(format!(
            "The process has {} beside what is in use ({} resident): memory that the program itself took and its \
             allocator keeps.",
            mb(beside),
            mb(f.process.resident)
        ));
    }
    if f.process.peak_used > f.used / 2 * 3 {
        found.push(format!(
            "At its peak {} were in use; what went since was given back to the system.",
            mb(f.process.peak_used)
        ));
    }
    if f.limit != 0 && f.used > f.limit / 10 * 9 {
        found.push(format!("The limit of {} is reached or near: writes evict keys or are refused.", mb(f.limit)));
    }
    found
}

/// MEMORY PURGE: drains what died and gives it back to the system.
fn memory_purge(ctx: &mut WideCtx<'_>) -> CmdResult {
    ctx.store.purge(ctx.worker);
    ctx.out.ok();
    Ok(())
}

const MEMORY_PURGE: Command = Command::new(
    Exec::Figures(memory_purge),
    Row::sub("memory|purge", "purge", Group::Server, 2, "4.0.0")
        .about("Gives free memory back to the system.", "O(N) in the free memory")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
);

/// MEMORY MALLOC-STATS
fn memory_malloc_stats(ctx: &mut WideCtx<'_>) -> CmdResult {
    let log = ctx.store.log().stats();
    let cost = ctx.store.reclaim_cost();
    let lines = [
        ("used bytes", log.used_bytes),
        ("live bytes", log.live_bytes),
        ("live objects", log.live_objects),
        ("segments in use", u64::from(log.segments)),
        ("segments open for writing", u64::from(log.open_segments)),
        ("segments free below the last in use", u64::from(log.free_segments)),
        ("large objects", u64::from(log.runs)),
        ("segments of large objects", u64::from(log.extent_segments)),
        ("segments full or closed", log.sealed_segments.into()),
        ("segments being drained", log.draining_segments.into()),
        ("segments drained", cost.victims),
        ("live bytes in those", cost.live_bytes),
        ("opened bytes", log.opened_bytes),
        ("bytes kept for new segments", log.cached_bytes),
        ("segment table bytes", log.table_bytes),
    ];
    let mut text = String::from("Segment log\n");
    for (name, value) in lines {
        text.push_str(&format!("  {name}: {value}\n"));
    }
    text.push_str(&format!("  segments by tenths of live bytes: {}\n", utilisation(&log)));
    text.push_str(&format!("  sum of the drained segments' utilisation: {:.2}\n", cost.cost));
    ctx.out.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

const MEMORY_MALLOC_STATS: Command = Command::new(
    Exec::Figures(memory_malloc_stats),
    Row::sub("memory|malloc-stats", "malloc-stats", Group::Server, 2, "4.0.0")
        .about("Describes the allocator.", "O(1)")
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// MEMORY HELP
fn memory_help(ctx: &mut SessionCtx<'_>) -> CmdResult {
    help(
        ctx.out,
        "MEMORY",
        &[
            "DOCTOR",
            "    Tell in words whether memory is used well.",
            "EXPIRIES",
            "    Estimate how many keys and bytes expire within a minute, an hour, a day, a week.",
            "LARGEST [COUNT <count>]",
            "    List the largest keys that were seen lately.",
            "MALLOC-STATS",
            "    Tell the figures of the segment log.",
            "PREFIXES [COUNT <count>]",
            "    Estimate keys and bytes by the prefixes of keys, most bytes first.",
            "PURGE",
            "    Drain what died and give its memory back to the system.",
            "STATS",
            "    Tell what takes how much memory.",
            "USAGE <key> [SAMPLES <count>]",
            "    Tell the bytes that <key> and its value take. Of values with parts, <count>",
            "    parts are measured (5 if not given, 0 for all).",
        ],
    );
    Ok(())
}

const MEMORY_HELP: Command = Command::new(
    Exec::Session(memory_help),
    Row::sub("memory|help", "help", Group::Server, 2, "4.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);

const MEMORY: Command =
    Command::container(Row::new("memory", Group::Server, -2, "4.0.0").about("What the data takes.", ""), MEMORY_ROWS);

#[cfg(test)]
mod tests {
    use varve_store::ProcessMemory;

    use super::{Figures, diagnosis};

    #[test]
    fn the_doctor_names_what_stands_out() {
        let well = Figures { used: 1 << 30, appended: 1 << 30, live: 900 << 20, segments: 128, ..Figures::default() };
        let told = |f: Figures| diagnosis(&f);
        assert!(told(Figures { used: 1 << 20, ..well }).contains("too little"));
        assert!(told(well).contains("nothing to do") && told(well).contains("128 segments"));
        let dead = Figures { live: 600 << 20, ..well };
        assert!(told(dead).contains("41% of the segments' bytes are dead") && told(dead).contains("MEMORY PURGE"));
        assert!(told(Figures { defrag_percent: 5, ..dead }).contains("is at it"));
        let runs = Figures { runs: 9, run_bytes: 800 << 20, retired_bytes: 1 << 20, ..well };
        assert!(told(runs).contains("9 values over 256 KB") && told(runs).contains("being given back"));
        let process = ProcessMemory { resident: 3 << 30, peak_used: 4 << 30, ..ProcessMemory::default() };
        let told = told(Figures { process, buffers: 500 << 20, used: 3 << 29, limit: 3 << 29, ..well });
        for part in ["1610.6 MB beside", "At its peak 4295.0 MB", "buffers of clients", "limit of 1610.6 MB"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
