//! Bytes as a file of an append-only file, read in one go and in small reads. Both see the same commands and the same end, the
//! commands are whole, and what is good of a torn file is whole when it is read again. The same bytes as a manifest: what is
//! read is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::{self, Read};
use varve_aof::{CommandReader, FileFault, Manifest, Piece, nth_command};

/// A reader that gives few bytes at a time.
struct Slow<'b>(&'b [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = to.len().min(self.1);
        self.0.read(&mut to[..length])
    }
}

/// How a file ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Whole,
    Torn(u64),
    Damaged(u64),
}

fuzz_target!(|bytes: &[u8]| {
    let [step, file @ ..] = bytes else { return };
    let (commands, end) = read(CommandReader::new(file, 0));
    let slow = read(CommandReader::new(Slow(file, 1 + usize::from(*step)), 0));
    assert_eq!(slow, (commands, end));
    if let End::Torn(valid) = slow.1 {
        let (again, end) = read(CommandReader::new(&file[..valid as usize], 0));
        assert_eq!(end, End::Whole);
        assert!(slow.0.starts_with(&again));
    }
    if let Ok(manifest) = Manifest::parse(file) {
        let text = manifest.text();
        // A name in quotes may make a line longer than it was; an empty text is no manifest.
        let fits = !text.is_empty() && text.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() <= 1024);
        assert!(!fits || Manifest::parse(&text) == Ok(manifest));
    }
});

fn read(mut reader: CommandReader<impl Read>) -> (Vec<u8>, End) {
    let mut commands = Vec::new();
    loop {
        match reader.next_piece() {
            Ok(Some(Piece::Commands(bytes))) => {
                let mut at = 0;
                while at < bytes.len() {
                    at += nth_command(&bytes[at..], 0).expect("a whole command").end;
                }
                commands.extend_from_slice(&bytes);
            }
            Ok(Some(Piece::Note(_))) => {}
            Ok(None) => return (commands, End::Whole),
            Err(FileFault::Truncated { valid }) => return (commands, End::Torn(valid)),
            Err(FileFault::Damaged { offset, .. }) => return (commands, End::Damaged(offset)),
            Err(FileFault::Io(error)) => panic!("bytes in memory: {error}"),
        }
    }
}
