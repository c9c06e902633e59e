//! The writer of an append-only file, on a real disk and on one that fails.

use super::super::load;
use super::*;
use crate::system::disk::Disk;
use crate::system::disk::failing::{Call, FailingDisk};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;
use varve_aof::{CommandReader, FileFault, Piece, select};
use varve_base::rng::Rng;
use varve_exec::journal::{Journal, Origin};

pub(super) fn place(disk: &FailingDisk) -> Place {
    Place { disk: Arc::new(disk.clone()), folder: PathBuf::new(), name: b"a.aof".to_vec() }
}

fn writer(disk: &FailingDisk) -> Writer {
    Writer::open(place(disk), Manifest::default(), 0).expect("a healthy disk")
}

/// The command that each file begins with: the effects of these tests are done in database 0.
pub(super) const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";

/// A command that is found again: its number.
fn command(number: u64) -> Vec<u8> {
    let (number, padding) = (number.to_string(), "x".repeat(number as usize * 37 % 9000));
    let length = number.len() + 1 + padding.len();
    format!("*2\r\n$3\r\nADD\r\n${length}\r\n{number} {padding}\r\n").into_bytes()
}

/// Puts a command that is done in database 0.
fn put(writer: &mut Writer, number: u64) {
    let mut bytes = Vec::new();
    if writer.db.is_none() {
        select(0, &mut bytes);
    }
    bytes.extend(command(number));
    let end = writer.end() + bytes.len() as u64;
    let chunks = vec![Arc::new(Chunk::new(bytes, writer.db))];
    writer.put(Taken { chunks, end, db: Some(0), cut: None });
}

/// The numbers of the commands that a start would find on this disk.
fn load(disk: &FailingDisk) -> Vec<u64> {
    let place = place(disk);
    let mut text = Vec::new();
    let manifest = place.path(&place.names().manifest());
    disk.read(&manifest).expect("a manifest").read_to_end(&mut text).expect("it is read");
    let manifest = Manifest::parse(&text).expect("a whole manifest");
    let count = manifest.files().count();
    let mut numbers = Vec::new();
    for (nth, entry) in manifest.files().enumerate() {
        let file = disk.read(&place.path(&entry.name)).expect("a listed file");
        let file = file.take(entry.length.unwrap_or(u64::MAX));
        let mut reader = CommandReader::new(file, 0);
        let mut selected = false;
        loop {
            match reader.next_piece() {
                Ok(Some(Piece::Commands(bytes))) => {
                    assert!(selected || bytes.starts_with(SELECT), "{}", shown(&entry.name));
                    selected = true;
                    numbers.extend(numbers_in(&bytes));
                }
                Ok(Some(Piece::Note(_))) => {}
                Ok(None) => break,
                Err(FileFault::Truncated { .. }) => {
                    assert_eq!(nth + 1, count, "only the last file may be torn: {}", shown(&entry.name));
                    break;
                }
                Err(fault) => panic!("{}: {fault:?}", shown(&entry.name)),
            }
        }
    }
    numbers
}

pub(super) fn numbers_in(bytes: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(bytes).replace(std::str::from_utf8(SELECT).expect("text"), "");
    let lines: Vec<&str> = text.split("\r\n").collect();
    lines.chunks_exact(5).map(|five| five[4].split(' ').next().expect("a number").parse().expect("a number")).collect()
}

pub(super) fn eio() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

#[test]
fn what_is_synced_is_found() {
    let disk = FailingDisk::default();
    let mut writer = writer(&disk);
    (0..50).for_each(|number| put(&mut writer, number));
    writer.write().expect("a healthy disk");
    assert_eq!(writer.released(), 0, "nothing is synced");
    writer.sync().expect("a healthy disk");
    assert_eq!((writer.released(), writer.synced()), (writer.end(), writer.end()));
    assert_eq!(load(&disk.crash(&mut Rng::seeded(1))), (0..50).collect::<Vec<_>>());
    let again = Writer::open(place(&disk), writer.manifest.clone(), 7).expect("a healthy disk");
    assert_eq!(again.file_bytes, writer.file_bytes);
}

/// A note of where the stream is, alone.
fn marked() -> Taken {
    let journal = Journal::new(1);
    journal.set_origin(Some(Origin { id: "a".repeat(40), base: 0, since: 0 }));
    journal.take(Duration::ZERO, &mut Vec::new())
}

/// A mark has no bytes of the stream, and bytes of the file all the same: no manifest counts them where their sync
/// failed.
#[test]
fn a_mark_whose_sync_has_failed_is_in_the_next_increment() {
    let disk = FailingDisk::default();
    let mut writer = writer(&disk);
    writer.put(marked());
    writer.write().expect("a healthy disk");
    assert!(writer.synced() == writer.written() && writer.unsynced_bytes() > 0, "it has no position");
    disk.set_fault(|_, call| (call == Call::Sync).then(eio));
    assert!(writer.sync().is_err());
    disk.heal();
    writer.mend().expect("a healthy disk");
    let lengths: Vec<Option<u64>> = writer.manifest.increments().iter().map(|entry| entry.length).collect();
    assert_eq!(lengths, [Some(0), None]);
    assert_eq!((writer.kept.len(), writer.unsynced_bytes()), (0, 0));
    let name = &writer.manifest.increments()[1].name;
    let mut text = String::new();
    disk.read(&place(&disk).path(name)).expect("it is there").read_to_string(&mut text).expect("text");
    assert!(text.starts_with("#REPL:a"), "{text}");
}

/// The kernel forgets that it lost pages: the next sync of the same file would succeed, over a hole.
#[test]
fn after_a_failed_sync_a_new_increment_takes_the_rest() {
    let disk = FailingDisk::default();
    let mut writer = writer(&disk);
    put(&mut writer, 0);
    writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
    put(&mut writer, 1);
    writer.write().expect("a healthy disk");
    disk.set_fault(|_, call| (call == Call::Sync).then(eio));
    assert!(writer.sync().is_err() && writer.is_broken());
    assert!(writer.mend().is_err(), "the disk fails still");
    put(&mut writer, 2);
    disk.heal();
    writer.mend().expect("a healthy disk");
    assert!(!writer.is_broken() && writer.synced() == writer.end());
    assert_eq!(writer.manifest.increments().len(), 2);
    assert_eq!(load(&disk.crash(&mut Rng::seeded(1))), [0, 1, 2]);
    let old = &writer.manifest.increments()[0];
    let cut = disk.size(&place(&disk).path(&old.name)).expect("it is there");
    assert_eq!(old.length, Some(cut), "redis-server finds no more in it than the manifest says");
    put(&mut writer, 3);
    writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
    assert_eq!(load(&disk), [0, 1, 2, 3]);
}

/// An increment that goes on in the middle of the journal begins with the database that is selected there.
#[test]
fn a_new_increment_selects_its_database() {
    let disk = FailingDisk::default();
    let mut writer = writer(&disk);
    let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".to_vec();
    let put = |writer: &mut Writer, before, behind| {
        let mut bytes = Vec::new();
        if before != Some(behind) {
            select(behind, &mut bytes);
        }
        bytes.extend_from_slice(&set);
        let end = writer.end() + bytes.len() as u64;
        writer.put(Taken { chunks: vec![Arc::new(Chunk::new(bytes, before))], end, db: Some(behind), cut: None });
    };
    let last = |writer: &Writer| {
        let name = &writer.manifest.increments().last().expect("an increment").name;
        let mut text = String::new();
        disk.read(&place(&disk).path(name)).expect("a file").read_to_string(&mut text).expect("text");
        text
    };
    let select = |db: u32| format!("#OWN:23\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n{db}\r\n");
    let set_text = String::from_utf8(set.clone()).expect("text");
    let fail = |writer: &mut Writer| {
        disk.set_fault(|_, call| (call == Call::Sync).then(eio));
        assert!(writer.write().and_then(|()| writer.sync()).is_err());
        disk.heal();
        writer.mend().expect("a healthy disk");
    };
    put(&mut writer, None, 3);
    writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
    put(&mut writer, Some(3), 3);
    fail(&mut writer);
    assert_eq!(last(&writer), select(3) + &set_text);
    // Nothing is left to be taken: the next effect finds its database selected all the same.
    fail(&mut writer);
    put(&mut writer, Some(3), 3);
    writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
    assert_eq!(last(&writer), select(3) + &set_text);
    assert_eq!(writer.file_bytes, last(&writer).len() as u64);
    // Bytes of another server do not say their database again where a file begins.
    writer.cut = Some(Cut::NewFile);
    writer.roll().expect("a healthy disk");
    put(&mut writer, Some(3), 3);
    disk.set_fault(|_, call| (call == Call::Write).then(eio));
    assert!(writer.write().is_err());
    disk.heal();
    writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
    assert_eq!(last(&writer), select(3) + &set_text);
    assert_eq!((writer.file_bytes, writer.kept_from_bytes), (last(&writer).len() as u64, writer.file_bytes));
}

/// Under `appendfsync no` what is written is not kept. If the setting changes and the next sync fails, it stays in the
/// file: nothing is left out, and nothing comes twice.
#[test]
fn what_is_no_longer_kept_stays_in_the_old_file() {
    let disk = FailingDisk::default();
    let mut writer = writer(&disk);
    writer.keep_unsynced(false);
    (0..3).for_each(|number| put(&mut writer, number));
    writer.write().expect("a healthy disk");
    assert_eq!((writer.released(), writer.synced()), (writer.end(), 0));
    writer.keep_unsynced(true);
    (3..5).for_each(|number| put(&mut writer, number));
    disk.set_fault(|_, call| (call == Call::Sync).then(eio));
    assert!(writer.write().and_then(|()| writer.sync()).is_err());
    disk.heal();
    writer.mend().expect("a healthy disk");
    assert_eq!(load(&disk), [0, 1, 2, 3, 4]);
}

/// Whatever call of mending fails, and whenever the process ends: each effect is found once.
#[test]
fn no_end_of_the_process_while_mending_loses_or_doubles_anything() {
    for failing in 0..16 {
        let disk = FailingDisk::default();
        let mut writer = writer(&disk);
        put(&mut writer, 0);
        writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
        (1..4).for_each(|number| put(&mut writer, number));
        writer.write().expect("a healthy disk");
        disk.set_fault(|_, call| (call == Call::Sync).then(eio));
        assert!(writer.sync().is_err());
        disk.set_fault(move |number, _| (number == failing).then(eio));
        let mended = writer.mend();
        assert_eq!(load(&disk), [0, 1, 2, 3], "call {failing} failed: {mended:?}");
        disk.heal();
        if mended.is_err() {
            writer.mend().expect("a healthy disk");
        }
        assert_eq!(load(&disk), [0, 1, 2, 3], "call {failing} failed");
    }
}

/// A cut begins an increment, a base takes the place of all before it; whatever call fails, and whenever the machine
/// ends, each effect is found once.
#[test]
fn a_base_takes_the_place_of_all_before_it_whatever_fails() {
    for failing in 0..28 {
        let (disk, mut rng) = (FailingDisk::default(), Rng::seeded(failing));
        let mut writer = writer(&disk);
        let sync = |writer: &mut Writer| {
            if writer.is_broken() { writer.mend() } else { Ok(()) }
                .and_then(|()| writer.write())
                .and_then(|()| writer.sync())
        };
        (0..3).for_each(|number| put(&mut writer, number));
        sync(&mut writer).expect("a healthy disk");
        let temp = PathBuf::from("temp");
        let mut file = disk.create(&temp).expect("a healthy disk");
        let base: Vec<u8> = SELECT.iter().copied().chain((0..3).flat_map(command)).collect();
        write_all(&mut *file, &base).and_then(|()| file.sync()).expect("a healthy disk");
        let end = writer.end();
        writer.put(Taken { chunks: Vec::new(), end, db: None, cut: Some(Cut::NewFile) });
        disk.set_fault(move |number, _| (number == failing).then(eio));
        while sync(&mut writer).and_then(|()| writer.roll()).is_err() {}
        assert!(writer.has_begun(end) && writer.at_cut().is_none());
        (3..5).for_each(|number| put(&mut writer, number));
        while sync(&mut writer).is_err() {}
        let rebased = writer.rebase(&temp, Form::Commands);
        let all = [0, 1, 2, 3, 4];
        assert_eq!(load(&disk), all, "call {failing} failed: {rebased:?}");
        for _ in 0..16 {
            assert_eq!(load(&disk.crash(&mut rng)), all, "call {failing} failed: {rebased:?}");
        }
        if rebased.is_ok() {
            let size = |entry: &Entry| disk.size(&place(&disk).path(&entry.name)).expect("it is there");
            assert_eq!(writer.bytes(), writer.manifest.files().map(size).sum::<u64>());
            drop(writer.remove_history(PastBounds::NONE));
        }
        disk.heal();
        sync(&mut writer).and_then(|()| writer.remove_history(PastBounds::NONE).map(drop)).expect("a healthy disk");
        assert_eq!(load(&disk.crash(&mut rng)), all, "call {failing} failed: {rebased:?}");
        assert_eq!(writer.manifest.history(), []);
    }
}

/// A manifest that finds no room has changed nothing: the cut is done when there is room, by the next call, and the file
/// that is written meanwhile is no worse.
#[test]
fn a_full_disk_at_a_cut_breaks_nothing() {
    let disk = FailingDisk::default();
    let mut writer = writer(&disk);
    put(&mut writer, 0);
    writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
    let end = writer.end();
    writer.put(Taken { chunks: Vec::new(), end, db: None, cut: Some(Cut::NewFile) });
    disk.set_room(Some(0));
    for _ in 0..3 {
        let error = writer.write().and_then(|()| writer.roll()).expect_err("there is no room for a manifest");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(!writer.is_broken() && writer.synced() == end, "what was synced is in the file that counts");
        assert_eq!(load(&disk.crash(&mut Rng::seeded(1))), [0]);
    }
    disk.set_room(None);
    writer.write().and_then(|()| writer.roll()).expect("there is room");
    put(&mut writer, 1);
    writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
    assert_eq!(load(&disk.crash(&mut Rng::seeded(1))), [0, 1]);
}

/// Before the first base is there, the manifest on disk lists what it listed.
#[test]
fn a_file_that_begins_counts_with_its_first_base() {
    let disk = FailingDisk::default();
    let mut old = writer(&disk);
    put(&mut old, 9);
    old.write().and_then(|()| old.sync()).expect("a healthy disk");
    let mut writer = Writer::waiting(place(&disk), old.manifest.clone(), 100).expect("a healthy disk");
    let cut = |writer: &mut Writer| {
        let end = writer.end();
        writer.put(Taken { chunks: Vec::new(), end, db: None, cut: Some(Cut::NewFile) });
        writer.write().and_then(|()| writer.sync()).and_then(|()| writer.roll()).expect("a healthy disk");
    };
    cut(&mut writer);
    put(&mut writer, 0);
    // The first rewrite fails, the next one begins.
    cut(&mut writer);
    put(&mut writer, 1);
    writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
    assert_eq!(load(&disk), [9]);
    let temp = PathBuf::from("temp");
    let mut file = disk.create(&temp).expect("a healthy disk");
    write_all(&mut *file, &[SELECT, &command(0)].concat()).and_then(|()| file.sync()).expect("a healthy disk");
    writer.rebase(&temp, Form::Commands).expect("a healthy disk");
    drop(writer.remove_history(PastBounds::NONE).expect("a healthy disk"));
    assert_eq!(load(&disk.crash(&mut Rng::seeded(1))), [0, 1]);
    assert_eq!(writer.manifest.increments().iter().map(|entry| entry.seq).collect::<Vec<_>>(), [2]);
}

/// The manifest that lists the first base may be on disk though its call failed. Until the next base is there, the file
/// is what it was; and what was promised of the base that may count is not mixed with what comes later.
#[test]
fn a_first_base_in_doubt_does_not_count() {
    for failing in 0..10 {
        for has_old in [true, false] {
            let (disk, mut rng) = (FailingDisk::default(), Rng::seeded(failing));
            let mut manifest = Manifest::default();
            if has_old {
                let mut old = writer(&disk);
                put(&mut old, 9);
                old.write().and_then(|()| old.sync()).expect("a healthy disk");
                manifest = old.manifest.clone();
            }
            let mut writer = Writer::waiting(place(&disk), manifest, 100).expect("a healthy disk");
            let end = writer.end();
            writer.put(Taken { chunks: Vec::new(), end, db: None, cut: Some(Cut::NewFile) });
            writer.write().and_then(|()| writer.sync()).and_then(|()| writer.roll()).expect("a healthy disk");
            let temp = PathBuf::from("temp");
            let mut file = disk.create(&temp).expect("a healthy disk");
            write_all(&mut *file, &[SELECT, &command(0)].concat()).and_then(|()| file.sync()).expect("a healthy disk");
            disk.set_fault(move |number, _| (number == failing).then(eio));
            let rebased = writer.rebase(&temp, Form::Commands);
            disk.heal();
            if writer.is_broken() {
                writer.mend().expect("a healthy disk");
            }
            put(&mut writer, 1);
            writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
            let crashed = disk.crash(&mut rng);
            if rebased.is_ok() {
                assert_eq!(load(&crashed), [0, 1], "call {failing} failed");
            } else if has_old {
                assert_eq!(load(&crashed), [9], "call {failing} failed");
            } else {
                assert!(load::read_manifest(&place(&crashed)).expect("none").is_empty(), "call {failing} failed");
            }
        }
    }
}

/// A writer that waits for its first base; before that, a file with this one command was kept.
fn waiting_behind(disk: &FailingDisk, number: u64) -> Writer {
    let mut old = writer(disk);
    put(&mut old, number);
    old.write().and_then(|()| old.sync()).expect("a healthy disk");
    Writer::waiting(place(disk), old.manifest.clone(), 100).expect("a healthy disk")
}

fn cut(writer: &mut Writer) {
    let end = writer.end();
    writer.put(Taken { chunks: Vec::new(), end, db: None, cut: Some(Cut::NewFile) });
}

/// Whatever call of a cut fails before the first base is there, and a sync behind it: mending ends no file that is listed.
#[test]
fn a_cut_that_fails_before_the_first_base_ends_no_listed_file() {
    for failing in 0..3 {
        let (disk, mut rng) = (FailingDisk::default(), Rng::seeded(failing));
        let mut writer = waiting_behind(&disk, 9);
        cut(&mut writer);
        disk.set_fault(move |number, _| (number == failing).then(eio));
        let rolled = writer.write().and_then(|()| writer.sync()).and_then(|()| writer.roll());
        disk.set_fault(|_, call| (call == Call::Sync).then(eio));
        if !writer.is_broken() {
            assert!(writer.sync().is_err());
        }
        disk.heal();
        writer.mend().expect("a healthy disk");
        assert_eq!(load(&disk), [9], "call {failing} failed: {rolled:?}");
        writer.roll().expect("a healthy disk");
        put(&mut writer, 0);
        writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
        let temp = PathBuf::from("temp");
        let mut file = disk.create(&temp).expect("a healthy disk");
        write_all(&mut *file, SELECT).and_then(|()| file.sync()).expect("a healthy disk");
        writer.rebase(&temp, Form::Commands).expect("a healthy disk");
        assert_eq!(load(&disk.crash(&mut rng)), [0], "call {failing} failed: {rolled:?}");
    }
}

/// Whatever two calls fail of the first base and of the end behind it: no file is removed that a manifest lists which may be
/// on disk, and none gets the name of such a file when the file begins again.
#[test]
fn a_file_that_ends_with_its_first_base_in_doubt_loads() {
    for (failing, second) in (0..8).flat_map(|failing| (failing..14).map(move |second| (failing, second))) {
        let (disk, mut rng) = (FailingDisk::default(), Rng::seeded(failing));
        let mut writer = waiting_behind(&disk, 9);
        cut(&mut writer);
        writer.write().and_then(|()| writer.sync()).and_then(|()| writer.roll()).expect("a healthy disk");
        put(&mut writer, 0);
        writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
        let temp = PathBuf::from("temp");
        let mut file = disk.create(&temp).expect("a healthy disk");
        write_all(&mut *file, SELECT).and_then(|()| file.sync()).expect("a healthy disk");
        disk.set_fault(move |number, _| (number == failing || number == second).then(eio));
        let rebased = writer.rebase(&temp, Form::Commands);
        writer.drop_unlisted();
        disk.heal();
        let look = |rng: &mut Rng| {
            for crashed in (0..16).map(|_| disk.crash(rng)).chain([disk.clone()]) {
                let found = load(&crashed);
                let is_legal = found == [0] || rebased.is_err() && found == [9];
                assert!(is_legal, "calls {failing} and {second} failed, {rebased:?}: {found:?}");
            }
        };
        look(&mut rng);
        let manifest = load::read_manifest(&place(&disk)).expect("a manifest");
        let mut again = Writer::waiting(place(&disk), manifest, 0).expect("a healthy disk");
        put(&mut again, 5);
        again.write().and_then(|()| again.sync()).expect("a healthy disk");
        look(&mut rng);
    }
}

/// A process that was killed between giving a manifest its name and syncing that is followed by one that appends to the
/// file which only the new manifest lists.
#[test]
fn a_start_behind_a_kill_syncs_the_name_of_the_manifest() {
    let (disk, mut rng) = (FailingDisk::default(), Rng::seeded(1));
    let mut killed = writer(&disk);
    put(&mut killed, 0);
    killed.write().and_then(|()| killed.sync()).expect("a healthy disk");
    cut(&mut killed);
    let mut dirs = 0;
    disk.set_fault(move |_, call| {
        dirs += u64::from(call == Call::SyncDir);
        (dirs == 2).then(eio)
    });
    assert!(killed.roll().is_err() && killed.is_broken());
    disk.heal();
    let manifest = load::read_manifest(&place(&disk)).expect("a manifest");
    assert_eq!(manifest.increments().len(), 2, "the new manifest has its name");
    let mut writer = Writer::open(place(&disk), manifest, 0).expect("a healthy disk");
    put(&mut writer, 1);
    writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
    for _ in 0..16 {
        assert_eq!(load(&disk.crash(&mut rng)), [0, 1]);
    }
}

#[test]
fn a_full_disk_goes_on_when_there_is_room() {
    let disk = FailingDisk::default();
    let mut writer = writer(&disk);
    disk.set_room(Some(4_000));
    for number in 0..20 {
        put(&mut writer, number);
        drop(writer.write());
    }
    assert!(writer.write().is_err() && writer.written() < writer.end());
    assert!(load(&disk).len() < 20, "the last command is torn");
    disk.set_room(None);
    writer.write().and_then(|()| writer.sync()).expect("there is room");
    assert_eq!(load(&disk), (0..20).collect::<Vec<_>>());
}

/// Random work on a disk that fails at random and crashes at every call: what was synced is found, in its order and
/// without a hole, and nothing of a file that counts is damaged.
#[test]
fn no_crash_loses_what_was_synced() {
    let seed = varve_testkit::seed::seed("crashes of a disk");
    for round in 0..60 {
        let mut rng = Rng::seeded(seed + round);
        let disk = FailingDisk::default();
        let mut writer = writer(&disk);
        let (mut number, mut synced) = (0, 0);
        let mut ends = vec![0];
        let mut faults = Rng::seeded(seed ^ round);
        let fail_one_in = 2 + rng.below(20);
        disk.set_fault(move |_, _| (faults.below(fail_one_in) == 0).then(eio));
        for _ in 0..60 {
            if rng.below(2) == 0 {
                put(&mut writer, number);
                number += 1;
                ends.push(writer.end());
            }
            let _ = match rng.below(8) {
                _ if writer.is_broken() => writer.mend(),
                0..5 => writer.write(),
                _ => writer.write().and_then(|()| writer.sync()),
            };
            synced = ends.iter().filter(|end| **end <= writer.synced()).count().max(synced + 1) - 1;
            let found = load(&disk.crash(&mut rng));
            assert!(found.len() >= synced, "round {round} of seed {seed}: {} of {synced} synced", found.len());
            assert!(found.len() as u64 <= number, "round {round} of seed {seed}");
            assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "round {round} of seed {seed}");
        }
    }
}
