//! Debian's packages: a tree as it lies on a machine, and what dpkg wants beside it.
//!
//! dpkg-deb is everywhere where such packages are made; cargo-deb would be one more program to install, and its own form of what
//! stands in packaging/ as the files themselves.

use super::{VERSION, commit_time, copy, make_folder, read, remove, write};
use crate::shell::{command, output, run, workspace};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const NAME: &str = "varve";
const ABOUT: &str = "data store in memory for clients of Redis";
const MORE: &str = " Varve keeps keys and values in memory and serves them by Redis's protocol, with the
 replies, files, settings and users of Redis 7.0. It has several workers, saves
 without a copy of the process, and gives memory back as it is freed.";
const CONF: &str = "etc/varve/varve.conf";
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Makes the package and the one with its debugging information.
///
/// # Errors
/// A program that is missing or fails.
pub(super) fn make(folder: &Path) -> Result<(), String> {
    let architecture = output(&mut command("dpkg", &["--print-architecture"]))?.trim().to_owned();
    let tree = folder.join("tree");
    lay_out(folder, &tree)?;
    let needs = needs(&folder.join("bin/varve-server"))?;
    let fields = format!("Depends: {needs}\nSuggests: redis-tools\n");
    finish(
        folder,
        &tree,
        &Control { name: NAME, architecture: &architecture, fields: &fields, about: ABOUT, more: MORE },
    )?;
    let debug = folder.join("tree-dbgsym");
    remove(&debug)?;
    for program in super::PROGRAMS {
        let name = format!("{program}.debug");
        copy(&folder.join("bin").join(&name), &debug.join("usr/lib/debug/usr/bin").join(&name))?;
    }
    let (name, about) = ("varve-dbgsym", "debugging information of varve");
    let fields = format!("Depends: {NAME} (= {VERSION})\nAuto-Built-Package: debug-symbols\n");
    finish(folder, &debug, &Control { name, architecture: &architecture, fields: &fields, about, more: "" })?;
    remove(&debug)
}

/// The package's file.
pub(super) fn path(folder: &Path) -> Result<PathBuf, String> {
    let architecture = output(&mut command("dpkg", &["--print-architecture"]))?;
    Ok(folder.join(format!("{NAME}_{VERSION}_{}.deb", architecture.trim())))
}

/// The file of the package with the debugging information.
pub(super) fn debug_path(folder: &Path) -> Result<PathBuf, String> {
    let path = path(folder)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(path.with_file_name(name.replacen(NAME, "varve-dbgsym", 1)))
}

/// Puts the files where they belong on a machine.
fn lay_out(folder: &Path, tree: &Path) -> Result<(), String> {
    let docs = folder.join("docs");
    for program in super::PROGRAMS {
        copy(&folder.join("bin").join(program), &tree.join("usr/bin").join(program))?;
        set_mode(&tree.join("usr/bin").join(program), 0o755)?;
    }
    let documents = [
        ("varve.conf", CONF),
        ("varve-server.1", "usr/share/man/man1/varve-server.1"),
        ("varve-check.1", "usr/share/man/man1/varve-check.1"),
        ("varve-top.1", "usr/share/man/man1/varve-top.1"),
        ("varve.conf.5", "usr/share/man/man5/varve.conf.5"),
    ];
    let completions = super::PROGRAMS.iter().flat_map(|program| {
        [
            (format!("{program}.bash"), format!("usr/share/bash-completion/completions/{program}")),
            (format!("_{program}"), format!("usr/share/zsh/vendor-completions/_{program}")),
            (format!("{program}.fish"), format!("usr/share/fish/vendor_completions.d/{program}.fish")),
        ]
    });
    let own = [
        ("packaging/varve-server.service", "usr/lib/systemd/system/varve-server.service"),
        ("packaging/logrotate", "etc/logrotate.d/varve"),
        ("CHANGELOG.md", "usr/share/doc/varve/changelog"),
        ("docs/commands.md", "usr/share/doc/varve/commands.md"),
    ];
    let documents = documents.map(|(from, to)| (from.to_owned(), to.to_owned())).into_iter().chain(completions);
    let documents = documents.map(|(from, to)| (docs.join(from), tree.join(to)));
    for (from, to) in documents.chain(own.iter().map(|(from, to)| (workspace().join(from), tree.join(to)))) {
        copy(&from, &to)?;
        set_mode(&to, 0o644)?;
    }
    write(&tree.join("usr/share/doc/varve/copyright"), &copyright()?)?;
    let manual = ["man/man1/varve-server.1", "man/man1/varve-check.1", "man/man1/varve-top.1", "man/man5/varve.conf.5"];
    manual
        .iter()
        .chain(&["doc/varve/changelog"])
        .try_for_each(|name| run(command("gzip", &["-9n"]).arg(tree.join("usr/share").join(name))))
}

/// Debian's form of the licence's text: paragraphs are indented, and a blank line is a dot.
fn copyright() -> Result<String, String> {
    let line = |line: &str| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") };
    let licence: String = read(&workspace().join("LICENSE"))?.lines().map(line).collect();
    let head = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: varve\n\nFiles: *\n\
                Copyright: the authors of Varve\nLicense: Apache-2.0\n";
    Ok(format!("{head}{licence}"))
}

/// The libraries that the program needs: the newest version of the C library of which it uses a function.
fn needs(program: &Path) -> Result<String, String> {
    let symbols = output(command("objdump", &["-T"]).arg(program))?;
    Ok(format!("libc6 (>= {}), libgcc-s1", newest_libc(&symbols).ok_or("a program that needs no C library")?))
}

fn newest_libc(symbols: &str) -> Option<String> {
    let versions = symbols.split("GLIBC_").skip(1).map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        rest[..end].split('.').filter_map(|part| part.parse::<u32>().ok()).collect::<Vec<_>>()
    });
    let newest = versions.max()?;
    Some(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

/// The facts that dpkg wants to know of a package.
struct Control<'c> {
    name: &'c str,
    architecture: &'c str,
    /// Whole lines.
    fields: &'c str,
    about: &'c str,
    more: &'c str,
}

/// Writes what dpkg wants beside the files of `tree`, and makes the package of it.
fn finish(folder: &Path, tree: &Path, control: &Control<'_>) -> Result<(), String> {
    let Control { name, architecture, fields, about, more } = control;
    let kilobytes = files(tree)?.iter().map(|(_, bytes)| bytes.div_ceil(1024)).sum::<u64>();
    let more = if more.is_empty() { String::new() } else { format!("{more}\n") };
    let text = format!(
        "Package: {name}\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: Varve <varve@localhost>\n\
         Installed-Size: {kilobytes}\n{fields}Section: database\nPriority: optional\nDescription: {about}\n{more}"
    );
    let mut sums = String::new();
    for (path, _) in files(tree)? {
        let sum = output(command("md5sum", &[&path]).current_dir(tree))?;
        sums.push_str(&sum);
    }
    let special = tree.join("DEBIAN");
    make_folder(&special)?;
    write(&special.join("control"), &text)?;
    write(&special.join("md5sums"), &sums)?;
    if *name == NAME {
        write(&special.join("conffiles"), &format!("/{CONF}\n/etc/logrotate.d/varve\n"))?;
        for script in SCRIPTS {
            copy(&workspace().join("packaging").join(script), &special.join(script))?;
            set_mode(&special.join(script), 0o755)?;
        }
    }
    let package = folder.join(format!("{name}_{VERSION}_{architecture}.deb"));
    let mut build = command("dpkg-deb", &["--root-owner-group", "-Zxz", "--build"]);
    run(build.env("SOURCE_DATE_EPOCH", commit_time()).arg(tree).arg(package).stdout(std::process::Stdio::null()))
}

/// The files below `tree`, with their bytes, in order.
fn files(tree: &Path) -> Result<Vec<(PathBuf, u64)>, String> {
    let (mut found, mut open) = (Vec::new(), vec![tree.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten() {
            let (path, about) = (entry.path(), entry.metadata().map_err(|error| error.to_string())?);
            let inner = path.strip_prefix(tree).map_err(|error| error.to_string())?.to_owned();
            match () {
                () if inner.starts_with("DEBIAN") => {}
                () if about.is_dir() => open.push(path),
                () => found.push((inner, about.len())),
            }
        }
    }
    found.sort();
    Ok(found)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::newest_libc;

    #[test]
    fn the_newest_version_is_needed() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) read\n0 DF *UND* 0 (GLIBC_2.34) gettid\n0 (GLIBC_2.9) x\n";
        assert_eq!(newest_libc(symbols).as_deref(), Some("2.34"));
        assert_eq!(newest_libc("none"), None);
    }
}
