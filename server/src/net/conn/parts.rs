//! A command of the server itself that goes on in parts: its request names more than some hundred things, in one go its worker would
//! serve nobody else for milliseconds.

use varve_exec::Command;
use varve_protocol::{Args, OwnedArgs};

/// The rest of such a command.
#[derive(Debug)]
pub(crate) struct Parts {
    command: &'static Command,
    args: OwnedArgs,
    /// Number of the first argument that was not dealt with.
    next: usize,
    /// The users of this epoch let its client do it.
    epoch: u64,
}

impl Parts {
    /// The rest of `command` from argument `next` on, to which its client has the right in this epoch of users; None if the system refuses memory for a copy of the request.
    pub(crate) fn new(command: &'static Command, args: Args<'_>, next: usize, epoch: u64) -> Option<Parts> {
        Some(Parts { command, args: OwnedArgs::try_copy(args)?, next, epoch })
    }

    /// The command, its arguments, and the number of the first one that was not dealt with.
    pub(crate) fn rest(&self) -> (&'static Command, Args<'_>, usize) {
        (self.command, self.args.args(), self.next)
    }

    /// The epoch of users in which its client was last known to have the right to it.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Another part is done, in this epoch of users: what follows begins with argument `next`.
    pub(crate) fn go_on_from(&mut self, next: usize, epoch: u64) {
        self.epoch = epoch;
        assert!(next >= self.next && next <= self.args.args().len(), "a part goes forward");
        self.next = next;
    }

    /// Bytes that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Parts>() + self.args.heap_bytes()
    }
}
