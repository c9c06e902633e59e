//! The command line. Options that redis-cli has as well have its names and its meaning.

use clap::Parser;
use std::fmt;
use std::path::PathBuf;

use crate::view::View;

const KEYS: &str = "Keys: 1 to 7, Tab, left and right choose the view; up, down, page up, page down and home scroll; space stops \
                    looking and goes on; q ends.";

/// Shows in a terminal what a server does
#[derive(Clone, Debug, Parser)]
#[command(name = "varve-top", version, disable_help_flag = true, after_help = KEYS)]
pub(crate) struct Options {
    /// The server's name or address
    #[arg(short = 'h', long = "host", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The server's port
    #[arg(short, long, default_value_t = 6379)]
    pub(crate) port: u16,
    /// The path of the server's Unix socket, in place of a host and a port
    #[arg(short, long)]
    pub(crate) socket: Option<PathBuf>,
    /// The user's password; the environment variable REDISCLI_AUTH hides it from others' lists of processes
    #[arg(short = 'a', long = "pass")]
    pub(crate) password: Option<String>,
    /// The user's name
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Connect by TLS
    #[arg(long)]
    pub(crate) tls: bool,
    /// The name that the server's certificate has to have, in place of the host's
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,
    /// The file of the authorities that are trusted; else the machine's
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long)]
    pub(crate) insecure: bool,
    /// The file of the certificate that is shown to the server
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The file of that certificate's key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Seconds between two looks
    #[arg(short, long, default_value_t = 1.0, value_parser = seconds)]
    pub(crate) interval: f64,
    /// The view that is shown first
    #[arg(long, value_enum, default_value_t = View::Overview)]
    pub(crate) view: View,
    /// Print the view once as plain text, after two looks, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Columns of the text of --once
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub(crate) width: u16,
    /// Lines of the text of --once
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(10..=1000))]
    pub(crate) height: u16,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl Options {
    /// The password, of the command line or else of the environment.
    pub(crate) fn password(&self) -> Option<String> {
        self.password.clone().or_else(|| std::env::var("REDISCLI_AUTH").ok()).filter(|password| !password.is_empty())
    }
}

/// The server's address, as people write it.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(f, "{}", path.display()),
            None if self.host.contains(':') => write!(f, "[{}]:{}", self.host, self.port),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// A tenth of a second to an hour.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("from 0.1 to 3600".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once(&"varve-top").chain(words))
    }

    #[test]
    fn options_are_those_of_redis_cli() {
        let options = parse(&["-h", "::1", "-p", "7000", "-a", "secret", "--user", "eve"]).expect("they are known");
        assert_eq!(options.to_string(), "[::1]:7000");
        assert_eq!((options.password().as_deref(), options.user.as_deref()), (Some("secret"), Some("eve")));
        assert_eq!(parse(&["-s", "/tmp/socket"]).expect("it is known").to_string(), "/tmp/socket");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for words in [&["-i", "0"][..], &["-i", "x"], &["--cert", "f"], &["--view", "nothing"], &["--width", "1"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
