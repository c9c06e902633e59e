//! A command of the server itself that goes on in parts: its request names more than some hundred things, in one go its worker would
//! serve nobody else for milliseconds.

use std::sync::Arc;

use varve_acl::User;
use varve_exec::Command;
use varve_protocol::{Args, OwnedArgs};

/// The rest of such a command.
#[derive(Debug)]
pub(crate) struct Parts {
    command: &'static Command,
    args: OwnedArgs,
    /// Number of the first argument that was not dealt with.
    next: usize,
    /// The client's user, with rights that let it do this. Users do not change: another one has taken its place when they are
    /// other rights, and only then all names are looked at again.
    user: Arc<User>,
}

impl Parts {
    /// The rest of `command` from argument `next` on, to which this user has the right; None if the system refuses memory for a
    /// copy of the request.
    pub(crate) fn new(command: &'static Command, args: Args<'_>, next: usize, user: &Arc<User>) -> Option<Parts> {
        Some(Parts { command, args: OwnedArgs::try_copy(args)?, next, user: Arc::clone(user) })
    }

    /// The command, its arguments, and the number of the first one that was not dealt with.
    pub(crate) fn rest(&self) -> (&'static Command, Args<'_>, usize) {
        (self.command, self.args.args(), self.next)
    }

    /// Whether this user, as its client is now, has the right to it.
    pub(crate) fn allows(&mut self, user: &Arc<User>) -> bool {
        if !Arc::ptr_eq(&self.user, user) {
            if user.check(self.command, self.args.args()).is_err() {
                return false;
            }
            self.user = Arc::clone(user);
        }
        true
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
