//! RENAME, RENAMENX, COPY, MOVE: a value under another name or in another database.

use std::sync::Arc;

use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, KeyFlags, KeySpec, Row, arg, key, word};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress, Sources};
use varve_protocol::{OwnedArgs, Reply};
use varve_store::{Key, ShardSet, StoreWorker, StringForm, Ttl, Tx, Type, WholeReader};

use super::building::{Building, Report, after_read};
use super::string_copy::{PART_BYTES, StringCopy};
use crate::errors;
use crate::grammar::{database, is};

pub(super) const ROWS: FileRows = &[RENAME, RENAMENX, COPY, MOVE];

/// RENAME key newkey
fn rename(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    give_name(ctx, true).map(|_| ctx.out.ok())
}

const RENAME: Command = Command::new(
    Exec::Keys(rename),
    Row::new("rename", Group::Generic, 3, "1.0.0")
        .about("Gives a key another name, replacing what has it.", "O(1)")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::KEYSPACE])
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::OW.and(KeyFlags::UPDATE)),
        ])
        .args(&[key("key", 0), key("newkey", 1)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// RENAMENX key newkey
fn renamenx(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    give_name(ctx, false).map(|done| ctx.out.integer(i64::from(done)))
}

const RENAMENX: Command = Command::new(
    Exec::Keys(renamenx),
    Row::new("renamenx", Group::Generic, 3, "1.0.0")
        .about("Gives a key another name if nothing has it.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::OW.and(KeyFlags::INSERT)),
        ])
        .history(&[("3.2.0", "No error when both names are the same.")])
        .args(&[key("key", 0), key("newkey", 1)]),
);

/// Renames; false if the new name is taken and may not be replaced.
fn give_name(ctx: &mut Ctx<'_, '_>, replace: bool) -> CmdResult<bool> {
    let (from, to) = (ctx.key(1), ctx.key(2));
    if !ctx.tx.exists(&from) {
        return Err(CommandError::NO_KEY);
    }
    if !replace && ctx.tx.exists(&to) {
        return Ok(false);
    }
    if from.bytes != to.bytes {
        ctx.tx.rename(&from, &to);
        ctx.did(&from, Effect::sent(Class::Generic, "rename_from", 1));
        ctx.did(&to, Effect::sent(Class::Generic, "rename_to", 1));
    }
    Ok(true)
}

/// COPY source destination [DB number] [REPLACE]
fn copy(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (mut db, mut replace) = (ctx.tx.db(), false);
    let mut at = 3;
    while at < ctx.args.len() {
        let word = ctx.args.get(at);
        if is(word, "REPLACE") {
            replace = true;
        } else if is(word, "DB") && at + 1 < ctx.args.len() {
            at += 1;
            db = database(ctx.args.get(at), ctx.tx.databases())?;
        } else {
            return Err(CommandError::SYNTAX);
        }
        at += 1;
    }
    let (from, to) = (ctx.key(1), ctx.key_in_db(2, db));
    if same(&from, &to) {
        return Err(errors::SAME_OBJECT);
    }
    if ctx.meets_due_fields([to]) {
        return ctx.put_back();
    }
    let free = ctx.tx.touch(&from) && (replace || !ctx.tx.exists(&to));
    if free && copy_in_parts(ctx, &from, (db, replace)) {
        return Ok(());
    }
    if free {
        // The request's own bytes do not bound this one. The shards may be let go for it.
        let bytes = ctx.tx.object(&from).map_or(0, |object| object.bytes);
        ctx.admit_more(bytes as u64)?;
    }
    let free = free && (replace || !ctx.tx.exists(&to));
    if free && copy_string_in_parts(ctx, &from, (db, replace)) {
        return Ok(());
    }
    let done = free && ctx.tx.copy(&from, &to);
    if done {
        ctx.did(&to, Effect::sent(Class::Generic, "copy_to", 1));
    }
    ctx.out.integer(i64::from(done));
    Ok(())
}

/// Begins to copy a long collection over several turns; false, and nothing is done, if it is to be copied at once.
fn copy_in_parts(ctx: &mut Ctx<'_, '_>, from: &Key<'_>, (db, replaces): (u32, bool)) -> bool {
    if !ctx.session.takes_parts() {
        return false;
    }
    let (ty, len) = ctx.tx.look(from, |value| (value.ty(), value.len())).expect("it was found just now");
    let cost = if matches!(ty, Type::List | Type::Stream) { 1 } else { ELEMENT_COST };
    if ty == Type::String || !ctx.tx.is_long_work(len, cost) {
        return false;
    }
    let outline = ctx.tx.look(from, |value| value.stream()).flatten();
    let Some(reader) = ctx.tx.begin_reading_whole(from, ty).expect("the key has this type") else { return false };
    ctx.go_on_building(|tx, args, keeps| {
        let mut building = Building::begin(tx, args, (2, ty), vec![1], keeps);
        building.set_copy(db);
        building.set_outline(outline);
        let (args, reader) = (Arc::clone(args), Some(reader));
        Box::new(LongCopy { args, reader, replaces, building })
    });
    true
}

/// Begins to copy a large string over several turns; false, and nothing is done, if it is to be copied at once.
fn copy_string_in_parts(ctx: &mut Ctx<'_, '_>, from: &Key<'_>, (db, replaces): (u32, bool)) -> bool {
    let len = ctx.tx.glance(from).map_or(0, <[u8]>::len);
    if len <= PART_BYTES || !ctx.session.takes_parts() {
        return false;
    }
    let Some(copy) = StringCopy::begin(&mut ctx.tx, from) else { return false };
    ctx.go_on_building(|tx, args, keeps| {
        let words = args.args();
        let source = Sources::begin(tx, std::iter::once(words.get(1)), Some(words.get(2)), keeps);
        Box::new(LongStringCopy { args: Arc::clone(args), db, replaces, source, copy: Some(copy) })
    });
    true
}

/// A COPY of a large string that is under way.
struct LongStringCopy {
    args: Arc<OwnedArgs>,
    db: u32,
    replaces: bool,
    source: Sources,
    /// The copy so far; the last part takes it.
    copy: Option<StringCopy>,
}

impl Ongoing for LongStringCopy {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let copy = self.copy.as_mut().expect("the last part takes it");
        if !copy.is_whole() {
            tx.release();
            if let Err(refusal) = tx.admit(PART_BYTES as u64) {
                return refusal.into();
            }
            copy.copy_some();
            return Progress::More;
        }
        let args = self.args.args();
        let (from, to) = (tx.key(args.get(1)), tx.key_in(self.db, args.get(2)));
        let shards: ShardSet = [tx.shard_of(from.hash), tx.shard_of(to.hash)].into_iter().collect();
        if !self.source.try_hold(tx, &shards) || self.source.bars(tx, &to) || tx.sheds_due_fields(&to) {
            return Progress::Busy;
        }
        if self.source.end(tx) {
            return Progress::Anew;
        }
        if tx.exists(&to) {
            if !self.replaces {
                out.integer(0);
                return Progress::Done;
            }
            tx.remove(&to);
        }
        let expiry = tx.look(&from, |value| value.expiry_ms()).flatten();
        let copy = self.copy.take().expect("it is whole").finish();
        tx.adopt(&to, &copy, expiry.map_or(Ttl::Clear, Ttl::At), StringForm::Own);
        tx.did(&to, Effect::sent(Class::Generic, "copy_to", 1));
        out.integer(1);
        Progress::Done
    }

    fn sources(&self) -> Option<&Sources> {
        Some(&self.source)
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.source.abandon(worker);
    }

    fn kept_bytes(&self) -> usize {
        0
    }
}

/// Copying an element of a hash, a set or a sorted set takes as long as showing this number of them.
const ELEMENT_COST: u64 = 16;

/// A COPY that is under way.
struct LongCopy {
    args: Arc<OwnedArgs>,
    /// None once all was read.
    reader: Option<WholeReader>,
    replaces: bool,
    building: Building,
}

impl Ongoing for LongCopy {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let LongCopy { args, reader, replaces, building } = self;
        let Some(reading) = reader else {
            let copied = Report::new(Class::Generic, "copy_to");
            let report = Report { copies: true, replaces: *replaces, ..copied };
            let from = tx.key(args.args().get(1));
            let expire = |tx: &mut Tx<'_>, to: &Key<'_>| {
                if let Some(expiry) = tx.look(&from, |value| value.expiry_ms()).flatten() {
                    tx.set_expiry(to, Some(expiry));
                }
            };
            return building.publish(tx, &report, expire, out);
        };
        if building.is_full(tx) {
            return building.add_on(tx);
        }
        let read = tx.read_whole_on(reading, |part| building.push_part(part));
        tx.release();
        after_read(reader, read)
    }

    fn sources(&self) -> Option<&Sources> {
        Some(self.building.sources())
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.building.abandon(worker);
    }

    fn held_bytes(&self) -> usize {
        self.building.held_bytes()
    }

    fn kept_bytes(&self) -> usize {
        self.reader.as_ref().map_or(0, WholeReader::kept_bytes)
    }
}

const COPY: Command = Command::new(
    Exec::Keys(copy),
    Row::new("copy", Group::Generic, -3, "6.2.0")
        .about(
            "Copies a key's value and expiry to another key.",
            "O(1) for strings, O(N) in the elements of collections",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::KEYSPACE])
        .keys(&[
            KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS)),
            KeySpec::one(2, KeyFlags::OW.and(KeyFlags::UPDATE)),
        ])
        .args(&[
            key("source", 0),
            key("destination", 1),
            arg("destination-db", ArgKind::Integer).token("DB").optional(),
            word("replace", "REPLACE").optional(),
        ]),
);

fn same(a: &Key<'_>, b: &Key<'_>) -> bool {
    a.db == b.db && a.bytes == b.bytes
}

/// MOVE key db
fn move_key(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let db = database(ctx.args.get(2), ctx.tx.databases())?;
    if db == ctx.tx.db() {
        return Err(errors::SAME_OBJECT);
    }
    let (from, to) = (ctx.key(1), ctx.key_in_db(1, db));
    if ctx.meets_due_fields([to]) {
        return ctx.put_back();
    }
    let done = ctx.tx.exists(&from) && !ctx.tx.exists(&to) && ctx.tx.rename(&from, &to);
    if done {
        ctx.did(&from, Effect::sent(Class::Generic, "move_from", 1));
        ctx.did(&to, Effect::sent(Class::Generic, "move_to", 1));
    }
    ctx.out.integer(i64::from(done));
    Ok(())
}

const MOVE: Command = Command::new(
    Exec::Keys(move_key),
    Row::new("move", Group::Generic, 3, "1.0.0")
        .about("Moves a key to another database.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[key("key", 0), arg("db", ArgKind::Integer)]),
);
