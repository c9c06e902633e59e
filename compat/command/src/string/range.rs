//! Parts of a string: APPEND, SETRANGE, GETRANGE and its old name SUBSTR.

use crate::Ctx;
use crate::grammar::{Fault, Outcome, integer, settle};

/// APPEND key value
pub fn append(ctx: &mut Ctx<'_, '_>) {
    let outcome = grow(ctx);
    settle(ctx, outcome);
}

fn grow(ctx: &mut Ctx<'_, '_>) -> Outcome {
    let (key, tail) = (ctx.key(1), ctx.args.get(2));
    if let Some(old) = ctx.tx.peek(&key)? {
        check_length(ctx.session.bulk_max, old.len(), tail.len())?;
    }
    let length = ctx.tx.append(&key, tail)?;
    ctx.out.integer(length as i64);
    Ok(())
}

/// A string may not outgrow what a client may send in one argument.
fn check_length(bulk_max: usize, head: usize, tail: usize) -> Outcome {
    let fits = head.checked_add(tail).is_some_and(|length| length <= bulk_max);
    if fits { Ok(()) } else { Err(Fault::TOO_LONG) }
}

/// SETRANGE key offset value
pub fn setrange(ctx: &mut Ctx<'_, '_>) {
    let outcome = overwrite(ctx);
    settle(ctx, outcome);
}

fn overwrite(ctx: &mut Ctx<'_, '_>) -> Outcome {
    const OFFSET: Fault = Fault::new("ERR offset is out of range");
    let offset = usize::try_from(integer(ctx.args.get(2))?).map_err(|_| OFFSET)?;
    let (key, part) = (ctx.key(1), ctx.args.get(3));
    let old = ctx.tx.peek(&key)?.map_or(0, <[u8]>::len);
    // Nothing to write changes nothing: no key comes to be, no encoding changes, and no offset is too far.
    let length = if part.is_empty() {
        old
    } else {
        check_length(ctx.session.bulk_max, offset, part.len())?;
        ctx.tx.set_range(&key, offset, part)?
    };
    ctx.out.integer(length as i64);
    Ok(())
}

/// GETRANGE key start end
pub fn getrange(ctx: &mut Ctx<'_, '_>) {
    let outcome = part(ctx);
    settle(ctx, outcome);
}

fn part(ctx: &mut Ctx<'_, '_>) -> Outcome {
    let (start, end) = (integer(ctx.args.get(2))?, integer(ctx.args.get(3))?);
    let key = ctx.key(1);
    let value = ctx.tx.get(&key)?.unwrap_or_default();
    ctx.out.bulk(slice(value, start, end));
    Ok(())
}

/// The bytes from `start` to `end`, both included; negative positions count from the end.
fn slice(value: &[u8], start: i64, end: i64) -> &[u8] {
    // Tested before the positions are clipped: both far before the start would else meet at the first byte.
    if value.is_empty() || (start < 0 && end < 0 && start > end) {
        return &[];
    }
    let length = value.len() as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(length - 1));
    if start > end { &[] } else { &value[start as usize..=end as usize] }
}

#[cfg(test)]
mod tests {
    use super::slice;

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
            assert_eq!(slice(b"Hello World", start, end), want.as_bytes(), "{start} {end}");
        }
        assert_eq!(slice(b"", 0, -1), b"");
    }
}
