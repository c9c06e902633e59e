//! Runs of commands that belong together: a setting and what it does to the commands after it, and the setting back; keys
//! whose time runs out; a connection that must log in first.

use crate::generate::{Generator, Kind, words};
use crate::spell::{self, Arg};

/// Commands of keys with few and short arguments: within what a client may send that has not logged in.
const SHORT: &[&str] = &[
    "get k1",
    "set k1 1",
    "set k2 v nx get",
    "append k3 x",
    "incr k4",
    "mset k5 1 k6 2",
    "msetnx k5 1 k60 2",
    "setrange k7 3 x",
    "getset k8 v",
    "getdel k9",
    "getex k10 persist",
    "setnx k11 v",
    "incrbyfloat k12 1.5",
    "copy k1 k13 replace",
    "rename k1 k1",
    "renamenx k2 k14",
    "move k3 1",
    "expire k4 100000",
    "persist k4",
    "del k5",
    "unlink k6",
    "touch k7 k8",
    "exists k7",
    "type k7",
    "setex k15 100000 v",
    "psetex k15 100000000 v",
    "decrby k16 7",
    "dbsize",
    "ping",
    "echo x",
    "select 1",
    "select 0",
    "client getname",
    "client setname n",
    "command getkeys get k",
    "config get maxmemory",
    "object encoding k1",
    "get",
    "set k1 1 foo",
    "incr k1 k2",
    "nosuch k1",
    "client nosuch",
    "hello",
    "hello 2",
    "hello 3",
    "swapdb 0 1",
    "lcs k1 k2",
    "randomkey x",
    "setrange k7 536870911 xx",
];

impl Generator {
    /// One of the bursts.
    pub(crate) fn burst(&mut self) {
        match self.random.below(8) {
            0 => self.without_memory(),
            1 => self.another_policy(),
            2 => self.log_in(),
            3 => self.run_out(),
            4 => self.wide(),
            5 => self.swaps(),
            _ => self.extremes(),
        }
    }

    fn call(&mut self, line: &str) {
        self.push(words(line), Kind::Call);
    }

    fn short(&mut self, most: usize) {
        for _ in 0..self.random.below(most) {
            let line = *self.random.pick(SHORT);
            self.call(line);
        }
    }

    fn back_to_protocol(&mut self) {
        let hello = format!("hello {}", self.resp);
        self.call(&hello);
    }

    /// A limit that is exceeded at once: who may need memory is refused, everybody else runs.
    fn without_memory(&mut self) {
        self.call("config set maxmemory 1");
        self.short(40);
        self.call("config set maxmemory 0");
        self.back_to_protocol();
    }

    fn another_policy(&mut self) {
        let policy = *self.random.pick(&["allkeys-random", "noeviction"]);
        self.call(&format!("config set maxmemory-policy {policy}"));
        for _ in 0..self.random.below(10) {
            let sub = *self.random.pick(&["freq", "idletime", "encoding", "refcount"]);
            let key = spell::key(&mut self.random);
            self.push(vec![b"object".to_vec(), sub.as_bytes().to_vec(), key], Kind::Call);
        }
        self.call("config get maxmemory-policy");
        self.call("config set maxmemory-policy noeviction");
    }

    /// A password is set, the connection forgets itself, and must give it. One by one: who has not logged in may leave no
    /// kilobyte of replies unread with the peer.
    fn log_in(&mut self) {
        let before = self.queue.len();
        self.call("config set requirepass pw");
        let words = *self.random.pick(&["pw", "bad", "default pw", "default bad", "other pw"]);
        self.call(&format!("auth {words}"));
        self.call("reset");
        self.short(20);
        for _ in 0..self.random.below(4) {
            let line = *self.random.pick(&[
                "auth bad",
                "auth default bad",
                "auth other pw",
                "auth a b c",
                "hello 3 auth default bad",
                "hello 2 setname x",
                "hello 3 auth default pw setname",
                "hello 4 auth default pw",
                "reset",
            ]);
            self.call(line);
        }
        let good = *self.random.pick(&[
            "auth pw",
            "auth default pw",
            "hello 3 auth default pw",
            "hello 2 setname y auth default pw",
        ]);
        self.call(good);
        self.short(5);
        self.push(vec![b"config".to_vec(), b"set".to_vec(), b"requirepass".to_vec(), Vec::new()], Kind::Call);
        self.call("reset");
        self.back_to_protocol();
        self.queue[before..].iter_mut().for_each(|step| step.kind = Kind::Apart);
    }

    /// Keys whose time is a millisecond, looked at when it is over. Not by
    /// DEBUG OBJECT and MEMORY USAGE, to which the peer shows the dead.
    fn run_out(&mut self) {
        let mut keys: Vec<Arg> = (0..1 + self.random.below(4)).map(|_| spell::key(&mut self.random)).collect();
        // Each once: whether a second command still sees what the first has set is a matter of the millisecond.
        keys.sort();
        keys.dedup();
        for key in &keys {
            let text = |word: &str| word.as_bytes().to_vec();
            let one = match self.random.below(4) {
                0 => vec![text("set"), key.clone(), text("v"), text("px"), text("1")],
                1 => vec![text("psetex"), key.clone(), text("1"), text("v")],
                2 => vec![text("pexpire"), key.clone(), text("1")],
                _ => vec![text("set"), key.clone(), text("v"), text("get"), text("px"), text("1")],
            };
            self.push(one, Kind::Call);
        }
        self.call("debug sleep 0.005");
        for key in keys {
            let name = *self.random.pick(&[
                "get",
                "exists",
                "type",
                "ttl",
                "incr",
                "del",
                "unlink",
                "touch",
                "getdel",
                "getex",
                "persist",
                "strlen",
                "pexpiretime",
                "mget",
                "object encoding",
            ]);
            let mut args = words(name);
            args.push(key.clone());
            self.push(args, Kind::Call);
            self.push(vec![b"pttl".to_vec(), key], Kind::Call);
        }
        self.call("dbsize");
    }

    /// One command with very many arguments.
    fn wide(&mut self) {
        let name = *self.random.pick(&["mget", "mset", "msetnx", "del", "exists", "touch", "unlink"]);
        let count = 1 + self.random.below(3000);
        let mut args = words(name);
        for i in 0..count {
            args.push(format!("k{}", i + 55).into_bytes());
            if name.starts_with("mset") {
                args.push(spell::value(&mut self.random));
            }
        }
        self.push(args, Kind::Call);
        self.call("dbsize");
        if name.starts_with("mset") {
            let mut args = words("unlink");
            args.extend((60..count + 60).map(|i| format!("k{i}").into_bytes()));
            self.push(args, Kind::Call);
        }
        self.call("debug digest");
    }

    /// Databases change places and are emptied between commands of one pipeline.
    fn swaps(&mut self) {
        for _ in 0..self.random.below(40) {
            let (key, database, other) = (self.random.below(5), self.random.below(4), self.random.below(4));
            let line = match self.random.below(14) {
                0 | 1 => format!("swapdb {database} {other}"),
                2 | 3 => format!("select {database}"),
                4 => "flushdb".to_owned(),
                5 => format!("move k{key} {database}"),
                6 => format!("copy k{key} k{key} db {database} replace"),
                7 => format!("get k{key}"),
                8 => "dbsize".to_owned(),
                9 => format!("expire k{key} 1000000"),
                10 => format!("ttl k{key}"),
                _ => format!("set k{key} {}", self.random.below(1000)),
            };
            self.call(&line);
        }
        self.call("info keyspace");
        self.call("debug digest");
    }

    /// Numbers with fractions at the edges of their type.
    fn extremes(&mut self) {
        let (key, last) = (spell::key(&mut self.random), spell::number(&mut self.random));
        let word = |word: &str| word.as_bytes().to_vec();
        let start = spell::float(&mut self.random);
        self.push(vec![word("set"), key.clone(), start], Kind::Call);
        for _ in 0..self.random.below(6) {
            let by = spell::float(&mut self.random);
            self.push(vec![word("incrbyfloat"), key.clone(), by], Kind::Call);
        }
        self.push(vec![word("incrby"), key, last], Kind::Call);
    }
}
