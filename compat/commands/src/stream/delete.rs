//! XDEL, XDELEX, XACKDEL: entries that are removed by their IDs.

use std::ops::Range;

use varve_catalog::{Acl, ArgKind, Argument, Flags, Group, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::notify::{Again, Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Args;
use varve_store::{StreamId, StreamWriter};

use super::id::parse_strict;
use super::references::{Dropped, References, ack_words, del_words, drop_references, is_needed};
use super::{DELETES, UPDATES};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[XDEL, XDELEX, XACKDEL];

/// XDEL key id [id ...]
fn xdel(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, args) = (ctx.key(1), ctx.args);
    if ctx.tx.stream_peek(&key, |_| ())?.is_none() {
        ctx.out.integer(0);
        return Ok(());
    }
    let ids = (2..args.len()).map(|at| parse_strict(args.get(at), 0)).collect::<CmdResult<Vec<StreamId>>>()?;
    let removed = ctx.tx.stream_mut(&key, |stream| ids.iter().filter(|id| stream.remove(**id)).count())?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        ctx.did(&key, Effect::sent(Class::Stream, "xdel", removed as u64));
    }
    ctx.out.integer(removed as i64);
    Ok(())
}

const XDEL: Command = Command::new(
    Exec::Keys(xdel),
    Row::new("xdel", Group::Stream, -3, "5.0.0")
        .about("Removes entries by their IDs.", "O(log(N)) an entry")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, DELETES)])
        .args(&[key("key", 0), arg("id", ArgKind::String).multiple()]),
);

/// The words of XDELEX and XACKDEL, behind their keys and groups.
struct Request {
    references: References,
    ids: Vec<StreamId>,
}

impl Request {
    fn parse(args: &Args<'_>, from: usize) -> CmdResult<Request> {
        let (mut references, mut ids, mut at) = (None, None, from);
        while at < args.len() {
            let word = args.get(at);
            if let (Some(given), None) = (References::parse(word), references) {
                references = Some(given);
                at += 1;
            } else if is(word, "IDS") && at + 2 <= args.len() {
                let found = ids_behind(args, at)?;
                at = found.end;
                ids = Some(found);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        let ids = read_ids(args, ids.ok_or(errors::IDS_MISSING)?)?;
        Ok(Request { references: references.unwrap_or_default(), ids })
    }
}

/// The arguments that are IDs behind the word IDS, argument `at`, and their number.
pub(super) fn ids_behind(args: &Args<'_>, at: usize) -> CmdResult<Range<usize>> {
    let count = integer(args.get(at + 1)).ok().and_then(|count| usize::try_from(count).ok());
    let (count, first) = (count.filter(|count| *count > 0).ok_or(errors::IDS_NUMBER)?, at + 2);
    if count > args.len() - first { Err(errors::IDS_COUNT) } else { Ok(first..first + count) }
}

/// Reads the IDs in these arguments.
pub(super) fn read_ids(args: &Args<'_>, at: Range<usize>) -> CmdResult<Vec<StreamId>> {
    at.map(|at| parse_strict(args.get(at), 0)).collect()
}

/// The fate of an entry, as it is replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// There is no such entry, or it is not pending in the group.
    None = -1,
    Removed = 1,
    /// It stays, since a group needs it.
    Stays = 2,
}

/// The work of one command.
#[derive(Default)]
struct Deletion {
    fates: Vec<Fate>,
    removed: Vec<StreamId>,
    dropped: Dropped,
}

impl Deletion {
    /// Removes an entry as far as its references let it.
    fn remove(&mut self, stream: &mut StreamWriter<'_, '_>, references: References, id: StreamId) -> Fate {
        if references == References::Acked && is_needed(stream.read(), id) {
            return if stream.read().has(id) { Fate::Stays } else { Fate::None };
        }
        if references == References::Delete {
            self.dropped.append(&mut drop_references(stream, &[id]));
        }
        if !stream.remove(id) {
            return Fate::None;
        }
        self.removed.push(id);
        Fate::Removed
    }

    /// Replies, and reports what was done.
    fn end(self, ctx: &mut Ctx<'_, '_>) {
        let Deletion { fates, removed, dropped } = self;
        let key = ctx.key(1);
        let words = |words: &mut Words<'_>| {
            let has_acks = ack_words(words, key.bytes, &dropped);
            if !removed.is_empty() {
                if has_acks {
                    words.next_effect();
                }
                del_words(words, key.bytes, &removed);
            }
        };
        let ended = dropped.iter().map(|(_, ids)| ids.len() as u64).sum::<u64>();
        if !removed.is_empty() {
            ctx.did(&key, Effect::words(Class::Stream, "xdel", removed.len() as u64, &words));
        } else if ended > 0 {
            ctx.did(&key, Effect::quiet(Class::Stream, ended, Again::Words(&words)));
        } else {
            ctx.tx.did_nothing(&key);
        }
        ctx.out.array(fates.len());
        fates.iter().for_each(|fate| ctx.out.integer(*fate as i64));
    }
}

const REFERENCES: Argument =
    one_of("condition", &[word("keepref", "KEEPREF"), word("delref", "DELREF"), word("acked", "ACKED")]);

const IDS: Argument =
    block("ids", &[arg("numids", ArgKind::Integer), arg("id", ArgKind::String).multiple()]).token("IDS");

/// XDELEX key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]
fn xdelex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let Request { references, ids } = Request::parse(&ctx.args, 2)?;
    let key = ctx.key(1);
    let done = ctx.tx.stream_mut(&key, |stream| {
        let mut deletion = Deletion::default();
        for &id in &ids {
            let fate = deletion.remove(stream, references, id);
            deletion.fates.push(fate);
        }
        deletion
    })?;
    let none = || Deletion { fates: vec![Fate::None; ids.len()], ..Deletion::default() };
    done.unwrap_or_else(none).end(ctx);
    Ok(())
}

const XDELEX: Command = Command::new(
    Exec::Keys(xdelex),
    Row::new("xdelex", Group::Stream, -5, "8.2.0")
        .about("Removes entries by their IDs, and says what becomes of the groups' references.", "O(log(N)) an entry")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, DELETES)])
        .args(&[key("key", 0), REFERENCES.optional(), IDS]),
);

/// XACKDEL key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]
fn xackdel(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let Request { references, ids } = Request::parse(&ctx.args, 3)?;
    let (key, name) = (ctx.key(1), ctx.args.get(2));
    let done = ctx.tx.stream_mut(&key, |stream| {
        let mut deletion = Deletion::default();
        let mut acked = Vec::new();
        for &id in &ids {
            let was_pending = stream.change_group(name, |group| group.acknowledge(id)) == Some(true);
            if !was_pending {
                deletion.fates.push(Fate::None);
                continue;
            }
            acked.push(id);
            // One that is gone from the stream has nothing left behind.
            let fate = deletion.remove(stream, references, id);
            deletion.fates.push(if fate == Fate::None { Fate::Removed } else { fate });
        }
        if !acked.is_empty() {
            deletion.dropped.push((name.into(), acked));
        }
        deletion
    })?;
    let none = || Deletion { fates: vec![Fate::None; ids.len()], ..Deletion::default() };
    done.unwrap_or_else(none).end(ctx);
    Ok(())
}

const XACKDEL: Command = Command::new(
    Exec::Keys(xackdel),
    Row::new("xackdel", Group::Stream, -6, "8.2.0")
        .about("Ends that entries are pending in a group, and removes them from the stream.", "O(log(N)) an entry")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, UPDATES.and(varve_catalog::KeyFlags::DELETE))])
        .args(&[key("key", 0), arg("group", ArgKind::String), REFERENCES.optional(), IDS]),
);
