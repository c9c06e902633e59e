//! The texts of errors, one by one: every command with too few and too many arguments, options that exclude each other,
//! numbers that are none. All mismatches are listed at once.

#![forbid(unsafe_code)]
