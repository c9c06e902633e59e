//! Work beside the clients whose histories are looked at.

use std::sync::atomic::{AtomicBool, Ordering};

use varve_testkit::{Random, Server};

/// Writes and deletes beside what a test looks at, until it is told to stop, so that objects move and tables grow and shrink under them.
///
/// # Panics
/// When the server is lost, or refuses one of these.
pub fn churn(server: &Server, stop: &AtomicBool) {
    let (mut client, mut random) = (server.client(), Random::new(1));
    let mut growing = true;
    while !stop.load(Ordering::Relaxed) {
        growing ^= random.one_in(40);
        for _ in 0..50 {
            let key = format!("churn:{}", random.below(5000)).into_bytes();
            if growing {
                client.queue(&[b"SET".to_vec(), key, vec![b'c'; random.below(400)]]);
            } else {
                client.queue(&[b"DEL".to_vec(), key]);
            }
        }
        client.flush().expect("sent");
        (0..50).for_each(|_| assert!(!client.read().expect("a reply").is_error()));
    }
}
