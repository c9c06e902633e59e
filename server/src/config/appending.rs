//! The settings of the append-only file.

use super::table::Values;

/// When the append-only file is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fsync {
    /// Before replies leave.
    Always,
    /// Once a second.
    EverySecond,
    /// When the system likes.
    No,
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AppendConfig {
    /// Whether changes are appended to a file.
    pub(crate) on: bool,
    pub(crate) fsync: Fsync,
    /// Its folder, in the working directory.
    pub(crate) dir: Vec<u8>,
    /// The beginning of the names of its files.
    pub(crate) file: Vec<u8>,
    /// Whether a torn end of it is cut off at the start.
    pub(crate) loads_truncated: bool,
    /// Whether a base is an RDB file.
    pub(crate) rdb_base: bool,
    /// Whether lines with the time stand in it.
    pub(crate) timestamps: bool,
    /// Whether files that a rewrite has replaced stay.
    pub(crate) keeps_history: bool,
    /// Percent by which the files grow before they are rewritten; 0 for never.
    pub(crate) rewrite_percent: u64,
    /// Bytes up to which they are not rewritten by themselves.
    pub(crate) rewrite_bytes_min: u64,
    /// Whether a base is synced as it grows.
    pub(crate) syncs_base_as_it_grows: bool,
    /// Whether the file is not synced while something is written in the background.
    pub(crate) no_sync_while_saving: bool,
}

impl AppendConfig {
    /// The typed form of `values`.
    pub(super) fn new(values: &Values) -> AppendConfig {
        AppendConfig {
            on: values.yes("appendonly"),
            fsync: match &values.text("appendfsync")[..] {
                "always" => Fsync::Always,
                "everysec" => Fsync::EverySecond,
                _ => Fsync::No,
            },
            dir: values.bytes("appenddirname").to_vec(),
            file: values.bytes("appendfilename").to_vec(),
            loads_truncated: values.yes("aof-load-truncated"),
            rdb_base: values.yes("aof-use-rdb-preamble"),
            timestamps: values.yes("aof-timestamp-enabled"),
            keeps_history: values.yes("aof-disable-auto-gc"),
            rewrite_percent: values.number("auto-aof-rewrite-percentage"),
            rewrite_bytes_min: values.number("auto-aof-rewrite-min-size"),
            syncs_base_as_it_grows: values.yes("aof-rewrite-incremental-fsync"),
            no_sync_while_saving: values.yes("no-appendfsync-on-rewrite"),
        }
    }
}
