//! Rows of SORT and SORT_RO, of the generic group.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15.

use crate::descriptor::{
    Acl, ArgKind, Argument, Begin, Descriptor, Find, Flags, Group, KeyFlags, KeySpec, Run, arg, block, key, one_of,
    word,
};
use crate::generic;

const SOURCE: KeySpec = KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS));
const PATTERNS: KeySpec = KeySpec {
    begin: Begin::Unknown,
    find: Find::Unknown,
    flags: KeyFlags::RO.and(KeyFlags::ACCESS),
    notes: "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
};
const DESTINATION: KeySpec = KeySpec {
    begin: Begin::SortStore,
    find: Find::Unknown,
    flags: KeyFlags::OW.and(KeyFlags::UPDATE),
    notes: "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array",
};

const BY: Argument = pattern("BY").optional();
const LIMIT: Argument =
    block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)]).token("LIMIT").optional();
const GET: Argument = pattern("GET").optional().multiple().multiple_token();
const ORDER: Argument = one_of("order", &[word("asc", "ASC"), word("desc", "DESC")]).optional();
const ALPHA: Argument = word("sorting", "ALPHA").optional();

const fn pattern(token: &'static str) -> Argument {
    Argument { key_spec: Some(1), ..arg("pattern", ArgKind::Pattern).token(token) }
}

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("sort", Group::Generic, -2, "1.0.0", Run::Store(generic::sort))
        .about(
            "Answers or stores the elements of a list, set or sorted set in order.",
            "O(N+M*log(M)) in the elements and those that are sorted",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::TOUCHES_ARBITRARY_KEYS])
        .acl(&[Acl::SET, Acl::SORTEDSET, Acl::LIST, Acl::DANGEROUS])
        .keys(&[SOURCE, PATTERNS, DESTINATION])
        .args(&[key("key", 0), BY, LIMIT, GET, ORDER, ALPHA, key("destination", 2).token("STORE").optional()]),
    Descriptor::new("sort_ro", Group::Generic, -2, "7.0.0", Run::Store(generic::sort_ro))
        .about(
            "Answers the elements of a list, set or sorted set in order.",
            "O(N+M*log(M)) in the elements and those that are sorted",
        )
        .flags(&[Flags::READONLY, Flags::TOUCHES_ARBITRARY_KEYS])
        .acl(&[Acl::SET, Acl::SORTEDSET, Acl::LIST, Acl::DANGEROUS])
        .keys(&[SOURCE, PATTERNS])
        .args(&[key("key", 0), BY, LIMIT, GET, ORDER, ALPHA]),
];
