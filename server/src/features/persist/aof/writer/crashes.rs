//! Lives of an append-only file on a disk in memory, with crashes at every call of the disk.
//!
//! ```text
//!   appended  0 .. promised ........ number      what is loaded after a crash: 0 .. n without a hole, promised <= n <= number
//!
//!   kept     --puts, writes, syncs, cuts, bases, removal of history, mending--> kept      --appendonly no--> not kept
//!   not kept --appendonly yes--> waits for its first base, with the same calls --> kept     any --crash, kill, start--> kept
//!   not kept --BGREWRITEAOF--> not kept, a base is all there is
//! ```
//! Calls of the disk fail at random. Behind each call that has changed the disk, a process that is killed is tried, and two
//! machines that crash: of what was not synced each has other pages, and other changes of names. History that the manifest
//! lists is looked at too: increments whose numbers follow each other have commands that do.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use varve_aof::{CommandReader, Entry, FileFault, Form, Manifest, Piece, select};
use varve_base::rng::Rng;
use varve_exec::journal::{Chunk, Cut, Taken};

use super::super::load::read_manifest;
use super::super::place::write_all;
use super::tests::{SELECT, eio, numbers_in, place};
use super::{PastBounds, Writer};
use crate::system::disk::Disk;
use crate::system::disk::failing::FailingDisk;

const LIVES: u64 = 40;
const STEPS: usize = 90;

/// A command that is found again: its number. Some have several pages.
fn command(number: u64) -> Vec<u8> {
    let padding = "x".repeat(if number % 16 == 3 { 9000 } else { number as usize * 37 % 300 });
    let text = format!("{number} {padding}");
    format!("*2\r\n$3\r\nADD\r\n${}\r\n{text}\r\n", text.len()).into_bytes()
}

/// The commands of one file that count; and how many bytes are good, if it is torn.
fn read(disk: &FailingDisk, entry: &Entry) -> (Vec<u64>, Option<u64>) {
    let file = disk.read(&place(disk).path(&entry.name)).expect("a listed file");
    let mut reader = CommandReader::new(io::Read::take(file, entry.length.unwrap_or(u64::MAX)), 0);
    let mut numbers = Vec::new();
    loop {
        match reader.next_piece() {
            Ok(Some(Piece::Commands(bytes))) => {
                assert!(!numbers.is_empty() || bytes.starts_with(SELECT), "a file begins with its database");
                numbers.extend(numbers_in(&bytes));
            }
            Ok(Some(Piece::Note(_))) => {}
            Ok(None) => return (numbers, None),
            Err(FileFault::Truncated { valid }) => return (numbers, Some(valid)),
            Err(fault) => panic!("{entry:?}: {fault:?}"),
        }
    }
}

/// Does a start's work: gives the number of commands that it finds, which have no hole, and cuts the last file where it is torn.
fn load(disk: &FailingDisk) -> (Manifest, u64) {
    let manifest = read_manifest(&place(disk)).expect("a whole manifest, or none");
    let (count, mut found) = (manifest.files().count(), 0);
    for (nth, entry) in manifest.files().enumerate() {
        let (numbers, torn) = read(disk, entry);
        for number in numbers {
            assert_eq!(number, found, "a command is lost, or there twice, in {entry:?} of {manifest:?}");
            found += 1;
        }
        if let Some(valid) = torn {
            assert_eq!(nth + 1, count, "only the last file may be torn: {entry:?}");
            let (mut file, _) = disk.append(&place(disk).path(&entry.name)).expect("it is there");
            file.set_len(valid).and_then(|()| file.sync()).expect("a healthy disk");
        }
    }
    (manifest, found)
}

/// Looks at history that is listed: commands of increments with numbers in a row follow each other, but where the file was not
/// kept for a time. Gives the number of files that were looked at.
fn check_history(disk: &FailingDisk, manifest: &Manifest, gaps: &BTreeSet<u64>) -> usize {
    let place = place(disk);
    let increments = manifest.history_increments(place.names()).chain(manifest.increments());
    let (mut last, mut looked) = (None::<(u64, u64)>, 0);
    let mut seq = 0;
    for entry in increments {
        let is_history = manifest.history().iter().any(|Entry { name, .. }| *name == entry.name);
        if is_history && disk.size(&place.path(&entry.name)).is_err() {
            // Its removal was on disk before the manifest that lists it no more.
            last = None;
            continue;
        }
        assert!(entry.seq > seq, "increments in their order: {manifest:?}");
        seq = entry.seq;
        let (numbers, torn) = read(disk, entry);
        // A file that was no longer kept may have lost its end.
        let was_left = gaps.range(numbers.last().copied().unwrap_or(0)..).next().is_some();
        assert!(torn.is_none() || !is_history || was_left, "history is whole: {entry:?}");
        if let (Some((before, newest)), Some(first)) = (last, numbers.first()) {
            let is_gap = *first > newest && gaps.range(newest + 1..=*first).next().is_some();
            let follows = *first == newest + 1 || before + 1 != entry.seq || is_gap;
            assert!(follows, "{first} follows {newest}: {entry:?} of {manifest:?}");
        }
        last = numbers.last().map(|newest| (entry.seq, *newest)).or(last.map(|(_, newest)| (entry.seq, newest)));
        looked += usize::from(is_history);
    }
    looked
}

/// A server with its file; the file is None while it is not kept.
struct Life {
    disk: FailingDisk,
    writer: Option<Writer>,
    rng: Rng,
    /// Commands that were run.
    number: u64,
    /// Commands that outlive a crash, since that was promised.
    promised: u64,
    /// Those that outlive a crash behind the step under way: in the middle of it nobody was answered.
    owed: u64,
    /// Commands up to positions of the writer.
    ends: Vec<(u64, u64)>,
    /// Commands before the last cut whose base is still to come.
    cut: Option<u64>,
    /// The first commands behind a time without a file.
    gaps: BTreeSet<u64>,
    bases: u64,
}

/// How often something was met, in all lives.
#[derive(Debug, Default)]
struct Met {
    images: usize,
    bases: usize,
    history: usize,
    switches: usize,
    starts: usize,
    /// Starts behind a kill, with all that was written.
    kills: usize,
    /// Bases that were written while the file was not kept.
    alone: usize,
    removals: usize,
    mended: usize,
    /// Crashes that lost something that was not promised.
    lost: usize,
}

impl Life {
    fn new(seed: u64) -> Life {
        let disk = FailingDisk::default();
        let writer = Writer::open(place(&disk), Manifest::default(), 0).expect("a healthy disk");
        let (ends, gaps) = (vec![(0, 0)], BTreeSet::new());
        let rng = Rng::seeded(seed);
        Life { disk, writer: Some(writer), rng, number: 0, promised: 0, owed: 0, ends, cut: None, gaps, bases: 0 }
    }

    /// Runs some commands, which go to the file, if there is one.
    fn put(&mut self) {
        for _ in 0..=self.rng.below(4) {
            if let Some(writer) = &mut self.writer {
                let mut bytes = Vec::new();
                if writer.db.is_none() {
                    select(0, &mut bytes);
                }
                bytes.extend(command(self.number));
                let end = writer.end() + bytes.len() as u64;
                let chunks = vec![Arc::new(Chunk::new(bytes, writer.db))];
                writer.put(Taken { chunks, end, db: Some(0), cut: None });
                self.ends.push((end, self.number + 1));
            }
            self.number += 1;
        }
    }

    /// One call of the writer, whatever comes of it.
    fn call(&mut self, met: &mut Met) {
        let (kind, Some(writer)) = (self.rng.below(16), &mut self.writer) else { return };
        let _ = match kind {
            _ if writer.is_broken() => writer.mend().inspect(|()| met.mended += 1),
            0..4 => writer.write(),
            4..9 => writer.write().and_then(|()| writer.sync()),
            9..12 if writer.at_cut().is_none() && self.cut.is_none() => {
                let end = writer.end();
                writer.put(Taken { chunks: Vec::new(), end, db: None, cut: Some(Cut::NewFile) });
                self.cut = Some(self.number);
                Ok(())
            }
            9..12 if writer.at_cut().is_some() => {
                writer.write().and_then(|()| writer.sync()).and_then(|()| writer.roll())
            }
            9..13 if writer.at_cut().is_none() => return self.rebase(met),
            _ => {
                let bytes = [0, 300, 5000, u64::MAX][self.rng.below(4) as usize];
                let bounds = PastBounds { bytes, time: Duration::from_secs(3600), needed: u64::MAX };
                let before = writer.manifest.history().len();
                let removed = writer.remove_history(bounds).map(drop);
                met.removals += usize::from(writer.manifest.history().len() < before);
                removed
            }
        };
    }

    /// Writes a base of this number of commands.
    fn base(&mut self, count: u64) -> io::Result<PathBuf> {
        self.bases += 1;
        let temp = PathBuf::from(format!("temp-{}", self.bases));
        let base: Vec<u8> = SELECT.iter().copied().chain((0..count).flat_map(command)).collect();
        let mut file = self.disk.create(&temp)?;
        write_all(&mut *file, &base)?;
        file.sync()?;
        Ok(temp)
    }

    /// Writes the base of the instant of the cut, and gives it its place.
    fn rebase(&mut self, met: &mut Met) {
        let Some(cut) = self.cut else { return };
        let written = self.base(cut);
        let Some(writer) = &mut self.writer else { return };
        if written.and_then(|temp| writer.rebase(&temp, Form::Commands)).is_ok() {
            self.cut = None;
            met.bases += 1;
        } else if self.rng.below(3) == 0 {
            // The next rewrite has another instant.
            self.cut = None;
        }
    }

    /// CONFIG SET appendonly: the file ends, or begins with an increment that nobody lists before its first base.
    fn switch(&mut self, met: &mut Met) {
        if let Some(mut writer) = self.writer.take() {
            if self.rng.below(2) == 0 && !writer.is_broken() && writer.write().is_ok() {
                let _ = writer.sync();
            }
            self.promise_of(&writer);
            writer.drop_unlisted();
            self.cut = None;
            return;
        }
        // A place that cannot be read is tried again.
        let Ok(found) = read_manifest(&place(&self.disk)) else { return };
        let Ok(writer) = Writer::waiting(place(&self.disk), found, 0) else { return };
        (self.writer, self.ends) = (Some(writer), vec![(0, self.number)]);
        self.gaps.insert(self.number);
        met.switches += 1;
    }

    /// BGREWRITEAOF while the file is not kept.
    fn rebase_alone(&mut self, met: &mut Met) {
        let (place, keeps_history) = (place(&self.disk), self.rng.below(2) == 0);
        self.gaps.insert(self.number);
        let done = self.base(self.number).and_then(|temp| {
            let manifest = read_manifest(&place).map_err(io::Error::other)?;
            place.replace_all(manifest, &temp, Form::Commands, keeps_history)
        });
        if done.is_ok() {
            self.owed = self.number;
            met.alone += 1;
        }
    }

    /// Synced commands of files that count are promised.
    fn promise_of(&mut self, writer: &Writer) {
        if writer.unlisted_from.is_none() {
            let synced = self.ends.iter().filter(|(end, _)| *end <= writer.synced()).map(|(_, count)| *count).max();
            self.owed = self.owed.max(synced.unwrap_or(0));
        }
    }

    fn promise(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.promise_of(&writer);
            self.writer = Some(writer);
        }
        self.promised = self.owed;
    }

    /// The machine crashes or the process is killed, and the server starts with what there is.
    fn restart(&mut self, met: &mut Met) {
        // The rest of a failed sync looks whole behind a kill, and may be lost later: nothing of that is promised.
        if self.disk.is_in_doubt() || self.rng.below(2) == 0 {
            self.disk = self.disk.crash(&mut self.rng);
        } else {
            self.disk.heal();
            met.kills += 1;
        }
        let (manifest, found) = load(&self.disk);
        let found_all = self.promised..=self.number;
        assert!(found_all.contains(&found), "{found} of {found_all:?}");
        // Commands that are lost get others' numbers: no gap before them is one any more.
        self.gaps.retain(|first| *first <= found);
        (self.number, self.promised, self.owed, self.cut) = (found, found, found, None);
        let writer = Writer::open(place(&self.disk), manifest, 0).expect("a healthy disk");
        (self.writer, self.ends) = (Some(writer), vec![(0, found)]);
        met.starts += 1;
    }

    /// Looks at what each call of the disk since the last look would have left behind.
    fn check(&self, images: Vec<FailingDisk>, rng: &mut Rng, met: &mut Met) {
        for image in images {
            met.images += 1;
            for crashed in [image.clone(), image.crash(rng), image.crash(rng)] {
                let (manifest, found) = load(&crashed);
                let legal = self.promised..=self.number;
                assert!(legal.contains(&found), "{found} are found, of {legal:?}");
                met.lost += usize::from(found < self.number);
                met.history += check_history(&crashed, &manifest, &self.gaps);
            }
        }
    }
}

/// Whatever comes of rolls, bases, the removal of history and switches, and wherever a crash comes: what loads is what was promised,
/// in its order and without a hole; and a server that starts with it goes on.
#[test]
fn issue_13_no_crash_at_any_call_of_a_file_that_is_rewritten_and_switched_loses_what_was_promised() {
    let seed = varve_testkit::seed::seed("crashes at every call");
    let mut met = Met::default();
    for round in 0..LIVES {
        println!("life {round} of seed {seed}");
        let mut life = Life::new(seed.wrapping_add(round));
        let mut crashes = Rng::seeded(seed ^ round);
        let fail_one_in = 3 + crashes.below(40);
        let fail = |disk: &FailingDisk, mut faults: Rng| {
            disk.set_fault(move |_, _| (faults.below(fail_one_in) == 0).then(eio));
            disk.record();
        };
        fail(&life.disk, Rng::seeded(crashes.next_u64()));
        for _ in 0..STEPS {
            let waits = life.writer.as_ref().is_some_and(|writer| writer.at_cut().is_some());
            let is_broken = life.writer.as_ref().is_some_and(Writer::is_broken);
            let kind = life.rng.below(32);
            match kind {
                // While the manifest is in doubt, more may go wrong.
                0 | 2..6 if is_broken || kind == 0 => life.switch(&mut met),
                1 | 6..10 if is_broken || kind == 1 => {
                    life.restart(&mut met);
                    fail(&life.disk, Rng::seeded(crashes.next_u64()));
                }
                2..12 if !waits => life.put(),
                12..18 if life.writer.is_none() => life.rebase_alone(&mut met),
                // A file that is not kept begins again before long.
                _ if life.writer.is_none() && life.rng.below(4) == 0 => life.switch(&mut met),
                _ => life.call(&mut met),
            }
            let images = life.disk.recorded();
            life.check(images, &mut crashes, &mut met);
            life.promise();
        }
    }
    println!("{met:?}");
    let least = [met.bases, met.switches, met.starts, met.kills, met.alone, met.removals, met.mended].into_iter().min();
    assert!(least > Some(5) && met.images > 1000, "too little of something was met: {met:?}");
    assert!(met.history > 500 && met.lost > 500, "crashes meet history, and lose what was not promised: {met:?}");
}
