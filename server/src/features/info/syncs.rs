//! Data sets on their way between servers, as work that ends: the primary's to this one, and this one's to its replicas.
//!
//! ```text
//!   bytes   0 ..... done ............. total        left: as long as the rest takes at the pace so far
//! ```
//! A data set that is sent while it is written has no total, and so no end that could be known.

use crate::features::replication::state::ReplicationFacts;
use crate::features::replication::state::replica::{Address, LinkFacts, LinkStage};
use crate::features::replication::state::replicas::{ReplicaNow, Stage, Writing};

/// A data set on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sync {
    /// The other end.
    pub(super) peer: String,
    /// It comes from there; otherwise it goes there.
    pub(super) comes: bool,
    pub(super) done_bytes: u64,
    /// None while that is not known.
    pub(super) total_bytes: Option<u64>,
    /// Seconds, rounded up; None while nothing tells.
    pub(super) left_s: Option<u64>,
}

/// All of them.
pub(super) fn syncs(now: &ReplicationFacts) -> Vec<Sync> {
    let comes = now.primary.as_ref().and_then(|(address, link)| coming(address, link));
    comes.into_iter().chain(now.replicas.iter().filter_map(|replica| going(replica, now.now_ms))).collect()
}

fn coming(address: &Address, link: &LinkFacts) -> Option<Sync> {
    let began = link.sync_began.filter(|_| link.stage == LinkStage::Sync)?;
    let (total, done_bytes) = link.sync_bytes;
    let total_bytes = (total > 0).then_some(total);
    let left_s = left_s(done_bytes, total_bytes, began.elapsed().as_millis() as u64);
    let peer = format!("{}:{}", address.host, address.port);
    Some(Sync { peer, comes: true, done_bytes, total_bytes, left_s })
}

fn going(replica: &ReplicaNow, now_ms: i64) -> Option<Sync> {
    let Stage::Gets(file) = &replica.stage else { return None };
    let (bytes, writing) = file.written();
    let (done_bytes, total_bytes) = (replica.sent_bytes, (writing == Writing::Whole).then_some(bytes));
    let left_s = left_s(done_bytes, total_bytes, (now_ms - replica.sent_since_ms).max(0) as u64);
    let peer = format!("{}:{}", replica.address, replica.port);
    Some(Sync { peer, comes: false, done_bytes, total_bytes, left_s })
}

/// The time that is left at the pace so far.
fn left_s(done: u64, total: Option<u64>, passed_ms: u64) -> Option<u64> {
    let left = total?.saturating_sub(done);
    let left_ms = u128::from(left) * u128::from(passed_ms) / u128::from((done > 0).then_some(done)?);
    u64::try_from(left_ms.div_ceil(1000)).ok()
}

#[cfg(test)]
mod tests {
    use super::left_s;

    #[test]
    fn the_time_left_follows_the_pace_so_far() {
        assert_eq!(left_s(200, Some(1000), 10_000), Some(40));
        assert_eq!(left_s(999, Some(1000), 10_000), Some(1), "rounded up: it is not done");
        assert_eq!(left_s(1000, Some(1000), 10_000), Some(0));
        assert_eq!(left_s(1001, Some(1000), 10_000), Some(0), "more came than was announced");
        assert_eq!((left_s(0, Some(1000), 10_000), left_s(5, None, 10_000)), (None, None));
        assert_eq!(left_s(1, Some(u64::MAX), u64::MAX), None, "longer than can be said");
    }
}
