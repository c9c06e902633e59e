//! The program's entry: everything is in the library beside it, so that tests can read the set of commands.
#![forbid(unsafe_code)]

use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

#[global_allocator]
static MEMORY: varve_server::LastResort = varve_server::LastResort;

fn main() -> ExitCode {
    let arguments: Vec<Vec<u8>> = std::env::args_os().skip(1).map(OsStringExt::into_vec).collect();
    varve_server::run(&arguments)
}
