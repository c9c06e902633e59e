//! Rows of the commands on lists and sorted sets that may block their client.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15.

use crate::blocking;
use crate::descriptor::{
    Acl, ArgKind, Argument, Descriptor, Flags, Group, KeyFlags, KeySpec, Run, StoreFn, arg, key, one_of, word,
};

const TAKEN: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);
const ENDS: &[Argument] = &[word("left", "LEFT"), word("right", "RIGHT")];
const EXTREMES: &[Argument] = &[word("min", "MIN"), word("max", "MAX")];
const TIMEOUT: Argument = arg("timeout", ArgKind::Double);
const COUNT: Argument = arg("count", ArgKind::Integer).token("COUNT").optional();
const SOURCE_AND_TARGET: &[KeySpec] = &[KeySpec::one(1, TAKEN), KeySpec::one(2, KeyFlags::RW.and(KeyFlags::INSERT))];
const KEYS: &[KeySpec] = &[KeySpec::range(1, -2, 1, TAKEN)];
const KEYS_THEN_TIMEOUT: &[Argument] = &[key("key", 0).multiple(), TIMEOUT];
const FRACTIONS: &[(&str, &str)] = &[("6.0.0", "The timeout may have a fraction.")];

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("blmove", Group::List, 6, "6.2.0", Run::Store(blocking::blmove))
        .about("Takes an element from a list and adds it to another, once there is one.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::NOSCRIPT, Flags::BLOCKING])
        .acl(&[Acl::LIST])
        .keys(SOURCE_AND_TARGET)
        .args(&[key("source", 0), key("destination", 1), one_of("wherefrom", ENDS), one_of("whereto", ENDS), TIMEOUT]),
    Descriptor::new("blmpop", Group::List, -5, "7.0.0", Run::Store(blocking::blmpop))
        .about("Takes elements from the first of the lists that has some, once there are any.", "O(N+M) for N keys, M elements")
        .flags(&[Flags::WRITE, Flags::BLOCKING])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::counted(2, 1, TAKEN)])
        .args(&[TIMEOUT, arg("numkeys", ArgKind::Integer), key("key", 0).multiple(), one_of("where", ENDS), COUNT]),
    pop("blpop", "2.0.0", blocking::blpop, "Takes the first element of the first of the lists that has one, once there is any."),
    pop("brpop", "2.0.0", blocking::brpop, "Takes the last element of the first of the lists that has one, once there is any."),
    Descriptor::new("brpoplpush", Group::List, 4, "2.2.0", Run::Store(blocking::brpoplpush))
        .about("Takes a list's last element and makes it the first of another, once there is one.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::NOSCRIPT, Flags::BLOCKING])
        .acl(&[Acl::LIST])
        .keys(SOURCE_AND_TARGET)
        .deprecated("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments")
        .history(FRACTIONS)
        .args(&[key("source", 0), key("destination", 1), TIMEOUT]),
    Descriptor::new("bzmpop", Group::SortedSet, -5, "7.0.0", Run::Store(blocking::bzmpop))
        .about(
            "Takes members with the lowest or highest scores from the first of the sorted sets that has some, once there are any.",
            "O(K+M*log(N)) for K keys, M members taken, N in the set",
        )
        .flags(&[Flags::WRITE, Flags::BLOCKING])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(2, 1, TAKEN)])
        .args(&[TIMEOUT, arg("numkeys", ArgKind::Integer), key("key", 0).multiple(), one_of("where", EXTREMES), COUNT]),
    pop_score("bzpopmax", blocking::bzpopmax, "Takes the member with the highest score from the first of the sorted sets that has one."),
    pop_score("bzpopmin", blocking::bzpopmin, "Takes the member with the lowest score from the first of the sorted sets that has one."),
];

const fn pop(name: &'static str, since: &'static str, run: StoreFn, about: &'static str) -> Descriptor {
    Descriptor::new(name, Group::List, -3, since, Run::Store(run))
        .about(about, "O(N) in the keys")
        .flags(&[Flags::WRITE, Flags::NOSCRIPT, Flags::BLOCKING])
        .acl(&[Acl::LIST])
        .keys(KEYS)
        .history(FRACTIONS)
        .args(KEYS_THEN_TIMEOUT)
}

const fn pop_score(name: &'static str, run: StoreFn, about: &'static str) -> Descriptor {
    Descriptor::new(name, Group::SortedSet, -3, "5.0.0", Run::Store(run))
        .about(about, "O(log(N)) in the members")
        .flags(&[Flags::WRITE, Flags::NOSCRIPT, Flags::FAST, Flags::BLOCKING])
        .acl(&[Acl::SORTEDSET])
        .keys(KEYS)
        .history(FRACTIONS)
        .args(KEYS_THEN_TIMEOUT)
}
