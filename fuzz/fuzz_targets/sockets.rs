//! Bytes as what up to three clients do to a whole server over its sockets, with TLS and users: connect by any door, break off
//! handshakes, log in, send commands of few words and streams that are broken, spoil records, hang up.
//!
//! ```text
//!   bytes -> rules of a user -> steps of clients ----sockets----> the server, in this process -> replies, read to their end
//!   administrator: users and secrets are made anew ... at the end everything secret is as it was
//! ```
//! No user has a right to the keys `secret:*`, whatever rules are drawn. So no client may ever be sent a value of theirs or the
//! administrator's password, and no value may have changed. The server must stay up, end each connection that is closed, and
//! `DEBUG VERIFY` must pass.
//!
//! The first byte says how many rules follow, a byte each. Then two bytes a step: what, and an argument; words follow, a byte
//! each.

#![no_main]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use varve_testkit::client::encode;
use varve_testkit::server::free_port;
use varve_testkit::tls::{Certificates, ClientConfig, TlsStream, connect, connect_whole};
use varve_testkit::{Client, RespValue};

/// Steps of one input.
const STEPS_MAX: usize = 64;
const CLIENTS: usize = 3;
/// How long a server may take until it listens, and until it has ended a connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// The store is verified behind each of as many inputs.
const VERIFY_EACH: u64 = 32;
/// Bytes that are read of one client's replies: more than a connection may owe by the settings.
const REPLIES_MAX: u64 = 64 << 20;

const PASSWORD: &str = "what-only-the-administrator-knows";
const SECRET: &str = "a-value-that-no-user-may-read";

/// Keys that are made before the first step: no user may read or change one.
const SECRETS: [&[&str]; 5] = [
    &["SET", "secret:string", SECRET],
    &["HSET", "secret:hash", "field", SECRET],
    &["RPUSH", "secret:list", SECRET],
    &["ZADD", "secret:zset", "1", SECRET],
    &["XADD", "secret:stream", "1-1", "field", SECRET],
];
const SECRET_KEYS: [&str; 5] = ["secret:string", "secret:hash", "secret:list", "secret:zset", "secret:stream"];

/// Rules of a user, in groups that are given together. Whatever is drawn, in any order, leaves no right to `secret:*`, to the
/// server or to its users. MONITOR and SLOWLOG, which show the administrator's commands, are among the administrators' own.
const RULES: [&[&str]; 32] = [
    &["+@all", "-@admin", "-@dangerous"],
    &["+@read", "-@admin", "-@dangerous"],
    &["+@write", "-@admin", "-@dangerous"],
    &["+@connection", "-@admin", "-@dangerous"],
    &["-@all"],
    &["-@read"],
    &["-@write"],
    &["+get", "+set", "+mget"],
    &["+eval", "+evalsha", "+script|load"],
    &["-@scripting"],
    &["+sort", "+sort_ro"],
    &["+keys", "+scan", "+randomkey", "+dump", "+restore"],
    &["+info", "+client|list", "+role"],
    &["+acl|list", "+acl|getuser", "+acl|log", "+acl|dryrun", "+acl|whoami"],
    &["+subscribe", "+psubscribe", "+publish"],
    &["+object", "+memory", "+latency"],
    &["~pub:*"],
    &["%R~pub:*"],
    &["%W~sink:*"],
    &["~*:w"],
    &["%RW~[a-r]?*"],
    &["resetkeys"],
    &["resetchannels", "&chan:*"],
    &["allchannels"],
    &["resetchannels"],
    &["(+@all -@admin -@dangerous %R~pub:* resetchannels &chan:*)"],
    &["(+@read -@admin -@dangerous ~x*)"],
    &["clearselectors"],
    &["off"],
    &["on"],
    &[">second"],
    &["resetpass", ">guest"],
];

/// Words of which commands are made, beside names of commands.
const WORDS: [&str; 64] = [
    "pub:a",
    "pub:b",
    "pub:c",
    "sink:a",
    "q:w",
    "x",
    "secret:string",
    "secret:hash",
    "secret:list",
    "secret:zset",
    "secret:stream",
    "secret:*",
    "*",
    "guest",
    "second",
    "client",
    "default",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "1000",
    "1048577",
    "+",
    "-",
    "1-1",
    "$",
    ">",
    "GET",
    "BY",
    "STORE",
    "COUNT",
    "STREAMS",
    "MATCH",
    "REPLACE",
    "WITHSCORES",
    "AND",
    "NOT",
    "chan:a",
    "chan:*",
    "secret:channel",
    "AUTH",
    "SETNAME",
    "ON",
    "OFF",
    "BCAST",
    "PREFIX",
    "NOLOOP",
    "return 1",
    "return redis.call('get', KEYS[1])",
    "return redis.call('get', 'secret:string')",
    "return redis.pcall('sort', 'pub:a', 'get', 'secret:string')",
    "redis.setresp(3) return redis.call(unpack(ARGV))",
    "#!lua name=l\nredis.register_function('f', function(k, a) return redis.call('get', a[1]) end)",
    "f",
    "GETUSER",
    "LIST",
    "WHOAMI",
    "LOG",
    "DRYRUN",
    "SETUSER",
    "allkeys",
    "",
];

/// Commands in which users' rights are special, whose share is half; the other half are all commands there are.
const COMMANDS: [&str; 40] = [
    "AUTH",
    "HELLO",
    "ACL",
    "RESET",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH",
    "GET",
    "SET",
    "MGET",
    "COPY",
    "RENAME",
    "SORT",
    "SORT_RO",
    "GEORADIUS",
    "EVAL",
    "EVAL_RO",
    "FCALL",
    "FUNCTION",
    "SCRIPT",
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "PUBLISH",
    "UNSUBSCRIBE",
    "CLIENT",
    "BLPOP",
    "BLMOVE",
    "XREAD",
    "XREADGROUP",
    "ZUNIONSTORE",
    "BITOP",
    "PFMERGE",
    "SINTERSTORE",
    "DUMP",
    "OBJECT",
    "SELECT",
    "MIGRATE",
    "QUIT",
];

/// The server, and the administrator's connection to it.
struct Target {
    plain: SocketAddr,
    sealed: SocketAddr,
    /// A client's side of TLS, with a certificate in the name of the user `client`, and without one.
    certified: Arc<ClientConfig>,
    anonymous: Arc<ClientConfig>,
    admin: Mutex<Client>,
    inputs: AtomicU64,
}

static TARGET: LazyLock<Target> = LazyLock::new(start);

fn start() -> Target {
    let certificates = Certificates::make("sockets");
    let [plain, sealed] = [0; 2].map(|_| free_port().expect("a port"));
    let mut words: Vec<String> = [
        "--bind 127.0.0.1",
        "--save \"\"",
        "--io-threads 2",
        "--shards 16",
        "--varve-segment-bytes 65536",
        "--maxmemory 64mb",
        "--proto-max-bulk-len 1mb",
        "--client-query-buffer-limit 4mb",
        "--client-output-buffer-limit normal 16mb 0 0",
        "--tls-auth-clients optional",
        "--tls-auth-clients-user CN",
        "--enable-debug-command yes",
        "--crash-log-enabled no",
        "--logfile /dev/null",
    ]
    .map(String::from)
    .to_vec();
    words.push(format!("--port {plain}"));
    words.push(format!("--tls-port {sealed}"));
    words.push(format!("--requirepass {PASSWORD}"));
    words.extend(certificates.directives().iter().map(|(name, value)| format!("--{name} {value}")));
    let words: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
    thread::spawn(move || {
        varve_server::run(&words);
        panic!("the server has ended");
    });
    let [plain, sealed] = [plain, sealed].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let until = Instant::now() + PATIENCE;
    let mut admin = loop {
        match Client::connect(plain) {
            Ok(client) => break client,
            Err(error) => assert!(Instant::now() < until, "nobody listens: {error}"),
        }
        thread::sleep(Duration::from_millis(5));
    };
    let reply = admin.call(&["AUTH", PASSWORD]).expect("a reply");
    assert_eq!(reply.text(), "OK");
    let [certified, anonymous] = [true, false].map(|shows| Arc::new(certificates.client(shows)));
    Target { plain, sealed, certified, anonymous, admin: Mutex::new(admin), inputs: AtomicU64::new(0) }
}

/// The bytes of an input, to their end; behind it all are zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()]
    }

    /// A command of up to `words` words behind its name.
    fn command(&mut self, words: u8) -> Vec<&'static str> {
        let all = varve_server::commands().commands();
        let number = self.byte();
        let mut command = if number < 128 {
            vec![COMMANDS[usize::from(number) % COMMANDS.len()]]
        } else {
            vec![all[(usize::from(number) << 8 | usize::from(self.byte())) % all.len()].name]
        };
        command.extend((0..words).map(|_| self.pick(&WORDS)));
        command
    }
}

/// A connection by one of the doors.
enum Door {
    Plain(TcpStream),
    Sealed(Box<TlsStream>),
}

impl Door {
    fn open(target: &Target, what: u8, input: &mut Input<'_>) -> Option<Door> {
        let plain = |address| {
            let stream = TcpStream::connect(address).expect("the server listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("an option of sockets");
            stream.set_write_timeout(Some(PATIENCE)).expect("an option of sockets");
            stream
        };
        let sealed = |config| connect_whole(target.sealed, config).ok().map(|stream| Door::Sealed(Box::new(stream)));
        match what % 8 {
            0..=1 => Some(Door::Plain(plain(target.plain))),
            2..=3 => sealed(&target.certified),
            4 => sealed(&target.anonymous),
            // A handshake that is spoilt on its way.
            5..=6 => {
                let mut stream = connect(target.sealed, &target.anonymous);
                let mut hello = Vec::new();
                stream.conn.write_tls(&mut hello).expect("a list of bytes takes all");
                for _ in 0..1 + what / 64 {
                    let at = (usize::from(input.byte()) << 8 | usize::from(input.byte())) % hello.len();
                    hello[at] ^= input.byte();
                }
                let _ = stream.sock.write_all(&hello);
                Some(Door::Plain(stream.sock))
            }
            _ => Some(Door::Plain(plain(target.sealed))),
        }
    }

    fn socket(&mut self) -> &mut TcpStream {
        match self {
            Door::Plain(stream) => stream,
            Door::Sealed(stream) => &mut stream.sock,
        }
    }

    /// False if the server takes no more.
    fn send(&mut self, bytes: &[u8]) -> bool {
        match self {
            Door::Plain(stream) => stream.write_all(bytes).is_ok(),
            Door::Sealed(stream) => stream.write_all(bytes).is_ok() && stream.flush().is_ok(),
        }
    }

    /// Says that nothing more comes, and reads what the server still says.
    fn end(mut self) -> Vec<u8> {
        if let Door::Sealed(stream) = &mut self {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        let _ = self.socket().shutdown(Shutdown::Write);
        let (mut replies, begun) = (Vec::new(), Instant::now());
        // An error is the connection's end, since its records may be spoilt: but not one of time.
        let _ = match &mut self {
            Door::Plain(stream) => stream.take(REPLIES_MAX).read_to_end(&mut replies),
            Door::Sealed(stream) => stream.take(REPLIES_MAX).read_to_end(&mut replies),
        };
        assert!(
            begun.elapsed() < PATIENCE / 2,
            "a connection that has said all does not end: {}",
            replies.escape_ascii()
        );
        replies
    }
}

/// The administrator asks; errors are the end.
fn ask(admin: &mut Client, requests: &[Vec<&str>]) -> Vec<RespValue> {
    requests.iter().for_each(|words| admin.queue(words));
    admin.flush().expect("the server is up");
    let replies = requests.iter().map(|words| {
        let reply = admin.read().unwrap_or_else(|error| panic!("{words:?}: {error}"));
        assert!(!reply.is_error(), "{words:?}: {}", reply.text());
        reply
    });
    replies.collect()
}

fn prepare(admin: &mut Client, rules: &[&'static str]) {
    let mut requests =
        vec![vec!["FLUSHALL"], vec!["FUNCTION", "FLUSH"], vec!["SCRIPT", "FLUSH"], vec!["ACL", "LOG", "RESET"]];
    for user in ["guest", "client"] {
        requests.push(["ACL", "SETUSER", user, "reset", "on", ">guest"].iter().chain(rules).copied().collect());
    }
    requests.extend(SECRETS.map(<[&str]>::to_vec));
    requests.push(["RPUSH", "pub:a", "string", "hash", "list"].to_vec());
    ask(admin, &requests);
}

/// The secrets and the users, as the administrator sees them.
fn state(admin: &mut Client) -> Vec<RespValue> {
    let mut requests = vec![vec!["ACL", "LIST"]];
    requests.extend(SECRET_KEYS.map(|key| vec!["DUMP", key]));
    ask(admin, &requests)
}

/// One step of a client that is connected; false if the connection is of no use any more.
fn step(door: &mut Door, (what, argument): (u8, u8), input: &mut Input<'_>) -> bool {
    let mut out = Vec::new();
    match what % 16 {
        0..=6 => encode(&mut out, &input.command(argument % 6)),
        // A pipeline that is one record.
        7 | 8 => (0..argument % 16).for_each(|_| encode(&mut out, &input.command(2))),
        9 => encode(&mut out, &["AUTH", input.pick(&["guest", "client", "default"]), input.pick(&["guest", "second"])]),
        10 => {
            out.extend_from_slice(input.command(argument % 6).join(" ").as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        11 => out.extend_from_slice(input.bytes(usize::from(argument))),
        // Half of a request now, half later.
        12 => {
            encode(&mut out, &input.command(argument % 6));
            let second = out.split_off(usize::from(input.byte()) % out.len());
            return door.send(&out) && door.send(&second);
        }
        // Bytes beneath the records.
        13 => return door.socket().write_all(input.bytes(usize::from(argument))).is_ok(),
        _ => return false,
    }
    door.send(&out)
}

/// No client was sent what is secret, and the administrator sees the secrets and the users as they were.
fn check(admin: &mut Client, replies: &[Vec<u8>], before: &[RespValue], rules: &[&str]) {
    for replies in replies {
        for text in [SECRET, PASSWORD] {
            let seen = replies.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!seen, "rules {rules:?}: a client was sent a secret: {}", replies.escape_ascii());
        }
    }
    assert_eq!(state(admin), before, "rules {rules:?}");
}

fn run(bytes: &[u8]) {
    let target = &*TARGET;
    let mut admin = target.admin.lock().expect("a panic ends the process");
    let mut input = Input(bytes);
    let count = input.byte() % 8;
    let rules: Vec<&str> = (0..count).flat_map(|_| input.pick(&RULES)).copied().collect();
    prepare(&mut admin, &rules);
    let before = state(&mut admin);
    let mut clients: [Option<Door>; CLIENTS] = [const { None }; CLIENTS];
    let mut replies: Vec<Vec<u8>> = Vec::new();
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        let (what, argument) = (input.byte(), input.byte());
        let client = &mut clients[usize::from(what >> 4) % CLIENTS];
        match client {
            None => *client = Door::open(target, argument, &mut input),
            Some(_) if what % 16 == 15 => replies.extend(client.take().map(Door::end)),
            Some(door) => {
                if !step(door, (what, argument), &mut input) {
                    *client = None;
                }
            }
        }
    }
    replies.extend(clients.into_iter().flatten().map(Door::end));
    check(&mut admin, &replies, &before, &rules);
    if target.inputs.fetch_add(1, Ordering::Relaxed).is_multiple_of(VERIFY_EACH) {
        ask(&mut admin, &[vec!["DEBUG", "VERIFY"]]);
    }
}

fuzz_target!(|bytes: &[u8]| run(bytes));
