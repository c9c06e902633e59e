//! Long commands and the collections that they work on.
//!
//! ```text
//!   group          sources                                      a case
//!   sets           s0, s1: half of each is in the other; few    before: COPY s0 to     measured: SPOP to HALF
//!   hashes, lists, sorted sets, strings, keys: likewise
//!   at the limit   the sources, and keys that expire up to maxmemory: what is sent beside are SETs of new ones
//! ```
//! Sources stay as they are, so that one fill serves all cases of a group; a case that takes elements out works on a copy. What
//! a case leaves behind is the key `to`. Not here: how they are measured (`holds`).

use crate::turns::push;
use std::ops::Range;

/// Elements that one request of a fill brings.
pub(crate) const STEP: u64 = 200;
/// Members of the source `few`, which commands hold as one: the most of those that still do.
const FEW: u64 = 16_000;
/// Bytes of a string for each element that a collection would have.
const BYTES_EACH: u64 = 32;
/// Keys of a command that names many.
const NAMED: u64 = 10_000;

/// A source: its size out of that of the experiment, and the request that brings some of its elements.
pub(crate) struct Source {
    pub(crate) len: fn(u64) -> u64,
    pub(crate) write: fn(&mut Vec<u8>, Range<u64>, u64),
}

/// A case: its name, the commands before it, and those that are measured together.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) before: &'static [&'static str],
    pub(crate) measured: &'static [&'static str],
}

/// Cases on the same sources. The last one may destroy them.
pub(crate) struct Group {
    pub(crate) sources: &'static [Source],
    pub(crate) cases: &'static [Case],
    /// The memory is at its limit, and what is sent beside are SETs, for each of which keys that expire are evicted.
    pub(crate) at_limit: bool,
}

/// Cases beside which GETs are sent, with memory for all.
const fn group(sources: &'static [Source], cases: &'static [Case]) -> Group {
    Group { sources, cases, at_limit: false }
}

const fn all(size: u64) -> u64 {
    size
}

const fn few(size: u64) -> u64 {
    if size / 4 < FEW { size / 4 } else { FEW }
}

/// Keys with weights: a tenth of the elements has one.
const fn some(size: u64) -> u64 {
    size / 10
}

const fn source(write: fn(&mut Vec<u8>, Range<u64>, u64)) -> Source {
    Source { len: all, write }
}

const fn plain(name: &'static str, measured: &'static [&'static str]) -> Case {
    Case { name, before: &[], measured }
}

const fn on_copy(name: &'static str, before: &'static [&'static str], measured: &'static [&'static str]) -> Case {
    Case { name, before, measured }
}

pub(crate) const GROUPS: [Group; 7] = [
    group(
        &[source(members_0), source(members_1), Source { len: few, write: members_few }],
        &[
            plain("SMEMBERS", &["SMEMBERS s0"]),
            plain("SORT ALPHA of a set", &["SORT s0 ALPHA"]),
            plain("SINTER", &["SINTER s0 s1"]),
            plain("SINTER with a small set", &["SINTER few s0"]),
            plain("SINTERCARD", &["SINTERCARD 2 s0 s1"]),
            plain("SDIFF", &["SDIFF s0 s1"]),
            plain("SDIFF, the first set is small", &["SDIFF few s1"]),
            plain("SDIFFSTORE", &["SDIFFSTORE to s0 s1"]),
            plain("SINTERSTORE", &["SINTERSTORE to s0 s1"]),
            plain("SUNIONSTORE", &["SUNIONSTORE to s0 s1"]),
            plain("SRANDMEMBER of half", &["SRANDMEMBER s0 HALF"]),
            plain("SRANDMEMBER of half, repeated", &["SRANDMEMBER s0 -HALF"]),
            plain("COPY of a set", &["COPY s0 to"]),
            on_copy("SPOP of half", &["COPY s0 to"], &["SPOP to HALF"]),
            on_copy("DEL of a set", &["COPY s0 to"], &["DEL to"]),
            on_copy("UNLINK of a set", &["COPY s0 to"], &["UNLINK to"]),
        ],
    ),
    group(
        &[source(fields)],
        &[
            plain("HGETALL", &["HGETALL h"]),
            plain("HVALS", &["HVALS h"]),
            plain("HRANDFIELD of half", &["HRANDFIELD h HALF WITHVALUES"]),
            plain("COPY of a hash", &["COPY h to"]),
        ],
    ),
    group(
        &[source(elements), Source { len: some, write: weights }],
        &[
            plain("LRANGE 0 -1", &["LRANGE l 0 -1"]),
            plain("SORT of a list", &["SORT l"]),
            plain("SORT STORE", &["SORT l STORE to"]),
            plain("SORT BY other keys", &["SORT l BY weight:*"]),
            plain("SORT GET other keys", &["SORT l BY nosort GET weight:*"]),
            plain("LPOS without a match", &["LPOS l none"]),
            plain("LREM without a match", &["LREM l 0 none"]),
            plain("LINSERT without a match", &["LINSERT l BEFORE none it"]),
            plain("COPY of a list", &["COPY l to"]),
            on_copy("LTRIM of half", &["COPY l to"], &["LTRIM to HALF -1"]),
        ],
    ),
    group(
        &[source(scored_0), source(scored_1), Source { len: few, write: scored_few }],
        &[
            plain("ZRANGE 0 -1", &["ZRANGE z0 0 -1"]),
            plain("ZUNION", &["ZUNION 2 z0 z1"]),
            plain("ZUNIONSTORE", &["ZUNIONSTORE to 2 z0 z1"]),
            plain("ZINTERSTORE", &["ZINTERSTORE to 2 z0 z1"]),
            plain("ZINTER with a small set", &["ZINTER 2 few z0"]),
            plain("ZRANGESTORE", &["ZRANGESTORE to z0 0 -1"]),
            plain("COPY of a sorted set", &["COPY z0 to"]),
            on_copy("ZREMRANGEBYSCORE of half", &["COPY z0 to"], &["ZREMRANGEBYSCORE to 0 HALF"]),
            on_copy("ZREMRANGEBYRANK of half", &["COPY z0 to"], &["ZREMRANGEBYRANK to 0 HALF"]),
            on_copy("ZPOPMIN of half", &["COPY z0 to"], &["ZPOPMIN to HALF"]),
        ],
    ),
    group(
        &[source(bytes)],
        &[
            plain("BITCOUNT", &["BITCOUNT text"]),
            plain("BITOP NOT", &["BITOP NOT to text"]),
            plain("COPY of a string", &["COPY text to"]),
        ],
    ),
    Group {
        sources: &[source(members_0)],
        cases: &[
            plain("SORT ALPHA beside SETs at the limit", &["SORT s0 ALPHA"]),
            plain("SMEMBERS beside SETs at the limit", &["SMEMBERS s0"]),
        ],
        at_limit: true,
    },
    group(
        &[source(keys)],
        &[
            plain("KEYS without a match", &["KEYS none*"]),
            plain("KEYS inside MULTI", &["MULTI", "KEYS none*", "EXEC"]),
            plain("MGET of 10 000 keys", &["MGET KEYS"]),
            plain("DEL of 10 000 keys", &["DEL KEYS"]),
            plain("FLUSHALL", &["FLUSHALL"]),
        ],
    ),
];

/// The words of a command: HALF is half of the size, -HALF that below zero, KEYS are names of keys.
pub(crate) fn words(command: &str, size: u64) -> Vec<Vec<u8>> {
    let names = || (0..NAMED.min(size)).map(key);
    let all = command.split(' ').enumerate().map(|(at, word)| match word {
        "HALF" => vec![(size / 2).to_string().into_bytes()],
        "-HALF" => vec![format!("-{}", size / 2).into_bytes()],
        "KEYS" if at > 0 => names().collect(),
        word => vec![word.as_bytes().to_vec()],
    });
    all.flatten().collect()
}

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

fn member(number: u64) -> Vec<u8> {
    format!("member:{number:09}").into_bytes()
}

fn request(out: &mut Vec<u8>, head: [&str; 2], words: impl Iterator<Item = Vec<u8>>) {
    let words: Vec<Vec<u8>> = head.iter().map(|word| word.as_bytes().to_vec()).chain(words).collect();
    push(out, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

fn members_0(out: &mut Vec<u8>, range: Range<u64>, _: u64) {
    request(out, ["SADD", "s0"], range.map(member));
}

fn members_1(out: &mut Vec<u8>, range: Range<u64>, size: u64) {
    request(out, ["SADD", "s1"], range.map(|number| member(number + size / 2)));
}

fn members_few(out: &mut Vec<u8>, range: Range<u64>, size: u64) {
    request(out, ["SADD", "few"], range.map(|number| member(number + size / 3)));
}

fn fields(out: &mut Vec<u8>, range: Range<u64>, _: u64) {
    request(out, ["HSET", "h"], range.flat_map(|number| [member(number), key(number)]));
}

fn elements(out: &mut Vec<u8>, range: Range<u64>, _: u64) {
    request(out, ["RPUSH", "l"], range.map(scattered));
}

fn scattered(number: u64) -> Vec<u8> {
    (number.wrapping_mul(varve_base::hash::GOLDEN_RATIO) >> 24).to_string().into_bytes()
}

fn scored(out: &mut Vec<u8>, name: &str, range: Range<u64>, first: u64) {
    request(out, ["ZADD", name], range.flat_map(|number| [number.to_string().into_bytes(), member(number + first)]));
}

fn scored_0(out: &mut Vec<u8>, range: Range<u64>, _: u64) {
    scored(out, "z0", range, 0);
}

fn scored_1(out: &mut Vec<u8>, range: Range<u64>, size: u64) {
    scored(out, "z1", range, size / 2);
}

fn scored_few(out: &mut Vec<u8>, range: Range<u64>, size: u64) {
    scored(out, "few", range, size / 3);
}

/// The weights of some elements of the list; of the others there are none.
fn weights(out: &mut Vec<u8>, range: Range<u64>, _: u64) {
    let name = |number| [b"weight:", &*scattered(number)].concat();
    let pairs: Vec<Vec<u8>> = range.flat_map(|number| [name(number), number.to_string().into_bytes()]).collect();
    let head = std::iter::once(&b"MSET"[..]);
    push(out, &head.chain(pairs.iter().map(Vec::as_slice)).collect::<Vec<_>>());
}

/// A string, written piece by piece.
fn bytes(out: &mut Vec<u8>, range: Range<u64>, _: u64) {
    let piece: Vec<u8> = range.clone().flat_map(|number| [number as u8; BYTES_EACH as usize]).collect();
    push(out, &[b"SETRANGE", b"text", (range.start * BYTES_EACH).to_string().as_bytes(), &piece]);
}

fn keys(out: &mut Vec<u8>, range: Range<u64>, _: u64) {
    let pairs: Vec<Vec<u8>> = range.flat_map(|number| [key(number), b"value".to_vec()]).collect();
    let head = std::iter::once(&b"MSET"[..]);
    push(out, &head.chain(pairs.iter().map(Vec::as_slice)).collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_case_has_a_name_of_its_own_and_words() {
        let cases = || GROUPS.iter().flat_map(|group| group.cases);
        let names: HashSet<&str> = cases().map(|case| case.name).collect();
        assert_eq!(names.len(), cases().count());
        assert_eq!(words("SPOP to HALF", 10), [&b"SPOP"[..], b"to", b"5"]);
        assert_eq!(words("DEL KEYS", 3).len(), 4);
        assert_eq!(words("KEYS none*", 3), [&b"KEYS"[..], b"none*"]);
    }
}
