//! Unfinished files of a process that was killed: they are removed at the next start.
//!
//! ```text
//!   temp-PID.rdb  temp-PID.side.rdb  temp-PID.side2.rdb  temp-PID.sync.rdb        a save
//!   temp-SECONDS.PID.rdb                                      the data of a primary
//!   temp-rewriteaof-bg-PID.rdb, .aof  temp-probe-PID.aof      a rewrite, in the folder of the append-only file
//!                └── dead, or the number that this process has now: removed        alive: left alone
//! ```
//! Each kill during a save would leave a file as large as the data set, until the disk is full. Files under other names are
//! somebody else's. redis-server names its own in the same way, and removes none.

use std::path::Path;

use super::aof::place::Place;
use crate::config::Config;
use crate::system::disk::{Disk, System};
use crate::system::error_text;

/// Removes what dead processes have left unfinished, where these settings keep files. Nothing of this process is under way yet.
pub(super) fn remove(config: &Config) {
    if !Path::new("/proc/self").exists() {
        // Nobody says who is alive.
        return;
    }
    let own = std::process::id();
    let is_over = |pid: u32| pid == own || !Path::new("/proc").join(pid.to_string()).exists();
    if let Ok(folder) = std::env::current_dir() {
        remove_from(&System, &folder, &is_over);
    }
    if let Ok(place) = Place::of(config) {
        remove_from(&*place.disk, &place.folder, &is_over);
    }
}

fn remove_from(disk: &dyn Disk, folder: &Path, is_over: &dyn Fn(u32) -> bool) {
    // A folder that is not there yet has no files.
    for name in disk.names(folder).unwrap_or_default() {
        let shown = name.to_string_lossy();
        if !writer(&shown).is_some_and(is_over) {
            continue;
        }
        match disk.remove(&folder.join(&name)) {
            Ok(()) => tracing::info!("Removed the unfinished file {shown} of a process that is gone"),
            Err(error) => tracing::warn!("Can't remove the unfinished file {shown}: {}", error_text(&error)),
        }
    }
}

/// The number of the process that has made an unfinished file of this name; None if the name is of no such file.
fn writer(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("temp-")?;
    let in_append_folder = rest.strip_prefix("rewriteaof-bg-").map(|rest| (rest, &[".rdb", ".aof"][..]));
    let (rest, ends) = in_append_folder
        .or_else(|| Some((rest.strip_prefix("probe-")?, &[".aof"][..])))
        .unwrap_or((rest, &[".side.rdb", ".side2.rdb", ".sync.rdb", ".rdb"][..]));
    let number = ends.iter().find_map(|end| rest.strip_suffix(end))?;
    let (seconds, pid) = number.split_once('.').unwrap_or(("0", number));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(seconds) && is_number(pid)).then(|| pid.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::disk::failing::FailingDisk;

    #[test]
    fn names_of_unfinished_files_have_the_number_of_their_process() {
        let ours =
            ["temp-12.rdb", "temp-12.side.rdb", "temp-12.side2.rdb", "temp-12.sync.rdb", "temp-1700000000.12.rdb"];
        let in_folder = ["temp-rewriteaof-bg-12.rdb", "temp-rewriteaof-bg-12.aof", "temp-probe-12.aof"];
        for name in ours.iter().chain(&in_folder) {
            assert_eq!(writer(name), Some(12), "{name}");
        }
        for name in [
            "dump.rdb",
            "temp.rdb",
            "temp-.rdb",
            "temp-12",
            "temp-12.rdb.bak",
            "temp-x12.rdb",
            "temp-12x.rdb",
            "temp-+12.rdb",
            "temp-12.13.14.rdb",
            "temp-12.aof",
            "temp-appendonly.aof.manifest",
            "temp-rewriteaof-12.aof",
            "temp-99999999999.rdb",
            "old-temp-12.rdb",
        ] {
            assert_eq!(writer(name), None, "{name}");
        }
    }

    #[test]
    fn files_of_living_processes_and_of_others_stay() {
        let disk = FailingDisk::default();
        let all = ["temp-7.rdb", "temp-8.rdb", "temp-rewriteaof-bg-7.aof", "dump.rdb", "temp-notes.rdb"];
        all.iter().for_each(|name| drop(disk.create(&Path::new("/d").join(name)).expect("no fault")));
        remove_from(&disk, Path::new("/d"), &|pid| pid == 7);
        let mut left = disk.names(Path::new("/d")).expect("no fault");
        left.sort();
        assert_eq!(left, ["dump.rdb", "temp-8.rdb", "temp-notes.rdb"]);
    }
}
