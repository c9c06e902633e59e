//! Parts of values: how much memory there is for them, and the texts of replies.

use crate::errors::{NO_CODE, without_last_line_ends};
use crate::fault::Fault;
use crate::shared::Settings;
use mlua::{Lua, Result};

/// Bytes of Lua that a value in a table costs beside its text, roughly.
pub(crate) const VALUE_BYTES: usize = 40;

/// Keeps what Rust makes for a script within the memory of its state: Lua's own limit is off meanwhile, since each
/// allocation would be a protected call otherwise. Where scripts have finalizers (`lua-enable-deprecated-api`) the calls stay
/// protected: each allocation may collect, and a finalizer may raise.
pub(crate) struct Unlimited<'a> {
    lua: &'a Lua,
    limit_bytes: usize,
}

impl<'a> Unlimited<'a> {
    /// Turns the limit off until this is dropped.
    pub(crate) fn new(lua: &'a Lua, settings: &Settings) -> Unlimited<'a> {
        let limit_bytes = settings.memory_bytes_max;
        if !settings.deprecated_api {
            // A state of ours always has an allocator that limits.
            let _ = lua.set_memory_limit(0);
        }
        Unlimited { lua, limit_bytes }
    }

    /// Refuses to make a value of this many bytes if the state has no room for it.
    pub(crate) fn admit(&self, bytes: usize) -> Result<()> {
        let wanted = self.lua.used_memory().saturating_add(bytes).saturating_add(VALUE_BYTES);
        if self.limit_bytes > 0 && wanted > self.limit_bytes { Err(Fault::no_memory()) } else { Ok(()) }
    }
}

impl Drop for Unlimited<'_> {
    fn drop(&mut self) {
        // It cannot fail where it could be turned off.
        let _ = self.lua.set_memory_limit(self.limit_bytes);
    }
}

/// An error's code, with the space behind it, and its message; an error without a space has no code of its own. The message has
/// no line ends around it.
pub(crate) fn error_parts(text: &[u8]) -> (&[u8], &[u8]) {
    let space = text.iter().position(|byte| *byte == b' ');
    let (code, message) = space.map_or((NO_CODE, text), |end| text.split_at(end + 1));
    (code, without_line_ends(message))
}

fn without_line_ends(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b'\r' | b'\n');
    let begin = text.iter().position(is_text).unwrap_or(text.len());
    without_last_line_ends(&text[begin..])
}

/// The number of a line of a reply.
pub(crate) fn integer(text: &[u8]) -> i64 {
    varve_base::number::parse_i64(text).unwrap_or(0)
}

/// The number of a line of a reply.
pub(crate) fn double(text: &[u8]) -> f64 {
    varve_base::number::parse_f64_clamped(text).unwrap_or(f64::NAN)
}
