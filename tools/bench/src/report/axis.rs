//! Labels of the axis of values: a quantity with its unit in brackets.
//!
//! ```text
//!   "grown MB"                          -> growth of the server's resident memory (MB)
//!   "microseconds of CPU per operation" -> server CPU (microseconds per operation)
//! ```
//! A figure's unit is a short name: in tables it heads a column, and files that were written before keep theirs. On an axis a
//! reader has nothing but the label, so that it says of which quantity the unit is.

use super::Figure;

/// Unit, the beginning of the titles of its figures (all where it is empty), and the label. The first one that fits counts.
const LABELS: &[(&str, &str, &str)] = &[
    ("ratio", "Collections", "resident memory over payload (times)"),
    ("ratio", "Resident after", "resident memory over that allowed (times)"),
    ("ratio", "TLS", "server CPU by TLS over plain (times)"),
    ("ratio", "Types", "memory over that of live entries alone (times)"),
    ("ratio", "", "ratio (times)"),
    ("resident bytes over payload", "", "resident memory over payload (times)"),
    ("peak resident over limit and 16 MB", "", "peak resident memory over limit and 16 MB (times)"),
    ("times one thread", "", "rate over that of one thread (times)"),
    ("times one worker", "", "rate over that of one worker (times)"),
    ("requests a second, times those of one worker", "", "rate of requests over that of one worker (times)"),
    ("with over alone", "", "primary's CPU with a replica over that without (times)"),
    ("replica over alone", "", "replica's CPU over the primary's without one (times)"),
    ("RPOPLPUSH over LINDEX", "", "CPU of RPOPLPUSH over that of LINDEX (times)"),
    ("calls", "", "socket writes (calls)"),
    ("count", "", "times that were measured (count)"),
    ("saves", "", "files written meanwhile (saves)"),
    ("rounds", "", "primaries that were killed (rounds)"),
    ("instructions", "", "work of a request (instructions)"),
    ("L1 read", "", "first-level cache misses of reads (misses per request)"),
    ("L1 write", "", "first-level cache misses of writes (misses per request)"),
    ("LL read", "", "last-level cache misses of reads (misses per request)"),
    ("LL write", "", "last-level cache misses of writes (misses per request)"),
    ("ReclaimCost: sum of the victims' utilisation", "", "ReclaimCost: sum of the victims' utilisation (segments)"),
    ("copies per insert", "", "objects copied by reclaim (copies per insert)"),
    ("percent of GETs that hit", "", "GETs that hit (percent)"),
    ("percent of all misses", "", "share of all cache misses (percent)"),
    ("percent of the writes", "", "writes that were refused (percent)"),
    ("B", "", "memory (bytes)"),
    ("bytes", "", "memory (bytes)"),
    ("bytes of used_memory", "", "used_memory (bytes)"),
    ("bytes of used_memory per element", "", "used_memory (bytes per element)"),
    ("megabytes", "", "memory (MB)"),
    ("file MB", "", "size of the file (MB)"),
    ("data MB", "", "values of the data set (MB)"),
    ("beside MB", "", "memory beside the data, as the server says (MB)"),
    ("grown MB", "", "growth of the server's resident memory (MB)"),
    ("MB/s", "", "rate (MB a second)"),
    ("MB/CPU s", "", "rate by CPU time (MB per second of CPU)"),
    ("SETs/s", "", "rate of synced SETs (SETs a second)"),
    ("SETs/sync", "", "SETs that one sync serves (SETs per sync)"),
    ("us/SET alone", "", "primary's CPU without a replica (microseconds per SET)"),
    ("us of CPU a SET, alone", "", "primary's CPU without a replica (microseconds per SET)"),
    ("us/SET with a replica", "", "primary's CPU with a replica (microseconds per SET)"),
    ("us of CPU a SET, with a replica", "", "primary's CPU with a replica (microseconds per SET)"),
    ("replica us/SET", "", "replica's CPU (microseconds per SET)"),
    ("us of the replica's CPU a SET", "", "replica's CPU (microseconds per SET)"),
    ("us of CPU a SET", "", "server CPU (microseconds per SET)"),
    ("CPU us a command", "", "CPU (microseconds per command)"),
    ("CPU s", "", "server CPU (seconds)"),
    ("nanoseconds of CPU per operation", "", "CPU of the threads (nanoseconds per operation)"),
    ("microseconds of server CPU", "", "server CPU (microseconds per GET)"),
    ("microseconds of CPU per operation, in process", "", "CPU of the thread (microseconds per operation)"),
    ("ns", "CPU", "CPU (nanoseconds per operation)"),
    ("microseconds from request to reply", "", "time from request to reply (microseconds)"),
    ("p50 us", "", "median time (microseconds)"),
    ("p99 us", "", "99th percentile of times (microseconds)"),
    ("p99.9 us", "", "99.9th percentile of times (microseconds)"),
    ("max us", "", "longest time (microseconds)"),
    ("ms", "", "time (milliseconds)"),
    ("median ms", "", "median time (milliseconds)"),
    ("longest ms", "", "longest time (milliseconds)"),
    ("seconds", "", "time (seconds)"),
    ("milliseconds", "", "time (milliseconds)"),
    ("microseconds", "", "time (microseconds)"),
    ("nanoseconds", "", "time (nanoseconds)"),
];

/// The label of a figure's axis of values.
pub(super) fn label(figure: &Figure) -> String {
    let (unit, title) = (figure.unit.as_str(), figure.title.as_str());
    let label = match LABELS.iter().find(|(known, start, _)| *known == unit && title.starts_with(start)) {
        Some((_, _, label)) => (*label).to_string(),
        None => by_its_form(unit),
    };
    // The bracket stands behind the quantity.
    match label.split_once(" (").filter(|_| figure.is_above_floor()) {
        Some((quantity, unit)) => format!("{quantity} above the floor ({unit}"),
        None => label,
    }
}

/// The label of a unit that says by its form of which quantity it is; another one stands as it is.
fn by_its_form(unit: &str) -> String {
    match unit.split_once(" of CPU per ") {
        Some((time, what)) => format!("server CPU ({time} per {what})"),
        None if unit.ends_with(" a second") => format!("rate ({unit})"),
        None => unit.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Form, read};
    use varve_testkit::server::workspace;

    fn of(title: &str, unit: &str) -> String {
        label(&Figure::new(title, unit, Better::Less, Form::Dots))
    }

    /// True of a text such as "server CPU (microseconds per SET)".
    fn is_whole(label: &str) -> bool {
        let parts = label.strip_suffix(')').and_then(|rest| rest.split_once(" ("));
        parts.is_some_and(|(quantity, unit)| !quantity.is_empty() && !unit.is_empty())
    }

    #[test]
    fn each_committed_figure_has_a_quantity_and_a_unit() {
        let (folder, mut seen) = (workspace().join("docs/results/full"), 0);
        for file in std::fs::read_dir(&folder).expect("the committed results").flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let Some(findings) = name.strip_suffix(".json").and_then(|name| read(&folder, name)) else { continue };
            for figure in &findings.figures {
                let label = label(figure);
                assert!(is_whole(&label), "{name}, {}: {label}", figure.title);
                seen += 1;
            }
        }
        assert!(seen > 200, "{seen} figures");
    }

    #[test]
    fn columns_that_no_committed_figure_has_yet_are_named_too() {
        let units = ["us of CPU a SET, alone", "us of the replica's CPU a SET", "ms", "us of CPU a SET", "CPU s"];
        for unit in units.into_iter().chain(["nanoseconds of CPU per operation", "RPOPLPUSH over LINDEX", "ratio"]) {
            assert!(is_whole(&of("Another experiment", unit)), "{unit}");
        }
    }

    #[test]
    fn a_label_says_of_which_quantity_its_unit_is() {
        assert_eq!(of("TLS: ratio", "ratio"), "server CPU by TLS over plain (times)");
        assert_eq!(of("Fan-out: calls", "calls"), "socket writes (calls)");
        let cpu = "microseconds of CPU per request";
        assert_eq!(of("50 clients: server CPU", cpu), "server CPU (microseconds per request)");
        let above = of("50 clients: server CPU, above the floor", cpu);
        assert_eq!(above, "server CPU above the floor (microseconds per request)");
        assert_eq!(of("t", "requests a second"), "rate (requests a second)");
    }
}
