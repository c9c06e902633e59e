//! Where connections are: how workers note their own connections and those of others.

/// Number of a connection within its worker. It is used again after the connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnId(pub(crate) usize);

/// A connection as others note it: the client's id, which is never used again, shows whether the number has changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnRef {
    pub(crate) conn: ConnId,
    pub(crate) client: u64,
}

/// A client that waits for what the server does for it, and its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkWaiter {
    pub(crate) worker: usize,
    pub(crate) conn: ConnRef,
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) worker: usize,
    pub(crate) conn: ConnId,
}
