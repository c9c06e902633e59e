//! The run: chunks of the same steps to both servers, pipelined, and the log of a mismatch.

use crate::collections::Types;
use crate::compare::{self, Rule};
use crate::generate::{Generator, Kind, Step};
use crate::spell::{self, Arg};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io;
use varve_testkit::{Client, RespValue, Server};

/// Steps sent before their replies are read.
const CHUNK: usize = 100;
/// Steps remembered for the log of a mismatch.
const MEMORY: usize = 20_000;
/// Steps of the memory that a log shows.
const SHOWN: usize = 25;
/// Of those, shown whatever they are on.
const JUST_BEFORE: usize = 2;
/// Databases of each server.
const DATABASES: u64 = 16;
/// Bytes up to which our collections beyond the settings stay in their key's object: none, few, some, the default.
const SMALL_BYTES: [&str; 4] = ["8192", "0", "150", "700"];
/// Commands that change more than the keys in their arguments: shown with any mismatch.
const FAR_REACHING: &[&str] = &["select", "swapdb", "flushdb", "flushall", "reset", "hello", "quit", "config"];

/// A plan of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// number of commands
    pub commands: u64,
    /// of the generator
    pub seed: u64,
    /// 2 or 3
    pub resp: u8,
    /// which collections
    pub types: Types,
    /// the statistics are compared after every command, so that a count that is wrong is seen where it goes wrong
    pub figures: bool,
}

/// Two servers under comparison.
pub struct Pair<'s> {
    ours: &'s Server,
    theirs: &'s Server,
    our_client: Client,
    their_client: Client,
    memory: VecDeque<(u64, Step, RespValue)>,
    plan: Plan,
}

/// Runs the plan on two fresh servers.
///
/// # Errors
/// The log of the first mismatch, or of a connection that was lost.
pub fn run(ours: &Server, theirs: &Server, plan: Plan) -> Result<(), String> {
    run_steps(ours, theirs, plan, &mut steps_of(plan))
}

/// The plan's steps, without end.
fn steps_of(plan: Plan) -> impl Iterator<Item = Step> {
    let mut generator = Generator::new(plan.seed, plan.resp, plan.types);
    let figures = || Step { args: vec![b"info".to_vec(), b"stats".to_vec()], kind: Kind::Call };
    std::iter::from_fn(move || Some(generator.next_step())).flat_map(move |step| {
        let asks = plan.figures && step.kind != Kind::Muted;
        std::iter::once(step).chain(asks.then(figures))
    })
}

/// Runs steps that come from anywhere, at most the plan's number, and compares as [`run`] does.
///
/// # Errors
/// The log of the first mismatch, or of a connection that was lost.
pub fn run_steps(
    ours: &Server,
    theirs: &Server,
    plan: Plan,
    steps: &mut dyn Iterator<Item = Step>,
) -> Result<(), String> {
    let mut pair = Pair::new(ours, theirs, plan)?;
    let mut index = 0;
    while index < plan.commands {
        let mut chunk = Vec::new();
        let mut alone = None;
        while chunk.len() < CHUNK && alone.is_none() {
            match steps.next() {
                Some(step) if matches!(step.kind, Kind::Scan | Kind::Quit | Kind::Apart) => alone = Some(step),
                Some(step) => chunk.push(step),
                None if chunk.is_empty() => return Ok(()),
                None => break,
            }
        }
        let length = chunk.len() as u64;
        pair.chunk(index, chunk)?;
        index += length;
        if let Some(step) = alone {
            pair.alone(index, step)?;
            index += 1;
        }
    }
    Ok(())
}

/// Takes steps away from a failing sequence for as long as it fails, each try on fresh servers; the shortest log.
///
/// # Errors
/// When a server does not start.
pub fn shrink(
    start: &dyn Fn() -> Result<(Server, Server), String>,
    plan: Plan,
    mut log: String,
) -> Result<String, String> {
    // A chunk is pipelined: what follows the mismatch in it has been sent too.
    let last = log.split("index ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok()).unwrap_or(0);
    let mut steps: Vec<Step> = steps_of(plan).take(last + CHUNK).collect();
    let mut size = steps.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(steps.len()));
            let (ours, theirs) = start()?;
            match run_steps(&ours, &theirs, plan, &mut fewer.iter().cloned()) {
                Err(shorter) => (steps, log) = (fewer, shorter),
                Ok(()) => at += size,
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    let lines: Vec<String> = steps.iter().map(|step| format!("  {:?} {}", step.kind, in_full(&step.args))).collect();
    Ok(format!("{log}\nthe shortest sequence that fails:\n{}", lines.join("\n")))
}

impl<'s> Pair<'s> {
    /// Connects to both.
    ///
    /// # Errors
    /// When one does not answer as it should.
    pub fn new(ours: &'s Server, theirs: &'s Server, plan: Plan) -> Result<Pair<'s>, String> {
        let (our_client, their_client) = (ours.client(), theirs.client());
        let mut pair = Pair { ours, theirs, our_client, their_client, memory: VecDeque::new(), plan };
        pair.greet()?;
        pair.draw_small_bytes()?;
        pair.reset_statistics(0)?;
        Ok(pair)
    }

    fn greet(&mut self) -> Result<(), String> {
        let hello = ["HELLO".to_string(), self.plan.resp.to_string()];
        for client in [&mut self.our_client, &mut self.their_client] {
            let reply = client.call(&hello).map_err(|error| error.to_string())?;
            if reply.is_error() {
                return Err(format!("HELLO {}: {reply:?}", self.plan.resp));
            }
        }
        Ok(())
    }

    /// Draws from the seed how many bytes our collections may have in their key's object, so that runs meet every form of
    /// every type. The peer's replies do not depend on it.
    fn draw_small_bytes(&mut self) -> Result<(), String> {
        let bytes = SMALL_BYTES[self.plan.seed as usize % SMALL_BYTES.len()];
        let reply = self.our_client.call(&["DEBUG", "SMALL-BYTES", bytes]).map_err(|error| error.to_string())?;
        if reply.is_error() { Err(format!("DEBUG SMALL-BYTES {bytes}: {reply:?}")) } else { Ok(()) }
    }

    /// Sends one command to both and compares the replies.
    ///
    /// # Errors
    /// The log of a mismatch.
    pub fn one(&mut self, index: u64, args: &[Arg]) -> Result<(RespValue, RespValue), String> {
        let ours = self.our_client.call(args);
        let theirs = self.their_client.call(args);
        let step = Step { args: args.to_vec(), kind: Kind::Call };
        self.check(index, step, compare::rule(args), ours, theirs)
    }

    fn chunk(&mut self, index: u64, steps: Vec<Step>) -> Result<(), String> {
        for client in [&mut self.our_client, &mut self.their_client] {
            for step in &steps {
                match step.kind {
                    Kind::Inline => {
                        client.queue_raw(&spell::inline(&step.args));
                    }
                    _ => client.queue(&step.args),
                }
            }
            client.flush().map_err(|error| format!("sending chunk at {index}: {error}"))?;
        }
        // Pipelined: a connection may be lost, or wait, because of what was sent behind the command that has no reply.
        let sent = steps.clone();
        for (i, step) in steps.into_iter().enumerate() {
            let index = index + i as u64;
            if step.kind == Kind::Muted {
                self.remember(index, step, RespValue::Null);
                continue;
            }
            let ours = self.our_client.read();
            let theirs = self.their_client.read();
            let rule = compare::rule(&step.args);
            let lost = ours.is_err() || theirs.is_err();
            self.check(index, step, rule, ours, theirs).map_err(|log| {
                let behind: Vec<String> =
                    sent[i + 1..].iter().map(|s| format!("  {:?} {}", s.kind, line(&s.args))).collect();
                if lost { format!("{log}\nsent behind it:\n{}", behind.join("\n")) } else { log }
            })?;
        }
        Ok(())
    }

    fn check(
        &mut self,
        index: u64,
        step: Step,
        rule: Rule,
        ours: io::Result<RespValue>,
        theirs: io::Result<RespValue>,
    ) -> Result<(RespValue, RespValue), String> {
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) if compare::equal(rule, &ours, &theirs) => {
                self.remember(index, step, theirs.clone());
                Ok((ours, theirs))
            }
            (Ok(ours), Ok(theirs)) => {
                let told = [compare::told(rule, &ours, &theirs), compare::told(rule, &theirs, &ours)];
                Err(self.log(index, &step, rule, &shorten(&told[0]), &shorten(&told[1])))
            }
            (ours, theirs) => Err(self.log(index, &step, rule, &show(&ours), &show(&theirs))),
        }
    }

    fn remember(&mut self, index: u64, step: Step, reply: RespValue) {
        if self.memory.len() == MEMORY {
            self.memory.pop_front();
        }
        self.memory.push_back((index, step, reply));
    }

    fn alone(&mut self, index: u64, step: Step) -> Result<(), String> {
        if step.kind == Kind::Quit {
            let ours = self.our_client.call(&step.args);
            let theirs = self.their_client.call(&step.args);
            self.check(index, step, Rule::Exact, ours, theirs)?;
            if self.our_client.read().is_ok() {
                return Err(format!("at {index}: the connection lives on after QUIT"));
            }
            self.our_client = self.ours.client();
            self.their_client = self.theirs.client();
            return self.greet();
        }
        if step.kind == Kind::Apart {
            return self.one(index, &step.args).map(|_| ());
        }
        let ours = scan_all(&mut self.our_client, &step.args);
        let theirs = scan_all(&mut self.their_client, &step.args);
        self.check(index, step, Rule::Exact, ours, theirs)?;
        self.reset_statistics(index)
    }

    /// Begins the statistics anew: how many calls a start or a whole scan took is each server's own.
    fn reset_statistics(&mut self, index: u64) -> Result<(), String> {
        self.one(index, &[b"config".to_vec(), b"resetstat".to_vec()]).map(|_| ())
    }

    /// A minimal log: what was asked, what both said, and the last commands that touched the same keys.
    fn log(&self, index: u64, step: &Step, rule: Rule, ours: &str, theirs: &str) -> String {
        let differing = if is_digest(&step.args) { self.differing_keys() } else { Vec::new() };
        let named = step.args.iter().skip(1).filter(|arg| is_key(arg));
        let keys: BTreeSet<&Arg> = named.chain(differing.iter().map(|key| &key.name)).collect();
        let related = |args: &[Arg]| {
            let name = args[0].to_ascii_lowercase();
            args.iter().skip(1).any(|arg| keys.contains(arg)) || FAR_REACHING.iter().any(|far| far.as_bytes() == name)
        };
        let lines: Vec<String> = self
            .memory
            .iter()
            .rev()
            .enumerate()
            .filter(|(ago, (_, step, _))| *ago < JUST_BEFORE || related(&step.args))
            .take(SHOWN)
            .map(|(_, (i, step, reply))| format!("  {i}: {} -> {reply:?}", line(&step.args)))
            .collect();
        let before: Vec<&str> = lines.iter().rev().map(String::as_str).collect();
        let differing: String = differing.iter().map(|key| format!("  {key}\n")).collect();
        format!(
            "MISMATCH seed {} resp {} index {index} ({rule:?})\n  {}\n  varve: {ours}\n  peer:  {theirs}\n{differing}before it, on these keys:\n{}",
            self.plan.seed,
            self.plan.resp,
            in_full(&step.args),
            before.join("\n")
        )
    }

    /// The keys whose digests differ now, at most [`SHOWN`] of them. Connections of its own ask: replies may be on their way
    /// on those of the run. A server that does not answer any more has no such keys.
    fn differing_keys(&self) -> Vec<Differing> {
        let (mut ours, mut theirs) = (self.ours.client(), self.theirs.client());
        let mut found = Vec::new();
        for database in 0..DATABASES {
            let mut names = BTreeSet::new();
            for client in [&mut ours, &mut theirs] {
                let _ = client.call(&["SELECT", &database.to_string()]);
                let all = client.call(&["KEYS", "*"]).ok();
                let all = all.as_ref().and_then(RespValue::elements).unwrap_or_default();
                names.extend(all.iter().filter_map(RespValue::bytes).map(<[u8]>::to_vec));
            }
            for name in names {
                let [ours, theirs] = [&mut ours, &mut theirs].map(|client| {
                    let what: [&[&[u8]]; 3] =
                        [&[b"DEBUG", b"DIGEST-VALUE", &name], &[b"TYPE", &name], &[b"PTTL", &name]];
                    what.map(|words| show(&client.call(words)))
                });
                if ours[0] != theirs[0] {
                    found.push(Differing { database, name, ours: ours.join(" "), theirs: theirs.join(" ") });
                }
            }
        }
        found.truncate(SHOWN);
        found
    }
}

/// A key that the two servers do not agree about, with its digest, type and milliseconds to live on each.
struct Differing {
    database: u64,
    name: Arg,
    ours: String,
    theirs: String,
}

impl fmt::Display for Differing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, Differing { database, ours, theirs, .. }) = (self.name.escape_ascii(), self);
        write!(f, "database {database}, {name}: varve {ours}; peer {theirs}")
    }
}

/// `DEBUG DIGEST`: a mismatch of its reply is one of some keys.
fn is_digest(args: &[Arg]) -> bool {
    matches!(args, [debug, digest] if debug.eq_ignore_ascii_case(b"debug") && digest.eq_ignore_ascii_case(b"digest"))
}

/// SCAN or one of its kin until the cursor is 0: the keys, members or pairs, each once, sorted. An error reply is the
/// result as it is.
fn scan_all(client: &mut Client, args: &[Arg]) -> io::Result<RespValue> {
    let mut args = args.to_vec();
    let mut keys = BTreeSet::new();
    let cursor_at = if args[0].eq_ignore_ascii_case(b"scan") { 1 } else { 2 };
    let pairs = args[0].eq_ignore_ascii_case(b"hscan") || args[0].eq_ignore_ascii_case(b"zscan");
    loop {
        let reply = client.call(&args)?;
        let (Some([cursor, batch]), false) = (reply.elements(), reply.is_error()) else { return Ok(reply) };
        let batch = batch.elements().unwrap_or_default();
        if pairs {
            keys.extend(batch.chunks(2).map(|pair| RespValue::Array(pair.to_vec())));
        } else {
            keys.extend(batch.iter().cloned());
        }
        args[cursor_at] = cursor.bytes().unwrap_or_default().to_vec();
        if args[cursor_at] == b"0" {
            return Ok(RespValue::Array(keys.into_iter().collect()));
        }
    }
}

/// One of the generator's keys, to judge by its looks.
fn is_key(arg: &[u8]) -> bool {
    arg.starts_with(b"k")
        || arg.starts_with(b"big")
        || arg.split_first().is_some_and(|(letter, rest)| {
            b"lhsz".contains(letter) && !rest.is_empty() && rest.iter().all(u8::is_ascii_digit)
        })
}

fn shorten(text: &str) -> String {
    text.chars().take(2000).collect()
}

fn show(reply: &io::Result<RespValue>) -> String {
    match reply {
        Ok(value) => shorten(&format!("{value:?}")),
        Err(error) => format!("connection: {error}"),
    }
}

/// A command as one writes it, long words cut.
#[must_use]
pub fn line(args: &[Arg]) -> String {
    words(args, 60)
}

/// A command as one writes it: that which differs must be there to be tried by hand.
fn in_full(args: &[Arg]) -> String {
    words(args, 4096)
}

/// A command with the words cut that are longer than `limit` bytes.
fn words(args: &[Arg], limit: usize) -> String {
    let word = |arg: &Arg| {
        if arg.len() > limit {
            return format!("<{} bytes: {}...>", arg.len(), arg[..20].escape_ascii());
        }
        if !arg.is_empty() && arg.iter().all(u8::is_ascii_graphic) {
            String::from_utf8_lossy(arg).into_owned()
        } else {
            format!("\"{}\"", arg.escape_ascii())
        }
    };
    args.iter().map(word).collect::<Vec<_>>().join(" ")
}
