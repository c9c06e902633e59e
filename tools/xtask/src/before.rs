//! The release before: its server reads the files that the present one writes.
//!
//! ```text
//!   the last commit of tests/data/releases, which a release makes ──git worktree──▶ target/before/source
//!                                        ──cargo build──▶ target/before/build ──▶ tests/releases.rs, VARVE_BEFORE
//! ```
//! `cargo xtask release` does it before it writes anything, and `cargo xtask long releases` at any time.

use crate::all;
use crate::harness::cargo_test;
use crate::shell::{Tally, cargo, command, output, run, server_binary, step, target_dir};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of all releases.
const FILES: &str = "tests/data/releases";

/// Builds the server of the release before, and has it read files of the present one.
pub(crate) fn run_all() -> Tally {
    let built = step("the release before", || match server_before() {
        Ok(_) => Tally::one("the release before", Ok(())),
        Err(error) => Tally::one("the release before", Err(error)),
    });
    built.and(all::server_build).and(|| {
        let mut tests = cargo(&["test", "--quiet", "-p", "varve-tests", "--test", "releases"]);
        tests.env("VARVE_SERVER", server_binary()).env("VARVE_BEFORE", binary());
        cargo_test("releases", &mut tests)
    })
}

fn folder() -> PathBuf {
    target_dir().join("before")
}

fn binary() -> PathBuf {
    folder().join("build/debug/varve-server")
}

fn server_before() -> Result<(), String> {
    let commit = output(&mut command("git", &["log", "-1", "--format=%H", "--", FILES]))?;
    let (commit, source) = (commit.trim(), folder().join("source"));
    if commit.is_empty() {
        return Err(format!("no commit has {FILES}"));
    }
    fs::create_dir_all(folder()).map_err(|error| error.to_string())?;
    leave(&source)?;
    let source_text = source.to_string_lossy().into_owned();
    run(&mut command("git", &["worktree", "add", "--quiet", "--force", "--detach", &source_text, commit]))?;
    let mut build = cargo(&["build", "--quiet", "-p", "varve-server", "--manifest-path"]);
    build.arg(source.join("Cargo.toml")).arg("--target-dir").arg(folder().join("build"));
    let built = run(&mut build);
    leave(&source)?;
    built
}

/// Removes the copy of the source, and git's note of it.
fn leave(source: &Path) -> Result<(), String> {
    if source.exists() {
        run(command("git", &["worktree", "remove", "--force"]).arg(source))?;
    }
    run(&mut command("git", &["worktree", "prune"]))
}
