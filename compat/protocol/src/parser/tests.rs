//! Tests of the parser: each rule by example, then splitting and garbage at random.

use super::{Parsed, Parser, ProtocolError, RequestLimits};
use crate::args::{Args, Span};
use crate::fuzz::{fuzz_one, parse_in_parts};

/// The requests of an input and the error that ends it.
fn run(input: &[u8], limits: RequestLimits) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let mut parser = Parser::new(limits);
    let mut buffer = input.to_vec();
    let (mut from, mut requests) = (0, Vec::new());
    loop {
        let mut spans = Vec::new();
        match parser.parse(&mut buffer[from..], &mut spans) {
            Parsed::Request { consumed } => {
                requests.push(Args::new(&buffer[from..], &spans).iter().map(<[u8]>::to_vec).collect());
                from += consumed;
            }
            Parsed::Empty { consumed } => from += consumed,
            Parsed::Incomplete { .. } => return (requests, None),
            Parsed::Error(error) => return (requests, Some(error)),
        }
    }
}

fn requests(input: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let (requests, error) = run(input, RequestLimits::default());
    assert_eq!(error, None);
    requests
}

fn error(input: &[u8]) -> String {
    let (_, error) = run(input, RequestLimits::default());
    String::from_utf8(error.expect("an error").message()).unwrap()
}

#[test]
fn arrays_and_pipelines() {
    let two = requests(b"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n*1\r\n$4\r\nPING\r\n");
    assert_eq!(two, [vec![b"ECHO".to_vec(), b"a\r\n".to_vec()], vec![b"PING".to_vec()]]);
    assert_eq!(requests(b"*0\r\n*-1\r\n*-2147483649\r\n*1\r\n$0\r\n\r\n"), [vec![b"".to_vec()]]);
    let long = [b"*1\r\n$1234\r\n".to_vec(), vec![b'x'; 1234], b"\r\n".to_vec()].concat();
    assert_eq!(requests(&long)[0][0].len(), 1234);
}

#[test]
fn line_ends_of_headers_and_bodies_are_not_looked_at() {
    assert_eq!(requests(b"*1\r\n$4\rxPINGxx*1\r\n$4\r\nPONG\r\n").len(), 2);
}

#[test]
fn a_nul_in_a_line_keeps_it_open_until_it_is_too_long() {
    for line in [&b"\0\r\nPING\r\n"[..], b"PI\0NG\r\n", b"*1\0\r\n", b"*1\r\n$4\0\r\nPING\r\n", b"*1\r\n\0\r\n"] {
        assert_eq!(run(line, RequestLimits::default()), (vec![], None), "{}", line.escape_ascii());
    }
    assert_eq!(
        error(&[b"\0PING\r\n".to_vec(), vec![b'\n'; 66000]].concat()),
        "ERR Protocol error: too big inline request"
    );
    let header = [b"*1\r\n$4\0\r\n".to_vec(), vec![b'\r'; 66000]].concat();
    assert_eq!(error(&header), "ERR Protocol error: too big bulk count string");
    assert_eq!(requests(b"ECHO \"\\x00\"\r\n")[0][1], b"\0");
}

#[test]
fn inline_commands() {
    let word = |line: &[u8]| requests(line).remove(0).remove(1);
    assert_eq!(requests(b"PING\n  PING  \r\n\r\n \r\nPING\r\r\n").len(), 3);
    assert_eq!(requests(b"PING\rX\n")[0].len(), 2);
    assert_eq!(word(b"ECHO \"a\\x41\\n\\\"\\q\"\r\n"), b"aA\n\"q");
    assert_eq!(word(b"ECHO \"\\xZZ\"\r\n"), b"xZZ");
    assert_eq!(word(b"ECHO 'a\\'b\\n'\r\n"), b"a'b\\n");
    assert_eq!(word(b"ECHO a\"b c\"\r\n"), b"ab c");
    assert_eq!(word(b"ECHO \"\"\r\n"), b"");
    assert_eq!(requests(b"\x0bPING\x0c\r\n")[0][0], b"PING\x0c");
    assert_eq!(requests(b"ECHO \"a\" 'b'\tc\n")[0].len(), 4);
    for wrong in ["ECHO \"a\r\n", "ECHO \"a\"b\r\n", "ECHO a\"b\"c\r\n", "ECHO 'a\r\n", "ECHO \"a\\\r\n", "'\n"] {
        assert_eq!(error(wrong.as_bytes()), "ERR Protocol error: unbalanced quotes in request", "{wrong:?}");
    }
}

#[test]
fn errors_have_the_texts_of_redis() {
    let multibulk = "ERR Protocol error: invalid multibulk length";
    for wrong in ["*2147483648\r\n", "*03\r\n", "*abc\r\n", "*\r\n", "*+1\r\n", "*-0\r\n", "*99999999999999999999\r\n"]
    {
        assert_eq!(error(wrong.as_bytes()), multibulk, "{wrong:?}");
    }
    for wrong in ["$-1\r\n", "$04\r\n", "$\r\n", "$536870913\r\n", "$0x\r\n", "$1a\r\n", "$12a\r\n", "$123a\r\n"] {
        assert_eq!(error(format!("*1\r\n{wrong}").as_bytes()), "ERR Protocol error: invalid bulk length", "{wrong:?}");
    }
    assert_eq!(error(b"*1\r\n:4\r\n"), "ERR Protocol error: expected '$', got ':'");
    assert_eq!(error(&[b'x'; 70000]), "ERR Protocol error: too big inline request");
    assert_eq!(error(&[b"*".to_vec(), vec![b'1'; 70000]].concat()), "ERR Protocol error: too big mbulk count string");
    let length = [b"*1\r\n".to_vec(), vec![b'1'; 70000]].concat();
    assert_eq!(error(&length), "ERR Protocol error: too big bulk count string");
}

#[test]
fn less_is_allowed_before_authentication() {
    let limits = RequestLimits { unauthenticated: true, ..RequestLimits::default() };
    assert_eq!(run(b"*10\r\n$16384\r\n", limits).1, None);
    let many = run(b"*11\r\n", limits).1.unwrap();
    assert_eq!(many.message(), b"ERR Protocol error: unauthenticated multibulk length");
    let long = run(b"*1\r\n$16385\r\n", limits).1.unwrap();
    assert_eq!(long.message(), b"ERR Protocol error: unauthenticated bulk length");
}

#[test]
fn want_is_what_a_body_lacks() {
    let mut parser = Parser::new(RequestLimits::default());
    let mut spans = Vec::new();
    assert_eq!(parser.parse(&mut [], &mut spans), Parsed::Incomplete { want: 2 });
    assert!(!parser.is_partial());
    let mut head = b"*2\r\n$3\r\nSET\r\n$100\r\nab".to_vec();
    assert_eq!(parser.parse(&mut head, &mut spans), Parsed::Incomplete { want: 100 });
    assert!(parser.is_partial() && spans.is_empty());
    head.resize(head.len() + 100, b'x');
    let consumed = head.len();
    assert_eq!(parser.parse(&mut head, &mut spans), Parsed::Request { consumed });
    assert_eq!(spans, [Span { start: 8, len: 3 }, Span { start: 19, len: 100 }]);
    assert_eq!((parser.is_partial(), parser.held_bytes()), (false, 0));
}

#[test]
fn every_cut_comes_to_the_same() {
    let input = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n42\r\n\r\nECHO \"a b\\x00\" 'c'\r\n*-1\r\n*1\r\n$0\r\n\r\nPING\n*2\r\n$4\r\nECHO\r\n$12\r\nhello, world\r\nrest";
    let whole = parse_in_parts(input, RequestLimits::default(), &[usize::MAX], usize::MAX);
    for cut in 1..input.len() {
        assert_eq!(
            whole,
            parse_in_parts(input, RequestLimits::default(), &[cut, usize::MAX], usize::MAX),
            "cut at {cut}"
        );
    }
    for every in 1..20 {
        assert_eq!(whole, parse_in_parts(input, RequestLimits::default(), &[every], usize::MAX), "parts of {every}");
    }
}

/// A small generator for these tests alone (splitmix).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(varve_base::hash::GOLDEN_RATIO);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

fn seed() -> u64 {
    let seed = std::env::var("VARVE_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().map_or(1, |t| t.as_nanos() as u64));
    println!("VARVE_SEED={seed}");
    seed
}

#[test]
fn garbage_never_panics_and_every_cut_agrees() {
    let mut random = Random(seed());
    let scraps: [&[u8]; 20] = [
        b"*",
        b"$",
        b"\r\n",
        b"\n",
        b"\r",
        b"1",
        b"3",
        b"-1",
        b"12",
        b"0",
        b"*1\r\n$4\r\nPING\r\n",
        b"*2\r\n",
        b"$3\r\nabc\r\n",
        b"\"",
        b"'",
        b"\\",
        b"\\x4",
        b" ",
        b"ECHO",
        b"\0",
    ];
    for _ in 0..20_000 {
        let mut data = Vec::new();
        for _ in 0..random.below(24) {
            match random.below(8) {
                0 => data.push(random.below(256) as u8),
                1 => data.extend(std::iter::repeat_n(b'7', random.below(80))),
                _ => data.extend_from_slice(scraps[random.below(scraps.len())]),
            }
        }
        fuzz_one(&data);
    }
}

#[test]
fn what_is_encoded_comes_back() {
    let mut random = Random(seed());
    for _ in 0..300 {
        let mut input = Vec::new();
        let mut expected: Vec<Vec<Vec<u8>>> = Vec::new();
        for _ in 0..1 + random.below(4) {
            let args: Vec<Vec<u8>> = (0..1 + random.below(12))
                .map(|_| {
                    let most = [4, 20, 200, 3000][random.below(4)];
                    let len = random.below(most);
                    (0..len).map(|_| random.below(256) as u8).collect()
                })
                .collect();
            input.extend(format!("*{}\r\n", args.len()).bytes());
            for arg in &args {
                input.extend(format!("${}\r\n", arg.len()).bytes());
                input.extend_from_slice(arg);
                input.extend_from_slice(b"\r\n");
            }
            expected.push(args);
        }
        assert_eq!(requests(&input), expected);
        let size = 1 + random.below(100);
        let whole = parse_in_parts(&input, RequestLimits::default(), &[usize::MAX], usize::MAX);
        for elsewhere in [usize::MAX, 0, 50, 1000] {
            assert_eq!(
                whole,
                parse_in_parts(&input, RequestLimits::default(), &[size], elsewhere),
                "from {elsewhere} on"
            );
        }
    }
}

#[test]
fn a_declared_count_reserves_nothing() {
    let mut parser = Parser::new(RequestLimits::default());
    let mut spans = Vec::new();
    let parsed = parser.parse(&mut b"*2147483647\r\n$1\r\na\r\n".to_vec(), &mut spans);
    assert!(matches!(parsed, Parsed::Incomplete { .. }));
    assert!(parser.held_bytes() < 1024 && spans.capacity() < 64);
}
