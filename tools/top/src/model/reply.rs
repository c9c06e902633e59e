//! Parts of replies.

use varve_testkit::RespValue;

/// The value of a field in a reply of names and values, which is a flat array in RESP2.
pub(crate) fn field<'r>(reply: &'r RespValue, name: &str) -> Option<&'r RespValue> {
    let parts = reply.elements()?;
    let pair = parts.chunks_exact(2).find(|pair| pair[0].bytes() == Some(name.as_bytes()))?;
    Some(&pair[1])
}

/// The number of a field; 0 without one, or where it is less than 0.
pub(crate) fn number(reply: &RespValue, name: &str) -> u64 {
    field(reply, name).and_then(RespValue::integer).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// The text of a field, as a terminal may show it; empty without one.
pub(crate) fn text(reply: &RespValue, name: &str) -> String {
    field(reply, name).and_then(RespValue::bytes).map(shown).unwrap_or_default()
}

/// Bytes as text without anything that a terminal obeys: control characters and bytes that are no UTF-8 stand as `\xNN`. Names
/// of keys come from strangers.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() {
                text.extend(letter.to_string().bytes().map(escape));
            } else {
                text.push(letter);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(escape));
    }
    text
}

fn escape(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_name() {
        assert_eq!(shown(b"\x1b[2Jk\xc3\xa4\xff\x00"), "\\x1b[2Jk\u{e4}\\xff\\x00");
        // The two bytes of an 8-bit control sequence introducer.
        assert_eq!(shown("\u{9b}2J".as_bytes()), "\\xc2\\x9b2J");
    }
}
