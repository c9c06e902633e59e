//! The look at the machine for things that may hinder the server: in the log at the start, and as the answer to `--check-system`.

use std::process::ExitCode;

use crate::config::Config;
use crate::system::machine::{Demands, Finding, Machine};
use crate::system::open_files::needed_and_allowed;

fn look(config: &Config) -> Vec<Finding> {
    let (files, files_max) = needed_and_allowed(config.max_clients, config.workers);
    Machine::this().look(Demands { backlog: u64::try_from(config.tcp_backlog).unwrap_or(0), files, files_max })
}

/// Warns of what is found. Of too few open files the start itself speaks.
pub(super) fn warn(config: &Config) {
    let found = look(config).into_iter().filter(|finding| finding.name != "open-files");
    found.filter_map(|finding| finding.trouble).for_each(|trouble| tracing::warn!("WARNING {trouble}"));
}

/// Prints what was looked at, for a server with the settings that nobody has changed; status 1 if something was found.
pub(crate) fn check() -> ExitCode {
    let found = look(&Config::default());
    for Finding { name, trouble } in &found {
        match trouble {
            None => println!("[{name}]...OK"),
            Some(trouble) => println!("[{name}]...WARNING:\n{trouble}\n"),
        }
    }
    if found.iter().all(|finding| finding.trouble.is_none()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
