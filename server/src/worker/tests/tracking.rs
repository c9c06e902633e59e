//! Client-side caching and MONITOR over real sockets, the tracking client and the changing one on different workers.

use super::*;

fn stale(keys: &[&str]) -> String {
    let keys: String = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect::<Vec<_>>().concat();
    format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n{keys}", keys.matches('$').count())
}

const ALL_STALE: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// A client that speaks RESP3, its greeting read.
fn resp3(server: &Server) -> Client {
    let mut client = server.connect();
    client.send(&request(&["HELLO", "3"]));
    let mut greeting = Vec::new();
    while !greeting.ends_with(b"modules\r\n*0\r\n") {
        let mut byte = [0];
        client.stream.read_exact(&mut byte).unwrap();
        greeting.push(byte[0]);
    }
    client
}

/// Asks for something, before whose reply these messages stand.
fn after(client: &mut Client, messages: &str) {
    client.ask(&["ECHO", "after"], &format!("{messages}$5\r\nafter\r\n"));
}

#[test]
fn a_read_key_is_told_once_when_it_changes() {
    let server = Server::start(2, "");
    let mut reader = resp3(&server);
    let mut writer = server.connect();
    reader.ask(&["CLIENT", "TRACKING", "on"], "+OK\r\n");
    for round in 0..200 {
        let value = format!("{round:03}");
        writer.ask(&["SET", "k", &value], "+OK\r\n");
        reader.ask(&["GET", "k"], &format!("{}$3\r\n{value}\r\n", if round == 0 { "".into() } else { stale(&["k"]) }));
    }
    writer.ask(&["DEL", "k"], ":1\r\n");
    writer.ask(&["SET", "k", "x"], "+OK\r\n");
    after(&mut reader, &stale(&["k"]));
    reader.ask(&["MGET", "a", "b"], "*2\r\n_\r\n_\r\n");
    writer.ask(&["MSET", "a", "1", "b", "2"], "+OK\r\n");
    after(&mut reader, &(stale(&["a"]) + &stale(&["b"])));
    writer.ask(&["FLUSHALL"], "+OK\r\n");
    after(&mut reader, ALL_STALE);
    writer.ask(&["SET", "k", "v", "PX", "30"], "+OK\r\n");
    reader.ask(&["GET", "k"], "$1\r\nv\r\n");
    reader.expect(stale(&["k"]).as_bytes());
    reader.ask(&["CLIENT", "TRACKING", "off"], "+OK\r\n");
    assert!(server.shared().store.observer().is_none(), "nobody tracks");
}

#[test]
fn no_loop_leaves_out_the_own_changes() {
    let server = Server::start(2, "");
    let mut reader = resp3(&server);
    let mut writer = server.connect();
    reader.ask(&["CLIENT", "TRACKING", "on", "NOLOOP"], "+OK\r\n");
    reader.ask(&["GET", "k"], "_\r\n");
    reader.ask(&["SET", "k", "mine"], "+OK\r\n");
    after(&mut reader, "");
    reader.ask(&["GET", "k"], "$4\r\nmine\r\n");
    writer.ask(&["APPEND", "k", "!"], ":5\r\n");
    after(&mut reader, &stale(&["k"]));
}

#[test]
fn broadcasts_come_one_a_prefix() {
    let server = Server::start(2, "");
    let mut reader = resp3(&server);
    let mut writer = server.connect();
    reader.ask(&["CLIENT", "TRACKING", "on", "BCAST", "PREFIX", "a:", "PREFIX", "b:", "NOLOOP"], "+OK\r\n");
    writer.ask(&["MSET", "a:2", "1", "b:1", "1", "c", "1", "a:1", "1"], "+OK\r\n");
    after(&mut reader, &(stale(&["a:1", "a:2"]) + &stale(&["b:1"])));
    reader.ask(&["SET", "a:1", "x"], "+OK\r\n");
    after(&mut reader, "");
    writer.ask(&["FLUSHDB"], "+OK\r\n");
    after(&mut reader, ALL_STALE);
    drop(reader);
    wait_until("its prefixes are forgotten", || server.shared().tracking.prefixes() == 0);
}

#[test]
fn messages_go_where_they_are_redirected() {
    let server = Server::start(2, "");
    let mut target = server.connect();
    let mut readers = [server.connect(), server.connect()];
    let mut writer = server.connect();
    target
        .ask(&["SUBSCRIBE", "__redis__:invalidate"], "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n");
    for (nth, reader) in readers.iter_mut().enumerate() {
        reader.ask(&["CLIENT", "TRACKING", "on", "REDIRECT", "1"], "+OK\r\n");
        reader.ask(&["GET", ["x", "y"][nth]], "$-1\r\n");
    }
    for key in ["x", "y"] {
        writer.ask(&["SET", key, "1"], "+OK\r\n");
        target
            .expect(format!("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\n{key}\r\n").as_bytes());
    }
    let mut broken = resp3(&server);
    broken.ask(&["CLIENT", "TRACKING", "on", "REDIRECT", "1"], "+OK\r\n");
    broken.ask(&["GET", "x"], "$1\r\n1\r\n");
    drop(target);
    wait_until("it is gone", || server.shared().connections() == 4);
    writer.ask(&["SET", "x", "2"], "+OK\r\n");
    broken.expect(b">2\r\n$21\r\ntracking-redir-broken\r\n:1\r\n");
}

#[test]
fn the_table_keeps_to_its_limit() {
    let server = Server::start(2, "");
    let mut reader = resp3(&server);
    reader.ask(&["CLIENT", "TRACKING", "on"], "+OK\r\n");
    for n in 0..250 {
        reader.ask(&["GET", &format!("key:{n:03}")], "_\r\n");
    }
    assert_eq!(server.shared().tracking.keys(), 250);
    server.connect().ask(&["CONFIG", "SET", "tracking-table-max-keys", "1"], "+OK\r\n");
    let length = stale(&["key:000"]).len();
    let mut told = vec![0; length * 249];
    reader.stream.read_exact(&mut told).unwrap();
    assert_eq!(server.shared().tracking.keys(), 1);
    after(&mut reader, "");
}

#[test]
fn monitors_see_the_commands_of_every_worker() {
    let server = Server::start(2, "");
    let mut monitor = server.connect();
    let mut clients = [server.connect(), server.connect()];
    monitor.ask(&["MONITOR"], "+OK\r\n");
    let line = |monitor: &mut Client| {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            monitor.stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.starts_with('+') && time.len() == 18 && time.as_bytes()[11] == b'.', "{time}");
        rest.to_owned()
    };
    for client in &mut clients {
        let address = client.stream.local_addr().unwrap();
        client.ask(&["SET", "k", "a\r\n\"\\\x01"], "+OK\r\n");
        client.ask(&["CONFIG", "SET", "timeout", "0"], "+OK\r\n");
        client.ask(&["AUTH", "secret"], "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n");
        client.ask(&["SELECT", "1"], "+OK\r\n");
        assert_eq!(line(&mut monitor), format!("[0 {address}] \"SET\" \"k\" \"a\\r\\n\\\"\\\\\\x01\"\r\n"));
        assert_eq!(line(&mut monitor), format!("[0 {address}] \"AUTH\" \"(redacted)\"\r\n"));
        assert_eq!(line(&mut monitor), format!("[1 {address}] \"SELECT\" \"1\"\r\n"));
    }
    monitor.ask(&["GET", "k"], "-ERR Replica can't interact with the keyspace\r\n");
    drop(monitor);
    wait_until("nobody monitors", || !server.shared().monitors.any());
}
