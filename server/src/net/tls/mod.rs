//! TLS: what turns a connection's bytes into records and back, and what of the configuration it works by.
//!
//! ```text
//!   tls-* settings, files --> settings.rs --> Contexts: the context of the moment, one Arc, swapped by CONFIG SET
//!                                                 |  a connection keeps the one that it began with
//!   accepted socket --------------------------> Tls (session.rs): handshake, then records in both directions
//!   link to another server -------------------> Outgoing (outgoing.rs): the same from the other side
//!   a client's certificate -------------------> names (names.rs): the users that it may be
//! ```
//! Records are made and opened by rustls, whose interface without buffers lets a worker have one buffer for all of its
//! connections. Not here: which thread does a handshake and how long one may take (worker/handshakes.rs).

mod ciphers;
mod files;
mod names;
mod outgoing;
mod session;
mod settings;
mod tickets;

pub(crate) use outgoing::Outgoing;
pub(crate) use session::{Got, Tls};
pub(crate) use settings::{Context, Contexts, context};
