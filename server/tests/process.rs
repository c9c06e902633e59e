//! The process as the machine sees it: title, processors, weight for the system's killer, and the end that nobody asked for.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use varve_testkit::{Client, Launch, RespValue, Server, skip, until};

fn launch() -> Launch {
    Launch::binary(env!("CARGO_BIN_EXE_varve-server"))
}

fn proc(server: &Server, file: &str) -> String {
    fs::read_to_string(format!("/proc/{}/{file}", server.pid())).expect("Linux")
}

/// Waits for a text in the log.
fn logged(server: &Server, text: &str) -> String {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let log = server.log();
        if log.contains(text) {
            return log;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no {text} in {}", server.log());
}

fn ok(client: &mut Client, words: &[&str]) {
    assert_eq!(client.call(words).expect("a reply"), RespValue::Simple("OK".into()), "{words:?}");
}

#[test]
fn the_title_follows_its_template() {
    let server =
        launch().config("proc-title-template \"T {title} {listen-addr}|{unixsocket}\"").start().expect("it starts");
    let title = || proc(&server, "cmdline").trim_end_matches('\0').to_owned();
    assert!(title().starts_with("T ") && title().contains("varve-server"), "{}", title());
    assert!(title().ends_with(&format!("127.0.0.1:{}|", server.port())), "{}", title());
    ok(&mut server.client(), &["CONFIG", "SET", "proc-title-template", "short {port}"]);
    assert_eq!(title(), format!("short {}", server.port()));
    let plain = launch().config("set-proc-title no").start().expect("it starts");
    assert!(proc(&plain, "cmdline").contains("\0"), "the command line has stayed");
}

#[test]
fn threads_stay_on_their_processors() {
    let first = proc_self_cpu();
    let server = launch()
        .config(format!("server_cpulist {first}"))
        .config(format!("bio_cpulist {first}"))
        .config("bgsave_cpulist nonsense")
        .start()
        .expect("it starts");
    for task in fs::read_dir(format!("/proc/{}/task", server.pid())).expect("Linux").flatten() {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::trim);
        assert!(allowed.is_none_or(|list| list == first), "{status}");
    }
    ok(&mut server.client(), &["SET", "key", "value"]);
    assert!(!server.client().cmd("BGSAVE").is_error());
    logged(&server, "'nonsense' is no list of processors");
}

/// The processors that this process may use.
fn processors() -> Vec<u32> {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    let number = |text: &str| text.trim().parse::<u32>().expect("a number");
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        number(first)..=number(last)
    };
    list.trim().split(',').flat_map(range).collect()
}

/// A processor that this process may use.
fn proc_self_cpu() -> String {
    processors()[0].to_string()
}

/// For each thread of this name: the processors that it may use, and the one that it ran on last.
fn places(server: &Server, name: &str) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("Linux").flatten();
    let read = |task: &fs::DirEntry, file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
    let of_name = tasks.filter(|task| read(task, "comm").trim() == name);
    let place = |task: fs::DirEntry| {
        let (status, stat) = (read(&task, "status"), read(&task, "stat"));
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
        // The processor is field 39; the name in brackets is the second.
        let last = stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.to_owned();
        Some((allowed, last))
    };
    of_name.filter_map(place).collect()
}

/// Saves and rewrites have a list each; the workers have none here, and stay where the system puts them.
#[test]
fn issue_19_saves_and_rewrites_stay_on_their_processors() {
    let cpus = processors();
    // On a machine with one processor both lists are the same.
    let (save, rewrite) = (cpus[cpus.len() - 1].to_string(), cpus[0].to_string());
    let lines = [format!("bgsave_cpulist {save}"), format!("aof_rewrite_cpulist {rewrite}")];
    let server = lines.into_iter().fold(launch(), Launch::config).start().expect("it starts");
    let mut client = server.client();
    ok(&mut client, &["DEBUG", "POPULATE", "1000"]);
    for (command, list) in [("BGSAVE", &save), ("BGREWRITEAOF", &rewrite)] {
        ok(&mut client, &["CONFIG", "SET", "rdb-key-save-delay", "1000"]);
        assert!(!client.cmd(command).is_error());
        let mut looks = 0;
        until("it was looked at ten times", || {
            let found = places(&server, "saver");
            looks += found.len();
            // A thread is kept there by its first step: until then it may be anywhere.
            looks >= 10 && found.iter().all(|place| *place == (list.clone(), list.clone()))
        });
        ok(&mut client, &["CONFIG", "SET", "rdb-key-save-delay", "0"]);
        until("it ends", || places(&server, "saver").is_empty());
    }
    for (allowed, _) in places(&server, "worker-0") {
        assert_eq!(allowed.split([',', '-']).count() > 1, cpus.len() > 1, "{allowed}");
    }
    assert!(!server.log().contains("cannot be kept"), "{}", server.log());
}

#[test]
fn the_weight_for_the_killer_follows_the_settings() {
    let server = launch().start().expect("it starts");
    let mut client = server.client();
    let weight = || proc(&server, "oom_score_adj").trim().parse::<i32>().expect("a number");
    let before = weight();
    ok(&mut client, &["CONFIG", "SET", "oom-score-adj-values", "10 20 30"]);
    assert_eq!(weight(), before, "it is off");
    ok(&mut client, &["CONFIG", "SET", "oom-score-adj", "relative"]);
    assert_eq!(weight(), (before + 10).min(1000));
    ok(&mut client, &["CONFIG", "SET", "oom-score-adj-values", "15 20 30"]);
    assert_eq!(weight(), (before + 15).min(1000));
    let yes = client.cmd("CONFIG GET oom-score-adj");
    assert_eq!(yes, RespValue::Array(["oom-score-adj", "yes"].map(|word| RespValue::Bulk(word.into())).to_vec()));
}

#[test]
fn connections_to_others_come_from_the_address_that_is_set() {
    let (ours, other) =
        (launch().start().expect("it starts"), launch().config("bind 127.0.0.1").start().expect("it starts"));
    let mut client = ours.client();
    ok(&mut client, &["CONFIG", "SET", "bind-source-addr", "127.0.0.2"]);
    ok(&mut client, &["SET", "key", "value"]);
    let port = other.port().to_string();
    ok(&mut client, &["MIGRATE", "127.0.0.1", &port, "key", "0", "5000"]);
    let list = other.client().cmd("CLIENT LIST");
    assert!(format!("{list:?}").contains("addr=127.0.0.2:"), "{list:?}");
    // An address that this machine does not have is passed over.
    ok(&mut client, &["CONFIG", "SET", "bind-source-addr", "192.0.2.1"]);
    ok(&mut client, &["SET", "key", "value"]);
    ok(&mut client, &["MIGRATE", "127.0.0.1", &port, "key", "0", "5000", "REPLACE"]);
}

/// The report of a server that ended by this command.
fn report_of(server: &mut Server, words: &[&str]) -> String {
    let mut client = server.client();
    ok(&mut client, &["SET", "secret-key", "secret-value"]);
    client.queue(words);
    client.flush().expect("sent");
    assert_eq!(server.wait(Duration::from_secs(60)), Some(false), "it has not ended in order");
    server.log()
}

fn assert_is_report(log: &str) {
    for part in [
        "=== VARVE BUG REPORT START",
        "build=",
        "------ STACK TRACE ------",
        "features::debug::debug",
        "\ndebug\n",
        "# Server",
        "redis_version:",
        "# Keyspace",
        "=== VARVE BUG REPORT END ===",
    ] {
        assert!(log.contains(part), "no {part} in {log}");
    }
    assert!(!log.contains("secret-"), "a report has no data: {log}");
}

#[test]
fn a_crash_is_reported_and_ends_by_its_signal() {
    let mut server = launch().config("enable-debug-command yes").start().expect("it starts");
    let log = report_of(&mut server, &["DEBUG", "SEGFAULT"]);
    assert!(log.contains("Varve crashed by signal: 11 (SIGSEGV)"), "{log}");
    assert_is_report(&log);
}

#[test]
fn a_panic_is_reported() {
    let mut server =
        launch().config("enable-debug-command yes").config("use-exit-on-panic yes").start().expect("it starts");
    let log = report_of(&mut server, &["DEBUG", "PANIC"]);
    assert!(log.contains("=== VARVE PANIC: ") && log.contains("called by DEBUG PANIC"), "{log}");
    assert_is_report(&log);
}

#[test]
fn reports_go_to_the_log_file_and_can_be_turned_off() {
    let file = std::env::temp_dir().join(format!("varve-crash-{}", std::process::id()));
    for (reports, setting) in [(true, "crash-log-enabled yes"), (false, "crash-log-enabled no")] {
        let _ = fs::remove_file(&file);
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_varve-server"))
            .args(["--port", "0", "--unixsocket"])
            .arg(file.with_extension("sock"))
            .args(["--save", "", "--logfile"])
            .arg(&file)
            .args(
                setting
                    .split(' ')
                    .enumerate()
                    .map(|(at, word)| if at == 0 { format!("--{word}") } else { word.into() }),
            )
            .spawn()
            .expect("it starts");
        let until = Instant::now() + Duration::from_secs(60);
        while !fs::read_to_string(&file).is_ok_and(|log| log.contains("Ready to accept")) {
            assert!(Instant::now() < until, "it does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        let killed = std::process::Command::new("kill").args(["-ABRT", &child.id().to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        assert_eq!(child.wait().expect("it ends").signal(), Some(6), "the end is the signal's own");
        let log = fs::read_to_string(&file).expect("a log");
        assert_eq!(log.contains("STACK TRACE"), reports, "{setting}: {log}");
        assert_eq!(log.contains("Killed by PID:"), reports, "{setting}: {log}");
    }
    let _ = fs::remove_file(&file);
}

#[test]
fn the_watchdog_shows_where_a_worker_stands_still() {
    let server = launch().config("enable-debug-command yes").config("io-threads 1").start().expect("it starts");
    let mut client = server.client();
    ok(&mut client, &["CONFIG", "SET", "watchdog-period", "1"]);
    let period = client.cmd("CONFIG GET watchdog-period");
    assert!(format!("{period:?}").contains("200"), "the least period: {period:?}");
    ok(&mut client, &["DEBUG", "SLEEP", "1"]);
    let log = logged(&server, "------\n");
    assert!(log.contains("--- WATCHDOG TIMER EXPIRED ---") && log.contains("features::debug::"), "{log}");
    ok(&mut client, &["CONFIG", "SET", "watchdog-period", "0"]);
    // An alarm that was under way to a thread when the watchdog ended.
    let alarm = std::process::Command::new("kill").args(["-ALRM", &server.pid().to_string()]).status();
    assert!(alarm.is_ok_and(|status| status.success()));
    ok(&mut client, &["SET", "key", "it goes on"]);
}

#[test]
fn the_machine_is_looked_at() {
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_varve-server")).arg("--check-system").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    for name in ["overcommit", "max-map-count", "backlog", "open-files", "huge-pages", "clock", "swap"] {
        assert!(said.contains(&format!("[{name}]...")), "{said}");
    }
    assert_eq!(output.status.success(), !said.contains("WARNING"), "{said}");
    // A start looks as well, and logs what is in the way.
    let server = launch().start().expect("it starts");
    let log = server.log();
    for trouble in said.lines().filter_map(|line| line.strip_prefix("WARNING: ")) {
        assert!(log.contains(trouble), "{trouble} is not in {log}");
    }
}

/// Whether a server with these settings has saved when this signal has ended it.
fn saves_at_end(settings: &[&str], signal: &str) -> bool {
    let launch = settings.iter().fold(launch(), |launch, line| launch.config(*line));
    let mut server = launch.start().expect("it starts");
    ok(&mut server.client(), &["SET", "key", "value"]);
    server.signal(signal).expect("sent");
    assert_eq!(server.wait(Duration::from_secs(60)), Some(true), "{settings:?}: {}", server.log());
    server.dir().join("dump.rdb").exists()
}

#[test]
fn each_signal_ends_the_server_as_its_setting_says() {
    let points = "save 3600 1";
    for (settings, by_term, by_interrupt) in [
        (&["save \"\""][..], false, false),
        (&[points], true, true),
        (&["save \"\"", "shutdown-on-sigterm save"], true, false),
        (&["save \"\"", "shutdown-on-sigint save"], false, true),
        (&[points, "shutdown-on-sigterm nosave"], false, true),
        (&[points, "shutdown-on-sigint nosave now"], true, false),
    ] {
        assert_eq!(saves_at_end(settings, "TERM"), by_term, "SIGTERM, {settings:?}");
        assert_eq!(saves_at_end(settings, "INT"), by_interrupt, "SIGINT, {settings:?}");
    }
}

#[test]
fn a_signal_ends_a_server_that_cannot_save_where_its_setting_forces_it() {
    let mut server = launch().config("enable-protected-configs yes").start().expect("it starts");
    let mut client = server.client();
    let folder = std::env::temp_dir().join(format!("varve-no-save-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    ok(&mut client, &["CONFIG", "SET", "dir", &folder.display().to_string()]);
    fs::remove_dir_all(&folder).expect("it goes");
    ok(&mut client, &["SET", "key", "value"]);
    ok(&mut client, &["CONFIG", "SET", "shutdown-on-sigterm", "save"]);
    server.signal("TERM").expect("sent");
    logged(&server, "Received SIGTERM");
    logged(&server, "can't exit");
    ok(&mut client, &["SET", "key", "it goes on"]);
    ok(&mut client, &["CONFIG", "SET", "shutdown-on-sigterm", "save force"]);
    server.signal("TERM").expect("sent");
    assert_eq!(server.wait(Duration::from_secs(60)), Some(true), "{}", server.log());
}

/// A group of processes with a limit on its memory, which ends with the test.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// A group in the tree of either version, with this limit; None, and the test says that it is skipped, if none may be made.
    fn new(bytes: u64) -> Option<MemoryGroup> {
        let trees = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (tree, limit) in trees {
            let group = MemoryGroup(Path::new(tree).join(format!("varve-test-{}", std::process::id())));
            if fs::create_dir(&group.0).is_ok() && fs::write(group.0.join(limit), bytes.to_string()).is_ok() {
                return Some(group);
            }
        }
        skip::skipped("no group of processes with a memory limit may be made here");
        None
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// In a container the limit of its group is the machine's memory.
#[test]
fn issue_19_the_limit_of_a_group_is_the_machines_memory() {
    const LIMIT: u64 = 512 << 20;
    let Some(group) = MemoryGroup::new(LIMIT) else { return };
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.0.display());
    let server = launch().under(["sh", "-c", &enter]).start().expect("it starts");
    let info = server.client().cmd("INFO memory").text();
    assert!(info.contains(&format!("total_system_memory:{LIMIT}\r\n")), "{info}");
    let free = launch().start().expect("it starts");
    let info = free.client().cmd("INFO memory").text();
    assert!(!info.contains(&format!("total_system_memory:{LIMIT}\r\n")), "outside of the group: {info}");
    drop((server, free));
}
