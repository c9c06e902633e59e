//! Lua's patterns, for subjects and patterns over which matching may take long: it asks the host whether the script goes on.
//!
//! ```text
//!   string.find, match, gmatch, gsub --short--> C, as it is: nothing can end it, and it ends within a slice
//!                                    --long---> scan: the first match from a place on; the rest is the prelude's
//!   string.find of a plain text      --long---> seek: where it stands first
//! ```
//! A plain text of n bytes may be compared with each place of a subject of m bytes. A pattern with n quantifiers may look at a subject of m bytes about m^(n+1) times, which C does in one go: neither rests nor
//! SCRIPT KILL would reach such a script. Results and messages are those of Lua 5.1, whose patterns end at a zero byte.
//!
//! Not here: which are long, and replacing (`sandbox/prelude.lua`).

use std::rc::Rc;

use mlua::{IntoLuaMulti, Lua, LuaString, MultiValue, Result, Value};

use crate::fault::fault_in_script;
use crate::shared::Shared;
use crate::tick::{PIECE_BYTES, Pace};

/// The letter that begins a class or takes a letter for itself.
const ESCAPE: u8 = b'%';
/// Captures of a pattern at most.
const CAPTURES_MAX: usize = 32;
/// Bytes that are compared in a step.
const STEP_BYTES: usize = 64;

/// The function `scan(subject, pattern, from, literal_caret)`: the first match at byte number `from`, from 1, or behind it.
/// Gives first byte, last byte and captures, or nothing. A `^` at the beginning holds the match to `from`, or is a letter.
pub(crate) fn scan(
    lua: &Lua,
    shared: &Rc<Shared>,
    (subject, pattern, from, literal_caret): (LuaString, LuaString, usize, Option<bool>),
) -> Result<MultiValue> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let pattern = pattern.split(|byte| *byte == 0).next().unwrap_or_default();
    let anchored = pattern.first() == Some(&b'^') && literal_caret != Some(true);
    let first = usize::from(anchored);
    let pace = Pace::new(lua, shared);
    let mut matcher = Matcher { lua, pace, subject: &subject, pattern, captures: Vec::new() };
    for at in from - 1..=subject.len() {
        matcher.captures.clear();
        if let Some(end) = matcher.run(at, first)? {
            return matcher.found(at, end);
        }
        if anchored {
            break;
        }
        matcher.pace.spend(1)?;
    }
    Ok(MultiValue::new())
}

/// The function `seek(subject, text, from, ends_at_zero)`: where `text`, or its bytes before the first zero, stands first at byte
/// number `from`, from 1, or behind it. Gives its first and its last byte, or nothing.
pub(crate) fn seek(
    lua: &Lua,
    shared: &Rc<Shared>,
    (subject, text, from, ends_at_zero): (LuaString, LuaString, usize, Option<bool>),
) -> Result<MultiValue> {
    let (subject, text) = (subject.as_bytes(), text.as_bytes());
    let before_zero = || text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = if ends_at_zero == Some(true) { before_zero() } else { &*text };
    let pace = Pace::new(lua, shared);
    let Some(first) = text.first() else { return (from, from - 1).into_lua_multi(lua) };
    let mut at = from - 1;
    while subject.len() - at >= text.len() {
        let piece = &subject[at..subject.len().min(at + PIECE_BYTES)];
        let passed = piece.iter().position(|byte| byte == first);
        pace.spend(1 + passed.unwrap_or(piece.len()) / STEP_BYTES)?;
        at += passed.unwrap_or(piece.len());
        if passed.is_some() {
            if subject.len() - at >= text.len() && is_same(&pace, &subject[at..at + text.len()], text)? {
                return (at + 1, at + text.len()).into_lua_multi(lua);
            }
            at += 1;
        }
    }
    Ok(MultiValue::new())
}

/// Compares two texts of one length piece by piece.
fn is_same(pace: &Pace<'_>, one: &[u8], other: &[u8]) -> Result<bool> {
    debug_assert_eq!(one.len(), other.len());
    for (one, other) in one.chunks(PIECE_BYTES).zip(other.chunks(PIECE_BYTES)) {
        pace.spend(one.len() / STEP_BYTES)?;
        if one != other {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The function `specials(pattern)`: how many of its letters before the first zero are no plain text, and how many of them matching
/// nests for.
pub(crate) fn specials(lua: &Lua, shared: &Rc<Shared>, pattern: LuaString) -> Result<(usize, usize)> {
    let pace = Pace::new(lua, shared);
    let (mut letters, mut nested) = (0, 0);
    for piece in pattern.as_bytes().chunks(PIECE_BYTES) {
        pace.bytes(piece.len())?;
        let end = piece.iter().position(|letter| *letter == 0);
        let piece = &piece[..end.unwrap_or(piece.len())];
        letters += piece.iter().filter(|letter| b"^$*+?.([%-".contains(letter)).count();
        nested += piece.iter().filter(|letter| b"?*+()-".contains(letter)).count();
        if end.is_some() {
            break;
        }
    }
    Ok((letters, nested))
}

/// A part of the subject that the pattern has in parentheses.
#[derive(Clone, Copy)]
struct Capture {
    from: usize,
    kind: CaptureKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CaptureKind {
    /// Its end is not reached.
    Open,
    /// `()`: the place alone.
    Place,
    /// This number of bytes.
    Bytes(usize),
}

/// A pattern at work. Places in subject and pattern count from 0.
struct Matcher<'m> {
    lua: &'m Lua,
    /// A step is a unit.
    pace: Pace<'m>,
    subject: &'m [u8],
    pattern: &'m [u8],
    captures: Vec<Capture>,
}

impl Matcher<'_> {
    fn fail<T>(&self, text: &str) -> Result<T> {
        Err(fault_in_script(self.lua, text.as_bytes()))
    }

    fn letter(&self, p: usize) -> Option<u8> {
        self.pattern.get(p).copied()
    }

    /// Matches the pattern from `p` on with the subject from `s` on; the place behind the match.
    fn run(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>> {
        loop {
            self.pace.spend(1)?;
            let next = match (self.letter(p), self.letter(p + 1)) {
                (None, _) => return Ok(Some(s)),
                (Some(b'('), Some(b')')) => return self.begin_capture(s, p + 2, CaptureKind::Place),
                (Some(b'('), _) => return self.begin_capture(s, p + 1, CaptureKind::Open),
                (Some(b')'), _) => return self.end_capture(s, p + 1),
                (Some(b'$'), None) => return Ok((s == self.subject.len()).then_some(s)),
                (Some(ESCAPE), Some(b'b')) => self.balanced(s, p + 2)?.map(|s| (s, p + 4)),
                (Some(ESCAPE), Some(b'f')) => self.frontier(s, p + 2)?.map(|p| (s, p)),
                (Some(ESCAPE), Some(digit @ b'0'..=b'9')) => self.again(s, digit)?.map(|s| (s, p + 2)),
                _ => {
                    let end = self.class_end(p)?;
                    let fits = self.fits(s, p, end);
                    match self.letter(end) {
                        Some(b'?') => {
                            if fits && let Some(found) = self.run(s + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            Some((s, end + 1))
                        }
                        Some(b'*') => return self.most(s, p, end),
                        Some(b'+') => return if fits { self.most(s + 1, p, end) } else { Ok(None) },
                        Some(b'-') => return self.least(s, p, end),
                        _ => fits.then_some((s + 1, end)),
                    }
                }
            };
            match next {
                Some(next) => (s, p) = next,
                None => return Ok(None),
            }
        }
    }

    /// The place in the pattern behind the single-letter class at `p`.
    fn class_end(&self, p: usize) -> Result<usize> {
        match self.pattern[p] {
            ESCAPE if p + 1 == self.pattern.len() => self.fail("malformed pattern (ends with '%')"),
            ESCAPE => Ok(p + 2),
            b'[' => {
                let mut at = p + 1 + usize::from(self.letter(p + 1) == Some(b'^'));
                // The first letter is one of the set, a bracket too.
                loop {
                    let Some(letter) = self.letter(at) else { return self.fail("malformed pattern (missing ']')") };
                    at += 1 + usize::from(letter == ESCAPE && at + 1 < self.pattern.len());
                    if self.letter(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the letter of the subject at `s` is in the class from `p` to `end`.
    fn fits(&self, s: usize, p: usize, end: usize) -> bool {
        self.subject.get(s).is_some_and(|letter| match self.pattern[p] {
            b'.' => true,
            ESCAPE => in_class(*letter, self.pattern[p + 1]),
            b'[' => in_set(*letter, &self.pattern[p + 1..end - 1]),
            literal => literal == *letter,
        })
    }

    /// `*` and the rest of `+`: as many as there are, then fewer.
    fn most(&mut self, s: usize, p: usize, end: usize) -> Result<Option<usize>> {
        let mut count = 0;
        while self.fits(s + count, p, end) {
            count += 1;
            self.pace.spend(1)?;
        }
        for count in (0..=count).rev() {
            if let Some(found) = self.run(s + count, end + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// `-`: as few as possible.
    fn least(&mut self, mut s: usize, p: usize, end: usize) -> Result<Option<usize>> {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.fits(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// `%bxy`: from an x to its y.
    fn balanced(&mut self, s: usize, p: usize) -> Result<Option<usize>> {
        let (Some(open), Some(close)) = (self.letter(p), self.letter(p + 1)) else {
            return self.fail("unbalanced pattern");
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.subject.len() {
            self.pace.spend(1)?;
            if self.subject[at] == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if self.subject[at] == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: a border where the set begins. The place in the pattern behind it.
    fn frontier(&self, s: usize, p: usize) -> Result<Option<usize>> {
        if self.letter(p) != Some(b'[') {
            return self.fail("missing '[' after '%f' in pattern");
        }
        let end = self.class_end(p)?;
        let set = &self.pattern[p + 1..end - 1];
        let before = s.checked_sub(1).map_or(0, |before| self.subject[before]);
        let here = self.subject.get(s).copied().unwrap_or(0);
        Ok((!in_set(before, set) && in_set(here, set)).then_some(end))
    }

    /// `%1`: the bytes of a capture once more.
    fn again(&mut self, s: usize, digit: u8) -> Result<Option<usize>> {
        let capture = usize::from(digit).checked_sub(usize::from(b'1')).and_then(|number| self.captures.get(number));
        match capture.copied() {
            None | Some(Capture { kind: CaptureKind::Open, .. }) => self.fail("invalid capture index"),
            Some(Capture { kind: CaptureKind::Place, .. }) => Ok(None),
            Some(Capture { from, kind: CaptureKind::Bytes(len) }) => {
                let (captured, rest) = (&self.subject[from..from + len], &self.subject[s..]);
                let fits = rest.len() >= len && is_same(&self.pace, &rest[..len], captured)?;
                Ok(fits.then_some(s + len))
            }
        }
    }

    fn begin_capture(&mut self, s: usize, p: usize, kind: CaptureKind) -> Result<Option<usize>> {
        if self.captures.len() >= CAPTURES_MAX {
            return self.fail("too many captures");
        }
        self.captures.push(Capture { from: s, kind });
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Result<Option<usize>> {
        let Some(number) = self.captures.iter().rposition(|capture| capture.kind == CaptureKind::Open) else {
            return self.fail("invalid pattern capture");
        };
        self.captures[number].kind = CaptureKind::Bytes(s - self.captures[number].from);
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures[number].kind = CaptureKind::Open;
        }
        Ok(found)
    }

    /// A match from `first` up to `end`, and its captures.
    fn found(&self, first: usize, end: usize) -> Result<MultiValue> {
        let mut values = (first + 1, end).into_lua_multi(self.lua)?;
        for capture in &self.captures {
            values.push_back(match capture.kind {
                CaptureKind::Open => return self.fail("unfinished capture"),
                CaptureKind::Place => Value::Integer(capture.from as i64 + 1),
                CaptureKind::Bytes(len) => {
                    Value::String(self.lua.create_string(&self.subject[capture.from..capture.from + len])?)
                }
            });
        }
        Ok(values)
    }
}

/// Whether a letter is in the class `%class`: letters of ASCII, or one that stands for itself.
fn in_class(letter: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => letter.is_ascii_alphabetic(),
        b'c' => letter.is_ascii_control(),
        b'd' => letter.is_ascii_digit(),
        b'l' => letter.is_ascii_lowercase(),
        b'p' => letter.is_ascii_punctuation(),
        b's' => letter.is_ascii_whitespace() || letter == 0x0b,
        b'u' => letter.is_ascii_uppercase(),
        b'w' => letter.is_ascii_alphanumeric(),
        b'x' => letter.is_ascii_hexdigit(),
        b'z' => letter == 0,
        _ => return letter == class,
    };
    is_in != class.is_ascii_uppercase()
}

/// Whether a letter is in a set, given without its brackets.
fn in_set(letter: u8, set: &[u8]) -> bool {
    let (mut rest, wanted) = match set {
        [b'^', rest @ ..] => (rest, false),
        _ => (set, true),
    };
    loop {
        let (is_in, len) = match rest {
            [] => return !wanted,
            [ESCAPE, class, ..] => (in_class(letter, *class), 2),
            [from, b'-', to, ..] => ((*from..=*to).contains(&letter), 3),
            [literal, ..] => (*literal == letter, 1),
        };
        if is_in {
            return wanted;
        }
        rest = &rest[len..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Settings;

    /// The matches of random patterns, whole and broken ones, in random subjects are those of Lua's own functions.
    #[test]
    fn matches_are_those_of_lua() {
        let lua = Lua::new();
        let shared = Rc::new(Shared::new(Settings::default(), std::sync::Arc::default()));
        let scan = lua.create_function(move |lua, args| scan(lua, &shared, args)).unwrap();
        let compare = lua
            .load(
                r"local scan, subject, pattern = ...
                local function told(ok, ...)
                    if ok then return select('#', ...), ... end
                    return 'error', (tostring(...):gsub('\nstack.*', ''):gsub('^.-:%d+: ', ''):gsub('^runtime error: ', ''))
                end
                local ours, theirs = { told(pcall(scan, subject, pattern, 1)) }, { told(pcall(string.find, subject, pattern)) }
                if theirs[1] == 1 then theirs = { 0 } end
                local same = #ours == #theirs
                for at = 1, #theirs do same = same and ours[at] == theirs[at] end
                return same, tostring(ours[1]) .. ' ' .. tostring(ours[2]) .. ' ' .. tostring(theirs[1]) .. ' ' .. tostring(theirs[2])",
            )
            .into_function()
            .unwrap();
        let mut random = varve_base::rng::Rng::seeded(5);
        let parts: [&[u8]; 26] = [
            b"a", b"b", b"x", b".", b"%a", b"%d", b"%S", b"%z", b"[ab]", b"[^a]", b"[a-c]", b"[%d-]", b"[]x]", b"(",
            b")", b"()", b"*", b"+", b"-", b"?", b"%b()", b"%f[%w]", b"%1", b"^", b"$", b"%",
        ];
        let letters = b"aabbcx1 ()-]\0";
        for _ in 0..60_000 {
            let count = random.below(7);
            let pattern: Vec<u8> =
                (0..count).flat_map(|_| parts[random.below(parts.len() as u64) as usize].to_vec()).collect();
            // Without any of these letters it is no pattern to Lua's find.
            if !pattern.iter().any(|letter| b"^$*+?.([%-".contains(letter)) {
                continue;
            }
            let count = random.below(9);
            let subject: Vec<u8> = (0..count).map(|_| letters[random.below(letters.len() as u64) as usize]).collect();
            let args = (&scan, lua.create_string(&subject).unwrap(), lua.create_string(&pattern).unwrap());
            let (same, what): (bool, String) = compare.call(args).unwrap();
            assert!(same, "{} in {}: {what}", pattern.escape_ascii(), subject.escape_ascii());
        }
    }
}
