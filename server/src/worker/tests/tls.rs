//! Connections by TLS: requests and replies of all sizes, records cut anywhere, half-open handshakes, certificates that change.

use std::net::TcpListener;

use rustls::ClientConfig;
use varve_testkit::tls::{Certificates, TlsStream, connect};

use super::*;
use crate::features::acl::state::log::Reason;

/// A server with a port for TLS beside its own, and clients' side of it.
struct TlsServer {
    server: Server,
    address: SocketAddr,
    certificates: Certificates,
    client: Arc<ClientConfig>,
}

impl TlsServer {
    fn start(name: &str, workers: usize, lines: &str) -> TlsServer {
        let certificates = Certificates::make(name);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let listeners = vec![Listener::Tcp(mio::net::TcpListener::from_std(listener), Door::Tls)];
        let files: String = certificates.directives().iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        // The port says that TLS is spoken; the socket is ours.
        let lines = format!("{files}tls-port {}\n{lines}", address.port());
        let server = Server::listening(workers, &lines, listeners);
        let client = Arc::new(certificates.client(true));
        TlsServer { server, address, certificates, client }
    }

    fn connect(&self) -> TlsStream {
        connect(self.address, &self.client)
    }

    fn half_open(&self) -> u64 {
        self.server.state().handshakes().iter().map(|thread| thread.count()).sum()
    }
}

fn expect(stream: &mut TlsStream, reply: &[u8]) {
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got).unwrap();
    assert!(got == reply, "{} and not {}", got[..reply.len().min(60)].escape_ascii(), reply.escape_ascii());
}

fn ask(stream: &mut TlsStream, words: &[&str], reply: &[u8]) {
    stream.write_all(&request(words)).unwrap();
    expect(stream, reply);
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

fn set(key: &str, value: &[u8]) -> Vec<u8> {
    [b"*3\r\n".to_vec(), bulk(b"SET"), bulk(key.as_bytes()), bulk(value)].concat()
}

#[test]
fn requests_and_replies_of_all_sizes() {
    let server = TlsServer::start("sizes", 2, "");
    let mut client = server.connect();
    for size in [0, 1, 100, 16_000, 16_384, 16_385, 40_000, 300_000, 3_000_000] {
        let value: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        client.write_all(&set("key", &value)).unwrap();
        expect(&mut client, b"+OK\r\n");
        ask(&mut client, &["GET", "key"], &bulk(&value));
        // Large and small replies in one batch.
        client.write_all(&[request(&["GET", "key"]), b"PING\r\n".to_vec()].concat().repeat(3)).unwrap();
        expect(&mut client, &[bulk(&value), b"+PONG\r\n".to_vec()].concat().repeat(3));
    }
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let server = TlsServer::start("pipeline", 1, "");
    let mut client = server.connect();
    for round in 0..20 {
        let all: Vec<u8> = (0..1000).flat_map(|n| request(&["ECHO", &format!("{round:02}:{n:04}")])).collect();
        client.write_all(&all).unwrap();
        (0..1000).for_each(|n| expect(&mut client, format!("$7\r\n{round:02}:{n:04}\r\n").as_bytes()));
    }
}

/// A client that sends much before it reads: the server's socket is full in the middle of records.
#[test]
fn a_slow_reader_gets_everything() {
    let server = TlsServer::start("slow", 2, "");
    let mut client = server.connect();
    let value: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 241) as u8).collect();
    client.write_all(&set("key", &value)).unwrap();
    expect(&mut client, b"+OK\r\n");
    client.write_all(&request(&["GET", "key"]).repeat(30)).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    let written = || server.server.state().total(|stats| &stats.output_bytes);
    let mut before = 0;
    wait_until("the socket takes no more", || {
        std::thread::sleep(Duration::from_millis(100));
        std::mem::replace(&mut before, written()) == written() && before > 0
    });
    (0..30).for_each(|_| expect(&mut client, &bulk(&value)));
    expect(&mut client, b"+PONG\r\n");
}

/// Whatever pieces the records come in, and however many requests lie in one.
#[test]
fn records_may_be_cut_at_every_byte() {
    let server = TlsServer::start("cut", 1, "");
    let mut client = server.connect();
    ask(&mut client, &["PING"], b"+PONG\r\n");
    let TlsStream { conn, sock } = &mut client;
    conn.writer().write_all(&[request(&["ECHO", "abc"]), request(&["PING"])].concat()).unwrap();
    let mut records = Vec::new();
    conn.write_tls(&mut records).unwrap();
    for byte in &records {
        sock.write_all(std::slice::from_ref(byte)).unwrap();
    }
    expect(&mut client, b"$3\r\nabc\r\n+PONG\r\n");
}

/// The replies of a batch are in as few records as their bytes need.
#[test]
fn a_batch_is_answered_in_one_record() {
    let server = TlsServer::start("records", 1, "");
    let mut client = server.connect();
    // A ticket follows the handshake, and has come with this.
    ask(&mut client, &["PING"], b"+PONG\r\n");
    // A turn is 64 requests at most; all of these fit in one record.
    for (requests, most) in [(1, 1), (50, 1), (1000, 16)] {
        let TlsStream { conn, sock } = &mut client;
        let batch = request(&["PING"]).repeat(requests);
        conn.writer().write_all(&batch).unwrap();
        let mut sent = Vec::new();
        while conn.wants_write() {
            conn.write_tls(&mut sent).unwrap();
        }
        sock.write_all(&sent).unwrap();
        let (mut records, mut answered) = (0, 0);
        while answered < requests * 7 {
            let mut header = [0; 5];
            sock.read_exact(&mut header).unwrap();
            let mut record = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
            sock.read_exact(&mut record).unwrap();
            let whole = [&header[..], &record].concat();
            let mut rest = whole.as_slice();
            while !rest.is_empty() {
                conn.read_tls(&mut rest).unwrap();
            }
            let count = conn.process_new_packets().unwrap().plaintext_bytes_to_read();
            conn.reader().read_exact(&mut vec![0; count]).unwrap();
            (answered, records) = (answered + count, records + 1);
        }
        assert!(records <= most, "{requests} requests: {records} records");
    }
}

/// Many small records that come together, some of them with new keys only, are opened in parts.
#[test]
fn many_small_records_come_together() {
    let server = TlsServer::start("small", 1, "");
    let mut client = server.connect();
    ask(&mut client, &["PING"], b"+PONG\r\n");
    let TlsStream { conn, sock } = &mut client;
    let mut records = Vec::new();
    for number in 0..1000 {
        if number % 2 == 0 {
            conn.refresh_traffic_keys().unwrap();
        }
        conn.writer().write_all(&request(&["ECHO", &format!("{number:03}")])).unwrap();
        while conn.wants_write() {
            conn.write_tls(&mut records).unwrap();
        }
    }
    sock.write_all(&records).unwrap();
    (0..1000).for_each(|number| expect(&mut client, format!("$3\r\n{number:03}\r\n").as_bytes()));
    ask(&mut client, &["PING"], b"+PONG\r\n");
}

#[test]
fn keys_change_on_the_way() {
    let server = TlsServer::start("keys", 1, "");
    let mut client = server.connect();
    for _ in 0..5 {
        ask(&mut client, &["PING"], b"+PONG\r\n");
        client.conn.refresh_traffic_keys().unwrap();
    }
    ask(&mut client, &["PING"], b"+PONG\r\n");
}

/// The end of a connection is told, so that a client knows that nothing was cut off.
#[test]
fn the_end_is_told() {
    let server = TlsServer::start("end", 1, "");
    let mut client = server.connect();
    client.write_all(b"PING\r\nQUIT\r\n").unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).expect("an end that is told is no error");
    assert_eq!(got, b"+PONG\r\n+OK\r\n");
    // And the other way round: what was asked before the end is answered, also where all of it comes with the end of the
    // handshake.
    let mut client = server.connect();
    let TlsStream { conn, sock } = &mut client;
    conn.write_tls(sock).unwrap();
    while conn.is_handshaking() {
        conn.read_tls(sock).unwrap();
        conn.process_new_packets().unwrap();
    }
    conn.writer().write_all(b"PING\r\n").unwrap();
    conn.send_close_notify();
    let mut records = Vec::new();
    while conn.wants_write() {
        conn.write_tls(&mut records).unwrap();
    }
    sock.write_all(&records).unwrap();
    client.read_to_end(&mut got).unwrap();
    assert!(got.ends_with(b"+OK\r\n+PONG\r\n"));
}

#[test]
fn a_client_shows_a_certificate_as_the_setting_says() {
    let server = TlsServer::start("shows", 1, "");
    let none = Arc::new(server.certificates.client(false));
    let other = Certificates::make("other");
    let mut control = server.connect();
    for (setting, without, with_other) in [("yes", false, false), ("optional", true, false), ("no", true, true)] {
        ask(&mut control, &["CONFIG", "SET", "tls-auth-clients", setting], b"+OK\r\n");
        ask(&mut server.connect(), &["PING"], b"+PONG\r\n");
        let is_served = |config: &Arc<ClientConfig>| {
            let mut client = connect(server.address, config);
            client.write_all(b"PING\r\n").and_then(|()| client.read_exact(&mut [0; 7])).is_ok()
        };
        assert_eq!(is_served(&none), without, "{setting}, without a certificate");
        // One of another authority, by a client that trusts ours.
        for name in ["client.crt", "client.key"] {
            std::fs::copy(server.certificates.path(name), server.certificates.path("kept")).unwrap();
            std::fs::copy(other.path(name), server.certificates.path(name)).unwrap();
            std::fs::rename(server.certificates.path("kept"), server.certificates.path(&format!("{name}.kept")))
                .unwrap();
        }
        let foreign = Arc::new(server.certificates.client(true));
        assert_eq!(is_served(&foreign), with_other, "{setting}, of another authority");
        for name in ["client.crt", "client.key"] {
            std::fs::rename(server.certificates.path(&format!("{name}.kept")), server.certificates.path(name)).unwrap();
        }
    }
}

/// `tls-auth-clients-user`: a client is the user that its certificate names, or else the default user.
#[test]
fn a_certificate_names_the_user() {
    let server = TlsServer::start("names", 2, "tls-auth-clients-user CN\ntls-auth-clients optional");
    let whoami = |config: &Arc<ClientConfig>, name: &str| {
        ask(&mut connect(server.address, config), &["ACL", "WHOAMI"], &bulk(name.as_bytes()));
    };
    let mut control = connect(server.address, &Arc::new(server.certificates.client(false)));
    ask(&mut control, &["ACL", "WHOAMI"], &bulk(b"default"));
    // The certificate of the tests' client has the name "client".
    whoami(&server.client, "default");
    ask(&mut control, &["ACL", "SETUSER", "client", "off", "resetpass", "+acl"], b"+OK\r\n");
    whoami(&server.client, "default");
    ask(&mut control, &["ACL", "SETUSER", "client", "on"], b"+OK\r\n");
    whoami(&server.client, "client");
    let mut limited = server.connect();
    let refused = b"-NOPERM this user has no permissions to run the 'get' command\r\n";
    ask(&mut limited, &["GET", "k"], refused);
    // A session that is resumed has the certificate that it began with.
    ask(&mut server.connect(), &["ACL", "WHOAMI"], &bulk(b"client"));
    server.certificates.renew_with_uris("client", &["urn:user:off", "urn:user:on", "urn:user:other"]);
    let with_uris = Arc::new(server.certificates.client(true));
    for (user, on) in [("urn:user:off", "off"), ("urn:user:on", "on"), ("urn:user:other", "on")] {
        ask(&mut control, &["ACL", "SETUSER", user, on, "+acl"], b"+OK\r\n");
    }
    ask(&mut control, &["CONFIG", "SET", "tls-auth-clients-user", "URI"], b"+OK\r\n");
    whoami(&with_uris, "urn:user:on");
    whoami(&server.client, "default");
    let denied = server.server.state().acl().log().count(Reason::Certificate);
    assert_eq!(denied, 3, "no user twice, no URI once; no certificate is no denial");
    let newest = server.server.state().acl().log().iter().next().map(|entry| entry.event.clone()).expect("an entry");
    assert_eq!((newest.reason, newest.user, newest.object), (Reason::Certificate, Vec::new(), Vec::new()));
    ask(&mut control, &["CONFIG", "SET", "tls-auth-clients-user", "off"], b"+OK\r\n");
    whoami(&with_uris, "default");
    // The name is that of a user who is deleted: the connection ends.
    ask(&mut control, &["ACL", "DELUSER", "client"], b":1\r\n");
    assert!(limited.read_exact(&mut [0; 1]).is_err());
}

/// Files are read again when they are named again; who is connected goes on.
#[test]
fn certificates_change_while_clients_go_on() {
    let server = TlsServer::start("change", 1, "");
    let shown = |stream: &TlsStream| stream.conn.peer_certificates().expect("the server has one")[0].clone();
    let mut before = server.connect();
    ask(&mut before, &["PING"], b"+PONG\r\n");
    server.certificates.renew("server");
    let mut same = server.connect();
    ask(&mut same, &["PING"], b"+PONG\r\n");
    assert_eq!(shown(&same), shown(&before));
    let path = |name| server.certificates.path(name).display().to_string();
    let wrong = b"-ERR CONFIG SET failed (possibly related to argument 'TLS-key-file') - Unable to update TLS \
                  configuration. Check server logs.\r\n";
    ask(&mut before, &["CONFIG", "SET", "TLS-key-file", &path("client.key")], wrong);
    ask(&mut before, &["CONFIG", "SET", "tls-cert-file", &path("server.crt")], b"+OK\r\n");
    let mut after = server.connect();
    ask(&mut after, &["PING"], b"+PONG\r\n");
    assert_ne!(shown(&after), shown(&before));
    ask(&mut before, &["PING"], b"+PONG\r\n");
}

#[test]
fn versions_and_suites_are_as_the_settings_say() {
    let server = TlsServer::start("versions", 1, "tls-protocols TLSv1.2\ntls-ciphers ECDHE+CHACHA20");
    let mut client = server.connect();
    ask(&mut client, &["PING"], b"+PONG\r\n");
    assert_eq!(client.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
    let suite = client.conn.negotiated_cipher_suite().expect("one is chosen").suite();
    assert_eq!(suite, rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256);
    let value = vec![7; 100_000];
    client.write_all(&set("key", &value)).unwrap();
    expect(&mut client, b"+OK\r\n");
    ask(&mut client, &["GET", "key"], &bulk(&value));
    ask(&mut client, &["CONFIG", "SET", "tls-protocols", "TLSv1.3"], b"+OK\r\n");
    let mut newer = server.connect();
    ask(&mut newer, &["PING"], b"+PONG\r\n");
    assert_eq!(newer.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
}

/// A session is resumed by its ticket, until a change of the settings.
#[test]
fn sessions_are_resumed() {
    let server = TlsServer::start("resume", 1, "");
    let resumes = || {
        let mut client = server.connect();
        ask(&mut client, &["PING"], b"+PONG\r\n");
        client.conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    };
    assert!(!resumes() && resumes());
    let mut control = server.connect();
    ask(&mut control, &["CONFIG", "SET", "tls-session-caching", "no"], b"+OK\r\n");
    assert!(!resumes() && !resumes());
}

#[test]
fn half_open_connections_are_counted_and_bounded() {
    let server = TlsServer::start("half", 1, "maxclients 1500");
    let mut good = server.connect();
    ask(&mut good, &["PING"], b"+PONG\r\n");
    let _many = many_files();
    let mut silent: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    wait_until("all are half open", || server.half_open() == 1000 && server.server.state().connections() == 1001);
    // Half a record of each: what waits for its rest is kept, and counted.
    silent.iter_mut().for_each(|stream| stream.write_all(&[22, 3, 1, 2, 0, 1, 0]).unwrap());
    ask(&mut server.connect(), &["PING"], b"+PONG\r\n");
    ask(&mut good, &["PING"], b"+PONG\r\n");
    // Others take no worker's time: a worker has the two clients alone.
    let assigned: u64 = server.server.state().workers().iter().map(|worker| worker.assigned()).sum();
    assert!(assigned <= 2, "{assigned}");
    drop(silent);
    wait_until("all are gone", || server.half_open() == 0);
}

/// Clients that begin, have the server sign, and go: a thousand of them, many at a time.
#[test]
fn a_flood_of_handshakes_reaches_no_worker() {
    let server = TlsServer::start("flood", 2, "maxclients 1500");
    let mut good = server.connect();
    ask(&mut good, &["PING"], b"+PONG\r\n");
    let _many = many_files();
    for _ in 0..4 {
        let mut begun: Vec<TlsStream> = (0..250).map(|_| server.connect()).collect();
        for TlsStream { conn, sock } in &mut begun {
            conn.write_tls(sock).unwrap();
        }
        // The server has answered each of them: its part of the handshake is done.
        for TlsStream { conn, sock } in &mut begun {
            conn.read_tls(sock).unwrap();
        }
        ask(&mut good, &["PING"], b"+PONG\r\n");
        drop(begun);
        wait_until("they are gone", || server.half_open() == 0);
    }
    ask(&mut server.connect(), &["PING"], b"+PONG\r\n");
    let assigned: u64 = server.server.state().workers().iter().map(|worker| worker.assigned()).sum();
    assert!(assigned <= 2, "{assigned} of them were a worker's");
}

#[test]
fn who_does_not_speak_tls_is_closed() {
    let server = TlsServer::start("plain", 1, "");
    let mut plain = TcpStream::connect(server.address).unwrap();
    plain.write_all(&request(&["PING"])).unwrap();
    let mut got = Vec::new();
    plain.read_to_end(&mut got).unwrap_or_default();
    assert!(got.is_empty(), "not even an alert, as OpenSSL: {}", got.escape_ascii());
    ask(&mut server.connect(), &["PING"], b"+PONG\r\n");
}

/// A record that was changed on its way ends the connection, and no other.
#[test]
fn a_record_that_is_forged_ends_the_connection() {
    let server = TlsServer::start("forged", 1, "");
    let (mut client, mut other) = (server.connect(), server.connect());
    ask(&mut client, &["PING"], b"+PONG\r\n");
    ask(&mut other, &["PING"], b"+PONG\r\n");
    client.sock.write_all(&[23, 3, 3, 0, 30]).unwrap();
    client.sock.write_all(&[1; 30]).unwrap();
    assert!(client.read_exact(&mut [0; 1]).is_err());
    ask(&mut other, &["PING"], b"+PONG\r\n");
}
