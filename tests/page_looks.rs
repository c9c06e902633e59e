//! How the page of the metrics port looks in Chromium: in light and in dark, on a desk and on a phone, with replicas, and with
//! a segment that is drained at the moment.
//!
//! ```text
//!   a server under load --> page in a window --looks.js--> faults: contrast, width, words on words, targets too small
//!                                            \--> page-light.png, page-dark.png, page-phone.png ... in the target folder, to be looked at
//! ```
//! Skipped, and said so, where there is no Chromium.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use varve_testkit::server::target_dir;
use varve_testkit::tab::{Tab, Value, Window};
use varve_testkit::{Launch, Server, until};
use varve_tests::page::{DESK, has_browser, server, tab, work};

const DARK: Window = Window { is_dark: true, ..DESK };
const PHONE: Window = Window { width: 390, height: 844, is_dark: false, is_phone: true };
const DARK_PHONE: Window = Window { is_dark: true, ..PHONE };
const LOOKS: &str = include_str!("looks.js");

/// Keys, clients and slow commands of all the kinds for which the page has a view.
fn fill(server: &Server) {
    let mut client = server.client();
    for command in [
        "DEBUG POPULATE 50000 user:session 100",
        "DEBUG POPULATE 20000 cart 50",
        "DEBUG POPULATE 1 an:object:with:a:name:that:is:much:longer:than:a:column:of:a:table:has:room:for:on:a:phone 2000000",
        "CONFIG SET slowlog-log-slower-than 0",
        "CLIENT SETNAME somebody",
        "MSET a:name:of:a:key:that:is:long:and:has:no:place:to:break:a:line:at:all x y z",
        "CONFIG SET slowlog-log-slower-than -1",
    ] {
        let reply = client.cmd(command);
        assert!(!reply.is_error(), "{command}: {}", reply.text());
    }
    for (nth, span_s) in [30, 3000, 80_000, 600_000].into_iter().cycle().take(2000).enumerate() {
        client.queue(&["SET", &format!("soon:{nth}"), "value", "EX", &span_s.to_string()]);
    }
    client.flush().expect("sent");
    (0..2000).for_each(|_| drop(client.read().expect("a reply")));
}

/// The faults of the page as it is shown in this window, of which a picture is taken.
fn looked_at(tab: &mut Tab, port: u16, window: Window, name: &str) -> Vec<String> {
    tab.open(&format!("http://127.0.0.1:{port}/"), window).expect("it opens");
    tab.until("Number(document.body.dataset.round) >= 7");
    tab.picture(&target_dir().join(format!("page-{name}.png"))).expect("a picture");
    let found = tab.value(&format!("({LOOKS})({})", window.width)).expect("it looks");
    let found = found.as_array().expect("a list").iter();
    found.map(|fault| format!("{name}: {}", fault.as_str().unwrap_or_default())).collect()
}

/// Every text can be read, every line be seen, and nothing is wider than the window.
#[test]
fn it_can_be_read_in_light_and_dark_on_a_desk_and_on_a_phone() {
    if !has_browser() {
        return;
    }
    let (server, port) = server(&[]);
    fill(&server);
    let follows = format!("replicaof 127.0.0.1 {}", server.port());
    let _replica = Launch::varve().config(follows).start().expect("a replica");
    let mut waiter = server.client();
    waiter.queue(&["BLPOP", "nothing", "0"]);
    waiter.flush().expect("it is sent");
    let stops = AtomicBool::new(false);
    let faults = thread::scope(|scope| {
        scope.spawn(|| work(&server, &stops));
        let looks = std::panic::catch_unwind(|| {
            let mut tab = tab("page-looks", 120);
            let windows = [("light", DESK), ("dark", DARK), ("phone", PHONE), ("dark-phone", DARK_PHONE)];
            let faults = windows.map(|(name, window)| looked_at(&mut tab, port, window, name)).concat();
            assert_eq!(tab.complaints(), Vec::<Value>::new());
            faults
        });
        stops.store(true, Ordering::Relaxed);
        looks.unwrap_or_else(|fault| std::panic::resume_unwind(fault))
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A finger on a tile of the map shows what a pointer shows.
#[test]
fn a_tap_on_the_map_says_what_is_in_a_tile() {
    if !has_browser() {
        return;
    }
    let (server, port) = server(&[]);
    server.client().cmd("SET key value");
    let mut tab = tab("page-tap", 60);
    tab.open(&format!("http://127.0.0.1:{port}/"), PHONE).expect("it opens");
    tab.until("tiles.length > 0");
    tab.value("document.getElementById('map').scrollIntoView()").expect("it is in the window");
    let place = "(box => [box.left + 5, box.top + 5])(document.getElementById('map').getBoundingClientRect())";
    let place = tab.value(place).expect("a place");
    tab.tap(place[0].as_f64().expect("x"), place[1].as_f64().expect("y")).expect("a tap");
    tab.until("document.getElementById('map-tile').textContent.startsWith('segment ')");
}

/// A table's rows below its head, as texts of their cells.
fn cells(tab: &mut Tab, table: &str) -> Vec<Vec<String>> {
    let rows = format!(
        "[...document.querySelectorAll('#{table} tr')].slice(1).map(row => [...row.children].map(cell => cell.textContent))"
    );
    let rows = tab.value(&rows).expect("rows");
    let texts = |row: &Value| {
        row.as_array().expect("cells").iter().map(|cell| cell.as_str().unwrap_or_default().to_owned()).collect()
    };
    rows.as_array().expect("a list").iter().map(texts).collect()
}

fn text(tab: &mut Tab, id: &str) -> String {
    let words = tab.value(&format!("document.getElementById('{id}').textContent")).expect("a text");
    words.as_str().unwrap_or_default().to_owned()
}

/// Both ends of replication show each other, and how far the replica is behind.
#[test]
fn replicas_and_primaries_have_their_view() {
    if !has_browser() {
        return;
    }
    let (primary, port) = server(&[]);
    let (replica, replica_port) = server(&[&format!("replicaof 127.0.0.1 {}", primary.port())]);
    let mut client = primary.client();
    until("the replica is online", || client.cmd("INFO replication").text().contains(",state=online,"));
    let mut tab = tab("page-replicas", 60);
    tab.open(&format!("http://127.0.0.1:{port}/"), DESK).expect("it opens");
    tab.until("document.querySelectorAll('#replica-table td').length >= 3");
    assert!(text(&mut tab, "replication-text").starts_with("Follows nobody. Offset "));
    let rows = cells(&mut tab, "replica-table");
    assert_eq!(rows.len(), 1, "{rows:?}");
    let address = format!("127.0.0.1:{}", replica.port());
    assert_eq!((rows[0][0].as_str(), rows[0][1].as_str()), (address.as_str(), "online"), "{rows:?}");
    assert!(rows[0][2].ends_with(" B") && rows[0][3].ends_with(" s ago"), "{rows:?}");

    // A replica that stands still falls behind; its bytes are counted, and the time since it was heard.
    replica.signal("STOP").expect("it stands still");
    let value = "x".repeat(5000);
    (0..100).for_each(|_| assert_eq!(client.call(&["SET", "key", &value]).expect("a reply").text(), "OK"));
    tab.until("parseFloat(document.querySelectorAll('#replica-table td')[1].textContent) > 400");
    assert!(cells(&mut tab, "replica-table")[0][2].ends_with(" KB"));
    tab.until("parseInt(document.querySelectorAll('#replica-table td')[2].textContent) >= 2");
    replica.signal("CONT").expect("it goes on");
    tab.until("document.querySelectorAll('#replica-table td')[1].textContent.endsWith(' B')");

    tab.open(&format!("http://127.0.0.1:{replica_port}/"), DESK).expect("it opens");
    let follows = format!("Follows 127.0.0.1:{}: up, heard ", primary.port());
    tab.until(&format!("document.getElementById('replication-text').textContent.startsWith('{follows}')"));
    assert_eq!(cells(&mut tab, "replica-table"), [["no replicas"]]);
}

/// The only worker of a server at its limit sleeps in the middle of a drain: the map shows that tile as one that is drained.
#[test]
fn a_segment_that_is_drained_is_shown_as_such() {
    if !has_browser() {
        return;
    }
    let (server, port) = server(&["io-threads 1", "maxmemory 100mb", "maxmemory-policy allkeys-random"]);
    let mut client = server.client();
    // A map without a tile is asked for each second.
    client.cmd("SET key value");
    let mut tab = tab("page-drain", 60);
    tab.open(&format!("http://127.0.0.1:{port}/"), DESK).expect("it opens");
    tab.until("tiles.length > 0");
    let value = "x".repeat(300);
    let mut round = 0_u32;
    until("the worker sleeps in a drain", || {
        for _ in 0..20_000 {
            round += 1;
            client.queue(&["SET", &format!("key:{}", round.wrapping_mul(2_654_435_761) % 1_000_000), &value]);
        }
        client.queue(&["DEBUG", "SLEEP", "0.5"]);
        client.flush().expect("sent");
        (0..20_000).for_each(|_| drop(client.read().expect("a reply")));
        // The page asks for the map while the worker sleeps; its port has threads of its own.
        let drained = tab.value("ask('/segments.json').then(got => { showSegments(got); return got.draining; })");
        let shown = drained.expect("an answer") == 1 && is_shown_as_drained(&mut tab);
        if shown {
            tab.picture(&target_dir().join("page-drain.png")).expect("a picture");
        }
        client.read().expect("it wakes");
        shown
    });
}

/// The map's words, its keys and its tile say that a segment is drained; the tile has the colour of the key.
fn is_shown_as_drained(tab: &mut Tab) -> bool {
    // No look of the page's own comes between: all of it is one expression.
    let looked = tab
        .value(
            "(() => { const number = tiles.findIndex(tile => tile[2] === 'draining'); showTile(number);
              const draw = document.getElementById('map').getContext('2d');
              const edge = draw.getImageData(number % perRow * side + 1, Math.floor(number / perRow) * side + side / 2, 1, 1).data;
              return [document.getElementById('map-text').textContent, document.getElementById('map-tile').textContent,
                document.getElementById('map-keys').textContent, ...edge]; })()",
        )
        .expect("it looks");
    let [map, tile, keys, red, green, ..] = looked.as_array().expect("a list").as_slice() else { panic!("{looked}") };
    let has = |text: &Value, words: &str| text.as_str().is_some_and(|text| text.contains(words));
    assert!(has(map, " 1 draining,"), "{map}");
    assert!(has(tile, ": draining, class "), "{tile}");
    assert!(has(keys, "draining"), "{keys}");
    assert!(red.as_u64() > green.as_u64().map(|green| green + 60), "the tile's edge is red: {looked}");
    true
}
