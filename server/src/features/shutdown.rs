//! SHUTDOWN: ends the server. There is nothing to save yet, so SAVE, NOSAVE, NOW and FORCE differ only in grammar.

use varve_exec::{CmdResult, CommandError};

use crate::errors;
use crate::state::ctx::{After, Handlers, ServerCtx};

/// The handlers, by the full names of their rows.
pub(super) const HANDLERS: Handlers = &[("shutdown", shutdown)];

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
