//! Connections that send while the worker is busy are read in groups: each still gets the answers to its own requests,
//! whatever those before it in the group do.

use super::*;

/// Clients of a server with one worker, all of which send while it sleeps.
struct Crowd {
    _server: Server,
    sleeper: Client,
    clients: Vec<Client>,
}

impl Crowd {
    fn new(clients: usize) -> Crowd {
        let server = Server::start(1, "enable-debug-command yes");
        let sleeper = server.connect();
        let mut clients: Vec<Client> = (0..clients).map(|_| server.connect()).collect();
        // All of them are accepted.
        clients.iter_mut().for_each(|client| client.ask(&["PING"], "+PONG\r\n"));
        Crowd { _server: server, sleeper, clients }
    }

    /// Has everybody send at once, and then checks what each was replied.
    fn all(&mut self, mut say: impl FnMut(usize) -> (Vec<u8>, String)) {
        self.sleeper.send(&request(&["DEBUG", "SLEEP", "0.02"]));
        let said: Vec<_> = (0..self.clients.len()).map(&mut say).collect();
        for (client, (bytes, _)) in self.clients.iter_mut().zip(&said) {
            client.send(bytes);
        }
        for (client, (_, reply)) in self.clients.iter_mut().zip(&said) {
            client.expect(reply.as_bytes());
        }
        self.sleeper.expect(b"+OK\r\n");
    }
}

#[test]
fn each_is_answered_its_own() {
    let mut crowd = Crowd::new(40);
    crowd.all(|n| (request(&["SELECT", &(n % 3).to_string()]), "+OK\r\n".into()));
    for round in 0..5 {
        let text = |n: usize| format!("{:04}", n * 10 + round);
        crowd.all(|n| (request(&["SET", &format!("key:{n}"), &text(n)]), "+OK\r\n".into()));
        crowd.all(|n| (request(&["GET", &format!("key:{n}")]), format!("$4\r\n{}\r\n", text(n))));
        // In the databases beside there is nothing of that name.
        crowd.all(|n| (request(&["GET", &format!("key:{}", n + 1)]), "$-1\r\n".into()));
        // Pipelines of more than a turn, and what is no request of the common form.
        crowd.all(|n| {
            let key = format!("count:{n}");
            let lines = (0..100).map(|_| request(&["INCR", &key])).chain([format!("DEL {key}\r\n").into_bytes()]);
            let replies = (1..=100).map(|count| format!(":{count}\r\n")).collect::<String>();
            (lines.collect::<Vec<_>>().concat(), replies + ":1\r\n")
        });
    }
}

#[test]
fn requests_that_come_in_halves() {
    let mut crowd = Crowd::new(20);
    let whole = |n: usize| request(&["APPEND", &format!("key:{n}"), "0123456789"]);
    for round in 1..=5 {
        crowd.all(|n| (whole(n)[..5 + n].to_vec(), String::new()));
        crowd.all(|n| (whole(n)[5 + n..].to_vec(), format!(":{}\r\n", 10 * round)));
    }
}

#[test]
fn what_one_does_to_the_databases_the_next_one_sees() {
    let mut crowd = Crowd::new(20);
    crowd.all(|n| (request(&["SET", &format!("key:{n}"), "v"]), "+OK\r\n".into()));
    let mut found = 0;
    for _ in 0..20 {
        crowd.sleeper.send(&request(&["DEBUG", "SLEEP", "0.01"]));
        crowd.clients[7].send(&request(&["SWAPDB", "0", "1"]));
        for (n, client) in crowd.clients.iter_mut().enumerate().filter(|(n, _)| *n != 7) {
            client.send(&request(&["EXISTS", &format!("key:{n}")]));
        }
        // Each finds its key or not, depending on whether it came before or after the exchange.
        for (_, client) in crowd.clients.iter_mut().enumerate().filter(|(n, _)| *n != 7) {
            let mut got = [0; 4];
            client.stream.read_exact(&mut got).unwrap();
            assert!(matches!(&got, b":0\r\n" | b":1\r\n"), "{}", got.escape_ascii());
            found += u32::from(got[1] == b'1');
        }
        crowd.clients[7].expect(b"+OK\r\n");
        crowd.sleeper.expect(b"+OK\r\n");
    }
    assert!(found > 0, "no key was ever found");
    // After an even number of exchanges all is as before.
    crowd.all(|n| (request(&["GET", &format!("key:{n}")]), "$1\r\nv\r\n".into()));
}

#[test]
fn one_may_close_the_others() {
    let mut crowd = Crowd::new(12);
    crowd.sleeper.send(&request(&["DEBUG", "SLEEP", "0.02"]));
    for client in &mut crowd.clients[1..] {
        client.send(&request(&["INCR", "served"]));
    }
    crowd.clients[0].send(&request(&["CLIENT", "KILL", "TYPE", "normal"]));
    crowd.clients[0].expect(b":12\r\n");
    // A connection that was served before had its answer; all are closed by now.
    let mut served = 0;
    for client in &mut crowd.clients[1..] {
        let mut rest = Vec::new();
        // A connection that is closed with bytes unread is reset.
        let _ = client.stream.read_to_end(&mut rest);
        assert!(rest.is_empty() || rest.ends_with(b"\r\n"));
        served += usize::from(!rest.is_empty());
    }
    let mut last = crowd._server.connect();
    let count = if served == 0 { "$-1\r\n".into() } else { format!("${}\r\n{served}\r\n", served.to_string().len()) };
    last.ask(&["GET", "served"], &count);
}

#[test]
fn a_pause_holds_those_behind_it() {
    let mut crowd = Crowd::new(12);
    crowd.clients[0].ask(&["CLIENT", "PAUSE", "100000", "WRITE"], "+OK\r\n");
    crowd.sleeper.send(&request(&["DEBUG", "SLEEP", "0.01"]));
    for (n, client) in crowd.clients.iter_mut().enumerate().skip(1) {
        client.send(&[request(&["GET", "nothing"]), request(&["SET", &format!("key:{n}"), "v"])].concat());
    }
    for client in &mut crowd.clients[1..] {
        client.expect(b"$-1\r\n");
    }
    crowd.clients[0].ask(&["DBSIZE"], ":0\r\n");
    crowd.clients[0].ask(&["CLIENT", "UNPAUSE"], "+OK\r\n");
    for client in &mut crowd.clients[1..] {
        client.expect(b"+OK\r\n");
    }
    crowd.clients[0].ask(&["DBSIZE"], ":11\r\n");
}
