//! Chains of three servers, in all mixtures of Varve and redis-server 7.0.15, under random load of all types.
//!
//! ```text
//!   top ---> middle ---> bottom      links are cut by either end
//!   top <--- middle ---> bottom      the middle one is promoted, and the old primary follows it
//!    X       middle ---> bottom      the old primary is killed, and a new server takes its place
//! ```
//! VARVE_CHAINS says how many rounds there are; one is the short form.

#![forbid(unsafe_code)]

use std::time::Duration;

use varve_testkit::{Launch, Server, seed};
use varve_tests::fill::fill;
use varve_tests::replicas::{assert_equal, field, follow, stop_following};

/// Commands of one load.
const COMMANDS: usize = 3_000;
/// Time between two cuts of links.
const CUT_EVERY: Duration = Duration::from_millis(40);

fn peer() -> Server {
    let launch = Launch::peer().config("repl-diskless-sync-delay 0").config("repl-backlog-size 16mb");
    launch.start().expect("redis-server starts")
}

fn varve() -> Server {
    Launch::varve().config("repl-backlog-size 16mb").start().expect("Varve starts")
}

/// Which of the three are Varve's.
fn mixtures() -> impl Iterator<Item = [fn() -> Server; 3]> {
    (0..8).map(|bits| std::array::from_fn(|place| if bits >> place & 1 == 1 { varve as fn() -> Server } else { peer }))
}

/// Fills a server while links to replicas of these servers are cut.
fn fill_and_cut(primary: &Server, cut: &[&Server], seed: u64) {
    std::thread::scope(|scope| {
        let filling = scope.spawn(|| fill(primary, seed, COMMANDS));
        for nth in 0.. {
            if filling.is_finished() {
                break;
            }
            let server = cut[nth % cut.len()];
            let kind = if nth % 3 == 0 { "master" } else { "replica" };
            server.client().cmd(&format!("CLIENT KILL TYPE {kind}"));
            std::thread::sleep(CUT_EVERY);
        }
    });
}

fn one_round(makers: [fn() -> Server; 3], seed: u64) {
    let [mut top, middle, bottom] = makers.map(|make| make());
    follow(&middle, &top);
    follow(&bottom, &middle);
    fill_and_cut(&top, &[&top, &middle, &bottom], seed);
    assert_equal(&middle, &top);
    assert_equal(&bottom, &middle);

    let full = |server: &Server| field(&mut server.client(), "stats", "sync_full");
    let before = [full(&middle), full(&top)];
    stop_following(&middle);
    follow(&top, &middle);
    fill_and_cut(&middle, &[&top, &middle, &bottom], seed + 1);
    assert_equal(&top, &middle);
    assert_equal(&bottom, &middle);
    assert_eq!([full(&middle), full(&top)], before, "nobody needed all data:\n{}\n{}", middle.log(), top.log());

    top.signal("KILL").expect("killed");
    top = makers[0]();
    fill(&middle, seed + 2, COMMANDS / 4);
    follow(&top, &bottom);
    fill_and_cut(&middle, &[&bottom], seed + 3);
    assert_equal(&bottom, &middle);
    assert_equal(&top, &bottom);
}

#[test]
fn issue_17_chains_of_three_are_equal_at_rest() {
    let rounds = std::env::var("VARVE_CHAINS").map_or(1, |rounds| rounds.parse().expect("a number of rounds"));
    let first = seed::seed("chains of three");
    for round in 0..rounds {
        for (nth, makers) in mixtures().enumerate() {
            let seed = first + 100 * round + 10 * nth as u64;
            println!(
                "round {round}, mixture {nth:03b} (bits that are 1 are Varve's, the first is the top), seed {seed}"
            );
            one_round(makers, seed);
        }
    }
}
