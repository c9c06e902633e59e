//! Rows of the transactions group.
//!
//! Arity, flags, categories, key positions and argument names are those of Redis 7.0.15.

use crate::descriptor::{Acl, Descriptor, Flags, Group, KeyFlags, KeySpec, Run, key};
use crate::transaction::{self, Step};

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("discard", Group::Transactions, 1, "2.0.0", Run::Transaction(Step::Discard))
        .about("Drops the queued commands and forgets the watched keys.", "O(N) in the queued commands")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ALLOW_BUSY])
        .acl(&[Acl::TRANSACTION]),
    Descriptor::new("exec", Group::Transactions, 1, "1.2.0", Run::Transaction(Step::Exec))
        .about("Runs the queued commands in one instant.", "Depends on the commands")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::SKIP_SLOWLOG])
        .acl(&[Acl::TRANSACTION]),
    Descriptor::new("multi", Group::Transactions, 1, "1.2.0", Run::Transaction(Step::Multi))
        .about("Queues the commands that follow, up to EXEC.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ALLOW_BUSY])
        .acl(&[Acl::TRANSACTION]),
    Descriptor::new("unwatch", Group::Transactions, 1, "2.2.0", Run::Transaction(Step::Unwatch))
        .about("Forgets the watched keys.", "O(N) in the watched keys")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ALLOW_BUSY])
        .acl(&[Acl::TRANSACTION]),
    Descriptor::new("watch", Group::Transactions, -2, "2.2.0", Run::Store(transaction::watch))
        .about("Has EXEC do nothing if one of these keys changes before.", "O(1) for each key")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ALLOW_BUSY])
        .acl(&[Acl::TRANSACTION])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO)])
        .args(&[key("key", 0).multiple()]),
];
