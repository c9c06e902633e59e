//! Commands as data: rows, key positions, ACL categories, documentation, names.
//!
//! ```text
//!  Row: name, arity, flags, behaviour, categories, key specifications, arguments, history
//!   |-- keys:  a request's arguments that are keys         (executor, COMMAND GETKEYS, ACL; cluster to come)
//!   |-- names: a request's name -> the command             (executor, COMMAND INFO)
//!   +-- documentation                                      (COMMAND DOCS, the table of supported commands)
//! ```
//!
//! Nothing here knows a store, a session or a handler: the executor puts a handler beside a row.

#![forbid(unsafe_code)]

mod argument;
mod flags;
mod key_spec;
mod keys;
mod names;
mod row;
mod secret;

pub use argument::{ArgKind, Argument, arg, block, key, one_of, word};
pub use flags::{Acl, ArgFlags, Behaviour, Flags, KeyFlags};
pub use key_spec::{Begin, Find, KeyRange, KeySpec, KeysOption};
pub use keys::{NoKeys, delex_flags, set_flags};
pub use names::{NameTable, RenameError};
pub use row::{Channels, DRAWN, Deprecated, Group, Row};
pub use secret::{Secret, SecretOption, Shown};
