//! `release`: the version in its one place, the changelog's heading, a commit and a tag.
//!
//! ```text
//! release 1.2.3 --dry-run    looks whether all is ready, makes the packages, and prints what would be written
//! release 1.2.3              the same; has the server of the release before read files of this one (before.rs); and writes it:
//!                            Cargo.toml, Cargo.lock, CHANGELOG.md, the files that this version writes
//!                            (tests/data/releases/1.2.3), one commit, the tag v1.2.3
//! ```
//! Nothing is sent anywhere: pushing the commit and the tag is left to a person, as are the tests before (CONTRIBUTING.md).

use crate::shell::{Tally, build_programs, cargo, command, output, run, say, step, workspace};
use crate::{before, package};
use std::fs;

const OPEN: &str = "## Unreleased";
/// Files that name the version and are written here, or tell of the past.
const MAY_NAME: [&str; 3] = ["Cargo.toml", "Cargo.lock", "CHANGELOG.md"];

/// Releases `version`, or says what would be done.
pub(crate) fn run_all(version: &str, dry: bool) -> Tally {
    let mut tally = step("ready for a release", || Tally::one("ready", ready(version)));
    if !dry {
        tally = tally.and(before::run_all);
    }
    tally = tally.and(|| step("packages", package::all));
    tally.and(|| Tally::one("release", write(version, dry)))
}

/// The part of a dry run that takes no time, for the version that would be the next: a release could be made of what is here, once
/// it is committed and the changelog says what is new. The packages have a step of their own.
pub(crate) fn rehearse() -> Tally {
    let next = next(|version| {
        let tag = output(&mut command("git", &["tag", "--list", &format!("v{version}")]));
        tag.is_ok_and(|tag| !tag.is_empty())
    });
    step("release, dry", || {
        Tally::one("release, dry", fits(&next).and_then(|()| one_place()).and_then(|()| write(&next, true)))
    })
}

/// The first version from the present one on that has no tag.
fn next(has_tag: impl Fn(&str) -> bool) -> String {
    let [major, minor, mut patch] = numbers(package::VERSION).unwrap_or_default();
    let mut version = package::VERSION.to_owned();
    while has_tag(&version) {
        patch += 1;
        version = format!("{major}.{minor}.{patch}");
    }
    version
}

/// Three numbers with dots between.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok().filter(|number| number.to_string() == part));
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// The version may come behind the present one.
fn fits(version: &str) -> Result<(), String> {
    let wanted = numbers(version).ok_or_else(|| format!("'{version}' is not a version like 1.2.3"))?;
    let now = numbers(package::VERSION).ok_or("the workspace's version has another form")?;
    if wanted < now {
        return Err(format!("{version} is older than {}", package::VERSION));
    }
    Ok(())
}

fn ready(version: &str) -> Result<(), String> {
    fits(version)?;
    if !output(&mut command("git", &["status", "--porcelain"]))?.is_empty() {
        return Err("there are changes that are not committed".into());
    }
    if !output(&mut command("git", &["tag", "--list", &format!("v{version}")]))?.is_empty() {
        return Err(format!("the tag v{version} is there already"));
    }
    let changes = read("CHANGELOG.md")?;
    if unreleased(&changes).is_none_or(str::is_empty) {
        return Err(format!("CHANGELOG.md has nothing under '{OPEN}'"));
    }
    one_place()
}

/// The text under the open heading.
fn unreleased(changes: &str) -> Option<&str> {
    let (_, rest) = changes.split_once(&format!("{OPEN}\n"))?;
    Some(rest.split("\n## ").next().unwrap_or_default().trim())
}

/// No file but those of this task names the version.
fn one_place() -> Result<(), String> {
    let wanted = format!("\"{}\"", package::VERSION);
    let found = output(&mut command("git", &["grep", "--files-with-matches", "--fixed-strings", &wanted]))?;
    // Other programs have versions too: those of dependencies stand in fuzz/Cargo.lock and in tests of files.
    let named: Vec<&str> = found
        .lines()
        .filter(|path| !MAY_NAME.contains(path) && (path.ends_with("Cargo.toml") || path.ends_with(".rs")))
        .collect();
    if named.is_empty() {
        Ok(())
    } else {
        Err(format!("the version stands in more than one place: {}", named.join(", ")))
    }
}

/// The workspace's file with another version.
fn with_version(manifest: &str, version: &str) -> Option<String> {
    let old = format!("[workspace.package]\nversion = \"{}\"", package::VERSION);
    manifest
        .contains(&old)
        .then(|| manifest.replacen(&old, &format!("[workspace.package]\nversion = \"{version}\""), 1))
}

/// The changelog with the open heading closed.
fn with_heading(changes: &str, version: &str, date: &str) -> String {
    changes.replacen(OPEN, &format!("## {version} - {date}"), 1)
}

fn write(version: &str, dry: bool) -> Result<(), String> {
    let date = output(&mut command("date", &["--utc", "+%Y-%m-%d"]))?;
    let manifest =
        with_version(&read("Cargo.toml")?, version).ok_or("Cargo.toml has no [workspace.package] version")?;
    let changes = with_heading(&read("CHANGELOG.md")?, version, date.trim());
    if dry {
        say(&format!(
            "would write: version {version} into Cargo.toml; '## {version} - {}' into CHANGELOG.md",
            date.trim()
        ));
        say("would have the server of the release before read files of this one (cargo xtask long releases)");
        say(&format!("would have the server write {}", kept_files(version)));
        say(&format!("would commit that, and tag it v{version}; packages: {}", package::folder().display()));
        return Ok(());
    }
    for (path, text) in [("Cargo.toml", manifest), ("CHANGELOG.md", changes)] {
        fs::write(workspace().join(path), text).map_err(|error| format!("{path}: {error}"))?;
    }
    // The lock file has the versions of the workspace's own crates.
    run(&mut cargo(&["update", "--quiet", "--workspace", "--offline"]))?;
    let files = kept_files(version);
    run(&mut build_programs(&["varve-server"]))?;
    run(cargo(&["test", "--quiet", "-p", "varve-tests", "--test", "releases"]).env("VARVE_RECORD", version))?;
    run(&mut command("git", &["add", &files]))?;
    let message = format!("Version {version}");
    let paths = ["Cargo.toml", "Cargo.lock", "CHANGELOG.md", &files];
    run(command("git", &["commit", "--quiet", "-m", &message]).args(paths))?;
    run(&mut command("git", &["tag", "--annotate", "-m", &format!("Varve {version}"), &format!("v{version}")]))?;
    say(&format!("committed and tagged v{version}; the packages of the tag: cargo xtask package"));
    Ok(())
}

/// The folder of the files that this version's server writes: later ones have to read them.
fn kept_files(version: &str) -> String {
    format!("tests/data/releases/{version}")
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(workspace().join(path)).map_err(|error| format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_version_has_no_tag() {
        assert_eq!(next(|_| false), package::VERSION);
        let [major, minor, patch] = numbers(package::VERSION).unwrap();
        assert_eq!(next(|version| version == package::VERSION), format!("{major}.{minor}.{}", patch + 1));
    }

    #[test]
    fn versions_have_three_numbers() {
        assert_eq!(numbers("1.20.3"), Some([1, 20, 3]));
        for bad in ["1.2", "1.2.3.4", "v1.2.3", "1.2.x", "01.2.3", ""] {
            assert_eq!(numbers(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_version_stands_in_one_place_and_is_changed_there() {
        one_place().unwrap();
        let manifest = with_version(&read("Cargo.toml").unwrap(), "77.0.1").unwrap();
        assert_eq!(manifest.matches("77.0.1").count(), 1);
    }

    #[test]
    fn the_open_heading_is_closed() {
        let changes = "# C\n\n## Unreleased\n\n- a\n\n## 0.1.0 - 2020-01-01\n- b\n";
        assert_eq!(unreleased(changes), Some("- a"));
        assert!(with_heading(changes, "1.0.0", "2026-01-02").contains("## 1.0.0 - 2026-01-02\n\n- a"));
        assert!(unreleased(&read("CHANGELOG.md").unwrap()).is_some_and(|text| !text.is_empty()));
    }
}
