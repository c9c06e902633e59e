//! Types between sorted-set commands and the store: bounds, ranges, the conditions and outcomes of an addition.
//!
//! A sorted set is in the order of (score, member): scores as numbers (`-0` equals `0`, no NaN is ever stored), members
//! by their bytes. Ranks count from 0 in that order.

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score at this end; infinities are allowed, NaN is not.
    pub value: f64,
    /// The score itself is outside.
    pub open: bool,
}

/// One end of a range of members. Such a range is meant for members of equal score; over others it is whatever the order
/// of (score, member) makes of two binary searches by member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member.
    Min,
    /// Behind every member.
    Max,
    /// At this member, which is inside.
    Incl(&'a [u8]),
    /// At this member, which is outside.
    Excl(&'a [u8]),
}

/// A part of a sorted set. Always given from the low end to the high one; who wants it backwards says so beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ZRange<'a> {
    /// By rank, both inclusive. They count from the lowest, or, where a reversed range is asked for, from the highest.
    /// Empty if `start` is behind `stop` or the end; a `stop` behind the end is the last.
    Rank {
        /// The first.
        start: u64,
        /// The last.
        stop: u64,
    },
    /// By score.
    Score {
        /// The low end.
        min: ScoreBound,
        /// The high end.
        max: ScoreBound,
    },
    /// By member.
    Lex {
        /// The low end.
        min: LexBound<'a>,
        /// The high end.
        max: LexBound<'a>,
    },
}

/// The conditions of an addition. Which of them exclude each other is the command's business: all that are set must
/// hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZAdd {
    /// Only if the member is not there.
    pub nx: bool,
    /// Only if the member is there.
    pub xx: bool,
    /// An existing score only becomes greater.
    pub gt: bool,
    /// An existing score only becomes less.
    pub lt: bool,
    /// The score is added to the one that is there.
    pub incr: bool,
}

/// The outcome of an addition; the number is the member's score afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ZAdded {
    /// The member is new.
    Added(f64),
    /// The member has another score than before.
    Updated(f64),
    /// The member has the score that it had.
    Same(f64),
    /// A condition did not hold; nothing changed.
    Refused,
    /// The sum of the old score and the given one is not a number; nothing changed.
    NotANumber,
}

/// A receiver of the members of a range. A closure is one, if it need not know beforehand how many there are.
pub trait ZShown {
    /// Announces that `members` members follow.
    fn begin(&mut self, members: usize);
    /// The next member and its score.
    fn member(&mut self, member: &[u8], score: f64);
    /// Whether the members of a long range may come over several holds of the shard.
    fn takes_parts(&self) -> bool {
        false
    }
}

impl<F: FnMut(&[u8], f64)> ZShown for F {
    fn begin(&mut self, _: usize) {}

    fn member(&mut self, member: &[u8], score: f64) {
        self(member, score);
    }
}
