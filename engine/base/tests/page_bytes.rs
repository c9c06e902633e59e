//! Copies in pages: their contents, and what becomes of their memory. Alone in its process, since all threads share the
//! spans.

use varve_base::page_bytes::{BLOCK_BYTES, PageBytes, SPARE_MAX};
use varve_base::span::pool_bytes;

#[test]
fn bytes_are_as_they_were_and_some_blocks_are_kept() {
    let mut all = Vec::new();
    for len in [1, 4096, 4097, BLOCK_BYTES / 2, BLOCK_BYTES / 2 + 1, BLOCK_BYTES, BLOCK_BYTES + 1, 5 << 20] {
        for mark in [1_u8, 2, 3] {
            let bytes: Vec<u8> = (0..len).map(|n| (n % 251) as u8 ^ mark).collect();
            let copy = PageBytes::copy_of(&bytes).expect("memory");
            assert!(copy.held_bytes() < len * 2 + 4096, "{} bytes for {len}", copy.held_bytes());
            all.push((bytes, copy));
        }
    }
    assert!(all.iter().all(|(bytes, copy)| **copy == **bytes), "nobody writes into another one's pages");
    drop(all);
    let blocks: Vec<PageBytes> =
        (0..2 * SPARE_MAX).map(|_| PageBytes::copy_of(&[7; BLOCK_BYTES]).expect("memory")).collect();
    assert_eq!(pool_bytes().1, 2 * SPARE_MAX * BLOCK_BYTES);
    drop(blocks);
    assert_eq!(pool_bytes().1, SPARE_MAX * BLOCK_BYTES, "some are kept, the others go");
}
