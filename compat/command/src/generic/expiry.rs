//! Time to live: EXPIRE and its kin set it, TTL and its kin tell it, PERSIST ends it.

use varve_protocol::Args;

use crate::Ctx;
use crate::errors::{CmdResult, CommandError};
use crate::grammar::{integer, is, rounded_seconds, shown};
use crate::notify::Class;

/// EXPIRE key seconds [NX | XX | GT | LT]
pub fn expire(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let now_ms = ctx.tx.now_ms();
    set_expiry(ctx, 1000, now_ms, "expire")
}

/// PEXPIRE key milliseconds [NX | XX | GT | LT]
pub fn pexpire(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let now_ms = ctx.tx.now_ms();
    set_expiry(ctx, 1, now_ms, "pexpire")
}

/// EXPIREAT key unix-seconds [NX | XX | GT | LT]
pub fn expireat(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    set_expiry(ctx, 1000, 0, "expireat")
}

/// PEXPIREAT key unix-milliseconds [NX | XX | GT | LT]
pub fn pexpireat(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    set_expiry(ctx, 1, 0, "pexpireat")
}

/// The conditions that may stand behind the time.
#[derive(Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn parse(args: &Args<'_>) -> CmdResult<Conditions> {
        const NX: CommandError =
            CommandError::new(&"ERR NX and XX, GT or LT options at the same time are not compatible");
        const GT: CommandError = CommandError::new(&"ERR GT and LT options at the same time are not compatible");
        let mut c = Conditions::default();
        for at in 3..args.len() {
            let word = args.get(at);
            let known = [("NX", &mut c.nx), ("XX", &mut c.xx), ("GT", &mut c.gt), ("LT", &mut c.lt)]
                .into_iter()
                .find(|(name, _)| is(word, name));
            match known {
                Some((_, flag)) => *flag = true,
                None => return Err(CommandError::owned([b"ERR Unsupported option ", shown(word)].concat())),
            }
        }
        match c {
            Conditions { nx: true, xx, gt, lt } if xx || gt || lt => Err(NX),
            Conditions { gt: true, lt: true, .. } => Err(GT),
            c => Ok(c),
        }
    }

    /// Whether a key with the expiry `old` may get `new`. No expiry counts as one that is infinitely late.
    fn hold(&self, old: Option<i64>, new: i64) -> bool {
        let barred = (self.nx && old.is_some())
            || (self.xx && old.is_none())
            || (self.gt && old.is_none_or(|old| new <= old))
            || (self.lt && old.is_some_and(|old| new >= old));
        !barred
    }
}

fn set_expiry(ctx: &mut Ctx<'_, '_>, scale: i64, origin_ms: i64, command: &str) -> CmdResult {
    let conditions = Conditions::parse(&ctx.args)?;
    let value = integer(ctx.args.get(2))?;
    let at = value.checked_mul(scale).and_then(|ms| ms.checked_add(origin_ms));
    let at = at.ok_or_else(|| CommandError::expire_time(command))?;
    let key = ctx.key(1);
    let done = match ctx.tx.expiry(&key) {
        Some(old) if conditions.hold(old, at) => {
            if at <= ctx.tx.now_ms() {
                ctx.tx.remove(&key);
                ctx.notify(Class::Generic, "del", &key);
            } else {
                ctx.tx.set_expiry(&key, Some(at));
                ctx.notify(Class::Generic, "expire", &key);
            }
            true
        }
        _ => false,
    };
    ctx.out.integer(i64::from(done));
    Ok(())
}

/// PERSIST key
pub fn persist(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let had = ctx.tx.expiry(&key).flatten().is_some();
    let done = had && ctx.tx.set_expiry(&key, None);
    if done {
        ctx.notify(Class::Generic, "persist", &key);
    }
    ctx.out.integer(i64::from(done));
    Ok(())
}

/// TTL key
pub fn ttl(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let now_ms = ctx.tx.now_ms();
    tell(ctx, |at| rounded_seconds(at - now_ms));
    Ok(())
}

/// PTTL key
pub fn pttl(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let now_ms = ctx.tx.now_ms();
    tell(ctx, |at| at - now_ms);
    Ok(())
}

/// EXPIRETIME key
pub fn expiretime(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    tell(ctx, rounded_seconds);
    Ok(())
}

/// PEXPIRETIME key
pub fn pexpiretime(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    tell(ctx, |at| at);
    Ok(())
}

/// Replies -2 without the key, -1 without expiry.
fn tell(ctx: &mut Ctx<'_, '_>, show: impl Fn(i64) -> i64) {
    let key = ctx.key(1);
    let expiry = ctx.tx.expiry(&key);
    ctx.tx.note_read(&key, expiry.is_some());
    let value = match expiry {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => show(at),
    };
    ctx.out.integer(value);
}

#[cfg(test)]
mod tests {
    use super::Conditions;

    #[test]
    fn later_and_earlier_treat_no_expiry_as_infinite() {
        let gt = Conditions { gt: true, ..Conditions::default() };
        let lt = Conditions { lt: true, ..Conditions::default() };
        assert!(!gt.hold(None, i64::MAX) && lt.hold(None, i64::MAX));
        assert!(gt.hold(Some(5), 6) && !gt.hold(Some(5), 5));
        assert!(lt.hold(Some(5), 4) && !lt.hold(Some(5), 5));
    }
}
