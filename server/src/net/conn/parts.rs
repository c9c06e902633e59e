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
}

impl Parts {
    /// The rest of `command` from argument `next` on; None if the system refuses memory for a copy of the request.
    pub(crate) fn new(command: &'static Command, args: Args<'_>, next: usize) -> Option<Parts> {
        Some(Parts { command, args: OwnedArgs::try_copy(args)?, next })
    }

    /// The command, its arguments, and the number of the first one that was not dealt with.
    pub(crate) fn rest(&self) -> (&'static Command, Args<'_>, usize) {
        (self.command, self.args.args(), self.next)
    }

    /// Another part is done: what follows begins with argument `next`.
    pub(crate) fn go_on_from(&mut self, next: usize) {
        assert!(next >= self.next && next <= self.args.args().len(), "a part goes forward");
        self.next = next;
    }

    /// Bytes that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Parts>() + self.args.heap_bytes()
    }
}
