//! The words of a script that may be names of commands: a script that runs a command on the whole keyspace begins alone.

/// Longest name of a command that is looked for.
const NAME_MAX: usize = 32;

/// The words of a script that stand in quotes of either kind and consist of letters: the names of commands that it runs are
/// among them, unless it makes them up.
pub(crate) fn quoted_words(code: &[u8]) -> Box<[Box<[u8]>]> {
    let mut words: Vec<Box<[u8]>> = Vec::new();
    for (at, quote) in code.iter().enumerate().filter(|(_, byte)| matches!(byte, b'"' | b'\'')) {
        let rest = &code[at + 1..];
        let Some(len) = rest.iter().take(NAME_MAX).position(|byte| byte == quote) else { continue };
        let word = &rest[..len];
        if len > 0 && word.iter().all(u8::is_ascii_alphabetic) {
            words.push(word.to_ascii_lowercase().into());
        }
    }
    words.sort_unstable();
    words.dedup();
    words.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_commands_are_found_in_quotes() {
        let words = quoted_words(b"redis.call('KEYS', \"*\") redis.pcall(\"set\", 'a b', 'x1') local s = 'it''s'");
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        assert_eq!(words, ["it", "keys", "s", "set"]);
    }
}
