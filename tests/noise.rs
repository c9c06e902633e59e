//! A fuzz of the whole server over sockets: VARVE_NOISE_SECONDS (10) of byte streams that begin as commands of all groups
//! and are then spoilt: bytes changed, cut out, doubled, spliced, lengths made wrong, garbage in between, sent in pieces of
//! any size, broken off anywhere. The server must stay up and DEBUG VERIFY must pass. What a stream gets is read and dropped:
//! a broken one has no right answers (tests/hostile.rs has the errors).

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use varve_testkit::client::encode;
use varve_testkit::{Launch, Random, Server, seed};
use varve_tests::collections::Types;
use varve_tests::generate::Generator;

const THREADS: u64 = 4;

/// Names under which a spoilt stream cannot reach what would end the server or change how it is reached.
const HIDDEN: &[&str] =
    &["rename-command DEBUG the-debug-of-this-test", "rename-command SHUTDOWN \"\"", "rename-command CONFIG \"\""];

fn start() -> Server {
    let mut launch = Launch::varve()
        .config("io-threads 4")
        .config("shards 16")
        .config("varve-segment-bytes 65536")
        .config("maxmemory 16mb")
        .config("maxmemory-policy allkeys-random")
        .config("client-query-buffer-limit 4mb");
    for line in HIDDEN {
        launch = launch.config(*line);
    }
    launch.start().expect("varve-server starts")
}

/// A stream of commands, spoilt.
fn stream(generator: &mut Generator, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(40) {
        let step = generator.next_step();
        // Nothing near the largest string: this is about broken streams, and 512 MB of zeros take their time.
        if step.args.iter().any(|arg| arg.len() > 6 && arg.starts_with(b"5368")) {
            continue;
        }
        match random.below(12) {
            0 => {
                for arg in &step.args {
                    bytes.extend_from_slice(arg);
                    bytes.push(*random.pick(b"  \t\"'\\"));
                }
                bytes.extend_from_slice(b"\r\n");
            }
            1 => bytes.extend((0..random.below(200)).map(|_| random.next_u64() as u8)),
            _ => encode(&mut bytes, &step.args),
        }
    }
    if random.one_in(3) {
        return bytes;
    }
    for _ in 0..1 + random.below(8) {
        spoil(&mut bytes, random);
    }
    bytes
}

fn spoil(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    let end = (at + random.below(30)).min(bytes.len());
    match random.below(8) {
        0 => bytes[at] = random.next_u64() as u8,
        1 => bytes[at] ^= 1 << random.below(8),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let part = bytes[at..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, part);
        }
        4 => {
            let words: &[&[u8]] =
                &[b"\r\n", b"*", b"$", b"$-1\r\n", b"*0\r\n", b"$0\r\n\r\n", b"\0", b"*1000\r\n", b"\n", b"\""];
            bytes.splice(at..at, random.pick(words).iter().copied());
        }
        5 => {
            // A length that is nearly right, or wild.
            let digits: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i].is_ascii_digit()).collect();
            if !digits.is_empty() {
                bytes[*random.pick(&digits)] = b'0' + random.below(10) as u8;
            }
        }
        6 => bytes.truncate(at),
        _ => bytes.splice(at..at, (0..random.below(50)).map(|n| (n * 7) as u8)).for_each(drop),
    }
}

/// Sends the stream in pieces and reads what comes, to the end; or goes away in the midst.
fn send(server: &Server, bytes: &[u8], random: &mut Random) {
    let Ok(mut stream) = TcpStream::connect(server.address()) else {
        panic!("nobody listens any more:\n{}", server.log());
    };
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("set");
    let most = *random.pick(&[1, 7, 100, 100_000]);
    let (mut rest, mut sink) = (bytes, Vec::new());
    // Byte by byte only for a while: system calls are what that costs.
    let mut pieces = 0;
    while !rest.is_empty() {
        let size = if pieces < 200 { 1 + random.below(most) } else { rest.len() };
        let (part, behind) = rest.split_at(size.min(rest.len()));
        if stream.write_all(part).is_err() {
            break;
        }
        (rest, pieces) = (behind, pieces + 1);
    }
    if random.one_in(4) {
        return;
    }
    let _ = stream.shutdown(Shutdown::Write);
    match stream.take(64 << 20).read_to_end(&mut sink) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("no end after {} bytes of replies to {}", sink.len(), bytes.escape_ascii())
        }
        _ => {}
    }
}

#[test]
fn noise_does_not_bring_the_server_down() {
    let seconds = std::env::var("VARVE_NOISE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let seed = seed::seed("noise");
    let mut server = start();
    let (failed, streams) = (AtomicBool::new(false), AtomicU64::new(0));
    let end = Instant::now() + Duration::from_secs(seconds);
    thread::scope(|scope| {
        for id in 0..THREADS {
            let (server, failed, streams) = (&server, &failed, &streams);
            scope.spawn(move || {
                let _guard = StopOnPanic(failed);
                let mut random = Random::new(seed.wrapping_mul(THREADS).wrapping_add(id));
                let mut generator = Generator::new(random.next_u64(), 2 + (id % 2) as u8, Types::ALL);
                while Instant::now() < end && !failed.load(Ordering::Relaxed) {
                    let bytes = stream(&mut generator, &mut random);
                    send(server, &bytes, &mut random);
                    streams.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(!server.ended(), "the server ended:\n{}", server.log());
    println!("{} streams", streams.load(Ordering::Relaxed));
    let verified = server.client().call(&["the-debug-of-this-test", "VERIFY"]);
    assert_eq!(verified.map(|reply| reply.text()).unwrap_or_else(|e| format!("{e}: {}", server.log())), "OK");
}

/// A thread that fails ends the others too.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
