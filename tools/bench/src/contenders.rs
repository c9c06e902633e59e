//! The servers of a run: Varve, the peer, and the rivals that the command line names.
//!
//! ```text
//!   --rival valkey='valkey-server --port {port} --save ""'   a name and a command; {port} is the port to listen on
//! ```
//! A rival gets its settings by CONFIG SET, since its files and options are not known; one that it refuses stays as it is there. Its
//! version is read from INFO. A case that a rival refuses has no figure of it; Varve and the peer must not refuse.

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

/// Names of all servers of a run and the parts that they have in figures, in the order of [`entrants`].
pub(crate) fn sides() -> Vec<(String, Role)> {
    entrants(&[]).into_iter().map(|one| (one.name, one.role)).collect()
}

/// A measured figure, or none where it is a rival that failed: an experiment goes on without that figure.
///
/// # Errors
/// The failure of Varve or of the peer, and the wish to stop.
pub(crate) fn spared<T>(name: &str, role: Role, measured: io::Result<T>) -> io::Result<Option<T>> {
    match measured {
        Err(error) if role == Role::Rival && !crate::screen::is_stopped() => {
            crate::say!("{name}: no figure here: {error}");
            Ok(None)
        }
        measured => measured.map(Some),
    }
}

/// The figures that `measure` finds on each contender, each alone while it runs; nothing where a rival has no figures.
///
/// # Errors
/// When Varve or the peer cannot be started or fails.
pub(crate) fn one_by_one(
    settings: &[String],
    measure: &mut dyn FnMut(&Server) -> io::Result<Vec<f64>>,
) -> io::Result<Vec<Vec<f64>>> {
    let mut all: Vec<Vec<f64>> = Vec::new();
    for entrant in entrants(settings) {
        let found = entrant.start().and_then(|one| measure(&one.server));
        all.push(spared(&entrant.name, entrant.role, found)?.unwrap_or_default());
    }
    Ok(all)
}

/// One of the figures that [`one_by_one`] found, of each contender.
pub(crate) fn column(all: &[Vec<f64>], number: usize) -> Vec<f64> {
    all.iter().map(|figures| figures.get(number).copied().unwrap_or(f64::NAN)).collect()
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
    pub(crate) launch: Launch,
    /// Lines of a configuration file, sent by CONFIG SET.
    settings: Vec<String>,
}

impl Entrant {
    /// A server that takes redis-server's configuration, with one worker.
    pub(crate) fn configured(name: &str, role: Role, launch: Launch, settings: &[String]) -> Entrant {
        Entrant::with_workers(name, role, launch, settings, 1)
    }

    fn with_workers(name: &str, role: Role, launch: Launch, settings: &[String], workers: usize) -> Entrant {
        let launch = settings.iter().fold(launch, |launch, line| launch.config(line.as_str()));
        let launch = launch.config(format!("io-threads {workers}"));
        Entrant { name: name.into(), role, launch, settings: Vec::new() }
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it does not start, or refuses a setting.
    pub(crate) fn start(&self) -> io::Result<Contender> {
        let mut server = self.launch.start()?;
        if self.role == Role::Rival {
            server.find_process()?;
        }
        let contender = Contender { name: self.name.clone(), role: self.role, server };
        self.settings.iter().try_for_each(|line| contender.set(line))?;
        Ok(contender)
    }
}

impl Contender {
    /// Has it take a line of a configuration file.
    ///
    /// # Errors
    /// When it refuses and is not a rival: any server that speaks RESP may be one, and has settings of its own. A rival too has to
    /// take a limit of memory: without one it would be drawn as a server that keeps it.
    pub(crate) fn set(&self, line: &str) -> io::Result<()> {
        match must(&mut self.server.connect()?, &format!("CONFIG SET {line}")) {
            Err(error) if self.role == Role::Rival && !line.starts_with("maxmemory") => {
                crate::say!("{}: its own setting stays: {error}", self.name)
            }
            reply => drop(reply?),
        }
        Ok(())
    }
}

/// Varve, the peer and the rivals; the first two have one worker.
pub(crate) fn entrants(settings: &[String]) -> Vec<Entrant> {
    all(settings, 1)
}

/// Varve and the peer with this number of workers, and the rivals with those of their commands.
pub(crate) fn entrants_with(workers: usize) -> Vec<Entrant> {
    all(&[], workers)
}

fn all(settings: &[String], workers: usize) -> Vec<Entrant> {
    let own = |name: &str, role, launch: Launch| Entrant::with_workers(name, role, launch, settings, workers);
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
    // A server without INFO may be a rival.
    let info = server.connect()?.try_cmd("INFO server")?.text();
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

    #[test]
    fn a_rival_may_lack_a_figure_and_the_others_may_not() {
        let failed = || Err::<u8, _>(io::Error::other("unknown command"));
        assert_eq!(spared("valkey", Role::Rival, failed()).unwrap(), None);
        assert_eq!(spared("valkey", Role::Rival, Ok(7)).unwrap(), Some(7));
        assert!(spared("Varve", Role::Varve, failed()).is_err() && spared(PEER, Role::Peer, failed()).is_err());
        let sides = sides();
        assert_eq!(sides[..2], [("Varve".to_string(), Role::Varve), (PEER.to_string(), Role::Peer)]);
        // A rival without a figure takes nobody's place.
        assert!(column(&[vec![1.0, 2.0], vec![], vec![3.0, 4.0]], 1)[1].is_nan());
    }
}
