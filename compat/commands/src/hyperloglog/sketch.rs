//! HyperLogLogs as redis-server keeps them in strings: 16384 registers, each the longest run of zeros among the hashes that
//! fell to it, in two forms.
//!
//! ```text
//! | H Y L L | form (1) | unused (3) | cardinality (8, low byte first) | registers |
//!                                     highest bit: not known
//! dense     six bits a register, low bits first: 12288 bytes
//! sparse    00zzzzzz            z + 1 registers of 0        01zzzzzz zzzzzzzz   as many, up to 16384
//!           1vvvvvnn            n + 1 registers of v + 1
//! ```
//! The bytes are those that redis-server would have after the same commands: a run is split around a register that grows,
//! and neighbours of one value are joined from the run before on, over five runs at most. The bytes of clients are looked
//! at run by run: registers that are too many or too few are an error.

use super::murmur::hash;

/// Bytes in front of the registers.
const HEADER: usize = 16;
/// Registers: 2^14.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// Bits of a hash behind those of the register's number.
const HASH_BITS: u32 = 64 - INDEX_BITS;
/// Bytes of a dense one.
pub(super) const DENSE_BYTES: usize = HEADER + REGISTERS * 6 / 8;
/// Greatest value of a register in a sparse one.
const SPARSE_VALUE_MAX: u8 = 32;
/// Longest run of registers of a value.
const SPARSE_RUN_MAX: usize = 4;
/// Longest run of zeros in one byte.
const SHORT_ZEROS_MAX: usize = 64;
/// Runs that are looked at for neighbours of one value.
const JOINED_RUNS: usize = 5;
/// A sparse one of more bytes, and of more than the setting, comes from a client as it is: to look for registers in it would take
/// long, so it becomes dense when the first one is raised. Those that grow here never come to that length by default.
const SPARSE_BYTES_MAX: usize = 3000;

const FORM_AT: usize = 4;
const CARDINALITY_AT: usize = 8;
/// The byte whose highest bit says that the cardinality is not known.
pub(super) const UNKNOWN_AT: usize = 15;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// A string that is no HyperLogLog behind its front, or has another number of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt;

/// Registers one by one.
pub(super) type Registers = [u8; REGISTERS];

/// Whether the string begins like a HyperLogLog and, if it is dense, has its length.
pub(super) fn is_valid(value: &[u8]) -> bool {
    value.len() >= HEADER
        && value.starts_with(b"HYLL")
        && (value[FORM_AT] == SPARSE || (value[FORM_AT] == DENSE && value.len() == DENSE_BYTES))
}

/// Whether it has more bytes than runs of one register each would take. redis-server takes such a one for its front; each register
/// that is raised moves all that follows, so that a client could have a string of the greatest length moved for each element.
pub(super) fn is_too_long(value: &[u8]) -> bool {
    value.len() > HEADER + 2 * REGISTERS
}

/// One without elements.
pub(super) fn empty() -> Vec<u8> {
    let mut value = vec![0; HEADER];
    value[..4].copy_from_slice(b"HYLL");
    value[FORM_AT] = SPARSE;
    push_zeros(&mut value, REGISTERS, 2);
    value
}

pub(super) fn is_dense(value: &[u8]) -> bool {
    value[FORM_AT] == DENSE
}

/// The cardinality, if it is known.
pub(super) fn known_cardinality(value: &[u8]) -> Option<u64> {
    let bytes = value[CARDINALITY_AT..HEADER].try_into().expect("eight bytes");
    Some(u64::from_le_bytes(bytes)).filter(|_| value[UNKNOWN_AT] & 0x80 == 0)
}

/// Where the bytes of the cardinality stand.
pub(super) fn cardinality_place() -> usize {
    CARDINALITY_AT
}

/// The cardinality is not known any more.
pub(super) fn forget_cardinality(value: &mut [u8]) {
    value[UNKNOWN_AT] |= 0x80;
}

/// The register of an element, and the value that it has at least.
pub(super) fn register_of(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    let run = (hash >> INDEX_BITS | 1 << HASH_BITS).trailing_zeros() + 1;
    ((hash & (REGISTERS as u64 - 1)) as usize, run as u8)
}

/// The place of a register in a dense one: its first byte, and its first bit in it.
fn dense_place(index: usize) -> (usize, usize) {
    (HEADER + index * 6 / 8, index * 6 % 8)
}

/// The value of a register of a dense one.
pub(super) fn dense_register(value: &[u8], index: usize) -> u8 {
    let (at, bit) = dense_place(index);
    let low = value[at] >> bit;
    // The last register ends with the last byte.
    let high = if bit > 2 { value[at + 1] << (8 - bit) } else { 0 };
    (low | high) & 0x3f
}

/// The bytes of a dense one, and where they stand, when a register has this value: one byte or two.
pub(super) fn dense_bytes(value: &[u8], index: usize, new: u8) -> (usize, [u8; 2], usize) {
    let (at, bit) = dense_place(index);
    let count = if bit > 2 { 2 } else { 1 };
    let old = u16::from(value[at]) | if count == 2 { u16::from(value[at + 1]) << 8 } else { 0 };
    let changed = old & !(0x3f << bit) | u16::from(new) << bit;
    (at, changed.to_le_bytes(), count)
}

fn set_dense(value: &mut [u8], index: usize, new: u8) {
    let (at, bytes, count) = dense_bytes(value, index, new);
    value[at..at + count].copy_from_slice(&bytes[..count]);
}

/// A run of registers of a sparse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// Zeros, in one byte or two.
    Zeros { len: usize, bytes: usize },
    /// Registers of one value.
    Value { value: u8, len: usize },
}

impl Run {
    /// The run at a place; None behind the last one.
    fn at(value: &[u8], at: usize) -> Result<Option<Run>, Corrupt> {
        let Some(&first) = value.get(at) else { return Ok(None) };
        Ok(Some(match first >> 6 {
            0 => Run::Zeros { len: usize::from(first) + 1, bytes: 1 },
            1 => {
                let low = *value.get(at + 1).ok_or(Corrupt)?;
                Run::Zeros { len: (usize::from(first & 0x3f) << 8 | usize::from(low)) + 1, bytes: 2 }
            }
            _ => Run::Value { value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1 },
        }))
    }

    fn len(self) -> usize {
        let (Run::Zeros { len, .. } | Run::Value { len, .. }) = self;
        len
    }

    fn bytes(self) -> usize {
        if let Run::Zeros { bytes, .. } = self { bytes } else { 1 }
    }
}

/// Shows the runs of a sparse one, with the first register of each.
///
/// # Errors
/// The runs are not of all registers; those before were shown.
pub(super) fn runs(value: &[u8], mut show: impl FnMut(usize, Run)) -> Result<(), Corrupt> {
    let (mut at, mut first) = (HEADER, 0);
    while let Some(run) = Run::at(value, at)? {
        if first + run.len() > REGISTERS {
            return Err(Corrupt);
        }
        show(first, run);
        (at, first) = (at + run.bytes(), first + run.len());
    }
    if first == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

fn push_zeros(to: &mut Vec<u8>, len: usize, bytes: usize) {
    let less = len - 1;
    if bytes == 1 { to.push(less as u8) } else { to.extend([0x40 | (less >> 8) as u8, less as u8]) }
}

/// Zeros as short as they may be; none of no length.
fn push_some_zeros(to: &mut Vec<u8>, len: usize) {
    if len > 0 {
        push_zeros(to, len, if len > SHORT_ZEROS_MAX { 2 } else { 1 });
    }
}

fn value_byte(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// Makes a sparse one dense.
///
/// # Errors
/// Its runs are not of all registers.
pub(super) fn to_dense(value: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let mut dense = vec![0; DENSE_BYTES];
    dense[..HEADER].copy_from_slice(&value[..HEADER]);
    dense[FORM_AT] = DENSE;
    runs(value, |first, run| {
        if let Run::Value { value, len } = run {
            (first..first + len).for_each(|index| set_dense(&mut dense, index, value));
        }
    })?;
    Ok(dense)
}

/// Raises a register to at least `count`; whether it was lower. A sparse one that would have more than `sparse_max` bytes, or
/// a register that it cannot have, becomes dense.
///
/// # Errors
/// The runs of a sparse one are not of all registers.
pub(super) fn raise(value: &mut Vec<u8>, index: usize, count: u8, sparse_max: usize) -> Result<bool, Corrupt> {
    raise_from(value, &mut Place::front(), (index, count), sparse_max)
}

/// Raises registers, in ascending order: in a sparse one the search for each goes on where the one before ended.
///
/// # Errors
/// The runs of a sparse one are not of all registers.
pub(super) fn raise_all(
    value: &mut Vec<u8>,
    registers: impl Iterator<Item = (usize, u8)>,
    sparse_max: usize,
) -> Result<(), Corrupt> {
    let mut place = Place::front();
    for register in registers {
        raise_from(value, &mut place, register, sparse_max)?;
    }
    Ok(())
}

/// A run of a sparse one.
#[derive(Clone, Copy)]
struct Place {
    /// The place of its first byte.
    at: usize,
    /// The number of its first register.
    first: usize,
}

impl Place {
    fn front() -> Place {
        Place { at: HEADER, first: 0 }
    }
}

/// Raises a register that lies behind the run at `from`, or, in the first run of all, within it. `from` becomes a place for the
/// next register, which is none before this one: two runs before this one's, since neighbours are joined from the run before on.
fn raise_from(
    value: &mut Vec<u8>,
    from: &mut Place,
    (index, count): (usize, u8),
    sparse_max: usize,
) -> Result<bool, Corrupt> {
    if !is_dense(value) {
        if count <= SPARSE_VALUE_MAX
            && let Some(raised) = raise_sparse(value, from, (index, count), sparse_max)?
        {
            return Ok(raised);
        }
        *value = to_dense(value)?;
    }
    let raised = dense_register(value, index) < count;
    if raised {
        set_dense(value, index, count);
    }
    Ok(raised)
}

/// Raises a register of a sparse one; None, and nothing is done, if it would have more than `sparse_max` bytes, or is far longer
/// than any that has grown here.
fn raise_sparse(
    value: &mut Vec<u8>,
    from: &mut Place,
    (index, count): (usize, u8),
    sparse_max: usize,
) -> Result<Option<bool>, Corrupt> {
    let Place { mut at, mut first } = *from;
    debug_assert!(first <= index, "register {index} in a search from {first}");
    let (mut before, mut before_that) = (*from, *from);
    let run = loop {
        let run = Run::at(value, at)?.ok_or(Corrupt)?;
        if index < first + run.len() {
            break run;
        }
        before_that = std::mem::replace(&mut before, Place { at, first });
        (at, first) = (at + run.bytes(), first + run.len());
    };
    *from = before_that;
    let (head, tail) = (index - first, first + run.len() - index - 1);
    let mut split = Vec::with_capacity(5);
    match run {
        Run::Value { value: old, .. } if old >= count => return Ok(Some(false)),
        Run::Value { value: old, .. } => {
            if head > 0 {
                split.push(value_byte(old, head));
            }
            split.push(value_byte(count, 1));
            if tail > 0 {
                split.push(value_byte(old, tail));
            }
        }
        Run::Zeros { .. } => {
            push_some_zeros(&mut split, head);
            split.push(value_byte(count, 1));
            push_some_zeros(&mut split, tail);
        }
    }
    let is_too_long = split.len() > run.bytes() && value.len() + split.len() - run.bytes() > sparse_max;
    if is_too_long || value.len() > sparse_max.max(SPARSE_BYTES_MAX) {
        return Ok(None);
    }
    value.splice(at..at + run.bytes(), split);
    join(value, before.at)?;
    forget_cardinality(value);
    Ok(Some(true))
}

/// Joins neighbours of one value from a run on.
fn join(value: &mut Vec<u8>, mut at: usize) -> Result<(), Corrupt> {
    for _ in 0..JOINED_RUNS {
        let Some(run) = Run::at(value, at)? else { return Ok(()) };
        if let Run::Value { value: here, len } = run
            && let Ok(Some(Run::Value { value: next, len: more })) = Run::at(value, at + 1)
            && here == next
            && len + more <= SPARSE_RUN_MAX
        {
            value[at + 1] = value_byte(here, len + more);
            value.remove(at);
            continue;
        }
        at += run.bytes();
    }
    Ok(())
}

/// Raises registers to those of a HyperLogLog.
///
/// # Errors
/// The runs of a sparse one are not of all registers.
pub(super) fn merge(max: &mut Registers, value: &[u8]) -> Result<(), Corrupt> {
    if !is_dense(value) {
        return runs(value, |first, run| {
            if let Run::Value { value, len } = run {
                max[first..first + len].iter_mut().for_each(|register| *register = (*register).max(value));
            }
        });
    }
    // Four registers lie in three bytes.
    for (four, bytes) in max.chunks_exact_mut(4).zip(value[HEADER..].chunks_exact(3)) {
        let word = u32::from(bytes[0]) | u32::from(bytes[1]) << 8 | u32::from(bytes[2]) << 16;
        for (i, register) in four.iter_mut().enumerate() {
            *register = (*register).max((word >> (6 * i)) as u8 & 0x3f);
        }
    }
    Ok(())
}

/// How many registers have each value.
pub(super) type Histogram = [u32; 64];

/// Counts the registers of a HyperLogLog.
///
/// # Errors
/// The runs of a sparse one are not of all registers.
pub(super) fn histogram(value: &[u8]) -> Result<Histogram, Corrupt> {
    let mut histogram = [0; 64];
    if is_dense(value) {
        let mut registers = [0; REGISTERS];
        merge(&mut registers, value)?;
        return Ok(histogram_of(&registers));
    }
    runs(value, |_, run| match run {
        Run::Zeros { len, .. } => histogram[0] += len as u32,
        Run::Value { value, len } => histogram[usize::from(value)] += len as u32,
    })?;
    Ok(histogram)
}

/// Counts registers.
pub(super) fn histogram_of(registers: &Registers) -> Histogram {
    // Four tables, since a register often has the value of the one before.
    let mut tables = [[0u32; 64]; 4];
    for four in registers.chunks_exact(4) {
        for (table, register) in tables.iter_mut().zip(four) {
            table[usize::from(register & 0x3f)] += 1;
        }
    }
    std::array::from_fn(|value| tables.iter().map(|table| table[value]).sum())
}

/// The cardinality that a histogram makes likely: Ertl's improved estimator ("New cardinality estimation algorithms for
/// HyperLogLog sketches", 2017), in the order of operations in which redis-server has it.
pub(super) fn estimate(histogram: &Histogram) -> u64 {
    const ALPHA: f64 = std::f64::consts::LOG2_E / 2.0;
    let m = REGISTERS as f64;
    let most = HASH_BITS as usize + 1;
    let mut z = m * tau((m - f64::from(histogram[most])) / m);
    for count in histogram[1..most].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers one by one, by the definition.
    fn naive(value: &[u8]) -> Registers {
        let mut registers = [0; REGISTERS];
        merge(&mut registers, value).expect("whole");
        registers
    }

    #[test]
    fn both_forms_have_the_registers_that_were_raised() {
        let (mut sparse, mut dense) = (empty(), to_dense(&empty()).unwrap());
        let mut model = [0u8; REGISTERS];
        for n in 0..20_000u32 {
            let (index, count) = register_of(format!("element {n}").as_bytes());
            let higher = model[index] < count;
            model[index] = model[index].max(count);
            assert_eq!(raise(&mut sparse, index, count, 3000), Ok(higher));
            assert_eq!(raise(&mut dense, index, count, 3000), Ok(higher));
            if n.is_power_of_two() || n == 19_999 {
                assert_eq!(naive(&sparse), model);
                assert_eq!(naive(&dense), model);
                assert_eq!(histogram(&sparse), histogram(&dense));
                let found = estimate(&histogram(&sparse).unwrap()) as f64;
                assert!((found - f64::from(n + 1)).abs() <= f64::from(n) * 0.05 + 1.0, "{found} of {}", n + 1);
            }
        }
        assert!(is_dense(&sparse));
    }

    /// Registers in ascending order, as PFMERGE has them, come to the bytes that they come to one by one.
    #[test]
    fn issue_11_a_search_goes_on_where_the_last_one_ended() {
        let mut rng = varve_base::rng::Rng::seeded(7);
        for n in 0..300 {
            let (mut one, mut most) = (empty(), 3000);
            for _ in 0..rng.below(600) {
                let (index, count) = (rng.below(REGISTERS as u64 / 8) as usize, 1 + rng.below(4) as u8);
                raise(&mut one, index, count, most).unwrap();
            }
            if n % 3 == 0 {
                most = 300;
            }
            let mut all = one.clone();
            let mut model = [0; REGISTERS];
            for _ in 0..rng.below(900) {
                model[rng.below(REGISTERS as u64 / 8) as usize] = 1 + rng.below(if n % 5 == 0 { 40 } else { 4 }) as u8;
            }
            let raised = || model.iter().copied().enumerate().filter(|(_, count)| *count > 0);
            raised().for_each(|(index, count)| _ = raise(&mut one, index, count, most).unwrap());
            raise_all(&mut all, raised(), most).unwrap();
            assert!(one == all, "{n}: {} and {} bytes", one.len(), all.len());
        }
    }

    /// A client may set a value with a byte for each register: it is not looked through for each that is raised.
    #[test]
    fn issue_11_a_sparse_one_that_is_too_long_becomes_dense() {
        let mut long = empty()[..HEADER].to_vec();
        (0..REGISTERS).for_each(|_| long.push(value_byte(3, 1)));
        assert_eq!(raise(&mut long, 5, 3, 3000), Ok(false));
        assert!(!is_dense(&long), "nothing has changed");
        assert_eq!(raise(&mut long, 5, 4, 3000), Ok(true));
        assert!(is_dense(&long) && dense_register(&long, 5) == 4 && dense_register(&long, 6) == 3);
    }

    #[test]
    fn runs_that_are_not_of_all_registers_are_an_error() {
        let mut grown = empty();
        for n in 0..300u32 {
            let (index, count) = register_of(&n.to_le_bytes());
            raise(&mut grown, index, count, 3000).unwrap();
        }
        assert!(!is_dense(&grown));
        let mut corrupt = 0;
        for cut in HEADER..grown.len() {
            let short = grown[..cut].to_vec();
            assert_eq!(histogram(&short).err(), Some(Corrupt));
            assert!(to_dense(&short).is_err() && merge(&mut [0; REGISTERS], &short).is_err());
            for index in [0, 8000, REGISTERS - 1] {
                corrupt += usize::from(raise(&mut short.clone(), index, 50, 3000).is_err());
            }
        }
        assert!(corrupt > 0);
        // More registers than there are: every byte another run of 16384 zeros.
        let mut long = grown[..HEADER].to_vec();
        (0..40).for_each(|_| push_zeros(&mut long, REGISTERS, 2));
        long.push(value_byte(3, 4));
        assert_eq!(histogram(&long).err(), Some(Corrupt));
        assert_eq!(merge(&mut [0; REGISTERS], &long).err(), Some(Corrupt));
        assert_eq!(raise(&mut long, 5, 40, 3000).err(), Some(Corrupt));
    }

    #[test]
    fn a_dense_register_touches_no_other() {
        let mut dense = to_dense(&empty()).unwrap();
        let mut model = [0; REGISTERS];
        for (n, index) in (0..REGISTERS).map(|n| n * 6151 % REGISTERS).enumerate() {
            model[index] = (n % 63) as u8 + 1;
            set_dense(&mut dense, index, model[index]);
            assert_eq!(dense_register(&dense, index), model[index]);
        }
        assert_eq!(naive(&dense), model);
    }
}
