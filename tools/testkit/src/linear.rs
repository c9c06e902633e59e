//! Is a history of concurrent string commands, and transactions of them, linearisable?
//!
//! ```text
//!   client 0   |--SET a 1--|      |----GET a -> 1----|        one line a client, calls in the order they were made;
//!   client 1        |-----RENAME a b------|                   a call took effect at one moment between its ends
//! ```
//! The search is Wing and Gong's with Lowe's memory: take any client's next call that began before every open call ended,
//! apply it to the model, go on, step back at a dead end; a state met before (how far each client is, and the keyspace) is
//! not entered again. Histories are short (some hundred calls); keys are small numbers. No expiry, no other types; but a
//! key may stand for anything that holds one value, as the field of a hash does.

use std::collections::HashSet;

/// A value.
pub type Bytes = Vec<u8>;

/// One command on string keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// GET
    Get(usize),
    /// SET
    Set(usize, Bytes),
    /// INCR
    Incr(usize),
    /// INCRBY
    Add(usize, i64),
    /// APPEND
    Append(usize, Bytes),
    /// GETSET
    GetSet(usize, Bytes),
    /// SETNX
    SetNx(usize, Bytes),
    /// GETDEL
    GetDel(usize),
    /// DEL
    Del(Vec<usize>),
    /// MGET
    MGet(Vec<usize>),
    /// MSET
    MSet(Vec<(usize, Bytes)>),
    /// MSETNX
    MSetNx(Vec<(usize, Bytes)>),
    /// RENAME
    Rename(usize, usize),
    /// EXEC that was not aborted: what its client read of the watched keys since WATCH, and the queued calls
    Exec(Vec<(usize, Option<Bytes>)>, Vec<Call>),
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `+OK`
    Ok,
    /// any error
    Error,
    /// a number
    Integer(i64),
    /// a value, or none
    RespValue(Option<Bytes>),
    /// several
    Values(Vec<Option<Bytes>>),
    /// those of a transaction
    Exec(Vec<Answer>),
    /// a watched key had changed
    Aborted,
}

/// A call with its answer and its ends, in any unit of one monotonic clock.
#[derive(Clone, Debug)]
pub struct HistoryEvent {
    /// before it was sent
    pub begin: u64,
    /// after its answer was read
    pub end: u64,
    /// what was asked
    pub call: Call,
    /// what was answered
    pub answer: Answer,
}

/// The naive keyspace, by key number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Keyspace(Vec<Option<Bytes>>);

impl Keyspace {
    /// A keyspace of `keys` keys, all absent.
    #[must_use]
    pub fn empty(keys: usize) -> Keyspace {
        Keyspace(vec![None; keys])
    }

    /// Keys with these values.
    #[must_use]
    pub fn of(values: Vec<Option<Bytes>>) -> Keyspace {
        Keyspace(values)
    }

    /// Runs a command.
    pub fn apply(&mut self, call: &Call) -> Answer {
        let keys = &mut self.0;
        match call {
            Call::Get(k) => Answer::RespValue(keys[*k].clone()),
            Call::Set(k, v) => {
                keys[*k] = Some(v.clone());
                Answer::Ok
            }
            Call::Incr(k) => increment(&mut keys[*k], 1),
            Call::Add(k, by) => increment(&mut keys[*k], *by),
            Call::Append(k, v) => {
                let value = keys[*k].get_or_insert_default();
                value.extend_from_slice(v);
                Answer::Integer(value.len() as i64)
            }
            Call::GetSet(k, v) => Answer::RespValue(keys[*k].replace(v.clone())),
            Call::SetNx(k, v) => self.apply(&Call::MSetNx(vec![(*k, v.clone())])),
            Call::GetDel(k) => Answer::RespValue(keys[*k].take()),
            Call::Del(list) => Answer::Integer(list.iter().filter(|k| keys[**k].take().is_some()).count() as i64),
            Call::MGet(list) => Answer::Values(list.iter().map(|k| keys[*k].clone()).collect()),
            Call::MSet(pairs) => {
                pairs.iter().for_each(|(k, v)| keys[*k] = Some(v.clone()));
                Answer::Ok
            }
            Call::MSetNx(pairs) => {
                let free = pairs.iter().all(|(k, _)| keys[*k].is_none());
                if free {
                    pairs.iter().for_each(|(k, v)| keys[*k] = Some(v.clone()));
                }
                Answer::Integer(i64::from(free))
            }
            Call::Rename(from, to) => match keys[*from].take() {
                None => Answer::Error,
                value => {
                    keys[*to] = value;
                    Answer::Ok
                }
            },
            Call::Exec(watched, _) if watched.iter().any(|(k, read)| keys[*k] != *read) => Answer::Aborted,
            Call::Exec(_, calls) => Answer::Exec(calls.iter().map(|call| self.apply(call)).collect()),
        }
    }
}

fn increment(value: &mut Option<Bytes>, by: i64) -> Answer {
    let number = match value {
        None => Some(0),
        Some(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()),
    };
    let Some(next) = number.and_then(|n| n.checked_add(by)) else { return Answer::Error };
    *value = Some(next.to_string().into_bytes());
    Answer::Integer(next)
}

/// Looks for a legal order of what the clients did, starting from `start`.
///
/// # Errors
/// When there is none: how far the search came at best, the keyspace there, and the calls that could not follow.
pub fn check(start: &Keyspace, clients: &[Vec<HistoryEvent>]) -> Result<(), String> {
    let mut search = Search { clients, at: vec![0; clients.len()], seen: HashSet::new(), best: Vec::new(), most: 0 };
    if search.run(start) { Ok(()) } else { Err(search.explain(start)) }
}

struct Search<'h> {
    clients: &'h [Vec<HistoryEvent>],
    /// Calls of each client that are in the order so far.
    at: Vec<u32>,
    seen: HashSet<(Vec<u32>, Keyspace)>,
    /// The longest order found: clients in turn.
    best: Vec<usize>,
    most: usize,
}

/// One step of the order: the keyspace before it, the clients still to try, the one that was taken.
struct Frame {
    state: Keyspace,
    untried: Vec<usize>,
    taken: Option<usize>,
}

impl Search<'_> {
    fn run(&mut self, start: &Keyspace) -> bool {
        let total: usize = self.clients.iter().map(Vec::len).sum();
        let mut frames = vec![Frame { state: start.clone(), untried: self.candidates(), taken: None }];
        let mut depth = 0;
        while depth < total {
            let Some(frame) = frames.last_mut() else { return false };
            if let Some(client) = frame.taken.take() {
                self.at[client] -= 1;
                depth -= 1;
            }
            let Some(client) = frame.untried.pop() else {
                frames.pop();
                continue;
            };
            let event = &self.clients[client][self.at[client] as usize];
            let mut next = frame.state.clone();
            if next.apply(&event.call) != event.answer {
                continue;
            }
            self.at[client] += 1;
            if !self.seen.insert((self.at.clone(), next.clone())) {
                self.at[client] -= 1;
                continue;
            }
            frame.taken = Some(client);
            depth += 1;
            if depth > self.most {
                self.most = depth;
                self.best = frames.iter().filter_map(|frame| frame.taken).collect();
            }
            frames.push(Frame { state: next, untried: self.candidates(), taken: None });
        }
        true
    }

    /// The clients whose next call began before every call that is not in the order yet ended.
    fn candidates(&self) -> Vec<usize> {
        let next = |client: usize| self.clients[client].get(self.at[client] as usize);
        // A client's calls end in their order, so its next one is the first of its calls to end.
        let Some(first_end) = (0..self.clients.len()).filter_map(next).map(|event| event.end).min() else {
            return Vec::new();
        };
        (0..self.clients.len()).filter(|&c| next(c).is_some_and(|event| event.begin <= first_end)).collect()
    }

    fn explain(&mut self, start: &Keyspace) -> String {
        let mut state = start.clone();
        self.at.fill(0);
        let mut order = Vec::new();
        for &client in &self.best {
            let event = &self.clients[client][self.at[client] as usize];
            state.apply(&event.call);
            self.at[client] += 1;
            order.push(format!("client {client}: {event:?}"));
        }
        let stuck: Vec<String> = self
            .candidates()
            .into_iter()
            .map(|client| format!("client {client}: {:?}", self.clients[client][self.at[client] as usize]))
            .collect();
        format!(
            "no legal order; {} calls could be ordered, last\n  {}\nwith the keys {:?}\nand none of these can follow\n  {}",
            self.best.len(),
            order[order.len().saturating_sub(12)..].join("\n  "),
            state.0,
            stuck.join("\n  ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn event(begin: u64, end: u64, call: Call, answer: Answer) -> HistoryEvent {
        HistoryEvent { begin, end, call, answer }
    }

    fn v(text: &str) -> Bytes {
        text.as_bytes().to_vec()
    }

    fn some(text: &str) -> Answer {
        Answer::RespValue(Some(v(text)))
    }

    #[test]
    fn calls_that_overlap_may_take_either_order() {
        let writer = vec![event(0, 10, Call::Set(1, v("x")), Answer::Ok)];
        let reader = vec![event(1, 4, Call::Get(1), Answer::RespValue(None)), event(5, 9, Call::Get(1), some("x"))];
        assert_eq!(check(&Keyspace::empty(2), &[writer.clone(), reader.clone()]), Ok(()));
        let backwards = vec![event(1, 4, Call::Get(1), some("x")), event(5, 9, Call::Get(1), Answer::RespValue(None))];
        let error = check(&Keyspace::empty(2), &[writer, backwards]).unwrap_err();
        assert!(error.contains("none of these can follow"), "{error}");
    }

    #[test]
    fn a_read_of_the_past_is_rejected() {
        let writer =
            vec![event(0, 1, Call::Set(0, v("old")), Answer::Ok), event(2, 3, Call::Set(0, v("new")), Answer::Ok)];
        let reader = |begin| vec![event(begin, 9, Call::Get(0), some("old"))];
        assert!(check(&Keyspace::empty(1), &[writer.clone(), reader(4)]).is_err());
        assert!(check(&Keyspace::empty(1), &[writer, reader(2)]).is_ok());
    }

    #[test]
    fn an_increment_made_twice_or_lost_is_rejected() {
        let raise = |answer| vec![event(0, 9, Call::Incr(0), Answer::Integer(answer))];
        assert!(check(&Keyspace::empty(1), &[raise(1), raise(2), raise(3)]).is_ok());
        assert!(check(&Keyspace::empty(1), &[raise(1), raise(1), raise(2)]).is_err());
        assert!(check(&Keyspace::empty(1), &[raise(1), raise(3)]).is_err());
    }

    #[test]
    fn torn_writes_of_several_keys_are_rejected() {
        let pairs = vec![(0, v("1")), (1, v("1"))];
        let torn = vec![event(1, 2, Call::MGet(vec![0, 1]), Answer::Values(vec![Some(v("1")), None]))];
        for call in [Call::MSet(pairs.clone()), Call::MSetNx(pairs)] {
            let answer = if matches!(call, Call::MSet(_)) { Answer::Ok } else { Answer::Integer(1) };
            assert!(check(&Keyspace::empty(2), &[vec![event(0, 9, call, answer)], torn.clone()]).is_err());
        }
        let moved = vec![event(0, 9, Call::Rename(0, 1), Answer::Ok)];
        let start = Keyspace(vec![Some(v("1")), None]);
        let both = Answer::Values(vec![Some(v("1")), Some(v("1"))]);
        assert!(check(&start, &[moved.clone(), vec![event(1, 2, Call::MGet(vec![0, 1]), both)]]).is_err());
        assert!(check(&start, &[moved, torn]).is_ok());
    }

    #[test]
    fn a_transaction_is_one_moment_and_its_watched_keys_are_as_they_were_read() {
        let calls = vec![Call::Add(0, -5), Call::Add(1, 5)];
        let answers = Answer::Exec(vec![Answer::Integer(5), Answer::Integer(15)]);
        let start = Keyspace(vec![Some(v("10")), Some(v("10"))]);
        let exec = |read: &str| vec![event(0, 9, Call::Exec(vec![(0, Some(v(read)))], calls.clone()), answers.clone())];
        let sees =
            |a: &str, b: &str| vec![event(1, 2, Call::MGet(vec![0, 1]), Answer::Values(vec![Some(v(a)), Some(v(b))]))];
        assert!(check(&start, &[exec("10"), sees("10", "10")]).is_ok());
        assert!(check(&start, &[exec("10"), sees("5", "15")]).is_ok());
        assert!(check(&start, &[exec("10"), sees("5", "10")]).is_err());
        assert!(check(&start, &[exec("9")]).is_err());
        // A change that nobody else can have made after it was read and before EXEC.
        let writer = vec![event(0, 1, Call::Set(0, v("11")), Answer::Ok)];
        assert!(check(&start, &[writer, vec![HistoryEvent { begin: 2, ..exec("10")[0].clone() }]]).is_err());
    }

    #[test]
    fn the_model_is_legal_to_itself_and_one_changed_answer_is_not() {
        let mut random = Random::new(5);
        let mut keyspace = Keyspace::empty(3);
        let mut clients = vec![Vec::new(); 4];
        for moment in 0..400_u64 {
            let (a, b) = (random.below(3), random.below(3));
            let value = v(&moment.to_string());
            let call = match random.below(9) {
                0 => Call::Get(a),
                1 => Call::Set(a, value),
                2 => Call::Incr(a),
                3 => Call::Append(a, value),
                4 => Call::GetSet(a, value),
                5 => Call::MSetNx(vec![(a, value.clone()), (b, value)]),
                6 => Call::Rename(a, b),
                7 => Call::Del(vec![a, b]),
                _ => Call::GetDel(a),
            };
            let answer = keyspace.apply(&call);
            clients[moment as usize % 4].push(event(moment * 10, moment * 10 + 25, call, answer));
        }
        assert_eq!(check(&Keyspace::empty(3), &clients), Ok(()));
        let last =
            clients[2].iter_mut().rev().find(|e| matches!(e.answer, Answer::RespValue(Some(_)))).expect("a value");
        last.answer = some("never written");
        assert!(check(&Keyspace::empty(3), &clients).is_err());
    }
}
