//! Lines of HTTP on the port: both servers close the connection, send nothing, and run none of the commands behind them,
//! whether the client has authenticated or not. Closing is compared, not replies alone.

#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use varve_testkit::{Launch, Server};

/// All that the server sends to these bytes, and whether it closes the connection.
fn answer(server: &Server, bytes: &[u8]) -> (String, bool) {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_nodelay(true).expect("set");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    stream.write_all(bytes).expect("sent");
    // The end of what was sent: an open connection answers it, before authentication too, a closed one does not.
    let _ = stream.write_all(b"\r\nHELLO 9\r\n");
    let (mut all, mut chunk) = (Vec::new(), [0; 4096]);
    let closed = loop {
        if all.ends_with(b"-NOPROTO unsupported protocol version\r\n") {
            break false;
        }
        match stream.read(&mut chunk) {
            Ok(0) => break true,
            Ok(count) => all.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break true,
            Err(error) => panic!("neither answered nor closed: {error}"),
        }
    };
    (String::from_utf8_lossy(&all).into_owned(), closed)
}

fn form(head: &str) -> Vec<u8> {
    let fields = "Content-Type: text/plain\r\nContent-Length: 40\r\n\r\n";
    format!("{head}\r\nHost: 127.0.0.1:6379\r\n{fields}SET pwned 1\r\nCONFIG SET maxmemory 1mb\r\n").into_bytes()
}

fn cases() -> Vec<(Vec<u8>, bool)> {
    vec![
        (form("POST / HTTP/1.1"), true),
        (form("GET / HTTP/1.1"), true),
        (form("PUT /x HTTP/1.0"), true),
        (b"post\r\nSET pwned 1\r\n".to_vec(), true),
        (b"PING\r\nhOsT: x\r\nSET pwned 1\r\n".to_vec(), true),
        (b"*1\r\n$4\r\nPOST\r\nSET pwned 1\r\n".to_vec(), true),
        (b"*2\r\n$5\r\nhost:\r\n$1\r\nx\r\nSET pwned 1\r\n".to_vec(), true),
        (b"MULTI\r\nSET pwned 1\r\nPOST /\r\nEXEC\r\n".to_vec(), true),
        (b"POSTS /\r\n".to_vec(), false),
        (b"Host :\r\n".to_vec(), false),
        (b"ECHO post\r\n".to_vec(), false),
    ]
}

#[test]
fn a_web_page_cannot_speak_to_the_server() {
    for password in [None, Some("requirepass secret")] {
        let launch = |launch: Launch| launch.config(password.unwrap_or("timeout 0")).start().expect("it starts");
        let (ours, theirs) = (launch(Launch::varve()), launch(Launch::peer()));
        for (bytes, closes) in cases() {
            let got = answer(&ours, &bytes);
            let expected = answer(&theirs, &bytes);
            assert_eq!(got, expected, "for {} with {password:?}", bytes.escape_ascii());
            assert_eq!(got.1, closes, "for {} with {password:?}", bytes.escape_ascii());
        }
        let mut client = ours.client();
        if password.is_some() {
            assert_eq!(client.cmd("AUTH secret").text(), "OK");
        }
        assert_eq!(client.cmd("EXISTS pwned").integer(), Some(0));
        assert_eq!(client.cmd("CONFIG GET maxmemory").elements().map(|pair| pair[1].text()), Some("0".into()));
        assert_eq!(client.cmd("DBSIZE").integer(), Some(0));
        let warnings = |server: &Server| server.log().matches("Possible SECURITY ATTACK detected").count();
        // One line a minute, whoever sends how much.
        assert_eq!((warnings(&ours), warnings(&theirs)), (1, 1));
    }
}
