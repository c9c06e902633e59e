//! Bytes as an RDB file: read whole, read again with its values cut out and read by themselves, and passed over. All three
//! see the same keys, and the two that look inside see the same parts, up to the first fault.
//!
//! The first byte chooses the version; the checksum of the file is mended, so that its end is reached.

#![no_main]

#[path = "../versions.rs"]
mod versions;

use libfuzzer_sys::fuzz_target;
use varve_rdb::{Event, Reader, ValueReader};
use versions::HEADS;

fuzz_target!(|bytes: &[u8]| {
    let [head, body @ ..] = bytes else { return };
    let mut file = HEADS[usize::from(*head) % HEADS.len()].to_vec();
    file.extend_from_slice(body);
    // A sum of zeros says that there is none.
    file.extend_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    let whole = parts(&file);
    let cut = cut_out(&file);
    assert_eq!(whole.len().min(cut.len()), common(&whole, &cut), "{whole:?}\n{cut:?}");
});

/// Entries that are equal from the front on.
fn common(a: &[String], b: &[String]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn parts(file: &[u8]) -> Vec<String> {
    let (mut reader, mut seen) = (Reader::new(file), Vec::new());
    loop {
        match reader.next_event() {
            Ok(Event::Key(head)) => seen.push(format!("{:?} {:?}", head.kind, head.key)),
            Ok(Event::Part(part)) => seen.push(format!("{part:?}")),
            Ok(Event::End) | Err(_) => return seen,
            Ok(_) => {}
        }
    }
}

fn cut_out(file: &[u8]) -> Vec<String> {
    let (mut reader, mut seen) = (Reader::new(file), Vec::new());
    loop {
        let (number, kind) = match reader.next_event() {
            Ok(Event::Key(head)) => {
                seen.push(format!("{:?} {:?}", head.kind, head.key));
                (head.type_number, head.kind)
            }
            Ok(Event::End) | Err(_) => return seen,
            Ok(_) => continue,
        };
        let mut raw = Vec::new();
        if reader.raw_value(&mut raw).is_err() {
            return seen;
        }
        let mut value = ValueReader::new(reader.dialect(), number, &raw).expect("the reader knows the type");
        assert_eq!(value.kind(), kind);
        loop {
            match value.next_part() {
                Ok(Some(part)) => seen.push(format!("{part:?}")),
                Ok(None) => break,
                Err(_) => return seen,
            }
        }
    }
}
