//! The scripts that a server knows, by the SHA-1 of their text.
//!
//! ```text
//!   EVAL body         --add(by_eval)-->  +-----------------------------+
//!   SCRIPT LOAD body  --add----------->  | name -> body, kept for good | --get--> a worker compiles it for itself
//!                                        | or by EVAL, oldest first    |
//!                                        +-----------------------------+
//!   changes: counts what was taken out; a worker that finds it changed forgets its chunks of scripts that are gone
//!   gone: the last names that were taken out, so that the worker need not ask for each of its chunks
//! ```
//! Scripts that only EVAL has brought leave, oldest first, once there are more than 500: clients that put values into the
//! text would fill the memory else. SCRIPT LOAD's stay until SCRIPT FLUSH, since EVALSHA relies on them.
//!
//! Not here: compiled chunks, which belong to the worker's state of the language.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use varve_base::counted::{CountedMutex, HeapBytes};
use varve_base::number::HEX_DIGITS;
use varve_base::sha1::{Digest, sha1};
use varve_base::shared::SharedU64;

/// Scripts that only EVAL has brought and that are kept.
const BY_EVAL_MAX: usize = 500;
/// Names of scripts that have left which are kept for the workers.
const GONE_MAX: usize = 1024;
/// Bytes that a script takes beside its text.
const ENTRY_BYTES: usize = 120;

/// The name of a script: the SHA-1 of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(Digest);

/// The values of hexadecimal digits of either case; of other bytes, more than any digit's.
const DIGIT_VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        let digit = HEX_DIGITS[value];
        values[digit as usize] = value as u8;
        values[digit.to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    values
};
const NO_DIGIT: u8 = 0xff;

impl Name {
    /// The name of the script with this text.
    pub(crate) fn of(body: &[u8]) -> Name {
        Name(sha1(body))
    }

    /// Number of hexadecimal digits that say a name.
    pub(crate) const DIGITS: usize = 40;

    /// The name that these hexadecimal digits of either case say; None if they are no such.
    pub(crate) fn parse(text: &[u8]) -> Option<Name> {
        let digits: &[u8; Name::DIGITS] = text.try_into().ok()?;
        let mut digest = [0; 20];
        for (byte, pair) in digest.iter_mut().zip(digits.as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| DIGIT_VALUES[usize::from(digit)]);
            if high | low == NO_DIGIT {
                return None;
            }
            *byte = high << 4 | low;
        }
        Some(Name(digest))
    }

    /// Its bytes.
    pub(crate) fn digest(&self) -> &Digest {
        &self.0
    }

    /// The hexadecimal digits.
    pub(crate) fn hex(self) -> [u8; Name::DIGITS] {
        let half = |at: usize| if at.is_multiple_of(2) { self.0[at / 2] >> 4 } else { self.0[at / 2] & 0xf };
        std::array::from_fn(|at| HEX_DIGITS[usize::from(half(at))])
    }
}

impl Hash for Name {
    /// A part of a digest is as good as all of it.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let (part, _) = self.0.split_first_chunk().expect("a digest has 20 bytes");
        hasher.write_u64(u64::from_ne_bytes(*part));
    }
}

/// Hashes names in a worker's table. The seed is drawn, since clients choose the texts of scripts: they cannot find out
/// which of them meet in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameHashes {
    seed: u64,
}

impl Default for NameHashes {
    fn default() -> NameHashes {
        NameHashes { seed: RandomState::new().hash_one(0) | 1 }
    }
}

impl BuildHasher for NameHashes {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher { seed: self.seed, hash: 0 }
    }
}

/// See [`NameHashes`].
pub(crate) struct NameHasher {
    seed: u64,
    hash: u64,
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, n: u64) {
        let product = u128::from(self.hash ^ n) * u128::from(self.seed);
        self.hash = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

/// The scripts of a server, shared by its workers.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Counts what was taken out.
    changes: SharedU64,
    scripts: CountedMutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    scripts: HashMap<Name, Script>,
    /// Those that only EVAL has brought, oldest first.
    by_eval: VecDeque<Name>,
    /// The last that have left one by one, oldest first: each is one of the changes.
    gone: VecDeque<Name>,
    bytes: usize,
}

/// Scripts that have left, as a worker's chunks are to follow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// These scripts have left, and are not known again.
    These(Vec<Name>),
    /// Many have, or all: each chunk is asked for.
    Many,
}

impl HeapBytes for Known {
    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

#[derive(Debug)]
struct Script {
    body: Arc<[u8]>,
    /// Only EVAL has brought it.
    by_eval: bool,
}

impl Cache {
    /// Adds a script; `by_eval`: it may leave again.
    pub(crate) fn add(&self, name: Name, body: &[u8], by_eval: bool) {
        let mut known = self.scripts.lock();
        if let Some(script) = known.scripts.get_mut(&name) {
            if script.by_eval && !by_eval {
                script.by_eval = false;
                known.by_eval.retain(|other| *other != name);
            }
            return;
        }
        known.bytes += body.len() + ENTRY_BYTES;
        known.scripts.insert(name, Script { body: body.into(), by_eval });
        if !by_eval {
            return;
        }
        known.by_eval.push_back(name);
        if known.by_eval.len() > BY_EVAL_MAX
            && let Some(oldest) = known.by_eval.pop_front()
            && let Some(script) = known.scripts.remove(&oldest)
        {
            known.bytes -= script.body.len() + ENTRY_BYTES;
            if known.gone.len() == GONE_MAX {
                known.gone.pop_front();
            }
            known.gone.push_back(oldest);
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// The text of a script.
    pub(crate) fn get(&self, name: Name) -> Option<Arc<[u8]>> {
        self.scripts.lock().scripts.get(&name).map(|script| Arc::clone(&script.body))
    }

    /// True if there is a script of this name.
    pub(crate) fn has(&self, name: Name) -> bool {
        self.scripts.lock().scripts.contains_key(&name)
    }

    /// Forgets all scripts (SCRIPT FLUSH).
    pub(crate) fn flush(&self) {
        let mut known = self.scripts.lock();
        let all = std::mem::take(&mut *known);
        self.changes.fetch_add(1, Ordering::Release);
        drop(known);
        // Nobody waits for the lock while many texts are freed.
        drop(all);
    }

    /// The scripts that have left since the count of changes was `seen`, and the count of now.
    pub(crate) fn gone_since(&self, seen: u64) -> (Gone, u64) {
        let known = self.scripts.lock();
        // Changes are counted with the lock held.
        let changes = self.changes();
        debug_assert!(seen <= changes, "a worker has seen what has happened");
        let number = usize::try_from(changes - seen).unwrap_or(usize::MAX);
        // A flush is one change without a name.
        let Some(from) = known.gone.len().checked_sub(number) else { return (Gone::Many, changes) };
        let left = known.gone.range(from..).filter(|name| !known.scripts.contains_key(*name));
        (Gone::These(left.copied().collect()), changes)
    }

    /// Counts what was taken out: while it is the same, what a worker has found is still there.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Number of scripts.
    pub(crate) fn len(&self) -> usize {
        self.scripts.lock().scripts.len()
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.scripts.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_either_case() {
        let name = Name::of(b"return 1");
        assert_eq!(name.hex(), *b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(Name::parse(&name.hex()), Some(name));
        assert_eq!(Name::parse(&name.hex().to_ascii_uppercase()), Some(name));
        assert_eq!(Name::parse(b"e0e1"), None);
        assert_eq!(Name::parse(&[b'g'; 40]), None);
        for at in 0..Name::DIGITS {
            let mut digits = name.hex();
            digits[at] = b'G';
            assert_eq!(Name::parse(&digits), None, "digit {at}");
        }
    }

    #[test]
    fn hashes_of_names_are_spread_by_a_seed_of_their_own() {
        let names: Vec<Name> = (0..1000).map(|n: u32| Name::of(&n.to_le_bytes())).collect();
        let hashes = |seed: &NameHashes| -> Vec<u64> { names.iter().map(|name| seed.hash_one(name)).collect() };
        let (one, other) = (NameHashes::default(), NameHashes::default());
        assert_eq!(hashes(&one), hashes(&one));
        assert_ne!(hashes(&one), hashes(&other));
        // A table of hashes asks the lowest bits for the place, and the highest seven for the tag.
        for shift in [0, 57] {
            let mut counts = [0_u32; 128];
            hashes(&one).iter().for_each(|hash| counts[(hash >> shift & 127) as usize] += 1);
            assert!(counts.iter().all(|count| *count < 40), "bits from {shift}: {counts:?}");
        }
    }

    #[test]
    fn a_worker_is_told_what_has_left() {
        let cache = Cache::default();
        let body = |n: usize| format!("return {n}").into_bytes();
        let name = |n: usize| Name::of(&body(n));
        let add = |n: usize| cache.add(name(n), &body(n), true);
        (0..BY_EVAL_MAX).for_each(add);
        assert_eq!(cache.gone_since(0), (Gone::These(vec![]), 0));
        (BY_EVAL_MAX..BY_EVAL_MAX + 3).for_each(add);
        assert_eq!(cache.gone_since(0), (Gone::These(vec![name(0), name(1), name(2)]), 3));
        assert_eq!(cache.gone_since(2), (Gone::These(vec![name(2)]), 3));
        // It has come back, and another one has left for it.
        add(1);
        assert_eq!(cache.gone_since(0), (Gone::These(vec![name(0), name(2), name(3)]), 4));
        // More than are kept.
        (2000..2000 + GONE_MAX).for_each(add);
        assert_eq!(cache.gone_since(3), (Gone::Many, 4 + GONE_MAX as u64));
        assert!(matches!(cache.gone_since(4), (Gone::These(names), _) if names.len() == GONE_MAX));
        let before = cache.changes();
        cache.flush();
        (0..=BY_EVAL_MAX).for_each(add);
        assert_eq!(cache.gone_since(before), (Gone::Many, before + 2), "all have left");
        assert_eq!(cache.gone_since(before + 1), (Gone::These(vec![name(0)]), before + 2));
    }

    #[test]
    fn scripts_of_eval_leave_and_loaded_ones_stay() {
        let cache = Cache::default();
        let body = |n: usize| format!("return {n}").into_bytes();
        let name = |n: usize| Name::of(&body(n));
        cache.add(name(0), &body(0), true);
        cache.add(name(1), &body(1), true);
        cache.add(name(1), &body(1), false);
        cache.add(name(2), &body(2), false);
        let before = cache.changes();
        (3..BY_EVAL_MAX + 3).for_each(|n| cache.add(name(n), &body(n), true));
        assert!(!cache.has(name(0)) && cache.has(name(1)) && cache.has(name(2)) && cache.has(name(3)));
        assert!(cache.changes() > before);
        assert_eq!(cache.len(), BY_EVAL_MAX + 2);
        cache.flush();
        assert_eq!((cache.len(), cache.bytes()), (0, 0));
        assert!(cache.get(name(1)).is_none());
    }
}
