//! Receiving a primary's data beside what there is: from the link into fresh databases, which are swapped in at one instant.
//!
//! ```text
//!   link --bytes--> Incoming --> RDB --> fresh databases, functions    old data: served, or refused with LOADING
//!                                           |-- whole, and so is the mark --> the gate alone: swapped in
//!                                           '-- link broken, damaged -------> dropped; old data, history and offset are as they were
//! ```
//! Not here: loading (`persist::load_beside`), and how much comes (`sync.rs`).

use std::io::{self, Error, Read};
use std::sync::Arc;
use std::time::Instant;

use super::link::{End, Line};
use super::sync::{ALIVE_EVERY, Extent, MARK_BYTES, keep_alive, part};
use super::{ID_DIGITS, Thread};
use crate::features::persist::aof::stream as kept;
use crate::features::persist::load;
use crate::features::persist::load_beside::{self, Beside};
use crate::system::{error_text, random};

/// Receives the data of the history `id` at `offset`, and has it take the place of what there is.
///
/// # Errors
/// The link ends: why.
pub(super) fn receive(
    thread: &mut Thread,
    line: &mut Line,
    extent: Extent,
    (id, offset): (&str, u64),
    serves: bool,
) -> Result<(), End> {
    let state = Arc::clone(&thread.state);
    tracing::info!("MASTER <-> REPLICA sync: Loading DB in memory");
    let bytes = if let Extent::Bytes(bytes) = extent { bytes } else { 0 };
    let mut ended = None;
    let mut incoming =
        Incoming { extent, taken: 0, is_over: false, said: Instant::now(), ended: &mut ended, thread, line };
    let loaded = load_beside::load(&state, Box::new(&mut incoming), bytes, serves);
    let loaded = loaded.and_then(|beside| match incoming.finish() {
        Ok(()) => Ok(beside),
        Err(reason) => {
            load_beside::drop_loaded(&state);
            Err(reason)
        }
    });
    match loaded {
        Ok(beside) => keep_alive(line, || swap(thread, beside, id, offset)),
        Err(reason) => Err(failed(reason, ended)),
    }
}

/// The end of a link whose data could not be loaded for this reason: that of the link, if it has ended.
fn failed(reason: String, ended: Option<End>) -> End {
    if let Some(End::Unwanted) = ended {
        return End::Unwanted;
    }
    tracing::warn!("Internal error in RDB that MASTER has sent: {reason}");
    if let Some(End::Broken(reason) | End::Refused(reason)) = ended {
        tracing::warn!("{reason}");
    }
    tracing::info!("MASTER <-> REPLICA sync: Discarding temporary DB in background");
    End::Broken("Failed trying to load the MASTER synchronization DB from socket, check server logs.".to_owned())
}

/// The loaded data takes the place of what there is, at the place of its history.
fn swap(thread: &mut Thread, beside: Beside, id: &str, offset: u64) -> Result<(), End> {
    let state = Arc::clone(&thread.state);
    let lost = random::hex(ID_DIGITS).map_err(|error| {
        load_beside::drop_loaded(&state);
        End::Broken(error_text(&error))
    })?;
    if !load_beside::end_saves(&state) {
        return Err(End::Unwanted);
    }
    tracing::info!("MASTER <-> REPLICA sync: Swapping active DB with loaded DB");
    let (keeper, id) = (Arc::clone(&state), id.to_owned());
    let swapped = thread.alone(move |worker| {
        load_beside::swap_in(&keeper, worker, &beside);
        kept::lose(&keeper, lost);
        keeper.replication().ids().adopt(&id, offset);
        keeper.replication().replica().set_stream_db(beside.stream_db.unwrap_or(0));
        // The old libraries, which it has now, go on the link's thread.
        beside
    });
    let Some(old) = swapped else { return Err(End::Unwanted) };
    load::serve_again(&state);
    tracing::info!("MASTER <-> REPLICA sync: Discarding old DB in background");
    drop(old);
    tracing::info!("MASTER <-> REPLICA sync: Finished with success");
    Ok(())
}

/// A data set as it comes over the link, up to its end.
struct Incoming<'l> {
    extent: Extent,
    /// Bytes of it that were given.
    taken: u64,
    /// All of it has come, and so has the mark behind it.
    is_over: bool,
    /// When the primary was last told that this server is there.
    said: Instant,
    /// Why the link has ended, if it has.
    ended: &'l mut Option<End>,
    thread: &'l mut Thread,
    line: &'l mut Line,
}

impl Incoming<'_> {
    /// All of the data set has been given, and it has ended where the primary says.
    ///
    /// # Errors
    /// It has not.
    fn finish(&mut self) -> Result<(), String> {
        match self.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err("it goes on behind its end".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.is_over {
            let (count, ends) = part(&self.line.input, &self.extent, self.taken);
            if count > 0 {
                let count = count.min(buffer.len());
                buffer[..count].copy_from_slice(&self.line.input[..count]);
                self.line.input.drain(..count);
                self.taken += count as u64;
                let taken = self.taken;
                self.thread.state.replication().replica().report(|facts| facts.sync_bytes.1 = taken);
                return Ok(count);
            }
            if ends {
                let mark = if let Extent::Mark(_) = self.extent { MARK_BYTES } else { 0 };
                self.line.input.drain(..mark);
                self.is_over = true;
                break;
            }
            if self.said.elapsed() >= ALIVE_EVERY {
                self.line.say_alive();
                self.said = Instant::now();
            }
            if let Err(end) = self.line.fill(self.thread) {
                *self.ended = Some(end);
                return Err(Error::other("the link has ended"));
            }
        }
        Ok(0)
    }
}
