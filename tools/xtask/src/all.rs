//! `check`, `test` and `soak`: the order of the steps.

use crate::harness::cargo_test;
use crate::peer::{self, Choice, Over};
use crate::shell::{Tally, build_programs, cargo, command, program, run, server_binary, step, target_dir, workspace};
use crate::{book, lanes, licences, loops, package, redispy, release, setup, tidy};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The engine's crates, whose tests run under the address sanitizer.
const ENGINE: &[&str] = &["base", "segment", "index", "packed", "collection", "store"];
/// Those among them that have threads: their tests with threads run under the thread sanitizer. Models on one thread took half of
/// its time and could find nothing there.
const THREADED: &[&str] = &["segment", "store"];

/// End-to-end programs of several servers, or of networks of their own, by the beginnings of their names: they wait for most of
/// their time, and run beside the others.
const SEVERAL_SERVERS: &[&str] =
    &["failover", "ipv6", "metrics_access", "migrate", "moving", "replication", "replicator", "sentinel", "slow_link"];

/// Experiments that run once in `test` with tiny sizes.
const QUICK_BENCHES: &[&str] = &[
    "point",
    "engine",
    "apply",
    "commands",
    "tails",
    "misses",
    "save",
    "types",
    "scripts",
    "replication",
    "holds",
    "segments",
    "pipe",
];

/// How long each fuzz target runs in `test`.
const FUZZ_SECONDS: u64 = 10;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The quick loop.
pub(crate) fn check() -> Tally {
    let mut tally = form();
    tally.add(crate_tests());
    tally.add(portable_search());
    tally.add(step("benches, once", benches));
    tally
}

/// The form of the code and the house rules.
fn form() -> Tally {
    let mut tally = step("fmt", || Tally::one("fmt", run(&mut cargo(&["fmt", "--all", "--", "--check"]))));
    tally.add(step("clippy", || {
        let mut clippy = cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
        Tally::one("clippy", run(&mut clippy))
    }));
    tally.add(step("fuzz targets, form", fuzz_form));
    tally.add(step("tidy", || tidy::run(&workspace())));
    tally.add(licences::check());
    tally
}

/// The form of the fuzz targets, which are a workspace of their own: a target that no longer compiles would otherwise be
/// seen only by the whole test command, after half an hour.
fn fuzz_form() -> Tally {
    let manifest = ["--manifest-path", "fuzz/Cargo.toml"];
    let fmt = run(cargo(&["fmt"]).args(manifest).args(["--", "--check"]));
    let mut clippy = cargo(&["clippy", "--quiet", "--no-deps", "--all-targets"]);
    clippy.args(manifest).args(["--", "-D", "warnings"]).env("CARGO_TARGET_DIR", target_dir().join("fuzz-form"));
    let mut tally = Tally::one("fmt of the fuzz targets", fmt);
    tally.add(Tally::one("clippy of the fuzz targets", run(&mut clippy)));
    tally
}

fn crate_tests() -> Tally {
    step("tests", || {
        // All but the end-to-end tests, which have a step of their own: a list of crates would forget the next one.
        let args = ["test", "--quiet", "--no-fail-fast", "--workspace", "--exclude", "varve-tests"];
        let mut tests = cargo(&args);
        cargo_test("tests", with_real_files(&mut tests))
    })
}

/// Names real files to a program, where there are some.
fn with_real_files(command: &mut Command) -> &mut Command {
    match setup::real_files() {
        Some(folder) => command.env("VARVE_RDB_FILES", folder),
        None => command,
    }
}

/// The index's search without SSE2.
fn portable_search() -> Tally {
    step("portable search", || {
        let args = ["test", "--quiet", "-p", "varve-base", "-p", "varve-index", "--features", "varve-index/portable"];
        cargo_test("portable search", &mut cargo(&args))
    })
}

/// The server that the end-to-end tests run.
pub(crate) fn server_build() -> Tally {
    Tally::one("release build", run(&mut build_programs(&["varve-server"])))
}

/// Every benchmark's body once: `cargo test --bench` runs criterion's benches in its test mode.
fn benches() -> Tally {
    let folders = ENGINE.iter().map(|name| format!("engine/{name}/benches"));
    let options = folders.flat_map(|folder| programs_in(&folder)).flat_map(|name| ["--bench".to_owned(), name]);
    let mut benches = cargo(&["test", "--quiet", "--workspace"]);
    Tally::one("benches", run(benches.args(options).env("VARVE_BENCH_TINY", "1")))
}

/// Everything, in order. A fresh machine with Rust is enough.
pub(crate) fn test(diff_commands: u64, stress_seconds: u64) -> Tally {
    let mut tally = setup::packages().and(setup::python).and(setup::peer_source);
    if tally.failed > 0 {
        return tally;
    }
    tally.add(form());
    let built = step("release build", server_build);
    if built.failed > 0 {
        tally.add(built);
        return tally;
    }
    tally.add(built);
    let end_to_end = move |name: &'static str, several: bool| {
        step(name, || end_to_end(name, several, diff_commands, stress_seconds))
    };
    tally.add(lanes::run(vec![
        vec![
            Box::new(crate_tests),
            Box::new(portable_search),
            Box::new(|| step("benches, once", benches)),
            Box::new(move || end_to_end("end to end", false)),
        ],
        vec![
            Box::new(|| step("command loops", || loops::all(false))),
            Box::new(|| step("peer suite", || peer::run_units(&Choice::of(&[], Over::Tcp)))),
            Box::new(|| step("peer suite by TLS", || peer::run_units(&Choice::of(peer::TLS_UNITS_SHORT, Over::Tls)))),
            Box::new(peer::sentinels::run),
            Box::new(|| step("redis-py suite", || redispy::suite(&[]))),
            Box::new(package::trial::run_all),
            Box::new(release::rehearse),
            Box::new(book::if_there_is_a_builder),
            Box::new(quick_benches),
        ],
        vec![
            Box::new(|| step("address sanitizer", || sanitized("address", ENGINE, &["--tests".to_owned()]))),
            Box::new(|| step("thread sanitizer", || sanitized("thread", THREADED, &threaded_tests()))),
            Box::new(|| step("loom", loom)),
            Box::new(move || end_to_end("end to end, several servers", true)),
            Box::new(|| step("fuzz targets", || fuzz(FUZZ_SECONDS))),
        ],
    ]));
    tally
}

/// The end-to-end programs of several servers, or all others.
fn end_to_end(name: &str, several: bool, diff_commands: u64, stress_seconds: u64) -> Tally {
    // The server is the release build; the tests are not: some thirty programs would be linked for as long as they run.
    // The whole workspace, of which the programs are chosen by their names, which no other crate's tests have: with `-p` other
    // features of `mio` and `serde` would be chosen, and all that is above these be built once more.
    let mut args = vec!["test", "--no-fail-fast", "--workspace"];
    let programs = programs_in("tests");
    let of_several = |program: &str| SEVERAL_SERVERS.iter().any(|begin| program.starts_with(begin));
    args.extend(programs.iter().filter(|p| of_several(p) == several).flat_map(|program| ["--test", program]));
    args.extend(["--", "--test-threads", "1"]);
    let mut tests = cargo(&args);
    tests.env("VARVE_DIFF_COMMANDS", diff_commands.to_string());
    tests.env("VARVE_STRESS_SECONDS", stress_seconds.to_string());
    tests.env("VARVE_SERVER", server_binary());
    cargo_test(name, &mut tests)
}

/// The programs in a folder of the workspace, each a file or a folder with its main file: their names, in order.
fn programs_in(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(workspace().join(folder)).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").exists();
    let paths = entries.map(|entry| entry.path()).filter(is_one);
    let mut names: Vec<String> =
        paths.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

/// The texts of a file, or of all files of a folder.
fn texts(path: &Path) -> Vec<String> {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().flat_map(|entry| texts(&entry.path())).collect(),
        Err(_) => fs::read_to_string(path).into_iter().collect(),
    }
}

/// The options of `cargo test` that choose the tests of [`THREADED`] with threads, loom's apart.
fn threaded_tests() -> Vec<String> {
    let mut options = vec!["--lib".to_owned()];
    for folder in THREADED.iter().map(|name| workspace().join(format!("engine/{name}/tests"))) {
        let has_threads = |name: &String| {
            let sources = [folder.join(name), folder.join(name).with_extension("rs")];
            !name.starts_with("loom")
                && sources.iter().flat_map(|path| texts(path)).any(|text| text.contains("thread::"))
        };
        let threaded = programs_in(&folder).into_iter().filter(has_threads);
        options.extend(threaded.flat_map(|name| ["--test".to_owned(), name]));
    }
    options
}

fn quick_benches() -> Tally {
    let mut tally = Tally::default();
    for name in QUICK_BENCHES {
        let args = [name.to_string(), "--quick".into()];
        tally.add(step(&format!("bench {name}, quick"), || tool("varve-bench", &args)));
    }
    tally.add(step("the report of a tiny run", report));
    tally
}

/// A tiny run of the experiments whose report is new, and its report in a browser.
fn report() -> Tally {
    let folder = target_dir().join("bench/tiny");
    let args = ["all", "--tiny", "--again", "--into", &folder.to_string_lossy()].map(String::from);
    tool("varve-bench", &args).and(|| look(&folder))
}

/// The committed report in a browser. It is a copy, with the results that it is made of: pictures are written beside it.
pub(crate) fn committed_report() -> Tally {
    let folder = target_dir().join("bench/committed");
    match copy_files(&workspace().join("docs/results/full"), &folder, &["json", "html"]) {
        Ok(()) => look(&folder),
        Err(error) => Tally::one("the committed report", Err(error.to_string())),
    }
}

/// The report of a folder in a browser.
fn look(folder: &Path) -> Tally {
    tool("varve-bench", &["look".to_owned(), folder.join("report.html").to_string_lossy().into_owned()])
}

/// Copies the files with these endings into a folder that has nothing else then.
fn copy_files(from: &Path, to: &Path, endings: &[&str]) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let path = file?.path();
        let is_wanted = path.extension().is_some_and(|end| endings.iter().any(|ending| end == *ending));
        if let Some(name) = path.file_name().filter(|_| is_wanted) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// The gate and two workers on one shard, every interleaving up to a bound.
fn loom() -> Tally {
    let args = ["test", "--quiet", "--release", "-p", "varve-store", "--test", "loom_gate", "--test", "loom_shards"];
    let mut tests = cargo(&args);
    tests.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target_dir().join("loom"));
    cargo_test("loom", &mut tests)
}

/// Each fuzz target for some seconds.
pub(crate) fn fuzz(seconds: u64) -> Tally {
    let mut tally = Tally::default();
    for entry in fs::read_dir(workspace().join("fuzz/fuzz_targets")).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let limit = format!("-max_total_time={seconds}");
        let mut target = command("fuzz/run", &[name.as_str(), &limit, "-print_final_stats=1", "-verbosity=0"]);
        let is_short = seconds <= FUZZ_SECONDS;
        target.env("CARGO_TARGET_DIR", target_dir().join(if is_short { "fuzz-short" } else { "fuzz" }));
        if is_short {
            // To build them with all optimisations took several times as long as all of them ran.
            target.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        }
        tally.add(Tally::one(&format!("fuzz target {name}"), run(with_real_files(&mut target))));
    }
    tally
}

/// These tests of some crates of the engine under a sanitizer. The stable compiler takes the flag with RUSTC_BOOTSTRAP. The address
/// sanitizer needs nothing else. The thread sanitizer wants the standard library built with it too; where its source is not
/// there, the difference in that one setting is allowed, and what it then cannot see are the library's own locks' insides
/// (our locks are not the library's).
fn sanitized(sanitizer: &str, crates: &[&str], chosen: &[String]) -> Tally {
    let mut flags = format!("-Zsanitizer={sanitizer} -Cforce-frame-pointers=yes");
    let suppressions = workspace().join("tools/thread-sanitizer.txt");
    if sanitizer == "thread" {
        flags.push_str(" -Cunsafe-allow-abi-mismatch=sanitizer");
    }
    let mut tests = cargo(&["test", "--quiet", "--no-fail-fast", "--target", TARGET]);
    tests.args(crates.iter().flat_map(|name| ["-p".to_owned(), format!("varve-{name}")])).args(chosen);
    tests.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target_dir().join(sanitizer));
    tests.env("RUST_TEST_THREADS", "1").env("VARVE_SANITIZER", sanitizer);
    if sanitizer == "thread" {
        // The suppressions are patterns over whole names of functions, which line tables alone do not have.
        tests.env("CARGO_PROFILE_DEV_DEBUG", "full");
        tests.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    }
    cargo_test(sanitizer, &mut tests)
}

/// The documents that are made of the server's tables.
pub(crate) fn docs() -> Tally {
    let folder = workspace().join("docs");
    let mut program = cargo(&["run", "--quiet", "-p", "varve-docs", "--", "pages"]);
    Tally::one("docs", run(program.arg(folder)))
}

/// A program of the workspace with arguments of its own, in release.
pub(crate) fn tool(name: &str, args: &[String]) -> Tally {
    let ran = with_server(name).and_then(|()| {
        let mut tool = command(&program(name).to_string_lossy(), args);
        run(tool.env("VARVE_SERVER", server_binary()))
    });
    Tally::one(name, ran)
}

/// Builds a program, and the server where no other one is named.
fn with_server(name: &str) -> Result<(), String> {
    let server = std::env::var_os("VARVE_SERVER").is_none().then_some("varve-server");
    run(&mut build_programs(&server.into_iter().chain([name]).collect::<Vec<_>>()))
}

/// An experiment in the place of this process, so that ^C reaches it alone and it can write its report. Returns only where
/// it cannot be started.
pub(crate) fn bench(args: &[String]) -> Tally {
    let replaced = with_server("varve-bench").and_then(|()| {
        let mut bench = command(&program("varve-bench").to_string_lossy(), args);
        Err(bench.env("VARVE_SERVER", server_binary()).exec().to_string())
    });
    Tally::one("varve-bench", replaced)
}

/// The tools that people have, against Varve: a part of the end-to-end tests.
pub(crate) fn smoke() -> Tally {
    let mut tests = cargo(&["test", "--release", "-p", "varve-tests", "--test", "tools"]);
    cargo_test("smoke", tests.env("VARVE_SERVER", server_binary()))
}

/// The differential test with a new seed, the stress test and the soak at the memory limit, in turns, until the time is over or one fails.
pub(crate) fn soak(minutes: u64) -> Tally {
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let mut tally = Tally::default();
    while tally.failed == 0 && Instant::now() < end {
        tally.add(tool("varve-diff", &["--commands".into(), "1000000".into()]));
        if tally.failed == 0 {
            let mut storm = cargo(&["test", "--release", "-p", "varve-tests", "--test", "storm"]);
            storm.env("VARVE_STRESS_SECONDS", "300").env("VARVE_SERVER", server_binary());
            tally.add(cargo_test("storm", &mut storm));
        }
        if tally.failed == 0 {
            tally.add(soak_at_limit(300, false));
        }
    }
    tally
}

/// The soak at the memory limit; judged, a slice or a lock held for too long fails it.
pub(crate) fn soak_at_limit(seconds: u64, judged: bool) -> Tally {
    let mut test = cargo(&[
        "test",
        "--release",
        "-p",
        "varve-tests",
        "--test",
        "soak",
        "--test",
        "long_commands",
        "--",
        "--nocapture",
    ]);
    test.env("VARVE_SOAK_SECONDS", seconds.to_string()).env("VARVE_SERVER", server_binary());
    if judged {
        test.env("VARVE_SOAK_JUDGE", "1");
    }
    cargo_test("soak at the limit", &mut test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_to_end_programs_have_names_of_their_own() {
        let ours = programs_in("tests");
        assert!(ours.len() > 50 && ours.iter().any(|name| name == "storm"), "{ours:?}");
        for parent in ["engine", "compat", "tools", "."] {
            for entry in fs::read_dir(workspace().join(parent)).expect("a folder").flatten() {
                let folder = format!("{parent}/{}/tests", entry.file_name().to_string_lossy());
                let others = programs_in(&folder);
                let shared: Vec<_> = others.iter().filter(|name| ours.contains(name)).collect();
                assert!(shared.is_empty(), "{folder}: `cargo test --test` would run them as well: {shared:?}");
            }
        }
    }

    #[test]
    fn the_committed_results_are_copied_anew() {
        let folder = std::env::temp_dir().join(format!("varve-committed-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("old.json"), "").expect("a file");
        copy_files(&workspace().join("docs/results/full"), &folder, &["json", "html"]).expect("a copy");
        let has = |name: &str| folder.join(name).exists();
        assert!(has("report.html") && has("settings.json") && !has("old.json") && !has("point.csv"));
        fs::remove_dir_all(&folder).expect("it is this test's own");
    }

    #[test]
    fn tests_with_threads_are_found() {
        let chosen = threaded_tests();
        assert!(["stress", "threads", "--lib"].iter().all(|name| chosen.contains(&(*name).to_owned())), "{chosen:?}");
        assert!(!chosen.iter().any(|name| name.starts_with("loom") || name == "models"), "{chosen:?}");
    }
}
