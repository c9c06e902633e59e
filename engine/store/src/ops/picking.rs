//! Draws over several holds of the shard, from collections of all types that are drawn from.
//!
//! Not here: how an element is drawn (`draw`), and who keeps others from the collection meanwhile.

use super::Tx;
use super::draw::Picker;
use super::hashes::HashView;
use super::sets::SetView;
use super::zsets::ZsetView;
use crate::state::key::Key;
use crate::state::types::{Type, WrongType};
use crate::state::walker::ValuePart;

impl Tx<'_> {
    /// Shows the next elements of a draw from a hash, a set or a sorted set, at most this number; none without the key. No hit
    /// or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn pick_some(
        &mut self,
        (k, ty): (&Key<'_>, Type),
        picker: &mut Picker,
        most: usize,
        mut show: impl FnMut(ValuePart<'_>),
    ) -> Result<(), WrongType> {
        let Some(opened) = self.open(k, ty)? else { return Ok(()) };
        let rng = self.local.rng();
        match ty {
            Type::Hash => {
                let hash = HashView::open(&self.held, self.store, opened);
                let mut show = |field: &[u8], value: &[u8]| show(ValuePart::Pair(field, value, None));
                hash.lot().pick_some(rng, picker, most, |id| hash.show(id, &mut show));
            }
            Type::Set => {
                let set = SetView::open(&self.held, self.store, opened);
                let mut text = [0; 20];
                set.lot().pick_some(rng, picker, most, |id| show(ValuePart::Element(set.member(id).text(&mut text))));
            }
            Type::Zset => {
                let set = ZsetView::open(&self.held, self.store, opened);
                let mut show = |member: &[u8], score: f64| show(ValuePart::Scored(member, score));
                set.lot().pick_some(rng, picker, most, |id| set.show(id, &mut show));
            }
            Type::String | Type::List | Type::Stream => unreachable!("hashes, sets and sorted sets are drawn from"),
        }
        Ok(())
    }
}
