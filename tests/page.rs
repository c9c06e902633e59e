//! The page of the metrics port, in Chromium under load: every view is filled, nothing is asked of anybody else, names are
//! text whatever they contain, and a narrow window shows it whole.
//!
//! Skipped, and said so, where there is no Chromium.

#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use varve_testkit::server::{free_port, target_dir};
use varve_testkit::{Launch, Server, browser, process};

/// A name that is markup, and would be an element if a page took it for that.
const MARKUP: &str = "<img src=x onerror=alert(1)>";
/// Milliseconds of the page's own clock: a look at everything is each five seconds.
const CLOCK_MS: u32 = 12_000;

fn has_browser() -> bool {
    let found = Path::new("/usr/bin/chromium").exists();
    if !found {
        println!("skipped: there is no chromium");
    }
    found
}

fn server() -> (Server, u16) {
    let port = free_port().expect("a free port");
    let server = Launch::varve().config(format!("metrics-port {port}")).start().expect("a server");
    (server, port)
}

/// Commands of several kinds until told to stop.
fn work(server: &Server, stops: &AtomicBool) {
    let mut client = server.client();
    let mut round = 0_u64;
    while !stops.load(Ordering::Relaxed) {
        round += 1;
        let key = format!("key:{}", round % 5000);
        for command in
            [&["SET", &key, "some value"][..], &["GET", &key], &["LPUSH", "list", "x"], &["LTRIM", "list", "0", "99"]]
        {
            let _ = client.call(command);
        }
    }
}

/// The element of this id, as text of the tree.
fn part<'t>(tree: &'t str, id: &str) -> &'t str {
    let from = tree.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no element {id} in {tree}"));
    &tree[from..]
}

fn rows(tree: &str, id: &str) -> usize {
    part(tree, id).split("</table>").next().unwrap_or_default().matches("<tr>").count()
}

#[test]
fn every_view_is_filled_and_names_are_text() {
    if !has_browser() {
        return;
    }
    let (server, port) = server();
    let mut client = server.client();
    for command in [
        &["CONFIG", "SET", "slowlog-log-slower-than", "0"][..],
        &["SET", MARKUP, MARKUP],
        &["CLIENT", "SETNAME", "a<b>"],
    ] {
        let _ = client.call(command);
    }
    let _ = client.call(&["GET", MARKUP]);
    // Nothing is slow from here on: the entries above stay the newest.
    let _ = client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
    let mut waiter = server.client();
    waiter.queue(&["BLPOP", "nothing", "0"]);
    waiter.flush().expect("it is sent");
    let stops = AtomicBool::new(false);
    let shown = thread::scope(|scope| {
        scope.spawn(|| work(&server, &stops));
        let folder = target_dir().join("page-browser");
        let shown = browser::open(&format!("http://127.0.0.1:{port}/"), 1200, CLOCK_MS, &folder);
        stops.store(true, Ordering::Relaxed);
        shown.expect("a browser")
    });
    let tree = &shown.tree;
    assert_eq!(shown.console, Vec::<String>::new());
    for chart in ["rate", "cpu", "bytes", "net"] {
        let svg = part(tree, chart).split("</svg>").next().unwrap();
        assert!(svg.contains("<polyline points=\"") && svg.contains("</text>"), "{chart}: {svg}");
    }
    for table in [
        "heat",
        "command-table",
        "slow-table",
        "wait-table",
        "database-table",
        "tenths",
        "index-table",
        "hot-table",
        "prefix-table",
        "due-table",
        "large-table",
        "client-table",
    ] {
        let body = part(tree, table).split("</table>").next().unwrap();
        assert!(rows(tree, table) >= 2 && !body.contains("class=\"none\""), "{table}: {body}");
    }
    for list in ["now-figures", "memory-figures", "key-figures"] {
        assert!(part(tree, list).split("</dl>").next().unwrap().matches("<dd>").count() >= 5, "{list}");
    }
    assert!(part(tree, "heat").contains("lpush"), "commands have their row in the latency map");
    assert!(part(tree, "map-text").starts_with("id=\"map-text\" class=\"\">"), "the map says in words what it shows");
    assert!(part(tree, "index-text").contains(" shards, "), "the bars do too");
    let blocked = part(tree, "client-table").split("</table>").next().unwrap();
    assert!(
        blocked.contains("<td class=\"text\">keys</td>") && blocked.contains("blpop"),
        "who waits for what: {blocked}"
    );
    let hot = part(tree, "hot-table").split("</table>").next().unwrap();
    assert!(hot.contains(">list<"), "half of the commands are on one key: {hot}");
    let prefixes = part(tree, "prefix-table").split("</table>").next().unwrap();
    assert!(prefixes.contains(">key:<"), "5000 keys with one prefix: {prefixes}");
    assert!(part(tree, "tree").split("</section>").next().unwrap().contains("title=\"key:: "), "they have a tile");
    assert!(tree.contains("&lt;img src=x onerror=alert(1)&gt;"), "the slow command's arguments are shown");
    assert!(!tree.contains("<img"), "and are no element");
}

#[test]
fn a_narrow_window_shows_it_whole() {
    if !has_browser() {
        return;
    }
    let (_server, port) = server();
    let folder = target_dir().join("page-narrow");
    let shown = browser::open(&format!("http://127.0.0.1:{port}/"), 500, CLOCK_MS, &folder).expect("a browser");
    assert_eq!(shown.console, Vec::<String>::new());
    assert!(
        shown.tree.contains("data-over=\"0\""),
        "wider than its window: {:?}",
        shown.tree.split("data-over").nth(1)
    );
}

/// The questions of a page that is open for a thousand seconds, without the waiting: they take the server less than a
/// thousandth of a core, and its memory does not grow.
#[test]
fn a_page_that_is_open_costs_little() {
    use std::io::{Read, Write};
    let (server, port) = server();
    let ask = |path: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the metrics port");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it takes the request");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        answer.len()
    };
    let round = |seconds: u64| {
        for second in 0..seconds {
            ask("/now.json?since=3600");
            if second % 5 == 0 {
                ask("/detail.json");
                ask("/segments.json");
                ask("/keys.json");
                ask("/clients.json");
            }
        }
    };
    round(100);
    // Ticks of 10 ms of the whole process: the threads that answer end, and would be missed in a sum over threads.
    let used = || {
        let (user, system) = process::cpu_ticks(server.pid()).expect("its CPU time");
        (10 * (user + system), process::memory(server.pid()).expect("its memory").resident)
    };
    let (cpu_before_ms, before) = used();
    round(1000);
    let (cpu_ms, resident) = used();
    let cpu_ms = cpu_ms - cpu_before_ms;
    println!("a thousand seconds of an open page: {cpu_ms} ms of CPU");
    assert!(cpu_ms < 1000, "a thousand seconds of an open page: {cpu_ms} ms of CPU, a thousandth of a core is 1000");
    assert!(resident < before + (2 << 20), "{before} bytes, then {resident}");
}
