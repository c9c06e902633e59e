//! The prefix of a key's name: what keys of one kind have in common, as people name keys.
//!
//! ```text
//!   user:1001:cart        user:*:        the parts before the last separator, numbers as stars
//!   session:9f86d081884c  session:
//!   counter17             counter*       no separator: up to the first number
//!   config                config
//! ```
//! The separators are `:`, `/` and `|`. A part that holds a number of eight digits or more in base 16, or any byte that is no
//! printable ASCII, is a star as a whole: it is an identifier. At most three parts count, so that there are far fewer prefixes
//! than keys.

/// Bytes of a prefix at most.
pub(crate) const PREFIX_BYTES_MAX: usize = 64;
/// Parts of a name that count.
const PARTS_MAX: usize = 3;
/// Digits in base 16 from which on a part is an identifier.
const IDENTIFIER_DIGITS: usize = 8;

/// The prefix of a name. `parts_max` parts of it count at most.
fn prefix_of_parts(name: &[u8], parts_max: usize) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(PREFIX_BYTES_MAX);
    let mut rest = name;
    for _ in 0..parts_max {
        let Some(end) = rest.iter().position(|byte| matches!(byte, b':' | b'/' | b'|')) else { break };
        show_part(&rest[..end], &mut prefix);
        prefix.push(rest[end]);
        rest = &rest[end + 1..];
    }
    if prefix.is_empty() {
        show_part(rest, &mut prefix);
        if let Some(star) = prefix.iter().position(|&byte| byte == b'*') {
            prefix.truncate(star + 1);
        }
    }
    prefix.truncate(PREFIX_BYTES_MAX);
    prefix
}

/// The prefix of a name.
pub(crate) fn prefix_of(name: &[u8]) -> Vec<u8> {
    prefix_of_parts(name, PARTS_MAX)
}

/// The first part of a name's prefix: for names that have too many prefixes.
pub(crate) fn short_prefix_of(name: &[u8]) -> Vec<u8> {
    prefix_of_parts(name, 1)
}

/// Appends a part, its numbers as stars.
fn show_part(part: &[u8], prefix: &mut Vec<u8>) {
    if is_identifier(part) {
        return prefix.push(b'*');
    }
    for &byte in part.iter().take(PREFIX_BYTES_MAX) {
        match byte {
            b'0'..=b'9' if prefix.last() == Some(&b'*') => {}
            b'0'..=b'9' => prefix.push(b'*'),
            _ => prefix.push(byte),
        }
    }
}

/// True if a part names one thing rather than a kind of things.
fn is_identifier(part: &[u8]) -> bool {
    let (mut run, mut has_digit) = (0, false);
    for &byte in part.iter().take(PREFIX_BYTES_MAX) {
        if !(b' '..=b'~').contains(&byte) {
            return true;
        }
        match byte {
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => (run, has_digit) = (run + 1, has_digit || byte.is_ascii_digit()),
            _ => (run, has_digit) = (0, false),
        }
        if run >= IDENTIFIER_DIGITS && has_digit {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_kind_have_one_prefix() {
        let shown = |name: &str| String::from_utf8(prefix_of(name.as_bytes())).expect("ASCII");
        for (name, prefix) in [
            ("user:1001:cart", "user:*:"),
            ("user:alice:cart", "user:alice:"),
            ("session:9f86d081884c", "session:"),
            ("session:9f86d081884c:data", "session:*:"),
            ("a:b:c:d:e", "a:b:c:"),
            ("counter17", "counter*"),
            ("counter17b20", "counter*"),
            ("config", "config"),
            ("facade", "facade"),
            ("deadbeef", "deadbeef"),
            ("deadbeef1", "*"),
            ("shop/2024-11-05/orders", "shop/*-*-*/"),
            (":x", ":"),
            ("", ""),
        ] {
            assert_eq!(shown(name), prefix, "of {name}");
        }
        assert_eq!(prefix_of(b"bin:\xff\x00:x"), b"bin:*:");
        assert_eq!(short_prefix_of(b"user:1:cart"), b"user:");
    }

    #[test]
    fn a_prefix_has_a_bound() {
        assert!(prefix_of(&[b'x'; 1 << 20]).len() <= PREFIX_BYTES_MAX);
        assert!(prefix_of(&[b':'; 1 << 20]).len() <= PREFIX_BYTES_MAX);
    }
}
