//! A wrong sum is refused, unless sums are not compared. The switch is the process's, so this test has a process to itself.

use varve_rdb::crc::compare_sums;
use varve_rdb::{Event, RdbBuffer, Reader, Writer, dump};

/// Whether a file is read to its end.
fn is_read(file: &[u8]) -> bool {
    ends(Reader::new(file))
}

fn ends(mut reader: Reader<&[u8]>) -> bool {
    loop {
        match reader.next_event() {
            Ok(Event::End) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

#[test]
fn wrong_sums_are_refused_while_sums_are_compared() {
    let mut payload = b"\x00\x03abc".to_vec();
    dump::seal(&mut payload);
    let mut writer = Writer::new(Vec::new(), true);
    writer.header(10).unwrap();
    let mut entry = RdbBuffer::new(false);
    entry.begin(varve_rdb::Kind::String, b"key", None, None);
    entry.string(b"abc");
    writer.put(&mut entry).unwrap();
    let mut file = writer.end().unwrap();
    for bytes in [&mut payload, &mut file] {
        *bytes.last_mut().unwrap() ^= 1;
    }
    assert!(dump::open(&payload).is_none() && !is_read(&file));
    assert!(ends(Reader::new(&file[..]).without_checksum()), "a reader by itself does not compare");
    assert!(!ends(Reader::new(&file[..file.len() - 1]).without_checksum()), "the sum is there all the same");
    compare_sums(false);
    assert!(dump::open(&payload).is_some() && is_read(&file));
    compare_sums(true);
    assert!(dump::open(&payload).is_none() && !is_read(&file));
}
