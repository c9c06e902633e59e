//! XTRIM, XSETID.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::StreamId;

use super::id::parse_strict;
use super::trim::{Options, REFERENCES, WORDS};
use super::{DELETES, UPDATES};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[XTRIM, XSETID];

/// XTRIM key [KEEPREF | DELREF | ACKED] MAXLEN | MINID [= | ~] threshold [LIMIT count]
fn xtrim(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let args = ctx.args;
    let options = Options::parse(&args, false, !ctx.tx.ends_overdue())?;
    options.check(false)?;
    let (key, node_entries) = (ctx.key(1), ctx.tx.store().shapes().stream().entries);
    let trimmed = ctx.tx.stream_mut(&key, |stream| options.run(stream, node_entries))?.unwrap_or_default();
    let gone = trimmed.gone;
    if gone > 0 {
        let words = |words: &mut Words<'_>| {
            if options.trims_by_words() {
                (0..args.len()).for_each(|at| options.word_again(&args, at, &trimmed, words));
            }
            if trimmed.has_words() {
                if options.trims_by_words() {
                    words.next_effect();
                }
                trimmed.words(words, key.bytes);
            }
        };
        if options.is_inexact() {
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
        .history(&[("6.2.0", "`MINID` and `LIMIT`."), ("8.2.0", "`KEEPREF`, `DELREF` and `ACKED`.")])
        .args(&[key("key", 0), REFERENCES.optional(), WORDS]),
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
    // Those who watch the stream are told nothing, as in redis-server: its entries are the same.
    ctx.did(&key, Effect { modified: false, ..Effect::sent(Class::Stream, "xsetid", 1) });
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
