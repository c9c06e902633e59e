//! Replication under redis_exporter's names: the link to a primary, and each replica, by where it is.
//!
//! ```text
//!   of a replica    redis_slave_info, redis_master_link_up, redis_master_last_io_seconds_ago,
//!                   redis_master_sync_in_progress, redis_slave_repl_offset      {master_host, master_port}
//!   of a primary    redis_connected_slave_offset_bytes, redis_connected_slave_lag_seconds
//!                                                                               {slave_ip, slave_port, slave_state}
//! ```
//! Numbers that have no such labels are among INFO's fields (`names`).

use super::super::facts::Facts;
use super::super::sections::{lag_s, seconds_since};
use super::text::Text;
use crate::features::replication::state::replica::LinkStage;

pub(super) fn replication(facts: &Facts, text: &mut Text) {
    following(facts, text);
    let replicas: Vec<_> =
        facts.replication.replicas.iter().map(|replica| (replica, replica.port.to_string())).collect();
    let mut family = |name: &str, help: &str, value: &dyn Fn(usize) -> f64| {
        if !replicas.is_empty() {
            text.family(name, "gauge", help);
        }
        for (nth, (replica, port)) in replicas.iter().enumerate() {
            let labels =
                [("slave_ip", replica.address.as_str()), ("slave_port", port), ("slave_state", replica.stage.name())];
            text.line(name, &labels, value(nth));
        }
    };
    family("redis_connected_slave_offset_bytes", "Offset that a replica has acknowledged.", &|nth| {
        replicas[nth].0.acked as f64
    });
    family("redis_connected_slave_lag_seconds", "Time since a replica's last sign of life.", &|nth| {
        lag_s(replicas[nth].0, facts.replication.now_ms) as f64
    });
}

/// The link to the primary, if there is one.
fn following(facts: &Facts, text: &mut Text) {
    let Some((primary, link)) = &facts.replication.primary else { return };
    let port = primary.port.to_string();
    let (host, port) = (("master_host", primary.host.as_str()), ("master_port", port.as_str()));
    let read_only = u8::from(facts.config.replica.read_only).to_string();
    let is_up = link.stage == LinkStage::Up;
    text.family("redis_slave_info", "gauge", "Whom the server follows.");
    text.line("redis_slave_info", &[host, port, ("read_only", &read_only)], 1);
    let figures = [
        ("redis_master_link_up", "1: the link to the primary is up.", i64::from(is_up)),
        (
            "redis_master_last_io_seconds_ago",
            "Time since something came from the primary, -1 while the link is down.",
            seconds_since(link.heard.filter(|_| is_up)),
        ),
        (
            "redis_master_sync_in_progress",
            "1: the primary's data is on its way, or being loaded.",
            i64::from(link.stage == LinkStage::Sync),
        ),
        ("redis_slave_repl_offset", "Offset up to which the stream is applied.", facts.replication.offset as i64),
    ];
    for (name, help, value) in figures {
        text.family(name, "gauge", help);
        text.line(name, &[host, port], value);
    }
}
