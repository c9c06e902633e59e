//! Commands run in process: no socket, and a clock that stands still until it is moved.

use std::sync::Arc;

use varve_command::{CommandTable, Ctx, Run, Session, SessionCtx, WideCtx, debug};
use varve_protocol::{Args, OwnedArgs, Reply, Resp};
use varve_store::{Store, Tx, Worker};

/// Milliseconds of Unix time at which a server starts.
const START_MS: i64 = 1_795_000_000_000;

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
        let store = Arc::new(Store::new(16));
        let worker = Worker { store: Arc::clone(&store), now_ms: START_MS };
        let mut out = Reply::new();
        out.set_resp(resp);
        Server { store, worker, session: Session::new(1, START_MS, true), commands: CommandTable::new(), out }
    }

    /// Moves the clock on.
    #[allow(dead_code, reason = "not every test that shares this module moves the clock")]
    pub(crate) fn advance(&mut self, ms: i64) {
        self.worker.now_ms += ms;
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
                let tx = Tx::new(store, worker.now_ms, session.db);
                run(&mut Ctx { args, tx, out, session });
            }
            Run::Keyspace(run) | Run::Alone(run) => run(&mut WideCtx { args, store, worker, out, session }),
            Run::Session(run) => run(&mut SessionCtx { args, out, session, commands, databases: 16 }),
            // What the server does not keep for itself.
            Run::Host if command.name == "debug" => debug::run(&mut WideCtx { args, store, worker, out, session }),
            Run::Host | Run::Container => panic!("{} needs a server", command.full_name),
        }
    }
}
