//! Figures of keys: those that are used most, bytes by prefix, large keys, what expires soon. All are samples.

use std::time::Instant;

use serde_json::{Value, json};
use varve_base::heavy::HeavyName;
use varve_commands::survey::{Estimate, SPANS_S};
use varve_exec::hot_keys::hottest;
use varve_store::KeyShare;

use super::super::access::Viewer;
use crate::state::ServerState;

/// Keys of a ranking that are shown.
const RANKED: usize = 12;
/// Prefixes that are shown.
const PREFIXES: usize = 40;
/// Large keys that are shown.
const LARGE: usize = 12;

/// The page's figures of keys, as they are now.
pub(super) fn keys(state: &ServerState, viewer: Viewer, now_ms: i64) -> Value {
    let names = viewer.sees_names;
    let show_as = |name: &[u8], as_is: bool| {
        let shown = if as_is { name.to_vec() } else { state.store().number_of_name(name) };
        String::from_utf8_lossy(&shown).into_owned()
    };
    let show = |name: &[u8]| show_as(name, names);
    // Where the store hides names itself, its survey has numbers in their place, which are not hidden again. A key whose name looks
    // like one is no such number.
    let hidden = state.store().hides_names();
    let show_surveyed = |name: &[u8]| show_as(name, names || hidden);
    let hot = hottest(state.workers().iter().map(|worker| &worker.commands().hot_keys), Instant::now(), RANKED);
    let ranking = |all: &[HeavyName]| -> Vec<Value> {
        all.iter().map(|one| json!([show(&one.name), one.group, one.weight, one.error])).collect()
    };
    let estimate = Estimate::of(state.store(), now_ms);
    let seen = &estimate.surveyed;
    let rest = seen.prefixes.iter().skip(PREFIXES).fold(KeyShare::default(), |sum, (_, share)| KeyShare {
        keys: sum.keys + share.keys,
        bytes: sum.bytes + share.bytes,
    });
    let others = estimate.scaled(rest);
    json!({
        "calls": ranking(&hot.calls), "all_calls": hot.all_calls,
        "nanos": ranking(&hot.nanos), "all_nanos": hot.all_nanos,
        "bytes": ranking(&hot.bytes), "all_bytes": hot.all_bytes,
        "looks": seen.looks.keys,
        "prefixes": seen.prefixes.iter().take(PREFIXES).map(|(prefix, share)| {
            let scaled = estimate.scaled(*share);
            json!([show_surveyed(prefix), scaled.keys, scaled.bytes])
        }).collect::<Vec<_>>(),
        "others": [others.keys, others.bytes],
        "due": SPANS_S.iter().zip(&seen.due).map(|(span_s, share)| {
            let scaled = estimate.scaled(*share);
            json!([span_s, scaled.keys, scaled.bytes])
        }).collect::<Vec<_>>(),
        "large": seen.large.iter().take(LARGE).map(|key| {
            json!([show_surveyed(&key.name), key.db, key.ty.name(), key.bytes, (now_ms - key.seen_ms).max(0) / 1000])
        }).collect::<Vec<_>>(),
    })
}
