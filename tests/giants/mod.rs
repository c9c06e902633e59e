//! Long collections of the storm, which saves and rewrites show in many steps: they are renamed, copied, changed, moved to other
//! databases and removed meanwhile.
//!
//! Each name is one type's, and its elements are drawn from [`ELEMENTS`] that there are: none grows beyond that for long.

use varve_testkit::Random;

type Request = Vec<Vec<u8>>;

/// Elements of a collection at most: some ten steps of a walk.
const ELEMENTS: usize = 3000;
/// Names of each type in a database.
const NAMES: usize = 2;
/// Elements of one command at most: more than a command takes in one part.
const AT_ONCE: usize = 1500;

const TYPES: [&str; 5] = ["list", "hash", "set", "zset", "stream"];

/// One command on such a collection, in the database that is selected. Most add something while the clients' data grows.
pub(crate) fn command(random: &mut Random, growing: bool) -> Request {
    let ty = TYPES[random.below(TYPES.len())];
    let [key, other] = [0, 1].map(|_| name(random, ty));
    match random.below(12) {
        0 => request(&["RENAME", &key, &other]),
        1 => request(&["COPY", &key, &other, "REPLACE"]),
        2 => request(&["COPY", &key, &other, "DB", &(1 + random.below(3)).to_string(), "REPLACE"]),
        3 => request(&["MOVE", &key, &(1 + random.below(3)).to_string()]),
        4 if random.one_in(3) => request(&["UNLINK", &key]),
        4 => request(&["PEXPIRE", &key, &(1 + random.below(3000)).to_string()]),
        5 => whole(random, ty, &key, &other),
        6 | 7 => shrink(random, ty, &key),
        8..=10 if !growing => shrink(random, ty, &key),
        _ => grow(random, ty, &key),
    }
}

fn name(random: &mut Random, ty: &str) -> String {
    format!("giant:{ty}:{}", random.below(NAMES))
}

fn request(words: &[&str]) -> Request {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// An element of many, some of which are too long to be packed.
fn element(random: &mut Random) -> String {
    let number = random.below(ELEMENTS);
    let pad = if number.is_multiple_of(500) { 3000 } else { number % 30 };
    format!("{number}:{}", "e".repeat(pad))
}

fn grow(random: &mut Random, ty: &str, key: &str) -> Request {
    let mut words = request(match ty {
        "list" if random.one_in(2) => &["LPUSH"],
        "list" => &["RPUSH"],
        "hash" => &["HSET"],
        "set" => &["SADD"],
        "zset" => &["ZADD"],
        _ => &["XADD"],
    });
    words.push(key.into());
    if ty == "stream" {
        words.extend(request(&["MAXLEN", "~", "3000", "*", "field"]));
        words.push(element(random).into());
        return words;
    }
    for _ in 0..1 + random.below(AT_ONCE) {
        match ty {
            "hash" => words.extend([random.below(ELEMENTS).to_string().into(), element(random).into()]),
            "zset" => words.extend([random.below(100).to_string().into(), element(random).into()]),
            _ => words.push(element(random).into()),
        }
    }
    words
}

fn shrink(random: &mut Random, ty: &str, key: &str) -> Request {
    let count = (1 + random.below(AT_ONCE)).to_string();
    let one = element(random);
    let kind = random.below(3);
    match (ty, kind) {
        ("list", 0) => request(&["LREM", key, "0", &one]),
        ("list", 1) => request(&["LPOP", key, &count]),
        ("list", _) => request(&["LTRIM", key, "0", &(ELEMENTS / 2).to_string()]),
        ("hash", 0) => request(&["HPEXPIRE", key, &count, "FIELDS", "1", &count]),
        ("hash", _) => {
            let from = random.below(ELEMENTS);
            let fields = (from..from + AT_ONCE / 2).map(|field| field.to_string().into_bytes());
            request(&["HDEL", key]).into_iter().chain(fields).collect()
        }
        ("set", 0) => request(&["SREM", key, &one]),
        ("set", _) => request(&["SPOP", key, &count]),
        ("zset", 0) => {
            request(&["ZREMRANGEBYSCORE", key, &random.below(100).to_string(), &random.below(100).to_string()])
        }
        ("zset", 1) => request(&["ZPOPMIN", key, &count]),
        ("zset", _) => request(&["ZINCRBY", key, "1", &one]),
        (_, 0) => request(&["XTRIM", key, "MAXLEN", &count]),
        (_, 1) => request(&["XGROUP", "CREATE", key, "g", "0", "MKSTREAM"]),
        _ => request(&["XREADGROUP", "GROUP", "g", &one[..1], "COUNT", &count, "STREAMS", key, ">"]),
    }
}

/// A command about all elements.
fn whole(random: &mut Random, ty: &str, key: &str, other: &str) -> Request {
    let stores = random.one_in(2);
    match ty {
        "list" if stores => request(&["SORT", key, "ALPHA", "STORE", other]),
        "list" => request(&["LRANGE", key, "0", "-1"]),
        "hash" => request(&["HGETALL", key]),
        "set" if stores => request(&["SUNIONSTORE", other, key, other]),
        "set" => request(&["SMEMBERS", key]),
        "zset" if stores => request(&["ZUNIONSTORE", other, "2", key, other, "AGGREGATE", "MAX"]),
        "zset" => request(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
        _ => request(&["XRANGE", key, "-", "+"]),
    }
}
