//! The first line of a script, which may declare flags: `#!lua flags=no-writes,allow-oom`.

use varve_exec::{CmdResult, ScriptRules};
use varve_lua::{ScriptFlags, Shebang};

use crate::errors;

/// The flags that a script declares, None without a first line that does; and its code, whose lines are counted from that
/// first line.
///
/// # Errors
/// The first line names another language, or something unknown.
pub(crate) fn split(body: &[u8]) -> CmdResult<(Option<ScriptRules>, &[u8])> {
    if body.starts_with(b"#!") && !body.contains(&b'\n') {
        return Err(errors::SHEBANG);
    }
    let Some(shebang) = Shebang::parse(body).map_err(errors::of_script)? else { return Ok((None, body)) };
    if shebang.engine != b"lua" {
        return Err(errors::engine(shebang.engine));
    }
    let mut flags = ScriptFlags::default();
    for (word, value) in shebang.words {
        if word != b"flags" {
            return Err(errors::option(word, value));
        }
        for name in value.split(|byte| *byte == b',').filter(|_| !value.is_empty()) {
            if !flags.set(name) {
                return Err(errors::flag(name));
            }
        }
    }
    Ok((Some(rules(flags)), &body[shebang.len..]))
}

/// The flags that bind a script's commands. Those about clusters change nothing: there is none.
pub(crate) fn rules(flags: ScriptFlags) -> ScriptRules {
    ScriptRules { no_writes: flags.no_writes, allow_oom: flags.allow_oom, allow_stale: flags.allow_stale }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(body: &[u8]) -> CmdResult<Option<ScriptRules>> {
        split(body).map(|(flags, _)| flags)
    }

    fn refusal(body: &str) -> String {
        String::from_utf8_lossy(flags(body.as_bytes()).expect_err("refused").text()).into_owned()
    }

    #[test]
    fn flags_are_read() {
        assert_eq!(flags(b"return 1"), Ok(None));
        assert_eq!(flags(b"#!lua\nreturn 1"), Ok(Some(ScriptRules::default())));
        let all = ScriptRules { no_writes: true, allow_oom: true, allow_stale: true };
        assert_eq!(flags(b"#!lua flags=no-writes,allow-oom,allow-stale\nreturn 1"), Ok(Some(all)));
        assert_eq!(flags(b"#!lua flags=\nreturn 1"), Ok(Some(ScriptRules::default())));
        assert_eq!(split(b"#!lua\nreturn 1").map(|(_, code)| code), Ok(&b"\nreturn 1"[..]));
    }

    #[test]
    fn refusals_have_the_texts_of_redis() {
        assert_eq!(refusal("#!lua"), "ERR Invalid script shebang");
        assert_eq!(refusal("#!not-lua\n"), "ERR Unexpected engine in script shebang: #!not-lua");
        assert_eq!(refusal("#!lua badger=1\n"), "ERR Unknown lua shebang option: badger=1");
        assert_eq!(refusal("#!lua flags=no-writes,x\n"), "ERR Unexpected flag in script shebang: x");
    }
}
