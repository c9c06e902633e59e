//! Sockets and connections: listening, reading, writing, and why a connection waits. Not here: what requests do.

pub(crate) mod conn;
pub(crate) mod conns;
pub(crate) mod links;
pub(crate) mod listen;
pub(crate) mod sockets;
pub(crate) mod stream;
pub(crate) mod tls;
