//! The servers of a run: Varve, the peer, and the rivals that the command line names.
//!
//! ```text
//!   --rival valkey='valkey-server --port {port} --save ""'   a name and a command; {port} is the port to listen on
//! ```
//! A rival gets its settings by CONFIG SET, since its files and options are not known. Its version is read from INFO.

use crate::report::Role;
use crate::turns::must;
use std::io;
use std::sync::OnceLock;
use varve_testkit::{Launch, Server};

/// The peer's name in tables and charts.
pub(crate) const PEER: &str = "redis-server";
static RIVALS: OnceLock<Vec<Rival>> = OnceLock::new();

/// A server that the command line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rival {
    name: String,
    /// The command's words; one or more of them hold `{port}`.
    words: Vec<String>,
}

impl std::str::FromStr for Rival {
    type Err = String;

    fn from_str(text: &str) -> Result<Rival, String> {
        let (name, command) = text.split_once('=').ok_or("a rival is NAME=COMMAND")?;
        let words: Vec<String> = command.split_whitespace().map(|word| word.trim_matches(['"', '\'']).into()).collect();
        if name.is_empty() || !command.contains("{port}") {
            return Err("a rival needs a name, and a command that holds {port}".into());
        }
        Ok(Rival { name: name.into(), words })
    }
}

/// Keeps the rivals of the command line; later calls change nothing.
pub(crate) fn invite(rivals: Vec<Rival>) {
    RIVALS.get_or_init(|| rivals);
}

/// A server of a run, with the name and the part that it has in figures.
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) server: Server,
}

/// How to start a contender.
pub(crate) struct Entrant {
    pub(crate) name: String,
    pub(crate) role: Role,
    launch: Launch,
    /// Lines of a configuration file, sent by CONFIG SET.
    settings: Vec<String>,
}

impl Entrant {
    /// Starts it.
    ///
    /// # Errors
    /// When it does not start, or refuses a setting.
    pub(crate) fn start(&self) -> io::Result<Contender> {
        let server = self.launch.start()?;
        let mut client = server.client();
        for line in &self.settings {
            must(&mut client, &format!("CONFIG SET {line}"))?;
        }
        Ok(Contender { name: self.name.clone(), role: self.role, server })
    }
}

/// Varve, the peer and the rivals; the first two have one worker.
pub(crate) fn entrants(settings: &[String]) -> Vec<Entrant> {
    let own = |name: &str, role, launch: Launch| {
        let lines = settings.iter().map(String::as_str).chain(["io-threads 1"]);
        let launch = lines.fold(launch, Launch::config);
        Entrant { name: name.into(), role, launch, settings: Vec::new() }
    };
    let mut all = vec![own("Varve", Role::Varve, Launch::varve()), own(PEER, Role::Peer, Launch::peer())];
    for Rival { name, words } in RIVALS.get().map_or(&[][..], Vec::as_slice) {
        let (launch, settings) = (Launch::command(words.clone()), settings.to_vec());
        all.push(Entrant { name: name.clone(), role: Role::Rival, launch, settings });
    }
    all
}

/// Starts all of them.
///
/// # Errors
/// Those of [`Entrant::start`].
pub(crate) fn start(settings: &[String]) -> io::Result<Vec<Contender>> {
    entrants(settings).iter().map(Entrant::start).collect()
}

/// The version of each, with its name.
///
/// # Errors
/// Those of [`start`].
pub(crate) fn versions() -> io::Result<Vec<(String, String)>> {
    start(&[])?.iter().map(|one| Ok((one.name.clone(), version(&one.server)?))).collect()
}

fn version(server: &Server) -> io::Result<String> {
    let info = must(&mut server.client(), "INFO server")?.text();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
        line.map(str::to_string)
    };
    let own = ["varve_version", "valkey_version", "dragonfly_version"].iter().find_map(|name| field(name));
    let redis = field("redis_version").unwrap_or_else(|| "of no known version".into());
    Ok(match own {
        Some(own) => format!("{own} (redis_version {redis})"),
        None => redis,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_a_name_and_a_command() {
        let rival: Rival = "valkey=valkey-server --port {port} --save \"\"".parse().unwrap();
        assert_eq!(rival.name, "valkey");
        assert_eq!(rival.words, ["valkey-server", "--port", "{port}", "--save", ""]);
        assert!("valkey".parse::<Rival>().is_err() && "valkey=valkey-server".parse::<Rival>().is_err());
    }
}
