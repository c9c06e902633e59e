//! How members of several sets become one result, and their scores one score.

use varve_exec::{CmdResult, CommandError};

use crate::grammar::is;

/// The operation: which members belong to the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Union,
    Inter,
    Diff,
}

/// The scores of one member in several sets become this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
    /// The sum of the weights of those that have the member, whatever its scores are: of Redis 8.8.
    Count,
}

impl Aggregate {
    /// Reads the word behind AGGREGATE.
    pub(super) fn parse(word: &[u8]) -> CmdResult<Aggregate> {
        const WORDS: [(&str, Aggregate); 4] =
            [("SUM", Aggregate::Sum), ("MIN", Aggregate::Min), ("MAX", Aggregate::Max), ("COUNT", Aggregate::Count)];
        WORDS.into_iter().find(|(name, _)| is(word, name)).map(|(_, aggregate)| aggregate).ok_or(CommandError::SYNTAX)
    }

    /// A set's share in the score of a member.
    pub(super) fn share(self, weight: f64, score: f64) -> f64 {
        if self == Aggregate::Count { weight } else { weight * score }
    }

    /// The score of a member that has `old` already.
    pub(super) fn fold(self, old: f64, new: f64) -> f64 {
        match self {
            Aggregate::Sum | Aggregate::Count => or_zero(old + new),
            // Written out: what is no number loses against `old`.
            Aggregate::Min => {
                if new < old {
                    new
                } else {
                    old
                }
            }
            Aggregate::Max => {
                if new > old {
                    new
                } else {
                    old
                }
            }
        }
    }
}

/// A score, or 0 for what is no number.
pub(super) fn or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}
