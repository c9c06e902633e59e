//! Rows of the string group.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15 (of Valkey for what is newer).

use crate::descriptor::{
    Acl, ArgKind, Descriptor, Flags, Group, KeyFlags, KeySpec, Run, arg, block, key, one_of, word,
};
use crate::string;

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("append", Group::String, 3, "2.0.0", Run::Store(string::append))
        .about("Adds bytes to the end of a string, which is created if absent.", "O(1) amortised, for short additions")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .args(&[key("key", 0), arg("value", ArgKind::String)]),
    Descriptor::new("decr", Group::String, 2, "1.0.0", Run::Store(string::decr))
        .about("Takes one from an integer.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0)]),
    Descriptor::new("decrby", Group::String, 3, "1.0.0", Run::Store(string::decrby))
        .about("Takes a number from an integer.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("decrement", ArgKind::Integer)]),
    Descriptor::new("delifeq", Group::String, 3, "9.0.0", Run::Store(string::delifeq))
        .about("Removes a key if it holds this string.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RM.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .args(&[key("key", 0), arg("value", ArgKind::String)]),
    Descriptor::new("get", Group::String, 2, "1.0.0", Run::Store(string::get))
        .about("Answers a string.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0)]),
    Descriptor::new("getdel", Group::String, 2, "6.2.0", Run::Store(string::getdel))
        .about("Answers a string and removes its key.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .args(&[key("key", 0)]),
    Descriptor::new("getex", Group::String, -2, "6.2.0", Run::Store(string::getex))
        .about("Answers a string and sets or clears its expiry.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))
            .notes("RW and UPDATE because it changes the TTL")])
        .args(&[
            key("key", 0),
            one_of(
                "expiration",
                &[
                    arg("seconds", ArgKind::Integer).token("EX"),
                    arg("milliseconds", ArgKind::Integer).token("PX"),
                    arg("unix-time-seconds", ArgKind::UnixTime).token("EXAT"),
                    arg("unix-time-milliseconds", ArgKind::UnixTime).token("PXAT"),
                    word("persist", "PERSIST"),
                ],
            )
            .optional(),
        ]),
    Descriptor::new("getrange", Group::String, 4, "2.4.0", Run::Store(string::getrange))
        .about("Answers the bytes of a string from one offset to another.", "O(N) in the bytes answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("start", ArgKind::Integer), arg("end", ArgKind::Integer)]),
    Descriptor::new("getset", Group::String, 3, "1.0.0", Run::Store(string::getset))
        .about("Sets a string and answers the old one.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .deprecated("6.2.0", "`SET` with the `!GET` argument")
        .args(&[key("key", 0), arg("value", ArgKind::String)]),
    Descriptor::new("incr", Group::String, 2, "1.0.0", Run::Store(string::incr))
        .about("Adds one to an integer.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0)]),
    Descriptor::new("incrby", Group::String, 3, "1.0.0", Run::Store(string::incrby))
        .about("Adds a number to an integer.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("increment", ArgKind::Integer)]),
    Descriptor::new("incrbyfloat", Group::String, 3, "2.6.0", Run::Store(string::incrbyfloat))
        .about("Adds a number to a floating-point number.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("increment", ArgKind::Double)]),
    Descriptor::new("lcs", Group::String, -3, "7.0.0", Run::Store(string::lcs))
        .about("Finds the longest common subsequence of two strings.", "O(N*M) in the lengths of the two strings")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::range(1, 1, 1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[
            key("key1", 0),
            key("key2", 0),
            word("len", "LEN").optional(),
            word("idx", "IDX").optional(),
            arg("len", ArgKind::Integer).token("MINMATCHLEN").optional(),
            word("withmatchlen", "WITHMATCHLEN").optional(),
        ]),
    Descriptor::new("mget", Group::String, -2, "1.0.0", Run::Store(string::mget))
        .about("Answers the strings of several keys.", "O(N) in the keys")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["request_policy:multi_shard"])
        .args(&[key("key", 0).multiple()]),
    Descriptor::new("mset", Group::String, -3, "1.0.1", Run::Store(string::mset))
        .about("Sets several keys to strings.", "O(N) in the keys")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::range(1, -1, 2, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .args(&[block("key_value", &[key("key", 0), arg("value", ArgKind::String)]).multiple()]),
    Descriptor::new("msetex", Group::String, -4, "9.1.0", Run::Store(string::msetex))
        .about("Sets several keys to strings, with a condition and an expiry for all.", "O(N) in the keys")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::counted(1, 2, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            block("data", &[key("key", 0), arg("value", ArgKind::String)]).multiple(),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).optional(),
            one_of(
                "expiration",
                &[
                    arg("seconds", ArgKind::Integer).token("EX"),
                    arg("milliseconds", ArgKind::Integer).token("PX"),
                    arg("unix-time-seconds", ArgKind::UnixTime).token("EXAT"),
                    arg("unix-time-milliseconds", ArgKind::UnixTime).token("PXAT"),
                    word("keepttl", "KEEPTTL"),
                ],
            )
            .optional(),
        ]),
    Descriptor::new("msetnx", Group::String, -3, "1.0.1", Run::Store(string::msetnx))
        .about("Sets several keys to strings if none of them exists.", "O(N) in the keys")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::range(1, -1, 2, KeyFlags::OW.and(KeyFlags::INSERT))])
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"])
        .args(&[block("key_value", &[key("key", 0), arg("value", ArgKind::String)]).multiple()]),
    Descriptor::new("psetex", Group::String, 4, "2.6.0", Run::Store(string::psetex))
        .about("Sets a string that expires after so many milliseconds.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("milliseconds", ArgKind::Integer), arg("value", ArgKind::String)]),
    Descriptor::new("set", Group::String, -3, "1.0.0", Run::Store(string::set))
        .about("Sets a key to a string, whatever it held.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(
            1,
            KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE).and(KeyFlags::VARIABLE_FLAGS),
        )
        .notes("RW and ACCESS due to the optional `GET` argument")])
        .history(&[
            ("2.6.12", "`EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "`KEEPTTL`."),
            ("6.2.0", "`GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` goes together with `GET`."),
        ])
        .args(&[
            key("key", 0),
            arg("value", ArgKind::String),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).since("2.6.12").optional(),
            word("get", "GET").since("6.2.0").optional(),
            one_of(
                "expiration",
                &[
                    arg("seconds", ArgKind::Integer).token("EX").since("2.6.12"),
                    arg("milliseconds", ArgKind::Integer).token("PX").since("2.6.12"),
                    arg("unix-time-seconds", ArgKind::UnixTime).token("EXAT").since("6.2.0"),
                    arg("unix-time-milliseconds", ArgKind::UnixTime).token("PXAT").since("6.2.0"),
                    word("keepttl", "KEEPTTL").since("6.0.0"),
                ],
            )
            .optional(),
        ])
        .vary(crate::keys::set_flags),
    Descriptor::new("setex", Group::String, 4, "2.0.0", Run::Store(string::setex))
        .about("Sets a string that expires after so many seconds.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("seconds", ArgKind::Integer), arg("value", ArgKind::String)]),
    Descriptor::new("setnx", Group::String, 3, "1.0.0", Run::Store(string::setnx))
        .about("Sets a string if the key does not exist.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::OW.and(KeyFlags::INSERT))])
        .args(&[key("key", 0), arg("value", ArgKind::String)]),
    Descriptor::new("setrange", Group::String, 4, "2.2.0", Run::Store(string::setrange))
        .about(
            "Overwrites a string from an offset on, filling up with zero bytes.",
            "O(1) for short parts, O(M) in the bytes written",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("offset", ArgKind::Integer), arg("value", ArgKind::String)]),
    Descriptor::new("strlen", Group::String, 2, "2.2.0", Run::Store(string::strlen))
        .about("Answers the length of a string.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
    Descriptor::new("substr", Group::String, 4, "1.0.0", Run::Store(string::getrange))
        .about("Answers the bytes of a string from one offset to another.", "O(N) in the bytes answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .deprecated("2.0.0", "`GETRANGE`")
        .args(&[key("key", 0), arg("start", ArgKind::Integer), arg("end", ArgKind::Integer)]),
];
