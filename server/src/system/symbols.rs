//! Names of the program's functions, for a stack: read from the program's own file when a report is written.
//!
//! ```text
//!   /proc/self/exe:  header --> sections --> symbol table --> the last function that begins at or before an address
//!                                        --> its names
//! ```
//! Nothing is allocated and no lock is waited for, since a crash may have come anywhere; that is why no crate reads the
//! file, and why there are no lines: those are in the debugging information, for which a debugger is the tool. A program whose
//! symbols were taken away has no names.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a symbol and of a section's head.
const SYMBOL_BYTES: usize = 24;
const SECTION_BYTES: usize = 64;
/// Symbols that are read at once.
const AT_ONCE: usize = 128;
/// Bytes of a name that are shown at most.
pub(super) const NAME_BYTES_MAX: usize = 512;

/// A function around an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Where it begins, from the program's begin; 0 for none.
    pub(super) start: u64,
    /// Where its name stands in the file.
    name_at: u64,
}

impl Function {
    /// No function.
    pub(super) const NONE: Function = Function { start: 0, name_at: 0 };
}

/// Room for the work, which a small stack does not have.
#[derive(Debug)]
pub(super) struct SymbolRoom([u8; SYMBOL_BYTES * AT_ONCE]);

impl SymbolRoom {
    pub(super) const fn new() -> SymbolRoom {
        SymbolRoom([0; SYMBOL_BYTES * AT_ONCE])
    }
}

/// The program's file, and where its symbols are.
#[derive(Debug)]
pub(super) struct Symbols {
    file: File,
    /// Begin and end of the symbols.
    from: u64,
    to: u64,
    /// Begin of the names.
    names: u64,
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + BYTES].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Symbols {
    /// Those of this program.
    pub(super) fn open() -> io::Result<Symbols> {
        let file = File::open("/proc/self/exe")?;
        let mut header = [0; SECTION_BYTES];
        file.read_exact_at(&mut header, 0)?;
        let (sections, count) = (number::<8>(&header, 40), number::<2>(&header, 60));
        // 64 bits, and sections of the size that we know.
        if header[..5] != *b"\x7fELF\x02" || number::<2>(&header, 58) != SECTION_BYTES as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let section = |at: u64| -> io::Result<[u8; SECTION_BYTES]> {
            let mut head = [0; SECTION_BYTES];
            file.read_exact_at(&mut head, sections + at * SECTION_BYTES as u64)?;
            Ok(head)
        };
        for at in 0..count {
            const SYMBOL_TABLE: u64 = 2;
            let head = section(at)?;
            if number::<4>(&head, 4) == SYMBOL_TABLE {
                let names = number::<8>(&section(number::<4>(&head, 40))?, 24);
                let from = number::<8>(&head, 24);
                return Ok(Symbols { from, to: from + number::<8>(&head, 32), names, file });
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// The functions around these addresses, which count from the program's begin: of each the nearest one before it.
    pub(super) fn find(&self, addresses: &[u64], found: &mut [Function], room: &mut SymbolRoom) -> io::Result<()> {
        assert!(addresses.len() <= found.len(), "each address has its place");
        let mut at = self.from;
        while at + SYMBOL_BYTES as u64 <= self.to {
            let count = ((self.to - at) as usize / SYMBOL_BYTES).min(AT_ONCE);
            let part = &mut room.0[..count * SYMBOL_BYTES];
            self.file.read_exact_at(part, at)?;
            for symbol in part.chunks_exact(SYMBOL_BYTES) {
                const FUNCTION: u8 = 2;
                let start = number::<8>(symbol, 8);
                if symbol[4] & 15 != FUNCTION || start == 0 {
                    continue;
                }
                for (address, best) in addresses.iter().zip(found.iter_mut()) {
                    if start <= *address && start > best.start {
                        *best = Function { start, name_at: self.names + number::<4>(symbol, 0) };
                    }
                }
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    /// The name of a function, as the linker knows it.
    pub(super) fn name<'r>(&self, function: Function, room: &'r mut [u8; NAME_BYTES_MAX]) -> Option<&'r str> {
        if function.start == 0 {
            return None;
        }
        let count = self.file.read_at(room, function.name_at).ok()?;
        let len = room[..count].iter().position(|&byte| byte == 0).unwrap_or(count);
        std::str::from_utf8(&room[..len]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Function, NAME_BYTES_MAX, SymbolRoom, Symbols};

    #[test]
    fn the_program_knows_its_functions() {
        let symbols = Symbols::open().unwrap();
        let begin = super::super::sys::stack::program().start;
        let place = Symbols::open as *const () as usize;
        let addresses = [(place - begin) as u64, (place - begin) as u64 + 1];
        let (mut found, mut room) = ([Function::NONE; 2], SymbolRoom::new());
        symbols.find(&addresses, &mut found, &mut room).unwrap();
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0].start, addresses[0]);
        let mut name = [0; NAME_BYTES_MAX];
        let name = symbols.name(found[0], &mut name).unwrap();
        assert!(rustc_demangle::demangle(name).to_string().contains("symbols::Symbols"), "{name}");
        assert_eq!(symbols.name(Function::NONE, &mut [0; NAME_BYTES_MAX]), None);
    }
}
