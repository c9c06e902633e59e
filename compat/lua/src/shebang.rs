//! The first line of a script or a library: `#!lua name=mylib flags=no-writes,allow-oom`.

use crate::errors::{SHEBANG_WORD, ScriptError};

/// The first line, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shebang<'a> {
    /// The name after `#!`, such as `lua`.
    pub engine: &'a [u8],
    /// `name=value`, in their order.
    pub words: Vec<(&'a [u8], &'a [u8])>,
    /// Bytes of the line, without its end: the code begins here, with the line end, so that lines keep their numbers.
    pub len: usize,
}

impl<'a> Shebang<'a> {
    /// The first line of `code`; None if it is no shebang.
    ///
    /// # Errors
    /// A word that is no `name=value`.
    pub fn parse(code: &'a [u8]) -> Result<Option<Shebang<'a>>, ScriptError> {
        if !code.starts_with(b"#!") {
            return Ok(None);
        }
        let len = code.iter().position(|byte| *byte == b'\n').unwrap_or(code.len());
        let mut words = code[2..len].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let engine = words.next().unwrap_or_default();
        let pair = |word: &'a [u8]| match word.iter().position(|byte| *byte == b'=') {
            Some(at) => Ok((&word[..at], &word[at + 1..])),
            None => Err(ScriptError::new([SHEBANG_WORD, word].concat())),
        };
        Ok(Some(Shebang { engine, words: words.map(pair).collect::<Result<_, _>>()?, len }))
    }
}
