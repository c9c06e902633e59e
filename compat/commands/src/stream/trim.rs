//! The words of a trimming, in XADD and XTRIM: MAXLEN | MINID [= | ~] threshold [LIMIT count].

use varve_base::number::push_u64;
use varve_catalog::{ArgKind, Argument, arg, block, one_of, word};
use varve_exec::notify::Words;
use varve_exec::{CmdResult, CommandError};
use varve_protocol::Args;
use varve_store::{StreamId, StreamWriter, Trim};

use super::id::{id_text, parse_strict};
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
    pub(super) only_existing: bool,
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
            } else if is_add && is(word, "NOMKSTREAM") {
                options.only_existing = true;
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

    /// Trims; the number of entries that went. `node_entries` is the setting's.
    pub(super) fn run(&self, stream: &mut StreamWriter<'_, '_>, node_entries: u64) -> u64 {
        let Some(Trimming { trim, is_approximate, .. }) = self.trimming else { return 0 };
        let usual = match LIMIT_NODES.saturating_mul(node_entries) {
            0 => LIMIT_WITHOUT_NODES,
            entries => entries.min(LIMIT_MAX),
        };
        let limit = match self.limit.unwrap_or(usual) {
            0 => u64::MAX,
            limit => limit,
        };
        stream.trim(trim, is_approximate.then_some(limit))
    }

    /// Whether the command must be written with what the trimming did.
    pub(super) fn is_approximate(&self) -> bool {
        self.trimming.is_some_and(|trimming| trimming.is_approximate)
    }

    /// Writes argument `at` so that the trimming is done again with the same result: exact, and without a limit.
    pub(super) fn word_again(&self, args: &Args<'_>, at: usize, result: Trimmed, words: &mut Words<'_>) {
        let Some(trimming) = self.trimming.filter(|trimming| trimming.is_approximate) else {
            words.add(args.get(at));
            return;
        };
        let is_limit = self.limit_at.is_some_and(|limit| at == limit || at + 1 == limit);
        if at + 1 == trimming.at {
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

/// The entries that a trimming has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trimmed {
    len: u64,
    /// The first of them; the greatest ID without any.
    first: StreamId,
}

impl Trimmed {
    /// Those of this stream.
    pub(super) fn of(stream: &StreamWriter<'_, '_>) -> Trimmed {
        let read = stream.read();
        let first = read.first().map_or(StreamId::MAX, |entry| entry.id);
        Trimmed { len: read.facts().len, first }
    }
}
