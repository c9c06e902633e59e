//! Rows of the commands of the pubsub group that the server runs.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15 (of Valkey for what is newer).

use varve_catalog::{ArgKind, Behaviour, Flags, Group, KeyFlags, KeySpec, Row, arg, block};
use varve_exec::{Command, Exec, FileRows};

/// The flags of commands that subscribe and unsubscribe.
const LISTENING: &[Flags] = &[Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
/// The flags of commands that ask.
const ASKING: &[Flags] = &[Flags::PUBSUB, Flags::LOADING, Flags::STALE];

pub(super) const ROWS: FileRows = &[
    Command::new(
        Exec::Server,
        Row::new("psubscribe", Group::Pubsub, -2, "2.0.0")
            .about("Listens to the channels whose names match.", "O(N) in the patterns given")
            .flags(LISTENING)
            .args(&[block("pattern", &[arg("pattern", ArgKind::Pattern)]).multiple()])
            .behaviour(Behaviour::CONFIRMS_ALWAYS.and(Behaviour::WHILE_SUBSCRIBED)),
    ),
    Command::container(Row::new("pubsub", Group::Pubsub, -2, "2.8.0").about("Who listens to what.", ""), PUBSUB),
    Command::new(
        Exec::Server,
        Row::new("punsubscribe", Group::Pubsub, -1, "2.0.0")
            .about("Listens no longer to patterns, all of them if none is named.", "O(N) in the patterns given")
            .flags(LISTENING)
            .args(&[arg("pattern", ArgKind::Pattern).optional().multiple()])
            .behaviour(Behaviour::CONFIRMS_ALWAYS.and(Behaviour::WHILE_SUBSCRIBED)),
    ),
    Command::new(
        Exec::Server,
        Row::new("ssubscribe", Group::Pubsub, -2, "7.0.0")
            .about("Listens to shard channels.", "O(N) in the channels given")
            .flags(LISTENING)
            .keys(&[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)])
            .args(&[arg("shardchannel", ArgKind::String).multiple()])
            .behaviour(Behaviour::CONFIRMS_ALWAYS.and(Behaviour::WHILE_SUBSCRIBED)),
    ),
    Command::new(
        Exec::Server,
        Row::new("subscribe", Group::Pubsub, -2, "2.0.0")
            .about("Listens to channels.", "O(N) in the channels given")
            .flags(LISTENING)
            .args(&[arg("channel", ArgKind::String).multiple()])
            .behaviour(Behaviour::CONFIRMS_ALWAYS.and(Behaviour::WHILE_SUBSCRIBED)),
    ),
    Command::new(
        Exec::Server,
        Row::new("sunsubscribe", Group::Pubsub, -1, "7.0.0")
            .about("Listens no longer to shard channels, all of them if none is named.", "O(N) in the channels given")
            .flags(LISTENING)
            .keys(&[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)])
            .args(&[arg("shardchannel", ArgKind::String).optional().multiple()])
            .behaviour(Behaviour::CONFIRMS_ALWAYS.and(Behaviour::WHILE_SUBSCRIBED)),
    ),
    Command::new(
        Exec::Server,
        Row::new("unsubscribe", Group::Pubsub, -1, "2.0.0")
            .about("Listens no longer to channels, all of them if none is named.", "O(N) in the channels given")
            .flags(LISTENING)
            .args(&[arg("channel", ArgKind::String).optional().multiple()])
            .behaviour(Behaviour::CONFIRMS_ALWAYS.and(Behaviour::WHILE_SUBSCRIBED)),
    ),
];

const PUBSUB: FileRows = &[
    Command::new(
        Exec::Server,
        Row::sub("pubsub|channels", "channels", Group::Pubsub, -2, "2.8.0")
            .about("Lists the channels with subscriptions.", "O(N) in those channels")
            .flags(ASKING)
            .args(&[arg("pattern", ArgKind::Pattern).optional()]),
    ),
    Command::new(
        Exec::Server,
        Row::sub("pubsub|help", "help", Group::Pubsub, 2, "6.2.0")
            .about("Lists the subcommands.", "O(1)")
            .flags(&[Flags::LOADING, Flags::STALE])
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("pubsub|numpat", "numpat", Group::Pubsub, 2, "2.8.0")
            .about("Counts the patterns with subscriptions.", "O(1)")
            .flags(ASKING)
            .behaviour(Behaviour::CONSTANT_TIME),
    ),
    Command::new(
        Exec::Server,
        Row::sub("pubsub|numsub", "numsub", Group::Pubsub, -2, "2.8.0")
            .about("Counts the subscriptions of channels.", "O(N) in the channels asked for")
            .flags(ASKING)
            .args(&[arg("channel", ArgKind::String).optional().multiple()]),
    ),
    Command::new(
        Exec::Server,
        Row::sub("pubsub|shardchannels", "shardchannels", Group::Pubsub, -2, "7.0.0")
            .about("Lists the shard channels with subscriptions.", "O(N) in those channels")
            .flags(ASKING)
            .args(&[arg("pattern", ArgKind::Pattern).optional()]),
    ),
    Command::new(
        Exec::Server,
        Row::sub("pubsub|shardnumsub", "shardnumsub", Group::Pubsub, -2, "7.0.0")
            .about("Counts the subscriptions of shard channels.", "O(N) in the channels asked for")
            .flags(ASKING)
            .args(&[arg("shardchannel", ArgKind::String).optional().multiple()]),
    ),
];
