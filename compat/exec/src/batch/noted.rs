//! Long requests and replies of commands on keys, noted without a look at each of them.
//!
//! ```text
//!   replies   | ... | last command's |        passed: they have come beyond the ceiling, which is where a reply that is to be
//!                   mark             len      noted would end at the least, or where there is no more room
//!   requests  of a stretch: each is looked at if all of them together are as long as one that is to be noted
//! ```
//! Not here: what becomes of the notes (`stats`).

use std::ops::Range;

use varve_protocol::{Args, LargeSlices, Mark};

use super::parse::{Request, Work};
use crate::ctx::Ctx;
use crate::invoke::Observers;
use crate::stats::Slow;

/// The place where the reply of the last command begins, and how far replies may come before it is looked at.
pub(super) struct LastReply {
    pub(super) mark: Mark,
    ceiling: usize,
    out_max: usize,
}

impl LastReply {
    /// Replies that may have `out_max` bytes.
    #[inline]
    pub(super) fn new(slow: &Slow, ctx: &Ctx<'_, '_>, out_max: usize) -> LastReply {
        LastReply { mark: ctx.out.mark(), ceiling: out_max.min(slow.reply_ceiling(ctx.out.len())), out_max }
    }

    /// True if the last reply may have to be noted, or if there is no room for more.
    #[inline(always)]
    pub(super) fn passed(&self, ctx: &Ctx<'_, '_>) -> bool {
        ctx.out.len() > self.ceiling
    }

    /// Notes the last reply if it is long, where `has_run` says that a command has run; true if there is no room for more.
    #[cold]
    pub(super) fn note(&mut self, slow: &mut Slow, ctx: &Ctx<'_, '_>, has_run: bool) -> bool {
        let len = ctx.out.len();
        if has_run && len > self.ceiling {
            slow.note_reply(ctx.row, ctx.args, ctx.tx.now_ms(), ctx.out.len_since(self.mark));
            // Beyond the room for replies the stretch ends: this reply is not looked at again.
            self.ceiling = if len > self.out_max { usize::MAX } else { self.out_max.min(slow.reply_ceiling(len)) };
        }
        len > self.out_max
    }
}

/// Ends a stretch of requests, of which these ran, if any: the session has the last command, and long ones are noted.
#[inline]
pub(super) fn end_stretch(
    ctx: &mut Ctx<'_, '_>,
    observers: &mut Observers,
    work: &Work,
    ran: Range<usize>,
    (input, outside): (&[u8], &LargeSlices<'_>),
    last: &mut LastReply,
) {
    if ran.is_empty() {
        return;
    }
    ctx.session.note_command(ctx.row);
    if last.passed(ctx) {
        last.note(&mut observers.slow, ctx, true);
    }
    let ran = &work.requests[ran];
    let bytes = ran[ran.len() - 1].end - ran[0].start;
    if observers.slow.may_note_requests(bytes) || !outside.0.is_empty() {
        let requests = ran.iter().map(|request| (request, work.args(request, input, outside)));
        note_requests(&mut observers.slow, ctx.tx.now_ms(), requests);
    }
}

/// Notes those of some requests that are long.
#[cold]
fn note_requests<'r>(slow: &mut Slow, now_ms: i64, requests: impl Iterator<Item = (&'r Request, Args<'r>)>) {
    for (request, args) in requests {
        if let Ok(command) = request.command {
            slow.note_request(command, args, now_ms);
        }
    }
}
