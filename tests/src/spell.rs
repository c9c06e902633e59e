//! The arguments that the generator chooses from: keys, values, numbers at the edges, times, patterns.
//!
//! Times are chosen so that no reply depends on the millisecond in which a server runs a command: relative ones are random
//! over a wide range (two of them never meet within a test's skew), absolute ones are far away or long past.

use varve_testkit::Random;

/// An argument.
pub type Arg = Vec<u8>;

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "7",
    "100",
    "-100",
    "9999",
    "10000",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "00",
    "01",
    "+1",
    "-0",
    " 1",
    "1 ",
    "1.0",
    "1e3",
    "0x10",
    "",
    "-",
    "abc",
    "nan",
    "inf",
    "1_000",
    "9223372036854775806",
];

const FLOATS: &[&str] = &[
    "0.1",
    "-0.1",
    "1.5",
    "3",
    "-3",
    "1e3",
    "1e-3",
    "1E2",
    "0x1p3",
    "3.0",
    "5.0e3",
    "100.00",
    "1e17",
    "1e20",
    "1e-7",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "1e400",
    "",
    " 1",
    "1 ",
    "1.",
    ".5",
    "-.5",
    "+1.5",
    "1.5x",
    "123456789.123456789",
    "0.000000000000000001",
    "99999999999999999999",
    "4932.25e10",
    "1e4931",
    "-1e4932",
    "1.18973149535723176502e+4932",
    "1e4933",
    "1e-4950",
    "1e-4951",
    "3.6e-4951",
    "1e-4952",
    "0x1p-16445",
    "0x1.8p-16446",
    "0x1p16383",
    "0x1p16384",
    "0x.8p1",
    "0x",
    "1e",
    "1e+",
    "infinity",
    "INF",
    "-NaN",
    "nan(1)",
    "1e18446744073709551616",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551617.5",
    "0.5e-17",
    "0.000000000000000005",
    "0.0000000000000000049999999",
    "-0.0",
    "1,5",
    "1\0",
    "\t1",
    "1\n",
];

const PATTERNS: &[&str] = &[
    "*", "k*", "k1?", "k[0-4]*", "k[^0-4]*", "*[", "k\\*", "", "?", "??", "k[4-0]?", "big*", "nothing", "k[]*",
    "**k**", "[", "k1\\", "*:*", "[^k]*",
];

const WORDS: &[&str] =
    &["", "a", "hello", "ohmytext", "mynewtext", "abc\r\ndef", "\0\u{1}", "embstr", "3.14", "10", "-5"];

/// A key of the pool that most commands share: few, so that commands meet.
pub fn key(random: &mut Random) -> Arg {
    if random.one_in(150) {
        return long_key(random);
    }
    if random.one_in(12) {
        return format!("{}{}", random.pick(&['l', 'h', 's', 'z']), random.below(12)).into_bytes();
    }
    let n = if random.one_in(3) { random.below(8) } else { random.below(60) };
    match n {
        57 => Vec::new(),
        58 => b"k with space\r\n".to_vec(),
        59 => vec![0xff, 0, b'k'],
        n => format!("k{n}").into_bytes(),
    }
}

/// A key of one of a few lengths where a header grows, or a page or a piece ends.
fn long_key(random: &mut Random) -> Arg {
    let length = *random.pick(&[15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 257, 1000, 4096, 16_384, 70_000]);
    let mut key = vec![b'k'; length];
    key[length / 2] = b'0' + random.below(2) as u8;
    key
}

/// A key of the pool that big values live under; LCS and the like never meet these.
pub fn big_key(random: &mut Random) -> Arg {
    format!("big{}", random.below(4)).into_bytes()
}

/// A value: number, word, or random bytes around the lengths where encodings change.
pub fn value(random: &mut Random) -> Arg {
    match random.below(10) {
        0..=2 => number(random),
        3 => float(random),
        4 | 5 => random.pick(WORDS).as_bytes().to_vec(),
        6 => bytes(random, 200),
        7 => {
            let length = 40 + random.below(9);
            repeated(random, length)
        }
        _ => random.below(20_000).to_string().into_bytes(),
    }
}

/// A value of up to 400 KB: over the run limit now and then.
pub fn big_value(random: &mut Random) -> Arg {
    let limit = if random.one_in(4) { 400_000 } else { 20_000 };
    let length = random.below(limit);
    repeated(random, length)
}

fn repeated(random: &mut Random, length: usize) -> Arg {
    let letter = b'a' + random.below(26) as u8;
    (0..length).map(|i| if i % 7 == 0 { letter } else { b'0' + (i % 10) as u8 }).collect()
}

/// Random bytes, fewer than `limit`.
pub fn bytes(random: &mut Random, limit: usize) -> Arg {
    (0..random.below(limit)).map(|_| random.next_u64() as u8).collect()
}

/// A whole number, or something that nearly is one.
pub fn number(random: &mut Random) -> Arg {
    if random.one_in(2) {
        random.pick(NUMBERS).as_bytes().to_vec()
    } else {
        (random.next_u64() as i64 >> random.below(64)).to_string().into_bytes()
    }
}

/// A small number, for offsets and counts.
pub fn small(random: &mut Random) -> Arg {
    if random.one_in(8) { number(random) } else { (random.below(40) as i64 - 10).to_string().into_bytes() }
}

/// A number with a fraction, or something that nearly is one.
pub fn float(random: &mut Random) -> Arg {
    if random.one_in(2) {
        random.pick(FLOATS).as_bytes().to_vec()
    } else {
        let n = random.next_u64() as i64 >> (random.below(50) + 13);
        format!("{}.{}", n, random.below(100_000)).into_bytes()
    }
}

/// A pattern: of the list, or a few random characters that mean something in one.
pub fn pattern(random: &mut Random) -> Arg {
    if random.one_in(2) {
        return random.pick(PATTERNS).as_bytes().to_vec();
    }
    (0..random.below(8)).map(|_| *random.pick(b"kkkk**??[[]]^-\\0123459bigKz\xff\0 ")).collect()
}

/// A command as a line of the inline form: each argument bare where that is possible, or in quotes.
pub fn inline(args: &[Arg]) -> Vec<u8> {
    let mut line = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        let bare = !arg.is_empty() && arg.iter().all(u8::is_ascii_alphanumeric);
        let single = arg.iter().all(|b| b.is_ascii_graphic() && !matches!(b, b'\'' | b'\\') || *b == b' ');
        match i % 3 {
            0 | 1 if bare => line.extend_from_slice(arg),
            0 | 2 if single => line.extend([b"'", arg.as_slice(), b"'"].concat()),
            _ => {
                line.push(b'"');
                arg.iter().for_each(|b| line.extend_from_slice(&escaped(*b)));
                line.push(b'"');
            }
        }
        line.extend_from_slice(if i % 4 == 3 { b" \t " } else { b" " });
    }
    line.extend_from_slice(if args.len().is_multiple_of(2) { b"\n" } else { b"\r\n" });
    line
}

fn escaped(byte: u8) -> Vec<u8> {
    match byte {
        b'"' | b'\\' => vec![b'\\', byte],
        b'\n' => b"\\n".to_vec(),
        b'\r' => b"\\r".to_vec(),
        b'\t' => b"\\t".to_vec(),
        0x20..=0x7e | 0x80.. => vec![byte],
        _ => format!("\\x{byte:02x}").into_bytes(),
    }
}

/// A database number, nearly always one of the first four.
pub fn database(random: &mut Random) -> Arg {
    match random.below(20) {
        0 => number(random),
        1 => random.pick(&["15", "16", "-1", "x"]).as_bytes().to_vec(),
        _ => random.below(4).to_string().into_bytes(),
    }
}

/// A relative time in seconds (`unit` 1) or milliseconds (`unit` 1000): long, past, or wrong.
pub fn relative(random: &mut Random, unit: u64) -> Arg {
    match random.below(12) {
        0 => random.pick(&["0", "-1", "-100000"]).as_bytes().to_vec(),
        1 if unit == 1 => wrong_time(random),
        1 => random.pick(&["9223372036854775807", "-9223372036854775808", "x", "", "1.5"]).as_bytes().to_vec(),
        _ => ((10_000 + random.below(1_000_000_000) as u64) * unit + random.below(unit as usize) as u64)
            .to_string()
            .into_bytes(),
    }
}

/// A time since 1970 in the same units: far ahead, long past, or wrong. With `past` false never past.
pub fn absolute(random: &mut Random, unit: u64, past: bool) -> Arg {
    match random.below(12) {
        0 if past => random.pick(&["0", "1", "-1", "1000000000"]).as_bytes().to_vec(),
        1 if past => wrong_time(random),
        _ => {
            let seconds = 4_000_000_000 + random.below(4_000_000_000) as u64;
            (seconds * unit + random.below(unit as usize) as u64).to_string().into_bytes()
        }
    }
}

/// Times at the edges of what fits; none is valid or not by the millisecond.
fn wrong_time(random: &mut Random) -> Arg {
    let edges =
        ["9223372036854775807", "9223372036854775", "9223372036854776", "-9223372036854775808", "-9223372036854776"];
    let more = ["18446744073709551616", "abc", "", "1.5", "10000000000000000", "9223370399119966", " 5"];
    let all: Vec<&str> = edges.into_iter().chain(more).collect();
    random.pick(&all).as_bytes().to_vec()
}
