//! Source entries for apt, derived from the machine's own binary entries, in both of apt's forms.
//!
//! ```text
//! deb [options] URI suite components      ->  deb-src [options] URI suite components
//! Types: deb / URIs: … / Suites: …        ->  Types: deb-src / the same
//! ```
//!
//! Only archives with a component `main` are taken: third parties' lists have none of what is wanted. No host is named here.

use std::fs;
use std::path::PathBuf;

/// Entries in the one-line form and in the stanza form.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    pub(crate) lines: String,
    pub(crate) stanzas: String,
}

/// Reads the machine's entries.
///
/// # Errors
/// When there are none.
pub(crate) fn of_this_machine() -> Result<Sources, String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(dir) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(dir.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let mut sources = Sources::default();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|ext| ext.to_str()) {
            Some("list") => sources.lines.push_str(&from_lines(&text)),
            Some("sources") => sources.stanzas.push_str(&from_stanzas(&text)),
            _ => {}
        }
    }
    if sources == Sources::default() {
        Err("apt has no entry to derive a source entry from".into())
    } else {
        Ok(sources)
    }
}

fn from_lines(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(rest) = line.strip_prefix("deb ").or_else(|| line.strip_prefix("deb\t")) else { continue };
        if rest.split_whitespace().any(|word| word == "main") {
            out.push_str(&format!("deb-src {}\n", rest.trim()));
        }
    }
    out
}

fn from_stanzas(text: &str) -> String {
    let mut out = String::new();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in lines.split(|line| line.trim().is_empty()) {
        let field = |name: &str| stanza.iter().find_map(|line| value_of(line, name));
        let has = |name: &str, word: &str| field(name).is_some_and(|value| value.split_whitespace().any(|w| w == word));
        if !has("types", "deb") || !has("components", "main") || has("enabled", "no") {
            continue;
        }
        for line in stanza {
            if value_of(line, "types").is_some() {
                out.push_str("Types: deb-src\n");
            } else if value_of(line, "architectures").is_none() {
                out.push_str(line);
                out.push('\n');
            }
        }
        out.push('\n');
    }
    out
}

fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (field, value) = line.split_once(':')?;
    field.eq_ignore_ascii_case(name).then_some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_entries() {
        let text = "# a comment\ndeb http://one.invalid/debian bookworm main contrib # why\ndeb-src http://x.invalid y main\n\
                    deb [signed-by=/k] http://two.invalid/debian bookworm-updates main\ndeb http://three.invalid nodistro other\n";
        assert_eq!(
            from_lines(text),
            "deb-src http://one.invalid/debian bookworm main contrib\n\
             deb-src [signed-by=/k] http://two.invalid/debian bookworm-updates main\n"
        );
    }

    #[test]
    fn stanzas() {
        let text = "Types: deb deb-src\nURIs: http://one.invalid\n# why\nSuites: a b\nComponents: main\nArchitectures: amd64\nSigned-By: /k\n\n\
                    Types: deb\nURIs: http://two.invalid\nSuites: a\nComponents: main\nEnabled: no\n\nTypes: deb\nSuites: x\nComponents: other\n";
        let wanted = "Types: deb-src\nURIs: http://one.invalid\nSuites: a b\nComponents: main\nSigned-By: /k\n\n";
        assert_eq!(from_stanzas(text), wanted);
    }
}
