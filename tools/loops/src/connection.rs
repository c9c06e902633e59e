//! One store with one worker and one connection, served as a server's worker serves it, from bytes to bytes.

use varve_command::batch::{Batch, TurnState};
use varve_command::stats::CommandStats;
use varve_command::{Bodies, CommandTable, Session};
use varve_protocol::{Limits, Parser, Reply};
use varve_store::{Geometry, Options, Store, Worker};

use std::time::Duration;

/// Milliseconds of Unix time at which everything happens.
const NOW_MS: i64 = 1_795_000_000_000;
/// Memory that the reply buffer keeps, as in a server.
const REPLY_KEEP_BYTES: usize = 128 * 1024;
/// The store's seed.
const SEED: u64 = 0x5eed;

pub(crate) struct Connection {
    worker: Worker,
    batch: Batch,
    commands: CommandTable,
    parser: Parser,
    session: Session,
    bodies: Bodies,
    out: Reply,
}

impl Connection {
    /// To an empty store.
    pub(crate) fn new() -> Connection {
        let geometry = Geometry { reserve_bytes: 4 << 30, ..Geometry::default() };
        let store = Store::new(&Options { seed: SEED, geometry, ..Options::default() }).expect("an address range");
        Connection {
            worker: store.worker(0),
            batch: Batch::new(CommandStats::new()),
            commands: CommandTable::new(),
            parser: Parser::new(Limits::default()),
            session: Session::new(1, NOW_MS, true),
            bodies: Bodies::default(),
            out: Reply::new(),
        }
    }

    /// Executes what one read brought, in as many turns as it takes; the bytes of the replies, which are dropped.
    pub(crate) fn serve(&mut self, input: &mut [u8]) -> usize {
        self.execute(input);
        let bytes = self.out.len();
        self.out.clear(REPLY_KEEP_BYTES);
        bytes
    }

    /// As `serve`.
    ///
    /// # Panics
    /// If a reply is an error.
    pub(crate) fn serve_checked(&mut self, input: &mut [u8]) {
        self.execute(input);
        let errors = self.batch.stats().errors();
        assert!(errors.is_empty(), "replies were errors: {errors:?}");
        self.out.clear(REPLY_KEEP_BYTES);
    }

    fn execute(&mut self, mut input: &mut [u8]) {
        while !input.is_empty() {
            let Connection { worker, batch, commands, parser, session, bodies, out } = self;
            let turn = batch.turn(worker, commands, parser, session, NOW_MS, input, bodies, out);
            match turn.state {
                TurnState::NeedInput { .. } | TurnState::Yield => {}
                other => panic!("a loop of commands on keys: {other:?}"),
            }
            input = &mut input[turn.consumed..];
        }
    }

    /// Background steps until nothing is owed.
    pub(crate) fn settle(&mut self) {
        while self.worker.background(NOW_MS, Duration::from_millis(1)).is_some_and(|due| due <= NOW_MS) {}
    }
}
