//! Where `unsafe` may stand.

use super::files::Tree;

const PLACES: &[&str] = &[
    "engine/base/",
    "engine/segment/",
    "engine/index/",
    "compat/lua/src/lent.rs",
    "compat/lua/src/raw.rs",
    "compat/lua/src/raw/",
    "compat/lua/src/state.rs",
    "server/src/system/sys",
];
/// Crates of which some modules may have it: they deny it, since what is forbidden cannot be allowed again.
const DENY: &[&str] = &["server/", "compat/lua/"];

/// `unsafe` stands only in its places, and the other crates forbid it.
pub(super) fn places(tree: &Tree) -> Vec<String> {
    let word = ["un", "safe"].concat();
    let mut complaints = Vec::new();
    for file in tree.rust().filter(|file| !PLACES.iter().any(|place| file.path.starts_with(place))) {
        for (number, line) in file.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let is_word = |(at, _): (usize, &str)| {
                let before = code[..at].chars().next_back();
                let after = code[at + word.len()..].chars().next();
                // Quotes and dashes: the word is text there, as in a page's rule about its styles.
                let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "_\"`'-".contains(c));
                !part(before) && !part(after)
            };
            if code.match_indices(&word).any(is_word) {
                complaints.push(format!("{}:{}: {word} has no place here", file.path, number + 1));
            }
        }
        let root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
        let denied = ["#![for", "bid(", &word, "_code)]"].concat();
        let softer = ["#![de", "ny(", &word, "_code)]"].concat();
        if root
            && !file.text.contains(&denied)
            && !(DENY.iter().any(|start| file.path.starts_with(start)) && file.text.contains(&softer))
        {
            complaints.push(format!("{}: {denied} is missing", file.path));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_out_of_place_is_found() {
        let bad = format!("//! a\n{0} {{ x }}\n// {0} in a comment\n", ["un", "safe"].concat());
        assert_eq!(places(&Tree::of(&[("compat/protocol/src/a.rs", &bad)])).len(), 1);
        assert!(places(&Tree::of(&[("engine/base/src/a.rs", &bad)])).is_empty());
        assert_eq!(places(&Tree::of(&[("compat/protocol/src/lib.rs", "//! a\n")])).len(), 1);
    }
}
