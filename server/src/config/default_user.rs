//! The one user, `default`: its passwords, and the line of a file that says them.
//!
//! ```text
//!   user default on nopass ~* &* +@all
//!   user default on #2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae ~* &* +@all
//!              on | off, passwords, all keys, all channels, all commands
//! ```
//! redis-server writes such a line into every file that it rewrites. A line is taken if it says no more than `requirepass`
//! could: which passwords there are. Anything else is refused, since it would be lost in silence. Passwords are kept as
//! their SHA-256 digests.

use sha2::{Digest, Sha256};

/// The passwords of the user; none means that none is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passwords(Vec<[u8; 32]>);

impl Passwords {
    /// The one password of `requirepass`, where empty means none.
    pub(crate) fn of(plain: &[u8]) -> Passwords {
        Passwords(if plain.is_empty() { Vec::new() } else { vec![digest(plain)] })
    }

    /// True if any password will do.
    pub(crate) fn none_is_needed(&self) -> bool {
        self.0.is_empty()
    }

    /// True if this is a password, or none is needed. The time depends on the length of `given` and on the number of
    /// passwords alone.
    pub(crate) fn admit(&self, given: &[u8]) -> bool {
        let given = digest(given);
        let differ = |known: &[u8; 32]| known.iter().zip(&given).fold(0, |differ, (a, b)| differ | (a ^ b)) != 0;
        self.none_is_needed() | (self.0.iter().filter(|known| !differ(known)).count() > 0)
    }

    /// The digests in hexadecimal.
    pub(crate) fn digests(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|digest| digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The line that says them.
    pub(crate) fn line(&self) -> String {
        let passwords: String = self.digests().map(|digest| format!(" #{digest}")).collect();
        let passwords = if self.none_is_needed() { " nopass" } else { &passwords };
        format!("user default on{passwords} ~* &* +@all")
    }

    /// The passwords that these rules of the user set, in the order in which they stand.
    pub(crate) fn parse(rules: &[Vec<u8>]) -> Result<Passwords, String> {
        let mut user = Rules::default();
        rules.iter().try_for_each(|rule| user.add(rule))?;
        user.passwords()
    }
}

fn digest(plain: &[u8]) -> [u8; 32] {
    Sha256::digest(plain).into()
}

/// The user that the rules have made so far: at first one that is off and may do nothing.
#[derive(Default)]
struct Rules {
    on: bool,
    no_password: bool,
    passwords: Vec<[u8; 32]>,
    all_keys: bool,
    all_channels: bool,
    all_commands: bool,
}

impl Rules {
    fn add(&mut self, rule: &[u8]) -> Result<(), String> {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => self.on = true,
            b"off" => self.on = false,
            b"~*" | b"%rw~*" | b"allkeys" => self.all_keys = true,
            b"resetkeys" => self.all_keys = false,
            b"&*" | b"allchannels" => self.all_channels = true,
            b"resetchannels" => self.all_channels = false,
            b"+@all" | b"allcommands" => self.all_commands = true,
            b"-@all" | b"nocommands" => self.all_commands = false,
            b"nopass" => {
                self.no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.no_password = false;
                self.passwords.clear();
            }
            b"reset" => *self = Rules::default(),
            // They concern RESTORE and selectors, of which there is neither.
            b"sanitize-payload" | b"skip-sanitize-payload" | b"clearselectors" => {}
            _ => return self.change_passwords(rule),
        }
        Ok(())
    }

    /// `>password` and `#digest` add one, `<password` and `!digest` take one away.
    fn change_passwords(&mut self, rule: &[u8]) -> Result<(), String> {
        let (digest, adds) = match rule.split_first() {
            Some((b'>', plain)) => (digest(plain), true),
            Some((b'<', plain)) => (digest(plain), false),
            Some((b'#', text)) => (from_hex(text)?, true),
            Some((b'!', text)) => (from_hex(text)?, false),
            _ => return Err(format!("ACL rules are not available yet: {}", String::from_utf8_lossy(rule))),
        };
        let known = self.passwords.iter().position(|known| *known == digest);
        match (known, adds) {
            (None, true) => self.passwords.push(digest),
            (Some(at), false) => _ = self.passwords.remove(at),
            (None, false) => return Err("The password that is to be removed does not exist".into()),
            (Some(_), true) => {}
        }
        self.no_password &= !adds;
        Ok(())
    }

    fn passwords(self) -> Result<Passwords, String> {
        let may_everything = self.all_keys && self.all_channels && self.all_commands;
        if !self.on || !may_everything {
            return Err("ACL rules are not available yet: the default user is on and has ~* &* +@all".into());
        }
        if self.no_password == self.passwords.is_empty() {
            return Ok(Passwords(self.passwords));
        }
        Err("nobody could log in: the default user needs a password, or nopass".into())
    }
}

fn from_hex(text: &[u8]) -> Result<[u8; 32], String> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    let bytes: Option<Vec<u8>> = text.chunks(2).map(byte).collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of `foo`, as redis-server 7.0.15 writes it.
    const FOO: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    fn parsed(rules: &str) -> Result<Passwords, String> {
        let rules: Vec<Vec<u8>> = rules.split(' ').map(|rule| rule.as_bytes().to_vec()).collect();
        Passwords::parse(&rules)
    }

    fn line(rules: &str) -> String {
        parsed(rules).map_or_else(|error| error, |passwords| passwords.line())
    }

    #[test]
    fn lines_that_say_which_passwords_there_are_say_the_same_again() {
        let none = "user default on nopass ~* &* +@all";
        let foo = format!("user default on #{FOO} ~* &* +@all");
        for (rules, expected) in [
            ("on nopass ~* &* +@all", none),
            ("on nopass sanitize-payload ~* resetchannels &* +@all", none),
            ("allcommands allkeys allchannels nopass ON", none),
            ("on >foo nopass ~* &* +@all", none),
            ("on >foo ~* &* +@all", &foo),
            (&format!("on #{FOO} ~* &* +@all"), &foo),
            ("on nopass >foo >foo ~* &* +@all", &foo),
            ("on >bar >foo <bar ~* &* +@all", &foo),
            ("on >bar resetpass >foo ~* &* +@all", &foo),
            ("off >bar reset on >foo ~* &* +@all", &foo),
        ] {
            assert_eq!(line(rules), expected, "{rules}");
        }
        assert_eq!(parsed("on >bar >foo ~* &* +@all").unwrap().digests().count(), 2);
        assert_eq!(Passwords::of(b"foo").line(), foo);
        assert_eq!(Passwords::of(b"").line(), none);
    }

    #[test]
    fn lines_that_say_more_are_refused() {
        for rules in [
            "off nopass ~* &* +@all",
            "on ~* &* +@all",
            "on nopass &* +@all",
            "on nopass ~* +@all",
            "on nopass ~* &*",
            "on nopass ~* &* +@all -debug",
            "on nopass ~a* ~* &* +@all",
            "on nopass ~* &* +@all (~x +get)",
            "on #abc ~* &* +@all",
            "on <foo ~* &* +@all",
            "on >foo <foo ~* &* +@all",
        ] {
            assert!(parsed(rules).is_err(), "{rules}");
        }
    }

    #[test]
    fn the_passwords_and_no_others_are_admitted() {
        let both = parsed("on >bar >foo ~* &* +@all").unwrap();
        for (given, right) in
            [("foo", true), ("bar", true), ("", false), ("fo", false), ("foo1", false), ("Foo", false)]
        {
            assert_eq!(both.admit(given.as_bytes()), right, "{given}");
        }
        assert!(Passwords::default().admit(b"anything"));
    }
}
