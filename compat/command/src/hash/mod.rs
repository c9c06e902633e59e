//! The commands on hashes.
//!
//! `read` answers fields and values, `write` changes them, `count` adds to numbers in fields, `walk` goes over a whole
//! hash or picks fields at random.

mod count;
mod read;
mod walk;
mod write;

pub use count::{hincrby, hincrbyfloat};
pub use read::{hexists, hget, hlen, hmget, hstrlen};
pub use walk::{hgetall, hkeys, hrandfield, hscan, hvals};
pub use write::{hdel, hgetdel, hmset, hset, hsetnx};
