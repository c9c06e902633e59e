//! The rest of a stream, behind its tail: its groups, and the names of its messages.

use std::io::Read;

use super::names::{Names, Said};
use super::{StreamItem, Took};
use crate::read::fault::ReadFault;
use crate::read::source::Source;
use crate::read::strings::Text;

/// How many things are left behind the tail: each counts down before what encloses it.
#[derive(Debug)]
pub(super) struct Behind {
    form: u8,
    groups: u64,
    pending: u64,
    /// The number of the group's consumers stands behind its pending entries.
    counts_consumers: bool,
    /// The number of entries that were given back stands behind its consumers.
    counts_returned: bool,
    consumers: u64,
    owned: u64,
    /// The thing whose name is being read.
    named: Option<Named>,
    names: Option<Names>,
    /// Names of messages stand behind the groups.
    has_names: bool,
}

#[derive(Clone, Copy, Debug)]
enum Named {
    Group,
    Consumer,
}

impl Behind {
    /// This number of groups follows, of a stream of this form.
    pub(super) fn new(form: u8, groups: u64) -> Behind {
        Behind {
            form,
            groups,
            pending: 0,
            counts_consumers: false,
            counts_returned: false,
            consumers: 0,
            owned: 0,
            named: None,
            names: None,
            has_names: form >= 4,
        }
    }

    /// See [`super::StreamState::held_bytes`].
    pub(super) fn held_bytes(&self) -> usize {
        self.names.as_ref().map_or(0, Names::held_bytes)
    }

    /// The next part behind the tail.
    pub(super) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
        text: &mut Text,
        small: &mut Vec<u8>,
    ) -> Result<Took, ReadFault> {
        if let Some(named) = self.named {
            return if text.go_on(source, small)? { self.behind_name(named, source) } else { Ok(Took::More) };
        }
        if self.owned > 0 {
            self.owned -= 1;
            return Ok(Took::Item(StreamItem::Owned(raw_id(source)?)));
        }
        if self.pending > 0 {
            self.pending -= 1;
            let (id, time_ms) = (raw_id(source)?, i64::from_le_bytes(source.array()?));
            return Ok(Took::Item(StreamItem::Pending(id, time_ms, source.length()?)));
        }
        if std::mem::take(&mut self.counts_consumers) {
            self.consumers = source.length()?;
        }
        if let Some(consumers) = self.consumers.checked_sub(1) {
            self.consumers = consumers;
            return self.name(Named::Consumer, source, text, small);
        }
        if std::mem::take(&mut self.counts_returned) {
            self.owned = source.length()?;
            if self.owned > 0 {
                text.bytes.clear();
                return Ok(Took::Item(StreamItem::Consumer(0, 0)));
            }
        }
        if let Some(groups) = self.groups.checked_sub(1) {
            self.groups = groups;
            return self.name(Named::Group, source, text, small);
        }
        self.next_names(source, text, small)
    }

    /// Begins the name of a group or of a consumer.
    fn name<R: Read>(
        &mut self,
        named: Named,
        source: &mut Source<R>,
        text: &mut Text,
        small: &mut Vec<u8>,
    ) -> Result<Took, ReadFault> {
        self.named = Some(named);
        if text.begin(source, small)? { self.behind_name(named, source) } else { Ok(Took::More) }
    }

    /// Reads what stands behind the name of a group or of a consumer.
    fn behind_name<R: Read>(&mut self, named: Named, source: &mut Source<R>) -> Result<Took, ReadFault> {
        self.named = None;
        if let Named::Consumer = named {
            let seen_ms = i64::from_le_bytes(source.array()?);
            let active_ms = if self.form >= 3 { i64::from_le_bytes(source.array()?) } else { seen_ms };
            self.owned = source.length()?;
            return Ok(Took::Item(StreamItem::Consumer(seen_ms, active_ms)));
        }
        let last = (source.length()?, source.length()?);
        // Minus one, for a number that is not known, is written as the greatest.
        let read = if self.form >= 2 { Some(source.length()? as i64) } else { None };
        (self.pending, self.counts_consumers, self.counts_returned) = (source.length()?, true, self.form >= 5);
        Ok(Took::Item(StreamItem::Group(last, read)))
    }

    /// Some names of messages, where the stream has such.
    fn next_names<R: Read>(
        &mut self,
        source: &mut Source<R>,
        text: &mut Text,
        small: &mut Vec<u8>,
    ) -> Result<Took, ReadFault> {
        if std::mem::take(&mut self.has_names) {
            self.names = Some(Names::begin(source, &mut text.bytes)?);
        }
        let Some(names) = &mut self.names else { return Ok(Took::End) };
        Ok(match names.next(source, &mut text.bytes, small)? {
            Said::More => Took::More,
            Said::Some => Took::Item(StreamItem::Names),
            Said::Last(says) => {
                self.names = None;
                if says { Took::Item(StreamItem::Names) } else { Took::End }
            }
        })
    }
}

/// An ID of 16 bytes, high byte first.
fn raw_id<R: Read>(source: &mut Source<R>) -> Result<(u64, u64), ReadFault> {
    Ok((u64::from_be_bytes(source.array()?), u64::from_be_bytes(source.array()?)))
}
