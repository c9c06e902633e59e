//! Real files, if a folder with some is there (`VARVE_RDB_FILES`, files that end with `.rdb`): each is read to its end, or
//! refused for a reason that is listed here.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use varve_rdb::{Event, Kind, Reader};

/// Files that are refused, and a part of the reason.
const REFUSED: &[(&str, &str)] = &[
    // Functions as a release candidate of Redis 7.0 wrote them; later ones refuse them as well.
    ("function.rdb", "function of the first form"),
    // Values of modules of Redis 4.0's candidates: only the module itself finds their end.
    ("module.rdb", "module value of the first form"),
    // Damaged on purpose, for tests of redis-server.
    ("corrupt_ziplist.rdb", "a ziplist is damaged"),
];

fn read(path: &Path) -> Result<String, String> {
    let mut reader = Reader::new(File::open(path).map_err(|error| error.to_string())?);
    let (mut keys, mut parts, mut passed) = (0, 0u64, 0);
    loop {
        match reader.next_event().map_err(|error| error.to_string())? {
            Event::Key(head) => {
                keys += 1;
                passed += u32::from(matches!(head.kind, Kind::Stream | Kind::Module));
            }
            Event::Part(_) => parts += 1,
            Event::End => return Ok(format!("{keys} keys, {parts} parts, {passed} values passed over")),
            _ => {}
        }
    }
}

/// Says so past the harness's capture; the test command counts such lines.
fn skipped(why: &str) {
    let _ = writeln!(io::stdout(), "skipped: {why}");
}

#[test]
fn real_files_are_read_or_refused_for_a_reason() {
    let Some(folder) = std::env::var_os("VARVE_RDB_FILES") else {
        return skipped("no folder with files is named by VARVE_RDB_FILES");
    };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rdb"));
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for path in &files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let result = read(path);
        println!("{name}: {}", result.as_ref().unwrap_or_else(|error| error));
        let expected = REFUSED.iter().find(|(refused, _)| *refused == name);
        let right = match (&result, expected) {
            (Ok(_), None) => true,
            (Err(error), Some((_, reason))) => error.contains(reason),
            _ => false,
        };
        if !right {
            wrong.push(format!("{name}: {result:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
