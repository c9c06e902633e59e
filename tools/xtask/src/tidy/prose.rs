//! Words in comments and documents that cost a second reading. The writing rule is in CONTRIBUTING.md.

use super::files::Tree;

/// Words that are refused wherever they stand, and what to write.
const WORDS: &[(&str, &str)] = &[
    ("so many ", "name the unit"),
    ("So many ", "name the unit"),
    ("The same,", "say what, in full"),
    ("to who ", "name the subject"),
];
/// Beginnings of a line of comment that are refused: no sentence has them as its subject.
const BEGINNINGS: &[&str] = &["Who ", "What ", "Whose ", "The same ", "As [", "As `"];

/// Comments of sources and the text of documents.
pub(super) fn comments(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    // This file and the writing rule name the words.
    let read = |path: &str| path != "tools/xtask/src/tidy/prose.rs" && path != "CONTRIBUTING.md";
    for file in tree.files.iter().filter(|file| read(&file.path)) {
        let rust = file.path.ends_with(".rs");
        if !rust && !file.path.ends_with(".md") {
            continue;
        }
        for (number, line) in file.text.lines().enumerate() {
            let comment = if rust { comment(line) } else { Some(line) };
            let Some(comment) = comment else { continue };
            let words = WORDS.iter().filter(|(word, _)| format!("{comment} ").contains(word));
            let complain = |what: &str, instead: &str| format!("{}:{}: \"{what}\": {instead}", file.path, number + 1);
            complaints.extend(words.map(|(word, instead)| complain(word.trim_end(), instead)));
            let begins = BEGINNINGS.iter().find(|start| rust && comment.starts_with(*start) && !comment.ends_with('?'));
            complaints.extend(begins.map(|start| complain(start.trim_end(), "begin with the subject")));
        }
    }
    complaints
}

/// The text of a line's comment, without the blank behind its slashes.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = ["///", "//!", "//"].iter().find_map(|slashes| line.strip_prefix(slashes)).or_else(|| {
        let (code, text) = line.split_once(" // ")?;
        (!code.contains('"')).then_some(text)
    })?;
    Some(text.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_words_are_found_in_comments_only() {
        let find = |path, text: &str| comments(&Tree::of(&[(path, text)])).len();
        assert_eq!(
            find("a.rs", "//! Of so many cells one is free.\n/// The same, to change.\nlet x = \"so many \";\n"),
            2
        );
        assert_eq!(find("a.rs", "    x: u8, // As `y`\n/// What it leaves.\n/// Who is it?\n"), 2);
        assert_eq!(find("a.rs", "/// As long as it is held, what it is does not change.\n"), 0);
        assert_eq!(find("a.md", "There are so\nmany. Not so many\n"), 1);
    }
}
