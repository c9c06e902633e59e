//! `appendfsync always` and `everysec`, stepped: the test is the thread of the file, and syncs when it wants to.

use std::path::PathBuf;
use std::sync::mpsc;

use varve_exec::journal::Reached;

use super::tracking::{speak_resp3, stale};
use super::*;

/// A server of two workers whose effects go to the journal, and to no file; it publishes these classes of events.
fn start(events: &[u8]) -> Server {
    let server = Server::start(2, "appendfsync always");
    let state = server.state();
    state.store().set_event_mask(varve_exec::notify::mask(events));
    state.store().keep_effects(true);
    state.store().await_journal(true);
    state.pubsub().visits().await_file(true);
    server
}

/// Syncs all that was appended.
fn sync(server: &Server) {
    let aof = &server.state().persist().aof;
    let taken = aof.journal().take(Duration::ZERO, &mut Vec::new());
    aof.reached(Reached { synced: taken.end, released: taken.end });
}

fn end(server: &Server) -> u64 {
    server.state().persist().aof.journal().waiting_bytes()
}

/// Items that have come to all workers.
fn pushed(server: &Server) -> u64 {
    (0..2).map(|worker| server.state().pubsub().inbox(worker).pushed()).sum()
}

/// Sends a write, and waits until it has run and has pushed something to both workers.
fn write(server: &Server, client: &mut Client, bytes: &[u8]) {
    let (bytes_before, items) = (end(server), pushed(server));
    client.send(bytes);
    wait_until("the write has run", || end(server) > bytes_before && pushed(server) >= items + 2);
}

/// Clients that speak RESP3 and have sent this, some on each worker; they have got `reply`.
fn listeners(server: &Server, words: &[&str], reply: &str) -> Vec<Client> {
    let mut all: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    for client in &mut all {
        speak_resp3(&mut client.stream);
        client.ask(words, reply);
    }
    all
}

/// Nothing has come for them: it would stand before this reply.
fn have_nothing(all: &mut [Client]) {
    all.iter_mut().for_each(|client| client.ask(&["ECHO", "x"], "$1\r\nx\r\n"));
}

/// Has all workers make turns, in which a request that waits for no file would run.
fn have_turns(server: &Server) {
    for _ in 0..8 {
        let mut other = server.connect();
        (0..200).for_each(|_| other.ask(&["PING"], "+PONG\r\n"));
    }
}

/// True if nothing has come for this client.
fn waits(client: &Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let waits = client.stream.peek(&mut [0]).is_err();
    client.stream.set_nonblocking(false).unwrap();
    waits
}

fn message(channel: &str, text: &str) -> String {
    format!(">3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{text}\r\n", channel.len(), text.len())
}

const EVENTS: &str = "__keyevent@0__:set";

/// Events and messages wait for what their author has written, and nobody else does.
#[test]
fn issue_13_messages_leave_when_the_file_has_what_they_tell() {
    let server = start(b"E$");
    let subscribed = |name: &str, n| format!(">3\r\n$9\r\nsubscribe\r\n${}\r\n{name}\r\n:{n}\r\n", name.len());
    let both = subscribed(EVENTS, 1) + &subscribed("c", 2);
    let mut all = listeners(&server, &["SUBSCRIBE", EVENTS, "c"], &both);
    let (mut writer, mut other) = (server.connect(), server.connect());
    other.ask(&["PUBLISH", "c", "at once"], ":8\r\n");
    all.iter_mut().for_each(|client| client.expect(message("c", "at once").as_bytes()));

    write(&server, &mut writer, &request(&["SET", "k", "v"]));
    have_nothing(&mut all);
    sync(&server);
    writer.expect(b"+OK\r\n");
    all.iter_mut().for_each(|client| client.expect(message(EVENTS, "k").as_bytes()));

    // The unit of a transaction is appended behind all that it publishes.
    let lines: [&[&str]; 4] = [&["MULTI"], &["SET", "a", "1"], &["PUBLISH", "c", "m"], &["EXEC"]];
    write(&server, &mut writer, &lines.map(request).concat());
    have_nothing(&mut all);
    sync(&server);
    writer.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:8\r\n");
    let both = message(EVENTS, "a") + &message("c", "m");
    all.iter_mut().for_each(|client| client.expect(both.as_bytes()));
}

/// Messages of a script that rests wait for its end, where its effects are appended, whatever else its worker does meanwhile.
#[test]
fn issue_15_messages_of_a_script_that_rests_wait_for_its_effects() {
    let server = start(b"");
    let mut all = listeners(&server, &["SUBSCRIBE", "c"], ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    let mut others: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    let mut runner = server.connect();
    let body = "redis.call('PUBLISH', 'c', redis.call('INCR', KEYS[1]))
        repeat until redis.call('PUBSUB', 'NUMSUB', 'go')[2] > 0 return 1";
    let before = pushed(&server);
    runner.send(&request(&["EVAL", body, "1", "k"]));
    wait_until("the script rests", || pushed(&server) >= before + 2);
    sync(&server);
    for (nth, other) in others.iter_mut().enumerate() {
        let before = end(&server);
        other.send(&request(&["SET", &format!("other{nth}"), "1"]));
        wait_until("the write has run", || end(&server) > before);
    }
    sync(&server);
    others.iter_mut().for_each(|other| other.expect(b"+OK\r\n"));
    have_nothing(&mut all);
    others[0].ask(&["SUBSCRIBE", "go"], "*3\r\n$9\r\nsubscribe\r\n$2\r\ngo\r\n:1\r\n");
    wait_until("the script ends", || end(&server) > 0);
    have_nothing(&mut all);
    sync(&server);
    runner.expect(b":1\r\n");
    all.iter_mut().for_each(|client| client.expect(message("c", "1").as_bytes()));
}

/// Copies stay with those who keep them as long as nobody can know of the write that makes them stale.
#[test]
fn issue_13_invalidations_leave_when_the_file_has_the_write() {
    for mode in [&["CLIENT", "TRACKING", "on"][..], &["CLIENT", "TRACKING", "on", "BCAST"]] {
        let server = start(b"");
        let mut all = listeners(&server, mode, "+OK\r\n");
        let mut writer = server.connect();
        for _ in 0..3 {
            all.iter_mut().for_each(|client| client.ask(&["STRLEN", "new"], ":0\r\n"));
            write(&server, &mut writer, &request(&["SET", "new", ""]));
            have_nothing(&mut all);
            sync(&server);
            writer.expect(b"+OK\r\n");
            all.iter_mut().for_each(|client| client.expect(stale(&["new"]).as_bytes()));
        }
        write(&server, &mut writer, &request(&["FLUSHALL"]));
        have_nothing(&mut all);
        sync(&server);
        writer.expect(b"+OK\r\n");
        all.iter_mut().for_each(|client| client.expect(b">2\r\n$10\r\ninvalidate\r\n_\r\n"));
    }
}

/// Keys that the store removes by itself: the event waits for the DEL.
#[test]
fn issue_13_an_event_of_expiry_leaves_when_the_file_has_the_del() {
    let server = start(b"Ex");
    let name = "__keyevent@0__:expired";
    let mut all = listeners(
        &server,
        &["SUBSCRIBE", name],
        &format!(">3\r\n$9\r\nsubscribe\r\n${}\r\n{name}\r\n:1\r\n", name.len()),
    );
    let mut writer = server.connect();
    writer.send(&request(&["SET", "k", "v", "PX", "10"]));
    wait_until("the key is gone", || pushed(&server) >= 2);
    have_nothing(&mut all);
    sync(&server);
    writer.expect(b"+OK\r\n");
    all.iter_mut().for_each(|client| client.expect(message(name, "k").as_bytes()));
}

/// A client whose replies wait goes on: its requests run, and each reply leaves when what it tells is synced, in order.
#[test]
fn issue_13_requests_run_while_replies_wait() {
    let server = start(b"");
    let (mut writer, mut other) = (server.connect(), server.connect());
    for round in 0..20 {
        let before = end(&server);
        writer.send(&request(&["INCR", "n"]));
        wait_until("the first has run", || end(&server) > before);
        // The second command's bytes come to the journal while the first reply waits.
        let first = end(&server);
        writer.send(&request(&["INCR", "n"]));
        wait_until("the second has run", || end(&server) > first);
        writer.send(&[request(&["GET", "n"]), request(&["ECHO", "x"])].concat());
        // Nobody else waits for this client.
        other.ask(&["GET", "nothing"], "$-1\r\n");
        let aof = &server.state().persist().aof;
        let position = aof.journal().synced() + first;
        aof.reached(Reached { synced: position, released: position });
        writer.expect(format!(":{}\r\n", 2 * round + 1).as_bytes());
        assert!(waits(&writer), "the second reply waits");
        sync(&server);
        let count = (2 * round + 2).to_string();
        writer.expect(format!(":{count}\r\n${}\r\n{count}\r\n$1\r\nx\r\n", count.len()).as_bytes());
    }
}

/// Replies that wait are output like any other: a client with too much of it is not served before some of it is sent.
#[test]
fn issue_13_output_that_waits_for_the_file_is_bounded() {
    const COUNT: usize = 1000;
    let server = start(b"");
    let (mut writer, value) = (server.connect(), "v".repeat(60_000));
    writer.send(&[request(&["SET", "k", &value]), request(&["GET", "k"]).repeat(COUNT)].concat());
    let peak = || server.state().workers().iter().map(|worker| worker.stats().output_peak_bytes.get()).max();
    wait_until("some replies wait", || peak() >= Some(60_000));
    have_turns(&server);
    assert!(peak() < Some(33 << 20), "{:?} bytes", peak());
    sync(&server);
    writer.expect(b"+OK\r\n");
    let (reply, mut got) = (format!("$60000\r\n{value}\r\n").into_bytes(), vec![0; 60_010]);
    for _ in 0..COUNT {
        writer.stream.read_exact(&mut got).unwrap();
        assert!(got == reply);
    }
}

/// Under `everysec` no write waits for a slow sync before 64 MB wait for the file. Then writes wait and reads do not, until the
/// file has taken something.
#[test]
fn issue_13_everysec_has_writes_wait_when_64_mb_wait_for_the_file() {
    const WAITING_BYTES_MAX: u64 = 64 << 20;
    let server = Server::start(2, "appendfsync everysec");
    let (state, (orders, _taken)) = (server.state(), mpsc::channel());
    state.store().keep_effects(true);
    state.persist().aof.begin(std::thread::spawn(|| ()), orders, PathBuf::new(), false);
    let (mut writer, mut reader) = (server.connect(), server.connect());
    let write = request(&["SET", "k", &"v".repeat(60_000)]);
    let mut count = 0;
    while end(&server) < WAITING_BYTES_MAX {
        writer.send(&write);
        writer.expect(b"+OK\r\n");
        count += 1;
    }
    assert_eq!(state.persist().aof.journal().synced(), 0, "all {count} were answered without a sync");
    for _ in 0..2 {
        let full = end(&server);
        assert!((WAITING_BYTES_MAX..WAITING_BYTES_MAX + write.len() as u64).contains(&full), "{full} bytes wait");
        writer.send(&write);
        have_turns(&server);
        reader.ask(&["STRLEN", "k"], ":60000\r\n");
        assert!(waits(&writer) && end(&server) == full, "the write waits");
        sync(&server);
        writer.expect(b"+OK\r\n");
        assert!(end(&server) < 2 * write.len() as u64, "one write waits for the file");
        while end(&server) < WAITING_BYTES_MAX {
            writer.send(&write);
            writer.expect(b"+OK\r\n");
        }
    }
}
