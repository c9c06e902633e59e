//! Varve's executor in this process, with a sink that keeps its effects: what each step left there.
//!
//! The clock stands still until a step moves it.

use super::table::Act;
use super::{Databases, Effect, Words, now_ms};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use varve_commands::{commands, debug};
use varve_exec::batch::{Batch, TurnState};
use varve_exec::journal::EffectStream;
use varve_exec::stats::CommandStats;
use varve_exec::{Blocked, CommandTable, LargeArguments, Session, WideCtx};
use varve_protocol::{Args, Parser, Reply, RequestLimits};
use varve_store::{
    EffectSink, Limits, LogGeometry, NodeLimits, Options, Policy, Prepared, Removal, Store, StoreWorker, Unit,
};
use varve_testkit::{RespValue, client};

/// Turns of the background in one step at most, and the time of each.
const ROUNDS: usize = 100;
const BUDGET: Duration = Duration::from_millis(1);

/// The stream of a store, as a replica would get it.
#[derive(Default)]
struct Kept(Mutex<(EffectStream, Vec<u8>)>);

impl EffectSink for Kept {
    fn append(&self, _worker: usize, unit: &Unit) -> u64 {
        let (stream, bytes) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.append(unit, bytes);
        bytes.len() as u64
    }

    fn prepare(&self, _unit: &Unit, _prepared: &mut Option<Prepared>) {
        unreachable!("no step has a thousand arguments")
    }

    fn append_prepared(&self, _prepared: Prepared) -> u64 {
        unreachable!("nothing was prepared")
    }

    fn end(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.len() as u64
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// One connection.
struct Connection {
    parser: Parser,
    session: Session,
    blocked: Option<Blocked>,
}

/// A store with one worker and three connections.
pub(crate) struct Ours {
    store: Arc<Store>,
    worker: StoreWorker,
    batch: Batch,
    table: CommandTable,
    connections: Vec<Connection>,
    out: Reply,
    now_ms: i64,
    kept: Arc<Kept>,
    databases: Databases,
    /// The bytes that came into the stream since it was last asked for.
    bytes: Vec<u8>,
}

impl Ours {
    /// An empty store.
    pub(crate) fn new() -> Ours {
        let geometry = LogGeometry { reserve_bytes: 8 << 30, ..LogGeometry::default() };
        let store = Store::new(&Options { seed: 7, geometry, ..Options::default() }).expect("an address range");
        let kept = Arc::new(Kept::default());
        store.set_effect_sink(Arc::clone(&kept) as Arc<dyn EffectSink>);
        store.keep_effects(true);
        let mut ours = Ours {
            worker: store.worker(0),
            store,
            batch: Batch::new(CommandStats::new(commands().ids())),
            table: CommandTable::new(commands()),
            connections: Vec::new(),
            out: Reply::new(),
            now_ms: now_ms(),
            kept,
            databases: Databases::default(),
            bytes: Vec::new(),
        };
        ours.reset();
        ours
    }

    /// Empties everything: what the next case begins with.
    pub(crate) fn reset(&mut self) {
        for connection in self.connections.drain(..) {
            if let Some(blocked) = connection.blocked
                && blocked.cancel()
            {
                blocked.forget(&mut self.worker);
            }
        }
        let connection = |id| Connection {
            parser: Parser::new(RequestLimits::default()),
            session: Session::new(id, self.now_ms, true),
            blocked: None,
        };
        self.connections.extend((1..=3).map(connection));
        for line in ["FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 1"] {
            self.run(1, &super::table::split(line));
        }
        super::table::SETTINGS.iter().for_each(|(name, value)| self.set(name, value));
        self.effects();
        self.bytes.clear();
    }

    /// Its clock, milliseconds of Unix time.
    pub(crate) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Sets its clock.
    pub(crate) fn set_now(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    /// Limits the memory, and evicts any key for room.
    pub(crate) fn limit(&mut self, bytes: u64) {
        self.store.set_limit(bytes, Policy::AllKeysLru);
    }

    /// Keys that were evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.store.totals().evicted
    }

    /// The digest of all keys.
    pub(crate) fn digest(&mut self) -> String {
        self.run(1, &super::table::split("DEBUG DIGEST")).text()
    }

    /// The bytes of the stream since the last reset or call.
    pub(crate) fn stream(&mut self) -> Vec<u8> {
        self.effects();
        std::mem::take(&mut self.bytes)
    }

    /// Changes a setting, as the server gives it to the store.
    fn set(&self, name: &str, value: &str) {
        if name == "stream-node-max-entries" {
            let stream = NodeLimits { bytes: 4096, entries: value.parse().expect("a number") };
            return self.store.shapes().set(&Limits { stream, ..Limits::default() });
        }
        let removal = match name {
            "lazyfree-lazy-user-del" => Removal::Taken,
            "lazyfree-lazy-expire" => Removal::Expired,
            "lazyfree-lazy-eviction" => Removal::Evicted,
            // Its removals follow from the command as it was sent, or are a DEL whatever it says.
            "lazyfree-lazy-server-del" => return,
            _ => panic!("{name} is no setting of effects"),
        };
        self.store.lazyfree().set(removal, value == "yes");
    }

    /// Does a step; the effects that it left.
    pub(crate) fn step(&mut self, act: &Act) -> Vec<Effect> {
        match act {
            Act::Wait(ms) => self.now_ms += *ms as i64,
            Act::Background => {
                let mut owes = || self.worker.background(self.now_ms, BUDGET).is_some_and(|due| due <= self.now_ms);
                (0..ROUNDS).take_while(|_| owes()).for_each(drop);
            }
            Act::Setting { name, value } => self.set(name, value),
            Act::Run { who, words } => drop(self.run(*who, words)),
        }
        self.effects()
    }

    /// Runs a command of a connection; its reply, null if it waits.
    pub(crate) fn run(&mut self, who: usize, words: &Words) -> RespValue {
        let mut request = Vec::new();
        client::encode(&mut request, words);
        let mut input = &mut request[..];
        let Ours { worker, batch, table, connections, out, store, .. } = self;
        let Connection { parser, session, blocked } = &mut connections[who - 1];
        let mark = out.mark();
        while !input.is_empty() || session.is_ongoing() {
            let mut none = LargeArguments::default();
            let turn = batch.turn(worker, table, parser, session, self.now_ms, input, &mut none, out);
            match turn.state {
                TurnState::Server { start, spans, .. } => {
                    let args = Args::new(&input[start..], &spans);
                    if let Err(error) = debug::run(&mut WideCtx { row: &debug::ROW, args, store, worker, out, session })
                    {
                        error.reply(out);
                    }
                }
                TurnState::Blocked(waiter) => *blocked = Some(waiter),
                TurnState::NeedInput { .. } | TurnState::Yield | TurnState::Published(_) => {}
                state => panic!("{state:?} of {words:?}"),
            }
            input = &mut input[turn.consumed..];
        }
        drop(batch.take_served());
        let reply: Vec<u8> = out.since(mark).flatten().copied().collect();
        out.truncate(mark);
        RespValue::decode(&reply).expect("a reply").map_or(RespValue::Null, |(value, _)| value)
    }

    /// The effects in the stream up to now.
    fn effects(&mut self) -> Vec<Effect> {
        let bytes = std::mem::take(&mut self.kept.0.lock().unwrap_or_else(PoisonError::into_inner).1);
        self.bytes.extend_from_slice(&bytes);
        let (mut left, mut effects) = (&bytes[..], Vec::new());
        while !left.is_empty() {
            let (value, used) = RespValue::decode(left).expect("requests").expect("whole requests");
            left = &left[used..];
            let words = value.elements().expect("a request").iter().map(|word| word.bytes().expect("a word").to_vec());
            effects.extend(self.databases.effect(words.collect()));
        }
        effects
    }
}
