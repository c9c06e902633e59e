//! The values of the model's keys: the plainest form of each type.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use varve_store::{Groups, ListPart, PendingFilter, SetOp, StreamGroup, StreamId, Tx, Type};

/// A value as the model has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plain {
    String(Vec<u8>),
    List(VecDeque<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    Zset(BTreeMap<Vec<u8>, f64>),
    Stream(Entries),
}

/// The fields and values of an entry.
pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The entries of a stream, the greatest ID that it has ever had, and its groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entries {
    pub(crate) entries: BTreeMap<StreamId, Pairs>,
    pub(crate) last: StreamId,
    pub(crate) groups: PlainGroups,
}

/// The groups of a stream, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlainGroups(pub(crate) BTreeMap<Vec<u8>, PlainGroup>);

/// A group: the last ID that it was given, its consumers, and the entries that are pending: whose, since when, how often
/// delivered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlainGroup {
    pub(crate) last: StreamId,
    pub(crate) consumers: BTreeSet<Vec<u8>>,
    pub(crate) pending: BTreeMap<StreamId, (Vec<u8>, i64, u64)>,
}

impl PlainGroups {
    /// Adds a group that was given nothing; false if there is one of this name.
    pub(crate) fn insert_if_new(&mut self, name: Vec<u8>) -> bool {
        let is_new = !self.0.contains_key(&name);
        self.0.entry(name).or_default();
        is_new
    }

    /// The groups of a stream as the store has them.
    pub(crate) fn of(groups: &Groups) -> PlainGroups {
        let plain = |group: &StreamGroup| {
            let consumers: BTreeSet<Vec<u8>> = group.consumers().map(|(name, _)| name.to_vec()).collect();
            let mut pending = BTreeMap::new();
            group.scan(StreamId::MIN, PendingFilter::ALL, |entry| {
                let owner = group.name(entry.consumer).to_vec();
                pending.insert(entry.id, (owner, entry.time_ms, entry.count)).is_none()
            });
            assert_eq!(group.pending(), pending.len() as u64);
            let each: u64 = group.consumers().map(|(_, consumer)| consumer.pending).sum();
            assert_eq!(each, group.pending(), "pending entries of all consumers");
            PlainGroup { last: group.last(), consumers, pending }
        };
        PlainGroups(groups.iter().map(|(name, group)| (name.to_vec(), plain(group))).collect())
    }
}

impl Plain {
    pub(crate) fn ty(&self) -> Type {
        match self {
            Plain::String(_) => Type::String,
            Plain::List(_) => Type::List,
            Plain::Hash(_) => Type::Hash,
            Plain::Set(_) => Type::Set,
            Plain::Zset(_) => Type::Zset,
            Plain::Stream(_) => Type::Stream,
        }
    }

    pub(crate) fn empty(ty: Type) -> Plain {
        match ty {
            Type::String => Plain::String(Vec::new()),
            Type::Stream => Plain::Stream(Entries::default()),
            Type::List => Plain::List(VecDeque::new()),
            Type::Hash => Plain::Hash(BTreeMap::new()),
            Type::Set => Plain::Set(BTreeSet::new()),
            Type::Zset => Plain::Zset(BTreeMap::new()),
        }
    }

    /// A collection without elements, which is no key.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            // A stream without entries stays.
            Plain::String(_) | Plain::Stream(_) => false,
            Plain::List(list) => list.is_empty(),
            Plain::Hash(hash) => hash.is_empty(),
            Plain::Set(set) => set.is_empty(),
            Plain::Zset(zset) => zset.is_empty(),
        }
    }

    pub(crate) fn list(&mut self) -> &mut VecDeque<Vec<u8>> {
        let Plain::List(list) = self else { unreachable!("a list") };
        list
    }

    pub(crate) fn hash(&mut self) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
        let Plain::Hash(hash) = self else { unreachable!("a hash") };
        hash
    }

    pub(crate) fn set(&mut self) -> &mut BTreeSet<Vec<u8>> {
        let Plain::Set(set) = self else { unreachable!("a set") };
        set
    }

    pub(crate) fn zset(&mut self) -> &mut BTreeMap<Vec<u8>, f64> {
        let Plain::Zset(zset) = self else { unreachable!("a sorted set") };
        zset
    }

    /// Reads the value of a key that is there, whole.
    pub(crate) fn read(tx: &mut Tx<'_>, key: &[u8], ty: Type) -> Plain {
        let k = tx.key(key);
        let mut value = Plain::empty(ty);
        match &mut value {
            Plain::String(text) => text.extend(tx.get(&k).expect("a string").expect("a value")),
            Plain::List(list) => {
                let mut told = None;
                tx.list_range(&k, 0, -1, |part| match part {
                    ListPart::Len(len) => told = Some(len),
                    ListPart::Element(element) => list.push_back(element.to_vec()),
                })
                .expect("a list");
                assert_eq!(told, Some(list.len() as u64));
            }
            Plain::Hash(hash) => tx
                .hash_for_each(&k, |field, value| {
                    assert!(hash.insert(field.to_vec(), value.to_vec()).is_none(), "a field twice");
                })
                .expect("a hash"),
            Plain::Set(set) => {
                let view = tx.set_view(&k).expect("a set").expect("it is there");
                view.for_each(|m| assert!(set.insert(m.text(&mut [0; 20]).to_vec()), "a member twice"));
                assert_eq!(view.len(), set.len());
            }
            Plain::Stream(stream) => {
                let facts = tx.stream_peek(&k, |view| {
                    view.range(StreamId::MIN, StreamId::MAX, false, |entry| {
                        let fields = entry.fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                        assert!(stream.entries.insert(entry.id, fields).is_none(), "an entry twice");
                        true
                    });
                    stream.groups = view.groups().map_or_else(PlainGroups::default, PlainGroups::of);
                    view.facts()
                });
                let facts = facts.expect("a stream").expect("it is there");
                assert_eq!(facts.len, stream.entries.len() as u64);
                assert_eq!(facts.first, stream.entries.keys().next().copied().unwrap_or(StreamId::MIN));
                stream.last = facts.state.last;
            }
            Plain::Zset(zset) => {
                let mut last: Option<(f64, Vec<u8>)> = None;
                tx.zset_for_each(&k, &mut |member, score| {
                    let this = (score, member.to_vec());
                    assert!(last.as_ref().is_none_or(|last| *last < this), "in order");
                    last = Some(this);
                    zset.insert(member.to_vec(), score);
                })
                .expect("a sorted set");
            }
        }
        value
    }
}

/// Members in the order of (score, member).
pub(crate) fn ordered(zset: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut all: Vec<(Vec<u8>, f64)> = zset.iter().map(|(member, score)| (member.clone(), *score)).collect();
    all.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("no NaN").then_with(|| a.0.cmp(&b.0)));
    all
}

/// The result of an operation on sets.
pub(crate) fn combine(op: SetOp, sets: &[BTreeSet<Vec<u8>>]) -> BTreeSet<Vec<u8>> {
    let (first, others) = sets.split_first().expect("a set");
    others.iter().fold(first.clone(), |all, other| match op {
        SetOp::Intersection => &all & other,
        SetOp::Union => &all | other,
        SetOp::Difference => &all - other,
    })
}
