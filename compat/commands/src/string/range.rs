//! Parts of a string: APPEND, SETRANGE, GETRANGE and its old name SUBSTR.

use std::ops::Range;

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Reply;
use varve_store::Tx;

use crate::errors;
use crate::generic::growth;
use crate::generic::pinned::{self, Write};
use crate::grammar::integer;

pub(super) const ROWS: FileRows = &[APPEND, SETRANGE, SUBSTR, GETRANGE];

/// APPEND key value
fn append(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, tail) = (ctx.key(1), ctx.args.get(2));
    if let Some(old) = ctx.tx.peek(&key)? {
        let old = old.len();
        check_length(ctx.session.string_bytes_max(), old, tail.len())?;
        growth::admit_place(&mut ctx.tx, &key, old + tail.len())?;
    }
    let length = ctx.tx.append(&key, tail)?;
    ctx.did(&key, Effect::sent(Class::String, "append", 1));
    ctx.out.integer(length as i64);
    Ok(())
}

const APPEND: Command = Command::new(
    Exec::Keys(append),
    Row::new("append", Group::String, 3, "2.0.0")
        .about("Adds bytes to the end of a string, which is created if absent.", "O(1) amortised, for short additions")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .args(&[key("key", 0), arg("value", ArgKind::String)]),
);

/// A string may not outgrow what a client may send in one argument.
fn check_length(bulk_max: usize, head: usize, tail: usize) -> CmdResult {
    let fits = head.checked_add(tail).is_some_and(|length| length <= bulk_max);
    if fits { Ok(()) } else { Err(CommandError::TOO_LONG) }
}

/// SETRANGE key offset value
fn setrange(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let offset = usize::try_from(integer(ctx.args.get(2))?).map_err(|_| errors::OFFSET_RANGE)?;
    let (key, part) = (ctx.key(1), ctx.args.get(3));
    let old = ctx.tx.peek(&key)?.map_or(0, <[u8]>::len);
    // Nothing to write changes nothing: no key comes to be, no encoding changes, and no offset is too far.
    if part.is_empty() {
        ctx.out.integer(old as i64);
        return Ok(());
    }
    check_length(ctx.session.string_bytes_max(), offset, part.len())?;
    growth::admit(&mut ctx.tx, &key, old, offset + part.len())?;
    // Bytes behind the end are written beside pins.
    let len = if offset < old { old } else { 0 };
    pinned::write(ctx, len, std::iter::once(offset..offset + part.len()), set_part)
}

/// Writes the bytes that SETRANGE has.
fn set_part(tx: &mut Tx<'_>, write: &Write<'_>, out: &mut Reply) -> CmdResult {
    let offset = usize::try_from(integer(write.args.get(2))?).map_err(|_| errors::OFFSET_RANGE)?;
    let length = tx.set_range(&write.key, offset, write.args.get(3))?;
    tx.did(&write.key, Effect::sent(Class::String, "setrange", 1));
    out.integer(length as i64);
    Ok(())
}

const SETRANGE: Command = Command::new(
    Exec::Keys(setrange),
    Row::new("setrange", Group::String, 4, "2.2.0")
        .about(
            "Overwrites a string from an offset on, filling up with zero bytes.",
            "O(1) for short parts, O(M) in the bytes written",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("offset", ArgKind::Integer), arg("value", ArgKind::String)]),
);

/// GETRANGE key start end
fn getrange(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (start, end) = (integer(ctx.args.get(2))?, integer(ctx.args.get(3))?);
    let key = ctx.key(1);
    let large = ctx.tx.pin_min();
    let value = ctx.tx.get(&key)?.unwrap_or_default();
    let range = clip(value.len(), start, end);
    if range.len() < large {
        ctx.out.bulk(&value[range]);
    } else {
        ctx.reply_large(&key, range);
    }
    Ok(())
}

const SUBSTR: Command = Command::new(
    Exec::Keys(getrange),
    Row::new("substr", Group::String, 4, "1.0.0")
        .about("Answers the bytes of a string from one offset to another.", "O(N) in the bytes answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .deprecated("2.0.0", "`GETRANGE`")
        .args(&[key("key", 0), arg("start", ArgKind::Integer), arg("end", ArgKind::Integer)]),
);

const GETRANGE: Command = Command::new(
    Exec::Keys(getrange),
    Row::new("getrange", Group::String, 4, "2.4.0")
        .about("Answers the bytes of a string from one offset to another.", "O(N) in the bytes answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("start", ArgKind::Integer), arg("end", ArgKind::Integer)]),
);

/// The bytes from `start` to `end`, both included; negative positions count from the end.
fn clip(length: usize, start: i64, end: i64) -> Range<usize> {
    // Tested before the positions are clipped: both far before the start would else meet at the first byte.
    if length == 0 || (start < 0 && end < 0 && start > end) {
        return 0..0;
    }
    let length = length as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(length - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

#[cfg(test)]
mod tests {
    use super::clip;

    #[test]
    fn ranges_clip_as_the_peer_clips_them() {
        let cases: [(i64, i64, &str); 15] = [
            (0, 3, "Hell"),
            (0, -1, "Hello World"),
            (-4, -1, "orld"),
            (5, 3, ""),
            (5, 5000, " World"),
            (-5000, 10000, "Hello World"),
            (0, -100, "H"),
            (1, -100, ""),
            (-1, -100, ""),
            (-100, -99, "H"),
            (-100, -100, "H"),
            (-100, -101, ""),
            (i64::MIN, i64::MAX, "Hello World"),
            (i64::MAX, i64::MAX, ""),
            (i64::MIN, i64::MIN, "H"),
        ];
        for (start, end, want) in cases {
            assert_eq!(&"Hello World"[clip(11, start, end)], want, "{start} {end}");
        }
        assert_eq!(clip(0, 0, -1), 0..0);
    }
}
