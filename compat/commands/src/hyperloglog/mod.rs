//! HyperLogLogs: PFADD, PFCOUNT, PFMERGE, and what looks inside (PFDEBUG, PFSELFTEST).
//!
//! ```text
//! sketch   the bytes: registers, runs, the estimate          murmur   the hash of elements
//! many     PFCOUNT and PFMERGE of many keys, over several turns
//! ```
//! A dense one is changed in place, register by register; a sparse one, of some kilobytes at most, is written anew. PFCOUNT
//! writes the cardinality that it has found into the value: a reading command that changes its key.

mod debug;
mod many;
mod murmur;
mod sketch;

use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::{Key, StringForm, Ttl, Tx};

use crate::errors;
use many::{LongUnion, MANY, Purpose};
use sketch::{Corrupt, REGISTERS, Registers};

/// Elements of a PFADD that are looked for in a sparse one by themselves: to have all registers at hand costs as much as some.
const LOOKED_FOR: usize = 8;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[&[PFADD, PFCOUNT, PFMERGE], debug::ROWS];

impl From<Corrupt> for CommandError {
    fn from(_: Corrupt) -> CommandError {
        errors::SKETCH_CORRUPT
    }
}

/// The HyperLogLog at a key; no hit or miss is counted.
fn open<'t>(tx: &'t mut Tx<'_>, key: &Key<'_>) -> CmdResult<Option<&'t [u8]>> {
    checked(tx.peek(key)?)
}

fn checked(value: Option<&[u8]>) -> CmdResult<Option<&[u8]>> {
    match value {
        Some(value) if !sketch::is_valid(value) => Err(errors::NO_SKETCH),
        Some(value) if sketch::is_too_long(value) => Err(errors::SKETCH_CORRUPT),
        value => Ok(value),
    }
}

/// The registers of several HyperLogLogs.
struct Union {
    max: Registers,
    /// One of them is dense.
    dense: bool,
}

impl Default for Union {
    fn default() -> Union {
        Union { max: [0; REGISTERS], dense: false }
    }
}

impl Union {
    fn add(&mut self, value: &[u8]) -> Result<(), Corrupt> {
        self.dense |= sketch::is_dense(value);
        sketch::merge(&mut self.max, value)
    }

    fn estimate(&self) -> u64 {
        sketch::estimate(&sketch::histogram_of(&self.max))
    }

    /// A HyperLogLog with these registers, raised; a sparse one has at most `most` bytes.
    fn merged(&self, mut value: Vec<u8>, most: usize) -> Result<Vec<u8>, Corrupt> {
        if self.dense && !sketch::is_dense(&value) {
            value = sketch::to_dense(&value)?;
        }
        let mut has = [0; REGISTERS];
        sketch::merge(&mut has, &value)?;
        let raised = self.max.iter().copied().enumerate().filter(|(index, count)| *count > has[*index]);
        sketch::raise_all(&mut value, raised, most)?;
        sketch::forget_cardinality(&mut value);
        Ok(value)
    }
}

/// Begins a command of many keys over several turns; false, and nothing is done, if it is to run at once.
fn go_on_in_parts(ctx: &mut Ctx<'_, '_>, purpose: Purpose) -> bool {
    let is_many = ctx.args.len() > MANY && ctx.session.takes_parts();
    if is_many {
        ctx.go_on_building(|tx, args, keeps| Box::new(LongUnion::begin(tx, args, purpose, keeps)));
    }
    is_many
}

/// Most bytes of a sparse one (`hll-sparse-max-bytes`).
fn sparse_max(tx: &Tx<'_>) -> usize {
    tx.store().shapes().sketch_bytes()
}

/// Gives a key a HyperLogLog, its expiry kept.
fn put(tx: &mut Tx<'_>, key: &Key<'_>, value: &[u8]) {
    tx.set(key, value, Ttl::Keep, StringForm::Raw);
}

/// Raises registers of a dense HyperLogLog in place, each to at least its value; the number of those that were lower.
fn raise_dense(tx: &mut Tx<'_>, key: &Key<'_>, registers: impl Iterator<Item = (usize, u8)>) -> CmdResult<u64> {
    let mut raised = 0;
    for (index, count) in registers {
        let value = tx.peek(key)?.unwrap_or_default();
        if sketch::dense_register(value, index) < count {
            let (at, bytes, len) = sketch::dense_bytes(value, index, count);
            tx.set_range(key, at, &bytes[..len])?;
            raised += 1;
        }
    }
    Ok(raised)
}

/// The cardinality of a dense HyperLogLog is not known any more.
fn forget_cardinality(tx: &mut Tx<'_>, key: &Key<'_>) -> CmdResult {
    let known = tx.peek(key)?.unwrap_or_default()[sketch::UNKNOWN_AT];
    tx.set_range(key, sketch::UNKNOWN_AT, &[known | 0x80])?;
    Ok(())
}

/// Raises registers of a value in this order; the number of those that were lower. A sparse one is not searched for a register that
/// is high enough already, once there are some more.
fn raise_in_order(
    value: &mut Vec<u8>,
    mut registers: impl Iterator<Item = (usize, u8)>,
    most: usize,
) -> Result<u64, Corrupt> {
    let mut raised = 0;
    for (index, count) in registers.by_ref().take(LOOKED_FOR) {
        raised += u64::from(sketch::raise(value, index, count, most)?);
    }
    let Some(next) = registers.next() else { return Ok(raised) };
    let mut has = [0; REGISTERS];
    sketch::merge(&mut has, value)?;
    for (index, count) in std::iter::once(next).chain(registers) {
        if has[index] < count {
            has[index] = count;
            raised += u64::from(sketch::raise(value, index, count, most)?);
        }
    }
    Ok(raised)
}

/// PFADD key [element ...]
fn pfadd(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, args) = (ctx.key(1), ctx.args);
    let registers = (2..args.len()).map(|at| sketch::register_of(args.get(at)));
    let most = sparse_max(&ctx.tx);
    let (mut value, mut changes) = match open(&mut ctx.tx, &key)? {
        Some(value) if sketch::is_dense(value) => {
            let changes = raise_dense(&mut ctx.tx, &key, registers)?;
            if changes > 0 {
                forget_cardinality(&mut ctx.tx, &key)?;
                ctx.did(&key, Effect::sent(Class::String, "pfadd", changes));
            }
            ctx.out.integer(i64::from(changes > 0));
            return Ok(());
        }
        Some(value) => (value.to_vec(), 0),
        None => (sketch::empty(), 1),
    };
    changes += raise_in_order(&mut value, registers, most)?;
    if changes > 0 {
        sketch::forget_cardinality(&mut value);
        put(&mut ctx.tx, &key, &value);
        ctx.did(&key, Effect::sent(Class::String, "pfadd", changes));
    }
    ctx.out.integer(i64::from(changes > 0));
    Ok(())
}

const PFADD: Command = Command::new(
    Exec::Keys(pfadd),
    Row::new("pfadd", Group::Hyperloglog, -2, "2.8.9")
        .about("Adds elements to a HyperLogLog.", "O(1) an element")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HYPERLOGLOG])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .args(&[key("key", 0), arg("element", ArgKind::String).optional().multiple()]),
);

/// The registers of all keys that are arguments.
fn union_of_all(ctx: &mut Ctx<'_, '_>) -> CmdResult<Union> {
    let mut union = Union::default();
    for at in 1..ctx.args.len() {
        let key = ctx.key(at);
        if let Some(value) = checked(ctx.tx.get(&key)?)? {
            union.add(value)?;
        }
    }
    Ok(union)
}

/// PFCOUNT key [key ...]
fn pfcount(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if go_on_in_parts(ctx, Purpose::Count) {
        return Ok(());
    }
    if ctx.args.len() > 2 {
        let union = union_of_all(ctx)?;
        ctx.out.integer(union.estimate() as i64);
        return Ok(());
    }
    let key = ctx.key(1);
    let Some(value) = checked(ctx.tx.get(&key)?)? else {
        ctx.out.integer(0);
        return Ok(());
    };
    let cardinality = match sketch::known_cardinality(value) {
        Some(cardinality) => cardinality,
        None => {
            let cardinality = sketch::estimate(&sketch::histogram(value)?);
            ctx.tx.set_range(&key, sketch::cardinality_place(), &cardinality.to_le_bytes())?;
            ctx.did(&key, Effect::sent(Class::Silent, "pfcount", 1));
            cardinality
        }
    };
    ctx.out.integer(cardinality as i64);
    Ok(())
}

const PFCOUNT: Command = Command::new(
    Exec::Keys(pfcount),
    Row::new("pfcount", Group::Hyperloglog, -2, "2.8.9")
        .about("Answers about how many elements were added to HyperLogLogs.", "O(1), O(N) for several keys")
        .flags(&[Flags::READONLY])
        .behaviour(Behaviour::WRITES_TOO)
        .acl(&[Acl::HYPERLOGLOG])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RW.and(KeyFlags::ACCESS))
            .notes("RW because it may change the internal representation of the key, and propagate to replicas")])
        .args(&[key("key", 0).multiple()]),
);

/// PFMERGE destkey [sourcekey ...]
fn pfmerge(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if go_on_in_parts(ctx, Purpose::Merge) {
        return Ok(());
    }
    let union = union_of_all(ctx)?;
    let target = ctx.key(1);
    let value = open(&mut ctx.tx, &target)?.map_or_else(sketch::empty, <[u8]>::to_vec);
    let value = union.merged(value, sparse_max(&ctx.tx))?;
    put(&mut ctx.tx, &target, &value);
    ctx.did(&target, Effect::sent(Class::String, "pfadd", 1));
    ctx.out.ok();
    Ok(())
}

const PFMERGE: Command = Command::new(
    Exec::Keys(pfmerge),
    Row::new("pfmerge", Group::Hyperloglog, -2, "2.8.9")
        .about("Makes a HyperLogLog of all elements of others and its own.", "O(N) in the keys")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::HYPERLOGLOG])
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::INSERT)),
            KeySpec::range(2, -1, 1, KeyFlags::RO.and(KeyFlags::ACCESS)),
        ])
        .args(&[key("destkey", 0), key("sourcekey", 1).multiple()]),
);
