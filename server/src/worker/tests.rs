//! The event loop over real sockets: cut and endless requests, slow and silent readers, many idle clients.

mod accept;
mod account;
mod blocked;
mod command_log;
mod fan_out;
mod file;
mod functions;
mod group;
mod hot_keys;
mod large;
mod leading;
mod limits;
mod parts;
mod pause;
mod pipelines;
mod pubsub;
mod questions;
mod reading;
mod scripts;
mod shutdown;
mod strangers;
mod timeouts;
mod tls;
mod tracking;
mod transactions;
mod turns;
mod users;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_exec::CommandTable;
use varve_store::Store;

use super::{Running, Setup, start};
use crate::config::{Live, Loader};
use crate::features::commands;
use crate::net::listen::{self, Door, Listener};
use crate::net::tls::context;

/// A server in this process, ended with the test.
struct Server {
    running: Option<Running>,
    address: SocketAddr,
}

impl Server {
    /// Starts a server with `workers` workers and these lines of configuration.
    fn start(workers: usize, lines: &str) -> Server {
        Server::listening(workers, lines, Vec::new())
    }

    fn listening(workers: usize, lines: &str, mut listeners: Vec<Listener>) -> Server {
        let mut loader = Loader::new(commands());
        // A test that saves says so, and where.
        loader.text("test", b"save \"\"").unwrap();
        loader.text("test", lines.as_bytes()).unwrap();
        let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        probe.set_nonblocking(true).unwrap();
        let address = probe.local_addr().unwrap();
        listeners.push(Listener::Tcp(mio::net::TcpListener::from_std(probe), Door::Plain));
        let loaded = loader.finish();
        let setup = Setup {
            store: test_store(workers),
            config: Live::new(loaded.values, None),
            table: Arc::new(CommandTable::new(commands())),
            run_id: "0".repeat(40),
            listeners,
            tls: context(&loaded.config.tls).unwrap(),
            workers,
            loads: false,
        };
        Server { running: Some(start(setup).unwrap()), address }
    }

    fn state(&self) -> &crate::state::ServerState {
        &self.running.as_ref().unwrap().state
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.state.stop();
            running.join();
        }
    }
}

/// Held by tests that take most of the files a process may have open.
fn many_files() -> std::sync::MutexGuard<'static, ()> {
    static MANY: std::sync::Mutex<()> = std::sync::Mutex::new(());
    MANY.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn test_store(workers: usize) -> Arc<Store> {
    Store::new(&varve_store::Options { workers, ..varve_store::Options::default() }).unwrap()
}

struct Client {
    stream: TcpStream,
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn expect(&mut self, reply: &[u8]) {
        let mut got = vec![0; reply.len()];
        self.stream.read_exact(&mut got).unwrap();
        assert_eq!(got.escape_ascii().to_string(), reply.escape_ascii().to_string());
    }

    fn ask(&mut self, words: &[&str], reply: &str) {
        self.send(&request(words));
        self.expect(reply.as_bytes());
    }

    /// One line of a reply, without its end.
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).unwrap()
    }

    /// One bulk string.
    fn bulk(&mut self, words: &[&str]) -> String {
        self.send(&request(words));
        let head = self.line();
        let length: usize = head[1..].parse().unwrap_or_else(|_| panic!("{head:?}"));
        let mut body = vec![0; length + 2];
        self.stream.read_exact(&mut body).unwrap();
        body.truncate(length);
        String::from_utf8(body).unwrap()
    }

    /// How often shards were held for commands, as INFO counts it, and the longest time in microseconds.
    fn holds(&mut self) -> (u64, f64) {
        let info = self.bulk(&["INFO", "background"]);
        let line = info.lines().find_map(|line| line.strip_prefix("lock_holds:")).expect("a line");
        let figure = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name)).expect("a figure");
        (figure("count=").parse().expect("a number"), figure("max_us=").parse().expect("a time"))
    }

    /// True if the server closes the connection, with nothing more to read.
    fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 1]) {
            Ok(count) => count == 0,
            Err(error) => matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe),
        }
    }
}

fn request(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    out
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_request_may_be_cut_at_every_byte() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    let whole = [request(&["ECHO", "some\r\nbytes"]), b"PING\r\n".to_vec(), request(&["PING"])].concat();
    let reply = b"$11\r\nsome\r\nbytes\r\n+PONG\r\n+PONG\r\n";
    for at in 1..whole.len() {
        client.send(&whole[..at]);
        std::thread::sleep(Duration::from_micros(300));
        client.send(&whole[at..]);
        client.expect(reply);
    }
    for byte in &whole {
        client.send(std::slice::from_ref(byte));
    }
    client.expect(reply);
}

#[test]
fn a_pipeline_of_100_000_is_answered_in_order() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let mut reader = Client { stream: client.stream.try_clone().unwrap() };
    let writer = std::thread::spawn(move || {
        for n in 0..100_000 {
            client.stream.write_all(&request(&["ECHO", &format!("{n:06}")])).unwrap();
        }
    });
    let mut got = vec![0; 100_000 * 12];
    reader.stream.read_exact(&mut got).unwrap();
    writer.join().unwrap();
    for (n, reply) in got.chunks(12).enumerate() {
        assert_eq!(reply, format!("$6\r\n{n:06}\r\n").as_bytes());
    }
}

#[test]
fn a_client_that_writes_all_before_it_reads_does_not_deadlock() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let value = "x".repeat(100_000);
    let ask = request(&["ECHO", &value]);
    // 100 MB of requests and of replies: more than sockets and the pause take together.
    let count = 1000;
    for _ in 0..count {
        client.send(&ask);
    }
    let reply = format!("$100000\r\n{value}\r\n");
    for _ in 0..count {
        client.expect(reply.as_bytes());
    }
    client.ask(&["PING"], "+PONG\r\n");
    wait_until("its buffers are given back", || server.state().total(|s| &s.buffer_bytes) < 4 << 20);
}

#[test]
fn a_client_that_never_reads_is_closed_at_the_query_limit() {
    let server = Server::start(1, "client-query-buffer-limit 2mb");
    let mut silent = server.connect();
    let mut other = server.connect();
    let ask = request(&["ECHO", &"x".repeat(1_000_000)]);
    let writer = std::thread::spawn(move || (0..200).try_for_each(|_| silent.stream.write_all(&ask)).is_err());
    while !writer.is_finished() {
        other.ask(&["PING"], "+PONG\r\n");
    }
    assert!(writer.join().unwrap(), "it is closed while it writes");
    assert_eq!(server.state().total(|s| &s.query_limit_closed), 1);
}

#[test]
fn the_output_limit_closes_a_client_that_does_not_read() {
    let server = Server::start(1, "client-output-buffer-limit normal 10mb 0 0");
    let mut silent = server.connect();
    let ask = request(&["ECHO", &"x".repeat(1_000_000)]);
    let failed = (0..100).try_for_each(|_| silent.stream.write_all(&ask)).is_err();
    wait_until("the limit is seen", || server.state().total(|s| &s.output_limit_closed) == 1);
    assert!(failed || silent.stream.read_to_end(&mut Vec::new()).is_ok() || silent.is_closed());
}

#[test]
fn a_slow_reader_gets_100_mb() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let mut other = server.connect();
    let value: String = (0..100_000_000u32).map(|i| char::from(b'a' + (i % 23) as u8)).collect();
    let ask = request(&["ECHO", &value]);
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&ask).unwrap());
    let mut got = Vec::new();
    let total = value.len() + "$100000000\r\n\r\n".len();
    let mut room = vec![0; 1 << 20];
    while got.len() < total {
        let count = client.stream.read(&mut room).unwrap();
        assert!(count > 0);
        got.extend_from_slice(&room[..count]);
        other.ask(&["PING"], "+PONG\r\n");
    }
    sender.join().unwrap();
    assert!(&got[12..total - 2] == value.as_bytes());
    wait_until("its buffers are given back", || {
        other.ask(&["PING"], "+PONG\r\n");
        !other.bulk(&["CLIENT", "LIST"]).lines().any(|line| !line.contains(" omem=0 "))
    });
}

#[test]
fn a_client_that_has_sent_its_last_word_still_gets_its_answers() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    let value = "y".repeat(3_000_000);
    let mut writer = client.stream.try_clone().unwrap();
    let ask = [request(&["PING"]), request(&["ECHO", &value]), request(&["CLIENT", "ID"])[..10].to_vec()].concat();
    let sender = std::thread::spawn(move || {
        writer.write_all(&ask).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    client.expect(b"+PONG\r\n");
    client.expect(format!("$3000000\r\n{value}\r\n").as_bytes());
    assert!(client.is_closed());
    sender.join().unwrap();
    wait_until("it is forgotten", || server.state().connections() == 0);
}

#[test]
fn clients_that_vanish_are_forgotten() {
    let server = Server::start(2, "");
    let ask = request(&["ECHO", &"z".repeat(200_000)]);
    for _ in 0..50 {
        let mut client = server.connect();
        client.send(&ask);
        client.send(&ask[..1000]);
        drop(client);
    }
    wait_until("all are forgotten", || server.state().connections() == 0);
    server.connect().ask(&["PING"], "+PONG\r\n");
}

#[test]
fn ten_thousand_idle_clients_take_little_each() {
    let _alone = many_files();
    let files = crate::system::sys::open_files().unwrap();
    let count = 10_000.min((files.soft as usize).saturating_sub(2000) / 2);
    let server = Server::start(2, "");
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..count {
        clients.push(server.connect());
    }
    for client in &mut clients {
        client.ask(&["PING"], "+PONG\r\n");
    }
    wait_until("all are counted", || server.state().total(|s| &s.connected) == count as u64);
    clients[count / 2].ask(&["CLIENT", "SETNAME", "middle"], "+OK\r\n");
    let list = clients[0].bulk(&["CLIENT", "LIST"]);
    assert_eq!(list.lines().count(), count);
    let field = |line: &str, name: &str| -> usize {
        line.split(' ').find_map(|field| field.strip_prefix(name)).unwrap().parse().unwrap()
    };
    let largest = list.lines().skip(1).map(|line| field(line, "tot-mem=")).max().unwrap();
    println!("{count} idle clients, {largest} bytes each");
    assert!(largest < 1024, "{largest}");
    let per_worker: Vec<u64> = server.state().workers().iter().map(|w| w.stats().connected.get()).collect();
    // Not by half: a worker that this machine gives less time seems to have more to do.
    assert!(per_worker.iter().all(|&n| n > count as u64 / 10), "{per_worker:?}");
}

#[test]
fn client_list_shows_all_fields_in_order() {
    for workers in [1, 3] {
        let server = Server::start(workers, "");
        let mut client = server.connect();
        let mut second = server.connect();
        second.ask(&["PING"], "+PONG\r\n");
        client.ask(&["CLIENT", "SETNAME", "first"], "+OK\r\n");
        let list = client.bulk(&["client", "list"]);
        let lines: Vec<&str> = list.lines().collect();
        assert_eq!(lines.len(), 2);
        let names: Vec<&str> = lines[0].split(' ').map(|field| field.split('=').next().unwrap()).collect();
        let wanted = "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs rbp \
                      obl oll omem tot-mem events cmd user redir resp";
        assert_eq!(names.join(" "), wanted);
        assert!(
            lines[0].contains(" name=first ") && lines[0].contains(" qbuf=26 ") && lines[0].contains(" argv-mem=10 ")
        );
        assert!(lines[0].ends_with(" events=r cmd=client|list user=default redir=-1 resp=2"), "{list}");
        assert!(lines[1].contains(" qbuf=0 ") && lines[1].contains(" cmd=ping "), "{list}");
        let info = second.bulk(&["CLIENT", "INFO"]);
        assert!(info.starts_with("id=2 ") && info.ends_with("resp=2\n"));
        assert_eq!(client.bulk(&["CLIENT", "LIST", "ID", "2", "9", "1"]).lines().count(), 2);
        client.ask(&["CLIENT", "LIST", "ID", "x"], "-ERR Invalid client ID\r\n");
        client.ask(&["CLIENT", "LIST", "TYPE", "foo"], "-ERR Unknown client type 'foo'\r\n");
        assert_eq!(client.bulk(&["CLIENT", "LIST", "TYPE", "pubsub"]), "");
    }
}

#[test]
fn time_passes_within_a_pipeline() {
    let server = Server::start(1, "enable-debug-command yes");
    let lines: [&[&str]; 4] = [&["SET", "k", "v", "PX", "2"], &["DEBUG", "SLEEP", "0.01"], &["GET", "k"], &["DBSIZE"]];
    let mut client = server.connect();
    client.send(&lines.map(request).concat());
    client.expect(b"+OK\r\n+OK\r\n$-1\r\n:0\r\n");
}

#[test]
fn an_error_that_came_from_all_workers_is_counted() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    client.ask(&["CLIENT", "KILL", "nobody"], "-ERR No such client\r\n");
    client.send(&request(&["INFO", "errorstats"]));
    client.expect(b"$37\r\n# Errorstats\r\nerrorstat_ERR:count=1\r\n");
}

#[test]
fn client_kill_reaches_every_worker() {
    let server = Server::start(3, "");
    let mut clients: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    for (nth, client) in clients.iter_mut().enumerate() {
        client.ask(&["CLIENT", "ID"], &format!(":{}\r\n", nth + 1));
    }
    let (killer, rest) = clients.split_first_mut().unwrap();
    killer.ask(&["CLIENT", "KILL", "ID", "3"], ":1\r\n");
    assert!(rest[1].is_closed());
    let address = rest[0].stream.local_addr().unwrap().to_string();
    killer.ask(&["CLIENT", "KILL", &address], "+OK\r\n");
    assert!(rest[0].is_closed());
    killer.ask(&["CLIENT", "KILL", &address], "-ERR No such client\r\n");
    killer.ask(&["CLIENT", "KILL", "ID", "0"], "-ERR client-id should be greater than 0\r\n");
    killer.ask(&["CLIENT", "KILL", "USER", "nobody"], "-ERR No such user 'nobody'\r\n");
    killer.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"], ":3\r\n");
    assert!(rest[2..].iter_mut().all(Client::is_closed));
    killer.send(&[request(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"]), request(&["PING"])].concat());
    killer.expect(b":1\r\n");
    assert!(killer.is_closed());
}

#[test]
fn who_kills_itself_and_goes_on_sending_is_answered_first() {
    let server = Server::start(3, "");
    for _ in 0..100 {
        let mut client = server.connect();
        client.ask(&["PING"], "+PONG\r\n");
        client.send(&request(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"]));
        // Wakes the worker while others are being asked, or finds the connection closed.
        let _ = client.stream.write_all(b"PI");
        client.expect(b":1\r\n");
        assert!(client.is_closed());
    }
}

#[test]
fn requests_behind_a_question_wait_for_its_answer() {
    let server = Server::start(3, "");
    let mut client = server.connect();
    for _ in 0..200 {
        let mut ask = Vec::new();
        for n in 0..10 {
            ask.extend(request(&["CLIENT", "KILL", "ID", "77"]));
            ask.extend(request(&["ECHO", &n.to_string()]));
        }
        client.send(&ask);
        for n in 0..10 {
            client.expect(format!(":0\r\n$1\r\n{n}\r\n").as_bytes());
        }
    }
}

#[test]
fn client_reply_off_and_skip() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    let say = |words: &[&str]| request(words);
    client.send(
        &[
            say(&["CLIENT", "REPLY", "SKIP"]),
            say(&["PING", "dropped"]),
            say(&["PING", "sent"]),
            say(&["CLIENT", "REPLY", "OFF"]),
            say(&["PING", "dropped"]),
            say(&["CLIENT", "LIST"]),
            say(&["CLIENT", "REPLY", "ON"]),
            say(&["PING", "again"]),
        ]
        .concat(),
    );
    client.expect(b"$4\r\nsent\r\n+OK\r\n$5\r\nagain\r\n");
}

#[test]
fn a_changed_setting_holds_for_what_follows() {
    let server = Server::start(2, "");
    let (mut client, mut other) = (server.connect(), server.connect());
    // In the same pipeline, and on a connection of the other worker as soon as the reply is there.
    client.send(&[request(&["CONFIG", "SET", "latency-tracking", "no"]), request(&["SET", "a", "1"])].concat());
    client.expect(b"+OK\r\n+OK\r\n");
    other.ask(&["GET", "a"], "$1\r\n1\r\n");
    client.ask(&["CONFIG", "SET", "latency-tracking", "yes"], "+OK\r\n");
    let stats = client.bulk(&["INFO", "latencystats"]);
    assert!(!stats.contains("usec_set") && !stats.contains("usec_get"), "{stats}");
    client.ask(&["CONFIG", "SET", "latency-tracking-info-percentiles", "0.0 25 100"], "+OK\r\n");
    other.ask(&["GET", "a"], "$1\r\n1\r\n");
    let stats = client.bulk(&["INFO", "latencystats"]);
    let line = stats.lines().find(|line| line.starts_with("latency_percentiles_usec_get:p0=")).expect(&stats);
    assert!(line.contains(",p25=") && line.contains(",p100="), "{line}");
    client.ask(&["CONFIG", "RESETSTAT"], "+OK\r\n");
    assert!(!client.bulk(&["INFO", "latencystats"]).contains("usec_get"));
}

#[test]
fn port_and_bind_change_while_the_server_runs() {
    let mut server = Server::start(2, "");
    let mut client = server.connect();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let refused = "-ERR CONFIG SET failed (possibly related to argument";
    let port = taken.local_addr().unwrap().port().to_string();
    let no_port = format!("{refused} 'port') - Unable to listen on this port. Check server logs.\r\n");
    client.ask(&["CONFIG", "SET", "port", &port], &no_port);
    server.connect().ask(&["PING"], "+PONG\r\n");
    client.ask(&["CONFIG", "SET", "bind", "127.0.0.1", "port", &free], "+OK\r\n");
    wait_until("the old socket is closed", || TcpStream::connect(server.address).is_err());
    server.address.set_port(free.parse().unwrap());
    server.connect().ask(&["PING"], "+PONG\r\n");
    // An address that stays, one that is all of them, and one that this machine does not have.
    client.ask(&["CONFIG", "SET", "bind", "127.0.0.1 -192.0.2.77"], "+OK\r\n");
    server.connect().ask(&["PING"], "+PONG\r\n");
    client.ask(&["CONFIG", "SET", "bind", "*"], "+OK\r\n");
    server.connect().ask(&["PING"], "+PONG\r\n");
    let no_address = format!("{refused} 'bind') - Failed to bind to specified addresses.\r\n");
    client.ask(&["CONFIG", "SET", "bind", "192.0.2.77"], &no_address);
    server.connect().ask(&["CONFIG", "GET", "bind"], "*2\r\n$4\r\nbind\r\n$1\r\n*\r\n");
}

#[test]
fn a_password_is_asked_for() {
    let server = Server::start(1, "requirepass secret");
    let mut client = server.connect();
    client.ask(&["PING"], "-NOAUTH Authentication required.\r\n");
    client.ask(&["AUTH", "wrong"], "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    client.send(&request(&["HELLO", "3"]));
    client.expect(
        b"-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option",
    );
    let mut client = server.connect();
    client.ask(&["AUTH", "default", "secret"], "+OK\r\n");
    client.ask(&["PING"], "+PONG\r\n");
    client.ask(&["RESET"], "+RESET\r\n");
    client.ask(&["PING"], "-NOAUTH Authentication required.\r\n");
    let hello = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:2\r\n\
                 $4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";
    client.ask(&["HELLO", "3", "AUTH", "default", "secret", "SETNAME", "me"], hello);
    client.ask(&["CLIENT", "GETNAME"], "$2\r\nme\r\n");
    client.ask(&["HELLO", "2", "SETNAME", "you", "AUTH"], "-ERR Syntax error in HELLO option 'AUTH'\r\n");
    client.ask(&["CLIENT", "GETNAME"], "$3\r\nyou\r\n");
    let mut flood = server.connect();
    flood.send(b"*11\r\n");
    flood.expect(b"-ERR Protocol error: unauthenticated multibulk length\r\n");
    assert!(flood.is_closed());
}

#[test]
fn maxclients_refuses_one_too_many() {
    let server = Server::start(2, "maxclients 3");
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.ask(&["PING"], "+PONG\r\n"));
    let mut fourth = server.connect();
    fourth.expect(b"-ERR max number of clients reached\r\n");
    assert!(fourth.is_closed());
    clients.pop();
    wait_until("there is room again", || server.state().connections() == 2);
    server.connect().ask(&["PING"], "+PONG\r\n");
    assert_eq!(server.state().accepting().rejected.get(), 1);
}

#[test]
fn idle_clients_are_closed_after_the_timeout() {
    let server = Server::start(1, "timeout 1");
    let mut idle = server.connect();
    let mut busy = server.connect();
    wait_until("both are there", || server.state().connections() == 2);
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until && server.state().connections() == 2 {
        busy.ask(&["PING"], "+PONG\r\n");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(idle.is_closed());
    busy.ask(&["PING"], "+PONG\r\n");
}

#[test]
fn quit_answers_and_closes_and_so_does_a_protocol_error() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    client.send(&[request(&["PING"]), request(&["QUIT"]), request(&["PING"])].concat());
    client.expect(b"+PONG\r\n+OK\r\n");
    assert!(client.is_closed());
    let mut client = server.connect();
    client.send(b"*1\r\n$4\r\nPING\r\n*1\r\nPING\r\n");
    client.expect(b"+PONG\r\n-ERR Protocol error: expected '$', got 'P'\r\n");
    assert!(client.is_closed());
    // Replies are off: the connection just ends.
    let mut client = server.connect();
    client.send(&[request(&["CLIENT", "REPLY", "OFF"]), b"*1\r\nPING\r\n".to_vec()].concat());
    assert!(client.is_closed());
}

#[test]
fn the_unix_socket_serves_and_goes_with_the_server() {
    let path = std::env::temp_dir().join(format!("varve-worker-{}.sock", std::process::id()));
    let listener = listen::unix(&path, 0o700, 16).unwrap();
    let mut server = Server::listening(2, "", vec![listener]);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"CLIENT INFO\r\n").unwrap();
    let mut text = [0; 400];
    let count = stream.read(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text[..count]).into_owned();
    assert!(text.contains(&format!(" addr={}:0 laddr={}:0 ", path.display(), path.display())), "{text}");
    assert!(text.contains(" flags=U "), "{text}");
    let running = server.running.take().unwrap();
    running.state.stop();
    running.join();
    assert!(!path.exists());
}

#[test]
fn shutdown_ends_all_workers_and_finishes_replies() {
    let mut server = Server::start(3, "");
    let mut reader = server.connect();
    let value = "r".repeat(4_000_000);
    reader.send(&request(&["ECHO", &value]));
    let mut other = server.connect();
    other.ask(&["SHUTDOWN", "ABORT"], "-ERR No shutdown in progress.\r\n");
    other.ask(&["SHUTDOWN", "SAVE", "NOSAVE"], "-ERR syntax error\r\n");
    let got = std::thread::spawn(move || {
        let mut got = Vec::new();
        reader.stream.read_to_end(&mut got).map(|_| got.len())
    });
    std::thread::sleep(Duration::from_millis(200));
    other.send(&request(&["SHUTDOWN"]));
    assert!(other.is_closed());
    server.running.take().unwrap().join();
    assert_eq!(got.join().unwrap().unwrap(), value.len() + "$4000000\r\n\r\n".len());
}
