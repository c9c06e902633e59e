//! Rules as texts: what they may refer to, why one is refused, and selectors that were cut into several words.

use crate::commands::KnownCommands;

/// The things that rules refer to.
#[derive(Clone, Copy, Debug)]
pub struct RuleContext<'a> {
    /// The commands that rules may name.
    pub commands: &'a KnownCommands,
    /// A selector begins with all channels (`acl-pubsub-default allchannels`).
    pub all_channels: bool,
}

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// No such rule, or a pattern with spaces.
    Syntax,
    /// It names no command and no category.
    Unknown,
    /// A pattern of keys where all keys are allowed.
    KeysAfterAll,
    /// A pattern of channels where all channels are allowed.
    ChannelsAfterAll,
    /// The password that is to be removed is none of the user's.
    NoPassword,
    /// The digest of a password is not 64 digits.
    NoDigest,
    /// A first argument of a subcommand.
    Deep,
}

impl RuleError {
    /// The reason, as clients and logs get it.
    pub fn text(self) -> &'static str {
        match self {
            RuleError::Syntax => "Syntax error",
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoPassword => "The password you are trying to remove from the user does not exist",
            RuleError::NoDigest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::Deep => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

/// True for a name or a pattern with blanks or zeros in it, which lines of files could not tell.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}

/// Rules of which a selector may be cut into several words: `(~a*`, `+get)` become one. An error is the number of the word
/// with which a selector begins that does not end.
///
/// # Errors
/// A selector does not end.
pub fn merge_selectors(words: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, usize> {
    let mut merged: Vec<Vec<u8>> = Vec::with_capacity(words.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (number, word) in words.iter().enumerate() {
        if let Some((_, text)) = &mut open {
            text.push(b' ');
            text.extend_from_slice(word);
        } else if word.first() == Some(&b'(') {
            open = Some((number, word.clone()));
        } else {
            merged.push(word.clone());
        }
        if word.last() == Some(&b')') {
            merged.extend(open.take().map(|(_, text)| text));
        }
    }
    open.map_or(Ok(merged), |(number, _)| Err(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_in_pieces_become_whole() {
        for (line, merged) in [
            ("on (~a +get) off", "on|(~a +get)|off"),
            ("( ~a +get )", "( ~a +get )"),
            ("(~a) (~b)", "(~a)|(~b)"),
            ("()", "()"),
            (")", ")"),
        ] {
            let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            assert_eq!(merge_selectors(&words).unwrap().join(&b'|'), merged.as_bytes(), "{line}");
        }
        let words = [b"on".to_vec(), b"(~a".to_vec(), b"+get".to_vec()];
        assert_eq!(merge_selectors(&words), Err(1));
    }
}
