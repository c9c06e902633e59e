//! Words of the grammar that several kinds of values share: numbers, sizes, paths, and why a value is refused.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Why a value was refused, in the words that a client sees.
pub(crate) type Refusal = Cow<'static, str>;

/// The refusal of a word that is none of `words`.
pub(crate) fn not_one_of(words: &[&str]) -> Refusal {
    format!("argument(s) must be one of the following: {}", words.join(", ")).into()
}

/// A decimal integer without spaces, plus sign or leading zeros.
pub(crate) fn strict_i64(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// A decimal integer within bounds.
pub(crate) fn integer(argument: &[u8], min: i64, max: i64) -> Result<i64, Refusal> {
    let number = strict_i64(argument).ok_or("argument couldn't be parsed into an integer")?;
    if number < min || number > max {
        return Err(format!("argument must be between {min} and {max} inclusive").into());
    }
    Ok(number)
}

/// A number of bytes. No digits at all mean 0, and a number beyond 64 bits means the greatest one, as in Redis; a
/// product beyond 64 bits is refused, where Redis wraps around.
pub(crate) fn memory(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit: u64 = match text[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number = text[..digits]
        .iter()
        .fold(0u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    number.checked_mul(unit)
}

/// The path that these bytes name.
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// The bytes of a path.
pub(crate) fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().to_owned().into_vec()
}

/// Whether a word stands for all names that match it, and not for one.
pub(crate) fn is_pattern(word: &[u8]) -> bool {
    word.iter().any(|byte| b"*?[".contains(byte))
}
