//! Commands with thousands of elements of one key as arguments, part by part, while the key is occupied.
//!
//! ```text
//!   SADD key m1 .. m20000     some hundred of them --> reported as an SADD of these --> the next ones .. the reply at the end
//! ```
//! Each part is what the command would be with a part of its arguments. Here: commands of which that is true, and for whose
//! keys nobody waits. Not here: fewer arguments, which their handlers see to at once.

use std::sync::Arc;

use varve_exec::notify::{self, Class, Effect, Words};
use varve_exec::{CmdResult, Ctx, Occupied, Ongoing, Progress};
use varve_protocol::{Args, OwnedArgs, Reply};
use varve_store::{Key, StoreWorker, Tx};

/// Arguments up to which a command runs at once.
pub(crate) const FEW: usize = 1024;
/// Work on an element takes as long as showing this number of them: one part works on some 256, in a tenth of a millisecond.
const COST: u64 = 16;

/// A command that does the same with each of its elements, which are its arguments from the second on.
pub(crate) struct Each {
    pub(crate) class: Class,
    pub(crate) event: &'static str,
    /// The command that does a part again.
    pub(crate) word: &'static [u8],
    /// Arguments of an element.
    pub(crate) texts: usize,
    /// Works on the elements at the front, which have this number of texts; gives how many the reply counts.
    pub(crate) run: fn(&mut Tx<'_>, &Key<'_>, Args<'_>, usize) -> CmdResult<usize>,
    /// Each element counts as a change, not only those that the reply counts.
    pub(crate) all_change: bool,
    pub(crate) reply: fn(&mut Reply, usize),
}

/// Begins a command of many arguments over several turns; false, and nothing is done, if it is to run at once.
#[cold]
pub(crate) fn run_in_parts(ctx: &mut Ctx<'_, '_>, each: &'static Each) -> bool {
    let elements = (ctx.args.len() - 2) / each.texts;
    if !ctx.session.takes_parts() || !ctx.tx.is_long_work(elements as u64, COST) {
        return false;
    }
    let key = ctx.key(1);
    let Some(occupied) = Occupied::begin(&mut ctx.tx, &key) else { return false };
    ctx.go_on_with(|args| {
        Box::new(RestOfArguments { args: Arc::clone(args), each, occupied, next: 2, counted: 0, has_changed: false })
    });
    true
}

/// A command whose arguments are being worked on.
struct RestOfArguments {
    args: Arc<OwnedArgs>,
    each: &'static Each,
    occupied: Occupied,
    /// The argument that comes next.
    next: usize,
    counted: usize,
    has_changed: bool,
}

impl RestOfArguments {
    /// Works on some elements, and reports them. The shard of the key is held.
    fn part(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) -> CmdResult {
        let RestOfArguments { args, each, next, counted, has_changed, .. } = self;
        let rest = args.args().skip(*next);
        let most = (tx.hold_elements() / COST).max(1) as usize * each.texts;
        let texts = rest.len().min(most);
        let done = (each.run)(tx, key, rest, texts)?;
        (*next, *counted) = (*next + texts, *counted + done);
        let changes = if each.all_change { texts / each.texts } else { done };
        if changes > 0 {
            let event = if *has_changed { "" } else { each.event };
            let words = |words: &mut Words<'_>| {
                words.add(each.word).add(key.bytes);
                rest.iter().take(texts).for_each(|text| _ = words.add(text));
            };
            notify::did_taken(tx, key, Effect::words(each.class, event, changes as u64, &words));
            *has_changed = true;
        }
        Ok(())
    }
}

impl Ongoing for RestOfArguments {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let args = Arc::clone(&self.args);
        let key = tx.key(args.args().get(1));
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        let part = self.part(tx, &key);
        if part.is_ok() && self.next < args.args().len() {
            return Progress::More;
        }
        self.occupied.end(tx, &key);
        match part {
            Ok(()) => {
                (self.each.reply)(out, self.counted);
                Progress::Done
            }
            Err(error) => Progress::Failed(error),
        }
    }

    fn is_half_done(&self) -> bool {
        true
    }

    fn held_bytes(&self) -> usize {
        self.args.heap_bytes()
    }

    fn kept_bytes(&self) -> usize {
        0
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.occupied.abandon(worker);
    }
}

/// Replies with the number of elements that count.
pub(crate) fn reply_count(out: &mut Reply, count: usize) {
    out.integer(count as i64);
}
