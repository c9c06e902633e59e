//! Keyspace events of all classes beside those of the redis-server that is installed: command by command, in their order.
//!
//! Excused: `expired`. redis-server says it when it comes by a key whose time is over; ours when that is known, which for a time
//! in the past is at once.

mod common;

use common::with_peer;
use varve_testkit::{Client, RespValue};

/// Each in a data set that those before it have made.
const COMMANDS: &[&str] = &[
    "SET a 1",
    "SET a 2",
    "SET b 1",
    "GET none",
    "COPY a b REPLACE",
    "COPY a c",
    "SET past 1 EXAT 1",
    "SET past 1",
    "GETEX past EXAT 1",
    "SET soon 1 PX 100000",
    "SETNX nx 1",
    "SETNX nx 1",
    "MSET m1 1 m2 2",
    "MSETNX m3 1 m4 1",
    "GETSET gx 1",
    "GETDEL gx",
    "APPEND ap x",
    "SETRANGE range 3 x",
    "INCR n",
    "INCRBYFLOAT float 1",
    "SETBIT bits 1 1",
    "BITOP OR bits2 bits",
    "BITFIELD field SET u8 0 1",
    "RENAME a renamed",
    "SET a 1",
    "RENAME renamed a",
    "RENAMENX a a2",
    "MOVE m1 1",
    "RPUSH l a b c",
    "LPUSHX none x",
    "RPOPLPUSH l l2",
    "LMOVE l l2 LEFT LEFT",
    "LREM l 0 b",
    "SADD s x y z",
    "SMOVE s t x",
    "SPOP s 2",
    "SADD s x",
    "SUNIONSTORE u s t",
    "SUNIONSTORE u s",
    "SINTERSTORE u s none",
    "ZADD z 1 a 2 b",
    "ZADD z INCR 1 a",
    "ZINCRBY z 1 c",
    "ZUNIONSTORE zu 1 z",
    "ZUNIONSTORE zu 1 z",
    "ZRANGESTORE zr z 0 -1",
    "ZPOPMIN z 3",
    "HSET h f v",
    "HINCRBY h2 f 1",
    "HDEL h f",
    "PFADD p a",
    "PFMERGE p2 p",
    "XADD x 1-1 f v",
    "XGROUP CREATE g group $ MKSTREAM",
    "XTRIM x MAXLEN 0",
    "SORT l2 ALPHA STORE sorted",
    "GEOADD geo 1 2 x",
    "GEOSEARCHSTORE near geo FROMMEMBER x BYRADIUS 10 km",
    "EXPIRE l2 -1",
    "EXPIRE n 1000",
    "PERSIST n",
    "DEL n b c",
    "UNLINK u2 t",
];

/// The events that a listener has heard since the last call, and that came before this.
fn heard(ear: &mut Client, client: &mut Client) -> Vec<String> {
    let listeners = client.cmd("PUBLISH __keyevent@0__:end end").integer();
    // Those of a round before may be there for another moment.
    assert!(listeners >= Some(1), "{listeners:?}");
    let mut events = Vec::new();
    loop {
        let message = ear.read().expect("a message");
        let words: Vec<String> = message.elements().expect("its parts").iter().map(RespValue::text).collect();
        let event = words[2].replace("__keyevent@0__:", "");
        match event.as_str() {
            "end" => return events,
            "expired" => {}
            _ => events.push(format!("{event} {}", words[3])),
        }
    }
}

#[test]
fn issue_11_events_are_those_of_redis_server_new_keys_among_them() {
    with_peer(|both| {
        both.same("FLUSHALL");
        both.same("CONFIG SET notify-keyspace-events KEAmn");
        let mut ears = both.others();
        for ear in &mut ears {
            assert!(!ear.cmd("PSUBSCRIBE __keyevent@0__:*").is_error());
        }
        let mut said = 0;
        for line in COMMANDS {
            both.ask(&line.split(' ').collect::<Vec<_>>());
            let [ours, peer] = &mut ears;
            let (ours, peer) = (heard(ours, &mut both.ours), heard(peer, &mut both.peer));
            assert_eq!(ours, peer, "{line}");
            said += ours.iter().filter(|event| event.starts_with("new ")).count();
        }
        assert!(said > 30, "{said} new keys");
    });
}
