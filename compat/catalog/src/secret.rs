//! Arguments of a request that logs and MONITOR do not show.
//!
//! ```text
//!   HELLO  3  SETNAME  AUTH  AUTH  default  sekret        first = 2, options: AUTH takes 2 secrets, SETNAME 1 word
//!             option   word  option (hidden) (hidden)     the options are walked as the command itself walks them
//! ```

use std::ops::Range;

use varve_protocol::Args;

/// The arguments of a command that are secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// None.
    None,
    /// All behind the name.
    AllArguments,
    /// All from this argument on: also those of a command that stands in the request of another one (COMMAND GETKEYS), since any
    /// may be a password there.
    From(usize),
    /// The values of these names; names and values alternate from argument `first` on.
    ValuesOf {
        /// The first name's argument.
        first: usize,
        /// The names whose values are secrets.
        names: &'static [&'static str],
    },
    /// Those of an option. Behind a word that is no option, or lacks what it takes, everything is secret: the command
    /// fails, and nobody knows what was meant.
    Options {
        /// The first argument that is an option.
        first: usize,
        /// All options of the command.
        options: &'static [SecretOption],
    },
}

/// An option of a command that has secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretOption {
    /// The word, in any case.
    pub word: &'static str,
    /// Number of arguments that it takes.
    pub takes: usize,
    /// Whether these are secrets.
    pub secret: bool,
}

/// The arguments of a request in order, None in the place of each that is not for everybody's eyes.
#[derive(Clone, Debug)]
pub struct Shown<'a> {
    secret: Secret,
    args: Args<'a>,
    /// The argument that comes next.
    at: usize,
    /// The argument that is the next option.
    option: usize,
    hidden: Range<usize>,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(secret: Secret, args: Args<'a>) -> Shown<'a> {
        let option = if let Secret::Options { first, .. } = secret { first } else { usize::MAX };
        Shown { secret, args, at: 0, option, hidden: 0..0 }
    }

    /// Reads the option at `at`: which arguments it hides, and where the next one is.
    fn read_option(&mut self, at: usize, options: &[SecretOption]) {
        let behind = at + 1;
        let fits = |option: &&SecretOption| self.args.is(at, option.word) && behind + option.takes <= self.args.len();
        (self.option, self.hidden) = match options.iter().find(fits) {
            Some(option) if option.secret => (behind + option.takes, behind..behind + option.takes),
            Some(option) => (behind + option.takes, 0..0),
            None => (usize::MAX, behind..usize::MAX),
        };
    }
}

impl<'a> Iterator for Shown<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let (at, arg) = (self.at, self.args.opt(self.at)?);
        self.at += 1;
        let hidden = match self.secret {
            Secret::None => false,
            Secret::AllArguments => at > 0,
            Secret::From(first) => at >= first,
            Secret::ValuesOf { first, names } => {
                at > first && (at - first) % 2 == 1 && names.iter().any(|name| self.args.is(at - 1, name))
            }
            Secret::Options { options, .. } => {
                if at == self.option {
                    self.read_option(at, options);
                }
                self.hidden.contains(&at)
            }
        };
        Some((!hidden).then_some(arg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_protocol::OwnedArgs;

    const HELLO: Secret = Secret::Options {
        first: 2,
        options: &[
            SecretOption { word: "AUTH", takes: 2, secret: true },
            SecretOption { word: "SETNAME", takes: 1, secret: false },
        ],
    };

    fn shown(secret: Secret, request: &str) -> String {
        let owned = OwnedArgs::from_parts(request.split(' ').collect::<Vec<_>>());
        let words =
            Shown::new(secret, owned.args()).map(|arg| String::from_utf8_lossy(arg.unwrap_or(b"-")).into_owned());
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_are_walked_as_the_command_walks_them() {
        for (request, expected) in [
            ("HELLO", "HELLO"),
            ("HELLO 3", "HELLO 3"),
            ("HELLO 3 AUTH default sekret", "HELLO 3 AUTH - -"),
            ("hello 3 auth default sekret setname x", "hello 3 auth - - setname x"),
            ("HELLO 3 SETNAME AUTH AUTH default sekret", "HELLO 3 SETNAME AUTH AUTH - -"),
            ("HELLO 2 AUTH default sekret AUTH default sekret", "HELLO 2 AUTH - - AUTH - -"),
            ("HELLO 3 AUTH AUTH AUTH SETNAME x", "HELLO 3 AUTH - - SETNAME x"),
            ("HELLO 3 AUTH sekret", "HELLO 3 AUTH -"),
            ("HELLO 3 FOO AUTH default sekret", "HELLO 3 FOO - - -"),
            ("HELLO AUTH default sekret", "HELLO AUTH default -"),
        ] {
            assert_eq!(shown(HELLO, request), expected);
        }
    }

    #[test]
    fn values_of_secret_names_are_hidden() {
        let secret = Secret::ValuesOf { first: 2, names: &["requirepass"] };
        assert_eq!(shown(secret, "CONFIG SET hz 1 requirepass x"), "CONFIG SET hz 1 requirepass -");
        assert_eq!(shown(secret, "CONFIG SET hz requirepass port 1"), "CONFIG SET hz requirepass port 1");
        assert_eq!(shown(Secret::AllArguments, "AUTH a b"), "AUTH - -");
        assert_eq!(shown(Secret::From(2), "ACL SETUSER a >b"), "ACL SETUSER - -");
        assert_eq!(shown(Secret::None, "GET a"), "GET a");
    }
}
