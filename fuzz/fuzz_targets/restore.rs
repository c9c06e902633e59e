//! Bytes as DUMP's payload, under a right checksum: RESTORE either makes a key that DUMP answers in a form that restores to
//! a key of the same length, or leaves the key that it was to replace; a hash whose fields are all due leaves none. At the end
//! the store is verified.
//!
//! The first byte chooses the version.

#![no_main]

#[allow(dead_code, reason = "the tests that share this module ask for more")]
#[path = "../../compat/commands/tests/handlers/common/mod.rs"]
mod common;
#[path = "../versions.rs"]
mod versions;

use common::Server;
use libfuzzer_sys::fuzz_target;
use varve_protocol::Resp;
use versions::VERSIONS;

fuzz_target!(|bytes: &[u8]| {
    let [version, value @ ..] = bytes else { return };
    let version = VERSIONS[usize::from(*version) % VERSIONS.len()];
    let mut payload = [value, &version.to_le_bytes()].concat();
    payload.extend_from_slice(&varve_rdb::crc::crc64(&payload).to_le_bytes());
    let mut server = Server::new(Resp::V2);
    server.run(&[b"SET", b"k", b"kept"]);
    let reply = server.run(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
    if reply.starts_with(b"-") {
        assert_eq!(server.run(&[b"GET", b"k"]), b"$4\r\nkept\r\n");
        return;
    }
    assert_eq!(reply, b"+OK\r\n");
    let dump = server.run(&[b"DUMP", b"k"]);
    if dump == b"$-1\r\n" {
        // The time of all fields of a hash has come: it goes with them, and the key that it has replaced is gone as well.
        assert_eq!(server.run(&[b"EXISTS", b"k"]), b":0\r\n");
        return;
    }
    let at = dump.iter().position(|byte| *byte == b'\n').expect("a length") + 1;
    assert_eq!(server.run(&[b"RESTORE", b"again", b"0", &dump[at..dump.len() - 2]]), b"+OK\r\n");
    for length in ["STRLEN", "LLEN", "SCARD", "HLEN", "ZCARD"].map(str::as_bytes) {
        assert_eq!(server.run(&[length, b"k"]), server.run(&[length, b"again"]));
    }
});
