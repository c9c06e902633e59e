//! `long`: runs that take too long for `test`, which has a short form of each.

use crate::harness::cargo_test;
use crate::peer::{self, Choice, Over};
use crate::shell::{Tally, cargo, server_binary};
use crate::{all, before, book, package, setup};

/// A run.
struct Long {
    name: &'static str,
    about: &'static str,
    run: fn() -> Tally,
}

const RUNS: &[Long] = &[
    Long { name: "soak", about: "differential, stress and memory limit in turns, an hour", run: || all::soak(60) },
    Long {
        name: "differential",
        about: "2 000 000 random commands beside redis-server in each protocol, 500 000 newer ones beside valkey-server",
        run: differential,
    },
    Long {
        name: "scripts",
        about: "500 000 scripts made at random beside redis-server in each protocol",
        run: scripts,
    },
    Long { name: "trips", about: "200 data sets through the files of both servers", run: trips },
    Long {
        name: "collections",
        about: "walks over collections of ten million elements that change meanwhile",
        run: collections,
    },
    Long {
        name: "mappings",
        about: "the kernel's mappings under 20 000 and 40 000 collections, 2 500 and 5 000 values of 6 MB",
        run: mappings,
    },
    Long { name: "kills", about: "300 kills under load, each file looked at", run: kills },
    Long {
        name: "chains",
        about: "50 rounds of chains of three servers, of which some are killed under load, and start again",
        run: chains,
    },
    Long {
        name: "failovers",
        about: "100 failovers by Sentinel, of Varve and of redis-server side by side, with a checker of histories",
        run: failovers,
    },
    Long {
        name: "slow-link",
        about: "50 MB/s to a replica behind 20 MB/s for two minutes, then 5 MB/s, also with redis-server",
        run: slow_link,
    },
    Long { name: "report", about: "the committed report of a full run, in Chromium", run: all::committed_report },
    Long { name: "fuzz", about: "each fuzz target for an hour", run: || all::fuzz(3600) },
    Long { name: "metrics", about: "a minute of a real Prometheus scraping", run: metrics },
    Long { name: "page", about: "a page of the metrics port that is open for an hour", run: page },
    Long { name: "releases", about: "the server of the release before reads files of this one", run: before::run_all },
    Long { name: "bullmq", about: "BullMQ's own suite; VARVE_BULLMQ names its source, an archive", run: bullmq },
    Long {
        name: "peer",
        about: "Redis's own suite three times with its long units, 20 minutes of its damaged payloads, values of gigabytes",
        run: peer,
    },
    Long { name: "large", about: "values of gigabytes: those tests of Redis's own suite; 16 GB of memory", run: large },
    Long { name: "payloads", about: "20 minutes of the damaged payloads of Redis's own suite", run: payloads },
    Long { name: "package", about: "the package installed, run and removed in a fresh Debian", run: package },
    Long {
        name: "book",
        about: "the site of docs/ by mdbook, no link dead, nothing loaded from elsewhere",
        run: book::all,
    },
    Long { name: "tls", about: "Redis's own suite by TLS", run: tls },
];

/// Runs the one of this name; without a name lists them.
pub(crate) fn run(name: Option<&str>) -> Tally {
    let found = RUNS.iter().find(|long| Some(long.name) == name);
    if let Some(long) = found {
        return (long.run)();
    }
    RUNS.iter().for_each(|Long { name, about, .. }| println!("{name:13} {about}"));
    match name {
        Some(name) => Tally::one("long", Err(format!("no long run is called {name}"))),
        None => Tally::default(),
    }
}

fn differential() -> Tally {
    let mut tally = Tally::default();
    for resp in ["2", "3"] {
        let args = ["--commands", "2000000", "--resp", resp].map(String::from);
        tally.add(all::tool("varve-diff", &args));
    }
    let newer = ["--commands", "500000", "--newer"].map(String::from);
    tally.add(all::tool("varve-diff", &newer));
    tally
}

fn scripts() -> Tally {
    let args = ["--commands", "555000", "--scripts"].map(String::from);
    all::tool("varve-diff", &args)
}

/// The part of `test` that tries the packages, by itself.
fn package() -> Tally {
    setup::packages().and(package::trial::run_all)
}

/// One file of the end-to-end tests with a number of its own, against a release build.
fn end_to_end(test: &str, variable: &str, value: &str) -> Tally {
    all::server_build().and(|| run_test(test, variable, value, &[]))
}

/// One whose lines are printed while it runs: its figures are what is wanted.
fn with_figures(test: &str, variable: &str, value: &str) -> Tally {
    all::server_build().and(|| run_test(test, variable, value, &["--", "--nocapture"]))
}

fn run_test(test: &str, variable: &str, value: &str, words: &[&str]) -> Tally {
    let mut tests = cargo(&["test", "--release", "-p", "varve-tests", "--test", test]);
    cargo_test(test, tests.args(words).env(variable, value).env("VARVE_SERVER", server_binary()))
}

fn trips() -> Tally {
    end_to_end("trips", "VARVE_TRIPS", "200")
}

fn metrics() -> Tally {
    end_to_end("metrics", "VARVE_SCRAPE_SECONDS", "60")
}

fn page() -> Tally {
    end_to_end("page", "VARVE_PAGE_SECONDS", "3600")
}

fn bullmq() -> Tally {
    end_to_end("bullmq", "VARVE_BULLMQ_WHOLE", "1")
}

fn collections() -> Tally {
    let mut tests = cargo(&["test", "--release", "-p", "varve-store", "--test", "models", "walker::large"]);
    cargo_test("walker::large", tests.env("VARVE_ELEMENTS", "10000000"))
}

fn mappings() -> Tally {
    let words = ["test", "--release", "-p", "varve-store", "--test", "mappings", "--", "--nocapture"];
    cargo_test("mappings", cargo(&words).env("VARVE_MAPPINGS_SCALE", "50"))
}

fn kills() -> Tally {
    end_to_end("kills", "VARVE_KILLS", "300")
}

fn chains() -> Tally {
    end_to_end("replication_chains", "VARVE_CHAINS", "50")
}

fn failovers() -> Tally {
    with_figures("failovers", "VARVE_FAILOVERS", "100")
}

fn slow_link() -> Tally {
    with_figures("slow_link", "VARVE_SLOW_LINK_SECONDS", "120")
}

fn peer() -> Tally {
    let once =
        || peer::run(&Choice::of(&[], Over::Tcp)).and(|| peer::run_units(&Choice::of(peer::LONG_UNITS, Over::Tcp)));
    (0..3).fold(setup::packages(), |tally, _| tally.and(once)).and(payloads).and(large)
}

fn large() -> Tally {
    setup::packages().and(peer::run_large)
}

fn payloads() -> Tally {
    setup::packages().and(|| peer::run(&Choice::fuzzer_at_length()))
}

fn tls() -> Tally {
    setup::packages().and(|| peer::run(&Choice::of(&[], Over::Tls)))
}
