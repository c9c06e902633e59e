//! The parts of the packages that a service does not need to run: options in manuals and completions, debugging information, the
//! log's rotation, the tarball.

use super::trial::{PATIENCE, Root, Server, expect, free_port};
use super::{PROGRAMS, VERSION, deb, folder, read, remove, tarball_name};
use crate::shell::{command, output, run};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const LOG: &str = "/var/log/varve/varve-server.log";

/// The options that `--help` prints, of the program and of its commands, have their words in the manual page and in all shells.
/// Those of the server are its settings, of which both are made.
pub(super) fn options() -> Result<(), String> {
    let (docs, bin) = (folder().join("docs"), folder().join("bin"));
    for (program, commands) in [("varve-check", &["rdb", "aof", "manifest"][..]), ("varve-top", &[])] {
        let say = |words: &[&str]| output(&mut command(&bin.join(program).to_string_lossy(), words));
        let mut help = say(&["--help"])?;
        for name in commands {
            expect(&format!("{program} knows {name}"), help.contains(&format!("  {name} ")))?;
            help += &say(&[*name, "--help"])?;
        }
        let options = long_options(&help);
        expect(&format!("{program} has options: {options:?}"), options.len() > 5)?;
        for file in
            [format!("{program}.1"), format!("{program}.bash"), format!("_{program}"), format!("{program}.fish")]
        {
            let text = read(&docs.join(&file))?.replace('\\', "");
            let has = |option: &str| match file.strip_suffix(".fish") {
                Some(_) => text.contains(&format!(" -l {option} ")),
                None => text.contains(&format!("--{option}")),
            };
            let general = ["help", "version"];
            let missing = options.iter().filter(|option| !has(option));
            let missing: Vec<_> = missing.filter(|one| !(file.ends_with(".1") && general.contains(one))).collect();
            expect(&format!("{file} has every option: {missing:?}"), missing.is_empty())?;
        }
    }
    Ok(())
}

/// The names of options in the lines that describe them.
fn long_options(help: &str) -> Vec<&str> {
    let described = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let mut names: Vec<&str> = described
        .filter_map(|line| {
            let rest = line.split_once("--")?.1;
            rest.split(|letter: char| !letter.is_ascii_lowercase() && letter != '-').next()
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The package with the debugging information is that of the installed programs: it has the line of an address of theirs.
pub(super) fn debugging(root: &Root) -> Result<(), String> {
    root.install(&deb::debug_path(&folder())?)?;
    for program in PROGRAMS {
        let installed = root.at(&format!("/usr/bin/{program}"));
        let debug = root.at(&format!("/usr/lib/debug/usr/bin/{program}.debug"));
        let link = output(command("readelf", &["--string-dump=.gnu_debuglink"]).arg(&installed))?;
        expect(&format!("{program} names its file: {link}"), link.contains(&format!("{program}.debug")))?;
        let build = |file: &Path| -> Result<Option<String>, String> {
            let notes = output(command("readelf", &["--notes"]).arg(file))?;
            Ok(notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ").map(str::to_owned)))
        };
        let builds = (build(&installed)?, build(&debug)?);
        expect(&format!("both are of one build: {builds:?}"), builds.0.is_some() && builds.0 == builds.1)?;
        let symbols = output(command("nm", &["--defined-only"]).arg(&installed))?;
        let name = format!("{}4main", program.replace('-', "_"));
        let main =
            symbols.lines().find(|line| line.contains(&name)).ok_or(format!("{program} has no function main"))?;
        let address = main.split(' ').next().unwrap_or_default();
        let line = |file: &Path| output(command("addr2line", &["--exe"]).arg(file).arg(address));
        let (bare, found) = (line(&installed)?, line(&debug)?);
        expect(&format!("{program} itself has no lines: {bare}"), bare.starts_with("??"))?;
        expect(&format!("its file has them: {found}"), found.contains("/main.rs:"))?;
    }
    root.run(&["dpkg", "--purge", "varve-dbgsym"])
}

/// Waits until a file has a text.
fn until_has(file: &Path, text: &str) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    while !fs::read_to_string(file).unwrap_or_default().contains(text) {
        expect(&format!("{} has '{text}'", file.display()), Instant::now() < end)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The log is rotated under a server that runs: its next line is in a new file, which is the service's.
pub(super) fn rotated(root: &Root, server: &Server) -> Result<(), String> {
    let (log, old) = (root.at(LOG), root.at(&format!("{LOG}.1")));
    let before = read(&log)?;
    root.run(&["logrotate", "--force", "--state", "/tmp/rotated", "/etc/logrotate.d/varve"])?;
    expect("the lines so far are in the old file", read(&old)?.starts_with(&before))?;
    expect("none of them is in the new one", !read(&log)?.contains("Server initialized"))?;
    expect("a save begins", server.ask(&["BGSAVE"])?.starts_with("Background saving"))?;
    until_has(&log, "Background saving")?;
    let (new, past) = (fs::metadata(&log), fs::metadata(&old));
    let about = |found: std::io::Result<fs::Metadata>| found.map(|about| (about.uid(), about.mode() & 0o777));
    let (new, past) = (about(new).map_err(|e| e.to_string())?, about(past).map_err(|e| e.to_string())?);
    expect(&format!("both are the service's alone: {new:?}, {past:?}"), new == (past.0, 0o640) && past.1 & 0o007 == 0)?;
    fs::remove_file(root.at("/tmp/rotated")).map_err(|error| error.to_string())
}

/// A process that is killed if the trial ends early.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The tarball, unpacked anywhere: its programs run, with its configuration.
pub(super) fn tarball() -> Result<(), String> {
    let name = tarball_name(&output(&mut command("uname", &["-m"]))?);
    let place = std::env::temp_dir().join(format!("varve-tarball-{}", std::process::id()));
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let tried = unpacked(&place, &name);
    remove(&place)?;
    tried
}

fn unpacked(place: &Path, name: &str) -> Result<(), String> {
    run(command("tar", &["-xzf"]).arg(folder().join(format!("{name}.tar.gz"))).arg("-C").arg(place))?;
    let tree = place.join(name);
    for file in
        ["README.md", "LICENSE", "CHANGELOG.md", "commands.md", "varve.conf.5", "_varve-top", "varve-server.service"]
    {
        expect(&format!("the tarball has {file}"), tree.join(file).is_file())?;
    }
    let program = |name: &str| command(&tree.join(name).to_string_lossy(), &[""; 0]);
    let port = free_port()?.to_string();
    // The file names the folders of a service, which the reader makes or changes.
    let conf =
        read(&tree.join("varve.conf"))?.replace("\ndir /var/lib/varve\n", &format!("\ndir {}\n", place.display()));
    super::write(&tree.join("varve.conf"), &conf)?;
    let mut server = program("varve-server");
    server.arg(tree.join("varve.conf")).args(["--port", &port, "--logfile", "", "--pidfile", ""]);
    server.stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Running(server.spawn().map_err(|error| format!("{server:?}: {error}"))?);
    let ask = |words: &[&str]| output(command("redis-cli", &["-p", &port]).args(words));
    let end = Instant::now() + PATIENCE;
    while !ask(&["PING"]).is_ok_and(|reply| reply.trim() == "PONG") {
        let ended = server.0.try_wait().map_err(|error| error.to_string())?;
        expect(&format!("the server of the tarball answers: {ended:?}"), ended.is_none() && Instant::now() < end)?;
        std::thread::sleep(Duration::from_millis(50));
    }
    let info = ask(&["INFO", "server"])?;
    expect("it is of this version", info.contains(&format!("varve_version:{VERSION}")))?;
    ask(&["SET", "key", "value"])?;
    let shown = output(program("varve-top").args(["--once", "-i", "0.2", "-p", &port]))?;
    expect(&format!("varve-top shows it: {shown}"), shown.contains("commands/s"))?;
    ask(&["SAVE"])?;
    let checked = output(program("varve-check").arg("rdb").arg(place.join("dump.rdb")))?;
    expect(&format!("varve-check reads its file: {checked}"), checked.contains('1'))?;
    run(&mut command("kill", &["-TERM", &server.0.id().to_string()]))?;
    let status = server.0.wait().map_err(|error| error.to_string())?;
    expect(&format!("an orderly end: {status}"), status.success())
}

#[cfg(test)]
mod tests {
    use super::long_options;

    #[test]
    fn options_are_read_from_the_lines_that_describe_them() {
        let help = "Usage: x [OPTIONS] --no\n\nOptions:\n  -h, --host <HOST>  see --other\n      --json\n          text --more\n  -V, --version  Print\n";
        assert_eq!(long_options(help), ["host", "json", "version"]);
    }
}
