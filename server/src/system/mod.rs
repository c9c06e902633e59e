//! Calls of the operating system, the log, and the version. This floor knows no setting and no connection.

pub(crate) mod closed_aside;
pub(crate) mod cpus;
pub(crate) mod disk;
pub(crate) mod logging;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod nameless_file;
pub(crate) mod oom_score;
pub(crate) mod open_files;
pub(crate) mod random;
pub(crate) mod replace_file;
mod symbols;
pub(crate) mod sys;
pub(crate) mod syslog;
pub(crate) mod threads;
pub(crate) mod version;

/// The text of a system error as the system has it, without the `(os error N)` that Rust adds.
pub(crate) fn error_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
