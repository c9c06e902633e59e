//! Passwords as their SHA-256 digests: nothing else of a password is kept.

use sha2::{Digest as _, Sha256};

/// The digest of a password.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest([u8; 32]);

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest")
    }
}

impl Digest {
    /// The digest of this password.
    pub(crate) fn of(plain: &[u8]) -> Digest {
        Digest(Sha256::digest(plain).into())
    }

    /// The digest that 64 hexadecimal digits say, all of them in lower case; None for other texts.
    pub(crate) fn from_hex(text: &[u8]) -> Option<Digest> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
        let bytes: Vec<u8> = text.chunks(2).map(byte).collect::<Option<_>>()?;
        bytes.try_into().ok().map(Digest)
    }

    /// 64 hexadecimal digits.
    pub(crate) fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// True if one of the digests is this one. The time depends on their number alone.
    pub(crate) fn is_among<'d>(&self, known: impl Iterator<Item = &'d Digest>) -> bool {
        let differ = |other: &Digest| other.0.iter().zip(&self.0).fold(0, |differ, (a, b)| differ | (a ^ b));
        known.fold(false, |found, other| found | (differ(other) == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_as_they_are_written() {
        let foo = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
        assert_eq!(Digest::of(b"foo").hex(), foo);
        assert_eq!(Digest::from_hex(foo.as_bytes()), Some(Digest::of(b"foo")));
        let (longer, shorter, upper) = (format!("{foo}0"), &foo[1..], foo.to_uppercase());
        for wrong in ["", "zz", &longer, shorter, &upper] {
            assert_eq!(Digest::from_hex(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn any_of_several_is_found() {
        let known = [b"a", b"b", b"c"].map(|plain| Digest::of(plain));
        assert!(known.iter().all(|digest| digest.is_among(known.iter())));
        assert!(!Digest::of(b"d").is_among(known.iter()) && !Digest::of(b"a").is_among([].iter()));
    }
}
