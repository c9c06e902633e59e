//! A RESTORE of a long payload, over several turns.
//!
//! ```text
//!  Sum .. Measure .. admit      with no shard held
//!     small       Gather ..     its parts wait in a batch, no shard held                  ─▶ Publish: the key changes
//!     large       Build ..      batches into a collection that no key leads to yet        ─▶ Publish: the key leads to it
//!     string      Fill ..       pieces into a run of its own, no shard held               ─▶ Publish: the key adopts it
//!     refused, or its client has left: what was kept is given back, in steps
//! ```
//! Each step reads, expands, passes over or makes a bounded number of things. Long strings are admitted before they take memory, each
//! batch is admitted again, since others take memory meanwhile. A large string is read once, piece by piece, each of which is
//! admitted. The key changes at one instant, in the last part; whatever fails before that leaves it as it was.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use varve_exec::{CmdResult, CommandError, Ongoing, Progress};
use varve_protocol::{OwnedArgs, Reply};
use varve_rdb::crc::{Crc64, agrees};
use varve_rdb::{Dialect, Kind, Part, ReadError, ReadFault, ReadStep, StringReader, ValueReader, dump};
use varve_store::{FilledExtent, OpenExtent, StoreWorker, StringForm, Ttl, Tx, Type, Unpublished, VALUE_BYTES_MAX};

use super::insertion::Insertion;
use super::measure::{Measure, STEP_BYTES, Size};
use super::restoring::{Collected, Options, collect, put, refused};
use super::spent::Spent;
use crate::errors;

/// Bytes that are summed in one part.
const SUM_BYTES: usize = 4 << 20;
/// Parts that one step has wait, at most: a pending entry of a group costs a microsecond.
const COLLECT_PARTS: u64 = 512;
/// Bytes of a large string that are taken over in one part: they are copied to new pages in some 100 us.
const FILL_BYTES: usize = 256 << 10;
/// Bytes of memory of a string that is read by pieces: its buffer, and the piece that is made.
const FILL_HELD_BYTES: usize = 192 << 10;

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
    /// Notes that nobody asks for any more.
    spent: Spent,
    /// Why nothing is done any more but to give memory back.
    end: Option<End>,
}

/// An end before the key has changed.
enum End {
    /// The client has left.
    Left,
    /// The payload is refused, and nobody was told yet.
    Refused(CommandError),
}

/// How far it has come.
enum Stage {
    /// The checksum, and how many bytes are summed.
    Sum(Box<Crc64>, usize),
    Measure(Box<Measure<PayloadBytes>>),
    /// The value is measured, and is to be admitted.
    Measured(Box<ValueReader<PayloadBytes>>, Size),
    /// The pieces of a large string go to a run.
    Fill(Box<StringReader<PayloadBytes>>, OpenExtent),
    /// The parts of a small value wait.
    Gather(Collecting),
    /// The elements go to a collection.
    Build(Collecting, Unpublished),
    Publish(New),
}

/// The second reading.
struct Collecting {
    reader: Box<ValueReader<PayloadBytes>>,
    batch: Box<Insertion>,
    /// The batch goes first, before anything else is read.
    is_full: bool,
    has_ended: bool,
}

/// A new value, of which only the key does not know.
enum New {
    Collection(Unpublished),
    Run(FilledExtent),
    Text(Vec<u8>),
    /// All of its parts wait.
    Small(Box<Insertion>),
    /// It was made the key's.
    Published,
}

impl Collecting {
    fn begin(mut reader: Box<ValueReader<PayloadBytes>>, value: PayloadBytes) -> Result<Collecting, ReadError> {
        reader.again(value);
        let mut batch = Box::<Insertion>::default();
        batch.begin(reader.kind()).map_err(|fault| reader.error(fault))?;
        Ok(Collecting { reader, batch, is_full: false, has_ended: false })
    }

    /// Reads on: some parts, until the batch is full where it `fills`, until memory is wanted, or to the end.
    fn step(&mut self, fills: bool) -> Result<(), ReadError> {
        let Collecting { reader, batch, is_full, has_ended } = self;
        let (begin, mut parts) = (reader.work(), 0);
        while !*is_full && !*has_ended && parts < COLLECT_PARTS && reader.work() - begin < STEP_BYTES {
            match collect(reader, batch)? {
                Collected::Waits(many) => parts += many,
                Collected::Full(many) => {
                    parts += many;
                    *is_full = fills;
                }
                Collected::All => *has_ended = true,
            }
            if reader.wanted_bytes() > 0 {
                break;
            }
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.reader.held_bytes() + self.batch.held_bytes()
    }
}

impl LongRestore {
    /// The request is `args`; type and value have this number of bytes.
    pub(super) fn new(args: &Arc<OwnedArgs>, options: Options, dialect: Dialect, typed_bytes: usize) -> LongRestore {
        let (stage, spent) = (Stage::Sum(Box::new(Crc64::new()), 0), Spent::default());
        LongRestore { args: Arc::clone(args), options, dialect, typed_bytes, stage, spent, end: None }
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

    fn step(&mut self, tx: &mut Tx<'_>) -> CmdResult<Progress> {
        let is_free = self.spent.free_some();
        match self.stage {
            Stage::Sum(..) => self.sum(tx),
            Stage::Measure(_) => self.measure(tx),
            Stage::Measured(..) => self.begin(tx),
            Stage::Fill(..) => self.fill(tx),
            Stage::Gather(_) => self.gather(tx),
            Stage::Build(..) => self.build(tx),
            Stage::Publish(_) if !is_free => Ok(Progress::More),
            Stage::Publish(_) => self.publish(tx),
        }
    }

    /// Sums some more of the payload.
    fn sum(&mut self, tx: &Tx<'_>) -> CmdResult<Progress> {
        let Stage::Sum(crc, done) = &mut self.stage else { unreachable!("the payload is summed") };
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

    /// The stage behind the sum: the pieces of a large string go to a run at once, all else is measured.
    fn after_sum(&self, tx: &Tx<'_>) -> CmdResult<Stage> {
        let reader = self.reader()?;
        if reader.kind() == Kind::String {
            let pieces = StringReader::new(self.value()).map_err(|error| self.refused(error))?;
            if let Some(run) = begin_run(tx, &pieces)? {
                return Ok(Stage::Fill(Box::new(pieces), run));
            }
        }
        let measure = Measure::new(reader, self.typed_bytes);
        measure.map(|measure| Stage::Measure(Box::new(measure))).map_err(|error| self.refused(error))
    }

    /// Measures some more of the value.
    fn measure(&mut self, tx: &mut Tx<'_>) -> CmdResult<Progress> {
        let Stage::Measure(measure) = &mut self.stage else { unreachable!("the value is measured") };
        let wanted = measure.wanted_bytes();
        if wanted > 0
            && let Err(refusal) = tx.admit(wanted)
        {
            return Ok(refusal.into());
        }
        match measure.step() {
            Ok(None) => Ok(Progress::More),
            Ok(Some(size)) => {
                let reader = self.end_measure().expect("the value was measured");
                self.stage = Stage::Measured(Box::new(reader), size);
                self.begin(tx)
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Ends to measure the value, if that was under way; what was noted is given back from here on.
    fn end_measure(&mut self) -> Option<ValueReader<PayloadBytes>> {
        let Stage::Measure(measure) = std::mem::replace(&mut self.stage, Stage::Publish(New::Published)) else {
            return None;
        };
        let (reader, spent) = measure.into_parts();
        self.spent = spent;
        Some(reader)
    }

    /// Asks for no notes any more, whatever the stage.
    fn spend(&mut self) {
        match &mut self.stage {
            Stage::Measure(_) => _ = self.end_measure(),
            // A batch that was read to its end, or one that is left, gets no more entries.
            Stage::Build(collecting, _) if self.spent.made.capacity() == 0 => {
                self.spent.made = collecting.batch.take_pending();
            }
            _ => {}
        }
    }

    /// Gives some of what was kept back: what was noted in steps, a batch of a stream to the stream, whose shard may be busy. Where all
    /// is given back the command ends, and its client is told if it was refused.
    fn give_back(&mut self, tx: &mut Tx<'_>) -> Progress {
        self.spend();
        if !self.spent.free_some() {
            return Progress::More;
        }
        if let Stage::Build(collecting, to) = &mut self.stage
            && !collecting.batch.leave_to(tx, to)
        {
            return Progress::Busy;
        }
        match self.end.take() {
            Some(End::Refused(error)) => Progress::Failed(error),
            Some(End::Left) | None => Progress::Done,
        }
    }

    /// Begins to make the value, whose size is known.
    fn begin(&mut self, tx: &mut Tx<'_>) -> CmdResult<Progress> {
        let Stage::Measured(reader, size) = &self.stage else { unreachable!("the value was measured") };
        let (kind, size) = (reader.kind(), *size);
        if let Err(refusal) = tx.admit(size.bytes) {
            return Ok(refusal.into());
        }
        let ty = match kind {
            Kind::List => Some(Type::List),
            Kind::Set => Some(Type::Set),
            Kind::Hash => Some(Type::Hash),
            Kind::Zset => Some(Type::Zset),
            Kind::Stream => Some(Type::Stream),
            // Values of modules were refused.
            Kind::String | Kind::Module => None,
        };
        let large = ty.filter(|ty| !size.is_small(tx.store().shapes().small(*ty).entries()));
        let args = self.args.args();
        let key = tx.key(args.get(1));
        if large.is_some() && !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Ok(Progress::Busy);
        }
        let Stage::Measured(reader, _) = std::mem::replace(&mut self.stage, Stage::Publish(New::Published)) else {
            unreachable!("the value was measured")
        };
        let collecting = Collecting::begin(reader, self.value()).map_err(|error| self.refused(error))?;
        self.stage = match large {
            Some(ty) => Stage::Build(collecting, tx.begin_unpublished(&key, ty)),
            None => Stage::Gather(collecting),
        };
        Ok(Progress::More)
    }

    /// Takes over the next pieces of a large string.
    fn fill(&mut self, tx: &mut Tx<'_>) -> CmdResult<Progress> {
        let Stage::Fill(pieces, run) = &mut self.stage else { unreachable!("a run is filled") };
        if let Err(refusal) = tx.admit(FILL_BYTES.min(run.len() - run.filled()) as u64) {
            return Ok(refusal.into());
        }
        if fill(self.args.args().get(1), pieces, run, FILL_BYTES)? {
            let Stage::Fill(_, run) = std::mem::replace(&mut self.stage, Stage::Publish(New::Published)) else {
                unreachable!("a run was filled")
            };
            self.stage = Stage::Publish(New::Run(run.finish()));
        }
        Ok(Progress::More)
    }

    /// Has some more parts of a small value wait.
    fn gather(&mut self, tx: &mut Tx<'_>) -> CmdResult<Progress> {
        let Stage::Gather(collecting) = &mut self.stage else { unreachable!("parts are gathered") };
        let wanted = collecting.reader.wanted_bytes();
        if wanted > 0
            && let Err(refusal) = tx.admit(wanted)
        {
            return Ok(refusal.into());
        }
        let new = if collecting.reader.kind() == Kind::String {
            text_of(&mut collecting.reader)
        } else {
            collecting
                .step(false)
                .map(|()| collecting.has_ended.then(|| New::Small(std::mem::take(&mut collecting.batch))))
        };
        if let Some(new) = new.map_err(|error| self.refused(error))? {
            self.stage = Stage::Publish(new);
        }
        Ok(Progress::More)
    }

    /// Adds a batch of elements, or reads some more of it.
    fn build(&mut self, tx: &mut Tx<'_>) -> CmdResult<Progress> {
        let Stage::Build(collecting, to) = &mut self.stage else { unreachable!("elements are added") };
        let wanted = collecting.reader.wanted_bytes();
        if wanted > 0
            && let Err(refusal) = tx.admit(wanted)
        {
            return Ok(refusal.into());
        }
        let refused = |error| refused(self.args.args().get(1), error);
        collecting.step(true).map_err(refused)?;
        let Collecting { reader, batch, is_full, has_ended } = collecting;
        if !*is_full && !*has_ended {
            return Ok(Progress::More);
        }
        if let Err(refusal) = tx.admit(batch.bytes()) {
            return Ok(refusal.into());
        }
        let flushed = batch.flush_unseen(tx, to, *has_ended);
        if !flushed.map_err(|fault| refused(reader.error(fault)))? {
            return Ok(Progress::Busy);
        }
        *is_full = false;
        if *has_ended {
            self.spent.made = batch.take_pending();
            let Stage::Build(_, to) = std::mem::replace(&mut self.stage, Stage::Publish(New::Published)) else {
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
        // Of a hash that is replaced, fields may be due: those of a million are not removed in one part.
        if !is_held || tx.sheds_due_fields(&key) {
            return Ok(Progress::Busy);
        }
        let new = std::mem::replace(new, New::Published);
        put(tx, &key, args, self.options, |tx, key| {
            match new {
                New::Collection(built) => tx.publish_built(key, built),
                New::Run(run) => tx.adopt(key, &run, Ttl::Clear, StringForm::Auto),
                New::Text(text) => tx.set(key, &text, Ttl::Clear, StringForm::Auto),
                New::Small(mut batch) => {
                    let error = |fault| refused(key.bytes, ReadError::new(fault, self.typed_bytes as u64));
                    batch.end(tx, key).map(drop).map_err(error)?;
                }
                New::Published => unreachable!("it is published once"),
            }
            Ok(())
        })?;
        Ok(Progress::Done)
    }
}

/// The text of a string that is too short for a run; None if it is not whole yet.
fn text_of(reader: &mut ValueReader<PayloadBytes>) -> Result<Option<New>, ReadError> {
    let text = match reader.step()? {
        ReadStep::Part(Part::Whole(text)) => text,
        ReadStep::More => return Ok(None),
        ReadStep::Part(_) | ReadStep::End => unreachable!("a string is one part"),
    };
    let mut copy = Vec::new();
    if copy.try_reserve_exact(text.len()).is_err() {
        return Err(reader.error(ReadFault::Memory));
    }
    copy.extend_from_slice(text);
    Ok(Some(New::Text(copy)))
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
        if self.end.is_none() {
            match self.step(tx) {
                Ok(Progress::Failed(error)) | Err(error) => self.end = Some(End::Refused(error)),
                Ok(progress) => {
                    if matches!(progress, Progress::Done) {
                        out.ok();
                    }
                    return progress;
                }
            }
        }
        self.give_back(tx)
    }

    fn held_bytes(&self) -> usize {
        let stage = match &self.stage {
            Stage::Sum(..) => 0,
            Stage::Measure(measure) => measure.held_bytes(),
            Stage::Measured(reader, _) => reader.held_bytes(),
            Stage::Fill(..) => FILL_HELD_BYTES,
            Stage::Gather(collecting) | Stage::Build(collecting, _) => collecting.held_bytes(),
            Stage::Publish(New::Text(text)) => text.capacity(),
            Stage::Publish(New::Small(batch)) => batch.held_bytes(),
            Stage::Publish(_) => 0,
        };
        stage + self.spent.held_bytes()
    }

    fn kept_bytes(&self) -> usize {
        0
    }

    fn writes(&self) -> bool {
        self.end.is_none()
    }

    fn refuse(&mut self, error: CommandError) -> Option<CommandError> {
        self.end = Some(End::Refused(error));
        None
    }

    fn outlives_client(&mut self) -> bool {
        // The names of a value of 500 MB may take a gigabyte, which the system takes 100 ms to have back; the batch of a stream may
        // have millions of pending entries.
        self.spend();
        self.end = Some(End::Left);
        !self.spent.free_some() || matches!(self.stage, Stage::Build(..))
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        // A group may have millions of pending entries, which are given back in steps only with a stream.
        if let Stage::Build(collecting, to) = &mut self.stage {
            worker.try_inside(0, |tx| _ = collecting.batch.leave_to(tx, to));
        }
    }
}
