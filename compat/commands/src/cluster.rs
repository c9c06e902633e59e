//! CLUSTER and what clients of a cluster send: each answers that this is no cluster, as redis-server does in that state.
//! Clients and tools ask at connect, and go on as with a single server.

use varve_catalog::{Acl, ArgKind, Argument, Behaviour, Flags, Group, Row, arg, block, one_of, word};
use varve_exec::{CmdResult, Command, Exec, FileRows, SessionCtx};

use crate::errors;

pub(crate) const ROWS: FileRows = &[
    Command::container(Row::new("cluster", Group::Cluster, -2, "3.0.0").about("The cluster.", ""), CLUSTER),
    no_cluster(
        Row::new("readonly", Group::Cluster, 1, "3.0.0")
            .about("Lets a connection read from a replica of a cluster.", "O(1)")
            .flags(MODE)
            .acl(&[Acl::CONNECTION]),
    ),
    no_cluster(
        Row::new("readwrite", Group::Cluster, 1, "3.0.0")
            .about("Ends what READONLY has begun.", "O(1)")
            .flags(MODE)
            .acl(&[Acl::CONNECTION]),
    ),
    no_cluster(
        Row::new("asking", Group::Cluster, 1, "3.0.0")
            .about("Lets the next command have a slot that is on its way.", "O(1)")
            .flags(&[Flags::FAST])
            .acl(&[Acl::CONNECTION]),
    ),
];

/// The flags of commands that set how a connection reads.
const MODE: &[Flags] = &[Flags::LOADING, Flags::STALE, Flags::FAST];
/// The flags of subcommands that ask.
const ASKING: &[Flags] = &[Flags::STALE];
/// The flags of subcommands that ask and are for administrators.
const ASKING_ADMIN: &[Flags] = &[Flags::ADMIN, Flags::STALE];
/// The flags of subcommands that change the cluster.
const CHANGING: &[Flags] = &[Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING];
/// The tips of subcommands whose answer depends on the node and the time.
const CHANGEABLE: &[&str] = &["nondeterministic_output"];
/// The arguments of subcommands about one node.
const NODE: &[Argument] = &[arg("node-id", ArgKind::String)];
/// The arguments of subcommands about slots that are named one by one.
const SLOTS: &[Argument] = &[arg("slot", ArgKind::Integer).multiple()];
/// The arguments of subcommands about ranges of slots.
const SLOT_RANGES: &[Argument] =
    &[block("start-slot_end-slot", &[arg("start-slot", ArgKind::Integer), arg("end-slot", ArgKind::Integer)])
        .multiple()];

const CLUSTER: FileRows = &[
    no_cluster(
        Row::sub("cluster|addslots", "addslots", Group::Cluster, -3, "3.0.0")
            .about("Gives slots to this node.", "O(N) in the slots given")
            .flags(CHANGING)
            .args(SLOTS),
    ),
    no_cluster(
        Row::sub("cluster|addslotsrange", "addslotsrange", Group::Cluster, -4, "7.0.0")
            .about("Gives ranges of slots to this node.", "O(N) in the slots given")
            .flags(CHANGING)
            .args(SLOT_RANGES),
    ),
    no_cluster(
        Row::sub("cluster|bumpepoch", "bumpepoch", Group::Cluster, 2, "3.0.0")
            .about("Advances the epoch of the configuration.", "O(1)")
            .flags(CHANGING)
            .tips(CHANGEABLE)
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|count-failure-reports", "count-failure-reports", Group::Cluster, 3, "3.0.0")
            .about("Counts the reports that a node has failed.", "O(N) in the reports")
            .flags(ASKING_ADMIN)
            .tips(CHANGEABLE)
            .args(NODE),
    ),
    no_cluster(
        Row::sub("cluster|countkeysinslot", "countkeysinslot", Group::Cluster, 3, "3.0.0")
            .about("Counts the keys of a slot.", "O(1)")
            .flags(ASKING)
            .args(&[arg("slot", ArgKind::Integer)])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|delslots", "delslots", Group::Cluster, -3, "3.0.0")
            .about("Takes slots away from this node.", "O(N) in the slots given")
            .flags(CHANGING)
            .args(SLOTS),
    ),
    no_cluster(
        Row::sub("cluster|delslotsrange", "delslotsrange", Group::Cluster, -4, "7.0.0")
            .about("Takes ranges of slots away from this node.", "O(N) in the slots given")
            .flags(CHANGING)
            .args(SLOT_RANGES),
    ),
    no_cluster(
        Row::sub("cluster|failover", "failover", Group::Cluster, -2, "3.0.0")
            .about("Has a replica take the place of its master.", "O(1)")
            .flags(CHANGING)
            .args(&[one_of("options", &[word("force", "FORCE"), word("takeover", "TAKEOVER")]).optional()])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|flushslots", "flushslots", Group::Cluster, 2, "3.0.0")
            .about("Takes all slots away from this node.", "O(N) in the slots")
            .flags(CHANGING),
    ),
    no_cluster(
        Row::sub("cluster|forget", "forget", Group::Cluster, 3, "3.0.0")
            .about("Forgets a node.", "O(1)")
            .flags(CHANGING)
            .args(NODE)
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|getkeysinslot", "getkeysinslot", Group::Cluster, 4, "3.0.0")
            .about("Lists keys of a slot.", "O(log N) in the keys asked for")
            .flags(ASKING)
            .tips(CHANGEABLE)
            .args(&[arg("slot", ArgKind::Integer), arg("count", ArgKind::Integer)]),
    ),
    no_cluster(
        Row::sub("cluster|help", "help", Group::Cluster, 2, "5.0.0")
            .about("Lists the subcommands.", "O(1)")
            .flags(&[Flags::LOADING, Flags::STALE])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|info", "info", Group::Cluster, 2, "3.0.0")
            .about("Describes the state of the cluster.", "O(1)")
            .flags(ASKING)
            .tips(CHANGEABLE)
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|keyslot", "keyslot", Group::Cluster, 3, "3.0.0")
            .about("Answers the slot of a key.", "O(N) in the bytes of the key")
            .flags(ASKING)
            .args(&[arg("key", ArgKind::String)]),
    ),
    no_cluster(
        Row::sub("cluster|links", "links", Group::Cluster, 2, "7.0.0")
            .about("Lists the connections to other nodes.", "O(N) in the nodes")
            .flags(ASKING)
            .tips(CHANGEABLE),
    ),
    no_cluster(
        Row::sub("cluster|meet", "meet", Group::Cluster, -4, "3.0.0")
            .about("Joins another node.", "O(1)")
            .flags(CHANGING)
            .history(&[("4.0.0", "The port of the bus.")])
            .args(&[
                arg("ip", ArgKind::String),
                arg("port", ArgKind::Integer),
                arg("cluster_bus_port", ArgKind::Integer).since("4.0.0").optional(),
            ])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|myid", "myid", Group::Cluster, 2, "3.0.0")
            .about("Answers the node's id.", "O(1)")
            .flags(ASKING)
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|nodes", "nodes", Group::Cluster, 2, "3.0.0")
            .about("Describes the nodes, a line each.", "O(N) in the nodes")
            .flags(ASKING)
            .tips(CHANGEABLE),
    ),
    no_cluster(
        Row::sub("cluster|replicas", "replicas", Group::Cluster, 3, "5.0.0")
            .about("Lists the replicas of a node.", "O(N) in the replicas")
            .flags(ASKING_ADMIN)
            .tips(CHANGEABLE)
            .args(NODE),
    ),
    no_cluster(
        Row::sub("cluster|replicate", "replicate", Group::Cluster, 3, "3.0.0")
            .about("Makes this node a replica of another.", "O(1)")
            .flags(CHANGING)
            .args(NODE)
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|reset", "reset", Group::Cluster, -2, "3.0.0")
            .about("Makes this node a node of no cluster.", "O(N) in the nodes")
            .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::STALE])
            .args(&[one_of("hard_soft", &[word("hard", "HARD"), word("soft", "SOFT")]).optional()]),
    ),
    no_cluster(
        Row::sub("cluster|saveconfig", "saveconfig", Group::Cluster, 2, "3.0.0")
            .about("Writes the cluster's configuration to its file.", "O(1)")
            .flags(CHANGING)
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|set-config-epoch", "set-config-epoch", Group::Cluster, 3, "3.0.0")
            .about("Sets the epoch of the configuration of a new node.", "O(1)")
            .flags(CHANGING)
            .args(&[arg("config-epoch", ArgKind::Integer)])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|setslot", "setslot", Group::Cluster, -4, "3.0.0")
            .about("Says which node has a slot, or is about to have it.", "O(1)")
            .flags(CHANGING)
            .args(&[
                arg("slot", ArgKind::Integer),
                one_of(
                    "subcommand",
                    &[
                        arg("node-id", ArgKind::String).token("IMPORTING"),
                        arg("node-id", ArgKind::String).token("MIGRATING"),
                        arg("node-id", ArgKind::String).token("NODE"),
                        word("stable", "STABLE"),
                    ],
                ),
            ])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    no_cluster(
        Row::sub("cluster|shards", "shards", Group::Cluster, 2, "7.0.0")
            .about("Lists the shards with their slots and nodes.", "O(N) in the nodes")
            .flags(ASKING)
            .tips(CHANGEABLE),
    ),
    no_cluster(
        Row::sub("cluster|slaves", "slaves", Group::Cluster, 3, "3.0.0")
            .about("Lists the replicas of a node.", "O(N) in the replicas")
            .flags(ASKING_ADMIN)
            .tips(CHANGEABLE)
            .deprecated("5.0.0", "`CLUSTER REPLICAS`")
            .args(NODE),
    ),
    no_cluster(
        Row::sub("cluster|slots", "slots", Group::Cluster, 2, "3.0.0")
            .about("Lists ranges of slots with their nodes.", "O(N) in the nodes")
            .flags(ASKING)
            .tips(CHANGEABLE)
            .deprecated("7.0.0", "`CLUSTER SHARDS`")
            .history(&[("4.0.0", "Ids of nodes."), ("7.0.0", "Metadata of networks.")]),
    ),
];

/// A command that needs a cluster.
const fn no_cluster(row: Row) -> Command {
    Command::new(Exec::Session(refuse), row)
}

fn refuse(_: &mut SessionCtx<'_>) -> CmdResult {
    Err(errors::CLUSTER_DISABLED)
}
