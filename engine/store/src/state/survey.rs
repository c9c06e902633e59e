//! The newest looks of a worker at its shards' keys: bytes by prefix, times to live, large keys.
//!
//! ```text
//!   looks   oldest |look|look|look| ... |look| newest      LOOKS_MAX over all workers
//!                    │ prefix, bytes, due time
//!   prefixes         user:*:  keys, bytes      sums over the looks that are kept, at most PREFIXES_MAX
//!   large            the largest keys of this round and of the last one
//! ```
//! A worker looks at its keys in turn, some at each tick of its clock, so that a small keyspace is known whole after a second and
//! of a large one a sample that is always the newest. A look costs about what a GET of the key costs. 20 000 looks tell a
//! share of bytes to about one percent, as long as sizes are not too far apart; the largest keys are found within a round.
//!
//! Not here: the walk (`steps::survey`).

use std::collections::{HashMap, VecDeque};

use super::key::Place;
use super::prefix::{PREFIX_BYTES_MAX, prefix_of, short_prefix_of};
use super::types::Type;

/// Looks that all workers keep together.
const LOOKS_MAX: usize = 32_768;
/// Looks that a worker keeps at least.
const LOOKS_MIN: usize = 512;
/// Prefixes that a worker tells apart.
const PREFIXES_MAX: usize = 1024;
/// Large keys that a worker remembers, of this round and of the last one.
const LARGE_MAX: usize = 32;
/// Bytes of a large key's name that are kept.
const NAME_BYTES_MAX: usize = 128;
/// The prefix of keys for which there was no room: no name begins with these words.
const OTHERS: &[u8] = b"(others)";
/// Stands for a key that lives for ever.
const NEVER: i64 = i64::MAX;

/// A key as a worker saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySeen<'a> {
    pub(crate) db: u32,
    pub(crate) name: &'a [u8],
    pub(crate) ty: Type,
    pub(crate) bytes: usize,
    pub(crate) due_ms: Option<i64>,
}

/// A large key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeKey {
    /// Its logical database.
    pub db: u32,
    /// Its name, cut behind 128 bytes.
    pub name: Vec<u8>,
    /// Its type.
    pub ty: Type,
    /// Bytes that it took when it was seen.
    pub bytes: u64,
    /// When it was seen, milliseconds of Unix time.
    pub seen_ms: i64,
}

/// Keys and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyShare {
    /// Keys.
    pub keys: u64,
    /// Bytes that they take.
    pub bytes: u64,
}

/// The sum of what several workers have seen.
#[derive(Debug, Default)]
pub struct Surveyed {
    /// Looks behind the figures: a key may have been looked at more than once.
    pub looks: KeyShare,
    /// By prefix, of the looks, most bytes first.
    pub prefixes: Vec<(Vec<u8>, KeyShare)>,
    /// Keys whose time comes within each of the spans that were asked for, of the looks; a longer span has the shorter ones.
    pub due: Vec<KeyShare>,
    /// The largest keys, largest first.
    pub large: Vec<LargeKey>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    due_ms: i64,
    bytes: u64,
    prefix: u16,
}

/// When keys are due that were looked at and do not live for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DueTimes {
    /// Looks.
    pub(crate) keys: u64,
    /// The sum of their times, milliseconds of Unix time.
    pub(crate) sum_ms: i128,
}

impl DueTimes {
    /// The mean time that is left at `now_ms`, in milliseconds; 0 if it is over, or without looks.
    pub(crate) fn mean_left_ms(self, now_ms: i64) -> u64 {
        let mean = self.sum_ms.checked_div(i128::from(self.keys)).unwrap_or(0);
        u64::try_from(mean - i128::from(now_ms)).unwrap_or(0)
    }
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Survey {
    looks: VecDeque<Look>,
    looks_max: usize,
    /// Sums over `looks`, by number of the prefix.
    sums: Vec<(Box<[u8]>, KeyShare)>,
    numbers: HashMap<Box<[u8]>, u16>,
    /// Numbers whose sums are 0.
    unused: Vec<u16>,
    /// When the keys of this round and of the last one are due, by logical database.
    due: HashMap<u32, DueTimes>,
    due_before: HashMap<u32, DueTimes>,
    large: Vec<LargeKey>,
    large_before: Vec<LargeKey>,
    /// Where the next look goes; None: a round has ended.
    pub(crate) place: Option<Place>,
    /// When the round began, milliseconds of Unix time.
    pub(crate) began_ms: i64,
}

impl Survey {
    /// Of one of this number of workers.
    pub(crate) fn new(workers: usize) -> Survey {
        Survey {
            looks: VecDeque::new(),
            looks_max: (LOOKS_MAX / workers).max(LOOKS_MIN),
            sums: Vec::new(),
            numbers: HashMap::new(),
            unused: Vec::new(),
            due: HashMap::new(),
            due_before: HashMap::new(),
            large: Vec::new(),
            large_before: Vec::new(),
            place: None,
            began_ms: i64::MIN,
        }
    }

    /// Adds a look, and forgets the oldest one beyond the bound.
    pub(crate) fn add(&mut self, key: &KeySeen<'_>, now_ms: i64) {
        if self.looks.len() == self.looks_max {
            self.forget_oldest();
        }
        let prefix = self.number_of(key.name);
        let sum = &mut self.sums[usize::from(prefix)].1;
        sum.keys += 1;
        sum.bytes += key.bytes as u64;
        if let Some(due_ms) = key.due_ms {
            let due = self.due.entry(key.db).or_default();
            due.keys += 1;
            due.sum_ms += i128::from(due_ms);
        }
        self.looks.push_back(Look { due_ms: key.due_ms.unwrap_or(NEVER), bytes: key.bytes as u64, prefix });
        self.note_large(key, now_ms);
    }

    fn forget_oldest(&mut self) {
        let Some(look) = self.looks.pop_front() else { return };
        let (text, sum) = &mut self.sums[usize::from(look.prefix)];
        sum.keys -= 1;
        sum.bytes -= look.bytes;
        if sum.keys == 0 {
            assert!(sum.bytes == 0, "the bytes of no look");
            self.numbers.remove(text);
            self.unused.push(look.prefix);
        }
    }

    /// Adds when the keys of each database are due to `sums`, by the database's number: those of the last round, or of the first
    /// one as far as it is.
    pub(crate) fn add_due(&self, sums: &mut HashMap<u32, DueTimes>) {
        let round = if self.due_before.is_empty() { &self.due } else { &self.due_before };
        for (&db, due) in round {
            let sum = sums.entry(db).or_default();
            sum.keys += due.keys;
            sum.sum_ms += due.sum_ms;
        }
    }

    /// The number of a name's prefix: its own, or where there is no room that of its first part, or of all others.
    fn number_of(&mut self, name: &[u8]) -> u16 {
        let full = self.numbers.len() + 1 >= PREFIXES_MAX;
        let known = |numbers: &HashMap<Box<[u8]>, u16>, prefix: &[u8]| numbers.get(prefix).copied();
        let prefix = prefix_of(name);
        if let Some(number) = known(&self.numbers, &prefix) {
            return number;
        }
        if !full {
            return self.new_number(&prefix);
        }
        if let Some(number) = known(&self.numbers, &short_prefix_of(name)) {
            return number;
        }
        known(&self.numbers, OTHERS).unwrap_or_else(|| self.new_number(OTHERS))
    }

    fn new_number(&mut self, prefix: &[u8]) -> u16 {
        debug_assert!(prefix.len() <= PREFIX_BYTES_MAX, "a prefix is cut");
        let text: Box<[u8]> = prefix.into();
        let number = match self.unused.pop() {
            Some(number) => {
                self.sums[usize::from(number)] = (text.clone(), KeyShare::default());
                number
            }
            None => {
                self.sums.push((text.clone(), KeyShare::default()));
                (self.sums.len() - 1) as u16
            }
        };
        assert!(self.sums.len() <= PREFIXES_MAX, "numbers are used again");
        self.numbers.insert(text, number);
        number
    }

    fn note_large(&mut self, key: &KeySeen<'_>, now_ms: i64) {
        let bytes = key.bytes as u64;
        if self.large.len() == LARGE_MAX && self.large.last().is_some_and(|least| least.bytes >= bytes) {
            return;
        }
        let at = self.large.partition_point(|large| large.bytes >= bytes);
        self.large.truncate(LARGE_MAX - 1);
        let name = key.name[..key.name.len().min(NAME_BYTES_MAX)].to_vec();
        self.large.insert(at, LargeKey { db: key.db, name, ty: key.ty, bytes, seen_ms: now_ms });
    }

    /// A round begins: the large keys and the due times of the one before the last are forgotten.
    pub(crate) fn begin_round(&mut self, first: Place, now_ms: i64) {
        self.large_before = std::mem::take(&mut self.large);
        self.due_before = std::mem::take(&mut self.due);
        (self.place, self.began_ms) = (Some(first), now_ms);
    }

    /// Forgets all: the keys are gone.
    pub(crate) fn clear(&mut self) {
        while !self.looks.is_empty() {
            self.forget_oldest();
        }
        self.large.clear();
        self.large_before.clear();
        self.due.clear();
        self.due_before.clear();
        self.place = None;
    }

    /// Adds what was seen to a sum; `spans_ms` are those of [`Surveyed::due`].
    pub(crate) fn add_to(&self, sum: &mut Surveyed, now_ms: i64, spans_ms: &[i64]) {
        sum.due.resize(spans_ms.len(), KeyShare::default());
        for look in &self.looks {
            sum.looks.keys += 1;
            sum.looks.bytes += look.bytes;
            if look.due_ms == NEVER || look.due_ms < now_ms {
                continue;
            }
            let within = spans_ms.iter().map(|span| look.due_ms - now_ms <= *span);
            for (share, _) in sum.due.iter_mut().zip(within).filter(|(_, within)| *within) {
                share.keys += 1;
                share.bytes += look.bytes;
            }
        }
        for (text, own) in self.sums.iter().filter(|(_, own)| own.keys > 0) {
            match sum.prefixes.iter_mut().find(|(known, _)| **known == **text) {
                Some((_, share)) => {
                    share.keys += own.keys;
                    share.bytes += own.bytes;
                }
                None => sum.prefixes.push((text.to_vec(), *own)),
            }
        }
        let is_newer = |large: &LargeKey| self.large.iter().any(|new| (new.db, &new.name) == (large.db, &large.name));
        sum.large.extend(self.large.iter().chain(self.large_before.iter().filter(|old| !is_newer(old))).cloned());
    }
}

impl Surveyed {
    /// Has numbers stand for names: who reads the figures may not know names. The same name has the same number.
    pub(crate) fn hide_names(&mut self, number: impl Fn(&[u8]) -> Vec<u8>) {
        self.prefixes.iter_mut().for_each(|(text, _)| *text = number(text));
        self.large.iter_mut().for_each(|large| large.name = number(&large.name));
    }

    /// Puts the greatest first; at most 32 large keys are kept.
    pub(crate) fn sort(&mut self) {
        self.prefixes.sort_by(|(a, x), (b, y)| y.bytes.cmp(&x.bytes).then_with(|| a.cmp(b)));
        self.large.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        self.large.truncate(LARGE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, bytes: usize, due_ms: Option<i64>) -> KeySeen<'_> {
        KeySeen { db: 0, name: name.as_bytes(), ty: Type::String, bytes, due_ms }
    }

    fn surveyed(survey: &Survey, now_ms: i64) -> Surveyed {
        let mut sum = Surveyed::default();
        survey.add_to(&mut sum, now_ms, &[60_000, 3_600_000]);
        sum.sort();
        sum
    }

    #[test]
    fn looks_are_summed_by_prefix_and_due_time() {
        let mut survey = Survey::new(1);
        survey.begin_round(Place::new(0, 0), 0);
        (0..10).for_each(|n| survey.add(&seen(&format!("user:{n}:x"), 100, Some(1_000 + n * 10_000)), 0));
        survey.add(&seen("big", 5_000, None), 0);
        let sum = surveyed(&survey, 2_000);
        assert_eq!(sum.looks, KeyShare { keys: 11, bytes: 6_000 });
        let (prefix, share) = &sum.prefixes[1];
        assert_eq!((&prefix[..], *share), (&b"user:*:"[..], KeyShare { keys: 10, bytes: 1_000 }));
        // One is over already, and those due at 71, 81 and 91 s come later than a minute from now.
        assert_eq!(sum.due, [KeyShare { keys: 6, bytes: 600 }, KeyShare { keys: 9, bytes: 900 }]);
        assert_eq!((&sum.large[0].name[..], sum.large[0].bytes), (&b"big"[..], 5_000));
    }

    #[test]
    fn issue_19_times_left_are_known_by_database() {
        let mut survey = Survey::new(1);
        let seen_in = |db, due_ms| KeySeen { db, ..seen("k", 10, due_ms) };
        let left = |survey: &Survey, now_ms| {
            let mut sums = HashMap::new();
            survey.add_due(&mut sums);
            let mut left: Vec<(u32, u64)> = sums.iter().map(|(db, due)| (*db, due.mean_left_ms(now_ms))).collect();
            left.sort_unstable();
            left
        };
        survey.begin_round(Place::new(0, 0), 0);
        survey.add(&seen_in(0, Some(1_000)), 0);
        survey.add(&seen_in(0, Some(3_000)), 0);
        survey.add(&seen_in(7, Some(i64::MAX - 1)), 0);
        survey.add(&seen_in(8, None), 0);
        assert_eq!(left(&survey, 500), [(0, 1_500), (7, i64::MAX as u64 - 501)]);
        assert_eq!(left(&survey, 2_500)[0], (0, 0), "the mean is over");
        survey.begin_round(Place::new(0, 0), 1_000);
        survey.add(&seen_in(0, Some(9_000)), 1_000);
        assert_eq!(left(&survey, 500)[0], (0, 1_500), "the last round is whole");
        survey.begin_round(Place::new(0, 0), 2_000);
        assert_eq!(left(&survey, 2_000), [(0, 7_000)]);
        survey.clear();
        assert_eq!(left(&survey, 2_000), []);
    }

    #[test]
    fn the_oldest_looks_are_forgotten_whole() {
        let mut survey = Survey::new(LOOKS_MAX);
        for n in 0..3 * LOOKS_MIN {
            survey.add(&seen(if n < 2 * LOOKS_MIN { "old:1" } else { "new:1" }, n, None), 0);
        }
        let sum = surveyed(&survey, 0);
        assert_eq!(sum.prefixes.len(), 1);
        assert_eq!((&sum.prefixes[0].0[..], sum.prefixes[0].1.keys), (&b"new:"[..], LOOKS_MIN as u64));
        survey.clear();
        assert_eq!(surveyed(&survey, 0).looks, KeyShare::default());
    }

    #[test]
    fn names_without_a_common_prefix_take_bounded_memory() {
        let mut survey = Survey::new(1);
        let letters = |mut n: usize| {
            let mut name = String::new();
            while n > 0 {
                name.push(char::from(b'g' + (n % 20) as u8));
                n /= 20;
            }
            name
        };
        (0..LOOKS_MAX).for_each(|n| survey.add(&seen(&letters(n + 1), 10, None), 0));
        assert!(survey.sums.len() <= PREFIXES_MAX);
        let sum = surveyed(&survey, 0);
        let others = sum.prefixes.iter().find(|(text, _)| text == OTHERS).expect("others").1;
        assert_eq!(others.keys as usize, LOOKS_MAX - (PREFIXES_MAX - 1));
        assert_eq!(sum.prefixes.iter().map(|(_, share)| share.keys).sum::<u64>() as usize, LOOKS_MAX);
    }

    #[test]
    fn large_keys_are_those_of_this_round_and_of_the_last() {
        let mut survey = Survey::new(1);
        survey.begin_round(Place::new(0, 0), 0);
        (0..100).for_each(|n| survey.add(&seen(&format!("k{n}"), 1000 + n, None), 5));
        survey.begin_round(Place::new(0, 0), 10);
        survey.add(&seen("k99", 7_000, None), 12);
        let sum = surveyed(&survey, 20);
        assert_eq!(sum.large.len(), LARGE_MAX);
        assert_eq!((&sum.large[0].name[..], sum.large[0].bytes, sum.large[0].seen_ms), (&b"k99"[..], 7_000, 12));
        assert_eq!((&sum.large[1].name[..], sum.large[1].bytes), (&b"k98"[..], 1_098), "k99 of the last round is old");
        survey.begin_round(Place::new(0, 0), 20);
        assert_eq!(surveyed(&survey, 20).large.len(), 1, "what was not seen again is forgotten");
    }
}
