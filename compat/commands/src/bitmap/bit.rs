//! SETBIT and GETBIT: one bit.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};
use varve_protocol::Reply;
use varve_store::Tx;

use super::{bit_offset, make_raw};
use crate::errors;
use crate::generic::growth;
use crate::generic::pinned::{self, Write};

pub(super) const ROWS: FileRows = &[SETBIT, GETBIT];

/// SETBIT key offset value
fn setbit(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let offset = bit_offset(ctx.args.get(2), ctx.session.string_bytes_max())?;
    if !matches!(ctx.args.get(3), b"0" | b"1") {
        return Err(errors::BIT_VALUE);
    }
    let key = ctx.key(1);
    let byte = (offset >> 3) as usize;
    let len = ctx.tx.peek(&key)?.map_or(0, <[u8]>::len);
    growth::admit(&mut ctx.tx, &key, len, byte + 1)?;
    pinned::write(ctx, len, std::iter::once(byte..byte + 1), set_bit)
}

/// Writes the bit that SETBIT names.
fn set_bit(tx: &mut Tx<'_>, write: &Write<'_>, out: &mut Reply) -> CmdResult {
    let offset = bit_offset(write.args.get(2), write.string_bytes_max)?;
    let (key, on) = (&write.key, write.args.get(3) == b"1");
    let (byte, mask) = ((offset >> 3) as usize, 0x80 >> (offset & 7));
    let value = tx.peek(key)?;
    let old = value.and_then(|value| value.get(byte).copied());
    let was_on = old.unwrap_or(0) & mask != 0;
    // A bit that has this value already is no change, unless the string grows up to it.
    if old.is_none() || was_on != on {
        let new = if on { old.unwrap_or(0) | mask } else { old.unwrap_or(0) & !mask };
        tx.set_range(key, byte, &[new])?;
        tx.did(key, Effect::sent(Class::String, "setbit", 1));
    } else {
        make_raw(tx, key)?;
    }
    out.integer(i64::from(was_on));
    Ok(())
}

const SETBIT: Command = Command::new(
    Exec::Keys(setbit),
    Row::new("setbit", Group::Bitmap, 4, "2.2.0")
        .about("Sets a bit of a string, which grows up to it, and answers the one before.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::BITMAP])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("offset", ArgKind::Integer), arg("value", ArgKind::Integer)]),
);

/// GETBIT key offset
fn getbit(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let offset = bit_offset(ctx.args.get(2), ctx.session.string_bytes_max())?;
    let key = ctx.key(1);
    let byte = ctx.tx.get(&key)?.and_then(|value| value.get((offset >> 3) as usize)).copied();
    ctx.out.integer(i64::from(byte.unwrap_or(0) >> (7 - (offset & 7)) & 1));
    Ok(())
}

const GETBIT: Command = Command::new(
    Exec::Keys(getbit),
    Row::new("getbit", Group::Bitmap, 3, "2.2.0")
        .about("Answers a bit of a string, 0 behind its end.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::BITMAP])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("offset", ArgKind::Integer)]),
);
