//! ZSCAN.

use varve_base::number::{push_f64, push_i64};
use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, key};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};

use super::{ALL, READS};
use crate::generic::scan::{Family, Options, parse_cursor};

pub(super) const ROWS: FileRows = &[ZSCAN];

/// ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]
fn zscan(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let cursor = parse_cursor(ctx.tx.store(), ctx.args.get(2))?;
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
    out.end_page(page, tx.store().seal_cursor(next), found);
    Ok(())
}

const ZSCAN: Command = Command::new(
    Exec::Keys(zscan),
    Row::new("zscan", Group::SortedSet, -3, "2.8.0")
        .about("Walks over members and scores in steps.", "O(1) a call, O(N) for all")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .tips(&["nondeterministic_output"])
        .args(&[
            key("key", 0),
            arg("cursor", ArgKind::Integer),
            arg("pattern", ArgKind::Pattern).token("MATCH").optional(),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
        ]),
);

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
