//! Members at random: SRANDMEMBER shows them, SPOP takes them out.

use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, DRAWN, Flags, Group, KeySpec, Row, arg, key};
use varve_exec::notify::{self, Class, Effect, Words};
use varve_exec::{
    CmdResult, Command, CommandError, Ctx, Exec, FileRows, Occupied, OccupiedWork, Progress, WhileOccupied,
};
use varve_protocol::Reply;
use varve_store::{Key, PackedEntry, Pick, Tx, Type};

use super::one::RestOfMembers;
use super::{RANDOM, READS, TAKES, reply_member};
use crate::errors;
use crate::generic::draw::{Draw, draw_in_parts};
use crate::grammar::{integer, parts};

pub(super) const ROWS: FileRows = &[SPOP, SRANDMEMBER];

/// SPOP key [count]
fn spop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    match ctx.args.len() {
        2 => pop_one(ctx),
        3 => pop_many(ctx),
        _ => Err(CommandError::SYNTAX),
    }
}

const SPOP: Command = Command::new(
    Exec::Keys(spop),
    Row::new("spop", Group::Set, -2, "1.0.0")
        .about("Takes members out at random and answers them.", "O(1), or O(N) in the count")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, TAKES)])
        .element(DRAWN)
        .tips(RANDOM)
        .history(&[("3.2.0", "A count.")])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).since("3.2.0").optional()]),
);

fn pop_one(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    if ctx.tx.has_journal() {
        return pop_one_kept(ctx, &key);
    }
    if ctx.tx.set_pop(&key, 1, |member| reply_member(ctx.out, member))? == 0 {
        ctx.out.null();
    } else {
        ctx.did_taken(&key, Effect::covered(Class::Set, "spop", 1));
    }
    Ok(())
}

/// Takes one member and remembers its name for the journal.
#[cold]
fn pop_one_kept(ctx: &mut Ctx<'_, '_>, key: &Key<'_>) -> CmdResult {
    let mut drawn = Drawn::new(ctx);
    if ctx.tx.set_pop(key, 1, |member| drawn.reply(ctx.out, member))? == 0 {
        ctx.out.null();
    } else {
        ctx.did_taken(key, Effect::words(Class::Set, "spop", 1, &|words| drawn.remove(key, words)));
    }
    Ok(())
}

fn pop_many(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let count = parse_i64(ctx.args.get(2)).and_then(|n| u64::try_from(n).ok()).ok_or(errors::MUST_BE_POSITIVE)?;
    let key = ctx.key(1);
    if pop_in_parts(ctx, &key, count)? {
        return Ok(());
    }
    let members = ctx.out.defer();
    let mut drawn = Drawn::new(ctx);
    let popped = ctx.tx.set_pop(&key, count, |member| drawn.reply(ctx.out, member))?;
    ctx.out.end_set(members, popped);
    if popped > 0 {
        // redis-server reads a set that goes whole as a union of one, which counts a lookup.
        let all = !ctx.tx.exists(&key);
        if all {
            ctx.tx.note_lookup(true);
        }
        let words = |words: &mut Words<'_>| {
            if all {
                words.add(b"DEL").add(key.bytes);
            } else {
                drawn.remove(&key, words);
            }
        };
        ctx.did_taken(&key, Effect::words(Class::Set, "spop", popped as u64, &words));
    }
    Ok(())
}

/// Takes members out whose drawing takes too long for one hold; false, and nothing is done, if it does not.
fn pop_in_parts(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, count: u64) -> CmdResult<bool> {
    if !ctx.session.takes_parts() || !ctx.tx.is_long_work(count, POP_COST) {
        return Ok(false);
    }
    let len = ctx.tx.set_peek(key)?.map_or(0, |set| set.len() as u64);
    if count >= len {
        let Some(reader) = ctx.tx.begin_reading(key, Type::Set)? else { return Ok(false) };
        ctx.out.set(len as usize);
        ctx.tx.remove(key);
        ctx.tx.note_lookup(true);
        let words = |words: &mut Words<'_>| _ = words.add(b"DEL").add(key.bytes);
        ctx.did_taken(key, Effect::words(Class::Set, "spop", len, &words));
        ctx.go_on_behind(Box::new(RestOfMembers(reader)));
        return Ok(true);
    }
    if ctx.gives_way() {
        return ctx.put_back().map(|()| true);
    }
    let Some(occupied) = Occupied::begin(&mut ctx.tx, key) else { return Ok(false) };
    let members = ctx.out.like();
    let work = RestOfPop { name: key.bytes.into(), left: count, popped: 0, members };
    ctx.go_on_behind(Box::new(WhileOccupied { occupied, work }));
    Ok(true)
}

/// Taking a member out takes as long as showing this number of them: one part takes some 256 out, in 400 us.
const POP_COST: u64 = 16;

/// An SPOP that takes members out part by part, while the set is occupied. Its reply comes at the end.
struct RestOfPop {
    name: Box<[u8]>,
    /// Members to take out.
    left: u64,
    popped: usize,
    members: Reply,
}

impl OccupiedWork for RestOfPop {
    fn part(&mut self, occupied: &mut Occupied, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let RestOfPop { name, left, popped, members } = self;
        let key = tx.key(name);
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        let mut drawn = Drawn(tx.has_journal().then(Names::default));
        let count = (*left).min((tx.hold_elements() / POP_COST).max(1));
        // The set has gone if its time has come, or another type is there if databases were exchanged: there is no more.
        let now = tx.set_pop(&key, count, |member| drawn.reply(members, member)).unwrap_or(0);
        if now > 0 {
            let event = if *popped == 0 { "spop" } else { "" };
            let words = |words: &mut Words<'_>| drawn.remove(&key, words);
            notify::did_taken(tx, &key, Effect::words(Class::Set, event, now as u64, &words));
        }
        (*left, *popped) = (*left - now as u64, *popped + now);
        if now > 0 && *left > 0 {
            return Progress::More;
        }
        occupied.end(tx, &key);
        out.set(*popped);
        out.append(std::mem::take(members));
        Progress::Done
    }

    fn held_bytes(&self) -> usize {
        self.name.len() + self.members.held_bytes()
    }
}

/// Members of one SREM at most.
const REMOVED_MAX: usize = 64;

/// The members that SPOP took, kept if there is a journal: taking them again needs their names.
struct Drawn(Option<Names>);

/// Names, one behind the other.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Drawn {
    #[inline]
    fn new(ctx: &Ctx<'_, '_>) -> Drawn {
        Drawn(ctx.tx.has_journal().then(Names::default))
    }

    #[inline]
    fn reply(&mut self, out: &mut Reply, member: PackedEntry<'_>) {
        if let Some(Names { bytes, ends }) = &mut self.0 {
            bytes.extend_from_slice(member.text(&mut [0; 20]));
            ends.push(bytes.len());
        }
        reply_member(out, member);
    }

    /// Writes an SREM for each 64 members: one for each, as redis-server 7.0 does it, are fifty bytes a member, made and
    /// copied with the shard held.
    fn remove(&self, key: &Key<'_>, words: &mut Words<'_>) {
        let Some(Names { bytes, ends }) = &self.0 else { return };
        let mut start = 0;
        for (at, end) in ends.iter().enumerate() {
            if at % REMOVED_MAX == 0 {
                if at > 0 {
                    words.next_effect();
                }
                words.add(b"SREM").add(key.bytes);
            }
            words.add(&bytes[start..*end]);
            start = *end;
        }
    }
}

/// SRANDMEMBER key [count]
fn srandmember(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    match ctx.args.len() {
        2 => show_one(ctx),
        3 => show_many(ctx),
        _ => Err(CommandError::SYNTAX),
    }
}

const SRANDMEMBER: Command = Command::new(
    Exec::Keys(srandmember),
    Row::new("srandmember", Group::Set, -2, "1.0.0")
        .about("Answers members at random.", "O(1), or O(N) in the count without its sign")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, READS)])
        .tips(RANDOM)
        .history(&[("2.6.0", "A count.")])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).since("2.6.0").optional()]),
);

fn show_one(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    match ctx.tx.set_view_and_rng(&key)? {
        (Some(set), rng) => set.pick(rng, Pick::Any(1), |member| reply_member(ctx.out, member)),
        (None, _) => ctx.out.null(),
    }
    Ok(())
}

fn show_many(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let count = integer(ctx.args.get(2))?;
    if count == i64::MIN {
        let most = i64::MAX;
        return Err(errors::not_between(-most, most));
    }
    let key = ctx.key(1);
    let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let pick = if count < 0 { Pick::Any(most) } else { Pick::Distinct(most) };
    let draw = Draw { pick, values: false, form: (Reply::array, |out, drawn| out.bulk(drawn.name)) };
    if draw_in_parts(ctx, &key, Type::Set, draw)? {
        ctx.tx.note_lookup(true);
        return Ok(());
    }
    let (Some(set), rng) = ctx.tx.set_view_and_rng(&key)? else {
        ctx.out.array(0);
        return Ok(());
    };
    ctx.out.array(if count < 0 { most } else { most.min(set.len()) });
    for part in parts(pick) {
        if ctx.out.is_overflown() {
            break;
        }
        set.pick(rng, part, |member| reply_member(ctx.out, member));
    }
    Ok(())
}
