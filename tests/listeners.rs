//! Thousands of listeners, of which many misbehave: some never read, some read slowly, some hang up in the middle. The
//! publisher and bystanders go on, memory is bounded by the output limit of listeners, and nothing is left behind.

#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use varve_testkit::{Client, Launch, Server, figure, until};

/// Listeners of each kind.
const OF_EACH: usize = 300;
/// Messages, and the bytes of each: more than sockets hold for a client that does not read, which is 4 MB (`tcp_wmem`) and what
/// the client's own end takes. Sockets grow to that on a machine with much else to do.
const MESSAGES: usize = 2000;
/// Messages that are published at a time.
const STEP: usize = 50;
const PAYLOAD_BYTES: usize = 2500;
/// Unsent bytes that a listener may have.
const LIMIT_BYTES: u64 = 256 << 10;

fn subscribe(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream.write_all(b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n").expect("sent");
    let mut confirmed = [0; "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n".len()];
    stream.read_exact(&mut confirmed).expect("confirmed");
    stream
}

/// Reads from all of these until each has everything or is closed, and adds what comes to `read`. The number of those that
/// have everything.
fn read_all(streams: &[TcpStream], every: u64, read: &AtomicU64) -> usize {
    let mut chunk = vec![0; 64 << 10];
    let mut left: Vec<(&TcpStream, u64)> = streams.iter().map(|stream| (stream, every)).collect();
    streams.iter().for_each(|stream| stream.set_nonblocking(true).expect("set"));
    let mut whole = 0;
    while !left.is_empty() {
        let mut idle = true;
        left.retain_mut(|(stream, bytes)| match stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(count) => {
                idle = false;
                read.fetch_add(count as u64, Ordering::Relaxed);
                *bytes -= count as u64;
                whole += usize::from(*bytes == 0);
                *bytes > 0
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        if idle {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    whole
}

/// Reads a little from each of these at a time until it is done.
fn read_slowly(streams: &[TcpStream], done: &AtomicBool) {
    let mut chunk = [0; 300];
    streams.iter().for_each(|stream| stream.set_nonblocking(true).expect("set"));
    while !done.load(Ordering::Relaxed) {
        for mut stream in streams {
            // Nothing there, closed, a little: all the same.
            let _ = stream.read(&mut chunk);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Clients that have nothing to do with it get their answers until it is done; their number, and the most memory that the
/// server had.
fn ask_meanwhile(server: &Server, done: &AtomicBool) -> (u64, u64) {
    let (mut bystander, mut subscribed) = (server.client(), server.client());
    subscribed.cmd("SUBSCRIBE other");
    let (mut answers, mut most) = (0, 0);
    while !done.load(Ordering::Relaxed) {
        assert_eq!(bystander.cmd("PING").text(), "PONG");
        assert_eq!(subscribed.cmd("PING").elements().expect("a subscriber's")[0].text(), "pong");
        answers += 2;
        most = most.max(server.memory().expect("its memory").resident);
    }
    (answers, most)
}

/// Publishes, each step when those who read have what was before: they are not to be taken for slow ones. The `leaving`
/// hang up meanwhile, most with messages in their sockets.
fn publish(server: &Server, leaving: Vec<TcpStream>, message_bytes: u64, read: &AtomicU64) {
    let mut publisher = server.client();
    let payload = "x".repeat(PAYLOAD_BYTES);
    let mut leaving = leaving.into_iter();
    for step in 1..=MESSAGES / STEP {
        (0..STEP).for_each(|_| publisher.queue(&["PUBLISH", "c", &payload]));
        publisher.flush().expect("sent");
        leaving.by_ref().take(OF_EACH * STEP / MESSAGES + 1).for_each(drop);
        for _ in 0..STEP {
            assert!(publisher.read().expect("a reply").integer() >= Some(OF_EACH as i64));
        }
        let sent = (step * STEP * OF_EACH) as u64 * message_bytes;
        until("those who read have it", || read.load(Ordering::Relaxed) >= sent);
    }
}

#[test]
fn listeners_that_misbehave_harm_nobody() {
    let server = Launch::varve()
        .config("io-threads 2")
        .config(format!("client-output-buffer-limit pubsub {LIMIT_BYTES} 0 0"))
        .start()
        .expect("varve-server starts");
    let mut control = server.client();
    let mut good: Vec<TcpStream> = (0..4 * OF_EACH).map(|_| subscribe(&server)).collect();
    let silent = good.split_off(3 * OF_EACH);
    let leaving = good.split_off(2 * OF_EACH);
    let slow = good.split_off(OF_EACH);
    assert_eq!(listeners(&mut control), 4 * OF_EACH as i64);
    let frame = format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${PAYLOAD_BYTES}\r\n\r\n").len();
    let message_bytes = (frame + PAYLOAD_BYTES) as u64;
    let every = MESSAGES as u64 * message_bytes;

    let (done, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let (whole, (answers, most)) = std::thread::scope(|scope| {
        let (done, bytes) = (&done, &bytes);
        let readers: Vec<_> =
            good.chunks(OF_EACH / 4).map(|some| scope.spawn(move || read_all(some, every, bytes))).collect();
        let meanwhile = scope.spawn(|| ask_meanwhile(&server, done));
        scope.spawn(|| read_slowly(&slow, done));
        publish(&server, leaving, message_bytes, bytes);
        let whole: usize = readers.into_iter().map(|reader| reader.join().expect("a reader")).sum();
        done.store(true, Ordering::Relaxed);
        (whole, meanwhile.join().expect("they are answered"))
    });
    assert_eq!(whole, OF_EACH, "those who read have everything");
    until("those who never read are closed", || listeners(&mut control) <= 2 * OF_EACH as i64);
    // Of each its limit and what a slice adds, twice for buffers that grow by doubling; and the server itself.
    let bound = (64 << 20) + 2 * OF_EACH as u64 * 2 * (LIMIT_BYTES + (64 << 10));
    println!("{answers} answers meanwhile, {} MB resident at most", most >> 20);
    assert!(most < bound, "{most} bytes resident, {bound} expected at most");

    drop((silent, slow, good));
    until("nobody listens", || listeners(&mut control) == 0);
    assert_eq!(control.cmd("PUBSUB CHANNELS").elements().map(<[_]>::len), Some(0));
    until("all are gone", || figure(&mut control, "connected_clients") == 1);
    assert_eq!(figure(&mut control, "pubsub_channels"), 0);
}

fn listeners(client: &mut Client) -> i64 {
    client.cmd("PUBSUB NUMSUB c").elements().expect("pairs")[1].integer().expect("a count")
}
