//! The words of a trimming, in XADD and XTRIM: [KEEPREF | DELREF | ACKED] MAXLEN | MINID [= | ~] threshold [LIMIT count].
//!
//! Where references count, a trimming removes at most [`REMOVED_MAX`] entries at once, and the next one goes on: a shard is
//! not held for more. By ACKED entries are removed one by one, and those that a group needs stay between others.

use varve_base::number::push_u64;
use varve_catalog::{ArgKind, Argument, arg, block, one_of, word};
use varve_exec::notify::Words;
use varve_exec::{CmdResult, CommandError};
use varve_protocol::Args;
use varve_store::{StreamId, StreamWriter, Trim};

use super::id::{id_text, parse_strict};
use super::idempotence::Once;
use super::references::{Dropped, References, ack_words, del_words, drop_references, is_needed};
use crate::errors;
use crate::grammar::{integer, is};

/// The words, for documentation.
pub(super) const WORDS: Argument = block(
    "trim",
    &[
        one_of("strategy", &[word("maxlen", "MAXLEN"), word("minid", "MINID").since("6.2.0")]),
        one_of("operator", &[word("equal", "="), word("approximately", "~")]).optional(),
        arg("threshold", ArgKind::String),
        arg("count", ArgKind::Integer).token("LIMIT").since("6.2.0").optional(),
    ],
);

/// The words on references to the entries that are trimmed.
pub(super) const REFERENCES: Argument =
    one_of("condition", &[word("keepref", "KEEPREF"), word("delref", "DELREF"), word("acked", "ACKED")]).since("8.2.0");

/// Most entries that a trimming removes that looks at references, and most that it looks at.
const REMOVED_MAX: u64 = 4096;
const LOOKS_MAX: u64 = 4 * REMOVED_MAX;
/// The least and the greatest limit of a trimming of whole nodes that names none.
const LIMIT_WITHOUT_NODES: u64 = 10_000;
const LIMIT_MAX: u64 = 1_000_000;
/// Nodes that such a trimming may remove.
const LIMIT_NODES: u64 = 100;

/// A trimming that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trimming {
    trim: Trim,
    /// Only whole nodes are removed.
    is_approximate: bool,
    /// The argument with the threshold.
    at: usize,
}

/// The words in front of an ID.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) trimming: Option<Trimming>,
    limit: Option<u64>,
    /// The argument with the limit.
    limit_at: Option<usize>,
    references: References,
    /// The argument that says what becomes of references.
    references_at: Option<usize>,
    pub(super) only_existing: bool,
    /// The message is added once.
    pub(super) once: Option<Once>,
    /// The first argument that is none of these words.
    pub(super) end: usize,
}

impl Options {
    /// Reads the words; those of XADD end where its ID begins. In a file that is replayed a limit may stand with an exact
    /// trimming, where redis-server leaves it, and is none.
    pub(super) fn parse(args: &Args<'_>, is_add: bool, is_replayed: bool) -> CmdResult<Options> {
        let mut options = Options::default();
        let mut at = 2;
        while at < args.len() {
            let (word, more) = (args.get(at), args.len() - 1 - at);
            if is_add && word == b"*" {
                break;
            } else if (is(word, "MAXLEN") || is(word, "MINID")) && more > 0 {
                if options.trimming.is_some() {
                    return Err(errors::TRIM_TWICE);
                }
                let has_operator = more >= 2 && matches!(args.get(at + 1), b"~" | b"=");
                let is_approximate = has_operator && args.get(at + 1) == b"~";
                at += 1 + usize::from(has_operator);
                let threshold = args.get(at);
                let trim = if is(word, "MINID") {
                    Trim::Below(parse_strict(threshold, 0)?)
                } else {
                    Trim::ToLength(u64::try_from(integer(threshold)?).map_err(|_| errors::TRIM_MAXLEN)?)
                };
                options.trimming = Some(Trimming { trim, is_approximate, at });
            } else if is(word, "LIMIT") && more > 0 {
                at += 1;
                options.limit_at = Some(at);
                options.limit = Some(u64::try_from(integer(args.get(at))?).map_err(|_| errors::TRIM_LIMIT)?);
            } else if let (Some(references), None) = (References::parse(word), options.references_at) {
                (options.references, options.references_at) = (references, Some(at));
            } else if is_add && is(word, "NOMKSTREAM") {
                options.only_existing = true;
            } else if let (true, Some(once)) = (is_add, Once::parse(args, at)?) {
                if options.once.replace(once).is_some() {
                    return Err(errors::IDMP_TWICE);
                }
                at = once.end();
            } else if is_add {
                break;
            } else {
                return Err(CommandError::SYNTAX);
            }
            at += 1;
        }
        options.end = at;
        if is_replayed {
            options.limit = None;
        }
        Ok(options)
    }

    /// Looks whether the words go together, which XADD does behind its ID.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn check(&self, is_add: bool) -> CmdResult {
        if self.trimming.is_none() {
            if self.limit.is_some_and(|limit| limit > 0) {
                return Err(errors::TRIM_LIMIT_ALONE);
            }
            if !is_add {
                return Err(errors::TRIM_WHAT);
            }
        }
        let is_approximate = self.trimming.is_some_and(|trimming| trimming.is_approximate);
        if self.limit.is_some() && !is_approximate { Err(errors::TRIM_LIMIT_EXACT) } else { Ok(()) }
    }

    /// Trims. `node_entries` is the setting's.
    pub(super) fn run(&self, stream: &mut StreamWriter<'_, '_>, node_entries: u64) -> Trimmed {
        let mut trimmed = Trimmed::default();
        if let Some(Trimming { trim, is_approximate, .. }) = self.trimming {
            let usual = match LIMIT_NODES.saturating_mul(node_entries) {
                0 => LIMIT_WITHOUT_NODES,
                entries => entries.min(LIMIT_MAX),
            };
            let limit = match self.limit.unwrap_or(usual) {
                _ if !is_approximate => u64::MAX,
                0 => u64::MAX,
                limit => limit,
            };
            match self.references {
                References::Keep => trimmed.gone = stream.trim(trim, is_approximate.then_some(limit)),
                References::Delete => trimmed.with_references(stream, trim, is_approximate.then_some(limit)),
                References::Acked => trimmed.one_by_one(stream, trim, limit),
            }
        }
        let read = stream.read();
        (trimmed.len, trimmed.first) = (read.len(), read.first().map_or(StreamId::MAX, |entry| entry.id));
        trimmed
    }

    /// Whether the command must be written with what the trimming did.
    pub(super) fn is_inexact(&self) -> bool {
        self.references_at.is_some() || self.trimming.is_some_and(|trimming| trimming.is_approximate)
    }

    /// Whether the command's own words trim again, which those of ACKED do not.
    pub(super) fn trims_by_words(&self) -> bool {
        self.references != References::Acked
    }

    /// Writes argument `at` so that the trimming is done again with the same result: exact, and without a limit. By references
    /// it is [`Trimmed::words`] that does it again, what it does beyond that.
    pub(super) fn word_again(&self, args: &Args<'_>, at: usize, result: &Trimmed, words: &mut Words<'_>) {
        if self.references_at == Some(at) || self.once.is_some_and(|once| once.has(at)) {
            return;
        }
        let Some(trimming) = self.trimming.filter(|_| self.is_inexact()) else {
            words.add(args.get(at));
            return;
        };
        let is_limit = self.limit_at.is_some_and(|limit| at == limit || at + 1 == limit);
        // The words of the trimming are its own, whether it has an operator, and its threshold.
        let begin = if matches!(args.get(trimming.at - 1), b"~" | b"=") { trimming.at - 2 } else { trimming.at - 1 };
        if self.references == References::Acked && (begin..=trimming.at).contains(&at) {
            return;
        }
        if at + 1 == trimming.at && at > begin {
            words.add(b"=");
        } else if at == trimming.at {
            words.add(&match trimming.trim {
                Trim::ToLength(_) => {
                    let mut text = Vec::new();
                    push_u64(&mut text, result.len);
                    text
                }
                Trim::Below(_) => id_text(result.first),
            });
        } else if !is_limit {
            words.add(args.get(at));
        }
    }
}

/// The work of a trimming, and the entries that it has left.
#[derive(Clone, Debug)]
pub(super) struct Trimmed {
    /// Number of entries that went.
    pub(super) gone: u64,
    /// Those that went one by one.
    removed: Vec<StreamId>,
    dropped: Dropped,
    len: u64,
    /// The first of those that are left; the greatest ID without any.
    first: StreamId,
}

impl Default for Trimmed {
    fn default() -> Trimmed {
        Trimmed { gone: 0, removed: Vec::new(), dropped: Vec::new(), len: 0, first: StreamId::MAX }
    }
}

impl Trimmed {
    /// Trims some entries, and ends that they are pending.
    fn with_references(&mut self, stream: &mut StreamWriter<'_, '_>, trim: Trim, whole_nodes: Option<u64>) {
        let mut ids = Vec::new();
        let wanted = wanted(stream, trim).min(REMOVED_MAX);
        stream.read().range(StreamId::MIN, StreamId::MAX, false, |entry| {
            if (ids.len() as u64) < wanted {
                ids.push(entry.id);
            }
            (ids.len() as u64) < wanted
        });
        let trim = Trim::ToLength(stream.read().len() - ids.len() as u64);
        self.gone = stream.trim(trim, whole_nodes);
        self.dropped = drop_references(stream, &ids[..self.gone as usize]);
    }

    /// Removes entries that no group needs.
    fn one_by_one(&mut self, stream: &mut StreamWriter<'_, '_>, trim: Trim, limit: u64) {
        let (most, mut looks) = (limit.min(REMOVED_MAX), LOOKS_MAX);
        let below = if let Trim::Below(id) = trim { id } else { StreamId::MAX };
        let most = if let Trim::ToLength(_) = trim { most.min(wanted(stream, trim)) } else { most };
        let read = stream.read();
        let mut ids = Vec::new();
        read.range(StreamId::MIN, StreamId::MAX, false, |entry| {
            looks -= 1;
            let goes_on = (ids.len() as u64) < most && entry.id < below;
            if goes_on && !is_needed(read, entry.id) {
                ids.push(entry.id);
            }
            goes_on && looks > 0
        });
        ids.iter().for_each(|id| _ = stream.remove(*id));
        (self.gone, self.removed) = (ids.len() as u64, ids);
    }

    /// Whether there is more to do again than the command's own words do.
    pub(super) fn has_words(&self) -> bool {
        !self.removed.is_empty() || !self.dropped.is_empty()
    }

    /// Writes what else is done again.
    pub(super) fn words(&self, words: &mut Words<'_>, key: &[u8]) {
        if ack_words(words, key, &self.dropped) && !self.removed.is_empty() {
            words.next_effect();
        }
        if !self.removed.is_empty() {
            del_words(words, key, &self.removed);
        }
    }
}

/// Number of entries that a trimming is to remove.
fn wanted(stream: &StreamWriter<'_, '_>, trim: Trim) -> u64 {
    let read = stream.read();
    match trim {
        Trim::ToLength(most) => read.len().saturating_sub(most),
        Trim::Below(id) => read.rank(id),
    }
}
