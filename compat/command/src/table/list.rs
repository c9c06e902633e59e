//! Rows of the list group, but for the commands that wait.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15.

use crate::descriptor::{
    Acl, ArgKind, Argument, Descriptor, Flags, Group, KeyFlags, KeySpec, Run, arg, key, one_of, word,
};
use crate::list;

const SIDES: &[Argument] = &[word("left", "LEFT"), word("right", "RIGHT")];

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("lindex", Group::List, 3, "1.0.0", Run::Store(list::lindex))
        .about("Answers the element at a position.", "O(log N)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("index", ArgKind::Integer)]),
    Descriptor::new("linsert", Group::List, 5, "2.2.0", Run::Store(list::linsert))
        .about("Adds an element beside the first one equal to another.", "O(N) in the elements before it")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .args(&[
            key("key", 0),
            one_of("where", &[word("before", "BEFORE"), word("after", "AFTER")]),
            arg("pivot", ArgKind::String),
            arg("element", ArgKind::String),
        ]),
    Descriptor::new("llen", Group::List, 2, "1.0.0", Run::Store(list::llen))
        .about("Answers the number of elements.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
    Descriptor::new("lmove", Group::List, 5, "6.2.0", Run::Store(list::lmove))
        .about("Takes an element off one list and adds it to another.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::LIST])
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.and(KeyFlags::INSERT)),
        ])
        .args(&[key("source", 0), key("destination", 1), one_of("wherefrom", SIDES), one_of("whereto", SIDES)]),
    Descriptor::new("lmpop", Group::List, -4, "7.0.0", Run::Store(list::lmpop))
        .about(
            "Takes elements off the first of several lists that has any.",
            "O(N+M) in the keys and the elements answered",
        )
        .flags(&[Flags::WRITE])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::counted(1, 1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            one_of("where", SIDES),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
        ]),
    Descriptor::new("lpop", Group::List, -2, "1.0.0", Run::Store(list::lpop))
        .about("Takes elements off the front.", "O(N) in the elements answered")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .history(&[("6.2.0", "A count.")])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).since("6.2.0").optional()]),
    Descriptor::new("lpos", Group::List, -3, "6.0.6", Run::Store(list::lpos))
        .about("Answers the positions of elements equal to one.", "O(N) in the elements compared")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[
            key("key", 0),
            arg("element", ArgKind::String),
            arg("rank", ArgKind::Integer).token("RANK").optional(),
            arg("num-matches", ArgKind::Integer).token("COUNT").optional(),
            arg("len", ArgKind::Integer).token("MAXLEN").optional(),
        ]),
    Descriptor::new("lpush", Group::List, -3, "1.0.0", Run::Store(list::lpush))
        .about("Adds elements at the front of a list, which is created if absent.", "O(N) in the elements added")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .history(&[("2.4.0", "Several elements.")])
        .args(&[key("key", 0), arg("element", ArgKind::String).multiple()]),
    Descriptor::new("lpushx", Group::List, -3, "2.2.0", Run::Store(list::lpushx))
        .about("Adds elements at the front of a list that exists.", "O(N) in the elements added")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .history(&[("4.0.0", "Several elements.")])
        .args(&[key("key", 0), arg("element", ArgKind::String).multiple()]),
    Descriptor::new("lrange", Group::List, 4, "1.0.0", Run::Store(list::lrange))
        .about(
            "Answers the elements from one position to another.",
            "O(log N + M) in the length and the elements answered",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("start", ArgKind::Integer), arg("stop", ArgKind::Integer)]),
    Descriptor::new("lrem", Group::List, 4, "1.0.0", Run::Store(list::lrem))
        .about("Removes elements equal to one.", "O(N) in the elements compared")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .args(&[key("key", 0), arg("count", ArgKind::Integer), arg("element", ArgKind::String)]),
    Descriptor::new("lset", Group::List, 4, "1.0.0", Run::Store(list::lset))
        .about("Puts another element at a position.", "O(log N)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("index", ArgKind::Integer), arg("element", ArgKind::String)]),
    Descriptor::new("ltrim", Group::List, 4, "1.0.0", Run::Store(list::ltrim))
        .about(
            "Removes all elements but those from one position to another.",
            "O(N) in the elements removed, by whole nodes",
        )
        .flags(&[Flags::WRITE])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .args(&[key("key", 0), arg("start", ArgKind::Integer), arg("stop", ArgKind::Integer)]),
    Descriptor::new("rpop", Group::List, -2, "1.0.0", Run::Store(list::rpop))
        .about("Takes elements off the back.", "O(N) in the elements answered")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .history(&[("6.2.0", "A count.")])
        .args(&[key("key", 0), arg("count", ArgKind::Integer).since("6.2.0").optional()]),
    Descriptor::new("rpoplpush", Group::List, 3, "1.2.0", Run::Store(list::rpoplpush))
        .about("Takes the last element off one list and adds it to the front of another.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::LIST])
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.and(KeyFlags::INSERT)),
        ])
        .deprecated("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments")
        .args(&[key("source", 0), key("destination", 1)]),
    Descriptor::new("rpush", Group::List, -3, "1.0.0", Run::Store(list::rpush))
        .about("Adds elements at the back of a list, which is created if absent.", "O(N) in the elements added")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .history(&[("2.4.0", "Several elements.")])
        .args(&[key("key", 0), arg("element", ArgKind::String).multiple()]),
    Descriptor::new("rpushx", Group::List, -3, "2.2.0", Run::Store(list::rpushx))
        .about("Adds elements at the back of a list that exists.", "O(N) in the elements added")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .history(&[("4.0.0", "Several elements.")])
        .args(&[key("key", 0), arg("element", ArgKind::String).multiple()]),
];
