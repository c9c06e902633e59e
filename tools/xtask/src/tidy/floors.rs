//! Floors inside a crate: which folders and files may import which. And no circles of modules.
//!
//! ```text
//!   FLOORS, lowest first:   ["state"]  ["keyspace"]  ["ops", "steps"]
//!   ops/zset.rs  -> keyspace, state, ops          rooms of one floor do not see each other: not steps
//!   state/key.rs -> state
//! ```
//! A room is a path of modules, with `*` for any one module; each module that `*` stands for is a room of its own. A file
//! is in the room that matches most of its path. lib.rs and main.rs are above all floors; the room `lib` stands for the types
//! that lib.rs itself defines for the whole crate.

use super::edges::EDGES;
use super::files::{File, Tree};
use super::imports::{Import, compact, expand, imports, module_of, use_at};
use std::collections::{BTreeMap, BTreeSet};

/// Crates (directories) and their floors, lowest first.
const FLOORS: &[(&str, &[&[&str]])] = &[
    (
        "engine/segment",
        &[
            &["kind", "ids", "fullness", "geometry", "releases", "leaf_lock", "kept"],
            &["layout", "table"],
            &["memory"],
            &["ahead"],
            &["space"],
            &["log"],
            &["pin"],
            &["object"],
            &["extent"],
            &["append", "reclaim", "written"],
            &["clear", "verify"],
        ],
    ),
    (
        "engine/index",
        &[
            &["hash_space", "cell"],
            &["bucket"],
            &["pool"],
            &["part"],
            &["geometry", "hint"],
            &["table"],
            &["growth", "drain", "walk", "verify"],
        ],
    ),
    ("engine/packed", &[&["lib"], &["intset", "node"], &["leaf"]]),
    (
        "engine/collection",
        &[
            &["lib", "kinds"],
            &["counted_tree", "handed", "shared_map"],
            &["sequence_readers"],
            &["leaf_table"],
            &["list", "stream", "zset"],
        ],
    ),
    ("engine/store", &[&["state"], &["keyspace"], &["ops", "steps"], &["admission"]]),
    ("compat/rdb", &[&["crc", "lzf", "format"], &["dump", "write"], &["read"], &["distinct", "functions"]]),
    ("compat/catalog", &[&["flags"], &["argument", "key_spec", "secret"], &["row"], &["keys", "names"]]),
    (
        "compat/acl",
        &[
            &["commands", "password", "pattern"],
            &["password_set", "rule"],
            &["selector"],
            &["describe"],
            &["user"],
            &["users"],
        ],
    ),
    (
        "compat/exec",
        &[
            &[
                "denials",
                "errors",
                "journal",
                "large_arguments",
                "last_command",
                "link",
                "hot_keys",
                "monitor",
                "notify",
                "occupied",
                "script_rules",
                "tracking",
            ],
            &["multi"],
            &["sources"],
            &["ongoing", "stats"],
            &["waiting"],
            &["session"],
            &["script"],
            &["checks", "ctx"],
            &["command"],
            &["invoke", "pause"],
            &["sampled"],
            &["blocking"],
            &["batch"],
            &["apply"],
        ],
    ),
    (
        "compat/scripts",
        &[
            &["errors"],
            &["cache", "given", "hashes", "metadata", "rows", "running", "settings", "shebang", "words"],
            &["host"],
            &["functions"],
            &["keeper"],
            &["eval", "fcall", "function", "script"],
        ],
    ),
    (
        "compat/commands",
        &[
            &["errors"],
            &["grammar", "digest"],
            &["generic", "segments", "survey"],
            &["bitmap", "hash", "hyperloglog", "list", "set", "stream", "string", "zset", "dump", "transaction"],
            &["blocking", "geo", "migrate"],
            &["cluster", "connection", "db", "debug", "introspect", "lolwut", "memory"],
        ],
    ),
    (
        "server",
        &[
            &["errors", "time_left"],
            &["system"],
            &["config"],
            &["features/pubsub/state"],
            &["features/*/state"],
            &["net"],
            &["state"],
            &["features/pubsub"],
            &["features/persist"],
            &["features/*"],
            &["features"],
            &["worker"],
            &["process"],
        ],
    ),
];

/// Imports go to the same room or to a lower floor.
pub(super) fn floors(tree: &Tree) -> Vec<String> {
    FLOORS.iter().flat_map(|(krate, floors)| climbs(tree, krate, floors)).collect()
}

/// A floor's number and the path of the room, its stars filled in.
type Room = (usize, Vec<String>);

/// The room that matches most of a path.
fn room(path: &[String], floors: &[&[&str]]) -> Option<Room> {
    let rooms = floors.iter().enumerate().flat_map(|(number, rooms)| rooms.iter().map(move |room| (number, room)));
    rooms
        .filter_map(|(number, room)| {
            let parts: Vec<&str> = room.split('/').collect();
            let fits =
                parts.len() <= path.len() && parts.iter().zip(path).all(|(part, name)| part == name || *part == "*");
            // Of two that are as long, the one with fewer stars.
            let named = parts.iter().filter(|part| **part != "*").count();
            fits.then(|| ((parts.len(), named), (number, path[..parts.len()].to_vec())))
        })
        .max_by_key(|(fit, _)| *fit)
        .map(|(_, room)| room)
}

fn climbs(tree: &Tree, krate: &str, floors: &[&[&str]]) -> Vec<String> {
    let reexports = Reexports::of(tree, krate);
    let mut complaints = Vec::new();
    for file in tree.sources(krate) {
        let module = module_of(&file.path);
        if module.is_empty() {
            continue;
        }
        let Some((floor, place)) = room(&module, floors) else {
            complaints.push(format!("{}: stands on no floor", file.path));
            continue;
        };
        for Import { line, path } in imports(file) {
            let Some(path) = reexports.resolve(path) else { continue };
            let known = path.first().is_some_and(|first| is_module(tree, krate, std::slice::from_ref(first)));
            let path = if known { path } else { [&["lib".to_string()][..], &path].concat() };
            match room(&path, floors) {
                None => complaints.push(format!("{}:{line}: crate::{} names no floor", file.path, path.join("::"))),
                Some((other, there)) if other > floor || other == floor && there != place => {
                    let (place, there) = (place.join("/"), there.join("/"));
                    complaints.push(format!("{}:{line}: {place} may not see {there}", file.path));
                }
                Some(_) => {}
            }
        }
    }
    complaints
}

/// Names that a crate's root exports again: `crate::Shard` is `crate::shard::Shard`.
struct Reexports {
    paths: BTreeMap<String, Vec<String>>,
    /// Names that come from other crates.
    foreign: BTreeSet<String>,
}

impl Reexports {
    fn of(tree: &Tree, krate: &str) -> Reexports {
        let mut reexports = Reexports { paths: BTreeMap::new(), foreign: BTreeSet::new() };
        for root in ["lib.rs", "main.rs"].iter().filter_map(|name| tree.find(&format!("{krate}/src/{name}"))) {
            for path in reexported(root) {
                let (path, new) = path.split_once('@').unwrap_or((&path, ""));
                let parts: Vec<String> = path.trim_start_matches("crate::").split("::").map(str::to_string).collect();
                let name = if new.is_empty() { parts.last().cloned().unwrap_or_default() } else { new.to_string() };
                if is_module(tree, krate, &parts[..1]) {
                    reexports.paths.insert(name, parts);
                } else {
                    reexports.foreign.insert(name);
                }
            }
        }
        reexports
    }

    /// Where a path leads to; None if that is another crate.
    fn resolve(&self, path: Vec<String>) -> Option<Vec<String>> {
        let Some(first) = path.first() else { return Some(path) };
        if self.foreign.contains(first) {
            return None;
        }
        match self.paths.get(first) {
            Some(whole) if whole.len() > 1 => Some(whole.iter().chain(&path[1..]).cloned().collect()),
            _ => Some(path),
        }
    }
}

/// The paths of a file's `pub use`s, as they are written.
pub(super) fn reexported(file: &File) -> Vec<String> {
    let mut paths = Vec::new();
    let mut lines = file.code();
    while let Some((_, code)) = lines.next() {
        let mut statement = code.trim().to_string();
        if !statement.starts_with("pub") {
            continue;
        }
        let Some(at) = use_at(&statement) else { continue };
        while !statement.ends_with(';') {
            let Some((_, more)) = lines.next() else { break };
            statement.push_str(more.trim());
        }
        expand("", &compact(&statement[at..]), &mut paths);
    }
    paths
}

/// In the engine and in `compat`, modules beside each other do not import one another in a circle, at any depth. Between two
/// rooms the floors decide.
pub(super) fn circles(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    let without = |krate: &str| krate.starts_with("engine/") || krate.starts_with("compat/");
    for (krate, _) in EDGES.iter().filter(|(krate, _)| without(krate)) {
        let floors = FLOORS.iter().find(|(name, _)| name == krate).map_or(&[][..], |(_, floors)| floors);
        let reexports = Reexports::of(tree, krate);
        let mut siblings: BTreeMap<Vec<String>, Graph> = BTreeMap::new();
        for file in tree.sources(krate) {
            let module = module_of(&file.path);
            for import in imports(file) {
                let Some(path) = reexports.resolve(import.path) else { continue };
                let common = module.iter().zip(&path).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(common), path.get(common))
                    && is_module(tree, krate, &path[..=common])
                    && room(&module, floors) == room(&path, floors)
                {
                    let graph = siblings.entry(module[..common].to_vec()).or_default();
                    graph.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        for (parent, graph) in &siblings {
            let place = [&[(*krate).to_string()], &parent[..]].concat().join("/");
            complaints.extend(in_circles(graph).into_iter().map(|circle| format!("{place}: {}", circle.join(" <-> "))));
        }
    }
    complaints
}

type Graph = BTreeMap<String, BTreeSet<String>>;

fn is_module(tree: &Tree, krate: &str, path: &[String]) -> bool {
    let path = path.join("/");
    [".rs", "/mod.rs"].iter().any(|end| tree.find(&format!("{krate}/src/{path}{end}")).is_some())
}

/// The sets of modules that reach each other.
fn in_circles(graph: &Graph) -> Vec<Vec<String>> {
    let reach = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(graph.get(module).into_iter().flatten().filter(|to| seen.insert((*to).clone())));
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = graph.keys().map(|module| (module, reach(module))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, there) in &reached {
        let back = |other: &&String| reached.get(*other).is_some_and(|back| back.contains(*module));
        let circle: Vec<String> = there.iter().filter(back).cloned().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOORS: &[&[&str]] =
        &[&["state"], &["features/*/state"], &["ops", "steps"], &["features/pubsub"], &["features/*"], &["features"]];

    fn complaints(path: &str, import: &str) -> usize {
        let text = format!("//! a\nuse crate::{import};\n");
        let lib = "//! l\nmod state;\npub use state::key::{Key, Other as Another};\n\
                   pub use steps::Step;\npub use varve_b::End as ListEnd;\n";
        let there = [
            ("engine/a/src/lib.rs", lib),
            ("engine/a/src/state/mod.rs", ""),
            ("engine/a/src/steps/mod.rs", ""),
            ("engine/a/src/ops/mod.rs", ""),
            ("engine/a/src/features/mod.rs", ""),
        ];
        let tree = Tree::of(&[&there[..], &[(path, &text)]].concat());
        climbs(&tree, "engine/a", FLOORS).len()
    }

    #[test]
    fn an_import_upward_or_across_is_found() {
        assert_eq!(complaints("engine/a/src/ops/zset.rs", "state::key::Key"), 0);
        assert_eq!(complaints("engine/a/src/ops/zset.rs", "ops::hash"), 0);
        assert_eq!(complaints("engine/a/src/ops/zset.rs", "steps::evict"), 1);
        assert_eq!(complaints("engine/a/src/state/key.rs", "ops::zset"), 1);
        assert_eq!(complaints("engine/a/src/state/key.rs", "{state::x, ops::{a, b}}"), 2);
        assert_eq!(complaints("engine/a/src/elsewhere.rs", "state::x"), 1);
        assert_eq!(complaints("engine/a/src/ops/zset.rs", "elsewhere::X"), 1);
    }

    #[test]
    fn what_the_root_gives_on_counts_where_it_is() {
        assert_eq!(complaints("engine/a/src/ops/zset.rs", "Key"), 0);
        assert_eq!(complaints("engine/a/src/ops/zset.rs", "Another"), 0);
        assert_eq!(complaints("engine/a/src/ops/zset.rs", "Step"), 1);
        assert_eq!(complaints("engine/a/src/ops/zset.rs", "ListEnd"), 0, "it is another crate's");
    }

    #[test]
    fn a_star_makes_rooms_that_do_not_see_each_other() {
        assert_eq!(complaints("engine/a/src/features/clients/run.rs", "features::clients::list"), 0);
        assert_eq!(complaints("engine/a/src/features/clients/run.rs", "features::pause::list"), 1);
        assert_eq!(complaints("engine/a/src/features/clients/run.rs", "features::pause::state::X"), 0);
        assert_eq!(complaints("engine/a/src/features/clients/run.rs", "features::pubsub::x"), 0);
        assert_eq!(complaints("engine/a/src/features/clients/state.rs", "features::clients::list"), 1);
    }

    #[test]
    fn circles_are_found_and_parents_are_none() {
        let files = [
            ("engine/store/src/a.rs", "use crate::b::X;\n"),
            ("engine/store/src/b.rs", "use crate::c::X;\n"),
            ("engine/store/src/c/mod.rs", "use crate::a::X;\nuse crate::c::d::Y;\n"),
            ("engine/store/src/c/d.rs", "use super::Z;\nuse crate::e::X;\n"),
            ("engine/store/src/e.rs", "//! e\n"),
        ];
        assert_eq!(circles(&Tree::of(&files)), ["engine/store: a <-> b <-> c"]);
    }
}
