//! XNACK: entries that a consumer gives back to its group. They stay pending, and are the first that CLAIM finds.
//!
//! ```text
//!   pending entry   consumer "worker", delivered at t, n deliveries  -->  consumer "", delivered at 0, n - 1, n or the most
//! ```
//! The consumer without a name has what is nobody's: so files and replicas of redis-server 7.0.15 keep it.

use varve_catalog::{Acl, ArgKind, Flags, Group as CommandGroup, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Args;
use varve_store::{PendingEntry, StreamId};

use super::UPDATES;
use super::claim::{Claim, DELIVERIES_MAX};
use super::delete::{ids_behind, read_ids};
use super::group::no_group;
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[XNACK];

/// The consumer of entries that were given back.
pub(super) const NOBODY: &[u8] = b"";
/// The change of the number of deliveries.
#[derive(Clone, Copy)]
enum Mode {
    /// The last one does not count.
    Silent,
    Fail,
    /// There are to be no more.
    Fatal,
}

impl Mode {
    fn parse(text: &[u8]) -> CmdResult<Mode> {
        match () {
            () if is(text, "SILENT") => Ok(Mode::Silent),
            () if is(text, "FAIL") => Ok(Mode::Fail),
            () if is(text, "FATAL") => Ok(Mode::Fatal),
            () => Err(CommandError::SYNTAX),
        }
    }

    /// The deliveries of an entry that had this number, or that was not pending.
    fn deliveries(self, before: Option<u64>) -> u64 {
        match self {
            Mode::Silent => before.unwrap_or(0).saturating_sub(1),
            Mode::Fail => before.unwrap_or(0),
            Mode::Fatal => DELIVERIES_MAX,
        }
    }
}

/// The words behind the group.
struct Request {
    mode: Mode,
    ids: Vec<StreamId>,
    /// The number of deliveries, whatever the mode.
    count: Option<u64>,
    /// Entries that are not pending are from now on.
    force: bool,
}

impl Request {
    fn parse(args: &Args<'_>) -> CmdResult<Request> {
        let (mode, mut ids, mut count, mut force, mut at) = (Mode::parse(args.get(3))?, None, None, false, 4);
        while at < args.len() {
            let (word, value) = (args.get(at), args.opt(at + 1));
            if is(word, "FORCE") {
                force = true;
                at += 1;
            } else if let (true, Some(text)) = (is(word, "RETRYCOUNT"), value) {
                count = Some(u64::try_from(integer(text)?).map_err(|_| CommandError::NOT_INTEGER)?);
                at += 2;
            } else if is(word, "IDS") && value.is_some() && ids.is_none() {
                let found = ids_behind(args, at)?;
                at = found.end;
                ids = Some(found);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        let ids = read_ids(args, ids.ok_or(errors::IDS_MISSING)?)?;
        Ok(Request { mode, ids, count, force })
    }

    /// The deliveries of an entry that is given back, `None` if it is not.
    fn deliveries(&self, pending: Option<PendingEntry>) -> Option<u64> {
        if pending.is_none() && !self.force {
            return None;
        }
        Some(self.count.unwrap_or_else(|| self.mode.deliveries(pending.map(|pending| pending.count))))
    }
}

/// XNACK key group SILENT | FAIL | FATAL IDS numids id [id ...] [RETRYCOUNT count] [FORCE]
fn xnack(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let request = Request::parse(&ctx.args)?;
    let (key, name) = (ctx.key(1), ctx.args.get(2));
    if ctx.tx.stream(&key, |stream| stream.group(name).is_some())? != Some(true) {
        return Err(no_group(key.bytes, name));
    }
    let mut claim = Claim::new(name, NOBODY, ctx.tx.now_ms());
    (claim.just_id, claim.time_ms) = (true, 0);
    let mut names = ctx.out.like();
    ctx.tx.stream_mut(&key, |stream| {
        for &id in &request.ids {
            let pending = stream.read().group(name).and_then(|group| group.pending_at(id));
            // Of an entry that is gone from the stream there is nothing to try again.
            let deliveries = request.deliveries(pending).filter(|_| stream.read().has(id));
            if deliveries.is_some() {
                claim.count = deliveries;
                claim.take(stream, pending, id, &mut names);
            }
        }
    })?;
    ctx.out.integer(claim.shown as i64);
    claim.report(&mut ctx.tx, &key, false);
    Ok(())
}

const XNACK: Command = Command::new(
    Exec::Keys(xnack),
    Row::new("xnack", CommandGroup::Stream, -7, "8.8.0")
        .about("Gives pending entries back to their group, for other consumers to claim at once.", "O(log(N)) an ID")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, UPDATES)])
        .args(&[
            key("key", 0),
            arg("group", ArgKind::String),
            one_of("mode", &[word("silent", "SILENT"), word("fail", "FAIL"), word("fatal", "FATAL")]),
            block("ids", &[arg("numids", ArgKind::Integer), arg("id", ArgKind::String).multiple()]).token("IDS"),
            arg("count", ArgKind::Integer).token("RETRYCOUNT").optional(),
            word("force", "FORCE").optional(),
        ]),
);
