//! Requests of HTTP, and the names of metrics.

use std::collections::HashSet;

use super::super::facts::Facts;
use super::super::render;
use super::http::{Request, parse};
use super::names::NAMES;
use super::text::{Number, Parts};

fn request(head: &str) -> Result<Option<Request>, u16> {
    parse(head.as_bytes()).map_err(|answer| answer.status)
}

#[test]
fn a_request_is_read_when_its_head_is_whole() {
    let whole = "GET /metrics?x=1 HTTP/1.1\r\nAccept: */*\r\nhOst:  localhost:9121 \r\n\r\n";
    for end in 0..whole.len() {
        assert_eq!(request(&whole[..end]), Ok(None), "{end} bytes");
    }
    let expected =
        Request { path: "/metrics".into(), query: "x=1".into(), host: "localhost:9121".into(), ..Request::default() };
    assert_eq!(request(whole), Ok(Some(expected)));
    let none = Request { path: "/".into(), ..Request::default() };
    assert_eq!(request("GET / HTTP/1.0\r\n\r\n"), Ok(Some(none)));
}

#[test]
fn user_and_password_are_those_of_basic() {
    let basic = |line: &str| request(&format!("GET / HTTP/1.1\r\n{line}\r\n\r\n")).unwrap().unwrap().basic;
    assert_eq!(basic("Authorization: Basic dXNlcjpw"), "dXNlcjpw");
    assert_eq!(basic("authorization: bAsIc  dXNlcjpw "), "dXNlcjpw");
    assert_eq!(basic("Authorization: Bearer dXNlcjpw"), "");
    assert_eq!(basic("Authorization: Basic"), "");
}

#[test]
fn what_is_no_short_get_is_refused() {
    assert_eq!(request("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), Err(405));
    assert_eq!(request("*1\r\n$4\r\nPING\r\n"), Err(400));
    assert_eq!(request("\0\0\0"), Err(400));
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000));
    assert_eq!(request(&long), Err(400));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
    assert_eq!(request(&many), Err(400));
}

#[test]
fn a_query_gives_numbers_by_name() {
    let number = |query: &str| {
        let request = Request { path: "/now.json".into(), query: query.into(), ..Request::default() };
        request.number("since")
    };
    assert_eq!(number("since=17"), Some(17));
    assert_eq!(number("x=1&since=0"), Some(0));
    for query in ["", "since", "since=", "since=-1", "since=99999999999999999999999", "Since=1", "resince=1"] {
        assert_eq!(number(query), None, "{query}");
    }
}

/// Fields of INFO that are numbers and no metric: what they say is shown in another way, or is nothing to be drawn.
const WITHOUT: &[&str] = &[
    // Of the instance.
    "redis_git_sha1",
    "redis_git_dirty",
    "arch_bits",
    "tcp_port",
    "server_time_usec",
    "uptime_in_days",
    "hz",
    "configured_hz",
    "lru_clock",
    "master_replid2",
    // Known in other units, or the sum of two others.
    "used_memory_peak_perc",
    "used_memory_dataset_perc",
    "used_memory_vm_total",
    "rss_overhead_ratio",
    "rss_overhead_bytes",
    "instantaneous_input_repl_kbps",
    "instantaneous_output_repl_kbps",
    // Always 0 here: nothing is forked, and buffers do not shrink by a timer.
    "current_cow_peak",
    "current_cow_size",
    "current_cow_size_age",
    "total_forks",
    "reply_buffer_shrinks",
    "reply_buffer_expands",
    "mem_cluster_links",
    // Shown by `rdb_last_save_timestamp_seconds` and the counts of keys.
    "current_save_keys_processed",
    "current_save_keys_total",
    // Their share, in percent.
    "current_fork_perc",
    "aof_rewrites",
    "aof_rewrites_consecutive_failures",
    "total_active_defrag_time",
    "current_active_defrag_time",
    "current_eviction_exceeded_time",
];

#[test]
fn every_number_of_info_is_a_metric_or_named_here() {
    let facts = Facts::default();
    let text = render([b"default".as_slice()].into_iter(), &facts);
    let fields: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(':')).collect();
    let named: HashSet<&str> = NAMES.iter().map(|(field, ..)| *field).chain(WITHOUT.iter().copied()).collect();
    let is_number = |value: &str| value.trim_end_matches('%').parse::<f64>().is_ok();
    let missing: Vec<&str> = fields
        .iter()
        .filter(|(name, value)| is_number(value) && !named.contains(name))
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(missing, [""; 0], "numbers of INFO without a metric");
    let shown: HashSet<&str> = fields.iter().map(|(name, _)| *name).collect();
    let gone: Vec<&&str> = WITHOUT.iter().filter(|name| !shown.contains(**name)).collect();
    assert!(gone.is_empty(), "INFO does not show {gone:?}");
}

#[test]
fn a_name_stands_for_one_figure() {
    let mut seen = HashSet::new();
    for (_, name, _) in NAMES {
        assert!(seen.insert(name), "{name} is there twice");
    }
}

#[test]
fn figures_are_written_as_rust_writes_them() {
    let written = |value: f64| {
        let mut text = String::new();
        Number::put(value, &mut text);
        text
    };
    for value in
        [0.0, 1.0, -7.0, 0.5, 1e-9, 12_345.678, 9_007_199_254_740_992.0, 1e18, 3.5e300, f64::MAX, f64::INFINITY]
    {
        assert_eq!(written(value), value.to_string());
    }
    assert_eq!((written(-0.0), written(f64::NAN)), ("0".to_owned(), "NaN".to_owned()));
    let mut text = String::new();
    Number::put(u64::MAX, &mut text);
    Number::put(-5_i32, &mut text);
    assert_eq!(text, format!("{}-5", u64::MAX));
}

#[test]
fn parts_are_written_as_fractions_are() {
    let written = |number: u64, digits: u32| {
        let mut text = String::new();
        Parts { number, digits }.put(&mut text);
        text
    };
    for number in [0, 1, 9, 10, 100, 999, 1000, 1001, 5023, 12_300, 237_567, 1_000_000, 1_000_001, 90_071_992_547_409] {
        assert_eq!(written(number, 3), (number as f64 / 1e3).to_string(), "{number}");
        assert_eq!(written(number, 6), (number as f64 / 1e6).to_string(), "{number}");
        assert_eq!(written(number, 0), number.to_string());
    }
    assert_eq!(written(u64::MAX, 3), "18446744073709551.615", "more digits than a fraction has");
}
