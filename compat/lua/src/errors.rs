//! The error with which a script ends, and the texts.

/// The error reply of a script that could not be compiled, loaded or run to its end, or that returned an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The reply without its `-`, code included. Any bytes but line ends.
    pub text: Vec<u8>,
    /// True if the command that failed inside the script was counted as an error already.
    pub counted: bool,
}

impl ScriptError {
    /// An error that nothing has counted yet. Line ends become spaces, since the text ends up in the protocol.
    pub(crate) fn new(text: impl Into<Vec<u8>>) -> ScriptError {
        let mut text = text.into();
        text.truncate(without_last_line_ends(&text).len());
        for byte in &mut text {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        ScriptError { text, counted: false }
    }
}

/// A text without the line ends behind it.
pub(crate) fn without_last_line_ends(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    &text[..end]
}

/// An error text with the code of errors that have none of their own.
pub(crate) fn with_code(text: &[u8]) -> Vec<u8> {
    [NO_CODE, text].concat()
}

/// The code of errors that have none of their own.
pub(crate) const NO_CODE: &[u8] = b"ERR ";

pub(crate) const UNKNOWN: &[u8] = b"ERR unknown error";
pub(crate) const COMPILING: &[u8] = b"ERR Error compiling script (new function): ";
pub(crate) const SHEBANG_WORD: &[u8] = b"ERR Unknown lua shebang option: ";
pub(crate) const NO_ARGUMENTS: &str = "ERR Please specify at least one argument for this redis lib call";
pub(crate) const BAD_ARGUMENT: &str = "ERR Lua redis lib command arguments must be strings or integers";
pub(crate) const OUTSIDE_SCRIPT: &str = "ERR redis.call/pcall can only be called inside a script invocation";
pub(crate) const NO_MEMORY: &str = "ERR not enough memory";
pub(crate) const SINGLE_FIELD: &[u8] = b"ERR wrong number or type of arguments";
pub(crate) const SHA_ARGUMENTS: &str = "ERR wrong number of arguments";
pub(crate) const LOG_ARGUMENTS: &str = "ERR redis.log() requires two arguments or more.";
pub(crate) const LOG_LEVEL_TYPE: &str = "ERR First argument must be a number (log level).";
pub(crate) const LOG_LEVEL: &str = "ERR Invalid debug level.";
pub(crate) const RESP_ARGUMENTS: &str = "ERR redis.setresp() requires one argument.";
pub(crate) const RESP_VERSION: &str = "ERR RESP version must be 2 or 3.";
pub(crate) const REPL_ARGUMENTS: &str = "ERR redis.set_repl() requires two arguments.";
pub(crate) const REPL_FLAGS: &str = "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
pub(crate) const ACL_COMMAND: &str = "ERR Invalid command passed to redis.acl_check_cmd()";
pub(crate) const TOO_DEEP: &[u8] = b"ERR reached lua stack limit";
pub(crate) const COMPILING_LIBRARY: &[u8] = b"ERR Error compiling function: ";
pub(crate) const REGISTERING: &[u8] = b"ERR Error registering functions: ";
pub(crate) const NO_FUNCTIONS: &str = "ERR No functions registered";
pub(crate) const ONLY_LOADING: &str = "ERR redis.register_function can only be called on FUNCTION LOAD command";
pub(crate) const REGISTER_ARGUMENTS: &str = "ERR wrong number of arguments to redis.register_function";
pub(crate) const ONLY_TABLE: &str = "ERR calling redis.register_function with a single argument is only applicable to Lua \
                                     table (representing named arguments).";
pub(crate) const FIRST_ARGUMENT: &str = "ERR first argument to redis.register_function must be a string";
pub(crate) const SECOND_ARGUMENT: &str = "ERR second argument to redis.register_function must be a function";
pub(crate) const NAMED_KEY: &str = "ERR named argument key given to redis.register_function is not a string";
pub(crate) const NAMED_NAME: &str = "ERR function_name argument given to redis.register_function must be a string";
pub(crate) const NAMED_DESCRIPTION: &str = "ERR description argument given to redis.register_function must be a string";
pub(crate) const NAMED_CALLBACK: &str = "ERR callback argument given to redis.register_function must be a function";
pub(crate) const NAMED_UNKNOWN: &str = "ERR unknown argument given to redis.register_function";
pub(crate) const FLAGS_TABLE: &str =
    "ERR flags argument to redis.register_function must be a table representing function flags";
pub(crate) const FLAG_UNKNOWN: &str = "ERR unknown flag given";
pub(crate) const NO_NAME: &str = "ERR redis.register_function must get a function name argument";
pub(crate) const NO_CALLBACK: &str = "ERR redis.register_function must get a callback argument";
pub(crate) const FUNCTION_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must \
                                        be at least one character long";
pub(crate) const FUNCTION_TWICE: &str = "ERR Function already exists in the library";
pub(crate) const PACK_NOTHING: &str = "MessagePack pack needs input.";
pub(crate) const MISSING_BYTES: &str = "Missing bytes in input.";
pub(crate) const BAD_FORMAT: &str = "Bad data format in input.";
pub(crate) const ALIGNMENT_START: &str = "alignment";
pub(crate) const DATA_SHORT: &str = "data string too short";
pub(crate) const NO_SIZE_BEFORE: &str = "format 'c0' needs a previous size";
pub(crate) const OFFSET_LEAST: &str = "offset must be 1 or greater";
pub(crate) const SIZE_OVERFLOW: &str = "integral size overflow";
pub(crate) const STRING_SHORT: &str = "string too short";
pub(crate) const UNFINISHED_STRING: &str = "unfinished string in data";
pub(crate) const ONE_ARGUMENT: &str = "expected 1 argument";
pub(crate) const TOO_MANY: &str = "found too many arguments";
pub(crate) const NOT_A_NUMBER: &str = "Cannot serialise number: must not be NaN or Inf";
pub(crate) const SPARSE: &str = "Cannot serialise table: excessively sparse array";
pub(crate) const BAD_ESCAPE: &str = "invalid escape code";
pub(crate) const BAD_NUMBER: &str = "invalid number";
pub(crate) const BAD_TOKEN: &str = "invalid token";
pub(crate) const BAD_UNICODE: &str = "invalid unicode escape code";
pub(crate) const NOT_UTF_8: &str = "JSON parser does not support UTF-16 or UTF-32";
pub(crate) const OPEN_STRING: &str = "unexpected end of string";
