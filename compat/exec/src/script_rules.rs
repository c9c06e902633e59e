//! The flags that a script declares in its first line, or a function of a library when it is registered. What each of them allows:
//! `checks`.

/// The flags of a script's own that its commands are bound by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptRules {
    /// It changes nothing.
    pub no_writes: bool,
    /// It may run while memory is at its limit.
    pub allow_oom: bool,
    /// It may run on a replica whose data may be old, where such data is not to be shown.
    pub allow_stale: bool,
}

impl ScriptRules {
    /// True for a script that does not begin while memory is at its limit.
    pub(crate) fn may_need_memory(self) -> bool {
        !self.no_writes && !self.allow_oom
    }
}
