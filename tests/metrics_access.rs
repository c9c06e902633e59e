//! The metrics port beyond the loopback interface: addresses (`metrics-bind`), names (`metrics-hosts`), users and probes.
//!
//! ```text
//!   a network of the test's own: 10.77.31.1, fd00:77::1 --> metrics port: a password, the address's own name or a listed one
//!                                127.0.0.1              --> metrics port: no password, loopback names or a listed one
//! ```
//! Skipped, and said so, where the system refuses network namespaces.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use varve_testkit::server::free_port;
use varve_testkit::{Launch, Server};
use varve_tests::network::{Network, inside};

/// Words of Basic for `viewer:secret`, `viewer:wrong` and `other:secret`.
const VIEWER: &str = "dmlld2VyOnNlY3JldA==";
const WRONG: &str = "dmlld2VyOndyb25n";
const OTHER: &str = "b3RoZXI6c2VjcmV0";
const OPEN: [&str; 2] = ["/healthz", "/readyz"];
const CLOSED: [&str; 6] = ["/", "/metrics", "/now.json", "/detail.json", "/segments.json", "/clients.json"];

/// A server whose metrics port is on these addresses.
fn server(bind: &str) -> (Server, u16) {
    let port = free_port().expect("a free port");
    let lines = [&format!("metrics-port {port}"), &format!("metrics-bind {bind}"), "metrics-hosts db.example.com"];
    let launch = lines.iter().fold(Launch::varve(), |launch, line| launch.config(line.to_string()));
    let server = launch.start().expect("a server");
    let mut client = server.client();
    for rule in ["viewer on >secret +info", "other on >secret ~* +@all -info"] {
        assert_eq!(client.cmd(&format!("ACL SETUSER {rule}")).text(), "OK");
    }
    (server, port)
}

/// The answer to a question that is sent to this address under this name, with these words of Basic.
fn answer(address: SocketAddr, path: &str, host: &str, basic: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the metrics port");
    let login = if basic.is_empty() { String::new() } else { format!("Authorization: Basic {basic}\r\n") };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{login}\r\n");
    stream.write_all(request.as_bytes()).expect("it takes the request");
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

fn status(address: SocketAddr, path: &str, host: &str, basic: &str) -> u16 {
    let text = answer(address, path, host, basic);
    text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{path} {host}: {text:?}"))
}

#[test]
fn issue_19_beyond_loopback_users_log_in_and_hosts_are_known_names() {
    if !inside("issue_19_beyond_loopback_users_log_in_and_hosts_are_known_names") {
        return;
    }
    let network = Network::new(31, 0);
    let ip = network.here();
    let (server, port) = server(&format!("127.0.0.1 {ip}"));
    let (outside, inside) = (SocketAddr::from((ip, port)), SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let own = format!("{ip}:{port}");

    for path in CLOSED {
        let refused = answer(outside, path, &own, "");
        assert!(refused.starts_with("HTTP/1.1 401 ") && refused.contains("\r\nWWW-Authenticate: Basic "), "{refused}");
        assert_eq!(status(outside, path, &own, VIEWER), 200, "{path}");
        assert_eq!(status(outside, path, &own, OTHER), 401, "{path}: it may not run INFO");
        assert_eq!(status(outside, path, "example.com", VIEWER), 403, "{path}");
        assert_eq!(status(inside, path, "localhost", ""), 200, "{path}");
    }
    assert!(answer(outside, "/metrics", &own, VIEWER).contains("\nredis_up 1\n"));
    for basic in [WRONG, "no base64", "Og=="] {
        assert_eq!(status(outside, "/metrics", &own, basic), 401, "{basic}");
    }
    assert!(server.client().cmd("INFO stats").text().contains("acl_access_denied_auth:3\r\n"));
    for path in OPEN {
        assert_eq!(status(outside, path, &own, ""), 200, "{path}");
        assert_eq!(status(outside, path, "example.com", ""), 403, "{path}");
        assert_eq!(status(inside, path, "example.com", ""), 403, "{path}");
    }

    for (host, wanted) in [
        ("db.example.com", 200),
        (&format!("DB.example.com:{port}"), 200),
        ("", 200),
        ("localhost", 403),
        ("127.0.0.1", 403),
        ("10.77.31.2", 403),
        ("new.example.com", 403),
        ("db.example.com.evil.example", 403),
    ] {
        assert_eq!(status(outside, "/metrics", host, VIEWER), wanted, "{host}");
    }
    for (host, wanted) in [("db.example.com", 200), ("127.0.0.1", 200), (own.as_str(), 403), ("example.com", 403)] {
        assert_eq!(status(inside, "/metrics", host, ""), wanted, "{host}");
    }
    // Names may be set while it runs, addresses may not.
    let mut client = server.client();
    assert_eq!(
        client.call(&["CONFIG", "SET", "metrics-hosts", "a.example new.example.com"]).expect("a reply").text(),
        "OK"
    );
    assert_eq!(status(outside, "/metrics", "new.example.com", VIEWER), 200);
    assert_eq!(status(outside, "/metrics", "db.example.com", VIEWER), 403);
    assert!(client.call(&["CONFIG", "SET", "metrics-bind", "127.0.0.1"]).expect("a reply").is_error());
    // An address that is not listed is not listened on.
    assert!(TcpStream::connect((Ipv4Addr::new(127, 0, 0, 2), port)).is_err());
}

#[test]
fn issue_19_an_address_of_ipv6_is_as_any_other() {
    if !inside("issue_19_an_address_of_ipv6_is_as_any_other") {
        return;
    }
    let network = Network::new(32, 0);
    let ip: Ipv6Addr = "fd00:77::1".parse().expect("an address");
    if let Err(why) = network.add_here(IpAddr::V6(ip)) {
        return varve_testkit::skip::skipped(format_args!("this machine has no IPv6: {why}"));
    }
    let (_server, port) = server(&format!("{ip} -::1"));
    let (outside, own) = (SocketAddr::from((ip, port)), format!("[{ip}]:{port}"));
    assert_eq!(status(outside, "/metrics", &own, ""), 401);
    assert_eq!(status(outside, "/metrics", &own, VIEWER), 200);
    assert_eq!(status(outside, "/metrics", "[fd00:77:0::1]", VIEWER), 200, "another spelling of the same address");
    assert_eq!(status(outside, "/metrics", "[::1]", VIEWER), 403);
    assert_eq!(status((Ipv6Addr::LOCALHOST, port).into(), "/metrics", "[::1]", ""), 200);
}
