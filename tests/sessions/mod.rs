//! The storm's sessions: transactions, clients that wait, channels, caches.
//!
//! ```text
//! transfers   two of the bank's accounts under WATCH, written with EXEC: the bank's sum is always 0
//! line        two lists that are pushed to, popped, waited for and moved along: every number comes out once
//! wires       a channel a client, heard by two others twice: nothing is missing, nothing changes its place
//! cache       what a tracking connection has read and was not told of since is as old as its last reply at most
//! ears        who listens to everything while anything goes, and leaves in the middle: events, invalidations, MONITOR
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use varve_testkit::{Client, Random, RespValue, Server};

/// Accounts of the bank.
const ACCOUNTS: usize = 6;
/// Times that a wire is heard: by each listener as its channel and as a pattern's.
const HEARD: i64 = 2 * LISTENERS as i64;
/// Connections that listen to the wires.
pub(crate) const LISTENERS: usize = 2;

/// Sums that all clients share.
#[derive(Default)]
pub(crate) struct Sums {
    pushed: AtomicU64,
    popped: AtomicU64,
    transfers: AtomicU64,
    refused: AtomicU64,
    served: AtomicU64,
    messages: AtomicU64,
    stale: AtomicU64,
}

/// One client's part.
pub(crate) struct Session {
    id: u64,
    cache: Client,
    /// Values that the tracking connection has read and that have not been reported as stale since.
    known: HashMap<Vec<u8>, u64>,
    sent: u64,
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A connection that speaks RESP3.
fn resp3(server: &Server) -> Client {
    let mut client = server.client();
    assert!(!client.cmd("HELLO 3").is_error());
    client
}

fn ask(client: &mut Client, lines: &[String]) -> Vec<RespValue> {
    lines.iter().for_each(|line| client.queue(&words(line)));
    client.flush().expect("sent");
    lines.iter().map(|_| client.read().expect("a reply")).collect()
}

/// True for what the limit refuses.
fn is_refused(reply: &RespValue) -> bool {
    reply.is_error() && (reply.text().starts_with("OOM") || reply.text().starts_with("EXECABORT"))
}

impl Session {
    pub(crate) fn new(server: &Server, id: u64) -> Session {
        let mut cache = resp3(server);
        assert_eq!(cache.cmd("CLIENT TRACKING ON").text(), "OK");
        Session { id, cache, known: HashMap::new(), sent: 0 }
    }

    /// One act, on the client's own connection and on the others of the session. `counters`: how many there are to raise.
    pub(crate) fn act(
        &mut self,
        client: &mut Client,
        random: &mut Random,
        sums: &Sums,
        counters: usize,
    ) -> Option<usize> {
        match random.below(7) {
            0 | 1 => transfer(client, random, sums),
            2 => push(client, random, sums),
            3 => wait(client, random, sums),
            4 => self.publish(client, random),
            _ => return self.raise(client, random, counters),
        }
        None
    }

    /// Publishes to the client's own wire, by itself or in a transaction.
    fn publish(&mut self, client: &mut Client, random: &mut Random) {
        self.sent += 1;
        let line = format!("PUBLISH wire:{} {}", self.id, self.sent);
        if random.one_in(3) {
            let replies = ask(client, &["MULTI".into(), line, "EXEC".into()]);
            if is_refused(&replies[2]) {
                self.sent -= 1;
                return;
            }
            assert_eq!(replies[2].elements().map(|all| all[0].integer()), Some(Some(HEARD)), "{replies:?}");
        } else {
            assert_eq!(ask(client, &[line])[0].integer(), Some(HEARD));
        }
    }

    /// Reads a counter into the cache; raises it, and looks whether the cache was told. The counter that was raised.
    fn raise(&mut self, client: &mut Client, random: &mut Random, counters: usize) -> Option<usize> {
        let n = random.below(counters);
        let key = format!("counter:{n}").into_bytes();
        if random.one_in(2) {
            let value = self.reply(&[b"GET".to_vec(), key.clone()]);
            // Told of it behind the reply, it would be gone again at the next one.
            self.known.insert(key, if value.is_null() { 0 } else { value.text().parse().expect("a counter") });
            return None;
        }
        let raised = ask(client, &[format!("INCR counter:{n}")])[0].integer()?;
        self.reply(&words("PING"));
        let known = self.known.get(&key);
        assert!(known.is_none(), "the cache of client {} holds {known:?}, and {raised} was acknowledged", self.id);
        Some(n)
    }

    /// The reply on the tracking connection; what it is told before that is taken out of the cache.
    fn reply(&mut self, request: &[Vec<u8>]) -> RespValue {
        self.cache.queue(request);
        self.cache.flush().expect("sent");
        loop {
            let value = self.cache.read().expect("a reply");
            let RespValue::Push(parts) = &value else { return value };
            assert_eq!(parts[0].text(), "invalidate", "{value:?}");
            match parts[1].elements() {
                Some(keys) => self.known.retain(|known, _| keys.iter().all(|key| key.bytes() != Some(known))),
                None => self.known.clear(),
            }
        }
    }

    /// The end: what was sent is the last that listeners hear.
    pub(crate) fn finish(mut self, client: &mut Client, sums: &Sums) {
        sums.messages.fetch_add(self.sent, Relaxed);
        sums.stale.fetch_add(self.known.len() as u64, Relaxed);
        self.reply(&words("CLIENT TRACKING OFF"));
        assert_eq!(ask(client, &[format!("PUBLISH wire:{} end", self.id)])[0].integer(), Some(HEARD));
    }
}

/// Moves an amount between two accounts if nobody has touched them; a refused or unlucky one changes nothing.
fn transfer(client: &mut Client, random: &mut Random, sums: &Sums) {
    let from = random.below(ACCOUNTS);
    let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
    let (from, to) = (format!("bank:{from}"), format!("bank:{to}"));
    let read = ask(client, &[format!("WATCH {from} {to}"), format!("MGET {from} {to}")]);
    let held = read[1].elements().expect("two accounts");
    let balance = |value: &RespValue| if value.is_null() { 0 } else { value.text().parse::<i64>().expect("a balance") };
    let (less, more) = (balance(&held[0]) - 7, balance(&held[1]) + 7);
    let mut lines =
        vec!["MULTI".to_owned(), format!("SET {from} {less}"), format!("SET {to} {more}"), "EXEC".to_owned()];
    if random.one_in(8) {
        lines[3] = "DISCARD".into();
    }
    let replies = ask(client, &lines);
    match replies[3].elements() {
        Some(done) => {
            assert!(done.len() == 2 && done.iter().all(|reply| reply.text() == "OK"), "{replies:?}");
            sums.transfers.fetch_add(1, Relaxed);
        }
        None => {
            let known = replies[3].is_null() || is_refused(&replies[3]) || replies[3].text() == "OK";
            assert!(known, "{replies:?}");
            sums.refused.fetch_add(1, Relaxed);
        }
    }
}

fn push(client: &mut Client, random: &mut Random, sums: &Sums) {
    let (list, end) = (["line:a", "line:b"][random.below(2)], ["LPUSH", "RPUSH"][random.below(2)]);
    let number = random.next_u64() >> 40;
    let line = format!("{end} {list} {number}");
    // Once in a while two of them in a transaction: they are served behind it.
    let (lines, count) = if random.one_in(3) {
        (vec!["MULTI".to_owned(), line.clone(), line, "EXEC".to_owned()], 2)
    } else {
        (vec![line], 1)
    };
    let replies = ask(client, &lines);
    let last = replies.last().expect("a reply");
    if is_refused(last) {
        return;
    }
    assert!(!last.is_error() && !last.is_null(), "{replies:?}");
    sums.pushed.fetch_add(number * count, Relaxed);
}

/// Waits for a number for some milliseconds, or lets one be moved.
fn wait(client: &mut Client, random: &mut Random, sums: &Sums) {
    let lines = [
        "BLPOP line:a line:b 0.02",
        "BRPOP line:b line:a 0.02",
        "BLMPOP 0.02 2 line:b line:a LEFT COUNT 2",
        "BLMOVE line:a line:b LEFT RIGHT 0.02",
        "BRPOPLPUSH line:b line:b 0.02",
    ];
    let which = random.below(lines.len());
    let reply = ask(client, &[lines[which].to_owned()]).remove(0);
    if reply.is_null() || is_refused(&reply) {
        return;
    }
    sums.served.fetch_add(1, Relaxed);
    let number = |value: &RespValue| value.text().parse::<u64>().expect("a number");
    let popped = match (which, reply.elements()) {
        (0 | 1, Some(pair)) => number(&pair[1]),
        (2, Some(pair)) => pair[1].elements().expect("numbers").iter().map(number).sum(),
        (3 | 4, None) if !reply.is_error() => 0,
        _ => panic!("{}: {reply:?}", lines[which]),
    };
    sums.popped.fetch_add(popped, Relaxed);
}

/// Listens to the wires of these clients until each has ended, then says what it heard.
pub(crate) fn listen(client: &mut Client, clients: u64, ready: impl FnOnce()) -> u64 {
    client.queue(&words("PSUBSCRIBE wire:*"));
    (0..clients).for_each(|id| client.queue(&words(&format!("SUBSCRIBE wire:{id}"))));
    client.flush().expect("sent");
    for _ in 0..=clients {
        assert!(client.read().is_ok_and(|reply| reply.elements().is_some_and(|parts| parts.len() == 3)));
    }
    ready();
    // By client: numbers heard as the channel's and as the pattern's.
    let mut heard = vec![[0_u64; 2]; clients as usize];
    let mut ended = 0;
    while ended < 2 * clients {
        let reply = client.read().expect("a message");
        let texts: Vec<String> = reply.elements().expect("a message").iter().map(RespValue::text).collect();
        let (kind, channel, message) = match texts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["message", channel, message] => (0, channel, message),
            ["pmessage", "wire:*", channel, message] => (1, channel, message),
            _ => panic!("{texts:?}"),
        };
        let id: usize = channel.strip_prefix("wire:").and_then(|id| id.parse().ok()).expect("a wire");
        if message == "end" {
            ended += 1;
            continue;
        }
        heard[id][kind] += 1;
        assert_eq!(message.parse(), Ok(heard[id][kind]), "the messages of client {id}, one behind the other");
    }
    assert!(heard.iter().all(|[one, other]| one == other), "{heard:?}");
    heard.iter().map(|[one, _]| one).sum()
}

/// Nothing was lost or doubled.
pub(crate) fn hold(client: &mut Client, sums: &Sums) {
    let balances = client.cmd("MGET bank:0 bank:1 bank:2 bank:3 bank:4 bank:5");
    let balances = balances.elements().expect("balances").iter().filter(|value| !value.is_null());
    assert_eq!(balances.map(|value| value.text().parse::<i64>().expect("a balance")).sum::<i64>(), 0, "the bank's sum");
    let mut left = sums.popped.load(Relaxed);
    for list in ["line:a", "line:b"] {
        let numbers = client.cmd(&format!("LRANGE {list} 0 -1"));
        left +=
            numbers.elements().expect("a list").iter().map(|n| n.text().parse::<u64>().expect("a number")).sum::<u64>();
    }
    assert_eq!(left, sums.pushed.load(Relaxed), "sum of the line");
    println!(
        "transfers {:?} made, {:?} not; served {:?}; messages {:?}; {:?} counters cached at the end",
        sums.transfers, sums.refused, sums.served, sums.messages, sums.stale
    );
}

/// Commands of a transaction around others, in whose keys somebody may be before EXEC.
pub(crate) fn wrap(random: &mut Random, batch: &mut Vec<Vec<Vec<u8>>>, key: &[u8]) {
    let mut at = random.below(batch.len() + 1);
    let mut insert = |line: &[&[u8]]| {
        batch.insert(at, line.iter().map(|word| word.to_vec()).collect());
        at += 1 + random.below(batch.len() - at);
    };
    insert(&[b"WATCH", key]);
    insert(&[b"MULTI"]);
    insert(&[b"BLPOP", key, b"0.01"]);
    insert(&[b"EXEC"]);
    insert(&[b"BLPOP", key, b"0.001"]);
}

/// Listens to everything for a moment, again and again until the end, and leaves with whatever it has not read.
pub(crate) fn overhear(server: &Server, stop: &AtomicBool) {
    let begins = ["PSUBSCRIBE *", "CLIENT TRACKING ON BCAST PREFIX key:1", "CLIENT TRACKING ON", "MONITOR"];
    let events = ["KEA", "", "AKEmn", "Ex"];
    for round in 0.. {
        if stop.load(Relaxed) {
            return;
        }
        let event = events[round % events.len()];
        let set = server.client().call(&["CONFIG", "SET", "notify-keyspace-events", event]).expect("a reply");
        assert_eq!(set.text(), "OK");
        let mut ears = begins.map(|line| {
            let mut client = resp3(server);
            assert!(!client.cmd(line).is_error(), "{line}");
            client.set_timeout(Duration::from_millis(2)).expect("a timeout");
            client
        });
        ears[2].queue(&words(&format!("MGET key:{} key:{}", round % 97, round % 89)));
        ears[2].flush().expect("sent");
        for ear in &mut ears {
            let _ = (0..500).find(|_| ear.read().is_err());
        }
    }
}
