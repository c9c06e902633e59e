//! Links by IPv6: replication in both roles, with redis-server at the other end too, with TLS and without; `varve-top`. What clients
//! see of IPv6 is in the server's own test, `server/tests/ipv6.rs`.

#![forbid(unsafe_code)]

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use varve_testkit::server::{free_port, target_dir, workspace};
use varve_testkit::skip::skipped;
use varve_testkit::tls::Certificates;
use varve_testkit::{Launch, Server, until};
use varve_tests::replicas::{assert_equal, field, stop_following, wait};

/// Primary and replica in all mixtures that one of ours is part of.
const PAIRS: [(Kind, Kind); 3] =
    [(Launch::varve, Launch::varve), (Launch::varve, Launch::peer), (Launch::peer, Launch::varve)];

type Kind = fn() -> Launch;

/// True where the loopback interface has its address of IPv6.
fn has_ipv6() -> bool {
    let found = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !found {
        skipped("this machine has no IPv6");
    }
    found
}

/// A server on ::1 alone.
fn six(launch: Launch) -> Server {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, free_port().expect("a free port")));
    launch.config("repl-diskless-sync-delay 0").at(address).start().expect("a server")
}

/// Has the replica follow this port of ::1, and waits until it has some keys.
fn follow(replica: &Server, primary: &Server, port: u16) {
    let mut writer = primary.client();
    (0..200).for_each(|nth| assert_eq!(writer.cmd(&format!("SET key:{nth} {port}")).text(), "OK"));
    let reply = replica.client().cmd(&format!("REPLICAOF ::1 {port}"));
    assert!(!reply.is_error(), "{}", reply.text());
    assert_eq!(writer.cmd("SET last 1").text(), "OK");
    assert_equal(replica, primary);
    assert_eq!(replica.client().cmd("GET last").text(), "1");
}

/// The primary has its replica under this address of IPv6.
fn is_listed(primary: &Server, ip: &str, port: u16) {
    let wanted = format!("ip={ip},port={port},state=online,");
    let mut client = primary.client();
    wait("the replica is online", primary, || field(&mut client, "replication", "slave0").starts_with(&wanted));
    let role = client.cmd("ROLE");
    let replicas = role.elements().expect("a list")[2].elements().expect("replicas");
    let words: Vec<String> = replicas[0].elements().expect("a replica").iter().map(|word| word.text()).collect();
    assert_eq!(words[..2], [ip.to_owned(), port.to_string()]);
}

#[test]
fn issue_19_replication_goes_by_ipv6_in_both_roles() {
    if !has_ipv6() {
        return;
    }
    for (primary, replica) in PAIRS {
        let (primary, replica) = (six(primary()), six(replica()));
        follow(&replica, &primary, primary.port());
        let mut ours = replica.client();
        assert_eq!(field(&mut ours, "replication", "master_host"), "::1");
        assert_eq!(field(&mut ours, "replication", "master_port"), primary.port().to_string());
        assert_eq!(ours.cmd("ROLE").elements().expect("a list")[1].text(), "::1");
        is_listed(&primary, "::1", replica.port());
        // From its next handshake on, the primary lists the address that a replica announces, not the one that it comes from.
        stop_following(&replica);
        assert_eq!(ours.cmd("CONFIG SET replica-announce-ip fd00::7 replica-announce-port 7007").text(), "OK");
        follow(&replica, &primary, primary.port());
        is_listed(&primary, "fd00::7", 7007);
        let mut client = primary.client();
        assert_eq!(client.cmd("SET key value").text(), "OK");
        assert_eq!(client.cmd("WAIT 1 20000").integer(), Some(1));
        // It follows again behind a start as well: the setting is an address, not a name and a port.
        assert_eq!(ours.cmd("CONFIG REWRITE").text(), "OK");
        let file = std::fs::read_to_string(replica.dir().join("server.conf")).expect("its file");
        assert!(file.contains(&format!("replicaof ::1 {}\n", primary.port())), "{file}");
    }
}

#[test]
fn issue_19_replication_by_tls_goes_by_ipv6() {
    if !has_ipv6() {
        return;
    }
    let certificates = Certificates::make("six");
    for (primary, replica) in PAIRS {
        let start = |launch: Launch| {
            let (server, port) = launch
                .config("tls-replication yes")
                .config("repl-diskless-sync-delay 0")
                .at((Ipv6Addr::LOCALHOST, free_port().expect("a free port")).into())
                .start_tls(&certificates)
                .expect("a server");
            (server, port)
        };
        let ((primary, port), (replica, replica_port)) = (start(primary()), start(replica()));
        follow(&replica, &primary, port);
        // A replica that speaks TLS announces its port of TLS.
        is_listed(&primary, "::1", replica_port);
        let config = std::sync::Arc::new(certificates.client(true));
        let address = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        let mut client = varve_testkit::Client::over(varve_testkit::tls::connect(address, &config));
        assert_eq!(client.cmd("GET last").text(), "1");
    }
}

#[test]
fn issue_19_varve_top_connects_by_ipv6() {
    if !has_ipv6() {
        return;
    }
    let mut build = Command::new(env!("CARGO"));
    let built = build.args(["build", "--quiet", "--workspace", "--bin", "varve-top"]).current_dir(workspace()).status();
    assert!(built.is_ok_and(|status| status.success()), "varve-top is built");
    let certificates = Certificates::make("six-top");
    let (server, tls_port) = Launch::varve()
        .at((Ipv6Addr::LOCALHOST, free_port().expect("a free port")).into())
        .start_tls(&certificates)
        .expect("a server");
    let mut other = server.client();
    until("it answers", || other.cmd("PING").text() == "PONG");
    let path = |name: &str| certificates.path(name).display().to_string();
    let (authority, certificate, key) = (path("ca.crt"), path("client.crt"), path("client.key"));
    let by_tls = ["--tls", "--cacert", &authority, "--cert", &certificate, "--key", &key];
    for (port, more) in [(server.port(), &[][..]), (tls_port, &by_tls)] {
        let mut top = Command::new(target_dir().join("debug/varve-top"));
        top.args(["--once", "-i", "0.2", "--view", "clients", "-h", "::1", "-p", &port.to_string()]).args(more);
        let output = top.env_remove("REDISCLI_AUTH").stdin(Stdio::null()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("varve-top [::1]:"), "clients have their addresses: {said}");
    }
}
