//! Rows of the sorted set group, but for those that wait.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15 (of 7.2 for ZRANK and ZREVRANK,
//! which take WITHSCORE).

use crate::descriptor::{
    Acl, ArgKind, Descriptor, Flags, Group, KeyFlags, KeySpec, Run, arg, block, key, one_of, word,
};
use crate::zset;

/// Members or scores are answered.
const READS: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
/// Members are added, scores changed.
const UPDATES: KeyFlags = KeyFlags::RW.and(KeyFlags::UPDATE);
/// A score is changed and answered.
const CHANGES: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE);
/// The key becomes the result.
const REPLACES: KeyFlags = KeyFlags::OW.and(KeyFlags::UPDATE);
/// Members are removed.
const REMOVES: KeyFlags = KeyFlags::RW.and(KeyFlags::DELETE);
/// Members are removed and answered.
const TAKES: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("zadd", Group::SortedSet, -4, "1.2.0", Run::Store(zset::zadd))
        .element(3)
        .about("Adds members with their scores, or changes the scores of those that are there.", "O(log(N)) a member")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, UPDATES)])
        .history(&[
            ("2.4.0", "Several members."),
            ("3.0.2", "`XX`, `NX`, `CH` and `INCR`."),
            ("6.2.0", "`GT` and `LT`."),
        ])
        .args(&[
            key("key", 0),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).since("3.0.2").optional(),
            one_of("comparison", &[word("gt", "GT"), word("lt", "LT")]).since("6.2.0").optional(),
            word("change", "CH").since("3.0.2").optional(),
            word("increment", "INCR").since("3.0.2").optional(),
            block("score_member", &[arg("score", ArgKind::Double), arg("member", ArgKind::String)]).multiple(),
        ]),
    Descriptor::new("zcard", Group::SortedSet, 2, "1.2.0", Run::Store(zset::zcard))
        .about("Counts the members.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
    Descriptor::new("zcount", Group::SortedSet, 4, "2.0.0", Run::Store(zset::zcount))
        .about("Counts the members whose scores lie in a range.", "O(log(N))")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .args(&[key("key", 0), arg("min", ArgKind::Double), arg("max", ArgKind::Double)]),
    Descriptor::new("zdiff", Group::SortedSet, -3, "6.2.0", Run::Store(zset::zdiff))
        .about(
            "Answers the members of the first set that no other one has.",
            "O(L) in the members of all sets, and the sorting of those answered",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(1, 1, READS)])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            word("withscores", "WITHSCORES").optional(),
        ]),
    Descriptor::new("zdiffstore", Group::SortedSet, -4, "6.2.0", Run::Store(zset::zdiffstore))
        .about(
            "Stores the members of the first set that no other one has.",
            "O(L) in the members of all sets, and the sorting of those stored",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REPLACES), KeySpec::counted(2, 1, READS)])
        .args(&[key("destination", 0), arg("numkeys", ArgKind::Integer), key("key", 1).multiple()]),
    Descriptor::new("zincrby", Group::SortedSet, 4, "1.2.0", Run::Store(zset::zincrby))
        .element(3)
        .about("Adds to the score of a member.", "O(log(N))")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, CHANGES)])
        .args(&[key("key", 0), arg("increment", ArgKind::Integer), arg("member", ArgKind::String)]),
    Descriptor::new("zinter", Group::SortedSet, -3, "6.2.0", Run::Store(zset::zinter))
        .about(
            "Answers the members that all sets have.",
            "O(N*K) in the members of the smallest set and the sets, and the sorting of those answered",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(1, 1, READS)])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            arg("weight", ArgKind::Integer).token("WEIGHTS").optional().multiple(),
            one_of("aggregate", &[word("sum", "SUM"), word("min", "MIN"), word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
            word("withscores", "WITHSCORES").optional(),
        ]),
    Descriptor::new("zintercard", Group::SortedSet, -3, "7.0.0", Run::Store(zset::zintercard))
        .about("Counts the members that all sets have.", "O(N*K) in the members of the smallest set and the sets")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(1, 1, READS)])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            arg("limit", ArgKind::Integer).token("LIMIT").optional(),
        ]),
    Descriptor::new("zinterstore", Group::SortedSet, -4, "2.0.0", Run::Store(zset::zinterstore))
        .about(
            "Stores the members that all sets have.",
            "O(N*K) in the members of the smallest set and the sets, and the sorting of those stored",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REPLACES), KeySpec::counted(2, 1, READS)])
        .args(&[
            key("destination", 0),
            arg("numkeys", ArgKind::Integer),
            key("key", 1).multiple(),
            arg("weight", ArgKind::Integer).token("WEIGHTS").optional().multiple(),
            one_of("aggregate", &[word("sum", "SUM"), word("min", "MIN"), word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
        ]),
    Descriptor::new("zlexcount", Group::SortedSet, 4, "2.8.9", Run::Store(zset::zlexcount))
        .about("Counts the members that lie in a range of names, scores being equal.", "O(log(N))")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .args(&[key("key", 0), arg("min", ArgKind::String), arg("max", ArgKind::String)]),
    Descriptor::new("zmpop", Group::SortedSet, -4, "7.0.0", Run::Store(zset::zmpop))
        .about(
            "Takes members of lowest or highest score out of the first set that has any.",
            "O(K) in the keys, and O(log(N)) a member taken",
        )
        .flags(&[Flags::WRITE])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(1, 1, TAKES)])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            one_of("where", &[word("min", "MIN"), word("max", "MAX")]),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
        ]),
    Descriptor::new("zmscore", Group::SortedSet, -3, "6.2.0", Run::Store(zset::zmscore))
        .element(2)
        .about("Answers the scores of several members.", "O(M) in the members asked for")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .args(&[key("key", 0), arg("member", ArgKind::String).multiple()]),
    Descriptor::new("zpopmax", Group::SortedSet, -2, "5.0.0", Run::Store(zset::zpopmax))
        .about("Takes the members of highest score out.", "O(log(N)) a member taken")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, TAKES)])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).optional()]),
    Descriptor::new("zpopmin", Group::SortedSet, -2, "5.0.0", Run::Store(zset::zpopmin))
        .about("Takes the members of lowest score out.", "O(log(N)) a member taken")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, TAKES)])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).optional()]),
    Descriptor::new("zrandmember", Group::SortedSet, -2, "6.2.0", Run::Store(zset::zrandmember))
        .about("Answers members picked at random.", "O(M*log(N)) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .tips(&["nondeterministic_output"])
        .args(&[
            key("key", 0),
            block("options", &[arg("count", ArgKind::Integer), word("withscores", "WITHSCORES").optional()]).optional(),
        ]),
    Descriptor::new("zrange", Group::SortedSet, -4, "1.2.0", Run::Store(zset::zrange))
        .about("Answers the members in a range of ranks, scores or names.", "O(log(N)+M) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .history(&[("6.2.0", "`REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")])
        .args(&[
            key("key", 0),
            arg("start", ArgKind::String),
            arg("stop", ArgKind::String),
            one_of("sortby", &[word("byscore", "BYSCORE"), word("bylex", "BYLEX")]).since("6.2.0").optional(),
            word("rev", "REV").since("6.2.0").optional(),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .since("6.2.0")
                .optional(),
            word("withscores", "WITHSCORES").optional(),
        ]),
    Descriptor::new("zrangebylex", Group::SortedSet, -4, "2.8.9", Run::Store(zset::zrangebylex))
        .about("Answers the members in a range of names, scores being equal.", "O(log(N)+M) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument")
        .args(&[
            key("key", 0),
            arg("min", ArgKind::String),
            arg("max", ArgKind::String),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .optional(),
        ]),
    Descriptor::new("zrangebyscore", Group::SortedSet, -4, "1.0.5", Run::Store(zset::zrangebyscore))
        .about("Answers the members whose scores lie in a range.", "O(log(N)+M) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument")
        .history(&[("2.0.0", "`WITHSCORES`.")])
        .args(&[
            key("key", 0),
            arg("min", ArgKind::Double),
            arg("max", ArgKind::Double),
            word("withscores", "WITHSCORES").since("2.0.0").optional(),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .optional(),
        ]),
    Descriptor::new("zrangestore", Group::SortedSet, -5, "6.2.0", Run::Store(zset::zrangestore))
        .about(
            "Stores the members in a range of ranks, scores or names under another key.",
            "O(log(N)+M) in the members stored",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REPLACES), KeySpec::one(2, READS)])
        .args(&[
            key("dst", 0),
            key("src", 1),
            arg("min", ArgKind::String),
            arg("max", ArgKind::String),
            one_of("sortby", &[word("byscore", "BYSCORE"), word("bylex", "BYLEX")]).optional(),
            word("rev", "REV").optional(),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .optional(),
        ]),
    Descriptor::new("zrank", Group::SortedSet, -3, "2.0.0", Run::Store(zset::zrank))
        .element(2)
        .about("Answers the rank of a member, lowest score first.", "O(log(N))")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .history(&[("7.2.0", "`WITHSCORE`.")])
        .args(&[
            key("key", 0),
            arg("member", ArgKind::String),
            word("withscore", "WITHSCORE").since("7.2.0").optional(),
        ]),
    Descriptor::new("zrem", Group::SortedSet, -3, "1.2.0", Run::Store(zset::zrem))
        .element(2)
        .about("Removes members.", "O(log(N)) a member")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REMOVES)])
        .history(&[("2.4.0", "Several members.")])
        .args(&[key("key", 0), arg("member", ArgKind::String).multiple()]),
    Descriptor::new("zremrangebylex", Group::SortedSet, 4, "2.8.9", Run::Store(zset::zremrangebylex))
        .about("Removes the members in a range of names, scores being equal.", "O(log(N)+M) in the members removed")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REMOVES)])
        .args(&[key("key", 0), arg("min", ArgKind::String), arg("max", ArgKind::String)]),
    Descriptor::new("zremrangebyrank", Group::SortedSet, 4, "2.0.0", Run::Store(zset::zremrangebyrank))
        .about("Removes the members in a range of ranks.", "O(log(N)+M) in the members removed")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REMOVES)])
        .args(&[key("key", 0), arg("start", ArgKind::Integer), arg("stop", ArgKind::Integer)]),
    Descriptor::new("zremrangebyscore", Group::SortedSet, 4, "1.2.0", Run::Store(zset::zremrangebyscore))
        .about("Removes the members whose scores lie in a range.", "O(log(N)+M) in the members removed")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REMOVES)])
        .args(&[key("key", 0), arg("min", ArgKind::Double), arg("max", ArgKind::Double)]),
    Descriptor::new("zrevrange", Group::SortedSet, -4, "1.2.0", Run::Store(zset::zrevrange))
        .about("Answers the members in a range of ranks, highest score first.", "O(log(N)+M) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`ZRANGE` with the `REV` argument")
        .args(&[
            key("key", 0),
            arg("start", ArgKind::Integer),
            arg("stop", ArgKind::Integer),
            word("withscores", "WITHSCORES").optional(),
        ]),
    Descriptor::new("zrevrangebylex", Group::SortedSet, -4, "2.8.9", Run::Store(zset::zrevrangebylex))
        .about(
            "Answers the members in a range of names, last first, scores being equal.",
            "O(log(N)+M) in the members answered",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments")
        .args(&[
            key("key", 0),
            arg("max", ArgKind::String),
            arg("min", ArgKind::String),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .optional(),
        ]),
    Descriptor::new("zrevrangebyscore", Group::SortedSet, -4, "2.2.0", Run::Store(zset::zrevrangebyscore))
        .about("Answers the members whose scores lie in a range, highest first.", "O(log(N)+M) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments")
        .history(&[("2.1.6", "Bounds that are not in the range themselves.")])
        .args(&[
            key("key", 0),
            arg("max", ArgKind::Double),
            arg("min", ArgKind::Double),
            word("withscores", "WITHSCORES").optional(),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .optional(),
        ]),
    Descriptor::new("zrevrank", Group::SortedSet, -3, "2.0.0", Run::Store(zset::zrevrank))
        .element(2)
        .about("Answers the rank of a member, highest score first.", "O(log(N))")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .history(&[("7.2.0", "`WITHSCORE`.")])
        .args(&[
            key("key", 0),
            arg("member", ArgKind::String),
            word("withscore", "WITHSCORE").since("7.2.0").optional(),
        ]),
    Descriptor::new("zscan", Group::SortedSet, -3, "2.8.0", Run::Store(zset::zscan))
        .about("Walks over members and scores in steps.", "O(1) a call, O(N) for all")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .tips(&["nondeterministic_output"])
        .args(&[
            key("key", 0),
            arg("cursor", ArgKind::Integer),
            arg("pattern", ArgKind::Pattern).token("MATCH").optional(),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
        ]),
    Descriptor::new("zscore", Group::SortedSet, 3, "1.2.0", Run::Store(zset::zscore))
        .element(2)
        .about("Answers the score of a member.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .args(&[key("key", 0), arg("member", ArgKind::String)]),
    Descriptor::new("zunion", Group::SortedSet, -3, "6.2.0", Run::Store(zset::zunion))
        .about(
            "Answers the members that any of the sets has.",
            "O(N) in the members of all sets, and the sorting of those answered",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(1, 1, READS)])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            arg("weight", ArgKind::Integer).token("WEIGHTS").optional().multiple(),
            one_of("aggregate", &[word("sum", "SUM"), word("min", "MIN"), word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
            word("withscores", "WITHSCORES").optional(),
        ]),
    Descriptor::new("zunionstore", Group::SortedSet, -4, "2.0.0", Run::Store(zset::zunionstore))
        .about(
            "Stores the members that any of the sets has.",
            "O(N) in the members of all sets, and the sorting of those stored",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REPLACES), KeySpec::counted(2, 1, READS)])
        .args(&[
            key("destination", 0),
            arg("numkeys", ArgKind::Integer),
            key("key", 1).multiple(),
            arg("weight", ArgKind::Integer).token("WEIGHTS").optional().multiple(),
            one_of("aggregate", &[word("sum", "SUM"), word("min", "MIN"), word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
        ]),
];
