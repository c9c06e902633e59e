//! Passing over a value by its frame alone: nothing packed is looked into.
//!
//! A loader that has several threads finds the borders of values in this way, and values of modules are passed over so.

use std::io::Read;

use crate::format::Encoding;
use crate::read::fault::ReadFault;
use crate::read::source::Source;

/// Passes over a value.
pub(crate) fn value<R: Read>(source: &mut Source<R>, encoding: Encoding) -> Result<(), ReadFault> {
    match encoding {
        Encoding::String
        | Encoding::HashZipmap
        | Encoding::ListZiplist
        | Encoding::SetIntset
        | Encoding::ZsetZiplist
        | Encoding::HashZiplist
        | Encoding::HashListpack
        | Encoding::ZsetListpack
        | Encoding::SetListpack
        | Encoding::HashListpackFieldsPreGa => source.skip_string(),
        Encoding::HashListpackFields => {
            source.skip(8)?;
            source.skip_string()
        }
        Encoding::List | Encoding::Set | Encoding::Quicklist => each(source, Source::skip_string),
        Encoding::Hash => each(source, pair),
        Encoding::Zset => each(source, |source| {
            source.skip_string()?;
            source.skip(8)
        }),
        Encoding::ZsetText => each(source, |source| {
            source.skip_string()?;
            let bytes = source.byte()?;
            // From 253 on the byte is the score: not a number, or an infinity.
            if bytes < 253 { source.skip(bytes.into()) } else { Ok(()) }
        }),
        Encoding::Quicklist2 => each(source, |source| {
            source.length()?;
            source.skip_string()
        }),
        Encoding::HashFieldsPreGa => each(source, dated_pair),
        Encoding::HashFields => {
            source.skip(8)?;
            each(source, dated_pair)
        }
        Encoding::HashFieldsValkey => each(source, |source| {
            pair(source)?;
            source.skip(8)
        }),
        Encoding::Stream(form) => stream(source, form),
        Encoding::Module => {
            source.length()?;
            module(source)
        }
        Encoding::ModulePreGa => Err(ReadFault::Unsupported("value whose end only its module finds")),
    }
}

/// Passes over a number of things, which stands in front of them.
fn each<R: Read>(
    source: &mut Source<R>,
    mut one: impl FnMut(&mut Source<R>) -> Result<(), ReadFault>,
) -> Result<(), ReadFault> {
    let count = source.length()?;
    for _ in 0..count {
        one(source)?;
    }
    Ok(())
}

fn pair<R: Read>(source: &mut Source<R>) -> Result<(), ReadFault> {
    source.skip_string()?;
    source.skip_string()
}

fn dated_pair<R: Read>(source: &mut Source<R>) -> Result<(), ReadFault> {
    source.length()?;
    pair(source)
}

/// A stream.
///
/// ```text
/// nodes (key, listpack) | length | last ID | from form 2: first ID, largest deleted ID, entries added
/// groups: name | last ID | from form 2: entries read | pending: ID (16), time (8), deliveries
///         consumers: name | seen (8) | from form 3: active (8) | pending: ID (16)
///         form 5: pending entries that were given back: ID (16)
/// from form 4: duration | most names | producers: name | messages: name, ID | added | duplicates
/// ```
fn stream<R: Read>(source: &mut Source<R>, form: u8) -> Result<(), ReadFault> {
    each(source, pair)?;
    lengths(source, if form >= 2 { 8 } else { 3 })?;
    each(source, |source| {
        source.skip_string()?;
        lengths(source, if form >= 2 { 3 } else { 2 })?;
        each(source, |source| {
            source.skip(24)?;
            source.length().map(|_| ())
        })?;
        each(source, |source| {
            source.skip_string()?;
            source.skip(if form >= 3 { 16 } else { 8 })?;
            each(source, |source| source.skip(16))
        })?;
        if form >= 5 { each(source, |source| source.skip(16)) } else { Ok(()) }
    })?;
    if form < 4 {
        return Ok(());
    }
    lengths(source, 2)?;
    each(source, |source| {
        source.skip_string()?;
        each(source, |source| {
            source.skip_string()?;
            lengths(source, 2)
        })
    })?;
    lengths(source, 2)
}

fn lengths<R: Read>(source: &mut Source<R>, count: usize) -> Result<(), ReadFault> {
    for _ in 0..count {
        source.length()?;
    }
    Ok(())
}

/// A module's data, up to its end mark: opcodes say what follows.
pub(crate) fn module<R: Read>(source: &mut Source<R>) -> Result<(), ReadFault> {
    loop {
        match source.length()? {
            0 => return Ok(()),
            1 | 2 => _ = source.length()?,
            3 => source.skip(4)?,
            4 => source.skip(8)?,
            5 => source.skip_string()?,
            _ => return Err(ReadFault::Odd("a module's data has an unknown opcode")),
        }
    }
}
