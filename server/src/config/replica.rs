//! The settings of a replica.

use std::time::Duration;

use super::Password;
use super::table::Values;

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplicaSettings {
    /// The primary that is followed: host and port.
    pub(crate) primary: Option<(String, u16)>,
    /// The user's name at the primary, empty for the default user.
    pub(crate) user: Vec<u8>,
    /// The password at the primary, empty for none.
    pub(crate) password: Password,
    /// Time without a word from the other end after which a link is given up.
    pub(crate) timeout: Duration,
    pub(crate) read_only: bool,
    /// Whether clients are served while the link is down.
    pub(crate) serves_stale: bool,
    /// Rank of a replica where one is chosen to be promoted; 0: never.
    pub(crate) priority: u32,
    /// Whether the primary's lists of replicas show it to those who look for one.
    pub(crate) is_announced: bool,
    /// The address and the port that the primary shows of it; empty and 0 for those that it has.
    pub(crate) announced_ip: String,
    pub(crate) announced_port: u16,
    /// Whether no limit on memory holds: the primary's evictions come with its stream.
    pub(crate) ignores_limit: bool,
    /// Whether the file of a primary's data goes once it is loaded, on a server that keeps no files.
    pub(crate) removes_files: bool,
    /// Where a primary's data set goes.
    pub(crate) diskless_load: DisklessLoad,
    /// Whether links to primaries are by TLS.
    pub(crate) by_tls: bool,
}

/// Where a primary's data set goes (`repl-diskless-load`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisklessLoad {
    /// Into a file.
    Disabled,
    /// Into memory, while there are no keys; else into a file.
    OnEmpty,
    /// Into memory beside the data that there is, which it replaces at one instant.
    Swap,
}

impl ReplicaSettings {
    /// The typed form of `values`.
    pub(super) fn of(values: &Values) -> ReplicaSettings {
        let primary = values.words("replicaof");
        let primary = match &primary[..] {
            [host, port] => Some((host.clone(), port.parse().expect("the table holds a port"))),
            _ => None,
        };
        ReplicaSettings {
            primary,
            user: values.bytes("masteruser").to_vec(),
            password: Password(values.bytes("masterauth").to_vec()),
            timeout: Duration::from_secs(values.number("repl-timeout")),
            read_only: values.yes("replica-read-only"),
            serves_stale: values.yes("replica-serve-stale-data"),
            priority: values.number("replica-priority"),
            is_announced: values.yes("replica-announced"),
            announced_ip: values.text("replica-announce-ip"),
            announced_port: values.number("replica-announce-port"),
            ignores_limit: values.yes("replica-ignore-maxmemory"),
            removes_files: values.yes("rdb-del-sync-files"),
            diskless_load: match &*values.text("repl-diskless-load") {
                "swapdb" => DisklessLoad::Swap,
                "on-empty-db" => DisklessLoad::OnEmpty,
                _ => DisklessLoad::Disabled,
            },
            by_tls: values.yes("tls-replication"),
        }
    }
}
