//! Commands that combine several sets: SINTER, SUNION and SDIFF, their STORE forms, SINTERCARD.

use smallvec::SmallVec;
use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::notify::Class;
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress, Sources};
use varve_protocol::Reply;
use varve_store::{Key, ReadOn, SetOp, SetsInParts, StoreWorker, Tx, Type};

use super::{ALL_SETS, KEYS, READS, REPLACES, STORED, UNORDERED, reply_member};
use crate::errors;
use crate::generic::building::{Building, Report};
use crate::grammar::is;

pub(super) const ROWS: FileRows = &[SINTER, SUNION, SDIFF, SINTERSTORE, SUNIONSTORE, SDIFFSTORE, SINTERCARD];

/// Storing a member takes as long as showing this number of them.
const MEMBER_COST: u64 = 16;

type Keys<'a> = SmallVec<[Key<'a>; 8]>;

/// The request's keys from number `first` on, with the hashes that are known.
fn keys<'a>(ctx: &Ctx<'_, 'a>, first: usize) -> Keys<'a> {
    let keys = ctx.keys[first..].iter();
    keys.map(|key| ctx.tx.key_hashed(ctx.args.get(key.arg as usize), key.hash)).collect()
}

/// SINTER key [key ...]
fn sinter(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    show(ctx, SetOp::Intersection)
}

const SINTER: Command = Command::new(
    Exec::Keys(sinter),
    Row::new("sinter", Group::Set, -2, "1.0.0")
        .about("Answers the members that all sets have.", "O(N*M) in the smallest set's members and the sets")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(ALL_SETS)
        .tips(UNORDERED)
        .args(KEYS),
);

/// SUNION key [key ...]
fn sunion(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    show(ctx, SetOp::Union)
}

const SUNION: Command = Command::new(
    Exec::Keys(sunion),
    Row::new("sunion", Group::Set, -2, "1.0.0")
        .about("Answers the members that any of the sets has.", "O(N) in the members of all sets")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(ALL_SETS)
        .tips(UNORDERED)
        .args(KEYS),
);

/// SDIFF key [key ...]
fn sdiff(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    show(ctx, SetOp::Difference)
}

const SDIFF: Command = Command::new(
    Exec::Keys(sdiff),
    Row::new("sdiff", Group::Set, -2, "1.0.0")
        .about("Answers the members of the first set that no other one has.", "O(N) in the members of all sets")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(ALL_SETS)
        .tips(UNORDERED)
        .args(KEYS),
);

fn show(ctx: &mut Ctx<'_, '_>, op: SetOp) -> CmdResult {
    let keys = keys(ctx, 0);
    if go_on_in_parts(ctx, op, &keys, Answer::Members) {
        return Ok(());
    }
    let sets = ctx.tx.set_views(&keys)?;
    let (members, mut count) = (ctx.out.defer(), 0);
    sets.show(op, |member| {
        reply_member(ctx.out, member);
        count += 1;
        false
    });
    ctx.out.end_set(members, count);
    Ok(())
}

/// Begins an operation on long sets, whose result is replied with when it is complete: a reply begins with its length.
/// False, and nothing is done, if it is to be done at once.
fn go_on_in_parts(ctx: &mut Ctx<'_, '_>, op: SetOp, keys: &[Key<'_>], answer: Answer) -> bool {
    if !ctx.session.takes_parts() {
        return false;
    }
    let Some(sets) = ctx.tx.begin_set_op(op, keys, 1) else { return false };
    for key in keys {
        let found = ctx.tx.exists(key);
        ctx.tx.note_read(key, found);
    }
    let members = ctx.out.like();
    ctx.go_on(Box::new(RestOfOperation { sets, answer, members, count: 0 }));
    true
}

/// The answer of an operation on sets.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// All members.
    Members,
    /// Their number, up to a limit; 0 is none.
    Count { limit: i64 },
}

/// An operation on long sets that goes on.
struct RestOfOperation {
    sets: SetsInParts,
    answer: Answer,
    members: Reply,
    count: i64,
}

impl Ongoing for RestOfOperation {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let RestOfOperation { sets, answer, members, count } = self;
        let answer = *answer;
        let read = tx.set_op_on(sets, |member| {
            *count += 1;
            match answer {
                Answer::Members => {
                    members.bulk(member);
                    members.is_overflown()
                }
                Answer::Count { limit } => *count == limit,
            }
        });
        if read == ReadOn::All {
            match answer {
                Answer::Members => out.set(*count as usize),
                Answer::Count { .. } => out.integer(*count),
            }
            out.append(std::mem::take(members));
        }
        read.into()
    }

    fn held_bytes(&self) -> usize {
        self.sets.held_bytes() + self.members.held_bytes()
    }

    fn kept_bytes(&self) -> usize {
        self.sets.kept_bytes()
    }
}

/// SINTERSTORE destination key [key ...]
fn sinterstore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    store(ctx, SetOp::Intersection)
}

const SINTERSTORE: Command = Command::new(
    Exec::Keys(sinterstore),
    Row::new("sinterstore", Group::Set, -3, "1.0.0")
        .about("Stores the members that all sets have.", "O(N*M) in the smallest set's members and the sets")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE)), KeySpec::range(2, -1, 1, READS)])
        .args(STORED),
);

/// SUNIONSTORE destination key [key ...]
fn sunionstore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    store(ctx, SetOp::Union)
}

const SUNIONSTORE: Command = Command::new(
    Exec::Keys(sunionstore),
    Row::new("sunionstore", Group::Set, -3, "1.0.0")
        .about("Stores the members that any of the sets has.", "O(N) in the members of all sets")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, REPLACES), KeySpec::range(2, -1, 1, READS)])
        .args(STORED),
);

/// SDIFFSTORE destination key [key ...]
fn sdiffstore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    store(ctx, SetOp::Difference)
}

const SDIFFSTORE: Command = Command::new(
    Exec::Keys(sdiffstore),
    Row::new("sdiffstore", Group::Set, -3, "1.0.0")
        .about("Stores the members of the first set that no other one has.", "O(N) in the members of all sets")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, REPLACES), KeySpec::range(2, -1, 1, READS)])
        .args(STORED),
);

fn store(ctx: &mut Ctx<'_, '_>, op: SetOp) -> CmdResult {
    let (to, keys) = (ctx.key(1), keys(ctx, 1));
    if store_in_parts(ctx, op, &keys)? {
        return Ok(());
    }
    // The request's own bytes do not bound the result. The shards may be let go for it.
    let bytes = ctx.tx.set_op_bytes(op, &keys)?;
    ctx.admit_more(bytes)?;
    let taken = ctx.tx.exists(&to);
    let stored = ctx.tx.set_store(op, &to, &keys)?;
    ctx.did_store(Class::Set, event_of(op), &to, u64::from(stored > 0), taken);
    ctx.out.integer(stored as i64);
    Ok(())
}

fn event_of(op: SetOp) -> &'static str {
    match op {
        SetOp::Intersection => "sinterstore",
        SetOp::Union => "sunionstore",
        SetOp::Difference => "sdiffstore",
    }
}

/// Begins an operation on long sets whose result is stored; false, and nothing is done, if it is to be done at once.
fn store_in_parts(ctx: &mut Ctx<'_, '_>, op: SetOp, keys: &[Key<'_>]) -> CmdResult<bool> {
    if !ctx.session.takes_parts() {
        return Ok(false);
    }
    let Some(sets) = ctx.tx.begin_set_op(op, keys, MEMBER_COST) else { return Ok(false) };
    let hashed = ctx.tx.set_op_leaves_hash_table(op, keys)?;
    for key in keys {
        let found = ctx.tx.exists(key);
        ctx.tx.note_read(key, found);
    }
    let sources = (2..ctx.args.len()).collect();
    ctx.go_on_building(|tx, args, keeps| {
        let mut building = Building::begin(tx, args, (1, Type::Set), sources, keeps);
        building.set_hashed(hashed);
        Box::new(StoredOperation { sets: Some(sets), op, building })
    });
    Ok(true)
}

/// An operation on long sets whose result is stored.
struct StoredOperation {
    /// None once all members of the result have come.
    sets: Option<SetsInParts>,
    op: SetOp,
    building: Building,
}

impl Ongoing for StoredOperation {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let StoredOperation { sets, op, building } = self;
        let Some(reading) = sets else {
            let report = Report::new(Class::Set, event_of(*op));
            return building.publish(tx, &report, |_, _| (), out);
        };
        if building.is_full(tx) {
            return building.add_on(tx);
        }
        let read = tx.set_op_on(reading, |member| {
            building.push(member);
            false
        });
        match read {
            ReadOn::Busy => return Progress::Busy,
            ReadOn::More(_) => {}
            ReadOn::All => *sets = None,
        }
        Progress::More
    }

    fn sources(&self) -> Option<&Sources> {
        Some(self.building.sources())
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.building.abandon(worker);
    }

    fn held_bytes(&self) -> usize {
        self.sets.as_ref().map_or(0, SetsInParts::held_bytes) + self.building.held_bytes()
    }

    fn kept_bytes(&self) -> usize {
        self.sets.as_ref().map_or(0, SetsInParts::kept_bytes)
    }
}

/// SINTERCARD numkeys key [key ...] [LIMIT limit]
fn sintercard(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let number = parse_i64(ctx.args.get(1)).filter(|n| *n > 0).ok_or(errors::NUMKEYS_POSITIVE)?;
    let number = usize::try_from(number).ok().filter(|n| *n <= ctx.args.len() - 2).ok_or(errors::TOO_MANY_KEYS)?;
    let limit = limit(ctx, 2 + number)?;
    let keys = keys(ctx, 0);
    if go_on_in_parts(ctx, SetOp::Intersection, &keys, Answer::Count { limit }) {
        return Ok(());
    }
    let mut count = 0;
    ctx.tx.set_views(&keys)?.show(SetOp::Intersection, |_| {
        count += 1;
        count == limit
    });
    ctx.out.integer(count);
    Ok(())
}

const SINTERCARD: Command = Command::new(
    Exec::Keys(sintercard),
    Row::new("sintercard", Group::Set, -3, "7.0.0")
        .about("Counts the members that all sets have.", "O(N*M) in the smallest set's members and the sets")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::counted(1, 1, READS)])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            arg("limit", ArgKind::Integer).token("LIMIT").optional(),
        ]),
);

/// Reads LIMIT, the last one if there are several; 0 is none.
fn limit(ctx: &Ctx<'_, '_>, mut at: usize) -> CmdResult<i64> {
    let mut limit = 0;
    while let Some(word) = ctx.args.opt(at) {
        let value = ctx.args.opt(at + 1).filter(|_| is(word, "LIMIT")).ok_or(CommandError::SYNTAX)?;
        limit = parse_i64(value).filter(|n| *n >= 0).ok_or(errors::LIMIT_NEGATIVE)?;
        at += 2;
    }
    Ok(limit)
}
