//! Commands that change a key part by part or have much memory to give back, and whose clients have left: each turn of the worker
//! goes on with them.
//!
//! Without this a client that hangs up would leave its command half done, which no client of redis-server can.

use std::time::Duration;

use varve_exec::batch::Batch;
use varve_exec::{LeftCommand, LeftTurn};
use varve_store::StoreWorker;

use crate::state::WorkerStats;

/// How soon a command is tried again whose shard is busy.
const AGAIN: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LeftCommands {
    commands: Vec<LeftCommand>,
    /// The bytes of all, as they were counted last.
    counted_bytes: usize,
    /// None of them could do anything in the last turn.
    all_busy: bool,
}

impl LeftCommands {
    /// A client leaves behind this command.
    pub(super) fn add(&mut self, command: LeftCommand) {
        self.commands.push(command);
        self.all_busy = false;
    }

    /// True while there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.commands.is_empty()
    }

    /// How long the worker may sleep because of them; None without any.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.any().then_some(if self.all_busy { AGAIN } else { Duration::ZERO })
    }

    /// Does a turn of each, and counts what they take with the buffers of clients.
    #[cold]
    pub(super) fn go_on(&mut self, batch: &mut Batch, store: &mut StoreWorker, stats: &WorkerStats) {
        self.all_busy = true;
        self.commands.retain_mut(|command| {
            let turn = batch.go_on_left(store, command);
            self.all_busy &= turn == LeftTurn::Busy;
            turn != LeftTurn::Ended
        });
        let bytes = self.commands.iter().map(LeftCommand::bytes).sum();
        stats.buffer_bytes.change(std::mem::replace(&mut self.counted_bytes, bytes), bytes);
    }
}
