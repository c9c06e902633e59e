//! Bytes as a connection's input, whole and in parts of any size: all must come to the same requests and the same error.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| varve_protocol::fuzz_one(bytes));
