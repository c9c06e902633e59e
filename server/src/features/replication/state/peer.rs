//! A server at the other end of a connection: the things that it has said of itself (REPLCONF), and its place as a replica.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::replicas::Replica;

/// The only things that are wanted of a data set: never keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataFilter {
    /// The libraries of functions.
    pub(crate) functions: bool,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The port on which it listens; 0 if it has not said.
    pub(crate) port: u16,
    /// The address under which it wants to be known; empty for that of its socket.
    pub(crate) address: String,
    /// It takes an answer of another id to PSYNC.
    pub(crate) takes_ids: bool,
    /// It takes a data set of unknown length, with a mark behind it.
    pub(crate) takes_mark: bool,
    /// The only things that it wants of the data set; None for all.
    pub(crate) filter: Option<DataFilter>,
    /// It wants the data set alone, and no stream.
    pub(crate) wants_file_only: bool,
    /// It was this server's primary, and has had it take its place.
    pub(crate) has_promoted: bool,
    /// Its place as a replica.
    pub(crate) replica: Option<Following>,
}

/// A replica's place, as its worker sees it.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) shared: Arc<Replica>,
    /// It has sent SYNC: it is told neither id nor offset, and acknowledges nothing.
    pub(crate) is_old: bool,
    /// It was told of which instant its data set will be.
    pub(crate) is_greeted: bool,
    /// It was sent the head of its data set: the length, or the mark that is to come.
    pub(crate) has_head: bool,
    /// It was sent the mark behind its data set, and nothing more before it says that it has found that.
    pub(crate) is_marked: bool,
    /// The part of its data set or of the stream that a thread reads for it out of files.
    pub(crate) parts: Option<Receiver<Result<Vec<u8>, String>>>,
}

impl Following {
    /// It was sent nothing yet; `is_old`: it has sent SYNC.
    pub(crate) fn new(shared: Arc<Replica>, is_old: bool) -> Following {
        Following { shared, is_old, is_greeted: false, has_head: false, is_marked: false, parts: None }
    }
}
