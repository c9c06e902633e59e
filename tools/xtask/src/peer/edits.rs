//! Edits of the suite's units: a text in the place of another one, in our copy, with the reason.

use super::ASSERTIONS;
use std::fs;
use std::path::Path;

/// A text of a unit, and the text in its place in our copy.
struct Edit {
    unit: &'static str,
    from: &'static str,
    to: &'static str,
}
/// All edits. A unit without the text of its edit fails.
const EDITS: &[Edit] = &[
    // The files of the first server stay for the second one.
    Edit {
        unit: ASSERTIONS,
        from: "start_server [list overrides $config] $code",
        to: "start_server [list overrides $config keep_persistence true] $code",
    },
    // The test reads the size of the file at once behind a reply. Under `everysec` our reply does not wait for the file, so on a
    // busy machine the write of the SET came behind the first look; under `always` it is there before the reply.
    Edit {
        unit: "integration/aof",
        from: "start_server {overrides {appendonly {yes}}} {\n        test {GETEX should not append to AOF} {",
        to: "start_server {overrides {appendonly {yes} appendfsync {always}}} {\n        test {GETEX should not append to AOF} {",
    },
];

/// Makes the edits of a unit in its file.
pub(super) fn apply_all(unit: &str, file: &Path) -> Result<(), String> {
    EDITS.iter().filter(|edit| edit.unit == unit).try_for_each(|edit| apply(edit, file))
}

/// Makes the edit, if it is not made yet: a unit may run twice.
fn apply(edit: &Edit, file: &Path) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    if text.contains(edit.to) {
        return Ok(());
    }
    if !text.contains(edit.from) {
        return Err(format!("{}: no '{}'", edit.unit, edit.from));
    }
    fs::write(file, text.replace(edit.from, edit.to)).map_err(|error| error.to_string())
}
