//! The commands on keys of any type.
//!
//! `keys` tells whether and what they are and removes them, `expiry` their time to live, `moving` gives them another
//! name or database, `object` looks inside, `scan` walks over all of them, `sort` puts the
//! elements of one in order.

mod expiry;
mod keys;
mod moving;
mod object;
pub(crate) mod scan;
mod sort;
mod sort_pattern;
mod sort_rows;

pub use expiry::{expire, expireat, expiretime, persist, pexpire, pexpireat, pexpiretime, pttl, ttl};
pub use keys::{del, exists, randomkey, touch, type_name, unlink};
pub use moving::{copy, move_key, rename, renamenx};
pub use object::{object_encoding, object_freq, object_help, object_idletime, object_refcount};
pub(crate) use object::{refcount, shares_integers};
pub use scan::{keys, scan};
pub use sort::{sort, sort_ro};
