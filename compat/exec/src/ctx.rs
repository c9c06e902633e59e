//! The contexts that handlers are given: the request, the reachable part of the store, the reply, the session. The one of
//! commands without keys stands beside the table of commands (command.rs), which it shows.

use std::ops::Range;
use std::sync::Arc;

use varve_base::mem::zeros;
use varve_catalog::{Flags, Row};
use varve_protocol::{Args, OwnedArgs, Pinned, Reply, ReplyPart};
use varve_store::{Again, Effect, Key, Pin, Removal, Store, StoreWorker, StringForm, Ttl, Tx};

use crate::errors::{CmdResult, CommandError};
use crate::large_arguments::LargeArguments;
use crate::notify;
use crate::ongoing::{Ongoing, OngoingCommand};
use crate::session::Session;
use crate::tracking;

/// A key of a request: which argument it is and its hash.
#[derive(Clone, Copy, Debug)]
pub struct KeyArg {
    /// Index of the argument.
    pub arg: u32,
    /// Its hash in the selected database.
    pub hash: u64,
}

/// The context of a command on keys: the shards of its keys are held.
pub struct Ctx<'c, 'a> {
    /// The row of the command that runs.
    pub row: &'static Row,
    /// The request; argument 0 is the name.
    pub args: Args<'a>,
    /// The arguments that are keys, with their hashes.
    pub keys: &'a [KeyArg],
    /// The arguments that lie in runs.
    pub bodies: &'c LargeArguments,
    /// The keyspace, as far as this command may reach.
    pub tx: Tx<'c>,
    /// Where the reply goes.
    pub out: &'c mut Reply,
    /// The connection.
    pub session: &'c mut Session,
}

/// The key that argument `at` is. Of a command with many it is told by its place: they follow each other, or every second
/// argument is one. Others lie in order, behind a key that stands apart as a destination does. Looking through them would make it
/// O(N) a key.
#[inline]
fn key_of(keys: &[KeyArg], at: usize) -> Option<&KeyArg> {
    let is_it = |key: &&KeyArg| key.arg as usize == at;
    let behind = at.checked_sub(keys.first()?.arg as usize);
    let guess = |step: usize| keys.get(behind? / step).filter(is_it);
    let search = || keys.get(keys.partition_point(|key| (key.arg as usize) < at)).filter(is_it);
    let few = || keys.iter().take(UNORDERED_MAX).find(is_it);
    guess(1).or_else(|| guess(2)).or_else(search).or_else(few)
}

/// Keys that are looked through one by one: a command whose keys are in no order has few of them.
const UNORDERED_MAX: usize = 16;

/// A large value, or a part of it, as it was when the reply was made.
struct LargeString(Pin);

impl Pinned for LargeString {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn read(&self, range: Range<usize>) -> ReplyPart<'_> {
        ReplyPart::Lent(Box::new(self.0.read(range)))
    }
}

/// The parts of a large value as they are sent: from where it lies, but for long stretches that were never written, which come from
/// one place of zeros and so touch no page of the value.
fn pinned_parts(value: &Pin) -> Vec<Box<dyn Pinned>> {
    let mut parts: Vec<Box<dyn Pinned>> = Vec::new();
    let (mut begin, mut done, zeros) = (0, 0, zeros());
    while done < value.len() {
        let written = value.next_written(done);
        if !zeros.is_empty() && written.start - done >= zeros.len() {
            parts.push(Box::new(LargeString(value.clone().part(begin..done))));
            let many = (done..written.start).step_by(zeros.len());
            parts.extend(many.map(|at| -> Box<dyn Pinned> { Box::new(&zeros[..zeros.len().min(written.start - at)]) }));
            begin = written.start;
        }
        done = written.end;
    }
    parts.push(Box::new(LargeString(value.clone().part(begin..done))));
    parts
}

/// The context of a command on the whole keyspace.
pub struct WideCtx<'c> {
    /// The row of the command that runs.
    pub row: &'static Row,
    /// The request; argument 0 is the name.
    pub args: Args<'c>,
    /// The whole store.
    pub store: &'c Store,
    /// The worker that runs it: its time, its random numbers.
    pub worker: &'c mut StoreWorker,
    /// Where the reply goes.
    pub out: &'c mut Reply,
    /// The connection.
    pub session: &'c mut Session,
}

impl WideCtx<'_> {
    /// Goes on with `rest` in the next turns of the connection, like [`Ctx::go_on`].
    pub fn go_on(&mut self, rest: Box<dyn Ongoing>) {
        debug_assert!(self.session.takes_late_reply(), "the handler has asked");
        self.session.go_on(Box::new(OngoingCommand {
            muted: !self.session.wants_replies(),
            caches: self.session.tracking().caching,
            row: self.row,
            args: Arc::new(OwnedArgs::from(self.args)),
            rest,
            nanos: 0,
            reply_bytes: 0,
            effect_bytes: 0,
            tries: 0,
            begins_anew: false,
        }));
    }
}

impl<'c, 'a> Ctx<'c, 'a> {
    /// For commands whose arguments are not a request's in a buffer, but somebody's own ([`varve_protocol::OwnedArgs`]):
    /// EXEC's queue; to come, a script's and those of a file that is replayed. [`Ctx::set_call`] says what runs.
    pub fn of_owned(row: &'static Row, tx: Tx<'c>, out: &'c mut Reply, session: &'c mut Session) -> Ctx<'c, 'a> {
        static NONE: LargeArguments = LargeArguments::NONE;
        Ctx { row, args: Args::new(&[], &[]), keys: &[], bodies: &NONE, tx, out, session }
    }

    /// The next command, its arguments and which of them are keys; it may run once the shards of these are held.
    pub fn set_call(&mut self, row: &'static Row, args: Args<'a>, keys: &'a [KeyArg]) {
        (self.row, self.args, self.keys) = (row, args, keys);
        self.session.begin_request(args.bytes());
    }
}

impl<'a> Ctx<'_, 'a> {
    /// The key that argument `at` names, in the selected database.
    #[inline(always)]
    pub fn key(&self, at: usize) -> Key<'a> {
        match self.keys {
            [first, ..] if first.arg as usize == at => self.tx.key_hashed(self.args.get(at), first.hash),
            _ => self.other_key(at),
        }
    }

    /// A key that is not the first one, like [`Ctx::key`].
    #[inline]
    fn other_key(&self, at: usize) -> Key<'a> {
        let bytes = self.args.get(at);
        match key_of(self.keys, at) {
            Some(key) => self.tx.key_hashed(bytes, key.hash),
            None => self.tx.key(bytes),
        }
    }

    /// Sets the key to what argument `at` holds, which it adopts if that lies in a run; `again` does it again.
    #[inline(always)]
    pub fn set_to(&mut self, key: &Key<'_>, at: usize, ttl: Ttl, again: Again<'_>) {
        match self.args.outside(at).and_then(|i| self.bodies.run(i)) {
            None => self.tx.set(key, self.args.get(at), ttl, StringForm::Auto),
            Some(run) => self.tx.adopt(key, run, ttl, StringForm::Auto),
        }
        self.did(key, Effect::new(notify::Class::String, "set", 1, again));
    }

    /// Replies with the bytes of the key's string in this range: from where they lie, if the value has a run of its
    /// own.
    #[cold]
    pub fn reply_large(&mut self, key: &Key<'_>, range: Range<usize>) {
        match self.tx.pin(key) {
            Some(pin) => self.out.bulk_pinned_parts(range.len(), pinned_parts(&pin.part(range))),
            None => match self.tx.peek(key) {
                Ok(Some(value)) => self.out.bulk(&value[range]),
                _ => self.out.null(),
            },
        }
    }

    /// Goes on with `rest` in the next turns of the connection, whose session [takes parts](Session::takes_parts), or
    /// [takes a late reply](Session::takes_late_reply) if `rest` replies nothing before its last part.
    pub fn go_on(&mut self, rest: Box<dyn Ongoing>) {
        self.go_on_with(|_| rest);
    }

    /// Goes on with what `rest` makes of a copy of the request, like [`Ctx::go_on`]. No shard is held while a request of
    /// megabytes is copied, and none is held afterwards.
    pub fn go_on_with(&mut self, rest: impl FnOnce(&Arc<OwnedArgs>) -> Box<dyn Ongoing>) {
        self.let_go();
        self.go_on_holding(|_, args| rest(args));
    }

    /// Goes on with what `rest` makes of a copy of the request, like [`Ctx::go_on_with`], with the shards of the keys held
    /// until it has watched some, which it keeps from writers if its last argument says so ([`crate::Sources`]).
    pub fn go_on_building(&mut self, rest: impl FnOnce(&mut Tx<'_>, &Arc<OwnedArgs>, bool) -> Box<dyn Ongoing>) {
        let keeps = self.keeps_sources();
        self.go_on_holding(|tx, args| rest(tx, args, keeps));
        self.let_go();
    }

    /// The names of the command's keys.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = self.args;
        self.keys.iter().map(move |key| args.get(key.arg as usize))
    }

    /// Admits a write like [`Tx::admit_more`], for a command that writes and holds the shards of its keys. It is put back as well if
    /// another one has frozen a key while they were let go.
    ///
    /// # Errors
    /// The memory is used up, or the command is put back: no reply then.
    pub fn admit_more(&mut self, bytes: u64) -> CmdResult {
        let admitted = self.tx.admit_more(bytes);
        if admitted.is_err() || self.meets_frozen() { Err(CommandError::OUT_OF_MEMORY) } else { Ok(()) }
    }

    /// True, and the command, which writes, is put back, if it may be put back and a key is frozen for another one: asked where shards
    /// were let go and taken again.
    pub fn meets_frozen(&mut self) -> bool {
        if !self.tx.is_patient() || !self.tx.store().has_frozen() {
            return false;
        }
        let meets = self.tx.any_frozen(self.names());
        if meets {
            self.tx.put_back();
        }
        meets
    }

    /// Whether a command that goes on keeps writers from the keys of which it makes something ([`crate::Sources`]).
    pub fn keeps_sources(&self) -> bool {
        self.session.begins_anew() && (self.row.flags.has(Flags::WRITE) || !self.tx.store().is_following())
    }

    /// Lets go of the shards of the keys. A client that keeps copies of what it reads is to be told of the next change already.
    fn let_go(&mut self) {
        if self.tx.has_effects() {
            // A key whose time has come was removed: nobody's change of it must come between.
            self.tx.hand_on();
        }
        if self.session.tracking().remembers() {
            tracking::remember(self.row, self.args, self.session.id(), self.tx.store());
        }
        self.tx.release();
    }

    /// Goes on with `rest` in the next turns of the connection, like [`Ctx::go_on`], behind a change that the command has
    /// made and reported: the shards stay held until that is handed on.
    pub fn go_on_behind(&mut self, rest: Box<dyn Ongoing>) {
        if let Some(key) = rest.occupied()
            && self.tx.has_effects()
        {
            let args = self.args;
            self.tx.end_part(key, &|words| args.iter().for_each(|arg| _ = words.add(arg)));
        }
        self.go_on_holding(|_, _| rest);
    }

    /// True if the command, which is about to occupy a key, is to be put back instead: somebody wants to be alone behind the
    /// gate, and never would be while such commands overlap.
    pub fn gives_way(&self) -> bool {
        self.session.takes_parts() && self.tx.is_patient() && self.tx.gives_way()
    }

    fn go_on_holding(&mut self, rest: impl FnOnce(&mut Tx<'_>, &Arc<OwnedArgs>) -> Box<dyn Ongoing>) {
        debug_assert!(self.session.takes_late_reply(), "the handler has asked");
        let args = Arc::new(OwnedArgs::from(self.args));
        let rest = rest(&mut self.tx, &args);
        self.session.go_on(Box::new(OngoingCommand {
            muted: !self.session.wants_replies(),
            caches: self.session.tracking().caching,
            row: self.row,
            args,
            rest,
            nanos: 0,
            reply_bytes: 0,
            effect_bytes: 0,
            tries: 0,
            begins_anew: false,
        }));
    }

    /// The command has met a busy shard, has done nothing, and is put back: it fails with what this gives, which is no reply.
    pub fn put_back(&mut self) -> CmdResult {
        self.tx.put_back();
        Err(CommandError::SYNTAX)
    }

    /// Removes fields of hashes at keys, whose shards are held, where their time has come, no more than one hold removes. True if
    /// more are due: the command, which has done nothing, is to be put back.
    pub fn meets_due_fields<'k>(&mut self, keys: impl IntoIterator<Item = Key<'k>>) -> bool {
        self.tx.is_patient() && self.tx.store().has_dated_hashes() && self.tx.sheds_due_fields_of(keys.into_iter())
    }

    /// Reports what the command did to a key ([`Tx::did`]).
    #[inline(always)]
    pub fn did(&mut self, key: &Key<'_>, effect: Effect<'_>) {
        self.tx.did(key, effect);
    }

    /// Reports that the command removed a key, which a DEL does again, or an UNLINK where the settings want one.
    pub fn did_remove(&mut self, key: &Key<'_>, removal: Removal) {
        notify::did_remove(&mut self.tx, key, removal);
    }

    /// Reports what the command has taken out of a key, and, as an event, the key's end if nothing is left in it.
    #[inline(always)]
    pub fn did_taken(&mut self, key: &Key<'_>, effect: Effect<'_>) {
        notify::did_taken(&mut self.tx, key, effect);
    }

    /// Reports that the command stored its result in a key in the place of what was there, which counts as this number
    /// of `changes`: 0 for an empty result, which ends the key, if that was `taken`.
    pub fn did_store(&mut self, class: notify::Class, event: &'static str, key: &Key<'_>, changes: u64, taken: bool) {
        notify::did_store(&mut self.tx, (class, event), key, changes, taken);
    }

    /// The key that argument `at` names, in database `db`.
    pub fn key_in_db(&self, at: usize, db: u32) -> Key<'a> {
        self.tx.key_in(db, self.args.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_their_place() {
        let keys = |args: &[u32]| args.iter().map(|&arg| KeyArg { arg, hash: u64::from(arg) }).collect::<Vec<_>>();
        let cases: [&[u32]; 7] = [&[], &[1], &[1, 2, 3, 4], &[1, 3, 5, 7], &[3, 4, 5], &[5, 2, 3, 4], &[2, 4, 1]];
        // A key that is not found so is hashed again.
        let apart: Vec<u32> = std::iter::once(1).chain(3..100).collect();
        for at in 0..110 {
            assert_eq!(key_of(&keys(&apart), at).is_some(), apart.contains(&(at as u32)), "{at}");
        }
        for args in cases {
            let keys = keys(args);
            for at in 0..10 {
                let found = key_of(&keys, at).map(|key| key.hash);
                assert_eq!(found, args.contains(&(at as u32)).then_some(at as u64), "{at} of {args:?}");
            }
        }
    }
}
