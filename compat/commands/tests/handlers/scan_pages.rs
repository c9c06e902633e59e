//! No COUNT makes one call of the SCAN family walk over all of a large collection, or over all keys.

use std::collections::HashSet;

use crate::common::Server;
use varve_protocol::Resp;

/// Elements of each collection, and keys beside them.
const LEN: usize = 20_000;
/// Names that one call may tell: the page, and the other elements of the last leaf or bucket.
const PAGE_MAX: usize = 4096 + 256;

fn run(server: &mut Server, line: &str) -> Vec<u8> {
    server.run(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

/// The names that a whole walk tells, and the number of names of its largest page.
fn walk(server: &mut Server, command: &str, options: &str) -> (HashSet<String>, usize) {
    let (mut cursor, mut names, mut largest) = ("0".to_string(), HashSet::new(), 0);
    loop {
        let reply =
            String::from_utf8(run(server, &format!("{command} {cursor} COUNT 1000000000{options}"))).expect("text");
        cursor = reply.lines().nth(2).expect("a cursor").to_string();
        let page: Vec<&str> = reply.lines().filter(|line| line.starts_with("name:")).collect();
        largest = largest.max(page.len());
        names.extend(page.into_iter().map(str::to_string));
        if cursor == "0" {
            return (names, largest);
        }
    }
}

#[test]
fn issue_11_no_count_holds_a_shard_for_a_whole_walk() {
    let mut server = Server::new(Resp::V2);
    for n in 0..LEN {
        for line in [
            format!("SET name:{n} v"),
            format!("SADD s name:{n}"),
            format!("HSET h name:{n} v"),
            format!("ZADD z {n} name:{n}"),
        ] {
            run(&mut server, &line);
        }
    }
    for (command, options) in
        [("SCAN", ""), ("SSCAN s", ""), ("HSCAN h", ""), ("HSCAN h", " NOVALUES"), ("ZSCAN z", "")]
    {
        let (names, largest) = walk(&mut server, command, options);
        assert_eq!(names.len(), LEN, "{command} tells each");
        assert!((2048..=PAGE_MAX).contains(&largest), "{command}: {largest} names in one call");
    }
    let (none, _) = walk(&mut server, "SSCAN s", " MATCH none:*");
    assert!(none.is_empty(), "a page may tell nothing, and the walk goes on");
}

/// Names are counted by their bytes too: a page of long ones is short, and KEYS of them is in parts however few they are.
#[test]
fn issue_11_pages_of_long_names_are_short() {
    const NAMES: usize = 300;
    const LONG: usize = 16 << 10;
    let mut server = Server::new(Resp::V2);
    for n in 0..NAMES {
        let name = format!("name:{n}:{}", "x".repeat(LONG));
        for words in [
            vec!["SET", &name, "v"],
            vec!["SADD", "s", &name],
            vec!["ZADD", "z", "1", &name],
            vec!["HSET", "h", &name, "v"],
        ] {
            server.run(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        }
    }
    // Nine names are more than a call looks at; a leaf holds up to some hundred, and a bucket seven.
    for (command, most) in [("SCAN", 64), ("SSCAN s", 200), ("HSCAN h", 200), ("ZSCAN z", 64)] {
        let (names, largest) = walk(&mut server, command, "");
        assert_eq!(names.len(), NAMES, "{command} tells each");
        assert!((8..=most).contains(&largest), "{command}: {largest} names in one call");
    }
    let (mut reply, mut turns, mut ended) = (Vec::new(), 0, false);
    while !ended {
        let words: &[&[u8]] = if turns == 0 { &[b"KEYS", b"name:*"] } else { &[] };
        let (more, now) = server.turn_as(1, words);
        reply.extend(more);
        (ended, turns) = (now, turns + 1);
    }
    assert!(turns > 1, "in parts");
    assert_eq!(reply.windows(5).filter(|part| part == b"name:").count(), NAMES);
}
