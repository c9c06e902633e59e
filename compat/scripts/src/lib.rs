//! Scripts and functions: EVAL and its kin, SCRIPT, FCALL, FUNCTION, and the scripts and libraries that a server knows.
//!
//! ```text
//!   eval, script, fcall, function   the commands, with their rows
//!     given        the keys and arguments of a request
//!     keeper       a worker's state of the language and its compiled scripts
//!       functions  the libraries of functions, and the one state in which they live
//!         metadata a library's first line
//!         hashes   of the functions' names
//!       host       what the language asks of whoever runs it: commands, the log, whether to go on
//!       cache      the scripts that all workers know
//!       running    the script that runs, as other workers see it
//!       words      the names of commands that a script may run
//! ```
//! The language is `varve-lua`, which knows no commands. Shards, checks and effects of a script's commands are the
//! executor's (`varve_exec::script`).

#![forbid(unsafe_code)]

mod cache;
mod errors;
mod eval;
mod fcall;
mod function;
mod functions;
mod given;
mod hashes;
mod host;
mod keeper;
mod metadata;
mod rows;
mod running;
mod script;
mod settings;
mod shebang;
mod words;

pub use functions::Functions;
pub use keeper::{Keeper, ScriptMemory, Scripts};
pub use running::Running;
pub use settings::ScriptSettings;

use varve_exec::FileRows;

/// The rows of all commands of scripts.
pub const FAMILIES: &[&[FileRows]] = &[&[eval::ROWS, script::ROWS, fcall::ROWS, function::ROWS]];
