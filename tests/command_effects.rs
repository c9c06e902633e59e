//! Every write command leaves the effects that tests/data/effects.txt lists: the table is the ground of the append-only
//! file and of replicas.
//!
//! ```text
//!  table --each step--> redis-server 7.0.15 --replication stream--> equal to the table
//!                   +-> Varve in process    --sink of effects-----> equal to the table
//!  random commands  --> both                                        equal streams
//!  what draws, what evicts --> Varve --stream--> redis-server       equal digests; and the other way round
//! ```

#![forbid(unsafe_code)]

mod stream;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use stream::ours::Ours;
use stream::table::{self, Act, Case, Step};
use stream::theirs::Theirs;
use stream::{Effect, Words, lines, now_ms};
use varve_catalog::Flags;
use varve_testkit::{Launch, Random, Server, seed};
use varve_tests::collections::Types;
use varve_tests::generate::{Generator, Kind};

/// Commands whose effects have a test elsewhere: MIGRATE needs another server (migrate.rs), and RESTORE-ASKING is RESTORE under
/// another name, which the stream keeps as it was sent.
const ELSEWHERE: &[&str] = &["migrate", "restore-asking"];

fn path() -> PathBuf {
    varve_testkit::server::workspace().join("tests/data/effects.txt")
}

fn cases() -> Vec<Case> {
    table::read(&fs::read_to_string(path()).expect("the table"))
}

fn words(line: &str) -> Words {
    table::split(line)
}

/// The effects that each step of a case left, by its line of the table.
fn play_theirs(theirs: &mut Theirs, case: &Case) -> Vec<(usize, Vec<String>)> {
    theirs.reset();
    let mut db = 0;
    let step = |step: &Step| {
        let now = now_ms();
        (step.line, lines(&theirs.step(&step.act), &mut db, now))
    };
    case.steps.iter().map(step).collect()
}

fn play_ours(ours: &mut Ours, case: &Case) -> Vec<(usize, Vec<String>)> {
    ours.reset();
    let mut db = 0;
    let step = |step: &Step| (step.line, lines(&ours.step(&step.act), &mut db, ours.now_ms()));
    case.steps.iter().map(step).collect()
}

/// Each step of the case has left what the table says; the complaints if not.
fn compare(case: &Case, found: Vec<(usize, Vec<String>)>) -> Vec<String> {
    let Case { command, title, .. } = case;
    let wrong = case.steps.iter().zip(found).filter(|(step, (_, found))| step.effects != *found);
    let tell = |(step, (line, found)): (&Step, (usize, Vec<String>))| {
        let act = match &step.act {
            Act::Run { words, .. } => String::from_utf8_lossy(&words.join(&b' ')).into_owned(),
            act => format!("{act:?}"),
        };
        format!("line {}: {command}, {title}: {act}\n  table: {:?}\n  found: {found:?}", line + 1, step.effects)
    };
    wrong.map(tell).collect()
}

/// With VARVE_RECORD set, writes the effects that redis-server has into the table; else compares them.
#[test]
fn the_table_is_redis_servers() {
    let text = fs::read_to_string(path()).expect("the table");
    let cases = table::read(&text);
    let mut theirs = Theirs::start();
    let common: Vec<&Case> = cases.iter().filter(|case| case.reason.is_none()).collect();
    let found: Vec<_> = common.iter().map(|case| play_theirs(&mut theirs, case)).collect();
    if std::env::var_os("VARVE_RECORD").is_some() {
        let found: HashMap<usize, Vec<String>> = found.into_iter().flatten().collect();
        fs::write(path(), table::write(&text, &cases, &|line| found.get(&line).cloned()))
            .expect("the table is written");
        return;
    }
    let wrong: Vec<String> = common.iter().zip(found).flat_map(|(case, found)| compare(case, found)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The effects alone lead to the same data: they are applied to a redis-server after each case.
#[test]
fn our_effects_are_those_of_the_table() {
    let (mut ours, copy) = (Ours::new(), Copy::start());
    let mut wrong = Vec::new();
    for case in cases() {
        let found = play_ours(&mut ours, &case);
        wrong.extend(compare(&case, found));
        let (bytes, digest) = (ours.stream(), ours.digest());
        // redis-server 7.0.15 has no words for some effects of newer commands.
        if case.reason.as_ref().is_none_or(|reason| !reason.starts_with("newer effects"))
            && copy.apply(&bytes) != digest
        {
            wrong.push(format!("{}, {}: the effects do not lead to what there is", case.command, case.title));
        }
    }
    assert!(wrong.is_empty(), "{} steps\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_write_command_has_a_case() {
    let known: HashSet<String> = cases().into_iter().map(|case| case.command).collect();
    let writes = varve_commands::commands().commands().iter().filter(|command| command.flags.has(Flags::WRITE));
    let names = writes.map(|command| command.full_name).filter(|name| !ELSEWHERE.contains(name));
    let missing: Vec<&str> = names.filter(|name| !known.contains(*name)).collect();
    assert!(missing.is_empty(), "without a case: {missing:?}");
}

/// A redis-server to which streams are applied.
struct Copy(Server);

impl Copy {
    fn start() -> Copy {
        Copy(Launch::peer().start().expect("redis-server starts"))
    }

    /// Applies the bytes of a stream to an empty server; its digest.
    fn apply(&self, stream: &[u8]) -> String {
        let mut client = self.0.client();
        assert!(!client.cmd("FLUSHALL").is_error());
        client.queue_raw(stream);
        client.queue(&["ECHO", "the stream has ended"]);
        client.flush().expect("sent");
        loop {
            let reply = client.read().expect("a reply");
            assert!(!reply.is_error(), "an effect fails: {}", reply.text());
            if reply.text() == "the stream has ended" {
                return client.cmd("DEBUG DIGEST").text();
            }
        }
    }
}

/// Commands that take members at random, among others that put them there.
fn drawing(random: &mut Random) -> Words {
    let key = format!("s{}", random.below(5));
    let line = match random.below(5) {
        0 => format!("SPOP {key}"),
        1 => format!("SPOP {key} {}", random.below(6)),
        2 => format!("SADD {key} {} {}", random.below(1000), random.below(1000)),
        3 => format!("SADD {key} member:{} member:{}", random.below(50), random.below(50)),
        _ => format!("SMOVE {key} s{} {}", random.below(5), random.below(1000)),
    };
    words(&line)
}

#[test]
fn what_draws_leads_to_the_same_elsewhere() {
    let mut random = Random::new(seed::seed("effects of what draws"));
    let (mut ours, mut theirs, copy) = (Ours::new(), Theirs::start(), Copy::start());
    for _ in 0..20 {
        let acts: Vec<Act> = (0..200).map(|_| Act::Run { who: 1, words: drawing(&mut random) }).collect();
        ours.reset();
        acts.iter().for_each(|act| drop(ours.step(act)));
        let bytes = ours.stream();
        assert_eq!(copy.apply(&bytes), ours.digest(), "our stream in redis-server");

        theirs.reset();
        let effects: Vec<Effect> = acts.iter().flat_map(|act| theirs.step(act)).collect();
        ours.reset();
        for effect in effects {
            let reply = ours.run(1, &effect.words);
            assert!(!reply.is_error(), "{}", reply.text());
        }
        assert_eq!(ours.digest(), theirs.digest(), "redis-server's stream in Varve");
    }
}

/// A million members would otherwise be a million effects, all made while the shard is held.
#[test]
fn members_that_are_popped_together_leave_few_effects() {
    let (mut ours, copy) = (Ours::new(), Copy::start());
    let members = (0..300).map(|n| format!("member:{n}").into_bytes());
    let add: Words = ["SADD", "s"].map(|word| word.as_bytes().to_vec()).into_iter().chain(members).collect();
    ours.run(1, &add);
    ours.run(1, &words("SPOP s 200"));
    let bytes = ours.stream();
    let removals = bytes.windows(4).filter(|window| window == b"SREM").count();
    assert_eq!(removals, 4, "64 members at most go with each");
    assert_eq!(copy.apply(&bytes), ours.digest());
}

#[test]
fn evicted_keys_are_deleted_elsewhere() {
    let (mut ours, copy) = (Ours::new(), Copy::start());
    ours.limit(24 << 20);
    let value = "x".repeat(2000);
    for n in 0..20_000 {
        if n == 15_000 {
            ours.step(&Act::Setting { name: "lazyfree-lazy-eviction".into(), value: "yes".into() });
        }
        let words = [&b"SET"[..], format!("key:{n}").as_bytes(), value.as_bytes()].map(<[u8]>::to_vec).to_vec();
        ours.run(1, &words);
        if n % 100 == 0 {
            ours.step(&Act::Background);
        }
    }
    assert!(ours.evicted() > 0, "the limit was reached");
    let bytes = ours.stream();
    let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
    assert!(has(b"\r\nDEL\r\n") && has(b"\r\nUNLINK\r\n"), "a key goes by the word of the setting");
    assert_eq!(copy.apply(&bytes), ours.digest());
}

/// True if a command can run in process and leaves nothing to chance or to the clock.
fn is_comparable(args: &[Vec<u8>]) -> bool {
    const OWN: [&str; 6] = ["debug", "config", "select", "spop", "randomkey", "swapdb"];
    let name = String::from_utf8_lossy(&args[0]).to_ascii_lowercase();
    let command = varve_commands::commands().commands().iter().find(|command| command.full_name == name);
    let runs = command
        .is_some_and(|command| matches!(command.exec, varve_exec::Exec::Keys(_) | varve_exec::Exec::Exclusive(_)));
    let waits = command.is_some_and(|command| command.flags.has(Flags::BLOCKING));
    let left_out = waits || OWN.contains(&name.as_str());
    let near = TIMED.contains(&name.as_str()) && has_near_time(args);
    // redis-server writes the limit of a trimming, which it takes from its primary alone; and an ID that nodes are trimmed
    // below becomes that of the first node, whose entry may have been removed.
    let has = |word: &[u8]| name.starts_with('x') && args.iter().any(|arg| arg.eq_ignore_ascii_case(word));
    let is_other = has(b"limit") || has(b"minid") && has(b"~");
    runs && !left_out && !near && !is_other
}

/// Commands that set a time to live.
const TIMED: [&str; 8] = ["set", "setex", "psetex", "getex", "expire", "pexpire", "expireat", "pexpireat"];

/// True if a command may set a time that is over soon, or is over: the two servers do not read the same clock.
fn has_near_time(args: &[Vec<u8>]) -> bool {
    let number = |arg: &Vec<u8>| std::str::from_utf8(arg).ok()?.parse::<i64>().ok();
    let near = |pair: &[Vec<u8>]| match pair[0].to_ascii_lowercase().as_slice() {
        b"pxat" => number(&pair[1]).is_some_and(|ms| ms < FAR_S * 1000),
        b"exat" => number(&pair[1]).is_some_and(|s| s < FAR_S),
        _ => number(&pair[1]).is_some_and(|n| (0..SOON_MS).contains(&n)),
    };
    args.windows(2).skip(1).any(near)
}

/// Seconds of Unix time that will not come while the test runs.
const FAR_S: i64 = 4_000_000_000;
/// Milliseconds that may pass while the test runs.
const SOON_MS: i64 = 10_000_000;

/// Two effects are equal but for times, which may differ by what lies between two readings of the clock.
fn alike(a: &Effect, b: &Effect) -> bool {
    let time = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<i64>().ok().filter(|time| *time > FIRST_TIME);
    let word = |(a, b): (&Vec<u8>, &Vec<u8>)| match (time(a), time(b)) {
        (Some(a), Some(b)) => a.abs_diff(b) < CLOCKS_APART_MS,
        _ => a == b,
    };
    a.db == b.db && a.words.len() == b.words.len() && a.words.iter().zip(&b.words).all(word)
}

/// Whether a command that ran before names one of the arguments.
fn touches(before: &str, args: &[Vec<u8>]) -> bool {
    let named: HashSet<&str> = before.split(' ').skip(1).collect();
    args.iter().skip(1).filter_map(|arg| std::str::from_utf8(arg).ok()).any(|arg| named.contains(arg))
}

/// Milliseconds of Unix time from which on an integer is taken for a time.
const FIRST_TIME: i64 = 1_000_000_000_000;
/// How far two readings of the clock for one command may lie apart.
const CLOCKS_APART_MS: u64 = 5000;

#[test]
fn random_commands_leave_the_same_stream() {
    let commands = std::env::var("VARVE_EFFECTS_COMMANDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let mut generator = Generator::new(seed::seed("effects of random commands"), 2, Types::ALL);
    let (mut ours, mut theirs) = (Ours::new(), Theirs::start());
    let (mut ran, mut last) = (0, Vec::<String>::new());
    theirs.run(&words("DEBUG SET-ACTIVE-EXPIRE 0"));
    while ran < commands {
        let step = generator.next_step();
        if step.kind != Kind::Call || !is_comparable(&step.args) {
            continue;
        }
        ran += 1;
        let now = now_ms();
        ours.set_now(now);
        let act = Act::Run { who: 1, words: step.args.clone() };
        let (found, wanted) = (ours.step(&act), theirs.step(&act));
        let line = varve_tests::run::line(&step.args);
        let same = found.len() == wanted.len() && found.iter().zip(&wanted).all(|(a, b)| alike(a, b));
        if !same {
            let history: Vec<&String> = last.iter().filter(|before| touches(before, &step.args)).collect();
            let shown = |effects: &[Effect]| lines(effects, &mut 0, now);
            panic!("{line}\n  {:?}\n  {:?}\nbefore it: {history:#?}", shown(&found), shown(&wanted));
        }
        last.push(line);
    }
}
