//! redis-server with a replica that reads its stream: what each step left there.
//!
//! A message that the first connection publishes ends each step: it goes to replicas too, behind all that came before.

use super::table::{self, Act};
use super::{Databases, Effect, Words};
use std::time::Duration;
use varve_testkit::{Client, Launch, Replica, Server};

/// How long an effect may take to come.
const LIMIT: Duration = Duration::from_secs(20);
/// The channel of the messages that end steps.
const MARK: &[u8] = b"__the_step_has_ended";
/// How long keys may take to expire by themselves.
const BACKGROUND: Duration = Duration::from_millis(300);

/// A redis-server that is watched.
pub(crate) struct Theirs {
    server: Server,
    replica: Replica,
    databases: Databases,
    clients: Vec<Client>,
    /// Numbers of the connections.
    ids: Vec<i64>,
    /// Connections whose reply is owed: they wait for a key.
    blocked: Vec<usize>,
    /// The first connection is between MULTI and EXEC.
    queues: bool,
    marks: u64,
}

impl Theirs {
    /// Starts a server and its replica.
    pub(crate) fn start() -> Theirs {
        let launch = Launch::peer().config("repl-diskless-sync-delay 0").config("repl-ping-replica-period 3600");
        let server = launch.config("repl-timeout 3600").start().expect("redis-server starts");
        let replica = Replica::connect(server.address()).expect("redis-server takes a replica");
        let (databases, clients, ids, blocked) = (Databases::default(), Vec::new(), Vec::new(), Vec::new());
        let mut theirs = Theirs { server, replica, databases, clients, ids, blocked, queues: false, marks: 0 };
        theirs.reset();
        theirs
    }

    /// Empties everything: what the next case begins with.
    pub(crate) fn reset(&mut self) {
        self.clients = (0..3).map(|_| self.server.client()).collect();
        self.ids = self.clients.iter_mut().filter_map(|client| client.cmd("CLIENT ID").integer()).collect();
        self.blocked.clear();
        self.queues = false;
        for line in ["FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 1"] {
            assert!(!self.clients[0].cmd(line).is_error(), "{line}");
        }
        table::SETTINGS.iter().for_each(|(name, value)| self.set(name, value));
        self.effects();
    }

    /// The digest of all keys.
    pub(crate) fn digest(&mut self) -> String {
        self.clients[0].cmd("DEBUG DIGEST").text()
    }

    /// Does a step; the effects that it left.
    pub(crate) fn step(&mut self, act: &Act) -> Vec<Effect> {
        match act {
            Act::Wait(ms) => std::thread::sleep(Duration::from_millis(*ms)),
            Act::Background => std::thread::sleep(BACKGROUND),
            Act::Setting { name, value } => self.set(name, value),
            Act::Run { who: 1, words } => self.run(words),
            Act::Run { who, words } => self.block(*who, words),
        }
        if self.queues { Vec::new() } else { self.effects() }
    }

    /// Changes a setting.
    fn set(&mut self, name: &str, value: &str) {
        assert!(!self.clients[0].cmd(&format!("CONFIG SET {name} {value}")).is_error(), "{name}");
    }

    /// Runs a command of the first connection.
    pub(crate) fn run(&mut self, words: &Words) {
        let reply = self.clients[0].call(words).expect("a reply");
        self.queues = match words[0].to_ascii_lowercase().as_slice() {
            b"multi" => !reply.is_error(),
            b"exec" | b"discard" => false,
            _ => self.queues,
        };
    }

    /// Sends a command that waits for a key, and waits until it does.
    fn block(&mut self, who: usize, words: &Words) {
        let client = &mut self.clients[who - 1];
        if self.blocked.contains(&who) {
            client.read().expect("the reply of the command before");
        }
        client.queue(words);
        client.flush().expect("sent");
        self.blocked.push(who);
        let id = format!("CLIENT LIST ID {}", self.ids[who - 1]);
        while !self.clients[0].cmd(&id).text().contains(" flags=b ") {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The effects in the stream up to now.
    fn effects(&mut self) -> Vec<Effect> {
        self.marks += 1;
        let mark = self.marks.to_string();
        self.clients[0].call(&[b"PUBLISH", MARK, mark.as_bytes()]).expect("published");
        let mut effects = Vec::new();
        loop {
            let words = self.replica.next(LIMIT).expect("a stream").expect("the message that ends the step");
            if words[0] == b"PUBLISH" && words[1] == MARK {
                assert_eq!(words[2], mark.as_bytes(), "the messages come in their order");
                return effects;
            }
            effects.extend(self.databases.effect(words));
        }
    }
}
