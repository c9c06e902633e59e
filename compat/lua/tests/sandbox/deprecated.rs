//! With `lua-enable-deprecated-api`: environments of functions, and finalizers of scripts. Replies are those of redis-server
//! 7.0.15 with the same setting, but where a comment says otherwise.

use crate::host::{TestHost, eval_with};
use varve_lua::{Settings, State};

fn state() -> State {
    State::new(Settings { deprecated_api: true, ..Settings::default() }).expect("a state")
}

/// The reply without the place of an error.
fn eval(state: &mut State, script: &str) -> String {
    let reply = eval_with(state, &mut TestHost::default(), script.as_bytes(), &[], &[]);
    let reply = String::from_utf8(reply).expect("text");
    reply.split(" script: ").next().unwrap_or_default().trim_end().to_owned()
}

const READONLY: &str = "-ERR user_script:1: Attempt to modify a readonly table";
const UNCHANGEABLE: &str = "-ERR user_script:1: 'setfenv' cannot change environment of given object";

#[test]
fn issue_15_environments_of_library_functions_are_read_only() {
    let mut state = state();
    for (script, reply) in [
        ("getfenv(pcall).foo = 1 return foo", READONLY),
        ("getfenv(pcall).pcall = nil return type(pcall)", READONLY),
        ("getfenv(string.find).foo = 1 return foo", READONLY),
        ("getfenv(redis.call).bar = 1 return bar", READONLY),
        ("getfenv(0).bar = 1 return bar", READONLY),
        ("getfenv().bar = 1 return bar", READONLY),
        ("rawset(getfenv(pcall), 'bar', 1) return bar", "-ERR Attempt to modify a readonly table"),
        ("return tostring(getfenv(pcall) == _G)", "$4\r\ntrue"),
        ("return tostring(getfenv(string.find) == _G)", "$4\r\ntrue"),
        ("for name in pairs(getfenv(pcall)) do if name == 'print' then return 1 end end return 0", ":0"),
        ("setfenv(pcall, {}) return 1", UNCHANGEABLE),
        ("setfenv(string.find, {}) return 1", UNCHANGEABLE),
        ("setfenv(redis.call, {}) return 1", UNCHANGEABLE),
        ("setfenv(('x'):gmatch('x'), {}) return 1", UNCHANGEABLE),
        ("return foo", "-ERR user_script:1: Script attempted to access nonexistent global variable 'foo'"),
        ("return type(pcall) .. type(redis)", "$13\r\nfunctiontable"),
        ("setfenv(1, {}) x = 1 return x", ":1"),
        ("local f = setfenv(function() return y end, {y = 2}) return f()", ":2"),
        ("local function f() setfenv(2, {z = 3}) end f() return z", ":3"),
        ("setfenv(9, {})", "-ERR user_script:1: bad argument #1 to 'setfenv' (invalid level)"),
        ("setfenv(1)", "-ERR user_script:1: bad argument #2 to 'setfenv' (table expected, got no value)"),
        // A function that our library calls back finds that one above it.
        (
            "return (string.gsub(string.rep('x', 100001), '^x', function() return tostring(getfenv(2) == _G) end)):sub(1, 4)",
            "$4\r\ntrue",
        ),
        ("string.gsub(string.rep('x', 100001), '^x', function() setfenv(2, {}) end)", UNCHANGEABLE),
    ] {
        assert_eq!(eval(&mut state, script), reply, "{script}");
    }
}

/// redis-server's later scripts have no globals any more, not even for their errors. Here it holds for one script.
#[test]
fn issue_15_globals_that_a_script_has_replaced_are_back_behind_it() {
    let mut state = state();
    assert_eq!(eval(&mut state, "local load = loadstring setfenv(0, {x = 5}) return load('return x')()"), ":5");
    assert_eq!(eval(&mut state, "return type(redis) .. type(loadstring('return redis')())"), "$10\r\ntabletable");
    assert_eq!(eval(&mut state, "setfenv(0, {}) error('raised')"), "-ERR user_script:1: raised");
    assert_eq!(eval(&mut state, "return type(redis)"), "$5\r\ntable");
}

#[test]
fn issue_15_a_finalizer_raises_where_lua_collects() {
    let mut state = state();
    let raising = "local p = newproxy(true) getmetatable(p).__gc = function() error('x') end p = nil ";
    assert_eq!(eval(&mut state, &format!("{raising} collectgarbage() return 1")), "-ERR user_script:1: x");
    let tables = "local p = newproxy(true) getmetatable(p).__gc = function() error({err = 'x'}) end p = nil ";
    assert_eq!(eval(&mut state, &format!("{tables} return {{pcall(collectgarbage)}}")), "*2\r\n$-1\r\n$1\r\nx");
    let calling = "local p = newproxy(true) getmetatable(p).__gc = function() redis.call('set', 'k', '1') end p = nil ";
    assert_eq!(eval(&mut state, &format!("{calling} collectgarbage() return redis.call('get', 'k')")), "$1\r\n1");
    // It may be a later script that meets the error.
    let late =
        "for i = 1, 3 do local p = newproxy(true) getmetatable(p).__gc = function() error('late') end end return 2";
    assert_eq!(eval(&mut state, late), ":2");
    let litter = "local t = {} for i = 1, 200000 do t[i % 10] = {i} end return 3";
    let replies: Vec<String> = (0..5).map(|_| eval(&mut state, litter)).collect();
    assert!(replies.contains(&"-ERR user_script:1: late".to_owned()), "{replies:?}");
    assert_eq!(replies[4], ":3", "each of them raises once: {replies:?}");
}

/// Calls that make values.
const CALLS: &[&str] = &[
    "redis.call('echo', string.rep(i, 10))",
    "redis.call('numbers', '50')",
    "redis.pcall('debug', 'protocol', 'map')",
    "redis.pcall('foo')",
    "redis.sha1hex('abc' .. i)",
    "redis.error_reply('e' .. i)",
    "redis.log(redis.LOG_NOTICE, 'line' .. i)",
    "cjson.decode('{\"a\":[1,2,{\"b\":\"c\"}]}')",
    "cjson.encode({1, 2, {a = 'b' .. i}})",
    "cmsgpack.unpack(cmsgpack.pack({1, 2, {a = 'b' .. i}}))",
    "cjson.decode('[' .. string.rep('{\"a\":[1]},', 3000) .. '1]')",
    "cmsgpack.unpack('\\220\\010\\000' .. string.rep('\\129\\161a\\145\\1', 2560))",
    "struct.unpack('>I4s', struct.pack('>I4s', i, 'text' .. i))",
    "string.rep('ab' .. i, 100)",
    "('text' .. i):gsub('%d', '%0%0')",
    "string.rep('x', 300):gsub('(x)(x)', '%2%1')",
    "loadstring('return ' .. i)()",
    "load(function() return nil end)",
    "table.concat({i, i + 1, i + 2}, ',')",
    "pcall(error, {err = 'x' .. i})",
    "pcall(string.rep)",
    "coroutine.wrap(function() return {i} end)()",
    "setfenv(function() return {i} end, {})()",
    "KEYS, ARGV",
    "redis.nothing",
];

/// Finalizers that raise, by the hundred, while each of our functions makes values: nothing but errors of the script comes of it.
#[test]
fn issue_15_finalizers_that_raise_end_nothing_but_the_script() {
    let settings = Settings { deprecated_api: true, memory_bytes_max: 8 << 20, ..Settings::default() };
    let mut state = State::new(settings).expect("a state");
    let litter = "local n = 0 local function litter() for _ = 1, 5 do local p = newproxy(true) \
                  getmetatable(p).__gc = function() n = n + 1 error('from a finalizer ' .. n) end end end ";
    let mut met = 0;
    for call in CALLS {
        // A state that has met such an error in a function, not one that meets those of before while it compiles.
        let mut state = State::new(settings).expect("a state");
        let script = format!(
            "{litter} local raised = 0 for i = 1, 400 do pcall(litter) \
             local ok, e = pcall(function() return {call} end) \
             if not ok and tostring(e):find('finalizer', 1, true) then raised = raised + 1 end end return raised"
        );
        let reply = eval(&mut state, &script);
        assert!(reply.starts_with(':') || reply.contains("from a finalizer"), "{call}: {reply}");
        met += usize::from(reply.starts_with(':') && reply != ":0");
        // The memory that the state may have is bounded behind a call that such an error has ended.
        let mut state = State::new(settings).expect("a state");
        let bound = format!(
            "{litter} for i = 1, 400 do pcall(litter) local ok, e = pcall(function() return {call} end) \
             if not ok and tostring(e):find('finalizer', 1, true) then return #string.rep('x', 9000000) end end return 'none'"
        );
        let reply = eval(&mut state, &bound);
        assert!(!reply.starts_with(':'), "{call}: {reply}");
    }
    assert!(met > 2, "{met} functions have met one");
    for _ in 0..20 {
        let nested = format!(
            "{litter} for i = 1, 20 do pcall(litter) end local t = {{}} for i = 1, 100 do t[i] = {{i, {{ok = 'x' .. i}}}} end return t"
        );
        let reply = eval(&mut state, &nested);
        assert!(reply.starts_with("*100") || reply.contains("from a finalizer"), "{reply}");
    }
    // Those that are left raise too; then it is an ordinary state.
    let clean = "for _ = 1, 100000 do if pcall(collectgarbage) then return 'clean' end end return 'never'";
    for tries in 0.. {
        let reply = eval(&mut state, clean);
        if reply == "$5\r\nclean" {
            break;
        }
        assert!(tries < 50_000 && reply.contains("from a finalizer") && !reply.contains("traceback"), "{reply}");
    }
    assert_eq!(eval(&mut state, "return {1, 2}"), "*2\r\n:1\r\n:2");
}
