//! A command that is sampled: its part in the rankings of keys (`hot_keys`).

use std::time::Instant;

use varve_protocol::Mark;

use crate::ctx::Ctx;
use crate::hot_keys::Sample;
use crate::invoke::Observers;

/// The samples among the requests that a batch runs in a row.
pub(crate) struct Samples {
    /// The number of the request that is to be sampled next; `usize::MAX`: none is.
    next: usize,
    /// The requests below this number are counted.
    counted: usize,
    /// Number of requests.
    end: usize,
}

impl Samples {
    /// Of the requests from number `begin` on and below `end`.
    #[inline]
    pub(crate) fn begin(observers: &mut Observers, begin: usize, end: usize) -> Samples {
        Samples { next: observers.choose_sample(begin, end), counted: begin, end }
    }

    /// The request of this number begins: the time if it is a sample. Its time is taken beside that of the others, whose clock
    /// goes on: how long shards are held is counted by that one.
    #[inline]
    pub(crate) fn begin_one(&self, request: usize) -> Option<Instant> {
        (request == self.next).then(Instant::now)
    }

    /// The request below number `next` has run, and its reply begins at this mark. Notes it if it has begun as a sample.
    #[inline]
    pub(crate) fn end_one(
        &mut self,
        began: Option<Instant>,
        observers: &mut Observers,
        ctx: &Ctx<'_, '_>,
        (next, mark): (usize, Mark),
    ) {
        if let Some(began) = began {
            observers.sampling.pass(next - 1 - self.counted);
            observers.note_sample(ctx, began.elapsed().as_nanos() as u64, mark);
            *self = Samples::begin(observers, next, self.end);
        }
    }

    /// The requests below number `next` have run.
    #[inline]
    pub(crate) fn end(self, observers: &mut Observers, next: usize) {
        observers.sampling.pass(next - self.counted);
    }
}

impl Observers {
    /// The number of the request that is to be sampled, from number `next` on and below `end`; `usize::MAX` if none is.
    #[inline]
    fn choose_sample(&mut self, next: usize, end: usize) -> usize {
        self.sampling.choose(&self.stats.hot_keys, next, end - next)
    }

    /// Notes the command of this context as a sample. It ran for this number of nanoseconds, and its reply begins at this mark.
    #[cold]
    fn note_sample(&mut self, ctx: &Ctx<'_, '_>, nanos: u64, mark: Mark) {
        let now = Instant::now();
        let stands_for = self.sampling.take(now);
        if ctx.keys.is_empty() {
            return;
        }
        let key = ctx.keys[self.sampling.pick(ctx.keys.len())];
        let bytes = (ctx.args.bytes() + ctx.out.len_since(mark)) as u64;
        let sample = Sample { stands_for, nanos, bytes };
        self.stats.hot_keys.add(now, ctx.session.db(), (key.hash, ctx.args.get(key.arg as usize)), sample);
    }

    /// A command of a transaction or a script, which is timed in any case, ran for this number of nanoseconds: notes it as a
    /// sample if it is one.
    #[inline]
    pub(crate) fn sample_timed(&mut self, ctx: &Ctx<'_, '_>, nanos: u64, mark: Mark) {
        match self.choose_sample(0, 1) {
            0 => self.note_sample(ctx, nanos, mark),
            _ => self.sampling.pass(1),
        }
    }
}
