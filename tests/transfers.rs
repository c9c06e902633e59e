//! Transfers between accounts by eight clients on four workers, with WATCH, MULTI and EXEC. VARVE_STRESS_SECONDS of rounds
//! (5); a minute is asked for with `VARVE_STRESS_SECONDS=60 cargo test --release -p varve-tests --test transfers`.
//!
//! ```text
//!   a round's accounts   2 strings, 2 fields of one hash, 1 of another: each history must have a legal order, in which a
//!                        transaction is one moment and its watched keys are as they were read (testkit's `linear`)
//!   the bank             48 strings and fields that live on: whoever looks at all of them sees the same sum
//! ```
//! Segments are of 64 KB, and beside the clients others' writes and deletes keep reclaim and index growth moving.

#![forbid(unsafe_code)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use varve_testkit::linear::{Answer, Bytes, Call, HistoryEvent, Keyspace, check};
use varve_testkit::{Client, Launch, Random, RespValue, seed};
use varve_tests::churn::churn;
use varve_tests::ending::SetAtEnd;

const CLIENTS: usize = 8;
/// Acts of a client in a round.
const ACTS: usize = 6;
/// How often a transfer is tried again after its watched keys have changed.
const TRIES: usize = 4;
/// The balance that each account begins with.
const BEGIN: i64 = 100;
const BANK: usize = 48;
/// Fields of the bank's first hash that are no accounts: it is a table, the others are packed.
const PADDING: usize = 600;

/// Where an account's money is: a string, or a field of a hash.
#[derive(Clone)]
struct Account {
    key: String,
    field: Option<String>,
}

impl Account {
    fn string(key: String) -> Account {
        Account { key, field: None }
    }

    fn field(key: String, field: String) -> Account {
        Account { key, field: Some(field) }
    }

    /// A command on it: the one for strings, or the one for fields.
    fn words(&self, string: &str, hash: &str, value: Option<&str>) -> Vec<Bytes> {
        let name = if self.field.is_some() { hash } else { string };
        let all = [Some(name), Some(&self.key), self.field.as_deref(), value];
        all.into_iter().flatten().map(|word| word.as_bytes().to_vec()).collect()
    }

    fn get(&self) -> Vec<Bytes> {
        self.words("GET", "HGET", None)
    }

    fn set(&self, value: i64) -> Vec<Bytes> {
        self.words("SET", "HSET", Some(&value.to_string()))
    }

    fn add(&self, by: i64) -> Vec<Bytes> {
        self.words("INCRBY", "HINCRBY", Some(&by.to_string()))
    }
}

/// One client: its connection, its random numbers, the clock of all, what it saw.
struct Player<'a> {
    client: &'a mut Client,
    random: Random,
    clock: Instant,
    events: Vec<HistoryEvent>,
}

impl Player<'_> {
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn send(&mut self, commands: &[Vec<Bytes>]) -> Vec<RespValue> {
        commands.iter().for_each(|command| self.client.queue(command));
        self.client.flush().expect("sent");
        commands.iter().map(|_| self.client.read().expect("a reply")).collect()
    }

    /// WATCH of accounts and, behind it in the same pipeline, what they hold.
    fn watch(&mut self, accounts: &[Account], watched: &[usize]) -> Vec<i64> {
        let mut commands = vec![vec![b"WATCH".to_vec()]];
        commands[0].extend(watched.iter().map(|a| accounts[*a].key.clone().into_bytes()));
        commands.extend(watched.iter().map(|a| accounts[*a].get()));
        let begin = self.now();
        let replies = self.send(&commands);
        let end = self.now();
        assert_eq!(replies[0].text(), "OK");
        let seen = watched.iter().zip(&replies[1..]).map(|(a, reply)| {
            let RespValue::Bulk(bytes) = reply else { panic!("an account holds {reply:?}") };
            self.events.push(HistoryEvent {
                begin,
                end,
                call: Call::Get(*a),
                answer: Answer::RespValue(Some(bytes.clone())),
            });
            number(bytes)
        });
        seen.collect()
    }

    /// MULTI, these, EXEC. `None`: a watched key has changed.
    fn exec(&mut self, queued: Vec<Vec<Bytes>>) -> Option<Vec<RespValue>> {
        let mut commands = vec![vec![b"MULTI".to_vec()]];
        commands.extend(queued);
        commands.push(vec![b"EXEC".to_vec()]);
        let mut replies = self.send(&commands);
        let last = replies.pop();
        assert_eq!(replies[0].text(), "OK");
        assert!(replies[1..].iter().all(|reply| reply.text() == "QUEUED"), "{replies:?}");
        match last {
            Some(RespValue::Array(answers)) => Some(answers),
            Some(RespValue::NullArray) => None,
            other => panic!("EXEC answers {other:?}"),
        }
    }

    /// Runs the transaction and records it. `read`: the watched accounts and the values that were read.
    fn exec_recorded(
        &mut self,
        read: &[(usize, i64)],
        calls: Vec<Call>,
        queued: Vec<Vec<Bytes>>,
    ) -> Option<Vec<RespValue>> {
        let begin = self.now();
        let answers = self.exec(queued)?;
        let read = read.iter().map(|(a, value)| (*a, Some(bytes(*value)))).collect();
        let answer = Answer::Exec(answers.iter().zip(&calls).map(|(value, call)| answer(value, call)).collect());
        self.events.push(HistoryEvent { begin, end: self.now(), call: Call::Exec(read, calls), answer });
        Some(answers)
    }

    /// Two accounts that are not the same, and an amount.
    fn plan(&mut self, accounts: usize) -> (usize, usize, i64) {
        let from = self.random.below(accounts);
        let to = (from + 1 + self.random.below(accounts - 1)) % accounts;
        (from, to, 1 + self.random.below(9) as i64)
    }

    /// Reads two accounts, then writes what they shall hold if nobody has touched them. True if that was done.
    fn watched_transfer(&mut self, accounts: &[Account]) -> bool {
        let (from, to, amount) = self.plan(accounts.len());
        for _ in 0..TRIES {
            let held = self.watch(accounts, &[from, to]);
            let (less, more) = (held[0] - amount, held[1] + amount);
            let calls = vec![Call::Set(from, bytes(less)), Call::Set(to, bytes(more))];
            let queued = vec![accounts[from].set(less), accounts[to].set(more)];
            if self.exec_recorded(&[(from, held[0]), (to, held[1])], calls, queued).is_some() {
                return true;
            }
        }
        false
    }

    /// Changes two accounts without having looked.
    fn blind_transfer(&mut self, accounts: &[Account]) {
        let (from, to, amount) = self.plan(accounts.len());
        let calls = vec![Call::Add(from, -amount), Call::Add(to, amount)];
        let queued = vec![accounts[from].add(-amount), accounts[to].add(amount)];
        assert!(self.exec_recorded(&[], calls, queued).is_some(), "nothing was watched");
    }

    /// Looks, and gives up in the middle.
    fn discarded_transfer(&mut self, accounts: &[Account]) {
        let (from, to, amount) = self.plan(accounts.len());
        self.watch(accounts, &[from, to]);
        let word = |text: &str| vec![text.as_bytes().to_vec()];
        let replies = self.send(&[word("MULTI"), accounts[from].set(-amount), word("DISCARD")]);
        assert_eq!(replies[2].text(), "OK");
    }

    /// All accounts at one moment.
    fn audit(&mut self, accounts: &[Account]) {
        let calls = (0..accounts.len()).map(Call::Get).collect();
        let answers = self.exec_recorded(&[], calls, accounts.iter().map(Account::get).collect());
        assert_sum(&answers.expect("nothing was watched"), accounts.len());
    }

    /// One client's part of a round. Returns how many watched transfers were made, and given up.
    fn play(&mut self, accounts: &[Account], bank: &[Account]) -> (u64, u64) {
        let (mut made, mut given_up) = (0, 0);
        for _ in 0..ACTS {
            match self.random.below(8) {
                0..=3 if self.watched_transfer(accounts) => made += 1,
                0..=3 => given_up += 1,
                4 | 5 => self.blind_transfer(accounts),
                6 => self.discarded_transfer(accounts),
                _ => self.audit(accounts),
            }
        }
        // The bank's histories would be too long to be checked: only its sum is.
        let recorded = self.events.len();
        for _ in 0..ACTS {
            if self.random.one_in(8) {
                self.audit(bank);
            } else {
                made += u64::from(self.watched_transfer(bank));
            }
        }
        self.events.truncate(recorded);
        (made, given_up)
    }
}

fn bytes(value: i64) -> Bytes {
    value.to_string().into_bytes()
}

fn number(bytes: &[u8]) -> i64 {
    let text = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    text.unwrap_or_else(|| panic!("an account holds {bytes:?}"))
}

/// A queued call's answer. SET and HSET tell different things about a write that must succeed.
fn answer(value: &RespValue, call: &Call) -> Answer {
    match (value, call) {
        (RespValue::Simple(_) | RespValue::Integer(0), Call::Set(..)) => Answer::Ok,
        (RespValue::Integer(n), Call::Add(..)) => Answer::Integer(*n),
        (RespValue::Bulk(bytes), Call::Get(_)) => Answer::RespValue(Some(bytes.clone())),
        _ => panic!("{call:?} was answered with {value:?}"),
    }
}

fn assert_sum(values: &[RespValue], accounts: usize) {
    let sum: i64 = values.iter().map(|value| number(value.bytes().expect("an account's value"))).sum();
    assert_eq!(sum, BEGIN * accounts as i64, "{values:?}");
}

/// Makes accounts with the money that they begin with.
fn open(client: &mut Client, accounts: Vec<Account>) -> Vec<Account> {
    for account in &accounts {
        assert!(!client.call(&account.set(BEGIN)).expect("a reply").is_error());
    }
    accounts
}

fn accounts_of(round: u64) -> Vec<Account> {
    let string = |n: usize| Account::string(format!("t:{round}:{n}"));
    let field = |hash: usize, n: usize| Account::field(format!("t:{round}:h{hash}"), format!("f{n}"));
    vec![string(0), string(1), field(0, 0), field(0, 1), field(1, 0)]
}

fn open_bank(client: &mut Client) -> Vec<Account> {
    let mut padding: Vec<String> = vec!["HSET".into(), "bank:h0".into()];
    padding.extend((0..PADDING).flat_map(|n| [format!("padding{n}"), "x".into()]));
    assert_eq!(client.call(&padding).expect("a reply"), RespValue::Integer(PADDING as i64));
    let account = |n: usize| match n % 2 {
        0 => Account::string(format!("bank:{n}")),
        _ => Account::field(format!("bank:h{}", n / 2 % 6), format!("f{n}")),
    };
    open(client, (0..BANK).map(account).collect())
}

/// One round; returns how many watched transfers were made, and given up.
fn round(clients: &mut [Client], bank: &[Account], first_seed: u64, round: u64) -> (u64, u64) {
    let accounts = open(&mut clients[0], accounts_of(round));
    let (clock, barrier) = (Instant::now(), Barrier::new(clients.len()));
    let (made, given_up) = (AtomicU64::new(0), AtomicU64::new(0));
    let play = |id: usize, client| {
        let random = Random::new(first_seed.wrapping_mul(1009).wrapping_add(round * 64 + id as u64));
        let mut player = Player { client, random, clock, events: Vec::new() };
        barrier.wait();
        let counts = player.play(&accounts, bank);
        made.fetch_add(counts.0, Ordering::Relaxed);
        given_up.fetch_add(counts.1, Ordering::Relaxed);
        player.events
    };
    let histories: Vec<Vec<HistoryEvent>> = thread::scope(|scope| {
        let play = &play;
        let work = clients.iter_mut().enumerate().map(|(id, client)| scope.spawn(move || play(id, client)));
        let work: Vec<_> = work.collect();
        work.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    let start = Keyspace::of(accounts.iter().map(|_| Some(bytes(BEGIN))).collect());
    if let Err(error) = check(&start, &histories) {
        panic!("VARVE_SEED={first_seed}, round {round}: {error}");
    }
    let values: Vec<RespValue> =
        accounts.iter().map(|account| clients[1].call(&account.get()).expect("a reply")).collect();
    assert_sum(&values, accounts.len());
    (made.into_inner(), given_up.into_inner())
}

#[test]
fn transfers_keep_the_sum_and_have_a_legal_order() {
    let seconds = std::env::var("VARVE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let first_seed = seed::seed("transfers");
    let launch = Launch::varve().config("io-threads 4").config("shards 4").config("varve-segment-bytes 65536");
    let server = launch.start().expect("varve-server starts");
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let bank = open_bank(&mut clients[0]);
    let stop = AtomicBool::new(false);
    let (mut rounds, mut made, mut given_up) = (0, 0, 0);
    thread::scope(|scope| {
        scope.spawn(|| churn(&server, &stop));
        let _stop = SetAtEnd(&stop);
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            let counts = round(&mut clients, &bank, first_seed, rounds);
            (rounds, made, given_up) = (rounds + 1, made + counts.0, given_up + counts.1);
        }
    });
    println!("{rounds} rounds of {CLIENTS} clients, {made} watched transfers, {given_up} given up");
    assert!(made > rounds, "transfers are made");
    assert_eq!(server.client().cmd("DEBUG VERIFY").text(), "OK");
}
