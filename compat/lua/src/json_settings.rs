//! The settings of `cjson`, with which each run of a script begins.

/// Tables within each other, until the script sets something else.
const DEPTH: i64 = 1000;

/// The settings of one copy of the library.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) encode_depth: i64,
    pub(crate) decode_depth: i64,
    /// Significant digits of a number.
    pub(crate) precision: i64,
    /// An array with many holes is written as an object, in place of an error.
    pub(crate) sparse_convert: i64,
    /// An array has many holes if its length is over this many times the number of its elements ..
    pub(crate) sparse_ratio: i64,
    /// .. and over this number.
    pub(crate) sparse_safe: i64,
    /// Infinity and NaN when writing: 0 an error, 1 as they are, 2 null.
    pub(crate) encode_invalid: i64,
    /// Infinity, NaN and hexadecimal numbers are read.
    pub(crate) decode_invalid: i64,
    pub(crate) keep_buffer: i64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            encode_depth: DEPTH,
            decode_depth: DEPTH,
            precision: 14,
            sparse_convert: 0,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_invalid: 0,
            decode_invalid: 1,
            keep_buffer: 1,
        }
    }
}
