//! Servers that follow each other, as tests see them: who follows whom, when they rest, and whether they have the same data.
//!
//! At rest a replica has the stream up to its primary's offset, which both count in bytes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use varve_testkit::{Client, Server};

/// How long anything may take that a test waits for.
pub const LIMIT: Duration = Duration::from_secs(120);

/// The value of a field of INFO; empty if there is none.
#[must_use]
pub fn field(client: &mut Client, section: &str, name: &str) -> String {
    let text = client.cmd(&format!("INFO {section}")).text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim_end().to_owned()
}

/// Waits until `done` says so.
///
/// # Panics
/// It does not within [`LIMIT`]: with the server's log.
pub fn wait(what: &str, server: &Server, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < end, "{what}:\n{}", server.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Has a server follow another one.
///
/// # Panics
/// It refuses.
pub fn follow(replica: &Server, primary: &Server) {
    let reply = replica.client().cmd(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    assert!(!reply.is_error(), "{}", reply.text());
}

/// Has a server follow nobody.
///
/// # Panics
/// It refuses.
pub fn stop_following(replica: &Server) {
    let reply = replica.client().cmd("REPLICAOF NO ONE");
    assert!(!reply.is_error(), "{}", reply.text());
}

/// Waits until the replica has all that the primary, which rests, has sent.
///
/// # Panics
/// It does not come to that.
pub fn caught_up(replica: &Server, primary: &Server) {
    let (mut ours, mut theirs) = (replica.client(), primary.client());
    wait("the replica has the stream", replica, || {
        let sent = field(&mut theirs, "replication", "master_repl_offset");
        field(&mut ours, "replication", "master_link_status") == "up"
            && field(&mut ours, "replication", "slave_repl_offset") == sent
            && field(&mut theirs, "replication", "master_repl_offset") == sent
    });
}

/// Waits until the replica has all that the primary, which rests, has sent: both have the same data.
///
/// # Panics
/// They have not.
pub fn assert_equal(replica: &Server, primary: &Server) {
    caught_up(replica, primary);
    assert_same_data(replica, primary);
}

/// The replica has the data of its primary, which rests. A key whose time is over between two looks may be there for a moment
/// after the primary has it no more: that is waited for.
///
/// # Panics
/// It has other data, and goes on to have it.
pub fn assert_same_data(replica: &Server, primary: &Server) {
    let (mut ours, mut theirs) = (replica.client(), primary.client());
    let end = Instant::now() + LIMIT;
    // Valkey 9 digests scores in another spelling: the keys are looked at one by one.
    let by_keys =
        [&mut ours, &mut theirs].into_iter().any(|client| !field(client, "server", "valkey_version").is_empty());
    let mut is_same = || {
        if by_keys {
            return differences(replica, primary).is_empty();
        }
        let [ours, theirs] = [&mut ours, &mut theirs].map(|client| client.cmd("DEBUG DIGEST").text());
        ours == theirs
    };
    while !is_same() {
        let is_late = Instant::now() >= end;
        assert!(!is_late, "the replica has other data: {}\n{}", differences(replica, primary), replica.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The members of a sorted set with the bits of their scores, however those are spelled; None if it is none.
fn scores(client: &mut Client, key: &[u8]) -> Option<Vec<(Vec<u8>, u64)>> {
    let reply = client.call(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]).ok()?;
    let pairs = reply.elements()?.chunks(2).map(|pair| {
        let score: f64 = pair[1].text().parse().ok()?;
        Some((pair[0].bytes()?.to_vec(), score.to_bits()))
    });
    pairs.collect()
}

/// The answers of two servers to these words and a key.
fn both(ours: &mut Client, theirs: &mut Client, words: &[&[u8]], key: &[u8]) -> [Option<String>; 2] {
    let words: Vec<&[u8]> = words.iter().copied().chain([key]).collect();
    [ours, theirs].map(|client| client.call(&words).map(|reply| format!("{reply:?}")).ok())
}

/// The keys of which two servers have other values, and what they are.
pub(crate) fn differences(replica: &Server, primary: &Server) -> String {
    let (mut ours, mut theirs) = (replica.client(), primary.client());
    let mut found = String::new();
    for db in 0..16 {
        for client in [&mut ours, &mut theirs] {
            client.cmd(&format!("SELECT {db}"));
        }
        let keys: Vec<Vec<u8>> = [&mut ours, &mut theirs]
            .into_iter()
            .flat_map(|client| client.cmd("KEYS *").elements().unwrap_or_default().to_vec())
            .filter_map(|key| key.bytes().map(<[u8]>::to_vec))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        for key in keys {
            let [of_ours, of_theirs] = both(&mut ours, &mut theirs, &[b"DEBUG", b"DIGEST-VALUE"], &key);
            if of_ours != of_theirs {
                let [of_ours, of_theirs] = [&mut ours, &mut theirs].map(|client| scores(client, &key));
                if of_ours.is_some() && of_ours == of_theirs {
                    continue;
                }
                let mut told = |words: &[&[u8]]| both(&mut ours, &mut theirs, words, &key);
                let rest = [told(&[b"TYPE"]), told(&[b"PEXPIRETIME"]), told(&[b"DUMP"])];
                let _ = write!(found, "\ndb {db} key {}: {rest:?}", key.escape_ascii());
            }
        }
    }
    found
}
