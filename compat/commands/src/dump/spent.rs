//! Notes of a RESTORE that nobody asks for any more: their memory is given back in steps.

use varve_base::freeing::free_some;
use varve_rdb::Distinct;

use super::check::CheckedEntry;
use super::stream::MadeEntry;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// Names of elements, some gigabytes for a payload of 500 MB.
    pub(super) names: Distinct,
    /// Pending entries of groups that were checked, and of groups that were made: some hundred megabytes.
    pub(super) checked: Vec<CheckedEntry>,
    pub(super) made: Vec<MadeEntry>,
}

impl Spent {
    /// Gives some memory back; true when all is given back.
    pub(super) fn free_some(&mut self) -> bool {
        self.names.free_some() && free_some(&mut self.checked) && free_some(&mut self.made)
    }

    /// Bytes of memory that it has.
    pub(super) fn held_bytes(&self) -> usize {
        self.names.held_bytes()
            + self.checked.capacity() * size_of::<CheckedEntry>()
            + self.made.capacity() * size_of::<MadeEntry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_given_back_in_steps() {
        let mut spent = Spent { checked: vec![((1, 1), false); 1 << 20], ..Spent::default() };
        let (bytes, mut steps) = (spent.held_bytes(), 1);
        while !spent.free_some() {
            steps += 1;
        }
        assert!(bytes > 16 << 20 && steps > 4 && spent.held_bytes() == 0, "{bytes} bytes in {steps} steps");
    }
}
