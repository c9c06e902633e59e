//! ZSCAN.

use varve_base::number::{push_f64, push_i64};

use super::ALL;
use crate::Ctx;
use crate::errors::CmdResult;
use crate::generic::scan::{Family, Options, parse_cursor};

/// ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]
pub fn zscan(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let cursor = parse_cursor(ctx.args.get(2))?;
    let key = ctx.key(1);
    let Ctx { args, tx, out, .. } = ctx;
    // A key that is not there, or of another type, comes before options that are wrong.
    if tx.zset_range_len(&key, &ALL, false, 0, 1)? == 0 {
        tx.touch(&key);
        let page = out.defer();
        out.end_page(page, 0, 0);
        return Ok(());
    }
    let options = Options::parse(args, 3, Family::Zset)?;
    let packed = tx.object(&key).is_some_and(|object| object.encoding == "listpack");
    let mut text = Vec::with_capacity(24);
    let mut found = 0;
    let page = out.defer();
    let next = tx.zset_scan(&key, cursor, options.count, &mut |member, score| {
        if !options.wants(member) {
            return;
        }
        out.bulk(member);
        found += 1;
        if !options.bare {
            text.clear();
            push_score(&mut text, score, packed);
            out.bulk(&text);
            found += 1;
        }
    })?;
    out.end_page(page, next, found);
    Ok(())
}

/// Appends a score as ZSCAN tells it, a string in RESP3 too. In a packed set a whole number is one with all its digits,
/// up to half of what 64 bits hold.
fn push_score(text: &mut Vec<u8>, score: f64, packed: bool) {
    const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;
    if packed && score.abs() <= WHOLE_MAX && score.trunc() == score {
        push_i64(text, score as i64);
    } else {
        push_f64(text, score);
    }
}
