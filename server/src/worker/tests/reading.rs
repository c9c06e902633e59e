//! When sockets are read: clients that write without waiting, that hang up at every byte, and what a short read leaves.

use socket2::SockRef;

use super::*;

/// Bytes that the server has read from sockets.
fn input_bytes(server: &Server) -> u64 {
    server.state().total(|stats| &stats.input_bytes)
}

/// Writes `request` again and again, until the socket has taken nothing for as long as the server needs to come to rest:
/// the server has read all it wants when its count stands still while the socket is full. Returns the number of whole
/// requests that were written.
fn flood(server: &Server, client: &Client, request: &[u8], count: usize) -> usize {
    client.stream.set_nonblocking(true).unwrap();
    let all = request.repeat(count);
    let (mut sent, mut stream) = (0, &client.stream);
    let mut stood_still = 0;
    while sent < all.len() && stood_still < 50 {
        let read = input_bytes(server);
        match stream.write(&all[sent..]) {
            Ok(bytes) => {
                sent += bytes;
                stood_still = 0;
            }
            Err(_) => {
                std::thread::sleep(Duration::from_millis(5));
                stood_still = if input_bytes(server) == read { stood_still + 1 } else { 0 };
            }
        }
    }
    client.stream.set_nonblocking(false).unwrap();
    // The request that was cut is completed by the caller's reader: the rest is sent as the socket takes it.
    let whole = sent.div_ceil(request.len());
    let rest = all[sent..whole * request.len()].to_vec();
    let mut stream = client.stream.try_clone().unwrap();
    std::thread::spawn(move || stream.write_all(&rest));
    whole
}

#[test]
fn a_client_that_reads_its_replies_is_not_buffered() {
    const COUNT: usize = 500_000;
    let server = Server::start(1, "");
    let mut client = server.connect();
    client.ask(&["SET", "k", "v"], "+OK\r\n");
    let mut writer = client.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&request(&["GET", "k"]).repeat(COUNT)).unwrap());
    let mut got = vec![0; COUNT * 7];
    client.stream.read_exact(&mut got).unwrap();
    writing.join().unwrap();
    assert!(got.chunks(7).all(|reply| reply == b"$1\r\nv\r\n"));
    let peak = server.state().peak(|stats| &stats.input_peak_bytes);
    assert!(peak <= 1 << 20, "{peak} bytes of requests waited");
}

/// A client that waits for keys is gone with all that it wrote behind: nobody is served in its place.
#[test]
fn a_client_that_hangs_up_behind_much_while_it_waits_for_keys_is_forgotten() {
    let server = Server::start(1, "");
    let mut control = server.connect();
    let client = server.connect();
    let waits = [request(&["BLPOP", "q", "0"]), request(&["SET", "k", &"v".repeat(4 << 20)])].concat();
    let mut stream = client.stream.try_clone().unwrap();
    stream.write_all(&waits).unwrap();
    drop((client, stream));
    wait_until("it is forgotten", || server.state().total(|stats| &stats.blocked) == 0);
    control.ask(&["RPUSH", "q", "x"], ":1\r\n");
    control.ask(&["LLEN", "q"], ":1\r\n");
}

/// Clients whose next request waits for a pause are held back by their sockets. They lose nothing, and neither do those
/// that wait for keys.
#[test]
fn nothing_is_read_behind_a_request_that_waits() {
    let server = Server::start(2, "");
    let mut control = server.connect();
    let value = "v".repeat(1000);
    let mut paused = server.connect();
    paused.ask(&["PING"], "+PONG\r\n");
    control.ask(&["CLIENT", "PAUSE", "1000000", "WRITE"], "+OK\r\n");
    let before = input_bytes(&server);
    let sent = flood(&server, &paused, &request(&["APPEND", "k", &value]), 60_000);
    assert!(input_bytes(&server) - before < 1 << 20, "{} bytes were read", input_bytes(&server) - before);
    control.ask(&["CLIENT", "UNPAUSE"], "+OK\r\n");
    (1..=sent).for_each(|n| paused.expect(format!(":{}\r\n", n * 1000).as_bytes()));

    let mut blocked = server.connect();
    blocked.send(&request(&["BLPOP", "q", "0"]));
    wait_until("it waits", || server.state().total(|stats| &stats.blocked) == 1);
    let sent = flood(&server, &blocked, &request(&["APPEND", "b", &value]), 3000);
    control.ask(&["RPUSH", "q", "x"], ":1\r\n");
    blocked.expect(b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
    (1..=sent).for_each(|n| blocked.expect(format!(":{}\r\n", n * 1000).as_bytes()));
}

/// A client that hangs up while its requests wait is noticed.
#[test]
fn a_client_that_hangs_up_while_its_requests_wait_is_forgotten() {
    let server = Server::start(2, "");
    let mut control = server.connect();
    let mut blocked = server.connect();
    blocked.send(&[request(&["BLPOP", "q", "0"]), request(&["SET", "k", "v"])].concat());
    wait_until("it waits", || server.state().total(|stats| &stats.blocked) == 1);
    blocked.send(&request(&["SET", "k", &"v".repeat(1000)]).repeat(50));
    drop(blocked);
    wait_until("the blocked one is forgotten", || server.state().total(|stats| &stats.blocked) == 0);
    control.ask(&["CLIENT", "PAUSE", "1000000", "WRITE"], "+OK\r\n");
    let mut held = server.connect();
    // The end of the stream comes with the requests.
    held.send(&request(&["SET", "k", "v"]).repeat(3));
    held.stream.shutdown(Shutdown::Write).unwrap();
    assert!(held.is_closed(), "nothing was executed");
    wait_until("the paused one is forgotten", || server.state().total(|stats| &stats.held) == 0);
    wait_until("its connection is gone", || server.state().connections() == 1);
    control.ask(&["EXISTS", "k"], ":0\r\n");
}

/// A client may write all of its requests before it reads the first reply.
#[test]
fn replies_that_nobody_reads_do_not_stop_the_reading() {
    const COUNT: usize = 60_000;
    let server = Server::start(1, "");
    let mut client = server.connect();
    let value = "v".repeat(1500);
    client.ask(&["SET", "k", &value], "+OK\r\n");
    // 90 MB of replies, and behind them 60 MB of requests, which are read while nothing runs any more.
    let gets = request(&["GET", "k"]).repeat(COUNT);
    let echoes = request(&["ECHO", &"e".repeat(1000)]).repeat(COUNT);
    client.send(&[gets, echoes].concat());
    let reply = format!("$1500\r\n{value}\r\n");
    let echo = format!("$1000\r\n{}\r\n", "e".repeat(1000));
    for (one, count) in [(reply, COUNT), (echo, COUNT)] {
        let mut got = vec![0; one.len()];
        for n in 0..count {
            client.stream.read_exact(&mut got).unwrap();
            assert!(got == one.as_bytes(), "reply {n}");
        }
    }
    let peak = server.state().peak(|stats| &stats.output_peak_bytes);
    assert!(peak < 40 << 20, "{peak} bytes of replies waited");
}

/// Urgent data end a read before the bytes behind them: a short read does not prove that a socket is empty.
#[test]
fn a_short_read_leaves_nothing_behind() {
    let server = Server::start(1, "enable-debug-command yes");
    let (mut client, mut sleeper) = (server.connect(), server.connect());
    client.ask(&["PING"], "+PONG\r\n");
    for _ in 0..3 {
        // The worker sleeps while all of it arrives, so that one event stands for all.
        sleeper.send(&request(&["DEBUG", "SLEEP", "0.05"]));
        client.send(b"PING\r\n");
        SockRef::from(&client.stream).send_out_of_band(b"!").unwrap();
        client.send(b"PING\r\n");
        client.expect(b"+PONG\r\n+PONG\r\n");
        sleeper.expect(b"+OK\r\n");
    }
}

/// Whole requests are answered wherever the client hangs up behind them, and half a one is not.
#[test]
fn a_client_may_hang_up_at_every_byte() {
    let server = Server::start(2, "");
    let requests = [request(&["SET", "k", "v"]), b"PING\r\n".to_vec(), request(&["ECHO", "some\r\nbytes"])];
    let replies = ["+OK\r\n", "+PONG\r\n", "$11\r\nsome\r\nbytes\r\n"];
    let whole = requests.concat();
    for at in 0..=whole.len() {
        let mut expected = String::new();
        let mut end = 0;
        for (request, reply) in requests.iter().zip(replies) {
            end += request.len();
            if end <= at {
                expected += reply;
            }
        }
        let mut client = server.connect();
        client.send(&whole[..at]);
        client.stream.shutdown(Shutdown::Write).unwrap();
        let mut got = String::new();
        client.stream.read_to_string(&mut got).unwrap();
        assert_eq!(got, expected, "hung up behind {at} bytes");
        // And one that is gone without a word.
        let mut gone = server.connect();
        gone.send(&whole[..at]);
        drop(gone);
    }
    wait_until("all are gone", || server.state().connections() == 0);
    assert_eq!(server.state().workers().iter().map(|worker| worker.weights().total()).sum::<u64>(), 0);
}

/// Sets this number of fields of the hash `h` to a thousand times `letter`, a hundred in one command that adds `new`.
pub(super) fn set_fields(client: &mut Client, fields: usize, letter: &str, new: usize) {
    let value = letter.repeat(1000);
    for n in (0..fields).step_by(100) {
        let names: Vec<String> = (n..n + 100).map(|n| format!("field{n:06}")).collect();
        let words: Vec<&str> =
            ["HSET", "h"].into_iter().chain(names.iter().flat_map(|name| [name.as_str(), &value])).collect();
        client.ask(&words, &format!(":{new}\r\n"));
    }
}

/// Elements that others change are kept for a client that does not read its reply, on that client's account.
#[test]
fn issue_11_a_client_that_does_not_read_pays_for_what_is_kept_for_it() {
    const FIELDS: usize = 20_000;
    let server = Server::start(2, "");
    let (mut silent, mut other) = (server.connect(), server.connect());
    set_fields(&mut other, FIELDS, "v", 100);
    silent.ask(&["CLIENT", "SETNAME", "silent"], "+OK\r\n");
    silent.send(&request(&["HGETALL", "h"]));
    assert_eq!(silent.line(), format!("*{}", 2 * FIELDS));
    set_fields(&mut other, FIELDS, "w", 0);
    let list = other.bulk(&["CLIENT", "LIST"]);
    let line = list.lines().find(|line| line.contains(" name=silent ")).expect("its line");
    let bytes = line.split_once(" tot-mem=").expect("a field").1.split(' ').next().unwrap().parse::<usize>().unwrap();
    assert!(bytes > 8 << 20, "{bytes} bytes: {line}");
    other.ask(&["CONFIG", "SET", "client-output-buffer-limit", "normal 3mb 0 0"], "+OK\r\n");
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.state().total(|stats| &stats.output_limit_closed) == 0 {
        assert!(Instant::now() < deadline, "it is closed");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut rest = Vec::new();
    _ = silent.stream.read_to_end(&mut rest);
    assert!(rest.len() < FIELDS * 1000, "{} bytes were sent", rest.len());
    other.ask(&["HGET", "h", "none"], "$-1\r\n");
}

/// A reply in parts stood still where a write was cut at its share and the next one, of what was left, took all: the
/// socket then reports nothing.
#[test]
fn issue_11_a_long_reply_in_parts_goes_to_its_end() {
    const FIELDS: usize = 30_000;
    let server = Server::start(1, "");
    let mut client = server.connect();
    set_fields(&mut client, FIELDS, "v", 100);
    for _ in 0..8 {
        client.send(&request(&["HGETALL", "h"]));
        assert_eq!(client.line(), format!("*{}", 2 * FIELDS));
        let mut rest = vec![0; FIELDS * ("$11\r\nfield000000\r\n$1000\r\n\r\n".len() + 1000)];
        client.stream.read_exact(&mut rest).unwrap();
        assert!(rest.ends_with(b"v\r\n"));
    }
    client.ask(&["ECHO", "end"], "$3\r\nend\r\n");
}
