//! DUMP and RESTORE.

use varve_catalog::{Acl, ArgKind, Argument, Flags, Group, KeyFlags, KeySpec, Row, arg, key, word};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};
use varve_rdb::{ValueReader, dump};

use super::encoding::{LongDump, whole};
use super::long_restore::LongRestore;
use super::measure::Measure;
use super::restoring::{Options, put_at_once, refused};
use crate::errors;
use crate::grammar::integer;

pub(super) const ROWS: FileRows = &[DUMP, RESTORE, RESTORE_ASKING];

/// DUMP key
fn dump_key(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    if !ctx.tx.touch(&key) {
        ctx.out.null();
        return Ok(());
    }
    let pinned = ctx.session.rdb_version();
    if ctx.session.takes_parts()
        && let Some(rest) = LongDump::begin(&mut ctx.tx, &key, pinned)
    {
        ctx.go_on(Box::new(rest));
        return Ok(());
    }
    match whole(&mut ctx.tx, &key, pinned)? {
        Some(payload) => ctx.out.bulk(&payload),
        None => ctx.out.null(),
    }
    Ok(())
}

const DUMP: Command = Command::new(
    Exec::Keys(dump_key),
    Row::new("dump", Group::Generic, 2, "2.6.0")
        .about(
            "Answers a key's value in a form that RESTORE takes.",
            "O(N*M) where N is the number of elements and M their mean size",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0)]),
);

/// Bytes of a payload beyond which it is read over several turns: fewer expand to a megabyte at most.
const SHORT_BYTES: usize = 16 << 10;

/// RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds | FREQ counter]
fn restore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let mut options = Options::parse(&ctx.args)?;
    let key = ctx.key(1);
    if !options.replace && ctx.tx.exists(&key) {
        return Err(errors::BUSY_KEY);
    }
    options.ttl_ms = integer(ctx.args.get(2))?;
    if options.ttl_ms < 0 {
        return Err(errors::TTL_NEGATIVE);
    }
    let (payload, in_parts) = (ctx.args.get(3), ctx.session.takes_parts());
    if in_parts && payload.len() > SHORT_BYTES {
        return restore_in_parts(ctx, options);
    }
    let (dialect, typed) = dump::open(payload).ok_or(errors::DUMP_CHECKSUM)?;
    let refused = |error| refused(key.bytes, error);
    let reader = ValueReader::of_dump(dialect, typed).map_err(refused)?;
    let mut measure = Measure::new(reader, typed.len()).map_err(refused)?;
    let size = loop {
        match measure.step().map_err(refused)? {
            Some(size) => break size,
            None if in_parts => return restore_in_parts(ctx, options),
            // A long string is going to take memory, beside that which was taken.
            None if measure.wanted_bytes() > 0 => {
                ctx.admit_more(measure.wanted_bytes() + measure.held_bytes() as u64)?;
            }
            None => {}
        }
    };
    if in_parts && !size.is_quick() {
        return restore_in_parts(ctx, options);
    }
    let (mut reader, _) = measure.into_parts();
    ctx.admit_more(size.bytes + reader.held_bytes() as u64)?;
    reader.again(&typed[1..]);
    put_at_once(&mut ctx.tx, &key, (ctx.args, options), reader, size)?;
    ctx.out.ok();
    Ok(())
}

/// Restores over several turns.
#[cold]
fn restore_in_parts(ctx: &mut Ctx<'_, '_>, options: Options) -> CmdResult {
    let frame = dump::Frame::of(ctx.args.get(3)).ok_or(errors::DUMP_CHECKSUM)?;
    let (dialect, bytes) = (frame.dialect, frame.typed.len());
    ctx.go_on_with(|args| Box::new(LongRestore::new(args, options, dialect, bytes)));
    Ok(())
}

const RESTORE: Command = Command::new(
    Exec::Keys(restore),
    Row::new("restore", Group::Generic, -4, "2.6.0")
        .about(
            "Makes a key from what DUMP has answered.",
            "O(N*M) where N is the number of elements and M their mean size, O(N*M*log(N)) for sorted sets",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
        .keys(&[KeySpec::one(1, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .history(&[("3.0.0", "`REPLACE`."), ("5.0.0", "`ABSTTL`."), ("5.0.0", "`IDLETIME` and `FREQ`.")])
        .args(RESTORE_ARGS),
);

const RESTORE_ARGS: &[Argument] = &[
    key("key", 0),
    arg("ttl", ArgKind::Integer),
    arg("serialized-value", ArgKind::String),
    word("replace", "REPLACE").since("3.0.0").optional(),
    word("absttl", "ABSTTL").since("5.0.0").optional(),
    arg("seconds", ArgKind::Integer).token("IDLETIME").since("5.0.0").optional(),
    arg("frequency", ArgKind::Integer).token("FREQ").since("5.0.0").optional(),
];

/// RESTORE as a cluster's node sends it to one that imports the key's slot.
const RESTORE_ASKING: Command = Command::new(
    Exec::Keys(restore),
    Row::new("restore-asking", Group::Server, -4, "3.0.0")
        .about(
            "Makes a key from what DUMP has answered, as one node of a cluster asks another to.",
            "O(N*M) where N is the number of elements and M their mean size, O(N*M*log(N)) for sorted sets",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::ASKING])
        .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
        .keys(&[KeySpec::one(1, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .history(&[("3.0.0", "`REPLACE`."), ("5.0.0", "`ABSTTL`."), ("5.0.0", "`IDLETIME` and `FREQ`.")])
        .args(RESTORE_ARGS)
        .system(),
);
