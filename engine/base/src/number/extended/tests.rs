//! A table that C's `long double` gave: each line two numbers, their sum's human form (`%.17Lf` trimmed as Redis does;
//! `*` where it is too long to list), and its `%.17Lg` form.

use super::*;
use crate::number::scan::TEXT_MAX;

const TABLE: &str = include_str!("table.txt");

fn human(value: Extended) -> String {
    let mut out = Vec::new();
    value.push_human(&mut out);
    String::from_utf8(out).unwrap()
}

fn general(value: Extended) -> String {
    let mut out = Vec::new();
    value.push_general(&mut out);
    String::from_utf8(out).unwrap()
}

fn parse(text: &str) -> Extended {
    Extended::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"))
}

#[test]
fn sums_and_forms_as_c_has_them() {
    assert!(TABLE.lines().count() > 100);
    for line in TABLE.lines() {
        let [a, b, human_form, general_form] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let sum = parse(a) + parse(b);
        assert_eq!(general(sum), general_form, "{a} + {b}");
        assert_eq!(parse(b) + parse(a), sum, "{b} + {a}");
        if human_form != "*" {
            assert_eq!(human(sum), human_form, "{a} + {b}");
        }
    }
}

#[test]
fn bounds_are_refused() {
    for bad in ["", "nan", "1e4933", "-1e4933", "1e-4951", "1e-99999999999999999999", "0x1p16384", "0x1p-16446", "1 "] {
        assert_eq!(Extended::parse(bad.as_bytes()), None, "{bad}");
    }
    assert_eq!(Extended::parse(&[b'1'; TEXT_MAX + 1]), None);
    assert_eq!(Extended::parse(&[b'0'; TEXT_MAX]), Some(Extended::ZERO));
    assert_eq!(general(parse("0x1p-16445")), "3.6451995318824746e-4951");
    assert_eq!(general(parse("0e99999999999999999999")), "0");
}

#[test]
fn infinities() {
    let (plus, minus) = (parse("inf"), parse("-INFINITY"));
    assert!(!plus.is_finite() && parse("1").is_finite());
    assert_eq!((human(plus), human(minus)), ("inf".into(), "-inf".into()));
    assert_eq!(plus + parse("1"), plus);
    assert_eq!(parse("1") + minus, minus);
    assert!(!(plus + minus).is_finite());
    assert_eq!(human(plus + minus), "-nan");
    let most = parse("1.18973149535723176502e4932");
    assert_eq!(most + most, plus);
}

#[test]
fn numbers_have_an_order() {
    let least = parse("-1.18973149535723176502e4932");
    let ordered =
        ["-inf", "-2", "-1.5", "-0x1p-16445", "0", "0x1p-16445", "1", "0x1.0000000000000002p0", "1e4900", "inf"];
    for (at, a) in ordered.iter().enumerate() {
        for (other, b) in ordered.iter().enumerate() {
            assert_eq!(parse(a).is_below(parse(b)), at < other, "{a} and {b}");
        }
    }
    assert!(!Extended::ZERO.is_below(-Extended::ZERO) && !(-Extended::ZERO).is_below(Extended::ZERO));
    assert_eq!((Extended::ONE, Extended::LEAST, Extended::MOST), (parse("1"), least, -least));
}
