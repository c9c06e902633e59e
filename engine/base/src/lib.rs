//! The ground of all other crates of the engine: references into the segment range, memory mappings, hashing,
//! number and text conversion, random numbers, glob patterns, memory that may be refused or is given back in steps, a small mutex and the order of
//! locks, counters and histograms, the heaviest of many names, and the SIMD face of one index bucket.
//!
//! Nothing here knows what it is used for: no keys, no segments, no tables, no clock and no globals.

pub mod bits;
pub mod counted;
pub mod counter;
pub mod freeing;
pub mod glob;
pub mod group;
pub mod hash;
pub mod heavy;
pub mod hist;
pub mod lock;
pub mod mem;
pub mod number;
pub mod page_bytes;
pub mod rank;
mod reference;
pub mod refusable;
pub mod rng;
pub mod sha1;
pub mod share;
pub mod shared;
pub mod span;

pub use reference::Ref;
