//! SHUTDOWN: ends the server. There is nothing to save yet, so SAVE, NOSAVE, NOW and FORCE differ only in grammar.

use varve_catalog::{Flags, Group, Row, one_of, word};
use varve_exec::{CmdResult, CommandError};

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[SHUTDOWN];

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`. Replies only to an error.
fn shutdown(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let (mut save, mut no_save, mut other, mut abort) = (false, false, false, false);
    for at in 1..ctx.args.len() {
        match () {
            () if ctx.args.is(at, "SAVE") => save = true,
            () if ctx.args.is(at, "NOSAVE") => no_save = true,
            () if ctx.args.is(at, "NOW") || ctx.args.is(at, "FORCE") => other = true,
            () if ctx.args.is(at, "ABORT") => abort = true,
            () => return Err(CommandError::SYNTAX),
        }
    }
    if (save && no_save) || (abort && (save || no_save || other)) {
        return Err(CommandError::SYNTAX);
    }
    if abort {
        return Err(errors::NO_SHUTDOWN);
    }
    tracing::warn!("User requested shutdown...");
    ctx.state.stop();
    Ok(After::Close)
}

const SHUTDOWN: ServerCommand = ServerCommand::new(
    shutdown,
    Row::new("shutdown", Group::Server, -1, "1.0.0")
        .about("Ends the server.", "O(N) in the keys when saving, else O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::NO_MULTI, Flags::ALLOW_BUSY])
        .history(&[("7.0.0", "`NOW`, `FORCE` and `ABORT`.")])
        .args(&[
            one_of("nosave_save", &[word("nosave", "NOSAVE"), word("save", "SAVE")]).optional(),
            word("now", "NOW").since("7.0.0").optional(),
            word("force", "FORCE").since("7.0.0").optional(),
            word("abort", "ABORT").since("7.0.0").optional(),
        ]),
);
