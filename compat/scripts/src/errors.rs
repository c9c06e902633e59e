//! The texts of errors.

use varve_exec::CommandError;
use varve_lua::ScriptError;

/// EVALSHA names a script that is not known.
pub(crate) const NO_SCRIPT: CommandError = CommandError::new(&"NOSCRIPT No matching script. Please use EVAL.");
/// There are fewer arguments than keys.
pub(crate) const TOO_MANY_KEYS: CommandError =
    CommandError::new(&"ERR Number of keys can't be greater than number of args");
/// The number of keys is below zero.
pub(crate) const NEGATIVE_KEYS: CommandError = CommandError::new(&"ERR Number of keys can't be negative");
/// SCRIPT FLUSH with another word, or with several.
pub(crate) const FLUSH_MODE: CommandError = CommandError::new(&"ERR SCRIPT FLUSH only support SYNC|ASYNC option");
/// SCRIPT KILL while no script runs.
pub(crate) const NOT_BUSY: CommandError = CommandError::new(&"NOTBUSY No scripts in execution right now.");
/// SCRIPT KILL of a script that has changed something.
pub(crate) const UNKILLABLE: CommandError = CommandError::new(
    &"UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script \
      termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
);
/// SCRIPT DEBUG with another word.
pub(crate) const DEBUG_MODE: CommandError = CommandError::new(&"ERR Use SCRIPT DEBUG YES/SYNC/NO");
/// SCRIPT DEBUG of something.
pub(crate) const NO_DEBUGGER: CommandError = CommandError::new(&"ERR This server has no debugger of scripts");
/// A shebang without an engine, or with a word that is no option.
pub(crate) const SHEBANG: CommandError = CommandError::new(&"ERR Invalid script shebang");

/// A script that begins again: no client gets this.
pub(crate) const BEGINS_AGAIN: &str = "ERR The script begins again";
/// A script that runs while the server ends.
pub(crate) const SERVER_ENDS: &str = "ERR The server ends";
/// SCRIPT KILL has ended it.
pub(crate) const SCRIPT_KILLED: &str = "ERR Script killed by user with SCRIPT KILL.";
/// FUNCTION KILL has ended it.
pub(crate) const FUNCTION_KILLED: &str = "ERR Script killed by user with FUNCTION KILL.";

/// The first line of a script names another language.
pub(crate) fn engine(name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Unexpected engine in script shebang: #!", name].concat())
}

/// The first line of a script has an option that there is not.
pub(crate) fn option(word: &[u8], value: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Unknown lua shebang option: ", word, b"=", value].concat())
}

/// The first line of a script has a flag that there is not.
pub(crate) fn flag(name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Unexpected flag in script shebang: ", name].concat())
}

/// The error of a script.
pub(crate) fn of_script(error: ScriptError) -> CommandError {
    CommandError::owned(error.text)
}
