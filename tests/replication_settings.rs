//! Settings of a replica that change what it does with its memory and its files, each with and without effect.

#![forbid(unsafe_code)]

use varve_testkit::{Launch, Server};
use varve_tests::replicas::{assert_equal, caught_up, field, follow, wait};

/// A primary of this number of keys of 1 KB, some 10 MB.
fn primary(keys: usize) -> Server {
    let primary = Launch::varve().config("repl-diskless-sync-delay 0").start().expect("a primary starts");
    let mut client = primary.client();
    let value = "v".repeat(1000);
    for n in 0..keys {
        client.queue(&["SET", &format!("key:{n}"), &value]);
    }
    client.flush().expect("sent");
    (0..keys).for_each(|_| assert_eq!(client.read().expect("a reply").text(), "OK"));
    primary
}

fn number(server: &Server, section: &str, name: &str) -> u64 {
    field(&mut server.client(), section, name).parse().expect("a number")
}

/// A replica has what its primary has, whatever its own limit says, until it is told that the limit is its own affair.
#[test]
fn a_replica_minds_its_limit_only_if_it_is_told_to() {
    const KEYS: usize = 10_000;
    let primary = primary(0);
    let replica = Launch::varve().config("maxmemory-policy allkeys-random").start().expect("a replica starts");
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    let limit = number(&replica, "memory", "used_memory") + (2 << 20);
    assert_eq!(replica.client().cmd(&format!("CONFIG SET maxmemory {limit}")).text(), "OK");
    let mut client = primary.client();
    let value = "v".repeat(1000);
    (0..KEYS).for_each(|n| client.queue(&["SET", &format!("key:{n}"), &value]));
    client.flush().expect("sent");
    (0..KEYS).for_each(|_| assert_eq!(client.read().expect("a reply").text(), "OK"));
    assert_equal(&replica, &primary);
    assert_eq!(number(&replica, "stats", "evicted_keys"), 0, "five times its limit");
    assert_eq!(replica.client().cmd("CONFIG SET replica-ignore-maxmemory no").text(), "OK");
    wait("the replica evicts", &replica, || number(&replica, "stats", "evicted_keys") > 0);
    wait("the limit holds", &replica, || number(&replica, "memory", "used_memory") <= limit);
    assert_eq!(client.cmd("DBSIZE").integer(), Some(KEYS as i64), "the primary's keys stay");
}

/// The file of a data set that was received goes if nothing else would keep data on this disk.
#[test]
fn the_file_of_a_data_set_goes_if_that_is_set_and_nothing_is_saved() {
    let primary = primary(1000);
    for (removes, saves) in [("no", ""), ("yes", ""), ("yes", "3600 1")] {
        let replica =
            Launch::varve().config(format!("rdb-del-sync-files {removes}")).start().expect("a replica starts");
        assert_eq!(replica.client().call(&["CONFIG", "SET", "save", saves]).expect("a reply").text(), "OK");
        follow(&replica, &primary);
        assert_equal(&replica, &primary);
        let files = || std::fs::read_dir(replica.dir()).expect("its folder").count();
        let named = || std::fs::read_dir(replica.dir()).expect("its folder").flatten();
        let has_file = || named().any(|file| file.file_name().to_string_lossy().ends_with(".rdb"));
        let stays = removes == "no" || !saves.is_empty();
        assert_eq!(has_file(), stays, "rdb-del-sync-files {removes}, save {saves:?}: {} files", files());
    }
}

/// The stream comes with and without delays of the system's own.
#[test]
fn a_replica_follows_whether_packets_are_gathered_or_not() {
    for gathers in ["yes", "no"] {
        let primary =
            Launch::varve().config(format!("repl-disable-tcp-nodelay {gathers}")).start().expect("Varve starts");
        let replica = Launch::peer().start().expect("redis-server starts");
        follow(&replica, &primary);
        primary.client().cmd("SET key value");
        assert_equal(&replica, &primary);
        let setting = primary.client().cmd("CONFIG GET repl-disable-tcp-nodelay");
        assert_eq!(setting.elements().expect("an array")[1].text(), gathers);
    }
}
