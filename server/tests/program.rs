//! The program as scripts and operators see it: its version line, its log, its errors.

use std::process::{Command, Output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use varve_testkit::Launch;

const PROGRAM: &str = env!("CARGO_BIN_EXE_varve-server");

fn run(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).output().expect("the program runs")
}

/// The word behind `v=`, as a script cuts it out.
fn version(line: &str) -> &str {
    line.split("v=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a version")
}

#[test]
fn scripts_find_the_version_of_redis_in_the_version_line() {
    let ours = String::from_utf8(run(&["--version"]).stdout).unwrap();
    let peer = Command::new("redis-server").arg("--version").output().expect("redis-server runs");
    assert_eq!(version(&ours), version(&String::from_utf8(peer.stdout).unwrap()));
    assert!(ours.trim_end().ends_with(&format!(" varve={}", env!("CARGO_PKG_VERSION"))), "{ours}");
}

#[test]
fn a_second_server_on_a_port_says_why_it_ends() {
    let first = Launch::binary(PROGRAM).start().expect("varve-server starts");
    let second = run(&["--port", &first.port().to_string(), "--bind", "127.0.0.1"]);
    let log = String::from_utf8(second.stdout).unwrap();
    assert!(!second.status.success());
    let reason =
        format!("Could not create server TCP listening socket 127.0.0.1:{}: Address already in use\n", first.port());
    assert!(log.contains(&reason), "{log}");
    assert!(!log.contains("os error"), "{log}");
}

#[test]
fn the_log_has_local_time() {
    // Half past five east of Greenwich, without a table of zones.
    let launch = Launch::binary(PROGRAM).under(["env", "TZ=EAST-5:30"]);
    let server = launch.start().expect("varve-server starts");
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 5 * 3600 + 30 * 60;
    let log = server.log();
    let line = log.lines().find(|line| line.contains("Ready to accept connections")).expect("it has started");
    let clock = line.split(' ').find(|word| word.contains(':') && word.contains('.')).expect("a time of the day");
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().expect("a number")).collect();
    let logged_s = parts[0] * 3600.0 + parts[1] * 60.0 + parts[2];
    let ago_s = ((now_s % 86_400) as f64 - logged_s).rem_euclid(86_400.0);
    assert!(!(600.0..=86_399.0).contains(&ago_s), "{line}: {ago_s} s ago");
}

#[test]
fn a_file_that_is_no_socket_stays_where_a_socket_is_wanted() {
    let path = std::env::temp_dir().join(format!("varve-no-socket-{}", std::process::id()));
    std::fs::write(&path, "kept").unwrap();
    let refused = run(&["--port", "0", "--save", "", "--unixsocket", &path.to_string_lossy()]);
    assert!(!refused.status.success());
    let log = String::from_utf8(refused.stdout).unwrap();
    assert!(log.contains("Failed opening Unix socket") && log.contains("Address already in use"), "{log}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    std::fs::remove_file(&path).unwrap();
}

/// Data is kept without any setting, as at redis-server: in a file of the working directory, by save points and at the end.
#[test]
fn issue_13_a_server_that_is_started_with_a_port_alone_keeps_its_data() {
    let folder = std::env::temp_dir().join(format!("varve-port-alone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let stands = format!("--chdir={}", folder.display());
    let launch = Launch::command(["env", &stands, PROGRAM, "--port", "{port}"].map(str::to_owned).to_vec());
    for round in 0..3_u64 {
        let mut server = launch.start().expect("varve-server starts");
        let mut client = server.client();
        let found = client.cmd("GET k").text();
        assert_eq!(found, if round == 0 { String::new() } else { round.to_string() }, "{}", server.log());
        let points = client.cmd("CONFIG GET save").elements().expect("a setting")[1].text();
        assert_eq!(points, "3600 1 300 100 60 10000");
        assert_eq!(client.cmd("INCR k").integer(), Some(round as i64 + 1));
        server.signal("TERM").expect("a signal");
        assert_eq!(server.wait(Duration::from_secs(60)), Some(true), "{}", server.log());
    }
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["dump.rdb"]);
    std::fs::remove_dir_all(&folder).unwrap();
}
