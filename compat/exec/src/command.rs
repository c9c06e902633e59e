//! A command: its row, and what runs it.
//!
//! ```text
//!  const GET: Command = Command::new(Exec::Keys(get), Row::new("get", ..)..);      under the handler `get`
//!      a file's ROWS -> a family's ROWS --CommandSet::new: numbered, derived--> &'static [Command]
//!                                                          |  + renames of one server
//!                                                          v
//!                                             CommandTable: name -> &'static Command
//! ```

use std::ops::Deref;
use std::sync::Arc;

use varve_catalog::{NameTable, RenameError, Row};
use varve_protocol::{Args, Reply};

use crate::ctx::{Ctx, WideCtx};
use crate::errors::{CmdResult, CommandError};
use crate::notify::Events;
use crate::script::{KeeperCtx, ScriptCtx, ScriptKeeper};
use crate::script_rules::ScriptRules;
use crate::session::Session;

/// A command or, inside [`Command::subcommands`], a subcommand. It reads as its row.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    row: Row,
    /// How it is run, and under which locks.
    pub exec: Exec,
    /// The subcommands, if this is a container.
    pub subcommands: &'static [Command],
}

impl Deref for Command {
    type Target = Row;

    #[inline(always)]
    fn deref(&self) -> &Row {
        &self.row
    }
}

/// A command on the keys that it names, whose shards are held; or one that looks at the shards one after the other.
pub type KeysFn = fn(&mut Ctx<'_, '_>) -> CmdResult;
/// A command on the whole keyspace.
pub type WideFn = fn(&mut WideCtx<'_>) -> CmdResult;
/// A command that touches no key.
pub type SessionFn = fn(&mut SessionCtx<'_>) -> CmdResult;

/// A command that runs a script.
pub type ScriptFn = fn(&mut ScriptCtx<'_>) -> CmdResult;

/// The flags that the script of a request declares, before it runs; None: it declares none, or is not known.
pub type RulesFn = fn(&mut ScriptKeeper, Args<'_>) -> Option<ScriptRules>;
/// A command about scripts that runs none.
pub type KeeperFn = fn(&mut KeeperCtx<'_>) -> CmdResult;

/// The context of a command without keys.
pub struct SessionCtx<'c> {
    /// The command that runs.
    pub row: &'static Row,
    /// The request; argument 0 is the name.
    pub args: Args<'c>,
    /// Where the reply goes.
    pub out: &'c mut Reply,
    /// The connection.
    pub session: &'c mut Session,
    /// The server's commands, renamed ones under their new names.
    pub commands: &'c CommandTable,
    /// Number of databases.
    pub databases: u32,
    /// Publishes messages; None where nobody can listen.
    pub(crate) events: Option<&'c mut Box<dyn Events + Send>>,
}

impl SessionCtx<'_> {
    /// Publishes a message to a channel, or to a shard channel; returns the number of subscriptions that it goes to.
    pub fn publish(&mut self, shard: bool, channel: &[u8], message: &[u8]) -> u64 {
        self.events.as_mut().map_or(0, |events| events.publish(shard, channel, message))
    }
}

/// How a command is run, and under which locks.
#[derive(Clone, Copy, Debug)]
pub enum Exec {
    /// The shards of its keys are held.
    Keys(KeysFn),
    /// It looks at the shards one after the other, or at their counts: SCAN, RANDOMKEY, DBSIZE. It is put back if one is busy.
    /// Inside EXEC all are held.
    Keyspace(KeysFn),
    /// It reads counts of all shards, whoever holds them, and what else the store knows of itself: MEMORY STATS.
    Figures(WideFn),
    /// Nobody else is inside the gate: KEYS, FLUSHALL, SWAPDB.
    Exclusive(WideFn),
    /// Touches no key: PING, ECHO, SELECT.
    Session(SessionFn),
    /// It runs a script, whose commands may touch any key: EVAL, FCALL.
    Script(ScriptFn, RulesFn),
    /// It concerns the scripts that are kept, and touches no key: SCRIPT, FUNCTION.
    Keeper(KeeperFn),
    /// The executor itself: MULTI, EXEC, DISCARD, UNWATCH.
    Transaction(Step),
    /// The server runs it: CLIENT, CONFIG, INFO, AUTH, HELLO, SHUTDOWN, SLOWLOG.
    Server,
    /// A container alone does nothing: without a subcommand its arity is wrong.
    Container,
}

/// The commands of transactions, which the executor runs itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// MULTI
    Multi,
    /// EXEC
    Exec,
    /// DISCARD
    Discard,
    /// UNWATCH
    Unwatch,
}

impl Command {
    /// A command without subcommands.
    pub const fn new(exec: Exec, row: Row) -> Command {
        Command { row, exec, subcommands: &[] }
    }

    /// A command that only groups its subcommands.
    pub const fn container(row: Row, subcommands: &'static [Command]) -> Command {
        Command { row, exec: Exec::Container, subcommands }
    }

    /// With subcommands, for a command that runs without one too.
    #[must_use]
    pub const fn with(self, subcommands: &'static [Command]) -> Command {
        Command { subcommands, ..self }
    }

    /// True for EXEC.
    pub(crate) fn is_exec(&self) -> bool {
        matches!(self.exec, Exec::Transaction(Step::Exec))
    }

    /// Numbers a command and its subcommands and fills in what follows from their rows. The subcommands' copies live as
    /// long as the program.
    fn derive(&self, ids: &mut u16) -> Command {
        let row = self.row.derive(*ids, matches!(self.exec, Exec::Keys(_)));
        *ids += 1;
        let subcommands: Vec<Command> = self.subcommands.iter().map(|sub| sub.derive(ids)).collect();
        Command { row, exec: self.exec, subcommands: Vec::leak(subcommands) }
    }
}

/// The rows of one source file.
pub type FileRows = &'static [Command];

/// All commands of a server, numbered; subcommands hang below their containers.
#[derive(Clone, Copy, Debug)]
pub struct CommandSet {
    commands: &'static [Command],
    ids: usize,
}

impl CommandSet {
    /// The commands of these families, each a list of its files' rows. They live as long as the program: made once.
    pub fn new(families: &[&[FileRows]]) -> CommandSet {
        let mut ids = 0;
        let rows = families.iter().flat_map(|files| files.iter().copied()).flatten();
        let commands: Vec<Command> = rows.map(|row| row.derive(&mut ids)).collect();
        CommandSet { commands: Vec::leak(commands), ids: usize::from(ids) }
    }

    /// The commands.
    pub fn commands(&self) -> &'static [Command] {
        self.commands
    }

    /// All commands and subcommands, in the order of their ids.
    pub fn each(&self) -> impl Iterator<Item = &'static Command> + use<> {
        self.commands.iter().flat_map(|command| std::iter::once(command).chain(command.subcommands))
    }

    /// Their rows, in the same order.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> + use<> {
        self.each().map(|command| &command.row)
    }

    /// Number of ids given: every [`Row::id`] is below it.
    pub fn ids(&self) -> usize {
        self.ids
    }
}

/// One server's commands by name. Commands keep their first name whatever they are renamed to, as COMMAND INFO of Redis
/// shows them.
#[derive(Clone, Debug)]
pub struct CommandTable {
    names: NameTable<Command>,
    /// All commands and subcommands, by [`Row::id`].
    by_id: Arc<[&'static Command]>,
}

/// First words of lines that HTTP clients send and that no command has: a web page makes a browser send them to any port.
/// Such a line must not be answered like an unknown command, since the lines behind it, a form's contents, are commands.
const FOREIGN_WORDS: [&[u8]; 2] = [b"post", b"host:"];

/// Why a request names no command that can run.
#[derive(Clone, Copy, Debug)]
pub enum Unresolved {
    /// The request has no word. It is no command, and has no reply.
    Empty,
    /// The request is a line of another protocol: the connection ends without a reply.
    Foreign,
    /// No command has this name.
    Command,
    /// The container has no such subcommand.
    Subcommand,
    /// The command takes another number of arguments.
    Arity(&'static Command),
}

impl CommandTable {
    /// All commands under their own names.
    pub fn new(set: &CommandSet) -> CommandTable {
        let each = |command: &'static Command| std::iter::once(command).chain(command.subcommands);
        let by_id: Arc<[_]> = set.commands.iter().flat_map(each).collect();
        assert!(by_id.iter().enumerate().all(|(id, command)| usize::from(command.id) == id), "ids are dense");
        let names = NameTable::new(set.commands.iter().map(|command| (command.name, command)));
        CommandTable { names, by_id }
    }

    /// `rename-command`: the command answers to the new name only, and to none if that is empty.
    ///
    /// # Errors
    /// There is no command of the old name, or another one has the new name.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), RenameError> {
        self.names.rename(old, new)
    }

    /// A number that no table has which holds other names, 0 for none.
    #[inline]
    pub(crate) fn edition(&self) -> u64 {
        self.names.edition()
    }

    /// Number of commands, subcommands not counted.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if every command was renamed to nothing.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The commands, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &'static Command> {
        self.names.iter()
    }

    /// The command of this name, whatever its case; None if there is none.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&'static Command> {
        self.names.get(name)
    }

    /// The command of this row, whatever it is renamed to. The row is of the set that the table was made from.
    #[inline]
    pub(crate) fn of(&self, row: &Row) -> &'static Command {
        self.by_id[usize::from(row.id)]
    }

    /// The command of this name, or the subcommand of `container|name`.
    pub fn by_full_name(&self, name: &[u8]) -> Option<&'static Command> {
        let mut parts = name.splitn(2, |b| *b == b'|');
        let command = self.get(parts.next()?)?;
        parts.next().map_or(Some(command), |sub| subcommand(command, sub))
    }

    /// The command or subcommand that a request names, arguments not counted.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn lookup(&self, args: Args<'_>) -> Result<&'static Command, Unresolved> {
        let name = args.opt(0).ok_or(Unresolved::Command)?;
        let command = self.get(name).ok_or_else(|| nameless(name))?;
        if command.subcommands.is_empty() || args.len() == 1 {
            return Ok(command);
        }
        subcommand(command, args.get(1)).ok_or(Unresolved::Subcommand)
    }

    /// The command or subcommand that a request names, its number of arguments checked: what dispatch needs.
    ///
    /// # Errors
    /// There is none, or it takes another number of arguments.
    #[inline]
    pub fn resolve(&self, args: Args<'_>) -> Result<&'static Command, Unresolved> {
        let found = self.lookup(args)?;
        let runs = found.takes(args.len()) && !matches!(found.exec, Exec::Container);
        if runs { Ok(found) } else { Err(Unresolved::Arity(found)) }
    }
}

fn subcommand(container: &'static Command, name: &[u8]) -> Option<&'static Command> {
    container.subcommands.iter().find(|sub| sub.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The reason why a name that no command has is refused.
#[cold]
fn nameless(name: &[u8]) -> Unresolved {
    let foreign = FOREIGN_WORDS.iter().any(|word| word.eq_ignore_ascii_case(name));
    if foreign { Unresolved::Foreign } else { Unresolved::Command }
}

impl Unresolved {
    /// Why, as the client gets it.
    #[cold]
    pub fn error(&self, args: Args<'_>) -> CommandError {
        match self {
            Unresolved::Command | Unresolved::Foreign | Unresolved::Empty => unknown_command(args),
            Unresolved::Subcommand => {
                let container = args.get(0).to_ascii_uppercase();
                let sub = shown(args.get(1), SHOWN_MAX);
                CommandError::unknown_subcommand(&container, sub)
            }
            Unresolved::Arity(command) => {
                let error = CommandError::arity(command.full_name);
                // An EXEC that is refused has ended its transaction.
                if command.is_exec() { CommandError::exec_abort(&error) } else { error }
            }
        }
    }
}

/// Bytes of a name, and of all arguments together, that an error shows.
const SHOWN_MAX: usize = 128;

fn unknown_command(args: Args<'_>) -> CommandError {
    let mut tail = Vec::new();
    for arg in args.skip(1).iter() {
        if tail.len() >= SHOWN_MAX {
            break;
        }
        let part = shown(arg, SHOWN_MAX - tail.len());
        tail.push(b'\'');
        tail.extend_from_slice(part);
        tail.extend_from_slice(b"' ");
    }
    let name = shown(args.opt(0).unwrap_or_default(), SHOWN_MAX);
    CommandError::unknown_command(name, &tail)
}

/// The part of an argument that an error shows: not beyond a NUL byte, and at most so much.
fn shown(arg: &[u8], most: usize) -> &[u8] {
    let end = arg.iter().position(|b| *b == 0).unwrap_or(arg.len());
    &arg[..end.min(most)]
}
