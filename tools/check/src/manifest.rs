//! A manifest by itself: whether the files that it lists are there, and what --fix takes out of it.
//!
//! ```text
//!   file a.1.base.rdb seq 1 type b     there: its bytes
//!   file a.1.incr.aof seq 1 type h     history that is gone: taken out, no start asks for it
//!   file a.2.incr.aof seq 2 type i     the last ones are gone: taken out when that was confirmed
//! ```
//! A file that is gone in front of one that is there stays listed: what comes behind it makes no sense without it.
//!
//! Not here: what is in the files (`aof.rs`).

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use varve_aof::{Entry, Manifest};

use crate::aof::Confirm;

/// Reads a manifest.
///
/// # Errors
/// It cannot be read, or is none: why.
pub(crate) fn read(path: &Path) -> Result<Manifest, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    Manifest::parse(&text).map_err(|error| error.to_string())
}

/// The path of a file that the manifest at `path` lists.
pub(crate) fn path_of(path: &Path, entry: &Entry) -> PathBuf {
    path.parent().unwrap_or(Path::new(".")).join(OsStr::from_bytes(&entry.name))
}

/// Checks that the files are there, and with `fix` takes out those that are not, as far as a start can do without them. Gives
/// the report, and true if all files are there that a start wants.
///
/// # Errors
/// The manifest cannot be read or written, or is none: why.
pub(crate) fn check(path: &Path, fix: Option<&mut Confirm<'_>>) -> Result<(String, bool), String> {
    let mut manifest = read(path)?;
    let mut text = String::new();
    if let Some(confirm) = fix {
        let old = manifest.text();
        mend(path, &mut manifest, confirm, &mut text);
        if manifest.text() != old {
            replace(path, &manifest.text()).map_err(|error| error.to_string())?;
        }
    }
    let mut are_there = true;
    let files = manifest.files().map(|entry| (entry, true));
    for (entry, is_wanted) in files.chain(manifest.history().iter().map(|entry| (entry, false))) {
        let (name, of) = (entry.name.escape_ascii(), if is_wanted { "" } else { ", history" });
        let size = fs::metadata(path_of(path, entry));
        are_there &= size.is_ok() || !is_wanted;
        // Writing to a string does not fail.
        let _ = match size {
            Ok(about) => writeln!(text, "{name}: {} bytes{of}", about.len()),
            Err(error) => writeln!(text, "{name}: {error}{of}"),
        };
    }
    Ok((text, are_there))
}

/// Takes files out of a manifest that are gone.
fn mend(path: &Path, manifest: &mut Manifest, confirm: &mut Confirm<'_>, report: &mut String) {
    let is_gone =
        |entry: &Entry| fs::metadata(path_of(path, entry)).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    for entry in manifest.take_history(|entry| !is_gone(entry)) {
        // Writing to a string does not fail.
        let _ = writeln!(report, "{}: taken out, it was history", entry.name.escape_ascii());
    }
    let last: Vec<Entry> = manifest.increments().iter().rev().take_while(|entry| is_gone(entry)).cloned().collect();
    // Without any file nothing is left to start with.
    if last.is_empty() || last.len() == manifest.files().count() {
        return;
    }
    let names: Vec<String> = last.iter().rev().map(|entry| entry.name.escape_ascii().to_string()).collect();
    let question = format!(
        "{} lists files that are not there: {}. Taking them out has a server start without what was in them. \
         Continue? [y/N]: ",
        path.display(),
        names.join(", ")
    );
    if confirm(&question) {
        manifest.forget_increments(last[last.len() - 1].seq);
        for name in names {
            let _ = writeln!(report, "{name}: taken out, it was not there");
        }
    }
}

/// Puts another text in the place of a manifest: whole or not at all.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default();
    let new = folder.join([b"temp-", name.as_bytes()].concat().escape_ascii().to_string());
    let mut file = File::create(&new)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(path: &Path, answer: bool) -> (String, bool) {
        check(path, Some(&mut |_: &str| answer)).expect("a manifest")
    }

    #[test]
    fn files_that_are_gone_are_taken_out_as_far_as_a_start_can_do_without() {
        let folder = std::env::temp_dir().join(format!("varve-check-{}-manifest", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        let path = folder.join("a.manifest");
        let text = "file a.2.base.aof seq 2 type b\nfile a.1.incr.aof seq 1 type h\nfile a.2.incr.aof seq 2 type i\n\
                    file a.3.incr.aof seq 3 type i\n";
        fs::write(&path, text).expect("room");
        fs::write(folder.join("a.2.base.aof"), b"").expect("room");
        let (report, are_there) = check(&path, None).expect("a manifest");
        assert!(
            !are_there && report.contains("a.2.base.aof: 0 bytes\n") && report.contains("a.3.incr.aof: No such file")
        );
        assert_eq!(fs::read_to_string(&path).expect("it is there"), text, "looking changes nothing");
        let (_, are_there) = mended(&path, false);
        assert!(!are_there);
        let without_history = text.replace("file a.1.incr.aof seq 1 type h\n", "");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), without_history, "history goes without a question");
        let (report, are_there) = mended(&path, true);
        assert!(are_there && report.contains("a.2.incr.aof: taken out, it was not there"), "{report}");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "file a.2.base.aof seq 2 type b\n");
        // One that is gone in front of one that is there stays.
        fs::write(&path, without_history).expect("room");
        fs::write(folder.join("a.3.incr.aof"), b"").expect("room");
        let (report, are_there) = mended(&path, true);
        assert!(!are_there && !report.contains("taken out"), "{report}");
        fs::remove_dir_all(folder).expect("it is there");
    }
}
