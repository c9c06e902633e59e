//! ACL LOAD and SAVE: the file of the users (`aclfile`).
//!
//! The file is the users' lines and nothing else. It is read whole and taken whole, or not at all; it is written beside
//! itself and renamed. Not here: its grammar (`varve_acl`).

use varve_catalog::{Group, Row};
use varve_exec::CmdResult;

use super::ADMIN;
use crate::errors;
use crate::features::clients::state::{Question, UsersChanged};
use crate::state::command::ServerCommand;
use crate::state::ctx::{After, ServerCtx};
use crate::system::{error_text, replace_file};

/// `ACL LOAD`. All users but the default one are others afterwards, even where nothing of them has changed: their
/// connections are closed, as in redis-server.
fn load(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let path = ctx.config.acl_file.as_deref().ok_or(errors::NO_ACL_FILE)?;
    ctx.state.acl().load(path, ctx.config).map_err(|faults| errors::acl_rules(faults.as_bytes()))?;
    Ok(After::Ask(Question::Users(UsersChanged::Ok)))
}

pub(super) const LOAD: ServerCommand = ServerCommand::new(
    load,
    Row::sub("acl|load", "load", Group::Server, 2, "6.0.0")
        .about("Takes the users of the ACL file.", "O(N) in the users and the connections")
        .flags(ADMIN),
);

/// `ACL SAVE`
fn save(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let path = ctx.config.acl_file.as_deref().ok_or(errors::NO_ACL_FILE)?;
    let text = ctx.state.acl().users().file_text();
    replace_file::replace(path, &text).map_err(|error| {
        tracing::warn!("Writing the ACL file: {}", error_text(&error));
        errors::ACL_SAVE_FAILED
    })?;
    ctx.out.ok();
    Ok(After::Done)
}

pub(super) const SAVE: ServerCommand = ServerCommand::new(
    save,
    Row::sub("acl|save", "save", Group::Server, 2, "6.0.0")
        .about("Writes the users to the ACL file.", "O(N) in the users")
        .flags(ADMIN),
);
