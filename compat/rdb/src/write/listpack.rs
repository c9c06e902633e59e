//! A listpack in the making: entries one behind the other, integers as integers. Its bytes are described in
//! `read/packed/listpack.rs`.

use varve_base::number::parse_i64;

/// Bytes of the front: all bytes, and the number of entries.
const FRONT_BYTES: usize = 6;
/// Longest text of an integer.
const INT_TEXT_MAX: usize = 20;

/// Entries of a listpack.
#[derive(Clone, Debug, Default)]
pub struct Listpack {
    bytes: Vec<u8>,
    entries: usize,
}

impl Listpack {
    /// Appends an integer.
    pub fn integer(&mut self, n: i64) {
        let bytes = n.to_le_bytes();
        match n {
            0..=0x7f => self.entry(&[bytes[0]], &[]),
            -0x1000..=0xfff => self.entry(&[0xc0 | (n >> 8) as u8 & 0x1f, bytes[0]], &[]),
            -0x8000..=0x7fff => self.entry(&[0xf1], &bytes[..2]),
            -0x80_0000..=0x7f_ffff => self.entry(&[0xf2], &bytes[..3]),
            -0x8000_0000..=0x7fff_ffff => self.entry(&[0xf3], &bytes[..4]),
            _ => self.entry(&[0xf4], &bytes),
        }
    }

    /// Appends a text, which is an integer if it reads as one.
    pub fn text(&mut self, text: &[u8]) {
        if text.len() <= INT_TEXT_MAX
            && let Some(n) = parse_i64(text)
        {
            return self.integer(n);
        }
        match text.len() {
            len @ 0..64 => self.entry(&[0x80 | len as u8], text),
            len @ 64..4096 => self.entry(&[0xe0 | (len >> 8) as u8, len as u8], text),
            len => {
                let [a, b, c, d] = (len as u32).to_le_bytes();
                self.entry(&[0xf0, a, b, c, d], text);
            }
        }
    }

    /// The listpack of these entries.
    pub(super) fn seal(&self) -> Vec<u8> {
        let all = FRONT_BYTES + self.bytes.len() + 1;
        let mut sealed = Vec::with_capacity(all);
        sealed.extend_from_slice(&(all as u32).to_le_bytes());
        // More entries than this number has bits for are counted by walking.
        sealed.extend_from_slice(&u16::try_from(self.entries).unwrap_or(u16::MAX).to_le_bytes());
        sealed.extend_from_slice(&self.bytes);
        sealed.push(0xff);
        sealed
    }

    fn entry(&mut self, front: &[u8], text: &[u8]) {
        self.bytes.extend_from_slice(front);
        self.bytes.extend_from_slice(text);
        self.entries += 1;
        // Its size, seven bits a byte, all bytes but the first with their high bit set.
        let size = front.len() + text.len();
        let count = match size {
            0..128 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        };
        for i in (0..count).rev() {
            let part = (size >> (7 * i)) as u8 & 0x7f;
            self.bytes.push(if i == count - 1 { part } else { part | 0x80 });
        }
    }
}
