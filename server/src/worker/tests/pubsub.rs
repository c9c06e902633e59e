//! Publish/subscribe over real sockets: order, both protocols, slow and vanishing subscribers, many of them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

pub(super) fn subscribed(kind: &str, name: &str, count: usize) -> String {
    format!("*3\r\n${}\r\n{kind}\r\n${}\r\n{name}\r\n:{count}\r\n", kind.len(), name.len())
}

pub(super) fn message(channel: &str, payload: &str) -> String {
    format!("*3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{payload}\r\n", channel.len(), payload.len())
}

/// One client on each of the workers: newcomers go to the worker with the fewest.
fn one_on_each(server: &Server, workers: usize) -> Vec<Client> {
    (0..workers)
        .map(|_| {
            let mut client = server.connect();
            client.ask(&["PING"], "+PONG\r\n");
            client
        })
        .collect()
}

#[test]
fn a_message_reaches_subscribers_on_every_worker_before_the_next_reply() {
    let server = Server::start(3, "");
    let mut listeners = one_on_each(&server, 3);
    let mut publisher = server.connect();
    for client in &mut listeners {
        client.ask(&["SUBSCRIBE", "c"], &subscribed("subscribe", "c", 1));
        client.ask(&["PSUBSCRIBE", "[abc]"], &subscribed("psubscribe", "[abc]", 2));
    }
    publisher.ask(&["PUBSUB", "NUMSUB", "c", "d"], "*4\r\n$1\r\nc\r\n:3\r\n$1\r\nd\r\n:0\r\n");
    publisher.ask(&["PUBSUB", "NUMPAT"], ":1\r\n");
    for n in 0..100 {
        let text = format!("{n:03}");
        publisher.ask(&["PUBLISH", "c", &text], ":6\r\n");
        for client in &mut listeners {
            // The reply to what is asked after the publishing stands behind the messages.
            client.send(&request(&["PING", "x"]));
            client.expect(message("c", &text).as_bytes());
            client.expect(format!("*4\r\n$8\r\npmessage\r\n$5\r\n[abc]\r\n$1\r\nc\r\n$3\r\n{text}\r\n").as_bytes());
            client.expect(b"*2\r\n$4\r\npong\r\n$1\r\nx\r\n");
        }
    }
    publisher.ask(&["PUBLISH", "d", "x"], ":0\r\n");
    publisher.ask(&["PUBLISH", "a", "x"], ":3\r\n");
}

#[test]
fn all_subscribers_of_a_channel_see_one_order() {
    const EACH: usize = 2000;
    let server = Server::start(2, "");
    let mut listeners = one_on_each(&server, 4);
    for client in &mut listeners {
        client.ask(&["SUBSCRIBE", "c"], &subscribed("subscribe", "c", 1));
    }
    let publishers: Vec<_> = one_on_each(&server, 4)
        .into_iter()
        .enumerate()
        .map(|(nth, mut client)| {
            std::thread::spawn(move || {
                let lines: Vec<u8> =
                    (0..EACH).flat_map(|n| request(&["PUBLISH", "c", &format!("{nth}:{n:04}")])).collect();
                client.send(&lines);
                client.expect(":4\r\n".repeat(EACH).as_bytes());
            })
        })
        .collect();
    let length = message("c", "0:0000").len();
    let seen: Vec<Vec<u8>> = listeners
        .iter_mut()
        .map(|client| {
            let mut got = vec![0; length * EACH * 4];
            client.stream.read_exact(&mut got).unwrap();
            got
        })
        .collect();
    publishers.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(seen.iter().all(|got| *got == seen[0]), "each saw the same order");
    let mut next = [0; 4];
    for text in seen[0].chunks(length).map(|one| std::str::from_utf8(&one[length - 8..length - 2]).unwrap()) {
        let (nth, n) = text.split_once(':').unwrap();
        let nth: usize = nth.parse().unwrap();
        assert_eq!(n.parse::<usize>().unwrap(), next[nth], "each publisher's messages are in its order");
        next[nth] += 1;
    }
}

#[test]
fn in_resp3_messages_are_pushes_and_other_commands_go_on() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    client.send(&request(&["HELLO", "3"]));
    let mut greeting = [0; 512];
    assert!(client.stream.read(&mut greeting).unwrap() > 0);
    client.ask(&["SUBSCRIBE", "c"], ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    client.ask(&["PSUBSCRIBE", "?"], ">3\r\n$10\r\npsubscribe\r\n$1\r\n?\r\n:2\r\n");
    client.ask(&["SSUBSCRIBE", "c"], ">3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n");
    client.ask(&["SET", "k", "v"], "+OK\r\n");
    // A client that publishes to itself finds the message before its reply.
    client.ask(
        &["PUBLISH", "c", "m"],
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n>4\r\n$8\r\npmessage\r\n$1\r\n?\r\n$1\r\nc\r\n$1\r\nm\r\n:2\r\n",
    );
    client.ask(&["SPUBLISH", "c", "m"], ">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\nm\r\n:1\r\n");
    client.ask(&["PING"], "+PONG\r\n");
    client.ask(&["UNSUBSCRIBE"], ">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n");
    client.ask(&["UNSUBSCRIBE"], ">3\r\n$11\r\nunsubscribe\r\n_\r\n:1\r\n");
}

#[test]
fn a_subscriber_that_does_not_read_is_closed_at_its_limit() {
    for limit in ["pubsub 1mb 0 0", "pubsub 0 256kb 1"] {
        let server = Server::start(2, &format!("client-output-buffer-limit {limit}"));
        let mut slow = server.connect();
        let mut publisher = server.connect();
        slow.ask(&["SUBSCRIBE", "c"], &subscribed("subscribe", "c", 1));
        let payload = "x".repeat(100_000);
        let ask = request(&["PUBLISH", "c", &payload]);
        wait_until("the limit is seen", || {
            publisher.send(&ask);
            let mut reply = [0; 4];
            publisher.stream.read_exact(&mut reply).unwrap();
            server.state().total(|s| &s.output_limit_closed) == 1
        });
        wait_until("it is closed", || server.state().connections() == 1);
        publisher.ask(&["PUBLISH", "c", "x"], ":0\r\n");
        publisher.ask(&["PUBSUB", "CHANNELS"], "*0\r\n");
    }
}

#[test]
fn subscriptions_end_with_the_connection_and_with_reset() {
    let server = Server::start(2, "");
    let mut asking = server.connect();
    let mut gone = one_on_each(&server, 6);
    for client in &mut gone {
        client.ask(&["SUBSCRIBE", "a", "b"], &(subscribed("subscribe", "a", 1) + &subscribed("subscribe", "b", 2)));
        client.ask(&["PSUBSCRIBE", "p*"], &subscribed("psubscribe", "p*", 3));
        client.ask(&["SSUBSCRIBE", "s"], &subscribed("ssubscribe", "s", 1));
    }
    let info = asking.bulk(&["INFO", "stats"]);
    for line in ["pubsub_channels:2", "pubsub_patterns:1", "pubsubshard_channels:1"] {
        assert!(info.contains(line), "{line}");
    }
    let list = asking.bulk(&["CLIENT", "LIST", "TYPE", "pubsub"]);
    assert_eq!(list.lines().filter(|line| line.contains(" flags=P ")).count(), 6);
    assert_eq!(list.lines().filter(|line| line.contains(" sub=2 psub=1 ssub=1 ")).count(), 6);
    gone[0].ask(&["RESET"], "+RESET\r\n");
    gone[0].ask(&["GET", "k"], "$-1\r\n");
    asking.ask(&["PUBSUB", "NUMSUB", "a"], "*2\r\n$1\r\na\r\n:5\r\n");
    drop(gone);
    wait_until("all is forgotten", || {
        ["pubsub_channels:0\r", "pubsub_patterns:0\r", "pubsubshard_channels:0\r"]
            .iter()
            .all(|line| asking.bulk(&["INFO", "stats"]).contains(line))
    });
}

/// The subscriptions of one client end bit by bit once it has gone; messages to them meanwhile find nobody.
#[test]
fn a_client_with_many_subscriptions_hangs_up() {
    const NAMES: usize = 20_000;
    let server = Server::start(2, "");
    let mut publisher = server.connect();
    let mut gone = server.connect();
    let names: Vec<String> = (0..NAMES).map(|n| n.to_string()).collect();
    for (nth, some) in names.chunks(1000).enumerate() {
        gone.send(&request(&[&["SUBSCRIBE"], &some.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat()));
        let confirmed = some.iter().enumerate().map(|(n, name)| subscribed("subscribe", name, nth * 1000 + n + 1));
        gone.expect(confirmed.collect::<String>().as_bytes());
    }
    drop(gone);
    let last = names.last().unwrap();
    wait_until("all is forgotten", || {
        publisher.send(&request(&["PUBLISH", last, "m"]));
        let mut reply = [0; 4];
        publisher.stream.read_exact(&mut reply).unwrap();
        &reply == b":0\r\n" && publisher.bulk(&["INFO", "stats"]).contains("pubsub_channels:0\r")
    });
}

/// Half of them on the publisher's worker, half on the other one. `VARVE_SUBSCRIBERS` says how many; how long others
/// wait meanwhile is printed, and depends on the machine.
#[test]
fn publishing_to_many_subscribers_stops_nobody() {
    let count: usize = std::env::var("VARVE_SUBSCRIBERS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let _alone = many_files();
    let server = Server::start(2, "");
    let mut listeners: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    for client in &mut listeners {
        client.ask(&["SUBSCRIBE", "c"], &subscribed("subscribe", "c", 1));
    }
    let mut publisher = server.connect();
    let done = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = one_on_each(&server, 2)
        .into_iter()
        .map(|mut client| {
            let done = Arc::clone(&done);
            std::thread::spawn(move || {
                let mut longest = Duration::ZERO;
                while !done.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    client.ask(&["PING"], "+PONG\r\n");
                    longest = longest.max(start.elapsed());
                }
                longest
            })
        })
        .collect();
    for n in 0..10 {
        publisher.ask(&["PUBLISH", "c", &n.to_string()], &format!(":{count}\r\n"));
    }
    for client in &mut listeners {
        for n in 0..10 {
            client.expect(message("c", &n.to_string()).as_bytes());
        }
    }
    done.store(true, Ordering::Relaxed);
    let longest = others.into_iter().map(|thread| thread.join().unwrap()).max().unwrap();
    println!("longest wait of another client: {longest:?}");
    assert!(longest < Duration::from_secs(10), "{longest:?}");
}

#[test]
fn keyspace_events_are_published() {
    let server = Server::start(2, "");
    let mut listener = server.connect();
    let mut writer = server.connect();
    writer.ask(&["CONFIG", "SET", "notify-keyspace-events", "KEA"], "+OK\r\n");
    let channels = ["__keyspace@0__:k", "__keyevent@0__:expired", "__keyevent@0__:set"];
    for (nth, channel) in channels.iter().enumerate() {
        listener.ask(&["SUBSCRIBE", channel], &subscribed("subscribe", channel, nth + 1));
    }
    writer.ask(&["SET", "k", "v", "PX", "40"], "+OK\r\n");
    let told = [
        message(channels[0], "set"),
        message(channels[2], "k"),
        message(channels[0], "expire"),
        message(channels[0], "expired"),
        message(channels[1], "k"),
    ];
    told.iter().for_each(|message| listener.expect(message.as_bytes()));
    let lines = [
        request(&["MULTI"]),
        request(&["SET", "k", "1"]),
        request(&["PUBLISH", channels[2], "by hand"]),
        request(&["EXEC"]),
    ];
    writer.send(&lines.concat());
    writer.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:1\r\n");
    let told = [message(channels[0], "set"), message(channels[2], "k"), message(channels[2], "by hand")];
    told.iter().for_each(|message| listener.expect(message.as_bytes()));
}

#[test]
fn a_flood_of_messages_waits_for_those_who_deliver() {
    let server = Server::start(2, "client-output-buffer-limit pubsub 0 0 0");
    let mut listeners: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    for client in &mut listeners {
        client.ask(&["SUBSCRIBE", "c"], &subscribed("subscribe", "c", 1));
    }
    let mut publisher = server.connect();
    let payload = "x".repeat(10_000);
    let ask = request(&["PUBLISH", "c", &payload]).repeat(4_000);
    let mut writer = publisher.stream.try_clone().unwrap();
    let flood = std::thread::spawn(move || writer.write_all(&ask).unwrap());
    let readers: Vec<_> = listeners
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || {
                let length = message("c", &"x".repeat(10_000)).len() as u64 * 4_000;
                std::io::copy(&mut Read::take(&mut client.stream, length), &mut std::io::sink()).unwrap() == length
            })
        })
        .collect();
    let mut fullest = 0;
    while !flood.is_finished() {
        let waiting = (0..2).map(|worker| server.state().pubsub().inbox(worker).owed_bytes()).max().unwrap();
        fullest = fullest.max(waiting);
        std::thread::sleep(Duration::from_millis(1));
    }
    flood.join().unwrap();
    publisher.expect(":20\r\n".repeat(4_000).as_bytes());
    assert!(readers.into_iter().all(|reader| reader.join().unwrap()), "all got all");
    println!("fullest inbox: {fullest} bytes");
    assert!(fullest < 40 << 20, "{fullest}");
}

/// A request of a million names held its worker for a second.
#[test]
fn issue_11_many_names_are_dealt_with_in_parts() {
    const NAMES: usize = 20_000;
    let server = Server::start(1, "");
    let mut client = server.connect();
    let names: Vec<String> = (0..NAMES).map(|n| format!("{n:05}")).collect();
    let words = |command| [command].into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>();
    let confirmed = |kind: &str, count: &dyn Fn(usize) -> usize| -> String {
        names.iter().enumerate().map(|(n, name)| subscribed(kind, name, count(n))).collect()
    };
    let state = server.state();
    let turns = || state.workers()[0].stats().turns.get();
    let least_turns = (NAMES / 1000) as u64;
    // Another subscription, and a request behind, which stands behind all of the confirmations.
    let pong = "*2\r\n$4\r\npong\r\n$0\r\n\r\n";
    let mut sent = request(&words("SUBSCRIBE"));
    sent.extend(request(&["PING"]));
    client.send(&sent);
    client.expect((confirmed("subscribe", &|n| n + 1) + pong).as_bytes());
    client.ask(&["PSUBSCRIBE", "p"], &subscribed("psubscribe", "p", NAMES + 1));
    let mut control = server.connect();
    control.ask(&["PUBLISH", "19999", "x"], ":1\r\n");
    client.expect(message("19999", "x").as_bytes());

    // By names, some of which it does not listen to, and all that are left.
    client
        .ask(&words("SUNSUBSCRIBE"), &names.iter().map(|name| subscribed("sunsubscribe", name, 0)).collect::<String>());
    let before = turns();
    client.send(&[request(&["UNSUBSCRIBE"]), request(&["PING"])].concat());
    client.expect((confirmed("unsubscribe", &|n| NAMES - n) + pong).as_bytes());
    assert!(turns() - before >= least_turns, "{} turns", turns() - before);
    control.ask(&["PUBSUB", "CHANNELS"], "*0\r\n");

    client.ask(&words("SUBSCRIBE"), &confirmed("subscribe", &|n| n + 2));
    let before = turns();
    client.send(&[request(&["RESET"]), request(&["GET", "none"])].concat());
    client.expect(b"+RESET\r\n$-1\r\n");
    assert!(turns() - before >= least_turns, "{} turns", turns() - before);
    control.ask(&["PUBSUB", "NUMPAT"], ":0\r\n");

    // Inside MULTI it runs whole, and one who hangs up in the middle leaves nothing behind.
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&words("SUBSCRIBE"), "+QUEUED\r\n");
    client.ask(&["EXEC"], &format!("*1\r\n{}", confirmed("subscribe", &|n| n + 1)));
    client.send(&request(&["UNSUBSCRIBE"]));
    drop(client);
    let mut leaves = server.connect();
    leaves.send(&request(&words("SUBSCRIBE")));
    drop(leaves);
    wait_until("nobody listens", || control.bulk(&["INFO", "stats"]).contains("pubsub_channels:0"));
}

/// A client that does not read, and is flooded by one of many channels, ends all of its subscriptions: it waits for no room.
#[test]
fn issue_11_a_flood_does_not_keep_its_listener_from_leaving() {
    const NAMES: usize = 3000;
    let server = Server::start(1, "client-output-buffer-limit pubsub 0 0 0");
    let mut client = server.connect();
    let names: Vec<String> = (0..NAMES).map(|n| format!("{n:05}")).collect();
    let words = ["SUBSCRIBE"].into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>();
    let confirmed: String = names.iter().enumerate().map(|(n, name)| subscribed("subscribe", name, n + 1)).collect();
    client.ask(&words, &confirmed);
    let mut publisher = server.connect();
    // More than the sockets hold.
    let payload = "x".repeat(100_000);
    (0..120).for_each(|_| publisher.ask(&["PUBLISH", &names[NAMES - 1], &payload], ":1\r\n"));
    client.send(&request(&["UNSUBSCRIBE"]));
    wait_until("it has left, unread", || publisher.bulk(&["INFO", "stats"]).contains("pubsub_channels:0"));
}
