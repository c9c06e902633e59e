//! The page: one file of HTML that shows what the server does, and the figures that it asks for.
//!
//! ```text
//!   GET /                    page.html, which is in the program
//!   GET /now.json?since=N    each second: the samples from number N on (history), keys, work under way
//!   GET /detail.json         each five seconds: commands with their latencies, slow commands, waits, settings
//!   GET /segments.json       each five seconds, while the map is in view: the segments (tiles)
//!   GET /keys.json           each five seconds: keys by use, bytes by prefix, large keys, what expires soon
//!   GET /clients.json        each five seconds: clients, and what they wait for
//! ```
//! Nothing on the page changes data, and no worker takes part. The page asks for nothing while nobody looks at it: a page
//! that is left open costs the server less than a thousandth of a core. Names and arguments are text wherever they are
//! shown, whatever they contain.

mod clients;
mod detail;
mod history;
mod keys;
mod replication;
mod tiles;

use std::time::Instant;

use serde_json::{Value, json};
use varve_base::shared::SharedMutex;

use super::access::Viewer;
use super::http::{Answer, Request};
use crate::features::info::gather::{self, databases, persistence};
use crate::features::info::syncs::syncs;
use crate::state::{Now, ServerState};
use crate::time_left::time_left_s;
use history::History;

/// The page.
const PAGE: &str = include_str!("page.html");
const _: () = assert!(PAGE.len() < 100 << 10, "the page is under 100 KB");

/// The state that the page's figures need.
#[derive(Debug, Default)]
pub(super) struct Page {
    history: SharedMutex<History>,
}

impl Page {
    /// Takes a sample if one is due.
    pub(super) fn follow(&self, state: &ServerState) {
        self.history.lock().follow(state, Instant::now());
    }

    /// The answer to a request that is the page's; None for others'.
    pub(super) fn answer(&self, request: &Request, viewer: Viewer, state: &ServerState) -> Option<Answer> {
        let figures = match request.path.as_str() {
            "/" => return Some(Answer { kind: "text/html; charset=utf-8", ..Answer::text(200, "OK", PAGE) }),
            "/now.json" => self.now(request, state),
            "/detail.json" => detail::detail(state, viewer),
            "/segments.json" => tiles::tiles(state),
            "/keys.json" => keys::keys(state, viewer, Now::read().unix_ms),
            "/clients.json" => clients::clients(state, viewer),
            _ => return None,
        };
        Some(Answer { kind: "application/json", ..Answer::text(200, "OK", figures.to_string()) })
    }

    fn now(&self, request: &Request, state: &ServerState) -> Value {
        let since = request.number("since").unwrap_or(0);
        let config = state.config().snapshot();
        let databases = databases(state);
        let mut shown = self.history.lock().since(since);
        shown["uptime_s"] = json!(state.uptime_ms() / 1000);
        shown["run_id"] = json!(state.run_id());
        shown["version"] = json!(env!("CARGO_PKG_VERSION"));
        shown["port"] = json!(config.port);
        shown["maxmemory"] = json!(state.store().limit_bytes());
        shown["keys"] = json!(databases.iter().map(|database| database.keys).sum::<u64>());
        shown["volatile_keys"] = json!(databases.iter().map(|database| database.volatile_keys).sum::<u64>());
        shown["work"] = work(state);
        shown
    }
}

/// The long work under way: how much is done, of how much, and the seconds that are left where they are known.
fn work(state: &ServerState) -> Value {
    let facts = persistence(state, state.persist().facts());
    let mut all = Vec::new();
    if let Some(loading) = &facts.loading {
        all.push(json!({
            "name": "loading the file", "unit": "bytes", "done": loading.done_bytes, "total": loading.total_bytes,
            "left_s": loading.eta_s,
        }));
    }
    let save = &facts.save;
    let rewrite = facts.aof.rewrite.running_s.map(|running_s| ("rewriting the append-only file", running_s));
    if let Some((name, running_s)) = rewrite.or(save.running_s.map(|running_s| ("saving", running_s))) {
        let left_s = time_left_s(save.keys_done, save.keys_total, running_s * 1000);
        all.push(json!({
            "name": name, "unit": "keys", "done": save.keys_done, "total": save.keys_total, "left_s": left_s,
        }));
    }
    for sync in syncs(&gather::replication(state)) {
        let name = match sync.comes {
            true => format!("receiving the data of {}", sync.peer),
            false => format!("sending the data to {}", sync.peer),
        };
        all.push(json!({
            "name": name, "unit": "bytes", "done": sync.done_bytes, "total": sync.total_bytes, "left_s": sync.left_s,
        }));
    }
    json!(all)
}
