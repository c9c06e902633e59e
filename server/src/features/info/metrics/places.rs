//! The connections of the metrics port: how many there are, and which one gives its place to the next.
//!
//! ```text
//!   accept --enter--> asks --request is whole--> is answered --leave-->
//!                     |  no place is free: the one that asks for longest ends
//! ```
//! Connections that never ask for anything, or with wrong passwords, cost nobody an answer: the probe that says whether the server
//! lives above all. One that is answered keeps its place.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_base::shared::SharedMutex;

/// Connections at once.
pub(super) const PLACES: usize = 16;

/// How often a connection that waits looks whether it still has its place.
const LOOK: Duration = Duration::from_millis(10);

/// See the module's picture.
#[derive(Debug, Default)]
pub(super) struct Places(SharedMutex<Vec<Place>>);

#[derive(Debug)]
struct Place {
    stream: Arc<TcpStream>,
    /// Its request is whole.
    is_answered: bool,
}

impl Places {
    /// Takes a place for this connection; false if all others are being answered.
    pub(super) fn enter(&self, stream: &Arc<TcpStream>) -> bool {
        let mut all = self.0.lock();
        if all.len() >= PLACES {
            // They stand in the order in which they came.
            let Some(oldest) = all.iter().position(|place| !place.is_answered) else { return false };
            // Its thread reads the end, and finds its place taken.
            let _ = all.remove(oldest).stream.shutdown(Shutdown::Both);
        }
        all.push(Place { stream: Arc::clone(stream), is_answered: false });
        true
    }

    /// Waits for as long, or until the connection has lost its place.
    pub(super) fn rest(&self, stream: &Arc<TcpStream>, time: Duration) {
        let end = Instant::now() + time;
        let has_place = || self.0.lock().iter().any(|place| Arc::ptr_eq(&place.stream, stream));
        while has_place() && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
    }

    /// The connection has asked, and keeps its place until it leaves; false if it has lost that before.
    pub(super) fn is_to_answer(&self, stream: &Arc<TcpStream>) -> bool {
        let mut all = self.0.lock();
        let place = all.iter_mut().find(|place| Arc::ptr_eq(&place.stream, stream));
        place.map(|place| place.is_answered = true).is_some()
    }

    /// The connection's place is free.
    pub(super) fn leave(&self, stream: &Arc<TcpStream>) {
        self.0.lock().retain(|place| !Arc::ptr_eq(&place.stream, stream));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// Both ends of a connection.
    fn pair(listener: &TcpListener) -> (TcpStream, Arc<TcpStream>) {
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        (client, Arc::new(listener.accept().expect("a connection").0))
    }

    #[test]
    fn issue_19_the_one_that_asks_for_longest_gives_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let places = Places::default();
        let mut all: Vec<_> = (0..PLACES).map(|_| pair(&listener)).collect();
        assert!(all.iter().all(|(_, server)| places.enter(server)));
        assert!(places.is_to_answer(&all[0].1));
        let next = pair(&listener);
        assert!(places.enter(&next.1));
        assert_eq!(all[1].0.read(&mut [0]).expect("its end"), 0, "it has asked for nothing");
        assert!(!places.is_to_answer(&all[1].1), "its place is taken");
        for (_, server) in all[2..].iter().chain([&next]) {
            assert!(places.is_to_answer(server));
        }
        let late = pair(&listener);
        assert!(!places.enter(&late.1), "all are being answered");
        places.leave(&all[0].1);
        assert!(places.enter(&late.1));
    }
}
