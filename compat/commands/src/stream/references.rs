//! The groups' references to entries that are removed: KEEPREF, DELREF, ACKED.
//!
//! ```text
//!   KEEPREF   an entry stays pending in groups, without its fields                (also if none of the words is there)
//!   DELREF    it is pending nowhere any more
//!   ACKED     it is removed only if no group needs it: each was given it, and none has it pending
//! ```
//! The effects are in words of redis-server 7.0.15: XACK where an entry is pending no more, XDEL where one is gone.
//!
//! Not here: which entries go.

use varve_exec::notify::Words;
use varve_store::{PendingFilter, StreamId, StreamReader, StreamWriter};

use super::id_text;
use crate::grammar::is;

/// See the file's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum References {
    #[default]
    Keep,
    Delete,
    /// Entries to which there are references stay.
    Acked,
}

/// Entries that are pending no more in a group, by its name.
pub(super) type Dropped = Vec<(Box<[u8]>, Vec<StreamId>)>;

impl References {
    /// The meaning of a word; None if it is none of these.
    pub(super) fn parse(word: &[u8]) -> Option<References> {
        const WORDS: [(&str, References); 3] =
            [("KEEPREF", References::Keep), ("DELREF", References::Delete), ("ACKED", References::Acked)];
        WORDS.into_iter().find(|(name, _)| is(word, name)).map(|(_, references)| references)
    }
}

/// Whether a group needs an entry: it was not given it yet, or has it pending.
pub(super) fn is_needed(stream: StreamReader<'_>, id: StreamId) -> bool {
    let groups = stream.groups().into_iter().flat_map(|groups| groups.values());
    groups.into_iter().any(|group| group.last() < id || group.pending_at(id).is_some())
}

/// Ends that these entries are pending in any group.
pub(super) fn drop_references(stream: &mut StreamWriter<'_, '_>, ids: &[StreamId]) -> Dropped {
    let (Some(first), Some(last)) = (ids.iter().min(), ids.iter().max()) else { return Vec::new() };
    let mut names: Vec<Box<[u8]>> = Vec::new();
    for (name, group) in stream.read().groups().into_iter().flat_map(|groups| groups.iter()) {
        let mut has_any = false;
        group.scan(*first, PendingFilter::ALL, |entry| {
            has_any = entry.id <= *last;
            false
        });
        if has_any {
            names.push(Box::from(&**name));
        }
    }
    let mut dropped = Vec::with_capacity(names.len());
    for name in names {
        let ended = |group: &mut varve_store::StreamGroup| {
            ids.iter().copied().filter(|id| group.acknowledge(*id)).collect::<Vec<StreamId>>()
        };
        let ended = stream.change_group(&name, ended).unwrap_or_default();
        if !ended.is_empty() {
            dropped.push((name, ended));
        }
    }
    dropped
}

/// Writes the XACKs that do it again, each an effect of its own; true if there is any.
pub(super) fn ack_words(words: &mut Words<'_>, key: &[u8], dropped: &Dropped) -> bool {
    for (at, (name, ids)) in dropped.iter().enumerate() {
        if at > 0 {
            words.next_effect();
        }
        words.add(b"XACK").add(key).add(name);
        ids.iter().for_each(|id| _ = words.add(&id_text(*id)));
    }
    !dropped.is_empty()
}

/// Writes the XDEL that removes these entries again.
pub(super) fn del_words(words: &mut Words<'_>, key: &[u8], ids: &[StreamId]) {
    words.add(b"XDEL").add(key);
    ids.iter().for_each(|id| _ = words.add(&id_text(*id)));
}
