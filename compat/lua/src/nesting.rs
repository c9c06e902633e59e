//! Values that lie deep in each other: as deep as redis-server's stack of Lua goes, on a stack of their own.

use corosensei::on_stack;
use corosensei::stack::DefaultStack;
use mlua::Error;

use crate::fault::Fault;

/// Values for which the stack of one C function of redis-server's has room (`LUAI_MAXCSTACK` of Lua 5.1).
const SLOTS_MAX: usize = 8000;
/// The level that begins the second stack. Values that lie less deep, nearly all, are read and written on the script's.
const SECOND_STACK_LEVEL: usize = 100;
/// Memory for the second stack, of which it has the pages that it touches: thousands of levels, with the large frames of a build
/// without optimisation.
const SECOND_STACK_BYTES: usize = 64 << 20;

/// True if redis-server's stack has room for `more` values above those `used`.
pub(crate) fn has_room(used: usize, more: usize) -> bool {
    used + more <= SLOTS_MAX
}

/// Reads or writes what a table at this level has, the outermost one at level 1.
///
/// # Errors
/// Those of `work`; and there may be no memory for a second stack.
pub(crate) fn at_level<R, E: From<Error>>(level: usize, work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    if level != SECOND_STACK_LEVEL {
        return work();
    }
    let stack = DefaultStack::new(SECOND_STACK_BYTES).map_err(|_| E::from(Fault::no_memory()))?;
    on_stack(stack, work)
}
