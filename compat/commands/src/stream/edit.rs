//! XTRIM, XDEL, XSETID.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::StreamId;

use super::id::parse_strict;
use super::trim::{Options, Trimmed, WORDS};
use super::{DELETES, UPDATES};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[XTRIM, XDEL, XSETID];

/// XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count]
fn xtrim(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let args = ctx.args;
    let options = Options::parse(&args, false, !ctx.tx.ends_overdue())?;
    options.check(false)?;
    let (key, node_entries) = (ctx.key(1), ctx.tx.store().shapes().stream().entries);
    let trimmed = ctx.tx.stream_mut(&key, |stream| (options.run(stream, node_entries), Trimmed::of(stream)))?;
    let gone = trimmed.map_or(0, |(gone, _)| gone);
    if let Some((1.., left)) = trimmed {
        if options.is_approximate() {
            let words = |words: &mut Words<'_>| {
                (0..args.len()).for_each(|at| options.word_again(&args, at, left, words));
            };
            ctx.did(&key, Effect::words(Class::Stream, "xtrim", gone, &words));
        } else {
            ctx.did(&key, Effect::sent(Class::Stream, "xtrim", gone));
        }
    }
    ctx.out.integer(gone as i64);
    Ok(())
}

const XTRIM: Command = Command::new(
    Exec::Keys(xtrim),
    Row::new("xtrim", Group::Stream, -4, "5.0.0")
        .about(
            "Removes the entries with the least IDs.",
            "O(log(N)), and O(M) in the entries removed, in the background",
        )
        .flags(&[Flags::WRITE])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, DELETES)])
        .tips(&["nondeterministic_output"])
        .history(&[("6.2.0", "`MINID` and `LIMIT`.")])
        .args(&[key("key", 0), WORDS]),
);

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

/// The facts that XSETID names.
struct NewState {
    last: StreamId,
    added: Option<u64>,
    max_deleted: StreamId,
}

impl NewState {
    fn parse(ctx: &Ctx<'_, '_>) -> CmdResult<NewState> {
        let args = ctx.args;
        let mut state = NewState { last: parse_strict(args.get(2), 0)?, added: None, max_deleted: StreamId::MIN };
        let mut at = 3;
        while at < args.len() {
            let word = args.get(at);
            let Some(value) = args.opt(at + 1) else { return Err(CommandError::SYNTAX) };
            if is(word, "ENTRIESADDED") {
                state.added = Some(u64::try_from(integer(value)?).map_err(|_| errors::ENTRIES_ADDED_NEGATIVE)?);
            } else if is(word, "MAXDELETEDID") {
                state.max_deleted = parse_strict(value, 0)?;
                if state.last < state.max_deleted {
                    return Err(errors::LAST_BELOW_GIVEN_DELETED);
                }
            } else {
                return Err(CommandError::SYNTAX);
            }
            at += 2;
        }
        Ok(state)
    }
}

/// XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]
fn xsetid(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let NewState { last, added, max_deleted } = NewState::parse(ctx)?;
    let key = ctx.key(1);
    let done = ctx.tx.stream_mut(&key, |stream| {
        let mut state = stream.state();
        if let Some(top) = stream.read().last() {
            if last < top.id {
                return Err(errors::LAST_BELOW_TOP);
            }
            if added.is_some_and(|added| added < stream.read().facts().len) {
                return Err(errors::ENTRIES_ADDED_SMALL);
            }
        }
        state.last = last;
        state.added = added.unwrap_or(state.added);
        if max_deleted != StreamId::MIN {
            state.max_deleted = max_deleted;
        }
        stream.set_state(state);
        Ok(())
    })?;
    done.ok_or(CommandError::NO_KEY)??;
    ctx.did(&key, Effect::sent(Class::Stream, "xsetid", 1));
    ctx.out.ok();
    Ok(())
}

const XSETID: Command = Command::new(
    Exec::Keys(xsetid),
    Row::new("xsetid", Group::Stream, -3, "5.0.0")
        .about("Sets the last ID of a stream, for copies of it.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, UPDATES)])
        .history(&[("7.0.0", "`entries_added` and `max_deleted_entry_id`.")])
        .args(&[
            key("key", 0),
            arg("last-id", ArgKind::String),
            arg("entries_added", ArgKind::Integer).token("ENTRIESADDED").since("7.0.0").optional(),
            arg("max_deleted_entry_id", ArgKind::String).token("MAXDELETEDID").since("7.0.0").optional(),
        ]),
);
