//! Steps: bounded pieces of background work, and of the room that writers need.
//!
//! Each step is a function of the store and a worker. It takes shards by `try_lock`.
//!
//! | file | what |
//! |---|---|
//! | `free`, `sweep`, `index_growth` | dying collections; emptied databases; indexes that grow or shrink |
//! | `expiry` | keys whose time has come |
//! | `evict`, `victim` | which keys go, which segment is drained |
//! | `debt`, `drain`, `page_cache` | how much is dead, the drain, memory kept for new segments |
//! | `room` | admission of writes, and the limit |
//! | `purge`, `rest` | MEMORY PURGE; what is dead in a store that nobody writes to |
//! | `flush` | FLUSHALL, FLUSHDB, SWAPDB |
//! | `fresh` | a data set that is loaded beside the one that is served |
//! | `survey` | looks at keys in turn: bytes by prefix, times to live, large keys |
//! | `background` | the scheduler |

mod background;
mod debt;
mod drain;
mod evict;
mod expiry;
mod flush;
mod free;
mod fresh;
mod index_growth;
mod page_cache;
mod purge;
mod rest;
pub(crate) mod room;
mod survey;
mod sweep;
mod victim;

/// True until a time that was set at most `ahead_ms` ahead. One that is farther away was set before the clock was set back.
fn is_near(time_ms: i64, now_ms: i64, ahead_ms: i64) -> bool {
    (1..=ahead_ms).contains(&(time_ms - now_ms))
}

/// The result of a step: of several steps the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "the scheduler needs to know whether work is left"]
pub(crate) enum Step {
    /// There is nothing, or nothing more, to do.
    Done,
    /// A lock was busy: the work is left for another round.
    Busy,
    /// It did something, and there may be more.
    More,
}

impl Step {
    /// `More` if there is more, else `Done`.
    pub(crate) fn more(more: bool) -> Step {
        if more { Step::More } else { Step::Done }
    }
}

/// The result of a slice of work that makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// Objects were relocated or evicted; more may be left.
    Progress,
    /// Objects were relocated, and the victim is empty.
    Drained,
    /// A lock was busy; nothing was done.
    Busy,
    /// There is no victim, or no key that may be evicted.
    Nothing,
}
