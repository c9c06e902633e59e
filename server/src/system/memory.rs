//! Memory of the process, and of the machine or the container in which it runs.
//!
//! ```text
//!   /proc/meminfo                                   the machine's
//!   /proc/self/cgroup    0::/a/b       version 2:   /sys/fs/cgroup/a/b/memory.max, /a/memory.max, /memory.max
//!                        4:memory:/a   version 1:   /sys/fs/cgroup/memory/a/memory.limit_in_bytes, ...
//! ```
//! The least of these is what the process can have: a container's limit is its machine. Inside a container the path is often
//! one of the world outside, whose files are not there; the files of its own root are.

use std::path::{Path, PathBuf};

/// Bytes of a page, as /proc/self/statm counts them on x86-64.
const PAGE_BYTES: u64 = 4096;

/// Resident memory of this process in bytes, 0 if the system does not say.
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    resident(&statm)
}

fn resident(statm: &str) -> u64 {
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * PAGE_BYTES
}

/// Memory of the machine or the container in bytes, 0 if the system does not say.
pub(crate) fn system_memory_bytes() -> u64 {
    bytes_below(Path::new("/"))
}

/// The memory of a machine whose files lie below `root`.
fn bytes_below(root: &Path) -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let machine = total(&read(&root.join("proc/meminfo")));
    let files = limit_files(root, &read(&root.join("proc/self/cgroup")));
    // `max`, or a file that is not there: no limit. Version 1 has a number beyond all machines for none.
    let limits = files.iter().filter_map(|file| read(file).trim().parse::<u64>().ok());
    limits.chain(Some(machine).filter(|&bytes| bytes > 0)).min().unwrap_or(0)
}

fn total(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0) * 1024
}

/// The files that may hold a limit: those of the group and of all groups around it.
fn limit_files(root: &Path, groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (base, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let around = Path::new(path.trim_start_matches('/')).ancestors();
        files.extend(around.map(|group| root.join(base).join(group).join(file)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::{bytes_below, limit_files, resident, resident_bytes, system_memory_bytes, total};
    use std::path::Path;

    #[test]
    fn the_systems_tables_are_understood() {
        assert_eq!(resident("5000 300 200 1 0 400 0\n"), 300 * 4096);
        assert_eq!(resident(""), 0);
        assert_eq!(total("MemTotal:       24684084 kB\nMemFree: 1 kB\n"), 24_684_084 * 1024);
        assert_eq!(total("nothing"), 0);
        assert!(resident_bytes() > 0 && system_memory_bytes() > resident_bytes());
    }

    #[test]
    fn groups_name_their_files() {
        let names = |groups: &str| -> Vec<String> {
            let files = limit_files(Path::new("/"), groups);
            files.iter().map(|path| path.display().to_string()).collect()
        };
        let two = ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"];
        assert_eq!(names("0::/a/b\n"), two);
        let one = ["/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        assert_eq!(names("9:name=systemd:/\n4:cpu,memory:/x\nbroken\n"), one);
    }

    #[test]
    fn a_containers_limit_is_its_machine() {
        let root = std::env::temp_dir().join(format!("varve-memory-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(bytes_below(&root), 0, "a system that says nothing");
        write("proc/meminfo", "MemTotal:       1000 kB\n");
        write("proc/self/cgroup", "0::/service\n");
        write("sys/fs/cgroup/service/memory.max", "max\n");
        assert_eq!(bytes_below(&root), 1_024_000);
        write("sys/fs/cgroup/memory.max", "500000\n");
        assert_eq!(bytes_below(&root), 500_000, "of a group around it");
        write("sys/fs/cgroup/service/memory.max", "400000\n");
        assert_eq!(bytes_below(&root), 400_000);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
