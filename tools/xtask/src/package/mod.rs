//! `package`: what people install, made of the release build, packaging/ and the documents of the tables.
//!
//! ```text
//! target/package/
//!   docs/         varve.conf, manual pages, completions (varve-docs)
//!   bin/          varve-server, varve-check, varve-top without their debugging information; *.debug has that
//!   varve_V_ARCH.deb  varve-dbgsym_V_ARCH.deb    deb.rs
//!   varve-V-MACHINE-linux.tar.gz                 the same files for other systems
//!   container/    the folder of an image: packaging/Containerfile and what it copies
//! parts.rs: the tarball, debugging information, log rotation and options, tried
//! trial.rs: installs, runs and removes the package in a fresh Debian, and follows the Containerfile's steps there
//! ```
//! Function names stay in the programs: the report of a crash shows them.

mod deb;
mod image;
mod parts;
pub(crate) mod trial;
mod upgrades;

use crate::shell::{Tally, build_programs, cargo, command, output, run, say, target_dir, workspace};
use std::fs;
use std::path::{Path, PathBuf};

/// The programs of the package.
const PROGRAMS: [&str; 3] = ["varve-server", "varve-check", "varve-top"];
/// The version, which the workspace's Cargo.toml has alone.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where packages are made.
pub(crate) fn folder() -> PathBuf {
    target_dir().join("package")
}

/// Builds everything.
pub(crate) fn all() -> Tally {
    Tally::one("package", build().map(|()| say(&format!("made: {}", folder().display()))))
}

/// Builds the programs and makes the packages of them.
fn build() -> Result<(), String> {
    run(build_programs(&PROGRAMS).env("VARVE_GIT_SHA", commit()))?;
    make(&target_dir().join("release"))
}

/// Makes the packages of the programs in this folder.
///
/// # Errors
/// A program of binutils, dpkg or tar that is missing or fails.
pub(crate) fn make(programs: &Path) -> Result<(), String> {
    let folder = folder();
    for part in ["docs", "bin", "tree", "container"] {
        remove(&folder.join(part))?;
        make_folder(&folder.join(part))?;
    }
    run(cargo(&["run", "--quiet", "-p", "varve-docs", "--", "package"]).arg(folder.join("docs")))?;
    for program in PROGRAMS {
        strip(&programs.join(program), &folder.join("bin"))?;
    }
    deb::make(&folder)?;
    tarball(&folder)?;
    container(&folder)
}

/// The commit that is packaged, in short.
fn commit() -> String {
    output(&mut command("git", &["rev-parse", "--short=8", "HEAD"]))
        .map_or_else(|_| "00000000".into(), |sha| sha.trim().into())
}

/// The time of the packaged commit, so that the same commit makes the same bytes.
fn commit_time() -> String {
    output(&mut command("git", &["log", "-1", "--format=%ct"])).map_or_else(|_| "0".into(), |time| time.trim().into())
}

/// Puts a program into `bin`, and its debugging information beside it.
fn strip(program: &Path, bin: &Path) -> Result<(), String> {
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (to, debug) = (bin.join(&name), bin.join(format!("{name}.debug")));
    run(command("objcopy", &["--only-keep-debug"]).arg(program).arg(&debug))?;
    run(command("objcopy", &["--strip-debug"]).arg(program).arg(&to))?;
    // The link is the file's name and sum; a debugger looks for it in /usr/lib/debug.
    run(command("objcopy", &[format!("--add-gnu-debuglink={name}.debug")]).arg(&name).current_dir(bin))
}

/// The files of a machine of another kind: the reader puts them where they belong.
fn tarball(folder: &Path) -> Result<(), String> {
    let machine = output(&mut command("uname", &["-m"]))?;
    let name = tarball_name(&machine);
    let tree = folder.join(&name);
    remove(&tree)?;
    let manual = ["varve-server.1", "varve-check.1", "varve-top.1", "varve.conf.5"];
    let shells = PROGRAMS.iter().flat_map(|name| [format!("{name}.bash"), format!("_{name}"), format!("{name}.fish")]);
    let docs = manual.iter().chain(&["varve.conf"]).map(|name| (*name).to_owned()).chain(shells);
    let docs = docs.map(|name| (folder.join("docs").join(&name), name));
    let bin = PROGRAMS.iter().map(|name| (folder.join("bin").join(name), (*name).to_owned()));
    let own = ["packaging/varve-server.service", "README.md", "LICENSE", "CHANGELOG.md", "docs/commands.md"];
    let own = own.iter().map(|from| (workspace().join(from), from.rsplit('/').next().unwrap_or(from).to_owned()));
    for (from, to) in docs.chain(bin).chain(own) {
        copy(&from, &tree.join(to))?;
    }
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut tar = command("tar", &["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf"]);
    tar.arg(&archive).arg(format!("--mtime=@{}", commit_time())).arg("-C").arg(folder).arg(&name);
    run(&mut tar)?;
    remove(&tree)
}

/// The name of the tarball's folder, for a machine of this kind.
fn tarball_name(machine: &str) -> String {
    format!("varve-{VERSION}-{}-linux", machine.trim())
}

/// The folder in which the image is built.
fn container(folder: &Path) -> Result<(), String> {
    let to = folder.join("container");
    for program in PROGRAMS {
        copy(&folder.join("bin").join(program), &to.join("bin").join(program))?;
    }
    for name in ["Containerfile", "container.conf"] {
        copy(&workspace().join("packaging").join(name), &to.join(name))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    to.parent().map_or(Ok(()), make_folder)?;
    fs::copy(from, to).map(drop).map_err(|error| format!("{} -> {}: {error}", from.display(), to.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    path.parent().map_or(Ok(()), make_folder)?;
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn make_folder(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}
