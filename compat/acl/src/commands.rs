//! The commands of a server as rules see them: names that lead to rows, and sets of commands as bits.
//!
//! ```text
//!   Row::id     0     1        2            3            4
//!               get   config   config|get   config|set   ...
//!   Bits        1     0        1            0            ..       one a command or subcommand
//! ```
//! A command goes by its first name, whatever the configuration renames it to.

use std::collections::HashMap;

use varve_catalog::{Acl, Row};

/// A set of commands and subcommands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Box<[u64]>);

impl Bits {
    /// None of `ids` commands.
    pub(crate) fn none(ids: usize) -> Bits {
        Bits(vec![0; ids.div_ceil(64)].into())
    }

    #[inline]
    pub(crate) fn has(&self, id: u16) -> bool {
        self.0.get(usize::from(id) / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    pub(crate) fn set(&mut self, id: u16, on: bool) {
        let bit = 1 << (id % 64);
        let word = &mut self.0[usize::from(id) / 64];
        *word = if on { *word | bit } else { *word & !bit };
    }

    /// Adds the other set's members, or takes them away.
    pub(crate) fn set_all(&mut self, other: &Bits, on: bool) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word = if on { *word | other } else { *word & !other };
        }
    }

    /// Number of members that the other set has too.
    pub(crate) fn common(&self, other: &Bits) -> u32 {
        self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones()).sum()
    }

    /// Bytes of the bits.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.0)
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// A category and its members.
#[derive(Clone, Debug)]
pub(crate) struct Category {
    pub(crate) name: &'static str,
    /// The rows that have it.
    pub(crate) members: Bits,
    /// The rows that a rule with its name changes: a container's subcommands beside its members.
    pub(crate) reach: Bits,
}

/// The commands of a server: see the module's text.
#[derive(Clone, Debug)]
pub struct KnownCommands {
    /// By [`Row::id`].
    rows: Vec<&'static Row>,
    /// The container of each row, if it is a subcommand.
    parents: Vec<Option<u16>>,
    names: HashMap<&'static str, u16>,
    pub(crate) categories: Vec<Category>,
    /// All of them.
    pub(crate) all: Bits,
}

impl KnownCommands {
    /// These commands and subcommands, in the order of their ids, which are dense.
    ///
    /// # Panics
    /// The ids are not dense, or a subcommand comes before its container.
    pub fn new(rows: impl Iterator<Item = &'static Row>) -> KnownCommands {
        let rows: Vec<&'static Row> = rows.collect();
        assert!(rows.iter().enumerate().all(|(id, row)| usize::from(row.id) == id), "ids are dense");
        let names: HashMap<&str, u16> = rows.iter().map(|row| (row.full_name, row.id)).collect();
        let parent = |row: &&'static Row| row.full_name.split_once('|').map(|(container, _)| names[container]);
        let parents: Vec<Option<u16>> = rows.iter().map(parent).collect();
        let mut all = Bits::none(rows.len());
        rows.iter().for_each(|row| all.set(row.id, true));
        let categories = Acl::ALL.names().map(|name| category(name, &rows, &parents)).collect();
        KnownCommands { rows, parents, names, categories, all }
    }

    /// The rows, in the order of their ids.
    pub(crate) fn rows(&self) -> &[&'static Row] {
        &self.rows
    }

    /// The row of a command, or of a subcommand as `container|name`, in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&'static Row> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.names.get(name.as_str()).map(|id| self.rows[usize::from(*id)])
    }

    /// The subcommands of a container.
    pub(crate) fn subcommands(&self, container: &Row) -> impl Iterator<Item = &'static Row> {
        let of = move |id: &u16| self.parents[usize::from(*id)] == Some(container.id);
        (container.id + 1..self.rows.len() as u16).take_while(of).map(|id| self.rows[usize::from(id)])
    }

    /// The category of this name, in any case.
    pub(crate) fn category(&self, name: &[u8]) -> Option<&Category> {
        self.categories.iter().find(|category| category.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

fn category(name: &'static str, rows: &[&'static Row], parents: &[Option<u16>]) -> Category {
    let acl = Acl::from_name(name.as_bytes()).expect("the name of a category");
    let (mut members, mut reach) = (Bits::none(rows.len()), Bits::none(rows.len()));
    for (row, parent) in rows.iter().zip(parents) {
        let contained = parent.is_some_and(|parent| rows[usize::from(parent)].acl.has(acl));
        members.set(row.id, row.acl.has(acl));
        reach.set(row.id, row.acl.has(acl) || contained);
    }
    Category { name, members, reach }
}
