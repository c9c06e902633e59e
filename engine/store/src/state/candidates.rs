//! State of eviction between two evictions: the cutoff of a drain, and keys that were drawn and not evicted.

use varve_base::Ref;

use super::policy::Policy;

/// Candidates that are kept from one eviction to the next.
pub(crate) const CANDIDATES: usize = 16;

/// A drain drops the objects beyond it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cutoff {
    pub(crate) policy: Policy,
    /// Of the objects with just this score a share is dropped, in parts of 2^16; of those with a higher one, all.
    pub(crate) score: u64,
    pub(crate) ties: u64,
    pub(crate) uses: u32,
}

/// Keys that were drawn and not evicted, the best last.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) policy: Option<Policy>,
    pub(crate) best: Vec<Candidate>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) score: u64,
    pub(crate) hash: u64,
    /// Where the object was: one that has moved or was replaced is not found again.
    pub(crate) r: Ref,
}

impl Candidates {
    pub(crate) fn follow(&mut self, policy: Policy) {
        if self.policy.replace(policy) != Some(policy) {
            self.best.clear();
        }
    }

    /// Puts a candidate in its place; the worst falls out.
    pub(crate) fn add(&mut self, new: Candidate) {
        if self.best.iter().any(|known| known.r == new.r) {
            return;
        }
        let at = self.best.partition_point(|known| known.score < new.score);
        if self.best.len() < CANDIDATES {
            self.best.insert(at, new);
        } else if at > 0 {
            self.best[..at].rotate_left(1);
            self.best[at - 1] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::policy::Policy;

    #[test]
    fn the_best_candidates_are_kept() {
        let log = varve_segment::Log::new(varve_segment::LogGeometry { reserve_bytes: 64 << 20, ..Default::default() });
        let log = log.expect("an address range");
        let mut candidates = Candidates::default();
        candidates.follow(Policy::AllKeysLru);
        for score in [3, 50, 7, 7, 1].into_iter().chain(10..40) {
            candidates.add(Candidate { score, hash: 0, r: log.recall(score * 64 + candidates.best.len() as u64) });
        }
        let scores: Vec<u64> = candidates.best.iter().map(|c| c.score).collect();
        assert_eq!(scores, (25..40).chain([50]).collect::<Vec<u64>>());
        candidates.follow(Policy::AllKeysLru);
        assert_eq!(candidates.best.len(), CANDIDATES);
        candidates.follow(Policy::VolatileTtl);
        assert!(candidates.best.is_empty(), "scores of two policies do not compare");
    }
}
