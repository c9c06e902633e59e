//! Data sets on their way between servers, as work that ends: the primary's to this one, and this one's to its replicas.
//!
//! A data set that is sent while it is written has no total, and so no end that could be known.

use crate::features::replication::state::ReplicationFacts;
use crate::features::replication::state::replica::{Address, LinkFacts, LinkStage};
use crate::features::replication::state::replicas::{ReplicaNow, Stage, Writing};
use crate::time_left::time_left_s;

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
    let left_s = total_bytes.and_then(|total| time_left_s(done_bytes, total, began.elapsed().as_millis() as u64));
    let peer = format!("{}:{}", address.host, address.port);
    Some(Sync { peer, comes: true, done_bytes, total_bytes, left_s })
}

fn going(replica: &ReplicaNow, now_ms: i64) -> Option<Sync> {
    let Stage::Gets(file) = &replica.stage else { return None };
    let (bytes, writing) = file.written();
    let (done_bytes, total_bytes) = (replica.sent_bytes, (writing == Writing::Whole).then_some(bytes));
    let passed_ms = (now_ms - replica.sent_since_ms).max(0) as u64;
    let left_s = total_bytes.and_then(|total| time_left_s(done_bytes, total, passed_ms));
    let peer = format!("{}:{}", replica.address, replica.port);
    Some(Sync { peer, comes: false, done_bytes, total_bytes, left_s })
}
