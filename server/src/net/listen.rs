//! Listening sockets: TCP on every address of `bind`, for one port or for two, and a Unix socket.
//!
//! ```text
//!   bind 127.0.0.1 -::1     an address with `-` before it may be missing on this machine
//!   bind * -::*             all IPv4 addresses, all IPv6 addresses (IPv6 sockets never take IPv4)
//!   port 0                  no TCP; unixsocket alone, or nothing at all, is allowed
//! ```
//!
//! Made here: bound, listening, non-blocking sockets. Not here: accepting (worker/accept.rs).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use crate::config::Config;
use crate::system::error_text;

/// The two TCP ports of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// `port`: bytes as they are.
    Plain,
    /// `tls-port`.
    Tls,
}

impl Door {
    /// Both.
    pub(crate) const ALL: [Door; 2] = [Door::Plain, Door::Tls];

    /// Its port, 0 for none.
    pub(crate) fn port(self, config: &Config) -> u16 {
        match self {
            Door::Plain => config.port,
            Door::Tls => config.tls.port,
        }
    }

    /// The name of its protocol in the log.
    pub(crate) fn protocol(self) -> &'static str {
        match self {
            Door::Plain => "TCP",
            Door::Tls => "TLS",
        }
    }

    /// The directive that names its port.
    pub(crate) fn directive(self) -> &'static str {
        match self {
            Door::Plain => "port",
            Door::Tls => "tls-port",
        }
    }
}

/// One listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    /// A TCP socket on one address.
    Tcp(mio::net::TcpListener, Door),
    /// A Unix socket; its file is removed when the server ends.
    Unix(mio::net::UnixListener, PathBuf),
}

impl Listener {
    /// The socket as mio registers it.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.source().register(registry, token, Interest::READABLE)
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Listener::Tcp(listener, _) => listener,
            Listener::Unix(listener, _) => listener,
        }
    }
}

/// An address of the `bind` directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) address: IpAddr,
    /// It is passed over where this machine lacks it.
    pub(crate) optional: bool,
}

/// The addresses of `bind`, each with its text; none where there is no port. A host name is asked for here, which may take
/// seconds: no lock may be held.
///
/// # Errors
/// A name that leads to no address.
pub(crate) fn addresses(config: &Config) -> Result<Vec<(&str, Wanted)>, String> {
    let bind = if Door::ALL.iter().any(|door| door.port(config) != 0) { &config.bind[..] } else { &[] };
    bind.iter().map(|text| Ok((text.as_str(), parse_bind(text)?))).collect()
}

/// Binds TCP sockets of one door for all of these addresses (none: no sockets). Fails with a message that names the address; an
/// optional address (`-` before it) that this machine lacks is passed over, but at least one socket must come of a list.
pub(crate) fn tcp(config: &Config, door: Door, addresses: &[(&str, Wanted)]) -> Result<Vec<Listener>, String> {
    let port = door.port(config);
    let mut listeners = Vec::new();
    if port == 0 {
        return Ok(listeners);
    }
    for (text, wanted) in addresses {
        match bind_tcp(SocketAddr::new(wanted.address, port), config) {
            Ok(listener) => listeners.push(Listener::Tcp(listener, door)),
            Err(error) if wanted.optional && is_absent(&error) => {}
            Err(error) => {
                return Err(format!(
                    "Could not create server TCP listening socket {text}:{port}: {}",
                    error_text(&error)
                ));
            }
        }
    }
    if listeners.is_empty() && !addresses.is_empty() {
        return Err(format!("no address of the bind list is available for port {port}"));
    }
    Ok(listeners)
}

/// Binds the Unix socket `path`, after removing the socket that an earlier run left there, with the file mode `mode` unless it
/// is 0: before anybody can connect. A file that is no socket stays, and is an error.
pub(crate) fn unix(path: &Path, mode: u32, backlog: i32) -> Result<Listener, String> {
    let failed = |error: io::Error| format!("Failed opening Unix socket: {}: {}", path.display(), error_text(&error));
    if std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        std::fs::remove_file(path).map_err(failed)?;
    }
    let bound = || -> io::Result<mio::net::UnixListener> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&socket2::SockAddr::unix(path)?)?;
        if mode != 0 {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        }
        socket.listen(backlog)?;
        socket.set_nonblocking(true)?;
        Ok(mio::net::UnixListener::from_std(socket.into()))
    };
    bound().map(|listener| Listener::Unix(listener, path.to_owned())).map_err(failed)
}

/// An address as `bind` has it: `*` and `::*` are all of a family, and one behind a `-` may be missing.
///
/// # Errors
/// A name that leads to no address.
pub(crate) fn parse_bind(text: &str) -> Result<Wanted, String> {
    let (optional, address) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let address = match address {
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "::*" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        name => resolve(name).ok_or_else(|| format!("bind: {name} is not an address of this machine"))?,
    };
    Ok(Wanted { address, optional })
}

/// An address in figures, or the first address of a host name.
fn resolve(name: &str) -> Option<IpAddr> {
    if let Ok(address) = name.parse() {
        return Some(address);
    }
    use std::net::ToSocketAddrs;
    (name, 0).to_socket_addrs().ok()?.next().map(|found| found.ip())
}

fn bind_tcp(address: SocketAddr, config: &Config) -> io::Result<mio::net::TcpListener> {
    let socket = tcp_socket(address, config)?;
    socket.set_nonblocking(true)?;
    Ok(mio::net::TcpListener::from_std(socket.into()))
}

/// A socket that listens on this address, with the settings that all listening sockets have.
///
/// # Errors
/// When the system refuses it: the address is not there, or the port is taken.
pub(crate) fn tcp_socket(address: SocketAddr, config: &Config) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    if config.socket_mark > 0
        && let Err(error) = socket.set_mark(config.socket_mark)
    {
        // The socket is served without the mark then, as redis-server does.
        tracing::warn!("Unable to set the mark of a listening socket: {}", error_text(&error));
    }
    socket.bind(&address.into())?;
    socket.listen(config.tcp_backlog)?;
    Ok(socket)
}

/// The errors that say "this machine has no such address", which `-` before an address forgives.
fn is_absent(error: &io::Error) -> bool {
    let absent =
        [libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT, libc::ESOCKTNOSUPPORT, libc::ENOPROTOOPT];
    error.raw_os_error().is_some_and(|code| absent.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bind_list_is_parsed() {
        assert_eq!(parse_bind("*").unwrap(), Wanted { address: "0.0.0.0".parse().unwrap(), optional: false });
        assert_eq!(parse_bind("-::*").unwrap(), Wanted { address: "::".parse().unwrap(), optional: true });
        assert_eq!(parse_bind("-::1").unwrap(), Wanted { address: "::1".parse().unwrap(), optional: true });
    }

    #[test]
    fn an_absent_address_is_an_error_unless_optional() {
        let port = free_port();
        let config = |bind: &[&str], port| Config {
            bind: bind.iter().map(|&text| text.to_owned()).collect(),
            port,
            ..Config::default()
        };
        let opened = |bind: &[&str], port, door| {
            let config = config(bind, port);
            tcp(&config, door, &addresses(&config).unwrap())
        };
        let error = opened(&["192.0.2.77"], port, Door::Plain).unwrap_err();
        assert!(error.contains("192.0.2.77"), "{error}");
        assert_eq!(opened(&["-192.0.2.77", "127.0.0.1"], port, Door::Plain).unwrap().len(), 1);
        assert!(opened(&["127.0.0.1"], 0, Door::Plain).unwrap().is_empty());
        assert!(opened(&["127.0.0.1"], port, Door::Tls).unwrap().is_empty(), "no port of its own");
    }

    #[test]
    fn unix_socket_replaces_a_stale_file_and_takes_its_mode() {
        let path = std::env::temp_dir().join(format!("varve-listen-{}.sock", std::process::id()));
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a listener that is gone leaves its socket");
        let first = unix(&path, 0o700, 16).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(first);
        std::fs::remove_file(&path).unwrap();
        // A file that is no socket is somebody's data.
        std::fs::write(&path, b"data").unwrap();
        assert!(unix(&path, 0o700, 16).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
        std::fs::remove_file(&path).unwrap();
    }

    /// Marks are set by those alone who may administrate the network.
    #[test]
    fn listening_sockets_have_the_mark() {
        let probe = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let may_mark = probe.set_mark(1).is_ok();
        for mark in [0, 77] {
            let config = Config { socket_mark: mark, ..Config::default() };
            // Without that right the socket listens all the same.
            let socket = tcp_socket("127.0.0.1:0".parse().unwrap(), &config).unwrap();
            if may_mark {
                assert_eq!(socket.mark().unwrap(), mark);
            } else {
                varve_testkit::skip::skipped("this process may not set marks");
            }
        }
    }

    fn free_port() -> u16 {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        probe.local_addr().unwrap().port()
    }
}
