//! RESTORE: a payload as a key's value, a long one over several turns.
//!
//! ```text
//!  short   sum, measure (shard held)                                                    --> the key changes
//!  long    sum .. measure .. admit   with no shard held
//!          batch, batch, ..  into a collection that no key leads to yet                --> the key leads to it
//!  large string    sum .. piece, piece, ..  into a run of its own, no shard held       --> the key adopts it
//! ```
//! A value is read twice: once to its end, so that a key that is replaced is there until the new value is known to be
//! sound, and so that its bytes are admitted before any is taken; each batch is admitted again, since others take memory
//! meanwhile. A large string is read once, piece by piece, each of which is admitted. The key changes at one instant, in the
//! last part.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use varve_exec::notify::{Class, Effect, Words, did_remove};
use varve_exec::{CmdResult, CommandError, Ongoing, Progress};
use varve_protocol::{Args, OwnedArgs, Reply};
use varve_rdb::crc::{Crc64, agrees};
use varve_rdb::{Dialect, Distinct, Kind, Part, ReadError, ReadFault, StringReader, ValueReader, dump};
use varve_store::{FilledExtent, Key, OpenExtent, Removal, StringForm, Ttl, Tx, Type, Unpublished, VALUE_BYTES_MAX};

use super::insertion::{Insertion, check};
use super::stream::GroupMaker;
use crate::errors;
use crate::grammar::{integer, is};

/// Bytes that are summed in one part.
const SUM_BYTES: usize = 4 << 20;
/// Elements that are looked at in one part.
const MEASURE_PARTS: u64 = 2048;
/// Bytes of elements that are looked at in one part.
const MEASURE_BYTES: u64 = 256 << 10;
/// Bytes of a large string that are taken over in one part: they are copied to new pages in some 100 us.
const FILL_BYTES: usize = 256 << 10;
/// Bytes that an element costs at most beside its own.
const ELEMENT_BYTES: u64 = 64;
/// Bytes of a group or a consumer beside its name, at most.
const GROUP_BYTES: usize = 512;
const SOUND: &str = "the value has been read to its end before";

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

/// A value that is read to its end, of which nothing is kept.
pub(super) struct Measure<R> {
    reader: ValueReader<R>,
    distinct: Distinct,
    /// The groups of a stream are made once to see that they are sound.
    groups: GroupMaker,
    size: Size,
}

/// The size of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// A bound on the bytes that it needs in the store.
    pub(super) bytes: u64,
    /// Its elements, members or fields; 1 of a string.
    parts: u64,
}

impl<R: Read> Measure<R> {
    /// A value at its first byte.
    pub(super) fn new(reader: ValueReader<R>) -> Measure<R> {
        let mut distinct = Distinct::default();
        distinct.begin(reader.kind());
        Measure { reader, distinct, groups: GroupMaker::default(), size: Size::default() }
    }

    /// Reads on; gives the size of the value when it has been read to its end.
    ///
    /// # Errors
    /// The value has no parts, has one twice, or is nothing that the store keeps.
    pub(super) fn step(&mut self) -> Result<Option<Size>, ReadError> {
        let begin = self.size;
        while let Some(part) = self.reader.next_part()? {
            let Measure { distinct, groups, size, .. } = self;
            let text = match look_at(&part, distinct, groups) {
                Ok(text) => text,
                Err(fault) => return Err(self.reader.error(fault)),
            };
            size.bytes += text as u64 + ELEMENT_BYTES;
            size.parts += 1;
            if size.parts - begin.parts >= MEASURE_PARTS || size.bytes - begin.bytes >= MEASURE_BYTES {
                return Ok(None);
            }
        }
        self.groups.finish().map_err(|fault| self.reader.error(fault))?;
        if self.size.parts > 0 { Ok(Some(self.size)) } else { Err(self.reader.error(ReadFault::Empty)) }
    }
}

/// Looks at a part of a value, and gives the bytes of its texts: what the store would not take is found here, so that a value
/// is inserted without a fault or not at all.
fn look_at(part: &Part<'_>, distinct: &mut Distinct, groups: &mut GroupMaker) -> Result<usize, ReadFault> {
    check(part)?;
    let bytes = match *part {
        Part::Whole(text) | Part::Element(text) | Part::Scored(text, _) => text.len(),
        Part::Pair(field, value) | Part::DatedPair(field, value, _) => field.len() + value.len(),
        Part::Entry(..) | Part::Tail(_) => 0,
        Part::Names(names) => names.len(),
        Part::Group(name, ..) | Part::Consumer(name, ..) => {
            groups.collect(*part)?;
            name.len() + GROUP_BYTES
        }
        Part::Pending(..) | Part::Owned(_) => {
            groups.collect(*part)?;
            0
        }
    };
    distinct.add(part)?;
    Ok(bytes)
}

/// A payload is refused: its client learns that its format is bad, and the log has where and why. A key that was damaged
/// elsewhere is found so.
#[cold]
pub(super) fn refused(key: &[u8], error: ReadError) -> CommandError {
    tracing::warn!("RESTORE has refused a payload: {}", error.of_key(key));
    errors::DUMP_FORMAT
}

/// Makes a value that has been read once that of a key which is not there.
pub(super) fn insert<R: Read>(tx: &mut Tx<'_>, key: &Key<'_>, mut reader: ValueReader<R>) {
    let mut insertion = Insertion::default();
    insertion.begin(reader.kind()).expect(SOUND);
    while let Some(part) = reader.next_part().expect(SOUND) {
        insertion.add(tx, key, part).expect(SOUND);
    }
    insertion.end(tx, key).expect(SOUND);
}

/// Gives the key, whose shard is held, the value that `make` makes, and reports it. A time that has come already ends the
/// key, except where a file is replayed: what was done with the key before its end follows there.
///
/// # Errors
/// The key is there and is not to be replaced.
pub(super) fn put(
    tx: &mut Tx<'_>,
    key: &Key<'_>,
    args: Args<'_>,
    options: Options,
    make: impl FnOnce(&mut Tx<'_>, &Key<'_>),
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
    make(tx, key);
    tx.set_expiry(key, until);
    match (options.idle_s, options.freq) {
        (Some(idle_s), _) => tx.set_idle(key, idle_s),
        (_, Some(freq)) => tx.set_freq(key, freq),
        (None, None) => {}
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

/// The value of a payload, to be read over several turns: bytes of the request's copy.
struct PayloadBytes {
    args: Arc<OwnedArgs>,
    left: Range<usize>,
}

impl Read for PayloadBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.left.len());
        buffer[..count].copy_from_slice(&self.args.args().get(3)[self.left.start..][..count]);
        self.left.start += count;
        Ok(count)
    }
}

/// A RESTORE that is under way.
pub(super) struct LongRestore {
    args: Arc<OwnedArgs>,
    options: Options,
    dialect: Dialect,
    /// Bytes of type and value.
    typed_bytes: usize,
    stage: Stage,
    size: Size,
}

/// How far it has come.
enum Stage {
    /// The checksum, and how many bytes are summed.
    Sum(Crc64, usize),
    Measure(Box<Measure<PayloadBytes>>),
    /// The pieces of a large string go to a run.
    Fill(Box<StringReader<PayloadBytes>>, OpenExtent),
    /// The elements go to a collection. A batch that is full goes first, and so does the last one.
    Build {
        reader: Box<ValueReader<PayloadBytes>>,
        batch: Insertion,
        is_full: bool,
        has_ended: bool,
        to: Unpublished,
    },
    Publish(New),
}

/// A new value, of which only the key does not know.
enum New {
    Collection(Unpublished),
    Run(FilledExtent),
    /// It is small: the payload is read once more.
    Small,
    /// It was made the key's.
    Published,
}

impl LongRestore {
    /// The request is `args`; type and value have this number of bytes.
    pub(super) fn new(args: &Arc<OwnedArgs>, options: Options, dialect: Dialect, typed_bytes: usize) -> LongRestore {
        let stage = Stage::Sum(Crc64::new(), 0);
        LongRestore { args: Arc::clone(args), options, dialect, typed_bytes, stage, size: Size::default() }
    }

    fn reader(&self) -> CmdResult<ValueReader<PayloadBytes>> {
        let number = self.args.args().get(3).first().filter(|_| self.typed_bytes > 0);
        let number = *number.ok_or(errors::DUMP_FORMAT)?;
        ValueReader::of(self.dialect, number, self.value(), self.typed_bytes).map_err(|error| self.refused(error))
    }

    /// The payload is refused.
    fn refused(&self, error: ReadError) -> CommandError {
        refused(self.args.args().get(1), error)
    }

    /// The bytes of the value.
    fn value(&self) -> PayloadBytes {
        PayloadBytes { args: Arc::clone(&self.args), left: 1..self.typed_bytes }
    }

    /// The stage behind the sum: the pieces of a large string go to a run at once, all else is measured.
    fn after_sum(&self, tx: &Tx<'_>) -> CmdResult<Stage> {
        let reader = self.reader()?;
        if reader.kind() == Kind::String {
            let pieces = StringReader::new(self.value()).map_err(|error| self.refused(error))?;
            if let Some(run) = begin_run(tx, &pieces)? {
                return Ok(Stage::Fill(Box::new(pieces), run));
            }
        }
        Ok(Stage::Measure(Box::new(Measure::new(reader))))
    }

    fn step(&mut self, tx: &mut Tx<'_>) -> CmdResult<Progress> {
        match &mut self.stage {
            Stage::Sum(crc, done) => {
                let args = self.args.args();
                let frame = dump::Frame::of(args.get(3)).ok_or(errors::DUMP_CHECKSUM)?;
                let end = frame.summed.len().min(*done + SUM_BYTES);
                crc.add(&frame.summed[*done..end]);
                *done = end;
                if end == frame.summed.len() {
                    agrees(frame.sum, crc.get()).then_some(()).ok_or(errors::DUMP_CHECKSUM)?;
                    self.stage = self.after_sum(tx)?;
                }
                Ok(Progress::More)
            }
            Stage::Measure(measure) => {
                let size = measure.step();
                if let Some(size) = size.map_err(|error| self.refused(error))? {
                    self.size = size;
                    if let Err(refusal) = tx.admit(size.bytes) {
                        return Ok(refusal.into());
                    }
                    return self.begin(tx);
                }
                Ok(Progress::More)
            }
            Stage::Fill(pieces, run) => {
                if let Err(refusal) = tx.admit(FILL_BYTES.min(run.len() - run.filled()) as u64) {
                    return Ok(refusal.into());
                }
                if fill(self.args.args().get(1), pieces, run, FILL_BYTES)? {
                    let Stage::Fill(_, run) = std::mem::replace(&mut self.stage, Stage::Publish(New::Small)) else {
                        unreachable!("a run was filled")
                    };
                    self.stage = Stage::Publish(New::Run(run.finish()));
                }
                Ok(Progress::More)
            }
            Stage::Build { .. } => self.build(tx),
            Stage::Publish(_) => self.publish(tx),
        }
    }

    /// Begins to make the value, whose size is known.
    fn begin(&mut self, tx: &mut Tx<'_>) -> CmdResult<Progress> {
        let reader = self.reader()?;
        let ty = match reader.kind() {
            Kind::List => Type::List,
            Kind::Set => Type::Set,
            Kind::Hash => Type::Hash,
            Kind::Zset => Type::Zset,
            Kind::Stream => Type::Stream,
            // Values of modules were refused.
            Kind::String | Kind::Module => {
                self.stage = Stage::Publish(New::Small);
                return Ok(Progress::More);
            }
        };
        if self.size.parts <= MEASURE_PARTS.max(tx.store().shapes().small(ty).entries())
            && self.size.bytes <= MEASURE_BYTES
        {
            self.stage = Stage::Publish(New::Small);
            return Ok(Progress::More);
        }
        let args = self.args.args();
        let key = tx.key(args.get(1));
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Ok(Progress::Busy);
        }
        let mut batch = Insertion::default();
        batch.begin(reader.kind()).map_err(|_| errors::DUMP_FORMAT)?;
        let to = tx.begin_unpublished(&key, ty);
        self.stage = Stage::Build { reader: Box::new(reader), batch, is_full: false, has_ended: false, to };
        Ok(Progress::More)
    }

    /// Adds a batch of elements.
    fn build(&mut self, tx: &mut Tx<'_>) -> CmdResult<Progress> {
        let Stage::Build { reader, batch, is_full, has_ended, to } = &mut self.stage else {
            unreachable!("elements are added")
        };
        while !*is_full && !*has_ended {
            match reader.next_part().expect(SOUND) {
                Some(part) => *is_full = batch.collect(part).map_err(|_| errors::DUMP_FORMAT)?,
                None => *has_ended = true,
            }
        }
        if let Err(refusal) = tx.admit(batch.bytes()) {
            return Ok(refusal.into());
        }
        if !batch.flush_unseen(tx, to).map_err(|_| errors::DUMP_FORMAT)? {
            return Ok(Progress::Busy);
        }
        *is_full = false;
        if *has_ended {
            let Stage::Build { to, .. } = std::mem::replace(&mut self.stage, Stage::Publish(New::Small)) else {
                unreachable!("elements were added")
            };
            self.stage = Stage::Publish(New::Collection(to));
        }
        Ok(Progress::More)
    }

    /// Changes the key, and ends.
    fn publish(&mut self, tx: &mut Tx<'_>) -> CmdResult<Progress> {
        let args = self.args.args();
        let key = tx.key(args.get(1));
        let Stage::Publish(new) = &mut self.stage else { unreachable!("the value is made") };
        let is_held = match new {
            New::Collection(built) => tx.try_hold_to_publish(&key, built),
            _ => tx.try_hold_to_write(&key),
        };
        if !is_held {
            return Ok(Progress::Busy);
        }
        let new = std::mem::replace(new, New::Published);
        let small = if matches!(new, New::Small) { Some(self.reader()?) } else { None };
        put(tx, &key, args, self.options, |tx, key| match new {
            New::Collection(built) => tx.publish_built(key, built),
            New::Run(run) => tx.adopt(key, &run, Ttl::Clear, StringForm::Auto),
            New::Small => insert(tx, key, small.expect("it was opened just now")),
            New::Published => unreachable!("it is published once"),
        })?;
        Ok(Progress::Done)
    }
}

/// A run for a string of which nothing was read; None if it is too short for one.
///
/// # Errors
/// It is longer than any string, or there are no addresses for it.
fn begin_run<R: Read>(tx: &Tx<'_>, pieces: &StringReader<R>) -> CmdResult<Option<OpenExtent>> {
    let bytes = usize::try_from(pieces.left()).ok().filter(|bytes| *bytes <= VALUE_BYTES_MAX);
    let bytes = bytes.ok_or(errors::DUMP_FORMAT)?;
    let log = tx.store().log();
    if bytes <= log.extent_min_bytes() {
        return Ok(None);
    }
    log.begin_extent(bytes).map(Some).ok_or(CommandError::OUT_OF_MEMORY)
}

/// Fills the run of a string with its next pieces, some `most` bytes, which are admitted; true when all are there.
///
/// # Errors
/// The string is damaged.
fn fill<R: Read>(key: &[u8], pieces: &mut StringReader<R>, run: &mut OpenExtent, most: usize) -> CmdResult<bool> {
    let begin = run.filled();
    while run.filled() - begin < most {
        let Some(piece) = pieces.next_piece().map_err(|error| refused(key, error))? else { return Ok(true) };
        run.push(piece);
    }
    Ok(false)
}

impl Ongoing for LongRestore {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        match self.step(tx) {
            Ok(progress) => {
                if matches!(progress, Progress::Done) {
                    out.ok();
                }
                progress
            }
            Err(error) => Progress::Failed(error),
        }
    }

    fn held_bytes(&self) -> usize {
        // The names that are looked for twice.
        16 * self.size.parts as usize
    }

    fn kept_bytes(&self) -> usize {
        0
    }
}
