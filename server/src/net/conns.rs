//! The connections of one worker, and the queue of those that have more to do.
//!
//! ```text
//!   add -> number in the worker --> enqueue (once) --> take_ready: each is visited --> enqueue again if there is more
//! ```
//! A number is used again after its connection has ended, so a connection is noted as [`ConnRef`]: the client's id shows
//! whether the number has changed hands.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Index, IndexMut};

use slab::Slab;

use super::conn::{Conn, WaitReasons};
use crate::features::pubsub::state::{ConnId, ConnRef};

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Conns {
    all: Slab<Box<Conn>>,
    /// Numbers by the client's id, the order of coming: a walk over all goes on at an id, whoever came or left meanwhile.
    by_client: BTreeMap<u64, ConnId>,
    ready: VecDeque<ConnRef>,
}

impl Conns {
    /// The number that the next connection gets.
    pub(crate) fn next_id(&self) -> ConnId {
        ConnId(self.all.vacant_key())
    }

    /// Adds a connection, which was made for the next number.
    pub(crate) fn add(&mut self, conn: Conn) {
        let ConnRef { conn: id, client } = conn.who();
        let key = self.all.insert(Box::new(conn));
        assert_eq!(id, ConnId(key), "a connection is made for the next number");
        let before = self.by_client.insert(client, id);
        assert!(before.is_none(), "client {client} has one connection");
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, id: ConnId) -> Box<Conn> {
        let conn = self.all.remove(id.0);
        self.by_client.remove(&conn.who().client);
        conn
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.by_client.clear();
    }

    /// The connection that came first among those whose client's id is at least `client`.
    pub(crate) fn first_from(&self, client: u64) -> Option<ConnRef> {
        self.by_client.range(client..).next().map(|(&client, &conn)| ConnRef { conn, client })
    }

    /// Number of connections.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Numbers are below this.
    pub(crate) fn capacity(&self) -> usize {
        self.all.capacity()
    }

    /// The connection of this number, if there is one.
    pub(crate) fn at(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.all.get_mut(id.0).map(|conn| &mut **conn)
    }

    /// True if the connection is still there.
    pub(crate) fn is_there(&self, who: ConnRef) -> bool {
        self.all.get(who.conn.0).is_some_and(|conn| conn.session().id() == who.client)
    }

    /// The connection, if it is still there.
    pub(crate) fn get_mut(&mut self, who: ConnRef) -> Option<&mut Conn> {
        self.at(who.conn).filter(|conn| conn.session().id() == who.client)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Conn> {
        self.all.iter().map(|(_, conn)| &**conn)
    }

    /// All of them, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Conn> {
        self.all.iter_mut().map(|(_, conn)| &mut **conn)
    }

    /// Puts a connection behind those that are ready, once.
    pub(crate) fn enqueue(&mut self, id: ConnId) {
        let conn = &mut self.all[id.0];
        if conn.enqueue() {
            self.ready.push_back(conn.who());
        }
    }

    /// Takes a reason to wait away, and puts the connection behind those that are ready. Nothing happens if the connection
    /// is gone.
    pub(crate) fn lift(&mut self, who: ConnRef, reason: WaitReasons) {
        if let Some(conn) = self.get_mut(who) {
            conn.lift(reason);
            self.enqueue(who.conn);
        }
    }

    /// True if some connection is ready.
    pub(crate) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Moves the queue to `into`.
    pub(crate) fn take_ready(&mut self, into: &mut Vec<ConnRef>) {
        for who in self.ready.drain(..) {
            into.push(who);
            if let Some(conn) = self.all.get_mut(who.conn.0).filter(|conn| conn.session().id() == who.client) {
                conn.dequeue();
            }
        }
    }
}

impl Index<ConnId> for Conns {
    type Output = Conn;

    fn index(&self, id: ConnId) -> &Conn {
        &self.all[id.0]
    }
}

impl IndexMut<ConnId> for Conns {
    fn index_mut(&mut self, id: ConnId) -> &mut Conn {
        &mut self.all[id.0]
    }
}
