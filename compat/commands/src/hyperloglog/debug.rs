//! PFDEBUG and PFSELFTEST: what a HyperLogLog's bytes say, and whether the estimate is as good as it should be.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows, SessionCtx};

use super::sketch::{self, REGISTERS, Run};
use super::{open, put};
use crate::errors;
use crate::grammar::{is, shown};

pub(super) const ROWS: FileRows = &[PFDEBUG, PFSELFTEST];

/// PFDEBUG subcommand key
fn pfdebug(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (name, key) = (ctx.args.get(1), ctx.key(2));
    let value = open(&mut ctx.tx, &key)?.ok_or(errors::NO_SKETCH_KEY)?;
    match () {
        () if is(name, "GETREG") => {
            make_dense(ctx)?;
            let value = ctx.tx.peek(&key)?.unwrap_or_default();
            ctx.out.array(REGISTERS);
            (0..REGISTERS).for_each(|index| ctx.out.integer(sketch::dense_register(value, index).into()));
        }
        () if is(name, "DECODE") => {
            if sketch::is_dense(value) {
                return Err(errors::SKETCH_DENSE);
            }
            let mut texts = Vec::new();
            sketch::runs(value, |_, run| {
                texts.push(match run {
                    Run::Zeros { len, bytes: 1 } => format!("z:{len}"),
                    Run::Zeros { len, .. } => format!("Z:{len}"),
                    Run::Value { value, len } => format!("v:{value},{len}"),
                });
            })?;
            ctx.out.bulk(texts.join(" ").as_bytes());
        }
        () if is(name, "ENCODING") => ctx.out.simple(if sketch::is_dense(value) { "dense" } else { "sparse" }),
        () if is(name, "TODENSE") => {
            let made = make_dense(ctx)?;
            ctx.out.integer(made.into());
        }
        () => return Err(errors::unknown_pfdebug(shown(name))),
    }
    Ok(())
}

/// Makes the HyperLogLog at the key dense; whether it was sparse.
fn make_dense(ctx: &mut Ctx<'_, '_>) -> CmdResult<bool> {
    let key = ctx.key(2);
    let value = open(&mut ctx.tx, &key)?.ok_or(errors::NO_SKETCH_KEY)?;
    if sketch::is_dense(value) {
        return Ok(false);
    }
    let dense = sketch::to_dense(value)?;
    put(&mut ctx.tx, &key, &dense);
    ctx.did(&key, Effect::sent(Class::Silent, "pfdebug", 1));
    Ok(true)
}

const PFDEBUG: Command = Command::new(
    Exec::Keys(pfdebug),
    Row::new("pfdebug", Group::Hyperloglog, 3, "2.8.9")
        .about("For tests of HyperLogLogs.", "N/A")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::ADMIN])
        .acl(&[Acl::HYPERLOGLOG])
        .system()
        .keys(&[KeySpec::one(2, KeyFlags::RW.and(KeyFlags::ACCESS))])
        .args(&[arg("subcommand", ArgKind::String), key("key", 0)]),
);

/// Elements of the self-test: as many as take a millisecond. redis-server adds ten million, for seconds.
const TESTED: u64 = 3000;

/// PFSELFTEST
fn pfselftest(ctx: &mut SessionCtx<'_>) -> CmdResult {
    let (mut sparse, mut checkpoint) = (sketch::empty(), 1);
    let mut dense = sketch::to_dense(&sparse)?;
    for n in 1..=TESTED {
        let (index, count) = sketch::register_of(&n.to_le_bytes());
        let raised = sketch::raise(&mut sparse, index, count, SPARSE_MAX)?;
        if raised != sketch::raise(&mut dense, index, count, SPARSE_MAX)? {
            return Err(errors::SKETCH_FORMS_DIFFER);
        }
        if n == checkpoint {
            let histogram = sketch::histogram(&dense)?;
            if sketch::histogram(&sparse)? != histogram {
                return Err(errors::SKETCH_FORMS_DIFFER);
            }
            // Six times the standard error, 1.04 by the root of the registers.
            let most = (6.0 * 1.04 / (REGISTERS as f64).sqrt() * n as f64).ceil() as u64;
            if sketch::estimate(&histogram).abs_diff(n) > most {
                return Err(errors::SKETCH_ERROR);
            }
            checkpoint *= 10;
        }
    }
    ctx.out.ok();
    Ok(())
}

/// Bytes beyond which the sparse one of the self-test becomes dense: the setting's default.
const SPARSE_MAX: usize = 3000;

const PFSELFTEST: Command = Command::new(
    Exec::Session(pfselftest),
    Row::new("pfselftest", Group::Hyperloglog, 1, "2.8.9")
        .about("Tests HyperLogLogs.", "N/A")
        .flags(&[Flags::ADMIN])
        .acl(&[Acl::HYPERLOGLOG])
        .system(),
);
