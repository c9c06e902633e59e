//! SORT and SORT_RO: the elements of a list, set or sorted set in another order.
//!
//! ```text
//! arguments -> Plan -> elements -> weights (themselves, or what BY's pattern leads to) -> order -> LIMIT
//!                                                        -> each, or what GET's patterns lead to -> reply or STORE
//! ```
//! Patterns lead to keys that no argument names. Of a short collection the elements are looked through for the shards of those
//! keys, which are held before anything is sorted. A long one is sorted over several turns (`sort_parts`, `sort_far`). `sort_rows` has the elements and their order, `sort_pattern` the way from a pattern to a
//! value.

use std::collections::HashSet;

use smallvec::SmallVec;
use varve_catalog::{
    Acl, ArgKind, Argument, Begin, Find, Flags, Group, KeyFlags, KeySpec, Row, arg, block, key, one_of, word,
};
use varve_exec::notify::Class;
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::{Key, ListPart, ShardSet, Type};

use super::building::Building;
use super::sort_far::Far;
use super::sort_parts::{Elements, LongSort, Wishes, limited};
use super::sort_pattern::{Pattern, has_star};
use super::sort_rows::{Items, Weights, score};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[SORT, SORT_RO];

/// Sorting takes as long as showing this number of times as many elements.
const ELEMENT_COST: u64 = 16;
/// Following a pattern to a key takes as long as showing this number of elements.
const FAR_COST: u64 = 64;
/// Its cost for a collection in one object: all shards are told of a SORT in parts, which does not pay for some hundred keys.
const FAR_COST_OF_SMALL: u64 = 4;
/// Patterns of GET. Every change of a key is compared with those of a SORT that is under way, and each element is shown with all
/// of them in one part.
const GETS_MAX: usize = 4096;

const SOURCE: KeySpec = KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS));

const PATTERNS: KeySpec = KeySpec {
    begin: Begin::Unknown,
    find: Find::Unknown,
    flags: KeyFlags::RO.and(KeyFlags::ACCESS),
    notes: "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
};

const DESTINATION: KeySpec = KeySpec {
    begin: Begin::SortStore,
    find: Find::Unknown,
    flags: KeyFlags::OW.and(KeyFlags::UPDATE),
    notes: "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array",
};

const BY: Argument = pattern("BY").optional();

const LIMIT: Argument =
    block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)]).token("LIMIT").optional();

const GET: Argument = pattern("GET").optional().multiple().multiple_token();

const ORDER: Argument = one_of("order", &[word("asc", "ASC"), word("desc", "DESC")]).optional();

const ALPHA: Argument = word("sorting", "ALPHA").optional();

const fn pattern(token: &'static str) -> Argument {
    Argument { key_spec: Some(1), ..arg("pattern", ArgKind::Pattern).token(token) }
}

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE destination]
fn sort(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    run(ctx, true)
}

const SORT: Command = Command::new(
    Exec::Keys(sort),
    Row::new("sort", Group::Generic, -2, "1.0.0")
        .about(
            "Answers or stores the elements of a list, set or sorted set in order.",
            "O(N+M*log(M)) in the elements and those that are sorted",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::TOUCHES_ARBITRARY_KEYS])
        .acl(&[Acl::SET, Acl::SORTEDSET, Acl::LIST, Acl::DANGEROUS])
        .keys(&[SOURCE, PATTERNS, DESTINATION])
        .args(&[key("key", 0), BY, LIMIT, GET, ORDER, ALPHA, key("destination", 2).token("STORE").optional()]),
);

/// SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA]
fn sort_ro(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    run(ctx, false)
}

const SORT_RO: Command = Command::new(
    Exec::Keys(sort_ro),
    Row::new("sort_ro", Group::Generic, -2, "7.0.0")
        .about(
            "Answers the elements of a list, set or sorted set in order.",
            "O(N+M*log(M)) in the elements and those that are sorted",
        )
        .flags(&[Flags::READONLY, Flags::TOUCHES_ARBITRARY_KEYS])
        .acl(&[Acl::SET, Acl::SORTEDSET, Acl::LIST, Acl::DANGEROUS])
        .keys(&[SOURCE, PATTERNS])
        .args(&[key("key", 0), BY, LIMIT, GET, ORDER, ALPHA]),
);

/// The options of SORT.
#[derive(Default)]
struct Plan<'a> {
    descending: bool,
    alpha: bool,
    /// The elements stay in the order that they have.
    as_is: bool,
    by: Option<Pattern<'a>>,
    /// The arguments of the patterns.
    by_at: Option<usize>,
    get_at: SmallVec<[usize; 4]>,
    offset: i64,
    /// Negative: all.
    count: i64,
    get: SmallVec<[Pattern<'a>; 4]>,
    /// Argument that names the destination.
    store: Option<usize>,
    /// A script sorts.
    by_script: bool,
}

impl<'a> Plan<'a> {
    fn parse(ctx: &Ctx<'_, 'a>, may_store: bool) -> CmdResult<Plan<'a>> {
        let args = ctx.args;
        let mut plan = Plan { count: -1, by_script: ctx.session.is_script(), ..Plan::default() };
        let (mut at, mut may_follow) = (2, false);
        while let Some(word) = args.opt(at) {
            let left = args.len() - at - 1;
            at += 1;
            if is(word, "ASC") {
                plan.descending = false;
            } else if is(word, "DESC") {
                plan.descending = true;
            } else if is(word, "ALPHA") {
                plan.alpha = true;
            } else if is(word, "LIMIT") && left >= 2 {
                plan.offset = integer(args.get(at))?;
                plan.count = integer(args.get(at + 1))?;
                at += 2;
            } else if may_store && is(word, "STORE") && left >= 1 {
                plan.store = Some(at);
                at += 1;
            } else if is(word, "BY") && left >= 1 {
                let pattern = args.get(at);
                if has_star(pattern) {
                    permit_patterns(ctx, &mut may_follow, errors::SORT_BY_DENIED)?;
                }
                (plan.by, plan.by_at) = (Some(Pattern::parse(pattern)), Some(at));
                plan.as_is |= !has_star(pattern);
                at += 1;
            } else if is(word, "GET") && left >= 1 {
                permit_patterns(ctx, &mut may_follow, errors::SORT_GET_DENIED)?;
                if plan.get.len() == GETS_MAX && !ctx.session.replays() {
                    return Err(errors::SORT_GETS);
                }
                plan.get.push(Pattern::parse(args.get(at)));
                plan.get_at.push(at);
                at += 1;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(plan)
    }

    /// Whether keys are read that no argument names.
    fn reaches_out(&self) -> bool {
        let leads_to_keys = |pattern: &Pattern<'_>| matches!(pattern, Pattern::Key { .. });
        !self.as_is && self.by.as_ref().is_some_and(leads_to_keys) || self.get.iter().any(leads_to_keys)
    }

    /// The keys to which patterns lead from the elements of the source.
    fn far(&self, ctx: &mut Ctx<'_, '_>, source: &Key<'_>, ty: Type) -> Far {
        let args = ctx.args;
        let by = self.by_at.filter(|_| !self.as_is && !self.orders_set(ty)).map(|at| args.get(at));
        Far::begin(&mut ctx.tx, source, by, self.get_at.iter().map(|&at| args.get(at)).collect())
    }

    /// The wishes of a SORT of a collection of this type, but for the keys to which patterns lead.
    fn wishes(&self, ty: Type) -> Wishes {
        let get = self.get.iter().map(|pattern| *pattern == Pattern::Itself).collect();
        // A BY that leads to no key weighs nothing, and leaves the elements as they are.
        let descending = self.descending && !(self.as_is && ty == Type::Set && !self.orders_set(ty));
        let limits = (self.offset, self.count);
        // A set has no order of its own, and what is stored, or seen by a script, must follow from what is in it.
        let (as_is, alpha) = if self.orders_set(ty) { (false, true) } else { (self.as_is, self.alpha) };
        Wishes { descending, alpha, as_is, limits, get }
    }

    /// Whether the elements of a set that would stay as they are have to be put in order.
    fn orders_set(&self, ty: Type) -> bool {
        ty == Type::Set && self.as_is && (self.store.is_some() || self.by_script)
    }
}

/// Patterns lead to any key: the user has to have the right to read all. That is asked once, and noted: the answer looks at all
/// arguments.
fn permit_patterns(ctx: &Ctx<'_, '_>, may_follow: &mut bool, denied: CommandError) -> CmdResult {
    *may_follow = *may_follow || ctx.session.user().may_read_all_keys(ctx.row, ctx.args);
    if *may_follow { Ok(()) } else { Err(denied) }
}

fn run(ctx: &mut Ctx<'_, '_>, may_store: bool) -> CmdResult {
    let mut plan = Plan::parse(ctx, may_store)?;
    let key = ctx.key(1);
    if go_on_in_parts(ctx, &plan, &key)? {
        return Ok(());
    }
    if plan.store.is_some() {
        // The request's own bytes do not bound what is written. The shards may be let go for it.
        let bytes = ctx.tx.object(&key).map_or(0, |object| object.bytes);
        ctx.admit_more(bytes as u64)?;
    }
    if plan.reaches_out() && !hold_patterns(ctx, &plan, &key) {
        // It is put back: this error is no reply.
        return Err(CommandError::SYNTAX);
    }
    let ty = ctx.tx.type_of(&key);
    let items = load(ctx, &key, ty)?;
    if ty.is_some_and(|ty| plan.orders_set(ty)) {
        (plan.as_is, plan.alpha, plan.by) = (false, true, None);
    }
    let order = arrange(ctx, &plan, ty, &items)?;
    let shown = &order[limited((plan.offset, plan.count), order.len())];
    match plan.store {
        None => reply(ctx, &plan, &items, shown),
        Some(at) => store(ctx, &plan, &items, shown, at)?,
    }
    Ok(())
}

/// Begins to sort a collection over several turns that is long, or is shown with many patterns; false, and nothing is done, if it
/// is to be sorted at once.
fn go_on_in_parts(ctx: &mut Ctx<'_, '_>, plan: &Plan<'_>, key: &Key<'_>) -> CmdResult<bool> {
    let Some(ty @ (Type::List | Type::Set | Type::Zset)) = ctx.tx.type_of(key) else { return Ok(false) };
    let (far, patterns) = (plan.reaches_out(), 1 + plan.get.len() as u64);
    let len = ctx.tx.look(key, |value| value.len()).unwrap_or(0);
    let (cost, cost_of_small) =
        if far { (FAR_COST * patterns, FAR_COST_OF_SMALL * patterns) } else { (ELEMENT_COST.max(patterns), patterns) };
    if !ctx.session.takes_parts() || !ctx.tx.is_long_work(len, cost) {
        return Ok(false);
    }
    let elements = match ctx.tx.begin_reading_whole(key, ty).expect("its type was looked at") {
        Some(reader) => Elements::Reader(reader),
        None if ctx.tx.is_long_work(len, cost_of_small) => Elements::Loaded(peek(ctx, key, ty)),
        None => return Ok(false),
    };
    if !ctx.session.begins_anew() {
        ctx.tx.note_lookup(true);
    }
    let far = far.then(|| plan.far(ctx, key, ty));
    let mut rest = LongSort::new(elements, plan.wishes(ty), far);
    match plan.store {
        None => ctx.go_on(Box::new(rest)),
        Some(to) => ctx.go_on_building(|tx, args, keeps| {
            rest.store_in(Building::begin(tx, args, (to, Type::List), vec![1], keeps));
            Box::new(rest)
        }),
    }
    Ok(true)
}

/// Holds the shards of all keys to which the patterns lead, besides those of the arguments. While shards are taken the
/// elements may change, so they are looked through again until they lead to no other shard. It ends, for the shards only
/// become more. False if one is busy: the command is put back.
fn hold_patterns(ctx: &mut Ctx<'_, '_>, plan: &Plan<'_>, key: &Key<'_>) -> bool {
    let named = [Some(1), plan.store].into_iter().flatten();
    let mut shards: ShardSet = named.map(|at| ctx.tx.shard_of_bytes(ctx.args.get(at))).collect();
    loop {
        let far = far_shards(ctx, plan, key, &shards);
        if far.is_empty() {
            return true;
        }
        shards.add(far);
        if !ctx.tx.hold_or_put_back(&shards) || ctx.meets_frozen() {
            return false;
        }
    }
}

/// The shards, each once, to which the patterns lead from the elements and which are not in `held`. No hit or miss is
/// counted.
fn far_shards(ctx: &mut Ctx<'_, '_>, plan: &Plan<'_>, key: &Key<'_>, held: &ShardSet) -> Vec<u16> {
    let by = plan.by.iter().filter(|_| !plan.as_is);
    let patterns: SmallVec<[&Pattern<'_>; 4]> = by.chain(&plan.get).collect();
    // A key of another type has no elements: the command is going to answer with an error.
    let items = ctx.tx.type_of(key).map_or_else(Items::default, |ty| peek(ctx, key, ty));
    let (mut far, mut scratch, shards) = (HashSet::new(), Vec::new(), ctx.tx.store().shard_count());
    for item in items.iter() {
        for pattern in &patterns {
            far.extend(pattern.shard(&ctx.tx, item, &mut scratch).filter(|id| !held.has(*id)));
        }
        if far.len() + held.len() == shards {
            break;
        }
    }
    far.into_iter().collect()
}

/// The elements of a collection of this type, none of another; a list's and a sorted set's in their order. No hit or miss is
/// counted.
fn peek(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, ty: Type) -> Items {
    let mut items = Items::default();
    let _ = match ty {
        Type::List => ctx.tx.list_for_each(key, |element| items.push(element)),
        Type::Set => ctx.tx.set_peek(key).map(|set| {
            set.into_iter().for_each(|set| set.for_each(|member| items.push(member.text(&mut [0; 20]))));
        }),
        Type::Zset => ctx.tx.zset_for_each(key, &mut |member, _| items.push(member)).map(drop),
        _ => Ok(()),
    };
    items
}

/// The elements, a list's and a sorted set's in their order. Counts a hit or miss of the key.
fn load(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, ty: Option<Type>) -> CmdResult<Items> {
    let mut items = Items::default();
    match ty {
        None => ctx.tx.note_read(key, false),
        Some(Type::List) => ctx.tx.list_range(key, 0, -1, |part| {
            if let ListPart::Element(element) = part {
                items.push(element);
            }
        })?,
        Some(Type::Set) => {
            let set = ctx.tx.set_view(key)?.expect("its type was looked at");
            set.for_each(|member| items.push(member.text(&mut [0; 20])));
        }
        Some(Type::Zset) => {
            ctx.tx.note_lookup(true);
            // The peer turns a packed one big before it sorts it.
            ctx.tx.zset_spread(key)?;
            ctx.tx.zset_for_each(key, &mut |member, _| items.push(member))?;
        }
        Some(_) => {
            ctx.tx.note_lookup(true);
            return Err(CommandError::WRONG_TYPE);
        }
    }
    Ok(items)
}

/// The numbers of the elements in the order that is asked for.
fn arrange(ctx: &mut Ctx<'_, '_>, plan: &Plan<'_>, ty: Option<Type>, items: &Items) -> CmdResult<Vec<usize>> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    if plan.as_is {
        if plan.descending && ty != Some(Type::Set) {
            order.reverse();
        }
        return Ok(order);
    }
    let weights = weigh(ctx, plan, items)?;
    weights.sort(items, &mut order, plan.descending);
    Ok(order)
}

/// Finds the weights that the elements are compared by.
fn weigh(ctx: &mut Ctx<'_, '_>, plan: &Plan<'_>, items: &Items) -> CmdResult<Weights> {
    let mut scratch = Vec::new();
    match (&plan.by, plan.alpha) {
        (None, true) => Ok(Weights::Themselves),
        (None, false) => {
            let scores = items.iter().map(score).collect::<Option<Vec<f64>>>();
            scores.map(Weights::Scores).ok_or(errors::SORT_NO_SCORE)
        }
        (Some(by), false) => {
            let read = |value: Option<&[u8]>| value.map_or(Some(0.0), score);
            // All patterns are followed before a fault is told, so that lookups count as the peer's.
            let scores: Vec<_> = items.iter().map(|item| by.lead(&mut ctx.tx, item, &mut scratch, read)).collect();
            scores.into_iter().collect::<Option<Vec<f64>>>().map(Weights::Scores).ok_or(errors::SORT_NO_SCORE)
        }
        (Some(by), true) => {
            let mut texts = Items::default();
            let mut there = Vec::with_capacity(items.len());
            for item in items.iter() {
                by.lead(&mut ctx.tx, item, &mut scratch, |value| {
                    there.push(value.is_some());
                    texts.push(value.unwrap_or_default());
                });
            }
            Ok(Weights::Texts { texts, there })
        }
    }
}

fn reply(ctx: &mut Ctx<'_, '_>, plan: &Plan<'_>, items: &Items, shown: &[usize]) {
    ctx.out.array(shown.len() * plan.get.len().max(1));
    let mut scratch = Vec::new();
    for &at in shown {
        if ctx.out.is_overflown() {
            break;
        }
        if plan.get.is_empty() {
            ctx.out.bulk(items.get(at));
        }
        for pattern in &plan.get {
            let out = &mut *ctx.out;
            pattern.lead(&mut ctx.tx, items.get(at), &mut scratch, |value| match value {
                Some(value) => out.bulk(value),
                None => out.null(),
            });
        }
    }
}

/// Stores the result as a list, what a pattern does not lead to as an empty element. Without a result the destination
/// is removed. Patterns may lead to any number of bytes: the limit is asked while they are gathered, for them and for the list.
fn store(ctx: &mut Ctx<'_, '_>, plan: &Plan<'_>, items: &Items, shown: &[usize], at: usize) -> CmdResult {
    let mut result = Items::default();
    let mut scratch = Vec::new();
    for &at in shown {
        if !ctx.tx.store().may_overdraw(2 * result.held_bytes() as u64) {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        if plan.get.is_empty() {
            result.push(items.get(at));
        }
        for pattern in &plan.get {
            let item = items.get(at);
            pattern.lead(&mut ctx.tx, item, &mut scratch, |value| result.push(value.unwrap_or_default()));
        }
    }
    let to = ctx.key(at);
    let taken = ctx.tx.exists(&to);
    ctx.tx.list_store(&to, result.iter());
    // Each element counts as a change.
    ctx.did_store(Class::List, "sortstore", &to, result.len() as u64, taken);
    ctx.out.integer(result.len() as i64);
    Ok(())
}
