//! INFO: what is known of the server, as sections of `name:value` lines.
//!
//! ```text
//!   workers, store, configuration ──> Facts (gathered by the server) ──> sections that were asked for ──> text
//! ```
//! Sections and field names are those of Redis 7.0.15, which tools look for; what Varve does not do is answered with
//! the value that is then true (no save under way, no replica, no module). CONFIG RESETSTAT is here too: it
//! starts the counts that INFO shows. The same figures are there over HTTP (`metrics`).

mod about;
mod crash;
mod facts;
mod gather;
pub(crate) mod metrics;
mod peak;
mod sections;
mod syncs;

#[cfg(test)]
mod tests;

pub(crate) use about::{report_memory, start, startup_bytes};
pub(crate) use crash::inform_crashes;
use facts::Facts;
use gather::{Costly, facts};

use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, arg};
use varve_commands::grammar::asked_names;
use varve_exec::CmdResult;

use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[INFO];

/// The subcommands of CONFIG in this matter.
pub(super) const CONFIG: ServerRows = &[RESETSTAT];

/// `INFO [section ...]`
fn info(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let names = asked_names(ctx.args, 1)?;
    let text = render(names.iter(), &facts(ctx.state, costly(names.iter())));
    ctx.out.verbatim(*b"txt", text.as_bytes());
    Ok(After::Done)
}

const INFO: ServerCommand = ServerCommand::new(
    info,
    Row::new("info", Group::Server, -1, "1.0.0")
        .about("Describes the server and its counters.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::DANGEROUS])
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .history(&[("7.0.0", "Several sections.")])
        .args(&[arg("section", ArgKind::String).optional().multiple()])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `CONFIG RESETSTAT`
fn resetstat(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    gather::reset(ctx.state);
    ctx.out.ok();
    Ok(After::Done)
}

const RESETSTAT: ServerCommand = ServerCommand::new(
    resetstat,
    Row::sub("config|resetstat", "resetstat", Group::Server, 2, "2.0.0")
        .about("Sets the counters that INFO shows to zero.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// When a section is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// By a plain INFO, and by all that shows more.
    Default,
    /// By `all` and `everything`, or when it is named.
    Asked,
}

struct Section {
    name: &'static str,
    title: &'static str,
    shown: Shown,
    write: fn(&Facts, &mut Lines),
}

const SECTIONS: [Section; 14] = [
    Section { name: "server", title: "Server", shown: Shown::Default, write: sections::server },
    Section { name: "clients", title: "Clients", shown: Shown::Default, write: sections::clients },
    Section { name: "memory", title: "Memory", shown: Shown::Default, write: sections::memory },
    Section { name: "persistence", title: "Persistence", shown: Shown::Default, write: sections::persistence },
    Section { name: "stats", title: "Stats", shown: Shown::Default, write: sections::stats },
    Section { name: "replication", title: "Replication", shown: Shown::Default, write: sections::replication },
    Section { name: "cpu", title: "CPU", shown: Shown::Default, write: sections::cpu },
    Section { name: "modules", title: "Modules", shown: Shown::Default, write: |_, _| {} },
    Section { name: "commandstats", title: "Commandstats", shown: Shown::Asked, write: sections::commandstats },
    Section { name: "errorstats", title: "Errorstats", shown: Shown::Default, write: sections::errorstats },
    Section { name: "latencystats", title: "Latencystats", shown: Shown::Asked, write: sections::latencystats },
    Section { name: "background", title: "Background", shown: Shown::Asked, write: sections::background },
    Section { name: "cluster", title: "Cluster", shown: Shown::Default, write: sections::cluster },
    Section { name: "keyspace", title: "Keyspace", shown: Shown::Default, write: sections::keyspace },
];

/// The sections that these names ask for; none is `default`. Unknown names ask for nothing.
fn asked<'n>(names: impl Iterator<Item = &'n [u8]> + Clone) -> impl Iterator<Item = &'static Section> {
    let is_empty = names.clone().next().is_none();
    let any = move |word: &str| names.clone().any(|name| name.eq_ignore_ascii_case(word.as_bytes()));
    let all = any("all") || any("everything");
    let default = all || any("default") || is_empty;
    SECTIONS.iter().filter(move |section| all || any(section.name) || (default && section.shown == Shown::Default))
}

/// The costly facts that the sections of these names show.
fn costly<'n>(names: impl Iterator<Item = &'n [u8]> + Clone) -> Costly {
    let mut wanted = Costly { background: false, commands: false };
    for section in asked(names) {
        wanted.background |= section.name == "background";
        wanted.commands |= matches!(section.name, "commandstats" | "latencystats");
    }
    wanted
}

/// The text of INFO with these section names.
pub(crate) fn render<'n>(names: impl Iterator<Item = &'n [u8]> + Clone, facts: &Facts) -> String {
    let mut lines = Lines(String::new());
    for section in asked(names) {
        lines.title(section.title);
        (section.write)(facts, &mut lines);
    }
    lines.0
}

/// The text as it grows.
struct Lines(String);

impl Lines {
    fn title(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.push_str("\r\n");
        }
        self.0.push_str(&format!("# {title}\r\n"));
    }

    fn put(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push_str(&format!("{name}:{value}\r\n"));
    }

    /// Fields that are all 0: what Varve does not do, or has nothing to count of.
    fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.put(name, 0));
    }

    /// A number of bytes, and beside it the same for humans.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.put(name, bytes);
        self.put(&format!("{name}_human"), human(bytes));
    }
}

/// Bytes with two decimals in the largest unit that is not above them.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let power = (bytes.ilog2() / 10).min(UNITS.len() as u32);
    format!("{:.2}{}", bytes as f64 / 1024f64.powi(power as i32), UNITS[power as usize - 1])
}
