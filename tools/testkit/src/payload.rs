//! Values as files and DUMP payloads have them, some kilobytes of which say to be millions of things.

/// A length in four bytes.
pub fn length(n: usize) -> Vec<u8> {
    [&[0x80][..], &(n as u32).to_be_bytes()].concat()
}

/// A string as it is.
pub fn text(text: &[u8]) -> Vec<u8> {
    [&length(text.len()), text].concat()
}

/// A compressed string: `front`, then the last `word` bytes of it `again` times, then `back`.
///
/// # Panics
/// When `word` times `again` is 1 to 8, which no long copy makes.
pub fn compressed(front: &[u8], word: usize, again: usize, back: &[u8]) -> Vec<u8> {
    let literal = |bytes: &[u8], small: &mut Vec<u8>| {
        for run in bytes.chunks(32) {
            small.push(run.len() as u8 - 1);
            small.extend_from_slice(run);
        }
    };
    let (mut small, mut left) = (Vec::new(), word * again);
    literal(front, &mut small);
    while left > 0 {
        let longest = left.min(264);
        let copy = if left > longest && left - longest < 9 { longest - 9 } else { longest };
        assert!(copy >= 9, "a long copy");
        small.extend([0xe0, (copy - 9) as u8, word as u8 - 1]);
        left -= copy;
    }
    literal(back, &mut small);
    let whole = front.len() + word * again + back.len();
    [&[0xc3][..], &length(small.len()), &length(whole), &small].concat()
}

/// Small numbers as entries of a listpack.
pub fn numbers(numbers: &[u8]) -> Vec<u8> {
    numbers.iter().flat_map(|&n| [n, 1]).collect()
}

/// A number of four bytes as an entry of a listpack.
pub fn number(n: usize) -> Vec<u8> {
    [&[0xf3][..], &(n as u32).to_le_bytes(), &[5]].concat()
}

/// A compressed listpack: some entries, the last `word` bytes of them `again` times more, then others.
pub fn listpack(front: &[Vec<u8>], word: usize, again: usize, back: &[Vec<u8>]) -> Vec<u8> {
    let (front, back) = (front.concat(), back.concat());
    let bytes = 7 + front.len() + word * again + back.len();
    let head = [&(bytes as u32).to_le_bytes()[..], &u16::MAX.to_le_bytes()].concat();
    compressed(&[head, front].concat(), word, again, &[back, vec![0xff]].concat())
}

/// The ID 1-`n` of a stream's entry, in 16 bytes.
pub fn raw_id(n: u64) -> Vec<u8> {
    [1u64.to_be_bytes(), n.to_be_bytes()].concat()
}

/// A stream of one node, whose entries begin at 1-1, and the bytes behind it: the tail, and the groups.
pub fn stream(node: &[u8], behind: &[u8]) -> Vec<u8> {
    [&[1][..], &text(&raw_id(1)), node, behind].concat()
}
