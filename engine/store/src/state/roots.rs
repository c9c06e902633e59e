//! The roots of one shard: a slab, so that a key object's link finds its root by one array access.

use varve_collection::CollectionId;

use super::link::Root;

/// Roots by place.
#[derive(Default)]
pub(crate) struct Roots {
    pub(crate) places: Vec<Option<Box<Root>>>,
    pub(crate) free: Vec<u32>,
}

impl Roots {
    #[inline]
    pub(crate) fn get(&self, place: u32) -> &Root {
        self.places[place as usize].as_deref().expect("a link leads to a root")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Root {
        self.places[place as usize].as_deref_mut().expect("a link leads to a root")
    }

    /// The root of this id at a place, if it is there, to read.
    #[inline]
    pub(crate) fn peek(&self, place: u32, id: CollectionId) -> Option<&Root> {
        self.places.get(place as usize)?.as_deref().filter(|root| root.id == id)
    }

    /// The root of this id at a place, if it is there.
    pub(crate) fn find(&mut self, place: u32, id: CollectionId) -> Option<&mut Root> {
        self.places.get_mut(place as usize)?.as_deref_mut().filter(|root| root.id == id)
    }

    pub(crate) fn put(&mut self, root: Box<Root>) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = Some(root);
            return place;
        }
        self.places.push(Some(root));
        (self.places.len() - 1) as u32
    }

    pub(crate) fn take(&mut self, place: u32) -> Box<Root> {
        let root = self.places[place as usize].take().expect("a link leads to a root");
        self.free.push(place);
        if self.free.len() == self.places.len() {
            *self = Roots::default();
        }
        root
    }

    /// All roots with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Root)> {
        self.places.iter().enumerate().filter_map(|(place, root)| Some((place as u32, root.as_deref()?)))
    }

    /// Takes any root out, where all are dropped one by one. The places of the others stay.
    pub(crate) fn pop(&mut self) -> Option<Box<Root>> {
        while let Some(place) = self.places.pop() {
            if place.is_some() {
                return place;
            }
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
