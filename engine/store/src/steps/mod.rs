//! Steps: bounded pieces of background work, and of the room that writers need.
//!
//! | file | what |
//! |---|---|
//! | `free` | dying collections, tables that change size |
//! | `flush` | whole databases at once, and their sweep |
//! | `evict`, `victim` | which keys go, which segment is drained |
//! | `reclaim` | room: admission, the drain |
//! | `background` | the scheduler, expiry, growth of the index |

mod background;
mod evict;
mod flush;
mod free;
mod reclaim;
mod victim;
