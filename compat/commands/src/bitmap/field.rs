//! BITFIELD and BITFIELD_RO: integers of 1 to 64 bits at any bit of a string.
//!
//! ```text
//! nine bytes from the field's first byte on, high bit first:   | bit % 8 | width bits | rest |   as one number of 72 bits
//! ```
//! All subcommands are read before any of them runs. A string that is written to grows up to the last bit that any of
//! them writes.

use smallvec::SmallVec;
use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::{Args, Reply};
use varve_store::{Key, Tx};

use super::{make_raw, offset_within};
use crate::errors;
use crate::generic::growth;
use crate::generic::pinned::{self, Write};
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[BITFIELD, BITFIELD_RO];

/// Width and sign of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Width {
    bits: u32,
    signed: bool,
}

/// The integer that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

/// A subcommand.
#[derive(Clone, Copy, Debug)]
struct Field {
    width: Width,
    /// The first bit.
    offset: u64,
    action: Action,
}

impl Width {
    /// Reads `i` or `u` and the number of bits.
    fn parse(text: &[u8]) -> Option<Width> {
        let (sign, bits) = text.split_first()?;
        let signed = match sign {
            b'i' => true,
            b'u' => false,
            _ => return None,
        };
        let most = if signed { 64 } else { 63 };
        // An argument ends at a zero byte for the peer, which reads the number as a text of C.
        let bits = bits.split(|byte| *byte == 0).next().unwrap_or_default();
        let bits = parse_i64(bits).filter(|bits| (1..=most).contains(bits))?;
        Some(Width { bits: bits as u32, signed })
    }

    /// The least and the greatest integer.
    fn bounds(self) -> (i128, i128) {
        if self.signed { (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) }
    }

    fn mask(self) -> u128 {
        (1 << self.bits) - 1
    }

    /// The integer of these low bits.
    fn of_bits(self, bits: u128) -> i128 {
        let bits = (bits & self.mask()) as i128;
        if self.signed && bits > self.bounds().1 { bits - (1 << self.bits) } else { bits }
    }

    /// The integer that redis-server sees in one that is set: one that is too far below the greatest for 64 bits is too
    /// great for it.
    fn seen(self, new: i64) -> i128 {
        let (new, greatest) = (i128::from(new), self.bounds().1);
        if self.bits < 64 && greatest - new > i128::from(i64::MAX) { new + (1 << 64) } else { new }
    }

    /// The integer that is written for `value`; None if it does not fit and that fails.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i128> {
        let (least, greatest) = self.bounds();
        if (least..=greatest).contains(&value) {
            return Some(value);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Wrap => Some(self.of_bits(value as u128)),
            Overflow::Saturate if value > greatest => Some(greatest),
            Overflow::Saturate => Some(least),
        }
    }
}

impl Field {
    fn byte(&self) -> usize {
        (self.offset >> 3) as usize
    }

    /// Bytes of the string in which the field lies.
    fn bytes(&self) -> usize {
        ((self.offset & 7) as u32 + self.width.bits).div_ceil(8) as usize
    }

    /// How far the field's last bit is from the last one of nine bytes.
    fn shift(&self) -> u32 {
        72 - (self.offset & 7) as u32 - self.width.bits
    }

    /// The integer in a string; zeros are behind its end.
    fn read(&self, value: &[u8]) -> i128 {
        self.width.of_bits(number_of(&nine(value, self.byte())) >> self.shift())
    }

    /// The bytes of the field when it is `new`, in a string as it is.
    fn written(&self, value: &[u8], new: i128) -> [u8; 9] {
        let old = number_of(&nine(value, self.byte()));
        let mask = self.width.mask() << self.shift();
        let number = old & !mask | (new as u128) << self.shift() & mask;
        let mut bytes = [0; 9];
        bytes.copy_from_slice(&number.to_be_bytes()[7..]);
        bytes
    }
}

/// Nine bytes of a string, zeros behind its end.
fn nine(value: &[u8], from: usize) -> [u8; 9] {
    let mut bytes = [0; 9];
    let there = value.get(from..).unwrap_or_default();
    let count = there.len().min(9);
    bytes[..count].copy_from_slice(&there[..count]);
    bytes
}

fn number_of(bytes: &[u8; 9]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

type Fields = SmallVec<[Field; 4]>;

/// Reads all subcommands.
fn parse(args: Args<'_>, string_bytes_max: usize) -> CmdResult<Fields> {
    let (mut fields, mut overflow, mut at) = (Fields::new(), Overflow::Wrap, 2);
    while at < args.len() {
        let (name, left) = (args.get(at), args.len() - at - 1);
        let action = match () {
            () if is(name, "GET") && left >= 2 => Action::Get,
            () if is(name, "SET") && left >= 3 => Action::Set(0, overflow),
            () if is(name, "INCRBY") && left >= 3 => Action::Add(0, overflow),
            () if is(name, "OVERFLOW") && left >= 1 => {
                overflow = match args.get(at + 1) {
                    word if is(word, "WRAP") => Overflow::Wrap,
                    word if is(word, "SAT") => Overflow::Saturate,
                    word if is(word, "FAIL") => Overflow::Fail,
                    _ => return Err(errors::OVERFLOW_TYPE),
                };
                at += 2;
                continue;
            }
            () => return Err(CommandError::SYNTAX),
        };
        let width = Width::parse(args.get(at + 1)).ok_or(errors::FIELD_TYPE)?;
        let offset = field_offset(args.get(at + 2), width, string_bytes_max).ok_or(errors::BIT_OFFSET)?;
        let action = match action {
            Action::Get => Action::Get,
            Action::Set(..) => Action::Set(integer(args.get(at + 3))?, overflow),
            Action::Add(..) => Action::Add(integer(args.get(at + 3))?, overflow),
        };
        at += if action == Action::Get { 3 } else { 4 };
        fields.push(Field { width, offset, action });
    }
    Ok(fields)
}

/// The first bit of a field: a number of bits, or behind `#` a number of fields of this width.
fn field_offset(text: &[u8], width: Width, string_bytes_max: usize) -> Option<u64> {
    let offset = match text.strip_prefix(b"#") {
        Some(fields) => parse_i64(fields)?.checked_mul(i64::from(width.bits))?,
        None => parse_i64(text)?,
    };
    offset_within(offset, string_bytes_max)
}

/// BITFIELD key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | INCRBY type offset increment ...]
fn bitfield(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    run(ctx, false)
}

/// BITFIELD_RO key [GET type offset ...]
fn bitfield_ro(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    run(ctx, true)
}

fn run(ctx: &mut Ctx<'_, '_>, read_only: bool) -> CmdResult {
    let fields = parse(ctx.args, ctx.session.string_bytes_max())?;
    let key = ctx.key(1);
    let written = fields.iter().filter(|field| field.action != Action::Get);
    let Some(last) = written.map(|field| field.byte() + field.bytes()).max() else {
        let value = ctx.tx.get(&key)?.unwrap_or_default();
        ctx.out.array(fields.len());
        fields.iter().for_each(|field| ctx.out.integer(field.read(value) as i64));
        return Ok(());
    };
    if read_only {
        return Err(errors::FIELD_READ_ONLY);
    }
    let len = ctx.tx.peek(&key)?.map_or(0, <[u8]>::len);
    growth::admit(&mut ctx.tx, &key, len, last)?;
    let written = fields.iter().filter(|field| field.action != Action::Get);
    pinned::write(ctx, len, written.map(|field| field.byte()..field.byte() + field.bytes()), write_fields)
}

/// Runs the subcommands of BITFIELD, some of which write.
fn write_fields(tx: &mut Tx<'_>, write: &Write<'_>, out: &mut Reply) -> CmdResult {
    let (fields, key) = (parse(write.args, write.string_bytes_max)?, &write.key);
    let last = fields.iter().filter(|field| field.action != Action::Get).map(|field| field.byte() + field.bytes());
    let last = last.max().expect("a subcommand that writes");
    let grows = tx.peek(key)?.is_none_or(|value| value.len() < last);
    if grows {
        tx.set_range(key, last - 1, &[0])?;
    }
    out.array(fields.len());
    let mut changes = 0;
    for field in &fields {
        match apply(tx, key, field)? {
            Some((reply, changed)) => {
                out.integer(reply);
                changes += u64::from(changed || (grows && field.action != Action::Get));
            }
            None => out.null(),
        }
    }
    // A string that has only grown has changed: redis-server does not say so, and its replicas do not learn of it.
    if changes > 0 || grows {
        tx.did(key, Effect::sent(Class::String, "setbit", changes.max(1)));
    } else {
        make_raw(tx, key)?;
    }
    Ok(())
}

/// Runs a subcommand on a string that has all bits which are written: the reply, and whether the integer has changed. None
/// if it does not fit and that fails.
fn apply(tx: &mut Tx<'_>, key: &Key<'_>, field: &Field) -> CmdResult<Option<(i64, bool)>> {
    let value = tx.peek(key)?.unwrap_or_default();
    let old = field.read(value);
    let (new, answers_old, overflow) = match field.action {
        Action::Get => return Ok(Some((old as i64, false))),
        // An integer is given with a sign; without one, a negative one is a large one.
        Action::Set(new, overflow) if field.width.signed => (field.width.seen(new), true, overflow),
        Action::Set(new, overflow) => (i128::from(new as u64), true, overflow),
        Action::Add(by, overflow) => (old + i128::from(by), false, overflow),
    };
    let Some(new) = field.width.fit(new, overflow) else { return Ok(None) };
    if new != old {
        let bytes = field.written(value, new);
        tx.set_range(key, field.byte(), &bytes[..field.bytes()])?;
    }
    Ok(Some((if answers_old { old } else { new } as i64, new != old)))
}

/// The use that BITFIELD makes of its key: it only reads, if all of its subcommands are GET.
fn bitfield_flags(args: Args<'_>) -> KeyFlags {
    let reads = KeyFlags::RO.and(KeyFlags::ACCESS);
    let mut at = 2;
    while at < args.len() {
        let (name, left) = (args.get(at), args.len() - at - 1);
        match () {
            () if is(name, "GET") && left >= 2 => at += 3,
            () if is(name, "OVERFLOW") && left >= 1 => at += 2,
            () => return KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE),
        }
    }
    reads
}

const ENCODING: &[varve_catalog::Argument] = &[arg("encoding", ArgKind::String), arg("offset", ArgKind::Integer)];

const BITFIELD: Command = Command::new(
    Exec::Keys(bitfield),
    Row::new("bitfield", Group::Bitmap, -2, "3.2.0")
        .about("Reads and writes integers of any width in a string.", "O(1) a subcommand")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::BITMAP])
        .keys(&[KeySpec::one(
            1,
            KeyFlags::RW.and(KeyFlags::UPDATE).and(KeyFlags::ACCESS).and(KeyFlags::VARIABLE_FLAGS),
        )
        .notes("This command allows both access and modification of the key")])
        .vary(bitfield_flags)
        .args(&[
            key("key", 0),
            one_of(
                "operation",
                &[
                    block("encoding_offset", ENCODING).token("GET"),
                    block(
                        "write",
                        &[
                            one_of("wrap_sat_fail", &[word("wrap", "WRAP"), word("sat", "SAT"), word("fail", "FAIL")])
                                .token("OVERFLOW")
                                .optional(),
                            one_of(
                                "write_operation",
                                &[
                                    block(
                                        "encoding_offset_value",
                                        &[
                                            arg("encoding", ArgKind::String),
                                            arg("offset", ArgKind::Integer),
                                            arg("value", ArgKind::Integer),
                                        ],
                                    )
                                    .token("SET"),
                                    block(
                                        "encoding_offset_increment",
                                        &[
                                            arg("encoding", ArgKind::String),
                                            arg("offset", ArgKind::Integer),
                                            arg("increment", ArgKind::Integer),
                                        ],
                                    )
                                    .token("INCRBY"),
                                ],
                            ),
                        ],
                    ),
                ],
            )
            .optional()
            .multiple(),
        ]),
);

const BITFIELD_RO: Command = Command::new(
    Exec::Keys(bitfield_ro),
    Row::new("bitfield_ro", Group::Bitmap, -2, "6.0.0")
        .about("Reads integers of any width in a string.", "O(1) a subcommand")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::BITMAP])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), block("encoding_offset", ENCODING).token("GET").optional().multiple().multiple_token()]),
);

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of a field, one by one.
    fn naive(value: &[u8], offset: u64, width: Width) -> i128 {
        let bit = |at: u64| value.get((at >> 3) as usize).map_or(0, |byte| i128::from(byte >> (7 - (at & 7)) & 1));
        let bits = (offset..offset + u64::from(width.bits)).fold(0, |number, at| number << 1 | bit(at));
        if width.signed && bit(offset) == 1 { bits - (1 << width.bits) } else { bits }
    }

    #[test]
    fn fields_are_read_and_written_at_every_bit() {
        let value: Vec<u8> = (0..20u32).map(|n| (n * 73 + 29) as u8).collect();
        for bits in 1..=64 {
            for signed in [false, true] {
                let width = Width { bits, signed };
                for offset in 0..120 {
                    let field = Field { width, offset, action: Action::Get };
                    assert_eq!(field.read(&value), naive(&value, offset, width), "{width:?} at {offset}");
                    let (least, greatest) = width.bounds();
                    for new in [least, 0, greatest] {
                        let mut changed = value.clone();
                        changed.resize(40, 0);
                        let others = |bytes: &[u8]| {
                            let end = offset + u64::from(bits);
                            let bit = |at: u64| bytes[(at >> 3) as usize] >> (7 - (at & 7)) & 1;
                            (0..300).filter(|at| !(offset..end).contains(at)).map(bit).collect::<Vec<_>>()
                        };
                        let before = others(&changed);
                        let bytes = field.written(&changed, new);
                        changed[field.byte()..][..field.bytes()].copy_from_slice(&bytes[..field.bytes()]);
                        assert_eq!(field.read(&changed), new);
                        assert_eq!(others(&changed), before, "{width:?} at {offset}: other bits stay");
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_wraps_saturates_or_fails() {
        let byte = Width::parse(b"u8").unwrap();
        assert_eq!(byte.fit(256, Overflow::Wrap), Some(0));
        assert_eq!(byte.fit(-1, Overflow::Saturate), Some(0));
        assert_eq!(byte.fit(999, Overflow::Saturate), Some(255));
        assert_eq!(byte.fit(256, Overflow::Fail), None);
        let long = Width::parse(b"i64").unwrap();
        assert_eq!(long.fit(i128::from(i64::MAX) + 1, Overflow::Wrap), Some(i128::from(i64::MIN)));
        assert_eq!(long.fit(i128::from(i64::MIN) - 1, Overflow::Saturate), Some(i128::from(i64::MIN)));
        for wrong in ["u64", "i65", "i0", "x8", "", "i", "u-1", "I8"] {
            assert_eq!(Width::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
