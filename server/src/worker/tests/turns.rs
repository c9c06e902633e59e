//! A turn of a worker's loop writes nothing that all workers share while no work is owed: 64 workers, counted in debug builds by
//! `varve_base::shared`.

#![cfg(debug_assertions)]

use super::*;

const WORKERS: usize = 64;
/// Connections, of which each worker has as many as any other.
const CLIENTS: usize = 2 * WORKERS;
const ROUNDS: usize = 50;
/// A client's buffers, whose bytes the memory limit counts, change now and then, and a worker tells of it after a time: the slower
/// the machine, the more turns tell. 1 of 12 did with eight of these tests on one core, 1 of 100 with one. A write in each turn is
/// far above either.
const SHARE: u64 = 4;
const ATTEMPTS: usize = 3;

/// Turns of all workers so far, and their writes to what they share.
fn counts(server: &Server) -> (u64, u64) {
    let stats = || server.state().workers().iter().map(|worker| worker.stats());
    (stats().map(|stats| stats.turns.get()).sum(), stats().map(|stats| stats.shared_writes.get()).sum())
}

/// Turns and writes of rounds in which each client sends a request and is answered.
fn rounds(server: &Server, clients: &mut [Client], words: impl Fn(usize) -> Vec<String>, reply: &str) -> (u64, u64) {
    let mut all = |count: usize| {
        for _ in 0..count {
            for (n, client) in clients.iter_mut().enumerate() {
                let words = words(n);
                client.ask(&words.iter().map(String::as_str).collect::<Vec<_>>(), reply);
            }
        }
    };
    all(3);
    let before = counts(server);
    all(ROUNDS);
    let after = counts(server);
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn issue_11_a_turn_writes_nothing_that_all_workers_share() {
    let server = Server::start(WORKERS, "");
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    let key = |n: usize| format!("key:{n}");
    let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for (what, words, reply) in [
        ("PING", (&|_| strings(&["PING"])) as &dyn Fn(usize) -> Vec<String>, "+PONG\r\n"),
        ("SET", &|n| strings(&["SET", &key(n), "value"]), "+OK\r\n"),
        ("GET", &|n| strings(&["GET", &key(n)]), "$5\r\nvalue\r\n"),
    ] {
        let writes_few = (0..ATTEMPTS).any(|_| {
            let (turns, writes) = rounds(&server, &mut clients, words, reply);
            assert!(turns >= (CLIENTS * ROUNDS / 4) as u64, "{turns} turns are a load");
            println!("{what}: {writes} writes in {turns} turns");
            writes * SHARE < turns
        });
        assert!(writes_few, "{what}");
    }
}
