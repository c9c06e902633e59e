//! XADD.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_rdb::format::ENTRY_FIELDS_MAX;
use varve_store::{Idempotence, Key, StreamId, StreamNeed, StreamState, StreamWriter};

use super::id::{id_text, parse_strict};
use super::idempotence::Named;
use super::trim::{Options, REFERENCES, Trimmed, WORDS};
use super::{UPDATES, idempotence};
use crate::errors;

pub(super) const ROWS: FileRows = &[XADD];

/// Most bytes of an entry's fields and values.
const ENTRY_BYTES_MAX: usize = 1 << 30;

/// The ID that an entry is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// The time of now.
    Now,
    /// The next one of this millisecond.
    NextOf(u64),
    /// This one.
    Exactly(StreamId),
}

impl Wanted {
    fn parse(text: &[u8]) -> CmdResult<Wanted> {
        if text == b"*" {
            return Ok(Wanted::Now);
        }
        match text.strip_suffix(b"-*").filter(|ms| !ms.contains(&b'-')) {
            Some(ms) => Ok(Wanted::NextOf(parse_strict(ms, 0)?.ms)),
            None => Ok(Wanted::Exactly(parse_strict(text, 0)?)),
        }
    }

    /// The ID behind those that the stream has had.
    fn behind(self, state: StreamState, now_ms: u64) -> CmdResult<StreamId> {
        let last = state.last;
        if last == StreamId::MAX {
            return Err(errors::STREAM_EXHAUSTED);
        }
        let id = match self {
            Wanted::Now if now_ms > last.ms => StreamId::new(now_ms, 0),
            Wanted::Now => last.next().expect("it is not the greatest"),
            Wanted::NextOf(ms) if ms == last.ms => {
                // redis-server says so too, of a sum that does not fit.
                StreamId::new(ms, last.seq.checked_add(1).ok_or(errors::STREAM_TOO_LARGE)?)
            }
            Wanted::NextOf(ms) => StreamId::new(ms, 0),
            Wanted::Exactly(id) => id,
        };
        if id > last { Ok(id) } else { Err(errors::STREAM_ID_SMALL) }
    }
}

/// XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer | IDMP producer name] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value [field value ...]
fn xadd(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let args = ctx.args;
    let options = Options::parse(&args, true, !ctx.tx.ends_overdue())?;
    let at = options.end;
    let wanted = args.opt(at).map(Wanted::parse).transpose()?.unwrap_or(Wanted::Now);
    options.check(true)?;
    let fields = args.len().saturating_sub(at + 1);
    if fields < 2 || !fields.is_multiple_of(2) {
        return Err(CommandError::arity("xadd"));
    }
    if options.once.is_some() && wanted != Wanted::Now {
        return Err(errors::IDMP_NOT_AUTO);
    }
    if wanted == Wanted::Exactly(StreamId::MIN) {
        return Err(errors::STREAM_ID_ZERO);
    }
    let pairs = (0..fields / 2).map(|n| (args.get(at + 1 + 2 * n), args.get(at + 2 + 2 * n)));
    let (key, now_ms) = (ctx.key(1), ctx.tx.now_ms());
    let named = options.once.map(|once| once.named(&args, pairs.clone()));
    if let Some(named) = &named
        && let Some(Some(id)) = ctx.tx.stream_peek(&key, |stream| named.entry(stream, now_ms))?
    {
        ctx.tx.stream_mut(&key, |stream| stream.count_duplicate())?;
        ctx.out.bulk(&id_text(id));
        return Ok(());
    }
    let found = ctx.tx.stream_peek(&key, |stream| wanted.behind(stream.facts().state, now_ms as u64))?;
    if found.is_none() && options.only_existing {
        ctx.out.null();
        return Ok(());
    }
    let is_new = found.is_none();
    let id = found.unwrap_or_else(|| wanted.behind(StreamState::default(), now_ms as u64))?;
    let bytes = pairs.clone().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    if bytes > ENTRY_BYTES_MAX || fields as u64 / 2 > ENTRY_FIELDS_MAX {
        return Err(errors::STREAM_TOO_LARGE);
    }
    let shapes = ctx.tx.store().shapes();
    let (node_entries, limits) = (shapes.stream().entries, shapes.idempotence());
    let need = if named.is_some() { StreamNeed::Everything } else { StreamNeed::entry(pairs.clone()) };
    let add = |stream: &mut StreamWriter<'_, '_>| {
        stream.add(id, pairs);
        if let Some(named) = &named {
            let begin = || Idempotence::new(limits);
            stream.change_idempotence(begin, |kept| kept.add(named.message(id, now_ms), now_ms));
        }
        options.run(stream, node_entries)
    };
    let trimmed = if is_new {
        ctx.tx.make_stream(&key, need, add)
    } else {
        ctx.tx.stream_mut_for(&key, need, add)?.expect("it is there")
    };
    report(ctx, &key, &Added { wanted, at, id, options: &options, trimmed: &trimmed, named: named.as_ref() });
    if trimmed.gone > 0 {
        ctx.did(&key, Effect::event(Class::Stream, "xtrim"));
    }
    ctx.out.bulk(&id_text(id));
    Ok(())
}

/// An entry that was added, and what its command was.
struct Added<'o> {
    wanted: Wanted,
    /// The argument with the ID.
    at: usize,
    id: StreamId,
    options: &'o Options,
    trimmed: &'o Trimmed,
    /// The message's name, if it is added once.
    named: Option<&'o Named<'o>>,
}

/// Reports an entry, with the words that add it again under its ID.
fn report(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, added: &Added<'_>) {
    let Added { wanted, at, id, options, trimmed, named } = *added;
    let (args, is_given) = (ctx.args, matches!(wanted, Wanted::Exactly(_)));
    if is_given && !options.is_inexact() {
        return ctx.did(key, Effect::sent(Class::Stream, "xadd", 1));
    }
    let words = |words: &mut Words<'_>| {
        for n in 0..args.len() {
            if n == at && !is_given {
                words.add(&id_text(id));
            } else {
                options.word_again(&args, n, trimmed, words);
            }
        }
        if trimmed.has_words() {
            words.next_effect();
            trimmed.words(words, key.bytes);
        }
        if let Some(named) = named {
            words.next_effect();
            named.words(words, key.bytes, id);
        }
    };
    ctx.did(key, Effect::words(Class::Stream, "xadd", 1, &words));
}

const XADD: Command = Command::new(
    Exec::Keys(xadd),
    Row::new("xadd", Group::Stream, -5, "5.0.0")
        .about("Adds an entry to a stream.", "O(1), and O(N) in the entries that are trimmed")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, UPDATES).notes("UPDATE instead of INSERT because of the optional trimming feature")])
        .tips(&["nondeterministic_output"])
        .history(&[
            ("6.2.0", "`NOMKSTREAM`, `MINID` and `LIMIT`."),
            ("7.0.0", "IDs of the form `<ms>-*`."),
            ("8.2.0", "`KEEPREF`, `DELREF` and `ACKED`."),
            ("8.6.0", "`IDMP` and `IDMPAUTO`."),
        ])
        .args(&[
            key("key", 0),
            word("nomkstream", "NOMKSTREAM").since("6.2.0").optional(),
            REFERENCES.optional(),
            idempotence::WORDS.optional(),
            WORDS.optional(),
            one_of("id_or_auto", &[word("auto_id", "*"), arg("id", ArgKind::String)]),
            block("field_value", &[arg("field", ArgKind::String), arg("value", ArgKind::String)]).multiple(),
        ]),
);
