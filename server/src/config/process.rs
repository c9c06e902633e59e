//! The settings of the process: its title, processors, weight for the system's killer, and its end.

use super::table::Values;

/// The processors that threads may run on: lists as in "0,2-5" or "0-7:2", empty for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuLists {
    /// Of the workers, and of every thread that has no list of its own.
    pub(crate) workers: String,
    /// Of threads that help them: files, handshakes.
    pub(crate) helpers: String,
    /// Of the thread that writes the file of a rewrite.
    pub(crate) rewrite: String,
    /// Of the thread that writes the file of a save.
    pub(crate) save: String,
}

/// How soon the system ends this process where memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OomScore {
    /// The value is added to the one that the process was started with.
    pub(crate) relative: bool,
    /// For a primary, a replica, and child processes, of which there are none.
    pub(crate) values: [i32; 3],
}

/// Lines for the system's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyslogSettings {
    /// The program's name there.
    pub(crate) ident: String,
    /// The facility's number, as the protocol has it.
    pub(crate) facility: u8,
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcessSettings {
    /// The template of the title; None: the process keeps its command line.
    pub(crate) title: Option<String>,
    pub(crate) cpus: CpuLists,
    /// None: the system's value stays.
    pub(crate) oom_score: Option<OomScore>,
    /// None: the system's log gets nothing.
    pub(crate) syslog: Option<SyslogSettings>,
    /// Crashes are reported in the log.
    pub(crate) reports_crashes: bool,
    /// A panic ends the process by status 1.
    pub(crate) exits_on_panic: bool,
    /// Milliseconds after which a worker that does not come back to its loop is reported; 0 for never.
    pub(crate) watchdog_ms: u32,
}

impl ProcessSettings {
    /// The typed form of `values`.
    pub(super) fn of(values: &Values) -> ProcessSettings {
        let adj = values.text("oom-score-adj");
        ProcessSettings {
            title: values.yes("set-proc-title").then(|| values.text("proc-title-template")),
            cpus: CpuLists {
                workers: values.text("server_cpulist"),
                helpers: values.text("bio_cpulist"),
                rewrite: values.text("aof_rewrite_cpulist"),
                save: values.text("bgsave_cpulist"),
            },
            oom_score: (adj != "no").then(|| OomScore {
                relative: adj != "absolute",
                values: oom_values(&values.text("oom-score-adj-values")),
            }),
            syslog: values.yes("syslog-enabled").then(|| SyslogSettings {
                ident: values.text("syslog-ident"),
                facility: facility(&values.text("syslog-facility")),
            }),
            reports_crashes: values.yes("crash-log-enabled"),
            exits_on_panic: values.yes("use-exit-on-panic"),
            watchdog_ms: values.number("watchdog-period"),
        }
    }
}

/// `user` is 1, `local0` to `local7` are 16 to 23.
fn facility(name: &str) -> u8 {
    name.strip_prefix("local").map_or(1, |digit| 16 + digit.parse::<u8>().expect("the table holds local0 to local7"))
}

fn oom_values(canonical: &str) -> [i32; 3] {
    let mut words = canonical.split(' ').map(|word| word.parse().expect("the table holds numbers"));
    std::array::from_fn(|_| words.next().expect("the table holds three"))
}
