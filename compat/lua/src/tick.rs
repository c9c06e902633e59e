//! A tick: the host is asked whether a script goes on, which may rest meanwhile.
//!
//! ```text
//!   instructions of Lua   ---- `instructions_per_tick` ----.
//!   functions of ours    --> Pace: every 20 000 units ----+--> Host::tick
//!   the script's reply   --> Meter: every 20 000 units ---'
//!
//!   a unit is a value, or some bytes of one
//! ```

use crate::fault::Fault;
use crate::host::Control;
use crate::shared::Shared;
use crate::values::Unlimited;
use mlua::{HookTriggers, Lua, Result};
use std::cell::Cell;

/// Units of work between two ticks: some 100 us.
const UNITS_PER_TICK: usize = 20_000;
/// Units of a value that becomes one of Lua's, or is read from Lua.
pub(crate) const VALUE_UNITS: usize = 16;
/// Bytes that are read or written one by one in a unit.
pub(crate) const UNIT_BYTES: usize = 4;
/// Bytes of a text that are read or written between two looks at the pace.
pub(crate) const PIECE_BYTES: usize = 16 << 10;

/// Counts work; a unit is some nanoseconds.
#[derive(Default)]
pub(crate) struct Meter(Cell<usize>);

impl Meter {
    /// Counts units; true if a tick is due.
    pub(crate) fn is_due(&self, units: usize) -> bool {
        let spent = self.0.get().saturating_add(units);
        let due = spent >= UNITS_PER_TICK;
        self.0.set(if due { 0 } else { spent });
        due
    }
}

/// The work of one of our functions, whose loops no instruction of Lua interrupts: it asks the host at times.
pub(crate) struct Pace<'a> {
    lua: &'a Lua,
    shared: &'a Shared,
    meter: Meter,
}

impl<'a> Pace<'a> {
    /// Work that begins.
    pub(crate) fn new(lua: &'a Lua, shared: &'a Shared) -> Pace<'a> {
        Pace { lua, shared, meter: Meter::default() }
    }

    /// Room for what this work makes.
    pub(crate) fn room(&self) -> Unlimited<'a> {
        Unlimited::new(self.lua, &self.shared.settings)
    }

    /// Counts units of work.
    ///
    /// # Errors
    /// The host stops the script.
    #[inline]
    pub(crate) fn spend(&self, units: usize) -> Result<()> {
        if self.meter.is_due(units) { tick(self.lua, self.shared) } else { Ok(()) }
    }

    /// Counts a value.
    ///
    /// # Errors
    /// The host stops the script.
    #[inline]
    pub(crate) fn value(&self) -> Result<()> {
        self.spend(VALUE_UNITS)
    }

    /// Counts bytes that are read or written one by one.
    ///
    /// # Errors
    /// The host stops the script.
    #[inline]
    pub(crate) fn bytes(&self, count: usize) -> Result<()> {
        self.spend(count / UNIT_BYTES)
    }
}

/// Asks the host whether the script goes on.
pub(crate) fn tick(lua: &Lua, shared: &Shared) -> Result<()> {
    if shared.stopped.get().is_none()
        && let Some(Control::Stop(text)) = shared.host.with(|host| host.tick(lua.used_memory()))
    {
        shared.stopped.set(Some(text));
        stop(lua, text)?;
    }
    shared.stopped.get().map_or(Ok(()), |text| Err(stop_error(text)))
}

/// Asks the host before work on this number of bytes that it cannot be asked in, if they are many.
///
/// # Errors
/// The host stops the script.
pub(crate) fn tick_before(lua: &Lua, shared: &Shared, bytes: usize) -> Result<()> {
    if bytes >= PIECE_BYTES { tick(lua, shared) } else { Ok(()) }
}

/// Raises the error at each instruction of this thread of Lua's, and of those that it makes.
fn stop(lua: &Lua, text: &'static str) -> Result<()> {
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| Err(stop_error(text)))
}

pub(crate) fn stop_error(text: &str) -> mlua::Error {
    Fault::Fatal(text.into()).into()
}
