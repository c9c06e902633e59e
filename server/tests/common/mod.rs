//! Two servers, ours and redis-server, that are asked the same.

#![allow(dead_code, reason = "no test needs all of it")]

use std::rc::Rc;

use varve_testkit::{Client, Launch, RespValue, Server};

/// Asks both.
pub(crate) struct Both {
    pub(crate) ours: Client,
    pub(crate) peer: Client,
    /// Ours first.
    servers: Rc<[Server; 2]>,
}

impl Both {
    /// A further connection to each, in RESP2, ours first.
    pub(crate) fn others(&self) -> [Client; 2] {
        self.servers.each_ref().map(Server::client)
    }

    /// The replies of both, ours first.
    pub(crate) fn ask(&mut self, args: &[&str]) -> [RespValue; 2] {
        [self.ours.call(args).expect("a reply"), self.peer.call(args).expect("the peer's reply")]
    }

    /// Both reply the same to the words of `line`.
    pub(crate) fn same(&mut self, line: &str) {
        let args: Vec<&str> = line.split(' ').collect();
        let [ours, peer] = self.ask(&args);
        assert_eq!(ours, peer, "{line}");
    }
}

/// Runs the test in RESP2 and in RESP3, with the same two servers.
pub(crate) fn with_peer(test: impl Fn(&mut Both)) {
    let peer = Launch::peer().start().expect("redis-server, of the package of this name");
    let servers = Rc::new([ours(), peer]);
    for resp in [2, 3] {
        let [ours, peer] = servers.each_ref().map(Server::client);
        let mut both = Both { ours, peer, servers: Rc::clone(&servers) };
        for client in [&mut both.ours, &mut both.peer] {
            assert!(!client.cmd(&format!("HELLO {resp}")).is_error());
        }
        test(&mut both);
    }
}

/// The server that cargo has built with this test.
pub(crate) fn ours() -> Server {
    Launch::binary(env!("CARGO_BIN_EXE_varve-server")).start().expect("varve-server starts")
}

/// The elements of an array or a set.
pub(crate) fn elements(value: RespValue) -> Vec<RespValue> {
    match value {
        RespValue::Array(elements) | RespValue::Set(elements) => elements,
        other => panic!("no array: {other:?}"),
    }
}
