//! Which arguments of a request are keys, and what the command does to them.
//!
//! ```text
//!  keys at fixed positions   Row::range  first, last, step        every request takes this path
//!  all others                KeySpec            begin at an index or behind a word;
//!                                               then a range, or as many as an argument says
//! ```
//!
//! Both give argument numbers; the bytes are the request's. A handler still checks its own grammar: a request whose keys
//! cannot be told ([`NoKeys`]) is one that its handler refuses.

use varve_protocol::Args;

use crate::key_spec::{Begin, Find, KeySpec};
use crate::{Flags, KeyFlags, Row};

/// The keys of a request cannot be told: a number of keys is wrong, or a position lies outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoKeys;

impl Row {
    /// Argument numbers of the keys at fixed positions in a request of `arguments` arguments; all keys, unless
    /// [`Flags::MOVABLEKEYS`] is set.
    #[inline]
    pub fn fixed_keys(&self, arguments: usize) -> impl ExactSizeIterator<Item = usize> + use<> {
        let range = self.range;
        let first = usize::from(range.first);
        let last = if range.last < 0 {
            arguments.saturating_sub(usize::from(range.last.unsigned_abs()))
        } else {
            usize::from(range.last.unsigned_abs()).min(arguments.saturating_sub(1))
        };
        let end = if first == 0 { 0 } else { last + 1 };
        (first..end.max(first)).step_by(usize::from(range.step.max(1)))
    }

    /// Visits the argument number of every key, and what is done to it. On an error some may have been visited.
    #[inline]
    pub fn for_each_key(&self, args: Args<'_>, mut visit: impl FnMut(usize)) -> Result<(), NoKeys> {
        if !self.flags.has(Flags::MOVABLEKEYS) {
            self.fixed_keys(args.len()).for_each(visit);
            return Ok(());
        }
        self.for_each_key_and_flags(args, |at, _| visit(at))
    }

    /// Visits each key like [`Row::for_each_key`], but by the specifications, and with the flags of each key.
    pub fn for_each_key_and_flags(&self, args: Args<'_>, visit: impl FnMut(usize, KeyFlags)) -> Result<(), NoKeys> {
        self.visit_keys(args, |begin| begin, visit)
    }

    /// Visits each key like [`Row::for_each_key_and_flags`], but those of GEORADIUS by the specifications that replies tell:
    /// COMMAND GETKEYS names the key of a STORE that a later STOREDIST overrides, which a command does not touch.
    pub fn for_each_told_key(&self, args: Args<'_>, visit: impl FnMut(usize, KeyFlags)) -> Result<(), NoKeys> {
        let told = |begin| if matches!(begin, Begin::LastStore(..)) { begin.told() } else { begin };
        self.visit_keys(args, told, visit)
    }

    /// Visits each key with its flags; `begin` says which beginning of a group is looked for.
    fn visit_keys(
        &self,
        args: Args<'_>,
        begin: fn(Begin) -> Begin,
        mut visit: impl FnMut(usize, KeyFlags),
    ) -> Result<(), NoKeys> {
        for spec in self.keys.iter().filter(|spec| !spec.flags.has(KeyFlags::NOT_KEY)) {
            let flags = self.vary.map_or(spec.flags, |vary| vary(args));
            spec_keys(&KeySpec { begin: begin(spec.begin), ..*spec }, args, |at| visit(at, flags))?;
        }
        Ok(())
    }
}

impl Row {
    /// Whether a request may use keys that its arguments do not name: SCAN, a SORT with patterns, a script.
    pub fn uses_unnamed_keys(&self, args: Args<'_>) -> bool {
        let has_patterns = || {
            let only_by_patterns = self.keys.iter().any(|spec| matches!(spec.begin, Begin::Unknown));
            !only_by_patterns || sort_options(args).1
        };
        self.flags.has(Flags::TOUCHES_ARBITRARY_KEYS) && has_patterns()
    }

    /// Whether the arguments say that there are 0 keys, be there a destination beside them or not.
    pub fn says_no_keys(&self, args: Args<'_>) -> bool {
        self.keys.iter().any(|spec| match (spec.find, begin(spec.begin, args)) {
            (Find::Keynum { num, .. }, Some(at)) => args.opt(at + usize::from(num)) == Some(b"0"),
            _ => false,
        })
    }
}

/// Visits the keys of one specification.
fn spec_keys(spec: &KeySpec, args: Args<'_>, mut visit: impl FnMut(usize)) -> Result<(), NoKeys> {
    let Some(begin) = begin(spec.begin, args) else { return Ok(()) };
    match spec.find {
        Find::Range { last, step, limit } => {
            let last = range_end(begin, last, limit, args.len());
            if begin >= args.len() || last >= args.len() {
                return Err(NoKeys);
            }
            (begin..=last).step_by(usize::from(step)).for_each(visit);
        }
        Find::Keynum { num, first, step } => {
            let text = args.opt(begin + usize::from(num)).ok_or(NoKeys)?;
            let count = varve_base::number::parse_i64(text).and_then(|n| usize::try_from(n).ok()).ok_or(NoKeys)?;
            let first = begin + usize::from(first);
            let room = args.len().saturating_sub(first).div_ceil(usize::from(step));
            if count > room {
                return Err(NoKeys);
            }
            (0..count).for_each(|i| visit(first + i * usize::from(step)));
        }
        Find::Unknown => visit(begin),
    }
    Ok(())
}

/// The argument at which a group begins; None if its word is not there.
fn begin(begin: Begin, args: Args<'_>) -> Option<usize> {
    match begin {
        Begin::Index(at) => Some(usize::from(at)),
        Begin::IndexWithout(at, option) => option.find(args).is_none().then_some(usize::from(at)),
        Begin::Option(option) => option.find(args),
        Begin::Keyword(word, from) if from >= 0 => {
            // A word at the end of a request has no key behind it.
            (usize::from(from.unsigned_abs())..args.len().saturating_sub(1))
                .find(|at| args.is(*at, word))
                .map(|at| at + 1)
        }
        Begin::Keyword(word, from) => {
            let last = args.len().checked_sub(usize::from(from.unsigned_abs()))?;
            (1..=last).rev().find(|at| args.is(*at, word)).map(|at| at + 1)
        }
        Begin::SortStore => sort_store(args),
        Begin::LastStore(word, from) => last_store(args, word, usize::from(from.unsigned_abs())),
        Begin::Unknown => None,
    }
}

/// The destination of a SORT: behind its last STORE, where that is no other option's argument.
fn sort_store(args: Args<'_>) -> Option<usize> {
    sort_options(args).0
}

/// The destination of a SORT, and whether it has patterns, which may lead to other keys.
fn sort_options(args: Args<'_>) -> (Option<usize>, bool) {
    let (mut found, mut has_patterns) = (None, false);
    let mut at = 2;
    while at < args.len() {
        if args.is(at, "STORE") && at + 1 < args.len() {
            at += 1;
            found = Some(at);
        } else if args.is(at, "LIMIT") {
            at += 2;
        } else if args.is(at, "GET") || args.is(at, "BY") {
            has_patterns = true;
            at += 1;
        }
        at += 1;
    }
    (found, has_patterns)
}

/// The destination of a GEORADIUS: behind its last STORE or STOREDIST, if that is the `word`.
fn last_store(args: Args<'_>, word: &str, mut at: usize) -> Option<usize> {
    let mut found = None;
    while at + 1 < args.len() {
        if args.is(at, "STORE") || args.is(at, "STOREDIST") {
            found = args.is(at, word).then_some(at + 1);
            at += 1;
        }
        at += 1;
    }
    found
}

/// The last key's argument.
fn range_end(begin: usize, last: i16, limit: u16, arguments: usize) -> usize {
    let back = usize::from(last.unsigned_abs());
    if last >= 0 {
        begin + back
    } else if limit <= 1 {
        arguments.saturating_sub(back)
    } else {
        begin + (arguments.saturating_sub(begin) / usize::from(limit)).saturating_sub(back)
    }
}

/// The key flags of a SET: with GET it reads its key too, and so it does with a condition on the string, whose answer tells
/// whether a guess was right.
pub fn set_flags(args: Args<'_>) -> KeyFlags {
    const READING: [&str; 5] = ["GET", "IFEQ", "IFNE", "IFDEQ", "IFDNE"];
    if (3..args.len()).any(|at| READING.iter().any(|word| args.is(at, word))) {
        KeyFlags::RW | KeyFlags::ACCESS | KeyFlags::UPDATE
    } else {
        KeyFlags::OW | KeyFlags::UPDATE
    }
}

/// The key flags of a DELEX: with a condition on the string it reads its key too.
pub fn delex_flags(args: Args<'_>) -> KeyFlags {
    if args.len() > 2 { KeyFlags::RW | KeyFlags::ACCESS | KeyFlags::DELETE } else { KeyFlags::RM | KeyFlags::DELETE }
}

#[cfg(test)]
mod tests {
    use super::NoKeys;
    use crate::KeysOption;
    use crate::{Begin, Find, Group, KeyFlags, KeySpec, Row};
    use varve_protocol::OwnedArgs;

    /// The keys that a command of these specifications finds in a request.
    fn keys(specs: &[KeySpec], request: &str) -> Result<String, NoKeys> {
        let owned = OwnedArgs::from_parts(request.split(' '));
        let mut found = Vec::new();
        command(specs).for_each_key(owned.args(), |at| found.push(owned.args().get(at).to_vec()))?;
        Ok(String::from_utf8(found.join(&b' ')).unwrap())
    }

    /// The keys that replies name.
    fn told_keys(specs: &[KeySpec], request: &str) -> Result<String, NoKeys> {
        let owned = OwnedArgs::from_parts(request.split(' '));
        let mut found = Vec::new();
        command(specs).for_each_told_key(owned.args(), |at, _| found.push(owned.args().get(at).to_vec()))?;
        Ok(String::from_utf8(found.join(&b' ')).unwrap())
    }

    fn command(specs: &[KeySpec]) -> Row {
        let specs: &'static [KeySpec] = Vec::leak(specs.to_vec());
        Row::new("test", Group::Generic, -1, "1.0.0").keys(specs).derive(0, false)
    }

    #[test]
    fn fixed_positions() {
        assert_eq!(keys(&[], "ping a").unwrap(), "");
        assert_eq!(keys(&[KeySpec::one(1, KeyFlags::RO)], "get a b").unwrap(), "a");
        assert_eq!(keys(&[KeySpec::range(1, -1, 1, KeyFlags::RM)], "del a b c").unwrap(), "a b c");
        assert_eq!(keys(&[KeySpec::range(1, -1, 2, KeyFlags::OW)], "mset a 1 b 2").unwrap(), "a b");
        assert_eq!(keys(&[KeySpec::range(1, -2, 1, KeyFlags::RW)], "blpop a b 0").unwrap(), "a b");
        let two = &[KeySpec::one(1, KeyFlags::RO), KeySpec::one(2, KeyFlags::OW)];
        assert_eq!(keys(two, "copy a b db 1").unwrap(), "a b");
        assert_eq!(keys(&[KeySpec::range(1, -1, 1, KeyFlags::RM)], "del").unwrap(), "");
    }

    #[test]
    fn counted_keys() {
        const SPECS: &[KeySpec] = &[KeySpec::counted(1, 2, KeyFlags::OW)];
        assert_eq!(keys(SPECS, "msetex 2 a 1 b 2 ex 9").unwrap(), "a b");
        assert_eq!(keys(SPECS, "msetex 0 a 1").unwrap(), "");
        for wrong in ["msetex 9 a 1", "msetex -1 a 1", "msetex x a 1", "msetex", "msetex 9223372036854775807 a"] {
            assert_eq!(keys(SPECS, wrong), Err(NoKeys), "{wrong}");
        }
    }

    #[test]
    fn keys_behind_a_word() {
        const HALF: Find = Find::Range { last: -1, step: 1, limit: 2 };
        const STREAMS: &[KeySpec] =
            &[KeySpec { begin: Begin::Keyword("STREAMS", 1), find: HALF, flags: KeyFlags::RO, notes: "" }];
        assert_eq!(keys(STREAMS, "xread count 2 streams a b 0 0").unwrap(), "a b");
        assert_eq!(keys(STREAMS, "xread count 2").unwrap(), "");
        const ALL: Find = Find::Range { last: -1, step: 1, limit: 0 };
        const BACK: &[KeySpec] =
            &[KeySpec { begin: Begin::Keyword("KEYS", -2), find: ALL, flags: KeyFlags::RW, notes: "" }];
        assert_eq!(keys(BACK, "migrate h p keys 0 9 keys a b").unwrap(), "a b");
    }

    #[test]
    fn an_option_names_keys_where_it_is_no_argument_of_another() {
        const KEYS: KeysOption =
            KeysOption { word: "KEYS", from: 6, takes: &[("AUTH", 1), ("AUTH2", 2)], told_from: -2 };
        let spec = |begin, last| KeySpec {
            begin,
            find: Find::Range { last, step: 1, limit: 0 },
            flags: KeyFlags::RW.and(KeyFlags::INCOMPLETE),
            notes: "",
        };
        let specs = &[spec(Begin::IndexWithout(3, KEYS), 0), spec(Begin::Option(KEYS), -1)];
        for (request, found) in [
            ("migrate h 1 k 0 9", "k"),
            ("migrate h 1 - 0 9 keys a b", "a b"),
            ("migrate h 1 - 0 9 copy KEYS KEYS keys", "KEYS keys"),
            ("migrate h 1 k 0 9 auth keys copy", "k"),
            ("migrate h 1 k 0 9 auth2 keys pw", "k"),
            ("migrate h 1 k 0 9 AUTH2 x keys replace", "k"),
            ("migrate h 1 - 0 9 AUTH2 x keys replace keys a", "a"),
            ("migrate h 1 - 0 9 auth keys keys a", "a"),
            ("migrate h 1 k 0 9 keys", "k"),
        ] {
            assert_eq!(keys(specs, request).unwrap(), found, "{request}");
        }
    }

    #[test]
    fn the_last_destination_counts() {
        let stored = |word| KeySpec {
            begin: Begin::LastStore(word, 6),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            flags: KeyFlags::OW,
            notes: "",
        };
        let specs = &[KeySpec::one(1, KeyFlags::RO), stored("STORE"), stored("STOREDIST")];
        // The keys that the command locks, and those that COMMAND GETKEYS of redis-server 7.0.15 answers.
        for (request, found, told) in [
            ("georadius k 1 1 1 m", "k", "k"),
            ("georadius k 1 1 1 m store a", "k a", "k a"),
            ("georadius k 1 1 1 m withdist STOREDIST a asc", "k a", "k a"),
            ("georadius k 1 1 1 m store a store b", "k b", "k a"),
            ("georadius k 1 1 1 m store a storedist b", "k b", "k a b"),
            ("georadius k 1 1 1 m storedist a store b", "k b", "k b a"),
            ("georadius k 1 1 1 m store store", "k store", "k store"),
            ("georadius k 1 1 1 m store a storedist", "k a", "k a"),
            ("georadius k 1 1 1 m store", "k", "k"),
        ] {
            assert_eq!(keys(specs, request).unwrap(), found, "{request}");
            assert_eq!(told_keys(specs, request).unwrap(), told, "{request}");
        }
    }
}
