//! A selector: commands, keys and channels that go together. A request passes a selector whole or not at all.
//!
//! ```text
//!   Bits       one a command: +get -set +@read -@write +@all          all: every command, those to come included
//!   first args +select|0: a command that is off, with this first argument
//!   keys       ~pattern (both), %R~pattern (read), %W~pattern (write)
//!   channels   &pattern
//! ```

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};
use varve_catalog::{Channels, Flags, KeyFlags, Row};
use varve_protocol::Args;

use crate::commands::Bits;
use crate::pattern::{KeyUse, Pattern};
use crate::rule::{RuleContext, RuleError, has_spaces};

/// Why a user may not run a request. The greater one tells more: a request that fails in every selector is refused for the
/// last reason that any of them gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The command.
    Command,
    /// The key in this argument.
    Key(usize),
    /// The channel in this argument.
    Channel(usize),
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    pub(crate) commands: Bits,
    /// `+@all` was the last rule about all commands: the rules of files begin with it.
    pub(crate) begins_with_all: bool,
    /// Every command is allowed.
    pub(crate) all_commands: bool,
    /// First arguments with which commands that are off are allowed, by [`Row::id`].
    pub(crate) first_args: BTreeMap<u16, FirstArgs>,
    pub(crate) all_keys: bool,
    /// The patterns of keys in the order in which they came, and what these may be used for.
    pub(crate) keys: IndexMap<Pattern, KeyUse>,
    pub(crate) all_channels: bool,
    pub(crate) channels: IndexSet<Pattern>,
}

/// First arguments as they were written, in the order in which they came, by themselves in lower case.
pub(crate) type FirstArgs = IndexMap<Box<[u8]>, Box<[u8]>>;

/// Bytes that an entry of a table takes beside what it holds: its hash, and its number.
pub(crate) const ENTRY_BYTES: usize = 2 * size_of::<usize>();

/// Rules.
impl Selector {
    /// One that allows nothing, but for channels if the context says so.
    pub(crate) fn new(context: &RuleContext<'_>) -> Selector {
        Selector {
            commands: Bits::none(context.commands.rows().len()),
            begins_with_all: false,
            all_commands: false,
            first_args: BTreeMap::new(),
            all_keys: false,
            keys: IndexMap::new(),
            all_channels: context.all_channels,
            channels: IndexSet::new(),
        }
    }

    /// Changes it by one rule.
    pub(crate) fn apply(&mut self, rule: &[u8], context: &RuleContext<'_>) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.set_keys(true),
            b"resetkeys" => self.set_keys(false),
            b"allchannels" | b"&*" => self.set_channels(true),
            b"resetchannels" => self.set_channels(false),
            b"allcommands" | b"+@all" => self.set_commands(true, context),
            b"nocommands" | b"-@all" => self.set_commands(false, context),
            _ => {
                match rule {
                    [b'~', pattern @ ..] => self.add_key(pattern, KeyUse::ALL)?,
                    [b'%', rest @ ..] => self.add_used_key(rest)?,
                    [b'&', pattern @ ..] => self.add_channel(pattern)?,
                    [sign @ (b'+' | b'-'), b'@', name @ ..] => self.set_category(name, *sign == b'+', context)?,
                    [b'+', name @ ..] => self.allow(name, context)?,
                    [b'-', name @ ..] => self.set_command(name, false, context)?,
                    _ => return Err(RuleError::Syntax),
                }
                self.all_commands = self.commands == context.commands.all;
            }
        }
        Ok(())
    }

    fn set_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
    }

    fn set_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
    }

    fn set_commands(&mut self, all: bool, context: &RuleContext<'_>) {
        self.commands.set_all(&context.commands.all, all);
        (self.begins_with_all, self.all_commands) = (all, all);
        self.first_args.clear();
    }

    /// `R~pattern`, `W~pattern`, `RW~pattern`, behind the `%`. Without a tilde the pattern is empty, as in redis-server.
    fn add_used_key(&mut self, rest: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeysAfterAll);
        }
        let mut allowed = KeyUse::default();
        let tilde = rest.iter().position(|byte| *byte == b'~').unwrap_or(rest.len());
        for letter in &rest[..tilde] {
            match letter.to_ascii_uppercase() {
                b'R' if !allowed.reads => allowed.reads = true,
                b'W' if !allowed.writes => allowed.writes = true,
                _ => return Err(RuleError::Syntax),
            }
        }
        if allowed == KeyUse::default() {
            return Err(RuleError::Syntax);
        }
        self.add_key(rest.get(tilde + 1..).unwrap_or_default(), allowed)
    }

    fn add_key(&mut self, pattern: &[u8], allowed: KeyUse) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeysAfterAll);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        let known = self.keys.entry(Pattern::new(pattern.into())).or_default();
        known.reads |= allowed.reads;
        known.writes |= allowed.writes;
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::ChannelsAfterAll);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        self.channels.insert(Pattern::new(pattern.into()));
        Ok(())
    }

    fn set_category(&mut self, name: &[u8], on: bool, context: &RuleContext<'_>) -> Result<(), RuleError> {
        let category = context.commands.category(name).ok_or(RuleError::Unknown)?;
        self.commands.set_all(&category.reach, on);
        self.first_args.retain(|id, _| !category.members.has(*id));
        Ok(())
    }

    /// `+command`, `+container|subcommand`, `+command|first-argument`, behind the `+`.
    fn allow(&mut self, name: &[u8], context: &RuleContext<'_>) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            return self.set_command(name, true, context);
        };
        let (command, first) = (context.commands.find(&name[..bar]).ok_or(RuleError::Unknown)?, &name[bar + 1..]);
        if command.is_subcommand() {
            return Err(RuleError::Deep);
        }
        // Files have a rule a word, and a user a line.
        if first.is_empty() || has_spaces(first) || first.iter().any(u8::is_ascii_control) {
            return Err(RuleError::Syntax);
        }
        if context.commands.subcommands(command).next().is_some() {
            return self.set_command(name, true, context);
        }
        let known = self.first_args.entry(command.id).or_default();
        known.entry(first.to_ascii_lowercase().into()).or_insert_with(|| first.into());
        Ok(())
    }

    fn set_command(&mut self, name: &[u8], on: bool, context: &RuleContext<'_>) -> Result<(), RuleError> {
        let row = context.commands.find(name).ok_or(RuleError::Unknown)?;
        self.set_row(row, on, context);
        Ok(())
    }

    pub(crate) fn set_row(&mut self, row: &Row, on: bool, context: &RuleContext<'_>) {
        self.commands.set(row.id, on);
        context.commands.subcommands(row).for_each(|sub| self.commands.set(sub.id, on));
        self.first_args.remove(&row.id);
    }
}

/// Questions.
impl Selector {
    /// Bytes that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        let keys = self.keys.keys().map(|key| ENTRY_BYTES + size_of::<(Pattern, KeyUse)>() + key.bytes().len());
        let channels = self.channels.iter().map(|channel| ENTRY_BYTES + size_of::<Pattern>() + channel.bytes().len());
        let first_args = self.first_args.values().flat_map(IndexMap::keys);
        let first_args = first_args.map(|text| ENTRY_BYTES + 2 * (size_of::<Box<[u8]>>() + text.len()));
        size_of::<Selector>() + self.commands.memory() + keys.chain(channels).chain(first_args).sum::<usize>()
    }

    /// True if nothing is refused.
    pub(crate) fn is_full(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    /// Whether a request passes.
    pub(crate) fn check(&self, row: &Row, args: Args<'_>) -> Result<(), Denial> {
        let is_on = self.all_commands || self.commands.has(row.id) || row.flags.has(Flags::NO_AUTH);
        if !is_on && !self.allows_first_arg(row, args) {
            return Err(Denial::Command);
        }
        if !self.all_keys && !row.keys.is_empty() {
            self.check_keys(row, args)?;
        }
        if !self.all_channels && row.channels != Channels::None {
            self.check_channels(row.channels, args)?;
        }
        Ok(())
    }

    #[cold]
    fn allows_first_arg(&self, row: &Row, args: Args<'_>) -> bool {
        let (Some(known), Some(first)) = (self.first_args.get(&row.id), args.opt(1)) else { return false };
        known.contains_key(&first.to_ascii_lowercase()[..])
    }

    /// A request whose keys cannot be told passes: its handler refuses it before it would touch one.
    fn check_keys(&self, row: &Row, args: Args<'_>) -> Result<(), Denial> {
        let mut denied = None;
        let told = row.for_each_key_and_flags(args, |at, flags| {
            if denied.is_none() && !self.may_use(args.get(at), key_use(flags)) {
                denied = Some(at);
            }
        });
        match denied {
            Some(at) if told.is_ok() => Err(Denial::Key(at)),
            _ => Ok(()),
        }
    }

    fn check_channels(&self, channels: Channels, args: Args<'_>) -> Result<(), Denial> {
        // A script may ask of a request that has too few words (`redis.acl_check_cmd`).
        let end = if channels == Channels::Published { args.len().min(2) } else { args.len() };
        let is_pattern = channels == Channels::Patterns;
        match (1..end).find(|at| !self.may_listen(args.get(*at), is_pattern)) {
            Some(at) => Err(Denial::Channel(at)),
            None => Ok(()),
        }
    }

    /// True if a key may be used so.
    #[inline]
    pub(crate) fn may_use(&self, key: &[u8], wanted: KeyUse) -> bool {
        let fits = |(known, allowed): (&Pattern, &KeyUse)| allowed.covers(wanted) && known.matches(key);
        self.all_keys || self.keys.iter().any(fits)
    }

    /// True if every key there may be may be read.
    pub(crate) fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.get(&b"*"[..]).is_some_and(|allowed| allowed.reads)
    }

    /// True if a channel may be listened and published to. A pattern of channels must be one of the selector's, byte by byte.
    pub(crate) fn may_listen(&self, name: &[u8], is_pattern: bool) -> bool {
        match is_pattern {
            _ if self.all_channels => true,
            true => self.channels.contains(name),
            false => self.channels.iter().any(|known| known.matches(name)),
        }
    }
}

/// The use that a command makes of a key of these flags, as far as rules go. Commands that ask whether something is there need
/// neither right.
#[inline]
fn key_use(flags: KeyFlags) -> KeyUse {
    let changes = [KeyFlags::INSERT, KeyFlags::DELETE, KeyFlags::UPDATE];
    KeyUse { reads: flags.has(KeyFlags::ACCESS), writes: changes.iter().any(|flag| flags.has(*flag)) }
}
