//! Checks between finding a command and running it: authentication, the user's rights, what the server refuses at present,
//! memory.
//!
//! ```text
//!   name, arity (`table`) --> authenticated? --> the user's rights: command, keys, channels --> refused to all? --> memory
//!                                                     permitted: EXEC's commands and a script's calls ask it too
//! ```
//! The order is Redis's.

use varve_acl::Denial;
use varve_catalog::{Behaviour, Flags, Row};
use varve_protocol::Args;

use crate::denials::{Denials, Origin};
use crate::errors::{CmdResult, CommandError};
use crate::script::ScriptKind;
use crate::script_rules::ScriptRules;
use crate::session::Session;

/// Why the server refuses commands that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritesDenied {
    /// The last save in the background has failed.
    Unsaved,
    /// The journal cannot be written: the number of the system's error.
    Unwritten(i32),
    /// There are fewer replicas that follow closely than there must be.
    Unreplicated,
}

/// The commands that the server refuses to everybody at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Denied {
    /// Data is being loaded: all but those that do without.
    pub loading: bool,
    /// Data is being loaded beside that which is served: those that would meddle with it.
    pub loading_beside: bool,
    /// Those that change something.
    pub writes: Option<WritesDenied>,
    /// Those that change something wait: what a save still has to write of the old values is too much. They are not
    /// refused, but tried again.
    pub writes_wait: bool,
    /// Those that keep others from a key, and have changed nothing, let go of it: what was received from a primary that was left may
    /// change it, and is applied first.
    pub lets_keys_go: bool,
    /// All but those that may run beside a script that takes too long: one of this kind does.
    pub busy: Option<ScriptKind>,
    /// This server is a replica: its primary decides which keys go.
    pub replica: Option<ReplicaRules>,
    /// The system refuses memory: commands that take memory which is no data, and those that would be queued. Whether there is
    /// memory for data is the store's to say.
    pub short: bool,
}

/// The rules of a replica for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaRules {
    /// Commands that change something are refused.
    pub read_only: bool,
    /// The link to the primary is down, and data that may be old is not to be shown.
    pub hides_stale: bool,
}

impl Denied {
    /// Nothing.
    pub const NONE: Denied = Denied {
        loading: false,
        loading_beside: false,
        writes: None,
        writes_wait: false,
        lets_keys_go: false,
        busy: None,
        replica: None,
        short: false,
    };

    /// True if keys whose time is over stay where a command meets them, and are hidden: what goes is the primary's decision. A
    /// command that changes a replica which may be changed removes them.
    #[inline]
    pub(crate) fn hides_overdue(self, writes: bool) -> bool {
        self.replica.is_some_and(|rules| rules.read_only || !writes)
    }

    /// True on a replica whose data may be old, and is not to be shown.
    pub(crate) fn hides_stale(self) -> bool {
        self.replica.is_some_and(|rules| rules.hides_stale)
    }

    /// Whether a command is refused.
    #[cold]
    fn check(self, d: &Row) -> CmdResult {
        let asks = d.flags.has(Flags::WRITE) || d.behaviour.has(Behaviour::TELLS_HEALTH);
        match self.writes {
            Some(WritesDenied::Unsaved) if asks => return Err(CommandError::UNSAVED),
            Some(WritesDenied::Unwritten(errno)) if asks => return Err(CommandError::unwritten(errno)),
            Some(WritesDenied::Unreplicated) if d.flags.has(Flags::WRITE) => return Err(CommandError::UNREPLICATED),
            _ => {}
        }
        match self.replica {
            Some(rules) if rules.read_only && d.flags.has(Flags::WRITE) => return Err(CommandError::READ_ONLY),
            Some(rules) if rules.hides_stale && !d.flags.has(Flags::STALE) => return Err(CommandError::PRIMARY_DOWN),
            _ => {}
        }
        let is_kept_off =
            if self.loading { !d.flags.has(Flags::LOADING) } else { d.flags.has(Flags::NO_ASYNC_LOADING) };
        if is_kept_off && (self.loading || self.loading_beside) {
            return Err(CommandError::LOADING);
        }
        match self.busy {
            Some(kind) if !d.flags.has(Flags::ALLOW_BUSY) => return Err(busy(kind)),
            _ => {}
        }
        if self.short && d.behaviour.has(Behaviour::TAKES_MEMORY) { Err(CommandError::NO_MEMORY) } else { Ok(()) }
    }
}

/// Whether a script with these flags may run, while the server denies some commands: redis-server takes the flags for those of
/// the command that runs the script, and answers what it answers to any command.
///
/// # Errors
/// The reason why not.
pub(crate) fn script_allowed(flags: Option<ScriptRules>, denied: Denied, out_of_memory: bool) -> CmdResult {
    let Some(flags) = flags else {
        return if denied.hides_stale() { Err(CommandError::PRIMARY_DOWN) } else { Ok(()) };
    };
    let writes = !flags.no_writes;
    if out_of_memory && writes && !flags.allow_oom {
        return Err(CommandError::OUT_OF_MEMORY);
    }
    match denied.writes.filter(|_| writes) {
        Some(WritesDenied::Unsaved) => return Err(CommandError::UNSAVED),
        Some(WritesDenied::Unwritten(errno)) => return Err(CommandError::unwritten(errno)),
        Some(WritesDenied::Unreplicated) => return Err(CommandError::UNREPLICATED),
        None => {}
    }
    if writes && denied.replica.is_some_and(|rules| rules.read_only) {
        return Err(CommandError::READ_ONLY);
    }
    if denied.hides_stale() && !flags.allow_stale { Err(CommandError::PRIMARY_DOWN) } else { Ok(()) }
}

/// Whether a script may be queued in a transaction that declares these flags, or declares none: then what it may do is seen when it
/// runs.
///
/// # Errors
/// The reason why not.
pub(crate) fn flags_allowed(flags: Option<ScriptRules>, denied: Denied) -> CmdResult {
    if flags.is_some() && denied != Denied::NONE { script_allowed(flags, denied, false) } else { Ok(()) }
}

/// The error of a command while a script of this kind has run for too long.
pub fn busy(kind: ScriptKind) -> CommandError {
    match kind {
        ScriptKind::Script => CommandError::BUSY_SCRIPT,
        ScriptKind::Function => CommandError::BUSY_FUNCTION,
    }
}

/// Whether the commands that a session has queued may run, while the server denies some.
///
/// # Errors
/// The reason why not.
pub fn queued_allowed(session: &Session, denied: Denied) -> CmdResult {
    let mut queued = session.multi().into_iter().flat_map(|multi| &multi.queue);
    if denied == Denied::NONE {
        return Ok(());
    }
    queued.try_for_each(|queued| {
        denied.check(queued.row)?;
        flags_allowed(queued.rules, denied)
    })
}

/// Whether the user of a session may run a request. Whoever runs one for a session asks this: the batch for its client, EXEC
/// for each of its commands, a script for its calls.
///
/// # Errors
/// The part of the request to which the user has no right.
#[inline]
pub fn permitted(d: &Row, args: Args<'_>, session: &Session) -> Result<(), Denial> {
    if session.is_restricted() { session.user().check(d, args) } else { Ok(()) }
}

/// Whether a session may run a command, its user's rights apart, while the server denies some.
///
/// # Errors
/// The reason why not.
pub fn allowed(d: &Row, session: &Session, denied: Denied) -> CmdResult {
    authenticated(d, session)?;
    fits(d, session, denied)
}

/// Whether a session may run a request, while the server denies some. What its user has no right to is noted.
///
/// # Errors
/// The reason why not.
#[inline]
pub(crate) fn admitted(d: &Row, args: Args<'_>, session: &Session, denied: Denied, denials: &mut Denials) -> CmdResult {
    authenticated(d, session)?;
    if session.is_restricted() {
        permitted_or_noted(d, args, session, denials)?;
    }
    fits(d, session, denied)
}

/// Whether the user of a session may run a request; a denial is noted. Apart from its caller, whose path is that of users
/// who may do everything.
#[inline(never)]
fn permitted_or_noted(d: &Row, args: Args<'_>, session: &Session, denials: &mut Denials) -> CmdResult {
    permitted(d, args, session).map_err(|denial| {
        let origin = if session.queued().is_some() { Origin::Transaction } else { Origin::Client };
        denials.note(denial, d, args, session.user(), origin);
        CommandError::no_permission(denial, d.full_name)
    })
}

#[inline]
fn authenticated(d: &Row, session: &Session) -> CmdResult {
    if session.is_authenticated() || d.flags.has(Flags::NO_AUTH) { Ok(()) } else { Err(CommandError::NO_AUTH) }
}

/// Whether a command fits what the server denies to all and what the connection does.
#[inline]
fn fits(d: &Row, session: &Session, denied: Denied) -> CmdResult {
    if denied != Denied::NONE {
        denied.check(d)?;
        if denied.short && session.multi().is_some() && !d.behaviour.has(Behaviour::NEVER_QUEUED) {
            // The transaction is spoiled, and EXEC does nothing.
            return Err(CommandError::NO_MEMORY);
        }
    }
    if session.only_listens() && !d.runs_while_subscribed() {
        return Err(CommandError::subscribed(d.full_name));
    }
    if session.keeps_off_keys() && d.interacts() {
        return Err(CommandError::MONITORS);
    }
    Ok(())
}
