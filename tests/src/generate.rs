//! Random commands over the groups string, bitmap, hyperloglog, list, hash, set, sorted_set, generic, connection and server, their options, and their wrong forms.
//!
//! The generator keeps no model of the keyspace: few keys, so commands meet by themselves. It keeps replies comparable: no
//! commands that only one side has (Varve's from after 7.0), nothing that ends or blocks the server, and a key that was set
//! with a time in the past is looked at at once, so that no count depends on when it is removed.

use crate::collections::Types;
use crate::spell::{self, Arg};
use varve_testkit::Random;

/// How a step is sent and what comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// one request, one reply
    Call,
    /// one request, one reply, which is awaited before anything else is sent
    Apart,
    /// one request in the inline form, one reply
    Inline,
    /// one request that must not be answered
    Muted,
    /// SCAN, HSCAN, SSCAN or ZSCAN from 0 until 0 with these options; what is gathered is compared as a multiset without
    /// repetitions
    Scan,
    /// QUIT: a reply, the end of the connection, and a new one
    Quit,
}

/// One step of the sequence.
#[derive(Debug, Clone)]
pub struct Step {
    /// name and arguments
    pub args: Vec<Arg>,
    /// how it is sent
    pub kind: Kind,
}

/// The generator of a sequence.
pub struct Generator {
    pub(crate) random: Random,
    pub(crate) resp: u8,
    pub(crate) types: Types,
    pub(crate) queue: Vec<Step>,
}

type Family = fn(&mut Generator) -> Vec<Arg>;

/// Weights and families. The weights are out of their sum.
const FAMILIES: &[(usize, Family)] = &[
    (700, Generator::collection),
    (90, Generator::set),
    (60, Generator::get),
    (60, Generator::string_write),
    (60, Generator::number_write),
    (40, Generator::bits),
    (20, Generator::sketches),
    (30, Generator::range),
    (30, Generator::many),
    (10, Generator::lcs),
    (10, Generator::big),
    (60, Generator::expiry),
    (50, Generator::look),
    (50, Generator::whole_key),
    (25, Generator::object),
    (12, Generator::whole_keyspace),
    (10, Generator::connection),
    (10, Generator::client),
    (10, Generator::config),
    (10, Generator::server),
    (8, Generator::debug),
    (6, Generator::command),
    (8, Generator::unknown),
    (30, Generator::script),
];

/// Words that take an argument's place or are added behind the last. The number is a time that does not run out, in any unit.
const EXTRA: &[&str] = &["", "nx", "XX", "get", "EX", "100000000", "foo", "*", "0", "-1"];

/// Commands whose last argument is a timeout.
const WAITING: &[&str] = &["blpop", "blmove", "bzpopmin"];

pub(crate) fn words(line: &str) -> Vec<Arg> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

impl Generator {
    /// A generator for connections that speak RESP2 or RESP3.
    #[must_use]
    pub fn new(seed: u64, resp: u8, types: Types) -> Generator {
        Generator { random: Random::new(seed), resp, types, queue: Vec::new() }
    }

    /// The next step.
    pub fn next_step(&mut self) -> Step {
        if self.queue.is_empty() {
            self.fill();
            self.queue.reverse();
        }
        self.queue.pop().unwrap_or_else(|| Step { args: words("ping"), kind: Kind::Call })
    }

    pub(crate) fn push(&mut self, args: Vec<Arg>, kind: Kind) {
        self.queue.push(Step { args, kind });
    }

    fn fill(&mut self) {
        if self.types.alone() {
            let args = self.collection();
            return self.push(args, Kind::Call);
        }
        if self.types.are_scripts() && !self.random.one_in(10) {
            let args = self.script();
            return self.push(args, Kind::Call);
        }
        match self.random.below(2000) {
            0 => return self.push(words("quit"), Kind::Quit),
            1..=6 => return self.scan(),
            7..=9 => return self.muted(),
            10 | 11 => return self.change_protocol(),
            12 => {
                self.push(words("reset"), Kind::Call);
                let hello = format!("hello {}", self.resp);
                return self.push(words(&hello), Kind::Call);
            }
            13..=22 => return self.burst(),
            23..=32 => {
                let step = self.scan_within();
                return self.queue.push(step);
            }
            _ => {}
        }
        let mut args = self.command_of_a_family();
        if self.random.one_in(60) {
            self.spoil(&mut args);
        }
        self.change_case(&mut args);
        let past = sets_a_past_time(&args);
        let key = args.get(1).cloned();
        let short = args.iter().map(Vec::len).sum::<usize>() < 2000;
        let inline = short && self.random.one_in(50);
        self.push(args, if inline { Kind::Inline } else { Kind::Call });
        if let (true, Some(key)) = (past, key) {
            self.push(vec![b"ttl".to_vec(), key], Kind::Call);
        }
    }

    pub(crate) fn command_of_a_family(&mut self) -> Vec<Arg> {
        let total: usize = FAMILIES.iter().map(|(weight, _)| weight).sum();
        let mut at = self.random.below(total);
        for (weight, family) in FAMILIES {
            if at < *weight {
                return family(self);
            }
            at -= weight;
        }
        words("ping")
    }

    /// Makes the number of arguments, or one of them, wrong.
    fn spoil(&mut self, args: &mut Vec<Arg>) {
        let is = |names: &[&str]| names.iter().any(|name| args[0].eq_ignore_ascii_case(name.as_bytes()));
        // SPOP without a count takes what chance will have, a timeout that is made another may be one without end, and
        // ranges by member mean something only where all scores are 0.
        let (needs_all, whole) = (is(&["spop"]), is(WAITING) || args.get(1).is_some_and(|key| key.starts_with(b"q")));
        // SORT by numbers: see `collection`.
        if is(&["sort", "sort_ro"]) {
            return args.push(self.random.pick(EXTRA).as_bytes().to_vec());
        }
        match self.random.below(3) {
            _ if whole => args.truncate(1 + self.random.below(args.len())),
            0 if needs_all => args.truncate(1),
            0 => args.truncate(1 + self.random.below(args.len())),
            1 => args.push(self.random.pick(EXTRA).as_bytes().to_vec()),
            _ => {
                let at = self.random.below(args.len());
                if at > 0 {
                    args[at] = self.random.pick(EXTRA).as_bytes().to_vec();
                }
            }
        }
        // A fourth argument of these is an option from after 7.0.
        if ["zrank", "zrevrank"].iter().any(|name| args[0].eq_ignore_ascii_case(name.as_bytes())) {
            args.truncate(3);
        }
        // An ID that is the time of now is another one at each server.
        if args[0].eq_ignore_ascii_case(b"xadd") {
            args.iter_mut().filter(|arg| *arg == b"*").for_each(|arg| *arg = b"5-*".to_vec());
        }
        // These must not reach a server even by accident; a bare COMMAND lists everything that a server has.
        if ["debug", "config", "command", "shutdown"].iter().any(|name| args[0].eq_ignore_ascii_case(name.as_bytes())) {
            *args = words("config get");
        }
    }

    fn change_case(&mut self, args: &mut [Arg]) {
        if self.random.one_in(4) {
            args[0].make_ascii_uppercase();
        } else if self.random.one_in(8) {
            for byte in &mut args[0] {
                if self.random.one_in(2) {
                    byte.make_ascii_uppercase();
                }
            }
        }
    }

    // One step families of their own.

    fn scan(&mut self) {
        let mut args = words("scan 0");
        for _ in 0..self.random.below(4) {
            match self.random.below(3) {
                0 => args.extend([self.word(&["match", "MATCH"]), spell::pattern(&mut self.random)]),
                1 => {
                    let count =
                        self.word(&["1", "2", "10", "57", "100", "100000", "9223372036854775807", "0", "-1", "x"]);
                    args.extend([self.word(&["count", "COUNT"]), count]);
                }
                _ => {
                    let ty = self.word(&["string", "String", "STRING", "string", "list", "hash", "foo", ""]);
                    args.extend([self.word(&["type", "TYPE"]), ty]);
                }
            }
        }
        self.push(args, Kind::Scan);
    }

    fn muted(&mut self) {
        if self.random.one_in(2) {
            self.push(words("client reply skip"), Kind::Muted);
            let args = vec![b"set".to_vec(), self.key(), self.value()];
            return self.push(args, Kind::Muted);
        }
        self.push(words("client reply off"), Kind::Muted);
        for _ in 0..self.random.below(5) {
            let key = spell::key(&mut self.random);
            self.push(vec![b"incr".to_vec(), key], Kind::Muted);
        }
        self.push(words("client reply on"), Kind::Call);
    }

    fn change_protocol(&mut self) {
        let name = self.random.pick(&["", " setname me", " auth default x", " auth a b", " setname", " foo"]);
        let other = if self.random.one_in(2) { 2 } else { 3 };
        self.push(words(&format!("hello {other}{name}")), Kind::Call);
        for _ in 0..self.random.below(10) {
            let args = self.command_of_a_family();
            if !sets_a_past_time(&args) {
                self.push(args, Kind::Call);
            }
        }
        self.push(words(&format!("hello {}", self.resp)), Kind::Call);
    }

    // The families: one command each.

    fn key(&mut self) -> Arg {
        spell::key(&mut self.random)
    }

    fn value(&mut self) -> Arg {
        spell::value(&mut self.random)
    }

    pub(crate) fn word(&mut self, from: &[&str]) -> Arg {
        self.random.pick(from).as_bytes().to_vec()
    }

    /// One of several whole commands, written with spaces.
    fn line(&mut self, from: &[&str]) -> Vec<Arg> {
        words(self.random.pick::<&str>(from))
    }

    fn time_option(&mut self, args: &mut Vec<Arg>) {
        let r = &mut self.random;
        let (word, time) = match r.below(4) {
            0 => ("ex", spell::relative(r, 1)),
            1 => ("PX", spell::relative(r, 1000)),
            2 => ("ExAt", spell::absolute(r, 1, true)),
            _ => ("pxat", spell::absolute(r, 1000, true)),
        };
        args.extend([word.as_bytes().to_vec(), time]);
    }

    fn set(&mut self) -> Vec<Arg> {
        let mut args = vec![b"set".to_vec(), self.key(), self.value()];
        if self.random.one_in(2) {
            return args;
        }
        for _ in 0..=self.random.below(4) {
            match self.random.below(8) {
                0 => args.push(self.word(&["nx", "Nx", "NX"])),
                1 => args.push(self.word(&["xx", "XX"])),
                2 | 3 => args.push(self.word(&["get", "GET"])),
                4 => args.push(self.word(&["keepttl", "KEEPTTL"])),
                5 if self.random.one_in(8) => args.push(self.word(&["persist", "ex", "PX", "exat", "foo", "100"])),
                _ => self.time_option(&mut args),
            }
        }
        args
    }

    fn get(&mut self) -> Vec<Arg> {
        let name = self.word(&["get", "get", "get", "strlen", "getdel", "getex", "exists", "getset"]);
        let mut args = vec![name.clone(), self.key()];
        match name.as_slice() {
            b"getset" => args.push(self.value()),
            b"getex" => {
                for _ in 0..self.random.below(3) {
                    if self.random.one_in(3) {
                        args.push(self.word(&["persist", "PERSIST", "persist", "keepttl", "ex", "get"]));
                    } else {
                        self.time_option(&mut args);
                    }
                }
            }
            _ => {}
        }
        args
    }

    fn string_write(&mut self) -> Vec<Arg> {
        let key = self.key();
        match self.random.below(5) {
            0 => vec![b"append".to_vec(), key, self.value()],
            1 => vec![b"setnx".to_vec(), key, self.value()],
            2 => vec![b"setex".to_vec(), key, spell::relative(&mut self.random, 1), self.value()],
            3 => vec![b"psetex".to_vec(), key, spell::relative(&mut self.random, 1000), self.value()],
            _ => {
                let offset = match self.random.below(10) {
                    0 => self.word(&["-1", "536870912", "536870911", "9223372036854775807", "x"]),
                    _ => self.random.below(120).to_string().into_bytes(),
                };
                // Offsets near the limit with a value of more than their distance to it: an error, never 512 MB.
                let value = if offset.len() > 4 { b"0123456789".to_vec() } else { self.value() };
                vec![b"setrange".to_vec(), key, offset, value]
            }
        }
    }

    fn number_write(&mut self) -> Vec<Arg> {
        let key = self.key();
        match self.random.below(8) {
            0..=2 => vec![self.word(&["incr", "decr"]), key],
            3 | 4 => vec![self.word(&["incrby", "decrby"]), key, spell::small(&mut self.random)],
            5 => vec![self.word(&["incrby", "decrby"]), key, spell::number(&mut self.random)],
            _ => vec![b"incrbyfloat".to_vec(), key, spell::float(&mut self.random)],
        }
    }

    fn range(&mut self) -> Vec<Arg> {
        let name = self.word(&["getrange", "substr"]);
        vec![name, self.key(), spell::small(&mut self.random), spell::small(&mut self.random)]
    }

    fn many(&mut self) -> Vec<Arg> {
        let name = self.word(&["mget", "mget", "mset", "msetnx", "del", "unlink", "exists", "touch"]);
        let pairs = name.starts_with(b"mset");
        let mut args = vec![name];
        for _ in 0..=self.random.below(8) {
            args.push(self.key());
            if pairs {
                args.push(self.value());
            }
        }
        args
    }

    fn lcs(&mut self) -> Vec<Arg> {
        let mut args = vec![b"lcs".to_vec(), self.key(), self.key()];
        for _ in 0..self.random.below(5) {
            match self.random.below(5) {
                0 => args.push(self.word(&["len", "LEN"])),
                1 | 2 => args.push(self.word(&["idx", "IDX"])),
                3 => args.push(self.word(&["withmatchlen", "WITHMATCHLEN"])),
                _ => args.extend([self.word(&["minmatchlen", "MinMatchLen"]), spell::small(&mut self.random)]),
            }
        }
        args
    }

    fn big(&mut self) -> Vec<Arg> {
        let r = &mut self.random;
        let key = spell::big_key(r);
        match r.below(8) {
            0 | 1 => vec![b"set".to_vec(), key, spell::big_value(r)],
            2 => vec![b"append".to_vec(), key, spell::big_value(r)],
            3 => {
                let limit = if r.one_in(20) { 5_000_000 } else { 500_000 };
                vec![b"setrange".to_vec(), key, r.below(limit).to_string().into_bytes(), spell::bytes(r, 100)]
            }
            4 => vec![b"get".to_vec(), key],
            5 => vec![b"getrange".to_vec(), key, spell::number(r), spell::number(r)],
            6 => vec![r.pick(&["rename", "copy", "renamenx"]).as_bytes().to_vec(), key, spell::big_key(r)],
            _ => vec![r.pick(&["strlen", "del", "unlink", "getdel"]).as_bytes().to_vec(), key],
        }
    }

    fn expiry(&mut self) -> Vec<Arg> {
        let name = self.word(&["expire", "pexpire", "expireat", "pexpireat"]);
        let unit = if name[0] == b'p' { 1000 } else { 1 };
        let r = &mut self.random;
        let time = if name.ends_with(b"at") { spell::absolute(r, unit, true) } else { spell::relative(r, unit) };
        let mut args = vec![name, self.key(), time];
        if self.random.one_in(3) {
            args.push(self.word(&["nx", "XX", "gt", "LT", "foo"]));
        }
        if self.random.one_in(8) {
            args.push(self.word(&["nx", "xx", "gt", "lt"]));
        }
        args
    }

    fn look(&mut self) -> Vec<Arg> {
        let name = self.word(&["ttl", "pttl", "expiretime", "pexpiretime", "persist", "type", "exists"]);
        vec![name, self.key()]
    }

    fn whole_key(&mut self) -> Vec<Arg> {
        let key = self.key();
        match self.random.below(8) {
            0 | 1 => vec![self.word(&["del", "unlink", "touch"]), key],
            2 => vec![b"rename".to_vec(), key, self.key()],
            3 => vec![b"renamenx".to_vec(), key, self.key()],
            4 => vec![b"move".to_vec(), key, spell::database(&mut self.random)],
            5 => vec![b"select".to_vec(), spell::database(&mut self.random)],
            _ => {
                let mut args = vec![b"copy".to_vec(), key, self.key()];
                for _ in 0..self.random.below(4) {
                    match self.random.below(8) {
                        0..=3 => args.extend([self.word(&["db", "DB"]), spell::database(&mut self.random)]),
                        4..=6 => args.push(self.word(&["replace", "REPLACE"])),
                        _ => args.push(self.word(&["foo", "db", "nx"])),
                    }
                }
                args
            }
        }
    }

    fn object(&mut self) -> Vec<Arg> {
        let mut args = words("object");
        args.push(self.word(&["encoding", "ENCODING", "refcount", "idletime", "freq", "help", "foo"]));
        if args[1] != b"help" {
            args.push(self.key());
        }
        args
    }

    fn whole_keyspace(&mut self) -> Vec<Arg> {
        match self.random.below(24) {
            0 => self.line(&["flushdb", "flushdb async", "FLUSHDB SYNC", "flushdb foo"]),
            1 if self.random.one_in(3) => self.line(&["flushall", "flushall sync", "flushall async"]),
            2..=4 => {
                vec![b"swapdb".to_vec(), spell::database(&mut self.random), spell::database(&mut self.random)]
            }
            5..=10 => vec![b"keys".to_vec(), spell::pattern(&mut self.random)],
            11..=14 => words("randomkey"),
            15 => self.line(&["scan x", "scan -1", "scan 0 count 0", "scan 0 count x", "scan 0 foo", "scan 0 match"]),
            _ => words("dbsize"),
        }
    }

    fn connection(&mut self) -> Vec<Arg> {
        match self.random.below(6) {
            0 => vec![b"ping".to_vec(), self.value()],
            1 => words("ping"),
            2 => vec![b"echo".to_vec(), self.value()],
            3 => self.line(&[
                "auth x",
                "auth default x",
                "auth nobody x",
                "auth a b c",
                "hello x",
                "hello 1",
                "hello 4",
                "hello",
            ]),
            4 => self.line(&[
                "select 0",
                "hello 2 setname a b",
                "hello 2 setname a auth x",
                "hello 3 auth default",
                "hello 4 auth a b",
                "auth default",
                "auth",
                "lolwut version 5 3 x",
                "lolwut version 6 3 3 x",
                "lolwut version 7 x",
                "lolwut x",
            ]),
            _ => self.line(&["time", "lolwut", "lolwut version 5", "lolwut version x"]),
        }
    }

    fn client(&mut self) -> Vec<Arg> {
        self.line(&[
            "client id",
            "client getname",
            "client setname a",
            "client setname b:c",
            "client info",
            "client list",
            "client list type normal",
            "client list type foo",
            "client list id 1 2 3",
            "client list id x",
            "client list id",
            "client no-evict on",
            "client no-evict off",
            "client no-evict x",
            "client reply x",
            "client kill id 0",
            "client kill id x",
            "client kill foo",
            "client kill 127.0.0.1:1",
            "client kill type foo",
            "client kill skipme x",
            "client kill user nobody",
            "client help",
            "client foo",
            "client kill id 999999999 type normal",
            "client kill type pubsub skipme no",
            "client kill laddr 1.2.3.4:5 user default",
            "client kill addr 1.2.3.4:5 addr",
            "client list id 0",
            "client list type pubsub",
            "client list type replica",
            "client setname \n",
            "client no-evict",
            "client kill id 999999999",
            "client kill addr 1.2.3.4:5",
            "client setname",
            "client getname x",
            "client",
        ])
    }

    fn config(&mut self) -> Vec<Arg> {
        self.line(&[
            "config get maxmemory",
            "config get databases",
            "config get maxmemory-policy",
            "config get hash-max-*-entries",
            "config get nothing-like-it",
            "config get maxmemory-samples lfu-log-factor",
            "config get",
            "config set maxmemory-samples 7",
            "config set maxmemory-samples 5",
            "config set maxmemory-samples 0",
            "config set maxmemory-samples x",
            "config set nothing 1",
            "config set maxmemory-samples",
            "config set databases 3",
            "config set slowlog-max-len 100",
            "config get slowlog-max-len",
            "config set timeout 0",
            "config set timeout -1",
            "config set maxmemory-policy foo",
            "config resetstat",
            "config help",
            "config foo",
            "config set maxmemory 0 maxmemory 0",
            "config set set-max-intset-entries 512",
            "config set maxmemory-samples 5 lfu-decay-time x",
            "config",
        ])
    }

    fn server(&mut self) -> Vec<Arg> {
        let mut args = self.line(&[
            "info",
            "info server",
            "info everything",
            "info all",
            "info default",
            "info nothing",
            "info keyspace memory",
            "info commandstats",
            "info errorstats stats",
            "info commandstats",
            "info stats keyspace",
            "dbsize",
            "time",
            "slowlog len",
            "slowlog get",
            "slowlog get 5",
            "slowlog get -1",
            "slowlog get -2",
            "slowlog get x",
            "slowlog reset",
            "slowlog foo",
            "slowlog help",
            "memory doctor",
            "memory stats",
            "memory purge",
            "memory help",
            "memory foo",
            "shutdown foo",
            "shutdown abort",
            "shutdown save nosave",
            "swapdb 0 0",
            "swapdb 0 99",
            "swapdb x 0",
            "swapdb 0 x",
            "memory usage k1",
            "memory usage k2 samples 5",
            "memory usage k3 samples -1",
            "memory usage nothing",
            "memory usage k1 foo",
        ]);
        if args.len() == 3 && args[1] == b"usage" {
            args[2] = self.key();
        }
        args
    }

    fn debug(&mut self) -> Vec<Arg> {
        match self.random.below(6) {
            4 => vec![b"debug".to_vec(), b"digest-value".to_vec(), self.key(), self.key()],
            5 => words("debug digest"),
            0 => vec![b"debug".to_vec(), b"object".to_vec(), self.key()],
            1 => self.line(&["debug sleep 0", "debug set-active-expire 1", "debug"]),
            _ => {
                // No push: in RESP3 it has no place in the order of replies.
                let what = [
                    "string", "integer", "double", "null", "array", "set", "map", "verbatim", "true", "false",
                    "bignum", "attrib",
                ];
                vec![b"debug".to_vec(), b"protocol".to_vec(), self.word(&what)]
            }
        }
    }

    fn command(&mut self) -> Vec<Arg> {
        if self.random.one_in(2) {
            let mut args = vec![b"command".to_vec(), self.word(&["getkeys", "getkeysandflags", "GETKEYS"])];
            args.extend(self.command_of_a_family());
            return args;
        }
        self.line(&[
            "command count",
            "command list",
            "command list filterby pattern get*",
            "command list filterby foo x",
            "command list filterby module x",
            "command docs get",
            "command info get set",
            "command info",
            "command getkeys set a b",
            "command getkeys get",
            "command getkeys mset a b c d",
            "command getkeys mset a b c",
            "command getkeys copy a b",
            "command getkeys ping",
            "command getkeys foo a",
            "command getkeysandflags set a b",
            "command getkeysandflags mset a b",
            "command getkeysandflags rename a b",
            "command getkeysandflags getex a",
            "command getkeysandflags set a b get",
            "command getkeys object encoding k",
            "command getkeys memory usage k",
            "command getkeys lcs a b idx",
            "command foo",
            "command help",
            "command getkeys",
        ])
    }

    fn unknown(&mut self) -> Vec<Arg> {
        let name = self.word(&["nosuchcommand", "", "get\r\nx", "foo|bar", "SET ", "client|id", "config|get"]);
        let mut args = vec![name];
        for _ in 0..self.random.below(5) {
            args.push(self.value());
        }
        args
    }
}

/// SET with EXAT or PXAT: its time may be in the past, and the key then counts until somebody looks.
fn sets_a_past_time(args: &[Arg]) -> bool {
    args[0].eq_ignore_ascii_case(b"set")
        && args.iter().skip(3).any(|arg| arg.eq_ignore_ascii_case(b"exat") || arg.eq_ignore_ascii_case(b"pxat"))
}
