//! SLOWLOG GET's entries.

use varve_testkit::RespValue;

use super::reply::shown;

/// A slow command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slow {
    /// Seconds since 1970.
    pub(crate) at_s: u64,
    pub(crate) micros: u64,
    pub(crate) command: String,
    pub(crate) client: String,
}

/// The entries, the newest first. An entry is: number, time, microseconds, words, address, name.
pub(crate) fn entries(reply: &RespValue) -> Vec<Slow> {
    let of = |entry: &RespValue| {
        let parts = entry.elements()?;
        let number = |at: usize| parts.get(at).and_then(RespValue::integer).and_then(|n| u64::try_from(n).ok());
        let text = |at: usize| parts.get(at).and_then(RespValue::bytes).map(shown).unwrap_or_default();
        let words = parts.get(3)?.elements()?.iter().filter_map(RespValue::bytes).map(shown);
        Some(Slow {
            at_s: number(1)?,
            micros: number(2)?,
            command: words.collect::<Vec<_>>().join(" "),
            client: format!("{} {}", text(4), text(5)).trim().to_owned(),
        })
    };
    reply.elements().unwrap_or_default().iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::recorded;
    use super::*;

    #[test]
    fn an_entry_has_its_words() {
        let entries = entries(&recorded::slow());
        assert_eq!(entries.len(), 1);
        let entry = &entries[0];
        assert_eq!((entry.at_s, entry.micros, &*entry.command), (1_795_457_234, 12_345, "sort a\\x1b[31m by nosort"));
        assert_eq!(entry.client, "127.0.0.1:40302 worker");
    }
}
