//! `all`: every experiment, one after the other, into one folder with one report.
//!
//! ```text
//!   FOLDER/settings.json             size and servers of the run
//!   FOLDER/NAME.json .csv -N.svg     written as soon as an experiment ends; it is not run again
//!   FOLDER/NAME.cases                the cases of the experiment under way that are measured, a line each, and its whole figures
//!   FOLDER/report.html               from all NAME.json that are there, after each experiment, whichever were asked for
//!   FOLDER/log.txt                   the lines that the experiments showed
//! ```
//! Stopped by ^C, it writes the report of what there is, with what the cases of the experiment under way allow to be drawn. Run again with the same folder, it goes on with what is missing, also
//! within an experiment: a stop loses the case under way and no other ([`kept`]). A folder of another size or of other servers is
//! not mixed with: it must be emptied first (`--again`).

use crate::report::{self, About, Findings};
use crate::say;
use crate::screen::{self, Progress};
use crate::size::Size;
use crate::{
    apply, collections, commands, cores, engine, fragmentation, giveback, hitrate, holds, kept, lists, longlist,
    machine, misses,
};
use crate::{
    mixes, pipe, point, publish, reclaim, replication, save, scripts, segments, so_far, tails, tls, types, ycsb,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An experiment of the list.
struct Entry {
    name: &'static str,
    title: &'static str,
    /// Usual seconds of the quick form and of the full form, on two cores.
    usual_s: (f64, f64),
    /// Part of the tiny form, which is a test.
    tiny: bool,
    /// Part of the full form alone: it has no smaller data.
    full: bool,
    run: fn(Size) -> io::Result<Findings>,
}

const fn entry(
    name: &'static str,
    title: &'static str,
    usual_s: (f64, f64),
    run: fn(Size) -> io::Result<Findings>,
) -> Entry {
    Entry { name, title, usual_s, tiny: false, full: false, run }
}

const fn tiny(entry: Entry) -> Entry {
    Entry { tiny: true, ..entry }
}

const fn full(entry: Entry) -> Entry {
    Entry { full: true, ..entry }
}

impl Entry {
    /// Its edition, see [`EDITIONS`].
    fn edition(&self) -> u32 {
        EDITIONS.iter().find(|(name, _)| *name == self.name).map_or(1, |(_, edition)| *edition)
    }

    /// The findings that a folder has of it.
    fn read(&self, folder: &Path) -> Option<Findings> {
        report::read(folder, self.name)
    }

    /// True where a folder has it, and has it of this edition.
    fn is_measured(&self, folder: &Path) -> bool {
        self.read(folder).is_some_and(|findings| findings.edition == self.edition())
    }

    /// True of one that a run of this size has.
    fn is_of(&self, size: Size) -> bool {
        match size {
            Size::Tiny => self.tiny,
            Size::Quick => !self.full,
            Size::Full => true,
        }
    }
}

const LIST: &[Entry] = &[
    tiny(entry("lists-40b-piped", "The quicklist's sheets: 40 B, pipeline 1000", (8.0, 1400.0), |size| {
        lists::run(size, Some("40b-piped"))
    })),
    tiny(entry("lists-40b-single", "The quicklist's sheets: 40 B, no pipeline", (10.0, 2700.0), |size| {
        lists::run(size, Some("40b-single"))
    })),
    tiny(entry("lists-1kb-piped", "The quicklist's sheets: 1 KB, pipeline 1000", (10.0, 4000.0), |size| {
        lists::run(size, Some("1kb-piped"))
    })),
    tiny(entry("lists-1kb-single", "The quicklist's sheets: 1 KB, no pipeline", (12.0, 2700.0), |size| {
        lists::run(size, Some("1kb-single"))
    })),
    tiny(entry("longlist", "Redis in Action, listing 9.5: long packed lists", (8.0, 600.0), longlist::run)),
    entry(
        "fragmentation",
        "The paper's Tables 1 and 5, Fig. 1 and 5: memory under eviction",
        (100.0, 1800.0),
        |size| fragmentation::run(size.is_small(), &fragmentation::Choice::default()),
    ),
    // Each takes half an hour to an hour: all four would take longer than an experiment may.
    full(entry("fragmentation-10gb-w1", "The paper's Table 5 at its own 10 GB: W1", (0.0, 2400.0), |_| {
        fragmentation::run(false, &fragmentation::Choice::ten_gb(Some("W1")))
    })),
    full(entry("fragmentation-10gb-w2", "The paper's Table 5 at its own 10 GB: W2", (0.0, 2400.0), |_| {
        fragmentation::run(false, &fragmentation::Choice::ten_gb(Some("W2")))
    })),
    full(entry("fragmentation-10gb-w3", "The paper's Table 5 at its own 10 GB: W3", (0.0, 2400.0), |_| {
        fragmentation::run(false, &fragmentation::Choice::ten_gb(Some("W3")))
    })),
    full(entry("fragmentation-10gb-w4", "The paper's Table 5 at its own 10 GB: W4", (0.0, 2400.0), |_| {
        fragmentation::run(false, &fragmentation::Choice::ten_gb(Some("W4")))
    })),
    entry("misses", "The paper's Table 2: cache misses", (10.0, 900.0), |size| misses::run(size.is_small())),
    entry("reclaim", "The paper's Fig. 6: three formulas", (60.0, 3000.0), |size| reclaim::run(size.is_small())),
    tiny(entry("mixes", "The paper's Fig. 7 and 8: delay and throughput", (24.0, 900.0), |size| {
        mixes::run(size.is_small(), None)
    })),
    entry("ycsb", "Beyond the paper's Fig. 8: YCSB itself", (25.0, 3600.0), |size| {
        ycsb::run(size.is_small(), None, false)
    }),
    entry("point", "Single keys", (8.0, 900.0), |size| point::run(size.is_small(), None)),
    entry("commands", "redis-benchmark's commands", (7.0, 900.0), |size| commands::run(size.is_small(), None, None)),
    entry("collections", "Collections by size", (36.0, 3000.0), |size| collections::run(size.is_small(), None)),
    entry("types", "Streams, geo, HyperLogLog, bitmaps, fields that expire", (12.0, 900.0), |size| {
        types::run(size.is_small(), None)
    }),
    entry("scripts", "Scripts and functions", (2.0, 300.0), |size| scripts::run(size.is_small(), None)),
    entry("engine", "Growth with threads, in process", (5.0, 600.0), |size| engine::run(2, size.is_small())),
    entry("segments", "What many segments cost, in process", (4.0, 300.0), |size| segments::run(size.is_small())),
    entry("cores", "Growth with cores, whole servers", (24.0, 900.0), cores::run),
    entry("apply", "A stream of commands, applied in process", (2.0, 120.0), |size| apply::run(2, size.is_small())),
    entry("tls", "The cost of TLS", (12.0, 900.0), |size| tls::run(size.is_small(), None)),
    entry("publish", "One publisher, many subscribers", (5.0, 600.0), |size| publish::run(size.is_small(), 3)),
    entry("pipe", "A mass insertion by redis-cli", (2.0, 120.0), |size| pipe::run(size.is_small())),
    entry("giveback", "Memory that goes back", (29.0, 600.0), |size| giveback::run(size.is_small(), None)),
    entry("hitrate", "Hit rates of the eviction policies", (55.0, 1700.0), |size| hitrate::run(size.is_small())),
    entry("holds", "What a long command keeps others from", (26.0, 2500.0), holds::run),
    entry("save", "Saving and loading", (12.0, 900.0), |size| save::run(size.is_small())),
    entry("replication", "The cost of a replica", (5.0, 1200.0), |size| replication::run(size.is_small(), None)),
    entry("tails", "Times of a GET at half load", (45.0, 1800.0), |size| tails::run(size.is_small(), None)),
];

/// Experiments that are no longer in their first edition. The number is counted up when an experiment measures more, or in another
/// way: what an earlier edition found is drawn until it is measured again.
const EDITIONS: &[(&str, u32)] = &[
    ("lists-40b-piped", 2),
    ("lists-40b-single", 2),
    ("lists-1kb-piped", 2),
    ("lists-1kb-single", 2),
    ("longlist", 2),
    ("fragmentation", 2),
    ("misses", 2),
    ("ycsb", 2),
    ("engine", 2),
    ("cores", 2),
    ("tls", 2),
    ("publish", 2),
    ("hitrate", 2),
    ("holds", 2),
    ("replication", 2),
    ("tails", 2),
];

/// Experiments without a floor or without rivals, and why.
const WITHOUT: &[(&str, &str)] = &[
    (
        "misses",
        "There is no floor here: it runs hardly an instruction outside of the kernel, and callgrind sees no other.",
    ),
    (
        "reclaim",
        "Varve is alone here: the three formulas are a setting of its own, and a server that parses nothing holds nothing to \
         reclaim.",
    ),
    ("engine", "There is no server here, hence neither a floor nor a rival: the store runs in this process."),
    ("segments", "There is no server here, hence neither a floor nor a rival: the store runs in this process."),
    ("apply", "There is no server here, hence neither a floor nor a rival: the commands are applied in this process."),
    (
        "tls",
        "There are no rivals here: each server has settings of its own for certificates. The floor has no TLS: that of plain \
         requests is drawn beside both. The floor of a handshake accepts connections and sees them end.",
    ),
    (
        "pipe",
        "There is no floor here: it answers when the bytes of a request are there, and redis-cli ends by a reply that it \
         knows again.",
    ),
    (
        "giveback",
        "There is no floor here: it holds no data. Varve is alone in what is said of keys that expire, which its own INFO tells.",
    ),
    ("holds", "There is no floor here: a server that parses nothing has no collection that a command could hold."),
    (
        "save",
        "There are neither a floor nor rivals here: the first keeps nothing, the others have settings of their own for files.",
    ),
    (
        "replication",
        "There are no rivals here: each server has settings of its own for replicas. The floor replicates nothing: that of a SET \
         alone is drawn beside both, and the other parts have none.",
    ),
];

/// How to run all.
pub(crate) struct Plan {
    pub(crate) size: Size,
    /// Only experiments with these names; all where it is empty.
    pub(crate) only: Vec<String>,
    /// The folder; `target/bench/SIZE` without one.
    pub(crate) into: Option<PathBuf>,
    /// Measures what is there already once more.
    pub(crate) again: bool,
}

/// Runs what is missing and writes the report.
///
/// # Errors
/// When the folder cannot be written or holds another run, or a server does not start. An experiment that fails is named in
/// the report, and fails the whole at its end.
pub(crate) fn run(plan: &Plan) -> io::Result<()> {
    let word = plan.size.word();
    let folder = plan.into.clone().unwrap_or_else(|| varve_testkit::server::target_dir().join("bench").join(word));
    fs::create_dir_all(&folder)?;
    let wanted = wanted(plan)?;
    let facts = machine::facts(plan.size)?;
    settle(&folder, &facts, plan.again.then_some(&wanted[..]))?;
    screen::log_to(&folder.join("log.txt"))?;
    screen::watch_interrupts()?;
    let missing: Vec<&Entry> = wanted.iter().copied().filter(|entry| !entry.is_measured(&folder)).collect();
    let usual = |entry: &Entry| if plan.size.is_small() { entry.usual_s.0 } else { entry.usual_s.1 };
    let mut progress = Progress::new(missing.iter().map(|entry| usual(entry)).sum());
    let (mut failed, under) = (Vec::new(), machine::under()?);
    for entry in missing {
        let before_s = kept::begin(&cases_file(&folder, entry), &under)?;
        progress.begin(entry.name, usual(entry), before_s);
        let moment = machine::moment(before_s);
        let found = (entry.run)(plan.size);
        let took = progress.end();
        match found {
            Ok(findings) => {
                report::write(&folder, &ended(findings, entry, took, &moment))?;
                kept::end()?;
            }
            Err(_) if screen::is_stopped() => break,
            Err(error) => failed.push(format!("{} failed: {error}", entry.name)),
        }
        say!("{} took {took:.0} s", entry.name);
        write_report(&folder, &facts, plan.size, &failed)?;
    }
    drop(progress);
    write_report(&folder, &facts, plan.size, &failed)?;
    println!("{}", folder.join("report.html").display());
    screen::go_on()?;
    if failed.is_empty() { Ok(()) } else { Err(io::Error::other(failed.join("\n"))) }
}

/// The longest that an experiment may take, in seconds.
const LONGEST_S: f64 = 5400.0;

/// The findings of an experiment that has ended, with facts from the list and how long it took.
fn ended(findings: Findings, entry: &Entry, took: f64, moment: &str) -> Findings {
    let (title, edition) = (entry.title.into(), entry.edition());
    let mut findings = Findings { title, edition, took: Some(took), ..findings };
    let without = WITHOUT.iter().filter(|(name, _)| *name == entry.name);
    findings = without.fold(findings, |findings, (_, why)| findings.note(*why)).note(moment);
    if took > LONGEST_S {
        findings = findings.note("That is longer than the 90 minutes that an experiment is meant to take at most.");
    }
    findings
}

fn wanted(plan: &Plan) -> io::Result<Vec<&'static Entry>> {
    // A part of an experiment is called NAME-PART.
    let is_of = |entry: &Entry, name: &String| {
        entry.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    if let Some(name) = plan.only.iter().find(|name| !LIST.iter().any(|entry| is_of(entry, name))) {
        let names: Vec<&str> = LIST.iter().map(|entry| entry.name).collect();
        return Err(io::Error::other(format!("no experiment {name}: {}", names.join(", "))));
    }
    // One that is named is run though the tiny form does not have it.
    let chosen = |entry: &&Entry| match plan.only.is_empty() {
        true => entry.is_of(plan.size),
        false => plan.only.iter().any(|name| is_of(entry, name)) && (!entry.full || plan.size == Size::Full),
    };
    Ok(LIST.iter().filter(chosen).collect())
}

/// The file with the cases of an experiment that has not ended.
fn cases_file(folder: &Path, entry: &Entry) -> PathBuf {
    folder.join(format!("{}.cases", entry.name))
}

/// Facts that must be the same for figures of one folder.
fn settings(facts: &[(String, String)]) -> Vec<&(String, String)> {
    facts.iter().filter(|(name, _)| !machine::PASSING.contains(&name.as_str())).collect()
}

/// Refuses a folder of another run. Removes what is to be measured again, if that is wished: where this leaves nothing, the
/// folder becomes one of this run.
fn settle(folder: &Path, facts: &[(String, String)], again: Option<&[&Entry]>) -> io::Result<()> {
    let file = folder.join("settings.json");
    let text = serde_json::to_string_pretty(&settings(facts)).map_err(io::Error::other)? + "\n";
    let results = |entry: &Entry| [folder.join(format!("{}.json", entry.name)), cases_file(folder, entry)];
    let is_removed = |entry: &Entry| again.is_some_and(|again| again.iter().any(|one| one.name == entry.name));
    let is_other = fs::read_to_string(&file).is_ok_and(|there| there != text);
    let stays = |entry: &&Entry| !is_removed(entry) && results(entry).iter().any(|file| file.exists());
    if is_other && (again.is_none() || LIST.iter().any(|entry| stays(&entry))) {
        let what = format!(
            "{} holds a run of another size, or of other servers: --again without --only measures all of it anew",
            folder.display()
        );
        return Err(io::Error::other(what));
    }
    for file in LIST.iter().filter(|entry| is_removed(entry)).flat_map(results) {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::write(file, text)
}

/// The report of all that the folder has, whatever was asked for this time.
fn write_report(folder: &Path, facts: &[(String, String)], size: Size, failed: &[String]) -> io::Result<()> {
    let (mut all, mut missing, mut old) = (Vec::new(), Vec::new(), Vec::new());
    for entry in LIST {
        if let Some(findings) = entry.read(folder) {
            // Cases of the present edition are drawn once it is whole.
            let is_old = findings.edition != entry.edition();
            old.extend(is_old.then_some(entry.name));
            all.push(if is_old { findings.note(OLD) } else { findings });
            continue;
        }
        let (cases, count) = kept::so_far(&cases_file(folder, entry));
        let until_now = so_far::findings(entry.name, entry.title, cases);
        if entry.is_of(size) || count > 0 {
            missing.push(missing_text(entry.name, count, until_now.is_some()));
        }
        all.extend(until_now);
    }
    let of_last = |(name, value): &(String, String)| match machine::PASSING.contains(&name.as_str()) {
        true => (format!("{name}, of the last run"), value.clone()),
        false => (name.clone(), value.clone()),
    };
    let facts = facts.iter().map(of_last).collect();
    let mut about = About { facts, warnings: size.warning().map(str::to_string).into_iter().collect() };
    about.warnings.extend(failed.iter().cloned());
    if !missing.is_empty() {
        let names = missing.join(", ");
        about.warnings.push(format!("Not measured yet: {names}. `cargo xtask bench all` goes on with them."));
    }
    if !old.is_empty() {
        let names = old.join(", ");
        let text = format!("Measured by an earlier edition: {names}. `cargo xtask bench all` measures them again.");
        about.warnings.push(text);
    }
    report::write_page(folder, &about, &all)
}

/// The sentence of an experiment that has changed since it was measured.
const OLD: &str = "An earlier edition of this experiment measured these figures: the present one measures more, or in another way, and \
                   is still to be run.";

/// The name of an experiment that is not measured, with what there is of it.
fn missing_text(name: &str, cases: usize, is_drawn: bool) -> String {
    let are = if cases == 1 { "case is" } else { "cases are" };
    match cases {
        0 => name.to_string(),
        _ if is_drawn => format!("{name} ({cases} {are} measured; what they allow is drawn as incomplete)"),
        _ => format!("{name} ({cases} {are} measured, and not drawn before all are)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_and_the_tiny_form_is_small() {
        let plan = |size, only: &[&str]| Plan {
            size,
            only: only.iter().map(ToString::to_string).collect(),
            into: None,
            again: false,
        };
        assert_eq!(wanted(&plan(Size::Full, &[])).unwrap().len(), LIST.len());
        assert!(wanted(&plan(Size::Tiny, &[])).unwrap().len() < LIST.len() / 2);
        let lists = wanted(&plan(Size::Full, &["lists"])).unwrap();
        assert!(lists.iter().map(|entry| entry.name).eq(lists::PARTS.map(|(part, ..)| format!("lists-{part}"))));
        assert!(LIST.iter().all(|entry| entry.usual_s.1 <= LONGEST_S), "each usually ends within 90 minutes");
        assert!(
            LIST.iter().map(|entry| entry.usual_s.0).sum::<f64>() <= 600.0,
            "the quick form of all, in ten minutes"
        );
        assert_eq!(wanted(&plan(Size::Full, &["lists-1kb-single"])).unwrap().len(), 1);
        assert_eq!(wanted(&plan(Size::Tiny, &["save"])).unwrap()[0].name, "save");
        assert!(wanted(&plan(Size::Quick, &["nothing"])).is_err());
        assert_eq!(wanted(&plan(Size::Quick, &["fragmentation"])).unwrap().len(), 1, "the quick form has no 10 GB");
        let at_10_gb = LIST.iter().filter(|entry| entry.name.starts_with("fragmentation-10gb-")).count();
        assert_eq!(at_10_gb, 4, "a workload each");
        assert_eq!(wanted(&plan(Size::Full, &["fragmentation"])).unwrap().len(), 1 + at_10_gb);
        assert_eq!(wanted(&plan(Size::Quick, &[])).unwrap().len() + at_10_gb, LIST.len());
        for name in WITHOUT.iter().map(|(name, _)| name).chain(EDITIONS.iter().map(|(name, _)| name)) {
            assert!(LIST.iter().any(|entry| entry.name == *name), "{name}");
        }
    }

    #[test]
    fn a_folder_keeps_to_one_run() {
        let folder = std::env::temp_dir().join(format!("varve-all-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let facts =
            |size: &str| vec![("size".to_string(), size.to_string()), ("commit".into(), folder.display().to_string())];
        settle(&folder, &facts("quick"), None).unwrap();
        settle(&folder, &facts("quick"), None).unwrap();
        assert!(settle(&folder, &facts("full"), None).is_err());
        let all: Vec<&Entry> = LIST.iter().collect();
        settle(&folder, &facts("full"), Some(&all)).unwrap();
        // One that is measured again takes no other with it, and does not make the folder one of another run.
        let [one, other] = ["scripts", "save"].map(|name| {
            report::write(&folder, &Findings::new(name, "")).unwrap();
            LIST.iter().find(|entry| entry.name == name).unwrap()
        });
        assert!(settle(&folder, &facts("quick"), Some(&[one])).is_err());
        settle(&folder, &facts("full"), Some(&[one])).unwrap();
        assert!(report::read(&folder, one.name).is_none() && report::read(&folder, other.name).is_some());
        settle(&folder, &facts("quick"), Some(&[other])).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_report_has_all_that_the_folder_has() {
        let folder = std::env::temp_dir().join(format!("varve-report-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["scripts", "save"] {
            report::write(&folder, &Findings::new(name, name)).unwrap();
        }
        let line = |case: &str, value: &str| {
            format!("{{\"case\":\"{case}\",\"under\":\"m\",\"seconds\":1.0,\"value\":{value}}}\n")
        };
        fs::write(folder.join("tails.cases"), line("half load", "1.5") + &line("quiet", "[2.0]")).unwrap();
        let row = serde_json::to_string(&report::Row::new("a handshake", "ms", [1.0, 2.0])).unwrap();
        fs::write(folder.join("tls.cases"), line("memory", &row)).unwrap();
        write_report(&folder, &[], Size::Quick, &[]).unwrap();
        let page = fs::read_to_string(folder.join("report.html")).unwrap();
        assert!(page.contains("<section id=\"scripts\">") && page.contains("<section id=\"save\">"));
        let missing = page.split("Not measured yet: ").nth(1).and_then(|rest| rest.split(". ").next()).unwrap();
        assert!(
            missing.contains("tails (2 cases are measured, and not drawn") && missing.contains("longlist"),
            "{missing}"
        );
        assert!(missing.contains("tls (1 case is measured; what they allow is drawn as incomplete)"), "{missing}");
        assert!(page.contains("The cost of TLS (incomplete)</h2>") && page.contains("<h3>So far: milliseconds</h3>"));
        assert!(!missing.contains("scripts") && !missing.contains("10gb"), "{missing}");
        assert!(!page.contains(OLD) && !page.contains("Measured by an earlier edition"));
        // Of an edition before: drawn, and named as one that is to be measured.
        let holds = LIST.iter().find(|entry| entry.name == "holds").unwrap();
        report::write(&folder, &Findings { edition: holds.edition() - 1, ..Findings::new("holds", "holds") }).unwrap();
        assert!(!holds.is_measured(&folder));
        write_report(&folder, &[], Size::Quick, &[]).unwrap();
        let page = fs::read_to_string(folder.join("report.html")).unwrap();
        assert!(page.contains(OLD) && page.contains("Measured by an earlier edition: holds. "));
        report::write(&folder, &ended(Findings::new("holds", "holds"), holds, 1.0, "")).unwrap();
        assert!(holds.is_measured(&folder));
        fs::remove_dir_all(&folder).unwrap();
    }
}
