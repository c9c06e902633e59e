//! The string commands.
//!
//! `options` reads the options that SET, GETEX and MSETEX share; `set` and `get` are single keys, `count` the numbers,
//! `range` parts of a string, `many` the commands over several keys, `lcs` the longest common subsequence.
//!
//! What OBJECT ENCODING later tells is decided by the writer ([`varve_store::StringForm`]): a value set whole is `Auto`, one
//! that grew or was changed in its middle `Raw`, the result of INCRBYFLOAT `Plain`.

mod count;
mod get;
mod lcs;
mod many;
mod options;
mod range;
mod set;

pub use count::{decr, decrby, incr, incrby, incrbyfloat};
pub use get::{get, getdel, getex, getset, strlen};
pub use lcs::lcs;
pub use many::{mget, mset, msetex, msetnx};
pub use range::{append, getrange, setrange};
pub use set::{delifeq, psetex, set, setex, setnx};
