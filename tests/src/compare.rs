//! When two replies count as equal. The table in [`rule`] is the whole of what is excused; every other command's replies
//! are compared to the letter.
//!
//! Errors are never excused: whatever the rule, an error on one side must be the same error on the other.

use varve_testkit::RespValue;

/// How a command's replies are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// to the letter
    Exact,
    /// the same elements in any order
    Multiset,
    /// the same pairs in any order
    Pairs,
    /// numbers, or arrays of numbers, at most so far apart: the two servers read the clock at different moments
    Within(i64),
    /// arrays to the letter but for their first elements: XAUTOCLAIM passes over entries that are not idle without a look at
    /// them, so its cursor may be farther
    Behind,
    /// only that both are of the same kind: number, text, array or null
    Form,
    /// INFO: of the same kind, and what follows from the commands alone is equal: see [`figures`]
    Figures,
    /// COMMANDLOG GET of large requests or replies: equal but for the moment and the client's address of each entry
    Logged,
    /// SORT by numbers: to the letter, or the peer's error beside a result. It looks at errno without having cleared it,
    /// so that an overflow that some command met before makes numbers of it.
    Scores,
    /// HELLO: equal but for the connection's id and fields that only Varve has
    Greeting,
}

/// Seconds and milliseconds by which two readings of one time to live may differ. A chunk of commands is run by both
/// servers within this, on a machine with ten times the work that it has cores too.
const SECONDS: Rule = Rule::Within(60);
const MILLISECONDS: Rule = Rule::Within(60_000);

/// SORT's error where an element is no number.
pub const NO_SCORE: &str = "ERR One or more scores can't be converted into double";

/// The table: command, subcommand (or "" for any), rule. Reasons stand at the end of the line.
const TABLE: &[(&str, &str, Rule)] = &[
    ("keys", "", Rule::Multiset), // order is the table's
    ("hgetall", "", Rule::Pairs), // order is the table's, in this and those below
    ("hkeys", "", Rule::Multiset),
    ("hvals", "", Rule::Multiset),
    ("smembers", "", Rule::Multiset),
    ("sinter", "", Rule::Multiset),
    ("sunion", "", Rule::Multiset),
    ("sdiff", "", Rule::Multiset),
    ("spop", "", Rule::Multiset),      // only ever of all members
    ("hscan", "", Rule::Form),         // a single step
    ("sscan", "", Rule::Form),         // a single step
    ("zscan", "", Rule::Form),         // a single step
    ("hrandfield", "", Rule::Form),    // random
    ("srandmember", "", Rule::Form),   // random
    ("zrandmember", "", Rule::Form),   // random
    ("scan", "", Rule::Form),          // a single step; whole scans are gathered and compared to the letter
    ("randomkey", "", Rule::Form),     // random
    ("ttl", "", SECONDS),              // the clock
    ("expiretime", "", SECONDS),       // relative times were added to the clock
    ("pttl", "", MILLISECONDS),        // the clock
    ("pexpiretime", "", MILLISECONDS), // the clock
    ("httl", "", SECONDS),             // the clock, in this and those below
    ("hpttl", "", MILLISECONDS),
    ("hexpiretime", "", SECONDS),
    ("hpexpiretime", "", MILLISECONDS),
    ("object", "idletime", Rule::Form),  // the clock
    ("object", "freq", Rule::Form),      // a random counter
    ("object", "help", Rule::Form),      // our own text
    ("memory", "", Rule::Form),          // another allocator
    ("debug", "object", Rule::Form),     // an address
    ("info", "", Rule::Figures),         // most are figures of a server
    ("time", "", Rule::Form),            // the clock
    ("lolwut", "", Rule::Form),          // our own picture
    ("xautoclaim", "", Rule::Behind),    // the cursor passes over all entries that are not idle
    ("xinfo", "stream", Rule::Form),     // radix-tree-nodes is a figure of another tree
    ("xinfo", "help", Rule::Form),       // our own text
    ("client", "id", Rule::Form),        // another sequence
    ("client", "list", Rule::Form),      // addresses, figures
    ("client", "info", Rule::Form),      // addresses, figures
    ("client", "help", Rule::Form),      // our own text
    ("config", "get", Rule::Multiset),   // order is a hash table's, and not the same in two runs of the peer
    ("config", "help", Rule::Form),      // our own text
    ("command", "help", Rule::Form),     // our own text
    ("command", "count", Rule::Form),    // another set of commands
    ("command", "list", Rule::Form),     // another set of commands
    ("command", "docs", Rule::Form),     // our own text
    ("command", "info", Rule::Form),     // compared field by field in errors.rs
    ("slowlog", "get", Rule::Form),      // durations
    ("slowlog", "len", Rule::Form),      // durations
    ("slowlog", "help", Rule::Form),     // our own text
    ("commandlog", "get", Rule::Logged), // the clock, addresses
    ("hello", "", Rule::Greeting),       // the id
];

/// The rule for a command.
#[must_use]
pub fn rule(args: &[Vec<u8>]) -> Rule {
    let lower = |i: usize| args.get(i).map(|arg| arg.to_ascii_lowercase()).unwrap_or_default();
    let (name, sub) = (lower(0), lower(1));
    if name.starts_with(b"sort") {
        return sort_rule(&args.iter().skip(2).map(|arg| arg.to_ascii_lowercase()).collect::<Vec<_>>());
    }
    TABLE
        .iter()
        .find(|(n, s, _)| n.as_bytes() == name && (s.is_empty() || s.as_bytes() == sub))
        .map_or(Rule::Exact, |&(_, _, rule)| rule)
}

fn sort_rule(options: &[Vec<u8>]) -> Rule {
    let has = |word: &str| options.iter().any(|option| option == word.as_bytes());
    // A set's order is the table's; so is that of all but lists where the elements are compared by nothing.
    let by = options.windows(2).any(|pair| pair[0] == b"by" && !pair[1].starts_with(b"h*"));
    match (by, has("alpha")) {
        (true, _) => Rule::Multiset,
        (false, true) => Rule::Exact,
        (false, false) => Rule::Scores,
    }
}

/// Are the replies of Varve and of the peer equal under a rule?
#[must_use]
pub fn equal(rule: Rule, ours: &RespValue, theirs: &RespValue) -> bool {
    if ours.is_error() || theirs.is_error() {
        let stale = rule == Rule::Scores && theirs.text() == NO_SCORE && kind(ours) == "array";
        return ours == theirs || stale;
    }
    match rule {
        Rule::Exact | Rule::Scores => ours == theirs,
        Rule::Behind => match (ours, theirs) {
            (RespValue::Array(ours), RespValue::Array(theirs)) => ours.get(1..) == theirs.get(1..),
            _ => ours == theirs,
        },
        Rule::Logged => logged(ours) == logged(theirs),
        Rule::Multiset => sorted(ours) == sorted(theirs),
        Rule::Pairs => sorted_pairs(ours) == sorted_pairs(theirs),
        Rule::Within(limit) => is_within(limit, ours, theirs),
        Rule::Form => kind(ours) == kind(theirs),
        Rule::Figures => kind(ours) == kind(theirs) && figures(&ours.text()) == figures(&theirs.text()),
        Rule::Greeting => greeting(ours, theirs),
    }
}

/// Entries of COMMANDLOG without what no two servers share: the second field, a time in seconds, and the fifth, an
/// address. The rest is the entry's number, the bytes of the request or reply, its arguments and the client's name.
fn logged(reply: &RespValue) -> RespValue {
    const HIDDEN: [usize; 2] = [1, 4];
    let entry = |entry: &RespValue| match entry {
        RespValue::Array(fields) => {
            let seen = fields.iter().enumerate().filter(|(i, _)| !HIDDEN.contains(i));
            RespValue::Array(seen.map(|(_, field)| field.clone()).collect())
        }
        other => other.clone(),
    };
    match reply {
        RespValue::Array(entries) => RespValue::Array(entries.iter().map(entry).collect()),
        other => other.clone(),
    }
}

fn is_within(limit: i64, ours: &RespValue, theirs: &RespValue) -> bool {
    match (ours, theirs) {
        (RespValue::Array(ours), RespValue::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| is_within(limit, a, b))
        }
        _ => match (ours.integer(), theirs.integer()) {
            // -1 and -2 are answers of their own, not times.
            (Some(a), Some(b)) if a >= 0 && b >= 0 => (i128::from(a) - i128::from(b)).abs() <= i128::from(limit),
            _ => ours == theirs,
        },
    }
}

/// The text of a reply that the log of a mismatch shows beside the other server's. Of INFO it has only the lines that differ.
#[must_use]
pub fn told(rule: Rule, one: &RespValue, other: &RespValue) -> String {
    if rule != Rule::Figures || one.is_error() || other.is_error() {
        return format!("{one:?}");
    }
    let others = figures(&other.text());
    figures(&one.text()).into_iter().filter(|line| !others.contains(line)).collect::<Vec<_>>().join(" ")
}

/// The lines of INFO that follow from the commands alone, without what in them is a time: keys and expiries of each
/// database, hits and misses, calls of each command, errors by their first word. Sorted, for the order is a table's.
fn figures(info: &str) -> Vec<String> {
    let names = ["keyspace_hits:", "keyspace_misses:", "total_error_replies:", "errorstat_", "cmdstat_", "db"];
    let timed = ["usec", "usec_per_call", "avg_ttl"];
    let mut lines: Vec<String> = info
        .lines()
        .filter(|line| names.iter().any(|name| line.starts_with(name)))
        .map(|line| {
            // Errors inside a script's reply make its command a failed one there.
            let by_script = line.starts_with("cmdstat_eval");
            let hidden =
                |part: &str| timed.iter().any(|t| part.starts_with(t)) || by_script && part.starts_with("failed_calls");
            line.split(',').filter(|part| !hidden(part)).collect::<Vec<_>>().join(",")
        })
        .collect();
    lines.sort();
    lines
}

/// A reply with all arrays and sets in it sorted: equal for two replies that differ in order only.
#[must_use]
pub fn sorted(value: &RespValue) -> RespValue {
    let list = |v: &[RespValue]| {
        let mut v: Vec<RespValue> = v.iter().map(sorted).collect();
        v.sort();
        v
    };
    match value {
        RespValue::Array(v) => RespValue::Array(list(v)),
        RespValue::Set(v) => RespValue::Set(list(v)),
        RespValue::Map(pairs) => {
            let mut pairs: Vec<_> = pairs.iter().map(|(k, v)| (sorted(k), sorted(v))).collect();
            pairs.sort();
            RespValue::Map(pairs)
        }
        other => other.clone(),
    }
}

/// A reply of pairs, as a map or flat, with the pairs sorted.
fn sorted_pairs(value: &RespValue) -> RespValue {
    match value {
        RespValue::Array(flat) => {
            let mut pairs: Vec<Vec<RespValue>> = flat.chunks(2).map(<[RespValue]>::to_vec).collect();
            pairs.sort();
            RespValue::Array(pairs.concat())
        }
        other => sorted(other),
    }
}

fn kind(value: &RespValue) -> &'static str {
    match value {
        RespValue::Simple(_) | RespValue::Bulk(_) | RespValue::Verbatim(_) => "text",
        RespValue::Error(_) => "error",
        RespValue::Integer(_) => "integer",
        RespValue::NullBulk | RespValue::NullArray | RespValue::Null => "null",
        RespValue::Array(_) => "array",
        RespValue::Map(_) => "map",
        RespValue::Set(_) => "set",
        RespValue::Push(_) => "push",
        RespValue::Double(_) => "double",
        RespValue::Boolean(_) => "boolean",
        RespValue::BigNumber(_) => "big number",
        RespValue::Attribute(_, _) => "attribute",
    }
}

/// Every field of the peer's greeting is in ours with the same value, the id's value aside.
fn greeting(ours: &RespValue, theirs: &RespValue) -> bool {
    let fields = |value: &RespValue| -> Option<Vec<(RespValue, RespValue)>> {
        match value {
            RespValue::Map(pairs) => Some(pairs.clone()),
            RespValue::Array(flat) => Some(flat.chunks(2).map(|p| (p[0].clone(), p[p.len() - 1].clone())).collect()),
            _ => None,
        }
    };
    let (Some(ours_fields), Some(theirs_fields)) = (fields(ours), fields(theirs)) else { return false };
    kind(ours) == kind(theirs)
        && theirs_fields
            .iter()
            .all(|(name, value)| ours_fields.iter().any(|(n, v)| n == name && (v == value || name.text() == "id")))
}
