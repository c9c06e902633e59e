//! The texts of errors.

use varve_exec::CommandError;
use varve_lua::ScriptError;

/// A text that is longer than [`crate::keeper::TEXT_MAX`].
pub(crate) const TEXT_LENGTH: CommandError =
    CommandError::new(&"ERR The text of a script or library is longer than 4194304 bytes");
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

/// FCALL names a function that there is not.
pub(crate) const NO_FUNCTION: CommandError = CommandError::new(&"ERR Function not found");
/// FCALL's number of keys is none.
pub(crate) const BAD_KEYS: CommandError = CommandError::new(&"ERR Bad number of keys provided");
/// FUNCTION DELETE names a library that there is not.
pub(crate) const NO_LIBRARY: CommandError = CommandError::new(&"ERR Library not found");
/// A library whose text does not begin with `#!`.
pub(crate) const NO_METADATA: CommandError = CommandError::new(&"ERR Missing library metadata");
/// The first line of a library does not end, or its quotes do not.
pub(crate) const METADATA: CommandError = CommandError::new(&"ERR Invalid library metadata");
/// The first line of a library has two names.
pub(crate) const LIBRARY_NAMED_TWICE: CommandError =
    CommandError::new(&"ERR Invalid metadata value, name argument was given multiple times");
/// The first line of a library has no name.
pub(crate) const LIBRARY_UNNAMED: CommandError = CommandError::new(&"ERR Library name was not given");
/// The name of a library has other characters.
pub(crate) const LIBRARY_NAME: CommandError = CommandError::new(
    &"ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
);
/// FUNCTION FLUSH with another word.
pub(crate) const FUNCTION_FLUSH_MODE: CommandError =
    CommandError::new(&"ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
/// FUNCTION LIST LIBRARYNAME without a pattern.
pub(crate) const NO_PATTERN: CommandError = CommandError::new(&"ERR library name argument was not given");
/// FUNCTION RESTORE with another policy.
pub(crate) const RESTORE_POLICY: CommandError =
    CommandError::new(&"ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.");
/// FUNCTION RESTORE of a payload that is damaged.
pub(crate) const PAYLOAD: CommandError = CommandError::new(&"ERR DUMP payload version or checksum are wrong");
/// FUNCTION RESTORE of a key's payload.
pub(crate) const PAYLOAD_TYPE: CommandError = CommandError::new(&"ERR given type is not a function");
/// FUNCTION RESTORE of a payload that a release candidate of Redis 7.0 made.
pub(crate) const PAYLOAD_FIRST_FORM: CommandError = CommandError::new(&"ERR Pre-GA function format not supported");
/// FUNCTION RESTORE of a payload whose text cannot be read.
pub(crate) const PAYLOAD_TEXT: CommandError = CommandError::new(&"ERR Failed loading library code");

/// The code of a library runs for too long.
pub(crate) const LOAD_TIMEOUT: &str = "ERR FUNCTION LOAD timeout";
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
    let ScriptError { text, counted } = error;
    let error = CommandError::owned(text);
    if counted { error.counted() } else { error }
}

/// The first line of a library names another language.
pub(crate) fn library_engine(name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Engine '", name, b"' not found"].concat())
}

/// The first line of a library has a word that is no name.
pub(crate) fn metadata_word(word: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Invalid metadata value given: ", word].concat())
}

/// FUNCTION LOAD, or a payload, has a library twice.
pub(crate) fn library_exists(name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Library '", name, b"' already exists"].concat())
}

/// FUNCTION RESTORE has a library that is there.
pub(crate) fn restored_exists(name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Library ", name, b" already exists"].concat())
}

/// Another library has a function of this name.
pub(crate) fn function_exists(name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Function ", name, b" already exists"].concat())
}

/// FUNCTION LOAD with another word before the code.
pub(crate) fn load_option(word: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Unknown option given: ", word].concat())
}

/// FUNCTION LIST with another word.
pub(crate) fn list_argument(word: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Unknown argument ", word].concat())
}

/// FUNCTION FLUSH or RESTORE with too many words.
pub(crate) fn function_words(subcommand: &[u8]) -> CommandError {
    let head = b"ERR unknown subcommand or wrong number of arguments for '";
    CommandError::owned([head, subcommand, b"'. Try FUNCTION HELP."].concat())
}
