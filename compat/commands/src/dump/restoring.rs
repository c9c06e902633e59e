//! RESTORE: a payload as a key's value. A short one is read and inserted at once, with its key's shard held; a long one over several
//! turns (`long_restore.rs`).
//!
//! ```text
//!  short   sum, measure, admit, read again: small   the parts wait in a batch      --> the key changes
//!                                           large   the key changes                --> part after part      (MULTI, scripts)
//!                                           string  it is in memory                --> the key changes
//! ```
//! A value is read twice: once to its end, so that a key that is replaced is there until the new value is known to be sound, and so
//! that its bytes are admitted before any is taken. The second reading takes no memory that the first one has not had. If it fails
//! nevertheless, the key is gone, and the process goes on.

use std::io::Read;

use varve_exec::notify::{Class, Effect, Words, did_remove};
use varve_exec::{CmdResult, CommandError};
use varve_protocol::Args;
use varve_rdb::{Kind, Part, ReadError, ReadFault, ReadStep, ValueReader};
use varve_store::{Key, Overdue, Removal, StringForm, Ttl, Tx};

use super::insertion::Insertion;
use super::measure::{Size, parts_of};
use crate::errors;
use crate::grammar::{integer, is};

/// The options of RESTORE.
#[derive(Clone, Copy, Default)]
pub(super) struct Options {
    pub(super) replace: bool,
    absolute: bool,
    idle_s: Option<u64>,
    freq: Option<u8>,
    /// The time to live that was given, milliseconds; 0 for none.
    pub(super) ttl_ms: i64,
}

impl Options {
    /// Reads the words behind the payload; the time to live is not one of them.
    pub(super) fn parse(args: &Args<'_>) -> CmdResult<Options> {
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

/// A payload is refused: its client learns that its format is bad, and the log has where and why. A key that was damaged
/// elsewhere is found so. Where the system refuses memory, the client learns that, since nothing may be wrong with the payload.
#[cold]
pub(super) fn refused(key: &[u8], error: ReadError) -> CommandError {
    let is_memory = matches!(error.fault(), ReadFault::Memory);
    tracing::warn!("RESTORE has refused a payload: {}", error.of_key(key));
    if is_memory { CommandError::OUT_OF_MEMORY } else { errors::DUMP_FORMAT }
}

/// Gives the key, whose shard is held, the value that the reader is going to read for the second time, of this size. The rest is
/// like [`put`].
///
/// # Errors
/// Those of [`put`]; the system refuses memory.
pub(super) fn put_at_once<R: Read>(
    tx: &mut Tx<'_>,
    key: &Key<'_>,
    (args, options): (Args<'_>, Options),
    mut reader: ValueReader<R>,
    size: Size,
) -> CmdResult {
    let refused = |error| refused(key.bytes, error);
    if reader.kind() == Kind::String {
        let part = reader.next_part().map_err(refused)?;
        let Some(Part::Whole(text)) = part else { unreachable!("a string is one part") };
        return put(tx, key, args, options, |tx, key| {
            tx.set(key, text, Ttl::Clear, StringForm::Auto);
            Ok(())
        });
    }
    let mut insertion = Insertion::default();
    insertion.begin(reader.kind()).map_err(|fault| refused(reader.error(fault)))?;
    let mut is_whole = false;
    if size.is_small(0) {
        while !is_whole {
            is_whole = matches!(collect(&mut reader, &mut insertion).map_err(refused)?, Collected::All);
        }
    }
    put(tx, key, args, options, |tx, key| {
        while !is_whole {
            let part = reader.next_part().map_err(refused)?;
            is_whole = part.is_none();
            let added = part.map_or(Ok(()), |part| insertion.add(tx, key, part));
            added.map_err(|fault| refused(reader.error(fault)))?;
        }
        insertion.end(tx, key).map(drop).map_err(|fault| refused(reader.error(fault)))
    })
}

/// The end of a step of the second reading.
pub(super) enum Collected {
    /// A part waits, if one was read: the work of this number of elements.
    Waits(u64),
    /// A part waits, and the batch is full.
    Full(u64),
    /// The value has been read to its end.
    All,
}

/// Takes a step of the reader, and has the part wait that was read, whether the batch was full or not.
///
/// # Errors
/// Something is wrong with the bytes or with the value; or the system refuses memory.
pub(super) fn collect<R: Read>(reader: &mut ValueReader<R>, insertion: &mut Insertion) -> Result<Collected, ReadError> {
    let (many, is_full) = match reader.step()? {
        ReadStep::Part(part) => (parts_of(&part), insertion.collect(part)),
        ReadStep::More => return Ok(Collected::Waits(0)),
        ReadStep::End => {
            let all = insertion.complete().map(|()| Collected::All);
            return all.map_err(|fault| reader.error(fault));
        }
    };
    let is_full = is_full.map_err(|fault| reader.error(fault))?;
    Ok(if is_full { Collected::Full(many) } else { Collected::Waits(many) })
}

/// Gives the key, whose shard is held, the value that `make` makes, and reports it. A time that has come already ends the
/// key, except where a file is replayed: what was done with the key before its end follows there.
///
/// # Errors
/// The key is there and is not to be replaced. Those of `make`: what it has made is removed, and so is what it was to replace.
pub(super) fn put(
    tx: &mut Tx<'_>,
    key: &Key<'_>,
    args: Args<'_>,
    options: Options,
    make: impl FnOnce(&mut Tx<'_>, &Key<'_>) -> CmdResult,
) -> CmdResult {
    if !options.replace && tx.exists(key) {
        return Err(errors::BUSY_KEY);
    }
    let replaced = tx.remove(key);
    let until = match options.ttl_ms {
        0 => None,
        ttl_ms if options.absolute => Some(ttl_ms),
        ttl_ms => Some(ttl_ms.saturating_add(tx.now_ms())),
    };
    if until.is_some_and(|until| until <= tx.now_ms()) && tx.ends_overdue() {
        if replaced {
            did_remove(tx, key, Removal::Deleted);
        }
        return Ok(());
    }
    // Fields of a hash whose time has come go behind the report: who does it again removes them there.
    let overdue = tx.set_overdue(Overdue::Alive);
    let made = make(tx, key);
    if made.is_ok() {
        tx.set_expiry(key, until);
        match (options.idle_s, options.freq) {
            (Some(idle_s), _) => tx.set_idle(key, idle_s),
            (_, Some(freq)) => tx.set_freq(key, freq),
            (None, None) => {}
        }
    }
    tx.set_overdue(overdue);
    if let Err(error) = made {
        tx.remove(key);
        if replaced {
            did_remove(tx, key, Removal::Deleted);
        }
        return Err(error);
    }
    if let Some(until) = until {
        tx.note_own_date(key, until);
    }
    report(tx, args, key, until.filter(|_| !options.absolute));
    Ok(())
}

/// Reports the new key; `until` is the expiry that was given as a duration and is absolute in what is done again.
fn report(tx: &mut Tx<'_>, args: Args<'_>, key: &Key<'_>, until: Option<i64>) {
    let Some(until) = until else { return tx.did(key, Effect::sent(Class::Generic, "restore", 1)) };
    let absolute = |words: &mut Words<'_>| {
        for at in 0..args.len() {
            match at {
                2 => words.number(until),
                _ => words.add(args.get(at)),
            };
        }
        words.add(b"ABSTTL");
    };
    tx.did(key, Effect::words(Class::Generic, "restore", 1, &absolute));
}
