//! A naive keyspace of strings, and the check whether a concurrent history has a legal order.
//!
//! A history is a list of calls, each with the moment before it was sent and the moment after its reply was read. It is
//! linearisable when the calls can be put in one order that respects these moments (a call that ended before another began
//! comes first) and in which the naive keyspace gives every reply. The search is Wing and Gong's with Lowe's memory of
//! states seen: take any call that no unfinished call must precede, apply it to the model, go on, step back at a dead end.
//!
//! It does not do expiry, other types, or errors: the histories that it checks use none.

use std::collections::{BTreeMap, HashSet};

/// One call on string keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// GET
    Get(u32),
    /// SET
    Set(u32, u64),
    /// INCRBY
    Increment(u32, u64),
    /// GETSET
    Swap(u32, u64),
    /// DEL of several: how many were there
    Delete(Vec<u32>),
    /// MSET
    SetMany(Vec<(u32, u64)>),
    /// MGET
    GetMany(Vec<u32>),
    /// RENAME; the key is known to be there when this is `Reply::Done`, else `Reply::Absent`
    Rename(u32, u32),
}

/// What a call answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// OK
    Done,
    /// no such key
    Absent,
    /// a number or a value
    Number(u64),
    /// the values of several keys
    Many(Vec<Option<u64>>),
}

/// A call in a history. Moments are of one clock, in any unit.
#[derive(Debug, Clone)]
pub struct Event {
    /// before it was sent
    pub begin: u64,
    /// after its reply came
    pub end: u64,
    /// what was asked
    pub call: Call,
    /// what was answered
    pub reply: Reply,
}

/// The naive keyspace: numbers by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Keyspace(BTreeMap<u32, u64>);

impl Keyspace {
    /// Runs a call.
    pub fn apply(&mut self, call: &Call) -> Reply {
        let number = |value: Option<u64>| value.map_or(Reply::Absent, Reply::Number);
        match call {
            Call::Get(key) => number(self.0.get(key).copied()),
            Call::Set(key, value) => {
                self.0.insert(*key, *value);
                Reply::Done
            }
            Call::Increment(key, by) => {
                let value = self.0.entry(*key).or_default();
                *value += by;
                Reply::Number(*value)
            }
            Call::Swap(key, value) => number(self.0.insert(*key, *value)),
            Call::Delete(keys) => Reply::Number(keys.iter().filter(|key| self.0.remove(key).is_some()).count() as u64),
            Call::SetMany(pairs) => {
                self.0.extend(pairs.iter().copied());
                Reply::Done
            }
            Call::GetMany(keys) => Reply::Many(keys.iter().map(|key| self.0.get(key).copied()).collect()),
            Call::Rename(from, to) => match self.0.remove(from) {
                Some(value) => {
                    self.0.insert(*to, value);
                    Reply::Done
                }
                None => Reply::Absent,
            },
        }
    }
}

/// Looks for a legal order of `history`, starting from `start`.
///
/// # Errors
/// When there is none: the longest prefix that could be ordered, and the calls that could not follow it.
pub fn linearisable(start: &Keyspace, history: &[Event]) -> Result<(), String> {
    let mut order: Vec<usize> = (0..history.len()).collect();
    order.sort_by_key(|&i| history[i].begin);
    let history: Vec<&Event> = order.iter().map(|&i| &history[i]).collect();
    let mut search = Search { history, done: Vec::new(), seen: HashSet::new(), best: Vec::new() };
    search.done = vec![false; search.history.len()];
    if search.run(start) { Ok(()) } else { Err(search.explain()) }
}

struct Search<'h> {
    history: Vec<&'h Event>,
    done: Vec<bool>,
    seen: HashSet<(Vec<bool>, Keyspace)>,
    best: Vec<usize>,
}

impl Search<'_> {
    /// Iterative, since histories are longer than a stack is deep. Each frame: the keyspace before the step, the
    /// candidates left to try, and the one that was taken.
    fn run(&mut self, start: &Keyspace) -> bool {
        let mut frames = vec![(start.clone(), self.candidates(), None::<usize>)];
        let mut taken: Vec<usize> = Vec::new();
        while let Some((state, candidates, current)) = frames.last_mut() {
            if let Some(index) = current.take() {
                self.done[index] = false;
                taken.pop();
            }
            let Some(index) = candidates.pop() else {
                frames.pop();
                continue;
            };
            let mut next = state.clone();
            if next.apply(&self.history[index].call) != self.history[index].reply {
                continue;
            }
            self.done[index] = true;
            if !self.seen.insert((self.done.clone(), next.clone())) {
                self.done[index] = false;
                continue;
            }
            *current = Some(index);
            taken.push(index);
            if taken.len() > self.best.len() {
                self.best.clone_from(&taken);
            }
            if taken.len() == self.history.len() {
                return true;
            }
            let candidates = self.candidates();
            frames.push((next, candidates, None));
        }
        self.history.is_empty()
    }

    /// The calls that may come next: those that began before every unfinished call ended.
    fn candidates(&self) -> Vec<usize> {
        let left = || (0..self.history.len()).filter(|&i| !self.done[i]);
        let Some(first_end) = left().map(|i| self.history[i].end).min() else { return Vec::new() };
        let mut list: Vec<usize> = left().take_while(|&i| self.history[i].begin <= first_end).collect();
        list.reverse();
        list
    }

    fn explain(&mut self) -> String {
        self.done.fill(false);
        for &i in &self.best {
            self.done[i] = true;
        }
        let stuck: Vec<String> = self.candidates().iter().map(|&i| format!("{:?}", self.history[i])).collect();
        let from = self.best.len().saturating_sub(10);
        let before: Vec<String> = self.best[from..].iter().map(|&i| format!("{:?}", self.history[i])).collect();
        format!(
            "no legal order: {} of {} calls could be ordered, last\n  {}\nnone of these can follow\n  {}",
            self.best.len(),
            self.history.len(),
            before.join("\n  "),
            stuck.join("\n  ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(begin: u64, end: u64, call: Call, reply: Reply) -> Event {
        Event { begin, end, call, reply }
    }

    #[test]
    fn overlapping_calls_may_take_either_order() {
        let history = [
            event(0, 10, Call::Set(1, 5), Reply::Done),
            event(1, 9, Call::Get(1), Reply::Absent),
            event(2, 8, Call::Get(1), Reply::Number(5)),
        ];
        assert_eq!(linearisable(&Keyspace::default(), &history), Ok(()));
    }

    #[test]
    fn a_read_of_the_past_is_found() {
        let history = [
            event(0, 1, Call::Set(1, 5), Reply::Done),
            event(2, 3, Call::Set(1, 6), Reply::Done),
            event(4, 5, Call::Get(1), Reply::Number(5)),
        ];
        let error = linearisable(&Keyspace::default(), &history).unwrap_err();
        assert!(error.contains("2 of 3"), "{error}");
    }

    #[test]
    fn a_torn_write_of_many_is_found() {
        let history = [
            event(0, 9, Call::SetMany(vec![(1, 1), (2, 1)]), Reply::Done),
            event(1, 2, Call::GetMany(vec![1, 2]), Reply::Many(vec![Some(1), None])),
        ];
        assert!(linearisable(&Keyspace::default(), &history).is_err());
    }

    #[test]
    fn a_thousand_calls_of_the_model_itself_are_legal() {
        let mut random = crate::Random::new(3);
        let mut keyspace = Keyspace::default();
        let history: Vec<Event> = (0..1000)
            .map(|i| {
                let key = random.below(4) as u32;
                let call = match random.below(5) {
                    0 => Call::Get(key),
                    1 => Call::Set(key, i),
                    2 => Call::Increment(key, 1),
                    3 => Call::Delete(vec![key, key + 1]),
                    _ => Call::Rename(key, key + 1),
                };
                let reply = keyspace.apply(&call);
                event(i * 10, i * 10 + 35, call, reply)
            })
            .collect();
        assert_eq!(linearisable(&Keyspace::default(), &history), Ok(()));
    }
}
