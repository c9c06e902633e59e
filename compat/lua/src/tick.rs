//! A tick: the host is asked whether a script goes on, which may rest meanwhile.

use crate::fault::Fault;
use crate::host::Control;
use crate::shared::Shared;
use mlua::{HookTriggers, Lua, Result};

/// Asks the host whether the script goes on.
pub(crate) fn tick(lua: &Lua, shared: &Shared) -> Result<()> {
    if shared.stopped.get().is_none()
        && let Some(Control::Stop(text)) = shared.host.with(|host| host.tick())
    {
        shared.stopped.set(Some(text));
        stop(lua, text)?;
    }
    shared.stopped.get().map_or(Ok(()), |text| Err(stop_error(text)))
}

/// Raises the error at each instruction of this thread of Lua's, and of those that it makes.
fn stop(lua: &Lua, text: &'static str) -> Result<()> {
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| Err(stop_error(text)))
}

fn stop_error(text: &str) -> mlua::Error {
    Fault::Fatal(text.into()).into()
}
