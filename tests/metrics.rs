//! The metrics port: what Prometheus, its tools and redis_exporter's dashboards make of it.
//!
//! Debian's promtool, prometheus and prometheus-redis-exporter judge; each test says that it skips where its program is not
//! there.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use varve_testkit::server::{free_port, workspace};
use varve_testkit::skip::{has_or_skipped, skipped};
use varve_testkit::{Client, Launch, Server, until};
use varve_tests::cost::cpu_s;

/// A server with a metrics port.
fn server() -> (Server, u16) {
    let port = free_port().expect("a free port");
    let server = Launch::varve().config(format!("metrics-port {port}")).start().expect("a server");
    (server, port)
}

/// Sends these bytes and reads to the end.
fn send(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the metrics port");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream.write_all(bytes).expect("it takes the request");
    let mut answer = Vec::new();
    // A connection that is closed with bytes unread is reset: what came before that counts.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

fn get(port: u16, path: &str) -> (String, String) {
    let answer = send(port, format!("GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n").as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head.to_owned(), body.to_owned())
}

/// Runs some commands of several kinds.
fn work(server: &Server) {
    let mut client = server.client();
    for round in 0..20 {
        let _ = client.call(&["SET", &format!("key:{round}"), "value"]);
        let _ = client.call(&["SET", &format!("soon:{round}"), "value", "EX", "1000"]);
        let _ = client.call(&["GET", &format!("key:{}", round * 2)]);
        let _ = client.call(&["NOTHING\"\\like it"]);
    }
    let _ = client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let _ = client.call(&["PING"]);
}

/// A program that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The value of a line that begins with this.
fn value(text: &str, metric: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no {metric} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn figures_are_what_happened() {
    let (server, port) = server();
    work(&server);
    let (head, text) = get(port, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert_eq!(value(&text, "redis_up"), 1.0);
    assert_eq!(value(&text, "redis_db_keys{db=\"db0\"}"), 40.0);
    assert_eq!(value(&text, "redis_db_keys_expiring{db=\"db0\"}"), 20.0);
    assert_eq!(value(&text, "redis_db_keys{db=\"db15\"}"), 0.0);
    assert_eq!(value(&text, "redis_commands_total{cmd=\"set\"}"), 40.0);
    assert_eq!(value(&text, "redis_commands_latencies_usec_count{cmd=\"set\"}"), 40.0);
    assert_eq!(value(&text, "redis_commands_latencies_usec_bucket{cmd=\"set\",le=\"+Inf\"}"), 40.0);
    assert_eq!(value(&text, "redis_keyspace_hits_total"), 1.0);
    assert_eq!(value(&text, "redis_keyspace_misses_total"), 19.0);
    assert_eq!(value(&text, "redis_errors_total{err=\"ERR\"}"), 20.0);
    assert_eq!(value(&text, "redis_rdb_last_bgsave_status"), 1.0);
    assert!(value(&text, "redis_slowlog_length") >= 1.0);
    assert!(value(&text, "varve_segments{state=\"open\"}") >= 1.0);
    assert!(value(&text, "varve_lock_hold_seconds_count") > 0.0);
    let classes = ["ordinary", "volatile", "survivor"];
    let segments = classes.map(|class| value(&text, &format!("varve_segments_by_class{{class=\"{class}\"}}")));
    assert!(segments[0] >= 1.0 && segments[1] >= 1.0, "{segments:?}");
    assert_eq!(value(&text, "varve_index_keys"), 40.0);
    assert!(value(&text, "varve_index_cells") >= 40.0 && value(&text, "varve_index_load_max") > 0.0);
    let (_, again) = get(port, "/metrics");
    assert_eq!(value(&again, "redis_commands_processed_total"), value(&text, "redis_commands_processed_total"));
}

#[test]
fn health_and_refusals() {
    let (server, port) = server();
    assert_eq!(get(port, "/healthz").1, "ok\n");
    assert_eq!(get(port, "/readyz").1, "ok\n");
    assert!(get(port, "/other").0.starts_with("HTTP/1.1 404 "));
    let refused = |bytes: &[u8], status: &str| {
        let answer = send(port, bytes);
        assert!(answer.starts_with(status), "{answer}");
    };
    refused(b"GET /metrics HTTP/1.1\r\nHost: example.com\r\n\r\n", "HTTP/1.1 403 ");
    refused(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 405 ");
    refused(b"*1\r\n$4\r\nPING\r\n", "HTTP/1.1 400 ");
    refused(b"GET /metrics HT", "HTTP/1.1 408 ");
    drop(server);
}

/// Connections that say nothing have places for five seconds at most, and give them up for those who ask.
#[test]
fn issue_19_silent_connections_keep_nobody_from_an_answer() {
    let (server, port) = server();
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("a socket")).collect();
    for _ in 0..20 {
        assert_eq!(get(port, "/healthz").1, "ok\n");
    }
    let closed = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    };
    let answers: Vec<String> = silent.iter().map(closed).collect();
    let (late, given_up): (Vec<&String>, Vec<&String>) = answers.iter().partition(|answer| !answer.is_empty());
    assert!(given_up.len() >= 50 - 16, "{answers:?}");
    assert!(late.iter().all(|answer| answer.starts_with("HTTP/1.1 408 ")), "{answers:?}");
    assert_eq!(get(port, "/healthz").1, "ok\n");
    drop(server);
}

/// Connections with wrong passwords wait for their answers, and give up their places meanwhile for those who ask.
#[test]
fn issue_11_wrong_passwords_keep_nobody_from_an_answer() {
    let (server, port) = server();
    // x:y
    let wrong = format!("GET /metrics HTTP/1.0\r\nHost: localhost:{port}\r\nAuthorization: Basic eDp5\r\n\r\n");
    for _ in 0..5 {
        let waiting: Vec<TcpStream> = (0..50)
            .map(|_| {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a socket");
                stream.write_all(wrong.as_bytes()).expect("it takes the request");
                stream
            })
            .collect();
        assert_eq!(get(port, "/healthz").1, "ok\n");
        drop(waiting);
    }
    assert!(send(port, wrong.as_bytes()).starts_with("HTTP/1.1 401 "));
    drop(server);
}

#[test]
fn issue_19_a_server_that_loads_is_alive_and_not_ready() {
    let (server, _) = server();
    work(&server);
    assert_eq!(server.client().cmd("SAVE").text(), "OK");
    let (port, folder) = (free_port().expect("a free port"), server.dir().display().to_string());
    let launch = Launch::varve().config(format!("metrics-port {port}")).config(format!("dir {folder}"));
    let launch = launch.config("key-load-delay 100000").config("loading-process-events-interval-bytes 1024");
    let loading = launch.start_loading().expect("a server");
    assert!(get(port, "/readyz").0.starts_with("HTTP/1.1 503 "));
    assert_eq!(get(port, "/readyz").1, "loading\n");
    assert_eq!(get(port, "/healthz").1, "ok\n");
    assert_eq!(loading.client().cmd("CONFIG SET key-load-delay 0").text(), "OK");
    until("it is ready", || get(port, "/readyz").1 == "ok\n");
}

/// Waits for a sync, for a client that does not read, and for a shard that a script holds.
#[test]
fn issue_19_waits_are_measured_by_what_they_are_for() {
    let port = free_port().expect("a free port");
    let lines = ["io-threads 2", "appendonly yes", "appendfsync always", &format!("metrics-port {port}")];
    let server = lines.iter().fold(Launch::varve(), |launch, line| launch.config(*line)).start().expect("a server");
    let waited = |what: &str| value(&get(port, "/metrics").1, &format!("varve_wait_seconds_count{{for=\"{what}\"}}"));
    assert_eq!(["shards", "gate", "sync", "socket"].map(waited), [0.0; 4]);
    let mut client = server.client();
    let large = vec![b'x'; 8 << 20];
    let _ = client.call(&[b"SET", b"large".as_slice(), &large]);
    until("a reply has waited for the sync", || waited("sync") >= 1.0);
    (0..8).for_each(|_| client.queue(&["GET", "large"]));
    client.flush().expect("it is sent");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(waited("socket"), 0.0, "it waits still");
    (0..8).for_each(|_| assert_eq!(client.read().expect("a reply").bytes().map(<[u8]>::len), Some(large.len())));
    until("the client has read", || waited("socket") >= 1.0);
    let mut others: Vec<_> = (0..4).map(|_| server.client()).collect();
    until("somebody has met the key of a script", || {
        client.queue(&["EVAL", "redis.call('GET', KEYS[1]) for n = 1, 10000000 do end", "1", "a"]);
        client.flush().expect("it is sent");
        others.iter_mut().for_each(|other| drop(other.cmd("SET a 1")));
        let _ = client.read();
        waited("gate") + waited("shards") >= 1.0
    });
    let text = client.cmd("INFO background").text();
    assert!(["wait_sync:count=", "wait_socket:count="].iter().all(|field| text.contains(field)), "{text}");
}

/// The mean of the times that are left, as keys are looked at in turn.
#[test]
fn issue_19_the_mean_time_to_live_is_known_by_database() {
    let (server, port) = server();
    let mut client = server.client();
    let _ = client.cmd("SET k v EX 1000");
    let _ = client.cmd("SET l v EX 3000");
    let _ = client.cmd("SET m v");
    let mean = |text: &str, db: &str| value(text, &format!("redis_db_avg_ttl_seconds{{db=\"{db}\"}}"));
    let is_between = |seen: f64| (1500.0..=2000.0).contains(&seen);
    until("both keys were looked at", || is_between(mean(&get(port, "/metrics").1, "db0")));
    let _ = client.cmd("DEL k l");
    assert_eq!(mean(&get(port, "/metrics").1, "db0"), 0.0);
}

#[test]
fn the_place_of_a_connection_that_ended_is_free() {
    let (_server, port) = server();
    let asks = || (0..100).for_each(|_| assert_eq!(get(port, "/healthz").1, "ok\n"));
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(asks))));
}

/// The port asks for no password: where clients need one, it shows no keys and no values.
#[test]
fn slow_commands_have_no_arguments_where_a_password_is_needed() {
    let (server, port) = server();
    let mut client = server.client();
    let _ = client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let _ = client.call(&["SET", "hidden-key", "hidden-value"]);
    assert!(get(port, "/detail.json").1.contains("SET hidden-key hidden-value"));
    let _ = client.call(&["CONFIG", "SET", "requirepass", "password"]);
    let seen = get(port, "/detail.json").1;
    assert!(seen.contains("\"SET\"") && !seen.contains("hidden"), "{seen}");
}

#[test]
fn a_port_that_is_taken_is_an_error_at_the_start() {
    let (_first, port) = server();
    assert!(Launch::varve().config(format!("metrics-port {port}")).start().is_err());
}

#[test]
fn promtool_finds_no_fault() {
    if !has_or_skipped("promtool") {
        return;
    }
    let (server, port) = server();
    work(&server);
    let (_, text) = get(port, "/metrics");
    let mut tool = Command::new("promtool");
    tool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().expect("promtool");
    tool.stdin.take().unwrap().write_all(text.as_bytes()).expect("it reads");
    let output = tool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // Names that are redis_exporter's break some rules of style; what cannot be parsed is another status.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let own: Vec<&str> = said.lines().filter(|line| line.starts_with("varve_")).collect();
    assert_eq!(own, [""; 0]);
}

/// The names before `{` or a blank of all lines that are no comments.
fn names(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with("redis_"));
    lines.map(|line| line.split(['{', ' ']).next().unwrap_or_default().to_owned()).collect()
}

/// Asks until the program answers.
fn until_it_answers(port: u16, path: &str) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return get(port, path).1;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nobody listens on port {port}");
}

/// The figures that Debian's exporter has of a server.
fn exported(server: &Server) -> String {
    let exporter_port = free_port().expect("a free port");
    let mut exporter = Command::new("prometheus-redis-exporter");
    exporter.args(["-redis.addr", &format!("redis://127.0.0.1:{}", server.port())]);
    exporter.args(["-web.listen-address", &format!("127.0.0.1:{exporter_port}")]);
    let _running = Running(exporter.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the exporter"));
    until_it_answers(exporter_port, "/metrics")
}

/// Metrics with the names of their labels: `name{one,two}`.
fn shapes(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with("redis_"));
    let shape = |line: &str| match line.split_once('{') {
        Some((name, rest)) => {
            let labels = rest.split("\",").map(|label| label.split('=').next().unwrap_or_default());
            let mut labels: Vec<&str> = labels.collect();
            labels.sort_unstable();
            format!("{name}{{{}}}", labels.join(","))
        }
        None => line.split(' ').next().unwrap_or_default().to_owned(),
    };
    lines.map(shape).collect()
}

/// The exporter's metrics that are not among ours. Figures of the exporter itself and of its own questions do not count; ours
/// may say more of an instance.
fn missing(theirs: &str, ours: &str) -> Vec<String> {
    let of_itself = ["redis_exporter_", "redis_target_scrape", "redis_last_key_groups_scrape", "redis_instance_info"];
    let all = shapes(theirs).difference(&shapes(ours)).cloned().collect::<Vec<_>>();
    all.into_iter().filter(|name| !of_itself.iter().any(|own| name.starts_with(own))).collect()
}

#[test]
fn all_that_the_exporter_shows_is_there() {
    if !has_or_skipped("prometheus-redis-exporter") {
        return;
    }
    let (server, port) = server();
    work(&server);
    let theirs = exported(&server);
    let (_, ours) = get(port, "/metrics");
    assert_eq!(missing(&theirs, &ours), [""; 0]);
    let gone: Vec<_> =
        names(&theirs).difference(&names(&ours)).filter(|name| name.contains("instance")).cloned().collect();
    assert_eq!(gone, [""; 0]);
    assert!(theirs.contains("redis_exporter_last_scrape_error{err=\"\"} 0"), "{theirs}");
    for metric in ["redis_db_keys{db=\"db0\"}", "redis_commands_total{cmd=\"set\"}", "redis_keyspace_hits_total"] {
        assert_eq!(value(&theirs, metric), value(&ours, metric), "{metric}");
    }
    let quantiles = |text: &str| text.matches("{cmd=\"set\",quantile=\"99.9\"}").count();
    assert_eq!((quantiles(&theirs), quantiles(&ours)), (1, 1));
}

#[test]
fn both_ends_of_replication_are_shown_as_the_exporter_shows_them() {
    if !has_or_skipped("prometheus-redis-exporter") {
        return;
    }
    let (primary, port) = server();
    let (replica, port_of_replica) = server();
    let mut client = replica.client();
    assert_eq!(client.cmd(&format!("REPLICAOF 127.0.0.1 {}", primary.port())).text(), "OK");
    let end = Instant::now() + Duration::from_secs(60);
    while !client.cmd("INFO replication").text().contains("master_link_status:up") {
        assert!(Instant::now() < end, "the link does not come up");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut writer = primary.client();
    writer.call(&[b"SET".as_slice(), b"key", &[b'x'; 100_000]]).expect("a reply");
    assert_eq!(writer.cmd("WAIT 1 60000").integer(), Some(1));
    for (server, port) in [(&primary, port), (&replica, port_of_replica)] {
        let (theirs, ours) = (exported(server), get(port, "/metrics").1);
        assert!(theirs.contains("redis_connected_slave_lag_seconds{") || theirs.contains("redis_master_link_up{"));
        assert_eq!(missing(&theirs, &ours), [""; 0]);
    }
    let counted = |port: u16, metric: &str| value(&get(port, "/metrics").1, metric);
    let (sent, received) = (
        counted(port, "redis_net_repl_output_bytes_total"),
        counted(port_of_replica, "redis_net_repl_input_bytes_total"),
    );
    assert!(sent >= 100_000.0 && received >= 100_000.0, "{sent} {received}");
    assert!(counted(port, "redis_net_output_bytes_total") < 100_000.0, "they are counted by themselves");
}

/// Seconds that a real Prometheus scrapes; the long form takes a minute.
fn scrape_seconds() -> u64 {
    std::env::var("VARVE_SCRAPE_SECONDS").ok().map_or(6, |seconds| seconds.parse().expect("VARVE_SCRAPE_SECONDS"))
}

/// The expressions of the panels of a dashboard of Grafana, with its variables filled in.
fn expressions(dashboard: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in dashboard.split("\"expr\": \"").skip(1) {
        let mut text = String::new();
        let mut chars = part.chars();
        while let Some(next) = chars.next() {
            match next {
                '"' => break,
                '\\' => match chars.next() {
                    Some('n') => text.push(' '),
                    Some(other) => text.push(other),
                    None => break,
                },
                other => text.push(other),
            }
        }
        let variables = [("$namespace", ".*"), ("$instance", ".*"), ("$__rate_interval", "1m"), ("$__interval", "1m")];
        found.push(variables.iter().fold(text, |text, (name, value)| text.replace(name, value)));
    }
    found
}

/// A primary has no primary of its own: this panel is as empty for redis-server.
const EMPTY_PANELS: [&str; 1] = ["redis_master_last_io_seconds_ago{instance=~\".*\"}"];

#[test]
fn every_panel_of_the_dashboards_has_something_to_show() {
    let named = std::env::var_os("VARVE_DASHBOARDS").map(PathBuf::from);
    let archive = named.unwrap_or_else(|| workspace().join("../shared/suites/redis_exporter-contrib.tar.gz"));
    if !archive.exists() {
        return skipped("the dashboards need redis_exporter's folder contrib, an archive that VARVE_DASHBOARDS names");
    }
    if !has_or_skipped("prometheus") || !has_or_skipped("promtool") {
        return;
    }
    let (server, port) = server();
    let dir = server.dir().join("prometheus");
    std::fs::create_dir(&dir).expect("a folder");
    let unpacked = Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(&dir).status();
    assert!(unpacked.is_ok_and(|status| status.success()), "tar");
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: redis\n    static_configs:\n      \
         - targets: ['127.0.0.1:{port}']\n        labels: {{namespace: tests}}\n"
    );
    std::fs::write(dir.join("prometheus.yml"), config).expect("a file");
    let web = free_port().expect("a free port");
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", dir.join("prometheus.yml").display()));
    prometheus.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
    prometheus.arg(format!("--web.listen-address=127.0.0.1:{web}"));
    let _running = Running(prometheus.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("prometheus"));
    let end = Instant::now() + Duration::from_secs(scrape_seconds());
    while Instant::now() < end {
        work(&server);
        std::thread::sleep(Duration::from_millis(100));
    }
    let query = |expression: &str| {
        let mut tool = Command::new("promtool");
        tool.args(["query", "instant", &format!("http://127.0.0.1:{web}"), expression]);
        let output = tool.output().expect("promtool");
        assert!(output.status.success(), "{expression}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    // A scrape or two may have to come yet, on a machine that does other things as well.
    let patience = Instant::now() + Duration::from_secs(60);
    let boards = ["grafana_prometheus_redis_dashboard.json", "redis-mixin/dashboards/redis-overview.json"];
    let mut panels = 0;
    for board in boards {
        let text = std::fs::read_to_string(dir.join("redis_exporter/contrib").join(board)).expect("a dashboard");
        for expression in expressions(&text) {
            panels += 1;
            while query(&expression).is_empty() && !EMPTY_PANELS.contains(&expression.as_str()) {
                assert!(Instant::now() < patience, "{board}: nothing to show for {expression}");
                work(&server);
                std::thread::sleep(Duration::from_millis(500));
            }
        }
    }
    assert!(panels > 30, "{panels} panels");
    assert_eq!(query("redis_up").split("=>").nth(1).map(|value| value.trim().starts_with('1')), Some(true));
    alerts_are_silent_until_they_have_a_reason(&server, &dir.join("redis_exporter/contrib/redis-mixin"), &query);
}

/// The expressions of the rules of redis-mixin, with its usual settings filled in.
fn rules(folder: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(file)).expect("rules");
    let all = text.lines().filter_map(|line| line.trim().strip_prefix("expr: '")?.split('\'').next());
    let settings = [("%(redisExporterSelector)s", "job=\"redis\""), ("%(redisConnectionsThreshold)s", "100")];
    all.map(|rule| settings.iter().fold(rule.to_owned(), |rule, (name, value)| rule.replace(name, value))).collect()
}

/// The rules that record a figure do; alerts know the figures that they compare, say nothing of a server that is well, and
/// speak when there is something to say. Those about a cluster have no figures without one, as with redis_exporter.
fn alerts_are_silent_until_they_have_a_reason(server: &Server, folder: &Path, query: &impl Fn(&str) -> String) {
    let recorded = rules(folder, "rules/redis.libsonnet");
    assert!(!recorded.is_empty() && recorded.iter().all(|rule| query(rule).contains("=>")), "{recorded:?}");
    let alerts = rules(folder, "alerts/redis.libsonnet");
    assert_eq!(alerts.len(), 6);
    for alert in &alerts {
        assert_eq!(query(alert), "", "{alert}");
        let figure =
            alert.rsplit_once([' ']).and_then(|(rest, _)| rest.trim_end().rsplit_once(' ')).expect("a comparison").0;
        assert_eq!(query(figure).is_empty(), alert.contains("redis_cluster_"), "{figure}");
    }
    let many: Vec<_> = (0..101).map(|_| server.client()).collect();
    let busy = alerts.iter().find(|alert| alert.contains("connected_clients")).expect("one is about clients");
    until("the alert speaks", || !query(busy).is_empty());
    drop(many);
}

/// Segments by the share of their bytes that lives, in tenths.
fn tenths(text: &str) -> [f64; 10] {
    std::array::from_fn(|nth| value(text, &format!("varve_segments_by_utilisation{{tenth=\"{nth}\"}}")))
}

/// Figures of ours that have no name of redis_exporter: segments by what lives in them, reclaim, and how late keys expire.
#[test]
fn issue_19_own_figures_follow_what_happens() {
    let (server, port) = server();
    let mut client = server.client();
    let text = || get(port, "/metrics").1;
    for figure in ["varve_reclaim_victims_total", "varve_reclaim_live_bytes_total", "varve_reclaim_moved_objects_total"]
    {
        assert_eq!(value(&text(), figure), 0.0, "{figure}");
    }
    // 40 MB, of which two thirds die in each segment: reclaim moves the rest.
    assert_eq!(client.cmd("DEBUG POPULATE 150000 key 250").text(), "OK");
    let states = ["open", "sealed", "draining"].map(|state| format!("varve_segments{{state=\"{state}\"}}"));
    let in_use = |text: &str| states.iter().map(|state| value(text, state)).sum::<f64>();
    let full = text();
    assert!(in_use(&full) >= 4.0, "{full}");
    assert_eq!(tenths(&full).iter().sum::<f64>(), in_use(&full), "{full}");
    assert!(tenths(&full)[9] >= 4.0, "all of it lives: {full}");
    for nth in (0..150_000).filter(|nth| nth % 3 != 0) {
        client.queue(&["DEL", &format!("key:{nth}")]);
    }
    client.flush().expect("sent");
    (0..100_000).for_each(|_| assert_eq!(client.read().expect("a reply").integer(), Some(1)));
    until("reclaim has moved what lives", || value(&text(), "varve_reclaim_moved_objects_total") > 10_000.0);
    until("reclaim rests", || {
        let before = value(&text(), "varve_reclaim_moved_objects_total");
        // Where nothing is written for two seconds, what is still dead follows.
        std::thread::sleep(Duration::from_secs(3));
        value(&text(), "varve_reclaim_moved_objects_total") == before
    });
    let rest = text();
    assert!(value(&rest, "varve_reclaim_victims_total") >= 2.0, "{rest}");
    // Each object that was moved lives, and has 250 bytes at least.
    let live = value(&rest, "varve_reclaim_live_bytes_total");
    assert!(live >= 250.0 * value(&rest, "varve_reclaim_moved_objects_total") && live < 100e6, "{rest}");
    assert!(in_use(&rest) < in_use(&full), "{rest}");
    assert_eq!(tenths(&rest).iter().sum::<f64>(), in_use(&rest), "{rest}");
    let info = client.cmd("INFO background").text();
    for (metric, field) in [
        ("varve_reclaim_victims_total", "reclaim_victims"),
        ("varve_reclaim_live_bytes_total", "reclaim_live_bytes"),
        ("varve_reclaim_moved_objects_total", "reclaim_moved_objects"),
    ] {
        assert!(info.contains(&format!("\r\n{field}:{}\r\n", value(&rest, metric))), "{metric}: {info}");
    }

    // A key that is due stays while nobody removes keys: it is as late as it has been due.
    assert_eq!(value(&rest, "varve_expire_lag_seconds"), 0.0);
    assert_eq!(value(&rest, "varve_expiry_delay_seconds_count"), 0.0);
    assert_eq!(client.cmd("DEBUG SET-ACTIVE-EXPIRE 0").text(), "OK");
    assert_eq!(client.cmd("SET late value PX 1").text(), "OK");
    until("it is half a second late", || value(&text(), "varve_expire_lag_seconds") >= 0.5);
    assert_eq!(value(&text(), "varve_expiry_delay_seconds_count"), 0.0);
    assert_eq!(client.cmd("DEBUG SET-ACTIVE-EXPIRE 1").text(), "OK");
    until("it is removed", || value(&text(), "varve_expire_lag_seconds") == 0.0);
    let late = text();
    assert_eq!(value(&late, "varve_expiry_delay_seconds_count"), 1.0);
    assert_eq!(value(&late, "varve_expiry_delay_seconds_bucket{le=\"+Inf\"}"), 1.0);
    let delay_s = value(&late, "varve_expiry_delay_seconds_sum");
    assert!((0.4..60.0).contains(&delay_s), "{delay_s}");
}

/// Names of keys and arguments of slow commands are shown to whoever sees them elsewhere too, and wrong passwords are in
/// ACL LOG.
#[test]
fn issue_16_names_are_shown_to_those_who_may_see_them() {
    let (server, port) = server();
    let mut client = server.client();
    let page = |login: &str| {
        let words = format!("GET /detail.json HTTP/1.0\r\nHost: localhost:{port}\r\n{login}\r\n");
        let answer = send(port, words.as_bytes());
        (answer.split(' ').nth(1).unwrap_or_default().to_owned(), answer.contains("hidden-value"))
    };
    let basic = |words: &str| format!("Authorization: Basic {words}\r\n");
    client.cmd("CONFIG SET slowlog-log-slower-than 0");
    client.cmd("SET hidden-key hidden-value");
    client.cmd("CONFIG SET slowlog-log-slower-than -1");
    for rule in [
        "figures on >p resetkeys +info",
        "slow on >p ~a* +info +slowlog",
        "all on >p ~* +info +slowlog",
        "none on >p ~* +@all -info",
    ] {
        assert_eq!(client.cmd(&format!("ACL SETUSER {rule}")).text(), "OK");
    }
    let ok = |shows: bool| ("200".to_owned(), shows);
    assert_eq!(page(""), ok(true), "clients need no password");
    // figures:p, slow:p, all:p
    assert_eq!(page(&basic("ZmlndXJlczpw")), ok(false));
    assert_eq!(page(&basic("c2xvdzpw")), ok(false), "it may not read all keys");
    assert_eq!(page(&basic("YWxsOnA=")), ok(true));
    // none:p and all:q
    let refused = ("401".to_owned(), false);
    assert_eq!(page(&basic("bm9uZTpw")), refused);
    assert_eq!(client.cmd("ACL LOG").elements().map(<[_]>::len), Some(0), "its password is right");
    assert_eq!(page(&basic("YWxsOnE=")), refused);
    let log = client.cmd("ACL LOG");
    let entry = &log.elements().expect("entries")[0];
    let words: Vec<String> = entry.elements().expect("an entry").iter().map(|word| word.text()).collect();
    assert!(["auth", "all"].iter().all(|word| words.iter().any(|other| other == word)), "{words:?}");
    assert!(client.cmd("INFO stats").text().contains("acl_access_denied_auth:1\r\n"));
    let mut boss = server.client();
    assert_eq!(boss.cmd("ACL SETUSER boss on nopass ~* &* +@all").text(), "OK");
    assert_eq!(boss.cmd("AUTH boss x").text(), "OK");
    // A request without a password is the default user's, who sees here what it sees elsewhere.
    let clients = || {
        let words = format!("GET /clients.json HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n");
        send(port, words.as_bytes()).contains("\"peer\":\"127.0.0.1:")
    };
    assert!(clients(), "it may run CLIENT LIST");
    for (rule, shows) in
        [("resetkeys %W~*", false), ("~* -slowlog", false), ("+slowlog", true), ("resetkeys -@all +ping", false)]
    {
        assert_eq!(boss.cmd(&format!("ACL SETUSER default {rule}")).text(), "OK");
        assert_eq!(page(""), ok(shows), "{rule}");
    }
    assert!(!clients(), "it may not run CLIENT LIST");
    assert_eq!(boss.cmd("ACL SETUSER default ~* +@all").text(), "OK");
    assert_eq!(page(""), ok(true));
    assert_eq!(boss.cmd("CONFIG SET figures-with-key-names no").text(), "OK");
    assert_eq!(page(""), ok(false), "the server hides names");
    assert_eq!(boss.cmd("CONFIG SET figures-with-key-names yes").text(), "OK");
    // A default user that is switched off lets nobody in, whatever password it would need.
    assert_eq!(boss.cmd("ACL SETUSER default off").text(), "OK");
    assert_eq!(page(""), ok(false));
}

/// A name that looks like the number which stands for a hidden one is hidden like any other.
#[test]
fn issue_11_a_name_that_begins_like_a_number_is_hidden() {
    let (server, port) = server();
    let mut client = server.client();
    let value = "v".repeat(5000);
    assert_eq!(client.call(&["SET", "#session:alice", &value]).expect("a reply").text(), "OK");
    assert_eq!(client.cmd("ACL SETUSER figures on >p resetkeys +info").text(), "OK");
    let page = |login: &str| {
        let words = format!("GET /keys.json HTTP/1.0\r\nHost: localhost:{port}\r\n{login}\r\n");
        let answer = send(port, words.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        answer
    };
    // figures:p
    let of_user = || page("Authorization: Basic ZmlndXJlczpw\r\n");
    let shows = |answer: String| answer.matches("#session:").count();
    until("it is among those that are used most, and among the large ones", || {
        (0..2000).for_each(|_| assert_eq!(client.cmd("STRLEN #session:alice").integer(), Some(5000)));
        shows(page("")) >= 2
    });
    assert_eq!(shows(of_user()), 0, "it may not read all keys");
    assert_eq!(client.cmd("CONFIG SET figures-with-key-names no").text(), "OK");
    assert_eq!((shows(page("")), shows(of_user())), (0, 0), "the server hides names");
}

/// Calls two hundred commands that come back at once, with as many words as they want; most answer by an error.
fn call_many(client: &mut Client) {
    const LEFT_OUT: [&str; 24] = [
        "shutdown",
        "monitor",
        "subscribe",
        "psubscribe",
        "ssubscribe",
        "quit",
        "sync",
        "psync",
        "debug",
        "flushall",
        "flushdb",
        "swapdb",
        "replicaof",
        "slaveof",
        "failover",
        "reset",
        "hello",
        "multi",
        "save",
        "bgsave",
        "bgrewriteaof",
        "client",
        "keys",
        "replconf",
    ];
    let all = client.cmd("COMMAND");
    let mut called = 0;
    for command in all.elements().expect("a list") {
        let about = command.elements().expect("a command");
        let (name, words) = (about[0].text(), about[1].integer().expect("its words").unsigned_abs() as usize);
        if called < 200 && !LEFT_OUT.contains(&name.as_str()) {
            let words: Vec<&str> = std::iter::once(name.as_str()).chain(std::iter::repeat_n("7", words - 1)).collect();
            client.call(&words).expect("a reply");
            called += 1;
        }
    }
    assert_eq!(called, 200);
}

/// Milliseconds of CPU that a scrape may cost. A machine that does other things as well has caches that are never its own: the
/// short form allows twice what the long one does.
fn scrape_ms_max() -> f64 {
    if std::env::var_os("VARVE_SCRAPE_SECONDS").is_some() { 1.0 } else { 2.0 }
}

/// At a million keys, with two hundred commands called. A worker whose commands met a shard or the gate that a scrape holds would have
/// put them back, and have counted that: there is nobody else here whom it could meet.
#[test]
fn issue_19_a_scrape_costs_little_and_is_in_the_way_of_nobody() {
    let port = free_port().expect("a free port");
    let launch = Launch::varve().config(format!("metrics-port {port}")).config("io-threads 1").config("save \"\"");
    let server = launch.start().expect("a server");
    let mut client = server.client();
    assert_eq!(client.cmd("DEBUG POPULATE 1000000").text(), "OK");
    call_many(&mut client);
    let scrapes = 200_u32;
    let text = get(port, "/metrics").1;
    let before = cpu_s(&mut client);
    (0..scrapes).for_each(|_| drop(get(port, "/metrics")));
    let ms = (cpu_s(&mut client) - before) * 1e3 / f64::from(scrapes);
    println!("a scrape of {} KB, 200 commands called: {ms:.2} ms of CPU", text.len() >> 10);
    assert!(ms < scrape_ms_max(), "a scrape costs {ms:.2} ms of CPU");
    let waited = || {
        ["shards", "gate"]
            .map(|what| value(&get(port, "/metrics").1, &format!("varve_wait_seconds_count{{for=\"{what}\"}}")))
    };
    let before = waited();
    std::thread::scope(|scope| {
        let scraper = scope.spawn(|| (0..200).for_each(|_| drop(get(port, "/metrics"))));
        let mut commands = 0_u32;
        while !scraper.is_finished() {
            (0..50).for_each(|n| client.queue(&["SET", &format!("key:{n}"), "value"]));
            client.queue(&["DBSIZE"]);
            client.flush().expect("sent");
            (0..51).for_each(|_| drop(client.read().expect("a reply")));
            commands += 51;
        }
        assert!(commands > 1000, "{commands} commands beside the scrapes");
    });
    assert_eq!(waited(), before, "commands have waited for a scrape");
    // Nor does a scrape wait for others: one thing alone behind the gate for a second.
    client.queue(&["DEBUG", "SLEEP", "1"]);
    client.flush().expect("sent");
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    let _ = get(port, "/metrics");
    let _ = get(port, "/detail.json");
    assert!(began.elapsed() < Duration::from_millis(700), "it has waited for {:?}", began.elapsed());
    assert_eq!(client.read().expect("a reply").text(), "OK");
}
