//! The grammar of MIGRATE.

use std::time::Duration;

use varve_exec::{CmdResult, CommandError};
use varve_protocol::Args;

use crate::errors;
use crate::grammar::{integer, is};

/// Milliseconds in which nothing may happen on a link if the command names none.
const TIMEOUT_DEFAULT_MS: i64 = 1000;

/// The words of a MIGRATE.
pub(super) struct Options {
    pub(super) copy: bool,
    pub(super) replace: bool,
    /// The request that authenticates at the other server, if there is one.
    pub(super) auth: Option<Vec<Vec<u8>>>,
    /// The number of the other server's database.
    pub(super) db: i64,
    /// How long nothing may happen on the link.
    pub(super) idle_max: Duration,
    /// The first argument that is a key, and behind the last one.
    pub(super) keys: (usize, usize),
}

impl Options {
    /// Reads the words behind the time-out, then this and the database.
    ///
    /// # Errors
    /// A word is none of the command's, or lacks what it takes; a number is none.
    pub(super) fn parse(args: &Args<'_>) -> CmdResult<Options> {
        let (mut copy, mut replace, mut auth, mut keys) = (false, false, None, (3, 4));
        let mut at = 6;
        while at < args.len() {
            let (option, left) = (args.get(at), args.len() - at - 1);
            if is(option, "COPY") {
                copy = true;
            } else if is(option, "REPLACE") {
                replace = true;
            } else if is(option, "AUTH") && left >= 1 {
                auth = Some(vec![b"AUTH".to_vec(), args.get(at + 1).to_vec()]);
                at += 1;
            } else if is(option, "AUTH2") && left >= 2 {
                auth = Some(vec![b"AUTH".to_vec(), args.get(at + 1).to_vec(), args.get(at + 2).to_vec()]);
                at += 2;
            } else if is(option, "KEYS") {
                if !args.get(3).is_empty() {
                    return Err(errors::MIGRATE_KEY);
                }
                keys = (at + 1, args.len());
                break;
            } else {
                return Err(CommandError::SYNTAX);
            }
            at += 1;
        }
        let (timeout_ms, db) = (integer(args.get(5))?, integer(args.get(4))?);
        let timeout_ms = if timeout_ms > 0 { timeout_ms } else { TIMEOUT_DEFAULT_MS };
        Ok(Options { copy, replace, auth, db, idle_max: Duration::from_millis(timeout_ms.unsigned_abs()), keys })
    }
}
