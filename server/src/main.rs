//! The program: event loops, connections, configuration.
#![deny(unsafe_code)]

mod cli;
mod config;
mod daemon;
mod info;
mod logging;
mod signals;
mod version;

fn main() {}
