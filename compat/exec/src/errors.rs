//! Why a command fails: the one error of all commands, and what handlers return.
//!
//! ```text
//!  handler: Err(CommandError) --> executor: takes back what was replied so far, writes the error, counts it
//! ```
//! No handler writes an error itself, and nobody reads a reply to learn whether its command failed.

use varve_acl::Denial;
use varve_protocol::Reply;
use varve_store::WrongType;

/// Why a command stops: the error's text, its code word included.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandError(Text);

/// One word beside the tag: a handler's result is returned in two registers.
#[derive(Debug, PartialEq, Eq)]
enum Text {
    Fixed(&'static &'static str),
    Made(Box<Made>),
}

/// A text that holds something of the request.
#[derive(Debug, PartialEq, Eq)]
struct Made {
    text: Vec<u8>,
    /// Counted among the errors already.
    counted: bool,
}

const _: () = assert!(size_of::<CmdResult>() == 16, "a result fits into two registers");

/// The result of handlers, and of their parts.
pub type CmdResult<T = ()> = Result<T, CommandError>;

impl CommandError {
    /// An argument does not fit the command's grammar.
    pub const SYNTAX: CommandError = CommandError::new(&"ERR syntax error");
    /// An argument or a value is not a 64-bit integer in its canonical form.
    pub const NOT_INTEGER: CommandError = CommandError::new(&"ERR value is not an integer or out of range");
    /// An argument or a value is not a number.
    pub const NOT_FLOAT: CommandError = CommandError::new(&"ERR value is not a valid float");
    /// The key holds another type.
    pub const WRONG_TYPE: CommandError =
        CommandError::new(&"WRONGTYPE Operation against a key holding the wrong kind of value");
    /// The key must exist and does not.
    pub const NO_KEY: CommandError = CommandError::new(&"ERR no such key");
    /// A database number that the server does not have.
    pub const DB_RANGE: CommandError = CommandError::new(&"ERR DB index is out of range");
    /// A string would grow past the largest argument that a client may send.
    pub const TOO_LONG: CommandError =
        CommandError::new(&"ERR string exceeds maximum allowed size (proto-max-bulk-len)");

    /// Data is being loaded.
    pub const LOADING: CommandError = CommandError::new(&"LOADING Redis is loading the dataset in memory");
    /// The last save in the background has failed.
    pub const UNSAVED: CommandError = CommandError::new(
        &"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that \
          may modify the data set are disabled, because this instance is configured to report errors during writes if \
          RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the \
          RDB error.",
    );
    /// There are fewer replicas that follow closely than there must be.
    pub const UNREPLICATED: CommandError = CommandError::new(&"NOREPLICAS Not enough good replicas to write.");
    /// This server is a replica, and only its primary changes its data.
    pub const READ_ONLY: CommandError = CommandError::new(&"READONLY You can't write against a read only replica.");
    /// This server is a replica whose link is down, and its data may be old.
    pub const PRIMARY_DOWN: CommandError =
        CommandError::new(&"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");
    /// A script that runs on a replica whose data may be old calls a command that would show it.
    pub const SCRIPT_STALE: CommandError = CommandError::new(&"ERR Can not execute the command on a stale replica");
    /// The system refuses memory.
    pub const NO_MEMORY: CommandError = CommandError::new(&"OOM the system refuses memory");
    /// The memory limit is reached.
    pub const OUT_OF_MEMORY: CommandError =
        CommandError::new(&"OOM command not allowed when used memory > 'maxmemory'.");

    /// CLIENT UNBLOCK ended the wait.
    pub const UNBLOCKED: CommandError = CommandError::new(&"UNBLOCKED client unblocked via CLIENT UNBLOCK");
    /// The server became a replica while the client waited.
    pub const DEMOTED: CommandError = CommandError::new(
        &"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
    );
    /// The connection has not authenticated.
    pub const NO_AUTH: CommandError = CommandError::new(&"NOAUTH Authentication required.");
    /// The command is refused between MULTI and EXEC.
    pub const IN_TRANSACTION: CommandError = CommandError::new(&"ERR Command not allowed inside a transaction");
    /// The connection monitors.
    pub const MONITORS: CommandError = CommandError::new(&"ERR Replica can't interact with the keyspace");
    /// WATCH comes too late.
    pub const WATCH_INSIDE: CommandError = CommandError::new(&"ERR WATCH inside MULTI is not allowed");
    /// MULTI inside MULTI.
    pub const NESTED_MULTI: CommandError = CommandError::new(&"ERR MULTI calls can not be nested");
    /// A time in milliseconds is no number.
    pub const TIMEOUT_NOT_INTEGER: CommandError = CommandError::new(&"ERR timeout is not an integer or out of range");
    /// A time is below zero.
    pub const TIMEOUT_NEGATIVE: CommandError = CommandError::new(&"ERR timeout is negative");
    /// EXEC without MULTI.
    pub const NO_MULTI_EXEC: CommandError = CommandError::new(&"ERR EXEC without MULTI");
    /// DISCARD without MULTI.
    pub const NO_MULTI_DISCARD: CommandError = CommandError::new(&"ERR DISCARD without MULTI");
    /// EXEC after a command could not be queued.
    pub const EXEC_ABORT: CommandError =
        CommandError::new(&"EXECABORT Transaction discarded because of previous errors.");

    /// A script names no command.
    pub const SCRIPT_UNKNOWN: CommandError = CommandError::new(&"ERR Unknown Redis command called from script");
    /// A script runs a command with a number of arguments that it does not take.
    pub const SCRIPT_ARITY: CommandError =
        CommandError::new(&"ERR Wrong number of args calling Redis command from script");
    /// A script runs a command that is refused in scripts.
    pub const SCRIPT_REFUSED: CommandError = CommandError::new(&"ERR This Redis command is not allowed from script");
    /// A script that promises to change nothing runs a command that does.
    pub const SCRIPT_WRITES: CommandError =
        CommandError::new(&"ERR Write commands are not allowed from read-only scripts.");
    /// A script that may change something is run by a command that promises to change nothing.
    pub const SCRIPT_NOT_READ_ONLY: CommandError =
        CommandError::new(&"ERR Can not execute a script with write flag using *_ro command.");
    /// A script is not to go on where it runs. No client gets this.
    pub const SCRIPT_PUT_OFF: CommandError = CommandError::new(&"ERR The script begins again");
    /// A script that has changed something, and whose text does not name it, runs a command on the whole keyspace.
    pub const SCRIPT_WIDE: CommandError = CommandError::new(
        &"ERR This command sees the whole keyspace: a script that runs it behind a write must name it in its text",
    );
    /// A command that a script has called has more reply than may be made for it.
    pub const SCRIPT_REPLY_TOO_LONG: CommandError =
        CommandError::new(&"ERR The reply of this command is too long for a script");

    /// An error of this text.
    pub const fn new(text: &'static &'static str) -> CommandError {
        CommandError(Text::Fixed(text))
    }

    /// An error whose text holds something of the request.
    #[cold]
    pub fn owned(text: impl Into<Vec<u8>>) -> CommandError {
        CommandError(Text::Made(Box::new(Made { text: text.into(), counted: false })))
    }

    /// This error, which was counted already: as that of a command that a script has had run.
    #[must_use]
    pub fn counted(self) -> CommandError {
        CommandError(Text::Made(Box::new(Made { text: self.text().to_vec(), counted: true })))
    }

    /// True if it was counted already.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(&self.0, Text::Made(made) if made.counted)
    }

    /// The journal cannot be written, for this error of the system.
    pub fn unwritten(errno: i32) -> CommandError {
        CommandError::owned(format!("MISCONF Errors writing to the AOF file: {}", system_text(errno)))
    }

    /// The command `name` got a number of arguments that it does not take.
    pub fn arity(name: &str) -> CommandError {
        CommandError::owned(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// No command has this name; `args` are its arguments in quotes, as far as they are shown.
    pub fn unknown_command(name: &[u8], args: &[u8]) -> CommandError {
        CommandError::owned([b"ERR unknown command '", name, b"', with args beginning with: ", args].concat())
    }

    /// The `container`, in upper case, has no subcommand of this name.
    pub fn unknown_subcommand(container: &[u8], name: &[u8]) -> CommandError {
        CommandError::owned([b"ERR unknown subcommand '", name, b"'. Try ", container, b" HELP."].concat())
    }

    /// A script has run for too long, one that SCRIPT KILL ends.
    pub const BUSY_SCRIPT: CommandError =
        CommandError::new(&"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
    /// A function has run for too long, which FUNCTION KILL ends.
    pub const BUSY_FUNCTION: CommandError =
        CommandError::new(&"BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.");

    /// A time to live that is not positive or does not fit, given to the command `name`.
    pub fn expire_time(name: &str) -> CommandError {
        CommandError::owned(format!("ERR invalid expire time in '{name}' command"))
    }

    /// The connection is subscribed, in RESP2: `name` is not among the commands that it may run.
    pub fn subscribed(name: &str) -> CommandError {
        CommandError::owned(format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        ))
    }

    /// The user has no right to what a request of this command asks for.
    pub fn no_permission(denial: Denial, name: &str) -> CommandError {
        match denial {
            Denial::Command => {
                CommandError::owned(format!("NOPERM this user has no permissions to run the '{name}' command"))
            }
            Denial::Key(_) => {
                CommandError::new(&"NOPERM this user has no permissions to access one of the keys used as arguments")
            }
            Denial::Channel(_) => CommandError::new(
                &"NOPERM this user has no permissions to access one of the channels used as arguments",
            ),
        }
    }

    /// The user has lost the right to a command of its transaction since that was queued.
    pub fn no_permission_any_more(denial: Denial) -> CommandError {
        let reason = match denial {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => "no permission to access one of the channels used as arguments",
        };
        CommandError::owned(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
             is no longer allowed for the following reason: {reason}"
        ))
    }

    /// More commands, sections or settings are asked for than a request may ask for: there are some hundred, and each name may stand for
    /// kilobytes of reply.
    pub fn too_many_names(most: usize) -> CommandError {
        CommandError::owned(format!("ERR at most {most} names may be asked for"))
    }

    /// The user has no right to what a script's command asks for.
    pub fn no_permission_in_script(denial: Denial) -> CommandError {
        CommandError::new(match denial {
            Denial::Command => &"ERR The user executing the script can't run this command or subcommand",
            Denial::Key(_) => {
                &"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
            }
            Denial::Channel(_) => {
                &"ERR The user executing the script can't publish to the channel mentioned in the command"
            }
        })
    }

    /// EXEC is refused for this reason, which ends its transaction.
    pub fn exec_abort(reason: &CommandError) -> CommandError {
        let text = reason.text();
        let reason = text.strip_prefix(b"ERR ").unwrap_or(text);
        CommandError::owned([b"EXECABORT Transaction discarded because of: ", reason].concat())
    }

    /// The text, its code word included.
    pub fn text(&self) -> &[u8] {
        match &self.0 {
            Text::Fixed(text) => text.as_bytes(),
            Text::Made(made) => &made.text,
        }
    }

    /// Writes the error.
    #[cold]
    pub fn reply(&self, out: &mut Reply) {
        out.error_bytes(self.text());
    }
}

/// The system's text of an error.
fn system_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

impl From<WrongType> for CommandError {
    fn from(_: WrongType) -> CommandError {
        CommandError::WRONG_TYPE
    }
}
