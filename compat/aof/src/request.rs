//! Requests as they stand in files and streams: RESP's arrays of words.
//!
//! ```text
//!   *2 $3 DEL $1 k        each part ends with \r\n
//! ```
//! Not here: reading them (`reader.rs`).

use varve_base::number::push_i64;

/// Appends a SELECT of a database.
pub fn select(db: u32, out: &mut Vec<u8>) {
    put_request(out, [b"SELECT".as_slice(), db.to_string().as_bytes()].into_iter());
}

/// Bytes of the request that [`select`] appends.
pub fn select_len(db: u32) -> usize {
    let digits = db.checked_ilog10().unwrap_or(0) as usize + 1;
    "*2\r\n$6\r\nSELECT\r\n$0\r\n\r\n".len() + digits + usize::from(digits > 9)
}

/// Appends a request of these words.
pub fn put_request<'w>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'w [u8]>) {
    put_head(out, b'*', words.len());
    words.for_each(|word| put_word(out, word));
}

/// Appends a word of a request.
pub fn put_word(out: &mut Vec<u8>, word: &[u8]) {
    put_head(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Appends what stands before a request (`*` and its number of words) or before a word (`$` and its bytes).
pub fn put_head(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    push_i64(out, length as i64);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_resp() {
        let mut out = Vec::new();
        put_request(&mut out, [b"SET".as_slice(), b"k", b""].into_iter());
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
        let mut out = Vec::new();
        select(3, &mut out);
        assert_eq!(out, b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n");
        for db in [0, 9, 10, 99, 100, 32_766, 999_999_999, 1_000_000_000, u32::MAX] {
            out.clear();
            select(db, &mut out);
            assert_eq!(select_len(db), out.len(), "{db}");
        }
    }
}
