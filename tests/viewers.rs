//! The calls by which graphical tools look at a server (RedisInsight's above all): each is answered by the same kind of reply as
//! redis-server 7.0.15 gives, in both protocols. A tool that meets an error where it waits for a list does not open the database.

#![forbid(unsafe_code)]

use varve_testkit::{Client, Launch, RespValue};

/// Calls as such tools send them: of the server, of keys of each type, of slow commands.
const CALLS: &[&str] = &[
    "INFO",
    "INFO server",
    "INFO keyspace",
    "MODULE LIST",
    "COMMAND",
    "COMMAND INFO get no-such-command",
    "COMMAND DOCS get",
    "ACL CAT dangerous",
    "ACL CAT blocking",
    "ACL LIST",
    "ACL WHOAMI",
    "CLIENT LIST",
    "CLIENT SETNAME viewer",
    "CLIENT GETNAME",
    "CONFIG GET databases",
    "CONFIG GET slowlog*",
    "CONFIG GET hash-max-ziplist-entries",
    "CONFIG GET set-max-intset-entries",
    "CONFIG SET slowlog-log-slower-than 10000",
    "DBSIZE",
    "CLUSTER INFO",
    "CLUSTER NODES",
    "CLUSTER SHARDS",
    "SLOWLOG GET 50",
    "SLOWLOG LEN",
    "LATENCY LATEST",
    "MEMORY USAGE hash SAMPLES 0",
    "MEMORY USAGE none SAMPLES 0",
    "SCAN 0 MATCH * COUNT 10000",
    "SCAN 0 MATCH * COUNT 10000 TYPE hash",
    "TYPE stream",
    "TTL hash",
    "OBJECT ENCODING hash",
    "STRLEN string",
    "GETRANGE string 0 4999",
    "HLEN hash",
    "HSCAN hash 0 MATCH * COUNT 500",
    "LLEN list",
    "LRANGE list 0 499",
    "SCARD set",
    "SSCAN set 0 MATCH * COUNT 500",
    "ZCARD zset",
    "ZRANGE zset 0 499 WITHSCORES",
    "ZSCAN zset 0 MATCH * COUNT 500",
    "XINFO STREAM stream",
    "XINFO GROUPS stream",
    "XINFO CONSUMERS stream g",
    "XREVRANGE stream + - COUNT 500",
    "XPENDING stream g - + 20",
    "PUBSUB CHANNELS",
    "PUBLISH channel message",
    "FUNCTION LIST",
    "SCRIPT EXISTS 0123456789012345678901234567890123456789",
];
const KEYS: &[&str] = &[
    "SET string value",
    "HSET hash f v",
    "EXPIRE hash 1000",
    "RPUSH list a b",
    "SADD set a",
    "ZADD zset 1 a",
    "XADD stream 1-1 f v",
    "XGROUP CREATE stream g 0",
    "XREADGROUP GROUP g c STREAMS stream >",
];

/// The kind of a reply. Errors have their whole text.
fn kind(reply: &RespValue) -> String {
    match reply {
        RespValue::Error(text) => format!("error {}", String::from_utf8_lossy(text)),
        RespValue::Array(_) => "array".to_owned(),
        RespValue::Map(_) => "map".to_owned(),
        RespValue::Set(_) => "set".to_owned(),
        RespValue::Bulk(_) => "bulk".to_owned(),
        RespValue::Integer(_) => "integer".to_owned(),
        RespValue::Verbatim(_) => "verbatim".to_owned(),
        RespValue::Simple(text) => format!("simple {}", String::from_utf8_lossy(text)),
        other => format!("{other:?}"),
    }
}

#[test]
fn issue_19_graphical_tools_get_the_replies_that_they_wait_for() {
    let servers = [Launch::varve(), Launch::peer()].map(|launch| launch.start().expect("a server"));
    let mut clients: [Client; 2] = servers.each_ref().map(|server| server.client());
    for line in KEYS {
        assert!(clients.iter_mut().all(|client| !client.cmd(line).is_error()), "{line}");
    }
    for protocol in ["HELLO 2", "HELLO 3"] {
        let mut differ = Vec::new();
        for line in [protocol].iter().chain(CALLS) {
            let [ours, theirs] = clients.each_mut().map(|client| kind(&client.cmd(line)));
            if ours != theirs {
                differ.push(format!("{protocol}, {line}: {ours}, there {theirs}"));
            }
        }
        assert_eq!(differ, Vec::<String>::new());
    }
    let [mut ours, _] = clients;
    let mut watching = servers[0].client();
    assert_eq!(watching.cmd("MONITOR").text(), "OK");
    ours.cmd("GET string");
    let seen = watching.read().expect("what the other does").text();
    assert!(seen.ends_with("\"GET\" \"string\""), "{seen}");
}
