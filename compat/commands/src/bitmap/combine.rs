//! BITOP: a string made of others, bit by bit.
//!
//! ```text
//! sources   | shorter ones end early: zeros behind |
//! result    as long as the longest; none of no bytes
//! ```
//! A long result is made in a run of its own, part by part and with no shard held, of sources that are pinned. Those that have no
//! run are folded into one or two copies: a request may name the same string a million times. Where sources that were never written make a result of zeros, nothing is read or written. Its key adopts the run at the end, if the sources are as they were when the command began; else it
//! begins anew.

use smallvec::SmallVec;
use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress, Sources};
use varve_protocol::{OwnedArgs, Reply};
use varve_store::{OpenExtent, Pin, PinRead, ShardSet, StoreWorker, StringForm, Ttl, Tx};

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::PART_BYTES;
use crate::errors;
use crate::grammar::is;

pub(super) const ROWS: FileRows = &[BITOP];

/// An operation on the bits of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    /// Of one source: those that are not set.
    Not,
    /// Those of the first source that no other one has.
    Diff,
    /// Those that another source has and the first one has not.
    Diff1,
    /// Those of the first source that another one has too.
    AndOr,
    /// Those that exactly one source has.
    One,
}

impl Operation {
    /// Reads the name; an operation that takes another number of sources is refused.
    fn parse(name: &[u8], sources: usize) -> CmdResult<Operation> {
        const NAMES: [(&str, Operation); 8] = [
            ("AND", Operation::And),
            ("OR", Operation::Or),
            ("XOR", Operation::Xor),
            ("NOT", Operation::Not),
            ("DIFF", Operation::Diff),
            ("DIFF1", Operation::Diff1),
            ("ANDOR", Operation::AndOr),
            ("ONE", Operation::One),
        ];
        let (name, operation) = NAMES.into_iter().find(|(known, _)| is(name, known)).ok_or(CommandError::SYNTAX)?;
        match operation {
            Operation::Not if sources != 1 => Err(errors::BITOP_ONE_SOURCE),
            Operation::Diff | Operation::Diff1 | Operation::AndOr if sources < 2 => Err(errors::bitop_sources(name)),
            _ => Ok(operation),
        }
    }

    /// True if the first source counts otherwise than the others; the order of these never matters.
    fn tells_the_first_apart(self) -> bool {
        matches!(self, Operation::Diff | Operation::Diff1 | Operation::AndOr | Operation::Not)
    }
}

/// Sources combined to one or two that give the same result.
#[derive(Default)]
struct Folded {
    /// Their result so far, as long as the longest; of ONE the bits that any of them has.
    bytes: Option<Vec<u8>>,
    /// Of ONE: the bits that several of them have. As a source of its own it makes those two at least.
    several: Vec<u8>,
}

impl Folded {
    fn add(&mut self, operation: Operation, source: &[u8]) {
        let Some(bytes) = &mut self.bytes else {
            self.bytes = Some(source.to_vec());
            return;
        };
        bytes.resize(bytes.len().max(source.len()), 0);
        if operation == Operation::One {
            self.several.resize(bytes.len(), 0);
            let both = self.several.iter_mut().zip(&*bytes).zip(source);
            both.for_each(|((several, byte), new)| *several |= byte & new);
        }
        merge(operation, bytes, source);
    }

    /// The result's sources.
    fn into_sources(self) -> impl Iterator<Item = Source> {
        let several = Some(self.several).filter(|several| !several.is_empty());
        self.bytes.into_iter().chain(several).map(|bytes| Source::Copied(bytes.into()))
    }
}

/// Bytes that are combined at once: what is in between stays in the nearest cache.
const BLOCK: usize = 4096;

/// Combines the sources into `to`, which has zeros.
fn combine<'s>(operation: Operation, sources: impl Iterator<Item = &'s [u8]> + Clone, to: &mut [u8]) {
    let mut more = [0; BLOCK];
    for (i, block) in to.chunks_mut(BLOCK).enumerate() {
        let (at, bytes) = (i * BLOCK, block.len());
        let mut parts = sources.clone().map(|source| {
            let there = source.get(at..).unwrap_or_default();
            &there[..there.len().min(bytes)]
        });
        let first = parts.next().unwrap_or_default();
        match operation {
            Operation::And | Operation::Or | Operation::Xor => {
                block[..first.len()].copy_from_slice(first);
                parts.for_each(|part| merge(operation, block, part));
            }
            Operation::Not => {
                block[..first.len()].copy_from_slice(first);
                block.iter_mut().for_each(|byte| *byte = !*byte);
            }
            Operation::One => {
                // `block` has what came once or more often, `more` what came more often.
                let more = &mut more[..block.len()];
                more.fill(0);
                block[..first.len()].copy_from_slice(first);
                for part in parts {
                    for ((byte, more), &new) in block.iter_mut().zip(&mut *more).zip(part) {
                        *more |= *byte & new;
                        *byte |= new;
                    }
                }
                block.iter_mut().zip(more).for_each(|(byte, more)| *byte &= !*more);
            }
            Operation::Diff | Operation::Diff1 | Operation::AndOr => {
                parts.for_each(|part| merge(Operation::Or, block, part));
                let zeros = std::iter::repeat(&0);
                for (byte, &first) in block.iter_mut().zip(first.iter().chain(zeros)) {
                    *byte = match operation {
                        Operation::Diff => first & !*byte,
                        Operation::Diff1 => *byte & !first,
                        _ => *byte & first,
                    };
                }
            }
        }
    }
}

/// Merges a source, which has zeros behind its end, into a block.
fn merge(operation: Operation, block: &mut [u8], source: &[u8]) {
    let (head, tail) = block.split_at_mut(source.len());
    match operation {
        Operation::And => {
            head.iter_mut().zip(source).for_each(|(byte, other)| *byte &= other);
            tail.fill(0);
        }
        Operation::Xor => head.iter_mut().zip(source).for_each(|(byte, other)| *byte ^= other),
        _ => head.iter_mut().zip(source).for_each(|(byte, other)| *byte |= other),
    }
}

/// Of a result that is made up to offset `from`: where the zeros end that stand there whatever the written parts of the sources hold,
/// and, if none do, where to look again. `written` has the next written part of each source.
fn next_part(operation: Operation, written: impl Iterator<Item = Range<usize>> + Clone, from: usize) -> (usize, usize) {
    let mut starts = written.clone().map(|part| part.start);
    let begin = match operation {
        Operation::Not => Some(from),
        Operation::And => starts.max(),
        Operation::Diff | Operation::AndOr => starts.next(),
        _ => starts.min(),
    };
    let end = match operation {
        Operation::Not => usize::MAX,
        _ => written.filter(|part| part.start <= from).map(|part| part.end).max().unwrap_or(usize::MAX),
    };
    debug_assert!(end > from, "a written part that ends at {end} comes next at {from}");
    (begin.expect("at least one source"), end)
}

/// Makes the next bytes of a result, of which some `most` are combined.
fn make_some(operation: Operation, sources: &[Source], result: &mut OpenExtent, most: usize) {
    let mut left = most;
    while left > 0 && result.filled() < result.len() {
        let from = result.filled();
        let (zeros_end, end) = next_part(operation, sources.iter().map(|source| source.next_written(from)), from);
        if zeros_end > from {
            result.skip(zeros_end.min(result.len()) - from);
            continue;
        }
        let part = left.min(end.min(result.len()) - from).min(Pin::READ_BYTES);
        let parts: SmallVec<[Part<'_>; 4]> = sources.iter().map(|source| source.part(from, part)).collect();
        // Only bytes that lie together in each source are combined at once; a source that has ended has zeros.
        let goes_on = |(source, part): &(&Source, &Part<'_>)| from + part.len() < source.len();
        let part = sources.iter().zip(&parts).filter(goes_on).map(|(_, part)| part.len()).fold(part, usize::min);
        debug_assert!(part > 0, "a source has no byte at {from}");
        let bytes = parts.iter().map(|bytes| &bytes[..bytes.len().min(part)]);
        combine(operation, bytes, &mut result.rest()[..part]);
        drop(parts);
        result.advance(part);
        left -= part;
    }
}

/// BITOP operation destkey key [key ...]
fn bitop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let operation = Operation::parse(ctx.args.get(1), ctx.args.len() - 3)?;
    let mut longest = 0;
    for at in 3..ctx.args.len() {
        let key = ctx.key(at);
        longest = longest.max(ctx.tx.get(&key)?.map_or(0, <[u8]>::len));
    }
    ctx.admit_more(longest as u64)?;
    // The shards may have been let go meanwhile.
    let mut sources: SmallVec<[Source; 4]> = SmallVec::new();
    let mut folded = Folded::default();
    for at in 3..ctx.args.len() {
        let key = ctx.key(at);
        if let Some(pin) = ctx.tx.pin(&key) {
            sources.push(Source::Pinned(pin));
            continue;
        }
        let bytes = ctx.tx.peek(&key)?.unwrap_or_default();
        if at == 3 && operation.tells_the_first_apart() {
            sources.push(Source::Copied(bytes.into()));
        } else {
            folded.add(operation, bytes);
        }
    }
    sources.extend(folded.into_sources());
    let longest = sources.iter().map(Source::len).max().unwrap_or(0);
    let run = if longest > PART_BYTES { ctx.tx.store().log().begin_extent(longest) } else { None };
    if let Some(run) = run {
        if !ctx.session.takes_parts() {
            return make_at_once(ctx, operation, &sources, run);
        }
        let sources = sources.into_vec();
        ctx.go_on_building(|tx, args, keeps| {
            let words = args.args();
            let named = Sources::begin(tx, words.iter().skip(3), Some(words.get(2)), keeps);
            Box::new(LongOperation { args: Arc::clone(args), operation, sources, named, run: Some(run) })
        });
        return Ok(());
    }
    let target = ctx.key(2);
    if longest == 0 {
        let taken = ctx.tx.remove(&target);
        ctx.did_store(Class::String, "set", &target, 0, taken);
    } else {
        let mut result = vec![0; longest];
        let whole: SmallVec<[Cow<'_, [u8]>; 4]> = sources.iter().map(Source::whole).collect();
        combine(operation, whole.iter().map(|bytes| &bytes[..]), &mut result);
        drop(whole);
        drop(sources);
        ctx.tx.set(&target, &result, Ttl::Clear, StringForm::Raw);
        ctx.did(&target, Effect::sent(Class::String, "set", 1));
    }
    ctx.out.integer(longest as i64);
    Ok(())
}

/// Makes a long result whole.
#[cold]
fn make_at_once(ctx: &mut Ctx<'_, '_>, operation: Operation, sources: &[Source], mut run: OpenExtent) -> CmdResult {
    make_some(operation, sources, &mut run, usize::MAX);
    let (target, run) = (ctx.key(2), run.finish());
    ctx.tx.adopt(&target, &run, Ttl::Clear, StringForm::Raw);
    ctx.did(&target, Effect::sent(Class::String, "set", 1));
    ctx.out.integer(run.len() as i64);
    Ok(())
}

const BITOP: Command = Command::new(
    Exec::Keys(bitop),
    Row::new("bitop", Group::Bitmap, -4, "2.6.0")
        .about("Makes a string of others, bit by bit.", "O(N) in the bytes of the sources")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::BITMAP])
        .keys(&[
            KeySpec::one(2, KeyFlags::OW.and(KeyFlags::UPDATE)),
            KeySpec::range(3, -1, 1, KeyFlags::RO.and(KeyFlags::ACCESS)),
        ])
        .args(&[arg("operation", ArgKind::String), key("destkey", 0), key("key", 1).multiple()]),
);

/// A string that is combined with others.
enum Source {
    Pinned(Pin),
    /// It has no run of its own, and so some hundred kilobytes at most.
    Copied(Box<[u8]>),
}

impl Source {
    /// The part of its bytes, from offset `from` on, before which all are zero; far away if none follows.
    fn next_written(&self, from: usize) -> Range<usize> {
        let part = match self {
            Source::Pinned(pin) => pin.next_written(from),
            Source::Copied(bytes) => from.min(bytes.len())..bytes.len(),
        };
        if part.is_empty() { usize::MAX..usize::MAX } else { part }
    }

    fn len(&self) -> usize {
        match self {
            Source::Pinned(pin) => pin.len(),
            Source::Copied(bytes) => bytes.len(),
        }
    }

    /// Its bytes from offset `from` on that lie together, up to `most`; none behind its end.
    fn part(&self, from: usize, most: usize) -> Part<'_> {
        let range = from.min(self.len())..self.len().min(from + most);
        match self {
            Source::Pinned(pin) if !range.is_empty() => Part::Pinned(pin.read(range)),
            Source::Pinned(_) => Part::Copied(&[]),
            Source::Copied(bytes) => Part::Copied(&bytes[range]),
        }
    }

    /// All of it, for short results.
    fn whole(&self) -> Cow<'_, [u8]> {
        match self {
            Source::Copied(bytes) => Cow::Borrowed(bytes),
            Source::Pinned(pin) => {
                let mut bytes = Vec::with_capacity(pin.len());
                pin.each_part(0..pin.len(), |part| bytes.extend_from_slice(part));
                Cow::Owned(bytes)
            }
        }
    }
}

/// Some bytes of a source, while they are combined.
enum Part<'s> {
    Pinned(PinRead<'s>),
    Copied(&'s [u8]),
}

impl Deref for Part<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Part::Pinned(bytes) => bytes,
            Part::Copied(bytes) => bytes,
        }
    }
}

/// A BITOP that is under way.
struct LongOperation {
    args: Arc<OwnedArgs>,
    operation: Operation,
    sources: Vec<Source>,
    /// The keys of the sources.
    named: Sources,
    /// The result as far as it is made; the last part takes it.
    run: Option<OpenExtent>,
}

impl Ongoing for LongOperation {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let run = self.run.as_mut().expect("the last part takes it");
        if run.filled() < run.len() {
            // A part of the sources together: each is read.
            make_some(self.operation, &self.sources, run, (PART_BYTES / self.sources.len()).max(BLOCK));
            return Progress::More;
        }
        let args = self.args.args();
        let target = tx.key(args.get(2));
        let shards = args.iter().skip(2).map(|key| tx.shard_of_bytes(key));
        if !self.named.try_hold(tx, &shards.collect::<ShardSet>()) || self.named.bars(tx, &target) {
            return Progress::Busy;
        }
        if self.named.end(tx) {
            return Progress::Anew;
        }
        let run = self.run.take().expect("it is filled").finish();
        tx.adopt(&target, &run, Ttl::Clear, StringForm::Raw);
        tx.did(&target, Effect::sent(Class::String, "set", 1));
        out.integer(run.len() as i64);
        Progress::Done
    }

    fn sources(&self) -> Option<&Sources> {
        Some(&self.named)
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.named.abandon(worker);
    }

    fn held_bytes(&self) -> usize {
        let copied = |source: &Source| if let Source::Copied(bytes) = source { bytes.len() } else { 0 };
        self.sources.iter().map(copied).sum::<usize>()
    }

    fn kept_bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bit of the result, by the definition.
    fn wanted(operation: Operation, bits: &[bool]) -> bool {
        let others = bits[1..].iter().any(|bit| *bit);
        match operation {
            Operation::And => bits.iter().all(|bit| *bit),
            Operation::Or => bits[0] || others,
            Operation::Xor => bits.iter().filter(|bit| **bit).count() % 2 == 1,
            Operation::Not => !bits[0],
            Operation::Diff => bits[0] && !others,
            Operation::Diff1 => !bits[0] && others,
            Operation::AndOr => bits[0] && others,
            Operation::One => bits.iter().filter(|bit| **bit).count() == 1,
        }
    }

    #[test]
    fn every_operation_is_that_of_each_bit() {
        let lengths = [BLOCK + 100, 0, 77, 2 * BLOCK + 3];
        let sources: Vec<Vec<u8>> = lengths
            .iter()
            .enumerate()
            .map(|(i, &len)| (0..len).map(|n| ((n * (31 + 2 * i)) >> 3) as u8).collect())
            .collect();
        let names = ["AND", "OR", "XOR", "NOT", "DIFF", "DIFF1", "ANDOR", "ONE"];
        for name in names {
            for count in 1..=sources.len() {
                let Ok(operation) = Operation::parse(name.as_bytes(), count) else { continue };
                let sources = &sources[..count];
                let longest = sources.iter().map(Vec::len).max().unwrap();
                let mut result = vec![0; longest];
                let cut = longest / 3;
                let slices = || sources.iter().map(Vec::as_slice);
                let from = |at: usize| slices().map(move |bytes| bytes.get(at..).unwrap_or_default());
                combine(operation, from(0), &mut result[..cut]);
                combine(operation, from(cut), &mut result[cut..]);
                for bit in 0..8 * longest {
                    let of = |bytes: &[u8]| bytes.get(bit / 8).is_some_and(|byte| byte >> (7 - bit % 8) & 1 == 1);
                    let bits: Vec<bool> = slices().map(of).collect();
                    assert_eq!(of(&result), wanted(operation, &bits), "bit {bit} of {name} of {count}");
                }
                // Folded from any number of sources on, whose order does not matter.
                for apart in usize::from(operation.tells_the_first_apart())..=count {
                    let mut folded = Folded::default();
                    sources[apart..].iter().for_each(|source| folded.add(operation, source));
                    let folded: Vec<Source> = folded.into_sources().collect();
                    assert!(folded.len() <= 2, "{} sources for {}", folded.len(), count - apart);
                    let whole: Vec<_> = folded.iter().map(Source::whole).collect();
                    let all = sources[..apart].iter().map(Vec::as_slice).chain(whole.iter().map(|bytes| &bytes[..]));
                    let mut again = vec![0; longest];
                    combine(operation, all, &mut again);
                    assert_eq!(again, result, "{name} of {count}, {apart} of them apart");
                }
            }
        }
        assert!(Operation::parse(b"NOT", 2).is_err() && Operation::parse(b"DIFF", 1).is_err());
    }
}
