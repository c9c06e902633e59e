//! The page of the metrics port, in Chromium under load: every view is filled, nothing is asked of anybody else, names are
//! text whatever they contain, a narrow window shows it whole, keys and readers of screens reach all of it, each figure names
//! the command that prints it, and a page that stays open costs next to nothing.
//!
//! Skipped, and said so, where there is no Chromium.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use varve_testkit::server::{free_port, target_dir};
use varve_testkit::tab::{Tab, Value, json};
use varve_testkit::{Client, Launch, browser, process, until};
use varve_tests::cost::cpu_s;
use varve_tests::page::{DESK, has_browser, server, tab, work};

/// A name that is markup, and would be an element if a page took it for that.
const MARKUP: &str = "<img src=x onerror=alert(1)>";
/// Milliseconds of the page's own clock: a look at everything is each five seconds.
const CLOCK_MS: u32 = 12_000;

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
    let (server, port) = server(&[]);
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
    let (_server, port) = server(&[]);
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
    let (server, port) = server(&[]);
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the metrics port");
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

/// The seconds for which a page stays open in [`a_page_that_stays_open_costs_next_to_nothing`]; the long form takes an hour.
fn open_seconds() -> u64 {
    std::env::var("VARVE_PAGE_SECONDS").ok().map_or(20, |seconds| seconds.parse().expect("VARVE_PAGE_SECONDS"))
}

/// Rounds that a page has made: one a second.
fn rounds(tab: &mut Tab) -> u64 {
    let round = tab.value("Number(document.body.dataset.round || 0)").expect("a number");
    round.as_f64().expect("a number") as u64
}

/// A browser has the page open for as long as it takes. The server's CPU time beyond that of as long a time without a page is
/// less than a thousandth of a core, and its memory does not grow.
#[test]
fn a_page_that_stays_open_costs_next_to_nothing() {
    if !has_browser() {
        return;
    }
    let (server, port) = server(&[]);
    let (mut client, seconds) = (server.client(), open_seconds());
    assert_eq!(client.cmd("DEBUG POPULATE 100000").text(), "OK");
    let others: Vec<Client> = (0..100).map(|_| server.client()).collect();
    // Background work on these keys comes to its end.
    thread::sleep(Duration::from_secs(3));
    let idle_s = seconds.min(60);
    let before = cpu_s(&mut client);
    thread::sleep(Duration::from_secs(idle_s));
    let idle = (cpu_s(&mut client) - before) / idle_s as f64;
    let mut tab = tab("page-open", seconds);
    tab.open(&format!("http://127.0.0.1:{port}/"), DESK).expect("it opens");
    tab.until("Number(document.body.dataset.round) >= 6");
    let resident = || process::memory(server.pid()).expect("its memory").resident;
    let (first, memory, before) = (rounds(&mut tab), resident(), cpu_s(&mut client));
    thread::sleep(Duration::from_secs(seconds));
    let (looks, cpu, grown) =
        (rounds(&mut tab) - first, cpu_s(&mut client) - before, resident().saturating_sub(memory));
    let cost = cpu - idle * seconds as f64;
    println!(
        "{seconds} s of an open page, {looks} looks: {:.1} ms of CPU, of which {:.1} ms without a page; {grown} bytes more",
        cpu * 1e3,
        idle * seconds as f64 * 1e3
    );
    // A busy machine lets the browser look less often than each second, but not much.
    assert!(looks >= seconds / 3, "the page has looked {looks} times in {seconds} s");
    // Beside other tests the same work takes more of a processor: 15 ms alone were 34 ms. The long form runs alone.
    let most = if seconds < 600 { 3.0 } else { 1.0 };
    assert!(cost < most * seconds as f64 / 1000.0, "{:.1} ms for {seconds} s", cost * 1e3);
    assert!(grown < 2 << 20, "{grown} bytes more");
    assert_eq!(tab.complaints(), Vec::<Value>::new());
    drop(others);
}

/// The elements that a browser's own reader of the page gives names to: (role, name, whether keys reach it).
fn accessible(tab: &mut Tab) -> Vec<(String, String, bool)> {
    let tree = tab.call("Accessibility.getFullAXTree", json!({})).expect("a tree");
    let nodes = tree["nodes"].as_array().expect("nodes");
    let text = |value: &Value| value["value"].as_str().unwrap_or_default().trim().to_owned();
    let reached = |node: &Value| {
        let properties = node["properties"].as_array().map(Vec::as_slice).unwrap_or_default();
        properties.iter().any(|one| one["name"] == "focusable" && one["value"]["value"] == true)
    };
    let shown = nodes.iter().filter(|node| node["ignored"] != true);
    shown.map(|node| (text(&node["role"]), text(&node["name"]), reached(node))).collect()
}

#[test]
fn keys_and_readers_of_screens_reach_all_of_it() {
    if !has_browser() {
        return;
    }
    let (server, port) = server(&[]);
    // Keys that expire have segments of their own: the map has two tiles at least.
    server.client().cmd("SETEX volatile 1000 value");
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| work(&server, &stops));
        let mut tab = tab("page-keys", 60);
        tab.open(&format!("http://127.0.0.1:{port}/"), DESK).expect("it opens");
        tab.until("Number(document.body.dataset.round) >= 7");
        let faults = read_aloud(&mut tab);
        let by_keys = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| used_by_keys(&mut tab)));
        let asked = tab.events(&["Network.requestWillBeSent"]);
        let complaints = tab.complaints();
        stops.store(true, Ordering::Relaxed);
        assert_eq!(faults, Vec::<String>::new());
        by_keys.unwrap_or_else(|fault| std::panic::resume_unwind(fault));
        let own = [format!("http://127.0.0.1:{port}/"), "data:,".to_owned()];
        let foreign: Vec<&Value> = asked.iter().map(|event| &event["params"]["request"]["url"]).collect();
        assert!(foreign.len() > 5, "{foreign:?}");
        let is_own = |url: &&Value| own.iter().any(|own| url.as_str().is_some_and(|url| url.starts_with(own.as_str())));
        assert!(foreign.iter().all(is_own), "{foreign:?}");
        assert_eq!(complaints, Vec::<Value>::new());
    });
}

/// The faults that would stop a reader of screens.
fn read_aloud(tab: &mut Tab) -> Vec<String> {
    let all = accessible(tab);
    let mut faults = Vec::new();
    for (role, name, is_reached) in &all {
        let wants_name =
            *is_reached || ["image", "img", "progressbar", "region", "application"].contains(&role.as_str());
        if wants_name && name.is_empty() && role != "RootWebArea" {
            faults.push(format!("a {role} without a name"));
        }
    }
    let count = |wanted: &str| all.iter().filter(|(role, ..)| role == wanted).count();
    // The charts; tables with heads of rows and columns; the sections.
    for (role, least) in
        [("image", 4), ("columnheader", 60), ("rowheader", 12), ("region", 16), ("link", 16), ("button", 1)]
    {
        if count(role) < least {
            faults.push(format!("{} of role {role}, {least} at least", count(role)));
        }
    }
    let said = tab.value("document.getElementById('state').textContent").expect("a text");
    if said != "" {
        faults.push(format!("what is read aloud whenever it changes is not at rest: {said}"));
    }
    let contents = "[...document.querySelectorAll('nav a')].map(a => a.hash.slice(1)).join() === \
                    [...document.querySelectorAll('section')].map(s => s.id).filter(id => id !== 'hour-memory').join()";
    if tab.value(contents).expect("a truth") != true {
        faults.push("the contents are not the sections in their order".into());
    }
    faults
}

/// Tab reaches everything, with a mark that is seen; the map and the button are used by keys.
fn used_by_keys(tab: &mut Tab) {
    let (mut reached, focused) =
        (BTreeSet::new(), "(e => e.id || e.hash || e.getAttribute('aria-label'))(document.activeElement)");
    for _ in 0..60 {
        tab.press("Tab", 9).expect("a key");
        let name = tab.value(focused).expect("a name");
        let Some(name) = name.as_str() else { break };
        let outline = tab.value("getComputedStyle(document.activeElement).outlineStyle").expect("a style");
        assert_eq!(outline, "solid", "where the keys are is seen: {name}");
        if !reached.insert(name.to_owned()) {
            break;
        }
    }
    let wanted = "[...document.querySelectorAll('a, button, [tabindex]')].map(e => e.id || e.hash || e.getAttribute('aria-label'))";
    let wanted = tab.value(wanted).expect("names");
    let wanted: BTreeSet<String> =
        wanted.as_array().expect("names").iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(reached, wanted);
    tab.value("document.getElementById('map').focus()").expect("it has the keys");
    let tile = "document.getElementById('map-tile').textContent";
    tab.press("ArrowRight", 39).expect("a key");
    let first = tab.value(tile).expect("a text").as_str().unwrap_or_default().to_owned();
    assert!(first.starts_with("segment") && first.contains("of it lives"), "{first}");
    tab.press("End", 35).expect("a key");
    assert_ne!(tab.value(tile).expect("a text"), first, "another tile");
    tab.value("document.getElementById('pause').focus()").expect("it has the keys");
    tab.press("Enter", 13).expect("a key");
    assert_eq!(tab.value("document.getElementById('pause').ariaPressed").expect("a word"), "true");
    // A look that is under way ends.
    thread::sleep(Duration::from_secs(2));
    let stands = rounds(tab);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(rounds(tab), stands, "the figures stand still");
    tab.press("Enter", 13).expect("a key");
    tab.until(&format!("Number(document.body.dataset.round) > {stands}"));
}

/// The fields that figures name are printed by the commands that they name, which their section names too; every command that
/// the page names is answered.
#[test]
fn each_figure_names_the_command_that_prints_it() {
    if !has_browser() {
        return;
    }
    let (server, port) = server(&[]);
    let mut client = server.client();
    client.cmd("SET key value");
    let mut tab = tab("page-commands", 60);
    tab.open(&format!("http://127.0.0.1:{port}/"), DESK).expect("it opens");
    tab.until("document.querySelectorAll('#key-figures dd').length > 0");
    let sections = "[...document.querySelectorAll('section')].map(s => [s.id, [...s.querySelectorAll('.by code')].map(c => c.textContent), \
                    [...s.querySelectorAll('dl > div')].map(d => d.title)])";
    let sections = tab.value(sections).expect("sections");
    let words = |value: &Value| -> Vec<String> {
        value.as_array().expect("a list").iter().map(|one| one.as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut figures = 0;
    for section in sections.as_array().expect("a list") {
        let (id, commands, titles) = (&section[0], words(&section[1]), words(&section[2]));
        assert!(!commands.is_empty(), "{id} names no command");
        for command in &commands {
            let reply = client.cmd(command);
            assert!(!reply.is_error(), "{id}: {command}: {}", reply.text());
        }
        for title in titles {
            let (command, field) =
                title.strip_prefix("redis-cli ").and_then(|rest| rest.split_once(": ")).expect("a command and a field");
            assert!(commands.iter().any(|named| named == command), "{id}: {title} is not among {commands:?}");
            let said = client.cmd(command).text();
            assert!(said.lines().any(|line| line.split(':').next() == Some(field)), "{id}: {title}: {said}");
            figures += 1;
        }
    }
    assert!(figures >= 25, "{figures} figures");
}

/// The answer to a question of the page.
fn asked(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the metrics port");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("it takes the request");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// Waits until work of this name has an end that is known, and is partly done.
fn until_under_way(port: u16, name: &str) {
    until(&format!("'{name}' is under way"), || {
        let now: Value =
            asked(port, "/now.json").split("\r\n\r\n").nth(1).and_then(|text| text.parse().ok()).expect("JSON");
        now["work"].as_array().expect("a list").iter().any(|work| {
            let (done, total) = (work["done"].as_u64().expect("a number"), work["total"].as_u64());
            work["name"] == name
                && work["left_s"].as_u64().is_some_and(|left_s| left_s > 0)
                && done > 0
                && Some(done) < total
        })
    });
}

#[test]
fn saves_and_loading_have_the_time_that_is_left() {
    let (server, port) = server(&[]);
    let mut client = server.client();
    assert_eq!(client.cmd("DEBUG POPULATE 2000 key 10").text(), "OK");
    for (settings, command, name) in [
        ("rdb-key-save-delay 2000", "BGSAVE", "saving"),
        ("appendonly yes", "BGREWRITEAOF", "rewriting the append-only file"),
    ] {
        assert_eq!(client.cmd(&format!("CONFIG SET {settings}")).text(), "OK");
        // The first rewrite begins with the setting.
        let _ = client.cmd(command);
        until_under_way(port, name);
        until("it ends", || !asked(port, "/now.json").contains(name));
    }
    assert_eq!(client.cmd("CONFIG SET appendonly no rdb-key-save-delay 0").text(), "OK");
    assert_eq!(client.cmd("SAVE").text(), "OK");
    let port = free_port().expect("a free port");
    let launch =
        Launch::varve().config(format!("metrics-port {port}")).config(format!("dir {}", server.dir().display()));
    let loading = launch.config("key-load-delay 5000").start_loading().expect("a server");
    until_under_way(port, "loading the file");
    assert_eq!(loading.client().cmd("CONFIG SET key-load-delay 0").text(), "OK");
}

/// A replica that reads slowly, and a primary that sends slowly: both ends show how far it is, on the page as in INFO.
#[test]
fn syncs_have_the_time_that_is_left_at_both_ends() {
    let (primary, port) = server(&[]);
    let mut client = primary.client();
    client.cmd("CONFIG SET rdbcompression no");
    let value = vec![b'x'; 1 << 20];
    (0..64).for_each(|key| drop(client.call(&[b"SET".as_slice(), format!("key:{key}").as_bytes(), &value])));
    // It says that it is a replica, and reads a little of what it is sent now and then.
    let mut slow = TcpStream::connect(("127.0.0.1", primary.port())).expect("the server");
    slow.write_all(b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n").expect("sent");
    let mut room = vec![0; 1 << 20];
    slow.read_exact(&mut room).expect("some of it");
    let name = client.cmd("INFO background").text();
    let name = name.lines().find_map(|line| line.strip_prefix("sync0:to=")).expect("a line in INFO").to_owned();
    assert!(name.contains(",bytes=") && name.contains(",eta_seconds="), "{name}");
    let peer = name.split(',').next().expect("an address");
    // Seconds are counted whole: the first one has to pass.
    until_under_way(port, &format!("sending the data to {peer}"));
    drop(slow);
    until("it is gone", || !client.cmd("INFO background").text().contains("sync0:"));

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let from = listener.local_addr().expect("an address");
    let (replica, port) = server(&[]);
    let mut client = replica.client();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| sends_slowly(&listener, &ends));
        assert_eq!(client.cmd(&format!("REPLICAOF 127.0.0.1 {}", from.port())).text(), "OK");
        let seen = std::panic::catch_unwind(|| until_under_way(port, &format!("receiving the data of {from}")));
        let info = client.cmd("INFO background").text();
        let shown = has_browser().then(|| {
            let mut tab = tab("page-sync", 60);
            tab.open(&format!("http://127.0.0.1:{port}/"), DESK).expect("it opens");
            tab.until("document.querySelectorAll('#work progress').length > 0");
            tab.value("document.getElementById('work').textContent").expect("a text")
        });
        ends.store(true, Ordering::Relaxed);
        client.cmd("REPLICAOF NO ONE");
        seen.unwrap_or_else(|fault| std::panic::resume_unwind(fault));
        assert!(info.contains(&format!("sync0:from={from},bytes=")), "{info}");
        let shown = shown.map_or_else(String::new, |text| text.as_str().unwrap_or_default().to_owned());
        assert!(shown.is_empty() || shown.contains(" of 95.4 MB, ") && shown.contains(" left"), "{shown}");
    });
}

/// A primary that announces a hundred million bytes and sends some of them each tenth of a second.
fn sends_slowly(listener: &TcpListener, ends: &AtomicBool) {
    let (mut stream, _) = listener.accept().expect("a replica");
    let mut lines = BufReader::new(stream.try_clone().expect("a handle"));
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|got| got > 0) {
        match line.trim() {
            "PING" => stream.write_all(b"+PONG\r\n").expect("sent"),
            "REPLCONF" => stream.write_all(b"+OK\r\n").expect("sent"),
            "PSYNC" => break,
            _ => {}
        }
        line.clear();
    }
    let head = format!("+FULLRESYNC {} 0\r\n$100000000\r\nREDIS0010", "0".repeat(40));
    stream.write_all(head.as_bytes()).expect("sent");
    while !ends.load(Ordering::Relaxed) && stream.write_all(&[0; 10_000]).is_ok() {
        thread::sleep(Duration::from_millis(100));
    }
}
