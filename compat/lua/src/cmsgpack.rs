//! The library `cmsgpack`: MessagePack as lua-cmsgpack 0.4 reads and writes it.

use crate::args::Checked;
use crate::errors::{BAD_FORMAT, MISSING_BYTES, PACK_NOTHING};
use crate::fault::Fault;
use crate::nesting::{at_level, has_room};
use crate::shared::Shared;
use crate::tick::Pace;
use crate::values::Unlimited;
use mlua::{Lua, MultiValue, Result, Table, Value};
use std::rc::Rc;

/// Tables within each other that are written; a deeper one becomes nil.
const PACK_DEPTH_MAX: u32 = 16;

/// The table `cmsgpack`.
pub(crate) fn table(lua: &Lua, shared: &Rc<Shared>) -> Result<Table> {
    let library = lua.create_table()?;
    let ours = Rc::clone(shared);
    library.raw_set("pack", lua.create_function(move |lua, values| pack(lua, &ours, values))?)?;
    for name in ["unpack", "unpack_one", "unpack_limit"] {
        let ours = Rc::clone(shared);
        library.raw_set(name, lua.create_function(move |lua, values| unpack(lua, &ours, &values, name))?)?;
    }
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    library.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(library)
}

fn pack(lua: &Lua, shared: &Shared, values: MultiValue) -> Result<Value> {
    if values.is_empty() {
        return Err(Checked { lua, values: &values, name: "pack" }.bad(0, PACK_NOTHING));
    }
    let pace = Pace::new(lua, shared);
    let room = pace.room();
    let mut output = Output { bytes: Vec::new(), room: &room, pace };
    for value in &values {
        output.put(value, 0)?;
    }
    room.admit(output.bytes.len())?;
    Ok(Value::String(lua.create_string(output.bytes)?))
}

/// The bytes of values that are packed.
struct Output<'a> {
    bytes: Vec<u8>,
    room: &'a Unlimited<'a>,
    pace: Pace<'a>,
}

impl Output<'_> {
    fn put(&mut self, value: &Value, depth: u32) -> Result<()> {
        self.pace.value()?;
        let out = &mut self.bytes;
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                self.room.admit(out.len() + text.len())?;
                put_len(out, text.len(), [(31, 0xa0), (0xff, 0xd9), (0xffff, 0xda), (u32::MAX as usize, 0xdb)]);
                out.extend_from_slice(&text);
            }
            Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
            Value::Integer(n) => put_integer(out, *n),
            Value::Number(n) => put_number(out, *n),
            Value::Table(table) if depth < PACK_DEPTH_MAX => return self.put_table(table, depth + 1),
            _ => out.push(0xc0),
        }
        Ok(())
    }

    /// An array, if the keys are the numbers from 1 on; else a map.
    fn put_table(&mut self, table: &Table, depth: u32) -> Result<()> {
        let (mut count, mut greatest, mut is_array) = (0, 0, true);
        for pair in table.pairs::<Value, Value>() {
            self.pace.value()?;
            match pair?.0 {
                Value::Integer(key) if key > 0 => greatest = greatest.max(key),
                _ => is_array = false,
            }
            count += 1;
        }
        self.room.admit(self.bytes.len())?;
        if is_array && greatest == count {
            let forms = [(15, 0x90), (0, 0), (0xffff, 0xdc), (u32::MAX as usize, 0xdd)];
            put_len(&mut self.bytes, count as usize, forms);
            for i in 1..=count {
                self.put(&table.raw_get(i)?, depth)?;
            }
            return Ok(());
        }
        let forms = [(15, 0x80), (0, 0), (0xffff, 0xde), (u32::MAX as usize, 0xdf)];
        put_len(&mut self.bytes, count as usize, forms);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.put(&key, depth)?;
            self.put(&value, depth)?;
        }
        Ok(())
    }
}

fn put_integer(out: &mut Vec<u8>, n: i64) {
    match n {
        -32..=0x7f => out.push(n as u8),
        0x80..=0xff => out.extend_from_slice(&[0xcc, n as u8]),
        0x100..=0xffff => put_tagged(out, 0xcd, &(n as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => put_tagged(out, 0xce, &(n as u32).to_be_bytes()),
        0x1_0000_0000.. => put_tagged(out, 0xcf, &n.to_be_bytes()),
        -0x80..-32 => out.extend_from_slice(&[0xd0, n as u8]),
        -0x8000..-0x80 => put_tagged(out, 0xd1, &(n as i16).to_be_bytes()),
        -0x8000_0000..-0x8000 => put_tagged(out, 0xd2, &(n as i32).to_be_bytes()),
        _ => put_tagged(out, 0xd3, &n.to_be_bytes()),
    }
}

/// Four bytes if they hold the number without loss.
fn put_number(out: &mut Vec<u8>, n: f64) {
    if n == 0.0 {
        put_integer(out, 0);
    } else if f64::from(n as f32) == n {
        put_tagged(out, 0xca, &(n as f32).to_be_bytes());
    } else {
        put_tagged(out, 0xcb, &n.to_be_bytes());
    }
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

/// A length in the smallest of four forms, each with its greatest length and its tag; the first holds it in the tag.
fn put_len(out: &mut Vec<u8>, len: usize, forms: [(usize, u8); 4]) {
    let [(in_tag, fixed), (in_byte, byte), (in_two, two), (_, four)] = forms;
    if len <= in_tag {
        out.push(fixed | len as u8);
    } else if len <= in_byte {
        out.extend_from_slice(&[byte, len as u8]);
    } else if len <= in_two {
        put_tagged(out, two, &(len as u16).to_be_bytes());
    } else {
        put_tagged(out, four, &(len as u32).to_be_bytes());
    }
}

/// The ways in which a text is wrong.
enum Wrong {
    Missing,
    Format,
    Raised(mlua::Error),
}

impl From<mlua::Error> for Wrong {
    fn from(error: mlua::Error) -> Wrong {
        Wrong::Raised(error)
    }
}

/// `unpack` gives all values; the others give at most `limit`, behind the offset of the next.
fn unpack(lua: &Lua, shared: &Shared, values: &MultiValue, name: &str) -> Result<MultiValue> {
    let args = Checked { lua, values, name };
    let text = args.text(1)?;
    let text = text.as_ref();
    let (limit, offset) = match name {
        "unpack_one" => (1, args.number_or(2, 0.0)? as i64),
        "unpack_limit" => (args.number(2)? as i64, args.number_or(3, 0.0)? as i64),
        _ => (0, 0),
    };
    if offset < 0 || limit < 0 {
        let len = text.len();
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {len}.");
        return Err(Fault::text(lua, text));
    }
    let Some(input) = text.get(offset as usize..) else {
        let text = format!("Start offset {offset} greater than input length {}.", text.len());
        return Err(Fault::text(lua, text));
    };
    let all = limit == 0 && offset == 0;
    let pace = Pace::new(lua, shared);
    let room = pace.room();
    // All arguments stay on redis-server's stack, or the text alone.
    let slots = if name == "unpack" { values.len() } else { 1 };
    let mut input = Input { lua, room: &room, pace, rest: input, level: 0, slots };
    let mut found = MultiValue::new();
    while !input.rest.is_empty() && (all || (found.len() as i64) < limit) {
        match input.value() {
            Ok(value) => found.push_back(value),
            Err(Wrong::Missing) => return Err(Fault::text(lua, MISSING_BYTES)),
            Err(Wrong::Format) => return Err(Fault::text(lua, BAD_FORMAT)),
            Err(Wrong::Raised(error)) => return Err(error),
        }
    }
    if !all {
        if !has_room(input.slots, 1) {
            return Err(Fault::text(lua, "stack overflow (in function mp_unpack_full)"));
        }
        let next = if input.rest.is_empty() { -1 } else { (text.len() - input.rest.len()) as i64 };
        found.push_front(Value::Integer(next));
    }
    Ok(found)
}

struct Input<'a> {
    lua: &'a Lua,
    room: &'a Unlimited<'a>,
    pace: Pace<'a>,
    rest: &'a [u8],
    /// Arrays and maps that are not whole.
    level: usize,
    /// Values that redis-server has on its stack here: the arguments, what is read, and those of tables that are not whole.
    slots: usize,
}

impl Input<'_> {
    /// The next value, which stands on redis-server's stack from then on.
    fn value(&mut self) -> std::result::Result<Value, Wrong> {
        let [tag] = self.take()?;
        self.check("too many return values at once; use unpack_one or unpack_limit instead.")?;
        self.pace.value()?;
        let value = match tag {
            0x00..=0x7f => Value::Integer(i64::from(tag)),
            0xe0..=0xff => Value::Integer(i64::from(tag as i8)),
            0xc0 => Value::Nil,
            0xc2 | 0xc3 => Value::Boolean(tag == 0xc3),
            0xcc => Value::Integer(u8::from_be_bytes(self.take()?).into()),
            0xcd => Value::Integer(u16::from_be_bytes(self.take()?).into()),
            0xce => Value::Integer(u32::from_be_bytes(self.take()?).into()),
            0xcf | 0xd3 => Value::Number(i64::from_be_bytes(self.take()?) as f64),
            0xd0 => Value::Integer(i8::from_be_bytes(self.take()?).into()),
            0xd1 => Value::Integer(i16::from_be_bytes(self.take()?).into()),
            0xd2 => Value::Integer(i32::from_be_bytes(self.take()?).into()),
            0xca => Value::Number(f32::from_be_bytes(self.take()?).into()),
            0xcb => Value::Number(f64::from_be_bytes(self.take()?)),
            0xa0..=0xbf => self.text(usize::from(tag & 0x1f))?,
            0xd9..=0xdb => {
                let len = self.len(tag - 0xd9)?;
                self.text(len)?
            }
            0x90..=0x9f => self.nested(|input| input.array(usize::from(tag & 0xf)))?,
            0xdc | 0xdd => {
                let len = self.len(tag - 0xdb)?;
                self.nested(|input| input.array(len))?
            }
            0x80..=0x8f => self.nested(|input| input.map(usize::from(tag & 0xf)))?,
            0xde | 0xdf => {
                let len = self.len(tag - 0xdd)?;
                self.nested(|input| input.map(len))?
            }
            _ => return Err(Wrong::Format),
        };
        self.slots += 1;
        Ok(value)
    }

    fn take<const N: usize>(&mut self) -> std::result::Result<[u8; N], Wrong> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Wrong::Missing)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// A length in one, two or four bytes: `power` 0, 1 or 2.
    fn len(&mut self, power: u8) -> std::result::Result<usize, Wrong> {
        Ok(match power {
            0 => u8::from_be_bytes(self.take()?).into(),
            1 => u16::from_be_bytes(self.take()?).into(),
            _ => u32::from_be_bytes(self.take()?) as usize,
        })
    }

    fn text(&mut self, len: usize) -> std::result::Result<Value, Wrong> {
        let (text, rest) = self.rest.split_at_checked(len).ok_or(Wrong::Missing)?;
        self.rest = rest;
        self.room.admit(len)?;
        Ok(Value::String(self.lua.create_string(text)?))
    }

    /// An array or a map, which `work` reads.
    fn nested(
        &mut self,
        work: impl FnOnce(&mut Self) -> std::result::Result<Value, Wrong>,
    ) -> std::result::Result<Value, Wrong> {
        let slots = self.slots;
        self.level += 1;
        let value = at_level(self.level, || work(self))?;
        self.level -= 1;
        self.slots = slots;
        Ok(value)
    }

    fn array(&mut self, len: usize) -> std::result::Result<Value, Wrong> {
        let table = self.lua.create_table()?;
        let slots = self.slots;
        // The table, below the index of the element.
        self.slots = slots + 1;
        self.check("in function mp_decode_to_lua_array")?;
        for i in 1..=len {
            self.room.admit(0)?;
            self.slots = slots + 2;
            table.raw_set(i, self.value()?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize) -> std::result::Result<Value, Wrong> {
        let table = self.lua.create_table()?;
        let slots = self.slots;
        for _ in 0..len {
            self.room.admit(0)?;
            // The table; then the key is above it.
            self.slots = slots + 1;
            let (key, value) = (self.value()?, self.value()?);
            match key {
                Value::Nil => return Err(Wrong::Raised(Fault::Text(b"table index is nil".to_vec()).into())),
                Value::Number(n) if n.is_nan() => {
                    return Err(Wrong::Raised(Fault::Text(b"table index is NaN".to_vec()).into()));
                }
                key => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }

    /// Refuses a value for which redis-server's stack has no room; it says what for.
    fn check(&self, what: &str) -> std::result::Result<(), Wrong> {
        if has_room(self.slots, 1) {
            return Ok(());
        }
        Err(Wrong::Raised(Fault::text(self.lua, format!("stack overflow ({what})"))))
    }
}
