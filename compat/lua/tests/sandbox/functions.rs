//! Libraries of functions: what they may do while they are loaded, and the texts of redis-server 7.0.15.

use crate::host::{STOPPED, TestHost};
use varve_lua::{LibraryFunction, ScriptError, ScriptInput, ScriptName, Settings, State};
use varve_protocol::Reply;

fn state() -> State {
    State::new(Settings { for_functions: true, instructions_per_tick: 1000, ..Settings::default() }).unwrap()
}

fn load(state: &mut State, code: &str) -> Result<Vec<LibraryFunction>, ScriptError> {
    // The first line is the shebang's, which whoever calls has cut off.
    state.load_library(format!("\n{code}").as_bytes(), &mut TestHost { ticks_max: 100, ..TestHost::default() })
}

fn call(state: &mut State, function: &LibraryFunction, keys: &[&[u8]], argv: &[&[u8]]) -> String {
    let mut out = Reply::new();
    let input = ScriptInput { name: ScriptName::Function(&function.name), keys, argv };
    if let Err(error) = state.run(function.chunk, input, &mut TestHost::default(), &mut out) {
        out.error_bytes(&error.text);
    }
    out.to_vec().escape_ascii().to_string()
}

/// Loads a library, and calls its only function.
fn fcall(code: &str) -> String {
    let mut state = state();
    let functions = load(&mut state, code).unwrap();
    call(&mut state, &functions[0], &[], &[])
}

#[test]
fn libraries_that_do_not_load() {
    let table = [
        ("redis.call('ping')", "user_function:2: Script attempted to access nonexistent global variable 'call'"),
        (
            "for k in pairs({}) do end",
            "user_function:2: Script attempted to access nonexistent global variable 'pairs'",
        ),
        ("redis.register_function()", "wrong number of arguments to redis.register_function"),
        (
            "redis.register_function('a')",
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named \
             arguments).",
        ),
        ("redis.register_function('a', 1)", "second argument to redis.register_function must be a function"),
        ("redis.register_function({}, function() end)", "first argument to redis.register_function must be a string"),
        ("redis.register_function{}", "redis.register_function must get a function name argument"),
        ("redis.register_function{function_name = 'a'}", "redis.register_function must get a callback argument"),
        ("redis.register_function{x = 1}", "unknown argument given to redis.register_function"),
        (
            "redis.register_function{function_name = 'a', callback = function() end, flags = {'x'}}",
            "unknown flag given",
        ),
        (
            "redis.register_function('a b', function() end)",
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        ),
        (
            "redis.register_function('a', function() end) redis.register_function('a', function() end)",
            "Function already exists in the library",
        ),
        ("x = 1", "user_function:2: Attempt to modify a readonly table"),
        ("local a = nil\nreturn a.b", "user_function:3: attempt to index local 'a' (a nil value)"),
    ];
    for (code, text) in table {
        let error = load(&mut state(), code).unwrap_err();
        let expected = format!("ERR Error registering functions: ERR {text}");
        assert_eq!(String::from_utf8_lossy(&error.text), expected, "{code}");
    }
    let error = |code| String::from_utf8(load(&mut state(), code).unwrap_err().text).unwrap();
    assert_eq!(error("return"), "ERR No functions registered");
    assert_eq!(error("x x"), "ERR Error compiling function: user_function:2: '=' expected near 'x'");
    assert_eq!(error("while true do end"), format!("ERR Error registering functions: {STOPPED}"));
}

#[test]
fn functions_that_run() {
    let mut state = state();
    let code = "local n = 0 \
                redis.register_function('count', function(keys, args) n = n + 1 return {n, keys, args} end) \
                redis.register_function{function_name = 'named', description = 'text', flags = {'no-writes', 'allow-oom'}, \
                callback = function() return redis.call('ping') end}";
    let functions = load(&mut state, code).unwrap();
    let [count, named] = functions.as_slice() else { panic!("two functions") };
    assert_eq!((named.name.as_slice(), named.description.as_deref()), (&b"named"[..], Some(&b"text"[..])));
    assert_eq!(named.flags.names().collect::<Vec<_>>(), ["no-writes", "allow-oom"]);
    // The local variables of a library live on between calls, and through other loads.
    assert_eq!(
        call(&mut state, count, &[b"k"], &[b"v"]),
        "*3\\r\\n:1\\r\\n*1\\r\\n$1\\r\\nk\\r\\n*1\\r\\n$1\\r\\nv\\r\\n"
    );
    load(&mut state, "x = 1").unwrap_err();
    assert_eq!(call(&mut state, count, &[], &[]), "*3\\r\\n:2\\r\\n*0\\r\\n*0\\r\\n");
    assert_eq!(call(&mut state, named, &[], &[]), "+PONG\\r\\n");
    // A library that is let go leaves the others alone.
    state.forget(count.chunk);
    assert_eq!(call(&mut state, named, &[], &[]), "+PONG\\r\\n");
}

#[test]
fn a_function_that_has_kept_the_loading_registers_nothing() {
    let reply = fcall(
        "local kept = redis redis.register_function('a', function() kept.register_function('b', function() end) end)",
    );
    let expected =
        "-ERR redis.register_function can only be called on FUNCTION LOAD command script: a, on @user_function:2.";
    assert_eq!(reply, format!("{expected}\\r\\n"));
}

#[test]
fn functions_that_fail() {
    let function = |body: &str| fcall(&format!("redis.register_function('a', function(keys, args) {body} end)"));
    assert_eq!(function("error('boo')"), "-ERR user_function:2: boo script: a, on @user_function:2.\\r\\n");
    assert_eq!(
        function("return redis.call('get')"),
        "-ERR Wrong number of args calling Redis command from script script: a, on @user_function:2.\\r\\n"
    );
    assert_eq!(
        function("return KEYS"),
        "-ERR user_function:2: Script attempted to access nonexistent global variable \\'KEYS\\' script: a, on \
         @user_function:2.\\r\\n"
    );
    assert_eq!(
        function("redis.register_function('b', function() end)"),
        "-ERR user_function:2: attempt to call field \\'register_function\\' (a nil value) script: a, on @user_function:2.\\r\\n"
    );
}
