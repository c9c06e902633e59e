//! Files of newer servers, made by hand, loaded by a start: streams of Redis 8, and what Valkey 9 writes, compressed or not, as a
//! file by itself and as the base of an append-only file. What each byte means: `compat/rdb/tests/newer.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use varve_rdb::crc::crc64;
use varve_testkit::{Client, Launch, RespValue, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_varve-server");

/// A folder that ends with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("varve-newer-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory of our own");
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn server(dir: &Path) -> Result<Server, String> {
    let launch = Launch::binary(PROGRAM).config(format!("dir {}", dir.display()));
    launch.start().map_err(|error| error.to_string())
}

fn text(reply: RespValue) -> String {
    match reply {
        RespValue::Simple(text) | RespValue::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        RespValue::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => format!("{other:?}"),
    }
}

/// The value of a stream of Redis 8.8: entries 5-0 and 5-1, a group `g` with both of them pending, the first with consumer `c`,
/// the second given back; producer `p` has named the second one `n`.
fn stream() -> Vec<u8> {
    let id = |seq: u64| [5u64.to_be_bytes(), seq.to_be_bytes()].concat();
    let pending = |seq| [id(seq), vec![7, 0, 0, 0, 0, 0, 0, 0, 3]].concat();
    let node: &[u8] =
        b"\x28\x00\x00\x00\x0f\x00\x02\x01\x00\x01\x01\x01\x81\x66\x02\x00\x01\x02\x01\x00\x01\x00\x01\x81\x76\x02\
        \x04\x01\x02\x01\x00\x01\x01\x01\x81\x76\x02\x04\x01\xff";
    let node = [&[node.len() as u8], node].concat();
    let group = [b"\x01g\x05\x01\x02\x02", &pending(0)[..], &pending(1)].concat();
    let consumer = [&b"\x01\x01c"[..], &[7, 0, 0, 0, 0, 0, 0, 0].repeat(2), &[1], &id(0), &[1], &id(1)].concat();
    let names = b"\x40\x64\x40\x64\x01\x01p\x01\x01n\x05\x01\x06\x02";
    [&[1, 16], &id(0)[..], &node, &[2, 5, 1, 5, 0, 0, 0, 2, 1], &group, &consumer, names].concat()
}

/// Looks whether the stream is whole.
fn look_at_stream(client: &mut Client, key: &str) {
    assert_eq!(client.cmd(&format!("XLEN {key}")).integer(), Some(2));
    let reply = client.cmd(&format!("XPENDING {key} g - + 10"));
    let pending: Vec<_> = reply
        .elements()
        .expect("entries")
        .iter()
        .map(|entry| {
            let [id, consumer, _, count] = entry.elements().expect("an entry") else { panic!("{entry:?}") };
            (id.text(), consumer.text(), count.integer())
        })
        .collect();
    let expected = [("5-0", "c"), ("5-1", "")].map(|(id, name)| (id.to_owned(), name.to_owned(), Some(3)));
    assert_eq!(pending, expected, "the second one was given back");
    let info = client.cmd(&format!("XINFO STREAM {key}"));
    let info = info.elements().expect("figures");
    let figure = |name: &str| info.chunks(2).find(|pair| pair[0].text() == name).and_then(|pair| pair[1].integer());
    assert_eq!(["iids-added", "iids-duplicates", "idmp-duration"].map(figure), [Some(6), Some(2), Some(100)]);
}

#[test]
fn a_stream_of_redis_8_is_loaded_and_restored_with_what_was_given_back() {
    let dir = Dir::new("stream");
    let file = [b"REDIS0014\x1b\x01s", &stream()[..], &[0xff], &[0; 8]].concat();
    fs::write(dir.0.join("dump.rdb"), file).expect("room");
    let server = server(&dir.0).expect("a start");
    let mut client = server.client();
    look_at_stream(&mut client, "s");
    let mut payload = [&[27][..], &stream(), &[14, 0]].concat();
    payload.extend_from_slice(&crc64(&payload).to_le_bytes());
    client.queue(&[&b"RESTORE"[..], b"t", b"0", &payload]);
    client.flush().expect("it is sent");
    assert_eq!(text(client.read().expect("a reply")), "OK");
    look_at_stream(&mut client, "t");
    assert_eq!(text(client.cmd("DEBUG DIGEST-VALUE s")), text(client.cmd("DEBUG DIGEST-VALUE t")));
    // And written again, in the forms that older servers read.
    let before = text(client.cmd("DEBUG DIGEST"));
    assert_eq!(text(client.cmd("DEBUG RELOAD")), "OK");
    assert_eq!(text(client.cmd("DEBUG DIGEST")), before);
    look_at_stream(&mut client, "s");
}

/// A file of Valkey with one key, and the same in its envelope, as one block that is not compressed.
fn of_valkey() -> [Vec<u8>; 2] {
    let plain = [&b"VALKEY080\x00\x01k\x01v\xff"[..], &[0; 8]].concat();
    let length = plain.len() as u32 | 1 << 31;
    // The descriptor's sum is the one of these two bytes.
    let head = b"VCS\x01\x01\x00\x01\x04\x22\x4d\x18\x60\x40\x82";
    let enclosed = [&head[..], &length.to_le_bytes(), &plain, &[0; 4]].concat();
    [plain, enclosed]
}

#[test]
fn files_of_valkey_are_loaded_compressed_or_not() {
    for (at, file) in of_valkey().into_iter().enumerate() {
        let dir = Dir::new(&format!("valkey-{at}"));
        fs::write(dir.0.join("dump.rdb"), &file).expect("room");
        assert_eq!(text(server(&dir.0).expect("a start").client().cmd("GET k")), "v");
    }
}

#[test]
fn the_base_of_an_append_only_file_may_be_one_of_valkey() {
    for (at, base) in of_valkey().into_iter().enumerate() {
        let dir = Dir::new(&format!("base-{at}"));
        let folder = dir.0.join("appendonlydir");
        fs::create_dir_all(&folder).expect("room");
        let manifest = "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
        fs::write(folder.join("appendonly.aof.manifest"), manifest).expect("room");
        fs::write(folder.join("appendonly.aof.1.base.rdb"), &base).expect("room");
        fs::write(folder.join("appendonly.aof.1.incr.aof"), b"*3\r\n$3\r\nSET\r\n$1\r\nj\r\n$1\r\nw\r\n")
            .expect("room");
        let launch = Launch::binary(PROGRAM).config(format!("dir {}", dir.0.display())).config("appendonly yes");
        let server = launch.start().expect("a start");
        assert_eq!(text(server.client().cmd("GET k")), "v");
        assert_eq!(text(server.client().cmd("GET j")), "w");
    }
}

#[test]
fn a_start_names_the_key_whose_type_it_does_not_know() {
    let dir = Dir::new("unknown");
    let file = [&b"REDIS0014\x00\x01k\x01v\x1c\x05array\x01"[..], &[0xff], &[0; 8]].concat();
    fs::write(dir.0.join("dump.rdb"), file).expect("room");
    let log = server(&dir.0).expect_err("nothing of it is served");
    let reason = "at byte 21, in the array at key \"array\": type 28 of version 14 of Redis is not known";
    assert!(log.contains(reason), "{log}");
}
