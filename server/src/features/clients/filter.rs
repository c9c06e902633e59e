//! Which class a connection is of, and whether a filter admits it.

use super::state::{ClientClass, Filter};
use crate::net::conn::Conn;

impl ClientClass {
    /// The class of a connection.
    pub(crate) fn of(conn: &Conn) -> ClientClass {
        match conn.session().is_subscribed() {
            _ if conn.following().is_some() => ClientClass::Replica,
            true => ClientClass::PubSub,
            false => ClientClass::Normal,
        }
    }
}

impl ClientClass {
    /// The class whose output limit a connection has. A monitor has that of listeners: what it does not read piles up at
    /// the rate of all clients' commands, and a normal client's output has no limit by default. redis-server counts
    /// monitors as normal.
    pub(crate) fn of_output(conn: &Conn) -> ClientClass {
        if conn.session().is_monitor() { ClientClass::PubSub } else { ClientClass::of(conn) }
    }
}

impl Filter {
    /// True if the link to the primary is meant, whose address is `peer`: by its class, by its address, or by both.
    pub(crate) fn is_of_primary(&self, peer: Option<&str>) -> bool {
        let by_class = Filter { class: Some(ClientClass::Master), ..Filter::default() };
        let addr = peer.map(|peer| peer.as_bytes().to_vec());
        let by_addr = |class| addr.is_some() && *self == Filter { class, addr: addr.clone(), ..Filter::default() };
        *self == by_class || by_addr(None) || by_addr(Some(ClientClass::Master))
    }

    /// True if the connection passes all that is set.
    pub(crate) fn admits(&self, conn: &Conn) -> bool {
        let is = |wanted: &Option<Vec<u8>>, text: &dyn Fn() -> String| {
            wanted.as_ref().is_none_or(|wanted| wanted.as_slice() == text().as_bytes())
        };
        self.ids.as_ref().is_none_or(|ids| ids.binary_search(&conn.session().id()).is_ok())
            && self.class.is_none_or(|class| ClientClass::of(conn) == class)
            && self.user.as_ref().is_none_or(|user| user.as_slice() == conn.session().user().name())
            && is(&self.addr, &|| conn.socket().ends().peer())
            && is(&self.local_addr, &|| conn.socket().ends().local())
    }
}
