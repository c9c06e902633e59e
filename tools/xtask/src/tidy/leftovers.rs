//! Leftovers: marks of unfinished work, ignored tests, paths of somebody's machine.

use super::files::Tree;

/// Marks of unfinished work, and tests that are switched off.
pub(super) fn unfinished(tree: &Tree) -> Vec<String> {
    // Written in parts, so that this file passes.
    let marks = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["dbg", "!("], ["#[ign", "ore"]].map(|parts| parts.concat());
    let mut complaints = Vec::new();
    for file in tree.rust() {
        for (number, line) in file.text.lines().enumerate() {
            complaints.extend(
                marks
                    .iter()
                    .filter(|mark| line.contains(mark.as_str()))
                    .map(|mark| format!("{}:{}: {mark}", file.path, number + 1)),
            );
        }
    }
    complaints
}

/// Paths that only somebody's machine has.
pub(super) fn machine_paths(tree: &Tree) -> Vec<String> {
    let marks = [["/ro", "ot/"], ["/ho", "me/"], ["/wo", "rk/"]].map(|parts| parts.concat());
    let mut complaints = Vec::new();
    for file in &tree.files {
        for (number, line) in file.text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark.as_str())) {
                complaints.push(format!("{}:{}: a path of somebody's machine", file.path, number + 1));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_paths_are_found() {
        let mark = format!("// {}: later\n", ["TO", "DO"].concat());
        assert_eq!(unfinished(&Tree::of(&[("a.rs", &mark), ("a.md", &mark)])).len(), 1);
        let path = format!("see {}x\n", ["/ho", "me/"].concat());
        assert_eq!(machine_paths(&Tree::of(&[("a.rs", &path), ("b.md", &path)])).len(), 2);
    }
}
