//! Sealed segments by the share of their bytes that lives, so that a victim is found without a look at all of them.
//!
//! ```text
//! rung    0                 1            2          ...         31
//!         nothing lives     up to 1/31   up to 2/31             nearly all lives
//! list    a <-> b <-> c     (empty)      d                      e <-> f <-> g
//!         longest here ... latest come
//! ```
//! A segment is filed when it is sealed, and again when deaths have brought it to another rung. A death tells this file
//! only once in 1/256 of a segment (`table`), so the rungs follow a little late. The choice reads
//! the exact figures of the few segments that it looks at.
//!
//! Links are numbers beside the segments, four bytes each way. Nothing here is looked through as a whole.

/// Rungs: one for segments in which nothing lives, the others by the live share.
const RUNGS: usize = 32;
/// Segments of a rung that are looked at by a choice: the longest there, and the latest come.
const FIRST_LOOKS: usize = 8;
const LAST_LOOKS: usize = 4;
/// No segment.
const NONE: u32 = u32::MAX;
/// The segment is on no rung.
const NOWHERE: u8 = u8::MAX;

/// The rung of a segment with these live and used bytes.
pub(crate) fn rung_of(live: u64, used: u64) -> u8 {
    if live == 0 {
        return 0;
    }
    let share = live.min(used) * (RUNGS as u64 - 1) / used.max(1);
    (1 + share.min(RUNGS as u64 - 2)) as u8
}

#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
    rung: u8,
}

const UNLINKED: Links = Links { before: NONE, after: NONE, rung: NOWHERE };

/// The sealed segments, on their rungs.
#[derive(Debug)]
pub(crate) struct Fullness {
    /// First and last segment of each rung.
    rungs: [(u32, u32); RUNGS],
    links: Vec<Links>,
    count: usize,
}

impl Fullness {
    pub(crate) fn new() -> Fullness {
        Fullness { rungs: [(NONE, NONE); RUNGS], links: Vec::new(), count: 0 }
    }

    /// Files a segment at the end of a rung, wherever it was before.
    pub(crate) fn file(&mut self, segment: u32, rung: u8) {
        assert!(usize::from(rung) < RUNGS, "rung {rung} of {RUNGS}");
        let at = segment as usize;
        if self.links.len() <= at {
            self.links.resize(at + 1, UNLINKED);
        }
        if self.links[at].rung == rung {
            return;
        }
        self.remove(segment);
        let (first, last) = &mut self.rungs[usize::from(rung)];
        self.links[at] = Links { before: *last, after: NONE, rung };
        match *last {
            NONE => *first = segment,
            before => self.links[before as usize].after = segment,
        }
        *last = segment;
        self.count += 1;
    }

    /// Takes a segment off its rung, if it is on one.
    pub(crate) fn remove(&mut self, segment: u32) {
        let Some(links) = self.links.get_mut(segment as usize) else { return };
        let Links { before, after, rung } = std::mem::replace(links, UNLINKED);
        if rung == NOWHERE {
            return;
        }
        match before {
            NONE => self.rungs[usize::from(rung)].0 = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.rungs[usize::from(rung)].1 = before,
            after => self.links[after as usize].before = before,
        }
        assert!(self.count > 0, "segment {segment} was filed and not counted");
        self.count -= 1;
    }

    /// Some segments of each rung, the emptiest rung first: at most twelve of each.
    pub(crate) fn leaders(&self) -> impl Iterator<Item = u32> + '_ {
        (0..RUNGS).flat_map(|rung| self.leaders_of(rung))
    }

    fn leaders_of(&self, rung: usize) -> impl Iterator<Item = u32> + '_ {
        let (first, last) = self.rungs[rung];
        let follow = |from: u32, next: fn(&Links) -> u32| {
            let step = move |&id: &u32| Some(next(&self.links[id as usize])).filter(|&id| id != NONE);
            std::iter::successors(Some(from).filter(|&id| id != NONE), step)
        };
        let mut front = [NONE; FIRST_LOOKS];
        front.iter_mut().zip(follow(first, |links| links.after)).for_each(|(place, id)| *place = id);
        let back = follow(last, |links| links.before).take(LAST_LOOKS).filter(move |id| !front.contains(id));
        front.into_iter().filter(|&id| id != NONE).chain(back)
    }

    /// How many segments are filed.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The rung of a segment, if it is filed.
    pub(crate) fn rung(&self, segment: u32) -> Option<u8> {
        self.links.get(segment as usize).map(|links| links.rung).filter(|&rung| rung != NOWHERE)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Links>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use varve_base::rng::Rng;

    use super::*;

    #[test]
    fn rungs_rise_with_what_lives() {
        assert_eq!((rung_of(0, 1000), rung_of(1, 1000), rung_of(1000, 1000)), (0, 1, RUNGS as u8 - 1));
        assert_eq!((rung_of(0, 0), rung_of(9, 3), rung_of(5, 0)), (0, RUNGS as u8 - 1, 1));
        let rungs: Vec<u8> = (0..=8 << 20).step_by(1 << 12).map(|live| rung_of(live, 8 << 20)).collect();
        assert!(rungs.is_sorted(), "a segment that loses bytes does not rise");
    }

    #[test]
    fn lists_hold_what_was_filed_in_the_order_of_coming() {
        let mut rng = Rng::seeded(7);
        let mut fullness = Fullness::new();
        let mut naive: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for _ in 0..20_000 {
            let (segment, rung) = (rng.below(300) as u32, rng.below(RUNGS as u64) as u8);
            let was = fullness.rung(segment);
            let filed = rng.below(3) > 0;
            if filed && was == Some(rung) {
                continue;
            }
            if let Some(was) = was {
                naive.get_mut(&was).expect("it was filed").retain(|&other| other != segment);
            }
            if filed {
                fullness.file(segment, rung);
                naive.entry(rung).or_default().push(segment);
            } else {
                fullness.remove(segment);
            }
            assert_eq!(fullness.count(), naive.values().map(Vec::len).sum::<usize>());
        }
        let leaders: Vec<u32> = fullness.leaders().collect();
        let expected: Vec<u32> = naive
            .values()
            .flat_map(|list| {
                let front = list.iter().take(FIRST_LOOKS);
                let back = list.iter().skip(FIRST_LOOKS).rev().take(LAST_LOOKS);
                front.chain(back).copied().collect::<Vec<u32>>()
            })
            .collect();
        assert_eq!(leaders, expected);
        assert!(leaders.len() <= RUNGS * (FIRST_LOOKS + LAST_LOOKS), "a choice is bounded");
    }
}
