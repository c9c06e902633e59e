//! `varve-docs`: documents that are made of the server's tables, so that they cannot say anything else.
//!
//! ```text
//! varve-docs pages FOLDER      configuration.md, commands.md       docs/ has them; a test compares (`cargo xtask docs` writes)
//! varve-docs package FOLDER    varve.conf, varve-server.1, varve.conf.5, varve-check.1, varve-top.1, completions of each program for three shells
//!
//!   config/guide.txt, table.rs --> varve_server::settings() --> configuration, conf, manual, completions
//!   the rows of the commands   --> varve_server::commands() --> commands
//! ```

#![forbid(unsafe_code)]

mod commands;
mod completions;
mod conf;
mod configuration;
mod manual;

use clap::{Parser, Subcommand};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Documents that are made of the server's tables
#[derive(Parser)]
#[command(name = "varve-docs", version)]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The pages of docs/
    Pages {
        /// Where they are written
        folder: PathBuf,
    },
    /// The files of a package
    Package {
        /// Where they are written
        folder: PathBuf,
    },
}

/// A file's name and text.
type Document = (&'static str, String);

fn main() -> ExitCode {
    let (folder, documents) = match Options::parse().what {
        What::Pages { folder } => (folder, pages()),
        What::Package { folder } => (folder, package()),
    };
    for (name, text) in documents {
        if let Err(error) = write(&folder.join(name), &text) {
            eprintln!("{}: {error}", folder.join(name).display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn pages() -> Vec<Document> {
    vec![("configuration.md", configuration::page()), ("commands.md", commands::page())]
}

fn package() -> Vec<Document> {
    vec![
        ("varve.conf", conf::file()),
        ("varve-server.1", manual::server()),
        ("varve.conf.5", manual::configuration()),
        ("varve-check.1", manual::check()),
        ("varve-top.1", manual::top()),
        ("varve-server.bash", completions::server().bash()),
        ("_varve-server", completions::server().zsh()),
        ("varve-server.fish", completions::server().fish()),
        ("varve-check.bash", completions::check().bash()),
        ("_varve-check", completions::check().zsh()),
        ("varve-check.fish", completions::check().fish()),
        ("varve-top.bash", completions::top().bash()),
        ("_varve-top", completions::top().zsh()),
        ("varve-top.fish", completions::top().fish()),
    ]
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::{package, pages};
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_pages_say_what_the_tables_say() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (name, text) in pages() {
            let written = fs::read_to_string(docs.join(name)).unwrap_or_default();
            // Not assert_eq: it would print both pages.
            assert!(written == text, "docs/{name} is not what the tables say: run `cargo xtask docs`");
        }
    }

    #[test]
    fn the_files_of_a_package_name_every_setting() {
        for (file, text) in package() {
            assert!(text.ends_with('\n') && !text.contains("\n\n\n"), "{file}");
        }
        for setting in varve_server::settings() {
            for file in ["varve.conf", "varve.conf.5", "varve-server.bash", "_varve-server", "varve-server.fish"] {
                let (_, text) = package().into_iter().find(|(name, _)| *name == file).expect("a file of the package");
                let name = if file == "varve.conf.5" { setting.name.replace('-', "\\-") } else { setting.name.into() };
                assert!(setting.no_effect.is_some() || text.contains(&name), "{file}: {name}");
            }
        }
    }
}
