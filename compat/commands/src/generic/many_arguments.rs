//! Commands with thousands of elements of one key as arguments, part by part, while the key is occupied.
//!
//! ```text
//!   SADD key m1 .. m20000     some hundred of them --> reported as an SADD of these --> the next ones .. the reply at the end
//! ```
//! Each part is what the command would be with a part of its arguments. Here: commands of which that is true. Clients that wait
//! for the key are served behind the last part. Not here: fewer arguments, which their handlers see to at once.

use std::sync::Arc;

use varve_exec::notify::{self, Class, Effect, Words};
use varve_exec::{CmdResult, Ctx, Occupied, OccupiedWork, Progress, WhileOccupied};
use varve_protocol::{Args, OwnedArgs, Reply};
use varve_store::{Key, Tx};

/// Arguments up to which a command runs at once.
pub(crate) const FEW: usize = 1024;
/// Work on an element takes as long as showing this number of them: one part works on some 256, in a tenth of a millisecond.
const COST: u64 = 16;

/// Elements whose arguments are checked in one part.
const CHECKED: usize = 4096;

/// A command that does the same with each of its elements, which are its last arguments.
pub(crate) struct Each {
    pub(crate) class: Class,
    pub(crate) event: &'static str,
    /// The command that does a part again.
    pub(crate) word: &'static [u8],
    /// Arguments of an element.
    pub(crate) texts: usize,
    /// Checks the arguments of elements, all of which are checked before the first one is worked on.
    pub(crate) check: Option<fn(Args<'_>) -> CmdResult>,
    pub(crate) run: fn(&mut Tx<'_>, &Key<'_>, Part<'_>) -> CmdResult<Done>,
    pub(crate) reply: fn(&mut Reply, usize),
}

/// Elements that are worked on together.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The arguments between the key and the first element.
    pub(crate) options: Args<'a>,
    /// The arguments of the elements.
    pub(crate) texts: Args<'a>,
}

impl<'a> Part<'a> {
    /// The elements of a command that has two arguments for each.
    pub(crate) fn pairs(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        let texts = self.texts;
        (0..texts.len() / 2).map(move |n| (texts.get(2 * n), texts.get(2 * n + 1)))
    }
}

/// The result of a part.
pub(crate) struct Done {
    pub(crate) reply: PartOfReply,
    /// Changes of the key.
    pub(crate) changes: usize,
}

impl Done {
    /// The elements that count are those that have changed something.
    pub(crate) fn counted(count: usize) -> Done {
        Done { reply: PartOfReply::More(count), changes: count }
    }
}

/// The meaning of a part for the number in the reply.
pub(crate) enum PartOfReply {
    /// It is greater by this number.
    More(usize),
    /// It is this number, so far.
    Now(usize),
}

/// Begins a command of many arguments over several turns, whose elements begin with argument `first`; false, and nothing is done,
/// if it is to run at once.
///
/// # Errors
/// It is put back ([`Ctx::gives_way`]).
#[cold]
pub(crate) fn run_in_parts(ctx: &mut Ctx<'_, '_>, first: usize, each: &'static Each) -> CmdResult<bool> {
    let elements = (ctx.args.len() - first) / each.texts;
    if !ctx.session.takes_parts() || !ctx.tx.is_long_work(elements as u64, COST) {
        return Ok(false);
    }
    if ctx.gives_way() {
        return ctx.put_back().map(|()| true);
    }
    let key = ctx.key(1);
    let Some(occupied) = Occupied::begin(&mut ctx.tx, &key) else { return Ok(false) };
    ctx.go_on_with(|args| {
        let checked = if each.check.is_some() { first } else { args.args().len() };
        let args = Arc::clone(args);
        let work = RestOfArguments { args, each, first, checked, next: first, number: 0, has_changed: false };
        Box::new(WhileOccupied { occupied, work })
    });
    Ok(true)
}

/// A command whose arguments are being worked on.
struct RestOfArguments {
    args: Arc<OwnedArgs>,
    each: &'static Each,
    /// The argument with which the first element begins.
    first: usize,
    /// The first argument that is not checked yet.
    checked: usize,
    /// The argument that comes next.
    next: usize,
    /// The number in the reply.
    number: usize,
    has_changed: bool,
}

impl RestOfArguments {
    /// Works on some elements, and reports them. The shard of the key is held.
    fn some(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) -> CmdResult {
        let RestOfArguments { args, each, first, checked, next, number, has_changed, .. } = self;
        let args = args.args();
        if *checked < args.len() {
            let some = args.skip(*checked).first((CHECKED * each.texts).min(args.len() - *checked));
            *checked += some.len();
            return each.check.map_or(Ok(()), |check| check(some));
        }
        let rest = args.skip(*next);
        let most = (tx.hold_elements() / COST).max(1) as usize * each.texts;
        let texts = rest.first(rest.len().min(most));
        let options = args.skip(2).first(*first - 2);
        let done = (each.run)(tx, key, Part { options, texts })?;
        *next += texts.len();
        *number = match done.reply {
            PartOfReply::More(count) => *number + count,
            PartOfReply::Now(count) => count,
        };
        if done.changes > 0 {
            let event = if *has_changed { "" } else { each.event };
            let words = |words: &mut Words<'_>| {
                words.add(each.word).add(key.bytes);
                options.iter().chain(texts.iter()).for_each(|text| _ = words.add(text));
            };
            notify::did_taken(tx, key, Effect::words(each.class, event, done.changes as u64, &words));
            *has_changed = true;
        }
        Ok(())
    }
}

impl OccupiedWork for RestOfArguments {
    fn part(&mut self, occupied: &mut Occupied, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let args = Arc::clone(&self.args);
        let key = tx.key(args.args().get(1));
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        // A part is not put back: it would remove all due fields of a hash at once.
        if tx.sheds_due_fields(&key) {
            return Progress::More;
        }
        let part = self.some(tx, &key);
        if part.is_ok() && self.next < args.args().len() {
            return Progress::More;
        }
        occupied.end(tx, &key);
        match part {
            Ok(()) => {
                (self.each.reply)(out, self.number);
                Progress::Done
            }
            Err(error) => Progress::Failed(error),
        }
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// Replies with the number of elements that count.
pub(crate) fn reply_count(out: &mut Reply, count: usize) {
    out.integer(count as i64);
}
