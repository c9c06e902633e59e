//! MULTI, EXEC, DISCARD, WATCH, UNWATCH and keyspace events, through the executor: several sessions on one worker, and
//! two workers that are stepped.

use crate::common::Server;
use varve_exec::checks::{Denied, ReplicaRules};
use varve_exec::pause::Pause;
use varve_protocol::Resp;

fn server() -> Server {
    Server::new(Resp::V2)
}

/// Runs a line of words as session `who`; its reply as text.
fn say(server: &mut Server, who: usize, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    String::from_utf8_lossy(&server.run_as(who, &words)).replace("\r\n", " ").trim_end().to_owned()
}

/// Runs lines `reply <- [session:] command`, from a script.
fn play(server: &mut Server, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, reply) = line.split_once(" ->").unwrap_or_else(|| panic!("no reply in: {line}"));
        let reply = reply.trim_start();
        match command.strip_prefix("+") {
            Some(ms) => server.advance(ms.parse().unwrap()),
            None => {
                let (who, command) = match command.strip_prefix("b: ") {
                    Some(command) => (1, command),
                    None => (0, command),
                };
                assert_eq!(say(server, who, command), reply, "{line}");
            }
        }
    }
}

#[test]
fn commands_wait_for_exec() {
    play(
        &mut server(),
        "MULTI -> +OK
         SET a 1 -> +QUEUED
         b: GET a -> $-1
         INCR a -> +QUEUED
         GET a -> +QUEUED
         EXEC -> *3 +OK :2 $1 2
         EXEC -> -ERR EXEC without MULTI
         DISCARD -> -ERR DISCARD without MULTI
         MULTI -> +OK
         EXEC -> *0
         MULTI -> +OK
         SET a 9 -> +QUEUED
         DISCARD -> +OK
         GET a -> $1 2",
    );
}

#[test]
fn errors_while_queueing_spoil_and_errors_while_running_do_not() {
    play(
        &mut server(),
        "MULTI -> +OK
         NOSUCH -> -ERR unknown command 'NOSUCH', with args beginning with:
         SET a 1 -> +QUEUED
         EXEC -> -EXECABORT Transaction discarded because of previous errors.
         EXISTS a -> :0
         MULTI -> +OK
         GET -> -ERR wrong number of arguments for 'get' command
         EXEC -> -EXECABORT Transaction discarded because of previous errors.
         MULTI -> +OK
         MULTI -> -ERR MULTI calls can not be nested
         WATCH a -> -ERR WATCH inside MULTI is not allowed
         SET a x -> +QUEUED
         INCR a -> +QUEUED
         SET a 7 -> +QUEUED
         EXEC -> *3 +OK -ERR value is not an integer or out of range +OK
         GET a -> $1 7
         MULTI -> +OK
         EXEC a -> -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
         EXEC -> -ERR EXEC without MULTI
         EXEC a -> -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
         MULTI -> +OK
         MULTI a -> -ERR wrong number of arguments for 'multi' command
         EXEC -> -EXECABORT Transaction discarded because of previous errors.",
    );
}

#[test]
fn select_holds_for_the_commands_behind_it() {
    play(
        &mut server(),
        "MULTI -> +OK
         SELECT 3 -> +QUEUED
         SET s 1 -> +QUEUED
         SELECT 0 -> +QUEUED
         GET s -> +QUEUED
         SELECT 99 -> +QUEUED
         SELECT 3 -> +QUEUED
         GET s -> +QUEUED
         EXEC -> *7 +OK +OK +OK $-1 -ERR DB index is out of range +OK $1 1
         GET s -> $1 1
         SELECT 0 -> +OK
         GET s -> $-1",
    );
    // In one pipeline, hashes of what stands behind EXEC are not those of the database before it.
    let mut server = server();
    let reply = server.send(&mut b"MULTI\r\nSELECT 2\r\nSET k v\r\nEXEC\r\nGET k\r\nSELECT 0\r\nGET k\r\n".to_vec());
    assert_eq!(reply, b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n$1\r\nv\r\n+OK\r\n$-1\r\n");
}

#[test]
fn commands_of_many_keys_find_them() {
    play(
        &mut server(),
        "MULTI -> +OK
         SADD s 1 2 3 -> +QUEUED
         SADD t 2 3 4 -> +QUEUED
         SELECT 1 -> +QUEUED
         SADD s 7 -> +QUEUED
         SUNIONSTORE u s t -> +QUEUED
         SELECT 0 -> +QUEUED
         SINTERSTORE u s t -> +QUEUED
         ZADD y 1 a 2 b -> +QUEUED
         ZADD x 1 a 2 c -> +QUEUED
         ZUNIONSTORE z 2 x y -> +QUEUED
         ZINTERCARD x y -> +QUEUED
         EXEC -> *11 :3 :3 +OK :1 :1 +OK :2 :2 :2 :3 -ERR value is not an integer or out of range
         SMEMBERS u -> *2 $1 2 $1 3",
    );
}

#[test]
fn what_needs_the_whole_keyspace_runs_in_its_place() {
    play(
        &mut server(),
        "MULTI -> +OK
         SET a 1 -> +QUEUED
         DBSIZE -> +QUEUED
         KEYS * -> +QUEUED
         SELECT 1 -> +QUEUED
         DBSIZE -> +QUEUED
         SWAPDB 0 1 -> +QUEUED
         GET a -> +QUEUED
         FLUSHALL -> +QUEUED
         GET a -> +QUEUED
         SET a 2 -> +QUEUED
         UNWATCH -> +QUEUED
         EXEC -> *11 +OK :1 *1 $1 a +OK :0 +OK $1 1 +OK $-1 +OK +OK
         DBSIZE -> :1
         GET a -> $1 2",
    );
}

#[test]
fn a_watched_key_that_changes_makes_exec_do_nothing() {
    for (change, reply) in [
        ("SET w 2", "+OK"),
        ("SET w 1", "+OK"),
        ("APPEND w x", ":2"),
        ("INCR w", ":2"),
        ("SETRANGE w 0 5", ":1"),
        ("DEL w", ":1"),
        ("UNLINK w", ":1"),
        ("EXPIRE w 100", ":1"),
        ("RENAME w v", "+OK"),
        ("RENAME v w", "+OK"),
        ("COPY v w REPLACE", ":1"),
        ("MOVE w 5", ":1"),
        ("GETDEL w", "$1 1"),
        ("GETEX w EX 100", "$1 1"),
        ("FLUSHDB", "+OK"),
        ("FLUSHALL", "+OK"),
        ("SWAPDB 0 1", "+OK"),
        ("MSET x 1 w 1", "+OK"),
        ("LPUSH l a", ":3"),
        ("LPOP l", "$1 a"),
        ("LSET l 0 a", "+OK"),
        ("LTRIM l 0 -1", "+OK"),
        ("HSET h a 2", ":0"),
        ("HDEL h a", ":1"),
        ("HINCRBY h a 1", ":2"),
    ] {
        let mut server = server();
        play(
            &mut server,
            "SET w 1 -> +OK\nb: SET v 3 -> +OK\nHSET h a 1 -> :1\nRPUSH l a b -> :2\nWATCH u w h l -> +OK",
        );
        assert_eq!(say(&mut server, 1, change), reply, "{change}");
        play(&mut server, "MULTI -> +OK\nSET done 1 -> +QUEUED\nEXEC -> *-1\nMULTI -> +OK\nPING -> +QUEUED");
        play(&mut server, "EXEC -> *1 +PONG\nEXISTS done -> :0");
        assert_eq!(server.watched_keys(), 0, "{change}");
    }
}

#[test]
fn what_leaves_a_watched_key_as_it_is_lets_exec_run() {
    for (other, reply) in [
        ("GET w", "$1 1"),
        ("SETNX w 2", ":0"),
        ("PERSIST w", ":0"),
        ("GETEX w", "$1 1"),
        ("RENAME w w", "+OK"),
        ("DEL nothing", ":0"),
        ("SET other 1", "+OK"),
        ("TOUCH w", ":1"),
        ("SWAPDB 3 4", "+OK"),
        ("COPY w x", ":1"),
    ] {
        let mut server = server();
        play(&mut server, "SET w 1 -> +OK\nWATCH w -> +OK");
        assert_eq!(say(&mut server, 1, other), reply, "{other}");
        play(&mut server, "MULTI -> +OK\nSET done 1 -> +QUEUED\nEXEC -> *1 +OK");
        assert_eq!(server.watched_keys(), 0);
    }
}

#[test]
fn a_set_that_has_the_member_already_is_not_touched_by_smove() {
    let mut server = server();
    play(&mut server, "SADD s a b -> :2\nSADD w a -> :1\nWATCH w -> +OK\nb: SMOVE s w a -> :1");
    play(&mut server, "MULTI -> +OK\nSET done 1 -> +QUEUED\nEXEC -> *1 +OK");
    play(&mut server, "WATCH w -> +OK\nb: SMOVE s w b -> :1\nMULTI -> +OK\nSET done 2 -> +QUEUED\nEXEC -> *-1");
}

#[test]
fn a_watch_ends_with_exec_discard_and_unwatch() {
    play(
        &mut server(),
        "SET w 1 -> +OK
         WATCH w -> +OK
         MULTI -> +OK
         DISCARD -> +OK
         b: SET w 2 -> +OK
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *1 +PONG
         WATCH w -> +OK
         b: SET w 3 -> +OK
         UNWATCH -> +OK
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *1 +PONG
         WATCH w -> +OK
         b: SET w 4 -> +OK
         WATCH v -> +OK
         MULTI -> +OK
         NOSUCH -> -ERR unknown command 'NOSUCH', with args beginning with:
         EXEC -> -EXECABORT Transaction discarded because of previous errors.
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *1 +PONG
         WATCH w -> +OK
         SET w mine -> +OK
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *-1
         WATCH w w w -> +OK
         MULTI -> +OK
         SET w 1 -> +QUEUED
         EXEC -> *1 +OK",
    );
}

#[test]
fn a_watched_key_belongs_to_its_database() {
    play(
        &mut server(),
        "SELECT 1 -> +OK
         WATCH w -> +OK
         SELECT 0 -> +OK
         SET w 9 -> +OK
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *1 +PONG
         SELECT 1 -> +OK
         WATCH w -> +OK
         SELECT 0 -> +OK
         b: SELECT 1 -> +OK
         b: SET w 9 -> +OK
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *-1",
    );
}

#[test]
fn exchanged_and_emptied_databases_carry_their_watchers_along() {
    // Absent in both: nothing changes, but what comes later in the watched database does.
    let absent = "WATCH w -> +OK\nb: SET x 1 -> +OK\nb: SWAPDB 0 1 -> +OK\n";
    play(&mut server(), &format!("{absent}MULTI -> +OK\nPING -> +QUEUED\nEXEC -> *1 +PONG"));
    play(&mut server(), &format!("{absent}b: SET w 1 -> +OK\nMULTI -> +OK\nPING -> +QUEUED\nEXEC -> *-1"));
    let there = "b: SELECT 1 -> +OK\nb: SET w 1 -> +OK\nWATCH w -> +OK\nb: SWAPDB 0 1 -> +OK\n";
    play(&mut server(), &format!("{there}MULTI -> +OK\nPING -> +QUEUED\nEXEC -> *-1"));
    // Its time has come in the database that takes the place: as absent as before.
    let expired = "b: SELECT 1 -> +OK\nb: SET w 1 PX 10 -> +OK\nWATCH w -> +OK\n+20 -> \nb: SWAPDB 0 1 -> +OK\n";
    play(&mut server(), &format!("{expired}MULTI -> +OK\nPING -> +QUEUED\nEXEC -> *1 +PONG"));
    let emptied = "b: SELECT 1 -> +OK\nb: SET x 1 -> +OK\nSET y 1 -> +OK\nWATCH w -> +OK\nFLUSHDB -> +OK\n";
    play(&mut server(), &format!("{emptied}MULTI -> +OK\nPING -> +QUEUED\nEXEC -> *1 +PONG"));
    play(&mut server(), &format!("{emptied}SET w 1 -> +OK\nMULTI -> +OK\nPING -> +QUEUED\nEXEC -> *-1"));
}

#[test]
fn time_changes_watched_keys_too() {
    play(
        &mut server(),
        "SET w 1 PX 100 -> +OK
         WATCH w -> +OK
         +50 -> 
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *1 +PONG
         WATCH w -> +OK
         +51 -> 
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *-1
         SET w 1 PX 100 -> +OK
         WATCH w -> +OK
         +101 -> 
         b: GET w -> $-1
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *-1
         SET w 1 PX 100 -> +OK
         +101 -> 
         WATCH w -> +OK
         b: DEL w -> :0
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *1 +PONG
         SET w 1 PX 100 -> +OK
         +101 -> 
         WATCH w -> +OK
         b: SET w 2 -> +OK
         MULTI -> +OK
         PING -> +QUEUED
         EXEC -> *-1",
    );
    // A key that the background removes.
    let mut server = server();
    play(&mut server, "SET w 1 PX 100 -> +OK\nWATCH w -> +OK\n+200 -> ");
    server.background();
    play(&mut server, "MULTI -> +OK\nPING -> +QUEUED\nEXEC -> *-1");
}

#[test]
fn memory_at_its_limit_refuses_as_redis_does() {
    let mut server = server();
    play(&mut server, "SET o 1 -> +OK\nMULTI -> +OK\nSET o 2 -> +QUEUED");
    server.set_limit(1);
    play(
        &mut server,
        "EXEC -> -EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.
         EXEC -> -ERR EXEC without MULTI
         MULTI -> +OK
         GET o -> -OOM command not allowed when used memory > 'maxmemory'.
         EXEC -> -EXECABORT Transaction discarded because of previous errors.
         GET o -> $1 1",
    );
}

#[test]
fn a_session_that_ends_leaves_nothing_behind() {
    let mut server = server();
    play(&mut server, "WATCH a b c -> +OK\nb: WATCH a -> +OK");
    assert_eq!(server.watched_keys(), 3);
    server.end_session(0);
    assert_eq!(server.watched_keys(), 1);
    server.end_session(1);
    assert_eq!(server.watched_keys(), 0);
}

#[test]
fn large_transactions_run_whole() {
    let mut server = server();
    let mut input = b"MULTI\r\n".to_vec();
    for n in 0..5000 {
        input.extend_from_slice(format!("SET key:{n} {n}\r\n").as_bytes());
    }
    input.extend_from_slice(b"EXEC\r\nDBSIZE\r\n");
    let reply = server.send(&mut input);
    let tail = String::from_utf8_lossy(&reply[reply.len() - 40..]).into_owned();
    assert!(tail.ends_with("+OK\r\n:5000\r\n"), "{tail}");
    assert!(reply.windows(7).any(|part| part == b"*5000\r\n"));
}

#[test]
fn events_tell_what_happened_in_order() {
    let mut server = server();
    server.notify("KEA");
    play(&mut server, "SET a 1 EX 100 -> +OK\nINCR a -> :2\nDEL a -> :1\nSELECT 2 -> +OK\nAPPEND b x -> :1");
    assert_eq!(
        server.events(),
        [
            "__keyspace@0__:a set",
            "__keyevent@0__:set a",
            "__keyspace@0__:a expire",
            "__keyevent@0__:expire a",
            "__keyspace@0__:a incrby",
            "__keyevent@0__:incrby a",
            "__keyspace@0__:a del",
            "__keyevent@0__:del a",
            "__keyspace@2__:b append",
            "__keyevent@2__:append b",
        ]
    );
    server.notify("");
    play(&mut server, "SET a 1 -> +OK");
    assert!(server.events().is_empty());
}

/// Events on the events' channels, as `db event key`, that each command leads to.
#[test]
fn each_command_has_its_events() {
    for (commands, expected) in [
        ("SET k v", "0 set k"),
        ("SETEX k 100 v", "0 set k, 0 expire k"),
        ("PSETEX k 100 v", "0 set k, 0 expire k"),
        ("SETNX k v", "0 set k"),
        ("SET k v NX", "0 set k"),
        ("SET k v XX", ""),
        ("GETSET k v", "0 set k"),
        ("MSET k 1 l 2", "0 set k, 0 set l"),
        ("MSETNX k 1 l 2", "0 set k, 0 set l"),
        ("SETRANGE k 2 v", "0 setrange k"),
        ("SETRANGE k 0 ", ""),
        ("INCRBYFLOAT k 1.5", "0 incrbyfloat k"),
        ("DECR k", "0 incrby k"),
        ("SET k v|GETDEL k", "0 set k, 0 del k"),
        ("SET k v|GETEX k EX 10", "0 set k, 0 expire k"),
        ("SET k v EX 9|GETEX k PERSIST", "0 set k, 0 expire k, 0 persist k"),
        ("SET k v|GETEX k PERSIST", "0 set k"),
        ("SET k v|GETEX k PXAT 1", "0 set k, 0 del k"),
        ("SET k v|EXPIRE k 10|PERSIST k", "0 set k, 0 expire k, 0 persist k"),
        ("SET k v|EXPIRE k -1", "0 set k, 0 del k"),
        ("SET k v|UNLINK k l", "0 set k, 0 del k"),
        ("SET k v|RENAME k l", "0 set k, 0 rename_from k, 0 rename_to l"),
        ("SET k v|RENAMENX k l", "0 set k, 0 rename_from k, 0 rename_to l"),
        ("SET k v|RENAME k k", "0 set k"),
        ("SET k v|COPY k l DB 3", "0 set k, 3 copy_to l"),
        ("SET k v|MOVE k 4", "0 set k, 0 move_from k, 4 move_to k"),
        ("HSET h a 1 b 2|HINCRBY h a 1|HINCRBYFLOAT h a 1", "0 hset h, 0 hincrby h, 0 hincrbyfloat h"),
        ("HSET h a 1 b 2|HDEL h a x|HDEL h x", "0 hset h, 0 hdel h"),
        ("RPUSH l a b c|LPUSH l d|LPUSHX m x", "0 rpush l, 0 lpush l"),
        ("RPUSH l a b c|LPOP l 0|LPOP l|RPOP l 5", "0 rpush l, 0 lpop l, 0 rpop l, 0 del l"),
        ("RPUSH l a b|LSET l 0 x|LINSERT l BEFORE b y", "0 rpush l, 0 lset l, 0 linsert l"),
        ("RPUSH l a b|LREM l 0 q|LREM l 0 a|LREM l 0 b", "0 rpush l, 0 lrem l, 0 lrem l, 0 del l"),
        ("RPUSH l a b|LTRIM l 0 -1|LTRIM l 5 6|LTRIM l 0 1", "0 rpush l, 0 ltrim l, 0 ltrim l, 0 del l"),
        (
            "RPUSH l a|RPOPLPUSH l l|LMOVE l m LEFT RIGHT",
            "0 rpush l, 0 lpush l, 0 rpop l, 0 rpush m, 0 lpop l, 0 del l",
        ),
        ("RPUSH l a b|LMPOP 2 m l RIGHT COUNT 2", "0 rpush l, 0 rpop l, 0 del l"),
        ("SADD s a b|SADD s a|SREM s x|SREM s a b", "0 sadd s, 0 srem s, 0 del s"),
        ("SADD s a|SPOP s|SPOP s", "0 sadd s, 0 spop s, 0 del s"),
        ("SADD s a b|SMOVE s t a|SMOVE s t x|SPOP s 2", "0 sadd s, 0 srem s, 0 sadd t, 0 spop s, 0 del s"),
        ("SADD s a|SUNIONSTORE t s|SINTERSTORE t s q|SDIFFSTORE t q", "0 sadd s, 0 sunionstore t, 0 del t"),
        ("ZADD z 1 a 2 b|ZADD z 1 a|ZINCRBY z 1 a|ZREM z x|ZREM z a b", "0 zadd z, 0 zincr z, 0 zrem z, 0 del z"),
        (
            "ZADD z 1 a 2 b 3 c|ZREMRANGEBYRANK z 0 0|ZREMRANGEBYSCORE z 2 2|ZREMRANGEBYLEX z - +",
            "0 zadd z, 0 zremrangebyrank z, 0 zremrangebyscore z, 0 zremrangebylex z, 0 del z",
        ),
        (
            "ZADD z 1 a 2 b 3 c|ZPOPMIN z|ZPOPMAX z|ZMPOP 1 z MIN",
            "0 zadd z, 0 zpopmin z, 0 zpopmax z, 0 zpopmin z, 0 del z",
        ),
        (
            "ZADD z 1 a|ZUNIONSTORE y 1 z|ZRANGESTORE x z 0 -1|ZINTERSTORE y 2 z q",
            "0 zadd z, 0 zunionstore y, 0 zrangestore x, 0 del y",
        ),
        ("HSETNX h a 1|HSETNX h a 2|HDEL h a", "0 hset h, 0 hdel h, 0 del h"),
        ("RPUSH l b a|SORT l ALPHA STORE m|SORT q STORE m|SORT q STORE m", "0 rpush l, 0 sortstore m, 0 del m"),
    ] {
        let mut server = server();
        server.notify("EA");
        for command in commands.split('|') {
            let reply = say(&mut server, 0, command);
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
        let told: Vec<String> = server.events().iter().map(|event| shorten(event)).collect();
        assert_eq!(told.join(", "), expected, "{commands}");
    }
}

fn shorten(event: &str) -> String {
    event.trim_start_matches("__keyevent@").replace("__:", " ")
}

/// A key that is replaced, or that is over as soon as it is set, is new where redis-server says so.
#[test]
fn keys_that_replace_others_and_keys_that_are_over_at_once_are_new() {
    for (commands, expected) in [
        ("SET k 1 EXAT 1", "0 new k, 0 set k, 0 expire k, 0 expired k"),
        ("SET k 1 PXAT 1 GET", "0 new k, 0 set k, 0 expire k, 0 expired k"),
        ("SET k 1|SET k 1 EXAT 1", "0 new k, 0 set k, 0 set k, 0 expire k, 0 expired k"),
        ("SET k 1|SET l 1|COPY k l REPLACE", "0 new k, 0 set k, 0 new l, 0 set l, 0 new l, 0 copy_to l"),
        ("SET k 1|COPY k l REPLACE", "0 new k, 0 set k, 0 new l, 0 copy_to l"),
        ("HSET h a 1|COPY h i|COPY h i REPLACE", "0 new h, 0 hset h, 0 new i, 0 copy_to i, 0 new i, 0 copy_to i"),
        (
            "HSET h a 1|COPY h h DB 1|COPY h h DB 1 REPLACE",
            "0 new h, 0 hset h, 1 new h, 1 copy_to h, 1 new h, 1 copy_to h",
        ),
    ] {
        let mut server = server();
        server.notify("EAn");
        for command in commands.split('|') {
            let reply = say(&mut server, 0, command);
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
        let told: Vec<String> = server.events().iter().map(|event| shorten(event)).collect();
        assert_eq!(told.join(", "), expected, "{commands}");
    }
}

#[test]
fn misses_and_new_keys_are_told_where_they_are_wanted() {
    let mut server = server();
    server.notify("Emn");
    for command in
        ["GET k", "SET k v", "SET k w", "EXISTS l", "TTL l", "TYPE l", "RENAME k l", "GETEX m", "STRLEN m", "SORT n"]
    {
        say(&mut server, 0, command);
    }
    let told: Vec<String> = server.events().iter().map(|event| shorten(event)).collect();
    let misses = "0 keymiss l, 0 keymiss l, 0 keymiss l";
    assert_eq!(
        told.join(", "),
        format!("0 keymiss k, 0 new k, {misses}, 0 new l, 0 keymiss m, 0 keymiss m, 0 keymiss n")
    );
}

#[test]
fn keys_whose_time_has_come_are_told() {
    let mut server = server();
    server.notify("Ex");
    play(&mut server, "SET k v PX 10 -> +OK\nSET l v PX 10 -> +OK\nSELECT 3 -> +OK\nSET m v PX 10 -> +OK\n+20 -> ");
    play(&mut server, "SELECT 0 -> +OK\nGET k -> $-1");
    assert_eq!(server.events(), ["__keyevent@0__:expired k"]);
    server.background();
    let mut told = server.events();
    told.sort();
    assert_eq!(told, ["__keyevent@0__:expired l", "__keyevent@3__:expired m"]);
}

/// More fields are due than one hold of the shards removes: EXEC is put back until few are, and its commands see none.
#[test]
fn a_transaction_that_meets_many_due_fields_is_put_back() {
    put_back(&["HLEN hash", "HSET hash another 1", "HGET hash field:7"], b"*3\r\n:1\r\n:1\r\n$-1\r\n");
    // With a command on the whole keyspace it runs alone behind the gate.
    put_back(&["HLEN hash", "KEYS none", "HSET hash another 1"], b"*3\r\n:1\r\n*0\r\n:1\r\n");
    put_back(&["KEYS none", "HLEN hash", "HSET hash another 1"], b"*3\r\n*0\r\n:1\r\n:1\r\n");
    put_back(&["SELECT 0", "HLEN hash", "HSET hash another 1"], b"*3\r\n+OK\r\n:1\r\n:1\r\n");
}

/// Some thousand hashes of which each is cleared at once: a bound for each command would be none for their transaction.
#[test]
fn a_transaction_that_meets_many_hashes_with_due_fields_is_put_back() {
    const HASHES: usize = 60;
    let mut server = server();
    let fields: Vec<String> = (0..2000).map(|n| format!("field:{n}")).collect();
    for hash in 0..HASHES {
        say(&mut server, 0, &format!("HSET hash:{hash} stays 1 {} v", fields.join(" v ")));
        say(&mut server, 0, &format!("HPEXPIRE hash:{hash} 10 FIELDS 2000 {}", fields.join(" ")));
    }
    server.advance(12);
    say(&mut server, 0, "MULTI");
    (0..HASHES).for_each(|hash| _ = say(&mut server, 0, &format!("HLEN hash:{hash}")));
    let (times, reply) = server.run_put_back(&[b"EXEC"]);
    assert!(times > 3, "put back {times} times");
    assert_eq!(reply, format!("*{HASHES}\r\n{}", ":1\r\n".repeat(HASHES)).into_bytes());
}

/// A replica, and a server whose writes are paused, must remove nothing of its own accord. A watched key whose time has come is as
/// good as touched nevertheless, but not one whose time had come before: it is as good as absent, then and now.
#[test]
fn a_transaction_removes_nothing_that_is_overdue_where_nothing_may_change() {
    let replica = Denied { replica: Some(ReplicaRules { read_only: true, hides_stale: false }), ..Denied::NONE };
    for (pause, denied) in [(Pause::Writes, Denied::NONE), (Pause::None, replica)] {
        for (line, reply) in [("GET other", "$-1"), ("KEYS none", "*0")] {
            let mut server = server();
            play(&mut server, "SET early 1 PX 5 -> +OK\nSET late 1 PX 20 -> +OK\nHSET hash f v stays v -> :2");
            play(&mut server, "HPEXPIRE hash 20 FIELDS 1 f -> *1 :1\n+10 -> ");
            let journal = server.keep_effects();
            server.restrain(pause, denied);
            play(&mut server, "WATCH early -> +OK\nb: WATCH late -> +OK\n+20 -> ");
            for (who, wanted) in [(0, format!("*2 {reply} :2")), (1, "*-1".into())] {
                let last = ["MULTI", line, "HLEN hash", "EXEC"].map(|line| say(&mut server, who, line))[3].clone();
                assert_eq!(last, wanted, "{line}, session {who}");
            }
            assert!(journal.take().is_empty(), "{line}: nothing may change");
        }
    }
}

/// A key that was overdue when it was watched was absent: that it goes is no change, whatever takes it away.
#[test]
fn issue_11_a_key_that_was_overdue_when_it_was_watched_may_go() {
    for (line, runs) in [
        ("GET early", true),
        ("DEL early", true),
        ("FLUSHDB", true),
        ("FLUSHALL", true),
        ("SWAPDB 0 1", true),
        ("SWAPDB 0 2", false),
        ("SET early 2", false),
        ("RENAME other early", false),
    ] {
        let mut server = server();
        play(&mut server, "SET early 1 PX 5 -> +OK\nSET other 1 -> +OK");
        play(&mut server, "SELECT 2 -> +OK\nSET early 2 -> +OK\nSELECT 0 -> +OK");
        server.advance(10);
        server.restrain(Pause::Writes, Denied::NONE);
        play(&mut server, "b: WATCH early -> +OK");
        server.restrain(Pause::None, Denied::NONE);
        say(&mut server, 0, line);
        let last = ["MULTI", "PING", "EXEC"].map(|line| say(&mut server, 1, line))[2].clone();
        assert_eq!(last, if runs { "*1 +PONG" } else { "*-1" }, "{line}");
        assert_eq!(server.watched_keys(), 0, "{line}");
        say(&mut server, 0, "DEBUG VERIFY");
    }
}

/// SWAPDB removed an overdue key that came to the place of a watched one, and told nobody: a file and a replica met it again.
#[test]
fn issue_11_an_overdue_key_that_comes_to_a_watched_place_is_told_of_when_it_goes() {
    let mut server = server();
    play(&mut server, "SELECT 1 -> +OK\nSET k old PX 5 -> +OK\nSELECT 0 -> +OK\nb: WATCH k -> +OK\n+10 -> ");
    let journal = server.keep_effects();
    play(&mut server, "SWAPDB 0 1 -> +OK\nb: MULTI -> +OK\nb: PING -> +QUEUED\nb: EXEC -> *1 +PONG\nSETNX k new -> :1");
    let told: Vec<String> = journal.take().concat();
    assert_eq!(told, ["SWAPDB 0 1", "DEL k", "SETNX k new"]);
}

fn put_back(lines: &[&str], wanted: &[u8]) {
    let mut server = server();
    let journal = server.keep_effects();
    let names: Vec<String> = (0..20_000).map(|n| format!("field:{n}")).collect();
    let pairs = ["HSET", "hash", "stays", "1"].into_iter().chain(names.iter().flat_map(|name| [name.as_str(), "v"]));
    server.run(&pairs.map(str::as_bytes).collect::<Vec<_>>());
    let words = ["HPEXPIRE", "hash", "10", "FIELDS", "20000"].into_iter().chain(names.iter().map(String::as_str));
    server.run(&words.map(str::as_bytes).collect::<Vec<_>>());
    server.advance(20);
    say(&mut server, 0, "MULTI");
    lines.iter().for_each(|line| _ = say(&mut server, 0, line));
    journal.take();
    let (times, reply) = server.run_put_back(&[b"EXEC"]);
    assert!(times > 3, "put back {times} times");
    assert_eq!(reply, wanted);
    let units = journal.take();
    assert_eq!(units.last(), Some(&vec!["HSET hash another 1".to_string()]), "the transaction's own unit comes last");
    let gone: usize = units.iter().flatten().filter(|line| line.starts_with("HDEL hash")).count();
    assert!(gone > 3, "{gone} effects of the fields' end");
    say(&mut server, 0, "DEBUG VERIFY");
}
