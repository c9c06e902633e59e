//! A type name is exported by one crate only, so that a word has one meaning.

use super::edges::EDGES;
use super::files::{File, Tree};
use super::floors::reexported;
use super::imports::module_of;
use std::collections::{BTreeMap, BTreeSet};

/// No two libraries define and export types of the same name.
pub(super) fn exported_twice(tree: &Tree) -> Vec<String> {
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let libraries = EDGES.iter().filter(|(krate, _)| tree.find(&format!("{krate}/src/lib.rs")).is_some());
    for (krate, _) in libraries {
        for (name, path) in exported(tree, krate) {
            by_name.entry(name).or_default().push(path);
        }
    }
    by_name
        .iter()
        .filter(|(_, paths)| paths.iter().map(|path| path.split("/src/").next()).collect::<BTreeSet<_>>().len() > 1)
        .map(|(name, paths)| format!("{name}: {}", paths.join(", ")))
        .collect()
}

/// The types that a library defines and exports, each with its file.
///
/// A simple reading: a `pub` type is exported if the modules down to it are `pub`, or if some `pub use` of the crate names it.
fn exported<'t>(tree: &'t Tree, krate: &'t str) -> Vec<(&'t str, &'t str)> {
    let named: BTreeSet<String> = tree
        .sources(krate)
        .flat_map(reexported)
        .filter_map(|path| path.split('@').next()?.rsplit("::").next().map(str::to_string))
        .collect();
    let mut found = Vec::new();
    for file in tree.sources(krate) {
        let open = is_open(tree, krate, file);
        found.extend(types(file).filter(|name| open || named.contains(*name)).map(|name| (name, file.path.as_str())));
    }
    found
}

/// The names of the `pub` types of a file.
fn types(file: &File) -> impl Iterator<Item = &str> {
    file.code().filter_map(|(_, line)| {
        let (kind, rest) = line.strip_prefix("pub ")?.trim_start_matches("unsafe ").split_once(' ')?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        ["struct", "enum", "trait", "type", "union"].contains(&kind).then_some(name)
    })
}

/// True if each module on the way to a file is `pub`.
fn is_open(tree: &Tree, krate: &str, file: &File) -> bool {
    let module = module_of(&file.path);
    (0..module.len()).all(|depth| {
        let parent = module[..depth].join("/");
        let candidates = match depth {
            0 => vec![format!("{krate}/src/lib.rs")],
            _ => vec![format!("{krate}/src/{parent}.rs"), format!("{krate}/src/{parent}/mod.rs")],
        };
        let declaration = format!("pub mod {};", module[depth]);
        candidates.iter().filter_map(|path| tree.find(path)).any(|file| file.text.contains(&declaration))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_two_crates_is_found() {
        let find = |segment: &str, index: &str| {
            exported_twice(&Tree::of(&[
                ("engine/segment/src/lib.rs", segment),
                ("engine/segment/src/a.rs", "pub struct Place<'a>(&'a ());\npub(crate) enum Inner {}\n"),
                ("engine/index/src/lib.rs", index),
                ("engine/index/src/b.rs", "pub type Place = u8;\npub(crate) enum Inner {}\n"),
            ]))
        };
        let both = "Place: engine/segment/src/a.rs, engine/index/src/b.rs";
        assert_eq!(find("mod a;\npub use a::{Place};\n", "pub mod b;\n"), [both]);
        assert!(find("mod a;\n", "pub mod b;\n").is_empty());
    }
}
