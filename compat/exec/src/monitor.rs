//! The lines that MONITOR shows: every command that ran, but for those of administrators.
//!
//! ```text
//!   +1700000000.123456 [0 127.0.0.1:50000] "SET" "key" "va\x00lue"
//!    time              db address           arguments, passwords redacted
//! ```
//!
//! A line is made behind its command, as Redis does: SELECT shows the database that it selected. Not here: the address,
//! which the server knows, and who reads the lines.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use varve_catalog::{Flags, Row};
use varve_protocol::Args;
use varve_protocol::words::append_quoted;

/// A command that ran.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Since the beginning of Unix time.
    at: Duration,
    /// The selected database.
    db: u32,
    /// The arguments as they are shown.
    args: Vec<u8>,
    /// A script had it run: its address is `lua`.
    by_script: bool,
}

impl Seen {
    /// A command that just ran; None if it is not shown.
    pub fn new(d: &Row, args: Args<'_>, db: u32) -> Option<Seen> {
        let hidden = d.flags.has(Flags::ADMIN) || d.flags.has(Flags::SKIP_MONITOR);
        (!hidden).then(|| Seen::begun(d, args, db))
    }

    /// A command that a script had run; None if it is not shown.
    pub(crate) fn by_script(d: &Row, args: Args<'_>, db: u32) -> Option<Seen> {
        Seen::new(d, args, db).map(|seen| Seen { by_script: true, ..seen })
    }

    /// A command that is shown before those that it runs: a script's.
    pub(crate) fn begun(d: &Row, args: Args<'_>, db: u32) -> Seen {
        let mut text = Vec::with_capacity(args.bytes() + 4 * args.len());
        for (at, arg) in d.shown(args).enumerate() {
            if at > 0 {
                text.push(b' ');
            }
            append_quoted(arg.unwrap_or(REDACTED), &mut text);
        }
        Seen { at: now(), db, args: text, by_script: false }
    }

    /// EXEC, which is shown behind its commands.
    pub(crate) fn exec(word: [u8; 4], db: u32) -> Seen {
        Seen { at: now(), db, args: [b"\"", word.as_slice(), b"\""].concat(), by_script: false }
    }

    /// The whole line, line end included.
    pub fn line(&self, address: &str, into: &mut Vec<u8>) {
        let address = if self.by_script { "lua" } else { address };
        let (seconds, micros) = (self.at.as_secs(), self.at.subsec_micros());
        into.extend_from_slice(format!("+{seconds}.{micros:06} [{} {address}] ", self.db).as_bytes());
        into.extend_from_slice(&self.args);
        into.extend_from_slice(b"\r\n");
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The text in place of a secret.
pub(crate) const REDACTED: &[u8] = b"(redacted)";
