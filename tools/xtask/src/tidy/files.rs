//! The workspace's files as the rules read them.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories that hold nothing of ours.
const NOT_OURS: &[&str] = &["target", ".git", ".test-tools", "corpus", "artifacts", "proptest-regressions"];
/// Endings of the files that are read.
const READ: &[&str] = &["rs", "md", "toml", "txt", "py", "tcl"];

/// A file of the workspace.
pub(super) struct File {
    /// Relative to the root, with slashes.
    pub(super) path: String,
    pub(super) text: String,
}

/// All files, by path.
pub(super) struct Tree {
    pub(super) root: PathBuf,
    pub(super) files: Vec<File>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Tree {
        let mut files = Vec::new();
        collect(root, root, &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Tree { root: root.to_path_buf(), files }
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File { path: (*path).into(), text: (*text).into() };
        Tree { root: PathBuf::new(), files: files.iter().map(file).collect() }
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The sources of a crate (its directory) that are not tests.
    pub(super) fn sources(&self, krate: &str) -> impl Iterator<Item = &File> {
        let start = format!("{krate}/src/");
        self.rust().filter(move |file| file.path.starts_with(&start) && !file.is_tests())
    }

    pub(super) fn find(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

impl File {
    /// True if the whole file is tests.
    pub(super) fn is_tests(&self) -> bool {
        let path = &self.path;
        let name = path.rsplit('/').next().unwrap_or_default();
        path.starts_with("tests/")
            || ["/tests/", "/benches/", "/examples/"].iter().any(|dir| path.contains(dir))
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
    }

    /// Number of lines up to the tests module, which stands last.
    pub(super) fn lines_without_tests(&self) -> usize {
        let mut lines = self.text.lines().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let next_is_tests = lines.peek().is_some_and(|(_, next)| next.starts_with("mod tests {"));
            if line.starts_with("#[cfg(") && line.contains("test") && next_is_tests {
                return number;
            }
        }
        self.text.lines().count()
    }

    /// The lines of code without tests and without whole-line comments, each with its number from 1.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().take(self.lines_without_tests());
        lines.enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with("//")
        })
    }
}

fn collect(root: &Path, dir: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && !NOT_OURS.contains(&name.as_str()) {
            collect(root, &path, files);
        } else if path.is_file()
            && READ.iter().any(|ending| path.extension().is_some_and(|e| e == *ending))
            && let (Ok(text), Ok(relative)) = (fs::read_to_string(&path), path.strip_prefix(root))
        {
            files.push(File { path: relative.to_string_lossy().into_owned(), text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count_in_a_file() {
        let tree = Tree::of(&[("a/src/b.rs", "//! a\nfn x() {}\n\n#[cfg(test)]\nmod tests {\n}\n")]);
        assert_eq!(tree.files[0].lines_without_tests(), 3);
        assert_eq!(tree.files[0].code().collect::<Vec<_>>(), [(2, "fn x() {}")]);
        for path in ["engine/a/src/tests.rs", "engine/a/src/tests/b.rs", "tests/src/c.rs", "engine/a/src/b_tests.rs"] {
            assert!(Tree::of(&[(path, "")]).files[0].is_tests(), "{path}");
        }
    }
}
