//! Users as data: the rules that make them, their passwords, and what they may do.
//!
//! ```text
//!  user bob on #2c26b4.. ~a:* %R~b:* resetchannels -@all +@read (~c* +set)      a line of a file, ACL LIST
//!        |      |         |                         |            |
//!      User   Digest    Pattern, KeyUse            Bits       another Selector: a request must pass one of them whole
//!
//!  Users: name -> Arc<User>, immutable; a change makes a new set      check(row, arguments) -> Ok | Denial
//! ```
//!
//! The modules are floors: passwords and patterns, the commands as bits, a selector, a user, the set of users. Nothing here
//! knows a connection: who is told of a change, and which connections end, is the server's.

#![forbid(unsafe_code)]

mod commands;
mod describe;
mod password;
mod password_set;
mod pattern;
mod rule;
mod selector;
mod user;
mod users;

#[cfg(test)]
mod tests;

pub use commands::KnownCommands;
pub use rule::{RuleContext, RuleError, has_spaces, merge_selectors};
pub use selector::Denial;
pub use user::{SelectorRules, User};
pub use users::{UserLine, Users};
