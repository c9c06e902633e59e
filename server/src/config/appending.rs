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

impl Fsync {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Fsync; 3] = [Fsync::Always, Fsync::EverySecond, Fsync::No];
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
        }
    }
}
