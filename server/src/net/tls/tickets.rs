//! Tickets by which a client resumes a session: the server keeps keys alone, and nothing of a session.
//!
//! ```text
//!   keys of now ---- each `tls-session-cache-timeout` seconds ----> keys of before ----> forgotten
//!     seal and open tickets                                           open tickets
//! ```
//! So a ticket is good for that time at least, and for twice that time at most. A context has keys of its own: what a change of
//! certificates or of authorities no longer allows is not resumed either.

use std::sync::Arc;

use rustls::TicketRotator;
use rustls::crypto::ring::Ticketer;
use rustls::server::ProducesTickets;

/// Keys that change every `seconds` seconds.
///
/// # Errors
/// The system gives no random numbers.
pub(super) fn changing_every(seconds: u32) -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
    let keys = || match Ticketer::new() {
        Ok(keys) => Ok(Box::new(Keys(keys)) as Box<dyn ProducesTickets>),
        Err(_) => Err(rustls::crypto::GetRandomFailed),
    };
    Ok(Arc::new(TicketRotator::new(seconds, keys)?))
}

/// One generation of keys, as what changes them takes it.
#[derive(Debug)]
struct Keys(Arc<dyn ProducesTickets>);

impl ProducesTickets for Keys {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(cipher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_opened_by_the_keys_that_sealed_it() {
        let (ours, others) = (changing_every(300).unwrap(), changing_every(300).unwrap());
        let ticket = ours.encrypt(b"session").expect("it is sealed");
        assert_eq!(ours.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(others.decrypt(&ticket), None);
    }
}
