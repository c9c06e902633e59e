//! A connection as commands see it: one [`Session`] each, owned by the server's connection.
//!
//! Sockets, buffers and timeouts are the server's.

use varve_protocol::Resp;

use crate::tracking::Tracking;
use crate::transaction::{Multi, Watching};
use crate::{Blocked, Command};

/// The mode that CLIENT REPLY set.
///
/// ```text
///            OFF                      ON
///   On ------------> Off -----------------------> On
///   On --SKIP--> SkipNext --end of SKIP--> Skip --end of the next command--> On
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Every reply is sent.
    #[default]
    On,
    /// None is.
    Off,
    /// The command that is running asked to skip the next one's.
    SkipNext,
    /// This command's reply is dropped.
    Skip,
}

/// A connection as commands see it.
#[derive(Clone, Debug)]
pub struct Session {
    /// Number of the connection, from 1, never used twice in a process.
    pub id: u64,
    /// Selected (logical) database.
    pub db: u32,
    /// Protocol version of the replies.
    pub resp: Resp,
    /// Name given with CLIENT SETNAME or HELLO, empty without.
    pub name: Vec<u8>,
    /// Library's name given with CLIENT SETINFO, empty without.
    pub lib_name: Vec<u8>,
    /// Library's version given with CLIENT SETINFO, empty without.
    pub lib_ver: Vec<u8>,
    /// May run commands that need authentication.
    pub authenticated: bool,
    /// The user that it is authenticated as.
    pub user: String,
    /// Its reads do not move the keys' access clocks.
    pub no_touch: bool,
    /// Longest string and longest argument, in bytes (`proto-max-bulk-len`); the server keeps it up to date.
    pub bulk_max: usize,
    /// It is not among the victims when clients take too much memory.
    pub no_evict: bool,
    /// The command that just ran waits for its keys; whoever ran it takes this.
    pub blocked: Option<Blocked>,
    /// The mode that CLIENT REPLY set.
    pub reply: ReplyMode,
    /// Channels, patterns and shard channels that it is subscribed to; the server keeps it up to date.
    pub subscriptions: u32,
    /// It gets a line for every command (MONITOR), and may not touch keys.
    pub monitors: bool,
    /// Client-side caching.
    pub tracking: Tracking,
    /// The connection ends when what has been replied is sent.
    pub close_after_reply: bool,
    /// The command that ran last.
    pub last: Option<&'static Command>,
    /// Bytes of the arguments of the request that is running or being read.
    pub argument_bytes: usize,
    /// Bytes of the arguments of requests that wait (in MULTI).
    pub queued_bytes: usize,
    /// Commands queued since MULTI.
    pub multi: Option<Box<Multi>>,
    /// The keys that it watches.
    pub watching: Option<Box<Watching>>,
    /// Bytes that watched keys take.
    pub watched_bytes: usize,
    /// EXEC is running its commands: nothing blocks.
    pub in_exec: bool,
    /// When it connected, milliseconds of Unix time.
    pub created_ms: i64,
    /// When it last sent a command, milliseconds of Unix time.
    pub active_ms: i64,
}

impl Session {
    /// A new connection's.
    pub fn new(id: u64, now_ms: i64, authenticated: bool) -> Session {
        Session {
            id,
            db: 0,
            resp: Resp::V2,
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_ver: Vec::new(),
            authenticated,
            user: String::from("default"),
            no_touch: false,
            bulk_max: 512 << 20,
            no_evict: false,
            blocked: None,
            reply: ReplyMode::On,
            subscriptions: 0,
            monitors: false,
            tracking: Tracking::default(),
            close_after_reply: false,
            last: None,
            argument_bytes: 0,
            queued_bytes: 0,
            multi: None,
            watching: None,
            watched_bytes: 0,
            in_exec: false,
            created_ms: now_ms,
            active_ms: now_ms,
        }
    }

    /// RESET: back to a new connection's state, the identity (id, library, times) kept; a transaction is left before ([`Session::leave_transaction`]). `authenticated` says whether
    /// the default user needs no password. The caller switches its [`varve_protocol::Reply`] to RESP2.
    pub fn reset(&mut self, authenticated: bool) {
        self.db = 0;
        self.resp = Resp::V2;
        self.name.clear();
        self.authenticated = authenticated;
        self.user.clear();
        self.user.push_str("default");
        self.no_touch = false;
        self.reply = ReplyMode::On;
        self.queued_bytes = 0;
    }

    /// True if nothing is special about it: what runs for it is only to be run, replied and counted.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.authenticated && !self.monitors && self.subscriptions == 0 && !self.tracking.on && self.ends_quietly()
    }

    /// True if a command's end changes nothing in it: all replies are sent, CLIENT CACHING does not hold.
    #[inline]
    pub(crate) fn ends_quietly(&self) -> bool {
        self.reply == ReplyMode::On && !self.tracking.caching
    }

    /// True while it may do nothing but subscribe, unsubscribe and a few things more.
    #[inline]
    pub fn only_listens(&self) -> bool {
        self.subscriptions > 0 && self.resp == Resp::V2
    }

    /// True if what the command that just ran replied is to be dropped: the caller notes a
    /// [`mark`](varve_protocol::Reply::mark) before each command and truncates to it. Ends the command: a skip moves on.
    pub fn drop_reply(&mut self) -> bool {
        match self.reply {
            ReplyMode::On => false,
            ReplyMode::Off => true,
            ReplyMode::SkipNext => {
                self.reply = ReplyMode::Skip;
                true
            }
            ReplyMode::Skip => {
                self.reply = ReplyMode::On;
                true
            }
        }
    }
}
