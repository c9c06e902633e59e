//! Parts that the end-to-end tests and the experiments share.
//!
//! ```text
//! value   one reply of RESP2 or RESP3, and the incremental decoder
//! client  a blocking connection: one command, or a pipeline
//! server  varve-server or redis-server started on a loopback port of its own, stopped by its pid
//! process CPU time and resident memory of a process, read from /proc; programs on the path
//! skip    tests that have nothing to look at on this machine say so
//! tls     certificates made for a test, and a blocking connection by TLS
//! seed    the seed of a randomised test: printed, and taken from VARVE_SEED
//! replica what a server sends to its replicas: the stream of write commands
//! watch   waiting for what a server does by itself, and the figures of INFO
//! browser a page in Chromium: its tree, and what its console says
//! tab     a page in Chromium that is used: keys, windows, time
//! java    programs in Java: libraries by Maven, the source compiled
//! made    what is made of files once: the libraries of a program in another language
//! payload values as files have them, some of which lie
//! linear  a naive keyspace of strings, and the search for a legal order of what concurrent clients saw
//! ```
//!
//! Nothing here knows the engine: a server is a program and a port.

#![forbid(unsafe_code)]

pub mod browser;
pub mod client;
pub mod java;
pub mod linear;
pub mod made;
pub mod payload;
pub mod process;
pub mod replica;
pub mod seed;
pub mod server;
pub mod skip;
pub mod tab;
pub mod tls;
pub mod value;
pub mod watch;

pub use client::Client;
pub use replica::Replica;
pub use seed::Random;
pub use server::{Launch, Server};
pub use value::RespValue;
pub use watch::{figure, until};
