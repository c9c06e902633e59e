//! `scripts`: the CPU of scripts and functions beside the peer, and how much one worker's scripts take from another worker's
//! commands.
//!
//! ```text
//!   part cpu      EVALSHA, FCALL, pipeline 16 ------------> Varve | peer: CPU us a request
//!   part beside   thread 1: EVALSHA without pause ----.
//!                 thread 2: GET and SET, half each ----+--> one store, in process; no sockets: two cores cannot show it else
//! ```
//! `beside` tells the CPU of one of thread 2's commands, once alone and once beside the scripts. A thread that finds a shard taken
//! tries again, as a worker does, and pays for it.

use crate::engine::cpu_ns;
use crate::load::Traffic;
use crate::report::{Findings, Role, Row, Target, Value, figures};
use crate::turns::{self, must, push, random};
use crate::{contenders, kept, say};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier, LazyLock};
use std::time::Duration;
use varve_exec::batch::{Batch, ScriptParts, TurnState};
use varve_exec::stats::CommandStats;
use varve_exec::{CommandSet, CommandTable, LargeArguments, Session};
use varve_protocol::{Parser, Reply, RequestLimits};
use varve_scripts::{Keeper, Scripts};
use varve_store::{Options, Store, StoreWorker};
use varve_testkit::{Random, Server, client};

/// Milliseconds of Unix time at which a store begins.
const START_MS: i64 = 1_795_000_000_000;
const KEYS: usize = 100_000;
/// Requests of one turn of a thread.
const PIPELINE: usize = 16;
/// A write and a read of one key.
const BODY: &str = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])";
const SHA: &[u8] = b"2b20e84ba26251fc86a627f03be6dd614b31bac8";
const EMPTY: &str = "return 1";
const EMPTY_SHA: &[u8] = b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
const LIBRARY: &str = "#!lua name=bench\nredis.register_function('write', function(KEYS, ARGV) redis.call('SET', KEYS[1], ARGV[1]) \
                       return redis.call('GET', KEYS[1]) end) redis.register_function('empty', function() return 1 end)";
/// CPU of the peer's that a script may take, and one that does nothing.
const TARGET: f64 = 0.7;
const EMPTY_TARGET: f64 = 0.6;
/// Share of its commands that a thread is to keep beside another one's scripts.
const BESIDE: f64 = 0.9;

type Part = fn(bool, &mut Vec<Row>) -> io::Result<()>;

const PARTS: [(&str, Part); 2] = [("cpu", cpu), ("beside", beside)];

/// Runs the experiment, or one part of it.
///
/// # Errors
/// When a server or a store cannot be made, or there is no such part.
pub(crate) fn run(quick: bool, part: Option<&str>) -> io::Result<Findings> {
    let chosen: Vec<_> = PARTS.iter().filter(|(name, _)| part.is_none_or(|part| part == *name)).collect();
    if chosen.is_empty() {
        return Err(io::Error::other("no such part: cpu, beside"));
    }
    let mut rows = Vec::new();
    for (_, run) in chosen {
        run(quick, &mut rows)?;
    }
    Ok(Findings::new("scripts", "Scripts and functions").with(figures("Scripts", &rows)))
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("key:{:012}", random.below(KEYS)).into_bytes()
}

type Write = fn(&mut Vec<u8>, &mut Random);

const CASES: [(&str, Write, f64); 4] = [
    ("EVALSHA of SET and GET", |out, random| push(out, &[b"EVALSHA", SHA, b"1", &key(random), b"xxx"]), TARGET),
    ("EVALSHA of an empty script", |out, _| push(out, &[b"EVALSHA", EMPTY_SHA, b"0"]), EMPTY_TARGET),
    ("FCALL of SET and GET", |out, random| push(out, &[b"FCALL", b"write", b"1", &key(random), b"xxx"]), TARGET),
    ("FCALL of an empty function", |out, _| push(out, &[b"FCALL", b"empty", b"0"]), EMPTY_TARGET),
];

fn cpu(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let (requests, turns) = if quick { (2_000, 1) } else { (300_000, 5) };
    let contenders = contenders::start(&[])?;
    for one in &contenders {
        contenders::spared(&one.name, one.role, prepare(&one.server))?;
    }
    let plan = Traffic { connections: 10, pipeline: PIPELINE, requests };
    for (name, write, target) in CASES {
        let found = kept::case(name, || turns::beside(&contenders, plan, turns, &|_| Ok(()), &random(write)))?;
        rows.extend(found.rows(name, Some(Target::Ratio(target))));
    }
    Ok(())
}

/// Brings a server its scripts and functions.
fn prepare(server: &Server) -> io::Result<()> {
    let client = &mut server.connect()?;
    for script in [BODY, EMPTY] {
        client.call(&["SCRIPT", "LOAD", script])?;
    }
    client.call(&["FUNCTION", "LOAD", LIBRARY])?;
    must(client, "FCALL empty 0")?;
    Ok(())
}

/// One thread's part of a store.
struct Hand {
    worker: StoreWorker,
    batch: Batch,
    table: Arc<CommandTable>,
    parser: Parser,
    session: Session,
    out: Reply,
    random: Random,
}

fn commands() -> &'static CommandSet {
    static ALL: LazyLock<CommandSet> =
        LazyLock::new(|| CommandSet::new(&[varve_commands::FAMILIES, varve_scripts::FAMILIES].concat()));
    &ALL
}

impl Hand {
    fn new(store: &Arc<Store>, scripts: &Arc<Scripts>, number: usize) -> Hand {
        let table = Arc::new(CommandTable::new(commands()));
        let mut batch = Batch::new(CommandStats::new(commands().ids()));
        let keeper = || Box::new(Keeper::new(Arc::clone(scripts)));
        let worker = store.script_worker(number);
        batch.set_scripts(ScriptParts { worker, table: Arc::clone(&table), keeper: keeper(), aside: keeper() });
        Hand {
            worker: store.worker(number),
            batch,
            table,
            parser: Parser::new(RequestLimits::default()),
            session: Session::new(number as u64 + 1, START_MS, true),
            out: Reply::new(),
            random: Random::new(number as u64),
        }
    }

    /// Runs requests to their end.
    fn run(&mut self, mut input: &mut [u8]) {
        let Hand { worker, batch, table, parser, session, out, .. } = self;
        while !input.is_empty() {
            let none = &mut LargeArguments::default();
            let turn = batch.turn(worker, table, parser, session, START_MS, input, none, out);
            if let TurnState::Script(mut script) = turn.state {
                // It was kept from its core for a slice.
                let ended = loop {
                    match script.go_on() {
                        Ok(ended) => break ended,
                        Err(rests) => script = rests,
                    }
                };
                let again = batch.end_script(ended, worker, Some(session), out);
                assert!(again.is_none(), "it names no command on the whole keyspace");
            }
            input = &mut input[turn.consumed..];
        }
        out.clear(1 << 16);
    }

    /// Scripts that it has run.
    fn scripts(&self) -> u64 {
        self.batch.stats().of(self.table.get(b"evalsha").expect("a command")).calls.get()
    }

    /// Runs requests until it is told to stop; the CPU of one in microseconds.
    fn until(&mut self, stop: &AtomicBool, write: Write) -> f64 {
        let (mut done, mut input, cpu) = (0, Vec::new(), cpu_ns());
        while !stop.load(Relaxed) {
            input.clear();
            (0..PIPELINE).for_each(|_| write(&mut input, &mut self.random));
            self.run(&mut input);
            done += PIPELINE;
        }
        (cpu_ns() - cpu) as f64 / 1e3 / done.max(1) as f64
    }
}

fn command(out: &mut Vec<u8>, random: &mut Random) {
    let key = key(random);
    if random.one_in(2) {
        push(out, &[b"GET", &key]);
    } else {
        push(out, &[b"SET", &key, b"xxx"]);
    }
}

fn beside(quick: bool, rows: &mut Vec<Row>) -> io::Result<()> {
    let (time, rounds) = (Duration::from_millis(if quick { 20 } else { 1000 }), if quick { 1 } else { 7 });
    let store = Store::new(&Options { workers: 2, ..Options::default() })?;
    let scripts = Arc::new(Scripts::default());
    let mut hands = [0, 1].map(|number| Hand::new(&store, &scripts, number));
    let mut load = Vec::new();
    client::encode(&mut load, &["SCRIPT", "LOAD", BODY]);
    hands[0].run(&mut load);
    let (mut alone, mut with) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        alone.push(round(&mut hands, time, false).0);
        let (commands, calls) = round(&mut hands, time, true);
        assert!(calls > 0, "scripts ran meanwhile");
        with.push(commands);
    }
    let [alone, with] = [alone, with].map(Value::of);
    say!("GET and SET: {with:.4} us beside scripts, {alone:.4} alone");
    let row = Row::alone("GET and SET of one worker", "us of CPU, in process");
    let row = row.at_most(Target::AtMost((alone.median / BESIDE * 1000.0).round() / 1000.0));
    let row = row.with("Varve, beside another worker's scripts", Role::Varve, with);
    rows.push(row.with("Varve, without scripts", Role::Other, alone));
    Ok(())
}

/// CPU of a command of the second thread, in microseconds, and the scripts of the first one meanwhile.
fn round(hands: &mut [Hand; 2], time: Duration, with_scripts: bool) -> (f64, u64) {
    let (stop, begin) = (&AtomicBool::new(false), &Barrier::new(3));
    let [first, second] = hands;
    std::thread::scope(|scope| {
        let scripts = scope.spawn(move || {
            let before = first.scripts();
            begin.wait();
            if with_scripts {
                first.until(stop, CASES[0].1);
            }
            first.scripts() - before
        });
        let measured = scope.spawn(move || {
            begin.wait();
            second.until(stop, command)
        });
        begin.wait();
        std::thread::sleep(time);
        stop.store(true, Relaxed);
        (measured.join().expect("a thread of the experiment"), scripts.join().expect("a thread of the experiment"))
    })
}
