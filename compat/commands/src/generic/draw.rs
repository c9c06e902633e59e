//! Elements of a collection drawn at random, over several turns: millions of them, or many of a long collection.
//!
//! ```text
//!  many of all: Read   shard held: some elements .. all of them     none held: some are drawn and replied .. as many as are wanted
//!  few of all:  Pick   key occupied, shard held: some are drawn .. as many as are wanted          none held: they are replied
//! ```
//! The elements are those of the instant at which the command began. Every selection and every order of it is as likely as
//! any other. What is picked is picked by number, which means nothing once the collection has changed: others are kept from
//! it, and what changes it by itself (its time has come) has the command begin anew. Not here: few elements, which the store
//! draws at once (`varve_store::Pick`), and what is taken out.

use varve_base::rng::Rng;
use varve_exec::{CmdResult, Ctx, Occupied, Ongoing, Progress, Watching};
use varve_protocol::Reply;
use varve_store::{Key, Pick, Picker, ReadOn, StoreWorker, Tx, Type, ValuePart, WholeReader};

use super::order::numbered;
use super::sort_rows::Items;
use crate::errors;

/// Drawing an element from a copy takes as long as showing this number of them, and picking one from a collection of millions
/// as long as this.
const DRAW_COST: u64 = 4;
const PICK_COST: u64 = 16;
/// A collection is gathered for draws of one in this number of its elements, and for more of them: the elements that are
/// not drawn are copied as well.
const GATHERED_EACH: usize = 16;
/// Elements that may repeat, drawn at once at most where the reply cannot come in parts: in EXEC and in a script. No collection
/// bounds their number, and nobody can end the command: these take some hundred milliseconds.
const AT_ONCE_MAX: usize = 1_000_000;
/// Bytes of a reply that an element has at least: an empty bulk string.
const ELEMENT_BYTES_MIN: usize = 6;
/// Elements, and about their bytes, that one step replies with.
const REPLY: usize = 1024;
const REPLY_BYTES: usize = 128 << 10;

/// An element that was drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn<'a> {
    /// The member or the field.
    pub(crate) name: &'a [u8],
    /// The value of a field, if values are wanted.
    pub(crate) value: &'a [u8],
    /// The score of a member of a sorted set.
    pub(crate) score: f64,
}

/// How elements that were drawn are replied: the head for this number of them, and each of them.
pub(crate) type Form = (fn(&mut Reply, usize), fn(&mut Reply, Drawn<'_>));

/// The wishes of a command that draws.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    /// How many elements.
    pub(crate) pick: Pick,
    /// The values of fields are wanted.
    pub(crate) values: bool,
    pub(crate) form: Form,
}

impl Draw {
    /// The elements that are replied of a collection of this number.
    fn count(&self, len: usize) -> usize {
        match self.pick {
            _ if len == 0 => 0,
            Pick::Any(count) => count,
            Pick::Distinct(count) => count.min(len),
        }
    }

    /// Adds the numbers of the elements that have come to the order, if elements are to differ.
    ///
    /// # Errors
    /// They are too many to be numbered.
    fn number(&self, order: &mut Vec<u32>, len: usize) -> CmdResult {
        if let Pick::Distinct(_) = self.pick {
            let end = numbered(len)?;
            let begin = order.len() as u32;
            order.extend(begin..end);
        }
        Ok(())
    }
}

/// Begins to draw from a collection of this type over several turns; false, and nothing is done, if the elements are to be
/// drawn at once. Draws with repetition whose reply is sure to pass the ceiling of replies are not begun: their number is the
/// client's alone, and no collection bounds it.
///
/// # Errors
/// More elements that may repeat are to be drawn at once than may be.
pub(crate) fn draw_in_parts(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, ty: Type, draw: Draw) -> CmdResult<bool> {
    let (Pick::Any(most) | Pick::Distinct(most)) = draw.pick;
    if !ctx.tx.is_long_work(most as u64, PICK_COST) || ctx.tx.type_of(key) != Some(ty) {
        return Ok(false);
    }
    if !ctx.session.takes_parts() {
        let too_many = matches!(draw.pick, Pick::Any(count) if count > AT_ONCE_MAX);
        return if too_many { Err(errors::too_many_at_once(AT_ONCE_MAX)) } else { Ok(false) };
    }
    let len = ctx.tx.look(key, |value| value.len()).map_or(0, |len| len as usize);
    let count = draw.count(len);
    let is_few = count < len / GATHERED_EACH;
    if !ctx.tx.is_long_work(count as u64, if is_few { PICK_COST } else { DRAW_COST }) {
        return Ok(false);
    }
    if let Pick::Any(_) = draw.pick
        && !ctx.out.admits(count.saturating_mul(ELEMENT_BYTES_MIN))
    {
        return Ok(true);
    }
    // A collection that has changed while elements were picked by number is gathered whole, which no change disturbs.
    if is_few && !ctx.session.begins_anew() {
        if ctx.gives_way() {
            return ctx.put_back().map(|()| true);
        }
        if pick_in_parts(ctx, key, ty, draw) {
            return Ok(true);
        }
        // Writers are kept from it by another command: all of it is gathered.
    }
    let mut rest = LongDraw::new(draw, Rng::seeded(ctx.tx.draw_seed()));
    match ctx.tx.begin_reading_whole(key, ty).expect("its type was looked at") {
        Some(reader) => rest.stage = Stage::Read(reader),
        None => {
            ctx.tx.look(key, |value| value.for_each(&mut |part| rest.gathered.push(part, draw.values)));
            rest.begin_reply(ctx.out)?;
        }
    }
    ctx.go_on(Box::new(rest));
    Ok(true)
}

/// Begins to pick elements of which there are many times as many; false, and nothing is done, if the key is frozen for another
/// command.
fn pick_in_parts(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, ty: Type, draw: Draw) -> bool {
    let Some(occupied) = Occupied::begin(&mut ctx.tx, key) else { return false };
    let mut watching = Watching::default();
    watching.add(&mut ctx.tx, std::iter::once(key.bytes));
    let mut rest = LongDraw::new(draw, Rng::seeded(0));
    let (name, picker) = (key.bytes.into(), Picker::new(draw.pick));
    rest.stage = Stage::Pick(Box::new(Picking { name, ty, occupied, watching: Some(watching), picker }));
    ctx.go_on_behind(Box::new(rest));
    true
}

/// Elements that are being picked.
struct Picking {
    name: Box<[u8]>,
    ty: Type,
    occupied: Occupied,
    watching: Option<Watching>,
    picker: Picker,
}

impl Picking {
    /// Picks some more; `Done` when all were picked.
    fn pick(&mut self, tx: &mut Tx<'_>, mut show: impl FnMut(ValuePart<'_>)) -> Progress {
        let key = tx.key(&self.name);
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        // Removes it, or fields of it, if their time has come, some at a time: it has changed then.
        if tx.sheds_due_fields(&key) {
            return Progress::More;
        }
        let is_there = tx.exists(&key);
        let changed = !is_there || self.watching.as_ref().is_none_or(Watching::is_touched);
        if !changed {
            let most = (tx.hold_elements() / PICK_COST).max(1) as usize;
            tx.pick_some((&key, self.ty), &mut self.picker, most, &mut show).expect("it has not changed");
            if self.picker.left() > 0 {
                return Progress::More;
            }
        }
        self.occupied.end(tx, &key);
        if let Some(watching) = self.watching.take() {
            watching.end(tx);
        }
        if changed { Progress::Anew } else { Progress::Done }
    }
}

/// Elements in the order in which they came.
#[derive(Default)]
struct Gathered {
    names: Items,
    values: Items,
    scores: Vec<f64>,
}

impl Gathered {
    fn push(&mut self, part: ValuePart<'_>, values: bool) {
        match part {
            ValuePart::Element(member) => self.names.push(member),
            ValuePart::Scored(member, score) => {
                self.names.push(member);
                self.scores.push(score);
            }
            ValuePart::Pair(field, value, _) => {
                self.names.push(field);
                if values {
                    self.values.push(value);
                }
            }
            ValuePart::Whole(_) | ValuePart::Entries(_) | ValuePart::Facts(_) | ValuePart::Groups(_) => {
                unreachable!("hashes, sets and sorted sets are drawn from")
            }
        }
    }

    fn at(&self, at: usize) -> Drawn<'_> {
        Drawn {
            name: self.names.get(at),
            value: if self.values.len() > 0 { self.values.get(at) } else { b"" },
            score: self.scores.get(at).copied().unwrap_or_default(),
        }
    }

    fn held_bytes(&self) -> usize {
        self.names.held_bytes() + self.values.held_bytes() + self.scores.capacity() * size_of::<f64>()
    }
}

/// A draw that is under way.
struct LongDraw {
    draw: Draw,
    rng: Rng,
    gathered: Gathered,
    /// Where elements are to differ: the numbers of all, of which the first are in the order in which they were drawn.
    order: Vec<u32>,
    /// They were drawn as they came.
    is_picked: bool,
    stage: Stage,
}

/// How far it has come.
enum Stage {
    Read(WholeReader),
    Pick(Box<Picking>),
    /// Of these elements, how many were replied.
    Reply {
        count: usize,
        replied: usize,
    },
}

impl LongDraw {
    fn new(draw: Draw, rng: Rng) -> LongDraw {
        let stage = Stage::Reply { count: 0, replied: 0 };
        LongDraw { draw, rng, gathered: Gathered::default(), order: Vec::new(), is_picked: false, stage }
    }

    fn read(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let LongDraw { draw, gathered, order, stage, .. } = self;
        let Stage::Read(reader) = stage else { unreachable!("the elements are there") };
        let read = tx.read_whole_on(reader, |part| gathered.push(part, draw.values));
        tx.release();
        let numbered = draw.number(order, gathered.names.len());
        let begun = match read {
            ReadOn::Busy => return Progress::Busy,
            ReadOn::More(_) => numbered,
            ReadOn::All => numbered.and_then(|()| self.begin_reply(out)),
        };
        begun.map_or_else(Progress::Failed, |()| Progress::More)
    }

    fn pick(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let LongDraw { draw, gathered, stage, .. } = self;
        let Stage::Pick(picking) = stage else { unreachable!("elements are picked") };
        let progress = picking.pick(tx, |part| gathered.push(part, draw.values));
        if !matches!(progress, Progress::Done) {
            return progress;
        }
        let count = self.gathered.names.len();
        (self.draw.form.0)(out, count);
        (self.is_picked, self.stage) = (true, Stage::Reply { count, replied: 0 });
        Progress::More
    }

    /// All elements are there.
    fn begin_reply(&mut self, out: &mut Reply) -> CmdResult {
        let len = self.gathered.names.len();
        self.draw.number(&mut self.order, len)?;
        // Fields may have expired since they were counted.
        let count = self.draw.count(len);
        (self.draw.form.0)(out, count);
        self.stage = Stage::Reply { count, replied: 0 };
        Ok(())
    }

    /// The number of the element that is replied next, as the one of this place.
    fn next(&mut self, place: usize) -> usize {
        if self.is_picked {
            return place;
        }
        let len = self.gathered.names.len();
        if let Pick::Any(_) = self.draw.pick {
            return self.rng.below(len as u64) as usize;
        }
        let drawn = place + self.rng.below((len - place) as u64) as usize;
        self.order.swap(place, drawn);
        self.order[place] as usize
    }

    fn reply(&mut self, out: &mut Reply) -> Progress {
        let Stage::Reply { count, replied } = self.stage else { unreachable!("its head was replied") };
        let (mut next, full) = (replied, out.len() + REPLY_BYTES);
        while next < count.min(replied + REPLY) && out.len() < full {
            let at = self.next(next);
            (self.draw.form.1)(out, self.gathered.at(at));
            next += 1;
        }
        self.stage = Stage::Reply { count, replied: next };
        if next < count { Progress::More } else { Progress::Done }
    }
}

impl Ongoing for LongDraw {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        match self.stage {
            Stage::Read(_) => self.read(tx, out),
            Stage::Pick(_) => self.pick(tx, out),
            Stage::Reply { .. } => self.reply(out),
        }
    }

    fn keeps_key(&self) -> bool {
        matches!(self.stage, Stage::Pick(_))
    }

    fn held_bytes(&self) -> usize {
        let picker = if let Stage::Pick(picking) = &self.stage { picking.picker.held_bytes() } else { 0 };
        self.gathered.held_bytes() + self.order.capacity() * size_of::<u32>() + picker
    }

    fn kept_bytes(&self) -> usize {
        if let Stage::Read(reader) = &self.stage { reader.kept_bytes() } else { 0 }
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        if let Stage::Pick(picking) = &mut self.stage {
            picking.occupied.abandon(worker);
            if let Some(watching) = picking.watching.take() {
                watching.abandon(worker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These ended the process.
    #[test]
    fn issue_11_more_elements_than_numbers_are_an_error() {
        let form: Form = (|_, _| (), |_, _| ());
        let draw = |pick| Draw { pick, values: false, form };
        let (many, mut order) = (u32::MAX as usize + 1, Vec::new());
        assert!(draw(Pick::Distinct(many)).number(&mut order, many).is_err() && order.is_empty());
        assert!(draw(Pick::Any(many)).number(&mut order, many).is_ok() && order.is_empty());
        assert!(draw(Pick::Distinct(2)).number(&mut order, 3).is_ok());
        assert!(draw(Pick::Distinct(2)).number(&mut order, 5).is_ok());
        assert_eq!(order, [0, 1, 2, 3, 4]);
    }
}
