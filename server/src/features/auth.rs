//! AUTH, HELLO and RESET: who the client is, and in which protocol it is answered.
//!
//! There is one user, `default`, whose password is `requirepass`; without one any password will do for it. Not here:
//! refusing commands before authentication (the batch, by the descriptors' flags).

use varve_protocol::Resp;

use super::arguments::{integer, is_name};
use super::pubsub::listening;
use crate::state::ctx::{After, ServerCtx};

const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";

const HELLO_FIRST: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH \
    <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";

/// `AUTH [username] password`
pub(crate) fn auth(ctx: &mut ServerCtx<'_>) -> After {
    let args = ctx.args;
    let (user, password) = match args.len() {
        2 => (&b"default"[..], args.get(1)),
        3 => (args.get(1), args.get(2)),
        _ => {
            ctx.out.error("ERR syntax error");
            return After::Done;
        }
    };
    if args.len() == 2 && ctx.config.password.is_none() {
        ctx.out.error(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        );
    } else if admit(ctx, user, password) {
        ctx.out.ok();
    } else {
        ctx.out.error(WRONG);
    }
    After::Done
}

/// `HELLO [protover [AUTH username password] [SETNAME clientname]]`
pub(crate) fn hello(ctx: &mut ServerCtx<'_>) -> After {
    match try_hello(ctx) {
        Ok(()) => greet(ctx),
        Err(text) => ctx.out.error(&text),
    }
    After::Done
}

/// All of HELLO but its greeting. As with the peer, each option takes effect when it is read, whatever becomes of those
/// behind it; the protocol changes last.
fn try_hello(ctx: &mut ServerCtx<'_>) -> Result<(), String> {
    let args = ctx.args;
    let resp = args.opt(1).map(protocol).transpose()?;
    let mut at = 2;
    while at < args.len() {
        let after = args.len() - 1 - at;
        if args.is(at, "AUTH") && after >= 2 {
            if !admit(ctx, args.get(at + 1), args.get(at + 2)) {
                return Err(WRONG.to_owned());
            }
            at += 3;
        } else if args.is(at, "SETNAME") && after >= 1 {
            let name = args.get(at + 1);
            if !is_name(name) {
                return Err("ERR Client names cannot contain spaces, newlines or special characters.".to_owned());
            }
            ctx.conn.session.name = name.to_vec();
            at += 2;
        } else {
            return Err(format!("ERR Syntax error in HELLO option '{}'", String::from_utf8_lossy(args.get(at))));
        }
    }
    if !ctx.conn.session.authenticated {
        return Err(HELLO_FIRST.to_owned());
    }
    if let Some(resp) = resp {
        ctx.conn.session.resp = resp;
        ctx.out.set_resp(resp);
    }
    Ok(())
}

fn protocol(version: &[u8]) -> Result<Resp, String> {
    match integer(version).ok_or("ERR Protocol version is not an integer or out of range")? {
        2 => Ok(Resp::V2),
        3 => Ok(Resp::V3),
        _ => Err("NOPROTO unsupported protocol version".to_owned()),
    }
}

/// `RESET`
pub(crate) fn reset(ctx: &mut ServerCtx<'_>) -> After {
    ctx.conn.session.leave_transaction(ctx.store);
    listening::stop_all(ctx.conn, ctx.hub, ctx.state, ctx.slot);
    ctx.conn.session.reset(ctx.config.password.is_none());
    ctx.conn.set_limits(ctx.config);
    ctx.out.set_resp(ctx.conn.session.resp);
    ctx.out.simple("RESET");
    After::Done
}

fn greet(ctx: &mut ServerCtx<'_>) {
    let out = &mut *ctx.out;
    out.map(7);
    out.bulk(b"server");
    out.bulk(b"redis");
    out.bulk(b"version");
    out.bulk(b"7.0.15");
    out.bulk(b"proto");
    out.integer(if ctx.conn.session.resp == Resp::V3 { 3 } else { 2 });
    out.bulk(b"id");
    out.integer(ctx.conn.session.id as i64);
    out.bulk(b"mode");
    out.bulk(b"standalone");
    out.bulk(b"role");
    out.bulk(b"master");
    out.bulk(b"modules");
    out.array(0);
}

/// Checks user and password; if they are right, the connection is authenticated from now on.
fn admit(ctx: &mut ServerCtx<'_>, user: &[u8], password: &[u8]) -> bool {
    let right = match &ctx.config.password {
        None => true,
        Some(known) => equal(known, password),
    };
    if !right || user != b"default" {
        return false;
    }
    ctx.conn.session.authenticated = true;
    ctx.conn.set_limits(ctx.config);
    true
}

/// Compares in a time that depends on the lengths alone.
fn equal(known: &[u8], given: &[u8]) -> bool {
    let mut differ = usize::from(known.len() != given.len());
    for (nth, byte) in given.iter().enumerate() {
        differ |= usize::from(byte ^ known.get(nth).unwrap_or(&!byte));
    }
    differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_compare_whole() {
        assert!(equal(b"secret", b"secret"));
        for wrong in [&b""[..], b"secre", b"secret1", b"Secret"] {
            assert!(!equal(b"secret", wrong));
        }
        assert!(equal(b"", b""));
    }
}
