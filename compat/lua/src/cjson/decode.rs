//! Reading JSON. A zero byte ends the text, as in C.

use crate::errors::{BAD_ESCAPE, BAD_NUMBER, BAD_TOKEN, BAD_UNICODE, NOT_UTF_8, OPEN_STRING};
use crate::fault::Fault;
use crate::json_settings::Config;
use crate::nesting::{at_level, has_room};
use crate::tick::{PIECE_BYTES, Pace};
use crate::values::Unlimited;
use mlua::{Lua, Result, Value};
use varve_base::number::parse_f64_clamped;

/// A piece of the text. Errors name it by [`Token::name`].
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(text) => text,
        }
    }
}

/// The value of a JSON text.
pub(super) fn decode(lua: &Lua, pace: &Pace<'_>, config: &Config, text: &[u8]) -> Result<Value> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Fault::text(lua, NOT_UTF_8));
    }
    let room = pace.room();
    let mut decoder = Decoder { lua, pace, config, room: &room, text, at: 0, token_at: 0, depth: 0, slots: 1 };
    let token = decoder.next()?;
    let value = decoder.value(token)?;
    match decoder.next()? {
        Token::End => Ok(value),
        other => Err(decoder.expected("the end", &other)),
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    pace: &'a Pace<'a>,
    config: &'a Config,
    room: &'a Unlimited<'a>,
    text: &'a [u8],
    at: usize,
    /// Where the last token begins, or where it is wrong.
    token_at: usize,
    /// Objects and arrays that are open.
    depth: usize,
    /// Values that redis-server has on its stack here: the text, and those of what is open.
    slots: usize,
}

impl Decoder<'_> {
    /// The byte `ahead` of the next one; 0 behind the end.
    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn expected(&self, what: &str, found: &Token) -> mlua::Error {
        let text = format!("Expected {what} but found {} at character {}", found.name(), self.token_at + 1);
        Fault::text(self.lua, text)
    }

    fn next(&mut self) -> Result<Token> {
        while matches!(self.byte(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
            if self.at.is_multiple_of(PIECE_BYTES) {
                self.pace.bytes(PIECE_BYTES)?;
            }
        }
        self.token_at = self.at;
        let single = match self.byte(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Ok(Token::End),
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                let refused = self.config.decode_invalid == 0 && self.is_invalid_number();
                return Ok(if refused { Token::Error(BAD_NUMBER) } else { self.number() });
            }
            _ => return Ok(self.word()),
        };
        self.at += 1;
        Ok(single)
    }

    fn word(&mut self) -> Token {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let (token, len) = if rest.starts_with(b"true") {
            (Token::Boolean(true), 4)
        } else if rest.starts_with(b"false") {
            (Token::Boolean(false), 5)
        } else if rest.starts_with(b"null") {
            (Token::Null, 4)
        } else if self.config.decode_invalid != 0 && self.is_invalid_number() {
            return self.number();
        } else {
            return Token::Error(BAD_TOKEN);
        };
        self.at += len;
        token
    }

    /// True for what C reads as a number and JSON does not: a plus, hexadecimal, zeros before it, infinity, NaN.
    fn is_invalid_number(&self) -> bool {
        if self.byte(0) == b'+' {
            return true;
        }
        let sign = usize::from(self.byte(0) == b'-');
        match self.byte(sign) {
            b'0' => matches!(self.byte(sign + 1), b'x' | b'X' | b'0'..=b'9'),
            0..=b'9' => false,
            _ => {
                let word: [u8; 3] = std::array::from_fn(|i| self.byte(sign + i).to_ascii_lowercase());
                word == *b"inf" || word == *b"nan"
            }
        }
    }

    /// The number that C's `strtod` reads.
    fn number(&mut self) -> Token {
        let len = number_len(&self.text[self.at..]);
        let text = &self.text[self.at..self.at + len];
        let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
        let number = match unsigned.first() {
            None => return Token::Error(BAD_NUMBER),
            Some(b'n' | b'N') => f64::NAN,
            Some(_) => match parse_f64_clamped(text) {
                Some(number) => number,
                None => return Token::Error(BAD_NUMBER),
            },
        };
        self.at += len;
        Token::Number(number)
    }

    fn string(&mut self) -> Result<Token> {
        let mut text = Vec::new();
        self.at += 1;
        let mut look_at = self.at + PIECE_BYTES;
        loop {
            if self.at >= look_at {
                // The text is in memory twice until it is a string of Lua's.
                self.room.admit(text.len())?;
                self.pace.bytes(PIECE_BYTES)?;
                look_at = self.at + PIECE_BYTES;
            }
            let byte = self.byte(0);
            self.token_at = self.at;
            match byte {
                b'"' => break,
                0 => return Ok(Token::Error(OPEN_STRING)),
                b'\\' => match self.escape(&mut text) {
                    Ok(len) => self.at += len,
                    Err(error) => return Ok(Token::Error(error)),
                },
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Ok(Token::Text(text))
    }

    /// The letter behind a backslash; gives the length of the escape.
    fn escape(&self, to: &mut Vec<u8>) -> std::result::Result<usize, &'static str> {
        let byte = match self.byte(1) {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (letter, len) = self.unicode().ok_or(BAD_UNICODE)?;
                to.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(len);
            }
            _ => return Err(BAD_ESCAPE),
        };
        to.push(byte);
        Ok(2)
    }

    /// `\u` and four digits, or two of them for a letter beyond 16 bits.
    fn unicode(&self) -> Option<(char, usize)> {
        let first = self.hex(2)?;
        if let Some(letter) = char::from_u32(first) {
            return Some((letter, 6));
        }
        let second = (self.byte(6) == b'\\' && self.byte(7) == b'u').then(|| self.hex(8)).flatten()?;
        let pair = (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second);
        let point = 0x10000 + ((first & 0x3ff) << 10) + (second & 0x3ff);
        pair.then(|| char::from_u32(point)).flatten().map(|letter| (letter, 12))
    }

    fn hex(&self, ahead: usize) -> Option<u32> {
        (0..4).try_fold(0, |all, i| Some(all << 4 | char::from(self.byte(ahead + i)).to_digit(16)?))
    }

    fn value(&mut self, token: Token) -> Result<Value> {
        self.room.admit(0)?;
        self.pace.value()?;
        match token {
            Token::Text(text) => {
                self.room.admit(text.len())?;
                Ok(Value::String(self.lua.create_string(text)?))
            }
            Token::Number(n) => Ok(Value::Number(n)),
            Token::Boolean(value) => Ok(Value::Boolean(value)),
            Token::Null => Ok(Value::NULL),
            Token::ObjectBegin => at_level(self.depth + 1, || self.object()),
            Token::ArrayBegin => at_level(self.depth + 1, || self.array()),
            other => Err(self.expected("value", &other)),
        }
    }

    /// Opens an object or an array, for which redis-server asks for room for `slots` values.
    fn descend(&mut self, slots: usize) -> Result<()> {
        self.depth += 1;
        if self.depth as i64 <= self.config.decode_depth && has_room(self.slots, slots) {
            return Ok(());
        }
        let (depth, at) = (self.depth, self.at);
        Err(Fault::text(self.lua, format!("Found too many nested data structures ({depth}) at character {at}")))
    }

    fn object(&mut self) -> Result<Value> {
        self.descend(3)?;
        let table = self.lua.create_table()?;
        let mut token = self.next()?;
        if !matches!(token, Token::ObjectEnd) {
            loop {
                let Token::Text(key) = token else { return Err(self.expected("object key string", &token)) };
                match self.next()? {
                    Token::Colon => {}
                    other => return Err(self.expected("colon", &other)),
                }
                self.room.admit(key.len())?;
                self.pace.value()?;
                let token_of_value = self.next()?;
                self.slots += 2;
                let value = self.value(token_of_value)?;
                self.slots -= 2;
                // Not before: each string of Lua's that is held takes the place of a deeper value.
                table.raw_set(self.lua.create_string(key)?, value)?;
                match self.next()? {
                    Token::ObjectEnd => break,
                    Token::Comma => token = self.next()?,
                    other => return Err(self.expected("comma or object end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> Result<Value> {
        self.descend(2)?;
        let table = self.lua.create_table()?;
        let mut token = self.next()?;
        if !matches!(token, Token::ArrayEnd) {
            for i in 1.. {
                self.slots += 1;
                table.raw_set(i, self.value(token)?)?;
                self.slots -= 1;
                match self.next()? {
                    Token::ArrayEnd => break,
                    Token::Comma => token = self.next()?,
                    other => return Err(self.expected("comma or array end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}

/// Bytes of the longest number at the front, in C's grammar.
fn number_len(text: &[u8]) -> usize {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let sign = usize::from(matches!(byte(0), b'-' | b'+'));
    let word = |word: &[u8]| text.get(sign..sign + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word));
    if word(b"infinity") {
        return sign + 8;
    }
    if word(b"inf") || word(b"nan") {
        return sign + 3;
    }
    let hex = byte(sign) == b'0' && byte(sign + 1) | 0x20 == b'x' && byte(sign + 2).is_ascii_hexdigit();
    let start = if hex { sign + 2 } else { sign };
    let is_digit = |b: u8| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
    let run = |from: usize| text[from..].iter().take_while(|b| is_digit(**b)).count();
    let whole = run(start);
    let mut at = start + whole;
    if byte(at) == b'.' {
        let fraction = run(at + 1);
        if whole + fraction > 0 {
            at += 1 + fraction;
        }
    }
    if at == start {
        return 0;
    }
    let mark = if hex { b'p' } else { b'e' };
    if byte(at) | 0x20 == mark {
        let signed = usize::from(matches!(byte(at + 1), b'-' | b'+'));
        let digits = text.get(at + 1 + signed..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 {
            at += 1 + signed + digits;
        }
    }
    at
}
