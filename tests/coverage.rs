//! The differential test asks every command that redis-server has too: the list of commands is derived from the rows, so
//! a new one without a template fails here.
//!
//! ```text
//!   generator --a fixed seed, steps--> names that were asked
//!   rows --without the newer ones, and those of UNASKED--> names that must be among them
//! ```

use std::collections::BTreeSet;

use varve_exec::Command;
use varve_server::commands;
use varve_tests::collections::Types;
use varve_tests::generate::Generator;

/// The version of redis-server that commands are compared with.
const PEER: [u32; 3] = [7, 0, 15];
/// Steps within which each command comes.
const STEPS: usize = 200_000;
/// Commands that the generator leaves out, and why.
const UNASKED: &[(&str, &str)] = &[
    ("brpop", WAITING),
    ("brpoplpush", WAITING),
    ("blmpop", WAITING),
    ("bzpopmax", WAITING),
    ("bzmpop", WAITING),
    ("multi", TRANSACTION),
    ("exec", TRANSACTION),
    ("discard", TRANSACTION),
    ("watch", TRANSACTION),
    ("unwatch", TRANSACTION),
    ("publish", LISTENING),
    ("spublish", LISTENING),
    ("subscribe", LISTENING),
    ("unsubscribe", LISTENING),
    ("psubscribe", LISTENING),
    ("punsubscribe", LISTENING),
    ("ssubscribe", LISTENING),
    ("sunsubscribe", LISTENING),
    ("pubsub", LISTENING),
    ("monitor", LISTENING),
    ("latency", "its replies are times; the server's own tests ask it"),
    ("segments", "no other server has it"),
    ("dump", PAYLOAD),
    ("restore", PAYLOAD),
    ("restore-asking", PAYLOAD),
    ("migrate", "it needs a third server: tests/migrate.rs"),
    ("fcall", FUNCTIONS),
    ("fcall_ro", FUNCTIONS),
    ("function", FUNCTIONS),
    ("save", FILES),
    ("bgsave", FILES),
    ("bgrewriteaof", FILES),
    ("acl", STATE),
    ("asking", STATE),
    ("cluster", STATE),
    ("lastsave", STATE),
    ("module", STATE),
    ("readonly", STATE),
    ("readwrite", STATE),
    ("failover", "it needs a replica: tests/failover.rs"),
    ("replicaof", STATE),
    ("role", STATE),
    ("slaveof", STATE),
    ("wait", STATE),
    ("waitaof", STATE),
    ("psync", REPLICATION),
    ("replconf", REPLICATION),
    ("sync", REPLICATION),
];
const FUNCTIONS: &str = "they are state of the server: server/tests/peer_functions.rs; Redis's suite";
const WAITING: &str = "its form that does not wait is asked; the waits are scripts (peer_blocking.txt)";
const TRANSACTION: &str = "a session of several commands: transactions.rs of the commands' tests, tests/transfers.rs";
const REPLICATION: &str = "it is what replicas say: tests/replication_primary.rs";
const STATE: &str = "it asks for the state of a server: server/tests/peer_server.rs";
const PAYLOAD: &str = "payloads need not be equal, only restored by both servers: tests/dump.rs";
const FILES: &str = "it writes a file, which both servers load: server/tests/saves.rs, tests/appendonly.rs";
const LISTENING: &str = "its replies come out of turn: the server's own tests, Redis's suite";

fn is_newer(command: &Command) -> bool {
    command.since.split('.').map(|part| part.parse::<u32>().expect("a number")).gt(PEER)
}

#[test]
fn the_generator_asks_every_command() {
    let mut asked = BTreeSet::new();
    for resp in [2, 3] {
        let mut generator = Generator::new(1, resp, Types::ALL);
        for _ in 0..STEPS {
            let step = generator.next_step();
            asked.extend(step.args.first().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()));
        }
    }
    let rows = commands().commands().iter().filter(|row| !is_newer(row)).map(|row| row.name);
    let missing: Vec<&str> =
        rows.filter(|name| !asked.contains(*name) && UNASKED.iter().all(|(left, _)| left != name)).collect();
    assert!(missing.is_empty(), "no template asks {missing:?}");
    let needless: Vec<&str> = UNASKED.iter().map(|(name, _)| *name).filter(|name| asked.contains(*name)).collect();
    assert!(needless.is_empty(), "asked after all: {needless:?}");
}
