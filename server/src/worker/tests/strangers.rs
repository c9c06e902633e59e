//! Connections that have not authenticated although a password is set: what they may take, and for how long.

use super::*;

const PASSWORD: &str = "requirepass secret";

/// A client that has authenticated.
fn known(server: &Server) -> Client {
    let mut client = server.connect();
    client.ask(&["AUTH", "secret"], "+OK\r\n");
    client
}

/// Bytes of the buffers of all strangers.
fn stranger_bytes(server: &Server) -> u64 {
    server.state().total(|stats| &stats.stranger_bytes)
}

#[test]
fn a_stranger_that_does_not_read_is_closed() {
    let server = Server::start(1, PASSWORD);
    let _known = known(&server);
    let mut stranger = server.connect();
    let mut sent = 0_u64;
    let pings = b"PING\r\n".repeat(1000);
    while stranger.stream.write_all(&pings).is_ok() && sent < 400 << 20 {
        sent += pings.len() as u64;
    }
    assert!(sent < 400 << 20, "it was never closed");
    assert_eq!(server.state().total(|stats| &stats.output_limit_closed), 1);
    // Few bytes waited here, however many the sockets took.
    assert!(server.state().peak(|stats| &stats.input_peak_bytes) < 1 << 20);
    assert!(server.state().peak(|stats| &stats.output_peak_bytes) < 1 << 20);
    wait_until("it is gone", || server.state().connections() == 1 && stranger_bytes(&server) == 0);
}

/// A stranger that reads may ask as often as it likes, and one that pipelines its first requests is served.
#[test]
fn a_stranger_that_reads_is_answered() {
    let server = Server::start(1, PASSWORD);
    let mut stranger = server.connect();
    let refused = "-NOAUTH Authentication required.\r\n";
    for _ in 0..20 {
        stranger.send(&b"GET k\r\n".repeat(200));
        stranger.expect(refused.repeat(200).as_bytes());
    }
    stranger.send(&[request(&["GET", "k"]), request(&["AUTH", "secret"]), request(&["SET", "k", "v"])].concat());
    stranger.expect(format!("{refused}+OK\r\n+OK\r\n").as_bytes());
}

/// Half a request costs a stranger's bytes and nobody's keys.
#[test]
fn what_strangers_leave_half_sent_evicts_nothing() {
    let lines = format!("{PASSWORD}\nmaxmemory 3mb\nmaxmemory-policy allkeys-lru");
    let server = Server::start(2, &lines);
    let mut control = known(&server);
    for n in 0..5000 {
        control.send(&request(&["SET", &format!("key:{n}"), &"v".repeat(100)]));
    }
    (0..5000).for_each(|_| control.expect(b"+OK\r\n"));
    let used = server.state().store().used_memory();
    let strangers: Vec<Client> = (0..500)
        .map(|_| {
            let mut stranger = server.connect();
            stranger.send(b"*");
            stranger
        })
        .collect();
    wait_until("all are here", || stranger_bytes(&server) >= 500);
    assert!(stranger_bytes(&server) <= 500 * 256, "{} bytes for a byte each", stranger_bytes(&server));
    (0..200).for_each(|n| control.ask(&["SET", &format!("key:{n}"), "v"], "+OK\r\n"));
    let grown = server.state().store().used_memory().saturating_sub(used);
    assert!(grown < 200_000, "used memory grew by {grown}");
    assert_eq!(server.state().store().totals().evicted, 0);
    drop(strangers);
    wait_until("all are gone", || stranger_bytes(&server) == 0);
}

/// A client whose half request is counted against `maxmemory` once it has authenticated.
#[test]
fn a_client_counts_as_all_others_once_it_is_known() {
    let server = Server::start(1, PASSWORD);
    let mut client = server.connect();
    client.send(b"*2\r\n$4\r\nAUTH\r\n$6\r\nsec");
    wait_until("it is here", || stranger_bytes(&server) > 0);
    client.send(b"ret\r\n*2\r\n$3\r\nGET\r\n$100000\r\n");
    client.send(&[b'x'; 90_000]);
    client.expect(b"+OK\r\n");
    wait_until("it is counted", || {
        stranger_bytes(&server) == 0 && server.state().total(|stats| &stats.buffer_bytes) > 90_000
    });
}

/// 10 arguments of 16 KB, of which the last is not whole.
fn half_request() -> Vec<u8> {
    let argument = [b"$16384\r\n".to_vec(), vec![b'x'; 16_384], b"\r\n".to_vec()].concat();
    [b"*10\r\n".to_vec(), argument.repeat(9), b"$16384\r\nx".to_vec()].concat()
}

/// A worker that comes late, as on a busy machine, finds what hundreds have sent, and took all of it in one turn: 39 MB.
#[test]
fn issue_11_strangers_are_bounded_within_a_turn() {
    let server = Server::start(1, &format!("{PASSWORD}\nenable-debug-command yes"));
    let mut known = known(&server);
    let mut strangers: Vec<Client> = (0..400).map(|_| server.connect()).collect();
    wait_until("all are here", || server.state().connections() == 401);
    known.send(&request(&["DEBUG", "SLEEP", "0.5"]));
    let half = half_request();
    // The sockets take some of it at once: nobody reads meanwhile.
    strangers.iter_mut().for_each(|stranger| {
        stranger.stream.set_nonblocking(true).expect("a socket");
        let _ = stranger.stream.write_all(&half);
    });
    let mut most = 0;
    wait_until("some are closed", || {
        most = most.max(stranger_bytes(&server));
        server.state().connections() < 300
    });
    known.expect(b"+OK\r\n");
    assert!(most <= 34 << 20, "{most} bytes of strangers");
}

/// Of many strangers that send long half requests the largest are closed; a small one gets in.
#[test]
fn all_strangers_together_are_bounded() {
    let server = Server::start(2, PASSWORD);
    let mut late = server.connect();
    late.send(b"*2\r\n$4\r\nAUTH\r\n$6\r\nsec");
    wait_until("it is here", || stranger_bytes(&server) > 0);
    let half = half_request();
    let mut strangers: Vec<Client> = Vec::new();
    let mut most = 0;
    for _ in 0..400 {
        let mut stranger = server.connect();
        // One that is closed while it sends is one of the largest.
        let _ = stranger.stream.write_all(&half);
        strangers.push(stranger);
        most = most.max(stranger_bytes(&server));
    }
    assert!(most <= 36 << 20, "{most} bytes of strangers");
    wait_until("some are closed", || server.state().connections() < 300);
    late.send(b"ret\r\n");
    late.expect(b"+OK\r\n");
}

#[test]
fn a_stranger_has_a_time_to_authenticate() {
    let server = Server::start(2, &format!("{PASSWORD}\nunauthenticated-timeout 1"));
    let mut known = known(&server);
    let mut reset = server.connect();
    reset.ask(&["AUTH", "secret"], "+OK\r\n");
    let mut strangers: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    // Asking for something else does not help.
    strangers[1].send(b"PING\r\n");
    strangers[1].expect(b"-NOAUTH Authentication required.\r\n");
    assert!(strangers.iter_mut().all(Client::is_closed));
    reset.ask(&["PING"], "+PONG\r\n");
    // A client that becomes a stranger again has the time again.
    reset.ask(&["RESET"], "+RESET\r\n");
    reset.ask(&["AUTH", "secret"], "+OK\r\n");
    reset.ask(&["RESET"], "+RESET\r\n");
    assert!(reset.is_closed());
    known.ask(&["PING"], "+PONG\r\n");
    known.ask(&["CONFIG", "SET", "unauthenticated-timeout", "0"], "+OK\r\n");
    assert_eq!(server.state().connections(), 1);
}

#[test]
fn without_a_password_nobody_is_a_stranger() {
    let server = Server::start(1, "unauthenticated-timeout 1\ntimeout 3");
    let mut client = server.connect();
    let begin = Instant::now();
    // Closed by `timeout`, not before.
    assert!(client.is_closed());
    assert!(begin.elapsed() >= Duration::from_secs(3));
}

/// A password that is taken away lets those in who wait before it, and one that is set again keeps them out.
#[test]
fn strangers_are_let_in_when_no_password_is_needed() {
    let server = Server::start(2, PASSWORD);
    let mut control = known(&server);
    let mut strangers: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let refused = "-NOAUTH Authentication required.\r\n";
    for (password, reply) in [("secret", refused), ("", "$-1\r\n"), ("other", refused), ("", "$-1\r\n")] {
        control.ask(&["CONFIG", "SET", "requirepass", password], "+OK\r\n");
        strangers.iter_mut().for_each(|stranger| stranger.ask(&["GET", "k"], reply));
        control.ask(&["GET", "k"], "$-1\r\n");
    }
}
