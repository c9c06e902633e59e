//! Strangers: connections that have not authenticated although a password is set. Anybody who reaches the port is one, so
//! what they take is bounded, and none of it costs a key its place.
//!
//! | bound | what happens beyond it |
//! |---|---|
//! | [`OUTPUT_BYTES_MAX`] of replies that the socket does not take | the connection is closed |
//! | [`INPUT_BYTES_MAX`] of requests that wait | the connection is closed |
//! | [`TOGETHER_BYTES_MAX`] of buffers of all strangers | the largest are closed |
//! | `unauthenticated-timeout` seconds | the connection is closed |
//!
//! A request of a stranger has 10 arguments of 16384 bytes at most, which the parser sees to. Their buffers are in a sum of
//! their own and not in the one that counts against `maxmemory`. Not here: which commands they may run (the executor).

use crate::features::pubsub::state::ConnRef;
use crate::net::conn::Conn;
use crate::net::conns::Conns;

/// Bytes of replies that a stranger may leave unread, beside what the sockets hold.
const OUTPUT_BYTES_MAX: usize = 1024;
/// Bytes of requests of a stranger that may wait here.
pub(crate) const INPUT_BYTES_MAX: u64 = 1 << 20;
/// Bytes that the buffers of all strangers may take together: each worker has its share.
const TOGETHER_BYTES_MAX: u64 = 32 << 20;
/// The smallest share of a worker: some strangers with requests of the largest size.
const SHARE_BYTES_MIN: u64 = 1 << 20;

/// True if the connection is a stranger that leaves too much unread.
pub(crate) fn reads_too_little(conn: &Conn) -> bool {
    !conn.session().is_authenticated() && conn.output().len() > OUTPUT_BYTES_MAX
}

/// True if the connection is a stranger for longer than `timeout_s` seconds (0: it may stay one), which is counted from the
/// first time that this is asked.
pub(crate) fn is_late(conn: &mut Conn, timeout_s: u32, now_ms: i64) -> bool {
    if conn.session().is_authenticated() {
        conn.set_stranger_since(None);
        return false;
    }
    let since_ms = conn.stranger_since_ms().unwrap_or(now_ms);
    conn.set_stranger_since(Some(since_ms));
    timeout_s > 0 && now_ms - since_ms >= i64::from(timeout_s) * 1000
}

/// Bytes that the buffers of the strangers of one worker of `workers` may take.
#[inline]
pub(crate) fn share_bytes(workers: usize) -> u64 {
    (TOGETHER_BYTES_MAX / workers as u64).max(SHARE_BYTES_MIN)
}

/// The largest strangers, the largest first: without them the others take half of `share` bytes at most, so that the next
/// one does not have this done again.
#[cold]
pub(crate) fn largest(conns: &Conns, share: u64) -> Vec<ConnRef> {
    let mut all: Vec<(usize, ConnRef)> =
        conns.iter().map(|conn| (conn.counted().stranger_bytes, conn.who())).filter(|(bytes, _)| *bytes > 0).collect();
    all.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let mut left: u64 = all.iter().map(|(bytes, _)| *bytes as u64).sum();
    let mut end = 0;
    while left > share / 2 && end < all.len() {
        left -= all[end].0 as u64;
        end += 1;
    }
    all.truncate(end);
    all.into_iter().map(|(_, who)| who).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_to_the_whole_for_a_few_workers() {
        assert_eq!([1, 2, 32].map(|workers| share_bytes(workers) * workers as u64), [TOGETHER_BYTES_MAX; 3]);
        assert_eq!(share_bytes(128), SHARE_BYTES_MIN);
    }
}
