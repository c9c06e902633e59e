//! Bits of a run of bytes: how many are set, and which byte is the first that is not all zeros or all ones.
//!
//! Counting takes the processor's own instruction where there is one: 8 bytes a cycle, some ten times as fast as the
//! additions that stand for it elsewhere. Searching compares words, which the compiler turns into wide comparisons.

/// Bytes that are counted before the counts are added up.
const BLOCK: usize = 32;

/// Number of bits that are set.
pub fn ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has the instruction, as was asked just now.
        return unsafe { ones_popcnt(bytes) };
    }
    ones_of(bytes)
}

/// [`ones_of`] with the instruction that counts the bits of a word.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn ones_popcnt(bytes: &[u8]) -> u64 {
    ones_of(bytes)
}

#[inline(always)]
fn ones_of(bytes: &[u8]) -> u64 {
    let mut blocks = bytes.chunks_exact(BLOCK);
    // Four sums, so that no addition waits for the one before.
    let mut sums = [0u64; 4];
    for block in &mut blocks {
        for (sum, word) in sums.iter_mut().zip(block.chunks_exact(8)) {
            *sum += u64::from(u64::from_ne_bytes(word.try_into().expect("eight bytes")).count_ones());
        }
    }
    let rest: u64 = blocks.remainder().iter().map(|byte| u64::from(byte.count_ones())).sum();
    let ones = sums.iter().sum::<u64>() + rest;
    debug_assert!(ones <= 8 * bytes.len() as u64, "{ones} bits of {} bytes", bytes.len());
    ones
}

/// Where the first byte stands that is not `byte`.
pub fn first_other(bytes: &[u8], byte: u8) -> Option<usize> {
    let word = u64::from_ne_bytes([byte; 8]);
    let mut done = 0;
    for block in bytes.chunks_exact(BLOCK) {
        let differs = block
            .chunks_exact(8)
            .fold(0, |differs, part| differs | (u64::from_ne_bytes(part.try_into().expect("eight bytes")) ^ word));
        if differs != 0 {
            break;
        }
        done += BLOCK;
    }
    debug_assert!(bytes[..done].iter().all(|other| *other == byte), "a block that differs was passed over");
    bytes[done..].iter().position(|other| *other != byte).map(|at| done + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of which every length and every beginning is looked at.
    fn noise() -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        (0..200)
            .map(|_| {
                state = state.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect()
    }

    #[test]
    fn bits_are_counted_alike_with_and_without_the_instruction() {
        let noise = noise();
        for from in 0..9 {
            for to in from..noise.len() {
                let bytes = &noise[from..to];
                let naive: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
                assert_eq!((ones(bytes), ones_of(bytes)), (naive, naive));
            }
        }
    }

    #[test]
    fn the_first_other_byte_is_found_wherever_it_stands() {
        for byte in [0, 0xff] {
            for len in 0..100 {
                let mut bytes = vec![byte; len];
                assert_eq!(first_other(&bytes, byte), None);
                for at in (0..len).rev() {
                    bytes[at] ^= 0x10;
                    assert_eq!(first_other(&bytes, byte), Some(at));
                }
            }
        }
    }
}
