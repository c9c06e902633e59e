//! Clients as plain data: their classes, filters that select some of them, and the questions about them
//! that go to all workers.

pub(crate) mod on_show;
pub(crate) mod room;
pub(crate) mod weights;

/// The classes of clients that Redis tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientClass {
    /// An ordinary client.
    Normal,
    /// The master of this replica.
    Master,
    /// A replica of this server.
    Replica,
    /// A client with subscriptions.
    PubSub,
}

impl ClientClass {
    /// By the name that TYPE takes.
    pub(crate) fn from_name(name: &[u8]) -> Option<ClientClass> {
        let names = [
            (&b"normal"[..], ClientClass::Normal),
            (b"slave", ClientClass::Replica),
            (b"replica", ClientClass::Replica),
            (b"master", ClientClass::Master),
            (b"pubsub", ClientClass::PubSub),
        ];
        names.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, class)| class)
    }

    /// Which of the three output limits is the class's; a master's is the normal one.
    pub(crate) fn limit(self) -> usize {
        match self {
            ClientClass::Normal | ClientClass::Master => 0,
            ClientClass::Replica => 1,
            ClientClass::PubSub => 2,
        }
    }
}

/// Which connections are meant; what is None admits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) ids: Option<Vec<u64>>,
    pub(crate) class: Option<ClientClass>,
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) addr: Option<Vec<u8>>,
    pub(crate) local_addr: Option<Vec<u8>>,
}

impl Filter {
    /// Bytes of memory of what is named in it.
    fn heap_bytes(&self) -> usize {
        let texts = [&self.user, &self.addr, &self.local_addr].into_iter().flatten().map(Vec::capacity).sum::<usize>();
        texts + self.ids.as_ref().map_or(0, |ids| ids.capacity() * size_of::<u64>())
    }
}

/// The question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The lines of CLIENT LIST.
    List(Filter),
    /// Close the connections that match.
    Kill(Kill),
    /// CLIENT PAUSE: come to the end of your turn.
    Paused,
    /// Users have changed: close the connections whose user is gone, or that listen without the right to it, and end the
    /// waits for keys to which the right is lost.
    Users(UsersChanged),
    /// CLIENT UNBLOCK: end the wait of this client, with an error or as if its time were up.
    Unblock { client: u64, error: bool },
}

impl Question {
    /// Bytes of memory that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Question>()
            + match self {
                Question::List(filter) | Question::Kill(Kill { filter, .. }) => filter.heap_bytes(),
                Question::Paused | Question::Users(_) | Question::Unblock { .. } => 0,
            }
    }
}

/// The reply of a command that has changed users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsersChanged {
    /// OK.
    Ok,
    /// The number of users that were deleted.
    Deleted(i64),
}

/// CLIENT KILL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) filter: Filter,
    /// The asking connection is spared.
    pub(crate) skip_me: bool,
    /// The old form (`CLIENT KILL addr`): answers OK or an error in place of a count.
    pub(crate) old_form: bool,
}

/// True for what a client may be called: printable ASCII without spaces, or nothing.
pub(crate) fn is_name(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_graphic)
}
