//! The server's samples of keys: those that are used most, prefixes, large keys, expiries.

use varve_testkit::RespValue;

use super::reply::{field, number, text};

/// A key and its part of all commands that were sampled lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HotKey {
    pub(crate) name: String,
    pub(crate) db: u64,
    /// In a second: calls, nanoseconds or bytes.
    pub(crate) a_second: u64,
    pub(crate) percent: u64,
}

/// HOTKEYS TOP's three rankings.
#[derive(Debug, Default)]
pub(crate) struct HotKeys {
    pub(crate) by_calls: Vec<HotKey>,
    pub(crate) by_time: Vec<HotKey>,
    pub(crate) by_bytes: Vec<HotKey>,
}

/// A key with its place in each ranking.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HotRow<'k> {
    pub(crate) name: &'k str,
    pub(crate) db: u64,
    pub(crate) calls: Option<&'k HotKey>,
    pub(crate) time: Option<&'k HotKey>,
    pub(crate) bytes: Option<&'k HotKey>,
}

/// Keys with a prefix, as samples estimate them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) name: String,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
}

/// A large key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Large {
    pub(crate) name: String,
    pub(crate) db: u64,
    pub(crate) kind: String,
    pub(crate) bytes: u64,
    pub(crate) seen_s: u64,
}

/// Keys that expire within some seconds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) within_s: u64,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
}

fn list<T>(reply: &RespValue, of: impl Fn(&RespValue) -> T) -> Vec<T> {
    reply.elements().unwrap_or_default().iter().map(of).collect()
}

/// Of HOTKEYS TOP's reply.
pub(crate) fn hot_keys(reply: &RespValue) -> HotKeys {
    let of = |key: &RespValue| HotKey {
        name: text(key, "key"),
        db: number(key, "db"),
        a_second: number(key, "a-second"),
        percent: number(key, "percent"),
    };
    let ranking = |name: &str| field(reply, name).map(|keys| list(keys, of)).unwrap_or_default();
    HotKeys { by_calls: ranking("by-calls"), by_time: ranking("by-cpu-time-ns"), by_bytes: ranking("by-net-bytes") }
}

impl HotKeys {
    /// Each key once: those with most calls, then those that only another ranking has.
    pub(crate) fn rows(&self) -> Vec<HotRow<'_>> {
        let mut rows: Vec<HotRow<'_>> = Vec::new();
        for key in self.by_calls.iter().chain(&self.by_time).chain(&self.by_bytes) {
            if rows.iter().any(|row| (row.name, row.db) == (&*key.name, key.db)) {
                continue;
            }
            let find =
                |ranking: &'_ [HotKey]| ranking.iter().position(|one| (&one.name, one.db) == (&key.name, key.db));
            rows.push(HotRow {
                name: &key.name,
                db: key.db,
                calls: find(&self.by_calls).map(|at| &self.by_calls[at]),
                time: find(&self.by_time).map(|at| &self.by_time[at]),
                bytes: find(&self.by_bytes).map(|at| &self.by_bytes[at]),
            });
        }
        rows
    }
}

/// Of MEMORY PREFIXES' reply.
pub(crate) fn prefixes(reply: &RespValue) -> Vec<Prefix> {
    list(reply, |one| Prefix { name: text(one, "prefix"), keys: number(one, "keys"), bytes: number(one, "bytes") })
}

/// Of MEMORY LARGEST's reply.
pub(crate) fn largest(reply: &RespValue) -> Vec<Large> {
    list(reply, |one| Large {
        name: text(one, "key"),
        db: number(one, "db"),
        kind: text(one, "type"),
        bytes: number(one, "bytes"),
        seen_s: number(one, "seen-seconds-ago"),
    })
}

/// Of MEMORY EXPIRIES' reply.
pub(crate) fn expiries(reply: &RespValue) -> Vec<Due> {
    list(reply, |one| Due {
        within_s: number(one, "within-seconds"),
        keys: number(one, "keys"),
        bytes: number(one, "bytes"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::recorded;
    use super::*;

    #[test]
    fn a_key_of_several_rankings_has_one_row() {
        let hot = hot_keys(&recorded::hot_keys());
        let rows = hot.rows();
        assert_eq!(rows.iter().map(|row| row.name).collect::<Vec<_>>(), ["myzset", "user:1", "big"]);
        assert_eq!(rows[0].time.map(|key| key.percent), Some(62));
        assert!(rows[2].calls.is_none() && rows[2].bytes.is_some_and(|key| key.a_second == 457_570));
    }

    #[test]
    fn samples_of_memory() {
        assert_eq!(prefixes(&recorded::prefixes())[0], Prefix { name: "user:".into(), keys: 4912, bytes: 194_571 });
        let large = largest(&recorded::largest());
        assert_eq!((&*large[0].name, &*large[0].kind, large[0].bytes, large[0].seen_s), ("big", "list", 3846, 1));
        assert_eq!(expiries(&recorded::expiries())[1], Due { within_s: 3600, keys: 12, bytes: 700 });
    }
}
