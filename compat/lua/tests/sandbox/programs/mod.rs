//! Programs in Lua that are made of bytes, and what must hold after any of them.
//!
//! ```text
//!   bytes --each chooses a form--> statements, expressions, calls of every function --> a state with little memory and time
//!                                                                                       |
//!   one whole reply, a state that goes on, libraries as they were, bounded memory  <----'
//! ```
//! Used by the fuzz target `lua` and by a test over random bytes.

#![allow(dead_code, reason = "each of the tests uses a part of it")]

use std::fmt::Write;

use varve_lua::{ScriptInput, ScriptName, Settings, State};
use varve_protocol::Reply;

use super::host::{STOPPED, TestHost, eval_with};

/// Bytes that a state may use.
const MEMORY_BYTES: usize = 4 << 20;
/// Ticks after which a program is stopped, and the instructions between two.
const TICKS_MAX: u32 = 40;
const INSTRUCTIONS_PER_TICK: u32 = 500;
/// Forms of a program: a program has an end, whatever its bytes say.
const FORMS_MAX: usize = 400;
const DEPTH_MAX: usize = 6;

/// Shows all that scripts share: names, kinds and places of the globals, of the libraries and of the metatable of strings.
const GROUND: &str = "local lines = {} \
    local function show(name, value) \
        lines[#lines + 1] = name .. '=' .. (type(value) == 'table' and 'table' or tostring(value)) \
        if type(value) == 'table' and name ~= '_G._G' and name ~= '_G.KEYS' and name ~= '_G.ARGV' then \
            for k, v in pairs(value) do show(name .. '.' .. tostring(k), v) end \
            if name ~= '_G' then lines[#lines + 1] = name .. ' ' .. tostring(getmetatable(value)) end end end \
    show('_G', _G) show('strings', getmetatable('').__index) \
    table.sort(lines) return table.concat(lines, ' ')";

/// Runs the program of these bytes, as a script or as a library of functions, and checks what must hold.
pub(crate) fn try_out(bytes: &[u8]) {
    let [form, rest @ ..] = bytes else { return };
    let for_functions = form & 8 != 0;
    // Bytes as they are show the parser what no writer of programs would.
    let code = if form % 8 == 0 { rest.to_vec() } else { program(rest).into_bytes() };
    let settings = Settings {
        memory_bytes_max: MEMORY_BYTES,
        instructions_per_tick: INSTRUCTIONS_PER_TICK,
        for_functions,
        ..Settings::default()
    };
    let mut state = State::new(settings).expect("more than the libraries need");
    let ground = (!for_functions).then(|| ask(&mut state, GROUND));
    let mut host = TestHost { ticks_max: TICKS_MAX, ..TestHost::default() };
    let argv = [rest, b"10", b""];
    let reply = if for_functions {
        run_library(&mut state, &mut host, &code, &argv)
    } else {
        eval_with(&mut state, &mut host, &code, &[b"key"], &argv)
    };
    let show = || format!("{}\n{}", code.escape_ascii(), reply.escape_ascii());
    assert_eq!(reply_len(&reply), Some(reply.len()), "a whole reply: {}", show());
    assert!(host.ticks <= TICKS_MAX, "it went on: {}", show());
    let stopped = reply.starts_with(format!("-{STOPPED}").as_bytes());
    assert!(stopped || host.ticks < TICKS_MAX || reply.starts_with(b"-"), "it was stopped: {}", show());
    assert!(state.used_bytes() <= 2 * MEMORY_BYTES, "{} bytes: {}", state.used_bytes(), show());
    if let Some(ground) = ground {
        assert_eq!(ask(&mut state, GROUND), ground, "what it leaves: {}", show());
        assert_eq!(ask(&mut state, "return #('x' .. 'y')"), ":2\\r\\n", "it goes on: {}", show());
    }
}

/// The reply of a script that has all the time it wants, escaped.
fn ask(state: &mut State, script: &str) -> String {
    eval_with(state, &mut TestHost::default(), script.as_bytes(), &[], &[]).escape_ascii().to_string()
}

/// Loads a library that registers the program, and runs it twice: what it has left is there the second time.
fn run_library(state: &mut State, host: &mut TestHost, code: &[u8], argv: &[&[u8]]) -> Vec<u8> {
    let mut out = Reply::new();
    let library = [b"redis.register_function('f', function(KEYS, ARGV) ", code, b"\nend)"].concat();
    let ran = state.load_library(&library, host).and_then(|functions| {
        let mut run = |out: &mut Reply| {
            host.ticks = 0;
            state.run(
                functions[0].chunk,
                ScriptInput { name: ScriptName::Function(b"f"), keys: &[b"key"], argv },
                host,
                out,
            )
        };
        let first = run(&mut Reply::new());
        first.and(run(&mut out))
    });
    if let Err(error) = ran {
        out.clear(0);
        out.error_bytes(&error.text);
    }
    out.to_vec()
}

/// Replies that lie in each other at most, and some more.
const LEVELS_MAX: usize = 8000;

/// The bytes of the reply at the front; None if it is not whole. Replies may lie thousands deep in each other.
fn reply_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    // Replies that are still to come, of each that is open.
    let mut open: Vec<i64> = vec![1];
    while let Some(left) = open.last_mut() {
        if *left == 0 {
            open.pop();
            continue;
        }
        *left -= 1;
        let (len, elements) = head(&bytes[at..])?;
        at += len;
        open.push(elements);
        if open.len() > LEVELS_MAX {
            return None;
        }
    }
    Some(at)
}

/// The bytes of a reply without those that lie in it, and the number of these; None if they are not whole.
fn head(bytes: &[u8]) -> Option<(usize, i64)> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (line, behind) = (&bytes[1..end], end + 2);
    if line.contains(&b'\n') {
        return None;
    }
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    let elements = match bytes[0] {
        b'+' | b'-' | b'#' | b',' | b'(' => 0,
        b'_' if line.is_empty() => 0,
        b':' => number().map(|_| 0)?,
        b'$' | b'=' => {
            let Ok(len) = usize::try_from(number()?) else { return Some((behind, 0)) };
            let whole = bytes.get(behind..behind + len + 2)?.ends_with(b"\r\n");
            return whole.then_some((behind + len + 2, 0));
        }
        b'*' | b'~' => number()?.max(0),
        b'%' => 2 * number()?,
        _ => return None,
    };
    Some((behind, elements))
}

/// The program that these bytes choose.
pub(crate) fn program(bytes: &[u8]) -> String {
    let mut writer = Writer { rest: bytes, text: String::new(), forms: 0, loops: 0 };
    writer
        .text
        .push_str("local a, b, c, d, e, f = 0, 'x', {1, 'y', 2.5}, ARGV[1], {k = 'v'}, function(...) return ... end\n");
    while !writer.rest.is_empty() && writer.forms < FORMS_MAX {
        // An error of a statement seldom ends the program.
        if writer.choose(5) == 4 {
            writer.statement(0);
            writer.text.push('\n');
        } else {
            writer.text.push_str("pcall(function() ");
            writer.statement(0);
            writer.text.push_str(" end)\n");
        }
    }
    writer.text.push_str("return ");
    writer.value(0);
    writer.text
}

const VARIABLES: &[&str] = &["a", "b", "c", "d", "e", "f", "KEYS", "ARGV", "_G", "cjson.null"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "16",
    "255",
    "256",
    "1000",
    "65536",
    "2147483647",
    "-2147483648",
    "4294967296",
    "1e15",
    "9007199254740993",
    "1e19",
    "-1e19",
    "1e308",
    "0/0",
    "1/0",
    "-1/0",
    "0.5",
    "-0.0",
    "1e-320",
    "8000",
    "7999",
    "0x10",
];
const TEXTS: &[&str] = &[
    "''",
    "'x'",
    "'10'",
    "'0x1p4'",
    "'a b c'",
    "'key'",
    "'\\0'",
    "'\\27Lua'",
    "'%d %s %q %5.1f %c %x %i'",
    "'(.-)%s(%w*)'",
    "'%b()[^%z]*%f[%w]'",
    "'^.*$'",
    "'%1'",
    "'%'",
    "'[1, {\"a\": null, \"b\": [true, 1e5, \"\\\\u00e9\"]}, -0.5]'",
    "'{\"'",
    "'>i4 s c0 !8 d'",
    "'bBhHlLxfi32'",
    "'\\147\\1\\162ab\\203'",
    "'\\221\\255\\255\\255'",
    "'set'",
    "'get'",
    "'ping'",
    "'string'",
    "'return 1'",
    "'return ...'",
    "'x = = 1'",
    "'__index'",
    "'collect'",
    "'stop'",
    "'#'",
    "'on'",
    "'r\\r\\n'",
    "string.rep('ab', 500)",
    "string.rep('[', 1200)",
    "string.rep('\\145', 1200)",
    "string.rep('x', 200000)",
];
/// Every function that scripts may call.
const FUNCTIONS: &[&str] = &[
    "assert",
    "collectgarbage",
    "error",
    "getmetatable",
    "ipairs",
    "load",
    "loadstring",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
    "coroutine.create",
    "coroutine.resume",
    "coroutine.running",
    "coroutine.status",
    "coroutine.wrap",
    "coroutine.yield",
    "string.byte",
    "string.char",
    "string.dump",
    "string.find",
    "string.format",
    "string.gfind",
    "string.gmatch",
    "string.gsub",
    "string.len",
    "string.lower",
    "string.match",
    "string.rep",
    "string.reverse",
    "string.sub",
    "string.upper",
    "table.concat",
    "table.foreach",
    "table.foreachi",
    "table.getn",
    "table.insert",
    "table.maxn",
    "table.remove",
    "table.setn",
    "table.sort",
    "math.abs",
    "math.ceil",
    "math.floor",
    "math.fmod",
    "math.frexp",
    "math.ldexp",
    "math.max",
    "math.modf",
    "math.pow",
    "math.random",
    "math.randomseed",
    "math.sqrt",
    "bit.arshift",
    "bit.band",
    "bit.bnot",
    "bit.bor",
    "bit.bswap",
    "bit.bxor",
    "bit.lshift",
    "bit.rol",
    "bit.ror",
    "bit.rshift",
    "bit.tobit",
    "bit.tohex",
    "cjson.decode",
    "cjson.decode_invalid_numbers",
    "cjson.decode_max_depth",
    "cjson.encode",
    "cjson.encode_invalid_numbers",
    "cjson.encode_keep_buffer",
    "cjson.encode_max_depth",
    "cjson.encode_number_precision",
    "cjson.encode_sparse_array",
    "cjson.new",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "cmsgpack.unpack_limit",
    "cmsgpack.unpack_one",
    "struct.pack",
    "struct.size",
    "struct.unpack",
    "redis.acl_check_cmd",
    "redis.breakpoint",
    "redis.call",
    "redis.debug",
    "redis.error_reply",
    "redis.log",
    "redis.pcall",
    "redis.replicate_commands",
    "redis.set_repl",
    "redis.setresp",
    "redis.sha1hex",
    "redis.status_reply",
    "redis.register_function",
    "f",
];
/// Those that do most of the work, which are chosen more often.
const USUAL: &[&str] = &[
    "redis.call",
    "redis.pcall",
    "cjson.encode",
    "cjson.decode",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "struct.unpack",
    "struct.pack",
    "string.gsub",
    "string.format",
    "string.find",
    "table.sort",
    "table.insert",
    "table.concat",
    "unpack",
    "pcall",
    "xpcall",
    "setmetatable",
    "loadstring",
    "coroutine.wrap",
    "tostring",
    "rawset",
];
const COMMANDS: &[&str] = &[
    "'get', 'key'",
    "'set', 'key', ",
    "'echo', ",
    "'ping'",
    "'debug', 'protocol', 'map'",
    "'debug', 'protocol', 'set'",
    "'debug', 'protocol', 'double'",
    "'debug', 'protocol', 'bignum'",
    "'debug', 'protocol', 'verbatim'",
    "'nosuch'",
];
const EVENTS: &[&str] = &[
    "__index",
    "__newindex",
    "__call",
    "__gc",
    "__mode",
    "__eq",
    "__lt",
    "__le",
    "__add",
    "__unm",
    "__concat",
    "__len",
    "__tostring",
    "__metatable",
];
const REPLIES: &[&str] = &["ok", "err", "double", "map", "set", "big_number", "verbatim_string"];
const OPERATORS: &[&str] = &["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or"];

/// Writes a program; where its bytes are used up it takes the first of all choices, which ends soon.
struct Writer<'b> {
    rest: &'b [u8],
    text: String,
    /// Statements and expressions so far.
    forms: usize,
    /// Loops around the statement that is being written.
    loops: usize,
}

impl Writer<'_> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *byte
    }

    fn choose(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    fn word(&mut self, of: &[&str]) {
        let word = of[self.choose(of.len())];
        self.text.push_str(word);
    }

    fn deeper(&mut self, depth: usize) -> bool {
        self.forms += 1;
        depth < DEPTH_MAX && self.forms < FORMS_MAX
    }

    fn block(&mut self, depth: usize) {
        for _ in 0..=self.choose(3) {
            self.text.push(' ');
            self.statement(depth + 1);
            self.text.push(' ');
        }
    }

    fn looped(&mut self, depth: usize) {
        self.loops += 1;
        self.block(depth);
        self.loops -= 1;
    }

    fn statement(&mut self, depth: usize) {
        if !self.deeper(depth) {
            return self.text.push_str("do end");
        }
        match self.choose(17) {
            0 | 1 => {
                self.word(&VARIABLES[..6]);
                self.text.push_str(" = ");
                self.value(depth);
            }
            2 => {
                self.word(VARIABLES);
                self.text.push('[');
                self.value(depth);
                self.text.push_str("] = ");
                self.value(depth);
            }
            3 | 4 => {
                self.text.push_str("local _ = ");
                self.call(depth);
            }
            5 | 6 => {
                self.text.push_str("a = redis.");
                self.word(&["call(", "pcall("]);
                self.command(depth);
            }
            form @ 7..=11 => self.compound(form, depth),
            12 => {
                self.text.push_str("setmetatable(");
                self.word(&["c", "e", "_G", "string", "getmetatable('')"]);
                self.text.push_str(", {");
                self.word(EVENTS);
                self.text.push_str(" = ");
                self.value(depth);
                self.text.push_str("})");
            }
            13 => {
                self.word(&VARIABLES[..6]);
                self.text.push_str(" = ");
                self.function(depth);
            }
            14 => {
                self.text.push_str("error(");
                self.value(depth);
                self.text.push(')');
            }
            15 if self.loops > 0 => self.text.push_str("do break end"),
            _ => {
                self.text.push_str("do return ");
                self.value(depth);
                self.text.push_str(" end");
            }
        }
    }

    /// A branch or a loop.
    fn compound(&mut self, form: usize, depth: usize) {
        match form {
            7 => {
                self.text.push_str("if ");
                self.value(depth);
                self.text.push_str(" then ");
                self.block(depth);
                self.text.push_str("else ");
                self.block(depth);
                self.text.push_str("end");
            }
            8 => {
                self.text.push_str("for i = 1, ");
                self.word(&["3", "10", "200", "1e9"]);
                self.text.push_str(" do a = i ");
                self.looped(depth);
                self.text.push_str("end");
            }
            9 => {
                self.text.push_str("for k, v in ");
                self.word(&["pairs", "ipairs", "next, ", "string.gmatch"]);
                self.text.push('(');
                self.value(depth);
                self.text.push_str(") do b, c = k, v ");
                self.looped(depth);
                self.text.push_str("end");
            }
            10 => {
                self.text.push_str("while ");
                self.value(depth);
                self.text.push_str(" do ");
                self.looped(depth);
                self.text.push_str("end");
            }
            _ => {
                self.text.push_str("repeat ");
                self.looped(depth);
                self.text.push_str("until ");
                self.value(depth);
            }
        }
    }

    fn function(&mut self, depth: usize) {
        self.text.push_str("function(...) ");
        let loops = std::mem::take(&mut self.loops);
        self.block(depth);
        self.loops = loops;
        self.text.push_str(" return ");
        self.value(depth + 1);
        self.text.push_str(" end");
    }

    fn command(&mut self, depth: usize) {
        let command = COMMANDS[self.choose(COMMANDS.len())];
        self.text.push_str(command);
        if command.ends_with(' ') {
            self.value(depth);
        }
        self.text.push(')');
    }

    fn call(&mut self, depth: usize) {
        let names = if self.choose(2) == 0 { USUAL } else { FUNCTIONS };
        self.word(names);
        self.text.push('(');
        for at in 0..self.choose(5) {
            self.text.push_str(if at > 0 { ", " } else { "" });
            self.value(depth + 1);
        }
        self.text.push(')');
    }

    fn value(&mut self, depth: usize) {
        if !self.deeper(depth) {
            return self.word(&VARIABLES[..6]);
        }
        match self.choose(18) {
            0..=2 => self.word(VARIABLES),
            3 => self.word(NUMBERS),
            4 => self.word(TEXTS),
            5 => self.literal(),
            6 => self.word(&["nil", "true", "false"]),
            7 | 8 => {
                self.text.push('(');
                self.value(depth + 1);
                self.text.push_str(") ");
                self.word(OPERATORS);
                self.text.push_str(" (");
                self.value(depth + 1);
                self.text.push(')');
            }
            9 => {
                self.word(&["#", "-", "not "]);
                self.text.push('(');
                self.value(depth + 1);
                self.text.push(')');
            }
            10..=12 => self.call(depth),
            13 => {
                self.text.push('{');
                for _ in 0..self.choose(4) {
                    self.value(depth + 1);
                    self.text.push_str(", ");
                }
                self.text.push('}');
            }
            14 => {
                self.text.push('{');
                self.word(REPLIES);
                self.text.push_str(" = ");
                self.value(depth + 1);
                self.text.push('}');
            }
            15 => {
                self.text.push_str("{[");
                self.value(depth + 1);
                self.text.push_str("] = ");
                self.value(depth + 1);
                self.text.push('}');
            }
            16 => self.function(depth + 1),
            _ => {
                self.text.push('(');
                self.value(depth + 1);
                self.text.push_str(")[");
                self.value(depth + 1);
                self.text.push(']');
            }
        }
    }

    /// A string of bytes of the input.
    fn literal(&mut self) {
        let count = self.choose(24);
        self.text.push('\'');
        for _ in 0..count {
            let byte = self.byte();
            let _ = write!(self.text, "\\{byte:03}");
        }
        self.text.push('\'');
    }
}
