//! LOLWUT: a drawing and the version. A varve is the layer that one year leaves on the bed of a lake, so the drawing
//! is a core of sediment, each row one deposit, darker in winter.

use varve_catalog::{ArgKind, Flags, Group, Row, arg};
use varve_exec::{CmdResult, Command, CommandError, Exec, FileRows, SessionCtx};

use crate::grammar::{integer, is};

pub(crate) const ROWS: FileRows = &[LOLWUT];

const LAYERS: u64 = 12;
const COLUMNS: u64 = 60;

/// LOLWUT [VERSION version [number ...]]: elsewhere the version chooses among drawings and the numbers size them; here
/// there is one drawing, of one size.
fn lolwut(ctx: &mut SessionCtx<'_>) -> CmdResult {
    numbers(ctx)?;
    ctx.out.verbatim(*b"txt", drawing(u64::from(std::process::id())).as_bytes());
    Ok(())
}

const LOLWUT: Command = Command::new(
    Exec::Session(lolwut),
    Row::new("lolwut", Group::Server, -1, "5.0.0")
        .about("Draws something.", "")
        .flags(&[Flags::READONLY, Flags::FAST])
        .args(&[arg("version", ArgKind::Integer).token("VERSION").optional()]),
);

/// The version must be a number, and so must the numbers that its drawing takes; what is behind those is not looked at.
fn numbers(ctx: &SessionCtx<'_>) -> CmdResult {
    if ctx.args.len() < 3 || !is(ctx.args.get(1), "VERSION") {
        return Ok(());
    }
    let number = |i| integer(ctx.args.get(i)).map_err(|_| CommandError::NOT_INTEGER);
    let taken = match number(2)? {
        5 => 3,
        6 => 2,
        _ => 0,
    };
    (3..ctx.args.len().min(3 + taken)).try_for_each(|i| number(i).map(|_| ()))
}

/// The core that belongs to a seed.
fn drawing(seed: u64) -> String {
    let mut rng = varve_base::rng::Rng::seeded(seed);
    let mut text = String::new();
    for row in 0..LAYERS {
        let shades: [char; 3] = if row % 2 == 0 { ['.', ':', ' '] } else { ['=', '#', '-'] };
        for _ in 0..COLUMNS {
            text.push(shades[rng.below(shades.len() as u64) as usize]);
        }
        text.push('\n');
    }
    text.push_str(concat!("\nVarve ver. ", env!("CARGO_PKG_VERSION"), "\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, LAYERS, drawing};

    #[test]
    fn a_core_has_its_rows_and_ends_with_the_version() {
        let text = drawing(1);
        let rows: Vec<_> = text.lines().collect();
        assert_eq!(rows.len() as u64, LAYERS + 2);
        assert!(rows[..LAYERS as usize].iter().all(|row| row.len() as u64 == COLUMNS));
        assert!(rows.last().unwrap().starts_with("Varve ver. "));
    }
}
