//! Where the keys of a command stand, as its row says it: groups of keys, each with a beginning and an extent.

use varve_protocol::Args;

use crate::KeyFlags;

/// Where a group of keys begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(u16),
    /// At this argument, where the word of the [`Option`](KeysOption) is not among the options; replies tell it as
    /// [`Begin::Index`]. The first key of MIGRATE, which is empty where its word KEYS names them.
    IndexWithout(u16, KeysOption),
    /// Behind the word of the [`Option`](KeysOption); replies tell it as [`Begin::Keyword`].
    Option(KeysOption),
    /// After this word, looked for from this argument on (negative: backwards from that far before the end).
    Keyword(&'static str, i16),
    /// At the argument of SORT's last STORE, which may stand anywhere; replies tell it as unknown. One key.
    SortStore,
    /// After the last STORE or STOREDIST from this argument on, if that is this word; replies tell it as
    /// [`Begin::Keyword`]. One key: the words of GEORADIUS.
    LastStore(&'static str, i16),
    /// It cannot be told from the arguments.
    Unknown,
}

/// An option that ends the others and names keys: the KEYS of MIGRATE. Another option's argument may be the same word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysOption {
    /// The word.
    pub word: &'static str,
    /// The first argument that may be an option.
    pub from: u16,
    /// The options that take arguments, and how many.
    pub takes: &'static [(&'static str, usize)],
    /// Where replies say that the word is looked for.
    pub told_from: i16,
}

impl KeysOption {
    /// The first argument behind the word; None if it is not there, or is the last argument.
    pub fn find(&self, args: Args<'_>) -> Option<usize> {
        let mut at = usize::from(self.from);
        while at + 1 < args.len() {
            if args.is(at, self.word) {
                return Some(at + 1);
            }
            let takes = self.takes.iter().find(|(word, _)| args.is(at, word)).map_or(0, |(_, takes)| *takes);
            at += 1 + takes;
        }
        None
    }
}

impl Begin {
    /// The beginning in the form that replies tell it.
    pub const fn told(self) -> Self {
        match self {
            Begin::IndexWithout(at, _) => Begin::Index(at),
            Begin::Option(option) => Begin::Keyword(option.word, option.told_from),
            Begin::LastStore(word, from) => Begin::Keyword(word, from),
            told => told,
        }
    }
}

/// Which arguments from the beginning on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Every `step`-th up to `last`: relative to the beginning, or from the end if negative; with a `limit` of 2 or
    /// more, only the first one-limit-th of the arguments that are left.
    Range {
        /// Last key.
        last: i16,
        /// Distance of keys.
        step: u16,
        /// Divisor of the arguments that are left, 0 and 1 for all.
        limit: u16,
    },
    /// An argument holds the number of keys. All positions are relative to the beginning.
    Keynum {
        /// Where the number is.
        num: u16,
        /// Where the first key is.
        first: u16,
        /// Distance of keys.
        step: u16,
    },
    /// It cannot be told from the arguments.
    Unknown,
}

/// One group of keys among a command's arguments.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Where it begins.
    pub begin: Begin,
    /// How far it goes.
    pub find: Find,
    /// The bits that say what is done to the keys.
    pub flags: KeyFlags,
    /// A remark that COMMAND INFO shows, or empty.
    pub notes: &'static str,
}

/// Keys at fixed positions: `first` and every `step`-th up to `last` (negative: from the end); `first` 0: no keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// First key's argument.
    pub first: u16,
    /// Last key's argument.
    pub last: i16,
    /// Distance.
    pub step: u16,
}

impl KeySpec {
    /// Keys from argument `first` up to `last` (relative to it, negative: from the end), every `step`-th.
    pub const fn range(first: u16, last: i16, step: u16, flags: KeyFlags) -> KeySpec {
        KeySpec { begin: Begin::Index(first), find: Find::Range { last, step, limit: 0 }, flags, notes: "" }
    }

    /// One key.
    pub const fn one(at: u16, flags: KeyFlags) -> KeySpec {
        KeySpec::range(at, 0, 1, flags)
    }

    /// As many keys as the argument `at` says, behind it, every `step`-th.
    pub const fn counted(at: u16, step: u16, flags: KeyFlags) -> KeySpec {
        KeySpec { begin: Begin::Index(at), find: Find::Keynum { num: 0, first: 1, step }, flags, notes: "" }
    }

    /// With a remark.
    pub const fn notes(self, notes: &'static str) -> KeySpec {
        KeySpec { notes, ..self }
    }
}

/// First, last and step as clients of old know them, and whether some keys are elsewhere. Several specifications make
/// one range if each continues where the one before ended.
pub(crate) fn legacy_range(specs: &[KeySpec]) -> (KeyRange, bool) {
    let mut range = KeyRange::default();
    let mut movable = false;
    for spec in specs {
        let (Begin::Index(first) | Begin::IndexWithout(first, _), Find::Range { last, step, .. }) =
            (spec.begin, spec.find)
        else {
            movable = true;
            continue;
        };
        let last = if last < 0 { last } else { last + first as i16 };
        movable |= spec.flags.has(KeyFlags::INCOMPLETE);
        if range.first == 0 {
            range = KeyRange { first, last, step };
        } else if step == 1 && range.step == 1 && range.last == first as i16 - 1 {
            range.last = last;
        } else {
            movable = true;
        }
    }
    (range, movable)
}
