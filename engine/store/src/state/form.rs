//! How a string was made: the two bits that the log keeps with a string's object.
//!
//! The bits of a collection's object are its encoding (`link.rs`).

use varve_segment::ObjectTag;

/// How a string was made, which OBJECT ENCODING reports: the tag of a string's object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StringForm {
    /// From a client: an integer if it reads as one, else by its length.
    #[default]
    Auto,
    /// Never an integer, by its length.
    Plain,
    /// Changed in place.
    Raw,
    /// A copy: an integer if it reads as one, the key's own and never a shared one, else by its length.
    Own,
}

/// OBJECT ENCODING's longest `embstr`, in bytes.
const EMBSTR_MAX: usize = 44;

impl StringForm {
    /// The form that a string's tag means.
    #[inline]
    pub(crate) fn of(tag: ObjectTag) -> StringForm {
        match tag.bits() {
            0 => StringForm::Auto,
            1 => StringForm::Plain,
            2 => StringForm::Raw,
            _ => StringForm::Own,
        }
    }

    /// The tag of a string's object.
    #[inline]
    pub(crate) const fn tag(self) -> ObjectTag {
        match self {
            StringForm::Auto => ObjectTag::new(0),
            StringForm::Plain => ObjectTag::new(1),
            StringForm::Raw => ObjectTag::new(2),
            StringForm::Own => ObjectTag::new(3),
        }
    }

    /// The name that OBJECT ENCODING answers for a string of this form.
    pub(crate) fn encoding(self, value: &[u8]) -> &'static str {
        match self {
            StringForm::Auto | StringForm::Own if varve_base::number::parse_i64(value).is_some() => "int",
            StringForm::Auto | StringForm::Own | StringForm::Plain if value.len() <= EMBSTR_MAX => "embstr",
            _ => "raw",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for form in [StringForm::Auto, StringForm::Plain, StringForm::Raw, StringForm::Own] {
            assert_eq!(StringForm::of(form.tag()), form);
        }
        assert_eq!(StringForm::default().tag(), ObjectTag::default());
    }
}
