//! Sentinel, which is redis-server 7.0.15 in its other mode, with Varve among the servers that it watches.
//!
//! ```text
//!   sentinel --INFO, PING, PUBLISH--> redis-server (primary, SIGKILL)   Varve (its replica) --MULTI SLAVEOF NO ONE .. EXEC--> primary
//! ```

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use varve_testkit::{Launch, RespValue, Server};

/// How long anything may take that a test waits for: Sentinel looks for replicas each ten seconds.
const LIMIT: Duration = Duration::from_secs(120);

fn wait(what: &str, servers: &[&Server], mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        let logs: Vec<String> = servers.iter().map(|server| server.log()).collect();
        assert!(Instant::now() < end, "{what}:\n{}", logs.join("\n----\n"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The address that Sentinel gives clients.
fn port_of_primary(sentinel: &Server) -> Option<u16> {
    let reply = sentinel.client().cmd("SENTINEL GET-MASTER-ADDR-BY-NAME watched");
    std::str::from_utf8(reply.elements()?.get(1)?.bytes()?).ok()?.parse().ok()
}

#[test]
fn sentinel_makes_a_replica_the_primary() {
    let primary = Launch::peer().config("repl-diskless-sync-delay 0").start().expect("redis-server starts");
    let replica = Launch::varve().config(format!("replicaof 127.0.0.1 {}", primary.port())).start().expect("Varve");
    let sentinel = Launch::peer()
        .config(format!("sentinel monitor watched 127.0.0.1 {} 1", primary.port()))
        .config("sentinel down-after-milliseconds watched 1000")
        .config("sentinel failover-timeout watched 20000")
        .arg("--sentinel")
        .start()
        .expect("Sentinel starts");
    primary.client().cmd("SET k v");
    let mut client = replica.client();
    wait("the replica has the data", &[&replica], || client.cmd("GET k").text() == "v");
    wait("Sentinel knows the replica", &[&sentinel, &replica], || {
        let replicas = format!("{:?}", sentinel.client().cmd("SENTINEL REPLICAS watched"));
        replicas.contains(&replica.port().to_string()) && replicas.contains("master-link-status")
    });
    primary.signal("KILL").expect("killed");
    wait("Sentinel names the replica", &[&sentinel, &replica], || port_of_primary(&sentinel) == Some(replica.port()));
    // Sentinel closes the connections of a server that it promotes.
    let mut client = replica.client();
    let role = client.cmd("ROLE");
    assert_eq!(role.elements().and_then(|role| role[0].bytes()), Some(&b"master"[..]));
    assert_eq!(client.cmd("GET k").text(), "v");
    assert_eq!(client.cmd("SET k w").text(), "OK");
    let config = std::fs::read_to_string(replica.dir().join("server.conf")).expect("its file");
    assert!(!config.lines().any(|line| line.starts_with("replicaof")), "CONFIG REWRITE has run:\n{config}");
    assert_eq!(client.cmd("CONFIG GET replicaof"), RespValue::Array(vec![bulk("replicaof"), bulk("")]));
}

fn bulk(text: &str) -> RespValue {
    RespValue::Bulk(text.as_bytes().to_vec())
}
