//! Things that are made of files once, and again when these change: the libraries of a program in another language.

use std::fs;
use std::io;
use std::path::Path;

/// Copies the files `names`, which say what a program needs, from one folder to another one, and makes that, unless `made` is there
/// and was made from the same files.
///
/// # Errors
/// A file that cannot be copied, and those of `make`.
pub fn made_once(
    from: &Path,
    to: &Path,
    names: &[&str],
    made: &str,
    make: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let same = |name: &&str| fs::read(from.join(name)).ok() == fs::read(to.join(name)).ok();
    if names.iter().all(same) && to.join(made).exists() {
        return Ok(());
    }
    for name in names {
        fs::copy(from.join(name), to.join(name))?;
    }
    make()
}
