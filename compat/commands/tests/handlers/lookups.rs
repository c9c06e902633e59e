//! Hits and misses are counted as redis-server 7.0.15 counted them for these commands on these keys.
//!
//! `a` is the string 1, `b` expires, `h` is a hash, `s` a set; `zz` is not there. Commands that write look keys up without counting.

use crate::common::Server;
use varve_protocol::Resp;

/// Command, hits, misses.
const COUNTED: &[(&str, u64, u64)] = &[
    ("GET a", 1, 0),
    ("MGET a b zz", 2, 1),
    ("STRLEN zz", 0, 1),
    ("GETRANGE a 0 1", 1, 0),
    ("LCS a zz", 1, 1),
    ("EXISTS a zz b", 2, 1),
    ("TOUCH a zz", 1, 1),
    ("TYPE a", 1, 0),
    ("TYPE zz", 0, 1),
    ("TTL a", 1, 0),
    ("PTTL zz", 0, 1),
    ("EXPIRETIME b", 1, 0),
    ("PEXPIRETIME zz", 0, 1),
    ("OBJECT ENCODING a", 1, 0),
    ("OBJECT IDLETIME zz", 0, 1),
    ("OBJECT REFCOUNT a", 1, 0),
    ("OBJECT FREQ a", 1, 0),
    ("COPY a q", 1, 0),
    ("COPY zz q", 0, 1),
    ("GETEX a", 1, 0),
    ("SET a 1", 0, 0),
    ("SET a 1 GET", 1, 0),
    ("INCR a", 0, 0),
    ("APPEND zz 1", 0, 0),
    ("DEL a zz", 0, 0),
    ("EXPIRE a 10", 0, 0),
    ("PERSIST b", 0, 0),
    ("RENAME a q", 0, 0),
    ("MOVE zz 3", 0, 0),
    ("MEMORY USAGE a", 0, 0),
    ("RANDOMKEY", 0, 0),
    ("SCAN 0", 0, 0),
    ("HGET h f", 1, 0),
    ("HGET h x", 1, 0),
    ("HGET zz f", 0, 1),
    ("HGET a f", 1, 0),
    ("HMGET h f x", 1, 0),
    ("HMGET zz f", 0, 1),
    ("HGETALL h", 1, 0),
    ("HGETALL zz", 0, 1),
    ("HKEYS h", 1, 0),
    ("HVALS zz", 0, 1),
    ("HLEN h", 1, 0),
    ("HSTRLEN h f", 1, 0),
    ("HEXISTS zz f", 0, 1),
    ("HRANDFIELD h", 1, 0),
    ("HRANDFIELD h 2 WITHVALUES", 1, 0),
    ("HRANDFIELD zz 2", 0, 1),
    ("HSCAN h 0", 1, 0),
    ("HSCAN zz 0", 0, 1),
    ("HSCAN h 0 foo", 1, 0),
    ("HSET h f 2", 0, 0),
    ("HSET zz f 2", 0, 0),
    ("HSETNX h f 2", 0, 0),
    ("HDEL h f", 0, 0),
    ("HINCRBY h f 1", 0, 0),
    ("HINCRBYFLOAT zz f 1", 0, 0),
    ("SORT h", 1, 0),
    ("SORT zz", 0, 1),
    ("SORT l", 1, 0),
    ("SORT l BY a GET a* GET zz* GET h*->f", 4, 3),
    ("SORT l BY a* GET h* GET a*->f", 6, 1),
    ("SORT z", 1, 0),
    ("SORT s BY nosort", 1, 0),
    ("SORT l STORE s", 1, 0),
    ("SADD s 3", 0, 0),
    ("SREM s 1", 0, 0),
    ("SMOVE s t 1", 0, 0),
    ("SPOP s", 0, 0),
    ("SPOP s 1", 0, 0),
    ("SPOP zz", 0, 0),
    ("SCARD s", 1, 0),
    ("SCARD zz", 0, 1),
    ("SISMEMBER s 1", 1, 0),
    ("SISMEMBER zz 1", 0, 1),
    ("SMISMEMBER s 1 2", 1, 0),
    ("SMEMBERS s", 1, 0),
    ("SMEMBERS zz", 0, 1),
    ("SRANDMEMBER s", 1, 0),
    ("SRANDMEMBER zz 2", 0, 1),
    ("SSCAN s 0", 1, 0),
    ("SSCAN zz 0", 0, 1),
    ("SINTER s zz s", 2, 1),
    ("SUNION zz s", 1, 1),
    ("SDIFF s s", 2, 0),
    ("SINTERCARD 2 s zz", 1, 1),
    ("SINTERSTORE q s zz", 1, 1),
    ("SUNIONSTORE s s", 1, 0),
    ("SDIFFSTORE q zz", 0, 1),
    ("SINTER a s", 1, 0),
    ("SINTER s a zz", 2, 0),
    ("SINTER zz a s", 1, 1),
    ("SCARD a", 1, 0),
    ("SUNIONSTORE q s a s", 2, 0),
    ("SMEMBERS a", 1, 0),
    ("SRANDMEMBER a", 1, 0),
    ("SSCAN a 0", 1, 0),
];

#[test]
fn hits_and_misses_are_the_peers() {
    for &(command, hits, misses) in COUNTED {
        let mut server = Server::new(Resp::V2);
        run(&mut server, "SET a 1");
        run(&mut server, "SET b hello EX 1000");
        run(&mut server, "HSET h f 1 g 2");
        run(&mut server, "RPUSH l 1 2");
        run(&mut server, "SADD s 1 2");
        run(&mut server, "ZADD z 1 1");
        run(&mut server, "MSET a1 1 a2 2");
        run(&mut server, "HSET h1 f 1");
        run(&mut server, command);
        assert_eq!(server.lookups(), (hits, misses), "{command}");
    }
}

fn run(server: &mut Server, line: &str) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    server.run(&words);
}
