//! Scripts that rest: turns and slices of one worker are counted.

mod script_world;

use std::sync::{Arc, Barrier};
use std::thread::sleep;
use std::time::{Duration, Instant};

use script_world::{World, go_on, request};

/// A loop that SCRIPT KILL alone ends.
const ENDLESS: &str = "while true do end";

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
    // A page of SCAN ends before the shard that the script holds, and does not begin with it.
    let page = world.turn(2, &["SCAN", "0"]).map(|answer| answer.unwrap_or_default());
    assert!(page.is_none_or(|page| !page.windows(4).any(|part| part == b"held")), "it would wait for the shard");
    assert_eq!(world.ask(2, &["DBSIZE"]), ":2\r\n");
    assert!(world.ask(2, &["MEMORY", "STATS"]).contains("keys.count\r\n:2\r\n"));
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
        "return deep(20000)",
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
        let reply = world.ask(0, &["EVAL", &script, "0"]);
        assert!(!reply.is_empty(), "{body}");
        assert_eq!(world.ask(1, &["EVAL", "return 'whole'", "0"]), "$5\r\nwhole\r\n");
    }
    assert!(world.scripts.running().busy_for(1).is_none());
}

/// A script that has rested, has to begin again alone, and does not get the gate: its client's request waits like any other,
/// and nothing of it runs.
#[test]
fn issue_15_a_script_whose_place_is_taken_behind_a_rest_is_put_back() {
    let mut world = World::new();
    let body = "for i = 1, 2000000 do end return redis.call(ARGV[1])";
    let words = ["EVAL", body, "0", "flushall"];
    let resting = world.begin(0, &words);
    let (inside, leave, store) = (Barrier::new(2), Barrier::new(2), Arc::clone(world.store()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let other = store.gate().enter(1);
            inside.wait();
            leave.wait();
            drop(other);
        });
        inside.wait();
        let (ended, _) = go_on(resting);
        let again = world.end_put_back(0, ended);
        assert_eq!(again.escape_ascii().to_string(), request(&words).escape_ascii().to_string());
        assert!(world.ask(1, &["SCRIPT", "KILL"]).starts_with("-NOTBUSY"));
        assert_eq!(world.ask(1, &["EVAL", "return 1", "0"]), ":1\r\n");
        assert!(world.turn(0, &words).is_none(), "the other one is still inside");
        leave.wait();
    });
    // Behind a try that was in vain the gate stays open for a while.
    assert_eq!(world.ask_again(0, &words), "+OK\r\n");
}

/// The time of a script, of its transaction, and of a library that is loaded, is the time for which it has run.
#[test]
fn issue_15_the_rests_of_a_script_are_not_its_time() {
    const REST: Duration = Duration::from_millis(600);
    let mut world = World::new();
    let work = "for i = 1, 2000000 do end return 1";
    let library = format!("#!lua name=lib\nredis.register_function('f', function() return 1 end) {work}");
    let mut run = |words: &[&str], reply: &str| {
        let (begun, resting) = (Instant::now(), world.begin(0, words));
        sleep(REST);
        let (ended, _) = go_on(resting);
        assert_eq!(world.end(0, ended), reply);
        (begun.elapsed() - REST).as_nanos() as u64
    };
    run(&["FUNCTION", "LOAD", &library], "$3\r\nlib\r\n");
    let ran = run(&["EVAL", work, "0"], ":1\r\n");
    assert!(world.nanos("eval") <= ran);
    world.ask(0, &["MULTI"]);
    world.ask(0, &["EVAL", work, "0"]);
    let (begun, before) = (Instant::now(), world.nanos("eval"));
    let resting = world.begin(0, &["EXEC"]);
    sleep(REST);
    let (ended, _) = go_on(resting);
    assert_eq!(world.end(0, ended), "*1\r\n:1\r\n");
    let ran = (begun.elapsed() - REST).as_nanos() as u64;
    assert!(world.nanos("exec") <= ran && world.nanos("eval") - before <= ran);
}

/// The figures are redis-server's: an error of a script's command counts where the command fails, and the script's call fails
/// for each such error in its reply; other errors in a reply count as errors, and once as a failure.
#[test]
fn issue_15_errors_among_the_values_of_a_reply_are_counted() {
    for (body, errors, failed) in [
        ("return {redis.pcall('get')}", "ERR=1", 1),
        ("return {1, redis.pcall('incr', 'x', 'y'), redis.pcall('get')}", "ERR=2", 2),
        ("return {{err = 'My error'}}", "My=1", 1),
        ("return {1, {2, {err = 'WRONG other'}}, {err = 'My error'}}", "My=1 WRONG=1", 1),
        ("return {redis.error_reply('FOO bar'), redis.error_reply('bar')}", "ERR=1 FOO=1", 1),
        ("local e = redis.pcall('get') return {e, e}", "ERR=1", 2),
        ("redis.setresp(3) return {map = {a = {err = 'E x'}}}", "E=1", 1),
        ("redis.pcall('get') return 1", "ERR=1", 0),
        ("return redis.pcall('get')", "ERR=1", 1),
        ("return {err = 'My error'}", "My=1", 1),
    ] {
        let mut world = World::new();
        world.ask(0, &["EVAL", body, "0"]);
        let (counts, failures) = world.errors("eval");
        let counts: Vec<String> = counts.into_iter().map(|(word, count)| format!("{word}={count}")).collect();
        assert_eq!((counts.join(" ").as_str(), failures), (errors, failed), "{body}");
    }
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

#[test]
fn ten_thousand_scripts_leave_nothing_in_the_state() {
    let mut world = World::new();
    for n in 1..=10_000 {
        let reply = world.ask(0, &["EVAL", "return redis.call('INCR', KEYS[1])", "1", "x"]);
        assert_eq!(reply, format!(":{n}\r\n"));
    }
    let bytes = world.scripts.memory().state_bytes;
    assert!(bytes < 200_000, "Lua has {bytes} bytes");
}
