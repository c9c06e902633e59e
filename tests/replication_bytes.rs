//! The stream of a chain, byte for byte: each server sends what its own primary has sent, at the same offsets, through cut links
//! and promotions.
//!
//! ```text
//!   load --> top ---> middle ---> bottom
//!             |         |           |       taps: PSYNC at one offset, the bytes from there on
//!             +---- the same bytes -+
//! ```

#![forbid(unsafe_code)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use varve_testkit::{Launch, Server, figure, seed};
use varve_tests::fill::fill;
use varve_tests::replicas::{LIMIT, caught_up, field, follow, stop_following};

/// Commands of one load.
const COMMANDS: usize = 3_000;
/// How often links are cut beside it.
const CUTS: usize = 4;

/// A connection that is sent a server's stream from one offset on.
struct Tap {
    name: &'static str,
    stream: BufReader<TcpStream>,
}

impl Tap {
    /// Asks for the stream of this id behind this offset, as a replica does.
    fn open(name: &'static str, server: &Server, id: &str, offset: u64) -> io::Result<Tap> {
        let mut socket = TcpStream::connect(server.address())?;
        socket.set_read_timeout(Some(LIMIT))?;
        let mut tap = Tap { name, stream: BufReader::new(socket.try_clone()?) };
        let asked = format!("PSYNC {id} {}", offset + 1);
        for (line, wanted) in [("REPLCONF capa psync2", "+OK"), (&asked, "+CONTINUE")] {
            write!(socket, "{line}\r\n")?;
            let mut answer = String::new();
            tap.stream.read_line(&mut answer)?;
            assert!(answer.starts_with(wanted), "{name} answers {answer:?}");
        }
        Ok(tap)
    }

    /// The next bytes of the stream.
    fn next(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).map(|()| bytes)
    }
}

/// Writes to a server while links of all of them are cut.
fn load_and_cut(primary: &Server, servers: [&Server; 3], seed: u64) {
    thread::scope(|scope| {
        let loads = [seed, seed + 1].map(|seed| scope.spawn(move || fill(primary, seed, COMMANDS)));
        for nth in 0..CUTS {
            thread::sleep(Duration::from_millis(50));
            // The links of servers alone: a tap is a replica at its server.
            servers[nth % servers.len()].client().cmd("CLIENT KILL TYPE master");
        }
        loads.into_iter().for_each(|load| load.join().expect("a load"));
    });
}

/// All servers have the same stream behind an offset: as it comes, to those who were there before, and out of the backlog.
fn assert_same_bytes(taps: Vec<Tap>, servers: [(&'static str, &Server); 3], id: &str, (from, to): (u64, u64)) {
    let late = servers.map(|(name, server)| Tap::open(name, server, id, from).expect("the backlog has it"));
    let count = usize::try_from(to - from).expect("some megabytes");
    let mut streams = Vec::new();
    for mut tap in taps.into_iter().chain(late) {
        let bytes = tap.next(count).unwrap_or_else(|error| panic!("{} sends {count} bytes: {error}", tap.name));
        streams.push((tap.name, bytes));
    }
    let (_, wanted) = &streams[0];
    for (name, bytes) in &streams {
        let differs = bytes.iter().zip(wanted).position(|(one, other)| one != other);
        if let Some(at) = differs {
            let near =
                |bytes: &[u8]| bytes[at.saturating_sub(200)..bytes.len().min(at + 100)].escape_ascii().to_string();
            panic!("{name} differs {at} bytes behind {from}:\n{}\n{}", near(bytes), near(wanted));
        }
    }
}

fn chain_of(launches: [Launch; 3]) {
    let seed = seed::seed("bytes of a chain");
    let [top, middle, bottom] = launches.map(|launch| {
        let lines = ["repl-diskless-sync-delay 0", "repl-backlog-size 64mb", "repl-ping-replica-period 1"];
        lines.into_iter().fold(launch, Launch::config).start().expect("a server of the chain")
    });
    follow(&middle, &top);
    follow(&bottom, &middle);
    caught_up(&middle, &top);
    caught_up(&bottom, &middle);
    let servers = [("top", &top), ("middle", &middle), ("bottom", &bottom)];
    let mut client = top.client();
    let id = field(&mut client, "replication", "master_replid");
    let from = figure(&mut client, "master_repl_offset");
    // A server of before the load, and one of the chain that was there all the time. A chain's own links are cut meanwhile.
    let taps = servers.map(|(name, server)| Tap::open(name, server, &id, from).expect("a tap"));
    load_and_cut(&top, [&top, &middle, &bottom], seed);
    caught_up(&middle, &top);
    caught_up(&bottom, &middle);
    let to = figure(&mut client, "master_repl_offset");
    assert!(to > from + 100_000, "{} bytes are a load", to - from);
    assert_same_bytes(taps.into(), servers, &id, (from, to));

    // The middle one leads: what it has sent before stays, under the id of before; behind it the old primary follows.
    stop_following(&middle);
    follow(&top, &middle);
    let (mut client, old) = (middle.client(), id);
    let id = field(&mut client, "replication", "master_replid");
    assert_ne!(id, old);
    caught_up(&top, &middle);
    caught_up(&bottom, &middle);
    let from = figure(&mut client, "master_repl_offset");
    let taps = servers.map(|(name, server)| Tap::open(name, server, &id, from).expect("a tap"));
    load_and_cut(&middle, [&top, &middle, &bottom], seed + 2);
    caught_up(&top, &middle);
    caught_up(&bottom, &middle);
    let to = figure(&mut client, "master_repl_offset");
    assert_same_bytes(taps.into(), servers, &id, (from, to));
    let full = [&top, &middle, &bottom].map(|server| figure(&mut server.client(), "sync_full"));
    assert_eq!(full, [1, 1, 0], "nobody needed all data again");
}

#[test]
fn issue_17_a_chain_has_one_stream_byte_for_byte() {
    let varve = || Launch::varve().config("io-threads 2");
    chain_of([varve(), varve(), varve()]);
}

#[test]
fn issue_17_a_chain_with_redis_server_has_one_stream_byte_for_byte() {
    let varve = || Launch::varve().config("io-threads 2");
    chain_of([Launch::peer(), varve(), Launch::peer()]);
    chain_of([varve(), Launch::peer(), varve()]);
}
