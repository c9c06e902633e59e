//! Rows of the generic group.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15 (of Valkey for what is newer).

use crate::descriptor::{Acl, ArgKind, Descriptor, Flags, Group, KeyFlags, KeySpec, Run, arg, key, one_of, word};
use crate::generic;

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("copy", Group::Generic, -3, "6.2.0", Run::Store(generic::copy))
        .about(
            "Copies a key's value and expiry to another key.",
            "O(1) for strings, O(N) in the elements of collections",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::KEYSPACE])
        .keys(&[
            KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS)),
            KeySpec::one(2, KeyFlags::OW.and(KeyFlags::UPDATE)),
        ])
        .args(&[
            key("source", 0),
            key("destination", 1),
            arg("destination-db", ArgKind::Integer).token("DB").optional(),
            word("replace", "REPLACE").optional(),
        ]),
    Descriptor::new("del", Group::Generic, -2, "1.0.0", Run::Store(generic::del))
        .about("Removes keys.", "O(N) in the keys")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RM.and(KeyFlags::DELETE))])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .args(&[key("key", 0).multiple()]),
    Descriptor::new("exists", Group::Generic, -2, "1.0.0", Run::Store(generic::exists))
        .about("Counts which of the keys exist, a key named twice counting twice.", "O(N) in the keys")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO)])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .history(&[("3.0.3", "Several keys.")])
        .args(&[key("key", 0).multiple()]),
    Descriptor::new("expire", Group::Generic, -3, "1.0.0", Run::Store(generic::expire))
        .about("Lets a key expire after so many seconds.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .history(&[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")])
        .args(&[
            key("key", 0),
            arg("seconds", ArgKind::Integer),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")])
                .since("7.0.0")
                .optional(),
        ]),
    Descriptor::new("expireat", Group::Generic, -3, "1.2.0", Run::Store(generic::expireat))
        .about("Lets a key expire at a Unix time in seconds.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .history(&[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")])
        .args(&[
            key("key", 0),
            arg("unix-time-seconds", ArgKind::UnixTime),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")])
                .since("7.0.0")
                .optional(),
        ]),
    Descriptor::new("expiretime", Group::Generic, 2, "7.0.0", Run::Store(generic::expiretime))
        .about("Answers the Unix time in seconds at which a key expires.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0)]),
    Descriptor::new("keys", Group::Generic, 2, "1.0.0", Run::Alone(generic::keys))
        .about("Lists the keys that match a pattern.", "O(N) in the keys of the database")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .args(&[arg("pattern", ArgKind::Pattern)]),
    Descriptor::new("move", Group::Generic, 3, "1.0.0", Run::Store(generic::move_key))
        .about("Moves a key to another database.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("db", ArgKind::Integer)]),
    Descriptor::new("object", Group::Generic, -2, "2.2.3", Run::Container)
        .about("What is known of a key's value beside the value.", "")
        .subcommands(OBJECT),
    Descriptor::new("persist", Group::Generic, 2, "2.2.0", Run::Store(generic::persist))
        .about("Takes away a key's expiry.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0)]),
    Descriptor::new("pexpire", Group::Generic, -3, "2.6.0", Run::Store(generic::pexpire))
        .about("Lets a key expire after so many milliseconds.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .history(&[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")])
        .args(&[
            key("key", 0),
            arg("milliseconds", ArgKind::Integer),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")])
                .since("7.0.0")
                .optional(),
        ]),
    Descriptor::new("pexpireat", Group::Generic, -3, "2.6.0", Run::Store(generic::pexpireat))
        .about("Lets a key expire at a Unix time in milliseconds.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .history(&[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")])
        .args(&[
            key("key", 0),
            arg("unix-time-milliseconds", ArgKind::UnixTime),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")])
                .since("7.0.0")
                .optional(),
        ]),
    Descriptor::new("pexpiretime", Group::Generic, 2, "7.0.0", Run::Store(generic::pexpiretime))
        .about("Answers the Unix time in milliseconds at which a key expires.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0)]),
    Descriptor::new("pttl", Group::Generic, 2, "2.6.0", Run::Store(generic::pttl))
        .about("Answers the milliseconds that a key has to live.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output"])
        .history(&[("2.8.0", "-2 for a key that does not exist.")])
        .args(&[key("key", 0)]),
    Descriptor::new("randomkey", Group::Generic, 1, "1.0.0", Run::Keyspace(generic::randomkey))
        .about("Answers a key chosen at random.", "O(1)")
        .flags(&[Flags::READONLY, Flags::TOUCHES_ARBITRARY_KEYS])
        .acl(&[Acl::KEYSPACE])
        .tips(&["request_policy:all_shards", "nondeterministic_output"]),
    Descriptor::new("rename", Group::Generic, 3, "1.0.0", Run::Store(generic::rename))
        .about("Gives a key another name, replacing what has it.", "O(1)")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::KEYSPACE])
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::OW.and(KeyFlags::UPDATE)),
        ])
        .args(&[key("key", 0), key("newkey", 1)]),
    Descriptor::new("renamenx", Group::Generic, 3, "1.0.0", Run::Store(generic::renamenx))
        .about("Gives a key another name if nothing has it.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::OW.and(KeyFlags::INSERT)),
        ])
        .history(&[("3.2.0", "No error when both names are the same.")])
        .args(&[key("key", 0), key("newkey", 1)]),
    Descriptor::new("scan", Group::Generic, -2, "2.8.0", Run::Keyspace(generic::scan))
        .about("Walks over the keys of the database, a few in each call.", "O(1) a call, O(N) for the whole walk")
        .flags(&[Flags::READONLY, Flags::TOUCHES_ARBITRARY_KEYS])
        .acl(&[Acl::KEYSPACE])
        .tips(&["nondeterministic_output", "request_policy:special"])
        .history(&[("6.0.0", "`TYPE`.")])
        .args(&[
            arg("cursor", ArgKind::Integer),
            arg("pattern", ArgKind::Pattern).token("MATCH").optional(),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
            arg("type", ArgKind::String).token("TYPE").since("6.0.0").optional(),
        ]),
    Descriptor::new("touch", Group::Generic, -2, "3.2.1", Run::Store(generic::touch))
        .about("Moves the access times of keys and counts those that exist.", "O(N) in the keys")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO)])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .args(&[key("key", 0).multiple()]),
    Descriptor::new("ttl", Group::Generic, 2, "1.0.0", Run::Store(generic::ttl))
        .about("Answers the seconds that a key has to live.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output"])
        .history(&[("2.8.0", "-2 for a key that does not exist.")])
        .args(&[key("key", 0)]),
    Descriptor::new("type", Group::Generic, 2, "1.0.0", Run::Store(generic::type_name))
        .about("Answers the type of a key's value.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
    Descriptor::new("unlink", Group::Generic, -2, "4.0.0", Run::Store(generic::unlink))
        .about("Removes keys and frees their memory later.", "O(1) a key")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RM.and(KeyFlags::DELETE))])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .args(&[key("key", 0).multiple()]),
];

/// Subcommands of OBJECT.
const OBJECT: &[Descriptor] = &[
    Descriptor::sub("object|encoding", "encoding", Group::Generic, 3, "2.2.3", Run::Store(generic::object_encoding))
        .about("Answers how a value is stored.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0)]),
    Descriptor::sub("object|freq", "freq", Group::Generic, 3, "4.0.0", Run::Store(generic::object_freq))
        .about("Answers how often a key was accessed, on a logarithmic scale.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0)]),
    Descriptor::sub("object|help", "help", Group::Generic, 2, "6.2.0", Run::Session(generic::object_help))
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::KEYSPACE]),
    Descriptor::sub("object|idletime", "idletime", Group::Generic, 3, "2.2.3", Run::Store(generic::object_idletime))
        .about("Answers the seconds since a key was accessed.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0)]),
    Descriptor::sub("object|refcount", "refcount", Group::Generic, 3, "2.2.3", Run::Store(generic::object_refcount))
        .about("Answers the number of references to a value.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0)]),
];
