//! Byte strings that a command gathers: in blocks, so that none is moved when there are more of them.
//!
//! ```text
//!  blocks   | a | bcd | ef | ..256 KB |   | ghi | ...          a place: block, start, length
//! ```

/// Bytes of a block: a longer text has one of its own.
const BLOCK_BYTES: usize = 256 << 10;

/// The texts.
#[derive(Default)]
pub(crate) struct Texts {
    blocks: Vec<Vec<u8>>,
}

/// Where a text lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    block: u32,
    start: u32,
    len: u32,
}

impl Place {
    /// Bytes of the text.
    pub(crate) fn len(self) -> usize {
        self.len as usize
    }
}

impl Texts {
    /// Copies a text, which is no longer than a value may be.
    pub(crate) fn push(&mut self, text: &[u8]) -> Place {
        if self.blocks.last().is_none_or(|block| block.len() + text.len() > BLOCK_BYTES && !block.is_empty()) {
            // The first block grows with what is in it: most commands have few texts.
            let room = if self.blocks.is_empty() { 0 } else { BLOCK_BYTES.max(text.len()) };
            self.blocks.push(Vec::with_capacity(room));
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let start = block.len();
        block.extend_from_slice(text);
        let part = |n: usize| u32::try_from(n).expect("a block and a text are shorter than 4 GB");
        Place { block: part(number), start: part(start), len: part(text.len()) }
    }

    /// The text at a place that [`Texts::push`] gave.
    #[inline]
    pub(crate) fn get(&self, place: Place) -> &[u8] {
        &self.blocks[place.block as usize][place.start as usize..][..place.len as usize]
    }

    /// Bytes of the texts, about.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    /// Bytes that they take.
    pub(crate) fn held_bytes(&self) -> usize {
        let last = self.blocks.last().map_or(0, Vec::capacity);
        self.blocks.len().saturating_sub(1) * BLOCK_BYTES + last + self.blocks.capacity() * size_of::<Vec<u8>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_lengths_stay_where_they_are() {
        let mut texts = Texts::default();
        let all: Vec<Vec<u8>> = [0, 1, 100_000, BLOCK_BYTES - 1, 3, BLOCK_BYTES, 0, 3 * BLOCK_BYTES, 7]
            .iter()
            .enumerate()
            .map(|(n, &len)| vec![n as u8; len])
            .collect();
        let places: Vec<Place> = all.iter().map(|text| texts.push(text)).collect();
        for (text, place) in all.iter().zip(places) {
            assert!(texts.get(place) == text && place.len() == text.len());
        }
        assert_eq!(texts.bytes(), all.iter().map(Vec::len).sum::<usize>());
    }
}
