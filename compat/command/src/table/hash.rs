//! Rows of the hash group.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15 (of Valkey for what is newer).

use crate::descriptor::{
    Acl, ArgKind, Argument, Descriptor, Flags, Group, KeyFlags, KeySpec, Run, arg, block, key, word,
};
use crate::hash;

const PAIRS: Argument =
    block("field_value", &[arg("field", ArgKind::String), arg("value", ArgKind::String)]).multiple();

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("hdel", Group::Hash, -3, "2.0.0", Run::Store(hash::hdel))
        .element(2)
        .about("Removes fields of a hash.", "O(N) in the fields to remove")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .history(&[("2.4.0", "Several fields.")])
        .args(&[key("key", 0), arg("field", ArgKind::String).multiple()]),
    Descriptor::new("hexists", Group::Hash, 3, "2.0.0", Run::Store(hash::hexists))
        .element(2)
        .about("Tells whether a hash has a field.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0), arg("field", ArgKind::String)]),
    Descriptor::new("hget", Group::Hash, 3, "2.0.0", Run::Store(hash::hget))
        .element(2)
        .about("Answers the value of a field.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("field", ArgKind::String)]),
    Descriptor::new("hgetall", Group::Hash, 2, "2.0.0", Run::Store(hash::hgetall))
        .about("Answers all fields and values of a hash.", "O(N) in the fields")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output_order"])
        .args(&[key("key", 0)]),
    Descriptor::new("hgetdel", Group::Hash, -5, "9.1.0", Run::Store(hash::hgetdel))
        .about("Answers the values of fields and removes these.", "O(N) in the fields named")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .args(&[
            key("key", 0),
            block("fields", &[arg("numfields", ArgKind::Integer), arg("field", ArgKind::String).multiple()])
                .token("FIELDS"),
        ]),
    Descriptor::new("hincrby", Group::Hash, 4, "2.0.0", Run::Store(hash::hincrby))
        .element(2)
        .about("Adds a number to the integer in a field, 0 without it.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("field", ArgKind::String), arg("increment", ArgKind::Integer)]),
    Descriptor::new("hincrbyfloat", Group::Hash, 4, "2.6.0", Run::Store(hash::hincrbyfloat))
        .element(2)
        .about("Adds a number to the floating-point number in a field, 0 without it.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("field", ArgKind::String), arg("increment", ArgKind::Double)]),
    Descriptor::new("hkeys", Group::Hash, 2, "2.0.0", Run::Store(hash::hkeys))
        .about("Answers all fields of a hash.", "O(N) in the fields")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output_order"])
        .args(&[key("key", 0)]),
    Descriptor::new("hlen", Group::Hash, 2, "2.0.0", Run::Store(hash::hlen))
        .about("Answers the number of fields of a hash.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
    Descriptor::new("hmget", Group::Hash, -3, "2.0.0", Run::Store(hash::hmget))
        .element(2)
        .about("Answers the values of several fields.", "O(N) in the fields named")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("field", ArgKind::String).multiple()]),
    Descriptor::new("hmset", Group::Hash, -4, "2.0.0", Run::Store(hash::hmset))
        .element(2)
        .about("Sets several fields.", "O(N) in the fields set")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .deprecated("4.0.0", "`HSET` with multiple field-value pairs")
        .args(&[key("key", 0), PAIRS]),
    Descriptor::new("hrandfield", Group::Hash, -2, "6.2.0", Run::Store(hash::hrandfield))
        .about("Answers fields chosen at random.", "O(N) in the fields answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output"])
        .args(&[
            key("key", 0),
            block("options", &[arg("count", ArgKind::Integer), word("withvalues", "WITHVALUES").optional()]).optional(),
        ]),
    Descriptor::new("hscan", Group::Hash, -3, "2.8.0", Run::Store(hash::hscan))
        .about("Goes over a hash's fields and values, some at each call.", "O(1) a call, O(N) in the fields for all")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output"])
        .args(&[
            key("key", 0),
            arg("cursor", ArgKind::Integer),
            arg("pattern", ArgKind::Pattern).token("MATCH").optional(),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
        ]),
    Descriptor::new("hset", Group::Hash, -4, "2.0.0", Run::Store(hash::hset))
        .element(2)
        .about("Sets fields of a hash, which is created if absent.", "O(N) in the fields set")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .history(&[("4.0.0", "Several fields and values.")])
        .args(&[key("key", 0), PAIRS]),
    Descriptor::new("hsetnx", Group::Hash, 4, "2.0.0", Run::Store(hash::hsetnx))
        .element(2)
        .about("Sets a field unless the hash has it.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .args(&[key("key", 0), arg("field", ArgKind::String), arg("value", ArgKind::String)]),
    Descriptor::new("hstrlen", Group::Hash, 3, "3.2.0", Run::Store(hash::hstrlen))
        .element(2)
        .about("Answers the length of a field's value.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0), arg("field", ArgKind::String)]),
    Descriptor::new("hvals", Group::Hash, 2, "2.0.0", Run::Store(hash::hvals))
        .about("Answers all values of a hash.", "O(N) in the fields")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output_order"])
        .args(&[key("key", 0)]),
];
