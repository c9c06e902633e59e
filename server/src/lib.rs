//! The program: reads its configuration, becomes what the operator asked for, and runs the workers until they end.
//!
//! ```text
//!   command line ─> configuration ─> daemon? ─> log ─> descriptors, sockets ─> store ─> workers ─> signals ─> "Ready"
//!   process/cli      config/        system/sys  system/logging  net/listen   varve_store worker/  process/signals
//! ```
//!
//! The modules are floors; each imports from the floors below it only:
//!
//! ```text
//!   process         command line, start and end, signals
//!   worker          the event loop
//!   features        one folder a matter (clients, pubsub, tracking ...): handlers of commands, and the matter's steps
//!   state           what all workers share, and what a handler is given
//!   net             sockets and connections
//!   features/*/state  plain data of each matter
//!   config          the settings
//!   errors, system  texts of errors; calls of the operating system, the log, the version
//!   time_left       of works that end
//! ```
//! Every failure before "Ready" ends the process with status 1 and a line that names the reason. Not here: requests.
#![deny(unsafe_code)]

mod config;
mod errors;
mod features;
mod net;
mod process;
mod state;
mod system;
mod time_left;
mod worker;

use std::io::{Read, Write};
use std::process::ExitCode;

use varve_exec::CommandSet;

use config::{LoadError, Loaded, Loader};
use process::cli::{self, Invocation, Request};
use process::{machine, start};
use system::version;

/// The settings of the server, for documents.
pub use config::{Changeable, Setting, settings};
/// The program's allocator.
pub use system::sys::last_resort::LastResort;

/// All commands of the server: those of `varve_commands`, and those that it runs itself.
pub fn commands() -> &'static CommandSet {
    features::commands()
}

/// Runs the program. `arguments` are those of the command line behind the program's name. Returns when the server has
/// ended, or when the arguments ask for something else (the version, the usage).
pub fn run(arguments: &[Vec<u8>]) -> ExitCode {
    match cli::parse(arguments) {
        Request::Version => say(&version::line()),
        Request::Help => say(cli::USAGE.trim_end()),
        Request::CheckSystem => machine::check(),
        Request::Unavailable(option) => fail(&format!("{option} is not available")),
        Request::Serve(invocation) => match load(&invocation) {
            Err(error) => fail(error.to_string().trim_end()),
            Ok(loaded) => match start::serve(loaded, invocation.file) {
                Ok(()) => ExitCode::SUCCESS,
                // The log has said why.
                Err(start::Failed) => ExitCode::FAILURE,
            },
        },
    }
}

fn say(text: &str) -> ExitCode {
    // A reader that has gone away needs no answer.
    let _ = writeln!(std::io::stdout(), "{text}");
    ExitCode::SUCCESS
}

fn fail(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::FAILURE
}

/// File, standard input, command line: the last word counts.
fn load(invocation: &Invocation) -> Result<Loaded, LoadError> {
    let mut loader = Loader::new(commands());
    if let Some(path) = &invocation.file {
        loader.file(path)?;
    }
    if invocation.stdin {
        let mut text = Vec::new();
        std::io::stdin()
            .read_to_end(&mut text)
            .map_err(|error| LoadError::File { path: "standard input".into(), reason: system::error_text(&error) })?;
        loader.text("standard input", &text)?;
    }
    loader.text("the command line", &invocation.options)?;
    Ok(loader.finish())
}
