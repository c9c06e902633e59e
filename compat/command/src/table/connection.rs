//! Rows of the connection group.

use crate::connection;
use crate::descriptor::{Acl, ArgKind, Descriptor, Flags, Group, Run, arg};

pub(super) const ROWS: &[Descriptor] = &[
    Descriptor::new("echo", Group::Connection, 2, "1.0.0", Run::Session(connection::echo))
        .about("Answers the message.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&[Acl::CONNECTION])
        .args(&[arg("message", ArgKind::String)]),
    Descriptor::new("ping", Group::Connection, -1, "1.0.0", Run::Session(connection::ping))
        .about("Answers PONG, or the message given.", "O(1)")
        .flags(&[Flags::FAST])
        .acl(&[Acl::CONNECTION])
        .args(&[arg("message", ArgKind::String).optional()]),
    Descriptor::new("quit", Group::Connection, -1, "1.0.0", Run::Session(connection::quit))
        .about("Ends the connection.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY])
        .acl(&[Acl::CONNECTION]),
    Descriptor::new("select", Group::Connection, 2, "1.0.0", Run::Session(connection::select))
        .about("Makes a database the connection's.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&[Acl::CONNECTION])
        .args(&[arg("index", ArgKind::Integer)]),
];
