//! Client-side caching and MONITOR over real sockets, the tracking client and the changing one on different workers.

use super::*;

pub(super) fn stale(keys: &[&str]) -> String {
    let keys: String = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect::<Vec<_>>().concat();
    format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n{keys}", keys.matches('$').count())
}

const ALL_STALE: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// A client that speaks RESP3, its greeting read.
fn resp3(server: &Server) -> Client {
    let mut client = server.connect();
    speak_resp3(&mut client.stream);
    client
}

/// Goes over to RESP3, and reads the greeting.
pub(super) fn speak_resp3(stream: &mut (impl Read + Write)) {
    stream.write_all(&request(&["HELLO", "3"])).unwrap();
    let mut greeting = Vec::new();
    while !greeting.ends_with(b"modules\r\n*0\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        greeting.push(byte[0]);
    }
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
    assert!(server.state().store().observer().is_none(), "nobody tracks");
}

/// A connection over the Unix socket: what is written to it is there at once, as it is not always over TCP.
pub(super) struct Near(pub(super) UnixStream);

impl Near {
    pub(super) fn ask(&mut self, words: &[&str], reply: &str) {
        self.0.write_all(&request(words)).unwrap();
        self.expect(reply);
    }

    fn expect(&mut self, reply: &str) {
        let mut got = vec![0; reply.len()];
        self.0.read_exact(&mut got).unwrap();
        assert_eq!(got.escape_ascii().to_string(), reply.as_bytes().escape_ascii().to_string());
    }

    /// This lies in the socket already, and nothing else.
    pub(super) fn has(&mut self, message: &str) {
        self.0.set_nonblocking(true).unwrap();
        let mut got = [0; 1024];
        let count = self.0.read(&mut got).unwrap_or(0);
        assert_eq!(got[..count].escape_ascii().to_string(), message.as_bytes().escape_ascii().to_string());
        self.0.set_nonblocking(false).unwrap();
    }
}

/// A client that has the reply to a write finds the others' invalidations in their sockets, wherever they are: by the table, by
/// prefixes, by FLUSHALL, and sent on to another connection.
#[test]
fn a_writer_is_answered_when_the_others_have_been_told() {
    let path = std::env::temp_dir().join(format!("varve-told-{}.sock", std::process::id()));
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let listener = Listener::Unix(mio::net::UnixListener::from_std(socket), path.clone());
    let _server = Server::listening(3, "", vec![listener]);
    let near = || Near(UnixStream::connect(&path).unwrap());
    let mut readers: Vec<Near> = (0..6).map(|_| near()).collect();
    let (mut writer, mut target, mut sender) = (near(), near(), near());
    for reader in &mut readers {
        speak_resp3(&mut reader.0);
    }
    for reader in &mut readers[..4] {
        reader.ask(&["CLIENT", "TRACKING", "on"], "+OK\r\n");
    }
    for reader in &mut readers[4..] {
        reader.ask(&["CLIENT", "TRACKING", "on", "BCAST", "PREFIX", "k"], "+OK\r\n");
    }
    target.0.write_all(&request(&["CLIENT", "ID"])).unwrap();
    let mut id = [0; 16];
    let count = target.0.read(&mut id).unwrap();
    let id = String::from_utf8_lossy(&id[1..count - 2]).into_owned();
    target
        .ask(&["SUBSCRIBE", "__redis__:invalidate"], "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n");
    sender.ask(&["CLIENT", "TRACKING", "on", "REDIRECT", &id], "+OK\r\n");
    for round in 0..100 {
        let value = round.to_string();
        readers[..4].iter_mut().for_each(|reader| reader.ask(&["EXISTS", "k"], &format!(":{}\r\n", round.min(1))));
        sender.ask(&["EXISTS", "k"], &format!(":{}\r\n", round.min(1)));
        match round % 5 {
            0 => writer.ask(&["SET", "k", &value], "+OK\r\n"),
            // Several visits of one pipeline, the second of which is put off until the first is told.
            1 => {
                writer.0.write_all(&[request(&["SET", "k", "a"]), request(&["GET", "k"])].concat()).unwrap();
                writer.expect("+OK\r\n$1\r\na\r\n");
            }
            // Scripts that rest, in whose rests the worker's turn ends.
            2 => {
                let body = "redis.call('SET', KEYS[1], 'c') return redis.call('LASTSAVE') > 0";
                writer.ask(&["EVAL", body, "1", "k"], ":1\r\n");
            }
            3 => {
                let [sets, rests] = ["return redis.call('SET', KEYS[1], 'd')", "return redis.call('LASTSAVE') > 0"];
                writer.0.write_all(&[sets, rests].map(|body| request(&["EVAL", body, "1", "k"])).concat()).unwrap();
                writer.expect("+OK\r\n:1\r\n");
            }
            _ => {
                let lines = [request(&["MULTI"]), request(&["SET", "k", "b"]), request(&["EXEC"])];
                writer.0.write_all(&lines.concat()).unwrap();
                writer.expect("+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
            }
        }
        readers.iter_mut().for_each(|reader| reader.has(&stale(&["k"])));
        target.has("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n");
    }
    writer.ask(&["FLUSHALL"], "+OK\r\n");
    readers.iter_mut().for_each(|reader| reader.has(ALL_STALE));
    target.has("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n");
}

/// Two that track and write what the other one keeps, at once: nobody waits for ever.
#[test]
fn writers_that_wait_for_each_other_go_on() {
    let server = Server::start(2, "");
    let pair: Vec<_> = (0..4)
        .map(|nth| {
            let mut client = resp3(&server);
            client.ask(&["CLIENT", "TRACKING", "on", "NOLOOP"], "+OK\r\n");
            std::thread::spawn(move || {
                for round in 0..300 {
                    let (own, other) = (format!("k{nth}"), format!("k{}", (nth + 1) % 4));
                    client.send(&[request(&["STRLEN", &other]), request(&["SET", &own, "v"])].concat());
                    client.send(&request(&["ECHO", &format!("{round:03}")]));
                    while client.line() != format!("{round:03}") {}
                }
            })
        })
        .collect();
    pair.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A connection that waits still reads, and keys are evicted for what it reads.
#[test]
fn what_is_evicted_for_one_who_waits_does_not_disturb_it() {
    let server = Server::start(2, "enable-debug-command yes");
    let (mut reader, mut writer, mut sleeper) = (resp3(&server), server.connect(), server.connect());
    reader.ask(&["CLIENT", "TRACKING", "on", "BCAST"], "+OK\r\n");
    writer.ask(&["CONFIG", "SET", "maxmemory", "16mb", "maxmemory-policy", "allkeys-random"], "+OK\r\n");
    let value = "v".repeat(1000);
    for n in 0..20 {
        let lines = (0..1000).map(|i| request(&["SET", &format!("key {n} {i}"), &value]));
        writer.send(&lines.collect::<Vec<_>>().concat());
        writer.expect("+OK\r\n".repeat(1000).as_bytes());
    }
    for n in 0..40 {
        let large = request(&["SET", &format!("large {n}"), &"l".repeat(1 << 20)]);
        // The reader's worker is late.
        sleeper.send(&request(&["DEBUG", "SLEEP-WORKER", "0.01"]));
        let small = request(&["SET", &format!("key {n} 0"), "new"]);
        writer.send(&[&small, &large[..1000]].concat());
        writer.send(&large[1000..]);
        writer.expect(b"+OK\r\n+OK\r\n");
        sleeper.expect(b"+OK\r\n");
    }
}

#[test]
fn caching_is_refused_as_the_peer_does() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let (yes, no) = (["CLIENT", "CACHING", "YES"], ["CLIENT", "CACHING", "NO"]);
    let off =
        "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled";
    let not_in = "-ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.\r\n";
    let not_out = "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n";
    client.ask(&yes, &format!("{off}\r\n"));
    client.ask(&["CLIENT", "TRACKING", "on"], "+OK\r\n");
    client.ask(&yes, not_in);
    client.ask(&no, not_out);
    client.ask(&["CLIENT", "TRACKING", "on", "OPTIN"], "+OK\r\n");
    client.ask(&no, not_out);
    client.ask(&["CLIENT", "CACHING", "MAYBE"], "-ERR syntax error\r\n");
    client.ask(&yes, "+OK\r\n");
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
    wait_until("its prefixes are forgotten", || server.state().tracking().prefixes() == 0);
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
    wait_until("it is gone", || server.state().connections() == 4);
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
    assert_eq!(server.state().tracking().keys(), 250);
    server.connect().ask(&["CONFIG", "SET", "tracking-table-max-keys", "1"], "+OK\r\n");
    let length = stale(&["key:000"]).len();
    let mut told = vec![0; length * 249];
    reader.stream.read_exact(&mut told).unwrap();
    assert_eq!(server.state().tracking().keys(), 1);
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
    wait_until("nobody monitors", || !server.state().monitors().any());
}

/// A client that has the reply to QUIT is gone for all others: a redirection to it is broken at the next stale key.
#[test]
fn nobody_finds_a_connection_whose_last_reply_has_come() {
    let server = Server::start(2, "");
    for _ in 0..300 {
        let mut client = server.connect();
        client.send(&request(&["CLIENT", "ID"]));
        let id: u64 = client.line().trim_start_matches(':').trim_end().parse().expect("a number");
        assert!(server.state().pubsub().home(id).is_some());
        client.ask(&["QUIT"], "+OK\r\n");
        assert!(server.state().pubsub().home(id).is_none(), "it is still found");
    }
}

/// A transaction with a command of the server: what it makes stale stood in front of its reply, which has the old value.
#[test]
fn issue_11_stale_keys_stand_behind_the_reply_of_their_transaction() {
    let server = Server::start(1, "");
    let mut reader = resp3(&server);
    reader.ask(&["CLIENT", "TRACKING", "on"], "+OK\r\n");
    reader.ask(&["SET", "k", "old"], "+OK\r\n");
    let commands: [&[&str]; 5] = [&["MULTI"], &["GET", "k"], &["SET", "k", "new"], &["CLIENT", "GETNAME"], &["EXEC"]];
    reader.send(&commands.iter().flat_map(|words| request(words)).collect::<Vec<_>>());
    let reply = "*3\r\n$3\r\nold\r\n+OK\r\n_\r\n";
    reader.expect(format!("+OK\r\n{}{reply}{}", "+QUEUED\r\n".repeat(3), stale(&["k"])).as_bytes());
}

/// So they did where the reply waits for the answers of other workers.
#[test]
fn issue_11_stale_keys_stand_behind_a_reply_that_waits_for_answers() {
    let server = Server::start(2, fan_out::CONFIG);
    let (mut reader, mut writer) = (fan_out::on(&server, 0), fan_out::on(&server, 0));
    speak_resp3(&mut reader.stream);
    reader.ask(&["CLIENT", "TRACKING", "on"], "+OK\r\n");
    writer.ask(&["SET", "k", "old"], "+OK\r\n");
    fan_out::while_stopped(&server, || {
        let commands: [&[&str]; 4] = [&["MULTI"], &["GET", "k"], &["CLIENT", "KILL", "ID", "999999"], &["EXEC"]];
        reader.send(&commands.iter().flat_map(|words| request(words)).collect::<Vec<_>>());
        reader.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n");
        writer.ask(&["SET", "k", "new"], "+OK\r\n");
    });
    reader.expect(format!("*2\r\n$3\r\nold\r\n:0\r\n{}", stale(&["k"])).as_bytes());
    reader.ask(&["GET", "k"], "$3\r\nnew\r\n");
}

/// A script that rests, or a transaction, writes a key of a prefix that its own client is told of: the message comes with the reply,
/// and waits for no further request.
#[test]
fn issue_11_a_script_that_rested_tells_its_client_at_once() {
    let server = Server::start(1, "");
    let mut client = resp3(&server);
    client.ask(&["CLIENT", "TRACKING", "on", "BCAST", "PREFIX", "p"], "+OK\r\n");
    let text = "redis.call('SET', 'p:1', 'v') for _ = 1, 1000000 do end return 1";
    // Before the script's reply or behind it: no client keeps copies of what a script replies.
    client.send(&request(&["EVAL", text, "0"]));
    let mut got = vec![0; ":1\r\n".len() + stale(&["p:1"]).len()];
    client.stream.read_exact(&mut got).unwrap();
    let got = String::from_utf8(got).unwrap();
    assert!(got.contains(":1\r\n") && got.contains(&stale(&["p:1"])), "{got}");
    let commands: [&[&str]; 4] = [&["MULTI"], &["SET", "p:2", "v"], &["EVAL", text, "0"], &["EXEC"]];
    client.send(&commands.iter().flat_map(|words| request(words)).collect::<Vec<_>>());
    let told = stale(&["p:1", "p:2"]);
    client.expect(format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:1\r\n{told}").as_bytes());
}

/// A client of RESP3 that speaks RESP2 behind a transaction is sent nothing in RESP3.
#[test]
fn issue_11_nothing_of_another_version_stands_behind_a_transaction() {
    let server = Server::start(1, "");
    let mut client = resp3(&server);
    client.ask(&["CLIENT", "TRACKING", "on"], "+OK\r\n");
    client.ask(&["GET", "k"], "_\r\n");
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["SET", "k", "v"], "+QUEUED\r\n");
    client.ask(&["HELLO", "2"], "+QUEUED\r\n");
    client.ask(&["CLIENT", "GETNAME"], "+QUEUED\r\n");
    client.send(&request(&["EXEC"]));
    client.expect(b"*3\r\n+OK\r\n*14\r\n");
    let mut greeting = Vec::new();
    while !greeting.ends_with(b"modules\r\n*0\r\n") {
        let mut byte = [0];
        client.stream.read_exact(&mut byte).unwrap();
        greeting.push(byte[0]);
    }
    client.expect(b"$-1\r\n");
    client.ask(&["PING"], "+PONG\r\n");
}

/// The bytes that a client gets up to the reply to a PING that it sends now.
fn up_to_ping(client: &mut Client) -> Vec<u8> {
    client.send(&request(&["PING"]));
    let (mut got, mut some) = (Vec::new(), vec![0; 64 << 10]);
    while !got.ends_with(b"+PONG\r\n") {
        let count = client.stream.read(&mut some).unwrap();
        assert!(count > 0, "it is closed behind {} bytes", got.len());
        got.extend_from_slice(&some[..count]);
    }
    got
}

/// How often a text stands in what a client got.
fn count(got: &[u8], text: &[u8]) -> usize {
    got.windows(text.len()).filter(|part| *part == text).count()
}

/// A reply that is nearly as long as the limit of output lets it be, and keys that become stale while it waits for answers: all of
/// both come, as long as they are within the limit together. Beyond, the client is closed, and keeps no copies.
#[test]
fn issue_11_stale_keys_stand_behind_a_reply_that_is_nearly_too_long() {
    const NAMES: usize = 120;
    let server = Server::start(2, &format!("{}\nclient-output-buffer-limit normal 1mb 0 0\n", fan_out::CONFIG));
    let (mut reader, mut writer) = (fan_out::on(&server, 0), fan_out::on(&server, 0));
    speak_resp3(&mut reader.stream);
    reader.ask(&["CLIENT", "TRACKING", "on", "BCAST", "PREFIX", "name:"], "+OK\r\n");
    writer.ask(&["SET", "k", &"v".repeat(900_000)], "+OK\r\n");
    fan_out::while_stopped(&server, || {
        let commands: [&[&str]; 4] = [&["MULTI"], &["GET", "k"], &["CLIENT", "KILL", "ID", "999999"], &["EXEC"]];
        reader.send(&commands.iter().flat_map(|words| request(words)).collect::<Vec<_>>());
        reader.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n");
        for nth in 0..NAMES {
            writer.ask(&["SET", &format!("name:{nth:01000}"), "v"], "+OK\r\n");
        }
    });
    let got = up_to_ping(&mut reader);
    assert!(got.starts_with(b"*2\r\n$900000\r\n"), "the reply comes first");
    assert_eq!(count(&got, b"name:"), NAMES);
}

/// More stale keys are held than are told one by one, and another client gets those that come then: it was told nothing of them.
#[test]
fn issue_11_who_is_redirected_to_gets_stale_keys_beside_many_that_are_held() {
    const NAMES: usize = 1200;
    let server = Server::start(2, fan_out::CONFIG);
    let on = || fan_out::on(&server, 0);
    let (mut client, mut other, mut writer) = (on(), on(), on());
    [&mut client, &mut other].into_iter().for_each(|client| speak_resp3(&mut client.stream));
    other.send(&request(&["CLIENT", "ID"]));
    let id = other.line()[1..].to_owned();
    client.ask(&["CLIENT", "TRACKING", "on", "BCAST", "PREFIX", "name:"], "+OK\r\n");
    fan_out::while_stopped(&server, || {
        let mut sent = request(&["MULTI"]);
        (0..NAMES).for_each(|nth| sent.extend(request(&["SET", &format!("name:{nth:01000}"), "v"])));
        sent.extend(request(&["CLIENT", "TRACKING", "off"]));
        sent.extend(request(&["CLIENT", "TRACKING", "on", "REDIRECT", &id, "BCAST", "PREFIX", "last:"]));
        sent.extend([request(&["CLIENT", "KILL", "ID", "999999"]), request(&["EXEC"])].concat());
        client.send(&sent);
        client.expect(format!("+OK\r\n{}", "+QUEUED\r\n".repeat(NAMES + 3)).as_bytes());
        writer.ask(&["SET", "last:1", "v"], "+OK\r\n");
    });
    other.expect(stale(&["last:1"]).as_bytes());
    let got = up_to_ping(&mut client);
    assert!(count(&got, ALL_STALE.as_bytes()) + count(&got, b"name:") > 0, "its own are told to it");
}

/// While a script rests, the keys that others make stale are held back from its client: of very many it is told once that all are.
#[test]
fn issue_11_very_many_stale_keys_behind_a_script_are_all_keys() {
    const NAMES: usize = 3000;
    // The writes may take longer than a script may run before others are told that the server is busy.
    let server = Server::start(2, "busy-reply-threshold 1000000\n");
    let (mut client, mut writer) = (resp3(&server), server.connect());
    client.ask(&["CLIENT", "TRACKING", "on", "BCAST", "PREFIX", "name:"], "+OK\r\n");
    client.send(&request(&["EVAL", "while true do end", "0"]));
    for nth in 0..NAMES {
        writer.ask(&["SET", &format!("name:{nth:01000}"), "v"], "+OK\r\n");
    }
    writer.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    let got = up_to_ping(&mut client);
    // Some keys may have been told before the script began.
    assert!(count(&got, b"\r\n-ERR Script killed by user") + usize::from(got.starts_with(b"-ERR")) > 0, "a reply");
    assert!(count(&got, ALL_STALE.as_bytes()) > 0, "all keys are stale");
    assert!(got.len() < 3 << 19 && got.len() < NAMES * 1000, "{} bytes", got.len());
}
