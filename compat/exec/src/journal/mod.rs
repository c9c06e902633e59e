//! The journal: the effects of all workers as one stream of bytes, in one order, on their way to a file.
//!
//! ```text
//!  worker, shards held:  Unit --render--> its own buffer --append--> journal --take--> one thread: writes, syncs
//!                                                          |  end                        |
//!                                                          +-- positions: bytes since the start <-- reached(written, synced)
//! ```
//! The bytes are those of redis-server's replication stream and append-only file (`stream.rs`); notes in a file say where in a
//! stream they stand (`varve_aof`). Not here: files.

mod chunk;
mod parts;
mod queue;
mod stream;

pub use chunk::{Chunk, ChunkPart, StreamMark};
pub use queue::{Cut, Journal, Origin, Reached, Taken};
pub use stream::EffectStream;
// MIGRATE writes requests as well.
pub use varve_aof::{put_head, put_request, put_word};
