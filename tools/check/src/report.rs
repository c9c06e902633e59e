//! A summary as text for people and as JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::summary::{Damage, LargeKey, Summary};

/// Bytes of a key that a table shows.
const KEY_SHOWN_BYTES: usize = 60;

/// The summary as a table.
pub(crate) fn table(summary: &Summary) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_table(summary, &mut text);
    text
}

fn write_table(summary: &Summary, to: &mut String) -> std::fmt::Result {
    if let Some(dialect) = summary.dialect {
        writeln!(to, "{:?}, version {}, {} bytes", dialect.magic, dialect.version, summary.file_bytes)?;
    }
    for (name, value) in &summary.aux {
        writeln!(to, "  {}: {}", shown(name), shown(value))?;
    }
    writeln!(to, "\n{:<10}{:>12}{:>14}{:>16}{:>14}", "type", "keys", "elements", "bytes", "most elements")?;
    for (kind, sums) in &summary.kinds {
        let (keys, elements, bytes, most) = (sums.keys, sums.elements, sums.bytes, sums.elements_max);
        writeln!(to, "{:<10}{keys:>12}{elements:>14}{bytes:>16}{most:>14}", kind.name())?;
    }
    writeln!(to, "{:<10}{:>12}", "all", summary.keys())?;
    if summary.functions > 0 {
        writeln!(to, "libraries of functions: {}", summary.functions)?;
    }
    if summary.module_aux > 0 {
        writeln!(to, "data of modules beside keys: {}", summary.module_aux)?;
    }
    if summary.empty > 0 {
        writeln!(to, "collections without elements, which a start passes over: {}", summary.empty)?;
    }
    writeln!(to, "\n{:<10}{:>12}{:>14}", "database", "keys", "that expire")?;
    for (db, sums) in &summary.databases {
        writeln!(to, "{db:<10}{:>12}{:>14}", sums.keys, sums.volatile)?;
    }
    if let Some((first, last)) = summary.expiries.range_ms {
        let over = summary.expiries.over;
        writeln!(to, "\n{over} keys have expired; times from {first} to {last} ms of Unix time")?;
    }
    let largest = summary.largest();
    if !largest.is_empty() {
        writeln!(to, "\n{:>12}{:>12}  {:<8}{:>4}  largest keys", "bytes", "elements", "type", "db")?;
    }
    for LargeKey { bytes, elements, kind, db, key } in largest {
        writeln!(to, "{bytes:>12}{elements:>12}  {:<8}{db:>4}  {}", kind.name(), shown(key))?;
    }
    match &summary.fault {
        None => writeln!(to, "\nsound: every byte was read, and a start takes it"),
        Some(damage) => writeln!(to, "\ndamaged {}", place(damage)),
    }
}

/// Where a file is damaged and why.
fn place(damage: &Damage) -> String {
    let mut text = format!("at byte {}", damage.offset);
    if let Some(name) = damage.type_name {
        let _ = write!(text, ", in a {name}");
    }
    if let Some(key) = &damage.key {
        let _ = write!(text, ", at key \"{}\"", shown(key));
    }
    let _ = write!(text, ": {}", damage.reason);
    text
}

/// Bytes as text that a terminal shows, cut where they are long.
fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(KEY_SHOWN_BYTES)];
    let rest = if cut.len() < bytes.len() { format!(".. ({} bytes)", bytes.len()) } else { String::new() };
    format!("{}{rest}", cut.escape_ascii())
}

/// The summary as JSON. Keys that are no text are escaped as in the table, and whole.
pub(crate) fn json(summary: &Summary) -> String {
    let text = |bytes: &[u8]| Value::String(bytes.escape_ascii().to_string());
    let aux = summary.aux.iter().map(|(name, value)| (name.escape_ascii().to_string(), text(value)));
    let kinds = summary.kinds.iter().map(|(kind, sums)| {
        let sums = json!({
            "keys": sums.keys, "elements": sums.elements, "bytes": sums.bytes, "elements_max": sums.elements_max,
        });
        (kind.name().to_owned(), sums)
    });
    let databases = summary
        .databases
        .iter()
        .map(|(db, sums)| (db.to_string(), json!({"keys": sums.keys, "expire": sums.volatile})));
    let largest = summary.largest().into_iter().map(|key| {
        json!({
            "key": text(&key.key), "db": key.db, "type": key.kind.name(), "bytes": key.bytes, "elements": key.elements,
        })
    });
    let expiries = summary.expiries;
    let whole = json!({
        "magic": summary.dialect.map(|dialect| format!("{:?}", dialect.magic)),
        "version": summary.dialect.map(|dialect| dialect.version),
        "file_bytes": summary.file_bytes,
        "read_bytes": summary.read_bytes,
        "aux": aux.collect::<serde_json::Map<_, _>>(),
        "functions": summary.functions,
        "module_aux": summary.module_aux,
        "empty": summary.empty,
        "keys": summary.keys(),
        "types": kinds.collect::<serde_json::Map<_, _>>(),
        "databases": databases.collect::<serde_json::Map<_, _>>(),
        "expiries": {
            "keys": expiries.keys,
            "over": expiries.over,
            "first_ms": expiries.range_ms.map(|(first, _)| first),
            "last_ms": expiries.range_ms.map(|(_, last)| last),
        },
        "largest": largest.collect::<Vec<_>>(),
        "damage": summary.fault.as_ref().map(|damage| json!({
            "offset": damage.offset,
            "type": damage.type_name,
            "key": damage.key.as_deref().map(text),
            "reason": damage.reason,
        })),
    });
    format!("{whole:#}\n")
}
