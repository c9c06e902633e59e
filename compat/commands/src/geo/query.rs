//! The words of a search: where it begins, how far it goes, what is answered or stored.
//!
//! ```text
//!  GEORADIUS          key longitude latitude  radius unit  words        STORE key, STOREDIST key among the words
//!  GEORADIUSBYMEMBER  key member              radius unit  words
//!  GEOSEARCH          key                                  words        FROM.. and BY.. among the words
//!  GEOSEARCHSTORE     destination key                      words        STOREDIST is a word alone
//! ```
//! Words are taken in any order, and told twice the last one holds; a fault is that of the first word that has one.

use varve_base::number::parse_f64;
use varve_catalog::{ArgKind, Argument, arg, block, one_of, word};
use varve_exec::{CmdResult, CommandError};
use varve_protocol::Args;

use super::cell::Point;
use super::shape::{Form, Shape};
use super::{position, unit};
use crate::errors;
use crate::grammar::{integer, is, shown};

/// The commands by their words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// GEORADIUS: around a position.
    Radius,
    /// GEORADIUSBYMEMBER: around a member.
    RadiusByMember,
    /// GEOSEARCH, GEOSEARCHSTORE: the words say it.
    Search,
}

/// A command's form.
#[derive(Clone, Copy)]
pub(super) struct Grammar {
    pub(super) family: Family,
    /// It may store what it finds.
    pub(super) stores: bool,
}

/// The order of the members that are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Found,
    Nearest,
    Farthest,
}

/// Where a result is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// The argument of its key.
    pub(super) argument: usize,
    /// Scores are distances, in the unit of the request; else they are those of the source.
    pub(super) distances: bool,
}

/// A search.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) shape: Shape,
    pub(super) order: Order,
    /// The most members that are answered.
    pub(super) count: Option<usize>,
    /// The first ones that are found will do.
    pub(super) any: bool,
    pub(super) with_distance: bool,
    pub(super) with_score: bool,
    pub(super) with_position: bool,
    pub(super) destination: Option<Destination>,
}

/// The score of a member: None without the member, and without the set, which the first part tells.
pub(super) type Source<'s> = (bool, &'s mut dyn FnMut(&[u8]) -> Option<f64>);

/// The words on their way, and what they said.
struct Reader<'r, 'a, 's> {
    args: &'r Args<'a>,
    at: usize,
    grammar: Grammar,
    source: Source<'s>,
    centre: Option<Point>,
    /// The way in which the centre was told, once it was.
    from: Option<From>,
    area: Option<(Form, f64)>,
    query: Query,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Member,
    Position,
}

impl Grammar {
    /// The argument of the key that is searched.
    pub(super) fn source(self) -> usize {
        if self.family == Family::Search && self.stores { 2 } else { 1 }
    }
}

impl Query {
    /// Reads a request. Without the set, members are not looked for, and the area means nothing.
    ///
    /// # Errors
    /// The peer's, for the first word that is at fault; faults of words that do not go together come behind them.
    pub(super) fn parse(args: &Args<'_>, grammar: Grammar, source: Source<'_>) -> CmdResult<Query> {
        let shape = Shape { centre: Point::default(), form: Form::Circle { radius: 0.0 }, unit: 1.0 };
        let query = Query {
            shape,
            order: Order::Found,
            count: None,
            any: false,
            with_distance: false,
            with_score: false,
            with_position: false,
            destination: None,
        };
        let mut reader = Reader { args, at: 0, grammar, source, centre: None, from: None, area: None, query };
        reader.head()?;
        while let Some(word) = args.opt(reader.at) {
            reader.at += 1;
            reader.word(word)?;
        }
        reader.end()
    }
}

impl Reader<'_, '_, '_> {
    /// The arguments in front of the words.
    fn head(&mut self) -> CmdResult {
        match self.grammar.family {
            Family::Radius => {
                self.centre = Some(position(self.args, 2)?);
                self.circle(4)?;
                self.at = 6;
            }
            Family::RadiusByMember => {
                if self.source.0 {
                    self.member(2)?;
                    self.circle(3)?;
                }
                self.at = 5;
            }
            Family::Search => {
                self.at = self.grammar.source() + 1;
                if self.grammar.stores {
                    self.query.destination = Some(Destination { argument: 1, distances: false });
                }
            }
        }
        Ok(())
    }

    /// One word, and the arguments behind it that belong to it.
    fn word(&mut self, word: &[u8]) -> CmdResult {
        let left = self.args.len() - self.at;
        let query = &mut self.query;
        if is(word, "WITHDIST") {
            query.with_distance = true;
        } else if is(word, "WITHHASH") {
            query.with_score = true;
        } else if is(word, "WITHCOORD") {
            query.with_position = true;
        } else if is(word, "ANY") {
            query.any = true;
        } else if is(word, "ASC") {
            query.order = Order::Nearest;
        } else if is(word, "DESC") {
            query.order = Order::Farthest;
        } else if is(word, "COUNT") && left >= 1 {
            let count = integer(self.args.get(self.at))?;
            query.count = Some(usize::try_from(count).ok().filter(|n| *n > 0).ok_or(errors::GEO_COUNT)?);
            self.at += 1;
        } else if self.grammar.family == Family::Search {
            return self.search_word(word, left);
        } else if self.grammar.stores && left >= 1 && (is(word, "STORE") || is(word, "STOREDIST")) {
            query.destination = Some(Destination { argument: self.at, distances: is(word, "STOREDIST") });
            self.at += 1;
        } else {
            return Err(CommandError::SYNTAX);
        }
        Ok(())
    }

    /// A word of GEOSEARCH and GEOSEARCHSTORE alone.
    fn search_word(&mut self, word: &[u8], left: usize) -> CmdResult {
        let is_circle = self.area.is_none_or(|(form, _)| matches!(form, Form::Circle { .. }));
        let is_rectangle = self.area.is_none_or(|(form, _)| matches!(form, Form::Rectangle { .. }));
        match &mut self.query.destination {
            Some(destination) if is(word, "STOREDIST") => destination.distances = true,
            _ if is(word, "FROMMEMBER") && left >= 1 && self.from != Some(From::Position) => {
                if self.source.0 {
                    self.member(self.at)?;
                }
                self.from = Some(From::Member);
                self.at += 1;
            }
            _ if is(word, "FROMLONLAT") && left >= 2 && self.from != Some(From::Member) => {
                self.centre = Some(position(self.args, self.at)?);
                self.from = Some(From::Position);
                self.at += 2;
            }
            _ if is(word, "BYRADIUS") && left >= 2 && is_circle => {
                self.circle(self.at)?;
                self.at += 2;
            }
            _ if is(word, "BYBOX") && left >= 3 && is_rectangle => {
                self.rectangle(self.at)?;
                self.at += 3;
            }
            _ => return Err(CommandError::SYNTAX),
        }
        Ok(())
    }

    /// The centre is a member.
    fn member(&mut self, at: usize) -> CmdResult {
        let score = (self.source.1)(self.args.get(at)).ok_or(errors::GEO_NO_MEMBER)?;
        self.centre = Some(Point::of_score(score));
        Ok(())
    }

    /// A radius and its unit.
    fn circle(&mut self, at: usize) -> CmdResult {
        let radius = parse_f64(self.args.get(at)).ok_or(errors::GEO_RADIUS)?;
        if radius < 0.0 {
            return Err(errors::GEO_RADIUS_NEGATIVE);
        }
        self.area = Some((Form::Circle { radius }, unit(self.args.get(at + 1))?));
        Ok(())
    }

    /// A width, a height and their unit.
    fn rectangle(&mut self, at: usize) -> CmdResult {
        let width = parse_f64(self.args.get(at)).ok_or(errors::GEO_WIDTH)?;
        let height = parse_f64(self.args.get(at + 1)).ok_or(errors::GEO_HEIGHT)?;
        if width < 0.0 || height < 0.0 {
            return Err(errors::GEO_SIDE_NEGATIVE);
        }
        self.area = Some((Form::Rectangle { width, height }, unit(self.args.get(at + 2))?));
        Ok(())
    }

    /// Whether the words go together.
    fn end(self) -> CmdResult<Query> {
        let mut query = self.query;
        let is_search = self.grammar.family == Family::Search;
        if query.destination.is_some() && (query.with_distance || query.with_score || query.with_position) {
            return Err(if is_search { errors::GEO_STORE_WITH } else { errors::GEO_RADIUS_STORE_WITH });
        }
        let name = shown(self.args.get(0));
        if is_search && self.from.is_none() {
            return Err(errors::geo_exactly_one("FROMMEMBER or FROMLONLAT", name));
        }
        if is_search && self.area.is_none() {
            return Err(errors::geo_exactly_one("BYRADIUS and BYBOX", name));
        }
        if query.any && query.count.is_none() {
            return Err(errors::GEO_ANY);
        }
        // The nearest ones are meant, unless any will do.
        if query.count.is_some() && query.order == Order::Found && !query.any {
            query.order = Order::Nearest;
        }
        if let (Some(centre), Some((form, unit))) = (self.centre, self.area) {
            query.shape = Shape { centre, form, unit };
        }
        Ok(query)
    }
}

/// The units, in COMMAND DOCS.
pub(super) const UNIT: Argument =
    one_of("unit", &[word("m", "M"), word("km", "KM"), word("ft", "FT"), word("mi", "MI")]);

/// The order, in COMMAND DOCS.
pub(super) const ORDER: Argument = one_of("order", &[word("asc", "ASC"), word("desc", "DESC")]).optional();

/// COUNT with ANY, in COMMAND DOCS; `any` says since when.
pub(super) const fn count(parts: &'static [Argument]) -> Argument {
    block("count", parts).optional()
}

/// The parts of COUNT.
pub(super) const COUNT: &[Argument] = &[arg("count", ArgKind::Integer).token("COUNT"), word("any", "ANY").optional()];

/// The parts of COUNT where ANY came later.
pub(super) const COUNT_OF_OLD: &[Argument] =
    &[arg("count", ArgKind::Integer).token("COUNT"), word("any", "ANY").since("6.2.0").optional()];
