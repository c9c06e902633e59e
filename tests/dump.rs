//! DUMP and RESTORE beside redis-server: values of every type and encoding, dumped by either server and restored by the
//! other, are the same values.
//!
//! ```text
//!  random commands ─▶ Varve and redis-server: equal values          DEBUG DIGEST-VALUE of each key
//!  each key: DUMP at one ─▶ RESTORE at the other, as another key    equal to the key
//! ```

#![forbid(unsafe_code)]

use std::process::Command;

use varve_testkit::server::workspace;
use varve_testkit::{Client, Launch, Random, RespValue, seed};

/// Values of each shape.
const ROUNDS: usize = 200;
/// Values that are long enough to be carried in parts.
const LONG_ROUNDS: usize = 10;

/// A word: short, an integer, long and easily compressed, or long and not.
fn word(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => (random.next_u64() as i64 >> random.below(64)).to_string().into_bytes(),
        1 => vec![b'a' + random.below(26) as u8; random.below(300)],
        2 => (0..random.below(100)).map(|_| random.next_u64() as u8).collect(),
        3 if random.one_in(20) => b"repeated words ".repeat(random.below(3000)),
        _ => format!("word:{}", random.below(100_000)).into_bytes(),
    }
}

/// Few, some or many elements, so that every encoding occurs.
fn count(random: &mut Random) -> usize {
    match random.below(8) {
        0 => 1,
        1 => 600 + random.below(1000),
        _ => 1 + random.below(60),
    }
}

fn score(random: &mut Random) -> String {
    match random.below(6) {
        0 => "inf".into(),
        1 => "-inf".into(),
        2 => format!("{}", random.next_u64() as f64 / 7.0),
        3 => format!("-0.{}", random.below(1_000_000)),
        _ => random.below(1000).to_string(),
    }
}

/// Commands that make a value which is dumped and restored in parts.
fn long_commands(random: &mut Random, key: &str) -> Vec<Vec<Vec<u8>>> {
    let name = *random.pick(&["SET", "RPUSH", "SADD", "HSET", "ZADD"]);
    let head = || vec![name.as_bytes().to_vec(), key.as_bytes().to_vec()];
    if name == "SET" {
        let mut words = head();
        words.push((0..1_500_000).map(|_| random.next_u64() as u8).collect());
        return vec![words];
    }
    let mut element = 0;
    let mut commands = Vec::new();
    for _ in 0..20 {
        let mut words = head();
        for _ in 0..1500 {
            element += 1;
            if name == "ZADD" {
                words.push(score(random).into_bytes());
            }
            words.push(format!("element:{element}").into_bytes());
            if name == "HSET" {
                words.push(word(random));
            }
        }
        commands.push(words);
    }
    commands
}

/// The command that makes a random value.
fn command(random: &mut Random, key: &str) -> Vec<Vec<u8>> {
    let name = *random.pick(&["SET", "RPUSH", "SADD", "HSET", "ZADD"]);
    let mut words = vec![name.as_bytes().to_vec(), key.as_bytes().to_vec()];
    if name == "SET" {
        words.push(word(random));
        return words;
    }
    let integers = name == "SADD" && random.one_in(2);
    for _ in 0..count(random) {
        if name == "ZADD" {
            words.push(score(random).into_bytes());
        }
        words.push(if integers { random.below(100_000).to_string().into_bytes() } else { word(random) });
        if name == "HSET" {
            words.push(word(random));
        }
    }
    words
}

/// The commands that make a stream: entries of few and of other fields, some of which are removed.
fn stream_commands(random: &mut Random, key: &str, entries: usize) -> Vec<Vec<Vec<u8>>> {
    let text = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let mut commands = Vec::new();
    for n in 0..entries {
        let mut words = text(&["XADD", key, &format!("{}-{}", 1000 + n / 3, 5 - n % 3 + 10 * (n % 3)), "field"]);
        words.push(word(random));
        for other in 0..random.below(3) {
            words.push(format!("other {other}").into_bytes());
            words.push(random.next_u64().to_string().into_bytes());
        }
        commands.push(words);
        if random.one_in(10) {
            let n = random.below(n + 1);
            commands.push(text(&["XDEL", key, &format!("{}-{}", 1000 + n / 3, 5 - n % 3 + 10 * (n % 3))]));
        }
    }
    commands
}

fn digest(client: &mut Client, key: &str) -> RespValue {
    client.call(&["DEBUG", "DIGEST-VALUE", key]).expect("a digest")
}

/// Dumps a key at one server and restores it at another under a new name; the digests are equal.
fn carry(from: &mut Client, to: &mut Client, key: &str, what: &str) {
    let payload = from.call(&["DUMP", key]).expect("a reply");
    let payload = payload.bytes().expect("the key is there").to_vec();
    let name = format!("{key}:restored");
    let done = to.call(&[b"RESTORE", name.as_bytes(), b"0", &payload, b"REPLACE"]).expect("a reply");
    assert_eq!(done.text(), "OK", "{what}: {} bytes", payload.len());
    assert_eq!(digest(to, &name), digest(from, key), "{what}");
    // A payload of which a byte is another one is refused.
    let mut damaged = payload;
    let at = damaged.len() / 2;
    damaged[at] ^= 1;
    let refused = to.call(&[b"RESTORE", name.as_bytes(), b"0", &damaged, b"REPLACE"]).expect("a reply");
    assert!(refused.is_error(), "{what}");
}

#[test]
fn either_server_restores_what_the_other_has_dumped() {
    let debug = "enable-debug-command yes";
    let varve = Launch::varve().config(debug).start().expect("varve");
    let peer = Launch::peer().config(debug).start().expect("redis-server");
    let (mut ours, mut theirs) = (varve.client(), peer.client());
    let mut random = Random::new(seed::seed("dump"));
    for round in 0..ROUNDS {
        let words = command(&mut random, &format!("k{round}"));
        let what = format!("round {round}: {} of {} words", String::from_utf8_lossy(&words[0]), words.len());
        let key = format!("k{round}");
        assert_eq!(ours.call(&words).expect("a reply"), theirs.call(&words).expect("a reply"), "{what}");
        assert_eq!(digest(&mut ours, &key), digest(&mut theirs, &key), "{what}");
        carry(&mut ours, &mut theirs, &key, &format!("{what}, from Varve"));
        carry(&mut theirs, &mut ours, &key, &format!("{what}, to Varve"));
    }
    for round in 0..LONG_ROUNDS {
        let (key, what) = (format!("long{round}"), format!("long value {round}"));
        for words in long_commands(&mut random, &key) {
            assert_eq!(ours.call(&words).expect("a reply"), theirs.call(&words).expect("a reply"), "{what}");
        }
        carry(&mut ours, &mut theirs, &key, &format!("{what}, from Varve"));
        carry(&mut theirs, &mut ours, &key, &format!("{what}, to Varve"));
    }
    for round in 0..LONG_ROUNDS {
        let (key, what) = (format!("stream{round}"), format!("stream {round}"));
        for words in stream_commands(&mut random, &key, if round == 0 { 20_000 } else { 300 }) {
            assert_eq!(ours.call(&words).expect("a reply"), theirs.call(&words).expect("a reply"), "{what}");
        }
        carry(&mut ours, &mut theirs, &key, &format!("{what}, from Varve"));
        carry(&mut theirs, &mut ours, &key, &format!("{what}, to Varve"));
        let info = |client: &mut Client, key: &str| {
            let reply = client.call(&["XINFO", "STREAM", key]).expect("a reply");
            // Figures of its tree differ.
            reply.elements().expect("figures")[6..].to_vec()
        };
        let all = [info(&mut ours, &key), info(&mut theirs, &key), info(&mut theirs, &format!("{key}:restored"))];
        assert!(all.iter().all(|info| *info == all[0]), "{what}: {all:?}");
    }
    let checked = ours.call(&["DEBUG", "VERIFY"]).expect("a reply");
    assert_eq!(checked.text(), "OK");
}

/// Files and RESTORE had a bound on an entry's fields that XADD did not have: the server did not start again with its own file.
#[test]
fn an_entry_of_more_than_a_million_fields_is_read_again() {
    let varve = Launch::varve().config("enable-debug-command yes").start().expect("varve");
    let mut client = varve.client();
    let words = [&["XADD", "s", "1-1"][..], &["f", "v"].repeat((1 << 20) + 1)].concat();
    assert_eq!(client.call(&words).expect("a reply").text(), "1-1");
    let whole = digest(&mut client, "s");
    let payload = client.call(&["DUMP", "s"]).expect("a reply");
    let RespValue::Bulk(payload) = payload else { panic!("{payload:?}") };
    let restore: [&[u8]; 4] = [b"RESTORE", b"restored", b"0", &payload];
    assert_eq!(client.call(&restore).expect("a reply").text(), "OK");
    assert_eq!(client.cmd("DEBUG RELOAD").text(), "OK");
    for key in ["s", "restored"] {
        assert_eq!(digest(&mut client, key), whole, "{key}");
    }
}

#[test]
fn a_damaged_payload_leaves_what_is_there() {
    let varve = Launch::varve().config("enable-debug-command yes").start().expect("varve");
    let mut client = varve.client();
    let mut random = Random::new(seed::seed("dump, damaged"));
    for round in 0..ROUNDS {
        client.call(&command(&mut random, "source")).expect("a reply");
        client.call(&["SET", "target", "kept"]).expect("a reply");
        let payload = client.call(&["DUMP", "source"]).expect("a reply");
        let payload = payload.bytes().expect("the key is there");
        client.call(&["DEL", "source"]).expect("a reply");
        // Damage under a right checksum: the bytes themselves are looked at.
        let (body, _) = payload.split_at(payload.len() - 10);
        let mut body = body.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(body.len());
            body[at] = random.next_u64() as u8;
        }
        varve_rdb::dump::seal(&mut body);
        let reply = client.call(&[b"RESTORE", &b"target"[..], b"0", &body, b"REPLACE"]).expect("a reply");
        if reply.is_error() {
            assert_eq!(client.cmd("GET target").text(), "kept", "round {round}: {}", reply.text());
        }
        client.call(&["DEL", "target"]).expect("a reply");
    }
    assert_eq!(client.cmd("DEBUG VERIFY").text(), "OK");
}

/// The archive of Redis's sources, of which the suite is a part, if `cargo xtask peer` has fetched it: its unit about damaged
/// payloads.
fn unit_about_damage() -> Option<String> {
    let archive = workspace().join(".test-tools/redis_7.0.15.orig.tar.gz");
    let unit = "redis-7.0.15/tests/integration/corrupt-dump.tcl";
    archive.exists().then(|| {
        let output = Command::new("tar").arg("-xzOf").arg(&archive).arg(unit).output().expect("tar runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    })
}

/// The payload that a test of the unit restores first.
fn payload_of(unit: &str, name: &str) -> Vec<u8> {
    let (_, text) = unit.split_once(&format!("\ntest {{{name}}} ")).unwrap_or_else(|| panic!("{name}"));
    let (text, _) = text.split_once("\ntest {").unwrap_or((text, ""));
    let at = text.to_ascii_lowercase().find("r restore ").unwrap_or_else(|| panic!("{name}: {text}"));
    let mut text = text[at..].split_once('"').expect("a word in quotes").1.bytes();
    let mut payload = Vec::new();
    while let Some(byte) = text.next().filter(|byte| *byte != b'"') {
        let letter = if byte == b'\\' { text.next().expect("an escape") } else { 0 };
        payload.push(match letter {
            0 => byte,
            b'x' => {
                let digits = [text.next().expect("a digit"), text.next().expect("a digit")];
                u8::from_str_radix(std::str::from_utf8(&digits).expect("digits"), 16).expect("digits")
            }
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            other => other,
        });
    }
    payload
}

/// Payloads that redis-server takes without a look, under `sanitize-dump-payload no`, and fails over later: its suite wants that,
/// and these tests of it are left out. Here each of them is refused at once, says where it is damaged, and leaves nothing.
#[test]
fn what_the_peer_takes_damaged_is_refused() {
    let Some(unit) = unit_about_damage() else {
        return eprintln!("skipped: the sources of redis-server are not there, which `cargo xtask peer` fetches");
    };
    let skips = include_str!("peer-suite-skips.txt").lines().map(|line| line.split(" | ").collect::<Vec<_>>());
    let left_out = skips.filter(|skip| skip.len() == 3 && skip[2].contains("what_the_peer_takes_damaged_is_refused"));
    let names: Vec<&str> = left_out.map(|skip| skip[1]).collect();
    assert_eq!(names.len(), 13);
    let varve = Launch::varve().config("enable-debug-command yes").start().expect("varve");
    let mut client = varve.client();
    for line in ["CONFIG SET sanitize-dump-payload no", "CONFIG SET hash-max-listpack-entries 1"] {
        assert_eq!(client.cmd(line).text(), "OK", "{line}");
    }
    for name in names {
        let mut body = payload_of(&unit, name);
        assert!(body.len() > 20, "{name}");
        // Under a right checksum, so that it is not that which is found.
        body.truncate(body.len() - varve_rdb::dump::FOOTER_BYTES);
        varve_rdb::dump::seal(&mut body);
        let before = varve.log().len();
        let reply = client.call(&[&b"RESTORE"[..], b"key", b"0", &body]).expect("a reply");
        assert_eq!(reply.text(), "ERR Bad data format", "{name}");
        assert_eq!(client.cmd("EXISTS key").integer(), Some(0), "{name}");
        let log = varve.log()[before..].to_owned();
        assert!(
            log.contains("RESTORE has refused a payload: at byte ") && log.contains("at key \"key\""),
            "{name}: {log}"
        );
    }
    assert_eq!(client.cmd("DEBUG VERIFY").text(), "OK");
}
