//! `math.random` gives redis-server's numbers. Each was taken from a redis-server 7.0.15 that had just started.

use crate::host::{TestHost, eval_with, state};
use std::sync::Arc;
use varve_lua::{RandomNumbers, Settings, State};

/// The numbers of [`seeds_are_ints_of_c`].
const SEEDED: [&str; 13] = [
    "0.74452500033403046",
    "0.3000257272739083",
    "0.82671301757298088",
    "0.26644419658297869",
    "0.1708280361121651",
    "0.67082803634499577",
    "0.041630344484760586",
    "0.17406254176705263",
    "0.1708280361121651",
    ":-2147483648",
    ":2",
    ":9",
    ":-2869008153",
];

/// EVAL of a script, the values of its reply without their lengths.
fn eval(state: &mut State, script: &str) -> Vec<String> {
    let reply = eval_with(state, &mut TestHost::default(), script.as_bytes(), &[], &[]);
    let reply = String::from_utf8_lossy(&reply).into_owned();
    reply.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$'])).map(str::to_owned).collect()
}

#[test]
fn numbers_are_those_of_redis_server() {
    let mut state = state();
    let script = "local t = {} for i = 1, 5 do t[i] = string.format('%.17g', math.random()) end \
                  for i = 6, 10 do t[i] = math.random(100) end return t";
    let first = ["0.39646477363839039", "0.84048536971234034", "0.35333609737145533", "0.44658343468167977"];
    let rest = ["0.31869277233197019", ":89", ":2", ":59", ":16", ":39"];
    assert_eq!(eval(&mut state, script), [&first[..], &rest].concat());
    // The next script goes on where this one has ended.
    assert_eq!(eval(&mut state, "return {math.random(1, 2147483647), math.random(-5, 5)}"), [":1483920593", ":-5"]);
}

#[test]
fn seeds_are_ints_of_c() {
    let script = "local t = {} \
                  for _, s in ipairs({42, -1.5, 1e10, '7', 0, 2147483648, 4294967297, -3000000000, 1e300}) do \
                      math.randomseed(s) t[#t + 1] = string.format('%.17g', math.random()) end \
                  math.randomseed(1) t[#t + 1] = math.random(-2147483648, 2147483647) t[#t + 1] = math.random(3.9) \
                  t[#t + 1] = math.random('5', 9.7) t[#t + 1] = math.random(-2147483648, 0) return t";
    assert_eq!(eval(&mut state(), script), SEEDED);
}

#[test]
fn wrong_bounds_are_refused_in_redis_servers_words() {
    for (call, error) in [
        ("random(0)", "bad argument #1 to 'random' (interval is empty)"),
        ("random(2, 1)", "bad argument #2 to 'random' (interval is empty)"),
        ("random(4294967296)", "bad argument #1 to 'random' (interval is empty)"),
        ("random(1, 2, 3)", "wrong number of arguments"),
        ("random('x')", "bad argument #1 to 'random' (number expected, got string)"),
        ("random(nil)", "bad argument #1 to 'random' (number expected, got nil)"),
        ("random(1, 'y')", "bad argument #2 to 'random' (number expected, got string)"),
        ("random(1, nil)", "bad argument #2 to 'random' (number expected, got nil)"),
        ("randomseed()", "bad argument #1 to 'randomseed' (number expected, got no value)"),
        ("randomseed('x')", "bad argument #1 to 'randomseed' (number expected, got string)"),
    ] {
        let reply = eval(&mut state(), &format!("return tostring(math.{call})"));
        assert!(reply[0].starts_with(&format!("-ERR user_script:1: {error} script: ")), "{call}: {reply:?}");
    }
    assert_eq!(eval(&mut state(), "return {math.random(1, 4294967297), math.random(1.5)}"), [":1", ":1"]);
}

/// Scripts of all workers and functions draw from one sequence.
#[test]
fn states_share_a_sequence() {
    let random = Arc::<RandomNumbers>::default();
    let mut states = [0, 1].map(|_| State::with_random(Settings::default(), Arc::clone(&random)).expect("a state"));
    let [one, other] = &mut states;
    assert_eq!(eval(one, "return string.format('%.17g', math.random())"), ["0.39646477363839039"]);
    assert_eq!(eval(other, "return string.format('%.17g', math.random())"), ["0.84048536971234034"]);
    eval(one, "math.randomseed(42)");
    let seeded = eval(other, "return string.format('%.17g', math.random())");
    assert_eq!(seeded, [SEEDED[0]]);
}
