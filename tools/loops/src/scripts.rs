//! The loops: what fills the store, and what is then asked of it. The `n`th request is the same at any time.
//!
//! | loop | requests | what they cover |
//! |---|---|---|
//! | get | GET of a random key, 16 B and 64 B | the request path, the index |
//! | mget | MGET of 30 random keys | commands of many keys |
//! | set | SET of a random key, 16 B and 16 to 128 B | values written in place and appended to segments |
//! | incr | INCR of a random key | values changed in place |
//! | hget | HGET, in turn of a big hash and of small ones | elements' index, packed nodes |
//! | list | LPUSH and LPOP in turn, of lists of 300 | packed nodes, ends of a spine |
//! | lpush | LPUSH, of one list of some thousands | a chain's end, a new node now and then |
//! | lpop | LPOP, of one list of some thousands | the same the other way |
//! | lnode | LPUSH of 16 elements of 1000 bytes, and as many LPOP, in turn | nodes made and dropped |
//! | lrange | LRANGE of 100, of a list of 1000 | a place in a chain, many entries to a reply |
//! | sadd | SADD of a new member | elements appended, an index that grows |
//! | hset | HSET of a field that is new half the time | values in place, elements appended |
//! | spop | SPOP of a set of 40 000 | members drawn and killed |
//! | zadd | ZADD of a member of 20 000 with another score | a tree's leaves and spine |
//! | zpopmin | ZADD of a new member and ZPOPMIN in turn, all scores equal | equal scores, the low end |
//! | zrange | ZRANGE of 10 of 20 000 | places in a tree, members in order |
//! | zties | ZADD of a new member, all scores equal | leaves in the order of members |

use varve_testkit::Random;
use varve_testkit::client::encode;

/// One loop.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) fill_requests: u64,
    /// Writes the `n`th request of the fill.
    pub(crate) fill: fn(u64, &mut Vec<u8>),
    /// Writes the `n`th request of the loop.
    pub(crate) request: fn(u64, &mut Vec<u8>),
}

const KEYS: u64 = 20_000;
const COUNTERS: u64 = 5_000;
const SMALL_HASHES: u64 = 1_000;
const SMALL_HASH_FIELDS: u64 = 8;
const LISTS: u64 = 50;
const LIST_ELEMENTS: u64 = 300;
/// Elements that one request of a list's fill brings.
const LIST_STEP: u64 = 30;

pub(crate) const SCRIPTS: &[Script] = &[
    Script { name: "get", fill_requests: KEYS, fill: set_key, request: get },
    Script { name: "set", fill_requests: KEYS, fill: set_key, request: set },
    Script { name: "mget", fill_requests: KEYS, fill: set_key, request: mget },
    Script { name: "incr", fill_requests: COUNTERS, fill: set_counter, request: incr },
    Script { name: "hget", fill_requests: KEYS + SMALL_HASHES, fill: fill_hash, request: hget },
    Script { name: "list", fill_requests: LISTS * LIST_ELEMENTS / LIST_STEP, fill: fill_list, request: list },
    Script { name: "lpush", fill_requests: 50, fill: fill_long_list, request: lpush },
    Script { name: "lpop", fill_requests: 700, fill: fill_long_list, request: lpop },
    Script { name: "lnode", fill_requests: 100, fill: fill_long_list, request: lnode },
    Script { name: "lrange", fill_requests: 34, fill: fill_long_list, request: lrange },
    Script { name: "sadd", fill_requests: 1_000, fill: sadd, request: sadd_another },
    Script { name: "hset", fill_requests: KEYS, fill: hset, request: hset_any },
    Script { name: "spop", fill_requests: KEYS, fill: sadd_two, request: spop },
    Script { name: "zadd", fill_requests: KEYS, fill: fill_zset, request: zadd },
    Script { name: "zpopmin", fill_requests: KEYS, fill: fill_ties, request: zpopmin },
    Script { name: "zrange", fill_requests: KEYS, fill: fill_ties, request: zrange },
    Script { name: "zties", fill_requests: KEYS, fill: fill_ties, request: zties },
];

/// A number below `below` that looks drawn, the same for the same `n`.
fn draw(n: u64, below: u64) -> u64 {
    Random::new(n.wrapping_mul(0xd134_2543_de82_ef95)).below(below as usize) as u64
}

/// 16 bytes.
fn name(kind: char, number: u64) -> String {
    format!("{kind}{number:015}")
}

/// So many bytes that are no number.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..bytes).map(|_| b'a' + random.below(26) as u8).collect()
}

fn set_key(n: u64, out: &mut Vec<u8>) {
    encode(out, &[b"SET".as_slice(), name('k', n).as_bytes(), &value(n, 64)]);
}

fn get(n: u64, out: &mut Vec<u8>) {
    encode(out, &["GET", &name('k', draw(n, KEYS))]);
}

/// As many keys as show whether each costs the same.
fn mget(n: u64, out: &mut Vec<u8>) {
    let keys: Vec<String> = (0..30).map(|key| name('k', draw(n * 30 + key, KEYS))).collect();
    encode(out, &["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect::<Vec<_>>());
}

fn set(n: u64, out: &mut Vec<u8>) {
    let bytes = 16 + draw(!n, 113) as usize;
    encode(out, &[b"SET".as_slice(), name('k', draw(n, KEYS)).as_bytes(), &value(n, bytes)]);
}

fn set_counter(n: u64, out: &mut Vec<u8>) {
    encode(out, &["SET", &name('c', n), &(100_000 + n).to_string()]);
}

fn incr(n: u64, out: &mut Vec<u8>) {
    encode(out, &["INCR", &name('c', draw(n, COUNTERS))]);
}

fn fill_hash(n: u64, out: &mut Vec<u8>) {
    if n < KEYS {
        encode(out, &[b"HSET".as_slice(), b"hash", name('f', n).as_bytes(), &value(n, 32)]);
        return;
    }
    let mut words = vec![b"HSET".to_vec(), name('h', n - KEYS).into_bytes()];
    words.extend((0..SMALL_HASH_FIELDS).flat_map(|field| [small_field(field).into_bytes(), value(field, 12)]));
    encode(out, &words);
}

fn small_field(number: u64) -> String {
    format!("field{number}")
}

fn hget(n: u64, out: &mut Vec<u8>) {
    if n.is_multiple_of(2) {
        encode(out, &["HGET", "hash", &name('f', draw(n, KEYS))]);
    } else {
        let field = small_field(draw(!n, SMALL_HASH_FIELDS));
        encode(out, &["HGET", &name('h', draw(n, SMALL_HASHES)), &field]);
    }
}

fn fill_list(n: u64, out: &mut Vec<u8>) {
    let mut words = vec![b"RPUSH".to_vec(), name('l', n % LISTS).into_bytes()];
    words.extend((0..LIST_STEP).map(|element| value(n * LIST_STEP + element, 40)));
    encode(out, &words);
}

fn list(n: u64, out: &mut Vec<u8>) {
    let key = name('l', draw(n, LISTS));
    if n.is_multiple_of(2) {
        encode(out, &[b"LPUSH".as_slice(), key.as_bytes(), &value(n, 40)]);
    } else {
        encode(out, &["LPOP", &key]);
    }
}

fn fill_long_list(n: u64, out: &mut Vec<u8>) {
    let mut words = vec![b"RPUSH".to_vec(), b"list".to_vec()];
    words.extend((0..LIST_STEP).map(|element| value(n * LIST_STEP + element, 12)));
    encode(out, &words);
}

fn lpush(n: u64, out: &mut Vec<u8>) {
    encode(out, &[b"LPUSH".as_slice(), b"list", &value(n, 12)]);
}

fn lpop(_: u64, out: &mut Vec<u8>) {
    encode(out, &["LPOP", "list"]);
}

fn lnode(n: u64, out: &mut Vec<u8>) {
    if n % 32 < 16 {
        encode(out, &[b"LPUSH".as_slice(), b"list", &value(n, 1000)]);
    } else {
        lpop(n, out);
    }
}

fn lrange(n: u64, out: &mut Vec<u8>) {
    let first = draw(n, 900);
    encode(out, &["LRANGE", "list", &first.to_string(), &(first + 99).to_string()]);
}

fn sadd(n: u64, out: &mut Vec<u8>) {
    encode(out, &["SADD", "set", &name('m', n)]);
}

fn sadd_another(n: u64, out: &mut Vec<u8>) {
    sadd(n + KEYS, out);
}

fn sadd_two(n: u64, out: &mut Vec<u8>) {
    encode(out, &["SADD", "set", &name('m', n), &name('n', n)]);
}

fn spop(_: u64, out: &mut Vec<u8>) {
    encode(out, &["SPOP", "set"]);
}

fn hset(n: u64, out: &mut Vec<u8>) {
    encode(out, &[b"HSET".as_slice(), b"hash", name('f', n).as_bytes(), &value(n, 12)]);
}

fn hset_any(n: u64, out: &mut Vec<u8>) {
    hset(draw(n, 2 * KEYS), out);
}

/// A score of 0 to 1 000 000.
fn score(n: u64) -> String {
    draw(n.wrapping_add(77), 1_000_001).to_string()
}

fn fill_zset(n: u64, out: &mut Vec<u8>) {
    encode(out, &["ZADD", "zset", &score(n), &name('m', n)]);
}

fn zadd(n: u64, out: &mut Vec<u8>) {
    encode(out, &["ZADD", "zset", &score(n + KEYS), &name('m', draw(n, KEYS))]);
}

/// A member that hardly comes twice; all share their first 12 bytes.
fn tied_member(n: u64) -> String {
    format!("element:{:012}", draw(n.wrapping_add(991), 100_000_000))
}

fn fill_ties(n: u64, out: &mut Vec<u8>) {
    encode(out, &["ZADD", "zset", "0", &tied_member(n)]);
}

fn zties(n: u64, out: &mut Vec<u8>) {
    fill_ties(n + KEYS, out);
}

fn zpopmin(n: u64, out: &mut Vec<u8>) {
    if n.is_multiple_of(2) { zties(n, out) } else { encode(out, &["ZPOPMIN", "zset"]) }
}

fn zrange(n: u64, out: &mut Vec<u8>) {
    let first = draw(n, KEYS - 10);
    encode(out, &["ZRANGE", "zset", &first.to_string(), &(first + 9).to_string()]);
}
