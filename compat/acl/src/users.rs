//! The users of a server: a set that is replaced whole, and its form in files.
//!
//! ```text
//!   user alice on #.. ~* &* +@all      one line a user, in the order of their names
//!   user default on nopass ~* &* +@all      is always there
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::password::Digest;
use crate::rule::{RuleContext, RuleError, has_spaces, merge_selectors};
use crate::user::User;

/// The declaration of a user in a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserLine {
    /// The name.
    pub name: Vec<u8>,
    /// The rules, selectors whole, passwords as digests.
    rules: Vec<Vec<u8>>,
}

impl UserLine {
    /// A declaration by these rules, selectors whole. Of passwords it keeps the digests.
    pub fn new(name: &[u8], rules: &[Vec<u8>]) -> UserLine {
        let digested = |rule: &Vec<u8>| match rule.as_slice() {
            [b'>', plain @ ..] => [b"#", Digest::of(plain).hex().as_bytes()].concat(),
            [b'<', plain @ ..] => [b"!", Digest::of(plain).hex().as_bytes()].concat(),
            _ => rule.clone(),
        };
        UserLine { name: name.to_vec(), rules: rules.iter().map(digested).collect() }
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Users {
    all: BTreeMap<Box<[u8]>, Arc<User>>,
    default: Arc<User>,
    /// Bytes of all of them.
    memory: usize,
}

impl Users {
    /// The default user alone, with the password that `requirepass` says; empty for none.
    pub fn new(password: &[u8], context: &RuleContext<'_>) -> Users {
        let default = Arc::new(User::open(context).with_line(context));
        let mut users = Users::of(default);
        users.set_default_password(password, context);
        users
    }

    /// This default user alone.
    fn of(default: Arc<User>) -> Users {
        let memory = default.memory();
        Users { all: BTreeMap::from([(default.name().into(), Arc::clone(&default))]), default, memory }
    }

    /// The users that a configuration declares, beside the default user of `requirepass`.
    ///
    /// # Errors
    /// The reason, for the log.
    pub fn configured(lines: &[UserLine], password: &[u8], context: &RuleContext<'_>) -> Result<Users, String> {
        let mut users = Users::new(password, context);
        for UserLine { name, rules } in lines {
            if has_spaces(name) {
                return Err("Spaces not allowed in ACL usernames".into());
            }
            let mut user = users.get(name).map_or_else(|| User::new(name, context), |known| (**known).clone());
            if *name == b"default" {
                user.apply(b"reset", context).expect("a rule without a name");
            }
            for rule in rules {
                user.apply(rule, context).map_err(|error| {
                    let (rule, name) = (String::from_utf8_lossy(rule), String::from_utf8_lossy(name));
                    format!("Error loading ACL rule '{rule}' for the user named '{name}': {}", error.text())
                })?;
            }
            users.put(user, context);
        }
        Ok(users)
    }

    /// The users of an ACL file with this text, which is at `path`. The default user stays the one that it is here, with
    /// the file's rules; all others are new.
    ///
    /// # Errors
    /// The faults, each with its line.
    pub fn from_file(&self, text: &[u8], path: &str, context: &RuleContext<'_>) -> Result<Users, String> {
        let (mut found, mut errors) = (BTreeMap::<Vec<u8>, User>::new(), String::new());
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let words: Vec<Vec<u8>> = line.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect();
            let at = format!("{path}:{}", number + 1);
            match words.as_slice() {
                [word, name, rules @ ..] if word == b"user" => {
                    match file_user(name, rules, &found, (&at, number + 1), context) {
                        Ok(user) => _ = found.insert(name.clone(), user),
                        Err(error) => errors.push_str(&error),
                    }
                }
                _ => {
                    errors.push_str(&format!("{at} should start with user keyword followed by the username. "));
                }
            }
        }
        if !errors.is_empty() {
            let end = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
            return Err(errors + end);
        }
        let default = found.remove(&b"default"[..]).unwrap_or_else(|| User::open(context));
        let default = Arc::new(self.default.replaced_by(default).with_line(context));
        let mut users = Users::of(default);
        found.into_values().for_each(|user| users.put(user, context));
        Ok(users)
    }

    /// The text of a file that has these users.
    pub fn file_text(&self) -> Vec<u8> {
        self.iter().flat_map(|user| [user.line(), b"\n"].concat()).collect()
    }

    /// The user of this name as these rules change it, or a new one; to be put into the set.
    ///
    /// # Errors
    /// The reason, as the client gets it without its code word.
    pub fn changed(&self, name: &[u8], rules: &[Vec<u8>], context: &RuleContext<'_>) -> Result<User, Vec<u8>> {
        let merged = merge_selectors(rules).map_err(|number| {
            let start = &rules[number];
            [b"Unmatched parenthesis in acl selector starting at '", &start[..], b"'."].concat()
        })?;
        let mut user = self.get(name).map_or_else(|| User::new(name, context), |known| (**known).clone());
        for rule in merged {
            user.apply(&rule, context).map_err(|error| {
                [b"Error in ACL SETUSER modifier '", &rule[..], b"': ", error.text().as_bytes()].concat()
            })?;
        }
        Ok(user)
    }

    /// Puts a user in the place of the one of its name, if there is one.
    pub fn put(&mut self, user: User, context: &RuleContext<'_>) {
        let user = Arc::new(user.with_line(context));
        if user.name() == b"default" {
            self.default = Arc::clone(&user);
        }
        self.memory += user.memory();
        self.memory -= self.all.insert(user.name().into(), user).map_or(0, |before| before.memory());
    }

    /// Takes a user away, who is not the default one; false if there is none of this name.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        assert!(name != b"default", "the default user stays");
        let gone = self.all.remove(name);
        self.memory -= gone.as_ref().map_or(0, |user| user.memory());
        gone.is_some()
    }

    /// `requirepass`: the default user has this password alone, or needs none if it is empty.
    pub fn set_default_password(&mut self, password: &[u8], context: &RuleContext<'_>) {
        let mut user = (*self.default).clone();
        let rule = if password.is_empty() { b"nopass".to_vec() } else { [b">", password].concat() };
        for rule in [b"resetpass".to_vec(), rule] {
            user.apply(&rule, context).expect("rules about passwords");
        }
        self.put(user, context);
    }

    /// True if they are what `requirepass` with this password makes: no file needs their lines.
    pub fn are_plain(&self, password: &[u8], context: &RuleContext<'_>) -> bool {
        self.all.len() == 1 && Users::new(password, context).default.line() == self.default.line()
    }

    /// Bytes that they take, about: the names, the rules, the lines.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// The user of this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.all.get(name)
    }

    /// The user of connections that have not logged in.
    #[inline]
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// The present form of a user; None if it was deleted, be there another one of its name or not.
    pub fn current(&self, user: &User) -> Option<&Arc<User>> {
        self.get(user.name()).filter(|current| current.identity() == user.identity())
    }

    /// The user that logs in with this name and password. The time does not tell whether there is such a user.
    pub fn admit(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        let user = self.get(name);
        let admitted = user.unwrap_or(&self.default).admits(password);
        user.filter(|_| admitted)
    }

    /// The first of these names, which a certificate has, that is a user who may log in.
    pub fn of_certificate(&self, names: &[Vec<u8>]) -> Option<&Arc<User>> {
        names.iter().filter_map(|name| self.get(name)).find(|user| user.is_on())
    }

    /// All users, in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.all.values()
    }
}

/// The user that a line of a file makes; `at` names the line, in full and by its number.
fn file_user(
    name: &[u8],
    rules: &[Vec<u8>],
    found: &BTreeMap<Vec<u8>, User>,
    (at, number): (&str, usize),
    context: &RuleContext<'_>,
) -> Result<User, String> {
    let shown = String::from_utf8_lossy(name);
    if has_spaces(name) {
        return Err(format!("'{at}: username '{shown}' contains invalid characters. "));
    }
    if found.contains_key(name) {
        return Err(format!("WARNING: Duplicate user '{shown}' found on line {number}. "));
    }
    let merged = merge_selectors(rules).map_err(|_| format!("{at}: Unmatched parenthesis in selector definition."))?;
    let (mut user, mut errors, mut is_broken) = (User::new(name, context), String::new(), false);
    for rule in merged {
        let rule = rule.trim_ascii();
        match user.apply(rule, context) {
            Ok(()) => {}
            Err(error @ RuleError::Unknown) => {
                let rule = String::from_utf8_lossy(rule);
                errors.push_str(&format!("{at}: Error in applying operation '{rule}': {}. ", error.text()));
            }
            // The first one alone: what follows it may be wrong for the same reason.
            Err(error) if !is_broken => {
                errors.push_str(&format!("{at}: {}. ", error.text()));
                is_broken = true;
            }
            Err(_) => {}
        }
    }
    if errors.is_empty() { Ok(user) } else { Err(errors) }
}
