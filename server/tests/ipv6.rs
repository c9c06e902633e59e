//! IPv6 from end to end: listening, addresses as clients see them, connections to others, protected mode, metrics.

use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use varve_testkit::skip::skipped;
use varve_testkit::{Client, Launch, RespValue, Server};

/// A server that listens on ::1 beside 127.0.0.1. A machine without IPv6 has none.
fn server(more: &[&str]) -> Option<Server> {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        skipped("this machine has no IPv6");
        return None;
    }
    let launch = Launch::binary(env!("CARGO_BIN_EXE_varve-server")).config("bind 127.0.0.1 ::1");
    Some(more.iter().fold(launch, |launch, line| launch.config(*line)).start().expect("it starts"))
}

fn six(server: &Server) -> Client {
    Client::connect(SocketAddr::from((Ipv6Addr::LOCALHOST, server.port()))).expect("a connection by IPv6")
}

fn text(value: RespValue) -> String {
    match value {
        RespValue::Bulk(text) | RespValue::Simple(text) => String::from_utf8(text).expect("text"),
        other => panic!("no text: {other:?}"),
    }
}

#[test]
fn addresses_have_brackets() {
    let Some(server) = server(&[]) else { return };
    let mut client = six(&server);
    let port = client.stream().local_addr().expect("an address").port();
    let info = text(client.cmd("CLIENT INFO"));
    assert!(info.contains(&format!("addr=[::1]:{port} ")), "{info}");
    assert!(info.contains(&format!("laddr=[::1]:{} ", server.port())), "{info}");
    let killer = text(server.client().cmd("CLIENT LIST"));
    assert!(killer.contains(&format!("addr=[::1]:{port} ")), "{killer}");
    assert_eq!(text(server.client().cmd(&format!("CLIENT KILL [::1]:{port}"))), "OK");
    assert!(client.call(&["PING"]).is_err(), "it was closed");
}

#[test]
fn keys_move_by_ipv6() {
    let (Some(ours), Some(other)) = (server(&[]), server(&[])) else { return };
    let mut client = six(&ours);
    assert_eq!(text(client.cmd("SET key value")), "OK");
    assert_eq!(text(client.cmd(&format!("MIGRATE ::1 {} key 0 5000", other.port()))), "OK");
    assert_eq!(text(six(&other).cmd("GET key")), "value");
    assert!(text(other.client().cmd("CLIENT LIST")).contains("addr=[::1]:"));
    // A source of the other kind of address is passed over.
    assert_eq!(text(client.cmd("CONFIG SET bind-source-addr 127.0.0.1")), "OK");
    assert_eq!(text(client.cmd("SET key value")), "OK");
    assert_eq!(text(client.cmd(&format!("MIGRATE ::1 {} key 0 5000 REPLACE", other.port()))), "OK");
}

#[test]
fn the_loopback_address_is_this_machine() {
    let Some(server) = server(&["protected-mode yes", "enable-debug-command local"]) else { return };
    let mut client = six(&server);
    assert_eq!(text(client.cmd("PING")), "PONG");
    assert_eq!(text(client.cmd("DEBUG SLEEP 0")), "OK");
}

#[test]
fn metrics_are_there_by_ipv6() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let Some(_server) = server(&[&format!("metrics-port {port}")]) else { return };
    let mut stream = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).expect("a connection");
    stream
        .write_all(format!("GET /healthz HTTP/1.1\r\nHost: [::1]:{port}\r\nConnection: close\r\n\r\n").as_bytes())
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn listening_moves_to_ipv6_alone() {
    let Some(server) = server(&[]) else { return };
    let mut client = six(&server);
    assert_eq!(text(client.call(&["CONFIG", "SET", "bind", "::1"]).expect("a reply")), "OK");
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err(), "nobody listens by IPv4");
    assert_eq!(text(six(&server).cmd("PING")), "PONG");
}
