//! A host for tests: a few commands over a map, and a budget of ticks.

#![allow(dead_code, reason = "each of the tests uses a part of it")]

use std::collections::HashMap;
use varve_base::sha1::sha1;
use varve_lua::{Control, Host, LogLevel, Replicate, ScriptInput, ScriptName, Settings, State};
use varve_protocol::{Reply, Resp};

/// Notes of what a script asked, and the host's answers.
#[derive(Default)]
pub(crate) struct TestHost {
    /// Ticks after which the script is stopped; 0 for none.
    pub ticks_max: u32,
    pub ticks: u32,
    pub calls: u32,
    pub logged: Vec<(LogLevel, Vec<u8>)>,
    pub replicate: Option<Replicate>,
    pub values: HashMap<Vec<u8>, Vec<u8>>,
}

/// The error of a script that the test host stops.
pub(crate) const STOPPED: &str = "ERR stopped";

impl Host for TestHost {
    fn call(&mut self, args: &[&[u8]], reply: &mut Reply) {
        self.calls += 1;
        match (args[0].to_ascii_lowercase().as_slice(), &args[1..]) {
            (b"ping", []) => reply.simple("PONG"),
            (b"echo", [text]) => reply.bulk(text),
            (b"pinned", [text]) => reply.bulk_pinned(Box::new(text.to_vec())),
            (b"set", [key, value]) => {
                self.values.insert(key.to_vec(), value.to_vec());
                reply.ok();
            }
            (b"get", [key]) => match self.values.get(*key) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
            (b"debug", [b"protocol", kind]) => debug_protocol(kind, reply),
            (b"numbers", [count]) => {
                let count: i64 = String::from_utf8_lossy(count).parse().expect("a number");
                reply.array(count as usize);
                (0..count).for_each(|n| reply.integer(n));
            }
            (b"ping" | b"echo" | b"set" | b"get" | b"debug", _) => {
                reply.error("ERR Wrong number of args calling Redis command from script");
            }
            _ => reply.error("ERR Unknown Redis command called from script"),
        }
    }

    fn tick(&mut self, _state_bytes: usize) -> Control {
        self.ticks += 1;
        if self.ticks == self.ticks_max { Control::Stop(STOPPED) } else { Control::Go }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        self.logged.push((level, text.to_vec()));
    }

    fn set_resp(&mut self, _: Resp) {}

    fn set_repl(&mut self, replicate: Replicate) {
        self.replicate = Some(replicate);
    }

    fn note_reply_error(&mut self, _: &[u8], _: bool) {}

    fn acl_check_cmd(&mut self, args: &[&[u8]]) -> Option<bool> {
        [&b"get"[..], b"set", b"ping"].contains(&args[0]).then_some(true)
    }
}

/// DEBUG PROTOCOL as redis-server has it.
fn debug_protocol(kind: &[u8], reply: &mut Reply) {
    match kind {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double("3.141".parse().unwrap()),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"map" => {
            reply.map(3);
            (0..3).for_each(|n| {
                reply.integer(n);
                reply.boolean(n == 1);
            });
        }
        b"bignum" => reply.big_number(b"1234567999999999999999999999999999999"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => reply.verbatim(*b"txt", b"This is a verbatim\nstring"),
    }
}

/// A state with few instructions between ticks.
pub(crate) fn state() -> State {
    State::new(Settings { instructions_per_tick: 1000, ..Settings::default() }).expect("a state")
}

/// EVAL in this state, the reply as bytes.
pub(crate) fn eval_with(
    state: &mut State,
    host: &mut TestHost,
    script: &[u8],
    keys: &[&[u8]],
    argv: &[&[u8]],
) -> Vec<u8> {
    let mut out = Reply::new();
    let ran = state.compile(script).and_then(|chunk| {
        let name = ScriptName::Digest(&sha1(script));
        let ran = state.run(chunk, ScriptInput { name, keys, argv }, host, &mut out);
        state.forget(chunk);
        ran
    });
    if let Err(error) = ran {
        out.error_bytes(&error.text);
    }
    out.to_vec()
}
