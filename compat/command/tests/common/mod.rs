//! Commands run in process: no socket, and a clock that stands still until it is moved.

use std::sync::Arc;

use varve_command::{CommandTable, Ctx, Run, Session, SessionCtx, WideCtx, debug};
use varve_protocol::{Args, OwnedArgs, Reply, Resp};
use varve_store::{Geometry, Options, Store, Tx, Worker};

/// Milliseconds of Unix time at which a server starts.
const START_MS: i64 = 1_795_000_000_000;
const DATABASES: u32 = 16;
const SHARDS: u16 = 4;

/// One store with one connection.
pub(crate) struct Server {
    store: Arc<Store>,
    worker: Worker,
    session: Session,
    commands: CommandTable,
    out: Reply,
}

impl Server {
    /// An empty store, a connection that replies in this version.
    pub(crate) fn new(resp: Resp) -> Server {
        let geometry = Geometry { reserve_bytes: 1 << 30, ..Geometry::default() };
        let store =
            Store::new(&Options { databases: DATABASES, shards: usize::from(SHARDS), geometry, ..Options::default() })
                .expect("room");
        let mut worker = store.worker(0);
        worker.set_now(START_MS);
        let mut out = Reply::new();
        out.set_resp(resp);
        Server { store, worker, session: Session::new(1, START_MS, true), commands: CommandTable::new(), out }
    }

    /// Moves the clock on.
    pub(crate) fn advance(&mut self, ms: i64) {
        self.worker.set_now(self.worker.now_ms() + ms);
    }

    /// Runs a command; its reply.
    pub(crate) fn run(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let owned = OwnedArgs::from_parts(args);
        let mark = self.out.mark();
        self.execute(owned.args());
        let reply = self.out.since(mark).to_vec();
        self.out.truncate(mark);
        reply
    }

    fn execute(&mut self, args: Args<'_>) {
        let Server { store, worker, session, commands, out } = self;
        let command = match commands.resolve(args) {
            Ok(command) => command,
            Err(why) => return why.reply(args, out),
        };
        match command.run {
            Run::Store(run) => {
                let mut tx = Tx::new(store, &mut worker.local, session.db);
                // All shards: what the executor holds is its own tests' matter.
                tx.hold(&(0..SHARDS).collect::<Vec<u16>>());
                run(&mut Ctx { args, tx, out, session });
                worker.park();
            }
            Run::Keyspace(run) | Run::Alone(run) => run(&mut WideCtx { args, store, worker, out, session }),
            Run::Session(run) => run(&mut SessionCtx { args, out, session, commands, databases: DATABASES }),
            // What the server does not keep for itself.
            Run::Host if command.name == "debug" => debug::run(&mut WideCtx { args, store, worker, out, session }),
            Run::Host | Run::Container => panic!("{} needs a server", command.full_name),
        }
    }
}
