//! The system refuses memory, or mappings: writes are refused with the error of the limit, reads and deletions go on, and writes
//! again when there is room or memory. One test, alone in its process, which it limits with prlimit, and whose mappings it uses up.

use std::io::{self, Write};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use varve_base::mem::{Mapping, PAGE_BYTES};
use varve_store::{ListEnd, LogGeometry, Options, Store, StoreWorker, StringForm, Ttl, Tx};

/// Limits this process to `bytes` of memory of its own, or lifts the limit.
fn limit(bytes: Option<u64>) {
    let value = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
    let me = std::process::id().to_string();
    let done = Command::new("prlimit").args(["--pid", &me, &format!("--data={value}:unlimited")]).status();
    assert!(done.expect("util-linux").success(), "prlimit");
}

/// Bytes that count against such a limit.
fn data_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmData:")).expect("a line of VmData");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("kilobytes") << 10
}

fn with_key<R>(worker: &mut StoreWorker, n: usize, act: impl FnOnce(&mut Tx<'_>, &varve_store::Key<'_>) -> R) -> R {
    let name = format!("key:{n}");
    let (store, local) = worker.parts();
    let _inside = store.gate().enter(local.id());
    let mut tx = Tx::new(store, local, 0);
    let key = tx.key(name.as_bytes());
    tx.hold(&[tx.shard_of(key.hash)]);
    let done = act(&mut tx, &key);
    tx.finish();
    done
}

/// Writes a value as a command does: false if it was not admitted.
fn write(worker: &mut StoreWorker, n: usize, value: &[u8]) -> bool {
    let admitted = worker.admit(value.len() as u64 + 100).is_ok();
    if admitted {
        with_key(worker, n, |tx, key| tx.set(key, value, Ttl::Clear, StringForm::Auto));
    }
    admitted
}

fn settle(worker: &mut StoreWorker, now_ms: &mut i64) {
    // The system is asked again once in 8 ms.
    *now_ms += 10;
    for _ in 0..200_000 {
        *now_ms += 1;
        if worker.background(*now_ms, Duration::from_millis(1)).is_none_or(|next| next > *now_ms) {
            return;
        }
    }
    panic!("the background does not come to rest");
}

#[test]
fn what_the_system_refuses_is_an_error_and_passes() {
    memory_is_refused();
    mappings_are_refused();
}

fn memory_is_refused() {
    let geometry = LogGeometry { reserve_bytes: 64 << 30, ..LogGeometry::default() };
    // Refused before its first segment, the process ended at its first write.
    limit(Some(data_bytes() + (40 << 20)));
    let store: Arc<Store> = Store::new(&Options { seed: 3, geometry, ..Options::default() }).expect("addresses");
    let mut worker = store.worker(0);
    assert!(!write(&mut worker, 0, b"value") && store.log().is_refused());
    limit(None);
    settle(&mut worker, &mut 1_795_000_000_000);
    assert!(write(&mut worker, 0, b"value"), "the system has given it");
    drop(worker);
    drop(store);
    // The range is opened before it is used: the limit counts from before the store.
    let most = data_bytes() + (900 << 20);
    let store: Arc<Store> = Store::new(&Options { seed: 3, geometry, ..Options::default() }).expect("addresses");
    let mut worker = store.worker(0);
    let mut now_ms = 1_795_000_000_000;
    let value = vec![b'v'; 100_000];
    limit(Some(most));
    let written = (0..20_000).take_while(|&n| write(&mut worker, n, &value)).count();
    assert!((2000..9000).contains(&written), "{written} values of 100 KB in 900 MB");
    assert!(store.log().is_refused());
    // Small and large writes stay refused, and nothing else is.
    settle(&mut worker, &mut now_ms);
    assert!(!write(&mut worker, written, &value) && worker.admit(64 << 20).is_err());
    assert!((0..written).all(|n| with_key(&mut worker, n, |tx, key| tx.exists(key))));
    // Deletions make room in segments that are open to the process.
    (0..written).step_by(2).for_each(|n| assert!(with_key(&mut worker, n, |tx, key| tx.remove(key))));
    settle(&mut worker, &mut now_ms);
    assert!(write(&mut worker, written, &value), "what died has made room");
    let again = (written..20_000).take_while(|&n| write(&mut worker, n, &value)).count();
    assert!(again > written / 8 && again < written, "{again} values after half of {written} are gone");
    // With more memory all goes on by itself, large values as well.
    limit(None);
    settle(&mut worker, &mut now_ms);
    assert!(!store.log().is_refused());
    assert!((0..2000).all(|n| write(&mut worker, 30_000 + n, &value)));
    assert!(write(&mut worker, 40_000, &vec![b'v'; 20 << 20]));
    worker.park();
    store.verify();
}

/// Mappings of this process.
fn mappings() -> usize {
    std::fs::read("/proc/self/maps").expect("Linux").iter().filter(|&&byte| byte == b'\n').count()
}

/// Says so past the harness's capture; the test command counts such lines.
fn skipped(why: &str) {
    let _ = writeln!(io::stdout(), "skipped: {why}");
}

/// Values of all lengths and collections that grow, each of which is written or refused: the number of those that were written.
fn write_all_kinds(worker: &mut StoreWorker, from: usize) -> usize {
    let mut written = 0;
    for n in from..from + 3000 {
        let len = [10, 1000, 70_000, 300_000, 3 << 20, 9 << 20][n % 6];
        written += usize::from(write(worker, n, &vec![b'v'; if n % 60 < 6 { len } else { len.min(70_000) }]));
        if worker.admit(100_000).is_ok() {
            let members: Vec<String> = (0..400).map(|member| format!("member:{n}:{member}")).collect();
            with_key(worker, n % 50 + 1_000_000, |tx, key| {
                tx.set_add(key, members.iter().map(String::as_bytes)).expect("a set");
            });
            with_key(worker, n % 50 + 2_000_000, |tx, key| {
                tx.list_push(key, ListEnd::Back, members.iter().map(String::as_bytes), false).expect("a list");
            });
        }
    }
    written
}

/// The process has as many mappings as the kernel allows. Whatever is refused then is an error: the store lives, holds what it
/// held, and goes on when there are mappings again.
fn mappings_are_refused() {
    if std::env::var_os("VARVE_SANITIZER").is_some() {
        return skipped("a sanitizer needs mappings of its own, and ends the process that has none left");
    }
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("Linux");
    let limit: usize = limit.trim().parse().expect("a number");
    if limit > 1 << 20 {
        return skipped(&format!("{limit} mappings are more than a test can use up"));
    }
    let geometry = LogGeometry { reserve_bytes: 64 << 30, ..LogGeometry::default() };
    let store: Arc<Store> = Store::new(&Options { seed: 3, geometry, ..Options::default() }).expect("addresses");
    let mut worker = store.worker(0);
    let mut now_ms = 1_795_000_000_000;
    let before = write_all_kinds(&mut worker, 0);
    assert_eq!(before, 3000, "nothing is refused");
    // Every other page of a range is open: each is a mapping.
    let range = Mapping::reserve(2 * (limit + 100) * PAGE_BYTES).expect("addresses");
    let used_up = (0..limit + 100).any(|n| range.open(2 * n * PAGE_BYTES..(2 * n + 1) * PAGE_BYTES).is_err());
    assert!(used_up && mappings() >= limit - 2, "{} mappings of {limit}", mappings());
    let written = write_all_kinds(&mut worker, 10_000);
    assert!((0..3000).all(|n| with_key(&mut worker, n, |tx, key| tx.exists(key))), "what was written is there");
    (0..3000).step_by(2).for_each(|n| assert!(with_key(&mut worker, n, |tx, key| tx.remove(key))));
    (0..50).step_by(2).for_each(|n| assert!(with_key(&mut worker, n + 1_000_000, |tx, key| tx.remove(key))));
    settle(&mut worker, &mut now_ms);
    let later = write_all_kinds(&mut worker, 20_000);
    assert!(mappings() >= limit - 100, "{} mappings: the limit still holds", mappings());
    println!("without mappings: {written} values of 3000, and {later} when half of those before were gone");
    drop(range);
    settle(&mut worker, &mut now_ms);
    assert_eq!(write_all_kinds(&mut worker, 30_000), 3000, "there are mappings again");
    worker.park();
    store.verify();
}
