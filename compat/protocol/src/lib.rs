//! RESP2 and RESP3: requests in, replies out.
//!
//! ```text
//!  bytes of the socket --Parser--> spans --Args--> commands --Reply--> slices for the socket
//!      (caller's buffer)      (into that buffer)          (own buffer + values by reference)
//! ```
//!
//! [`Parser`] splits requests in place and remembers a partial one; [`Args`] is a request as commands see it; [`Reply`]
//! writes replies in either protocol version. No sockets, and no reading of replies: a client's side of the protocol is
//! in the test kit.

#![forbid(unsafe_code)]

pub mod args;
pub mod errors;
pub mod parser;
pub mod reply;
pub mod words;

pub use args::{Args, LargeSlices, OwnedArgs, Span};
pub use errors::ProtocolError;
pub use parser::{LargeArgument, Parsed, Parser, RequestLimits, escape};
pub use reply::{Deferred, Mark, Pinned, Reply, ReplyPart, Resp};

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
#[cfg(any(test, feature = "fuzz"))]
pub use fuzz::fuzz_one;
