//! A network of a test's own: machines that are network namespaces, joined by a bridge, whose links are cut and slowed down.
//!
//! ```text
//!   the test's process, 10.77.N.1 --- bridge --+-- box 0, 10.77.N.10
//!                                              +-- box 1, 10.77.N.11      unplugged: the bridge's end of its link is down
//!                                              +-- box 2, 10.77.N.12      parted: two boxes send each other nothing
//! ```
//! The test runs once more in namespaces of its own ([`inside`]): nothing of the machine's network changes, two tests do not meet,
//! and all of it goes with the last process. That needs root, or a system that lets others make namespaces.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use varve_testkit::skip::skipped;

/// Set where the test runs in namespaces of its own.
const MARK: &str = "VARVE_TEST_IN_NAMESPACES";

/// Makes the folder where `ip` keeps names of namespaces private, and tries all that a network needs.
const PREPARE: &str = "mount -t tmpfs tmpfs /run && mkdir /run/netns && ip link set lo up && ip netns add probe \
                       && ip link add name probe0 type veth peer name eth0 netns probe && ip link add name probe1 type bridge \
                       && ip link del probe0 && ip link del probe1 && ip netns del probe";

/// A hardware address that no box has: what is sent there is lost.
const NOBODY: &str = "02:00:00:00:00:99";

/// Runs a program with its own network and mounts; as somebody who is root there alone, if need be.
fn apart(is_root: bool) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net"]);
    if !is_root {
        command.arg("--map-root-user");
    }
    command
}

/// True in namespaces of this test's own. Elsewhere the test of this name runs in them, as a process of its own whose lines are
/// printed, and false is returned when it has passed. Where the system refuses namespaces, a line says so past the test's capture.
///
/// # Panics
/// The test fails in its namespaces.
#[must_use]
pub fn inside(test: &str) -> bool {
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let mut why = String::new();
    for is_root in [true, false] {
        match apart(is_root).args(["sh", "-c", PREPARE]).output() {
            Ok(output) if output.status.success() => {
                run_inside(apart(is_root), test);
                return false;
            }
            Ok(output) => why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "),
            Err(error) => why = error.to_string(),
        }
    }
    skipped(format_args!("{test} needs network namespaces, which are refused here: {why}"));
    false
}

fn run_inside(mut command: Command, test: &str) {
    let this = std::env::current_exe().expect("the path of this program");
    command.args(["sh", "-c", &format!("{PREPARE} && exec \"$0\" \"$@\" 2>&1")]).arg(this);
    command.args(["--exact", test, "--nocapture"]).env(MARK, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("unshare runs");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    // The harness of the outer process prints its own lines: these would count twice.
    let is_of_harness = |line: &str| {
        line.starts_with("test ") || line.starts_with("running ") || line == "failures:" || line.trim() == test
    };
    for line in lines.map_while(Result::ok) {
        match line.split_once("skipped: ") {
            Some((_, why)) => skipped(why),
            None if is_of_harness(&line) => {}
            None => println!("{line}"),
        }
    }
    let status = child.wait().expect("its end");
    assert!(status.success(), "{test} has failed in its namespaces: {status}");
}

/// Boxes that are joined.
#[derive(Debug)]
pub struct Network {
    number: u8,
}

impl Network {
    /// Makes the network of this number, which no other network of the process has, with up to 100 boxes.
    ///
    /// # Panics
    /// The process is not [`inside`] namespaces of its own.
    #[must_use]
    pub fn new(number: u8, boxes: usize) -> Network {
        let network = Network { number };
        let bridge = format!("bridge{number}");
        run(&format!("ip link add name {bridge} type bridge"));
        run(&format!("ip addr add {}/24 dev {bridge}", network.here()));
        run(&format!("ip link set {bridge} up"));
        for nth in 0..boxes {
            let (name, port, ip) = (network.name(nth), network.port(nth), network.ip(nth));
            run(&format!("ip netns add {name}"));
            run(&format!("ip link add name {port} type veth peer name eth0 netns {name}"));
            run(&format!("ip link set {port} master {bridge} up"));
            run(&format!("ip -n {name} addr add {ip}/24 dev eth0"));
            run(&format!("ip -n {name} link set eth0 up"));
            run(&format!("ip -n {name} link set lo up"));
        }
        network
    }

    fn name(&self, nth: usize) -> String {
        format!("box{}x{nth}", self.number)
    }

    fn port(&self, nth: usize) -> String {
        format!("port{}x{nth}", self.number)
    }

    /// The address of a box.
    #[must_use]
    pub fn ip(&self, nth: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, 10 + nth as u8)
    }

    /// The address of the test's process in this network.
    #[must_use]
    pub fn here(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, 1)
    }

    /// Gives the test's process one more address.
    ///
    /// # Errors
    /// The system's words, where it has no such addresses.
    pub fn add_here(&self, address: IpAddr) -> Result<(), String> {
        let (bits, at_once) = if address.is_ipv6() { (128, " nodad") } else { (32, "") };
        try_run(&format!("ip addr add {address}/{bits} dev bridge{}{at_once}", self.number))
    }

    /// The words under which a program runs in a box.
    #[must_use]
    pub fn under(&self, nth: usize) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net=/run/netns/{}", self.name(nth))]
    }

    /// Has what a box is sent arrive at this rate at most, in bytes a second; what it sends is as fast as before.
    ///
    /// # Errors
    /// The system's words, where it has no such limit.
    pub fn slow_down(&self, nth: usize, bytes_per_second: u64) -> Result<(), String> {
        let port = self.port(nth);
        try_run(&format!("tc qdisc replace dev {port} root tbf rate {bytes_per_second}bps burst 256kb latency 50ms"))
    }

    /// Cuts a box off from all others and from the test.
    ///
    /// # Panics
    /// The system refuses.
    pub fn unplug(&self, nth: usize) {
        run(&format!("ip link set {} down", self.port(nth)));
    }

    /// Joins a box that was cut off.
    ///
    /// # Panics
    /// The system refuses.
    pub fn plug(&self, nth: usize) {
        run(&format!("ip link set {} up", self.port(nth)));
    }

    /// Has two boxes lose what they send each other, without a word to either; both reach all others.
    ///
    /// # Panics
    /// The system refuses.
    pub fn part(&self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            let (name, ip) = (self.name(from), self.ip(to));
            run(&format!("ip -n {name} neigh replace {ip} lladdr {NOBODY} dev eth0 nud permanent"));
        }
    }

    /// Joins two boxes that were parted.
    ///
    /// # Panics
    /// The system refuses.
    pub fn join(&self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            run(&format!("ip -n {} neigh del {} dev eth0", self.name(from), self.ip(to)));
        }
    }
}

/// Runs a line of words.
fn run(line: &str) {
    try_run(line).unwrap_or_else(|error| panic!("{error}"));
}

/// Runs a line of words; an error has it, and what it says.
fn try_run(line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap_or_default()).args(words).output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{line}: {}", said.trim())) }
}
