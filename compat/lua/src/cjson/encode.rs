//! Writing JSON.

use crate::errors::{NOT_A_NUMBER, SPARSE};
use crate::fault::Fault;
use crate::json_settings::Config;
use crate::nesting::{at_level, has_room};
use crate::tick::{PIECE_BYTES, Pace};
use crate::values::Unlimited;
use mlua::{Lua, Result, Table, Value};
use varve_base::number::push_f64_rounded;

/// The JSON of a value, as a string of Lua's.
pub(super) fn encode(lua: &Lua, pace: &Pace<'_>, config: &Config, value: &Value) -> Result<Value> {
    let room = pace.room();
    let mut encoder = Encoder { lua, pace, config, room: &room, out: Vec::new() };
    encoder.value(value, 0, 1)?;
    room.admit(encoder.out.len())?;
    Ok(Value::String(lua.create_string(&encoder.out)?))
}

struct Encoder<'a> {
    lua: &'a Lua,
    pace: &'a Pace<'a>,
    config: &'a Config,
    room: &'a Unlimited<'a>,
    out: Vec<u8>,
}

impl Encoder<'_> {
    /// Writes a value within `depth` tables; redis-server has `slots` values on its stack then, of which this is the last.
    fn value(&mut self, value: &Value, depth: usize, slots: usize) -> Result<()> {
        self.pace.value()?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Integer(n) => self.number(*n as f64)?,
            Value::Number(n) => self.number(*n)?,
            Value::String(text) => self.text(&text.as_bytes())?,
            Value::Table(table) => return at_level(depth + 1, || self.table(table, depth + 1, slots)),
            other => {
                let text = format!("Cannot serialise {}: type not supported", other.type_name());
                return Err(Fault::text(self.lua, text));
            }
        }
        Ok(())
    }

    fn number(&mut self, n: f64) -> Result<()> {
        match (n.is_finite(), self.config.encode_invalid) {
            (true, _) => push_f64_rounded(&mut self.out, n, self.config.precision as usize),
            (false, 0) => return Err(Fault::text(self.lua, NOT_A_NUMBER)),
            (false, 1) if n.is_nan() => self.out.extend_from_slice(b"nan"),
            (false, 1) => push_f64_rounded(&mut self.out, n, 1),
            (false, _) => self.out.extend_from_slice(b"null"),
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8]) -> Result<()> {
        self.out.push(b'"');
        for piece in text.chunks(PIECE_BYTES) {
            // Each byte may become six.
            self.room.admit(self.out.len() + piece.len())?;
            piece.iter().for_each(|byte| self.letter(*byte));
            self.pace.bytes(piece.len())?;
        }
        self.out.push(b'"');
        Ok(())
    }

    fn letter(&mut self, byte: u8) {
        match byte {
            b'"' | b'\\' | b'/' => self.out.extend_from_slice(&[b'\\', byte]),
            0x08 => self.out.extend_from_slice(b"\\b"),
            b'\t' => self.out.extend_from_slice(b"\\t"),
            b'\n' => self.out.extend_from_slice(b"\\n"),
            0x0c => self.out.extend_from_slice(b"\\f"),
            b'\r' => self.out.extend_from_slice(b"\\r"),
            0..0x20 | 0x7f => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => self.out.push(byte),
        }
    }

    fn table(&mut self, table: &Table, depth: usize, slots: usize) -> Result<()> {
        if depth as i64 > self.config.encode_depth || !has_room(slots, 3) {
            return Err(Fault::text(self.lua, format!("Cannot serialise, excessive nesting ({depth})")));
        }
        self.room.admit(self.out.len())?;
        let len = self.array_len(table)?;
        if len > 0 {
            self.out.push(b'[');
            for i in 1..=len {
                if i > 1 {
                    self.out.push(b',');
                }
                if i % 1024 == 0 {
                    // A sparse array has far more places than values: each place without one is written as null.
                    self.room.admit(self.out.len())?;
                }
                self.value(&table.raw_get(i)?, depth, slots + 1)?;
            }
            self.out.push(b']');
            return Ok(());
        }
        self.out.push(b'{');
        let start = self.out.len();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if self.out.len() > start {
                self.out.push(b',');
            }
            self.key(&key)?;
            // Each value of Lua's that is held takes the place of a deeper one.
            drop(key);
            self.out.push(b':');
            self.value(&value, depth, slots + 2)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Result<()> {
        let number = match key {
            Value::String(text) => return self.text(&text.as_bytes()),
            Value::Integer(n) => *n as f64,
            Value::Number(n) => *n,
            other => {
                let text = format!("Cannot serialise {}: table key must be a number or string", other.type_name());
                return Err(Fault::text(self.lua, text));
            }
        };
        self.out.push(b'"');
        self.number(number)?;
        self.out.push(b'"');
        Ok(())
    }

    /// The greatest index of a table whose keys are whole numbers from 1 on; 0 if it is an object or empty.
    fn array_len(&self, table: &Table) -> Result<i64> {
        let (mut greatest, mut count) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            self.pace.value()?;
            match pair?.0 {
                Value::Integer(key) if key > 0 => greatest = greatest.max(key),
                _ => return Ok(0),
            }
            count += 1;
        }
        let config = self.config;
        let sparse = config.sparse_ratio > 0 && greatest > count * config.sparse_ratio && greatest > config.sparse_safe;
        match (sparse, config.sparse_convert) {
            (true, 0) => Err(Fault::text(self.lua, SPARSE)),
            (true, _) => Ok(0),
            (false, _) => Ok(greatest),
        }
    }
}
