//! SSCAN: a set in pieces. A set of integers is one piece.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, key};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};

use super::{RANDOM, READS, reply_member};
use crate::generic::scan::{Family, Options, parse_cursor};

pub(super) const ROWS: FileRows = &[SSCAN];

/// SSCAN key cursor [MATCH pattern] [COUNT count]
fn sscan(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let cursor = parse_cursor(ctx.tx.store(), ctx.args.get(2))?;
    let key = ctx.key(1);
    let found = ctx.tx.set_view(&key)?;
    let page = ctx.out.defer();
    // The options are read once the key is found: without it even bad ones answer an empty page.
    let Some(set) = found else {
        ctx.out.end_page(page, 0, 0);
        return Ok(());
    };
    let options = Options::parse(&ctx.args, 3, Family::Set)?;
    let mut shown = 0;
    let next = set.scan(cursor, options.count, |member| {
        if options.wants(member.text(&mut [0; 20])) {
            reply_member(ctx.out, member);
            shown += 1;
        }
    });
    ctx.out.end_page(page, ctx.tx.store().seal_cursor(next), shown);
    Ok(())
}

const SSCAN: Command = Command::new(
    Exec::Keys(sscan),
    Row::new("sscan", Group::Set, -3, "2.8.0")
        .about("Walks over the members of a set, a few in each call.", "O(1) a call, O(N) for the whole walk")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, READS)])
        .tips(RANDOM)
        .args(&[
            key("key", 0),
            arg("cursor", ArgKind::Integer),
            arg("pattern", ArgKind::Pattern).token("MATCH").optional(),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
        ]),
);
