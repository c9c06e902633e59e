//! Commands that scripts call, and their replies: each kind of value, and what is left when Lua raises an error in the middle.

use crate::host::{TestHost, eval_with, state};
use varve_lua::{ScriptInput, ScriptName, Settings, State};
use varve_protocol::Reply;

/// EVAL of a script, the reply with its bytes escaped.
fn eval(state: &mut State, script: &str) -> String {
    eval_with(state, &mut TestHost::default(), script.as_bytes(), &[], &[]).escape_ascii().to_string()
}

#[test]
fn strings_of_all_lengths_are_those_of_the_reply() {
    let mut state = state();
    for len in [0, 1, 39, 40, 500, 505, 506, 507, 508, 509, 511, 512, 513, 5000, 300_000] {
        for command in ["echo", "pinned"] {
            let script = format!(
                "local s = string.rep('a', {len} - 1) .. string.rep('z', {len} > 0 and 1 or 0) \
                 local got = redis.call('{command}', s) return {{#got, tostring(got == s)}}"
            );
            assert_eq!(eval(&mut state, &script), format!("*2\\r\\n:{len}\\r\\n$4\\r\\ntrue\\r\\n"), "{command}");
        }
    }
}

#[test]
fn numbers_are_words_with_all_their_digits() {
    let mut state = state();
    for (number, word) in [
        ("0", "0"),
        ("-0", "-0"),
        ("17", "17"),
        ("-9007199254740991", "-9007199254740991"),
        ("9007199254740992", "9007199254740992"),
        ("1e15", "1000000000000000"),
        ("1e17", "1e+17"),
        ("0.1", "0.10000000000000001"),
        ("1 / 3", "0.33333333333333331"),
        ("1e-17", "1.0000000000000001e-17"),
        ("1 / 0", "inf"),
        ("-1 / 0", "-inf"),
    ] {
        let zero = if number == "-0" { "-1 / (1 / 0)" } else { number };
        let script = format!("return {{redis.call('echo', {zero}), redis.call('set', 'k' .. 1, 2, {zero}) and 1}}");
        let reply = eval(&mut state, &format!("return redis.call('echo', {zero})"));
        assert_eq!(reply, format!("${}\\r\\n{word}\\r\\n", word.len()), "{number}");
        // A number among strings: the words stay in their order.
        assert!(eval(&mut state, &script).contains("Wrong number of args"), "{script}");
        let kept = format!("redis.call('set', {zero}, 'v') return redis.call('get', '{word}')");
        assert_eq!(eval(&mut state, &kept), "$1\\r\\nv\\r\\n", "{number}");
    }
}

#[test]
fn errors_are_raised_by_call_and_returned_by_pcall() {
    let mut state = state();
    let shown = "local function shown(e) return {type(e), e.err, tostring(e.ignore_error_stats_update)} end ";
    for (script, expected) in [
        // A command's error is counted by the server; those of the arguments are not.
        ("return shown(redis.pcall('nosuch'))", "ERR Unknown Redis command called from script|true"),
        ("return shown(redis.pcall())", "ERR Please specify at least one argument for this redis lib call|nil"),
        (
            "return shown(redis.pcall('echo', {}))",
            "ERR Lua redis lib command arguments must be strings or integers|nil",
        ),
        (
            "return shown(redis.pcall('echo', nil))",
            "ERR Lua redis lib command arguments must be strings or integers|nil",
        ),
        (
            "local _, e = xpcall(function() redis.call('nosuch') end, function(e) return e end) return shown(e)",
            "ERR Unknown Redis command called from script|true",
        ),
        (
            "local _, e = coroutine.resume(coroutine.create(function() redis.call('nosuch') end)) return shown(e)",
            "ERR Unknown Redis command called from script|true",
        ),
    ] {
        let (text, counted) = expected.split_once('|').expect("two parts");
        let expected = format!(
            "*3\\r\\n$5\\r\\ntable\\r\\n${}\\r\\n{text}\\r\\n${}\\r\\n{counted}\\r\\n",
            text.len(),
            counted.len()
        );
        assert_eq!(eval(&mut state, &format!("{shown}{script}")), expected, "{script}");
    }
    let reply = eval(&mut state, "local x = 1\nredis.call('nosuch')");
    assert!(reply.starts_with("-ERR Unknown Redis command called from script script: "), "{reply}");
    assert!(reply.ends_with(", on @user_script:2.\\r\\n"), "{reply}");
}

/// Lua raises its own error wherever it has no memory: in a function that passes a reply on, and in the entry. Whatever the place,
/// the next script meets a state that is whole.
#[test]
fn memory_that_ends_anywhere_leaves_the_state_whole() {
    const LIMIT: usize = 1 << 20;
    let mut state = State::new(Settings { memory_bytes_max: LIMIT, ..Settings::default() }).unwrap();
    let calls = "redis.setresp(3) \
                 for _, kind in ipairs({'map', 'set', 'double', 'bignum', 'verbatim', 'array', 'string'}) do \
                     keep[#keep + 1] = redis.call('debug', 'protocol', kind) end \
                 keep[#keep + 1] = redis.pcall('nosuch') keep[#keep + 1] = redis.call('set', 'key', #keep) \
                 keep[#keep + 1] = redis.call('numbers', 40) keep[#keep + 1] = redis.call('echo', text .. 'y')";
    let whole = "return {redis.call('echo', 'sound'), #redis.call('numbers', 30), redis.pcall('nosuch').err}";
    let sound = eval(&mut state, whole);
    assert!(sound.contains("sound"), "{sound}");
    let (mut well, mut ended) = (0, 0);
    for step in 0..200 {
        let used = LIMIT - 16_000 + step * 84;
        let script = format!(
            "local keep, pad, text = {{}}, nil, string.rep('x', 700) collectgarbage() \
             while collectgarbage('count') * 1024 < {used} do pad = {{pad, text .. collectgarbage('count')}} end \
             local ok = pcall(function() {calls} end) pad = nil return ok and 1 or redis.call('echo', 'caught')"
        );
        match eval(&mut state, &script).as_str() {
            ":1\\r\\n" => well += 1,
            "$6\\r\\ncaught\\r\\n" => ended += 1,
            reply => {
                assert!(reply.starts_with("-ERR") && reply.contains("not enough memory"), "step {step}: {reply}");
                ended += 1;
            }
        }
        assert_eq!(eval(&mut state, &format!("collectgarbage() {whole}")), sound, "step {step}");
    }
    assert!(well > 0 && ended > 0, "{well} had enough memory, {ended} had not");
}

/// Keys and arguments of a script are still there behind it. They give way to a script that needs their memory.
#[test]
fn arguments_of_the_last_script_are_given_up() {
    let mut state = State::new(Settings { memory_bytes_max: 8 << 20, ..Settings::default() }).unwrap();
    let large = vec![b'x'; 5 << 20];
    for script in ["return #ARGV[1]", "error('it fails')"] {
        eval_with(&mut state, &mut TestHost::default(), script.as_bytes(), &[], &[&large]);
        let reply = eval_with(&mut state, &mut TestHost::default(), b"return #ARGV[1] + #KEYS", &[], &[&large]);
        assert_eq!(reply, b":5242880\r\n", "after {script}");
        assert_eq!(eval(&mut state, "return {#KEYS, #ARGV}"), "*2\\r\\n:0\\r\\n:0\\r\\n", "after {script}");
    }
}

/// A finalizer of a script's runs wherever Lua collects: also while a reply becomes a value. What it calls changes nothing there.
#[test]
fn finalizers_that_call_commands_leave_replies_alone() {
    let mut state = State::new(Settings { deprecated_api: true, ..Settings::default() }).unwrap();
    let script = "local called, refused = 0, 0 \
                  local function litter() for i = 1, 20 do local p = newproxy(true) getmetatable(p).__gc = function() \
                      local got = redis.pcall('echo', 'from a finalizer') \
                      if type(got) == 'table' then refused = refused + 1 else called = called + 1 end \
                  end end end \
                  for i = 1, 400 do litter() \
                      local list = redis.call('numbers', '300') \
                      for n = 1, 300 do assert(list[n] == n - 1, 'a list is another one') end litter() \
                      local text = string.rep(i % 10, 3000) \
                      assert(redis.call('echo', text) == text, 'a long text is another one') \
                      assert(redis.call('echo', 'short ' .. i) == 'short ' .. i, 'a short text is another one') \
                  end \
                  return {called > 0 and 1 or 0, refused > 0 and 1 or 0}";
    assert_eq!(eval(&mut state, script), "*2\\r\\n:1\\r\\n:1\\r\\n");
}

/// A table that holds itself twice, sixty deep, has 2^60 values: the reply ends where it may not be longer.
#[test]
fn a_reply_over_its_ceiling_is_not_walked_to_its_end() {
    let mut state = state();
    let script = b"local t = {1} for _ = 1, 60 do t = {t, t} end return t";
    let chunk = state.compile(script).expect("a script");
    let mut out = Reply::new();
    out.set_ceiling(1 << 20);
    let input = ScriptInput { name: ScriptName::Digest(&[0; 20]), keys: &[], argv: &[] };
    assert!(state.run(chunk, input, &mut TestHost::default(), &mut out).is_ok());
    assert!(out.is_overflown());
}

/// A table with several of the fields is the kind of reply that redis-server looks for first.
#[test]
fn the_first_of_several_fields_decides() {
    let fields = [
        ("err", "'e x'", "-e x\\r\\n"),
        ("ok", "'o'", "+o\\r\\n"),
        ("double", "3.5", "$3\\r\\n3.5\\r\\n"),
        ("big_number", "'123'", "$3\\r\\n123\\r\\n"),
        ("verbatim_string", "{format = 'txt', string = 'vs'}", "$2\\r\\nvs\\r\\n"),
        ("map", "{a = 1}", "*2\\r\\n$1\\r\\na\\r\\n:1\\r\\n"),
        ("set", "{b = true}", "*1\\r\\n$1\\r\\nb\\r\\n"),
        ("[1]", "'element'", "*1\\r\\n$7\\r\\nelement\\r\\n"),
    ];
    let mut state = state();
    for (first, (name, value, reply)) in fields.iter().enumerate() {
        for (other, other_value, _) in &fields[first..] {
            let script = format!("return {{{other} = {other_value}, {name} = {value}}}");
            assert_eq!(eval(&mut state, &script), *reply, "{script}");
            let nested = format!("return {{{{{other} = {other_value}, {name} = {value}}}}}");
            assert_eq!(eval(&mut state, &nested), format!("*1\\r\\n{reply}"), "{nested}");
        }
    }
}

/// A build of Lua that checks its interface, as that of the fuzz targets does, ended the process where a protected call came back
/// with as many values as its room took. Other builds have these functions too.
#[test]
fn issue_15_protected_calls_may_come_back_with_any_number_of_values() {
    let mut state = state();
    for call in ["pcall(values)", "pcall(function(...) return values(...) end, 1, 2)", "xpcall(values, tostring)"] {
        for count in (0..300).chain([1000, 4000, 7000]) {
            let script = format!(
                "local t = {{}} for i = 1, {count} do t[i] = i end \
                 local function values() return unpack(t, 1, {count}) end \
                 local function last(...) return select('#', ...), (select(-1, ...)) end return {{last({call})}}"
            );
            let last = if count == 0 { "1".to_owned() } else { count.to_string() };
            assert_eq!(eval(&mut state, &script), format!("*2\\r\\n:{}\\r\\n:{last}\\r\\n", count + 1), "{call}");
        }
    }
    // So it is where an error comes back, however full the stack is.
    let script = "local function deep(n, ...) if n == 0 then error('end') end return deep(n - 1, n, ...) end \
                  return {pcall(deep, 200), select('#', xpcall(function() return deep(150) end, function(e) return e end))}";
    assert!(eval(&mut state, script).ends_with(":2\\r\\n"));
}
