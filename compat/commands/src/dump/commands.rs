//! DUMP and RESTORE.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key, word};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Args;
use varve_rdb::{Distinct, Part, RdbBuffer, ReadError, ValueReader, dump};
use varve_store::{Key, Removal};

use super::insertion::Insertion;
use super::value::{kind_of, put_value};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[DUMP, RESTORE];

/// DUMP key
fn dump_key(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    if !ctx.tx.touch(&key) {
        ctx.out.null();
        return Ok(());
    }
    let payload = ctx.tx.look(&key, |value| {
        let mut encoded = RdbBuffer::new(true);
        encoded.kind(kind_of(value.ty()));
        put_value(value, &mut encoded);
        let mut payload = encoded.into_compressed();
        dump::seal(&mut payload);
        payload
    });
    match payload {
        Some(payload) => ctx.out.bulk(&payload),
        None => ctx.out.null(),
    }
    Ok(())
}

const DUMP: Command = Command::new(
    Exec::Keys(dump_key),
    Row::new("dump", Group::Generic, 2, "2.6.0")
        .about(
            "Answers a key's value in a form that RESTORE takes.",
            "O(N*M) where N is the number of elements and M their mean size",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0)]),
);

/// The options of RESTORE.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_s: Option<u64>,
    freq: Option<u8>,
}

impl Options {
    fn parse(args: &Args<'_>) -> CmdResult<Options> {
        let mut options = Options::default();
        let mut at = 4;
        while at < args.len() {
            let (word, has_next) = (args.get(at), at + 1 < args.len());
            if is(word, "REPLACE") {
                options.replace = true;
            } else if is(word, "ABSTTL") {
                options.absolute = true;
            } else if is(word, "IDLETIME") && has_next && options.freq.is_none() {
                at += 1;
                let idle_s = u64::try_from(integer(args.get(at))?).map_err(|_| errors::IDLE_TIME_RANGE)?;
                options.idle_s = Some(idle_s);
            } else if is(word, "FREQ") && has_next && options.idle_s.is_none() {
                at += 1;
                let freq = u8::try_from(integer(args.get(at))?).map_err(|_| errors::FREQUENCY_RANGE)?;
                options.freq = Some(freq);
            } else {
                return Err(CommandError::SYNTAX);
            }
            at += 1;
        }
        Ok(options)
    }
}

/// RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds | FREQ counter]
fn restore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let options = Options::parse(&ctx.args)?;
    let key = ctx.key(1);
    if !options.replace && ctx.tx.exists(&key) {
        return Err(errors::BUSY_KEY);
    }
    let ttl = integer(ctx.args.get(2))?;
    if ttl < 0 {
        return Err(errors::TTL_NEGATIVE);
    }
    let (dialect, typed) = dump::open(ctx.args.get(3)).ok_or(errors::DUMP_CHECKSUM)?;
    let reader = || ValueReader::of_dump(dialect, typed).map_err(|_| errors::DUMP_FORMAT);
    let bytes = measure(reader()?).map_err(|_| errors::DUMP_FORMAT)?.ok_or(errors::DUMP_FORMAT)?;
    ctx.tx.admit_more(bytes).map_err(|_| CommandError::OUT_OF_MEMORY)?;
    // The shard may have been let go meanwhile.
    if !options.replace && ctx.tx.exists(&key) {
        return Err(errors::BUSY_KEY);
    }
    let replaced = ctx.tx.remove(&key);
    let until = match ttl {
        0 => None,
        _ if options.absolute => Some(ttl),
        _ => Some(ttl.saturating_add(ctx.tx.now_ms())),
    };
    if until.is_some_and(|until| until <= ctx.tx.now_ms()) {
        if replaced {
            ctx.did_remove(&key, Removal::Deleted);
        }
        ctx.out.ok();
        return Ok(());
    }
    insert(ctx, &key, reader()?);
    ctx.tx.set_expiry(&key, until);
    match (options.idle_s, options.freq) {
        (Some(idle_s), _) => ctx.tx.set_idle(&key, idle_s),
        (_, Some(freq)) => ctx.tx.set_freq(&key, freq),
        (None, None) => {}
    }
    report(ctx, &key, until.filter(|_| !options.absolute));
    ctx.out.ok();
    Ok(())
}

const RESTORE: Command = Command::new(
    Exec::Keys(restore),
    Row::new("restore", Group::Generic, -4, "2.6.0")
        .about(
            "Makes a key from what DUMP has answered.",
            "O(N*M) where N is the number of elements and M their mean size, O(N*M*log(N)) for sorted sets",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
        .keys(&[KeySpec::one(1, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .history(&[("3.0.0", "`REPLACE`."), ("5.0.0", "`ABSTTL`."), ("5.0.0", "`IDLETIME` and `FREQ`.")])
        .args(&[
            key("key", 0),
            arg("ttl", ArgKind::Integer),
            arg("serialized-value", ArgKind::String),
            word("replace", "REPLACE").since("3.0.0").optional(),
            word("absttl", "ABSTTL").since("5.0.0").optional(),
            arg("seconds", ArgKind::Integer).token("IDLETIME").since("5.0.0").optional(),
            arg("frequency", ArgKind::Integer).token("FREQ").since("5.0.0").optional(),
        ]),
);

/// Reads a value to its end and inserts nothing: a key that is replaced is there until the new value is known to be
/// sound. Gives a bound on the bytes that it needs; None if it has no parts, has one twice, or is nothing that the store
/// keeps.
fn measure(mut reader: ValueReader<'_>) -> Result<Option<u64>, ReadError> {
    /// Bytes that an element costs at most beside its own.
    const ELEMENT_BYTES: u64 = 64;
    let mut distinct = Distinct::default();
    distinct.begin(reader.kind());
    let (mut bytes, mut parts) = (0, 0u64);
    while let Some(part) = reader.next_part()? {
        let text = match part {
            Part::Whole(text) | Part::Element(text) | Part::Scored(text, _) => text.len(),
            Part::Pair(field, value) => field.len() + value.len(),
            // Fields that expire are not there yet.
            Part::DatedPair(..) => return Ok(None),
        };
        if distinct.add(&part).is_err() {
            return Ok(None);
        }
        bytes += text as u64 + ELEMENT_BYTES;
        parts += 1;
    }
    Ok((parts > 0).then_some(bytes))
}

/// Inserts a value that has been read once.
fn insert(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, mut reader: ValueReader<'_>) {
    const SOUND: &str = "the value has been read to its end before";
    let mut insertion = Insertion::default();
    insertion.begin(reader.kind()).expect(SOUND);
    while let Some(part) = reader.next_part().expect(SOUND) {
        insertion.add(&mut ctx.tx, key, part).expect(SOUND);
    }
    insertion.end(&mut ctx.tx, key).expect(SOUND);
}

/// Reports the new key; `until` is the expiry that was given as a duration and is absolute in what is done again.
fn report(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, until: Option<i64>) {
    let Some(until) = until else { return ctx.did(key, Effect::sent(Class::Generic, "restore", 1)) };
    let args = ctx.args;
    let absolute = |words: &mut Words<'_>| {
        for at in 0..args.len() {
            match at {
                2 => words.number(until),
                _ => words.add(args.get(at)),
            };
        }
        words.add(b"ABSTTL");
    };
    ctx.did(key, Effect::words(Class::Generic, "restore", 1, &absolute));
}
