//! docs/moving.md as it stands: its commands are run, with the services' places and ports replaced by those of this test.
//!
//! A block of `sh` is run line by line; a word behind `sh` says what the servers are like when it begins. `systemctl` and
//! `chown` are the test's own: the first starts and ends both servers, the second has nothing to do without a service's user.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use varve_testkit::server::{free_port, peer_binary, target_dir, valkey_binary, varve_binary, workspace};
use varve_testkit::skip::skipped;

/// The two services and the folder of this test.
struct Services {
    root: PathBuf,
    ports: [u16; 2],
}

const NAMES: [&str; 2] = ["redis-server", "varve-server"];

impl Services {
    fn new(name: &str, append: bool) -> Services {
        Services::with_old(name, append, &peer_binary())
    }

    /// The server that data sets come from is this program.
    fn with_old(name: &str, append: bool, old: &Path) -> Services {
        let root = std::env::temp_dir().join(format!("varve-moving-{name}-{}", std::process::id()));
        let ports = [free_port().expect("a port"), free_port().expect("a port")];
        let services = Services { root, ports };
        for (name, port) in NAMES.iter().zip(ports) {
            let dir = services.dir(name);
            fs::create_dir_all(&dir).expect("a folder");
            let on = if append { "yes" } else { "no" };
            let conf = format!(
                "port {port}\nbind 127.0.0.1\ndir {0}\npidfile {0}/pid\nlogfile {0}/log\ndaemonize yes\nappendonly {on}\n\
                 enable-debug-command yes\n",
                dir.display()
            );
            fs::write(dir.join("conf"), conf).expect("a file");
        }
        services.write_tools(old);
        services
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The test's own tools, which come before the machine's.
    fn write_tools(&self, old: &Path) {
        let bin = self.root.join("bin");
        fs::create_dir_all(&bin).expect("a folder");
        let ours = varve_binary();
        let root = self.root.display();
        let systemctl = format!(
            "#!/bin/sh\nset -e\ncase \"$2\" in redis-server) program={}; port={};; *) program={}; port={};; esac\n\
             if [ \"$1\" = start ]; then\n  $program {root}/$2/conf\n  \
             for i in $(seq 600); do redis-cli -p $port PING 2>/dev/null | grep -q PONG && exit 0; sleep 0.1; done; exit 1\n\
             fi\npid=$(cat {root}/$2/pid)\nkill $pid\nwhile kill -0 $pid 2>/dev/null; do sleep 0.05; done\n",
            old.display(),
            self.ports[0],
            ours.display(),
            self.ports[1]
        );
        let mut build = Command::new(env!("CARGO"));
        let built =
            build.args(["build", "--quiet", "--workspace", "--bin", "varve-check"]).current_dir(workspace()).status();
        assert!(built.is_ok_and(|status| status.success()), "varve-check is built");
        let check = target_dir().join("debug/varve-check");
        let check = format!("#!/bin/sh\nexec {} \"$@\"\n", check.display());
        for (name, text) in [("systemctl", systemctl.as_str()), ("chown", "#!/bin/sh\n"), ("varve-check", &check)] {
            fs::write(bin.join(name), text).expect("a file");
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).expect("its mode");
        }
    }

    /// The output of a line, with this test's ports and folders.
    fn run(&self, line: &str) -> String {
        let line = line
            .replace("6379", &self.ports[0].to_string())
            .replace("6380", &self.ports[1].to_string())
            .replace("/var/lib/redis", &self.dir(NAMES[0]).display().to_string())
            .replace("/var/lib/varve", &self.dir(NAMES[1]).display().to_string());
        let path = format!("{}:{}", self.root.join("bin").display(), std::env::var("PATH").expect("a path"));
        let output =
            Command::new("sh").args(["-ec", &line]).env("PATH", path).stdin(Stdio::null()).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !said.starts_with("ERR"), "{line}: {}\n{said}\n{complaint}", output.status);
        said
    }

    fn start(&self, name: &str) {
        self.run(&format!("systemctl start {name}"));
    }

    fn stop(&self, name: &str) {
        self.run(&format!("systemctl stop {name}"));
    }

    fn is_running(&self, name: &str) -> bool {
        self.dir(name).join("pid").exists()
    }

    /// A data set with every type, on the server of this port.
    fn fill(&self, port: &str) {
        let lines = [
            "SET first one",
            "SET second 2 EX 100000",
            "RPUSH list a b c",
            "HSET hash f v g w",
            "SADD set 1 2 x",
            "ZADD zset 1 a 2.5 b",
            "XADD stream 1-1 field value",
            "XGROUP CREATE stream group 0",
            "PFADD sketch a b c",
            "SETBIT bits 1000 1",
        ];
        lines.iter().for_each(|line| _ = self.run(&format!("redis-cli -p {port} {line}")));
    }

    /// The digest of the data set, which both servers reckon alike.
    fn digest(&self, port: &str) -> String {
        self.run(&format!("redis-cli -p {port} DEBUG DIGEST"))
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        for name in NAMES {
            if let Ok(pid) = fs::read_to_string(self.dir(name).join("pid")) {
                let _ = Command::new("kill").args(["-KILL", pid.trim()]).status();
            }
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The blocks of the page that are commands, by the word behind `sh`, in their order.
fn blocks() -> BTreeMap<String, Vec<Vec<String>>> {
    let page = fs::read_to_string(Path::new(&workspace()).join("docs/moving.md")).expect("the page");
    let mut blocks: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```sh") else { continue };
        let block: Vec<String> = lines.by_ref().take_while(|line| *line != "```").map(str::to_owned).collect();
        blocks.entry(kind.trim().to_owned()).or_default().push(block);
    }
    blocks
}

/// Runs a block; returns what its last line said.
fn follow(services: &Services, block: &[String]) -> String {
    assert!(!block.is_empty(), "a block has lines");
    block.iter().fold(String::new(), |_, line| services.run(line))
}

#[test]
fn a_data_set_moves_by_its_file_and_back() {
    let services = Services::new("rdb", false);
    services.start(NAMES[0]);
    services.fill("6379");
    let before = services.digest("6379");
    let blocks = &blocks()[""];
    assert_eq!(blocks.len(), 3, "look, there, back");
    assert!(follow(&services, &blocks[0]).contains("stream"), "varve-check names the types");
    assert_eq!(follow(&services, &blocks[1]), "9");
    assert!(!services.is_running(NAMES[0]) && services.is_running(NAMES[1]));
    assert_eq!(services.digest("6380"), before);
    services.run("redis-cli -p 6380 SET more 1");
    let before = services.digest("6380");
    assert_eq!(follow(&services, &blocks[2]), "10");
    assert_eq!(services.digest("6379"), before);
    services.stop(NAMES[0]);
}

/// The data set of a server that goes on serving is followed, taken over, and given back.
fn a_data_set_moves_without_a_stop(services: &Services) {
    NAMES.iter().for_each(|name| services.start(name));
    services.fill("6379");
    let before = services.digest("6379");
    let (there, back) = (&blocks()["follow"], &blocks()["back"]);
    assert_eq!((there.len(), back.len()), (1, 1));
    let said = follow(services, &there[0]);
    assert!(said.contains("role:master") && said.contains("connected_slaves:1"), "{said}");
    assert_eq!(services.digest("6380"), before);
    services.run("redis-cli -p 6380 SET more 1");
    let before = services.digest("6380");
    follow(services, &back[0]);
    assert_eq!(services.digest("6379"), before);
    assert!(services.run("redis-cli -p 6379 ROLE").starts_with("master"));
    NAMES.iter().for_each(|name| services.stop(name));
}

#[test]
fn issue_19_a_data_set_moves_by_replication_and_back() {
    a_data_set_moves_without_a_stop(&Services::new("follow", false));
}

#[test]
fn issue_19_a_data_set_of_valkey_moves_and_back() {
    let Some(valkey) = valkey_binary() else {
        skipped("there is no valkey-server");
        return;
    };
    let services = Services::with_old("valkey", false, &valkey);
    a_data_set_moves_without_a_stop(&services);
    drop(services);
    let services = Services::with_old("valkey-file", false, &valkey);
    services.start(NAMES[0]);
    services.fill("6379");
    let before = services.digest("6379");
    let blocks = &blocks()[""];
    assert_eq!(follow(&services, &blocks[1]), "9");
    assert_eq!(services.digest("6380"), before);
    services.run("redis-cli -p 6380 SET more 1");
    assert_eq!(follow(&services, &blocks[2]), "10");
    services.stop(NAMES[0]);
}

#[test]
fn an_append_only_file_moves() {
    let services = Services::new("aof", true);
    services.start(NAMES[0]);
    services.fill("6379");
    let before = services.digest("6379");
    let blocks = &blocks()["append"];
    assert_eq!(blocks.len(), 1);
    assert_eq!(follow(&services, &blocks[0]), "9");
    assert_eq!(services.digest("6380"), before);
    services.stop(NAMES[1]);
}

#[test]
fn keys_move_while_both_run() {
    let services = Services::new("both", false);
    NAMES.iter().for_each(|name| services.start(name));
    services.fill("6379");
    let blocks = &blocks()["both"];
    assert_eq!(blocks.len(), 1);
    assert_eq!(follow(&services, &blocks[0]), "2");
    assert_eq!(services.run("redis-cli -p 6379 EXISTS first second"), "0");
    NAMES.iter().for_each(|name| services.stop(name));
}
