//! A user: its name, its passwords, and its selectors, the first of which is its own.
//!
//! A user does not change: a rule makes another one of the same identity, which takes its place in the set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use varve_catalog::Row;
use varve_protocol::{Args, words};

use crate::password::Digest;
use crate::password_set::PasswordSet;
use crate::pattern::KeyUse;
use crate::rule::{RuleContext, RuleError};
use crate::selector::{Denial, ENTRY_BYTES, Selector};

/// Whether the payloads of the user's RESTORE are to be looked through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sanitizes {
    #[default]
    Unsaid,
    Yes,
    No,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct User {
    name: Box<[u8]>,
    /// The number that it is known by: another user of the same name, made after this one was deleted, has another.
    identity: u64,
    on: bool,
    no_password: bool,
    sanitizes: Sanitizes,
    passwords: PasswordSet,
    /// The first is its own; the others stand in parentheses.
    selectors: Vec<Selector>,
    /// Nothing is refused to it.
    full: bool,
    /// The line of a file that makes it, once it is in a set of users.
    line: Box<[u8]>,
}

/// The identity of the user that is made next.
static IDENTITIES: AtomicU64 = AtomicU64::new(1);

impl User {
    /// A user that is off and may do nothing.
    pub fn new(name: &[u8], context: &RuleContext<'_>) -> User {
        User {
            name: name.into(),
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            on: false,
            no_password: false,
            sanitizes: Sanitizes::Unsaid,
            passwords: PasswordSet::default(),
            selectors: vec![Selector::new(context)],
            full: false,
            line: Box::default(),
        }
    }

    /// The user of connections that no set of users concerns: it may do everything.
    pub fn unrestricted() -> Arc<User> {
        static ONE: LazyLock<Arc<User>> = LazyLock::new(|| {
            let commands = crate::KnownCommands::new(std::iter::empty());
            Arc::new(User::open(&RuleContext { commands: &commands, all_channels: true }))
        });
        Arc::clone(&ONE)
    }

    /// The default user as it is where nobody has said anything about it: it is on, needs no password, and may do everything.
    pub fn open(context: &RuleContext<'_>) -> User {
        let mut user = User::new(b"default", context);
        for rule in ["+@all", "~*", "&*", "on", "nopass"] {
            user.apply(rule.as_bytes(), context).expect("rules without patterns and names");
        }
        user
    }

    /// This user as another one that takes its place: of its name and identity, and else as `rules` says.
    pub(crate) fn replaced_by(&self, rules: User) -> User {
        User { name: self.name.clone(), identity: self.identity, ..rules }
    }

    /// Changes it by one rule.
    ///
    /// # Errors
    /// The rule is none; the user may be changed in part.
    pub fn apply(&mut self, rule: &[u8], context: &RuleContext<'_>) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.on = true,
            b"off" => self.on = false,
            b"skip-sanitize-payload" => self.sanitizes = Sanitizes::No,
            b"sanitize-payload" => self.sanitizes = Sanitizes::Yes,
            b"nopass" => self.set_no_password(true),
            b"resetpass" => self.set_no_password(false),
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => {
                let fresh = User::new(&self.name, context);
                *self = User { identity: self.identity, sanitizes: Sanitizes::Yes, ..fresh };
            }
            _ => match rule {
                [b'>' | b'#' | b'<' | b'!', ..] => self.apply_password(rule)?,
                [b'(', inner @ .., b')'] => self.add_selector(inner, context)?,
                _ => self.selectors[0].apply(rule, context)?,
            },
        }
        self.full = self.selectors.iter().any(Selector::is_full);
        Ok(())
    }

    fn set_no_password(&mut self, none: bool) {
        self.no_password = none;
        self.passwords.clear();
    }

    /// `>password` and `#digest` add one, `<password` and `!digest` take one away.
    fn apply_password(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let (sign, text) = (rule[0], &rule[1..]);
        let digest = match sign {
            b'>' | b'<' => Digest::of(text),
            _ => Digest::from_hex(text).ok_or(RuleError::NoDigest)?,
        };
        if matches!(sign, b'>' | b'#') {
            self.passwords.insert(digest);
            self.no_password = false;
        } else if !self.passwords.remove(&digest) {
            return Err(RuleError::NoPassword);
        }
        Ok(())
    }

    /// Adds a selector that these rules make, the text between the parentheses.
    fn add_selector(&mut self, inner: &[u8], context: &RuleContext<'_>) -> Result<(), RuleError> {
        let mut selector = Selector::new(context);
        for rule in words::words(inner).unwrap_or_default() {
            selector.apply(&rule, context)?;
        }
        self.selectors.push(selector);
        Ok(())
    }
}

/// Questions.
impl User {
    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The number that it is known by, whatever its name: see [`crate::Users::current`].
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// Bytes that it takes in a set of users, about.
    pub(crate) fn memory(&self) -> usize {
        let texts = 2 * self.name.len() + self.line.len() + self.passwords.len() * (ENTRY_BYTES + size_of::<Digest>());
        size_of::<User>() + texts + self.selectors.iter().map(Selector::memory).sum::<usize>()
    }

    /// True if it may log in.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// True if it needs no password.
    pub fn needs_no_password(&self) -> bool {
        self.no_password
    }

    /// True if whoever comes is this user: of the default user, that nobody has to log in.
    pub fn is_open(&self) -> bool {
        self.on && self.no_password
    }

    /// True if nothing is refused to it.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// True if it logs in with this password. The time depends on the password's length and on the number of the user's
    /// passwords alone.
    pub fn admits(&self, password: &[u8]) -> bool {
        let known = Digest::of(password).is_among(self.passwords.iter());
        self.on & (self.no_password | known)
    }

    /// Whether it may run a request.
    ///
    /// # Errors
    /// The reason why not: a key or a channel that no selector allows, else the command.
    #[inline]
    pub fn check(&self, row: &Row, args: Args<'_>) -> Result<(), Denial> {
        if self.full {
            return Ok(());
        }
        let mut reason = Denial::Command;
        for selector in &self.selectors {
            match selector.check(row, args) {
                Ok(()) => return Ok(()),
                Err(denial) => reason = reason.max(denial),
            }
        }
        Err(reason)
    }

    /// True if it may run the request and read every key beside: one that follows patterns to keys which it does not name.
    pub fn may_read_all_keys(&self, row: &Row, args: Args<'_>) -> bool {
        let may = |selector: &Selector| selector.check(row, args).is_ok() && selector.reads_all_keys();
        self.full || self.selectors.iter().any(may)
    }

    /// True if it may read this key by some command.
    pub fn may_read(&self, key: &[u8]) -> bool {
        self.full || self.selectors.iter().any(|selector| selector.may_use(key, KeyUse::READ))
    }

    /// True if it may listen to every channel and pattern.
    pub fn may_listen_to_all(&self) -> bool {
        self.full || self.selectors.iter().any(|selector| selector.all_channels)
    }

    /// True if it may listen to this channel, or to this pattern of channels.
    pub fn may_listen(&self, name: &[u8], is_pattern: bool) -> bool {
        self.full || self.selectors.iter().any(|selector| selector.may_listen(name, is_pattern))
    }
}

/// The rules that a selector is made of, as ACL GETUSER shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorRules {
    /// The commands.
    pub commands: Vec<u8>,
    /// The keys.
    pub keys: Vec<u8>,
    /// The channels.
    pub channels: Vec<u8>,
}

/// Descriptions.
impl User {
    /// Its flags, in the order in which rules tell them.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let sanitizes = match self.sanitizes {
            Sanitizes::Unsaid => None,
            Sanitizes::Yes => Some("sanitize-payload"),
            Sanitizes::No => Some("skip-sanitize-payload"),
        };
        let on = if self.on { "on" } else { "off" };
        [Some(on), self.no_password.then_some("nopass"), sanitizes].into_iter().flatten()
    }

    /// The digests of its passwords in hexadecimal.
    pub fn digests(&self) -> impl ExactSizeIterator<Item = String> {
        self.passwords.in_order().into_iter().map(Digest::hex)
    }

    /// The rules of its selectors, its own first.
    pub fn selectors(&self, context: &RuleContext<'_>) -> impl ExactSizeIterator<Item = SelectorRules> {
        self.selectors.iter().map(|selector| SelectorRules {
            commands: selector.describe_commands(context),
            keys: selector.describe_keys(),
            channels: selector.describe_channels(),
        })
    }

    /// The line of a file that makes it, as it was when it was put into its set of users.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// This user with its line.
    pub(crate) fn with_line(self, context: &RuleContext<'_>) -> User {
        User { line: self.describe(context).into(), ..self }
    }

    fn describe(&self, context: &RuleContext<'_>) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = vec![b"user".to_vec(), self.name.to_vec()];
        words.extend(self.flags().map(|flag| flag.as_bytes().to_vec()));
        words.extend(self.digests().map(|digest| format!("#{digest}").into_bytes()));
        for (number, selector) in self.selectors.iter().enumerate() {
            let rules = selector.describe(context);
            words.push(if number == 0 { rules } else { [b"(", &rules[..], b")"].concat() });
        }
        words.join(&b' ')
    }
}
