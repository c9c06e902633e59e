//! Scripts that rest, in process: one worker without sockets, whose turns and slices the test counts.

use std::sync::{Arc, LazyLock};

use varve_exec::batch::{Batch, EndedScript, RestingScript, ScriptParts, TurnState};
use varve_exec::stats::CommandStats;
use varve_exec::{CommandSet, CommandTable, LargeArguments, Session};
use varve_protocol::{Parser, Reply, RequestLimits};
use varve_scripts::{Keeper, Scripts};
use varve_store::{LogGeometry, Options, Store, StoreWorker};
use varve_testkit::client::encode;

const NOW_MS: i64 = 1_795_000_000_000;
/// A loop that SCRIPT KILL alone ends.
const ENDLESS: &str = "while true do end";

fn commands() -> &'static CommandSet {
    static ALL: LazyLock<CommandSet> =
        LazyLock::new(|| CommandSet::new(&[varve_commands::FAMILIES, varve_scripts::FAMILIES].concat()));
    &ALL
}

/// One worker with some clients.
struct World {
    worker: StoreWorker,
    batch: Batch,
    table: Arc<CommandTable>,
    scripts: Arc<Scripts>,
    clients: Vec<(Parser, Session)>,
}

/// A reply, or the script that has to go on before there is one.
type Answer = Result<String, RestingScript>;

impl World {
    fn new() -> World {
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let store = Store::new(&Options { seed: 7, geometry, ..Options::default() }).expect("an address range");
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
    fn turn(&mut self, client: usize, words: &[&str]) -> Option<Answer> {
        let mut input = Vec::new();
        encode(&mut input, words);
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
            _ => Some(Ok(text(&out))),
        }
    }

    /// The reply to a request that is answered in its turn.
    fn ask(&mut self, client: usize, words: &[&str]) -> String {
        self.turn(client, words).expect("it is not put back").expect("no script that rests")
    }

    /// Begins something that rests.
    fn begin(&mut self, client: usize, words: &[&str]) -> RestingScript {
        self.turn(client, words).expect("its place is free").expect_err("it takes more than a slice")
    }

    fn end(&mut self, client: usize, ended: EndedScript) -> String {
        let mut out = Reply::new();
        let session = &mut self.clients[client].1;
        self.batch.end_script(ended, &mut self.worker, Some(session), &mut out);
        text(&out)
    }
}

fn text(out: &Reply) -> String {
    String::from_utf8(out.parts().flatten().copied().collect()).expect("text")
}

/// Goes on until the script ends; the slices that it took.
fn go_on(mut script: RestingScript) -> (EndedScript, usize) {
    let mut slices = 1;
    loop {
        match script.go_on() {
            Ok(ended) => return (ended, slices),
            Err(rests) => script = rests,
        }
        slices += 1;
    }
}

/// A slice is a millisecond: with two turns of the loop, the kill and the end are far less than 10 ms apart.
#[test]
fn a_script_ends_in_the_slice_behind_the_kill() {
    let mut world = World::new();
    let resting = world.begin(0, &["EVAL", ENDLESS, "0"]);
    assert_eq!(world.ask(1, &["SCRIPT", "KILL"]), "+OK\r\n");
    let (ended, slices) = go_on(resting);
    assert_eq!(slices, 1);
    assert!(world.end(0, ended).starts_with("-ERR Script killed by user"));
    assert_eq!(world.ask(0, &["EVAL", "return 1", "0"]), ":1\r\n");
}

#[test]
fn a_worker_goes_on_beside_a_script_that_rests_and_puts_back_what_needs_its_shards() {
    let mut world = World::new();
    assert_eq!(world.ask(1, &["SET", "held", "1"]), "+OK\r\n");
    let body = format!("redis.call('GET', KEYS[1]) {ENDLESS}");
    let resting = world.begin(0, &["EVAL", &body, "1", "held"]);
    assert_eq!(world.ask(1, &["SET", "free", "1"]), "+OK\r\n");
    assert!(world.turn(1, &["GET", "held"]).is_none(), "the script holds it");
    assert!(world.turn(1, &["EVAL", "return 1", "0"]).is_none(), "one script at a time");
    assert!(world.turn(2, &["FLUSHALL"]).is_none(), "the script is inside the gate");
    assert_eq!(world.ask(1, &["SCRIPT", "LOAD", "return 1"]), "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n");
    assert_eq!(world.ask(1, &["SCRIPT", "KILL"]), "+OK\r\n");
    let (ended, _) = go_on(resting);
    assert!(world.end(0, ended).starts_with("-ERR Script killed by user"));
    assert_eq!(world.ask(1, &["GET", "held"]), "$1\r\n1\r\n");
    assert_eq!(world.ask(2, &["FLUSHALL"]), "+OK\r\n");
}

/// Functions share one state: a call that comes while another one rests waits for its end, on the same worker.
#[test]
fn a_function_is_not_called_while_another_call_rests() {
    let mut world = World::new();
    let code = "#!lua name=lib\nlocal calls = 0 \
                redis.register_function('work', function() calls = calls + 1 for i = 1, 2000000 do end return calls end) \
                redis.register_function('calls', function() return calls end)";
    assert_eq!(world.ask(0, &["FUNCTION", "LOAD", code]), "$3\r\nlib\r\n");
    let resting = world.begin(0, &["FCALL", "work", "0"]);
    assert!(world.turn(1, &["FCALL", "calls", "0"]).is_none());
    assert!(world.turn(1, &["FUNCTION", "LOAD", "REPLACE", code]).is_none());
    assert!(world.turn(2, &["FUNCTION", "FLUSH"]).is_none());
    assert!(world.turn(2, &["EVAL", "return 1", "0"]).is_none(), "a script of another kind as well");
    assert!(world.ask(2, &["FUNCTION", "LIST"]).contains("work"), "the texts are there meanwhile");
    let (ended, _) = go_on(resting);
    assert_eq!(world.end(0, ended), ":1\r\n");
    assert_eq!(world.ask(1, &["FCALL", "calls", "0"]), ":1\r\n");
    assert_eq!(world.ask(1, &["FUNCTION", "FLUSH"]), "+OK\r\n");
}

/// The deepest nesting that the language lets a script have, in C, in our callbacks and in replies at once: it ends with an error or a
/// reply, within the stack of scripts.
#[test]
fn the_deepest_nesting_fits_the_stack_of_scripts() {
    let mut world = World::new();
    let deep = "local function deep(n) local t = {} for i = 1, n do t = {t} end return t end ";
    let calls = "local function nest(f) local function go() return (string.gsub('a', 'a', function() \
                 local ok = pcall(go) if not ok then f() end return 'x' end)) end return go() end ";
    let bodies = [
        "local function f(n) return 1 + f(n + 1) end return f(1)",
        "local function f() return pcall(f) end return tostring(f())",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return t[1]",
        "local function f() return coroutine.wrap(f)() end return f()",
        "return string.find(string.rep('a', 2000), string.rep('a?', 990))",
        "return string.rep('(', 32)",
        "return deep(5000)",
        "return cjson.encode(deep(1000))",
        "return #cjson.encode(deep(999))",
        "return cjson.decode(string.rep('[', 1000) .. string.rep(']', 1000))",
        "return cmsgpack.unpack(string.rep('\\145', 999) .. '\\192')",
        "return loadstring('return ' .. string.rep('{', 10000))",
        "return loadstring(string.rep('(', 150) .. '1' .. string.rep(')', 150))",
        "return nest(function() cjson.encode(cjson.decode(string.rep('[', 999) .. string.rep(']', 999))) end)",
        "return nest(function() string.find(string.rep('a', 2000), string.rep('a?', 990)) end)",
        "return nest(function() redis.call('SET', 'k', 'v') redis.call('GET', 'k') end)",
        "local function f() return redis.pcall('GET', 'k', pcall(f)) end return f()",
        "error(setmetatable({}, {__tostring = function(t) return tostring(t) end}))",
    ];
    for body in bodies {
        let script = format!("{deep}{calls}{body}");
        let reply = match world.turn(0, &["EVAL", &script, "0"]).expect("nobody else is there") {
            Ok(reply) => reply,
            Err(resting) => {
                let (ended, _) = go_on(resting);
                world.end(0, ended)
            }
        };
        assert!(!reply.is_empty(), "{body}");
        assert_eq!(world.ask(1, &["EVAL", "return 'whole'", "0"]), "$5\r\nwhole\r\n");
    }
    assert!(world.scripts.running().busy_for(1).is_none());
}

/// Whoever sends SCRIPT KILL and is answered OK relies on it that the script has changed nothing.
#[test]
fn a_script_that_was_killed_changes_nothing_any_more() {
    let mut world = World::new();
    // It rests behind a command, and goes on with commands before the language asks whether it goes on.
    let body = "repeat until redis.pcall('PING')['err'] return redis.pcall('SET', KEYS[1], 1)";
    let resting = world.begin(0, &["EVAL", body, "1", "k"]);
    assert_eq!(world.ask(1, &["SCRIPT", "KILL"]), "+OK\r\n");
    let (ended, slices) = go_on(resting);
    assert_eq!(slices, 1);
    assert!(world.end(0, ended).starts_with("-ERR Script killed by user"));
    assert_eq!(world.ask(1, &["EXISTS", "k"]), ":0\r\n");
}
