//! Real append-only files, if a folder with some is there (`VARVE_RDB_FILES`, files that end with `.aof`): a server loads each
//! as the one file of a Redis before 7, with the number of keys that is recorded here, or refuses it for the reason that is.

use std::fs;
use std::path::{Path, PathBuf};

use varve_testkit::skip::skipped;
use varve_testkit::{Launch, RespValue};

const PROGRAM: &str = env!("CARGO_BIN_EXE_varve-server");

/// Files, and the keys of all databases that redis-server 7.0.15 has of them too, or a part of the reason why one is refused.
const FILES: &[(&str, Result<u64, &str>)] = &[
    // Functions as a release candidate of Redis 7.0 wrote them. redis-server goes on with 12 keys and without the functions.
    ("appendonly-with-ts.aof", Err("Pre-GA function format not supported")),
    ("appendonly1.aof", Ok(2)),
    ("appendonly2.aof", Ok(8009)),
    ("appendonly5.aof", Ok(26)),
    // Commands of a module, which redis-server without it refuses as well.
    ("appendonly6.aof", Err("Unknown command 'hellotype.insert' reading the append only file appendonly.aof")),
    ("appendonly7.aof", Ok(3)),
    ("rdb-preamble.aof", Ok(3)),
];

/// The keys of all databases behind a start with this file, or the log of a start that fails.
fn load(file: &Path) -> Result<u64, String> {
    let dir = std::env::temp_dir().join(format!("varve-corpora-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder of our own");
    fs::copy(file, dir.join("appendonly.aof")).expect("room for a copy");
    let started = Launch::binary(PROGRAM).config(format!("dir {}", dir.display())).config("appendonly yes").start();
    let loaded = started.map_err(|error| error.to_string()).map(|server| {
        let info = match server.client().cmd("INFO keyspace") {
            RespValue::Bulk(text) => String::from_utf8(text).expect("INFO is text"),
            other => panic!("no text: {other:?}"),
        };
        let keys = info.lines().filter_map(|line| line.split_once("keys=")?.1.split(',').next()?.parse::<u64>().ok());
        keys.sum()
    });
    fs::remove_dir_all(dir).expect("it is there");
    loaded
}

#[test]
fn real_append_only_files_are_loaded_or_refused_for_a_reason() {
    let Some(folder) = std::env::var_os("VARVE_RDB_FILES") else {
        return skipped("no folder with files is named by VARVE_RDB_FILES");
    };
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "aof"));
    files.sort();
    assert!(!files.is_empty(), "the folder has append-only files");
    let mut wrong = Vec::new();
    for path in &files {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let result = load(path);
        println!("{name}: {result:?}");
        let is_right = match (&result, FILES.iter().find(|(listed, _)| *listed == name)) {
            (Ok(keys), Some((_, Ok(recorded)))) => keys == recorded,
            (Err(log), Some((_, Err(reason)))) => log.contains(reason),
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{name}: {result:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
