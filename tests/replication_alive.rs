//! Links that last although one of their ends is at something else for longer than `repl-timeout`.
//!
//! ```text
//!   primary, repl-timeout 3 --data set--> replica that loads for 8 s, one key each 20 ms: an empty line each second
//! ```

#![forbid(unsafe_code)]

use varve_testkit::{Launch, Server, figure};
use varve_tests::replicas::{assert_equal, follow};

/// Keys of the data set, each of which delays its loading.
const KEYS: usize = 400;

/// A primary that gives up a replica that is silent for three seconds, with data to load.
fn primary(launch: Launch, diskless: &str) -> Server {
    let launch =
        launch.config("repl-timeout 3").config("repl-ping-replica-period 1").config("repl-diskless-sync-delay 0");
    let primary = launch.config(format!("repl-diskless-sync {diskless}")).start().expect("a server");
    let mut client = primary.client();
    for n in 0..KEYS {
        client.cmd(&format!("SET key:{n} value:{n}"));
    }
    primary
}

/// Has a replica load for longer than its primary waits for one that is silent.
fn load_slowly(primary: &Server, replica: Launch) {
    let replica = replica.config("key-load-delay 20000").start().expect("a server");
    follow(&replica, primary);
    assert_equal(&replica, primary);
    let mut client = primary.client();
    assert_eq!(figure(&mut client, "sync_full"), 1, "the link lasts:\n{}\n{}", primary.log(), replica.log());
}

#[test]
fn issue_17_a_replica_that_loads_for_long_is_not_given_up() {
    let theirs = || Launch::peer().config("loading-process-events-interval-bytes 1024");
    std::thread::scope(|scope| {
        for diskless in ["yes", "no"] {
            scope.spawn(move || load_slowly(&primary(Launch::varve(), diskless), Launch::varve()));
            scope.spawn(move || load_slowly(&primary(Launch::varve(), diskless), theirs()));
            scope.spawn(move || load_slowly(&primary(Launch::peer(), diskless), Launch::varve()));
        }
    });
}
