//! Libraries of functions beside redis-server: replies of FUNCTION and FCALL, payloads and files that each server takes from
//! the other.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Both, with_peer};
use varve_testkit::{Client, Launch, RespValue};

const FLAGS: &str = "#!lua name=fl
local function run(keys, args) return redis.call(unpack(args)) end
redis.register_function{function_name='nw', callback=run, flags={'no-writes'}}
redis.register_function{function_name='all', description='d e', callback=run,
    flags={'no-cluster','allow-oom','no-writes','allow-stale','allow-cross-slot-keys'}}
redis.register_function{function_name='plain', callback=function(k, a) return {k, a} end}
redis.register_function{function_name='er', callback=function() return redis.error_reply('MY ERR') end}
redis.register_function{function_name='er2', callback=function() error('boo') end}
redis.register_function{function_name='er3', callback=function() return redis.call('nope') end}
redis.register_function{function_name='resp3', callback=function(k) redis.setresp(3) return redis.call('hgetall', k[1]) end}";

/// A library of one function.
fn library(name: &str, function: &str) -> String {
    format!("#!lua name={name}\nredis.register_function('{function}', function() return 2 end)")
}

/// Both reply the same to these words.
fn same(both: &mut Both, words: &[&str]) {
    let [ours, peer] = both.ask(words);
    assert_eq!(ours, peer, "{words:?}");
}

fn bytes(value: RespValue) -> Vec<u8> {
    match value {
        RespValue::Bulk(bytes) => bytes,
        other => panic!("no bulk: {other:?}"),
    }
}

#[test]
fn libraries_are_refused_alike() {
    with_peer(|both| {
        both.same("FUNCTION FLUSH");
        let wrong = [
            "return 1",
            "\n#!lua name=a\nx",
            "#!lua",
            "#!lua name=a",
            "#!lua\nx",
            "#!\nx",
            "#! \nx",
            "#! name=a\nx",
            "#!foo name=a\nx",
            "#!lua name=a name=b\nx",
            "#!lua name=a b=c\nx",
            "#!lua name=a flags=no-writes\nx",
            "#!lua name=\nx",
            "#!lua name=a-b\nx",
            "#!lua name=\"a\nx",
            "#!lua NAME=bb\nx",
            "#!lua name=a\nx x",
            "#!lua name=a\nreturn 1",
            "#!lua name=a\nredis.call('ping')",
            "#!lua name=a\nerror('boo')",
            "#!lua name=a\nredis.register_function('f f', function() end)",
        ];
        wrong.iter().for_each(|code| same(both, &["FUNCTION", "LOAD", code]));
        for code in ["#!LUA name=\"a\"\n", "#!\"lua\" name='b\\'\n", "#!lua\tname=\"\\x63\"\n"] {
            let function = format!("f{}", code.len());
            same(both, &["FUNCTION", "LOAD", &format!("{code}redis.register_function('{function}', function() end)")]);
        }
        for words in [
            &["FUNCTION", "LOAD", "#!lua name=a\nx x"][..],
            &["FUNCTION", "LOAD", &library("z", "F40")],
            &["FUNCTION", "LOAD", &library("z", "zz")],
            &["FUNCTION", "LOAD", "replace", &library("z", "z2")],
            &["FUNCTION", "LOAD", "REPLACE", &library("z", "bad name")],
            &["FUNCTION", "LOAD", "REPLACE", &library("a", "Z2")],
            &["FUNCTION", "LOAD", "FOO", "x"],
            &["FUNCTION", "LOAD", "REPLACE", "REPLACE", "x"],
            &["FUNCTION", "LOAD", "REPLACE"],
            &["FUNCTION", "LOAD"],
            &["FCALL", "z2", "0"],
            &["FCALL", "zz", "0"],
        ] {
            same(both, words);
        }
    });
}

#[test]
fn commands_about_libraries_reply_alike() {
    with_peer(|both| {
        both.same("FUNCTION FLUSH SYNC");
        // One library, one function of each name: redis-server lists them in an order of its own.
        same(both, &["FUNCTION", "LOAD", &library("lib", "one")]);
        for line in [
            "FUNCTION",
            "FUNCTION FOO",
            "FUNCTION DELETE nope",
            "FUNCTION DELETE LIB",
            "FUNCTION DELETE",
            "FUNCTION FLUSH foo",
            "FUNCTION FLUSH SYNC x",
            "FUNCTION KILL",
            "FUNCTION STATS",
            "FUNCTION STATS a",
            "FUNCTION LIST",
            "FUNCTION LIST withcode LIBRARYNAME L*",
            "FUNCTION LIST WITHCODE WITHCODE",
            "FUNCTION LIST LIBRARYNAME",
            "FUNCTION LIST LIBRARYNAME a LIBRARYNAME b",
            "FUNCTION LIST foo",
            "FUNCTION LIST LIBRARYNAME zz*",
            "FUNCTION DUMP a",
            "FUNCTION RESTORE x",
            "FUNCTION RESTORE x foo",
            "FUNCTION RESTORE x flush y",
            "FUNCTION DELETE lib",
            "FUNCTION STATS",
            "FUNCTION LIST",
        ] {
            both.same(line);
        }
    });
}

#[test]
fn functions_reply_alike() {
    with_peer(|both| {
        both.same("FUNCTION FLUSH ASYNC");
        same(both, &["FUNCTION", "LOAD", FLAGS]);
        both.same("HSET h a 1");
        for line in [
            "FCALL nope x",
            "FCALL plain x",
            "FCALL plain -1",
            "FCALL plain 1",
            "FCALL plain 99999999999999999999",
            "FCALL plain",
            "FCALL PLAIN 1 a b",
            "FCALL_RO plain 1 a b",
            "FCALL_RO nw 0 hget h a",
            "FCALL nw 0 set k v",
            "FCALL_RO all 0 set k v",
            "FCALL er 0",
            "FCALL er2 0",
            "FCALL er3 0",
            "FCALL resp3 1 h",
            "COMMAND GETKEYS FCALL x 2 a b c",
            "MULTI",
            "FCALL plain 2 a b c",
            "FCALL nope 0",
            "FUNCTION DELETE nope",
            "FUNCTION DELETE fl",
            "FCALL plain 0",
            "EXEC",
        ] {
            both.same(line);
        }
        same(both, &["EVAL", "return redis.call('function', 'list')", "0"]);
        same(both, &["EVAL", "return redis.pcall('fcall', 'plain', 0)", "0"]);
        same(
            both,
            &[
                "FUNCTION",
                "LOAD",
                "#!lua name=sub\nredis.register_function('sub', function() return redis.call('fcall', 'sub', 0) end)",
            ],
        );
        both.same("FCALL sub 0");
    });
}

#[test]
fn each_server_restores_the_other_ones_libraries() {
    with_peer(|both| {
        both.same("FUNCTION FLUSH");
        for code in [library("a", "f1"), library("b", "f2"), FLAGS.to_owned()] {
            same(both, &["FUNCTION", "LOAD", &code]);
        }
        let dumps = [&mut both.ours, &mut both.peer].map(|client| bytes(client.cmd("FUNCTION DUMP")));
        let [ours, peer] = &dumps;
        for (payload, client) in [(ours, &mut both.peer), (peer, &mut both.ours)] {
            let mut restore =
                |policy: &[u8]| client.call(&[&b"FUNCTION"[..], b"RESTORE", payload, policy]).expect("a reply");
            let taken = restore(b"append").text();
            assert!(taken.starts_with("ERR Library ") && taken.ends_with(" already exists"), "{taken}");
            assert_eq!(restore(b"replace").text(), "OK");
            assert_eq!(restore(b"flush").text(), "OK");
        }
        both.same("FCALL f1 0");
        both.same("FUNCTION STATS");
        both.same("FUNCTION FLUSH");
        both.same("FUNCTION RESTORE x append");
        same(both, &["FUNCTION", "LOAD", &library("other", "F1")]);
        both.same("SET key value");
        let key = bytes(both.peer.cmd("DUMP key"));
        for client in [&mut both.ours, &mut both.peer] {
            let mut restore = |payload: &[u8]| {
                client.call(&[&b"FUNCTION"[..], b"RESTORE", payload, b"REPLACE"]).expect("a reply").text()
            };
            assert_eq!(restore(ours), "ERR Function f1 already exists");
            assert_eq!(restore(&key), "ERR given type is not a function");
        }
        both.same("FUNCTION LIST WITHCODE");
    });
}

/// A directory that ends with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("varve-functions-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory of our own");
        Dir(dir)
    }

    fn launch(&self, launch: Launch) -> Launch {
        launch.config(format!("dir {}", self.0.display()))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn varve() -> Launch {
    Launch::binary(env!("CARGO_BIN_EXE_varve-server"))
}

fn load(client: &mut Client, code: &str) {
    let loaded = client.call(&["FUNCTION", "LOAD", code]).expect("a reply");
    assert!(!loaded.is_error(), "{}", loaded.text());
}

/// The code of all libraries, in order.
fn codes(client: &mut Client) -> Vec<String> {
    let RespValue::Array(libraries) = client.cmd("FUNCTION LIST WITHCODE") else { panic!("no list") };
    let code = |library: &RespValue| match library {
        RespValue::Array(fields) => fields[7].clone().text(),
        other => panic!("no library: {other:?}"),
    };
    let mut codes: Vec<String> = libraries.iter().map(code).collect();
    codes.sort();
    codes
}

#[test]
fn each_server_loads_the_other_ones_file_with_libraries() {
    let dir = Dir::new("rdb");
    let mut known = Vec::new();
    for (round, launch) in [varve(), Launch::peer(), varve(), Launch::peer(), varve()].into_iter().enumerate() {
        let server = dir.launch(launch).start().expect("the server starts");
        let mut client = server.client();
        assert_eq!(codes(&mut client), known, "round {round}");
        load(&mut client, &format!("{} -- {}", library(&format!("l{round}"), &format!("f{round}")), "x".repeat(300)));
        known = codes(&mut client);
        assert_eq!(client.cmd("DEBUG RELOAD").text(), "OK");
        assert_eq!(codes(&mut client), known, "round {round}, loaded again");
        assert_eq!(client.cmd(&format!("FCALL f{round} 0")), RespValue::Integer(2));
        assert_eq!(client.cmd("SAVE").text(), "OK");
    }
}

#[test]
fn each_server_loads_the_other_ones_append_only_file_with_libraries() {
    for preamble in ["yes", "no"] {
        let dir = Dir::new(preamble);
        let mut known = Vec::new();
        for (round, launch) in [varve(), Launch::peer(), varve(), Launch::peer(), varve()].into_iter().enumerate() {
            let launch = launch.config("appendonly yes").config(format!("aof-use-rdb-preamble {preamble}"));
            let server = dir.launch(launch).start().expect("the server starts");
            let mut client = server.client();
            assert_eq!(codes(&mut client), known, "round {round}, preamble {preamble}");
            let (lib, function) = (format!("l{round}"), format!("f{round}"));
            load(&mut client, &library("gone", "gone"));
            let dump = bytes(client.cmd("FUNCTION DUMP"));
            load(&mut client, &library(&lib, &function));
            let code = "redis.call('INCR', 'n') redis.call('SET', 'a', 1) return redis.call('GET', 'n')";
            load(&mut client, &format!("#!lua name=w\nredis.register_function('w', function() {code} end)"));
            let n: usize = client.cmd("FCALL w 0").text().parse().expect("a number");
            assert_eq!(n, round + 1);
            let restored = client.call(&[&b"FUNCTION"[..], b"RESTORE", &dump, b"REPLACE"]).expect("a reply");
            assert_eq!(restored.text(), "OK");
            assert_eq!(client.cmd("FUNCTION DELETE gone").text(), "OK");
            assert_eq!(client.cmd("FUNCTION DELETE w").text(), "OK");
            if round % 2 == 0 {
                assert!(!client.cmd("BGREWRITEAOF").is_error());
                let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
                while client.cmd("INFO persistence").text().contains("aof_rewrite_in_progress:1") {
                    assert!(std::time::Instant::now() < until, "the rewrite ends");
                }
            }
            known = codes(&mut client);
            assert!(known.len() == round + 1, "{known:?}");
            assert_eq!(client.cmd("DEBUG LOADAOF").text(), "OK");
            assert_eq!(codes(&mut client), known, "round {round}, loaded again");
        }
    }
}

#[test]
fn a_library_that_cannot_be_loaded_ends_the_start_with_its_reason() {
    let dir = Dir::new("wrong");
    let mut head = varve_rdb::RdbBuffer::new(false);
    head.function(b"#!lua name=wrong\nx x");
    let mut file = varve_rdb::Writer::new(Vec::new(), true);
    file.header(varve_rdb::format::VERSION).and_then(|()| file.put(&mut head)).expect("memory");
    fs::write(dir.0.join("dump.rdb"), file.end().expect("memory")).expect("room");
    let error = dir.launch(varve()).start().expect_err("such a file is not taken").to_string();
    assert!(error.contains("Error compiling function: user_function:2:"), "{error}");
    // The form of the release candidates of Redis 7.0.
    let mut old = b"REDIS0010\xf6\x01a\x01b\x00\x00\x00\xff".to_vec();
    old.extend([0; 8]);
    fs::write(dir.0.join("dump.rdb"), old).expect("room");
    let error = dir.launch(varve()).start().expect_err("such a file is not taken").to_string();
    assert!(error.contains("function of the first form"), "{error}");
}
