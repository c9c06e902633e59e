//! The machine as far as it may hinder the server: looked at when it starts, and by `--check-system`.
//!
//! ```text
//!   /proc/sys/vm/overcommit_memory     2: no large range of addresses, refusals where there is memory
//!   /proc/sys/vm/max_map_count         below the usual: collections of threads and segments may be refused mappings
//!   /proc/sys/net/core/somaxconn       below tcp-backlog: bursts of connections are refused
//!   /sys/../transparent_hugepage       never: segments cannot have huge pages
//!   /sys/../current_clocksource        not read by the processor alone: each reading of the clock costs a call
//!   /proc/swaps                        swap in use: a page that is swapped out keeps a worker waiting
//!   limit on open files                fewer clients than maxclients
//! ```
//! Only what an operator can change is said, with the way to change it. A file that is not there says nothing.

use std::path::{Path, PathBuf};

/// Mappings that a process may have by default.
const MAPPINGS_MIN: u64 = 65_530;
/// Sources of the clock that are read without a call of the system.
const FAST_CLOCKS: [&str; 6] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase", "tod"];

/// The demands of the server on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demands {
    /// The queue of connections that wait to be accepted.
    pub(crate) backlog: u64,
    /// Descriptors, and those that a process may have.
    pub(crate) files: u64,
    pub(crate) files_max: u64,
}

/// A look at the machine.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Where its files are: `/`.
    root: PathBuf,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Its short name.
    pub(crate) name: &'static str,
    /// The reason why it hinders the server, and the remedy; None if nothing does.
    pub(crate) trouble: Option<String>,
}

impl Machine {
    /// This machine.
    pub(crate) fn this() -> Machine {
        Machine { root: PathBuf::from("/") }
    }

    /// Everything, in a fixed order.
    pub(crate) fn look(&self, demands: Demands) -> Vec<Finding> {
        let finding = |name, trouble| Finding { name, trouble };
        vec![
            finding("overcommit", self.overcommit()),
            finding("max-map-count", self.mappings()),
            finding("backlog", self.backlog(demands.backlog)),
            finding("open-files", open_files(demands)),
            finding("huge-pages", self.huge_pages()),
            finding("clock", self.clock()),
            finding("swap", self.swap()),
        ]
    }

    fn text(&self, path: &str) -> Option<String> {
        let path = self.root.join(Path::new(path).strip_prefix("/").expect("an absolute path"));
        std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    fn overcommit(&self) -> Option<String> {
        (self.number("/proc/sys/vm/overcommit_memory")? == 2).then(|| {
            "The system gives no more memory than it has set aside (vm.overcommit_memory = 2): the range of the segments is \
             smaller, and writes may be refused while memory is free. 'sysctl vm.overcommit_memory=1' and \
             'vm.overcommit_memory = 1' in /etc/sysctl.conf change that."
                .to_owned()
        })
    }

    fn mappings(&self) -> Option<String> {
        let most = self.number("/proc/sys/vm/max_map_count")?;
        (most < MAPPINGS_MIN).then(|| {
            format!(
                "A process may have {most} mappings only (vm.max_map_count): memory may be refused while it is free. \
                 'sysctl vm.max_map_count={MAPPINGS_MIN}' changes that."
            )
        })
    }

    fn backlog(&self, wanted: u64) -> Option<String> {
        let most = self.number("/proc/sys/net/core/somaxconn")?;
        (most < wanted).then(|| {
            format!(
                "The TCP backlog setting of {wanted} cannot be enforced because /proc/sys/net/core/somaxconn is set to the \
                 lower value of {most}."
            )
        })
    }

    fn huge_pages(&self) -> Option<String> {
        // The word that is in force stands in brackets.
        self.text("/sys/kernel/mm/transparent_hugepage/enabled")?.contains("[never]").then(|| {
            "Huge pages are off: keys that are reached at random cost more. 'echo madvise > \
             /sys/kernel/mm/transparent_hugepage/enabled' lets the segments have them, and nothing else."
                .to_owned()
        })
    }

    fn clock(&self) -> Option<String> {
        let clock = self.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")?;
        (!FAST_CLOCKS.contains(&clock.as_str())).then(|| {
            format!(
                "The clock '{clock}' is slow to read. If the machine has another one, 'echo tsc > \
                 /sys/devices/system/clocksource/clocksource0/current_clocksource' takes it."
            )
        })
    }

    fn swap(&self) -> Option<String> {
        let used = |line: &str| line.split_whitespace().nth(3)?.parse::<u64>().ok();
        let used_kb: u64 = self.text("/proc/swaps")?.lines().skip(1).filter_map(used).sum();
        (used_kb > 0).then(|| {
            format!(
                "{used_kb} KB are swapped out on this machine: a worker that needs such a page waits for the disk, and all its \
                 clients with it. Set maxmemory below the machine's memory, or 'sysctl vm.swappiness=1'."
            )
        })
    }
}

fn open_files(demands: Demands) -> Option<String> {
    let Demands { files, files_max, .. } = demands;
    (files_max < files).then(|| {
        format!(
            "maxclients needs {files} open files, and a process may have {files_max} (ulimit -n; LimitNOFILE= of a unit): \
             fewer clients are served."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{Demands, Machine};
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const DEMANDS: Demands = Demands { backlog: 511, files: 100, files_max: 1000 };

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The names of what hinders the server on a machine with these files.
    fn troubles(files: &[(&str, &str)], demands: Demands) -> Vec<&'static str> {
        // The tests run side by side: each look has a folder of its own.
        static LOOKS: AtomicUsize = AtomicUsize::new(0);
        let look = LOOKS.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("varve-machine-{}-{look}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(&root).unwrap();
        files.iter().for_each(|(path, text)| write(&root, path, text));
        let found = Machine { root: root.clone() }.look(demands);
        std::fs::remove_dir_all(&root).unwrap();
        found.into_iter().filter(|finding| finding.trouble.is_some()).map(|finding| finding.name).collect()
    }

    #[test]
    fn a_machine_without_files_hinders_nothing() {
        assert_eq!(troubles(&[], DEMANDS), [""; 0]);
        assert_eq!(troubles(&[], Demands { files_max: 99, ..DEMANDS }), ["open-files"]);
    }

    #[test]
    fn each_trouble_is_found() {
        let good = [
            ("proc/sys/vm/overcommit_memory", "0\n"),
            ("proc/sys/vm/max_map_count", "65530\n"),
            ("proc/sys/net/core/somaxconn", "4096\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1000 0 -2\n"),
        ];
        assert_eq!(troubles(&good, DEMANDS), [""; 0]);
        let bad = ["2\n", "1000\n", "128\n", "always madvise [never]\n", "xen\n", "F T S U P\n/dev/sda2 p 1000 7 -2\n"];
        let names = ["overcommit", "max-map-count", "backlog", "huge-pages", "clock", "swap"];
        for ((at, text), name) in bad.iter().enumerate().zip(names) {
            let mut files = good;
            files[at].1 = text;
            assert_eq!(troubles(&files, DEMANDS), [name]);
        }
    }
}
