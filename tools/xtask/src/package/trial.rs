//! The package, tried: installed in a fresh Debian, run as its unit says, removed; then the Containerfile's steps.
//!
//! ```text
//! .test-tools/debian-root-*.tar --> a root folder --> dpkg -i --> ExecStart as the unit's user, READY=1, a key, the end, the key again
//!                                                   its log rotated meanwhile, the lines of its addresses (parts.rs)
//!                                               --> dpkg --purge: nothing is left but the data and their owner
//!                                               --> without data: nothing is left
//!                                               --> the service through removals and upgrades (upgrades.rs)
//!                                               --> the image (image.rs)
//! ```
//! A chroot stands for the machine, so no service manager runs there; its part (folders, user, socket of notifications) is done
//! here. It needs root, as building such a folder does.

use super::{VERSION, deb, folder, image, parts, read, upgrades};
use crate::lanes;
use crate::shell::{Tally, command, output, run, say, step, target_dir, tools_dir, workspace};
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a server may take to say that it is ready, and to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// Packages of the root beside those that Debian always has.
const INCLUDED: [&str; 2] = ["passwd", "logrotate"];
const UNIT: &str = "usr/lib/systemd/system/varve-server.service";

/// Makes the packages of the release build, or of the programs in the folder `VARVE_PROGRAMS`, and tries them.
pub(crate) fn run_all() -> Tally {
    let made = step("packages are made", || Tally::one("packages", programs().and_then(|folder| super::make(&folder))));
    made.and(|| step("packages in a fresh Debian", || Tally::one("packages in a fresh Debian", try_all())))
}

/// A fresh Debian as one file.
pub(super) fn archive() -> PathBuf {
    tools_dir().join(format!("debian-root-{}.tar", INCLUDED.join("-")))
}

fn programs() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("VARVE_PROGRAMS") {
        return Ok(folder.into());
    }
    run(&mut crate::shell::build_programs(&super::PROGRAMS))?;
    Ok(target_dir().join("release"))
}

fn try_all() -> Result<(), String> {
    let root = Root::new()?;
    documents()?;
    parts::options()?;
    parts::tarball()?;
    unit(&root)?;
    let fresh = root.paths()?;
    root.install(&deb::path(&folder())?)?;
    installed(&root)?;
    parts::debugging(&root)?;
    serve(&root)?;
    removed(&root, &fresh)?;
    upgrades::run_all(&root)?;
    image::run_all(&root)
}

/// A folder that is a machine's root.
pub(super) struct Root(PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        // Remains of a folder of ours are in the way of nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Root {
    /// A fresh Debian of the release that this machine has, made once.
    fn new() -> Result<Root, String> {
        let archive = archive();
        if !archive.exists() {
            fs::create_dir_all(tools_dir()).map_err(|error| error.to_string())?;
            let about = read(Path::new("/etc/os-release"))?;
            let release = about.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or("stable");
            let partly = tools_dir().join("debian-root-partly.tar");
            let include = format!("--include={}", INCLUDED.join(","));
            run(command("mmdebstrap", &["--quiet", "--variant=apt", &include, release]).arg(&partly))?;
            fs::rename(&partly, &archive).map_err(|error| error.to_string())?;
        }
        // Short, since the path of a socket has 108 bytes.
        let path = std::env::temp_dir().join(format!("varve-trial-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let root = Root(path);
        run(command("tar", &["--extract", "--numeric-owner", "--file"]).arg(&archive).arg("-C").arg(&root.0))?;
        Ok(root)
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// A command inside.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = command("chroot", &[&self.0]);
        command
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    pub(super) fn run(&self, words: &[&str]) -> Result<(), String> {
        run(&mut self.command(words))
    }

    /// Installs this package.
    pub(super) fn install(&self, package: &Path) -> Result<(), String> {
        fs::copy(package, self.at("/tmp/varve.deb")).map_err(|error| error.to_string())?;
        self.run(&["dpkg", "-i", "/tmp/varve.deb"])?;
        fs::remove_file(self.at("/tmp/varve.deb")).map_err(|error| error.to_string())
    }

    /// Every path that a package may leave behind: not dpkg's own notes.
    fn paths(&self) -> Result<BTreeSet<String>, String> {
        let own = [
            "./var/lib/dpkg",
            "./var/log/dpkg.log",
            "./var/log/faillog",
            "./var/log/lastlog",
            "./var/cache",
            "./dev",
            "./proc",
        ];
        let all = output(command("find", &["."]).current_dir(&self.0))?;
        // Copies of the tables of users that their tools keep.
        let is_own = |path: &str| {
            own.iter().any(|own| path.starts_with(own)) || (path.starts_with("./etc/") && path.ends_with('-'))
        };
        Ok(all.lines().filter(|path| !is_own(path)).map(str::to_owned).collect())
    }

    fn has_user(&self) -> Result<bool, String> {
        Ok(read(&self.at("/etc/passwd"))?.lines().any(|line| line.starts_with("varve:")))
    }
}

pub(super) fn expect(what: &str, holds: bool) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}

/// Manual pages have no error that their formatter sees.
fn documents() -> Result<(), String> {
    for page in ["varve-server.1", "varve-check.1", "varve-top.1", "varve.conf.5"] {
        let mut formatter = command("groff", &["-man", "-Tutf8", "-ww", "-z"]);
        let said = formatter.arg(folder().join("docs").join(page)).stdout(Stdio::null()).output();
        // A machine without the formatter cannot tell.
        let said = said.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stderr).into_owned());
        expect(&format!("{page} is well formed: {said}"), said.is_empty())?;
    }
    Ok(())
}

/// systemd takes the unit, and thinks it hardened.
fn unit(root: &Root) -> Result<(), String> {
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        say("skipped: systemd-analyze is not on this machine");
        return Ok(());
    }
    // It wants the program to be there.
    let file = root.at("/tmp/varve-server.service");
    let text = read(&workspace().join("packaging/varve-server.service"))?.replace("/usr/bin/varve-server", "/bin/true");
    fs::write(&file, text).map_err(|error| error.to_string())?;
    run(command("systemd-analyze", &["verify", "--man=no", "--recursive-errors=no"]).arg(&file))?;
    let args = ["security", "--offline=true", "--no-pager", "--threshold=20"];
    let judged = run(command("systemd-analyze", &args).arg(&file).stdout(Stdio::null()));
    fs::remove_file(&file).map_err(|error| error.to_string())?;
    judged
}

fn installed(root: &Root) -> Result<(), String> {
    let said = output(&mut root.command(&["varve-server", "--version"]))?;
    expect("the program tells its version", said.trim_end().ends_with(&format!("varve={VERSION}")))?;
    output(&mut root.command(&["varve-check", "--version"]))?;
    output(&mut root.command(&["varve-top", "--version"]))?;
    let mode = |path: &str| fs::metadata(root.at(path)).map(|about| (about.mode() & 0o7777, about.uid() > 0));
    for (path, wanted) in [
        ("/etc/varve/varve.conf", (0o640, true)),
        ("/var/lib/varve", (0o750, true)),
        ("/var/log/varve", (0o750, true)),
        ("/etc/varve", (0o2770, false)),
        ("/usr/bin/varve-server", (0o755, false)),
        ("/usr/share/man/man5/varve.conf.5.gz", (0o644, false)),
    ] {
        let found = mode(path).map_err(|error| format!("{path}: {error}"))?;
        expect(&format!("{path} has mode {:o} and its owner, not {:o}", wanted.0, found.0), found == wanted)?;
    }
    expect("there is a user", root.has_user()?)
}

/// A port on which nobody listens at this moment.
pub(super) fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    Ok(bound.map_err(|error| error.to_string())?.port())
}

/// A server in the root; it is killed if the trial ends early.
pub(super) struct Server {
    pub(super) child: Child,
    notes: UnixDatagram,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Runs a command line in the root as a user, with the file systems of a machine, behind a command of the shell. `outer`:
    /// words before it, as for a name space of its own.
    pub(super) fn start(
        root: &Root,
        user: &str,
        (before, line): (&str, &str),
        outer: &[&str],
    ) -> Result<Server, String> {
        let port = free_port()?;
        let socket = root.at("/run/notify");
        let _ = fs::remove_file(&socket);
        let notes = UnixDatagram::bind(&socket).map_err(|error| format!("{}: {error}", socket.display()))?;
        notes.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).map_err(|error| error.to_string())?;
        let path = root.0.display();
        let script = format!(
            "mount -t proc proc {path}/proc && {before} && exec chroot --userspec={user} {path} {line} --port {port} --supervised systemd"
        );
        let mut command = command("unshare", &["--mount", "--propagation", "private"]);
        command.args(outer).args(["sh", "-c", &script]).env("NOTIFY_SOCKET", "/run/notify");
        lanes::collect_from(&mut command)?;
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let server = Server { child, notes, port };
        server.await_note("READY=1")?;
        Ok(server)
    }

    fn await_note(&self, wanted: &str) -> Result<(), String> {
        let mut note = [0; 1024];
        loop {
            let count = self.notes.recv(&mut note).map_err(|error| format!("no note of {wanted}: {error}"))?;
            if String::from_utf8_lossy(&note[..count]).lines().any(|line| line == wanted) {
                return Ok(());
            }
        }
    }

    pub(super) fn ask(&self, words: &[&str]) -> Result<String, String> {
        let port = self.port.to_string();
        Ok(output(command("redis-cli", &["-p", &port]).args(words))?.trim().to_owned())
    }

    /// Ends the process of this number, which is the server, by the signal that a service manager sends.
    pub(super) fn end(mut self, pid: u32) -> Result<(), String> {
        run(&mut command("kill", &["-TERM", &pid.to_string()]))?;
        self.await_note("STOPPING=1")?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        expect(&format!("an orderly end: {status}"), status.success())
    }
}

/// The log of the system in the root.
struct SystemLog(UnixDatagram);

impl SystemLog {
    const PATH: &str = "/dev/log";
    const NAME: &str = "varve-trial";

    fn open(root: &Root) -> Result<SystemLog, String> {
        let path = root.at(SystemLog::PATH);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let socket = UnixDatagram::bind(&path).map_err(failed)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).map_err(failed)?;
        Ok(SystemLog(socket))
    }

    /// A line came, under the name and the facility that the server was told: local3 is the 19th, each with eight severities.
    fn has_lines(&self) -> Result<(), String> {
        let mut room = [0; 4096];
        let count = self.0.recv(&mut room).map_err(|error| format!("no line in the system's log: {error}"))?;
        let line = String::from_utf8_lossy(&room[..count]).into_owned();
        let priority = line.strip_prefix('<').and_then(|rest| rest.split('>').next()?.parse::<u32>().ok());
        let is_ours =
            priority.map(|priority| priority / 8) == Some(19) && line.contains(&format!("{}[", SystemLog::NAME));
        expect(&format!("a line of the server in the system's log: {line}"), is_ours)
    }
}

/// The service as its unit says: a key outlives the server.
fn serve(root: &Root) -> Result<(), String> {
    let unit = read(&root.at(UNIT))?;
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).ok_or("a unit without ExecStart")?;
    let mask = unit.lines().find_map(|line| line.strip_prefix("UMask=")).ok_or("a unit without UMask")?;
    let before = format!("umask {mask}");
    run(&mut root.command(&["install", "-d", "-o", "varve", "-g", "varve", "/run/varve"]))?;
    let log = SystemLog::open(root)?;
    let line = format!("{line} --syslog-enabled yes --syslog-ident {} --syslog-facility local3", SystemLog::NAME);
    for expected in ["", "kept"] {
        let server = Server::start(root, "varve:varve", (&before, &line), &[])?;
        log.has_lines()?;
        expect("the key is there", server.ask(&["GET", "key"])? == expected)?;
        expect("a key is set", server.ask(&["SET", "key", "kept"])? == "OK")?;
        expect("the configuration can be rewritten", server.ask(&["CONFIG", "REWRITE"])? == "OK")?;
        let title = read(Path::new(&format!("/proc/{}/cmdline", server.child.id())))?;
        expect(
            &format!("the title shows the address: {title}"),
            title.contains(&format!("127.0.0.1:{}", server.port)),
        )?;
        let pid = server.child.id();
        if expected.is_empty() {
            parts::rotated(root, &server)?;
        }
        server.end(pid)?;
    }
    for left in ["/var/lib/varve/dump.rdb", "/var/log/varve/varve-server.log"] {
        let about = fs::metadata(root.at(left)).map_err(|error| format!("{left}: {error}"))?;
        expect(&format!("{left} is the service's alone"), about.uid() > 0 && about.mode() & 0o007 == 0)?;
    }
    fs::remove_dir_all(root.at("/run/varve")).map_err(|error| error.to_string())?;
    fs::remove_file(root.at(SystemLog::PATH)).map_err(|error| error.to_string())?;
    fs::remove_file(root.at("/run/notify")).map_err(|error| error.to_string())
}

/// Nothing stays but the data and the user that they belong to; without data nothing stays.
fn removed(root: &Root, fresh: &BTreeSet<String>) -> Result<(), String> {
    root.run(&["dpkg", "--purge", "varve"])?;
    let left: Vec<String> = root.paths()?.difference(fresh).cloned().collect();
    expect(&format!("the data alone is left: {left:?}"), left == ["./var/lib/varve", "./var/lib/varve/dump.rdb"])?;
    expect("the data has its owner", root.has_user()?)?;
    fs::remove_file(root.at("/var/lib/varve/dump.rdb")).map_err(|error| error.to_string())?;
    root.install(&deb::path(&folder())?)?;
    root.run(&["dpkg", "--purge", "varve"])?;
    let left: Vec<String> = root.paths()?.difference(fresh).cloned().collect();
    expect(&format!("nothing is left: {left:?}"), left.is_empty())?;
    expect("no user is left", !root.has_user()?)
}
