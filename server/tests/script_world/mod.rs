//! One worker that runs scripts, in process and without sockets: whoever tests it counts its turns and slices.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use varve_exec::batch::{Batch, EndedScript, RestingScript, ScriptParts, TurnState};
use varve_exec::stats::CommandStats;
use varve_exec::{CommandSet, CommandTable, LargeArguments, Session};
use varve_protocol::{Parser, Reply, RequestLimits};
use varve_scripts::{Keeper, Scripts};
use varve_store::{LogGeometry, Options, Store, StoreWorker};

const NOW_MS: i64 = 1_795_000_000_000;

fn commands() -> &'static CommandSet {
    static ALL: LazyLock<CommandSet> =
        LazyLock::new(|| CommandSet::new(&[varve_commands::FAMILIES, varve_scripts::FAMILIES].concat()));
    &ALL
}

/// One worker with some clients.
pub(crate) struct World {
    worker: StoreWorker,
    batch: Batch,
    table: Arc<CommandTable>,
    pub(crate) scripts: Arc<Scripts>,
    clients: Vec<(Parser, Session)>,
}

/// A reply, or the script that has to go on before there is one.
pub(crate) type Answer = Result<Vec<u8>, RestingScript>;

impl World {
    /// An empty store.
    pub(crate) fn new() -> World {
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let store =
            Store::new(&Options { seed: 7, geometry, workers: 2, ..Options::default() }).expect("an address range");
        let table = Arc::new(CommandTable::new(commands()));
        let scripts = Arc::new(Scripts::default());
        let keeper = || Box::new(Keeper::new(Arc::clone(&scripts)));
        let mut batch = Batch::new(CommandStats::new(commands().ids()));
        let worker = store.script_worker(0);
        batch.set_scripts(ScriptParts { worker, table: Arc::clone(&table), keeper: keeper(), aside: keeper() });
        let client = |id| (Parser::new(RequestLimits::default()), Session::new(id, NOW_MS, true));
        World { worker: store.worker(0), batch, table, scripts, clients: (1..=3).map(client).collect() }
    }

    /// One turn of a client that sends this request; None: it is put back.
    pub(crate) fn turn<W: AsRef<[u8]>>(&mut self, client: usize, words: &[W]) -> Option<Answer> {
        let mut input = request(words);
        let mut out = Reply::new();
        let (parser, session) = &mut self.clients[client];
        let none = &mut LargeArguments::default();
        let turn = self.batch.turn(&mut self.worker, &self.table, parser, session, NOW_MS, &mut input, none, &mut out);
        match turn.state {
            TurnState::Busy => {
                assert_eq!(turn.consumed, 0, "a request that is put back stays");
                None
            }
            TurnState::Script(script) => Some(Err(script)),
            _ => Some(Ok(bytes(&out))),
        }
    }

    /// The reply to a request that is not put back.
    pub(crate) fn ask<W: AsRef<[u8]>>(&mut self, client: usize, words: &[W]) -> String {
        let answer = self.turn(client, words).expect("it is not put back");
        self.whole(client, answer)
    }

    /// The reply to a request that may be put back for a while.
    #[allow(dead_code, reason = "not everybody who shares this module has scripts that are put back")]
    pub(crate) fn ask_again<W: AsRef<[u8]>>(&mut self, client: usize, words: &[W]) -> String {
        let answer = (0..10_000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            self.turn(client, words)
        });
        self.whole(client, answer.expect("it is not put back for ever"))
    }

    fn whole(&mut self, client: usize, answer: Answer) -> String {
        match answer {
            Ok(reply) => String::from_utf8_lossy(&reply).into_owned(),
            // The machine had other things to do for longer than a slice.
            Err(script) => {
                let (ended, _) = go_on(script);
                self.end(client, ended)
            }
        }
    }

    /// Begins something that rests.
    #[allow(dead_code, reason = "not everybody who shares this module has scripts that take long")]
    pub(crate) fn begin(&mut self, client: usize, words: &[&str]) -> RestingScript {
        self.turn(client, words).expect("its place is free").expect_err("it takes more than a slice")
    }

    /// The reply of a script that has rested.
    pub(crate) fn end(&mut self, client: usize, ended: EndedScript) -> String {
        let mut out = Reply::new();
        let session = &mut self.clients[client].1;
        let again = self.batch.end_script(ended, &mut self.worker, Some(session), &mut out);
        assert!(again.is_none(), "it is not put back");
        String::from_utf8_lossy(&bytes(&out)).into_owned()
    }

    /// The request of a script that has rested and has to be tried again.
    #[allow(dead_code, reason = "not everybody who shares this module has scripts that are put back")]
    pub(crate) fn end_put_back(&mut self, client: usize, ended: EndedScript) -> Vec<u8> {
        let mut out = Reply::new();
        let session = &mut self.clients[client].1;
        let again = self.batch.end_script(ended, &mut self.worker, Some(session), &mut out);
        assert!(out.is_empty(), "it has no reply yet");
        again.expect("its place was taken")
    }

    /// The store.
    #[allow(dead_code, reason = "not everybody who shares this module looks into the store")]
    pub(crate) fn store(&self) -> &Arc<Store> {
        self.worker.store()
    }
}

impl World {
    /// Nanoseconds that the calls of this command have taken together.
    #[allow(dead_code, reason = "not everybody who shares this module asks for times")]
    pub(crate) fn nanos(&self, command: &str) -> u64 {
        let command = self.table.get(command.as_bytes()).expect("a command");
        self.batch.stats().of(command).nanos.get()
    }
}

impl World {
    /// Errors replied so far, by their first word, and the calls of this command that have failed.
    #[allow(dead_code, reason = "not everybody who shares this module asks for errors")]
    pub(crate) fn errors(&self, command: &str) -> (BTreeMap<String, u64>, u64) {
        let (stats, command) = (self.batch.stats(), self.table.get(command.as_bytes()).expect("a command"));
        (stats.errors(), stats.of(command).failed.get())
    }
}

/// Goes on until the script ends; the slices that it took.
pub(crate) fn go_on(mut script: RestingScript) -> (EndedScript, usize) {
    let mut slices = 1;
    loop {
        match script.go_on() {
            Ok(ended) => return (ended, slices),
            Err(rests) => script = rests,
        }
        slices += 1;
    }
}

fn bytes(out: &Reply) -> Vec<u8> {
    out.to_vec()
}

/// A request as a client sends it.
pub(crate) fn request<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}
