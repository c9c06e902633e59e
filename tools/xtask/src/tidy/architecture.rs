//! ARCHITECTURE.md keeps up with the tree.

use super::edges::EDGES;
use super::files::Tree;
use std::path::PathBuf;

/// The page names every crate, and each path that it names is there.
pub(super) fn page(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.find("ARCHITECTURE.md") else {
        return vec!["ARCHITECTURE.md is not there".into()];
    };
    let mut complaints: Vec<String> = named_paths(&page.text)
        .into_iter()
        .filter(|path| !tree.root.join(path).exists())
        .map(|path| format!("ARCHITECTURE.md names {}, which is not there", path.display()))
        .collect();
    let unnamed = EDGES.iter().filter(|(dir, _)| !page.text.contains(dir));
    complaints.extend(unnamed.map(|(dir, _)| format!("ARCHITECTURE.md does not name {dir}")));
    complaints
}

/// The words in back quotes that look like a path of the workspace.
fn named_paths(text: &str) -> Vec<PathBuf> {
    let tops = ["engine/", "compat/", "server/", "tools/", "tests/", "fuzz/", "docs/", ".ci/", ".cargo/"];
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            tops.iter().any(|top| word.starts_with(top))
                && !word.contains(|c: char| c == '*' || c == '{' || c.is_whitespace())
        })
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_page() {
        let text = "see `engine/base`, `engine/*/src` and `Tx::get`, but not engine/none";
        assert_eq!(named_paths(text), [PathBuf::from("engine/base")]);
        let complaints = page(&Tree::of(&[("ARCHITECTURE.md", "`engine/none`")]));
        assert!(complaints.contains(&"ARCHITECTURE.md names engine/none, which is not there".to_string()));
    }
}
