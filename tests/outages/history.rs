//! The history of a round of faults as clients have seen it, and which promises held.
//!
//! ```text
//!   history A (the old primary) ----x           a write is of the first class of these that it fits:
//!                  \                              leader     the last primary of the round answered it
//!                   `- history B (the new one)    both       two replicas had acknowledged it
//!                                                 promoted   each server that became the primary behind it had acknowledged it
//!                                                 one        WAIT says that a replica had acknowledged it
//!                                                 answered   none had
//! ```
//! A promise is that a write is there if the last primary answered it, or if each server that became the primary behind it had it. One
//! that was killed has nothing. Of all others is counted how many are there. Registers have one writer each, which writes rising
//! numbers: a register that stands at a number has all writes up to it.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{BOXES, LISTS, WRITERS};

/// A key that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The list of this number, which all append to.
    List(usize),
    /// The register of this writer.
    Register(usize),
}

/// The client's knowledge of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No reply: it may have been made.
    Unknown,
    /// An error: it was not made.
    Refused,
    /// It was made. `copies` is WAIT's reply, `held_by` has the boxes that are known to have acknowledged it.
    Answered { copies: i64, held_by: [bool; BOXES] },
}

/// One write. Moments are nanoseconds of the round's clock.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) writer: usize,
    /// Rises with each write of the writer.
    pub(crate) number: u64,
    pub(crate) key: Key,
    /// The box whose server was asked.
    pub(crate) place: usize,
    pub(crate) begin: u64,
    /// When it was answered; for ever if it was not.
    pub(crate) end: u64,
    /// The replication id of the primary that answered; empty if it is not known.
    pub(crate) history: String,
    pub(crate) outcome: Outcome,
}

/// One look at all registers, at a primary.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) history: String,
    pub(crate) registers: [u64; WRITERS],
}

/// All keys of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) lists: [Vec<String>; LISTS],
    pub(crate) registers: [u64; WRITERS],
}

/// A round as it was seen.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) writes: Vec<Write>,
    pub(crate) reads: Vec<Read>,
    /// Servers that became primaries: when it was announced, and the box.
    pub(crate) promotions: Vec<(u64, usize)>,
    /// When the server of a box was killed, and the box: what it had is gone.
    pub(crate) killed: Option<(u64, usize)>,
    /// The replication id of the last primary.
    pub(crate) last_history: String,
    pub(crate) contents: Contents,
}

/// How well a write was kept, by what its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Leader,
    Both,
    Promoted,
    One,
    Answered,
}

impl Class {
    /// All of them, the strongest first.
    pub(crate) const ALL: [Class; 5] = [Class::Leader, Class::Both, Class::Promoted, Class::One, Class::Answered];
}

/// Writes of a class: how many were answered, and how many of them are not there at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) answered: u64,
    pub(crate) missing: u64,
}

/// The checker's result for a round.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) counts: BTreeMap<Class, Count>,
    /// Servers that became primaries.
    pub(crate) promotions: usize,
    pub(crate) reads: u64,
    /// Reads, at a server that led no more, that miss a number which the new primary had answered before.
    pub(crate) stale_reads: u64,
    /// Promises that did not hold.
    pub(crate) broken: Vec<String>,
}

/// Says which promises held.
pub(crate) fn check(round: &Round) -> Verdict {
    let mut verdict = Verdict { promotions: round.promotions.len(), ..Verdict::default() };
    check_lists(round, &mut verdict);
    check_writes(round, &mut verdict);
    check_reads(round, &mut verdict);
    verdict
}

impl Round {
    /// The class of a write that was answered.
    fn class(&self, write: &Write) -> Option<Class> {
        let Outcome::Answered { copies, .. } = write.outcome else { return None };
        Some(match copies {
            _ if write.history == self.last_history => Class::Leader,
            2.. => Class::Both,
            _ if self.is_promised(write) => Class::Promoted,
            1 => Class::One,
            _ => Class::Answered,
        })
    }

    /// Whether a write must be there at the end.
    fn is_promised(&self, write: &Write) -> bool {
        let Outcome::Answered { copies, held_by } = write.outcome else { return false };
        let has_forgotten = self.killed.is_some_and(|(at, place)| place == write.place && write.begin < at);
        let has_it = |place: usize| match place == write.place {
            true => !has_forgotten,
            false => copies >= BOXES as i64 - 1 || held_by[place],
        };
        let mut later = self.promotions.iter().filter(|(at, _)| *at > write.begin).peekable();
        write.history == self.last_history || later.peek().is_some() && later.all(|(_, place)| has_it(*place))
    }
}

/// Each append is there once at most, those of a writer in their order, and nothing that was refused or not sent.
fn check_lists(round: &Round, verdict: &mut Verdict) {
    for (nth, list) in round.contents.lists.iter().enumerate() {
        let sent: HashMap<String, &Write> = appends(round, nth).map(|write| (element(write), write)).collect();
        let (mut seen, mut last) = (HashSet::new(), [0; WRITERS]);
        for element in list {
            let Some(write) = sent.get(element) else {
                verdict.broken.push(format!("list {nth}: nobody has sent {element}"));
                continue;
            };
            if !seen.insert(element) {
                verdict.broken.push(format!("list {nth}: {element} is there twice"));
            } else if write.number < last[write.writer] {
                verdict.broken.push(format!("list {nth}: {element} stands behind number {}", last[write.writer]));
            }
            last[write.writer] = write.number;
            if write.outcome == Outcome::Refused {
                verdict.broken.push(format!("list {nth}: {element} was refused and is there"));
            }
        }
    }
}

fn appends(round: &Round, list: usize) -> impl Iterator<Item = &Write> {
    round.writes.iter().filter(move |write| write.key == Key::List(list))
}

/// The text of an append.
pub(crate) fn element(write: &Write) -> String {
    format!("{}.{}", write.writer, write.number)
}

/// Counts what is missing, and names what must not be.
fn check_writes(round: &Round, verdict: &mut Verdict) {
    let kept: Vec<HashSet<&String>> = round.contents.lists.iter().map(|list| list.iter().collect()).collect();
    for write in &round.writes {
        let Some(class) = round.class(write) else { continue };
        let is_there = match write.key {
            Key::List(nth) => kept[nth].contains(&element(write)),
            Key::Register(nth) => round.contents.registers[nth] >= write.number,
        };
        let count = verdict.counts.entry(class).or_default();
        count.answered += 1;
        count.missing += u64::from(!is_there);
        if round.is_promised(write) && !is_there {
            verdict.broken.push(format!("{class:?}: not there: {write:?}"));
        }
    }
    for (nth, found) in round.contents.registers.iter().enumerate().filter(|(_, found)| **found > 0) {
        let write = registers(round, nth).find(|write| write.number == *found);
        if write.is_none_or(|write| write.outcome == Outcome::Refused) {
            verdict.broken.push(format!("register {nth}: {found} was refused, or not sent"));
        }
    }
}

fn registers(round: &Round, nth: usize) -> impl Iterator<Item = &Write> {
    round.writes.iter().filter(move |write| write.key == Key::Register(nth))
}

/// Reads at a primary show what it has answered before, and nothing that was not sent; those at the last one all that was promised.
fn check_reads(round: &Round, verdict: &mut Verdict) {
    let mut are_stale = vec![false; round.reads.len()];
    for nth in 0..WRITERS {
        let answered_by = |history: &str| {
            let writes = registers(round, nth).filter(|write| matches!(write.outcome, Outcome::Answered { .. }));
            Rising::new(writes.filter(|write| write.history == history).map(|write| (write.end, write.number)))
        };
        let promised = registers(round, nth).filter(|write| round.is_promised(write));
        let promised = Rising::new(promised.map(|write| (write.end, write.number)));
        let sent = Rising::new(registers(round, nth).map(|write| (write.begin, write.number)));
        let histories: HashSet<&str> = round.reads.iter().map(|read| read.history.as_str()).collect();
        let answered: HashMap<&str, Rising> =
            histories.iter().map(|history| (*history, answered_by(history))).collect();
        let by_last = answered_by(&round.last_history);
        for (read, is_stale) in round.reads.iter().zip(&mut are_stale) {
            let found = read.registers[nth];
            let is_last = read.history == round.last_history;
            let known = answered[read.history.as_str()].at(read.begin);
            let least = if is_last { known.max(promised.at(read.begin)) } else { known };
            if found < least {
                verdict
                    .broken
                    .push(format!("register {nth} is read as {found}, though {least} was answered before: {read:?}"));
            }
            if found > sent.at(read.end) {
                verdict.broken.push(format!("register {nth} is read as {found} before that was sent: {read:?}"));
            }
            *is_stale |= !is_last && found < by_last.at(read.begin);
        }
    }
    verdict.reads = are_stale.len() as u64;
    verdict.stale_reads = are_stale.iter().filter(|is_stale| **is_stale).count() as u64;
}

/// The greatest number up to a moment.
struct Rising(Vec<(u64, u64)>);

impl Rising {
    fn new(moments: impl Iterator<Item = (u64, u64)>) -> Rising {
        let mut moments: Vec<(u64, u64)> = moments.collect();
        moments.sort_unstable();
        let mut most = 0;
        for (_, number) in &mut moments {
            most = most.max(*number);
            *number = most;
        }
        Rising(moments)
    }

    /// The greatest number of a moment before this one; 0 if there is none.
    fn at(&self, moment: u64) -> u64 {
        let behind = self.0.partition_point(|(at, _)| *at < moment);
        behind.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(number: u64, key: Key, history: &str, outcome: Outcome) -> Write {
        let (begin, end, history) = (number * 10, number * 10 + 5, history.to_owned());
        Write { writer: 0, number, key, place: usize::from(history == "new"), begin, end, history, outcome }
    }

    fn answered(copies: i64, holders: &[usize]) -> Outcome {
        Outcome::Answered { copies, held_by: std::array::from_fn(|nth| holders.contains(&nth)) }
    }

    /// Box 0 leads, and box 1 from moment 100 on.
    fn round(writes: Vec<Write>, list: &[&str], register: u64) -> Round {
        let mut contents = Contents::default();
        contents.lists[0] = list.iter().map(|element| (*element).to_owned()).collect();
        contents.registers[0] = register;
        let (promotions, last_history) = (vec![(100, 1)], "new".to_owned());
        Round { writes, promotions, killed: Some((90, 0)), last_history, contents, ..Round::default() }
    }

    /// The writes that are missing, by class, and how many promises are broken.
    fn missing(round: &Round) -> (Vec<(Class, u64)>, usize) {
        let verdict = check(round);
        let missing = verdict.counts.iter().filter(|(_, count)| count.missing > 0);
        (missing.map(|(class, count)| (*class, count.missing)).collect(), verdict.broken.len())
    }

    #[test]
    fn a_write_is_missed_by_its_class() {
        for (outcome, history, class, is_promised) in [
            (answered(2, &[1, 2]), "old", Class::Both, true),
            (answered(1, &[1]), "old", Class::Promoted, true),
            (answered(0, &[]), "new", Class::Leader, true),
            (answered(1, &[2]), "old", Class::One, false),
            (answered(0, &[]), "old", Class::Answered, false),
        ] {
            let one =
                |key, list: &[&str], register| missing(&round(vec![write(3, key, history, outcome)], list, register));
            let lost = (vec![(class, 1)], usize::from(is_promised));
            assert_eq!((one(Key::List(0), &[], 0), one(Key::Register(0), &[], 0)), (lost.clone(), lost));
            let kept = (vec![], 0);
            assert_eq!((one(Key::List(0), &["0.3"], 0), one(Key::Register(0), &[], 3)), (kept.clone(), kept));
        }
        assert_eq!(missing(&round(vec![write(3, Key::List(0), "", Outcome::Unknown)], &[], 0)), (vec![], 0));
    }

    /// Sentinel may promote twice: a write is promised if both servers had it, of which one that was killed has nothing.
    #[test]
    fn each_server_that_is_promoted_must_have_the_write() {
        for (outcome, later, killed, is_promised) in [
            (answered(2, &[1, 2]), 2, Some((90, 0)), true),
            (answered(1, &[1]), 2, Some((90, 0)), false),
            (answered(2, &[1, 2]), 0, Some((90, 0)), false),
            (answered(2, &[1, 2]), 0, None, true),
            (answered(2, &[1, 2]), 0, Some((20, 0)), true),
        ] {
            let mut twice = round(vec![write(3, Key::List(0), "old", outcome)], &[], 0);
            twice.promotions.push((200, later));
            (twice.killed, twice.last_history) = (killed, "last".to_owned());
            assert_eq!(missing(&twice).1, usize::from(is_promised), "{outcome:?}, then box {later}, killed {killed:?}");
        }
    }

    #[test]
    fn appends_are_there_once_in_order_and_were_sent() {
        let writes = |outcome| (1..4).map(|number| write(number, Key::List(0), "new", outcome)).collect::<Vec<_>>();
        let all = |list: &[&str]| missing(&round(writes(answered(0, &[])), list, 0)).1;
        assert_eq!(all(&["0.1", "0.2", "0.3"]), 0);
        assert_eq!(all(&["0.1", "0.2", "0.3", "0.3"]), 1, "twice");
        assert_eq!(all(&["0.1", "0.3", "0.2"]), 1, "not in order");
        assert_eq!(all(&["0.1", "0.2", "0.3", "1.1"]), 1, "not sent");
        assert_eq!(missing(&round(writes(Outcome::Refused), &["0.1"], 0)).1, 1, "refused");
        assert_eq!(missing(&round(vec![write(1, Key::Register(0), "", Outcome::Refused)], &[], 1)).1, 1, "refused");
    }

    #[test]
    fn a_read_shows_what_its_server_has_answered() {
        let writes = vec![
            write(1, Key::Register(0), "old", answered(2, &[1, 2])),
            write(2, Key::Register(0), "old", answered(0, &[])),
            write(20, Key::Register(0), "new", answered(0, &[])),
        ];
        let reads = |history: &str, begin: u64, found: u64| {
            let mut seen = round(writes.clone(), &[], 20);
            let registers = [found, 0, 0];
            seen.reads = vec![Read { begin, end: begin + 5, history: history.to_owned(), registers }];
            let verdict = check(&seen);
            (verdict.broken.len(), verdict.stale_reads)
        };
        assert_eq!(reads("old", 30, 2), (0, 0));
        assert_eq!(reads("old", 30, 1), (1, 0), "the old primary goes back");
        assert_eq!(reads("new", 130, 1), (0, 0), "what no replica had is lost");
        assert_eq!(reads("new", 130, 0), (1, 0), "what both replicas had is lost");
        assert_eq!(reads("old", 230, 2), (0, 1), "the old primary does not know of the new one");
        assert_eq!(reads("new", 130, 20), (1, 0), "from the future");
    }
}
