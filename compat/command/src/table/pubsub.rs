//! Rows of the pubsub group.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15.

use crate::connection;
use crate::descriptor::{ArgKind, Descriptor, Flags, Group, KeyFlags, KeySpec, Run, arg, block};

/// What subscribing and its end have in common.
const LISTENING: &[Flags] = &[Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
/// What asking has.
const ASKING: &[Flags] = &[Flags::PUBSUB, Flags::LOADING, Flags::STALE];
/// What publishing has.
const PUBLISHING: &[Flags] = &[Flags::PUBSUB, Flags::LOADING, Flags::STALE, Flags::FAST];

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("psubscribe", Group::Pubsub, -2, "2.0.0", Run::Host)
        .about("Listens to the channels whose names match.", "O(N) in the patterns given")
        .flags(LISTENING)
        .args(&[block("pattern", &[arg("pattern", ArgKind::Pattern)]).multiple()]),
    Descriptor::new("publish", Group::Pubsub, 3, "2.0.0", Run::Session(connection::publish))
        .about("Sends a message to a channel.", "O(N+M) in the channel's subscriptions and all patterns")
        .flags(PUBLISHING)
        .args(&[arg("channel", ArgKind::String), arg("message", ArgKind::String)]),
    Descriptor::new("pubsub", Group::Pubsub, -2, "2.8.0", Run::Container)
        .about("Who listens to what.", "")
        .subcommands(PUBSUB),
    Descriptor::new("punsubscribe", Group::Pubsub, -1, "2.0.0", Run::Host)
        .about("Listens no longer to patterns, all of them if none is named.", "O(N) in the patterns given")
        .flags(LISTENING)
        .args(&[arg("pattern", ArgKind::Pattern).optional().multiple()]),
    Descriptor::new("spublish", Group::Pubsub, 3, "7.0.0", Run::Session(connection::spublish))
        .about("Sends a message to a shard channel.", "O(N) in the channel's subscriptions")
        .flags(PUBLISHING)
        .keys(&[KeySpec::one(1, KeyFlags::NOT_KEY)])
        .args(&[arg("shardchannel", ArgKind::String), arg("message", ArgKind::String)]),
    Descriptor::new("ssubscribe", Group::Pubsub, -2, "7.0.0", Run::Host)
        .about("Listens to shard channels.", "O(N) in the channels given")
        .flags(LISTENING)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)])
        .args(&[arg("shardchannel", ArgKind::String).multiple()]),
    Descriptor::new("subscribe", Group::Pubsub, -2, "2.0.0", Run::Host)
        .about("Listens to channels.", "O(N) in the channels given")
        .flags(LISTENING)
        .args(&[arg("channel", ArgKind::String).multiple()]),
    Descriptor::new("sunsubscribe", Group::Pubsub, -1, "7.0.0", Run::Host)
        .about("Listens no longer to shard channels, all of them if none is named.", "O(N) in the channels given")
        .flags(LISTENING)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)])
        .args(&[arg("shardchannel", ArgKind::String).optional().multiple()]),
    Descriptor::new("unsubscribe", Group::Pubsub, -1, "2.0.0", Run::Host)
        .about("Listens no longer to channels, all of them if none is named.", "O(N) in the channels given")
        .flags(LISTENING)
        .args(&[arg("channel", ArgKind::String).optional().multiple()]),
];

/// Subcommands of PUBSUB.
const PUBSUB: &[Descriptor] = &[
    Descriptor::sub("pubsub|channels", "channels", Group::Pubsub, -2, "2.8.0", Run::Host)
        .about("Lists the channels with subscriptions.", "O(N) in those channels")
        .flags(ASKING)
        .args(&[arg("pattern", ArgKind::Pattern).optional()]),
    Descriptor::sub("pubsub|help", "help", Group::Pubsub, 2, "6.2.0", Run::Host)
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE]),
    Descriptor::sub("pubsub|numpat", "numpat", Group::Pubsub, 2, "2.8.0", Run::Host)
        .about("Counts the patterns with subscriptions.", "O(1)")
        .flags(ASKING),
    Descriptor::sub("pubsub|numsub", "numsub", Group::Pubsub, -2, "2.8.0", Run::Host)
        .about("Counts the subscriptions of channels.", "O(N) in the channels asked for")
        .flags(ASKING)
        .args(&[arg("channel", ArgKind::String).optional().multiple()]),
    Descriptor::sub("pubsub|shardchannels", "shardchannels", Group::Pubsub, -2, "7.0.0", Run::Host)
        .about("Lists the shard channels with subscriptions.", "O(N) in those channels")
        .flags(ASKING)
        .args(&[arg("pattern", ArgKind::Pattern).optional()]),
    Descriptor::sub("pubsub|shardnumsub", "shardnumsub", Group::Pubsub, -2, "7.0.0", Run::Host)
        .about("Counts the subscriptions of shard channels.", "O(N) in the channels asked for")
        .flags(ASKING)
        .args(&[arg("shardchannel", ArgKind::String).optional().multiple()]),
];
