//! Every write command leaves the effects that tests/data/effects.txt lists: the table is the ground of the append-only
//! file and of replicas.
//!
//! ```text
//!  table --each step--> redis-server 7.0.15 --replication stream--> equal to the table
//! ```

#![forbid(unsafe_code)]

mod stream;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use stream::table::{self, Case};
use stream::theirs::Theirs;
use stream::{lines, now_ms};

fn path() -> PathBuf {
    varve_testkit::server::workspace().join("tests/data/effects.txt")
}

/// What each step of a case left, by its line of the table.
fn play_theirs(theirs: &mut Theirs, case: &Case) -> Vec<(usize, Vec<String>)> {
    theirs.reset();
    let mut db = 0;
    let step = |step: &table::Step| {
        let now = now_ms();
        (step.line, lines(&theirs.step(&step.act), &mut db, now))
    };
    case.steps.iter().map(step).collect()
}

/// With VARVE_RECORD set, writes the effects that redis-server has into the table; else compares them.
#[test]
fn the_table_is_redis_servers() {
    let text = fs::read_to_string(path()).expect("the table");
    let cases = table::read(&text);
    let mut theirs = Theirs::start();
    let found: Vec<_> =
        cases.iter().filter(|case| case.reason.is_none()).map(|c| play_theirs(&mut theirs, c)).collect();
    if std::env::var_os("VARVE_RECORD").is_some() {
        let found: HashMap<usize, Vec<String>> = found.into_iter().flatten().collect();
        fs::write(path(), table::write(&text, &cases, &|line| found.get(&line).cloned()))
            .expect("the table is written");
        return;
    }
    for (case, found) in cases.iter().filter(|case| case.reason.is_none()).zip(found) {
        for (step, (line, found)) in case.steps.iter().zip(found) {
            let Case { command, title, .. } = case;
            assert_eq!(step.effects, found, "{command}, {title}, line {}: {:?}", line + 1, step.act);
        }
    }
}
