//! Seeds of real files: `seeds FOLDER CORPUS` puts what the targets `rdb`, `restore` and `aof` are to begin with into
//! `CORPUS/rdb`, `CORPUS/restore` and `CORPUS/aof`.
//!
//! ```text
//!   *.rdb  whole, its version as the first byte, its end and checksum left off      --> rdb
//!          each of its values by itself, under the version of the file              --> restore
//!   *.aof  whole, behind a byte that says how much is read at once                  --> aof
//! ```
//! Of a long file the front is taken: a target tries short inputs far more often.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use varve_rdb::{Dialect, Event, Kind, Reader};

mod versions;

/// Bytes of a seed at most.
const SEED_BYTES_MAX: usize = 16 << 10;
/// Values of one file at most: many of one file are alike.
const VALUES_MAX: usize = 200;
/// The magic word and the version.
const HEAD_BYTES: usize = 9;
/// The end of a file and its checksum, which the target `rdb` adds itself.
const END_BYTES: usize = 9;
/// The byte in front of a seed for `aof`: 101 bytes are read at once.
const AOF_STEP: u8 = 100;

fn main() -> io::Result<()> {
    let mut args = env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), Some(corpus), None) = (args.next(), args.next(), args.next()) else {
        return Err(io::Error::other("usage: seeds FOLDER CORPUS"));
    };
    for target in ["rdb", "restore", "aof"] {
        fs::create_dir_all(corpus.join(target))?;
    }
    let (mut files, mut seeds) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let made = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rdb") => of_rdb(&fs::read(&path)?, &name, &corpus)?,
            Some("aof") => of_aof(&fs::read(&path)?, &name, &corpus)?,
            _ => continue,
        };
        (files, seeds) = (files + 1, seeds + made);
    }
    println!("{files} files, {seeds} seeds");
    if seeds == 0 { Err(io::Error::other("the folder has no file that ends with .rdb or .aof")) } else { Ok(()) }
}

fn of_aof(file: &[u8], name: &str, corpus: &Path) -> io::Result<usize> {
    let front = &file[..file.len().min(SEED_BYTES_MAX)];
    fs::write(corpus.join("aof").join(name), [&[AOF_STEP], front].concat())?;
    Ok(1)
}

/// Makes seeds of a file, up to its first fault.
fn of_rdb(file: &[u8], name: &str, corpus: &Path) -> io::Result<usize> {
    let (mut reader, mut values) = (Reader::new(file), Vec::new());
    while values.len() < VALUES_MAX {
        match reader.next_event() {
            Ok(Event::Key(head)) if head.kind != Kind::Module => {
                let mut seed = vec![0, head.type_number];
                if reader.raw_value(&mut seed).is_err() {
                    break;
                }
                seed[0] = versions::version_of(reader.dialect());
                values.push(seed);
            }
            Ok(Event::End) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let dialect: Dialect = reader.dialect();
    let body = file.get(HEAD_BYTES..file.len().saturating_sub(END_BYTES)).unwrap_or_default();
    let front = &body[..body.len().min(SEED_BYTES_MAX)];
    fs::write(corpus.join("rdb").join(name), [&[versions::head_of(dialect)], front].concat())?;
    values.retain(|seed| seed.len() <= SEED_BYTES_MAX);
    for (at, seed) in values.iter().enumerate() {
        fs::write(corpus.join("restore").join(format!("{name}.{at}")), seed)?;
    }
    Ok(1 + values.len())
}
