//! More messages than a turn delivers: what is answered meanwhile, in which order, and how often sockets are written.
//!
//! A worker is stopped by the slow log's lock, which the test holds: what is published to it then waits in its inbox,
//! however fast the machine is.

use super::pubsub::{message, subscribed};
use super::tracking::{Near, speak_resp3, stale};
use super::*;

/// Messages that lie before the worker when it goes on: on two channels in turns, so that none joins the one before.
const OWED: usize = 50_000;
const CHANNELS: [&str; 2] = ["c0", "c1"];

/// Never a slow command: a worker that noted one would stop as well.
pub(super) const CONFIG: &str = "slowlog-log-slower-than -1\nclient-output-buffer-limit pubsub 0 0 0";

pub(super) fn client_id(client: &mut Client) -> u64 {
    client.send(&request(&["CLIENT", "ID"]));
    client.line()[1..].parse().unwrap()
}

/// A client on this worker.
pub(super) fn on(server: &Server, worker: usize) -> Client {
    let mut others = Vec::new();
    loop {
        let mut client = server.connect();
        let id = client_id(&mut client);
        if server.state().pubsub().home(id).unwrap().worker == worker {
            return client;
        }
        others.push(client);
        assert!(others.len() < 1000, "newcomers come to every worker");
    }
}

/// Has worker 1 stand still, calls `meanwhile`, and lets it go on.
pub(super) fn while_stopped(server: &Server, meanwhile: impl FnOnce()) {
    let mut stopper = on(server, 1);
    let reads = || server.state().workers()[1].stats().reads.get();
    let held = server.state().command_logs();
    let before = reads();
    stopper.send(&request(&["SLOWLOG", "LEN"]));
    wait_until("the worker has read it", || reads() > before);
    meanwhile();
    drop(held);
    stopper.expect(b":0\r\n");
}

fn text(n: usize) -> String {
    format!("{n:06}")
}

/// Publishes what the worker then owes, to one subscriber.
fn publish_owed(publisher: &mut Client) {
    let lines = (0..OWED).flat_map(|n| request(&["PUBLISH", CHANNELS[n % 2], &text(n)]));
    let lines: Vec<u8> = lines.collect();
    let mut writer = publisher.stream.try_clone().unwrap();
    let sent = std::thread::spawn(move || writer.write_all(&lines).unwrap());
    publisher.expect(":1\r\n".repeat(OWED).as_bytes());
    sent.join().unwrap();
}

/// Reads messages, from number `from` on and in their order, until something else comes. The number of the message that
/// would have been next, and what has been read of the other: its first line, or its word if that says `*3` too.
fn messages_until_other(client: &mut Client, from: usize) -> (usize, String) {
    for n in from.. {
        let head = client.line();
        if head != "*3" {
            return (n, head);
        }
        let _length = client.line();
        let word = client.line();
        if word != "message" {
            return (n, word);
        }
        let whole = message(CHANNELS[n % 2], &text(n));
        client.expect(whole.strip_prefix("*3\r\n$7\r\nmessage\r\n").unwrap().as_bytes());
    }
    unreachable!("messages come to an end")
}

fn subscribe(client: &mut Client) {
    for (nth, channel) in CHANNELS.iter().enumerate() {
        client.ask(&["SUBSCRIBE", channel], &subscribed("subscribe", channel, nth + 1));
    }
}

#[test]
fn ping_is_answered_before_messages_that_are_owed() {
    let server = Server::start(2, CONFIG);
    let (mut subscriber, mut publisher) = (on(&server, 1), on(&server, 0));
    subscribe(&mut subscriber);
    while_stopped(&server, || {
        publish_owed(&mut publisher);
        subscriber.send(&request(&["PING"]));
    });
    let (next, line) = messages_until_other(&mut subscriber, 0);
    assert_eq!(line, "*2");
    subscriber.expect(b"$4\r\npong\r\n$0\r\n\r\n");
    assert!(next < OWED, "the answer came behind all {next} messages");
    for n in next..OWED {
        subscriber.expect(message(CHANNELS[n % 2], &text(n)).as_bytes());
    }
}

#[test]
fn unsubscribe_is_confirmed_behind_what_was_delivered_and_nothing_follows() {
    let server = Server::start(2, CONFIG);
    let (mut subscriber, mut publisher) = (on(&server, 1), on(&server, 0));
    subscribe(&mut subscriber);
    while_stopped(&server, || {
        publish_owed(&mut publisher);
        subscriber.send(&[request(&["UNSUBSCRIBE"]), request(&["PING"])].concat());
    });
    let (next, word) = messages_until_other(&mut subscriber, 0);
    assert_eq!(word, "unsubscribe");
    assert!(next < OWED, "confirmed behind all {next} messages");
    subscriber.expect(b"$2\r\nc0\r\n:1\r\n");
    subscriber.expect(subscribed("unsubscribe", "c1", 0).as_bytes());
    subscriber.expect(b"+PONG\r\n");
    // The messages that are still owed are for nobody. When the worker is through with them, nothing has followed.
    wait_until("all is delivered", || server.state().pubsub().inbox(1).owed_bytes() == 0);
    subscriber.ask(&["ECHO", "x"], "$1\r\nx\r\n");
}

/// A message that a client has published itself comes ahead of others' messages that are owed, but for those of its channel.
#[test]
fn an_own_message_and_its_reply_come_ahead_of_a_flood() {
    let server = Server::start(2, CONFIG);
    let (mut publisher, mut other) = (on(&server, 0), on(&server, 1));
    let mut subscriber = on(&server, 1);
    speak_resp3(&mut subscriber.stream);
    for (nth, channel) in CHANNELS.iter().chain(&["own"]).enumerate() {
        client_confirms(&mut subscriber, channel, nth + 1);
    }
    while_stopped(&server, || {
        publish_owed(&mut publisher);
        // Of its channel, and before its own: it stays there.
        publisher.ask(&["PUBLISH", "own", "0"], ":1\r\n");
        // Two of its own, and a request behind them: each reply waits for its message.
        let lines = [["PUBLISH", "own", "1"], ["PUBLISH", "own", "2"]].map(|words| request(&words)).concat();
        subscriber.send(&[lines, request(&["PING"])].concat());
        other.send(&request(&["PING"]));
    });
    let mut next = 0;
    let mut flood_until_own = |client: &mut Client, wanted: &str| {
        let (found, word) = messages_until_own(client, next);
        assert_eq!(word, "own");
        client.expect(format!("$1\r\n{wanted}\r\n").as_bytes());
        assert!(found < OWED, "message {wanted} came behind all others");
        next = found;
    };
    for wanted in ["0", "1"] {
        flood_until_own(&mut subscriber, wanted);
    }
    subscriber.expect(b":1\r\n");
    flood_until_own(&mut subscriber, "2");
    subscriber.expect(b":1\r\n");
    subscriber.expect(b"+PONG\r\n");
    // All others follow, each once.
    for n in next..OWED {
        subscriber.expect(message(CHANNELS[n % 2], &text(n)).replacen('*', ">", 1).as_bytes());
    }
    subscriber.ask(&["ECHO", "x"], "$1\r\nx\r\n");
    other.expect(b"+PONG\r\n");
}

fn client_confirms(client: &mut Client, channel: &str, count: usize) {
    client.ask(&["SUBSCRIBE", channel], &subscribed("subscribe", channel, count).replacen('*', ">", 1));
}

/// Reads messages in their order, from number `from` on, until one of another channel comes; that channel.
fn messages_until_own(client: &mut Client, from: usize) -> (usize, String) {
    for n in from.. {
        client.expect(b">3\r\n$7\r\nmessage\r\n");
        let _length = client.line();
        let channel = client.line();
        if channel != CHANNELS[n % 2] {
            return (n, channel);
        }
        client.expect(format!("$6\r\n{}\r\n", text(n)).as_bytes());
    }
    unreachable!("messages come to an end")
}

/// Whoever publishes and then serves a client that waits has it find the message first, and its reply behind.
#[test]
fn a_client_that_is_served_finds_what_was_published_before() {
    let server = Server::start(2, CONFIG);
    let (mut publisher, mut waiting) = (on(&server, 0), on(&server, 1));
    speak_resp3(&mut waiting.stream);
    for (nth, channel) in CHANNELS.iter().chain(&["own"]).enumerate() {
        client_confirms(&mut waiting, channel, nth + 1);
    }
    waiting.send(&[request(&["BLPOP", "list", "0"]), request(&["PING"])].concat());
    wait_until("it waits", || server.state().total(|stats| &stats.blocked) == 1);
    while_stopped(&server, || {
        publish_owed(&mut publisher);
        publisher.ask(&["PUBLISH", "own", "1"], ":1\r\n");
        publisher.ask(&["RPUSH", "list", "a"], ":1\r\n");
    });
    let (next, word) = messages_until_own(&mut waiting, 0);
    assert_eq!((next, word.as_str()), (OWED, "own"));
    waiting.expect(b"$1\r\n1\r\n*2\r\n$4\r\nlist\r\n$1\r\na\r\n+PONG\r\n");
}

/// EXEC with questions to all workers is answered as a whole: a message that comes meanwhile stands before it.
#[test]
fn no_message_stands_inside_the_reply_of_a_transaction() {
    let server = Server::start(2, CONFIG);
    let (mut publisher, mut client) = (on(&server, 0), on(&server, 0));
    speak_resp3(&mut client.stream);
    client_confirms(&mut client, "own", 1);
    let unblock = request(&["CLIENT", "UNBLOCK", "12345"]);
    let lines =
        [request(&["MULTI"]), request(&["PING"]), unblock.clone(), request(&["PING"]), unblock, request(&["EXEC"])];
    while_stopped(&server, || {
        client.send(&lines.concat());
        client.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
        publisher.ask(&["PUBLISH", "own", "1"], ":1\r\n");
        client.expect(b">3\r\n$7\r\nmessage\r\n$3\r\nown\r\n$1\r\n1\r\n");
    });
    client.expect(b"*4\r\n+PONG\r\n:0\r\n+PONG\r\n:0\r\n");
    client.ask(&["PING"], "+PONG\r\n");
}

/// A client that publishes and goes away, or whose reply nobody waits for any more, leaves nothing behind.
#[test]
fn a_client_that_hangs_up_while_its_reply_waits_is_forgotten() {
    let server = Server::start(2, CONFIG);
    let (mut publisher, mut listener) = (on(&server, 0), on(&server, 1));
    subscribe(&mut listener);
    let mut gone = on(&server, 1);
    speak_resp3(&mut gone.stream);
    client_confirms(&mut gone, "own", 1);
    while_stopped(&server, || {
        publish_owed(&mut publisher);
        gone.send(&request(&["PUBLISH", "own", "1"]));
        drop(gone);
    });
    wait_until("it is forgotten, and so are all others", || server.state().connections() == 2);
    publisher.ask(&["PUBSUB", "NUMSUB", "own"], "*2\r\n$3\r\nown\r\n:0\r\n");
}

/// A writer has its reply only when those who keep copies know, however many messages lie before that in their inbox.
#[test]
fn stale_keys_are_told_behind_a_flood_before_the_writer_is_answered() {
    let path = std::env::temp_dir().join(format!("varve-flood-{}.sock", std::process::id()));
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let listener = Listener::Unix(mio::net::UnixListener::from_std(socket), path.clone());
    let server = Server::listening(2, CONFIG, vec![listener]);
    let (mut subscriber, mut publisher, mut writer) = (on(&server, 1), on(&server, 0), on(&server, 0));
    subscribe(&mut subscriber);
    // On either worker; the one on worker 1 is told behind the flood.
    let mut readers: Vec<Near> = (0..4).map(|_| Near(UnixStream::connect(&path).unwrap())).collect();
    for reader in &mut readers {
        speak_resp3(&mut reader.0);
        reader.ask(&["CLIENT", "TRACKING", "on"], "+OK\r\n");
        reader.ask(&["GET", "k"], "_\r\n");
    }
    while_stopped(&server, || {
        publish_owed(&mut publisher);
        writer.send(&request(&["SET", "k", "v"]));
    });
    writer.expect(b"+OK\r\n");
    readers.iter_mut().for_each(|reader| reader.has(&stale(&["k"])));
}

/// Messages of one pipeline reach each subscriber in few writes: the count of writes follows the turns, not the messages.
#[test]
fn many_messages_are_one_write() {
    const MESSAGES: usize = 2000;
    const SUBSCRIBERS: usize = 64;
    for workers in [1, 2] {
        let server = Server::start(workers, CONFIG);
        let mut listeners: Vec<Client> = (0..SUBSCRIBERS).map(|_| server.connect()).collect();
        for client in &mut listeners {
            client.ask(&["SUBSCRIBE", "c"], &subscribed("subscribe", "c", 1));
        }
        let mut publisher = server.connect();
        publisher.ask(&["PING"], "+PONG\r\n");
        let before = server.state().total(|stats| &stats.writes);
        let lines: Vec<u8> = (0..MESSAGES).flat_map(|n| request(&["PUBLISH", "c", &text(n)])).collect();
        publisher.send(&lines);
        publisher.expect(format!(":{SUBSCRIBERS}\r\n").repeat(MESSAGES).as_bytes());
        let all: String = (0..MESSAGES).map(|n| message("c", &text(n))).collect();
        listeners.iter_mut().for_each(|client| client.expect(all.as_bytes()));
        let writes = server.state().total(|stats| &stats.writes) - before;
        println!("{workers} workers: {writes} writes for {} deliveries", MESSAGES * SUBSCRIBERS);
        assert!(writes < (MESSAGES * SUBSCRIBERS / 8) as u64, "{writes}");
    }
}

/// Publishers wait for what is owed, once a listener: few messages are much when many listen. So do scripts that end before anybody
/// looks, each of which was passed over once.
#[test]
fn a_publisher_waits_for_the_deliveries_that_are_owed() {
    let payload = "x".repeat(1000);
    let message_bytes = message("c", &payload).len() as u64;
    let text = "for _ = 1, 4 do redis.call('PUBLISH', 'c', ARGV[1]) end return 200";
    for (words, messages) in [(vec!["PUBLISH", "c", &payload], 1), (vec!["EVAL", text, "0", &payload], 4)] {
        let server = Server::start(2, CONFIG);
        let mut listeners: Vec<Client> = (0..200).map(|_| on(&server, 1)).collect();
        for client in &mut listeners {
            client.ask(&["SUBSCRIBE", "c"], &subscribed("subscribe", "c", 1));
        }
        let (mut publisher, mut bystander) = (on(&server, 0), on(&server, 0));
        let lines = request(&words).repeat(1000 / messages);
        let mut writer = publisher.stream.try_clone().unwrap();
        let owed = || server.state().pubsub().inbox(1).owed_bytes();
        let mut sent = None;
        while_stopped(&server, || {
            sent = Some(std::thread::spawn(move || writer.write_all(&lines).unwrap()));
            wait_until("much is owed", || owed() > 32 << 20);
            // Everybody but the publisher goes on.
            (0..100).for_each(|_| bystander.ask(&["PING"], "+PONG\r\n"));
            // 64 commands of one turn may be more, each for 200 listeners.
            assert!(owed() < (32 << 20) + 64 * messages * 200 * 1200, "{}", owed());
        });
        let readers: Vec<_> = listeners
            .into_iter()
            .map(|mut client| {
                let length = message_bytes * 1000;
                std::thread::spawn(move || {
                    assert_eq!(
                        std::io::copy(&mut Read::take(&mut client.stream, length), &mut std::io::sink()).unwrap(),
                        length
                    );
                })
            })
            .collect();
        publisher.expect(":200\r\n".repeat(1000 / messages).as_bytes());
        sent.unwrap().join().unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        wait_until("nothing is owed", || owed() == 0);
    }
}
