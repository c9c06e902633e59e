//! Clients, and what they wait for: some of each worker, as its last round over its connections found them.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::access::Viewer;
use crate::features::clients::state::on_show::ShownClient;
use crate::state::{Now, ServerState, WorkerHandle};

/// Clients that are shown.
const SHOWN_MAX: usize = 40;
/// How long the first answer waits for each worker at most, in looks: the next whole round over its connections ends within two
/// seconds.
const LOOKS: usize = 50;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// The clients that count most: those that wait, then those that take most memory. Workers list them from the first request on,
/// which waits for their lists. A viewer who may not run CLIENT LIST sees no names, addresses and users.
pub(super) fn clients(state: &ServerState, viewer: Viewer) -> Value {
    let now_ms = Now::read().steady_ms;
    state.workers().iter().for_each(|worker| worker.on_show().want(now_ms));
    let mut all: Vec<ShownClient> = state.workers().iter().flat_map(shown).collect();
    all.sort_by_key(|client| (client.waits_for.is_none(), std::cmp::Reverse(client.bytes), client.id));
    all.truncate(SHOWN_MAX);
    let show = |text: &str| if viewer.sees_clients { text.to_owned() } else { String::new() };
    json!(
        all.iter()
            .map(|client| json!({
                "id": client.id, "peer": show(&client.peer), "name": show(&client.name), "user": show(&client.user), "db": client.db,
                "command": client.command, "waits_for": client.waits_for, "age_s": client.age_s,
                "idle_s": client.idle_s, "bytes": client.bytes,
            }))
            .collect::<Vec<_>>()
    )
}

/// A worker's list; empty if it has come to none in time, as when its clock is stopped.
fn shown(worker: &WorkerHandle) -> Vec<ShownClient> {
    let looks = (0..LOOKS).map(|look| {
        if look > 0 {
            sleep(LOOK);
        }
        worker.on_show().clients()
    });
    looks.flatten().next().unwrap_or_default()
}
