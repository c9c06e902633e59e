//! Client-side caching as a session knows it: what CLIENT TRACKING asked for, and which reads are to be remembered.
//!
//! ```text
//!   mode      remembered are the keys of
//!   default   every reading command
//!   OPTIN     those right behind CLIENT CACHING YES
//!   OPTOUT    those not right behind CLIENT CACHING NO
//!   BCAST     none: the client hears of every change under its prefixes
//! ```
//!
//! A script that has a reading command run has read the keys that it declares, and no others: redis-server's rule, on which a
//! client relies that knows what it has sent.
//!
//! Not here: the table of what was read, and the messages (the server).

use varve_catalog::{Flags, Row};
use varve_protocol::Args;
use varve_store::Store;

/// See the module's picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command")]
pub struct Tracking {
    /// CLIENT TRACKING ON.
    pub on: bool,
    /// Every change under the connection's prefixes is told.
    pub bcast: bool,
    /// Reads are remembered when asked.
    pub opt_in: bool,
    /// Reads are remembered unless asked.
    pub opt_out: bool,
    /// Its own changes are not told.
    pub no_loop: bool,
    /// CLIENT CACHING was said for the next command.
    pub caching: bool,
    /// The connection that messages go to in its place is gone.
    pub broken: bool,
    /// The connection that messages go to, 0 for itself.
    pub redirect: u64,
}

impl Tracking {
    /// True if the keys of a reading command are to be remembered now.
    #[inline]
    pub fn remembers(&self) -> bool {
        self.on && !self.bcast && (!self.opt_in || self.caching) && !(self.opt_out && self.caching)
    }
}

/// Remembers the keys that a command of a tracking connection, `client`, has read; their shards are still held.
#[inline(never)]
pub(crate) fn remember(d: &Row, args: Args<'_>, client: u64, store: &Store) {
    if d.flags.has(Flags::READONLY) {
        remember_keys(d, args, client, store);
    }
}

/// Remembers the keys of a request, whose shards are held or the gate alone.
pub(crate) fn remember_keys(d: &Row, args: Args<'_>, client: u64, store: &Store) {
    let Some(observer) = store.observer() else { return };
    // Arguments that name no keys have been refused.
    let _ = d.for_each_key(args, |at| observer.read(client, args.get(at)));
}
