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
//! | hfew, hmany | HGET, HSET, HDEL and HSET again, of hashes of 10 fields of 100 B, and of 200 of 8 B | fields in a leaf of the key's object |
//! | sfew, smany | SISMEMBER, SREM and SADD again, of sets of 10 and of 200 members of 16 B | members in a leaf of the key's object |
//! | zfew, zmany | ZSCORE, ZRANK, ZADD, ZREM and ZADD again, of sorted sets of 10 and of 120 members of 16 B | members in a leaf of the key's object |
//! | hmid, hbig | the same of a hash of 20 000 fields of 16 + 32 B, and of 1 000 000 | directories and leaves of pairs |
//! | smid, sbig | the same of a set of 20 000 members of 16 B, and of 1 000 000 | directories and leaves of members |
//! | zmid, zbig | the same of a sorted set of 20 000 members of 16 B, and of 1 000 000 | trees, indexes of members and leaves |
//! | spop | SPOP of a set of 40 000 | members drawn and killed |
//! | zadd | ZADD of a member of 20 000 with another score | a tree's leaves and spine |
//! | zpopmin | ZADD of a new member and ZPOPMIN in turn, all scores equal | equal scores, the low end |
//! | zrange | ZRANGE of 10 of 20 000 | places in a tree, members in order |
//! | zscore | ZSCORE of a member of 20 000 | the index of members, a leaf's tags |
//! | zrank | ZRANK of a member of 20 000 | the same, and sums up the tree |
//! | zrem | ZREM of a member of 20 000, and ZADD of it again | leaves that shrink, the index |
//! | zties | ZADD of a new member, all scores equal | leaves in the order of members |
//! | exec | MULTI, SET, GET, INCR, EXEC, in turn | queued commands, a transaction that holds its shards |
//! | served | BLPOP by one client, LPUSH by the other, in turn | a waiter that is entered, served and taken out |
//! | xadd | XADD of two short fields, of 20 streams that are trimmed to about 1000 entries | entries appended to a node, a head that goes |
//! | xgroup | XADD, XREADGROUP of one entry and XACK, in turn, of 20 streams | a group's cursor, entries that are pending and acknowledged |
//! | hexpire | HEXPIRE of a field, in turn of a big hash and of small ones | fields that get another time, the wheel's entry |
//! | hgetex | HGETEX of a field with EX and with PERSIST, in turn of a big hash and of small ones | a field that is read, and gets and loses a time |
//! | rget, rset | as get and set, by a user with three patterns of keys | a right to a command and to a key |
//! | rmget | as mget, by a user with three patterns of keys | what each further key costs |
//! | events | SET of a random key, keyspace events on | an event that is published on two channels |
//! | tracked | 10 GETs by a client that tracks, 10 SETs by the other, in turn | reads that are remembered, changes that are reported |
//! | script | EVALSHA of a SET and a GET of a random key | a script's place, its stack and state, its commands, their replies |
//! | fcall | the same by FCALL | the state of functions, taken out and put back |
//! | empty | EVALSHA of a script that does nothing | what every script costs |
//! | bare | get, and no command is sampled for the rankings of keys | what the samples cost: get has at most 1% more |
//! | fresh | GET and SET of random keys in turn, time passes between batches | background steps of a new store |
//! | lived | the same in a store where values have grown, and with many collections and databases are gone | background steps of an old one: at most 5% more than fresh |
//! | watched | WATCH by one client, 8 SETs by the other, UNWATCH, in turn | a key that is watched, changes while keys are watched |

use crate::connection::Setting;
use varve_testkit::Random;
use varve_testkit::client::encode;

/// One loop.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// The feature that is switched on.
    pub(crate) setting: Setting,
    pub(crate) fill_requests: u64,
    /// Writes the `n`th request of the fill.
    pub(crate) fill: fn(u64, &mut Vec<u8>),
    /// Writes the `n`th request of the loop.
    pub(crate) request: fn(u64, &mut Vec<u8>),
    /// Which connection sends the `n`th request of the loop.
    pub(crate) client: fn(u64) -> usize,
    /// Time passes between batches, and background steps run.
    pub(crate) ages: bool,
}

/// A loop of one connection, nothing switched on.
const fn alone(
    name: &'static str,
    fill_requests: u64,
    fill: fn(u64, &mut Vec<u8>),
    request: fn(u64, &mut Vec<u8>),
) -> Script {
    Script { name, setting: Setting::Plain, fill_requests, fill, request, client: first, ages: false }
}

fn first(_: u64) -> usize {
    0
}

fn second(_: u64) -> usize {
    1
}

const KEYS: u64 = 20_000;
const COUNTERS: u64 = 5_000;
const SMALL_HASHES: u64 = 1_000;
const SMALL_HASH_FIELDS: u64 = 8;
/// Small collections of each kind.
const SMALLS: u64 = 500;
const LISTS: u64 = 50;
const LIST_ELEMENTS: u64 = 300;
/// Elements that one request of a list's fill brings.
const LIST_STEP: u64 = 30;

pub(crate) const SCRIPTS: &[Script] = &[
    alone("get", KEYS, set_key, get),
    alone("set", KEYS, set_key, set),
    alone("mget", KEYS, set_key, mget),
    alone("incr", COUNTERS, set_counter, incr),
    alone("hget", KEYS + SMALL_HASHES, fill_hash, hget),
    alone("list", LISTS * LIST_ELEMENTS / LIST_STEP, fill_list, list),
    alone("lpush", 50, fill_long_list, lpush),
    alone("lpop", 700, fill_long_list, lpop),
    alone("lnode", 100, fill_long_list, lnode),
    alone("lrange", 34, fill_long_list, lrange),
    alone("sadd", 1_000, sadd, sadd_another),
    alone("hset", KEYS, hset, hset_any),
    alone("hfew", SMALLS, |n, out| fill_fields(n, FEW_FIELDS, out), |n, out| change_field(n, FEW_FIELDS, out)),
    alone("hmany", SMALLS, |n, out| fill_fields(n, MANY_FIELDS, out), |n, out| change_field(n, MANY_FIELDS, out)),
    alone("sfew", SMALLS, |n, out| fill_members(n, 10, out), |n, out| change_member(n, 10, out)),
    alone("smany", SMALLS, |n, out| fill_members(n, 200, out), |n, out| change_member(n, 200, out)),
    alone("zfew", SMALLS, |n, out| fill_scored(n, 10, out), |n, out| change_scored(n, 10, out)),
    alone("zmany", SMALLS, |n, out| fill_scored(n, 120, out), |n, out| change_scored(n, 120, out)),
    alone("hmid", MIDDLE / BIG_STEP, fill_big_hash, |n, out| change_big_hash(n, MIDDLE, out)),
    alone("hbig", MILLION / BIG_STEP, fill_big_hash, |n, out| change_big_hash(n, MILLION, out)),
    alone("smid", MIDDLE / BIG_STEP, fill_big_set, |n, out| change_big_set(n, MIDDLE, out)),
    alone("sbig", MILLION / BIG_STEP, fill_big_set, |n, out| change_big_set(n, MILLION, out)),
    alone("zmid", MIDDLE / BIG_STEP, fill_big_zset, |n, out| change_big_zset(n, MIDDLE, out)),
    alone("zbig", MILLION / BIG_STEP, fill_big_zset, |n, out| change_big_zset(n, MILLION, out)),
    alone("spop", KEYS, sadd_two, spop),
    alone("zadd", KEYS, fill_zset, zadd),
    alone("zpopmin", KEYS, fill_ties, zpopmin),
    alone("zrange", KEYS, fill_ties, zrange),
    alone("zscore", KEYS, fill_zset, zscore),
    alone("zrank", KEYS, fill_zset, zrank),
    alone("zrem", KEYS, fill_zset, zrem),
    alone("zties", KEYS, fill_ties, zties),
    alone("exec", KEYS + COUNTERS, set_key_or_counter, transaction),
    Script { client: served_by, ..alone("served", KEYS, set_key, served) },
    alone("xadd", STREAMS * STREAM_ENTRIES, xadd, xadd),
    alone("xgroup", STREAMS, make_group, xgroup),
    alone("hexpire", KEYS + SMALL_HASHES, fill_hash, hexpire),
    alone("hgetex", KEYS + SMALL_HASHES, fill_hash, hgetex),
    Script { setting: Setting::Rights, client: second, ..alone("rget", KEYS, set_key, get) },
    Script { setting: Setting::Rights, client: second, ..alone("rset", KEYS, set_key, set) },
    Script { setting: Setting::Rights, client: second, ..alone("rmget", KEYS, set_key, mget) },
    Script { setting: Setting::Events, ..alone("events", KEYS, set_key, set) },
    Script { setting: Setting::Tracking, client: tracked_by, ..alone("tracked", KEYS, set_key, tracked) },
    Script { client: watched_by, ..alone("watched", KEYS, set_key, watched) },
    Script { setting: Setting::Scripts, ..alone("script", KEYS + LOADS, load_and_set_key, evalsha) },
    Script { setting: Setting::Scripts, ..alone("fcall", KEYS + LOADS, load_and_set_key, fcall) },
    Script { setting: Setting::Scripts, ..alone("empty", LOADS, load_and_set_key, evalsha_of_nothing) },
    Script { ages: true, ..alone("fresh", KEYS, set_key, get_or_set) },
    Script { setting: Setting::Unsampled, ..alone("bare", KEYS, set_key, get) },
    Script { ages: true, ..alone("lived", LIFE + KEYS, live_and_set_key, get_or_set) },
];

/// A write and a read of one key, and its name; a script that does nothing, and its name.
const BODY: &str = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])";
const BODY_SHA: &str = "2b20e84ba26251fc86a627f03be6dd614b31bac8";
const EMPTY: &str = "return 1";
const EMPTY_SHA: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
const LIBRARY: &str = "#!lua name=loops\nredis.register_function('write', function(KEYS, ARGV) \
                       redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1]) end)";
/// Requests that load these.
const LOADS: u64 = 3;

fn load_and_set_key(n: u64, out: &mut Vec<u8>) {
    match n {
        0 => encode(out, &["SCRIPT", "LOAD", BODY]),
        1 => encode(out, &["SCRIPT", "LOAD", EMPTY]),
        2 => encode(out, &["FUNCTION", "LOAD", LIBRARY]),
        _ => set_key(n - LOADS, out),
    }
}

fn evalsha(n: u64, out: &mut Vec<u8>) {
    let key = name('k', draw(n, KEYS));
    encode(out, &[b"EVALSHA".as_slice(), BODY_SHA.as_bytes(), b"1", key.as_bytes(), &value(n, 40)]);
}

fn fcall(n: u64, out: &mut Vec<u8>) {
    let key = name('k', draw(n, KEYS));
    encode(out, &[b"FCALL".as_slice(), b"write", b"1", key.as_bytes(), &value(n, 40)]);
}

fn evalsha_of_nothing(_: u64, out: &mut Vec<u8>) {
    encode(out, &["EVALSHA", EMPTY_SHA, "0"]);
}

/// A number below `below` that looks drawn, the same for the same `n`.
fn draw(n: u64, below: u64) -> u64 {
    Random::new(n.wrapping_mul(0xd134_2543_de82_ef95)).below(below as usize) as u64
}

/// 16 bytes.
fn name(kind: char, number: u64) -> String {
    format!("{kind}{number:015}")
}

/// A value of `bytes` letters: no number.
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

fn get_or_set(n: u64, out: &mut Vec<u8>) {
    if n.is_multiple_of(2) { get(n, out) } else { set(n, out) }
}

/// Values that grow to extents with room for much more, and are deleted, but for the one that lies last.
const GROWN: u64 = 100;
/// Requests for each of them: it begins, it grows; then deletions.
const GROWING: u64 = 3 * GROWN;
/// Hashes of [`DEAD_FIELDS`] fields that are made and deleted, in databases.
const DEAD_HASHES: u64 = 64;
const DEAD_FIELDS: u64 = 500;
/// Fields of one request.
const DEAD_STEP: u64 = 100;
/// Requests for each of these hashes: a database is chosen, fields come in steps, a key stays beside it, the hash goes.
const DYING: u64 = DEAD_FIELDS / DEAD_STEP + 3;
/// Requests of a store's life before it is measured; the last one goes back to the first database.
const LIFE: u64 = GROWING + DEAD_HASHES * DYING + 1;

/// The keys of a store that has lived long before it was filled.
fn live_and_set_key(n: u64, out: &mut Vec<u8>) {
    let grown = |n: u64| name('g', n % GROWN);
    match n {
        n if n < GROWN => encode(out, &["SETRANGE", &grown(n), "300000", "x"]),
        n if n < 2 * GROWN => encode(out, &["SETRANGE", &grown(n), "600000", "x"]),
        n if n == 3 * GROWN - 1 => encode(out, &["STRLEN", &grown(n)]),
        n if n < GROWING => encode(out, &["DEL", &grown(n)]),
        n if n < LIFE - 1 => die(n - GROWING, out),
        n if n == LIFE - 1 => encode(out, &["SELECT", "0"]),
        n => set_key(n - LIFE, out),
    }
}

/// A request of the life of a hash that ends.
fn die(n: u64, out: &mut Vec<u8>) {
    let (hash, step) = (n / DYING, n % DYING);
    let key = name('d', hash);
    match step {
        0 => encode(out, &["SELECT", &(hash % 16).to_string()]),
        1 => encode(out, &["SET", &name('s', hash), "stays"]),
        step if step == DYING - 1 => encode(out, &["DEL", &key]),
        step => {
            let mut words = vec!["HSET".to_string(), key];
            let first = (step - 2) * DEAD_STEP;
            words.extend((first..first + DEAD_STEP).flat_map(|field| [small_field(field), name('v', field)]));
            encode(out, &words);
        }
    }
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
    let (key, field) = some_field(n);
    encode(out, &["HGET", &key, &field]);
}

/// A field of the big hash or of a small one, which is there.
fn some_field(n: u64) -> (String, String) {
    if n.is_multiple_of(2) {
        ("hash".to_owned(), name('f', draw(n, KEYS)))
    } else {
        (name('h', draw(n, SMALL_HASHES)), small_field(draw(!n, SMALL_HASH_FIELDS)))
    }
}

fn hexpire(n: u64, out: &mut Vec<u8>) {
    let (key, field) = some_field(n);
    encode(out, &["HEXPIRE", &key, &(1_000 + draw(n + 1, 1_000)).to_string(), "FIELDS", "1", &field]);
}

fn hgetex(n: u64, out: &mut Vec<u8>) {
    let (key, field) = some_field(n / 2);
    if draw(n + 1, 2) == 0 {
        encode(out, &["HGETEX", &key, "EX", &(1_000 + draw(n, 1_000)).to_string(), "FIELDS", "1", &field]);
    } else {
        encode(out, &["HGETEX", &key, "PERSIST", "FIELDS", "1", &field]);
    }
}

const STREAMS: u64 = 20;
/// Entries to which a stream is trimmed, as far as whole nodes go.
const STREAM_ENTRIES: u64 = 1_000;

fn xadd(n: u64, out: &mut Vec<u8>) {
    let (key, most) = (name('x', n % STREAMS), STREAM_ENTRIES.to_string());
    let (one, two) = (draw(n, 100_000).to_string(), draw(!n, 100).to_string());
    encode(out, &["XADD", &key, "MAXLEN", "~", &most, "*", "job", &one, "tries", &two]);
}

fn make_group(n: u64, out: &mut Vec<u8>) {
    encode(out, &["XGROUP", "CREATE", &name('x', n), "group", "$", "MKSTREAM"]);
}

/// An entry's life: it is added, given to a consumer and acknowledged. Its ID is the request's number.
fn xgroup(n: u64, out: &mut Vec<u8>) {
    let entry = n / 3;
    let (key, id) = (name('x', entry % STREAMS), format!("{}-0", entry + 1));
    match n % 3 {
        0 => encode(out, &["XADD", &key, &id, "job", &draw(n, 100_000).to_string(), "tries", "0"]),
        1 => encode(out, &["XREADGROUP", "GROUP", "group", "worker", "COUNT", "1", "STREAMS", &key, ">"]),
        _ => encode(out, &["XACK", &key, "group", &id]),
    }
}

/// Fields of a hash, and bytes of a value.
const FEW_FIELDS: (u64, usize) = (10, 100);
const MANY_FIELDS: (u64, usize) = (200, 8);

/// A command of a key and the words of its `count` elements.
fn fill_with(command: &str, n: u64, count: u64, words: impl Fn(u64) -> Vec<Vec<u8>>, out: &mut Vec<u8>) {
    let mut all = vec![command.as_bytes().to_vec(), name('e', n).into_bytes()];
    all.extend((0..count).flat_map(words));
    encode(out, &all);
}

fn fill_fields(n: u64, (count, bytes): (u64, usize), out: &mut Vec<u8>) {
    fill_with("HSET", n, count, |field| vec![small_field(field).into_bytes(), value(n + field, bytes)], out);
}

fn change_field(n: u64, (count, bytes): (u64, usize), out: &mut Vec<u8>) {
    let (key, field) = (name('e', draw(n / 4, SMALLS)), small_field(draw(!(n / 4), count)));
    match n % 4 {
        0 => encode(out, &["HGET", &key, &field]),
        2 => encode(out, &["HDEL", &key, &field]),
        _ => encode(out, &[b"HSET".as_slice(), key.as_bytes(), field.as_bytes(), &value(n, bytes)]),
    }
}

fn fill_members(n: u64, count: u64, out: &mut Vec<u8>) {
    fill_with("SADD", n, count, |member| vec![name('m', member).into_bytes()], out);
}

fn change_member(n: u64, count: u64, out: &mut Vec<u8>) {
    let command = ["SISMEMBER", "SREM", "SADD"][(n % 3) as usize];
    encode(out, &[command, &name('e', draw(n / 3, SMALLS)), &name('m', draw(!(n / 3), count))]);
}

fn fill_scored(n: u64, count: u64, out: &mut Vec<u8>) {
    fill_with("ZADD", n, count, |member| vec![score(member).into_bytes(), name('m', member).into_bytes()], out);
}

fn change_scored(n: u64, count: u64, out: &mut Vec<u8>) {
    let (key, member) = (name('e', draw(n / 5, SMALLS)), name('m', draw(!(n / 5), count)));
    match n % 5 {
        0 => encode(out, &["ZSCORE", &key, &member]),
        1 => encode(out, &["ZRANK", &key, &member]),
        3 => encode(out, &["ZREM", &key, &member]),
        _ => encode(out, &["ZADD", &key, &score(n), &member]),
    }
}

/// Elements of a middle and of a big collection.
const MIDDLE: u64 = 20_000;
const MILLION: u64 = 1_000_000;
/// Elements that one request of a big collection's fill brings: the fill runs under callgrind as well.
const BIG_STEP: u64 = 1_000;

/// A command of the one big collection and the words of its `n`th thousand of elements.
fn fill_big(command: &str, n: u64, words: impl Fn(u64) -> Vec<Vec<u8>>, out: &mut Vec<u8>) {
    let mut all = vec![command.as_bytes().to_vec(), b"big".to_vec()];
    all.extend((n * BIG_STEP..(n + 1) * BIG_STEP).flat_map(words));
    encode(out, &all);
}

fn fill_big_hash(n: u64, out: &mut Vec<u8>) {
    fill_big("HSET", n, |field| vec![name('f', field).into_bytes(), value(field, 32)], out);
}

fn change_big_hash(n: u64, count: u64, out: &mut Vec<u8>) {
    let field = name('f', draw(n / 4, count));
    match n % 4 {
        0 => encode(out, &["HGET", "big", &field]),
        2 => encode(out, &["HDEL", "big", &field]),
        _ => encode(out, &[b"HSET".as_slice(), b"big", field.as_bytes(), &value(n, 32)]),
    }
}

fn fill_big_set(n: u64, out: &mut Vec<u8>) {
    fill_big("SADD", n, |member| vec![name('m', member).into_bytes()], out);
}

fn change_big_set(n: u64, count: u64, out: &mut Vec<u8>) {
    encode(out, &[["SISMEMBER", "SREM", "SADD"][(n % 3) as usize], "big", &name('m', draw(n / 3, count))]);
}

fn fill_big_zset(n: u64, out: &mut Vec<u8>) {
    fill_big("ZADD", n, |member| vec![score(member).into_bytes(), name('m', member).into_bytes()], out);
}

fn change_big_zset(n: u64, count: u64, out: &mut Vec<u8>) {
    let member = name('m', draw(n / 5, count));
    match n % 5 {
        0 => encode(out, &["ZSCORE", "big", &member]),
        1 => encode(out, &["ZRANK", "big", &member]),
        3 => encode(out, &["ZREM", "big", &member]),
        _ => encode(out, &["ZADD", "big", &score(n), &member]),
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

fn zscore(n: u64, out: &mut Vec<u8>) {
    encode(out, &["ZSCORE", "zset", &name('m', draw(n, KEYS))]);
}

fn zrank(n: u64, out: &mut Vec<u8>) {
    encode(out, &["ZRANK", "zset", &name('m', draw(n, KEYS))]);
}

fn zrem(n: u64, out: &mut Vec<u8>) {
    let member = name('m', draw(n / 2, KEYS));
    if n.is_multiple_of(2) {
        encode(out, &["ZREM", "zset", &member]);
    } else {
        encode(out, &["ZADD", "zset", &score(n), &member]);
    }
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

fn set_key_or_counter(n: u64, out: &mut Vec<u8>) {
    if n < KEYS { set_key(n, out) } else { set_counter(n - KEYS, out) }
}

fn transaction(n: u64, out: &mut Vec<u8>) {
    match n % 5 {
        0 => encode(out, &["MULTI"]),
        1 => set(n, out),
        2 => get(n, out),
        3 => incr(n, out),
        _ => encode(out, &["EXEC"]),
    }
}

fn served_by(n: u64) -> usize {
    usize::from(n.is_multiple_of(2))
}

fn served(n: u64, out: &mut Vec<u8>) {
    let queue = name('q', draw(n / 2, LISTS));
    if served_by(n) == 1 {
        encode(out, &["BLPOP", &queue, "0"]);
    } else {
        encode(out, &[b"LPUSH".as_slice(), queue.as_bytes(), &value(n, 40)]);
    }
}

fn tracked_by(n: u64) -> usize {
    usize::from(n % 20 < 10)
}

fn tracked(n: u64, out: &mut Vec<u8>) {
    // A key is written that was read ten requests before.
    if tracked_by(n) == 1 { get(n, out) } else { set(n - 10, out) }
}

fn watched_by(n: u64) -> usize {
    usize::from(n.is_multiple_of(10) || n % 10 == 9)
}

fn watched(n: u64, out: &mut Vec<u8>) {
    match n % 10 {
        0 => encode(out, &["WATCH", &name('k', draw(n + 4, KEYS)), &name('k', draw(n + 8, KEYS))]),
        9 => encode(out, &["UNWATCH"]),
        _ => set(n, out),
    }
}
