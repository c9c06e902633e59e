//! XGROUP: groups of consumers, made, set and removed; and the words that make again what a group was given.

use varve_base::number::push_u64;
use varve_catalog::{
    Acl, ArgKind, Argument, Flags, Group as CommandGroup, KeyFlags, KeySpec, Row, arg, key, one_of, word,
};
use varve_exec::notify::{Again, Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, SessionCtx};
use varve_store::{StreamGroup, StreamId, StreamNeed, StreamWriter, Tx};

use super::id::{id_text, parse, parse_strict};
use super::{DELETES, UPDATES};
use crate::errors;
use crate::grammar::{help, integer, is};

pub(super) const ROWS: FileRows = &[XGROUP];

const SUBCOMMANDS: FileRows =
    &[XGROUP_CREATE, XGROUP_SETID, XGROUP_DESTROY, XGROUP_CREATECONSUMER, XGROUP_DELCONSUMER, XGROUP_HELP];

const INSERTS: KeyFlags = KeyFlags::RW.and(KeyFlags::INSERT);

const GROUP: Argument = arg("groupname", ArgKind::String);

const CONSUMER: Argument = arg("consumername", ArgKind::String);

const ID: Argument = one_of("id", &[arg("id", ArgKind::String), word("new_id", "$")]);

const ENTRIES_READ: Argument = arg("entries_read", ArgKind::Integer).token("ENTRIESREAD").optional();

/// A pending entry of a group, as an effect makes it again.
pub(super) struct Claimed<'a> {
    pub(super) consumer: &'a [u8],
    pub(super) id: StreamId,
    pub(super) time_ms: i64,
    pub(super) count: u64,
    /// The last ID that the group was given.
    pub(super) last: StreamId,
}

/// Writes the XCLAIM that makes an entry pending, whatever was before.
pub(super) fn claim_words(words: &mut Words<'_>, key: &[u8], group: &[u8], claimed: &Claimed<'_>) {
    let Claimed { consumer, id, time_ms, count, last } = *claimed;
    words.add(b"XCLAIM").add(key).add(group).add(consumer).add(b"0").add(&id_text(id));
    words.add(b"TIME").number(time_ms).add(b"RETRYCOUNT").number(count as i64);
    words.add(b"FORCE").add(b"JUSTID").add(b"LASTID").add(&id_text(last));
}

/// Writes the XGROUP SETID that sets what a group was given.
pub(super) fn set_id_words(words: &mut Words<'_>, key: &[u8], group: &[u8], last: StreamId, read: Option<u64>) {
    words.add(b"XGROUP").add(b"SETID").add(key).add(group).add(&id_text(last)).add(b"ENTRIESREAD");
    match read {
        Some(read) => {
            let mut text = Vec::new();
            push_u64(&mut text, read);
            words.add(&text)
        }
        None => words.add(b"-1"),
    };
}

/// The words behind the ID of CREATE and SETID.
struct Options {
    makes_stream: bool,
    read: Option<u64>,
}

impl Options {
    fn parse(ctx: &Ctx<'_, '_>, may_make: bool) -> CmdResult<Options> {
        let args = ctx.args;
        let mut options = Options { makes_stream: false, read: None };
        let mut at = 5;
        while at < args.len() {
            if may_make && is(args.get(at), "MKSTREAM") {
                options.makes_stream = true;
                at += 1;
            } else if is(args.get(at), "ENTRIESREAD") && at + 1 < args.len() {
                let read = integer(args.get(at + 1))?;
                if read < -1 {
                    return Err(errors::ENTRIES_READ_NEGATIVE);
                }
                options.read = u64::try_from(read).ok();
                at += 2;
            } else {
                return Err(errors::wrong_subcommand("XGROUP", args.get(1)));
            }
        }
        Ok(options)
    }
}

/// XGROUP CREATE key group id | $ [MKSTREAM] [ENTRIESREAD entries-read]
fn xgroup_create(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let options = Options::parse(ctx, true)?;
    let (key, args) = (ctx.key(2), ctx.args);
    let last = ctx.tx.stream_peek(&key, |stream| stream.state().last)?;
    if last.is_none() && !options.makes_stream {
        return Err(errors::XGROUP_NO_KEY);
    }
    if args.len() > 8 {
        return Err(errors::wrong_subcommand("XGROUP", args.get(1)));
    }
    let id = match args.get(4) {
        b"$" => last.unwrap_or(StreamId::MIN),
        text => parse_strict(text, 0)?,
    };
    let name = args.get(3);
    if ctx.tx.stream_peek(&key, |stream| stream.group(name).is_some())? == Some(true) {
        return Err(errors::GROUP_EXISTS);
    }
    let add = |stream: &mut StreamWriter<'_, '_>| stream.add_group(name, StreamGroup::new(id, options.read));
    if last.is_none() {
        ctx.tx.make_stream(&key, StreamNeed::Everything, add);
    } else {
        ctx.tx.stream_mut_for(&key, StreamNeed::Everything, add)?;
    }
    let effect = Effect::sent(Class::Stream, "xgroup-create", 1);
    ctx.did(&key, Effect { modified: last.is_none(), ..effect });
    ctx.out.ok();
    Ok(())
}

const XGROUP_CREATE: Command = Command::new(
    Exec::Keys(xgroup_create),
    Row::sub("xgroup|create", "create", CommandGroup::Stream, -5, "5.0.0")
        .about("Makes a group of consumers.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(2, INSERTS)])
        .history(&[("7.0.0", "`entries_read`.")])
        .args(&[key("key", 0), GROUP, ID, word("mkstream", "MKSTREAM").optional(), ENTRIES_READ]),
);

/// Refuses a key that is not there, and a group that is not.
fn needs_group(ctx: &mut Ctx<'_, '_>) -> CmdResult<StreamId> {
    let (key, name) = (ctx.key(2), ctx.args.get(3));
    let found = ctx.tx.stream_peek(&key, |stream| (stream.state().last, stream.group(name).is_some()))?;
    match found {
        None => Err(errors::XGROUP_NO_KEY),
        Some((_, false)) => Err(errors::no_group_of(name, key.bytes)),
        Some((last, true)) => Ok(last),
    }
}

/// XGROUP SETID key group id | $ [ENTRIESREAD entries-read]
fn xgroup_setid(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let options = Options::parse(ctx, false)?;
    let last = needs_group(ctx)?;
    let (key, args) = (ctx.key(2), ctx.args);
    if !matches!(args.len(), 5 | 7) {
        return Err(errors::wrong_subcommand("XGROUP", args.get(1)));
    }
    let id = match args.get(4) {
        b"$" => last,
        text => parse(text, 0)?,
    };
    ctx.tx.stream_mut(&key, |stream| stream.change_group(args.get(3), |group| group.set_last(id, options.read)))?;
    ctx.did(&key, Effect { modified: false, ..Effect::sent(Class::Stream, "xgroup-setid", 1) });
    ctx.out.ok();
    Ok(())
}

const XGROUP_SETID: Command = Command::new(
    Exec::Keys(xgroup_setid),
    Row::sub("xgroup|setid", "setid", CommandGroup::Stream, -5, "5.0.0")
        .about("Sets the last ID that a group was given.", "O(1)")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(2, UPDATES)])
        .history(&[("7.0.0", "`entries_read`.")])
        .args(&[key("key", 0), GROUP, ID, ENTRIES_READ]),
);

/// XGROUP DESTROY key group
fn xgroup_destroy(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, args) = (ctx.key(2), ctx.args);
    let removed = ctx.tx.stream_mut(&key, |stream| stream.remove_group(args.get(3)))?;
    match removed {
        None => return Err(errors::XGROUP_NO_KEY),
        Some(false) => ctx.out.integer(0),
        Some(true) => {
            ctx.did(&key, Effect { modified: false, ..Effect::sent(Class::Stream, "xgroup-destroy", 1) });
            ctx.tx.wake_waiters(&key);
            ctx.out.integer(1);
        }
    }
    Ok(())
}

const XGROUP_DESTROY: Command = Command::new(
    Exec::Keys(xgroup_destroy),
    Row::sub("xgroup|destroy", "destroy", CommandGroup::Stream, 4, "5.0.0")
        .about("Removes a group.", "O(1), and O(N) in its pending entries in the background")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(2, DELETES)])
        .args(&[key("key", 0), GROUP]),
);

/// XGROUP CREATECONSUMER key group consumer
fn xgroup_createconsumer(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    needs_group(ctx)?;
    let (key, args, now_ms) = (ctx.key(2), ctx.args, ctx.tx.now_ms());
    let meet = |group: &mut StreamGroup| group.meet(args.get(4), now_ms, false);
    let is_new = ctx.tx.stream_mut(&key, |stream| stream.change_group(args.get(3), meet))?.flatten();
    if is_new == Some(true) {
        ctx.did(&key, Effect { modified: false, ..Effect::sent(Class::Stream, "xgroup-createconsumer", 1) });
    } else {
        ctx.tx.did_nothing(&key);
    }
    ctx.out.integer(i64::from(is_new == Some(true)));
    Ok(())
}

const XGROUP_CREATECONSUMER: Command = Command::new(
    Exec::Keys(xgroup_createconsumer),
    Row::sub("xgroup|createconsumer", "createconsumer", CommandGroup::Stream, 5, "6.2.0")
        .about("Makes a consumer of a group.", "O(log(N)) in its consumers")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(2, INSERTS)])
        .args(&[key("key", 0), GROUP, CONSUMER]),
);

/// XGROUP DELCONSUMER key group consumer
fn xgroup_delconsumer(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    needs_group(ctx)?;
    let (key, args) = (ctx.key(2), ctx.args);
    let remove = |group: &mut StreamGroup| group.remove_consumer(args.get(4));
    let gone = ctx.tx.stream_mut(&key, |stream| stream.change_group(args.get(3), remove))?.flatten();
    match gone.flatten() {
        Some(_) => ctx.did(&key, Effect { modified: false, ..Effect::sent(Class::Stream, "xgroup-delconsumer", 1) }),
        None => ctx.tx.did_nothing(&key),
    }
    ctx.out.integer(gone.flatten().unwrap_or(0) as i64);
    Ok(())
}

const XGROUP_DELCONSUMER: Command = Command::new(
    Exec::Keys(xgroup_delconsumer),
    Row::sub("xgroup|delconsumer", "delconsumer", CommandGroup::Stream, 5, "5.0.0")
        .about("Removes a consumer of a group with its pending entries.", "O(N) in the group's pending entries")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(2, DELETES)])
        .args(&[key("key", 0), GROUP, CONSUMER]),
);

/// XGROUP HELP
fn xgroup_help(ctx: &mut SessionCtx<'_>) -> CmdResult {
    help(
        ctx.out,
        "XGROUP",
        &[
            "CREATE <key> <groupname> <id|$> [option]",
            "    Make a group that is given the entries behind <id>. Options:",
            "    * MKSTREAM",
            "      Make an empty stream if there is no such key.",
            "    * ENTRIESREAD <entries-read>",
            "      Set the number of entries that the group was given.",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Make a consumer of the group.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove a consumer of the group.",
            "DESTROY <key> <groupname>",
            "    Remove the group.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD <entries-read>]",
            "    Set the last ID that the group was given.",
        ],
    );
    Ok(())
}

const XGROUP_HELP: Command = Command::new(
    Exec::Session(xgroup_help),
    Row::sub("xgroup|help", "help", CommandGroup::Stream, 2, "5.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::STREAM]),
);

const XGROUP: Command = Command::container(
    Row::new("xgroup", CommandGroup::Stream, -2, "5.0.0").about("Groups of consumers.", ""),
    SUBCOMMANDS,
);

/// Reports what a command has made again by these words, beside no event.
pub(super) fn did_quietly(tx: &mut Tx<'_>, key: &varve_store::Key<'_>, changes: u64, words: &dyn Fn(&mut Words<'_>)) {
    tx.did(key, Effect::quiet(Class::Stream, changes, Again::Words(words)));
}

/// The key of a group that is not there, or has no such group.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> CommandError {
    errors::no_key_or_group(key, group)
}
