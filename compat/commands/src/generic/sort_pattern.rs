//! The patterns of SORT: from an element to a value somewhere in the database.
//!
//! ```text
//! "#"                    the element itself
//! "weight_*"             the string at the key weight_ELEMENT
//! "object_*->field"      the field of the hash at object_ELEMENT
//! without "*"            nothing
//! ```
//! A zero byte ends what is looked for in a pattern, as it ends a string of C's.

use varve_store::Tx;

/// A pattern of BY or GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern<'a> {
    /// The element.
    Itself,
    /// No value at all.
    Nothing,
    /// The element between `head` and `tail` is a key, of a string or of a hash.
    Key {
        head: &'a [u8],
        tail: &'a [u8],
        /// The hash's field.
        field: Option<&'a [u8]>,
    },
}

/// Whether a star stands in it.
pub(super) fn has_star(pattern: &[u8]) -> bool {
    star(pattern).is_some()
}

fn star(pattern: &[u8]) -> Option<usize> {
    pattern.iter().position(|byte| matches!(byte, b'*' | 0)).filter(|at| pattern[*at] == b'*')
}

impl<'a> Pattern<'a> {
    pub(super) fn parse(pattern: &'a [u8]) -> Pattern<'a> {
        if pattern == b"#" {
            return Pattern::Itself;
        }
        let Some(at) = star(pattern) else { return Pattern::Nothing };
        let (head, rest) = (&pattern[..at], &pattern[at + 1..]);
        let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        let arrow = text.windows(2).position(|pair| pair == b"->").filter(|arrow| arrow + 2 < text.len());
        match arrow {
            Some(arrow) => Pattern::Key { head, tail: &rest[..arrow], field: Some(&rest[arrow + 2..]) },
            None => Pattern::Key { head, tail: rest, field: None },
        }
    }

    /// The beginning and the end of the names of the keys to which it leads; `None` if it leads to none.
    pub(super) fn ends(&self) -> Option<(&'a [u8], &'a [u8])> {
        if let Pattern::Key { head, tail, .. } = self { Some((head, tail)) } else { None }
    }

    /// The name of the key to which the pattern leads from an element, in `name`; false if it leads to no key.
    fn name(&self, item: &[u8], name: &mut Vec<u8>) -> bool {
        let Pattern::Key { head, tail, .. } = self else { return false };
        name.clear();
        for part in [head, item, tail] {
            name.extend_from_slice(part);
        }
        true
    }

    /// The shard of the key to which the pattern leads from an element. `scratch` is for the key's name.
    pub(super) fn shard(&self, tx: &Tx<'_>, item: &[u8], scratch: &mut Vec<u8>) -> Option<u16> {
        self.name(item, scratch).then(|| tx.shard_of_bytes(scratch))
    }

    /// Shows the value to which the pattern leads from an element, `None` where it leads to none. Counts a hit or miss
    /// of the key, whose shard is held. `scratch` is for the key's name.
    pub(super) fn lead<R>(
        &self,
        tx: &mut Tx<'_>,
        item: &[u8],
        scratch: &mut Vec<u8>,
        show: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        let field = match self {
            Pattern::Itself => return show(Some(item)),
            Pattern::Nothing => return show(None),
            Pattern::Key { field, .. } => field,
        };
        self.name(item, scratch);
        let key = tx.key(scratch);
        let Some(field) = field else {
            return show(tx.get(&key).unwrap_or(None));
        };
        let mut show = Some(show);
        let mut once = |value: Option<&[u8]>| (show.take().expect("shown once"))(value);
        // The command has read other keys, and cannot be put back here.
        let patient = tx.set_patient(false);
        let shown = tx.hash_get(&key, field, &mut once);
        tx.set_patient(patient);
        match shown {
            Ok(shown) => shown,
            Err(_) => once(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns_are_cut_at_the_star_and_the_first_arrow() {
        let key = |head: &'static str, tail: &'static str, field: Option<&'static str>| Pattern::Key {
            head: head.as_bytes(),
            tail: tail.as_bytes(),
            field: field.map(str::as_bytes),
        };
        for (text, pattern) in [
            ("#", Pattern::Itself),
            ("##", Pattern::Nothing),
            ("", Pattern::Nothing),
            ("nosort", Pattern::Nothing),
            ("a->b", Pattern::Nothing),
            ("a\0*", Pattern::Nothing),
            ("*", key("", "", None)),
            ("w_*", key("w_", "", None)),
            ("w_*_x*", key("w_", "_x*", None)),
            ("h_*->f", key("h_", "", Some("f"))),
            ("h_*_t->f->g", key("h_", "_t", Some("f->g"))),
            ("h->*", key("h->", "", None)),
            ("h_*->", key("h_", "->", None)),
            ("h_*\0->f", key("h_", "\0->f", None)),
            ("h_*->f\0g", key("h_", "", Some("f\0g"))),
            ("h_*->\0g", key("h_", "->\0g", None)),
        ] {
            assert_eq!(Pattern::parse(text.as_bytes()), pattern, "{text:?}");
        }
    }
}
