//! Replies of whole commands, byte for byte, against those that redis-server 7.0.15 gave to the same lines
//! (`data/peer_replies.txt`) and, for commands that it does not have, against what their documentation says
//! (`data/newer_replies.txt`).
//!
//! ```text
//! # section        an empty store
//! > COMMAND args   "..." quotes, with \r \n \" \\ \xNN; <5*a> is aaaaa
//! 2 reply          RESP2, with the same escapes; `...` at the end stands for anything
//! 3 reply          RESP3, where it differs
//! @ 1500           the clock moves on 1500 milliseconds
//! & 3              nodes of streams have 3 entries at most, up to the next section
//! ```

use crate::common::Server;
use varve_protocol::Resp;

#[test]
fn as_the_peer_replies() {
    check(include_str!("data/peer_replies.txt"));
}

#[test]
fn hashes_as_the_peer_replies() {
    check(include_str!("data/peer_hash.txt"));
}

#[test]
fn lists_as_the_peer_replies() {
    check(include_str!("data/peer_list.txt"));
}

#[test]
fn sorted_sets_as_the_peer_replies() {
    check(include_str!("data/peer_zset.txt"));
}

#[test]
fn positions_as_the_peer_replies() {
    check(include_str!("data/peer_geo.txt"));
}

#[test]
fn sets_as_the_peer_replies() {
    check(include_str!("data/peer_set.txt"));
}

#[test]
fn sort_as_the_peer_replies() {
    check(include_str!("data/peer_sort.txt"));
}

#[test]
fn bitmaps_as_the_peer_replies() {
    check(include_str!("data/peer_bitmap.txt"));
}

#[test]
fn hyperloglogs_as_the_peer_replies() {
    check(include_str!("data/peer_hyperloglog.txt"));
}

#[test]
fn streams_as_the_peer_replies() {
    check(include_str!("data/peer_stream.txt"));
}

#[test]
fn groups_of_streams_as_the_peer_replies() {
    check(include_str!("data/peer_stream_groups.txt"));
}

#[test]
fn dump_and_restore_as_the_peer_replies() {
    check(include_str!("data/peer_dump.txt"));
}

#[test]
fn blocking_commands_as_the_peer_replies() {
    check(include_str!("data/peer_blocking.txt"));
}

#[test]
fn newer_commands() {
    check(include_str!("data/newer_replies.txt"));
}

fn check(script: &str) {
    for resp in [Resp::V2, Resp::V3] {
        let mut wrong = Vec::new();
        let mut server = Server::new(resp);
        let mut lines = script.lines().peekable();
        let mut section = "";
        while let Some(line) = lines.next() {
            match line.as_bytes().first() {
                Some(b'#') => {
                    section = line;
                    server = Server::new(resp);
                }
                Some(b'@') => server.advance(line[2..].parse().expect("milliseconds")),
                Some(b'&') => server.set_node_entries(line[2..].parse().expect("entries")),
                Some(b'>') => {
                    let second = &lines.next().expect("a reply")[2..];
                    let third = lines.next_if(|line| line.starts_with("3 ")).map_or(second, |line| &line[2..]);
                    let want = if resp == Resp::V2 { second } else { third };
                    let words = words(&line[2..]);
                    let got = escape(&server.run(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()));
                    let fits = want.strip_suffix("...").map_or(got == want, |head| got.starts_with(head));
                    if !fits {
                        wrong.push(format!("{section} {resp:?}\n  {line}\n  want {want}\n  got  {got}"));
                    }
                }
                _ => assert!(line.is_empty(), "no such line: {line}"),
            }
        }
        assert!(wrong.is_empty(), "{} replies differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// The arguments of a line.
fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line.as_bytes();
    loop {
        rest = rest.trim_ascii_start();
        match rest.first() {
            None => return words,
            Some(b'"') => {
                let (word, behind) = quoted(&rest[1..]);
                words.push(word);
                rest = behind;
            }
            Some(_) => {
                let end = rest.iter().position(|b| *b == b' ').unwrap_or(rest.len());
                words.push(repeated(&rest[..end]).unwrap_or_else(|| rest[..end].to_vec()));
                rest = &rest[end..];
            }
        }
    }
}

fn quoted(mut rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut word = Vec::new();
    loop {
        match rest {
            [b'"', behind @ ..] => return (word, behind),
            [b'\\', b'x', high, low, behind @ ..] => {
                let digit = |b: u8| char::from(b).to_digit(16).expect("a hex digit") as u8;
                word.push(digit(*high) << 4 | digit(*low));
                rest = behind;
            }
            [b'\\', c, behind @ ..] => {
                word.push(match c {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    c => *c,
                });
                rest = behind;
            }
            [c, behind @ ..] => {
                word.push(*c);
                rest = behind;
            }
            [] => panic!("a quote is not closed"),
        }
    }
}

/// `<5*a>` as `aaaaa`.
fn repeated(word: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(word).ok()?.strip_prefix('<')?.strip_suffix('>')?;
    let (count, what) = text.split_once('*')?;
    Some(what.repeat(count.parse().ok()?).into_bytes())
}

fn escape(bytes: &[u8]) -> String {
    let one = |b: &u8| match b {
        b'\r' => "\\r".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\\' => "\\\\".to_owned(),
        0x20..0x7f => char::from(*b).to_string(),
        b => format!("\\x{b:02x}"),
    };
    bytes.iter().map(one).collect()
}
