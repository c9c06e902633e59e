//! The house rules that a program can check, each a function from the workspace's files to complaints.
//!
//! | rule | limit | file |
//! |---|---|---|
//! | a `.rs` file opens with `//!` | | lengths.rs |
//! | length of a file without its tests, of a function | 800 and 70 lines | lengths.rs |
//! | marks of unfinished work, ignored tests, paths of somebody's machine | none | leftovers.rs |
//! | comments and documents | words that have no clear meaning | prose.rs |
//! | `unsafe` | only in its places | unsafe_places.rs |
//! | edges between crates | a table | edges.rs |
//! | floors inside a crate | a table | floors.rs |
//! | circles of modules | none in the engine and the protocol | floors.rs |
//! | commands recognised by name, error texts | only in their rows, only in `errors.rs` | literals.rs |
//! | type names exported by two crates | none | names.rs |
//! | lines of code per assertion | a ratchet a crate | assertions.rs |
//! | ARCHITECTURE.md | names every crate; each path that it names exists | architecture.rs |
//!
//! Rust is not parsed: rustfmt has put a function's last brace under its first letter, a `use` at the start of a line.

mod architecture;
mod assertions;
mod edges;
mod files;
mod floors;
mod imports;
mod leftovers;
mod lengths;
mod literals;
mod names;
mod prose;
mod unsafe_places;

use crate::shell::Tally;
use files::Tree;
use std::path::Path;

/// A rule: its name, and what it complains of.
type Rule = (&'static str, fn(&Tree) -> Vec<String>);

const RULES: &[Rule] = &[
    ("module docs", lengths::module_docs),
    ("lengths", lengths::lengths),
    ("unfinished work", leftovers::unfinished),
    ("machine paths", leftovers::machine_paths),
    ("prose", prose::comments),
    ("unsafe", unsafe_places::places),
    ("edges", edges::edges),
    ("floors", floors::floors),
    ("circles", floors::circles),
    ("commands by name", literals::commands_by_name),
    ("error texts", literals::error_texts),
    ("exported names", names::exported_twice),
    ("assertions", assertions::rates),
    ("architecture", architecture::page),
];

/// Checks everything. Each rule is one test of the tally.
pub(crate) fn run(root: &Path) -> Tally {
    let tree = Tree::read(root);
    let mut tally = Tally::default();
    for (rule, check) in RULES {
        let complaints = check(&tree);
        let result = if complaints.is_empty() { Ok(()) } else { Err(format!("\n  {}", complaints.join("\n  "))) };
        tally.add(Tally::one(&format!("tidy, {rule}"), result));
    }
    tally
}
