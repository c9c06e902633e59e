//! Keyspace events over several workers: the last event of a key tells whether the key is there. Keys end by themselves
//! while others set and delete them; a dropped `set` behind a late `expired` would have a listener lose a key that lives.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use varve_testkit::seed::seed;
use varve_testkit::{Client, Launch, Random, Server, until};

const KEYS: usize = 400;
const WRITERS: u64 = 3;
/// Commands of a writer in a round, and how many it sends at a time.
const COMMANDS: usize = 6000;
const PIPELINE: usize = 40;
/// The key whose event is the last one.
const LAST: &str = "key:last";

/// Sets, ends and deletes keys at random; most live for some milliseconds.
fn write(server: &Server, mut random: Random) {
    let mut client = server.client();
    for _ in 0..COMMANDS / PIPELINE {
        for _ in 0..PIPELINE {
            let key = format!("key:{}", random.below(KEYS));
            let ms = (1 + random.below(20)).to_string();
            match random.below(6) {
                0 | 1 => client.queue(&["SET", &key, "v", "PX", &ms]),
                2 => client.queue(&["SET", &key, "v"]),
                3 => client.queue(&["PEXPIRE", &key, &ms]),
                4 => client.queue(&["PERSIST", &key]),
                _ => client.queue(&["DEL", &key]),
            }
        }
        client.flush().expect("sent");
        for _ in 0..PIPELINE {
            assert!(!client.read().expect("a reply").is_error());
        }
    }
}

/// The last event of each key, up to the one of [`LAST`].
fn listen(mut client: Client) -> HashMap<String, String> {
    let mut last = HashMap::new();
    loop {
        let message = client.read().expect("a message");
        let parts = message.elements().expect("pmessage, pattern, channel, event");
        let (channel, event) = (parts[2].text(), parts[3].text());
        let (_, key) = channel.split_once("__:").expect("__keyspace@0__:key");
        if key == LAST {
            return last;
        }
        last.insert(key.to_owned(), event);
    }
}

#[test]
fn issue_11_the_last_event_of_a_key_tells_whether_it_is_there() {
    let seed = seed("events");
    let server = Launch::varve()
        .config("io-threads 4")
        .config("notify-keyspace-events KEA")
        .config("client-output-buffer-limit pubsub 0 0 0")
        .start()
        .expect("varve-server starts");
    let mut control = server.client();
    for round in 0..3 {
        let mut listener = server.client();
        listener.cmd("PSUBSCRIBE __keyspace@0__:key:*");
        let last = std::thread::scope(|scope| {
            let listening = scope.spawn(|| listen(listener));
            let writing = |number| {
                let random = Random::new(seed.wrapping_add(round * WRITERS + number));
                let server = &server;
                scope.spawn(move || write(server, random))
            };
            let writers: Vec<_> = (0..WRITERS).map(writing).collect();
            writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
            let has_ended = |line: &str| !line.starts_with("db0:") || line.contains(",expires=0,");
            until("all keys with a time have ended", || control.cmd("INFO keyspace").text().lines().all(has_ended));
            assert_eq!(control.cmd(&format!("SET {LAST} v")).text(), "OK");
            listening.join().expect("the listener")
        });
        assert_eq!(last.len(), KEYS, "each key had an event");
        for (key, event) in &last {
            let is_there = control.cmd(&format!("EXISTS {key}")).integer() == Some(1);
            let says = ["set", "expire", "persist"].contains(&event.as_str());
            assert!(says || ["del", "expired"].contains(&event.as_str()), "{event}");
            assert_eq!(is_there, says, "{key}, whose last event is {event}");
        }
        assert_eq!(control.cmd("FLUSHALL").text(), "OK");
    }
}
