//! Module docs; lengths of files and functions.

use super::files::Tree;

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// A file opens with its picture.
pub(super) fn module_docs(tree: &Tree) -> Vec<String> {
    tree.rust()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| format!("{}: opens without //!", file.path))
        .collect()
}

/// Files without their tests, and functions, are not too long.
pub(super) fn lengths(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut check = |what: String, length: usize, limit: usize| {
        if length > limit {
            complaints.push(format!("{what}: {length} lines, at most {limit}"));
        }
    };
    for file in tree.rust() {
        if !file.is_tests() {
            check(file.path.clone(), file.lines_without_tests(), FILE_LINES_MAX);
        }
        for (name, length) in functions(&file.text) {
            check(format!("{}#{name}", file.path), length, FUNCTION_LINES_MAX);
        }
    }
    complaints
}

/// Names of functions and their lengths in lines, from `fn` to the closing brace.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let Some(name) = function_name(code) else { continue };
        let body = &lines[start..];
        let closes =
            |line: &&str| line.len() > indent && line[..indent].trim().is_empty() && line[indent..].starts_with('}');
        if code.ends_with('}') || code.ends_with(';') {
            continue;
        }
        // A declaration without a body ends with a semicolon before any line closes.
        if let Some(end) = body.iter().skip(1).position(closes) {
            let declaration =
                body[..=end].iter().take_while(|line| !line.ends_with('{')).any(|line| line.ends_with(';'));
            if !declaration {
                found.push((name.to_string(), end + 2));
            }
        }
    }
    found
}

fn function_name(code: &str) -> Option<&str> {
    let mut words = code.split(' ');
    loop {
        match words.next()? {
            "fn" => break,
            word if word.starts_with("pub")
                || ["const", "unsafe", "async", "extern", "\"C\"", "super)", "self)"].contains(&word) => {}
            _ => return None,
        }
    }
    words.next()?.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_functions_are_counted() {
        let long = format!(
            "//! a\nimpl X {{\n    pub(crate) fn long(\n        a: u8,\n    ) -> u8 {{\n{}    }}\n    fn short() {{}}\n}}\n",
            "        x;\n".repeat(80)
        );
        assert_eq!(functions(&long), [("long".to_string(), 84)]);
        assert_eq!(lengths(&Tree::of(&[("engine/base/src/a.rs", &long)])).len(), 1);
        let file = "x\n".repeat(801);
        assert_eq!(lengths(&Tree::of(&[("engine/base/src/a.rs", &file), ("tests/src/a.rs", &file)])).len(), 1);
    }

    #[test]
    fn a_file_without_a_head_is_found() {
        assert_eq!(module_docs(&Tree::of(&[("a.rs", "use x;\n"), ("b.rs", "//! b\n")])).len(), 1);
    }
}
