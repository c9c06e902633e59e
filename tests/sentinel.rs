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

/// Sentinels find each other by the hello that each publishes at the servers that they watch, where all of them listen.
#[test]
fn issue_17_sentinels_find_each_other_by_their_hello() {
    let primary = Launch::varve().start().expect("Varve starts");
    let replica = Launch::varve().config(format!("replicaof 127.0.0.1 {}", primary.port())).start().expect("Varve");
    let mut heard = [&primary, &replica].map(Server::client);
    for client in &mut heard {
        client.cmd("SUBSCRIBE __sentinel__:hello");
    }
    let sentinels: Vec<Server> = (0..2)
        .map(|_| {
            let launch = Launch::peer().config(format!("sentinel monitor watched 127.0.0.1 {} 2", primary.port()));
            launch.arg("--sentinel").start().expect("Sentinel starts")
        })
        .collect();
    let servers: Vec<&Server> = sentinels.iter().chain([&primary, &replica]).collect();
    for (sentinel, other) in [(0, 1), (1, 0)] {
        wait("a sentinel knows the other one, and the replica", &servers, || {
            let mut client = sentinels[sentinel].client();
            let port = |server: &Server| server.port().to_string();
            let knows = |reply: RespValue, server: &Server| {
                format!("{reply:?}").contains(&format!("{:?}", bulk(&port(server))))
            };
            knows(client.cmd("SENTINEL SENTINELS watched"), &sentinels[other])
                && knows(client.cmd("SENTINEL REPLICAS watched"), &replica)
        });
    }
    // ip,port,runid,epoch,name,ip,port,epoch: of both, at both servers. The replica has those of its primary's stream as well.
    for client in &mut heard {
        let mut missing: Vec<u16> = sentinels.iter().map(Server::port).collect();
        while !missing.is_empty() {
            let message = client.read().expect("a message");
            let words = message.elements().expect("a message").iter().filter_map(RespValue::bytes);
            let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            assert_eq!(words[..2], ["message", "__sentinel__:hello"]);
            let hello: Vec<&str> = words[2].split(',').collect();
            assert_eq!((hello.len(), hello[4], hello[6]), (8, "watched", primary.port().to_string().as_str()));
            missing.retain(|port| hello[1] != port.to_string());
        }
    }
}
