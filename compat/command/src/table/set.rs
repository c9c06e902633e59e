//! Rows of the set group.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15.

use crate::descriptor::{Acl, ArgKind, Argument, DRAWN, Descriptor, Flags, Group, KeyFlags, KeySpec, Run, arg, key};
use crate::set;

/// Only existence and numbers are answered.
const ASKS: KeyFlags = KeyFlags::RO;
/// Members are answered.
const READS: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
/// Members are added.
const ADDS: KeyFlags = KeyFlags::RW.and(KeyFlags::INSERT);
/// Members are removed.
const REMOVES: KeyFlags = KeyFlags::RW.and(KeyFlags::DELETE);
/// Members are removed and answered.
const TAKES: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);
/// The key becomes the result.
const REPLACES: KeyFlags = KeyFlags::OW.and(KeyFlags::UPDATE);

const ALL_SETS: &[KeySpec] = &[KeySpec::range(1, -1, 1, READS)];
const MEMBERS: &[Argument] = &[key("key", 0), arg("member", ArgKind::String).multiple()];
const KEYS: &[Argument] = &[key("key", 0).multiple()];
const STORED: &[Argument] = &[key("destination", 0), key("key", 1).multiple()];
const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const RANDOM: &[&str] = &["nondeterministic_output"];

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("sadd", Group::Set, -3, "1.0.0", Run::Store(set::sadd))
        .element(2)
        .about("Adds members to a set, which is created if absent.", "O(N) in the members given")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, ADDS)])
        .history(&[("2.4.0", "Several members.")])
        .args(MEMBERS),
    Descriptor::new("scard", Group::Set, 2, "1.0.0", Run::Store(set::scard))
        .about("Counts the members.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, ASKS)])
        .args(&[key("key", 0)]),
    Descriptor::new("sdiff", Group::Set, -2, "1.0.0", Run::Store(set::sdiff))
        .about("Answers the members of the first set that no other one has.", "O(N) in the members of all sets")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(ALL_SETS)
        .tips(UNORDERED)
        .args(KEYS),
    Descriptor::new("sdiffstore", Group::Set, -3, "1.0.0", Run::Store(set::sdiffstore))
        .about("Stores the members of the first set that no other one has.", "O(N) in the members of all sets")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, REPLACES), KeySpec::range(2, -1, 1, READS)])
        .args(STORED),
    Descriptor::new("sinter", Group::Set, -2, "1.0.0", Run::Store(set::sinter))
        .about("Answers the members that all sets have.", "O(N*M) in the smallest set's members and the sets")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(ALL_SETS)
        .tips(UNORDERED)
        .args(KEYS),
    Descriptor::new("sintercard", Group::Set, -3, "7.0.0", Run::Store(set::sintercard))
        .about("Counts the members that all sets have.", "O(N*M) in the smallest set's members and the sets")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::counted(1, 1, READS)])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            arg("limit", ArgKind::Integer).token("LIMIT").optional(),
        ]),
    Descriptor::new("sinterstore", Group::Set, -3, "1.0.0", Run::Store(set::sinterstore))
        .about("Stores the members that all sets have.", "O(N*M) in the smallest set's members and the sets")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE)), KeySpec::range(2, -1, 1, READS)])
        .args(STORED),
    Descriptor::new("sismember", Group::Set, 3, "1.0.0", Run::Store(set::sismember))
        .element(2)
        .about("Answers whether a set has a member.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, ASKS)])
        .args(&[key("key", 0), arg("member", ArgKind::String)]),
    Descriptor::new("smembers", Group::Set, 2, "1.0.0", Run::Store(set::smembers))
        .about("Answers all members.", "O(N) in the members")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, READS)])
        .tips(UNORDERED)
        .args(&[key("key", 0)]),
    Descriptor::new("smismember", Group::Set, -3, "6.2.0", Run::Store(set::smismember))
        .element(2)
        .about("Answers of each given member whether a set has it.", "O(N) in the members given")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, READS)])
        .args(MEMBERS),
    Descriptor::new("smove", Group::Set, 4, "1.0.0", Run::Store(set::smove))
        .about("Moves a member from one set to another.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, TAKES), KeySpec::one(2, ADDS)])
        .args(&[key("source", 0), key("destination", 1), arg("member", ArgKind::String)]),
    Descriptor::new("spop", Group::Set, -2, "1.0.0", Run::Store(set::spop))
        .about("Takes members out at random and answers them.", "O(1), or O(N) in the count")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, TAKES)])
        .element(DRAWN)
        .tips(RANDOM)
        .history(&[("3.2.0", "A count.")])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).since("3.2.0").optional()]),
    Descriptor::new("srandmember", Group::Set, -2, "1.0.0", Run::Store(set::srandmember))
        .about("Answers members at random.", "O(1), or O(N) in the count without its sign")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, READS)])
        .tips(RANDOM)
        .history(&[("2.6.0", "A count.")])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).since("2.6.0").optional()]),
    Descriptor::new("srem", Group::Set, -3, "1.0.0", Run::Store(set::srem))
        .element(2)
        .about("Removes members of a set, which goes with the last one.", "O(N) in the members given")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, REMOVES)])
        .history(&[("2.4.0", "Several members.")])
        .args(MEMBERS),
    Descriptor::new("sscan", Group::Set, -3, "2.8.0", Run::Store(set::sscan))
        .about("Walks over the members of a set, a few in each call.", "O(1) a call, O(N) for the whole walk")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, READS)])
        .tips(RANDOM)
        .args(&[
            key("key", 0),
            arg("cursor", ArgKind::Integer),
            arg("pattern", ArgKind::Pattern).token("MATCH").optional(),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
        ]),
    Descriptor::new("sunion", Group::Set, -2, "1.0.0", Run::Store(set::sunion))
        .about("Answers the members that any of the sets has.", "O(N) in the members of all sets")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(ALL_SETS)
        .tips(UNORDERED)
        .args(KEYS),
    Descriptor::new("sunionstore", Group::Set, -3, "1.0.0", Run::Store(set::sunionstore))
        .about("Stores the members that any of the sets has.", "O(N) in the members of all sets")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, REPLACES), KeySpec::range(2, -1, 1, READS)])
        .args(STORED),
];
