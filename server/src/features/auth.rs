//! AUTH, HELLO and RESET: who the client is, and in which protocol it is answered.
//!
//! Not here: the users (acl), refusing commands before authentication (the batch, by the rows' flags).

use std::sync::Arc;

use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, Secret, SecretOption, arg, block};
use varve_exec::{CmdResult, CommandError};
use varve_protocol::Resp;

use super::clients::state::is_name;
use super::pubsub::listening;
use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[AUTH, HELLO, RESET];

/// `AUTH [username] password`
fn auth(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let args = ctx.args;
    let (user, password) = match args.len() {
        2 => (&b"default"[..], args.get(1)),
        3 => (args.get(1), args.get(2)),
        _ => return Err(CommandError::SYNTAX),
    };
    if args.len() == 2 && ctx.state.acl().users().default_user().needs_no_password() {
        return Err(errors::NO_PASSWORD_SET);
    }
    if !admit(ctx, user, password) {
        return Err(errors::WRONG_PASSWORD);
    }
    ctx.out.ok();
    Ok(After::Done)
}

const AUTH: ServerCommand = ServerCommand::new(
    auth,
    Row::new("auth", Group::Connection, -2, "1.0.0")
        .about("Authenticates the connection.", "O(N) in the user's passwords")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION])
        .history(&[("6.0.0", "A user name before the password.")])
        .args(&[arg("username", ArgKind::String).since("6.0.0").optional(), arg("password", ArgKind::String)])
        .secret(Secret::AllArguments),
);

/// `HELLO [protover [AUTH username password] [SETNAME clientname]]`. As with redis-server, each option takes effect when it
/// is read, whatever becomes of those behind it; the protocol changes last.
fn hello(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let args = ctx.args;
    let resp = args.opt(1).map(protocol).transpose()?;
    let mut at = 2;
    while at < args.len() {
        let after = args.len() - 1 - at;
        if args.is(at, "AUTH") && after >= 2 {
            if !admit(ctx, args.get(at + 1), args.get(at + 2)) {
                return Err(errors::WRONG_PASSWORD);
            }
            at += 3;
        } else if args.is(at, "SETNAME") && after >= 1 {
            let name = args.get(at + 1);
            if !is_name(name) {
                return Err(errors::CLIENT_NAME);
            }
            ctx.conn.session_mut().set_name(name);
            at += 2;
        } else {
            return Err(errors::hello_option(args.get(at)));
        }
    }
    if !ctx.conn.session().is_authenticated() {
        return Err(errors::HELLO_UNAUTHENTICATED);
    }
    if let Some(resp) = resp {
        ctx.conn.session_mut().speak(resp);
        ctx.out.set_resp(resp);
    }
    greet(ctx);
    Ok(After::Done)
}

const HELLO: ServerCommand = ServerCommand::new(
    hello,
    Row::new("hello", Group::Connection, -1, "6.0.0")
        .about("Chooses the protocol version, with authentication and a name if wanted.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION])
        .history(&[("6.2.0", "Without arguments it describes the connection.")])
        .args(&[block(
            "arguments",
            &[
                arg("protover", ArgKind::Integer),
                block("username_password", &[arg("username", ArgKind::String), arg("password", ArgKind::String)])
                    .token("AUTH")
                    .optional(),
                arg("clientname", ArgKind::String).token("SETNAME").optional(),
            ],
        )
        .optional()])
        .secret(Secret::Options { first: 2, options: OPTIONS }),
);

/// The options of HELLO, for logs.
const OPTIONS: &[SecretOption] =
    &[SecretOption { word: "AUTH", takes: 2, secret: true }, SecretOption { word: "SETNAME", takes: 1, secret: false }];

fn protocol(version: &[u8]) -> CmdResult<Resp> {
    match parse_i64(version).ok_or(errors::PROTOCOL_NOT_INTEGER)? {
        2 => Ok(Resp::V2),
        3 => Ok(Resp::V3),
        _ => Err(errors::NO_PROTOCOL),
    }
}

/// `RESET`
fn reset(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if listening::stop_some(ctx) {
        return Ok(After::More(1));
    }
    ctx.conn.session_mut().leave_transaction(ctx.store);
    listening::stop_all(ctx.conn, ctx.hub, ctx.state);
    let default = Arc::clone(ctx.state.acl().users().default_user());
    ctx.conn.session_mut().reset(default);
    ctx.conn.set_limits(ctx.config);
    ctx.out.set_resp(ctx.conn.session().resp());
    ctx.out.simple("RESET");
    Ok(After::Done)
}

const RESET: ServerCommand = ServerCommand::new(
    reset,
    Row::new("reset", Group::Connection, 1, "6.2.0")
        .about("Puts the connection back in its first state.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION])
        .behaviour(Behaviour::WHILE_SUBSCRIBED.and(Behaviour::NEVER_QUEUED)),
);

fn greet(ctx: &mut ServerCtx<'_>) {
    let out = &mut *ctx.out;
    out.map(7);
    out.bulk(b"server");
    out.bulk(b"redis");
    out.bulk(b"version");
    out.bulk(b"7.0.15");
    out.bulk(b"proto");
    out.integer(if ctx.conn.session().resp() == Resp::V3 { 3 } else { 2 });
    out.bulk(b"id");
    out.integer(ctx.conn.session().id() as i64);
    out.bulk(b"mode");
    out.bulk(b"standalone");
    out.bulk(b"role");
    let follows = ctx.state.replication().replica().primary().is_some();
    out.bulk(if follows { b"replica" } else { b"master" });
    out.bulk(b"modules");
    out.array(0);
}

/// Checks user and password; if they are right, the connection is that user's from now on.
fn admit(ctx: &mut ServerCtx<'_>, user: &[u8], password: &[u8]) -> bool {
    let Some(found) = ctx.state.acl().users().admit(user, password).cloned() else {
        ctx.failed_login = Some(user.to_vec());
        return false;
    };
    ctx.conn.session_mut().authenticate(found);
    ctx.conn.set_limits(ctx.config);
    true
}
