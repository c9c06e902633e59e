//! The helpers of the end-to-end programs: what random commands are made of, left out, and compared by.
//!
//! A program of its own: the library of this package is built for the programs alone, and without tests in it `cargo test` of the
//! crates has nothing to build for it.

#![forbid(unsafe_code)]

use varve_testkit::{Random, RespValue};
use varve_tests::collections::{fill, templates, tokens};
use varve_tests::compare::{NO_SCORE, Rule, equal, rule};
use varve_tests::fill::is_left_out;

#[test]
fn scripts_are_looked_into() {
    let is_left = |args: &[&str]| is_left_out(&args.iter().map(|arg| arg.as_bytes().to_vec()).collect::<Vec<_>>());
    assert!(is_left(&["EXPIRE", "k", "1"]) && is_left(&["zadd", "k", "-0", "m"]));
    // Chains were unequal for these.
    assert!(
        is_left(&["zremrangebyscore", "k", "(0X1p3", "( 2"])
            && is_left(&["eval", "redis.call('zadd', 'k', '0x8', 'm')", "0"])
    );
    assert!(is_left(&["LSET", "k", "4294967296", "x"]) && !is_left(&["LSET", "k", "-2", "x"]));
    assert!(is_left(&["zincrby", "k", "-0.0", "m"]) && is_left(&["zadd", "k", "-1e-400", "m"]));
    assert!(is_left(&["eval", "redis.call('zadd', KEYS[1], 'incr', '-0', 'f3')", "1", "z1"]));
    assert!(is_left(&["eval", "redis.call('PEXPIRE', KEYS[1], 10)", "1", "z1"]));
    assert!(!is_left(&["eval", "redis.call('zadd', KEYS[1], '-0.5', 'ex-') return 'x'", "1", "z1"]));
}

#[test]
fn every_template_can_be_filled() {
    assert_eq!(tokens("a {?b {c} d} {e|f}"), ["a", "{?b {c} d}", "{e|f}"]);
    let mut random = Random::new(1);
    for template in templates() {
        for _ in 0..200 {
            let mut args = Vec::new();
            fill(&mut random, template, &mut args);
            assert!(args.len() >= 2 && !args[0].contains(&b'{'), "{template}: {args:?}");
        }
    }
}

#[test]
fn only_what_the_table_names_is_excused() {
    let words = |line: &str| line.split(' ').map(|w| w.as_bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!(rule(&words("GET k")), Rule::Exact);
    assert_eq!(rule(&words("Keys *")), Rule::Multiset);
    assert_eq!(rule(&words("client GETNAME")), Rule::Exact);
    assert_eq!(rule(&words("sort nosort alpha")), Rule::Exact);
    assert_eq!(rule(&words("SORT_RO k by NoSort")), Rule::Multiset);
    let text = |t: &str| RespValue::Bulk(t.into());
    let pair = |a: &str, b: &str| RespValue::Array(vec![text(a), text(b)]);
    assert!(equal(Rule::Multiset, &pair("a", "b"), &pair("b", "a")));
    assert!(!equal(Rule::Exact, &pair("a", "b"), &pair("b", "a")));
    assert!(!equal(Rule::Within(5), &RespValue::Integer(-1), &RespValue::Integer(-2)));
    assert!(equal(Rule::Within(5), &RespValue::Integer(10), &RespValue::Integer(12)));
    assert!(!equal(Rule::Form, &RespValue::Error("ERR a".into()), &RespValue::Error("ERR b".into())));
    let no_score = RespValue::Error(NO_SCORE.into());
    assert!(equal(Rule::Scores, &pair("a", "b"), &no_score));
    assert!(!equal(Rule::Scores, &no_score, &pair("a", "b")) && !equal(Rule::Scores, &text("a"), &no_score));
    assert!(!equal(Rule::Form, &RespValue::NullBulk, &text("a")));
    let entry = |id, time, bytes, address: &str| {
        let numbers = [id, time, bytes].map(RespValue::Integer);
        RespValue::Array(vec![RespValue::Array([&numbers[..], &[pair("get", "k"), text(address), text("")]].concat())])
    };
    let one = entry(0, 1_000, 2_000_000, "127.0.0.1:5");
    assert!(equal(Rule::Logged, &one, &entry(0, 1_001, 2_000_000, "127.0.0.1:6")));
    assert!(!equal(Rule::Logged, &one, &entry(0, 1_000, 2_000_001, "127.0.0.1:5")));
    assert!(!equal(Rule::Logged, &one, &entry(1, 1_000, 2_000_000, "127.0.0.1:5")));
    assert!(!equal(Rule::Logged, &one, &RespValue::Array(vec![])));
}
