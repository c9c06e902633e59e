//! The settings of saving and loading, and their typed form.

use std::time::Duration;

use super::special::numbers;
use super::table::Values;

/// One `save` pair: a snapshot is due when this number of changes is this old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavePoint {
    pub(crate) seconds: u64,
    pub(crate) changes: u32,
}

/// How a server ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShutdownOptions {
    /// Whether it saves first; None: if there are save points.
    pub(crate) save: Option<bool>,
    /// Ends even if the save fails.
    pub(crate) force: bool,
    /// Replicas are not waited for.
    pub(crate) now: bool,
}

/// How data is saved and loaded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SaveSettings {
    /// When a save begins by itself; empty: never, and a shutdown saves nothing.
    pub(crate) points: Vec<SavePoint>,
    /// Name of the file that saves write, in the working directory.
    pub(crate) file: Vec<u8>,
    /// Whether strings are compressed in the file.
    pub(crate) compresses: bool,
    /// Whether the file ends with a checksum, and whether that of a file that is loaded is compared.
    pub(crate) sums: bool,
    /// The version of the format that is pinned; None: the least that the data needs.
    pub(crate) version: Option<u16>,
    /// Whether the file is synced as it grows.
    pub(crate) syncs_as_it_grows: bool,
    /// Whether writes are refused behind a save that failed.
    pub(crate) failure_stops_writes: bool,
    /// Microseconds that a save waits behind each key. For tests.
    pub(crate) key_save_delay_us: u64,
    /// Microseconds that loading waits behind each key. For tests.
    pub(crate) key_load_delay_us: u64,
    /// How long replicas are waited for before the server ends; zero: not at all.
    pub(crate) replicas_wait: Duration,
    /// How the server ends when SIGTERM asks for it.
    pub(crate) on_term: ShutdownOptions,
    /// How the server ends when SIGINT asks for it.
    pub(crate) on_interrupt: ShutdownOptions,
}

impl SaveSettings {
    /// The typed form of `values`.
    pub(super) fn of(values: &Values) -> SaveSettings {
        // Below zero, redis-server waits a microsecond now and then.
        let delay_us = |name| values.number::<i64>(name).max(0) as u64;
        SaveSettings {
            points: save_points(values.bytes("save")),
            file: values.bytes("dbfilename").to_vec(),
            compresses: values.yes("rdbcompression"),
            sums: values.yes("rdbchecksum"),
            version: values.text("rdb-version").parse().ok(),
            syncs_as_it_grows: values.yes("rdb-save-incremental-fsync"),
            failure_stops_writes: values.yes("stop-writes-on-bgsave-error"),
            key_save_delay_us: delay_us("rdb-key-save-delay"),
            key_load_delay_us: delay_us("key-load-delay"),
            replicas_wait: Duration::from_secs(values.number("shutdown-timeout")),
            on_term: shutdown_options(values.bytes("shutdown-on-sigterm")),
            on_interrupt: shutdown_options(values.bytes("shutdown-on-sigint")),
        }
    }
}

/// The pairs of a canonical `save` value.
pub(super) fn save_points(canonical: &[u8]) -> Vec<SavePoint> {
    let numbers: Vec<u64> = numbers(canonical).collect();
    numbers.chunks_exact(2).map(|pair| SavePoint { seconds: pair[0], changes: pair[1] as u32 }).collect()
}

/// The options of a canonical `shutdown-on-sigterm` or `shutdown-on-sigint` value.
fn shutdown_options(canonical: &[u8]) -> ShutdownOptions {
    let has = |word: &str| canonical.split(|&byte| byte == b' ').any(|other| other == word.as_bytes());
    let save = has("save").then_some(true).or(has("nosave").then_some(false));
    ShutdownOptions { save, force: has("force"), now: has("now") }
}
