//! The heaviest of many names, in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi: "Efficient Computation of
//! Frequent and Top-k Elements in Data Streams", 2005).
//!
//! ```text
//!   add(name, weight)    known: its weight grows
//!                        room:  it is new
//!                        else:  it takes the place and the weight of the lightest one, whose weight is its error from now on
//! ```
//! With [`PLACES`] places, each name that has more than one [`PLACES`]-th of all weight is there. The weight of a name is
//! never less than the true one, and at most its error more. Halving all weights from time to time makes old weight
//! count less ([`Heavy::halve`]).

/// Names that are kept.
pub const PLACES: usize = 128;
/// Bytes of a name that are kept.
pub const NAME_BYTES_MAX: usize = 128;

/// A name, its weight, and by how much that may be too great.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeavyName {
    /// The hash that tells names apart.
    pub hash: u64,
    /// A number that belongs to the name, for example its database.
    pub group: u32,
    /// The name, cut behind [`NAME_BYTES_MAX`] bytes.
    pub name: Vec<u8>,
    /// The weight.
    pub weight: u64,
    /// The weight may be too great by this.
    pub error: u64,
}

/// See the module's text. Nothing is allocated before the first name.
#[derive(Debug, Default)]
pub struct Heavy {
    /// Hashes and weights stand by themselves: both are searched from end to end.
    hashes: Vec<u64>,
    weights: Vec<u64>,
    names: Vec<Name>,
    /// The weight of all names, those included that are no longer there.
    total: u64,
}

#[derive(Debug)]
struct Name {
    group: u32,
    bytes: Vec<u8>,
    error: u64,
}

impl Heavy {
    /// Adds weight to the name with this hash.
    pub fn add(&mut self, hash: u64, group: u32, name: &[u8], weight: u64) {
        self.total = self.total.saturating_add(weight);
        if let Some(at) = self.hashes.iter().position(|known| *known == hash) {
            self.weights[at] = self.weights[at].saturating_add(weight);
            return;
        }
        let kept = &name[..name.len().min(NAME_BYTES_MAX)];
        if self.hashes.len() < PLACES {
            if self.hashes.is_empty() {
                self.hashes.reserve_exact(PLACES);
                self.weights.reserve_exact(PLACES);
                self.names.reserve_exact(PLACES);
            }
            self.hashes.push(hash);
            self.weights.push(weight);
            self.names.push(Name { group, bytes: kept.to_vec(), error: 0 });
            return;
        }
        let least = self.weights.iter().copied().min().expect("there are places");
        let at = self.weights.iter().position(|weight| *weight == least).expect("the least is one of them");
        self.hashes[at] = hash;
        self.weights[at] = least.saturating_add(weight);
        let place = &mut self.names[at];
        (place.group, place.error) = (group, least);
        place.bytes.clear();
        place.bytes.extend_from_slice(kept);
    }

    /// The weight of all names that were added, those that are no longer there included.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Halves all weights; names that have none left go.
    pub fn halve(&mut self) {
        self.total /= 2;
        self.weights.iter_mut().for_each(|weight| *weight /= 2);
        self.names.iter_mut().for_each(|name| name.error /= 2);
        let mut at = 0;
        while at < self.weights.len() {
            if self.weights[at] > 0 {
                at += 1;
                continue;
            }
            self.hashes.swap_remove(at);
            self.weights.swap_remove(at);
            self.names.swap_remove(at);
        }
        assert!(self.hashes.len() == self.names.len(), "a name without a hash");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Heavy::default();
    }

    /// The names that are kept, in no order.
    pub fn names(&self) -> impl Iterator<Item = HeavyName> + '_ {
        let both = self.hashes.iter().zip(&self.weights);
        both.zip(&self.names).map(|((&hash, &weight), name)| HeavyName {
            hash,
            group: name.group,
            name: name.bytes.clone(),
            weight,
            error: name.error,
        })
    }
}

/// The sum of what several counted apart, heaviest first. A name that one of them does not keep may have had as much there as its
/// lightest: such a sum is too small by at most that.
pub fn merge<'h>(parts: impl IntoIterator<Item = &'h Heavy>) -> Vec<HeavyName> {
    let mut all: Vec<HeavyName> = Vec::new();
    for name in parts.into_iter().flat_map(Heavy::names) {
        match all.iter_mut().find(|known| known.hash == name.hash) {
            Some(known) => {
                known.weight = known.weight.saturating_add(name.weight);
                known.error = known.error.saturating_add(name.error);
            }
            None => all.push(name),
        }
    }
    all.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn add(heavy: &mut Heavy, n: u64, weight: u64) {
        heavy.add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0, format!("name {n}").as_bytes(), weight);
    }

    #[test]
    fn heavy_names_are_found_among_many_light_ones() {
        let (mut heavy, mut rng) = (Heavy::default(), Rng::seeded(5));
        let mut truth = [0; 4];
        for _ in 0..200_000 {
            // Four names have an eighth of the weight each, 100 000 others share the rest.
            let n = if rng.below(2) == 0 { rng.below(4) } else { 4 + rng.below(100_000) };
            add(&mut heavy, n, 1);
            if n < 4 {
                truth[n as usize] += 1;
            }
        }
        let found = merge([&heavy]);
        assert_eq!(heavy.total(), 200_000);
        assert_eq!(found.len(), PLACES);
        let mut first: Vec<_> = found[..4].iter().map(|one| one.name.clone()).collect();
        first.sort();
        assert_eq!(first, [b"name 0", b"name 1", b"name 2", b"name 3"]);
        for one in &found[..4] {
            let n = usize::from(one.name[5] - b'0');
            assert!(one.weight >= truth[n], "never less than the truth");
            assert!(one.weight - one.error <= truth[n], "nor more than the error");
        }
    }

    #[test]
    fn every_name_beyond_its_share_is_there_whatever_the_order() {
        let mut heavy = Heavy::default();
        (0..1000).for_each(|_| add(&mut heavy, 7, 1));
        // Each of these comes once: none may push the heavy one out.
        (100..100 + 900 * PLACES as u64).for_each(|n| add(&mut heavy, n, 1));
        assert!(heavy.names().any(|one| one.name == b"name 7"), "it has over one of {PLACES} parts");
    }

    #[test]
    fn halving_forgets_what_is_light_and_old() {
        let mut heavy = Heavy::default();
        add(&mut heavy, 1, 1);
        add(&mut heavy, 2, 100);
        heavy.halve();
        assert_eq!(heavy.names().map(|one| one.weight).collect::<Vec<_>>(), [50]);
        heavy.clear();
        assert_eq!((heavy.total(), heavy.names().count()), (0, 0));
    }

    #[test]
    fn parts_are_merged_by_name() {
        let (mut one, mut two) = (Heavy::default(), Heavy::default());
        add(&mut one, 1, 10);
        add(&mut one, 2, 15);
        add(&mut two, 1, 10);
        let merged = merge([&one, &two]);
        assert_eq!(
            merged.iter().map(|name| (&name.name[..], name.weight)).collect::<Vec<_>>(),
            [(&b"name 1"[..], 20), (&b"name 2"[..], 15)]
        );
    }

    #[test]
    fn a_long_name_is_cut() {
        let mut heavy = Heavy::default();
        heavy.add(1, 3, &[b'x'; 1 << 20], 1);
        let one = heavy.names().next().expect("one");
        assert_eq!((one.name.len(), one.group), (NAME_BYTES_MAX, 3));
    }
}
