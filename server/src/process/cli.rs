//! The command line, as redis-server takes it.
//!
//! ```text
//!   varve-server [/path/to/file] [-] [--name word ... [--name word ...]] [-]
//!   varve-server --version | -v | --help | -h | --check-system
//! ```
//! `-` as the first or the last argument reads standard input. File, standard input and options are read in this order,
//! the last word counts. Each option becomes a line of configuration: `--port 7000`, or `"--port 7000"` in one argument.
//! The argument behind a bare `--name` is its value whatever it looks like; only `--save` may go without one. Not here:
//! what the lines mean (`config`).

use std::path::PathBuf;

use varve_protocol::words;

/// The requests of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Serve(Invocation),
    /// Print the version.
    Version,
    /// Print the usage.
    Help,
    /// Look at the machine.
    CheckSystem,
    /// An option of redis-server that there is not.
    Unavailable(&'static str),
}

/// Where the configuration comes from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// Absolute path of the configuration file.
    pub(crate) file: Option<PathBuf>,
    pub(crate) stdin: bool,
    /// Options as lines of configuration.
    pub(crate) options: Vec<u8>,
}

/// Reads the arguments behind the program's name.
pub(crate) fn parse(arguments: &[Vec<u8>]) -> Request {
    match arguments.first().map(Vec::as_slice) {
        Some(b"-v" | b"--version") => return Request::Version,
        Some(b"-h" | b"--help") => return Request::Help,
        Some(b"--test-memory") => return Request::Unavailable("--test-memory"),
        Some(b"--check-system") => return Request::CheckSystem,
        _ => {}
    }
    let mut invocation = Invocation::default();
    let mut rest = arguments;
    if let Some((first, others)) = arguments.split_first()
        && first.first() != Some(&b'-')
    {
        let path = crate::config::path_of(first);
        invocation.file = Some(std::path::absolute(&path).unwrap_or(path));
        rest = others;
    }
    let mut options = Options::default();
    for (at, argument) in rest.iter().enumerate() {
        let outermost = (at == 0 && invocation.file.is_none()) || at + 1 == rest.len();
        if argument == b"-" && outermost {
            invocation.stdin = true;
        } else {
            options.take(argument, rest.get(at + 1));
        }
    }
    invocation.options = options.lines;
    Request::Serve(invocation)
}

/// Option arguments on their way to lines.
#[derive(Default)]
struct Options {
    lines: Vec<u8>,
    /// The last argument was a bare `--name`: the next one is its value.
    wants_value: bool,
}

impl Options {
    fn take(&mut self, argument: &[u8], next: Option<&Vec<u8>>) {
        match argument.strip_prefix(b"--") {
            Some(option) if !self.wants_value => {
                if !self.lines.is_empty() {
                    self.lines.push(b'\n');
                }
                self.lines.extend_from_slice(option);
                self.lines.push(b' ');
                // An option with its value in the same argument wants no more.
                self.wants_value = words::words(argument).is_some_and(|words| words.len() == 1);
                let followed = next.is_some_and(|next| !next.starts_with(b"--"));
                if option.eq_ignore_ascii_case(b"save") && !followed {
                    self.lines.extend_from_slice(b"\"\"");
                    self.wants_value = false;
                }
            }
            _ => {
                self.lines.extend_from_slice(&words::quote(argument));
                self.lines.push(b' ');
                self.wants_value = false;
            }
        }
    }
}

/// The text of `--help`.
pub(crate) const USAGE: &str = "\
Usage: varve-server [/path/to/varve.conf] [options] [-]
       varve-server -                   take the configuration from standard input
       varve-server -v | --version
       varve-server -h | --help
       varve-server --check-system      look at the machine, and say what may hinder the server

Every directive of the configuration file is an option too:
       varve-server --port 7777 --maxmemory 1gb --save \"\"
       varve-server /etc/varve.conf --loglevel verbose
       echo 'maxmemory 128mb' | varve-server -
";

#[cfg(test)]
mod tests {
    use super::{Invocation, Request, parse};
    use std::path::Path;

    fn invocation(arguments: &[&str]) -> Invocation {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect();
        match parse(&arguments) {
            Request::Serve(invocation) => invocation,
            other => panic!("{other:?}"),
        }
    }

    /// The options of each command line as redis-server 7.0.15 quotes them in its errors.
    #[test]
    fn options_become_lines() {
        let cases: [(&[&str], &str); 11] = [
            (&["--port", "7000"], "port \"7000\" "),
            (&["--port=7000"], "port=7000 "),
            (&["--port", "1", "foo", "--hz", "2"], "port \"1\" \"foo\" \nhz \"2\" "),
            (&["--save", "--port", "1"], "save \"\"\nport \"1\" "),
            (&["--port", "1", "--save"], "port \"1\" \nsave \"\""),
            (&["--save", "", "--hz", "1"], "save \"\" \nhz \"1\" "),
            (&["--save", "900", "1"], "save \"900\" \"1\" "),
            (&["--port 17 19"], "port 17 19 "),
            (&["--replicaof", "--127.0.0.1", "abc"], "replicaof \"--127.0.0.1\" \"abc\" "),
            (&["-x"], "\"-x\" "),
            (&["--a b", "--c"], "a b \nc "),
        ];
        for (arguments, expected) in cases {
            assert_eq!(String::from_utf8_lossy(&invocation(arguments).options), expected, "{arguments:?}");
        }
    }

    #[test]
    fn file_and_standard_input() {
        let all = invocation(&["/etc/varve.conf", "--port", "1", "-"]);
        assert_eq!((all.file.as_deref(), all.stdin), (Some(Path::new("/etc/varve.conf")), true));
        assert!(invocation(&["-", "--port", "1"]).stdin);
        assert!(!invocation(&["--requirepass", "-", "--port", "1"]).stdin);
        assert!(invocation(&["varve.conf"]).file.is_some_and(|path| path.is_absolute()));
        assert_eq!(invocation(&[]), Invocation::default());
    }

    #[test]
    fn questions_come_before_all_else() {
        let questions = [
            ("-v", Request::Version),
            ("--version", Request::Version),
            ("-h", Request::Help),
            ("--check-system", Request::CheckSystem),
        ];
        for (argument, expected) in questions {
            assert_eq!(parse(&[argument.as_bytes().to_vec(), b"--port".to_vec()]), expected);
        }
    }
}
