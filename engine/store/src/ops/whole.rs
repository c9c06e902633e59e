//! Reading all of a big collection of any type over several holds of its shard, as it was when the reader began.
//!
//! Not here: ranges, and reading of one type ([`super::reading`]).

use super::Tx;
use super::opened::Opened;
use super::reading::{EntryReader, ListReader, ReadOn, ZsetReader, is_long};
use crate::ListEnd;
use crate::state::key::Key;
use crate::state::listing::KeyListing;
use crate::state::readers::CollectionReader;
use crate::state::types::{Type, WrongType};
use crate::state::walker::ValuePart;

/// A reader of all of a big collection.
#[derive(Debug)]
pub enum WholeReader {
    /// Of a hash.
    Fields(CollectionReader),
    /// Of a set.
    Members(CollectionReader),
    /// Of a list, front to back.
    List(ListReader),
    /// Of a sorted set, upwards.
    Zset(ZsetReader),
    /// Of a stream, node by node.
    Stream(EntryReader),
}

impl WholeReader {
    /// Bytes that the collection keeps for it ([`CollectionReader::kept_bytes`]).
    pub fn kept_bytes(&self) -> usize {
        match self {
            WholeReader::Fields(reader) | WholeReader::Members(reader) => reader.kept_bytes(),
            WholeReader::List(reader) => reader.kept_bytes(),
            WholeReader::Zset(reader) => reader.kept_bytes(),
            WholeReader::Stream(reader) => reader.kept_bytes(),
        }
    }
}

impl Tx<'_> {
    /// Lists some more names, with one shard held; false at the end. `None`, and nothing is done, if it is busy.
    pub fn list_on(&mut self, listing: &mut KeyListing) -> Option<bool> {
        let Some(shard) = listing.shard(self.store.shard_count()) else { return Some(false) };
        if !self.try_hold_one(shard as u16) {
            return None;
        }
        listing.pass(shard, self.held.at_mut(0), self.store.log());
        Some(true)
    }

    /// A seed for what a command draws at random by itself.
    pub fn draw_seed(&mut self) -> u64 {
        self.local.rng().next_u64()
    }

    /// Whether work on this number of elements takes too long for one hold, each taking as long as showing `times` elements.
    pub fn is_long_work(&self, elements: u64, times: u64) -> bool {
        elements.saturating_mul(times) >= self.store.ground().readers().bounds().long_elements
    }

    /// Elements that one hold shows: work on one that takes longer, or shorter, than showing it is done on fewer or more.
    pub fn hold_elements(&self) -> u64 {
        self.store.ground().readers().bounds().hold_elements as u64
    }

    /// Whether showing all of the collection at a key, whose shard is held, takes too long for one hold. No hit or miss is
    /// counted.
    pub fn is_long(&mut self, k: &Key<'_>) -> bool {
        let Some(at) = self.live(k) else { return false };
        let shard = self.held.at(at.shard);
        let Some(link) = shard.link_of(self.store.log(), at.r) else { return false };
        is_long(&shard.root(link.place).body, self.store.ground().readers().bounds())
    }

    /// Begins to read all of the collection at a key, whose shard is held, however few elements it has; `None` if there is
    /// none, or if it is one object or a stream without entries, which [`Tx::look`] shows. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    ///
    /// # Panics
    /// If `ty` is no collection.
    pub fn begin_reading_whole(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<WholeReader>, WrongType> {
        let Some(Opened { at, link: Some(link) }) = self.open(k, ty)? else { return Ok(None) };
        let root = &self.held.at(at.shard).root(link.place).body;
        Ok(Some(match ty {
            Type::Hash => WholeReader::Fields(self.begin_elements_reading((at, link))),
            Type::Set => WholeReader::Members(self.begin_elements_reading((at, link))),
            Type::List => {
                let len = root.list().len();
                WholeReader::List(self.begin_list_part((at, link), (0, len), ListEnd::Front))
            }
            Type::Zset => {
                let len = root.zset().len() as u64;
                WholeReader::Zset(self.begin_zset_part((at, link), (0, len), false))
            }
            Type::Stream => match root.stream().len() {
                0 => return Ok(None),
                len => WholeReader::Stream(self.begin_entry_part((at, link), (0, len), false)),
            },
            Type::String => panic!("{ty:?} has no elements that are read one by one"),
        }))
    }

    /// Shows some more elements, of a stream nodes. The shards that were held are let go, and that of the collection is held afterwards.
    pub fn read_whole_on(&mut self, reader: &mut WholeReader, mut show: impl FnMut(ValuePart<'_>)) -> ReadOn {
        let (mut first, mut second) = ([0; 20], [0; 20]);
        match reader {
            WholeReader::Fields(reader) => self.read_elements_on(reader, |field, value, expiry_ms| {
                show(ValuePart::Pair(field.text(&mut first), value.text(&mut second), expiry_ms));
            }),
            WholeReader::Members(reader) => {
                self.read_elements_on(reader, |member, _, _| show(ValuePart::Element(member.text(&mut first))))
            }
            WholeReader::List(reader) => {
                self.read_range_on(reader, |element| show(ValuePart::Element(element.text(&mut first))))
            }
            WholeReader::Zset(reader) => {
                self.read_members_on(reader, |member, score| show(ValuePart::Scored(member, score)))
            }
            WholeReader::Stream(reader) => self.read_entries_on(reader, |part| show(ValuePart::Entries(part.node))),
        }
    }
}
