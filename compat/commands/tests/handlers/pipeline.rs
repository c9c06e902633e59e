//! Several requests of one turn: what an earlier one changes holds for the later ones, which were parsed before it ran.

use crate::common::Server;
use varve_protocol::Resp;

fn request(out: &mut Vec<u8>, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    words.iter().for_each(|word| out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
}

fn pipeline(lines: &[&str]) -> String {
    let mut input = Vec::new();
    lines.iter().for_each(|line| request(&mut input, line));
    String::from_utf8(Server::new(Resp::V2).send(&mut input)).expect("text")
}

#[test]
fn keys_are_those_of_the_database_that_was_swapped_in() {
    let replies = pipeline(&["SET k zero", "SWAPDB 0 1", "GET k", "SET k one", "MSET k 1 m 2", "SWAPDB 0 1", "GET k"]);
    assert_eq!(replies, "+OK\r\n+OK\r\n$-1\r\n+OK\r\n+OK\r\n+OK\r\n$4\r\nzero\r\n");
}

#[test]
fn keys_are_those_of_the_database_after_a_flush() {
    // Another database keeps a key, so that the flushed one gets a new physical number.
    let replies = pipeline(&["SET k 1", "SELECT 1", "SET k 2", "FLUSHDB", "GET k", "SET k 3", "GET k", "DBSIZE"]);
    assert_eq!(replies, "+OK\r\n+OK\r\n+OK\r\n+OK\r\n$-1\r\n+OK\r\n$1\r\n3\r\n:1\r\n");
}

#[test]
fn replies_of_one_turn_are_bounded_and_none_is_lost() {
    let mut server = Server::new(Resp::V2);
    let value = "v".repeat(200_000);
    let mut input = Vec::new();
    request(&mut input, &format!("SET k {value}"));
    (0..40).for_each(|_| request(&mut input, "GET k"));
    let replies = server.send(&mut input);
    assert_eq!(replies.len(), 5 + 40 * (200_000 + "$200000\r\n\r\n".len()));
}

/// Others wait for a shard that is kept from command to command: no longer for long commands than for short ones.
#[test]
fn long_commands_keep_their_shard_for_fewer_in_a_row() {
    let fields: Vec<String> = (0..20).map(|n| format!("f{n} v")).collect();
    for (line, holds) in [("SET k v".to_string(), 1), (format!("HSET h {}", fields.join(" ")), 4)] {
        let mut server = Server::new(Resp::V2);
        let mut input = Vec::new();
        (0..12).for_each(|_| request(&mut input, &line));
        server.send(&mut input);
        assert_eq!(server.holds(), holds, "{line}");
    }
}
