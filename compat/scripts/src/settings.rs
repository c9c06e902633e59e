//! The settings of scripts, as a server has them, and as a state of the language takes them.

use varve_lua::Settings;

/// The settings of a server that its scripts are bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptSettings {
    /// Bytes that a state of the language may use: each worker's, and that of functions. A script that wants more ends with an error.
    pub state_bytes_max: u64,
    /// Scripts have `getfenv`, `setfenv` and `newproxy`.
    pub deprecated_api: bool,
}

impl Default for ScriptSettings {
    fn default() -> ScriptSettings {
        let Settings { memory_bytes_max, deprecated_api, .. } = Settings::default();
        ScriptSettings { state_bytes_max: memory_bytes_max as u64, deprecated_api }
    }
}

impl ScriptSettings {
    /// Those of a state.
    pub(crate) fn of_state(self, for_functions: bool) -> Settings {
        let memory_bytes_max = usize::try_from(self.state_bytes_max).unwrap_or(usize::MAX);
        Settings { memory_bytes_max, deprecated_api: self.deprecated_api, for_functions, ..Settings::default() }
    }
}
