//! Things that a script must not be able to do. Each test is one of the known ways out of a Lua sandbox, or one that Redis had.

use crate::host::{STOPPED, TestHost, eval_with, state};
use varve_lua::{Settings, State};

const READONLY: &str = "Attempt to modify a readonly table";

/// EVAL of a script without keys, the reply with its bytes escaped.
fn eval(state: &mut State, host: &mut TestHost, script: &str) -> String {
    eval_with(state, host, script.as_bytes(), &[], &[]).escape_ascii().to_string()
}

/// Runs a script in a new state.
fn run(script: &str) -> String {
    eval(&mut state(), &mut TestHost::default(), script)
}

/// Runs a script with a limit of 8 MB for the state, then one that shows that the state still works.
fn run_in_8_mb(script: &str) -> String {
    let mut state = State::new(Settings { memory_bytes_max: 8 << 20, ..Settings::default() }).unwrap();
    let mut host = TestHost::default();
    let reply = eval(&mut state, &mut host, script);
    assert_eq!(eval(&mut state, &mut host, "return #('x' .. 'y')"), ":2\\r\\n", "after {script}");
    reply
}

/// 1: nothing is collected while code is compiled (CVE-2025-49844), and no reader runs inside the parser.
#[test]
fn the_collector_rests_while_code_is_compiled() {
    // A chunk whose parts would be collected in the middle: strings as constants, many of them, over and over.
    let script = "local parts = {} for i = 1, 2000 do parts[i] = 'local v' .. i % 150 .. ' = \"' .. i .. '\"' end \
                  local code = table.concat(parts, ' do ') .. string.rep(' end', 1999) \
                  for i = 1, 20 do collectgarbage('step') loadstring(code, '@' .. i) end return 'done'";
    assert_eq!(run(script), "$4\\r\\ndone\\r\\n");
    // The reader is called before the parser, so what it does to the collector cannot matter.
    let script = "local n = 0 local f = load(function() n = n + 1 collectgarbage() \
                  if n == 1 then return 'return ' elseif n == 2 then return '\"x\" .. ' elseif n == 3 then return '1' end end) \
                  return f()";
    assert_eq!(run(script), "$2\\r\\nx1\\r\\n");
    // A script cannot turn the collector off for those after it.
    assert_eq!(run("collectgarbage('stop') collectgarbage('setpause', 100000) return 1"), ":1\\r\\n");
    // C would take these for the same options.
    assert_eq!(
        run("return {collectgarbage('stop\\0'), collectgarbage('setpause\\0x', 1)}"),
        "*2\\r\\n:0\\r\\n:200\\r\\n"
    );
}

/// 2: unpack computes in 32 bits (CVE-2025-46817), and other functions of C that take lengths.
#[test]
fn lengths_are_bounded() {
    for call in [
        "unpack({}, 0, 2147483647)",
        "unpack({}, -2147483648, 2147483647)",
        "unpack({}, 1, 1e300)",
        "unpack({}, 1, 0/0)",
        "unpack({}, '0', '2147483647')",
        "unpack({}, 1, 8000)",
    ] {
        assert!(run(&format!("return {{{call}}}")).contains("too many results to unpack"), "{call}");
    }
    assert_eq!(run("return select('#', unpack({}, 1, 7000))"), ":7000\\r\\n");
    assert_eq!(run("return #string.rep('', 1e15)"), ":0\\r\\n");
    for call in ["-2147483648, 1", "-2147483648, nil", "'-2147483648', 1", "0/0, 1", "1/0, 1"] {
        assert!(run(&format!("table.insert({{}}, {call})")).contains("position out of bounds"), "{call}");
    }
    assert!(run("return string.format('%99999d', 1)").contains("invalid format"));
    assert!(run("return string.char(unpack({}, 1, 1e9))").contains("too many results"));
    // Matching recurses in C for each of these letters.
    for call in ["find(s, p)", "match(s, p)", "gsub(s, p, '')", "gmatch(s, p)()"] {
        let script = format!("local s, p = string.rep('a', 300000), string.rep('a?', 300000) return string.{call}");
        assert!(run(&script).contains("pattern too complex"), "{call}");
    }
    // Nesting that the parser and calls recurse for.
    assert!(run("return loadstring(string.rep('(', 100000) .. '1')").starts_with("$-1"));
    assert_eq!(run("return {loadstring(string.rep(' ', 4194305))}"), "*0\\r\\n");
    assert_eq!(run("return #tostring(loadstring(string.rep(' ', 4194304))) > 0"), ":1\\r\\n");
    assert!(run("local function f() return f() + 1 end return f()").contains("stack overflow"));
    assert!(run("local function f() return pcall(f) end return {f()}").starts_with('*'));
    assert!(run("local t = {} t[1] = t return t").contains("reached lua stack limit"));
}

/// 3: memory is limited, and a state at its limit goes on with the next script.
#[test]
fn memory_is_limited() {
    for script in [
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "local t = {} while true do t[#t + 1] = {} end",
        "local t = {} for i = 1, 1e9 do t[i] = 'text number ' .. i end",
        "return table.concat({string.rep('x', 3e6), string.rep('y', 3e6), string.rep('z', 3e6)})",
        "local s = string.rep('x', 1e6) return s:gsub('x', string.rep('y', 100))",
        "local t = {} for i = 1, 1e9 do t[i] = redis.call('echo', i .. string.rep('x', 1e5)) end",
        "local t = {} for i = 1, 30 do t = {t, t} end return cjson.encode(t)",
        "cjson.encode_sparse_array(true, 0, 0) return #cjson.encode({[9e15] = 1})",
        "local t = {string.rep('x', 1e5)} for i = 1, 15 do t = {t, t} end return cmsgpack.pack(t)",
        "return cmsgpack.unpack(string.rep('\\147', 900) .. '\\221\\255\\255\\255\\255' .. string.rep('\\192', 5e6))",
        "return #cjson.decode('[' .. string.rep('[],', 1e6) .. '1]')",
        "return struct.pack('c0c0c0c0', string.rep('x', 2e6), string.rep('y', 2e6), string.rep('z', 2e6), string.rep('u', 1e6))",
        "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end",
        "local t = {} for i = 1, 1e9 do t[i] = loadstring('return ' .. i) end",
    ] {
        assert!(run_in_8_mb(script).contains("not enough memory"), "{script}");
    }
    // Keys and arguments count too.
    let mut state = State::new(Settings { memory_bytes_max: 8 << 20, ..Settings::default() }).unwrap();
    let large = vec![b'x'; 9 << 20];
    let reply = eval_with(&mut state, &mut TestHost::default(), b"return #ARGV[1]", &[], &[&large]);
    assert_eq!(reply, b"-ERR not enough memory\r\n");
}

/// 4: nothing of the ground can be changed, metatables of basic types included (CVE-2025-46818).
#[test]
fn the_ground_is_read_only() {
    for change in [
        "x = 1",
        "_G.x = 1",
        "KEYS = 1",
        "redis = nil",
        "cjson.encode = nil",
        "cmsgpack.pack = nil",
        "struct.pack = nil",
        "redis.call = nil",
        "string.x = 1",
        "table.insert = nil",
        "math.pi = 3",
        "bit.band = nil",
        "coroutine.wrap = nil",
        "os.clock = nil",
        "rawset(_G, 'x', 1)",
        "rawset(redis, 'x', 1)",
        "rawset(string, 'x', 1)",
        "setmetatable(_G, nil)",
        "setmetatable(_G, {})",
        "setmetatable(redis, {})",
        "table.insert(_G, 1)",
        "table.insert(redis, 1)",
        "getmetatable('').__index = nil",
        "getmetatable('').x = 1",
        "getmetatable('').__index.x = 1",
        "rawset(getmetatable(''), '__index', nil)",
        "setmetatable(getmetatable(''), {})",
        "getmetatable(_G).__index = nil",
        "rawset(getmetatable(_G), '__index', nil)",
        "for k, v in pairs(_G) do if type(v) == 'table' and k ~= 'KEYS' and k ~= 'ARGV' then v.x = 1 end end",
        "local k, v = next(_G) while type(v) ~= 'table' or k == 'KEYS' or k == 'ARGV' do k, v = next(_G, k) end v.x = 1",
        "setmetatable({}, {__index = _G}).redis.x = 1",
        "local f = loadstring('y = 1') f()",
        "coroutine.wrap(function() y = 1 end)()",
        "for _, v in ipairs({_G, redis, string, table, math, bit, coroutine, os}) do rawset(v, 1, 1) end",
    ] {
        assert!(run(change).contains(READONLY), "{change}: {}", run(change));
    }
    for unchanged in ["table.sort(_G)", "table.remove(redis)", "setmetatable({}, getmetatable(_G)).x = 1"] {
        assert_eq!(run(unchanged), "$-1\\r\\n", "{unchanged}");
    }
    assert!(
        run("for _, v in ipairs({true, 1, print_me, function() end, coroutine.create(function() end)}) do \
                 assert(getmetatable(v) == nil) end")
        .contains("nonexistent global variable")
    );
    assert_eq!(
        run("for _, v in pairs({true, 1, type, coroutine.create(function() end)}) do assert(not getmetatable(v)) end"),
        "$-1\\r\\n"
    );
    // One script leaves nothing to the next.
    let (mut state, mut host) = (state(), TestHost::default());
    eval(&mut state, &mut host, "table.sort(_G) pcall(rawset, _G, 'x', 1) pcall(table.insert, string, 'x') KEYS.x = 1");
    assert_eq!(
        eval(&mut state, &mut host, "return {rawget(_G, 'x') or 0, rawget(string, 1) or 0, KEYS.x or 0, #_G}"),
        "*4\\r\\n:0\\r\\n:0\\r\\n:0\\r\\n:0\\r\\n"
    );
}

/// 5: what reaches outside is not there, by no way.
#[test]
fn nothing_reaches_outside() {
    for name in [
        "io", "package", "require", "module", "debug", "newproxy", "dofile", "loadfile", "print", "getfenv", "setfenv",
        "ffi", "jit", "__gc",
    ] {
        assert!(run(&format!("return {name}")).contains("nonexistent global variable"), "{name}");
        assert_eq!(run(&format!("return rawget(_G, '{name}')")), "$-1\\r\\n", "{name}");
        assert_eq!(
            run(&format!("for k in pairs(_G) do if k == '{name}' then return 1 end end")),
            "$-1\\r\\n",
            "{name}"
        );
    }
    assert_eq!(run("local n = {} for k in pairs(os) do n[#n + 1] = k end return n"), "*1\\r\\n$5\\r\\nclock\\r\\n");
    // Compiled code is refused, whoever made it.
    assert_eq!(run("return loadstring(string.dump(function() return 1 end))"), "$-1\\r\\n");
    assert_eq!(
        run("local s = string.dump(function() return 1 end) return load(function() local x = s s = nil return x end)"),
        "$-1\\r\\n"
    );
    let bytecode = b"\x1bLua\x51\x00\x01\x04\x08\x04\x08\x00";
    let reply = eval_with(&mut state(), &mut TestHost::default(), bytecode, &[], &[]);
    assert!(reply.starts_with(b"-ERR Error compiling script (new function): user_script:1: unexpected symbol near "));
    // Errors of Rust functions are opened, so scripts never hold one.
    assert_eq!(
        run("local _, e = xpcall(function() redis.call('x') end, function(e) return e end) return type(e)"),
        "$5\\r\\ntable\\r\\n"
    );
    assert_eq!(
        run("local _, e = coroutine.resume(coroutine.create(function() redis.call('x') end)) return type(e)"),
        "$5\\r\\ntable\\r\\n"
    );
}

/// 6: line ends never reach the protocol.
#[test]
fn line_ends_stay_inside() {
    for script in [
        "return {err = 'a b\\r\\n:1'}",
        "return {ok = 'a\\r\\n:1'}",
        "return redis.error_reply('a b\\r\\n:1')",
        "return redis.status_reply('a\\r\\n:1')",
        "error('a\\r\\n:1')",
        "error({err = 'a b\\r\\n:1'})",
        "return {{err = 'a b\\r\\n:1'}}",
        "return {big_number = '1\\r\\n:1'}",
        "redis.call('echo', 'x', 'y\\r\\n:1')",
        "return loadstring('\\r\\n:1 x')()",
    ] {
        let reply = eval_with(&mut state(), &mut TestHost::default(), script.as_bytes(), &[], &[]);
        let inner = reply.strip_prefix(b"*1\r\n").unwrap_or(&reply);
        let bulk = inner.starts_with(b"$");
        let lines = inner.split(|byte| *byte == b'\n').count();
        assert!(bulk || lines == 2, "{script}: {}", reply.escape_ascii());
    }
}

/// An error of an error's handler goes to the handler, some times.
#[test]
fn handlers_that_fail_are_asked_again() {
    let asked = "local n = 0 local ok, e = xpcall(error, function() n = n + 1 if n < 5 then error('x') end return n end) \
                 return {tostring(ok), e}";
    assert_eq!(run(asked), "*2\\r\\n$5\\r\\nfalse\\r\\n:5\\r\\n");
    for handler in [
        "1",
        "{}",
        "nil",
        "function() error('x') end",
        "function(e) return e .. {} end",
        "function() return nil + 1 end",
    ] {
        let script = format!("local ok, e = xpcall(error, {handler}) return e");
        assert_eq!(run(&script), "$23\\r\\nerror in error handling\\r\\n", "{handler}");
    }
}

/// 7: a script that is stopped ends, whatever it catches.
#[test]
fn a_stopped_script_ends() {
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(error) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "local function f() while true do pcall(f) end end f()",
        "local function f() while true do xpcall(f, f) end end f()",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do pcall(coroutine.wrap(function() while true do coroutine.yield() end end)) end",
        "while true do pcall(string.gsub, 'xxx', 'x', function() while true do end end) end",
        "while true do pcall(table.sort, {3, 2, 1}, function() while true do end end) end",
        "while true do pcall(load, function() while true do end end) end",
        "setmetatable({}, {__index = function() while true do end end}).x()",
        "repeat redis.pcall('ping') until false",
        "repeat redis.pcall('nosuch') until false",
        "repeat pcall(redis.call, 'nosuch') until false",
    ] {
        let (mut state, mut host) = (state(), TestHost { ticks_max: 20, ..TestHost::default() });
        let reply = eval(&mut state, &mut host, script);
        assert!(reply.starts_with(&format!("-{STOPPED}")), "{script}: {reply}");
        assert_eq!(host.ticks, 20, "{script}: it went on");
        host.ticks_max = 0;
        assert_eq!(eval(&mut state, &mut host, "return 1"), ":1\\r\\n", "after {script}");
    }
}

/// KEYS and ARGV are there by every way to them, and are of this script, whether its text names them or not.
#[test]
fn keys_and_arguments_are_there_by_every_way() {
    let mut state = state();
    let mut count = 0;
    let mut eval = |script: &str| {
        count += 1;
        let (key, argument) = (format!("k{count:03}"), format!("a{count:03}"));
        let (keys, argv) = ([key.as_bytes()], [argument.as_bytes(), b"x"]);
        let reply = eval_with(&mut state, &mut TestHost::default(), script.as_bytes(), &keys, &argv);
        let wanted = format!("*2\r\n$4\r\n{key}\r\n$4\r\n{argument}\r\n");
        assert_eq!(reply.escape_ascii().to_string(), wanted.as_bytes().escape_ascii().to_string(), "{script}");
    };
    let ways = [
        "return {KEYS[1], ARGV[1]}",
        "local k, a = 'KE' .. 'YS', 'AR' .. 'GV' return {_G[k][1], _G[a][1]}",
        "local k, a = 'KE' .. 'YS', 'AR' .. 'GV' return {rawget(_G, k)[1], rawget(_G, a)[1]}",
        "local k, a = 'KE' .. 'YS', 'AR' .. 'GV' local t = {} for n, v in pairs(_G) do t[n] = v end return {t[k][1], t[a][1]}",
        "local k, a = 'KE' .. 'YS', 'AR' .. 'GV' local t, n, v = {}, next(_G) while n do t[n] = v n, v = next(_G, n) end \
         return {t[k][1], t[a][1]}",
        "return loadstring('return {KEY' .. 'S[1], ARG' .. 'V[1]}')()",
        "local k, a = 'KE' .. 'YS', 'AR' .. 'GV' local t = setmetatable({}, {__index = _G}) return {t[k][1], t[a][1]}",
        "return {KEYS[1], loadstring('return ARG' .. 'V[1]')()}",
        "local k = 'KE' .. 'YS' return coroutine.wrap(function() return {_G[k][1], ARGV[1]} end)()",
    ];
    for first in ways {
        for second in ways {
            eval(first);
            eval(second);
        }
    }
    // Changes of a script are its own.
    let changed = "local k = 'KE' .. 'YS' _G[k][1], _G[k].x = 'y', 1 return {_G[k][1], _G[k].x, #_G['AR' .. 'GV']}";
    assert_eq!(
        eval_with(&mut state, &mut TestHost::default(), changed.as_bytes(), &[], &[b"z"]),
        b"*3\r\n$1\r\ny\r\n:1\r\n:1\r\n"
    );
    assert_eq!(
        eval_with(&mut state, &mut TestHost::default(), b"return {_G['KE' .. 'YS'].x or 'no'}", &[], &[]),
        b"*1\r\n$2\r\nno\r\n"
    );
    let missing = "return _G['KEY' .. 'Z']";
    let reply = eval_with(&mut state, &mut TestHost::default(), missing.as_bytes(), &[], &[]);
    assert!(reply.starts_with(b"-ERR user_script:1: Script attempted to access nonexistent global variable 'KEYZ'"));
}
