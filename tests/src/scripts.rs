//! Scripts as the generator draws them: some statements that run commands and compute with their replies, and a value of any
//! kind that comes back.
//!
//! ```text
//!   local r1 = redis.pcall('get', 'key:3')
//!   local r2 = (r1 or 7) .. tostring(1.5)              statements: a call, a value, a branch, a loop
//!   return {r1, #r2, {ok = 'fine'}}                    the reply
//! ```
//! Whatever a script does wrong is an error with a text, its line and its variables' names in it, which is compared to the
//! letter. Left out is what another table or another clock answers otherwise: the order of a table's keys, times, commands whose
//! replies have no order. No call is the last thing of a function: of such a call Lua forgets the line, and here some functions
//! of its library are its own code (`return string.find(1)` names no line in its error).

use std::fmt::Write;

use crate::compare::{self, Rule};
use crate::generate::{Generator, words};
use crate::spell::{self, Arg};

/// Words that a script has as literals.
const TEXTS: &[&str] =
    &["''", "'a'", "'10'", "'1e3'", "'0x10'", "' 7 '", "'key:1'", "'a b c'", "'\\0z'", "'%d'", "'nan'", "'x \\r\\n'"];
const NUMBERS: &[&str] =
    &["0", "1", "-1", "3", "10", "100", "2.5", "-0.75", "1e15", "9007199254740993", "0.1", "1e100", "4294967296"];
/// Formats of verbatim strings. None has a line end: redis-server lets it into the protocol.
const FORMATS: &[&str] = &["'txt'", "'mkd'", "''", "'a'", "'a b c'", "'\\0z'", "1", "nil", "{}"];
/// Commands that scripts do not run here: what they show is another server's, or they see the whole keyspace.
const LEFT_OUT: &[&str] = &[
    "auth",
    "client",
    "command",
    "config",
    "dbsize",
    "debug",
    "echo",
    "flushall",
    "flushdb",
    "hello",
    "info",
    "keys",
    "lolwut",
    "memory",
    "object",
    "pfdebug",
    "pfselftest",
    "ping",
    "quit",
    "randomkey",
    "reset",
    "scan",
    "select",
    "shutdown",
    "slowlog",
    "swapdb",
    "time",
    "sort",
    "sort_ro",
    "touch",
    "wait",
];
/// A script that both servers know by its name, once it was loaded.
const KNOWN: &str = "return redis.call('get',KEYS[1])";
const KNOWN_SHA: &str = "fd758d1589d044dd850a6f05d52f2eefd27f033f";
/// Commands of one script at most.
const CALLS_MAX: usize = 6;

impl Generator {
    /// EVAL and its kin.
    pub(crate) fn script(&mut self) -> Vec<Arg> {
        match self.random.below(40) {
            0 => return vec![b"script".to_vec(), b"load".to_vec(), KNOWN.into()],
            1 => return words(&format!("script exists {KNOWN_SHA} {}", "0".repeat(40))),
            2 => return words("script foo"),
            3 | 4 => {
                let name = self.word(&["evalsha", "evalsha_ro"]);
                let sha = if self.random.one_in(3) { KNOWN_SHA.to_ascii_uppercase() } else { KNOWN_SHA.to_owned() };
                return vec![name, sha.into_bytes(), b"1".to_vec(), spell::key(&mut self.random)];
            }
            5 => return words("evalsha 0123 0"),
            _ => {}
        }
        let name = self.word(&["eval", "eval", "eval", "eval", "eval_ro"]);
        let mut draft = Draft::default();
        draft.write(self);
        let count = draft.keys.len().to_string().into_bytes();
        [vec![name, draft.text.into_bytes(), count], draft.keys, draft.argv].concat()
    }
}

/// A script that is being written.
#[derive(Default)]
struct Draft {
    text: String,
    /// Variables `r1` to this one are there.
    vars: usize,
    calls: usize,
    keys: Vec<Arg>,
    argv: Vec<Arg>,
}

impl Draft {
    fn write(&mut self, from: &mut Generator) {
        if from.random.one_in(12) {
            let flags = from.random.pick(&[
                "",
                " flags=no-writes",
                " flags=allow-oom",
                " flags=no-writes,allow-oom",
                " flags=x",
            ]);
            let _ = writeln!(self.text, "#!lua{flags}");
        }
        for _ in 0..from.random.below(6) {
            self.statement(from, 0);
        }
        let value = self.reply(from);
        let _ = write!(self.text, "return ({value})");
    }

    fn statement(&mut self, from: &mut Generator, depth: usize) {
        match from.random.below(12) {
            0..=5 if self.calls < CALLS_MAX => self.call(from),
            0..=7 => {
                let value = self.value(from, 0);
                self.declare(&value);
            }
            8 if depth < 2 => {
                let condition = self.condition(from);
                let _ = writeln!(self.text, "if {condition} then");
                let vars = self.vars;
                self.statement(from, depth + 1);
                // Variables of a block are not seen behind it.
                self.vars = vars;
                self.text.push_str("end\n");
            }
            9 if depth < 2 => {
                let _ = writeln!(self.text, "for i = 1, {} do", 1 + from.random.below(3));
                let vars = self.vars;
                self.statement(from, depth + 1);
                self.vars = vars;
                self.text.push_str("end\n");
            }
            10 => {
                let value = self.value(from, 0);
                self.declare(&format!("{{pcall(function() return ({value}) end)}}"));
            }
            _ => {
                let lines = &["redis.setresp(2)\n", "redis.set_repl(redis.REPL_ALL)\n", "\n"];
                self.text.push_str(from.random.pick::<&str>(lines));
            }
        }
    }

    fn declare(&mut self, value: &str) {
        let _ = writeln!(self.text, "local r{} = {value}", self.vars + 1);
        self.vars += 1;
    }

    fn call(&mut self, from: &mut Generator) {
        let args = command(from);
        let by = if from.random.one_in(4) { "call" } else { "pcall" };
        let words: Vec<String> = args.into_iter().enumerate().map(|(at, arg)| self.word(from, at, arg)).collect();
        self.calls += 1;
        self.declare(&format!("redis.{by}({})", words.join(", ")));
    }

    /// A word of a command: as it is, or one of the request's.
    fn word(&mut self, from: &mut Generator, at: usize, arg: Arg) -> String {
        if at > 0 && from.random.one_in(3) {
            let (list, name) = if at == 1 { (&mut self.keys, "KEYS") } else { (&mut self.argv, "ARGV") };
            list.push(arg);
            return format!("{name}[{}]", list.len());
        }
        quoted(&arg)
    }

    fn condition(&mut self, from: &mut Generator) -> String {
        let (a, b) = (self.value(from, 2), self.value(from, 2));
        let op = from.random.pick(&["==", "~=", "and", "or"]);
        if from.random.one_in(4) { format!("not {a}") } else { format!("({a}) {op} ({b})") }
    }

    fn variable(&self, from: &mut Generator) -> String {
        if self.vars == 0 { "nil".to_owned() } else { format!("r{}", 1 + from.random.below(self.vars)) }
    }

    /// An expression.
    fn value(&mut self, from: &mut Generator, depth: usize) -> String {
        if depth >= 3 || from.random.one_in(3) {
            return match from.random.below(8) {
                0..=3 => self.variable(from),
                4 | 5 => (*from.random.pick(NUMBERS)).to_owned(),
                6 => (*from.random.pick(TEXTS)).to_owned(),
                _ => (*from.random.pick(&["true", "false", "nil", "KEYS[1]", "ARGV[1]", "#KEYS", "#ARGV", "foo"]))
                    .to_owned(),
            };
        }
        let (a, b) = (self.value(from, depth + 1), self.value(from, depth + 1));
        match from.random.below(26) {
            0 => format!("({a}) .. ({b})"),
            1 | 2 => format!("({a}) {} ({b})", from.random.pick(&["+", "-", "*"])),
            3 => format!("({a}) {} ({b})", from.random.pick(&["<", "<=", "==", "and", "or"])),
            4 => format!("{{{a}, {b}}}"),
            5 => format!("#({a})"),
            6 => format!("type({a})"),
            7 => format!("type({a}) == 'table' and #({a})"),
            8 => format!("tonumber({a})"),
            9 => format!("tostring(tonumber({a}))"),
            10 => format!("string.format('%s|%5.2f', tostring(type({a})), tonumber({b}) or 0)"),
            11 => format!("string.sub({a}, {}, {})", from.random.below(4), from.random.below(6)),
            12 => format!("string.{}({a})", from.random.pick(&["upper", "lower", "reverse", "len", "byte"])),
            13 => format!("string.rep({a}, {})", from.random.below(4)),
            14 => format!("string.find({a}, {b})"),
            // Of few letters: a state of ours has a limit of memory, and the peer's has none.
            15 => format!("(string.gsub(string.sub({a}, 1, 5), '%w', {b}))"),
            16 => format!("math.{}({a})", from.random.pick(&["floor", "abs", "ceil"])),
            17 => format!("select('#', {a}, {b})"),
            18 => format!("table.concat({{{a}, {b}}}, ',')"),
            19 => format!("cjson.encode({{{a}, {b}}})"),
            20 => format!("cjson.decode('[1, \"x\", null, 2.5, [], true]')[{}]", 1 + from.random.below(6)),
            21 => format!("cmsgpack.unpack(cmsgpack.pack({a}))"),
            22 => format!("bit.{}({a}, {b})", from.random.pick(&["band", "bor", "bxor", "lshift", "rshift"])),
            23 => format!("redis.sha1hex({a})"),
            24 => format!("unpack({{{a}, {b}}})"),
            _ => format!("struct.unpack('>I2', struct.pack('>I2', {}))", from.random.below(70_000)),
        }
    }

    /// The value that the script returns.
    fn reply(&mut self, from: &mut Generator) -> String {
        let value = self.value(from, 0);
        match from.random.below(14) {
            0 => format!("{{ok = {value}}}"),
            1 => format!("{{err = {value}}}"),
            2 => format!("redis.error_reply({value})"),
            3 => format!("redis.status_reply({value})"),
            4 => format!("{{{}, {}, {value}}}", self.value(from, 1), self.value(from, 1)),
            5 => format!("{{double = {value}}}"),
            6 => self.variable(from),
            7 => format!("{{big_number = {value}}}"),
            8 => format!("{{verbatim_string = {{format = {}, string = {value}}}}}", from.random.pick(FORMATS)),
            // One element alone: several have no order that both servers would keep.
            9 => format!("{{map = {{[{}] = {value}}}}}", self.value(from, 1)),
            10 => format!("{{set = {{[{value}] = true}}}}"),
            _ => value,
        }
    }
}

/// A command of the generator's whose reply is compared to the letter, and which a script may run at any time.
fn command(from: &mut Generator) -> Vec<Arg> {
    loop {
        let args = from.command_of_a_family();
        let name = String::from_utf8_lossy(&args[0]).to_ascii_lowercase();
        let is_timed = args.iter().skip(2).any(|arg| {
            let word = arg.to_ascii_lowercase();
            word.starts_with(b"ex") || word.starts_with(b"px")
        });
        let short = args.len() < 12 && args.iter().all(|arg| arg.len() < 100);
        let known = !LEFT_OUT.contains(&&*name)
            && !name.contains("expire")
            && !name.contains("script")
            && !name.contains("eval");
        if short && known && !is_timed && compare::rule(&args) == Rule::Exact && name.is_ascii() {
            return args;
        }
    }
}

/// A string of Lua with these bytes.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("'");
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b':' | b'-' | b'_' | b'.' | b'*') {
            text.push(byte as char);
        } else {
            let _ = write!(text, "\\{byte:03}");
        }
    }
    text.push('\'');
    text
}
