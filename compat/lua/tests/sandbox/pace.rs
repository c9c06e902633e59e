//! Functions of ours that have much to do ask the host meanwhile, so that their script rests and can be ended.

use crate::host::{STOPPED, TestHost, eval_with, state};

/// Runs a script with a large argument; the reply and how often the host was asked.
fn run(script: &str, argument: &[u8], ticks_max: u32) -> (Vec<u8>, u32) {
    let mut host = TestHost { ticks_max, ..TestHost::default() };
    let reply = eval_with(&mut state(), &mut host, script.as_bytes(), &[], &[argument]);
    (reply, host.ticks)
}

/// JSON and MessagePack of 100 000 numbers, and of one text of 2 MB.
fn inputs() -> [(&'static str, Vec<u8>, u32); 5] {
    let numbers = [b"[".as_slice(), &b"1,".repeat(99_999), b"1]"].concat();
    let fields: Vec<u8> = (0..50_000).flat_map(|n| format!("\"field {n}\":{n},").into_bytes()).collect();
    let fields = [b"{".as_slice(), &fields, b"\"last\":0}"].concat();
    let text = [b"\"".as_slice(), &b"x\\n".repeat(700_000), b"\""].concat();
    let packed = [b"\xdd\x00\x01\x86\xa0".as_slice(), &b"\x01".repeat(100_000)].concat();
    [
        ("cjson.decode(ARGV[1])", numbers, 50),
        ("cjson.decode(ARGV[1])", fields, 50),
        ("cjson.decode(ARGV[1])", text, 20),
        ("cjson.decode(string.rep(' ', 2000000) .. ARGV[1])", b"1".to_vec(), 20),
        ("cmsgpack.unpack(ARGV[1])", packed, 50),
    ]
}

#[test]
fn issue_15_reading_rests() {
    for (call, input, least) in inputs() {
        let (_, ticks) = run(&format!("local x = {call} return 1"), &input, 0);
        assert!(ticks >= least, "{call} of {} bytes asked {ticks} times", input.len());
        let (reply, ticks) = run(&format!("pcall(function() return {call} end) return 1"), &input, 7);
        assert!(reply.starts_with(format!("-{STOPPED}").as_bytes()), "{call}: {}", reply.escape_ascii());
        assert_eq!(ticks, 7, "{call}");
    }
}

/// One call of a function on a large value asks more often than the same script without the call.
#[test]
fn issue_15_writing_rests() {
    const NUMBERS: &str = "local t = {} for i = 1, 100000 do t[i] = i end ";
    const FIELDS: &str = "local t = {} for i = 1, 50000 do t['f' .. i] = i end ";
    // Its parts agree with most of what is looked for, everywhere.
    const HALVES: &str = "local t, u = string.rep('a', 120000), string.rep('a', 900) .. 'b' ";
    const TEXT: &str = "local t = string.rep('x\\n', 1000000) ";
    for (made, call, least) in [
        (NUMBERS, "cjson.encode(t)", 100),
        (FIELDS, "cjson.encode(t)", 40),
        (TEXT, "cjson.encode(t)", 20),
        (NUMBERS, "cmsgpack.pack(t)", 100),
        (FIELDS, "cmsgpack.pack(t)", 40),
        (NUMBERS, "table.sort(t)", 100),
        ("local t = string.rep('x', 100000) ", "struct.unpack(t, t)", 50),
        ("local t = string.rep('b', 100000) ", "struct.size(t)", 50),
        ("", "for i = 1, 20 do string.rep('ab', 100000) end", 20),
        (TEXT, "for i = 1, 20 do string.upper(t) end", 20),
        (TEXT, "for i = 1, 20 do redis.sha1hex(t) end", 20),
        (TEXT, "for i = 1, 20 do loadstring(t) end", 20),
        ("", "for i = 1, 20 do collectgarbage() end", 20),
        (TEXT, "for i = 1, 20 do t:reverse() end", 400),
        (NUMBERS, "table.concat(t)", 9),
        (NUMBERS, "table.sort(t, rawequal)", 100),
        (HALVES, "t:find(u, 1, true)", 50),
        (HALVES, "t:find(u)", 50),
        (HALVES, "t:match(u)", 50),
        (HALVES, "t:gmatch(u)()", 50),
        (HALVES, "t:gsub(u, '')", 50),
        (HALVES, "t:find('.' .. u)", 100),
        (TEXT, "string.match('x', t)", 20),
        (TEXT, "string.gsub('x', 'x', t .. '%0')", 20),
    ] {
        let (_, before) = run(&format!("{made} return 1"), b"", 0);
        let (reply, ticks) = run(&format!("{made} {call} return 1"), b"", 0);
        assert_eq!(reply, b":1\r\n", "{call}");
        assert!(ticks >= before + least, "{made}{call}: {before}, then {ticks}");
        let (reply, ticks) = run(&format!("{made} pcall(function() {call} end) return 1"), b"", before + 5);
        assert!(reply.starts_with(format!("-{STOPPED}").as_bytes()), "{call}: {}", reply.escape_ascii());
        assert_eq!(ticks, before + 5, "{call}");
    }
}

/// The arguments of a script, the replies of its commands and its own reply.
#[test]
fn issue_15_arguments_and_replies_rest() {
    let arguments: Vec<&[u8]> = vec![b"x"; 100_000];
    let mut host = TestHost::default();
    assert_eq!(eval_with(&mut state(), &mut host, b"return #ARGV", &[], &arguments), b":100000\r\n");
    assert!(host.ticks >= 50, "arguments: {}", host.ticks);

    let mut host = TestHost::default();
    let script = b"return #redis.call('numbers', 100000)";
    assert_eq!(eval_with(&mut state(), &mut host, script, &[], &[]), b":100000\r\n");
    assert!(host.ticks >= 50, "a command's reply: {}", host.ticks);

    let made = "local t = {} for i = 1, 100000 do t[i] = i end ";
    let (_, before) = run(&format!("{made} return 1"), b"", 0);
    for form in ["t", "{map = t}", "{set = t}"] {
        let (reply, ticks) = run(&format!("{made} return {form}"), b"", 0);
        assert!(reply.len() > 500_000 && ticks >= before + 50, "{form}: {before}, then {ticks}");
        let (reply, ticks) = run(&format!("{made} return {form}"), b"", before + 5);
        assert_eq!(reply.escape_ascii().to_string(), format!("-{STOPPED}\\r\\n"), "nothing of the reply is sent");
        assert_eq!(ticks, before + 5, "{form}");
    }
}

/// Places of a long table are moved one by one at each of these calls, which are few instructions.
#[test]
fn issue_15_tables_that_are_shifted_rest() {
    for call in ["table.insert(t, 1, 0)", "table.remove(t, 1)"] {
        let made = "local t = {} for i = 1, 50000 do t[i] = i end ";
        let (_, before) = run(&format!("{made} return 1"), b"", 0);
        let (_, ticks) = run(&format!("{made} for i = 1, 20 do {call} end return 1"), b"", 0);
        assert!(ticks >= before + 20, "{call}: {before}, then {ticks}");
    }
}

/// A long table is sorted by instructions of Lua, and its errors are still those of C.
#[test]
fn long_tables_are_sorted_as_short_ones() {
    let made = "local n, t = tonumber(ARGV[1]), {} for i = 1, n do t[i] = (i * 7919) % n end ";
    for (script, reply) in [
        ("table.sort(t) for i = 2, n do assert(t[i - 1] <= t[i]) end return 1", ":1\\r\\n"),
        ("t[n] = 'x' local _, e = pcall(table.sort, t) return e", "$37\\r\\nattempt to compare "),
        ("t[n] = {} table.sort(t)", "-ERR attempt to compare "),
        ("return string.rep('abc', n) == table.concat({string.rep('abc', n - 1), 'abc'}) and 1", ":1\\r\\n"),
        ("return #string.rep('abc', n + 0.5) - 3 * n", ":0\\r\\n"),
    ] {
        let [short, long] = [b"100".as_slice(), b"50000"].map(|n| run(&format!("{made}{script}"), n, 0).0);
        let [short, long] = [short, long].map(|reply| reply.escape_ascii().to_string());
        assert!(short.starts_with(reply) && long.starts_with(reply), "{script}: {short}, {long}");
    }
}
