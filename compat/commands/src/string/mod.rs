//! The string commands.
//!
//! `options` reads the options that SET, GETEX and MSETEX share; `value` replies and writes a string whole. `set` and
//! `get` are single keys, `count` the numbers, `bounded` those that stay between bounds, `range` parts of a string, `many` the commands over several keys, `lcs`
//! the longest common subsequence.
//!
//! The writer decides what OBJECT ENCODING reports later ([`varve_store::StringForm`]): a value set whole is `Auto`, one
//! that grew or was changed in its middle `Raw`, the result of INCRBYFLOAT `Plain`.

mod bounded;
mod count;
mod get;
mod lcs;
mod many;
mod range;
mod set;
mod value;

use varve_exec::FileRows;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] =
    &[bounded::ROWS, count::ROWS, get::ROWS, lcs::ROWS, many::ROWS, range::ROWS, set::ROWS];
