//! A command that the server runs: its row, and its handler.
//!
//! ```text
//!  const MONITOR: ServerCommand = ServerCommand::new(monitor, Row::new("monitor", ..)..);     under the handler
//!      a file's ROWS --> features: numbered with all others --> handler by Row::id
//! ```
//!
//! The executor keeps the row and answers `TurnState::Server` for it; it does not know the handler's type. Not here:
//! which commands there are (`features`).

use varve_catalog::Row;
use varve_exec::{CmdResult, Command, Exec};

use super::ctx::{After, ServerCtx};

/// A handler.
pub(crate) type ServerFn = fn(&mut ServerCtx<'_>) -> CmdResult<After>;

/// A command of the server or, inside a container, a subcommand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerCommand {
    row: Row,
    /// None for a container.
    handler: Option<ServerFn>,
    /// The subcommands of a container, a list for each matter that has some.
    subcommands: &'static [ServerRows],
}

/// The commands of one matter.
pub(crate) type ServerRows = &'static [ServerCommand];

impl ServerCommand {
    /// A command without subcommands.
    pub(crate) const fn new(handler: ServerFn, row: Row) -> ServerCommand {
        ServerCommand { row, handler: Some(handler), subcommands: &[] }
    }

    /// A command that only groups its subcommands.
    pub(crate) const fn container(row: Row, subcommands: &'static [ServerRows]) -> ServerCommand {
        ServerCommand { row, handler: None, subcommands }
    }

    /// The handler; None for a container.
    pub(crate) fn handler(&self) -> Option<ServerFn> {
        self.handler
    }

    /// The subcommands, in the order in which [`Self::command`] lists them.
    pub(crate) fn subcommands(&self) -> impl Iterator<Item = &'static ServerCommand> {
        self.subcommands.iter().copied().flatten()
    }

    /// The executor's part. The list of subcommands lives as long as the program: made once.
    pub(crate) fn command(&self) -> Command {
        match self.handler {
            Some(_) => Command::new(Exec::Server, self.row),
            None => Command::container(self.row, Vec::leak(self.subcommands().map(Self::command).collect())),
        }
    }
}
