//! The first line of a library: `#!lua name=mylib`. It is cut into words as lines of a configuration are, quotes included.

use varve_exec::CmdResult;
use varve_protocol::words::words;

use crate::errors;

/// The name of the only language, in either case.
const ENGINE: &[u8] = b"lua";

/// The first line of a library, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Metadata<'c> {
    /// Letters, digits and underscores.
    pub(crate) name: Vec<u8>,
    /// The code behind the first line, its line end included: lines keep their numbers.
    pub(crate) code: &'c [u8],
}

impl<'c> Metadata<'c> {
    /// The metadata of a library with this source text. The order of the reasons is redis-server's.
    ///
    /// # Errors
    /// There is no first line of a library, or something in it is wrong.
    pub(crate) fn parse(text: &'c [u8]) -> CmdResult<Metadata<'c>> {
        if !text.starts_with(b"#!") {
            return Err(errors::NO_METADATA);
        }
        let len = text.iter().position(|byte| *byte == b'\n').ok_or(errors::METADATA)?;
        let words = words(&text[..len]).filter(|words| !words.is_empty()).ok_or(errors::METADATA)?;
        let mut name = None;
        for word in &words[1..] {
            match word.split_at_checked(b"name=".len()) {
                Some((key, _)) if key.eq_ignore_ascii_case(b"name=") && name.is_some() => {
                    return Err(errors::LIBRARY_NAMED_TWICE);
                }
                Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => name = Some(value.to_vec()),
                _ => return Err(errors::metadata_word(word)),
            }
        }
        let name = name.ok_or(errors::LIBRARY_UNNAMED)?;
        if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            return Err(errors::LIBRARY_NAME);
        }
        let engine = &words[0][b"#!".len()..];
        if !engine.eq_ignore_ascii_case(ENGINE) {
            return Err(errors::library_engine(engine));
        }
        Ok(Metadata { name, code: &text[len..] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_are_taken_apart() {
        let metadata = Metadata::parse(b"#!lua name=my_lib\nreturn 1");
        assert_eq!(metadata, Ok(Metadata { name: b"my_lib".to_vec(), code: b"\nreturn 1" }));
        assert_eq!(Metadata::parse(b"#!\"LUA\"\tNAME='a'\n").map(|metadata| metadata.name), Ok(b"a".to_vec()));
    }

    #[test]
    fn refusals_have_the_texts_of_redis() {
        let name_rule = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                         character long";
        let table = [
            ("return 1", "ERR Missing library metadata"),
            ("\n#!lua name=a\n", "ERR Missing library metadata"),
            ("#!lua name=a", "ERR Invalid library metadata"),
            ("#!lua name=\"a\n", "ERR Invalid library metadata"),
            ("#!lua\nx", "ERR Library name was not given"),
            ("#!foo name=a\nx", "ERR Engine 'foo' not found"),
            ("#! name=a\nx", "ERR Engine '' not found"),
            ("#!lua name=a name=b\n", "ERR Invalid metadata value, name argument was given multiple times"),
            ("#!lua name=a b\n", "ERR Invalid metadata value given: b"),
            ("#!lua name=a flags=no-writes\n", "ERR Invalid metadata value given: flags=no-writes"),
            ("#!lua name=\n", name_rule),
            ("#!lua name=a-b\n", name_rule),
        ];
        for (text, expected) in table {
            let refusal = Metadata::parse(text.as_bytes()).expect_err(text);
            assert_eq!(String::from_utf8_lossy(refusal.text()), expected, "{text}");
        }
    }
}
