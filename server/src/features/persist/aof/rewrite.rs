//! Rewrites: a base that has all data of one instant takes the place of all files before that instant.
//!
//! ```text
//!   the instant, the gate alone    the walk begins (save.rs)      journal: cut --> thread.rs: a new increment
//!   saver                          RDB file, under a temporary name; as commands if that is asked for
//!   thread of the file             its name, the manifest with it; the files before the instant are removed
//!   while no file is kept          the saver does that itself
//! ```
//! `CONFIG SET appendonly yes` begins a rewrite: effects are kept from its instant on, and the folder counts from its end
//! on. Not here: writing increments (`writer.rs`), figures and waits (`state/rewrites.rs`).

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use varve_aof::Form;
use varve_base::shared::SharedBool;
use varve_catalog::{Acl, Flags, Group, Row};
use varve_exec::CmdResult;
use varve_exec::journal::Cut;
use varve_store::{EffectSink, StoreWorker};

use super::super::rdb_file::SavePlace;
use super::super::save::{self, NotBegun, Purpose};
use super::super::state::Outcome;
use super::super::state::aof::{Order, Rebase};
use super::super::state::rewrites::Leave;
use super::place::Place;
use super::stream;
use super::thread::{self, Begins};
use super::{commands_base, load};
use crate::config::Config;
use crate::errors;
use crate::state::ServerState;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use crate::system::error_text;

/// How often a base that waits for its place looks whether the rewrite was given up.
const ANSWER_STEP: Duration = Duration::from_millis(10);

/// The command of this part.
pub(in super::super) const ROWS: ServerRows = &[BGREWRITEAOF];

/// `BGREWRITEAOF`
fn bgrewriteaof(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let persist = ctx.state.persist();
    if persist.is_rewriting() {
        return Err(errors::REWRITE_UNDER_WAY);
    }
    persist.aof.rewrites.asked();
    let begun = match ctx.conn.session().is_in_exec() {
        true => Err(NotBegun::UnderWay),
        false => begin_or_queue(ctx.state, ctx.store, ctx.conn.session().busy_tries()),
    };
    match begun {
        Ok(()) => ctx.out.simple("Background append only file rewriting started"),
        Err(NotBegun::UnderWay) => {
            persist.aof.rewrites.schedule(true);
            ctx.out.simple("Background append only file rewriting scheduled");
        }
        Err(NotBegun::Busy) => return Ok(After::Busy),
        Err(NotBegun::NoThread) => return Err(errors::REWRITE_FAILED),
    }
    Ok(After::Done)
}

const BGREWRITEAOF: ServerCommand = ServerCommand::new(
    bgrewriteaof,
    Row::new("bgrewriteaof", Group::Server, 1, "1.0.0")
        .about("Rewrites the append-only file in the background.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING])
        .acl(&[Acl::ADMIN, Acl::DANGEROUS, Acl::SLOW]),
);

/// The base of a rewrite that is under way.
#[derive(Debug)]
pub(in super::super) struct Base {
    place: Place,
    form: Form,
    /// A line with the time stands in front.
    timestamp: bool,
    keeps_history: bool,
    /// The position of the journal at which the increment behind it begins; None while no file is kept.
    at: Option<u64>,
}

/// Begins a rewrite. The worker is outside the gate.
fn begin(state: &Arc<ServerState>, worker: &mut StoreWorker, tries: u32) -> Result<(), NotBegun> {
    save::begin(state, worker, Purpose::Base, tries)?;
    tracing::info!("Background append only file rewriting started");
    Ok(())
}

/// Begins a rewrite that clients ask for, or has it begin behind the save of a FLUSHALL. The worker is outside the gate.
fn begin_or_queue(state: &Arc<ServerState>, worker: &mut StoreWorker, tries: u32) -> Result<(), NotBegun> {
    let persist = state.persist();
    if persist.queue_rewrite() {
        return Ok(());
    }
    match persist.under_way().is_some() || persist.is_promised() {
        true => Err(NotBegun::UnderWay),
        false => begin(state, worker, tries),
    }
}

/// The instant of a rewrite: its walk has begun, and the gate is held alone. If a file is to be kept and none is, it is
/// from now on.
///
/// # Errors
/// The folder of the file is not known, or there is no thread for it.
pub(in super::super) fn at_instant(state: &Arc<ServerState>, config: &Config) -> io::Result<Base> {
    let aof = &state.persist().aof;
    aof.rewrites.begin();
    let mut place = Place::of(config)?;
    if let Some(folder) = aof.folder() {
        place.folder = folder;
    }
    let begins = config.append.on && !aof.is_on();
    if begins {
        // The thread that takes for replicas alone ends here; the file's goes on with that.
        aof.stop();
    }
    let at = (begins || aof.is_on()).then(|| aof.journal().cut(Cut::NewFile));
    if let Some(at) = at.filter(|_| begins) {
        thread::spawn(state, place.folder.clone(), Begins::Waiting { place: place.clone(), at })?;
        let now = state.config().snapshot();
        super::await_synced(state, &now);
        stream::follow_keeping(state);
        // Another worker has looked at the settings before the file was on.
        if !now.append.on {
            aof.set_switching();
        }
    }
    let form = if config.append.rdb_base { Form::Rdb } else { Form::Commands };
    let (timestamp, keeps_history) = (config.append.timestamps, config.append.keeps_history);
    Ok(Base { place, form, timestamp, keeps_history, at })
}

impl Base {
    /// Where the walk is written to: an RDB file in the folder of the append-only file, which is made.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(in super::super) fn save_place(&self) -> io::Result<SavePlace> {
        self.place.make_folder()?;
        Ok(SavePlace::new(Arc::clone(&self.place.disk), self.place.folder.clone(), self.temp_named("rdb")))
    }

    /// True if the base has commands, and no RDB.
    pub(in super::super) fn is_commands(&self) -> bool {
        self.form == Form::Commands
    }

    fn temp_named(&self, end: &str) -> PathBuf {
        self.place.folder.join(format!("temp-rewriteaof-bg-{}.{end}", std::process::id()))
    }

    /// The file is whole under its temporary name: it becomes the base. False if the rewrite was given up before that: the
    /// append-only file has been switched off, or its thread, of a disk that fails, did not come to it.
    fn take_place(&self, state: &ServerState) -> io::Result<bool> {
        let rdb = self.temp_named("rdb");
        let temp = if self.form == Form::Commands { self.to_commands(&rdb)? } else { rdb };
        let Some(at) = self.at else { return self.take_place_alone(state, &temp).map(|()| true) };
        let (done, answer) = sync_channel(1);
        let claimed = Arc::new(SharedBool::new(false));
        let (form, keeps_history) = (self.form, self.keeps_history);
        let rebase = Rebase { temp, form, at, keeps_history, claimed: Arc::clone(&claimed), done };
        state.persist().aof.send(Order::Rebase(rebase));
        let is_over = || state.persist().under_way().is_some_and(|snapshot| snapshot.is_over());
        loop {
            match answer.recv_timeout(ANSWER_STEP) {
                // The files that were removed are given back to the system here, when their handles go.
                Ok(done) => return done.map(|_| true),
                // The file has been switched off: the rewrite is given up, and has not failed.
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Err(RecvTimeoutError::Timeout) if is_over() && !claimed.swap(true, AcqRel) => return Ok(false),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Reads the RDB file again and writes it as commands.
    fn to_commands(&self, rdb: &Path) -> io::Result<PathBuf> {
        let path = self.temp_named("aof");
        let file = File::create(&path)?;
        let mut out = BufWriter::new(&file);
        if self.timestamp {
            write!(out, "#TS:{}\r\n", save::now_s())?;
        }
        let from = Box::new(File::open(rdb)?) as Box<dyn Read + Send>;
        commands_base::write_commands(from, &mut out)?;
        out.flush()?;
        drop(out);
        file.sync_all()?;
        fs::remove_file(rdb)?;
        Ok(path)
    }

    /// Nothing is appended at present: the base is all there is.
    fn take_place_alone(&self, state: &ServerState, temp: &Path) -> io::Result<()> {
        // The thread of a file that is no longer kept may still write the manifest.
        state.persist().aof.await_end_of_file();
        let manifest = load::read_manifest(&self.place).map_err(io::Error::other)?;
        self.place.replace_all(manifest, temp, self.form, self.keeps_history)
    }
}

/// The saver has written the base, or could not: the end of the rewrite. Gives how it ended.
pub(in super::super) fn end(state: &ServerState, base: &io::Result<Base>, written: io::Result<bool>) -> Outcome {
    let taken = match (base, written) {
        (Ok(base), Ok(true)) => base.take_place(state),
        (_, other) => other,
    };
    let outcome = match taken {
        Ok(true) => {
            tracing::info!("Background AOF rewrite finished successfully");
            Outcome::Saved
        }
        Ok(false) => {
            tracing::warn!("Background AOF rewrite was cancelled");
            Outcome::Cancelled
        }
        Err(error) => {
            tracing::warn!("Background AOF rewrite terminated with error: {}", error_text(&error));
            Outcome::Failed
        }
    };
    if let (Ok(base), Outcome::Failed | Outcome::Cancelled) = (base, outcome) {
        ["rdb", "aof"].iter().for_each(|end| _ = fs::remove_file(base.temp_named(end)));
    }
    let aof = &state.persist().aof;
    // FLUSHALL has ended the walk, or a save that was more urgent; or the folder does not count before there is a base.
    let again = match outcome {
        Outcome::Saved => false,
        Outcome::Cancelled => aof.is_on(),
        Outcome::Failed => aof.waits_for_base(),
    };
    aof.rewrites.end(outcome, again);
    outcome
}

/// Begins a rewrite if one is due. The worker is outside the gate.
pub(in super::super) fn tick(state: &Arc<ServerState>, worker: &mut StoreWorker, config: &Config) {
    let (persist, aof) = (state.persist(), &state.persist().aof);
    if persist.loading.is_on() || persist.under_way().is_some() {
        return;
    }
    let grown = if aof.rewrites.is_scheduled() { None } else { growth(state, config) };
    if !aof.rewrites.is_scheduled() && grown.is_none() {
        return;
    }
    match aof.rewrites.leave(save::now_s()) {
        // If a save has begun in between, or there was no thread, it is tried again.
        Leave::Given => {
            if let Some(percent) = grown {
                tracing::info!("Starting automatic rewriting of AOF on {percent}% growth");
            }
            _ = begin(state, worker, 0);
        }
        Leave::Refused => {}
        Leave::RefusedFor(minutes) => tracing::warn!(
            "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in {minutes} minutes"
        ),
    }
}

/// By how many percent the files have grown, if it is as much as `auto-aof-rewrite-percentage` says.
fn growth(state: &ServerState, config: &Config) -> Option<u128> {
    let (aof, append) = (&state.persist().aof, &config.append);
    if !aof.is_on() || aof.waits_for_base() || append.rewrite_percent == 0 {
        return None;
    }
    let facts = aof.facts();
    if facts.current_bytes <= append.rewrite_bytes_min {
        return None;
    }
    let percent = (u128::from(facts.current_bytes) * 100 / u128::from(facts.base_bytes.max(1))).saturating_sub(100);
    (percent >= u128::from(append.rewrite_percent)).then_some(percent)
}

/// Follows CONFIG SET appendonly. The worker is outside the gate.
#[cold]
pub(super) fn switch(state: &Arc<ServerState>, worker: &mut StoreWorker) {
    let aof = &state.persist().aof;
    if !aof.take_switching() {
        return;
    }
    let wanted = state.config().snapshot().append.on;
    if wanted == aof.is_on() {
        return;
    }
    if !wanted {
        stop(state, worker);
        return;
    }
    match begin_or_queue(state, worker, 0) {
        Ok(()) => {}
        // It is tried again behind a later turn.
        Err(NotBegun::Busy) => aof.set_switching(),
        Err(NotBegun::UnderWay | NotBegun::NoThread) => {
            tracing::warn!(
                "AOF was enabled but there is already another background operation. An AOF background was scheduled to \
                 start when possible."
            );
            aof.rewrites.schedule(true);
        }
    }
}

/// No file is kept any more: effects are for replicas alone, if there are any. False if these would have no thread: it is
/// tried again. The gate is held alone.
fn stop_file(state: &Arc<ServerState>) -> bool {
    let aof = &state.persist().aof;
    let next = match state.replication().is_kept() {
        false => None,
        true => match stream::spawn(state) {
            Ok(thread) => Some(thread),
            Err(error) => {
                tracing::warn!(
                    "The append-only file goes on, since replicas would have no thread: {}",
                    error_text(&error)
                );
                aof.set_switching();
                return false;
            }
        },
    };
    state.replication().end_files(aof.journal().end());
    aof.stop();
    if let Some(thread) = next {
        aof.begin_stream(thread);
    }
    stream::follow_keeping(state);
    true
}

/// Nothing is kept any more: the file's thread writes and syncs what there is, and ends.
fn stop(state: &Arc<ServerState>, worker: &mut StoreWorker) {
    let (persist, aof) = (state.persist(), &state.persist().aof);
    let stopped = {
        // The gate may be in other hands for long: it is tried again behind a later turn.
        let Some(_alone) = state.store().gate().try_exclusive(worker.id(), 0) else {
            aof.set_switching();
            return;
        };
        aof.is_on() && !state.config().snapshot().append.on && stop_file(state)
    };
    // Another worker has looked at the settings while the file was still on.
    if state.config().snapshot().append.on {
        aof.set_switching();
    }
    if !stopped {
        return;
    }
    aof.rewrites.schedule(false);
    if persist.is_rewriting() {
        tracing::info!("The rewrite of the append-only file that is under way is given up");
        save::cancel(state, u64::MAX);
    }
}
