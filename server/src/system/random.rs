//! Numbers that nobody can guess, from the system's source.

use std::fs::File;
use std::io::{self, Read};

/// This number of hexadecimal digits.
pub(crate) fn hex(digits: usize) -> io::Result<String> {
    let mut bytes = vec![0; digits.div_ceil(2)];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn digits_come_in_any_number_and_differ() {
        let texts = [1, 2, 63, 64].map(|digits| hex(digits).unwrap());
        assert_eq!(texts.each_ref().map(String::len), [1, 2, 63, 64]);
        assert_ne!(texts[3], hex(64).unwrap());
    }
}
