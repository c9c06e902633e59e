//! Following a primary's stream: commands go to the workers, and the primary learns how far they are.
//!
//! ```text
//!   link --bytes--> router --whole commands--> lanes --> workers      piece --applied--> journal, offset
//!          <-- REPLCONF ACK offset [FACK offset]: each second, and when the primary asks (REPLCONF GETACK) and all before that
//!              is applied; behind that once more when it is in the append-only file. FACK: the file is synced up to there
//! ```
//! A command that is refused here, and was not at the primary, ends replication: what it changed there is missing here. Lanes may
//! be ahead of it: the place in the history is lost, and the next link brings all data. What
//! was received of a command that is not whole is dropped with the link: the next one begins behind the last whole command. Bytes
//! that are no command end the link as well, and all in front of them is applied.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_exec::apply::{RoutedBytes, Router};
use varve_exec::pause::Pause;

use super::link::{End, Line};
use super::{ID_DIGITS, Thread};
use crate::features::persist::aof::stream as kept;
use crate::features::replication::state::replica::{LinkStage, ReceivedPiece, SeenHold};
use crate::state::{Now, ServerState};
use crate::system::{error_text, random};

/// How often the primary is told how far this server is.
const ACK_EVERY: Duration = Duration::from_secs(1);
/// How long the link waits at a time for a file that is behind.
const FILE_LOOK: Duration = Duration::from_millis(20);
/// Bytes that are read during a CLIENT PAUSE at most, so that an end of the link is seen.
const PAUSED_BYTES: usize = 1 << 20;
/// How long the end of a link waits for the workers at a time.
const FINISH_LOOK: Duration = Duration::from_millis(20);

/// A stream that is followed.
struct Stream {
    router: Router,
    /// The offset of the first byte that the router has not taken.
    offset: u64,
    /// Bytes of a transaction that is not whole, which the router has.
    open: Vec<u8>,
    /// The database that is selected behind the last piece.
    db: u32,
    acked: Instant,
    /// The primary has asked: the answer leaves when all before this offset is applied.
    asked_at: Option<u64>,
    /// The offset that was acknowledged as being in this server's file, and the one that the primary waits for.
    filed: u64,
    filed_asked_at: Option<u64>,
    /// The hold of the lanes that was seen at the last look.
    seen_hold: Option<SeenHold>,
}

/// Follows the stream behind the data that is here, to the link's end.
pub(super) fn follow(thread: &mut Thread, mut line: Line) -> End {
    let state = Arc::clone(&thread.state);
    let (replica, keeper) = (state.replication().replica(), Arc::clone(&state));
    let db = replica.stream_db();
    let offset = match thread.alone(move |_| kept::begin_following(&keeper, db)) {
        None => return End::Unwanted,
        Some(Err(error)) => return End::of("Keeping the stream of MASTER", &error),
        Some(Ok(())) => thread.offset(),
    };
    replica.applier.begin(offset);
    replica.set_applies(true);
    let read_offset = offset + line.input.len() as u64;
    replica.report(|facts| (facts.stage, facts.read_offset) = (LinkStage::Up, read_offset));
    let mut stream = Stream {
        router: Router::in_database(db).copying(),
        offset,
        open: Vec::new(),
        db,
        acked: Instant::now(),
        asked_at: None,
        filed: 0,
        filed_asked_at: None,
        seen_hold: None,
    };
    let end = match stream.run(thread, &state, &mut line) {
        Ok(()) => End::Unwanted,
        Err(end) => end,
    };
    finish(thread, &state, stream.db, stream.seen_hold).map_or(end, End::Refused)
}

/// All that was routed is applied, or nothing more will be: then why.
fn finish(thread: &Thread, state: &Arc<ServerState>, db: u32, mut seen_hold: Option<SeenHold>) -> Option<String> {
    let replica = state.replication().replica();
    let result = loop {
        if let Some(result) = replica.applier.finish_within(FINISH_LOOK) {
            break result;
        }
        release_abandoned(state, &mut seen_hold);
    };
    replica.hand_on(state.persist().aof.journal());
    replica.set_applies(false);
    replica.set_stream_db(db);
    replica.forget_pieces();
    let refusal = result.err().filter(|_| !state.is_stopping())?;
    // Other lanes were ahead: what is applied is the beginning of no stream, and the next link brings all data anew. A file that
    // is kept gets a base of what there is, in the case that this server leads before.
    match random::hex(ID_DIGITS) {
        Ok(id) => {
            let keeper = Arc::clone(state);
            thread.alone(move |_| kept::lose(&keeper, id));
        }
        Err(error) => tracing::warn!("No new id for the data: {}", error_text(&error)),
    }
    state.persist().aof.rewrites.schedule(state.persist().aof.is_on());
    Some(refusal)
}

/// Has the lanes go on if they are held for somebody who may be gone.
fn release_abandoned(state: &ServerState, seen: &mut Option<SeenHold>) {
    state.wake_to_apply(state.replication().replica().release_abandoned(seen, Instant::now()).iter());
}

/// True while CLIENT PAUSE holds a primary's stream back like a client. Commands that were routed before run to their end:
/// a stop in the middle of them would keep saves and the server's end waiting for as long as the pause.
fn is_paused(state: &ServerState) -> bool {
    let pauses = state.pauses();
    pauses.now(Now::read().steady_ms) != Pause::None && !pauses.is_held()
}

impl Stream {
    fn run(&mut self, thread: &mut Thread, state: &ServerState, line: &mut Line) -> Result<(), End> {
        let replica = state.replication().replica();
        self.acknowledge(thread, line)?;
        loop {
            let is_paused = is_paused(state);
            if !is_paused {
                self.route(state, line)?;
            }
            if replica.applier.refusal().is_some() {
                // Its reason is found at the end.
                return Ok(());
            }
            self.answer(thread, state, line)?;
            thread.look_at_goal()?;
            let until_ack = ACK_EVERY.saturating_sub(self.acked.elapsed());
            if !replica.applier.wait_for_room_within(until_ack) {
                continue;
            }
            // Memory holds what the file has not taken: the primary keeps what comes next, and knows bounds for it.
            if state.persist().aof.journal().is_full() {
                thread.wait(FILE_LOOK.min(until_ack))?;
                continue;
            }
            // The primary keeps what comes during a long pause, as well.
            if is_paused && line.input.len() >= PAUSED_BYTES {
                line.begin_listening();
                thread.wait(FILE_LOOK.min(until_ack))?;
                continue;
            }
            let count = line.read_some()?;
            if count > 0 {
                thread.note_heard(count);
                continue;
            }
            if line.heard().elapsed() >= thread.timeout() {
                return Err(End::Broken("MASTER timeout: no data nor PING received...".to_owned()));
            }
            // Nobody wakes this thread when a pause ends.
            thread.wait(if is_paused { FILE_LOOK.min(until_ack) } else { until_ack })?;
        }
    }

    /// Gives the whole commands that have come to the lanes.
    fn route(&mut self, state: &ServerState, line: &mut Line) -> Result<(), End> {
        if line.input.is_empty() {
            return Ok(());
        }
        let (replica, table) = (state.replication().replica(), state.table());
        let mut routed = None;
        replica.receive(|| {
            let to = (&replica.applier, &**state.store(), &**table);
            let RoutedBytes { bytes, .. } = routed.insert(self.router.push(to, self.offset, &mut line.input));
            self.offset += *bytes as u64;
            self.open.extend(line.input.drain(..*bytes));
            Ok::<_, End>(self.piece())
        })?;
        let RoutedBytes { workers, fault, .. } = routed.expect("the commands were routed");
        state.wake_to_apply(workers.iter());
        if let Some(reason) = fault {
            return Err(End::Broken(format!("Protocol error from master behind offset {}: {reason}", self.offset)));
        }
        if self.router.take_asked() {
            self.asked_at = Some(self.offset);
            replica.wake_at(self.offset);
        }
        // Commands may have run before their piece was here.
        replica.hand_on(state.persist().aof.journal());
        Ok(())
    }

    /// The whole commands that the router has taken, and that are in no piece.
    fn piece(&mut self) -> Option<ReceivedPiece> {
        let end = self.router.open_at().unwrap_or(self.offset);
        let behind = (self.offset - end) as usize;
        let bytes = match behind {
            0 => std::mem::take(&mut self.open),
            _ => self.open.drain(..self.open.len() - behind).collect(),
        };
        self.db = self.router.db();
        let begin = end - bytes.len() as u64;
        let within = |message: Range<u64>| (message.start - begin) as usize..(message.end - begin) as usize;
        let messages = self.router.take_messages(end).into_iter().map(within).collect();
        (!bytes.is_empty()).then_some(ReceivedPiece { bytes, messages, end, db: self.db })
    }

    /// Tells the primary how far this server is, if that is due or the primary has asked.
    fn answer(&mut self, thread: &mut Thread, state: &ServerState, line: &mut Line) -> Result<(), End> {
        release_abandoned(state, &mut self.seen_hold);
        let offset = thread.offset();
        if let Some(asked) = self.asked_at.filter(|asked| offset >= *asked) {
            (self.asked_at, self.filed_asked_at) = (None, Some(asked));
            return self.acknowledge(thread, line);
        }
        if self.filed_asked_at.is_some() && thread.filed().is_some_and(|filed| filed > self.filed) {
            return self.acknowledge(thread, line);
        }
        if self.acked.elapsed() < ACK_EVERY {
            return Ok(());
        }
        self.acknowledge(thread, line)
    }

    fn acknowledge(&mut self, thread: &mut Thread, line: &mut Line) -> Result<(), End> {
        self.acked = Instant::now();
        let (offset, until) = (thread.offset().to_string(), self.acked + thread.timeout());
        let Some(filed) = thread.filed() else {
            self.filed_asked_at = None;
            return line.send(thread, &[b"REPLCONF", b"ACK", offset.as_bytes()], until);
        };
        self.filed = filed;
        self.filed_asked_at = self.filed_asked_at.filter(|asked| filed < *asked);
        thread.state.replication().replica().await_file(self.filed_asked_at.is_some());
        let text = filed.to_string();
        line.send(thread, &[b"REPLCONF", b"ACK", offset.as_bytes(), b"FACK", text.as_bytes()], until)
    }
}
