//! Edges between crates.

use super::files::Tree;

/// Crates (directories) and the crates of the workspace that they may depend on. Tests may use testkit beside these.
pub(super) const EDGES: &[(&str, &[&str])] = &[
    ("engine/base", &[]),
    ("engine/segment", &["varve-base"]),
    ("engine/packed", &["varve-base"]),
    ("engine/index", &["varve-base"]),
    ("engine/collection", &["varve-base", "varve-segment", "varve-index", "varve-packed"]),
    ("engine/store", &["varve-base", "varve-segment", "varve-index", "varve-packed", "varve-collection"]),
    ("compat/protocol", &["varve-base"]),
    ("compat/rdb", &["varve-base"]),
    ("compat/aof", &["varve-base", "varve-protocol"]),
    ("compat/lua", &["varve-base", "varve-protocol"]),
    ("compat/catalog", &["varve-base", "varve-protocol"]),
    ("compat/acl", &["varve-base", "varve-protocol", "varve-catalog"]),
    // The journal writes requests and notes into what is read again as an append-only file: their form stands in one crate.
    ("compat/exec", &["varve-base", "varve-store", "varve-protocol", "varve-catalog", "varve-acl", "varve-aof"]),
    ("compat/commands", &["varve-base", "varve-store", "varve-protocol", "varve-rdb", "varve-catalog", "varve-exec"]),
    ("compat/scripts", &["varve-base", "varve-protocol", "varve-rdb", "varve-catalog", "varve-exec", "varve-lua"]),
    (
        "server",
        &[
            "varve-base",
            "varve-store",
            "varve-protocol",
            "varve-rdb",
            "varve-aof",
            "varve-catalog",
            "varve-acl",
            "varve-exec",
            "varve-commands",
            "varve-scripts",
        ],
    ),
    ("tools/testkit", &[]),
    (
        "tools/loops",
        &[
            "varve-store",
            "varve-protocol",
            "varve-acl",
            "varve-exec",
            "varve-commands",
            "varve-scripts",
            "varve-testkit",
        ],
    ),
    (
        "tools/bench",
        &[
            "varve-base",
            "varve-commands",
            "varve-exec",
            "varve-protocol",
            "varve-scripts",
            "varve-store",
            "varve-testkit",
        ],
    ),
    // Files are judged by the pieces that load them.
    ("tools/check", &["varve-base", "varve-rdb", "varve-aof", "varve-commands", "varve-scripts", "varve-store"]),
    // It asks a server as tests and experiments do: a second client and decoder of replies would be the same once more.
    ("tools/top", &["varve-testkit"]),
    // The documents are made of the server's own tables: of copies they would say something else one day.
    ("tools/docs", &["varve-catalog", "varve-server"]),
    ("tools/xtask", &[]),
    (
        "tests",
        &[
            "varve-store",
            "varve-protocol",
            "varve-rdb",
            "varve-catalog",
            "varve-exec",
            "varve-commands",
            "varve-server",
            "varve-testkit",
        ],
    ),
];

/// Each crate depends on what the table lets it.
pub(super) fn edges(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml") && !file.path.starts_with("fuzz/")) {
        let dir = file.path.trim_end_matches("/Cargo.toml");
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == dir) else {
            complaints.push(format!("{dir}: a crate that the table of edges does not know"));
            continue;
        };
        let mut section = "";
        for line in file.text.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let name = line.split([' ', '=', '.']).next().unwrap_or_default();
            let for_tests = section.contains("dev-dependencies") && name == "varve-testkit";
            if section.contains("dependencies") && name.starts_with("varve-") && !allowed.contains(&name) && !for_tests
            {
                complaints.push(format!("{dir} -> {name}: an edge that the table does not have"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_upward_is_found() {
        let bad = "[dependencies]\nvarve-base = { workspace = true }\nvarve-segment.workspace = true\n";
        let tree = Tree::of(&[("engine/index/Cargo.toml", bad)]);
        assert_eq!(edges(&tree), ["engine/index -> varve-segment: an edge that the table does not have"]);
        let tests = "[dev-dependencies]\nvarve-testkit = { workspace = true }\n";
        assert!(edges(&Tree::of(&[("engine/index/Cargo.toml", tests)])).is_empty());
    }
}
