//! Metrics, health and the page over HTTP, on a port of its own (`metrics-port`), on the loopback interface unless told
//! (`metrics-bind`).
//!
//! ```text
//!   a thread accepts ──▶ a thread a connection (`places`) ──▶ one request, one answer, closed
//!                                        │
//!        GET /metrics                    ├── INFO's figures under the names of redis_exporter (`names`), and Varve's own
//!        GET /, GET *.json               ├── the page and its figures (`page`)
//!        GET /healthz                    ├── 200 while the process answers
//!        GET /readyz                     └── 200 when commands are answered, 503 while a file is being loaded
//! ```
//! No worker takes part: what is read are counters, as INFO reads them. A connection has five seconds and 8 KB for its
//! request. Who may ask, under which names, stands in `access`.
//!
//! Not here: how the figures are gathered (`super::gather`), how requests are read (`http`).

mod access;
mod http;
mod names;
mod page;
mod places;
mod replication;
mod text;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use access::Viewer;
use http::{Answer, Request};
use page::Page;
use places::Places;

use crate::config::{Config, MetricsSettings};
use crate::net::listen::{parse_bind, tcp_socket};
use crate::state::ServerState;
use crate::system::threads;

/// How often the thread that accepts looks whether the server ends.
const LOOK: Duration = Duration::from_millis(500);

/// The sockets of the metrics port, one for each of its addresses, which are written as those of `bind`. None for port 0.
///
/// # Errors
/// When an address is none, the port is taken, or not to be had.
pub(crate) fn listen(config: &Config) -> io::Result<Vec<TcpListener>> {
    let MetricsSettings { port, bind, .. } = &config.metrics;
    let mut sockets = Vec::new();
    for text in bind.iter().filter(|_| *port != 0) {
        let wanted = parse_bind(text).map_err(io::Error::other)?;
        match tcp_socket((wanted.address, *port).into(), config) {
            Ok(socket) => {
                socket.set_read_timeout(Some(LOOK))?;
                sockets.push(socket.into());
            }
            // Without IPv6 the others serve alone.
            Err(_) if wanted.optional => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sockets)
}

/// Answers on these sockets until the server ends, on threads of its own.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn serve(sockets: Vec<TcpListener>, state: &Arc<ServerState>) -> io::Result<()> {
    let port = Arc::new(Port { state: Arc::clone(state), page: Page::default(), places: Places::default() });
    for socket in sockets {
        let port = Arc::clone(&port);
        threads::start("metrics", move || port.accept(&socket))?;
    }
    Ok(())
}

/// The port, as its threads share it.
struct Port {
    state: Arc<ServerState>,
    page: Page,
    places: Places,
}

impl Port {
    fn accept(self: &Arc<Port>, socket: &TcpListener) {
        while !self.state.is_stopping() {
            let came = socket.accept();
            self.page.follow(&self.state);
            let Ok((stream, _)) = came else {
                // Nothing came, or the system gives no descriptor: either way it is looked at again.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let stream = Arc::new(stream);
            if !self.places.enter(&stream) {
                continue;
            }
            let (port, own) = (Arc::clone(self), Arc::clone(&stream));
            let work = move || {
                port.answer(&own);
                // The place is free before the client sees the end: otherwise its next connection might be refused.
                port.places.leave(&own);
                let _ = own.shutdown(Shutdown::Write);
            };
            if std::thread::Builder::new().name("scrape".into()).spawn(work).is_err() {
                self.places.leave(&stream);
            }
        }
    }

    /// Reads one request and writes its answer. A connection that fails is closed: nobody is there to be told.
    fn answer(&self, stream: &Arc<TcpStream>) {
        let request = http::read(stream).and_then(|request| Ok((self.admit(&request, stream)?, request)));
        if !self.places.is_to_answer(stream) {
            return;
        }
        let answer = match request {
            Ok((viewer, request)) => self.route(&request, viewer),
            Err(refusal) => refusal,
        };
        let _ = http::write(stream, &answer);
    }

    fn admit(&self, request: &Request, stream: &Arc<TcpStream>) -> Result<Viewer, Answer> {
        let (Ok(address), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else {
            return Err(Answer::text(400, "Bad Request", "You are gone.\n"));
        };
        access::admit(request, (address.ip(), peer), &self.state, |time| self.places.rest(stream, time))
    }

    fn route(&self, request: &Request, viewer: Viewer) -> Answer {
        let state = &self.state;
        match request.path.as_str() {
            "/metrics" => Answer { kind: text::CONTENT_TYPE, ..Answer::text(200, "OK", text::all(state)) },
            "/healthz" => Answer::text(200, "OK", "ok\n"),
            "/readyz" if state.persist().loading.is_on() && !state.persist().loading.serves() => {
                Answer::text(503, "Service Unavailable", "loading\n")
            }
            "/readyz" => Answer::text(200, "OK", "ok\n"),
            _ => self
                .page
                .answer(request, viewer, state)
                .unwrap_or_else(|| Answer::text(404, "Not Found", "There are /, /metrics, /healthz and /readyz.\n")),
        }
    }
}
