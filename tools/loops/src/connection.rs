//! One store with one worker and two connections, served as a server's worker serves them, from bytes to bytes.

use varve_acl::{KnownCommands, RuleContext, User};
use varve_commands::commands;
use varve_exec::batch::{Batch, ScriptParts, TurnState, TurnTimes};
use varve_exec::notify::{self, Events};
use varve_exec::stats::CommandStats;
use varve_exec::tracking::Tracking;
use varve_exec::{CommandSet, CommandTable, LargeArguments, Session};
use varve_protocol::{Parser, Reply, RequestLimits};
use varve_scripts::{Keeper, Scripts};
use varve_store::{Author, LogGeometry, Observer, Options, Store, StoreWorker};

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Milliseconds of Unix time at which everything begins.
const NOW_MS: i64 = 1_795_000_000_000;
/// Memory that the reply buffer keeps, as in a server.
const REPLY_KEEP_BYTES: usize = 128 * 1024;
/// The store's seed.
const SEED: u64 = 0x5eed;

/// Connections that a loop has; the first one fills the store.
const CLIENTS: usize = 2;

/// A feature of a server that is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Nothing.
    Plain,
    /// Keyspace events of all classes, on both kinds of channels (`notify-keyspace-events KEA`).
    Events,
    /// The second connection tracks what it reads (`CLIENT TRACKING ON`).
    Tracking,
    /// The second connection is that of a user with the right to all commands, but only to keys of three patterns. The
    /// keys of the loops fit the last one alone.
    Rights,
    /// There are scripts and functions.
    Scripts,
    /// No command is sampled for the rankings of keys.
    Unsampled,
}

/// The rules of the user of [`Setting::Rights`].
const RULES: [&[u8]; 5] = [b"on", b"+@all", b"~session:*:data", b"~job:*", b"~k*"];

/// Requests that one connection sends together.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) client: usize,
    pub(crate) bytes: Vec<u8>,
}

struct Client {
    parser: Parser,
    session: Session,
}

/// All commands with those about scripts.
fn with_scripts() -> &'static CommandSet {
    static ALL: LazyLock<CommandSet> =
        LazyLock::new(|| CommandSet::new(&[varve_commands::FAMILIES, varve_scripts::FAMILIES].concat()));
    &ALL
}

pub(crate) struct Connections {
    worker: StoreWorker,
    batch: Batch,
    commands: Arc<CommandTable>,
    clients: Vec<Client>,
    bodies: LargeArguments,
    out: Reply,
    now_ms: i64,
}

impl Connections {
    /// To an empty store.
    pub(crate) fn new(setting: Setting) -> Connections {
        let geometry = LogGeometry { reserve_bytes: 4 << 30, ..LogGeometry::default() };
        let store = Store::new(&Options { seed: SEED, geometry, ..Options::default() }).expect("an address range");
        let session = |number: usize| Session::new(number as u64 + 1, NOW_MS, true);
        let client = |number| Client { parser: Parser::new(RequestLimits::default()), session: session(number) };
        let commands = if setting == Setting::Scripts { with_scripts() } else { commands() };
        let stats = CommandStats::new(commands.ids());
        if setting == Setting::Unsampled {
            // A collection of one command of four thousand million takes the place of the samples that are always taken.
            stats.hot_keys.collect(u32::MAX);
        }
        let mut batch = Batch::new(stats);
        batch.set_times(TurnTimes::ENDLESS);
        let mut connections = Connections {
            worker: store.worker(0),
            batch,
            commands: Arc::new(CommandTable::new(commands)),
            clients: (0..CLIENTS).map(client).collect(),
            bodies: LargeArguments::default(),
            out: Reply::new(),
            now_ms: NOW_MS,
        };
        match setting {
            Setting::Plain | Setting::Unsampled => {}
            Setting::Events => {
                let events = Subscribers::default();
                connections.batch.set_events(&mut connections.worker, events.clone(), events);
                store.set_event_mask(notify::mask(b"KEA"));
            }
            Setting::Tracking => {
                store.set_observer(Arc::new(Readers::default()));
                store.observe(true);
                connections.clients[CLIENTS - 1].session.track(Tracking { on: true, ..Tracking::default() });
            }
            Setting::Rights => connections.clients[CLIENTS - 1].session.authenticate(user_of_three_patterns()),
            Setting::Scripts => {
                let scripts = Arc::new(Scripts::default());
                let keeper = || Box::new(Keeper::new(Arc::clone(&scripts)));
                let (worker, table) = (store.script_worker(0), Arc::clone(&connections.commands));
                connections.batch.set_scripts(ScriptParts { worker, table, keeper: keeper(), aside: keeper() });
            }
        }
        connections
    }

    /// Executes what one read of one connection brought, in as many turns as it takes. Returns the bytes of the replies,
    /// which are dropped.
    pub(crate) fn serve(&mut self, part: &mut Part) -> usize {
        self.execute(part);
        let served = self.batch.take_served().unwrap_or_default();
        let bytes = self.out.len() + served.iter().map(|served| served.reply.len()).sum::<usize>();
        self.out.clear(REPLY_KEEP_BYTES);
        bytes
    }

    /// Executes a part, too, and checks the replies.
    ///
    /// # Panics
    /// If a reply is an error.
    pub(crate) fn serve_checked(&mut self, part: &mut Part) {
        self.serve(part);
        let errors = self.batch.stats().errors();
        assert!(errors.is_empty(), "replies were errors: {errors:?}");
    }

    fn execute(&mut self, part: &mut Part) {
        let Connections { worker, batch, commands, clients, bodies, out, now_ms } = self;
        let Client { parser, session } = &mut clients[part.client];
        let mut input = &mut *part.bytes;
        while !input.is_empty() || session.is_ongoing() {
            let turn = batch.turn(worker, commands, parser, session, *now_ms, input, bodies, out);
            match turn.state {
                // A client that waits is served by a request of the other one, before it sends again.
                TurnState::NeedInput { .. } | TurnState::Yield | TurnState::Blocked(_) => {}
                // It was kept from its core for a slice.
                TurnState::Script(mut script) => {
                    let ended = loop {
                        match script.go_on() {
                            Ok(ended) => break ended,
                            Err(rests) => script = rests,
                        }
                    };
                    let again = batch.end_script(ended, worker, Some(&mut *session), out);
                    assert!(again.is_none(), "it names no command on the whole keyspace");
                }
                other => panic!("a loop of commands on keys: {other:?}"),
            }
            input = &mut input[turn.consumed..];
        }
    }

    /// Runs background steps until nothing is owed.
    pub(crate) fn rest(&mut self) {
        while self.worker.background(self.now_ms, Duration::from_millis(1)).is_some_and(|due| due <= self.now_ms) {}
    }

    /// Ten milliseconds pass: the background steps look for what is due, and do all of it.
    pub(crate) fn pass_time(&mut self) {
        self.now_ms += 10;
        self.worker.background(self.now_ms, Duration::from_secs(60));
    }
}

fn user_of_three_patterns() -> Arc<User> {
    let known = KnownCommands::new(commands().rows());
    let context = RuleContext { commands: &known, all_channels: true };
    let mut user = User::new(b"three", &context);
    RULES.iter().for_each(|rule| user.apply(rule, &context).expect("a rule"));
    Arc::new(user)
}

/// Stands for the subscribers of a server: counts the bytes that they would be sent.
#[derive(Clone, Default)]
struct Subscribers {
    bytes: u64,
}

impl Events for Subscribers {
    fn publish(&mut self, _shard: bool, channel: &[u8], message: &[u8]) -> u64 {
        self.bytes += (channel.len() + message.len()) as u64;
        1
    }
}

/// Stands for a server's table of what tracking clients have read: counts reads and changes.
#[derive(Default)]
struct Readers {
    reads: AtomicU64,
    changes: AtomicU64,
}

impl Observer for Readers {
    fn read(&self, _client: u64, _key: &[u8]) {
        self.reads.fetch_add(1, Relaxed);
    }

    fn changed(&self, _by: Author, _key: &[u8]) {
        self.changes.fetch_add(1, Relaxed);
    }

    fn emptied(&self, _by: Author) {}
}
