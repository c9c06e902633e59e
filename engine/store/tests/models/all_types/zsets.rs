//! Operations on sorted sets, and their model.

use std::collections::BTreeMap;

use super::value::{Plain, ordered};
use super::{Name, Op, World, word, words};
use varve_store::{LexBound, ScoreBound, Type, WrongType, ZAdd, ZAdded, ZRange};

const SCORES: [f64; 16] = [
    0.0,
    1.0,
    -0.0,
    2.0,
    0.1,
    -1.5,
    1e17,
    f64::INFINITY,
    f64::NEG_INFINITY,
    3.0,
    100_000.0,
    -7.0,
    1e-300,
    f64::MAX,
    4.0,
    9_007_199_254_740_993.0,
];

fn score(n: u8) -> f64 {
    SCORES[usize::from(n % 16)]
}

impl World {
    pub(super) fn sorted(&mut self, op: Op, name: &Name, number: u8) {
        match number {
            0..=4 => self.zset_add(op, name, number),
            5 => self.zset_remove(op, name),
            6 => self.zset_remove_range(op, name),
            7 => self.zset_pop(op, name),
            8 => self.zset_store(op, name),
            9 | 10 => self.zset_range(op, name),
            11 => self.zset_one(op, name),
            _ => self.zset_scan(op, name),
        }
    }

    fn zset_add(&mut self, op: Op, name: &Name, number: u8) {
        let how = match number {
            0 => ZAdd { nx: op.number.is_multiple_of(3), xx: op.number % 3 == 1, ..ZAdd::default() },
            1 => ZAdd {
                gt: op.number.is_multiple_of(2),
                lt: op.number % 2 == 1,
                xx: op.number.is_multiple_of(5),
                ..ZAdd::default()
            },
            2 => ZAdd { incr: true, nx: op.number.is_multiple_of(7), gt: op.number % 7 == 1, ..ZAdd::default() },
            _ => ZAdd::default(),
        };
        for (n, member) in words(op).into_iter().enumerate() {
            let score = score(op.number.wrapping_add(n as u8 / 2));
            let added = self.with(op, &[name], |tx| tx.zset_add(&tx.key(&name.1), &member, score, how));
            let expected = match self.typed(name, Type::Zset, true) {
                Ok(value) => Ok(model_add(value.expect("made").zset(), member, score, how)),
                Err(wrong) => Err(wrong),
            };
            assert_eq!(added, expected);
            self.settle(name);
        }
    }

    fn zset_remove(&mut self, op: Op, name: &Name) {
        for member in words(op) {
            let removed = self.with(op, &[name], |tx| tx.zset_remove(&tx.key(&name.1), &member));
            let expected = self.typed(name, Type::Zset, false);
            let expected = expected.map(|value| value.is_some_and(|value| value.zset().remove(&member).is_some()));
            assert_eq!(removed, expected);
            self.settle(name);
        }
    }

    fn zset_remove_range(&mut self, op: Op, name: &Name) {
        let ends = (word(op.two), word(op.number));
        let range = range(op, (&ends.0, &ends.1));
        let Some(chosen) = self.chosen(name, &range, false) else { return };
        let removed = self.with(op, &[name], |tx| tx.zset_remove_range(&tx.key(&name.1), &range));
        assert_eq!(removed, chosen.as_ref().map(Vec::len).map_err(|e| *e));
        for (member, _) in chosen.unwrap_or_default() {
            self.typed(name, Type::Zset, false).expect("it was one").expect("it is there").zset().remove(&member);
        }
        self.settle(name);
    }

    fn zset_pop(&mut self, op: Op, name: &Name) {
        let (max, count, mut shown) = (op.two.is_multiple_of(2), usize::from(op.number), Vec::new());
        let popped = self.with(op, &[name], |tx| {
            tx.zset_pop(&tx.key(&name.1), max, count, &mut |member, score| shown.push((member.to_vec(), score)))
        });
        let expected = self.typed(name, Type::Zset, false).map(|value| {
            value.map_or(Vec::new(), |value| {
                let mut all = ordered(value.zset());
                if max {
                    all.reverse();
                }
                all.truncate(count);
                all.iter().for_each(|(member, _)| _ = value.zset().remove(member));
                all
            })
        });
        assert_eq!((popped, shown), (expected.as_ref().map(Vec::len).map_err(|e| *e), expected.unwrap_or_default()));
        self.settle(name);
    }

    fn zset_store(&mut self, op: Op, name: &Name) {
        let words = if op.number.is_multiple_of(16) { Vec::new() } else { words(op) };
        let new: BTreeMap<Vec<u8>, f64> =
            words.into_iter().enumerate().map(|(n, word)| (word, score(op.number.wrapping_add(n as u8 / 3)))).collect();
        let mut items: Vec<(Vec<u8>, f64)> = new.clone().into_iter().collect();
        self.with(op, &[name], |tx| tx.zset_store(&tx.key(&name.1), &mut items));
        self.model.insert(name.clone(), (Plain::Zset(new), None));
        self.settle(name);
    }

    /// The members of a range, from its low end; `None` where nobody says which: a range of members over several scores.
    #[allow(clippy::type_complexity, reason = "a list, or the wrong type, or no answer")]
    fn chosen(&mut self, name: &Name, range: &ZRange<'_>, rev: bool) -> Option<Result<Vec<(Vec<u8>, f64)>, WrongType>> {
        let all = match self.typed(name, Type::Zset, false) {
            Err(wrong) => return Some(Err(wrong)),
            Ok(value) => value.map_or(Vec::new(), |value| ordered(value.zset())),
        };
        let len = all.len() as u64;
        let inside = |n: usize, member: &[u8], score: f64| match *range {
            ZRange::Rank { start, stop } => {
                let rank = if rev { len - 1 - n as u64 } else { n as u64 };
                (start..=stop).contains(&rank)
            }
            ZRange::Score { min, max } => {
                let low = if min.open { score > min.value } else { score >= min.value };
                low && if max.open { score < max.value } else { score <= max.value }
            }
            ZRange::Lex { min, max } => {
                let low = match min {
                    LexBound::Min => true,
                    LexBound::Max => false,
                    LexBound::Incl(bound) => member >= bound,
                    LexBound::Excl(bound) => member > bound,
                };
                low && match max {
                    LexBound::Min => false,
                    LexBound::Max => true,
                    LexBound::Incl(bound) => member <= bound,
                    LexBound::Excl(bound) => member < bound,
                }
            }
        };
        if matches!(range, ZRange::Lex { .. }) && all.iter().any(|item| item.1 != all[0].1) {
            return None;
        }
        let items = all.iter().enumerate().filter(|(n, item)| inside(*n, &item.0, item.1));
        Some(Ok(items.map(|(_, item)| item.clone()).collect()))
    }

    fn zset_range(&mut self, op: Op, name: &Name) {
        let ends = (word(op.two), word(op.number));
        let (range, rev) = (range(op, (&ends.0, &ends.1)), op.two.is_multiple_of(2));
        let (skip, limit) = (usize::from(op.two % 3), if op.two.is_multiple_of(5) { 4 } else { usize::MAX });
        let Some(chosen) = self.chosen(name, &range, rev) else { return };
        let mut shown = Vec::new();
        let (count, many) = self.with(op, &[name], |tx| {
            let k = tx.key(&name.1);
            let mut show = |member: &[u8], score: f64| shown.push((member.to_vec(), score));
            let shown = tx.zset_range(&k, |_| range, rev, (skip, limit), &mut show).map(|(count, _)| count);
            assert_eq!(shown, tx.zset_range_len(&k, &range, rev, skip, limit));
            (tx.zset_count(&k, &range), shown)
        });
        if !matches!(range, ZRange::Rank { .. }) || !rev {
            assert_eq!(count, chosen.as_ref().map(Vec::len).map_err(|e| *e));
        }
        let expected = chosen.map(|mut chosen| {
            if rev {
                chosen.reverse();
            }
            chosen.into_iter().skip(skip).take(limit).collect::<Vec<_>>()
        });
        assert_eq!((many, shown), (expected.as_ref().map(Vec::len).map_err(|e| *e), expected.unwrap_or_default()));
    }

    /// Rank and score of one member.
    fn zset_one(&mut self, op: Op, name: &Name) {
        let (member, rev) = (word(op.two), op.number.is_multiple_of(2));
        let found = self.with(op, &[name], |tx| {
            let k = tx.key(&name.1);
            let rank = tx.zset_rank(&k, &member, rev)?;
            assert_eq!(tx.zset_score(&k, &member)?, rank.map(|(_, score)| score));
            Ok(rank)
        });
        let expected = self.typed(name, Type::Zset, false).map(|value| {
            let all = value.map_or(Vec::new(), |value| ordered(value.zset()));
            let at = all.iter().position(|item| item.0 == member)?;
            Some(((if rev { all.len() - 1 - at } else { at }) as u64, all[at].1))
        });
        assert_eq!(found, expected);
    }

    /// A whole scan of a sorted set at rest shows each member once.
    fn zset_scan(&mut self, op: Op, name: &Name) {
        let Ok(Some(value)) = self.typed(name, Type::Zset, false) else { return };
        let expected = value.zset().clone();
        let mut seen = BTreeMap::new();
        self.with(op, &[name], |tx| {
            let (k, mut cursor) = (tx.key(&name.1), 0);
            loop {
                let show = &mut |member: &[u8], score: f64| {
                    assert!(seen.insert(member.to_vec(), score).is_none(), "a member twice");
                };
                cursor = tx.zset_scan(&k, cursor, 1 + usize::from(op.number), show).expect("a sorted set");
                if cursor == 0 {
                    return;
                }
            }
        });
        assert_eq!(seen, expected);
    }
}

fn model_add(zset: &mut BTreeMap<Vec<u8>, f64>, member: Vec<u8>, score: f64, how: ZAdd) -> ZAdded {
    let Some(&old) = zset.get(&member) else {
        if how.xx {
            return ZAdded::Refused;
        }
        zset.insert(member, score);
        return ZAdded::Added(score);
    };
    let new = if how.incr { old + score } else { score };
    match () {
        () if how.nx => ZAdded::Refused,
        () if new.is_nan() => ZAdded::NotANumber,
        () if how.gt && new <= old || how.lt && new >= old => ZAdded::Refused,
        () if new == old => ZAdded::Same(new),
        () => {
            zset.insert(member, new);
            ZAdded::Updated(new)
        }
    }
}

fn range<'m>(op: Op, (low, high): (&'m [u8], &'m [u8])) -> ZRange<'m> {
    let open = |n: u8| n.is_multiple_of(2);
    match op.number % 3 {
        0 => ZRange::Rank { start: u64::from(op.two % 32), stop: u64::from(op.number / 2) },
        1 => ZRange::Score {
            min: ScoreBound { value: score(op.two), open: open(op.number / 3) },
            max: ScoreBound { value: score(op.number / 16), open: open(op.two / 16) },
        },
        _ => {
            let bound = |member, n| match n % 8 {
                0 => LexBound::Min,
                1 => LexBound::Max,
                2..5 => LexBound::Incl(member),
                _ => LexBound::Excl(member),
            };
            ZRange::Lex { min: bound(low, op.number / 3), max: bound(high, op.two / 3) }
        }
    }
}
