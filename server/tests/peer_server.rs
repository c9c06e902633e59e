//! Replies about the server itself and about what it does not do (users, modules, replicas, a cluster), beside
//! redis-server in the same state: tools and clients ask for them when they connect.

mod common;

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{Both, elements, ours, with_peer};
use varve_exec::CommandTable;
use varve_testkit::{Client, Launch, RespValue, until};

#[test]
fn a_server_alone_is_described_alike() {
    with_peer(|both| {
        for line in [
            "MODULE LIST",
            "MODULE LIST a",
            "MODULE",
            "MODULE FOO",
            "ROLE",
            "ROLE a",
            "LASTSAVE a",
            "REPLICAOF NO ONE",
            "replicaof no one",
            "SLAVEOF NO ONE",
            "REPLICAOF a",
            "REPLICAOF a b",
            "REPLICAOF 127.0.0.1 65536",
            "REPLICAOF 127.0.0.1 -1",
        ] {
            both.same(line);
        }
    });
}

#[test]
fn a_cluster_is_said_to_be_disabled() {
    with_peer(|both| {
        for line in [
            "CLUSTER",
            "CLUSTER FOO",
            "CLUSTER INFO",
            "cluster nodes",
            "CLUSTER HELP",
            "CLUSTER SLOTS",
            "CLUSTER SLOTS a",
            "CLUSTER SHARDS",
            "CLUSTER MYID",
            "CLUSTER KEYSLOT foo",
            "CLUSTER KEYSLOT",
            "CLUSTER GETKEYSINSLOT 1 2",
            "CLUSTER ADDSLOTS 1 2 3",
            "CLUSTER SET-CONFIG-EPOCH 1",
            "CLUSTER RESET HARD",
            "READONLY",
            "READONLY a",
            "READWRITE",
            "ASKING",
        ] {
            both.same(line);
        }
    });
}

#[test]
fn the_default_user_is_described_alike() {
    with_peer(|both| {
        let describe = |both: &mut Both| {
            for line in ["ACL WHOAMI", "ACL USERS", "ACL LIST", "ACL GETUSER default", "ACL GETUSER nobody"] {
                both.same(line);
            }
        };
        describe(both);
        both.same("CONFIG SET requirepass secret");
        describe(both);
        both.same("AUTH wrong");
        both.same("AUTH secret");
        both.same("AUTH default secret");
        both.same("AUTH nobody secret");
        both.same("CONFIG SET requirepass");
        for client in [&mut both.ours, &mut both.peer] {
            assert!(!client.call(&["CONFIG", "SET", "requirepass", ""]).unwrap().is_error());
        }
        describe(both);
        for line in ["ACL", "ACL FOO", "ACL GETUSER", "ACL WHOAMI a", "ACL CAT", "ACL CAT foo", "ACL CAT a b"] {
            both.same(line);
        }
    });
}

#[test]
fn categories_have_the_same_members() {
    with_peer(|both| {
        let table = CommandTable::new(varve_server::commands());
        let [categories, _] = both.ask(&["ACL", "CAT"]);
        for category in elements(categories) {
            let [ours, peer] = both.ask(&["ACL", "CAT", &category.text()]).map(|names| {
                let mut names: Vec<String> = elements(names).iter().map(RespValue::text).collect();
                names.sort();
                names
            });
            // The peer's members that there are here; ours may be newer than the peer.
            let there: Vec<&String> =
                peer.iter().filter(|name| table.by_full_name(name.as_bytes()).is_some()).collect();
            let missing: Vec<&&String> = there.iter().filter(|name| !ours.contains(name)).collect();
            assert!(missing.is_empty(), "{category:?} lacks {missing:?}");
            let more: Vec<&String> = ours.iter().filter(|name| !peer.contains(name)).collect();
            let newer = |name: &&&String| {
                let row = table.by_full_name(name.as_bytes()).expect("a command of ours");
                let own = ["segments", "memory|prefixes", "memory|largest", "memory|expiries"];
                own.contains(&row.full_name) || row.since.split('.').map(|n| n.parse::<u32>().unwrap()).gt([7, 0, 15])
            };
            assert_eq!(more.iter().filter(|name| !newer(name)).count(), 0, "{category:?}: {more:?}");
        }
    });
}

#[test]
fn the_last_save_is_the_start() {
    let server = ours();
    let RespValue::Integer(at_s) = server.client().cmd("LASTSAVE") else { panic!("a time") };
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    assert!((now_s - 60..=now_s).contains(&at_s), "{at_s}, now {now_s}");
}

#[test]
fn replicaof_takes_a_port_and_says_what_is_so_already() {
    with_peer(|both| {
        both.same("REPLICAOF 127.0.0.1 port");
        both.same("REPLICAOF 127.0.0.1 65536");
        both.same("REPLICAOF NO ONE");
        both.same("REPLICAOF 127.0.0.1 1");
        both.same("REPLICAOF 127.0.0.1 1");
        both.same("CONFIG GET replicaof");
        both.same("SLAVEOF NO ONE");
        both.same("CONFIG GET slaveof");
    });
}

#[test]
fn the_slow_log_hides_what_hello_authenticates_with() {
    with_peer(|both| {
        both.same("CONFIG SET slowlog-log-slower-than 0");
        for line in [
            "HELLO 2 AUTH default sekret",
            "HELLO 2 SETNAME AUTH AUTH default sekret",
            "HELLO 2 AUTH default sekret AUTH default sekret SETNAME x",
            "AUTH default sekret",
            "CONFIG SET requirepass sekret hz 10",
        ] {
            both.same("SLOWLOG RESET");
            let args: Vec<&str> = line.split(' ').collect();
            both.ask(&args);
            // The newest entry but that of the RESET before.
            let shown = both.ask(&["SLOWLOG", "GET", "1"]).map(|log| {
                let entry = elements(elements(log).swap_remove(0));
                elements(entry[3].clone()).iter().map(RespValue::text).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(shown[0], shown[1], "{line}");
            assert!(shown[0].contains("(redacted)") && !shown[0].contains("sekret"), "{line}: {}", shown[0]);
        }
        both.ask(&["CONFIG", "SET", "requirepass", "", "slowlog-log-slower-than", "-1"]);
    });
}

/// Names and types of a map's fields; RESP2's numbers with a part are texts.
fn fields(reply: RespValue) -> Vec<(String, std::mem::Discriminant<RespValue>)> {
    let pairs: Vec<(RespValue, RespValue)> = match reply {
        RespValue::Map(pairs) => pairs,
        RespValue::Array(flat) => flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        other => panic!("no map: {other:?}"),
    };
    pairs.into_iter().map(|(name, value)| (name.text(), std::mem::discriminant(&value))).collect()
}

#[test]
fn memory_stats_has_every_field_of_redis_with_its_type() {
    with_peer(|both| {
        let [ours, peer] = both.ask(&["MEMORY", "STATS"]).map(fields);
        // A field for each database is missing while there is no key; the peer has its allocator's beside ours.
        assert!(peer.len() > 20);
        assert_eq!(ours[..peer.len()], peer);
    });
}

#[test]
fn wait_ends_by_its_time_since_there_are_no_replicas() {
    with_peer(|both| {
        for line in [
            "WAIT 0 0",
            "WAIT -1 0",
            "WAIT 1 1",
            "WAIT 1",
            "WAIT a 0",
            "WAIT a -1",
            "WAIT 1 a",
            "WAIT 1 -1",
            "MULTI",
            "WAIT 1 0",
            "EXEC",
        ] {
            both.same(line);
        }
    });
}

#[test]
fn a_client_that_waits_for_replicas_can_be_unblocked() {
    let (peer, ours) = (Launch::peer().start().expect("redis-server starts"), ours());
    let unblocked = RespValue::Error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK".to_vec());
    for (reason, expected) in [("TIMEOUT", RespValue::Integer(0)), ("ERROR", unblocked)] {
        for server in [&ours, &peer] {
            let (mut waiting, mut other) = (server.client(), server.client());
            let id = waiting.cmd("CLIENT ID").integer().expect("a number");
            waiting.queue(&["WAIT", "2", "0"]);
            waiting.flush().expect("sent");
            let (end, list) = (Instant::now() + Duration::from_secs(20), format!("CLIENT LIST ID {id}"));
            while !other.cmd(&list).text().contains(" flags=b ") {
                assert!(Instant::now() < end, "it does not wait: {}", other.cmd(&list).text());
                std::thread::yield_now();
            }
            assert!(other.cmd("INFO clients").text().contains("blocked_clients:1"));
            assert_eq!(other.cmd(&format!("CLIENT UNBLOCK {id} {reason}")).integer(), Some(1));
            assert_eq!(waiting.read().expect("a reply"), expected);
            assert_eq!(waiting.cmd("PING").text(), "PONG");
            assert_eq!(other.cmd(&format!("CLIENT UNBLOCK {id}")).integer(), Some(0));
        }
    }
}

#[test]
fn nobody_monitors_from_inside_a_transaction() {
    with_peer(|both| {
        for line in ["MULTI", "MONITOR", "PING", "EXEC", "PING"] {
            both.same(line);
        }
    });
}

#[test]
fn an_empty_server_says_what_it_takes() {
    let server = ours();
    let mut client = server.client();
    let mut figure = |name: &str| {
        let info = client.cmd("INFO memory").text();
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {info}"))
    };
    let (startup, resident) = (figure("used_memory_startup"), figure("used_memory_rss"));
    // The tables of an empty store alone take some hundred KB, and nothing takes more than is resident.
    assert!(startup > 100e3 && startup < resident, "{startup} of {resident}");
    let used = figure("used_memory");
    assert!(used >= startup && used < startup + 200e3, "{used}, at the start {startup}");
    assert!(figure("mem_fragmentation_ratio") > 1.0);
    // A command in between lets the worker report anew.
    assert_eq!(figure("used_memory_startup"), startup);
    assert!(figure("used_memory") >= startup);
}

/// The fields of INFO, each with its section. Those whose names are those of commands and errors count once.
fn fields_of_info(client: &mut Client) -> BTreeSet<String> {
    let text = client.cmd("INFO everything").text();
    let (mut section, mut fields) = ("", BTreeSet::new());
    for line in text.lines() {
        match (line.strip_prefix("# "), line.split_once(':')) {
            (Some(title), _) => section = title,
            (None, Some((name, _))) => {
                let families = ["cmdstat_", "errorstat_", "latency_percentiles_usec_"];
                let name = families.into_iter().find(|family| name.starts_with(family)).unwrap_or(name);
                fields.insert(format!("{section}: {name}"));
            }
            _ => {}
        }
    }
    fields
}

/// Fields of ours in sections that redis-server has too: what is newer than 7.0.15 there, and what only we count.
const OWN_FIELDS: &[&str] = &[
    // Redis 7.2 and 7.4, Valkey 8.
    "Server: io_threads",
    "Stats: acl_access_denied_auth",
    "Stats: acl_access_denied_channel",
    "Stats: acl_access_denied_cmd",
    "Stats: acl_access_denied_key",
    "Stats: acl_access_denied_tls_cert",
    "Stats: expired_fields",
    // Our own.
    "Persistence: loading_bytes_per_sec",
    "Replication: repl_spool_bytes",
    "Server: varve_version",
    "Stats: varve_expire_lag_ms",
];

/// Redis-server's fields are there, and no others but [`OWN_FIELDS`] and sections of our own.
fn compare_info(clients: &mut [Client; 2], state: &str) {
    let [ours, peer] = clients.each_mut().map(fields_of_info);
    assert_eq!(peer.difference(&ours).collect::<Vec<_>>(), Vec::<&String>::new(), "{state}");
    assert!(peer.len() > 120, "{state}: {} fields", peer.len());
    let section = |field: &str| field.split(": ").next().unwrap_or_default().to_owned();
    let sections: BTreeSet<String> = peer.iter().map(|field| section(field)).collect();
    let more = ours.difference(&peer).filter(|field| sections.contains(&section(field)));
    let more: Vec<&String> = more.filter(|field| !OWN_FIELDS.contains(&field.as_str())).collect();
    assert_eq!(more, Vec::<&String>::new(), "{state}");
}

/// In every state that brings fields of its own: with keys and errors, with an append-only file, while a file is saved and one is
/// rewritten, as a replica whose link is up and down, with a replica.
#[test]
fn info_has_every_field_of_redis_server_in_every_state() {
    let servers = [ours(), Launch::peer().start().expect("redis-server starts")];
    let other = Launch::peer().start().expect("redis-server starts");
    let mut clients = servers.each_ref().map(|server| server.client());
    let every = |clients: &mut [Client; 2], line: &str| clients.iter_mut().for_each(|client| drop(client.cmd(line)));
    let settled = |clients: &mut [Client; 2], section: &str, wanted: &str| {
        until(wanted, || {
            clients.iter_mut().all(|client| client.cmd(&format!("INFO {section}")).text().contains(wanted))
        });
    };
    compare_info(&mut clients, "empty");
    for line in
        ["SET key value EX 1000", "LPUSH key x", "NOSUCH", "EVAL 'return 1' 0", "GET key", "CONFIG SET appendonly yes"]
    {
        every(&mut clients, line);
    }
    compare_info(&mut clients, "with keys, errors and an append-only file");
    settled(&mut clients, "persistence", "aof_rewrite_in_progress:0");
    every(&mut clients, "DEBUG POPULATE 1000");
    every(&mut clients, "CONFIG SET rdb-key-save-delay 2000");
    for (command, field) in [("BGSAVE", "rdb_bgsave_in_progress"), ("BGREWRITEAOF", "aof_rewrite_in_progress")] {
        every(&mut clients, command);
        settled(&mut clients, "persistence", &format!("{field}:1"));
        compare_info(&mut clients, command);
        every(&mut clients, "CONFIG SET rdb-key-save-delay 0");
        // A process that redis-server has forked goes on as slowly as it began.
        drop(clients[1].cmd("CONFIG SET appendonly no"));
        settled(&mut clients, "persistence", &format!("{field}:0"));
        drop(clients[1].cmd("CONFIG SET appendonly yes"));
        settled(&mut clients, "persistence", "aof_rewrite_in_progress:0");
        every(&mut clients, "CONFIG SET rdb-key-save-delay 2000");
    }
    every(&mut clients, "CONFIG SET rdb-key-save-delay 0");
    every(&mut clients, &format!("REPLICAOF 127.0.0.1 {}", other.port()));
    settled(&mut clients, "replication", "master_link_status:up");
    compare_info(&mut clients, "a replica");
    every(&mut clients, "REPLICAOF 127.0.0.1 1");
    settled(&mut clients, "replication", "master_link_status:down");
    compare_info(&mut clients, "a replica without a link");
    every(&mut clients, "REPLICAOF NO ONE");
    let replicas = servers.each_ref().map(|server| {
        Launch::peer().config(format!("replicaof 127.0.0.1 {}", server.port())).start().expect("it starts")
    });
    settled(&mut clients, "replication", "state=online");
    compare_info(&mut clients, "with a replica");
    assert!(fields_of_info(&mut clients[0]).contains("Replication: slave0"));
    drop(replicas);
}

/// While a file is loaded.
#[test]
fn info_has_every_field_of_redis_server_while_it_loads() {
    let source = ours();
    let mut client = source.client();
    assert_eq!(client.cmd("DEBUG POPULATE 20000 key 100").text(), "OK");
    assert_eq!(client.cmd("SAVE").text(), "OK");
    let launch = |launch: Launch| {
        let launch = launch.config(format!("dir {}", source.dir().display()));
        launch.config("key-load-delay 1000").config("loading-process-events-interval-bytes 1024")
    };
    let ours = Launch::binary(env!("CARGO_BIN_EXE_varve-server"));
    let servers = [ours, Launch::peer()].map(|kind| launch(kind).start_loading().expect("it starts"));
    let mut clients = servers.each_ref().map(|server| server.client());
    for client in &mut clients {
        assert!(client.cmd("INFO persistence").text().contains("\r\nloading:1\r\n"));
    }
    compare_info(&mut clients, "loading");
    for client in &mut clients {
        assert!(client.cmd("INFO persistence").text().contains("\r\nloading_eta_seconds:"));
    }
}
