//! Figures that change slowly or take longer to gather: commands, slow commands, what made others wait.

use std::collections::HashMap;

use serde_json::{Value, json};
use varve_base::hist::Counts;
use varve_exec::Command;
use varve_exec::stats::CommandLog;

use super::super::access::Viewer;
use super::replication;
use crate::features::info::{Costly, facts};
use crate::state::{ServerState, WaitsOn};

/// Upper limits of the columns of the latency map in nanoseconds: 1 us, and each twice the one before, to 1 s.
const LIMITS_NS: [u64; 21] = {
    let mut limits = [0; 21];
    let mut at = 0;
    while at < limits.len() {
        limits[at] = 1000 << at;
        at += 1;
    }
    limits
};
/// Slow commands that are shown.
const SLOW_MAX: usize = 20;
/// Commands that are shown: those that took most time.
const COMMANDS_MAX: usize = 24;

pub(super) fn detail(state: &ServerState, viewer: Viewer) -> Value {
    let facts = facts(state, Costly::ALL);
    let mut commands = facts.commands.clone();
    commands.sort_by_key(|command| std::cmp::Reverse(command.total_us));
    commands.truncate(COMMANDS_MAX);
    let rows: HashMap<&str, &Command> = state.commands().each().map(|row| (row.full_name, row)).collect();
    let durations = |name: &str| rows.get(name).and_then(|row| state.call_durations(row));
    let background = &facts.background;
    let held = [
        wait("shards held for commands", &background.holds),
        wait("turns of background work", &background.slices),
        wait("delay of expiry", &background.expiry_lag),
    ];
    let waited = WaitsOn::ALL.iter().zip(&background.waits);
    let waited = waited.map(|((_, word), counts)| wait(&format!("connections that waited: {word}"), counts));
    json!({
        "limits_us": LIMITS_NS.map(|limit| limit / 1000),
        "commands": commands.iter().map(|command| json!({
            "name": command.name, "calls": command.calls, "micros": command.total_us,
            "failed": command.failed, "rejected": command.rejected,
            "within": durations(&command.name).map(|counts| within(&counts)),
        })).collect::<Vec<_>>(),
        "slow": slow(state, viewer),
        "waits": held.into_iter().chain(waited).collect::<Vec<_>>(),
        "databases": facts.databases.iter().map(|database| json!({
            "number": database.number, "keys": database.keys, "volatile_keys": database.volatile_keys,
        })).collect::<Vec<_>>(),
        "clients": {
            "connected": facts.clients.connected, "blocked": facts.clients.blocked,
            "tracking": facts.clients.tracking, "buffer_bytes": facts.memory.client_bytes,
            "refused": facts.stats.rejected_connections,
        },
        "memory": {
            "used": facts.memory.used_bytes, "peak": facts.memory.peak_bytes, "resident": facts.memory.resident_bytes,
            "live": facts.memory.live_bytes, "overhead": facts.memory.overhead_bytes, "system": facts.memory.system_bytes,
        },
        "replication": replication::replication(&facts),
        "evicted": facts.stats.evicted_keys,
        "expired": facts.stats.expired_keys,
        "changes": facts.stats.changes,
        "last_save_s": facts.persistence.save.last_s,
        "last_save_ok": facts.persistence.save.last_ok,
        "aof": { "on": facts.persistence.aof.enabled, "bytes": facts.persistence.aof.current_bytes },
        "errors": facts.errors.iter().map(|error| json!([error.word, error.count])).collect::<Vec<_>>(),
    })
}

/// Calls by duration: up to each limit, beyond the one before; then those beyond the last one.
fn within(counts: &Counts) -> Vec<u64> {
    let below = counts.below_each_ns(LIMITS_NS);
    let mut before = 0;
    let mut columns: Vec<u64> = below.iter().map(|&all| all - std::mem::replace(&mut before, all)).collect();
    columns.push(counts.count() - before);
    columns
}

fn wait(name: &str, counts: &Counts) -> Value {
    let micros = |percent: f64| counts.percentile_ns(percent) as f64 / 1e3;
    json!({
        "name": name, "count": counts.count(), "p50_us": micros(50.0), "p99_us": micros(99.0),
        "max_us": counts.max_ns() as f64 / 1e3,
    })
}

/// The newest slow commands. Their arguments are cut already, and secrets among them are hidden. Who does not see
/// names sees no arguments, who does not see clients no names and addresses of those.
fn slow(state: &ServerState, viewer: Viewer) -> Vec<Value> {
    let entries: Vec<_> = state.command_logs().of(CommandLog::Slow).iter().take(SLOW_MAX).cloned().collect();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let shown = if viewer.sees_names { usize::MAX } else { 1 };
    let show = |entry: crate::features::command_log::state::Entry| {
        let words: Vec<String> = entry.command.args.iter().take(shown).map(|word| text(word)).collect();
        let (peer, name) = if viewer.sees_clients { (entry.peer, text(&entry.name)) } else { Default::default() };
        json!({
            "at_s": entry.command.at_s, "micros": entry.command.amount, "command": words.join(" "),
            "client": peer, "name": name,
        })
    };
    entries.into_iter().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_base::hist::Hist;

    #[test]
    fn columns_have_each_call_once() {
        let hist = Hist::default();
        [500, 1_500, 1_600, 3_000_000_000].into_iter().for_each(|ns| hist.record_ns(ns));
        let columns = within(&hist.read());
        assert_eq!(columns.len(), LIMITS_NS.len() + 1);
        assert_eq!(columns.iter().sum::<u64>(), 4);
        assert_eq!((columns[0], columns[1], columns[21]), (1, 2, 1));
    }
}
