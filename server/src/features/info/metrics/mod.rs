//! Metrics and health over HTTP, on a port of its own (`metrics-port`), on the loopback interface.
//!
//! ```text
//!   a thread accepts ──▶ a thread a connection, four at most ──▶ one request, one answer, closed
//!                                        │
//!        GET /metrics                    ├── INFO's figures under the names of redis_exporter (`names`), and Varve's own
//!        GET /healthz                    ├── 200 while the process answers
//!        GET /readyz                     └── 200 when commands are answered, 503 while a file is being loaded
//! ```
//! No worker takes part: what is read are counters, as INFO reads them. A connection has five seconds and 8 KB for its
//! request. A request whose Host is not a name of this machine's loopback is refused: a page of a stranger, which a browser
//! here has open, could otherwise read the figures under a name that leads here (DNS rebinding).
//!
//! Not here: how the figures are gathered (`super::gather`), how requests are read (`http`).

mod http;
mod names;
mod text;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Answer, Request};
use socket2::SockRef;

use crate::state::ServerState;

/// Connections at once; more are closed unanswered.
const CONNECTIONS_MAX: usize = 4;
/// How often the thread that accepts looks whether the server ends.
const LOOK: Duration = Duration::from_millis(500);

/// The sockets of the metrics port: 127.0.0.1, and ::1 where the machine has it. None for port 0.
///
/// # Errors
/// When the port is taken, or not to be had.
pub(crate) fn listen(port: u16) -> io::Result<Vec<TcpListener>> {
    if port == 0 {
        return Ok(Vec::new());
    }
    let mut sockets = vec![TcpListener::bind((Ipv4Addr::LOCALHOST, port))?];
    // Without IPv6 the other one serves alone.
    sockets.extend(TcpListener::bind((Ipv6Addr::LOCALHOST, port)));
    for socket in &sockets {
        SockRef::from(socket).set_read_timeout(Some(LOOK))?;
    }
    Ok(sockets)
}

/// Answers on these sockets until the server ends, on threads of its own.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn serve(sockets: Vec<TcpListener>, state: &Arc<ServerState>) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    for socket in sockets {
        let (state, open) = (Arc::clone(state), Arc::clone(&open));
        std::thread::Builder::new().name("metrics".into()).spawn(move || accept(&socket, &state, &open))?;
    }
    Ok(())
}

fn accept(socket: &TcpListener, state: &Arc<ServerState>, open: &Arc<AtomicUsize>) {
    while !state.is_stopping() {
        let Ok((stream, _)) = socket.accept() else {
            // Nothing came, or the system gives no descriptor: either way it is looked at again.
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        // Relaxed: a bound on threads, which no other data depends on.
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (state, count) = (Arc::clone(state), Arc::clone(open));
        let work = move || {
            answer(&stream, &state);
            count.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("scrape".into()).spawn(work).is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Reads one request and writes its answer. A connection that fails is closed: nobody is there to be told.
fn answer(stream: &TcpStream, state: &ServerState) {
    let answer = match http::read(stream) {
        Ok(request) => route(&request, state),
        Err(refusal) => refusal,
    };
    let _ = http::write(stream, &answer);
}

fn route(request: &Request, state: &ServerState) -> Answer {
    if !request.is_for_loopback() {
        return Answer::text(403, "Forbidden", "This name is not one of this machine's loopback names.\n");
    }
    match request.path.as_str() {
        "/metrics" => Answer { kind: text::CONTENT_TYPE, ..Answer::text(200, "OK", text::all(state)) },
        "/healthz" => Answer::text(200, "OK", "ok\n"),
        "/readyz" if state.persist().loading.is_on() => Answer::text(503, "Service Unavailable", "loading\n"),
        "/readyz" => Answer::text(200, "OK", "ok\n"),
        _ => Answer::text(404, "Not Found", "There are /metrics, /healthz and /readyz.\n"),
    }
}
