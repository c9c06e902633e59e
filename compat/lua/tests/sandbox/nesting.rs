//! Replies of tables that lie deep in each other: as deep as redis-server's stack of Lua goes, and none is a recursion.

use std::thread::Builder;

use crate::host::{TestHost, eval_with, state};
use varve_lua::{ScriptInput, ScriptName};
use varve_protocol::{Reply, Resp};

const TOO_DEEP: &str = "-ERR reached lua stack limit\r\n";

/// The reply of a script in this version of the protocol.
fn reply(script: &str, resp: Resp) -> String {
    let mut state = state();
    let chunk = state.compile(script.as_bytes()).expect("a script");
    let mut out = Reply::new();
    out.set_resp(resp);
    let input = ScriptInput { name: ScriptName::Digest(&[0; 20]), keys: &[], argv: &[] };
    state.run(chunk, input, &mut TestHost::default(), &mut out).expect("it has no error");
    String::from_utf8(out.to_vec()).expect("text")
}

/// A table wrapped `depth` times: how, and redis-server's bytes before, in the middle and behind, once for each.
type Form = (&'static str, usize, &'static str, &'static str);

/// The depths are those of redis-server 7.0.15, at which it still writes the innermost value.
const FORMS: [Form; 5] = [
    ("{t}", 7994, "*1\r\n", ""),
    ("{t, 1}", 7994, "*2\r\n", ":1\r\n"),
    ("{map = {a = t}}", 2664, "*2\r\n$1\r\na\r\n", ""),
    ("{map = {[t] = 1}}", 1998, "*2\r\n", ":1\r\n"),
    ("{set = {[t] = true}}", 2664, "*1\r\n", ""),
];

fn nested(form: &str, depth: usize) -> String {
    format!("local t = 7 for _ = 1, {depth} do t = {form} end return t")
}

fn check((form, deepest, head, tail): Form) {
    for depth in [1, 2, 7, 8, 9, 500, deepest] {
        let expected = format!("{}:7\r\n{}", head.repeat(depth), tail.repeat(depth));
        assert!(reply(&nested(form, depth), Resp::V2) == expected, "{form}, {depth} deep");
    }
    // All values of the first table that lies too deep are lost.
    let lost =
        if head.starts_with("*1") { ["*1\r\n", TOO_DEEP].concat() } else { ["*2\r\n", TOO_DEEP, TOO_DEEP].concat() };
    let inner_tail = tail.repeat(deepest);
    for depth in [deepest + 1, deepest + 2, 20_000] {
        let expected = format!("{}{lost}{inner_tail}", head.repeat(deepest));
        let got = reply(&nested(form, depth), Resp::V2);
        let at = got.bytes().zip(expected.bytes()).position(|(a, b)| a != b).unwrap_or(got.len().min(expected.len()));
        assert!(got == expected, "{form}, {depth} deep, from byte {at}: {:?}", &got[at..got.len().min(at + 100)]);
    }
}

/// On a small stack, which a recursion of thousands of levels would use up.
#[test]
fn issue_15_replies_are_as_deep_as_redis_servers() {
    let run = || FORMS.into_iter().for_each(check);
    Builder::new().stack_size(512 << 10).spawn(run).expect("a thread").join().expect("all depths are right");
}

#[test]
fn issue_15_deep_maps_and_sets_have_their_own_heads_in_resp3() {
    let mixed = "local t = 7 for i = 1, 20 do t = {map = {a = t}} t = {set = {[t] = true}} t = {t, i} end return t";
    let tails: String = (1..=20).map(|i| format!(":{i}\r\n")).collect();
    let expected = format!("{}:7\r\n{tails}", "*2\r\n~1\r\n%1\r\n$1\r\na\r\n".repeat(20));
    assert_eq!(reply(mixed, Resp::V3), expected);
    let several = "local t = {1, {2, {3}}, {}} for _ = 1, 12 do t = {t} end return {t, t}";
    let one = format!("{}*3\r\n:1\r\n*2\r\n:2\r\n*1\r\n:3\r\n*0\r\n", "*1\r\n".repeat(12));
    assert_eq!(reply(several, Resp::V3), format!("*2\r\n{one}{one}"));
}

/// A long text below thousands of tables is written once: the head of each table around it does not move it.
#[test]
fn issue_15_a_deep_reply_is_not_moved_by_each_of_its_tables() {
    let text = vec![b'x'; 4 << 20];
    let script = b"local t = ARGV[1] for _ = 1, 7990 do t = {t} end return t";
    let got = eval_with(&mut state(), &mut TestHost::default(), script, &[], &[&text]);
    assert_eq!(got.len(), 7990 * 4 + 10 + text.len() + 2);
    assert!(got.starts_with(b"*1\r\n*1\r\n") && got.ends_with(b"xx\r\n"));
}

/// Values that a function of ours is given, or gives, all at once: some thousand, each of which the library for Lua refers to.
#[test]
fn issue_15_thousands_of_values_at_once_end_nothing_but_the_script() {
    let made = "local t = {} for i = 1, 7990 do t[i] = {} end ";
    let texts = "local t = {} for i = 1, 7990 do t[i] = 'x' .. i end ";
    let functions = [
        "redis.sha1hex",
        "redis.call",
        "redis.pcall",
        "redis.log",
        "redis.error_reply",
        "cjson.encode",
        "cjson.decode",
        "cmsgpack.pack",
        "cmsgpack.unpack",
        "struct.pack",
        "struct.unpack",
        "bit.band",
        "bit.tohex",
        "string.format",
        "string.char",
        "table.concat",
        "coroutine.wrap(function(...) return ... end)",
        "pcall",
        "select",
        "math.max",
        "loadstring",
        "load",
        "redis.acl_check_cmd",
        "redis.setresp",
        "redis.set_repl",
        "xpcall",
        "unpack",
        "math.random",
        "cjson.encode_sparse_array",
    ];
    let mut state = state();
    for made in [made, texts] {
        for function in functions {
            for count in [7900, 7990] {
                let script = format!("{made} pcall(function() return {function}(unpack(t, 1, {count})) end) return 1");
                let reply = eval_with(&mut state, &mut TestHost::default(), script.as_bytes(), &[], &[]);
                assert!(reply == b":1\r\n" || reply.starts_with(b"-"), "{function}: {}", reply.escape_ascii());
            }
        }
    }
    for packed in ["\\161a", "\\145\\1", "\\1", "\\129\\161a\\161b"] {
        for count in [7000, 7990, 8000, 100_000] {
            let script = format!("return select('#', cmsgpack.unpack(string.rep('{packed}', {count})))");
            let reply = eval_with(&mut state, &mut TestHost::default(), script.as_bytes(), &[], &[]);
            let whole = format!(":{count}\r\n");
            assert!(
                reply == whole.as_bytes() || count > 7000 && reply.starts_with(b"-ERR "),
                "{}",
                reply.escape_ascii()
            );
        }
    }
    assert_eq!(eval_with(&mut state, &mut TestHost::default(), b"return 1", &[], &[]), b":1\r\n");
}

/// A script that reads or writes something `n` levels deep, how deep it goes, the level at which it is asked for its error,
/// and what that has. Depths and errors are redis-server 7.0.15's, but where the library for Lua ends a script: it refers to at most
/// 8000 values at once, of which some are our own.
type Deep = (&'static str, usize, usize, &'static str);

const ALL: &str = "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";
const ARRAY: &str = "stack overflow (in function mp_decode_to_lua_array)";
const REFERENCES: &str = "out of Lua stack";

const DEEP: [Deep; 14] = [
    ("cmsgpack.unpack(string.rep('\\145', n) .. '\\1')", 3999, 4000, ARRAY),
    ("cmsgpack.unpack(string.rep('\\129\\1', n) .. '\\1')", 3999, 4000, ALL),
    ("cmsgpack.unpack(string.rep('\\129', n) .. string.rep('\\1', n + 1))", 7900, 7998, REFERENCES),
    ("cmsgpack.unpack('\\1\\1\\1\\1\\1' .. string.rep('\\145', n) .. '\\1')", 3996, 3997, ALL),
    ("cmsgpack.unpack(string.rep('\\145', n) .. '\\1', 1, 2, 3)", 3997, 3998, ALL),
    ("cmsgpack.unpack_one(string.rep('\\145', n) .. '\\1', 0)", 3999, 4000, ARRAY),
    ("cmsgpack.unpack(string.rep('\\1', n))", 7900, 8000, ALL),
    ("cmsgpack.unpack_limit(string.rep('\\1', 9000), n, 0)", 7900, 7999, "stack overflow (in function mp_unpack_full)"),
    ("cjson.decode(string.rep('[', n) .. string.rep(']', n))", 7900, 7999, REFERENCES),
    ("cjson.decode(string.rep('{\"a\":', n) .. '1' .. string.rep('}', n))", 3999, 4000, "(4000) at character 19996"),
    ("cjson.decode(string.rep('[{\"a\":', n) .. '1' .. string.rep('}]', n))", 2666, 2667, "(5333) at character 15997"),
    ("local t = 1 for _ = 1, n do t = {t} end cjson.encode(t)", 7900, 7998, REFERENCES),
    ("local t = 1 for _ = 1, n do t = {a = t} end cjson.encode(t)", 3900, 4000, REFERENCES),
    ("local t = 1 for _ = 1, n do t = {{a = t}} end cjson.encode(t)", 2600, 2667, REFERENCES),
];

/// On a small stack: what lies deep has one of its own.
#[test]
fn issue_15_libraries_read_and_write_as_deep_as_redis_servers() {
    let run = || {
        for (work, deepest, too_deep, error) in DEEP {
            let script =
                format!("cjson.decode_max_depth(1e5) cjson.encode_max_depth(1e5) local n = tonumber(ARGV[1]) {work}");
            let at = |depth: usize| {
                let depth = depth.to_string();
                let got =
                    eval_with(&mut state(), &mut TestHost::default(), script.as_bytes(), &[], &[depth.as_bytes()]);
                String::from_utf8(got).expect("text")
            };
            for depth in [1, 99, 100, 101, deepest] {
                assert_eq!(at(depth), "$-1\r\n", "{work}, {depth} deep");
            }
            for depth in [too_deep, too_deep + 50] {
                let got = at(depth);
                let error = if depth == too_deep { error } else { "" };
                assert!(got.starts_with("-ERR ") && got.contains(error), "{work}, {depth} deep: {got}");
            }
        }
    };
    Builder::new().stack_size(1 << 20).spawn(run).expect("a thread").join().expect("all depths are right");
}
