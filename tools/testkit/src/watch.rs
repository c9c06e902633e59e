//! Waiting for what a server does by itself: looking until it is so, with a limit; and the figures of INFO.

use crate::client::Client;
use std::time::{Duration, Instant};

/// How long something may take to come about: long, since other work may have the machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Returns when it is `done`.
///
/// # Panics
/// If it is not within a minute; the message says `what` was waited for.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// A number of INFO.
///
/// # Panics
/// If there is no such field, or if it is no number.
pub fn figure(client: &mut Client, field: &str) -> u64 {
    let info = client.cmd("INFO everything").text();
    let line = info.lines().find_map(|line| line.trim_end().strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("INFO has no number {field}"))
}
