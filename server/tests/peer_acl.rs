//! Users, their rights and what is said of them, beside redis-server 7.0.15: several connections, one after the other.

mod common;

use std::collections::BTreeMap;

use common::{Both, with_peer};
use varve_testkit::{Client, RespValue};

/// Both servers get the words of each line on the connection that it begins with, `m` for the one of `both`, and reply the
/// same. Words are parted by single spaces; `_` in a word stands for a space.
fn same(both: &mut Both, lines: &str) {
    let mut others: BTreeMap<&str, [Client; 2]> = BTreeMap::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (who, request) = line.split_once(' ').expect("a connection and a request");
        let words: Vec<String> = request.split(' ').map(|word| word.replace('_', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let replies = if who == "m" {
            both.ask(&words)
        } else {
            let clients = others.entry(who).or_insert_with(|| both.others());
            clients.each_mut().map(|client| client.call(&words).unwrap_or(RespValue::Simple(b"closed".to_vec())))
        };
        assert_eq!(replies[0], replies[1], "{line}");
    }
}

fn with_clients(lines: &str) {
    with_peer(|both| {
        // The round in the other protocol has left some.
        for line in ["FLUSHALL", "ACL DELUSER u v w", "ACL LOG RESET", "ACL SETUSER default on nopass"] {
            both.ask(&line.split(' ').collect::<Vec<_>>());
        }
        same(both, lines);
    });
}

#[test]
fn users_are_made_changed_and_described_alike() {
    with_clients(
        "m ACL WHOAMI
         m ACL SETUSER a_a
         m ACL SETUSER u
         m ACL LIST
         m ACL SETUSER u reset
         m ACL LIST
         m ACL SETUSER u on >p ~a* %R~b* %W~c* %RW~d* &c +get
         m ACL LIST
         m ACL GETUSER u
         m ACL USERS
         m ACL GETUSER nobody
         m ACL SETUSER u ~*
         m ACL SETUSER u ~x
         m ACL SETUSER u %R~x
         m ACL SETUSER u resetkeys &a
         m ACL SETUSER u allchannels
         m ACL SETUSER u &b
         m ACL SETUSER u +nosuch
         m ACL SETUSER u +@nosuch
         m ACL SETUSER u foo
         m ACL SETUSER u %~x
         m ACL SETUSER u %Q~x
         m ACL SETUSER u <nopassword
         m ACL SETUSER u !12
         m ACL SETUSER u #12
         m ACL SETUSER u +config|get|x
         m ACL SETUSER u +config|nosuch
         m ACL SETUSER u +get|
         m ACL SETUSER u -get|x
         m ACL SETUSER u (~a
         m ACL SETUSER u (~a +get)
         m ACL SETUSER u (~a_+get_)
         m ACL SETUSER u _()
         m ACL SETUSER u )
         m ACL SETUSER u (+nosuch)
         m ACL SETUSER u (&*_&fail)
         m ACL SETUSER u ~a_b
         m ACL GETUSER u
         m ACL SETUSER u clearselectors nopass
         m ACL LIST
         m ACL SETUSER v skip-sanitize-payload allcommands allkeys -@dangerous -config +config|get
         m ACL SETUSER w +@hash -hset +@connection
         m ACL LIST
         m ACL SETUSER w reset +@all -@slow
         m ACL SETUSER v reset +select|0 +SELECT|1 +select|0
         m ACL DELUSER default
         m ACL DELUSER nobody u",
    );
}

#[test]
fn rights_are_asked_for_alike() {
    with_clients(
        "m ACL SETUSER u on nopass +@all -@scripting ~a* %R~b* %W~c* %RW~d* &c*
         1 AUTH u x
         1 GET b
         1 SET b 1
         1 SET c 1
         1 SET c 1 GET
         1 MSET a 1 c 2 d 3
         1 MSET a 1 b 2
         1 MGET a c
         1 COPY b c
         1 COPY c b
         1 RENAME b c
         1 EXISTS a b c d e
         1 SORT a BY x* GET #
         1 SORT_RO a GET x*
         1 SORT a BY nosort GET x*
         1 SORT b STORE b
         1 GEORADIUS b 1 1 1 m STORE b
         1 PUBLISH d m
         1 SPUBLISH d m
         1 PUBLISH c1 m
         1 SUBSCRIBE d
         1 PSUBSCRIBE c1*
         1 SSUBSCRIBE d
         1 MULTI
         1 GET x
         1 GET a
         1 EXEC
         1 NOSUCH
         1 GET
         1 CONFIG NOSUCH
         m ACL SETUSER u -@all +select|0 +config|get +acl|whoami
         1 SELECT 0
         1 SELECT 1
         1 CONFIG GET port1
         1 CONFIG SET port1 x
         1 CONFIG HELP
         1 ACL WHOAMI
         1 ACL LIST
         1 EXEC
         1 MULTI
         1 AUTH u
         1 AUTH u x y
         1 RESET
         1 ACL WHOAMI",
    );
}

#[test]
fn dry_runs_the_log_and_the_rest_answer_alike() {
    with_clients(
        "m ACL SETUSER v on nopass +@all -get -@scripting ~k* %R~r* &c
         m ACL DRYRUN nobody get k
         m ACL DRYRUN v nosuch k
         m ACL DRYRUN v get
         m ACL DRYRUN v get k
         m ACL DRYRUN v set x y
         m ACL DRYRUN v set k y
         m ACL DRYRUN v publish d m
         m ACL DRYRUN v config get
         m ACL DRYRUN v config get x
         m ACL DRYRUN v config nosuch x
         m ACL DRYRUN v sort k store kx
         m ACL DRYRUN v sort r store r
         m ACL DRYRUN v migrate h p  0 1 AUTH2 KEYS KEYS KEYS y
         m ACL DRYRUN v bitfield r get u4 0
         m ACL DRYRUN v bitfield r set u4 0 1
         m ACL LOG nonsense
         m ACL LOG RESET
         m ACL LOG
         m ACL LOG 1 2
         m ACL GENPASS 0
         m ACL GENPASS 4097
         m ACL GENPASS x
         m ACL GENPASS 1 2
         m ACL CAT nosuch
         m ACL CAT a b
         m ACL NOSUCH
         m ACL HELP x
         m ACL LOAD
         m ACL SAVE
         m ACL SETUSER default off
         1 PING
         1 AUTH x
         1 HELLO 3
         1 HELLO 2 AUTH v x SETNAME
         1 HELLO 2 AUTH nobody x
         1 PING
         m ACL SETUSER default on >x resetpass >y
         2 AUTH x
         2 AUTH default y
         m ACL SETUSER default nopass
         m CLIENT KILL USER nobody
         3 AUTH v x
         m CLIENT KILL USER v
         3 PING
         4 AUTH v x
         m ACL DELUSER v
         4 PING",
    );
}

/// The log has the same fields, but for the connection's own.
#[test]
fn the_log_tells_of_the_same_requests() {
    with_peer(|both| {
        for line in ["ACL LOG RESET", "ACL DELUSER u", "ACL SETUSER u on >p +get +mget +multi +exec +publish ~a &c"] {
            both.ask(&line.split(' ').collect::<Vec<_>>());
        }
        for mut client in both.others() {
            let requests = "AUTH u no|HELLO 2 AUTH nobody x|AUTH u p|SET a 1|SET a 1|GET b|MGET a x|PUBLISH d m|MULTI|INCR x|EXEC|CONFIG GET x";
            requests.split('|').for_each(|line| _ = client.cmd(line));
        }
        let log = |value: RespValue| -> Vec<String> {
            let entries = format!("{value:?}");
            let cut = |entry: &str| entry.split("age-seconds").next().unwrap_or_default().to_owned();
            entries
                .split("client-info")
                .map(|entry| entry.find("count").map_or(String::new(), |at| cut(&entry[at..])))
                .collect()
        };
        let [ours, peer] = both.ask(&["ACL", "LOG"]).map(log);
        assert_eq!(ours, peer);
        assert_eq!(ours.len(), 9, "eight entries: {ours:?}");
    });
}

/// Commands that ask whether something is there need any right to the key; those that answer what is there need to read it.
#[test]
fn kinds_of_use_are_told_apart_alike() {
    let mut lines = String::from("m ACL SETUSER u on nopass +@all %R~read* %W~write* %RW~rw*\n");
    for request in [
        "HEXISTS K f",
        "HSTRLEN K f",
        "SISMEMBER K m",
        "SINTERCARD 2 K read",
        "ZCOUNT K 0 1",
        "PFCOUNT K read",
        "ZINTERCARD 2 K read",
        "TOUCH K",
        "EXISTS K",
        "MEMORY USAGE K",
        "TYPE K",
        "STRLEN K",
        "LLEN K",
        "XLEN K",
        "LPUSH K x",
        "GETDEL K",
        "SET K x",
        "SET K x GET",
        "BITFIELD K GET u4 0",
        "BITFIELD K SET u4 0 1",
        "SORT K STORE write",
        "GEORADIUS K 1 1 1 m STOREDIST write",
        "MIGRATE h 1 K 0 500",
        "MIGRATE h 1  0 500 AUTH KEYS KEYS K",
        "RENAME K rw",
        "LMOVE K rw LEFT LEFT",
        "OBJECT FREQ K",
        "DUMP K",
        "EXPIRE K 1",
    ] {
        for key in ["read1", "write1", "rw1", "nothing"] {
            lines.push_str(&format!(
                "m ACL DRYRUN u {}\n",
                request.replace('K', key).replace(&format!("{key}EYS"), "KEYS")
            ));
        }
    }
    with_clients(&lines);
}
