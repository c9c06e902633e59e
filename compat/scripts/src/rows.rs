//! The parts that the commands about scripts and functions share: of their rows, and the reply of HELP.

use varve_catalog::{Flags, KeyFlags, KeySpec};
use varve_exec::CmdResult;
use varve_protocol::Reply;

/// The flags of commands that run a script.
pub(crate) const RUNNING: &[Flags] = &[
    Flags::NOSCRIPT,
    Flags::STALE,
    Flags::SKIP_MONITOR,
    Flags::NO_MANDATORY_KEYS,
    // Keys that the script makes up are touched as well.
    Flags::TOUCHES_ARBITRARY_KEYS,
];
/// The keys of a script that may change them.
pub(crate) const WRITTEN: KeySpec = KeySpec::counted(2, 1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE));
/// The keys of a script that changes none.
pub(crate) const READ: KeySpec = KeySpec::counted(2, 1, KeyFlags::RO.and(KeyFlags::ACCESS));
/// The note on the keys of a script that may change them.
pub(crate) const WRITTEN_NOTES: &str = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
/// The note on the keys of a script that changes none.
pub(crate) const READ_NOTES: &str = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";
/// The complexity.
pub(crate) const COST: &str = "That of the script";

/// Replies the lines of a HELP.
pub(crate) fn reply_help(lines: &[&str], out: &mut Reply) -> CmdResult {
    out.array(lines.len());
    lines.iter().for_each(|line| out.simple(line));
    Ok(())
}
