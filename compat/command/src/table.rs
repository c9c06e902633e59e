//! The commands of this build, and finding one by name.
//!
//! ```text
//!  rows (const, one module a group) --derive, once--> all(): &'static [Descriptor]
//!                                                          |  + renames of one server
//!                                                          v
//!  name -> length, first 8 and last 8 bytes, case folded -> hash -> slot -> compare these -> &'static Descriptor
//! ```
//!
//! A [`CommandTable`] is one server's: names that its configuration renamed are found under the new name only, those
//! renamed to nothing not at all. Descriptors keep their first name, as COMMAND INFO of Redis does.

use crate::descriptor::{Descriptor, Run};
use crate::errors::CommandError;
use crate::transaction::Step;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_protocol::Args;

/// Every command, numbered; subcommands hang below their containers.
pub fn all() -> &'static [Descriptor] {
    &ALL.rows
}

/// Number of ids given: every [`Descriptor::id`] is below it.
pub fn count_ids() -> usize {
    ALL.ids
}

struct All {
    rows: Vec<Descriptor>,
    ids: usize,
}

static ALL: LazyLock<All> = LazyLock::new(|| {
    let mut ids = 0;
    let groups = [
        string::ROWS,
        list::ROWS,
        hash::ROWS,
        set::ROWS,
        zset::ROWS,
        blocking::ROWS,
        generic::ROWS,
        connection::ROWS,
        pubsub::ROWS,
        server::ROWS,
        sort::ROWS,
        transactions::ROWS,
    ];
    let rows = groups.into_iter().flatten().map(|row| derive(row, &mut ids)).collect();
    All { rows, ids: usize::from(ids) }
});

mod blocking;
mod connection;
mod generic;
mod hash;
mod list;
mod pubsub;
mod server;
mod set;
mod sort;
mod string;
mod transactions;
mod zset;

/// Numbers a row and its subcommands and fills in what follows. The subcommands' copies live as long as the program.
fn derive(row: &Descriptor, ids: &mut u16) -> Descriptor {
    let mut done = row.derive(*ids);
    *ids += 1;
    if !row.subcommands.is_empty() {
        let subcommands: Vec<Descriptor> = row.subcommands.iter().map(|sub| derive(sub, ids)).collect();
        done.subcommands = Vec::leak(subcommands);
    }
    done
}

/// One server's commands by name.
#[derive(Clone, Debug)]
pub struct CommandTable {
    /// Open addressing, linear probing; a power of two, at most half full.
    slots: Box<[Option<Named>]>,
    len: usize,
    /// Tells tables apart that do not hold the same names.
    edition: u64,
}

/// The edition of the table that was made or changed last.
static EDITIONS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Debug)]
struct Named {
    print: Print,
    name: Box<[u8]>,
    descriptor: &'static Descriptor,
}

/// What two names of at most [`Print::WHOLE`] bytes have in common if they differ in case alone, and longer ones may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Print {
    first: u64,
    last: u64,
    len: usize,
}

/// Why a request names no command that can run.
#[derive(Clone, Copy, Debug)]
pub enum Unresolved {
    /// No command has this name.
    Command,
    /// The container has no such subcommand.
    Subcommand,
    /// The command takes another number of arguments.
    Arity(&'static Descriptor),
}

/// Why a command could not be renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameError {
    /// There is no command of the old name.
    Unknown,
    /// Another command has the new name.
    Taken,
}

impl Default for CommandTable {
    fn default() -> CommandTable {
        CommandTable::new()
    }
}

impl CommandTable {
    /// All commands under their own names.
    pub fn new() -> CommandTable {
        let size = (all().len() * 4).next_power_of_two();
        let mut table = CommandTable { slots: vec![None; size].into(), len: 0, edition: 0 };
        for descriptor in all() {
            table.insert(descriptor.name.as_bytes().into(), descriptor);
        }
        table
    }

    /// `rename-command`: the command answers to the new name only, and to none if that is empty.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), RenameError> {
        let descriptor = self.get(old).ok_or(RenameError::Unknown)?;
        let mut names: Vec<Named> = self.slots.iter_mut().filter_map(Option::take).collect();
        names.retain(|named| !named.name.eq_ignore_ascii_case(old));
        self.len = 0;
        self.edition = EDITIONS.fetch_add(1, Relaxed) + 1;
        for named in names {
            self.insert(named.name, named.descriptor);
        }
        if new.is_empty() {
            return Ok(());
        }
        if self.get(new).is_some() {
            self.insert(old.into(), descriptor);
            return Err(RenameError::Taken);
        }
        self.insert(new.into(), descriptor);
        Ok(())
    }

    /// A number that no table has which holds other names, 0 for none.
    #[inline]
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    /// Number of commands, subcommands not counted.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if every command was renamed to nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The commands, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &'static Descriptor> {
        self.slots.iter().flatten().map(|named| named.descriptor)
    }

    /// The command of this name, whatever its case; None if there is none.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&'static Descriptor> {
        let mask = self.slots.len() - 1;
        let print = Print::of(name);
        let mut at = print.hash() & mask;
        while let Some(named) = &self.slots[at] {
            if named.print == print && (print.len <= Print::WHOLE || named.name.eq_ignore_ascii_case(name)) {
                return Some(named.descriptor);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// The command of this name, or the subcommand of `container|name`.
    pub fn by_full_name(&self, name: &[u8]) -> Option<&'static Descriptor> {
        let mut parts = name.splitn(2, |b| *b == b'|');
        let command = self.get(parts.next()?)?;
        parts.next().map_or(Some(command), |sub| subcommand(command, sub))
    }

    /// The command or subcommand that a request names, arguments not counted.
    #[inline]
    pub fn lookup(&self, args: Args<'_>) -> Result<&'static Descriptor, Unresolved> {
        let command = self.get(args.opt(0).ok_or(Unresolved::Command)?).ok_or(Unresolved::Command)?;
        if command.subcommands.is_empty() || args.len() == 1 {
            return Ok(command);
        }
        subcommand(command, args.get(1)).ok_or(Unresolved::Subcommand)
    }

    /// The command or subcommand that a request names, its number of arguments checked: what dispatch needs.
    #[inline]
    pub fn resolve(&self, args: Args<'_>) -> Result<&'static Descriptor, Unresolved> {
        let found = self.lookup(args)?;
        let runs = found.takes(args.len()) && !matches!(found.run, Run::Container);
        if runs { Ok(found) } else { Err(Unresolved::Arity(found)) }
    }

    fn insert(&mut self, name: Box<[u8]>, descriptor: &'static Descriptor) {
        self.edition = EDITIONS.fetch_add(1, Relaxed) + 1;
        let mask = self.slots.len() - 1;
        let print = Print::of(&name);
        let mut at = print.hash() & mask;
        while self.slots[at].is_some() {
            at = (at + 1) & mask;
        }
        self.slots[at] = Some(Named { print, name, descriptor });
        self.len += 1;
    }
}

impl Unresolved {
    /// Why, as the client gets it.
    #[cold]
    pub fn error(&self, args: Args<'_>) -> CommandError {
        match self {
            Unresolved::Command => CommandError::owned(unknown_command(args)),
            Unresolved::Subcommand => {
                let container = args.get(0).to_ascii_uppercase();
                let sub = shown(args.get(1), SHOWN_MAX);
                CommandError::owned([b"ERR unknown subcommand '", sub, b"'. Try ", &container, b" HELP."].concat())
            }
            Unresolved::Arity(command) => {
                let error = CommandError::arity(command.full_name);
                // An EXEC that is refused has ended its transaction.
                let exec = matches!(command.run, Run::Transaction(Step::Exec));
                if exec { CommandError::exec_abort(&error) } else { error }
            }
        }
    }
}

/// Bytes of a name, and of all arguments together, that an error shows.
const SHOWN_MAX: usize = 128;

fn unknown_command(args: Args<'_>) -> Vec<u8> {
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
    [b"ERR unknown command '", name, b"', with args beginning with: ", &tail].concat()
}

/// The part of an argument that an error shows: not beyond a NUL byte, and at most so much.
fn shown(arg: &[u8], most: usize) -> &[u8] {
    let end = arg.iter().position(|b| *b == 0).unwrap_or(arg.len());
    &arg[..end.min(most)]
}

fn subcommand(container: &'static Descriptor, name: &[u8]) -> Option<&'static Descriptor> {
    container.subcommands.iter().find(|sub| sub.name.as_bytes().eq_ignore_ascii_case(name))
}

impl Print {
    /// Names of so many bytes are equal, but for case, if their prints are.
    const WHOLE: usize = 16;

    #[inline]
    fn of(name: &[u8]) -> Print {
        let (first, last) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
            (Some(a), Some(b)) => (u64::from_le_bytes(*a), u64::from_le_bytes(*b)),
            _ => short(name),
        };
        Print { first: lower(first), last: lower(last), len: name.len() }
    }

    #[inline]
    fn hash(&self) -> usize {
        let mixed = self.first.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.last.rotate_left(23) ^ self.len as u64;
        (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40) as usize
    }
}

/// Eight bytes with the letters among them in lower case.
#[inline]
fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let low = word & !HIGH;
    // A byte's high bit tells that it is at least `A`, and that it is over `Z`.
    let (from_a, over_z) = (low + (0x80 - 0x41) * EACH, low + (0x7f - 0x5a) * EACH);
    let letters = (from_a & !over_z & !word) & HIGH;
    word | letters >> 2
}

/// The bytes of a name of less than 8, as two words.
#[inline]
fn short(name: &[u8]) -> (u64, u64) {
    if let (Some(a), Some(b)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        return (u32::from_le_bytes(*a).into(), u32::from_le_bytes(*b).into());
    }
    let byte = |i: usize| u64::from(name.get(i).copied().unwrap_or(0x20));
    (byte(0) | byte(1) << 8 | byte(2) << 16, 0)
}

#[cfg(test)]
mod tests;
