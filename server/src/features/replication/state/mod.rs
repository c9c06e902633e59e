//! Replication as plain data, shared by all threads.
//!
//! Not here: commands, connections, files.

pub(crate) mod ids;

use ids::Ids;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Replication {
    ids: Ids,
}

impl Replication {
    /// Nobody replicates anything. The stream's id is this one, 40 hexadecimal digits.
    pub(crate) fn new(id: String) -> Replication {
        Replication { ids: Ids::new(id) }
    }

    /// The identity of the stream.
    pub(crate) fn ids(&self) -> &Ids {
        &self.ids
    }
}
