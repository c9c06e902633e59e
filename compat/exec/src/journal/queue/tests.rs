//! The queue over a real store: what comes in which order, in the stream and in a file.

use super::*;
use crate::journal::chunk::CHUNK_BYTES;
use crate::journal::{ChunkPart, StreamMark};
use std::thread;
use varve_store::{Key, LogGeometry, Options, Store, StoreWorker, StringForm, Ttl, Words};

const NOW: Duration = Duration::ZERO;

/// A store that keeps its effects in a journal, and its workers.
fn journaled(workers: usize) -> (Arc<Journal>, Vec<StoreWorker>) {
    journaled_with(workers, LogGeometry::default().extent_min_bytes)
}

/// A journal, and workers whose store keeps values of more than this number of bytes in extents.
fn journaled_with(workers: usize, extent_min_bytes: usize) -> (Arc<Journal>, Vec<StoreWorker>) {
    let usual = LogGeometry::default();
    let piece_bytes = usual.piece_bytes.min(extent_min_bytes);
    let geometry = LogGeometry { reserve_bytes: 1 << 30, extent_min_bytes, piece_bytes, ..usual };
    let store = Store::new(&Options { workers, geometry, ..Options::default() }).expect("an address range");
    let journal = Journal::new(workers);
    store.set_effect_sink(Arc::clone(&journal) as Arc<dyn EffectSink>);
    store.keep_effects(true);
    (journal, (0..workers).map(|id| store.worker(id)).collect())
}

/// Sets a key; the position that the worker waits for.
fn set(worker: &mut StoreWorker, db: u32, key: &[u8], value: &[u8]) -> u64 {
    worker.inside(db, |tx| {
        let k: Key<'_> = tx.key(key);
        tx.hold(&[tx.shard_of(k.hash)]);
        tx.set(&k, value, Ttl::Clear, StringForm::Auto);
        tx.did(&k, varve_store::Effect::sent(varve_store::EventClass::String, "set", 1));
        tx.end_command(&|words: &mut Words<'_>| _ = words.add(b"SET").add(key).add(value));
        tx.assert_reported();
    });
    worker.take_awaited()
}

fn bytes(taken: &Taken) -> Vec<u8> {
    let mut bytes = Vec::new();
    taken.chunks.iter().flat_map(|chunk| chunk.parts()).for_each(|part| bytes.extend_from_slice(&part));
    bytes
}

fn file_bytes(taken: &Taken) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in &taken.chunks {
        let done: Result<(), ()> = chunk.try_each_file_part(|part| {
            bytes.extend_from_slice(part);
            Ok(())
        });
        assert_eq!(done, Ok(()));
    }
    bytes
}

#[test]
fn units_come_in_their_order_and_files_begin_at_cuts() {
    let (journal, mut workers) = journaled(1);
    assert_eq!(set(&mut workers[0], 0, b"a", b"1"), journal.end());
    set(&mut workers[0], 3, b"b", b"2");
    let at = journal.cut(Cut::NewFile);
    assert_eq!(at, journal.end());
    set(&mut workers[0], 3, b"c", b"3");
    let first = journal.take(NOW, &mut Vec::new());
    let text = |taken: &Taken| String::from_utf8(bytes(taken)).expect("text").replace("\r\n", " ");
    assert_eq!(text(&first), "*2 $6 SELECT $1 0 *3 $3 SET $1 a $1 1 *2 $6 SELECT $1 3 *3 $3 SET $1 b $1 2 ".to_owned());
    assert_eq!((first.cut, first.end), (Some(Cut::NewFile), at));
    let second = journal.take(NOW, &mut Vec::new());
    assert_eq!(text(&second), "*3 $3 SET $1 c $1 3 ", "the stream does not depend on where files begin");
    assert_eq!(second.chunks[0].db, Some(3), "a file that begins here selects it");
    assert_eq!((second.cut, second.end), (None, journal.end()));
    assert!(bytes(&journal.take(NOW, &mut Vec::new())).is_empty());
}

#[test]
fn chunks_name_the_database_that_is_selected_before_them() {
    let (journal, mut workers) = journaled(1);
    let long = vec![b'x'; 2 * COPY_BYTES_MAX];
    set(&mut workers[0], 3, b"a", b"1");
    set(&mut workers[0], 3, b"b", &long);
    let first = journal.take(NOW, &mut Vec::new());
    assert_eq!(first.chunks.iter().map(|chunk| chunk.db).collect::<Vec<_>>(), [None, Some(3)]);
    assert_eq!(first.db, Some(3));
    set(&mut workers[0], 5, b"c", b"1");
    let second = journal.take(NOW, &mut Vec::new());
    assert!(bytes(&second).starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n"));
    assert_eq!((second.chunks[0].db, second.db), (Some(3), Some(5)), "the selection stands in the chunk");
    journal.cut(Cut::End);
    journal.cut(Cut::NewFile);
    let cuts = [(); 3].map(|()| journal.take(NOW, &mut Vec::new()));
    assert_eq!(cuts.each_ref().map(|taken| taken.cut), [Some(Cut::End), Some(Cut::NewFile), None]);
    assert_eq!(cuts[2].db, Some(5));
}

/// Positions are offsets of the stream: a line with the time is in the file alone, and so is the note that talk leaves.
#[test]
fn issue_17_a_file_has_lines_with_the_time_and_the_stream_has_talk() {
    let (journal, mut workers) = journaled(1);
    journal.set_timestamps(true);
    set(&mut workers[0], 0, b"a", b"1");
    journal.talk(&[b"PING"]);
    let long = vec![b'x'; 2 * COPY_BYTES_MAX];
    journal.place.lock().stamped_s = 0;
    set(&mut workers[0], 0, b"b", &long);
    journal.say_database_again();
    journal.set_timestamps(false);
    set(&mut workers[0], 0, b"c", b"1");
    let taken = journal.take(NOW, &mut Vec::new());
    let text = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).expect("text").replace("\r\n", " ").replace(&"x".repeat(long.len()), "X");
        // The second is the clock's.
        let seconds = |word: &str| if word.starts_with("#TS:") { "#TS".to_owned() } else { word.to_owned() };
        text.split(' ').map(seconds).collect::<Vec<_>>().join(" ")
    };
    let (first, second) =
        ("*2 $6 SELECT $1 0 *3 $3 SET $1 a $1 1 ", "*3 $3 SET $1 b $5 32768 X ".replace("$5 32768", "$32768"));
    let third = "*2 $6 SELECT $1 0 *3 $3 SET $1 c $1 1 ";
    assert_eq!(bytes(&taken).len() as u64, journal.end());
    assert_eq!(text(bytes(&taken)), format!("{first}*1 $4 PING {second}{third}"));
    let file = file_bytes(&taken);
    let lengths: usize = taken.chunks.iter().map(|chunk| chunk.file_len()).sum();
    assert_eq!(file.len(), lengths);
    assert_eq!(text(file), format!("#TS {first}#SAID:PING #TS {second}{third}"));
}

/// A file has the stream: its notes say which bytes, from the beginning of each file on.
#[test]
fn issue_17_marks_say_where_the_stream_is() {
    let (journal, mut workers) = journaled(1);
    set(&mut workers[0], 0, b"before", b"1");
    let before = journal.end();
    let (id, base) = ("a".repeat(40), 1000 - before as i64);
    journal.set_origin(Some(Origin { id: id.clone(), base, since: 1000 }));
    let long = vec![b'x'; 2 * COPY_BYTES_MAX];
    (0..70).for_each(|_| _ = set(&mut workers[0], 0, b"k", &long));
    journal.talk(&[b"REPLCONF", b"GETACK", b"*"]);
    journal.cut(Cut::NewFile);
    set(&mut workers[0], 0, b"k", b"2");
    let mut files = Vec::new();
    let mut stream = Vec::new();
    let mut marks = Vec::new();
    for _ in 0..2 {
        let taken = journal.take(NOW, &mut Vec::new());
        files.push(file_bytes(&taken));
        stream.extend(bytes(&taken));
        marks.extend(taken.chunks.iter().filter_map(|chunk| chunk.stream_mark()));
        journal.reached(Reached { synced: taken.end, released: taken.end });
    }
    let StreamMark::At(last) = marks[3] else { panic!("{marks:?}") };
    assert_eq!((marks.len(), marks[0], last), (4, StreamMark::At(1000), 1000 + journal.end() - before - 27));
    assert!(files[1].starts_with(format!("#REPL:{id} {last} 1000 0\r\n").as_bytes()));
    let (mut sieve, mut out) = (varve_aof::Sieve::default(), Vec::new());
    files.iter().for_each(|file| sieve.push(file, &mut out).expect("no gap"));
    assert!(out == stream[before as usize..], "all of the stream, and nothing else");
    assert_eq!(sieve.offset(), Some(1000 + journal.end() - before));
    journal.set_origin(None);
    let taken = journal.take(NOW, &mut Vec::new());
    assert_eq!(taken.chunks[0].file_part(0, &mut Vec::new()), b"#REPL:-\r\n");
}

/// An effect that is for one of both stands in one of both, alone and in a transaction, short and long; and the stream is found
/// again in the file.
#[test]
fn issue_17_the_stream_and_the_file_have_what_is_theirs() {
    use varve_store::Audience;
    let (journal, mut workers) = journaled(1);
    let (worker, id, long) = (&mut workers[0], "a".repeat(40), vec![b'v'; 2 * COPY_BYTES_MAX]);
    let say = |worker: &mut StoreWorker| {
        worker.did_publish(0, &|words: &mut Words<'_>| _ = words.add(b"PUBLISH").add(b"c").add(b"a|\r\n"));
    };
    let set_for = |worker: &mut StoreWorker, audience, key: &[u8], value: &[u8]| {
        worker.keep_effects_for(audience);
        set(worker, 0, key, value);
        worker.keep_effects_for(Audience::All);
    };
    say(worker);
    set_for(worker, Audience::File, b"before", b"1");
    set_for(worker, Audience::Stream, b"lost", b"1");
    assert!(!worker.store().keeps_messages());
    let before = journal.end();
    worker.store().stream_journal(true);
    journal.set_origin(Some(Origin { id, base: -(before as i64), since: 0 }));
    for value in [&b"1"[..], &long] {
        _ = worker.take_awaited();
        say(worker);
        assert_eq!(worker.take_awaited(), 0, "nobody waits for a message");
        set_for(worker, Audience::File, b"f", value);
        set_for(worker, Audience::Stream, b"s", value);
        set_for(worker, Audience::Nobody, b"n", value);
        worker.begin_unit();
        set_for(worker, Audience::All, b"a", value);
        say(worker);
        set_for(worker, Audience::File, b"f", b"2");
        worker.end_unit();
    }
    journal.append_received(b"*1 one*1 two*1 three".to_vec(), &[0..6, 6..12], 0);
    let mut received = long.clone();
    received.extend(b"\r\n*3 PUBLISH");
    let message = long.len() + 2..received.len();
    journal.append_received(received, std::slice::from_ref(&message), 0);
    let taken = journal.take(NOW, &mut Vec::new());
    let text = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).expect("text").replace(&"v".repeat(long.len()), "L");
        text.replace("\r\n", " ").replace("$32768 L ", "$1 L ")
    };
    let stream = bytes(&taken);
    let say = "*3 $7 PUBLISH $1 c $4 a|  ";
    let round = |value: &str| {
        let set = |key: &str| format!("*3 $3 SET $1 {key} $1 {value} ");
        let ping = "*1 $4 PING ";
        let (a, s) = (set("a"), set("s"));
        format!("{say}{ping}{s}*1 $5 MULTI {a}{say}{ping}*1 $4 EXEC ")
    };
    let first = "*2 $6 SELECT $1 0 *3 $3 SET $6 before $1 1 ";
    let last = "*1 one*1 two*1 threeL *3 PUBLISH";
    assert_eq!(text(&stream), format!("{first}{}{}{last}", round("1"), round("L")));
    assert_eq!(stream.len() as u64, taken.end);
    let file = file_bytes(&taken);
    assert_eq!(file.len(), taken.chunks.iter().map(|chunk| chunk.file_len()).sum::<usize>());
    let own = without_notes(&file);
    let round = |value: &str| {
        let set = |key: &str, value: &str| format!("*3 $3 SET $1 {key} $1 {value} ");
        format!("{}*1 $5 MULTI {}{}*1 $4 EXEC ", set("f", value), set("a", value), set("f", "2"))
    };
    assert_eq!(text(&own), format!("{first}{}{}*1 threeL ", round("1"), round("L")));
    let (mut sieve, mut out) = (varve_aof::Sieve::default(), Vec::new());
    let received = file.windows(8).position(|bytes| bytes == b"*1 three").expect("it was received");
    let whole = file[..received].iter().rposition(|byte| *byte == b'C').expect("EXEC") + 3;
    sieve.push(&file[..whole], &mut out).expect("no gap");
    assert!(stream[before as usize..].starts_with(&out), "all of the stream, and nothing else");
    assert_eq!(text(&stream[before as usize + out.len()..]), last);
}

/// Where no file is kept, what is for the file alone is for nobody: the stream has no PING for it, and no transaction around one.
#[test]
fn issue_17_without_a_file_the_stream_has_nothing_of_what_is_the_files() {
    use varve_store::Audience;
    let (journal, mut workers) = journaled(1);
    let worker = &mut workers[0];
    worker.store().stream_journal(true);
    worker.store().file_journal(false);
    let set_for = |worker: &mut StoreWorker, audience, key: &[u8]| {
        worker.keep_effects_for(audience);
        set(worker, 0, key, b"1");
        worker.keep_effects_for(Audience::All);
    };
    set_for(worker, Audience::File, b"f");
    worker.begin_unit();
    set_for(worker, Audience::File, b"f");
    set_for(worker, Audience::File, b"g");
    worker.end_unit();
    assert_eq!(journal.end(), 0);
    worker.begin_unit();
    set_for(worker, Audience::File, b"f");
    set_for(worker, Audience::All, b"a");
    worker.end_unit();
    set_for(worker, Audience::Stream, b"s");
    let stream = bytes(&journal.take(NOW, &mut Vec::new()));
    let set = |key: &str| format!("*3\r\n$3\r\nSET\r\n$1\r\n{key}\r\n$1\r\n1\r\n");
    let select = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";
    assert_eq!(String::from_utf8(stream).expect("text"), format!("{select}{}{}", set("a"), set("s")));
}

/// The lines of a file that are the file's own.
fn without_notes(file: &[u8]) -> Vec<u8> {
    let lines = file.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"#")).collect::<Vec<_>>().concat()
}

/// A replica's stream is its primary's, byte for byte; a file that begins within it selects its database by itself.
#[test]
fn received_bytes_stay_as_they_are_wherever_files_begin() {
    let (journal, mut workers) = journaled(1);
    set(&mut workers[0], 9, b"a", b"1");
    let at = journal.follow_from(3);
    journal.append_received(b"one ".to_vec(), &[], 3);
    journal.cut(Cut::NewFile);
    let long = vec![b'x'; 2 * COPY_BYTES_MAX];
    journal.append_received(long.clone(), &[], 5);
    assert_eq!(journal.end(), at + 4 + long.len() as u64);
    let first = journal.take(NOW, &mut Vec::new());
    assert!(bytes(&first).ends_with(b"$1\r\n1\r\none "));
    assert!(file_bytes(&first).ends_with(b"$1\r\n1\r\n#OWN:23\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\none "));
    let second = journal.take(NOW, &mut Vec::new());
    assert_eq!((bytes(&second), second.chunks[0].db, second.db), (long, Some(3), Some(5)));
    assert_eq!((journal.db(), journal.follow_from(5)), (Some(5), journal.end()));
}

/// A command that occupies key `k` in database 3 and changes it by `parts` SETs of a value, while others write.
fn in_parts(worker: &mut StoreWorker, parts: usize, value: &[u8], mut between: impl FnMut(&mut StoreWorker)) {
    for nth in 0..parts {
        worker.inside(3, |tx| {
            let k: Key<'_> = tx.key(b"k");
            tx.hold(&[tx.shard_of(k.hash)]);
            assert!(nth > 0 || tx.freeze(&k, varve_store::Freeze::Occupied), "the key is free");
            tx.set(&k, value, Ttl::Clear, StringForm::Auto);
            let again = |words: &mut Words<'_>| _ = words.add(b"SET").add(b"k").add(value);
            tx.did(&k, varve_store::Effect::words(varve_store::EventClass::String, "set", 1, &again));
            let sent = |_: &mut Words<'_>| unreachable!("the command has other words");
            if nth + 1 < parts {
                assert!(tx.end_part(b"k", &sent) > value.len(), "its effects take room");
            } else {
                tx.thaw(&k);
                tx.end_command(&sent);
            }
            tx.assert_reported();
        });
        between(worker);
    }
}

#[test]
fn issue_13_the_parts_of_a_command_are_one_transaction_behind_what_came_before_its_end() {
    let (journal, mut workers) = journaled(1);
    let mut nth = 0;
    in_parts(&mut workers[0], 3, b"v", |worker| {
        nth += 1;
        set(worker, 0, format!("other{nth}").as_bytes(), b"1");
    });
    let text = String::from_utf8(bytes(&journal.take(NOW, &mut Vec::new()))).expect("text").replace("\r\n", " ");
    let other = |nth: usize| format!("*3 $3 SET $6 other{nth} $1 1 ");
    let part = "*3 $3 SET $1 k $1 v ";
    let select = |db: u32| format!("*2 $6 SELECT $1 {db} ");
    let all = [
        select(0),
        other(1),
        other(2),
        select(3),
        format!("*1 $5 MULTI {part}{part}{part}*1 $4 EXEC "),
        select(0),
        other(3),
    ];
    assert_eq!(text, all.concat());
}

/// Many chunks of one transaction are taken together, and nothing that speaks of an offset stands between them.
#[test]
fn issue_13_the_chunks_of_a_long_command_stand_in_a_row() {
    let (journal, mut workers) = journaled(1);
    journal.set_origin(Some(Origin { id: "i".repeat(40), base: 0, since: 0 }));
    journal.set_timestamps(true);
    let value = vec![b'v'; 10_000];
    in_parts(&mut workers[0], 500, &value, |_| ());
    let taken = journal.take(NOW, &mut Vec::new());
    let whole: Vec<u8> = bytes(&taken);
    assert_eq!(whole.len() as u64, taken.end);
    assert!(taken.chunks.len() > 50, "{} chunks", taken.chunks.len());
    let first = taken.chunks.iter().position(|chunk| chunk.bytes.starts_with(b"*1\r\n$5\r\nMULTI")).expect("it begins");
    assert!(taken.chunks[first..].iter().all(|chunk| chunk.stream_mark().is_none() && chunk.db == Some(3)));
    let in_file = file_bytes(&Taken { chunks: taken.chunks[first + 1..].to_vec(), ..Taken::default() });
    assert!(!in_file.windows(4).any(|four| four == b"#TS:"), "no line with the time");
    assert!(whole.ends_with(b"*1\r\n$4\r\nEXEC\r\n"));
}

/// The store removes the key by itself before the command has ended: what was done before comes first.
#[test]
fn issue_13_a_key_that_the_store_removes_takes_the_parts_so_far_with_it() {
    let (journal, mut workers) = journaled(1);
    let (worker, mut removed) = (&mut workers[0], false);
    in_parts(worker, 2, b"v", |worker| {
        if !std::mem::replace(&mut removed, true) {
            worker.inside(3, |tx| {
                let k: Key<'_> = tx.key(b"k");
                tx.hold(&[tx.shard_of(k.hash)]);
                assert!(tx.set_expiry(&k, Some(1)));
                tx.did_nothing(&k);
            });
            while worker.background(1000, Duration::from_millis(1)).is_some_and(|due| due <= 1000) {}
            assert_eq!(worker.store().totals().expired, 1);
        }
    });
    let text = String::from_utf8(bytes(&journal.take(NOW, &mut Vec::new()))).expect("text").replace("\r\n", " ");
    let part = "*1 $5 MULTI *3 $3 SET $1 k $1 v *1 $4 EXEC ";
    assert_eq!(text, format!("*2 $6 SELECT $1 3 {part}*2 $3 DEL $1 k {}", "*3 $3 SET $1 k $1 v "));
}

#[test]
fn a_long_unit_is_handed_over() {
    let (journal, mut workers) = journaled(1);
    let long = vec![b'x'; 3 * COPY_BYTES_MAX];
    for value in [&b"s"[..], &long, b"t"] {
        set(&mut workers[0], 0, b"k", value);
    }
    let taken = journal.take(NOW, &mut Vec::new());
    let all = bytes(&taken);
    assert_eq!(all.len() as u64, taken.end);
    assert!(all.ends_with(b"$3\r\nSET\r\n$1\r\nk\r\n$1\r\nt\r\n"));
    assert!(!journal.is_full());
    assert_eq!(journal.waiting_bytes(), taken.end);
    journal.reached(Reached { synced: taken.end, released: taken.end });
    assert_eq!((journal.waiting_bytes(), journal.synced()), (0, taken.end));
}

/// A large argument lies where the key has it: the journal refers to it, also when the key is gone, and copies nothing.
#[test]
fn issue_13_a_large_argument_is_not_copied() {
    let (journal, mut workers) = journaled(1);
    let (len, half) = (40 << 20, PINNED_BYTES_MAX / 2);
    let run = |byte: u8, len: usize| {
        let mut run = workers[0].store().log().begin_extent(len).expect("addresses");
        run.rest().fill(byte);
        run.advance(len);
        run.finish()
    };
    let (value, other) = (run(b'v', len), run(b'o', len));
    workers[0].set_large_arguments(vec![value.pin(), other.pin()]);
    workers[0].inside(0, |tx| {
        let k: Key<'_> = tx.key(b"k");
        tx.hold(&[tx.shard_of(k.hash)]);
        tx.adopt(&k, &value, Ttl::Clear, StringForm::Auto);
        let again = |words: &mut Words<'_>| {
            words.add(b"SET").add(b"k").add(&value).add(b"KEEPTTL").next_effect();
            words.add(b"APPEND").add(b"k").add(&other);
        };
        tx.did(&k, varve_store::Effect::words(varve_store::EventClass::String, "set", 1, &again));
        tx.end_command(&|_: &mut Words<'_>| unreachable!("the command has other words"));
        tx.assert_reported();
        tx.remove(&k);
        tx.did(&k, varve_store::Effect::sent(varve_store::EventClass::Generic, "del", 1));
        tx.end_command(&|words: &mut Words<'_>| _ = words.add(b"DEL").add(b"k"));
        tx.assert_reported();
    });
    workers[0].set_large_arguments(Vec::new());
    let at = value.as_ptr();
    drop((value, other));
    assert!(journal.waiting_bytes() < 1000 && !journal.is_full(), "{} bytes wait", journal.waiting_bytes());
    let taken = journal.take(NOW, &mut Vec::new());
    assert!(taken.chunks.iter().all(|chunk| chunk.bytes.capacity() <= CHUNK_BYTES));
    let parts: Vec<ChunkPart<'_>> = taken.chunks.iter().flat_map(|chunk| chunk.parts()).collect();
    assert!(std::ptr::eq(parts[2].as_ptr(), at) && parts[2].iter().all(|byte| *byte == b'v'));
    let (text, long) = (String::from_utf8(bytes(&taken)).expect("text"), |c: &str| c.repeat(len));
    let expected = "*2 $6 SELECT $1 0 *1 $5 MULTI *4 $3 SET $1 k $41943040 V $7 KEEPTTL *3 $6 APPEND $1 k $41943040 O *1 $4 \
                    EXEC *2 $3 DEL $1 k ";
    assert!(text.replace("\r\n", " ").replace(&long("v"), "V").replace(&long("o"), "O") == expected);
    assert_eq!(text.len() as u64, taken.end);
    drop(parts);
    drop(taken);
    journal.pinned.fetch_add(half, Ordering::Relaxed);
    assert_eq!(journal.pinned.load(Ordering::Relaxed), half, "those of the chunks are let go");
    assert!(!journal.is_full());
    journal.pinned.fetch_add(half, Ordering::Relaxed);
    assert!(journal.is_full(), "two of the largest values wait");
}

/// Where values have extents of their own from a few kilobytes on, a unit with one is as short as those that are copied.
#[test]
fn issue_13_a_large_argument_that_is_short_is_not_copied() {
    let (journal, mut workers) = journaled_with(1, COPY_BYTES_MAX / 4);
    let mut open = workers[0].store().log().begin_extent(COPY_BYTES_MAX / 2).expect("addresses");
    open.push(&[b'v'; COPY_BYTES_MAX / 2]);
    let value = open.finish();
    workers[0].set_large_arguments(vec![value.pin()]);
    workers[0].inside(0, |tx| {
        let k: Key<'_> = tx.key(b"k");
        tx.hold(&[tx.shard_of(k.hash)]);
        tx.adopt(&k, &value, Ttl::Clear, StringForm::Raw);
        tx.did(&k, varve_store::Effect::sent(varve_store::EventClass::String, "set", 1));
        tx.end_command(&|out: &mut Words<'_>| _ = out.add(b"SET").add(b"k").add(&value));
        tx.assert_reported();
    });
    workers[0].set_large_arguments(Vec::new());
    let taken = journal.take(NOW, &mut Vec::new());
    let set = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8192\r\n", &value[..], b"\r\n"].concat();
    assert!(bytes(&taken).ends_with(&set) && file_bytes(&taken).ends_with(&set));
    let parts: Vec<ChunkPart<'_>> = taken.chunks.iter().flat_map(|chunk| chunk.parts()).collect();
    assert!(parts.iter().any(|part| std::ptr::eq(part.as_ptr(), value.as_ptr())), "it lies where the key has it");
}

/// A write into a large argument that waits in the journal copies the block that it touches, and the journal has it as it was.
#[test]
fn issue_14_a_large_argument_that_waits_may_be_written_to() {
    let (journal, mut workers) = journaled(1);
    let len = 3 << 20;
    let mut open = workers[0].store().log().begin_extent(len).expect("addresses");
    open.push(&vec![b'v'; len]);
    let value = open.finish();
    workers[0].set_large_arguments(vec![value.pin()]);
    let ended = |tx: &mut varve_store::Tx<'_>, k: &Key<'_>, words: &[&[u8]]| {
        tx.did(k, varve_store::Effect::sent(varve_store::EventClass::String, "set", 1));
        tx.end_command(&|out: &mut Words<'_>| words.iter().for_each(|word| _ = out.add(word)));
        tx.assert_reported();
    };
    workers[0].inside(0, |tx| {
        let k: Key<'_> = tx.key(b"k");
        tx.hold(&[tx.shard_of(k.hash)]);
        tx.adopt(&k, &value, Ttl::Clear, StringForm::Raw);
        ended(tx, &k, &[b"SET", b"k", &value]);
    });
    workers[0].set_large_arguments(Vec::new());
    drop(value);
    let taken = journal.take(NOW, &mut Vec::new());
    workers[0].inside(0, |tx| {
        let k: Key<'_> = tx.key(b"k");
        tx.hold(&[tx.shard_of(k.hash)]);
        assert_eq!(tx.set_range(&k, 1 << 20, b"written"), Ok(len));
        ended(tx, &k, &[b"SETRANGE", b"k", b"1048576", b"written"]);
    });
    assert_eq!(workers[0].store().log().kept_bytes(), 64 << 10, "one block");
    let set = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3145728\r\n", &vec![b'v'; len][..], b"\r\n"].concat();
    assert!(bytes(&taken).ends_with(&set) && file_bytes(&taken).ends_with(&set), "as it was");
    let second = journal.take(NOW, &mut Vec::new());
    assert!(bytes(&second).ends_with(b"$8\r\nSETRANGE\r\n$1\r\nk\r\n$7\r\n1048576\r\n$7\r\nwritten\r\n"));
}

/// Two workers write the same keys: the journal has the changes of each key in the order in which they were made.
#[test]
fn the_last_unit_of_a_key_is_its_last_change() {
    let (journal, workers) = journaled(2);
    let threads: Vec<_> = workers
        .into_iter()
        .map(|mut worker| {
            thread::spawn(move || {
                for n in 0..2000_u32 {
                    let value = format!("{}:{n}", worker.id());
                    assert!(set(&mut worker, 0, format!("k{}", n % 7).as_bytes(), value.as_bytes()) > 0);
                }
                worker
            })
        })
        .collect();
    let (mut all, mut emptied) = (Vec::new(), Vec::new());
    while threads.iter().any(|thread| !thread.is_finished()) {
        for chunk in journal.take(Duration::from_millis(1), &mut emptied).chunks {
            let mut chunk = Arc::into_inner(chunk).expect("nobody else has it");
            all.append(&mut chunk.bytes);
            emptied.push(chunk.bytes);
        }
    }
    let mut workers: Vec<StoreWorker> = threads.into_iter().map(|thread| thread.join().expect("joined")).collect();
    all.extend(bytes(&journal.take(NOW, &mut emptied)));
    assert_eq!(all.len() as u64, journal.end());
    for n in 0..7 {
        let key = format!("k{n}");
        let head = format!("$2\r\n{key}\r\n");
        let text = String::from_utf8(all.clone()).expect("text");
        let at = text.rfind(&head).expect("the key was written") + head.len();
        let value = text[at..].split("\r\n").nth(1).expect("a value").to_owned();
        let found = workers[0].inside(0, |tx| {
            let k = tx.key(key.as_bytes());
            tx.hold(&[tx.shard_of(k.hash)]);
            tx.get(&k).expect("a string").expect("a value").to_vec()
        });
        assert_eq!(String::from_utf8(found).expect("text"), value);
    }
}

/// Workers write in databases of their own, each short and long units, and somebody talks: whoever reads the stream has each unit in
/// its worker's database and in its worker's order.
#[test]
fn issue_13_the_units_of_workers_stand_in_their_databases() {
    const UNITS: u32 = 500;
    const DATABASES: [u32; 3] = [1, 9, 10];
    let (journal, workers) = journaled(3);
    let write = |mut worker: StoreWorker| {
        for n in 0..UNITS {
            let length = if n % 16 == 0 { COPY_BYTES_MAX + n as usize } else { 8 + n as usize * 7 % 2000 };
            // Keys of a shard that others write as well.
            let (db, key) = (DATABASES[worker.id()], format!("{}", n % 3));
            assert!(set(&mut worker, db, key.as_bytes(), format!("{n:0>length$}").as_bytes()) > 0);
        }
    };
    let talk = || (0..UNITS).for_each(|_| _ = journal.talk(&[b"PING"]));
    let mut chunks = Vec::new();
    thread::scope(|scope| {
        let mut threads: Vec<_> = workers.into_iter().map(|worker| scope.spawn(move || write(worker))).collect();
        threads.push(scope.spawn(talk));
        while threads.iter().any(|thread| !thread.is_finished()) {
            chunks.extend(journal.take(Duration::from_millis(1), &mut Vec::new()).chunks);
        }
    });
    let last = journal.take(NOW, &mut Vec::new());
    assert_eq!((last.end, last.db), (journal.end(), journal.db()));
    chunks.extend(last.chunks);
    let (mut db, mut next, mut pings, mut read) = (None, [0; 3], 0, 0);
    for chunk in chunks {
        assert_eq!(chunk.db, db, "at {read}");
        let bytes: Vec<u8> = chunk.parts().flat_map(|part| part.to_vec()).collect();
        read += bytes.len() as u64;
        let text = String::from_utf8(bytes).expect("text");
        for request in
            text.split_inclusive('*').map(|request| request.trim_end_matches('*')).filter(|it| !it.is_empty())
        {
            let words: Vec<&str> = request.split("\r\n").skip(2).step_by(2).collect();
            match words[..] {
                ["SELECT", number] => db = Some(number.parse().expect("a number")),
                ["PING"] => pings += 1,
                ["SET", key, value] => {
                    let worker = DATABASES.iter().position(|own| Some(*own) == db).expect("a worker's");
                    let n: u32 = value.parse().expect("a number");
                    assert_eq!((n, key), (next[worker], &*format!("{}", n % 3)), "of worker {worker}");
                    next[worker] += 1;
                }
                _ => panic!("{words:?}"),
            }
        }
    }
    assert_eq!((next, pings, read), ([UNITS; 3], UNITS, journal.end()));
}

/// Memory that a journal has for what was appended and not taken, in bytes.
fn held_bytes(journal: &Journal) -> usize {
    let of = |piece: &lane::Piece| match piece {
        lane::Piece::Copied(copied) => copied.chunk.bytes.capacity() + copied.runs.capacity() * size_of::<lane::Run>(),
        lane::Piece::Apart(_, lane::Apart::Unit(_, chunks, _)) => {
            chunks.iter().map(|chunk| chunk.bytes.capacity() + size_of::<Chunk>()).sum()
        }
        lane::Piece::Apart(..) => 0,
    };
    let all = |lane: &OwnLines| {
        let lane = lane.0.lock();
        lane.pieces.capacity() * size_of::<lane::Piece>() + lane.pieces.iter().map(of).sum::<usize>()
    };
    journal.lanes.iter().map(all).sum()
}

/// Messages stand between writes: while nobody takes, all that waits has little more memory than bytes. A buffer for each write behind
/// a message had a hundred times as much.
#[test]
fn issue_13_messages_between_writes_cost_their_bytes() {
    let (journal, mut workers) = journaled(1);
    let worker = &mut workers[0];
    worker.store().stream_journal(true);
    for n in 0..5000 {
        set(worker, 0, b"key", b"value");
        worker.did_publish(0, &|words: &mut Words<'_>| _ = words.add(b"PUBLISH").add(b"c").add(b"message"));
        // Behind a long unit a buffer begins anew.
        if n % 1000 == 0 {
            set(worker, 0, b"long", &[b'x'; COPY_BYTES_MAX]);
        }
    }
    let (held, end) = (held_bytes(&journal), journal.end() as usize);
    assert!(held < 3 * end, "{held} bytes are held for {end}");
    let taken = journal.take(NOW, &mut Vec::new());
    assert_eq!(bytes(&taken).len(), end);
    let file = file_bytes(&taken);
    let notes = file.windows(6).filter(|window| window == b"#SENT:").count();
    assert_eq!(notes, 5000, "a file has a note of each message");
}

/// Nothing comes between the end of one thread that takes and the beginning of the next one: that begins at the same position.
#[test]
fn issue_13_nothing_is_said_while_nobody_takes() {
    let (journal, mut workers) = journaled(1);
    set(&mut workers[0], 0, b"a", b"1");
    let end = journal.cut(Cut::End);
    assert_eq!((journal.talk(&[b"PING"]), journal.cut(Cut::NewFile)), (end, end));
    journal.begin();
    assert_eq!(journal.talk(&[b"PING"]), end + 14);
    let taken = [(); 3].map(|()| journal.take(NOW, &mut Vec::new()));
    assert_eq!(
        taken.each_ref().map(|taken| (taken.end, taken.cut)),
        [(end, Some(Cut::End)), (end, Some(Cut::NewFile)), (end + 14, None)]
    );
}

/// A server without a file and without replicas that changes its role again and again keeps nothing of that.
#[test]
fn issue_13_marks_do_not_pile_up_where_nobody_takes() {
    let (journal, _workers) = journaled(1);
    for _ in 0..1000 {
        journal.say_database_again();
        journal.set_origin(None);
        journal.follow_from(3);
    }
    assert!(journal.lanes.last().expect("the common one").0.lock().pieces.len() <= 3);
    let taken = journal.take(NOW, &mut Vec::new());
    assert_eq!((taken.end, taken.db), (0, Some(3)));
}

/// A lane that is held long, by a worker that renders a long unit, keeps nobody else's bytes back.
#[test]
fn issue_13_a_lane_that_is_held_is_passed_over() {
    let (journal, mut workers) = journaled(2);
    let held = journal.lanes[0].0.lock();
    set(&mut workers[1], 0, b"a", b"1");
    let taken = journal.take(NOW, &mut Vec::new());
    assert_eq!((taken.end, bytes(&taken).len() as u64), (journal.end(), journal.end()));
    drop(held);
}
