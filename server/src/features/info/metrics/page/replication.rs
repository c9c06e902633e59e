//! Replication: the server that this one follows, and those that follow it.

use serde_json::{Value, json};

use crate::features::info::facts::Facts;
use crate::features::replication::state::replica::LinkStage;
use crate::features::replication::state::replicas::Stage;

/// The page's figures of it.
pub(super) fn replication(facts: &Facts) -> Value {
    let now = &facts.replication;
    let primary = now.primary.as_ref().map(|(address, link)| {
        let state = match link.stage {
            LinkStage::Up => "up",
            LinkStage::Sync => "receives the data",
            _ => "down",
        };
        let heard_s = link.heard.map(|heard| heard.elapsed().as_secs());
        json!({ "address": format!("{}:{}", address.host, address.port), "state": state, "heard_s": heard_s })
    });
    let replicas = now.replicas.iter().map(|replica| {
        let state = match replica.stage {
            Stage::WaitsForWalk | Stage::InWalk | Stage::Ends(_) => "waits for the data",
            Stage::Gets(_) => "gets the data",
            Stage::Online => "online",
        };
        let is_online = matches!(replica.stage, Stage::Online);
        json!({
            "address": format!("{}:{}", replica.address, replica.port), "state": state,
            "behind": if is_online { now.offset.saturating_sub(replica.acked) } else { 0 },
            "heard_s": if is_online { (now.now_ms - replica.acked_ms).max(0) / 1000 } else { 0 },
        })
    });
    json!({ "offset": now.offset, "primary": primary, "replicas": replicas.collect::<Vec<_>>() })
}
