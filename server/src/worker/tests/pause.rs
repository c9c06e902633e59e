//! CLIENT PAUSE over real sockets: writes wait, reads do not; everything goes on in order when it ends.

use super::*;

/// True if nothing comes for a moment.
fn is_silent(client: &mut Client) -> bool {
    client.stream.set_read_timeout(Some(Duration::from_millis(60))).unwrap();
    let silent = client.stream.read(&mut [0; 1]).is_err();
    client.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    silent
}

fn blocked(server: &Server) -> u64 {
    server.state().total(|stats| &stats.held)
}

#[test]
fn writes_wait_and_reads_do_not() {
    let server = Server::start(2, "");
    let mut pauser = server.connect();
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    pauser.ask(&["CLIENT", "PAUSE", "100000", "WRITE"], "+OK\r\n");
    for (nth, client) in clients.iter_mut().enumerate() {
        client.send(&[request(&["GET", "k"]), request(&["SET", "k", &nth.to_string()]), request(&["PING"])].concat());
        client.expect(b"$-1\r\n");
    }
    wait_until("all are held back", || blocked(&server) == 4);
    assert!(is_silent(&mut clients[0]));
    assert!(pauser.bulk(&["CLIENT", "LIST"]).lines().filter(|line| line.contains(" flags=b ")).count() == 4);
    drop(clients.pop());
    wait_until("a dead client is forgotten", || blocked(&server) == 3);
    pauser.ask(&["GET", "k"], "$-1\r\n");
    pauser.ask(&["CLIENT", "UNPAUSE"], "+OK\r\n");
    clients.iter_mut().for_each(|client| client.expect(b"+OK\r\n+PONG\r\n"));
    assert_eq!(blocked(&server), 0);
}

#[test]
fn a_pause_that_ends_while_a_turn_runs_lets_its_connection_go_on() {
    let server = Server::start(1, "");
    let mut pauser = server.connect();
    let mut client = server.connect();
    // Longest common subsequences of these take longer than the pause.
    let text = |seed: u64| {
        let mut random = varve_base::rng::Rng::seeded(seed);
        (0..4000).map(|_| if random.below(2) == 0 { 'a' } else { 'b' }).collect::<String>()
    };
    client.ask(&["MSET", "{k}a", &text(1), "{k}b", &text(2)], "+OK\r\n");
    pauser.ask(&["CLIENT", "PAUSE", "20", "WRITE"], "+OK\r\n");
    let slow = request(&["LCS", "{k}a", "{k}b", "LEN"]);
    client.send(&[slow.repeat(8), request(&["SET", "k", "v"]), request(&["PING"])].concat());
    let mut replies = Vec::new();
    while !replies.ends_with(b"+OK\r\n+PONG\r\n") {
        let mut bytes = [0; 1024];
        let count = client.stream.read(&mut bytes).expect("the client goes on");
        assert!(count > 0, "the connection was closed");
        replies.extend_from_slice(&bytes[..count]);
    }
    assert_eq!(blocked(&server), 0);
}

#[test]
fn transactions_that_write_and_publishing_wait() {
    let server = Server::start(2, "");
    let mut pauser = server.connect();
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    clients[0].ask(&["MULTI"], "+OK\r\n");
    clients[0].ask(&["SET", "k", "1"], "+QUEUED\r\n");
    pauser.ask(&["CLIENT", "PAUSE", "100000", "WRITE"], "+OK\r\n");
    clients[0].send(&request(&["EXEC"]));
    clients[1].send(&request(&["PUBLISH", "c", "m"]));
    // A request that is rewritten when it is parsed.
    clients[2].send(b"SET q \"a b\"\r\n");
    wait_until("all are held back", || blocked(&server) == 3);
    let mut reader = server.connect();
    reader.ask(&["MULTI"], "+OK\r\n");
    reader.ask(&["GET", "k"], "+QUEUED\r\n");
    reader.ask(&["EXEC"], "*1\r\n$-1\r\n");
    reader.ask(&["SET", "k"], "-ERR wrong number of arguments for 'set' command\r\n");
    pauser.ask(&["CLIENT", "UNPAUSE"], "+OK\r\n");
    clients[0].expect(b"*1\r\n+OK\r\n");
    clients[1].expect(b":0\r\n");
    clients[2].expect(b"+OK\r\n");
    reader.ask(&["GET", "q"], "$3\r\na b\r\n");
}

#[test]
fn a_pause_of_everything_ends_by_itself() {
    let server = Server::start(2, "");
    let mut pauser = server.connect();
    let mut client = server.connect();
    let start = Instant::now();
    pauser.ask(&["CLIENT", "PAUSE", "200"], "+OK\r\n");
    client.ask(&["NOSUCH"], "-ERR unknown command 'NOSUCH', with args beginning with: \r\n");
    client.ask(&["PING"], "+PONG\r\n");
    pauser.ask(&["PING"], "+PONG\r\n");
    assert!(start.elapsed() >= Duration::from_millis(199));
}

/// A client that waited before a pause waits no longer than it wanted, as in redis-server, and can be unblocked.
#[test]
fn waits_end_in_time_while_all_else_is_held_back() {
    for kind in ["ALL", "WRITE"] {
        let server = Server::start(2, "");
        let (mut pauser, mut other, mut waiting) = (server.connect(), server.connect(), server.connect());
        waiting.send(&request(&["BLPOP", "q", "0.05"]));
        wait_until("it waits", || server.state().total(|stats| &stats.blocked) == 1);
        pauser.ask(&["CLIENT", "PAUSE", "100000", kind], "+OK\r\n");
        waiting.expect(b"*-1\r\n");
        // A wait that had not begun before the pause has not begun: its time counts from the end of the pause.
        other.send(&request(&["BLPOP", "q", "0.01"]));
        if kind == "WRITE" {
            wait_until("it is held back", || blocked(&server) == 1);
            assert!(is_silent(&mut other));
            pauser.ask(&["CLIENT", "UNPAUSE"], "+OK\r\n");
            other.expect(b"*-1\r\n");
        }
    }
}

#[test]
fn nobody_is_served_by_a_push_that_is_held_back() {
    let server = Server::start(2, "");
    let (mut pauser, mut pusher, mut waiting) = (server.connect(), server.connect(), server.connect());
    waiting.send(&request(&["BLPOP", "q", "0"]));
    wait_until("it waits", || server.state().total(|stats| &stats.blocked) == 1);
    pauser.ask(&["CLIENT", "PAUSE", "100000", "WRITE"], "+OK\r\n");
    pusher.send(&request(&["RPUSH", "q", "v"]));
    wait_until("it is held back", || blocked(&server) == 1);
    assert!(is_silent(&mut waiting));
    pauser.ask(&["CLIENT", "UNPAUSE"], "+OK\r\n");
    waiting.expect(b"*2\r\n$1\r\nq\r\n$1\r\nv\r\n");
    pusher.expect(b":1\r\n");
}

#[test]
fn nothing_expires_while_writes_wait() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    client.ask(&["SET", "lazy", "v", "PX", "40"], "+OK\r\n");
    client.ask(&["CLIENT", "PAUSE", "100000", "WRITE"], "+OK\r\n");
    wait_until("its time has come", || {
        client.send(&request(&["EXISTS", "lazy"]));
        let mut reply = [0; 4];
        client.stream.read_exact(&mut reply).unwrap();
        &reply == b":0\r\n"
    });
    std::thread::sleep(Duration::from_millis(50));
    client.ask(&["GET", "lazy"], "$-1\r\n");
    client.ask(&["DBSIZE"], ":1\r\n");
    assert_eq!(server.state().store().totals().expired, 0);
    client.ask(&["CLIENT", "UNPAUSE"], "+OK\r\n");
    wait_until("it expires", || server.state().store().totals().expired == 1);
    client.ask(&["DBSIZE"], ":0\r\n");
}
