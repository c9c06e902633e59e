//! XCFGSET, XIDMPRECORD, and XADD's words IDMP and IDMPAUTO: messages that are sent again are not added again.
//!
//! ```text
//!   XADD k IDMP p m7 * a 1      no m7 of p is known --> added      XADD k 1700000000000-0 a 1 + XIDMPRECORD k p m7 1700000000000-0
//!   XADD k IDMP p m7 * a 1      m7 of p is known ----> its ID is answered, and nothing is added
//! ```
//! Files and replicas have the two commands at the right. The time of a name there is that of its entry's ID. With IDMPAUTO the
//! name is a digest of the fields and values, the same in any order of the pairs.

use std::borrow::Cow;

use varve_base::hash::{GOLDEN_RATIO, digest64_with};
use varve_catalog::{Acl, ArgKind, Argument, Flags, Group, KeySpec, Row, arg, block, key, one_of};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Args;
use varve_rdb::format::MESSAGE_NAME_BYTES_MAX;
use varve_store::{Idempotence, IdempotenceLimits, NamedMessage, StreamId, StreamNeed, StreamReader};

use super::UPDATES;
use super::id::{id_text, parse_strict};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[XCFGSET, XIDMPRECORD];

/// XADD's words, for documentation.
pub(super) const WORDS: Argument = one_of(
    "idmp",
    &[
        block("idmpauto-with-pid", &[arg("pid", ArgKind::String)]).token("IDMPAUTO"),
        block("idmp-with-pid-iid", &[arg("pid", ArgKind::String), arg("iid", ArgKind::String)]).token("IDMP"),
    ],
)
.since("8.6.0");

/// XADD's words for a message that is added once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Once {
    /// The argument with the first of the words.
    at: usize,
    /// The name follows from the message.
    is_automatic: bool,
}

impl Once {
    /// The words that begin with argument `at`, if they do.
    ///
    /// # Errors
    /// A name is empty, or too long.
    pub(super) fn parse(args: &Args<'_>, at: usize) -> CmdResult<Option<Once>> {
        let more = args.len() - 1 - at;
        let once = if is(args.get(at), "IDMPAUTO") && more >= 1 {
            Once { at, is_automatic: true }
        } else if is(args.get(at), "IDMP") && more >= 2 {
            Once { at, is_automatic: false }
        } else {
            return Ok(None);
        };
        if (at + 1..=once.end()).any(|at| args.get(at).len() > MESSAGE_NAME_BYTES_MAX) {
            return Err(errors::IDMP_LONG);
        }
        match (once.is_automatic, args.get(at + 1)) {
            (true, b"") => Err(errors::IDMPAUTO_PRODUCER),
            (false, b"") => Err(errors::IDMP_PRODUCER),
            (false, _) if args.get(at + 2).is_empty() => Err(errors::IDMP_NAME),
            _ => Ok(Some(once)),
        }
    }

    /// The last argument of the words.
    pub(super) fn end(self) -> usize {
        self.at + if self.is_automatic { 1 } else { 2 }
    }

    /// Whether an argument is one of the words.
    pub(super) fn has(self, at: usize) -> bool {
        (self.at..=self.end()).contains(&at)
    }

    /// The name of the message with these fields and values, under the name of its producer.
    pub(super) fn named<'a>(self, args: &Args<'a>, pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Named<'a> {
        let producer = args.get(self.at + 1);
        let name = match self.is_automatic {
            true => Cow::Owned(digest(pairs).to_vec()),
            false => Cow::Borrowed(args.get(self.at + 2)),
        };
        Named { producer, name }
    }
}

/// A message's name and its producer's.
pub(super) struct Named<'a> {
    producer: &'a [u8],
    name: Cow<'a, [u8]>,
}

impl Named<'_> {
    /// The ID of the entry that the message has become, if it is known.
    pub(super) fn entry(&self, stream: StreamReader<'_>, now_ms: i64) -> Option<StreamId> {
        stream.idempotence()?.find(self.producer, &self.name, now_ms)
    }

    /// The message, which has become the entry with an ID.
    pub(super) fn message(&self, id: StreamId, time_ms: i64) -> NamedMessage<'_> {
        NamedMessage { producer: self.producer, name: &self.name, id, time_ms }
    }

    /// Writes the command that notes the name again.
    pub(super) fn words(&self, words: &mut Words<'_>, key: &[u8], id: StreamId) {
        words.add(b"XIDMPRECORD").add(key).add(self.producer).add(&self.name).add(&id_text(id));
    }
}

/// A digest of 16 bytes of fields and values, the same in any order of the pairs. Files have it, so it does not change.
fn digest<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> [u8; 16] {
    let mut sums = [0u64; 2];
    for (field, value) in pairs {
        for (sum, seed) in sums.iter_mut().zip([1, GOLDEN_RATIO]) {
            // The field's hash is the seed of the value's, so that both have their places.
            *sum = sum.wrapping_add(digest64_with(digest64_with(seed, field), value));
        }
    }
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&sums[0].to_be_bytes());
    digest[8..].copy_from_slice(&sums[1].to_be_bytes());
    digest
}

/// Reads XCFGSET's settings over those that the stream has.
fn limits(args: &Args<'_>, mut limits: IdempotenceLimits) -> CmdResult<IdempotenceLimits> {
    if args.len() == 2 {
        return Err(errors::XCFGSET_NOTHING);
    }
    let mut at = 2;
    while at < args.len() {
        let (word, value) = (args.get(at), args.opt(at + 1).ok_or(CommandError::SYNTAX)?);
        let (to, max, error) = if is(word, "IDMP-DURATION") {
            (&mut limits.duration_s, 86_400, errors::IDMP_DURATION)
        } else if is(word, "IDMP-MAXSIZE") {
            (&mut limits.names_max, 10_000, errors::IDMP_MAXSIZE)
        } else {
            return Err(CommandError::SYNTAX);
        };
        *to = u32::try_from(integer(value)?).ok().filter(|number| (1..=max).contains(number)).ok_or(error)?;
        at += 2;
    }
    Ok(limits)
}

/// XCFGSET key [IDMP-DURATION seconds] [IDMP-MAXSIZE count]
fn xcfgset(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, usual) = (ctx.key(1), ctx.tx.store().shapes().idempotence());
    // The words are looked at before the key is.
    limits(&ctx.args, usual)?;
    let has = ctx.tx.stream_peek(&key, |stream| stream.idempotence().map(|kept| kept.limits()))?;
    let limits = limits(&ctx.args, has.ok_or(CommandError::NO_KEY)?.unwrap_or(usual))?;
    ctx.tx.stream_mut_for(&key, StreamNeed::Everything, |stream| {
        stream.change_idempotence(|| Idempotence::new(limits), |kept| kept.set_limits(limits));
    })?;
    ctx.did(&key, Effect::sent(Class::Stream, "xcfgset", 1));
    ctx.out.ok();
    Ok(())
}

const XCFGSET: Command = Command::new(
    Exec::Keys(xcfgset),
    Row::new("xcfgset", Group::Stream, -2, "8.6.0")
        .about("Sets for how long, and how many, names of messages are kept, by which none is added twice.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, UPDATES)])
        .args(&[
            key("key", 0),
            arg("idmp-duration", ArgKind::Integer).token("IDMP-DURATION").optional(),
            arg("idmp-maxsize", ArgKind::Integer).token("IDMP-MAXSIZE").optional(),
        ]),
);

/// XIDMPRECORD key producer name id
fn xidmprecord(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, args, now_ms) = (ctx.key(1), ctx.args, ctx.tx.now_ms());
    let (producer, name, id) = (args.get(2), args.get(3), parse_strict(args.get(4), 0)?);
    if producer.is_empty() || name.is_empty() {
        return Err(if producer.is_empty() { errors::IDMP_PRODUCER } else { errors::IDMP_NAME });
    }
    if producer.len().max(name.len()) > MESSAGE_NAME_BYTES_MAX {
        return Err(errors::IDMP_LONG);
    }
    let named = Named { producer, name: Cow::Borrowed(name) };
    // In a file that is replayed, and on a replica, the entry may be gone: an XADD that trims may remove its own.
    let is_replayed = !ctx.tx.ends_overdue();
    let found = ctx.tx.stream_peek(&key, |stream| (named.entry(stream, now_ms), stream.has(id)))?;
    let (known, has_entry) = found.ok_or(CommandError::NO_KEY)?;
    if known == Some(id) {
        ctx.out.ok();
        return Ok(());
    }
    if !is_replayed && (known.is_some() || !has_entry) {
        return Err(if has_entry { errors::IDMP_OTHER_ID } else { errors::IDMP_NO_ENTRY });
    }
    let usual = ctx.tx.store().shapes().idempotence();
    let time_ms = i64::try_from(id.ms).map_or(now_ms, |ms| ms.min(now_ms));
    ctx.tx.stream_mut_for(&key, StreamNeed::Everything, |stream| {
        stream.change_idempotence(
            || Idempotence::new(usual),
            |kept| {
                // The clock here may be behind the one that forgot the name.
                kept.forget(producer, name);
                kept.add(named.message(id, time_ms), now_ms);
            },
        );
    })?;
    ctx.did(&key, Effect::sent(Class::Stream, "xidmprecord", 1));
    ctx.out.ok();
    Ok(())
}

const XIDMPRECORD: Command = Command::new(
    Exec::Keys(xidmprecord),
    Row::new("xidmprecord", Group::Stream, 5, "8.8.0")
        .about("Notes the name of a message that is in the stream: what files and replicas have.", "O(log(N))")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, UPDATES)])
        .args(&[
            key("key", 0),
            arg("pid", ArgKind::String),
            arg("iid", ArgKind::String),
            arg("stream-id", ArgKind::String),
        ]),
);
