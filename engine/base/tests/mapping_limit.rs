//! A process that has as many mappings as the kernel allows: what is given back is still given back, and used again.
//! One test, alone in its process.

use std::io::{self, Write};

use varve_base::mem::{Mapping, PAGE_BYTES};
use varve_base::span::PageSpan;

/// Mappings of this process.
fn mappings() -> usize {
    std::fs::read("/proc/self/maps").expect("Linux").iter().filter(|&&byte| byte == b'\n').count()
}

const LEN: usize = 256 << 10;

/// Says so past the harness's capture; the test command counts such lines.
fn skipped(why: &str) {
    let _ = writeln!(io::stdout(), "skipped: {why}");
}

#[test]
fn a_refused_unmapping_gives_the_memory_back_and_uses_the_addresses_again() {
    if std::env::var_os("VARVE_SANITIZER").is_some() {
        return skipped("a sanitizer needs mappings of its own, and ends the process that has none left");
    }
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("Linux");
    let limit: usize = limit.trim().parse().expect("a number");
    if limit > 1 << 20 {
        return skipped(&format!("{limit} mappings are more than a test can use up"));
    }
    // PageSpans that are there before cost no mapping later.
    let spans: Vec<PageSpan> = (0..64).map(|_| PageSpan::zeroed(PAGE_BYTES).expect("memory")).collect();
    let many: Vec<Mapping> = (0..32).map(|_| Mapping::zeroed(LEN).expect("memory")).collect();
    let mut at: Vec<usize> = many.iter().map(|mapping| mapping.base().addr()).collect();
    at.sort_unstable();
    let middle = at.windows(3).find(|three| three[1] - three[0] == LEN && three[2] - three[1] == LEN);
    let middle = middle.expect("the kernel maps neighbours")[1];
    // Every other page of a range is open: each is a mapping.
    let range = Mapping::reserve(2 * (limit + 100) * PAGE_BYTES).expect("addresses");
    let used_up = (0..limit + 100).any(|n| range.open(2 * n * PAGE_BYTES..(2 * n + 1) * PAGE_BYTES).is_err());
    assert!(used_up && mappings() >= limit - 2, "{} mappings of {limit}", mappings());
    let mut rest: Vec<Mapping> = Vec::with_capacity(many.len());
    for mapping in many {
        if mapping.base().addr() == middle {
            // SAFETY: inside the mapping, which nobody else has.
            unsafe { mapping.base().write_bytes(7, LEN) };
            drop(mapping);
        } else {
            rest.push(mapping);
        }
    }
    let again = Mapping::zeroed(LEN - PAGE_BYTES).expect("addresses that were left");
    assert_eq!(again.base().addr(), middle, "the addresses are used again");
    // SAFETY: inside the mapping, no references held.
    let bytes = unsafe { (again.base().read(), again.base().add(LEN - PAGE_BYTES - 1).read()) };
    assert_eq!(bytes, (0, 0), "its memory went back");
    // PageSpans come and go: their region is there.
    drop(spans);
    let spans: Vec<PageSpan> = (1..64).map(|pages| PageSpan::zeroed(pages * PAGE_BYTES).expect("memory")).collect();
    assert!(mappings() <= limit + 1, "{} mappings", mappings());
    drop((spans, rest, again, range));
}
