//! Assertions: engine code states what it relies on. A ratchet: lines of code per assertion may only fall.

use super::files::Tree;

/// Crates (directories) and how many lines of code have one assertion at least. Lines of tests, blank lines and comments
/// do not count, nor do the assertions of tests.
const LINES_PER_ASSERTION_MAX: &[(&str, usize)] = &[
    ("engine/base", 75),
    ("engine/segment", 25),
    ("engine/index", 25),
    ("engine/packed", 25),
    ("engine/collection", 25),
    ("engine/store", 131),
];

/// Each crate has as many assertions as it had.
pub(super) fn rates(tree: &Tree) -> Vec<String> {
    LINES_PER_ASSERTION_MAX.iter().filter_map(|(krate, most)| too_few(tree, krate, *most)).collect()
}

fn too_few(tree: &Tree, krate: &str, most: usize) -> Option<String> {
    let code = || tree.sources(krate).flat_map(|file| file.code());
    let (lines, assertions) = (code().count(), code().filter(|(_, line)| asserts(line)).count());
    let short = lines.div_ceil(most).saturating_sub(assertions);
    (short > 0)
        .then(|| format!("{krate}: {assertions} assertions in {lines} lines of code, {short} short of one in {most}"))
}

fn asserts(line: &str) -> bool {
    let names = ["assert!(", "assert_eq!(", "assert_ne!("];
    names.iter().any(|name| {
        line.match_indices(name).any(|(at, _)| {
            let before = line[..at].trim_end_matches("debug_");
            !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_are_counted_without_tests() {
        let text = "//! a\nfn f() {\n    debug_assert!(x);\n    assert_eq!(\n        a, b\n    );\n    my_assert!(x);\n}\n\n\
                    #[cfg(test)]\nmod tests {\n    assert!(x);\n}\n";
        let tree = Tree::of(&[("engine/index/src/a.rs", text)]);
        assert_eq!(too_few(&tree, "engine/index", 4), None);
        let complaint = "engine/index: 2 assertions in 7 lines of code, 1 short of one in 3";
        assert_eq!(too_few(&tree, "engine/index", 3).as_deref(), Some(complaint));
    }
}
