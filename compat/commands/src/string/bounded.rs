//! INCREX: adds to the number in a string, between bounds, and says what becomes of its expiry.
//!
//! ```text
//!   low <= sum <= high   the sum is set, the expiry follows             reply: [the sum, what was added]
//!   else                 nothing is done                                reply: [the number, 0]
//!   else, SATURATE       the nearer bound is set, the expiry follows    reply: [the bound, what was added]
//! ```
//! Integers have 64 bits, floating-point numbers 80, and the bounds of their kind where none is given.

use varve_base::number::{Extended, push_i64};
use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key, one_of, word};
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::{Args, Reply};
use varve_store::{StringForm, Ttl};

use super::value::end_overdue;
use crate::errors;
use crate::generic::options::{Family, Life, Options, TIME_OR_PERSIST};
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[INCREX];

/// INCREX key [BYFLOAT n | BYINT n] [LBOUND n] [UBOUND n] [SATURATE] [EX s | PX ms | EXAT s | PXAT ms | PERSIST] [ENX]
fn increx(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let request = Request::parse(&ctx.args)?;
    if request.is_float { add::<Extended>(ctx, &request) } else { add::<i64>(ctx, &request) }
}

const INCREX: Command = Command::new(
    Exec::Keys(increx),
    Row::new("increx", Group::String, -2, "8.8.0")
        .about("Adds to a number, between bounds, and sets or clears its expiry.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .args(&[
            key("key", 0),
            one_of(
                "increment",
                &[arg("float", ArgKind::Double).token("BYFLOAT"), arg("integer", ArgKind::Integer).token("BYINT")],
            )
            .optional(),
            arg("lowerbound", ArgKind::String).token("LBOUND").optional(),
            arg("upperbound", ArgKind::String).token("UBOUND").optional(),
            word("saturate", "SATURATE").optional(),
            one_of("expiration", TIME_OR_PERSIST).optional(),
            word("enx", "ENX").optional(),
        ]),
);

/// The arguments behind the key.
struct Request<'a> {
    is_float: bool,
    /// The number that is added; one if it is not given.
    by: Option<&'a [u8]>,
    low: Option<&'a [u8]>,
    high: Option<&'a [u8]>,
    saturates: bool,
    life: Life<'a>,
    /// The expiry is set only where there is none.
    only_first_expiry: bool,
}

impl<'a> Request<'a> {
    fn parse(args: &Args<'a>) -> CmdResult<Request<'a>> {
        let mut request = Request {
            is_float: false,
            by: None,
            low: None,
            high: None,
            saturates: false,
            life: Life::Unsaid,
            only_first_expiry: false,
        };
        let (mut options, mut at) = (Options::NONE, 2);
        while at < args.len() {
            let (word, next) = (args.get(at), args.opt(at + 1));
            let used = request.take(word, next).or_else(|| options.take(word, next, Family::Getex));
            at += used.ok_or(CommandError::SYNTAX)?;
        }
        request.life = options.life;
        if request.only_first_expiry && !matches!(request.life, Life::Until(..)) {
            return Err(CommandError::SYNTAX);
        }
        Ok(request)
    }

    /// Takes one option that is not about the expiry; gives how many arguments it took.
    fn take(&mut self, word: &[u8], next: Option<&'a [u8]>) -> Option<usize> {
        if is(word, "SATURATE") && !self.saturates {
            self.saturates = true;
            return Some(1);
        }
        if is(word, "ENX") && !self.only_first_expiry {
            self.only_first_expiry = true;
            return Some(1);
        }
        let is_float = is(word, "BYFLOAT");
        let place = match () {
            () if is_float || is(word, "BYINT") => &mut self.by,
            () if is(word, "LBOUND") => &mut self.low,
            () if is(word, "UBOUND") => &mut self.high,
            () => return None,
        };
        if place.is_some() {
            return None;
        }
        *place = Some(next?);
        self.is_float |= is_float;
        Some(2)
    }
}

/// The numbers that a string may hold.
trait Number: Copy {
    const ZERO: Self;
    const ONE: Self;
    const LEAST: Self;
    const MOST: Self;
    /// The keyspace event of an addition.
    const EVENT: &'static str;
    const FORM: StringForm;

    /// A finite number.
    fn read(text: &[u8]) -> CmdResult<Self>;
    /// The sum if it lies between the bounds, else the bound behind which it lies.
    fn sum_within(self, by: Self, low: Self, high: Self) -> Result<Self, Self>;
    fn is_below(self, other: Self) -> bool;
    /// The number that must be added to `from` for this one.
    fn since(self, from: Self) -> CmdResult<Self>;
    fn push_text(self, out: &mut Vec<u8>);
    fn reply(self, out: &mut Reply);
}

impl Number for i64 {
    const ZERO: i64 = 0;
    const ONE: i64 = 1;
    const LEAST: i64 = i64::MIN;
    const MOST: i64 = i64::MAX;
    const EVENT: &'static str = "incrby";
    const FORM: StringForm = StringForm::Auto;

    fn read(text: &[u8]) -> CmdResult<i64> {
        integer(text)
    }

    fn sum_within(self, by: i64, low: i64, high: i64) -> Result<i64, i64> {
        let sum = i128::from(self) + i128::from(by);
        match () {
            () if sum < i128::from(low) => Err(low),
            () if sum > i128::from(high) => Err(high),
            () => Ok(sum as i64),
        }
    }

    fn is_below(self, other: i64) -> bool {
        self < other
    }

    fn since(self, from: i64) -> CmdResult<i64> {
        self.checked_sub(from).ok_or(errors::INCREMENT_OVERFLOW)
    }

    fn push_text(self, out: &mut Vec<u8>) {
        push_i64(out, self);
    }

    fn reply(self, out: &mut Reply) {
        out.integer(self);
    }
}

impl Number for Extended {
    const ZERO: Extended = Extended::ZERO;
    const ONE: Extended = Extended::ONE;
    const LEAST: Extended = Extended::LEAST;
    const MOST: Extended = Extended::MOST;
    const EVENT: &'static str = "incrbyfloat";
    const FORM: StringForm = StringForm::Plain;

    fn read(text: &[u8]) -> CmdResult<Extended> {
        let number = Extended::parse(text).ok_or(CommandError::NOT_FLOAT)?;
        if number.is_finite() { Ok(number) } else { Err(errors::INCREMENT_NOT_FINITE) }
    }

    fn sum_within(self, by: Extended, low: Extended, high: Extended) -> Result<Extended, Extended> {
        let sum = self + by;
        match () {
            () if sum.is_below(low) => Err(low),
            () if high.is_below(sum) => Err(high),
            () => Ok(sum),
        }
    }

    fn is_below(self, other: Extended) -> bool {
        self.is_below(other)
    }

    fn since(self, from: Extended) -> CmdResult<Extended> {
        let added = self + -from;
        if added.is_finite() { Ok(added) } else { Err(errors::INCREMENT_NOT_FINITE) }
    }

    fn push_text(self, out: &mut Vec<u8>) {
        self.push_human(out);
    }

    fn reply(self, out: &mut Reply) {
        let mut text = Vec::with_capacity(32);
        self.push_human(&mut text);
        out.double_text(&text);
    }
}

/// Adds to the number that the key holds, 0 without the key.
fn add<N: Number>(ctx: &mut Ctx<'_, '_>, request: &Request<'_>) -> CmdResult {
    let bound = |text: Option<&[u8]>, none: N| text.map_or(Ok(none), N::read);
    let (by, low, high) = (bound(request.by, N::ONE)?, bound(request.low, N::LEAST)?, bound(request.high, N::MOST)?);
    if high.is_below(low) {
        return Err(errors::BOUNDS_ORDER);
    }
    let wanted = request.life.ttl(ctx.tx.now_ms(), "increx")?;
    let key = ctx.key(1);
    let old = ctx.tx.peek(&key)?.map_or(Ok(N::ZERO), N::read)?;
    let (new, added) = match old.sum_within(by, low, high) {
        Ok(new) => (new, by),
        Err(bound) if request.saturates => (bound, bound.since(old)?),
        Err(_) => return reply(ctx, old, N::ZERO),
    };
    let has_expiry = ctx.tx.expiry(&key).flatten().is_some();
    let ttl = match request.life {
        Life::Persist => Ttl::Clear,
        Life::Until(..) if !(request.only_first_expiry && has_expiry) => wanted,
        _ => Ttl::Keep,
    };
    if matches!(ttl, Ttl::At(at) if at <= ctx.tx.now_ms()) && ctx.tx.ends_overdue() {
        end_overdue(ctx, &key, N::EVENT);
        return reply(ctx, new, added);
    }
    let mut text = Vec::with_capacity(32);
    new.push_text(&mut text);
    ctx.tx.set(&key, &text, ttl, N::FORM);
    let words = |words: &mut Words<'_>| {
        words.add(b"SET").add(key.bytes).add(&text);
        match ttl {
            Ttl::At(at) => _ = words.add(b"PXAT").number(at),
            Ttl::Keep => _ = words.add(b"KEEPTTL"),
            Ttl::Clear => {}
        }
    };
    ctx.did(&key, Effect::words(Class::String, N::EVENT, 1, &words));
    match ttl {
        Ttl::At(_) => ctx.did(&key, Effect::event(Class::Generic, "expire")),
        Ttl::Clear if has_expiry => ctx.did(&key, Effect::event(Class::Generic, "persist")),
        _ => {}
    }
    reply(ctx, new, added)
}

/// Replies with the number and what was added to it.
fn reply<N: Number>(ctx: &mut Ctx<'_, '_>, number: N, added: N) -> CmdResult {
    ctx.out.array(2);
    number.reply(ctx.out);
    added.reply(ctx.out);
    Ok(())
}
