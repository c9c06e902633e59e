//! Commands run in process through the executor: no socket, and a clock that stands still until it is moved.

use std::sync::Arc;

use varve_command::batch::{Batch, TurnState};
use varve_command::stats::CommandStats;
use varve_command::{Bodies, CommandTable, Session, WideCtx, debug};
use varve_protocol::{Args, Limits, Parser, Reply, Resp};
use varve_store::{Geometry, Options, Store, Worker};

/// Milliseconds of Unix time at which a server starts.
const START_MS: i64 = 1_795_000_000_000;

/// One store with one connection.
pub(crate) struct Server {
    store: Arc<Store>,
    worker: Worker,
    batch: Batch,
    parser: Parser,
    session: Session,
    commands: CommandTable,
    out: Reply,
    now_ms: i64,
}

impl Server {
    /// An empty store, a connection that replies in this version.
    pub(crate) fn new(resp: Resp) -> Server {
        let geometry = Geometry { reserve_bytes: 8 << 30, ..Geometry::default() };
        let store = Store::new(&Options { seed: 7, geometry, ..Options::default() }).expect("an address range");
        let worker = store.worker(0);
        let mut out = Reply::new();
        out.set_resp(resp);
        Server {
            store,
            worker,
            batch: Batch::new(CommandStats::new()),
            parser: Parser::new(Limits::default()),
            session: Session::new(1, START_MS, true),
            commands: CommandTable::new(),
            out,
            now_ms: START_MS,
        }
    }

    /// Moves the clock on.
    #[allow(dead_code, reason = "not every test that shares this module moves the clock")]
    pub(crate) fn advance(&mut self, ms: i64) {
        self.now_ms += ms;
    }

    /// Keys found and not found, as INFO counts them.
    #[allow(dead_code, reason = "not every test that shares this module asks")]
    pub(crate) fn lookups(&self) -> (u64, u64) {
        let totals = self.store.totals();
        (totals.hits, totals.misses)
    }

    /// Runs a command; its reply.
    #[allow(dead_code, reason = "not every test that shares this module sends single commands")]
    pub(crate) fn run(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut input = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            input.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            input.extend_from_slice(arg);
            input.extend_from_slice(b"\r\n");
        }
        self.send(&mut input)
    }

    /// Runs what a client sends; all replies.
    pub(crate) fn send(&mut self, mut input: &mut [u8]) -> Vec<u8> {
        let mark = self.out.mark();
        while !input.is_empty() {
            let Server { worker, batch, parser, session, commands, out, .. } = self;
            let turn = batch.turn(worker, commands, parser, session, self.now_ms, input, &Bodies::default(), out);
            match turn.state {
                TurnState::Host { descriptor, start, spans } => {
                    // What the server does not keep for itself.
                    assert_eq!(descriptor.name, "debug", "{} needs a server", descriptor.full_name);
                    let store = Arc::clone(&self.store);
                    let args = Args::new(&input[start..], &spans);
                    debug::run(&mut WideCtx { args, store: &store, worker, out, session });
                }
                TurnState::Close => break,
                TurnState::NeedInput { .. } | TurnState::Yield => {}
                TurnState::Busy => panic!("one worker meets no busy shard"),
            }
            input = &mut input[turn.consumed..];
        }
        let reply = self.out.since(mark).to_vec();
        self.out.truncate(mark);
        reply
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.worker.park();
            self.store.verify();
        }
    }
}
