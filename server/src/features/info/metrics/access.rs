//! Clients that may ask the metrics port, and names that they may see.
//!
//! ```text
//!   comes to      its Host must be                         password
//!   loopback      a loopback name, or a configured one     none (one that is given counts)
//!   another       the address it came to, or a configured  Basic: a user who may run INFO
//!   address       name (metrics-hosts)
//!
//!   sees names of keys, arguments   if its user may run SLOWLOG GET and read all keys, unless the server hides names
//!   sees clients' names, addresses  if its user may run CLIENT LIST
//! ```
//! The user of a request without a password is `default`, if that one needs none; else nobody, who sees neither.
//!
//! `/healthz` and `/readyz` ask for no password: what watches a container has none, and they tell next to nothing. A Host that
//! is none of these is refused: a page of a stranger, which a browser here has open, could otherwise read the figures under a
//! name that leads here (DNS rebinding). The port speaks plain HTTP, so that a password is as safe as the network; a proxy may
//! speak TLS before it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64ct::{Base64, Encoding};
use varve_acl::User;
use varve_exec::denials::{Origin, shown};
use varve_protocol::{Args, Span};

use super::http::{Answer, Request};
use crate::features::acl::state::log::{Event, Reason};
use crate::state::{Now, ServerState};

/// How long a wrong password is answered later: four connections at once try eight in a second.
const LATER: Duration = Duration::from_millis(500);
/// Questions that ask for no password.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// A client that may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Viewer {
    /// Names of keys and arguments of commands may be shown.
    pub(super) sees_names: bool,
    /// Names, addresses and users of clients may be shown.
    pub(super) sees_clients: bool,
}

impl Viewer {
    /// Sees neither: a user who is not known.
    const NOBODY: Viewer = Viewer { sees_names: false, sees_clients: false };

    /// The page shows a user as much as that user may see elsewhere.
    fn of(user: &User, state: &ServerState) -> Viewer {
        let sees_names = sees_names(user, state) && !state.store().hides_names();
        Viewer { sees_names, sees_clients: may_run(user, b"client|list", state) }
    }
}

/// Whether a request that came to this address may be answered. It waits by `rest` for the answer to a wrong password.
///
/// # Errors
/// The answer that refuses it.
pub(super) fn admit(
    request: &Request,
    ends: (IpAddr, SocketAddr),
    state: &ServerState,
    rest: impl FnOnce(Duration),
) -> Result<Viewer, Answer> {
    let (address, peer) = ends;
    let config = state.config().snapshot();
    let address = address.to_canonical();
    if !is_named(request, address, &config.metrics.hosts) {
        return Err(Answer::text(403, "Forbidden", "This name is not one under which the metrics port answers.\n"));
    }
    if request.basic.is_empty() {
        let may_ask = address.is_loopback() || PROBES.contains(&request.path.as_str());
        let users = state.acl().users();
        let stranger = || match users.default_user() {
            user if user.is_open() => Viewer::of(user, state),
            _ => Viewer::NOBODY,
        };
        return may_ask.then(stranger).ok_or_else(unknown);
    }
    match login(&request.basic, state) {
        Ok(user) if may_run(&user, b"info", state) => Ok(Viewer::of(&user, state)),
        Ok(_) => Err(unknown()),
        Err(name) => {
            log_login(name, peer, state);
            rest(LATER);
            Err(unknown())
        }
    }
}

fn unknown() -> Answer {
    Answer::text(401, "Unauthorized", "A user who may run INFO is to log in.\n")
}

/// Whether the request's Host leads here by right.
fn is_named(request: &Request, address: IpAddr, hosts: &[String]) -> bool {
    let name = request.host_name();
    let named: Option<IpAddr> = name.parse().ok().map(|named: IpAddr| named.to_canonical());
    let by_address = match address.is_loopback() {
        true => name.eq_ignore_ascii_case("localhost") || named.is_some_and(|named| named.is_loopback()),
        false => named == Some(address),
    };
    // HTTP/1.0 may name no host; it comes from no browser.
    name.is_empty() || by_address || hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

/// The user of these words of an Authorization header, or the name that was given with a password that is not right.
fn login(basic: &str, state: &ServerState) -> Result<Arc<User>, Vec<u8>> {
    let words = Base64::decode_vec(basic).unwrap_or_default();
    let Some(colon) = words.iter().position(|&byte| byte == b':') else { return Err(words) };
    let (name, password) = (&words[..colon], &words[colon + 1..]);
    state.acl().users().admit(name, password).cloned().ok_or_else(|| name.to_vec())
}

/// Puts a login that has failed into ACL LOG, as one of a connection of clients.
fn log_login(name: Vec<u8>, peer: SocketAddr, state: &ServerState) {
    let event = Event { reason: Reason::Login, origin: Origin::Client, object: b"GET".to_vec(), user: shown(&name) };
    let len_max = state.config().snapshot().acl_log_len_max as usize;
    state.acl().log().add(event, Now::read().unix_ms, format!("addr={peer} name=metrics-port"), len_max);
}

fn may_run(user: &User, name: &'static [u8], state: &ServerState) -> bool {
    let row = state.table().by_full_name(name);
    row.is_some_and(|row| user.check(row, Args::new(name, &[Span { start: 0, len: name.len() }])).is_ok())
}

/// Whether a user sees elsewhere what the page shows: keys of all kinds, and arguments of slow commands.
fn sees_names(user: &User, state: &ServerState) -> bool {
    let row = state.table().by_full_name(b"slowlog|get");
    row.is_some_and(|row| user.may_read_all_keys(row, Args::new(b"SLOWLOG", &[Span { start: 0, len: 7 }])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str, address: &str) -> bool {
        let request = Request { host: host.into(), ..Request::default() };
        is_named(&request, address.parse().unwrap(), &["db.example.com".into()])
    }

    #[test]
    fn only_names_that_lead_here_by_right_are_answered() {
        for host in
            ["", "localhost", "LOCALHOST:9121", "127.0.0.1:80", "127.8.9.1", "[::1]:9121", "[::1]", "DB.example.com:1"]
        {
            assert!(named(host, "127.0.0.1"), "{host}");
        }
        for host in
            ["example.com", "localhost.example.com:9121", "192.168.0.1", "[::2]", "[", "127.0.0.1.example.com", ":80x"]
        {
            assert!(!named(host, "127.0.0.1"), "{host}");
        }
        for host in ["", "10.1.2.3", "10.1.2.3:9121", "db.example.com"] {
            assert!(named(host, "10.1.2.3"), "{host}");
        }
        for host in ["localhost", "127.0.0.1", "10.1.2.4", "example.com", "[::1]"] {
            assert!(!named(host, "10.1.2.3"), "{host}");
        }
        assert!(named("[fd00::1]:9121", "fd00::1"));
    }
}
