//! A connection as commands see it: one [`Session`] each, owned by the server's connection.
//!
//! Sockets, buffers and timeouts are the server's.

use std::sync::Arc;

use varve_acl::{User, Users};
use varve_catalog::{Behaviour, Row};
use varve_protocol::{Args, Resp};
use varve_store::{Overdue, StoreWorker, Tx};

use crate::multi::{Multi, Reach, Watching};
use crate::ongoing::OngoingCommand;
use crate::script_rules::ScriptRules;
use crate::tracking::Tracking;
use crate::waiting::Blocked;

mod configured;
mod going_on;
mod stand_in;

/// The mode that CLIENT REPLY set.
///
/// ```text
///            OFF                      ON
///   On ------------> Off -----------------------> On
///   On --SKIP--> SkipNext --end of SKIP--> Skip --end of the next command--> On
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReplyMode {
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

/// The commands that a connection may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// It has to authenticate first.
    Stranger,
    /// Those that its user has the right to.
    Restricted,
    /// All.
    Full,
}

/// A connection as commands see it.
#[derive(Debug)]
pub struct Session {
    /// Number of the connection, from 1, never used twice in a process.
    id: u64,
    /// Selected (logical) database.
    db: u32,
    /// Protocol version of the replies.
    resp: Resp,
    /// Name given with CLIENT SETNAME or HELLO, empty without.
    name: Vec<u8>,
    /// Library's name given with CLIENT SETINFO, empty without.
    library_name: Vec<u8>,
    /// Library's version given with CLIENT SETINFO, empty without.
    library_version: Vec<u8>,
    /// Follows from the three below.
    access: Access,
    /// It has authenticated, or did not need to when it connected.
    is_known: bool,
    /// Whoever comes is the default user.
    is_open: bool,
    /// The user that it is authenticated as, the default one until then.
    user: Arc<User>,
    /// The state of the server's users that `user` is of.
    users_epoch: u64,
    /// Its reads do not move the keys' access clocks.
    no_touch: bool,
    /// Longest string and longest argument, in bytes (`proto-max-bulk-len`).
    string_bytes_max: usize,
    /// The version of RDB that payloads have (`rdb-version`), if one is pinned.
    rdb_version: Option<u16>,
    /// It is not among the victims when clients take too much memory.
    no_evict: bool,
    /// The wait that the command that just ran has begun.
    blocked: Option<Blocked>,
    /// Bytes of the wait, which its owner has then, from its begin to its end.
    waiting_bytes: usize,
    /// The command that goes on in its next turns.
    ongoing: Option<Box<OngoingCommand>>,
    /// A command that began anew too often runs.
    runs_whole: bool,
    /// The command that runs has begun before.
    begins_anew: bool,
    reply: ReplyMode,
    /// Number of channels, patterns and shard channels that it is subscribed to.
    subscriptions: u32,
    /// It gets a line for every command (MONITOR), and may not touch keys.
    monitors: bool,
    /// It is a replica of this server.
    follows: bool,
    tracking: Tracking,
    /// The connection ends when what has been replied is sent.
    ends: bool,
    /// The row of the command that ran last.
    last: Option<&'static Row>,
    /// Bytes of the arguments of the request that is running or being read.
    argument_bytes: usize,
    /// Bytes of the arguments of requests that wait (in MULTI).
    queued_bytes: usize,
    /// Bytes of its script that rests.
    script_bytes: usize,
    /// Commands queued since MULTI.
    multi: Option<Box<Multi>>,
    /// The keys that it watches.
    watching: Option<Box<Watching>>,
    /// The number of commands of the EXEC that is running; 0 in a script.
    in_exec: Option<u32>,
    /// Its last transaction took long: the next one may as well.
    pub(crate) has_long_transactions: bool,
    /// How often in a row its next request has found a shard busy.
    busy_tries: u32,
    /// It is no client's: a file is replayed.
    replays: bool,
    /// When it connected, milliseconds of Unix time.
    created_ms: i64,
    /// When it last sent something, milliseconds of Unix time.
    active_ms: i64,
}

impl Session {
    /// The session of a new connection, which is the `default` user's. It has to authenticate unless that user is open.
    pub fn of_client(id: u64, now_ms: i64, default: Arc<User>) -> Session {
        let is_open = default.is_open();
        let mut session = Session { user: default, ..Session::new(id, now_ms, is_open) };
        session.settle_access();
        session
    }

    /// The session of a user who may do everything. `authenticated` says whether it may do so at once.
    pub fn new(id: u64, now_ms: i64, authenticated: bool) -> Session {
        Session {
            id,
            db: 0,
            resp: Resp::V2,
            name: Vec::new(),
            library_name: Vec::new(),
            library_version: Vec::new(),
            access: if authenticated { Access::Full } else { Access::Stranger },
            is_known: authenticated,
            is_open: authenticated,
            user: User::unrestricted(),
            users_epoch: 0,
            no_touch: false,
            string_bytes_max: 512 << 20,
            rdb_version: None,
            no_evict: false,
            blocked: None,
            waiting_bytes: 0,
            ongoing: None,
            runs_whole: false,
            begins_anew: false,
            reply: ReplyMode::On,
            subscriptions: 0,
            monitors: false,
            follows: false,
            tracking: Tracking::default(),
            ends: false,
            last: None,
            argument_bytes: 0,
            queued_bytes: 0,
            script_bytes: 0,
            multi: None,
            watching: None,
            in_exec: None,
            has_long_transactions: false,
            busy_tries: 0,
            replays: false,
            created_ms: now_ms,
            active_ms: now_ms,
        }
    }

    /// The session on which a file is replayed, as no client. Its writer has decided which keys end when.
    pub fn of_replay(now_ms: i64) -> Session {
        Session { replays: true, ..Session::new(0, now_ms, true) }
    }

    /// The session on which the commands of a script run that `caller` has called: nothing blocks, and all replies are
    /// wanted, in RESP2 until the script asks for another version.
    pub(crate) fn of_script(caller: &Session) -> Session {
        Session {
            db: caller.db,
            user: caller.user.clone(),
            no_touch: caller.no_touch,
            string_bytes_max: caller.string_bytes_max,
            rdb_version: caller.rdb_version,
            tracking: caller.tracking,
            in_exec: Some(0),
            replays: caller.replays,
            // How long a script that runs alone waits for others follows from it.
            busy_tries: caller.busy_tries,
            ..Session::new(caller.id, caller.created_ms, true)
        }
    }

    /// True if a file is replayed.
    #[inline]
    pub fn replays(&self) -> bool {
        self.replays
    }

    /// The fate of keys that its commands meet and whose time has come. `still`: nothing may change at present.
    #[inline]
    pub(crate) fn overdue(&self, still: bool) -> Overdue {
        match (self.replays, still) {
            (true, _) => Overdue::Alive,
            (false, true) => Overdue::Hidden,
            (false, false) => Overdue::Removed,
        }
    }

    /// RESET: back to a new connection's state, the `default` user's; the identity (id, library, times) is kept. A
    /// transaction is left before ([`Session::leave_transaction`]). The caller switches its [`varve_protocol::Reply`] to
    /// RESP2.
    pub fn reset(&mut self, default: Arc<User>) {
        self.db = 0;
        self.resp = Resp::V2;
        self.name.clear();
        (self.is_known, self.is_open) = (default.is_open(), default.is_open());
        self.user = default;
        self.settle_access();
        self.no_touch = false;
        // CLIENT REPLY SKIP holds for this command still, CLIENT REPLY OFF does not.
        if self.reply != ReplyMode::Skip {
            self.reply = ReplyMode::On;
        }
        self.queued_bytes = 0;
    }

    /// Number of the connection, from 1, never used twice in a process.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// When it connected, milliseconds of Unix time.
    pub fn created_ms(&self) -> i64 {
        self.created_ms
    }

    /// When it last sent something, milliseconds of Unix time.
    pub fn active_ms(&self) -> i64 {
        self.active_ms
    }

    /// The client has sent something at `now_ms`, milliseconds of Unix time.
    #[inline]
    pub fn note_activity(&mut self, now_ms: i64) {
        self.active_ms = now_ms;
    }

    /// Number of the selected (logical) database.
    #[inline]
    pub fn db(&self) -> u32 {
        self.db
    }

    /// Selects a (logical) database, whose number has been checked.
    pub fn select(&mut self, db: u32) {
        self.db = db;
    }

    /// True if nothing is special about it: what runs for it is only to be run, replied and counted.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.access == Access::Full
            && !self.monitors
            && !self.follows
            && self.subscriptions == 0
            && !self.tracking.on
            && self.ends_quietly()
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
}

/// Texts and settings that the client or the server gave it.
impl Session {
    /// Protocol version of the replies.
    #[inline]
    pub fn resp(&self) -> Resp {
        self.resp
    }

    /// Replies are of this protocol version from now on; the caller switches its [`varve_protocol::Reply`].
    pub fn speak(&mut self, resp: Resp) {
        self.resp = resp;
    }

    /// Name given with CLIENT SETNAME or HELLO, empty without.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// CLIENT SETNAME; empty for none.
    pub fn set_name(&mut self, name: &[u8]) {
        self.name = name.to_vec();
    }

    /// CLIENT SETINFO LIB-NAME.
    pub fn set_library_name(&mut self, name: &[u8]) {
        self.library_name = name.to_vec();
    }

    /// CLIENT SETINFO LIB-VER.
    pub fn set_library_version(&mut self, version: &[u8]) {
        self.library_version = version.to_vec();
    }

    /// Bytes that the texts about it take: its name, the library.
    pub fn text_bytes(&self) -> usize {
        self.name.capacity() + self.library_name.capacity() + self.library_version.capacity()
    }

    /// True if its reads do not move the keys' access clocks.
    #[inline]
    pub fn is_no_touch(&self) -> bool {
        self.no_touch
    }

    /// CLIENT NO-TOUCH.
    pub fn set_no_touch(&mut self, on: bool) {
        self.no_touch = on;
    }

    /// True if it is not among the victims when clients take too much memory.
    #[inline]
    pub fn is_no_evict(&self) -> bool {
        self.no_evict
    }

    /// CLIENT NO-EVICT.
    pub fn set_no_evict(&mut self, on: bool) {
        self.no_evict = on;
    }

    /// True if it is subscribed to something.
    #[inline]
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions > 0
    }

    /// It is subscribed to this number of channels, patterns and shard channels.
    pub fn count_subscriptions(&mut self, total: u32) {
        self.subscriptions = total;
    }

    /// True if it gets a line for every command (MONITOR); it may not touch keys then.
    #[inline]
    pub fn is_monitor(&self) -> bool {
        self.monitors
    }

    /// It is a replica of this server from now on, to its end: it may not touch keys.
    pub fn begin_following(&mut self) {
        self.follows = true;
    }

    /// True if it may not touch keys: it gets a line for every command, or the stream.
    #[inline]
    pub(crate) fn keeps_off_keys(&self) -> bool {
        self.monitors || self.follows
    }

    /// MONITOR; false if it monitors already.
    pub fn begin_monitoring(&mut self) -> bool {
        !std::mem::replace(&mut self.monitors, true)
    }

    /// Ends MONITOR; false if it did not monitor.
    pub fn end_monitoring(&mut self) -> bool {
        std::mem::take(&mut self.monitors)
    }

    /// Client-side caching.
    #[inline]
    pub fn tracking(&self) -> &Tracking {
        &self.tracking
    }

    /// CLIENT TRACKING ON with these options.
    pub fn track(&mut self, tracking: Tracking) {
        self.tracking = tracking;
    }

    /// CLIENT TRACKING OFF; false if it was off.
    pub fn end_tracking(&mut self) -> bool {
        std::mem::take(&mut self.tracking).on
    }

    /// CLIENT CACHING.
    pub fn begin_caching(&mut self) {
        self.tracking.caching = true;
    }

    /// A command has run: CLIENT CACHING holds until the next command that is not of the CLIENT family; a transaction is
    /// one command.
    #[inline]
    pub(crate) fn end_caching(&mut self, row: &Row) {
        if self.tracking.caching {
            let within = self.is_queueing() || self.is_in_exec();
            self.tracking.caching = within || row.behaviour.has(Behaviour::KEEPS_CACHING);
        }
    }

    /// A command begins anew for which CLIENT CACHING was said, or it has run.
    pub(crate) fn set_caching(&mut self, caches: bool) {
        self.tracking.caching = caches;
    }

    /// A request that names no command ends CLIENT CACHING as well, outside of a transaction.
    #[cold]
    pub(crate) fn end_caching_of_unknown(&mut self) {
        self.tracking.caching &= self.is_queueing();
    }

    /// The connection that invalidations go to in its place is gone.
    pub fn note_broken_redirect(&mut self) {
        self.tracking.broken = true;
    }
}

/// Its user.
impl Session {
    /// True if it may run commands that need authentication.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        self.access != Access::Stranger
    }

    /// True if its user has not the right to everything.
    #[inline]
    pub fn is_restricted(&self) -> bool {
        !self.user.is_full()
    }

    /// The user that it is authenticated as, the default one until then.
    #[inline]
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// The client has given the name and the password of this user.
    pub fn authenticate(&mut self, user: Arc<User>) {
        self.user = user;
        self.is_known = true;
        self.settle_access();
    }

    /// The state of the server's users that its own is of, as [`Session::follow_users`] was told.
    #[inline]
    pub fn users_epoch(&self) -> u64 {
        self.users_epoch
    }

    /// The server's users have changed, for the `epoch`th time: it has the rights that its user has now. False if that user
    /// was deleted: it may run nothing any more, and ends.
    #[must_use = "a connection whose user is gone ends"]
    pub fn follow_users(&mut self, users: &Users, epoch: u64) -> bool {
        let Some(user) = users.current(&self.user) else {
            (self.is_known, self.is_open) = (false, false);
            self.settle_access();
            return false;
        };
        self.user = Arc::clone(user);
        self.users_epoch = epoch;
        self.is_open = users.default_user().is_open();
        self.settle_access();
        true
    }

    fn settle_access(&mut self) {
        self.access = match (self.is_known || self.is_open, self.user.is_full()) {
            (false, _) => Access::Stranger,
            (true, false) => Access::Restricted,
            (true, true) => Access::Full,
        };
    }
}

/// Its requests and replies.
impl Session {
    /// How often in a row its next request has found a shard busy.
    #[inline]
    pub fn busy_tries(&self) -> u32 {
        self.busy_tries
    }

    /// The next request has found a shard, or the gate, busy.
    #[cold]
    pub fn note_busy(&mut self) {
        self.busy_tries = self.busy_tries.saturating_add(1);
    }

    /// A request has run.
    #[inline]
    pub fn note_progress(&mut self) {
        self.busy_tries = 0;
    }

    /// Bytes of the arguments of the request that is running or being read.
    #[inline]
    pub fn argument_bytes(&self) -> usize {
        self.argument_bytes
    }

    /// A request runs whose arguments have this number of bytes.
    #[inline]
    pub fn begin_request(&mut self, argument_bytes: usize) {
        self.argument_bytes = argument_bytes;
    }

    /// The row of the command that ran last, or runs.
    pub fn last_command(&self) -> Option<&'static Row> {
        self.last
    }

    /// This command has run, or runs. While a transaction runs, EXEC is the last command.
    #[inline]
    pub fn note_command(&mut self, row: &'static Row) {
        if self.in_exec.is_none() {
            self.last = Some(row);
        }
    }

    /// The wait of its last command ends: true if its reply is to be dropped.
    pub fn end_wait(&mut self) -> bool {
        self.waiting_bytes = 0;
        if let Some(row) = self.last {
            self.end_caching(row);
        }
        self.drop_reply()
    }

    /// The command that just ran waits for its keys.
    pub(crate) fn block(&mut self, blocked: Blocked) {
        self.waiting_bytes = blocked.bytes();
        self.blocked = Some(blocked);
    }

    /// Bytes that its wait for keys takes, here and in their queues; 0 if it does not wait.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// True if the command that just ran waits.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// The wait of the command that just ran, for its owner.
    pub(crate) fn take_blocked(&mut self) -> Option<Blocked> {
        self.blocked.take()
    }

    /// True if no further request may run in this turn: the command that just ran waits, or goes on.
    #[inline]
    pub(crate) fn ends_turn(&self) -> bool {
        self.blocked.is_some() || self.ongoing.is_some()
    }

    /// True if the reply to its last command may come in parts. Messages that come meanwhile wait behind it.
    pub fn takes_parts(&self) -> bool {
        self.takes_late_reply() && !self.runs_whole
    }

    /// Whether the command that runs begins anew, and whether it runs whole, although its reply may come in parts.
    pub(crate) fn set_begins_anew(&mut self, anew: bool, whole: bool) {
        (self.begins_anew, self.runs_whole) = (anew, whole);
    }

    /// True if the command that runs has begun before, and others have changed what it had read.
    pub fn begins_anew(&self) -> bool {
        self.begins_anew
    }

    /// True if a command may go on over several turns that replies nothing before its last part: messages of others may
    /// come meanwhile.
    pub fn takes_late_reply(&self) -> bool {
        self.in_exec.is_none() && !self.replays
    }

    /// True if replies are wanted.
    pub fn wants_replies(&self) -> bool {
        self.reply == ReplyMode::On
    }

    /// The connection ends when what has been replied is sent.
    pub fn end_after_reply(&mut self) {
        self.ends = true;
    }

    /// True if the connection ends when what has been replied is sent.
    #[inline]
    pub fn ends_after_reply(&self) -> bool {
        self.ends
    }

    /// CLIENT REPLY ON.
    pub fn reply_on(&mut self) {
        self.reply = ReplyMode::On;
    }

    /// CLIENT REPLY OFF.
    pub fn reply_off(&mut self) {
        self.reply = ReplyMode::Off;
    }

    /// CLIENT REPLY SKIP: the next command has no reply. While replies are off it changes nothing.
    pub fn skip_next_reply(&mut self) {
        if self.reply != ReplyMode::Off {
            self.reply = ReplyMode::SkipNext;
        }
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

    /// True if the reply of the command that runs is to be dropped, EXEC's for instance.
    pub fn is_muted(&self) -> bool {
        matches!(self.reply, ReplyMode::Off | ReplyMode::Skip)
    }

    /// True if the reply of a command inside EXEC is dropped; `muted` says whether EXEC's own is.
    pub(crate) fn is_muted_in_exec(&self, muted: bool) -> bool {
        muted && self.reply != ReplyMode::On || self.reply == ReplyMode::Off
    }
}

/// Its transaction.
impl Session {
    /// True between MULTI and EXEC.
    #[inline]
    pub(crate) fn is_queueing(&self) -> bool {
        self.multi.is_some()
    }

    /// Number of commands of its transaction, which is queued or runs; None outside.
    pub fn queued(&self) -> Option<usize> {
        self.multi.as_ref().map(|multi| multi.len()).or(self.in_exec.map(|count| count as usize))
    }

    /// Bytes of the arguments of the commands of its transaction.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// The transaction that is being queued.
    pub(crate) fn multi(&self) -> Option<&Multi> {
        self.multi.as_deref()
    }

    /// The transaction that is being queued, for changing it.
    pub(crate) fn multi_mut(&mut self) -> Option<&mut Multi> {
        self.multi.as_deref_mut()
    }

    /// MULTI.
    pub(crate) fn begin_multi(&mut self) {
        self.multi = Some(Box::default());
    }

    /// Queues a copy of a command, which needs this `reach` and runs a script with these flags, between MULTI and EXEC; false, and
    /// nothing is done, if the system refuses the memory.
    pub(crate) fn queue(
        &mut self,
        row: &'static Row,
        rules: Option<ScriptRules>,
        args: Args<'_>,
        reach: Reach,
    ) -> bool {
        let Some(multi) = &mut self.multi else { return true };
        let Some(bytes) = multi.push(row, rules, args, reach) else { return false };
        multi.changes |= row.changes() && !rules.is_some_and(|rules| rules.no_writes);
        self.queued_bytes += bytes;
        true
    }

    /// EXEC runs: takes what was queued. Nothing blocks until [`Session::end_exec`].
    pub(crate) fn begin_exec(&mut self, exec: &'static Row) -> Multi {
        self.note_command(exec);
        let multi = *self.multi.take().expect("EXEC inside MULTI");
        self.in_exec = Some(multi.len() as u32);
        multi
    }

    /// EXEC has run: the session is an ordinary one again.
    pub(crate) fn end_exec(&mut self) {
        self.in_exec = None;
        self.queued_bytes = 0;
        self.reply = match self.reply {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip => ReplyMode::On,
            other => other,
        };
    }

    /// True while EXEC is running its commands: nothing blocks.
    #[inline]
    pub fn is_in_exec(&self) -> bool {
        self.in_exec.is_some()
    }

    /// True if it is a script's.
    #[inline]
    pub fn is_script(&self) -> bool {
        // A transaction has commands.
        self.in_exec == Some(0)
    }

    /// The keys that it watches.
    pub(crate) fn watching(&self) -> Option<&Watching> {
        self.watching.as_deref()
    }

    /// The session watches nothing any more; what it watched is the caller's.
    pub(crate) fn take_watching(&mut self) -> Option<Box<Watching>> {
        self.watching.take()
    }

    /// Number of keys that it watches.
    pub fn watched(&self) -> usize {
        self.watching.as_ref().map_or(0, |watching| watching.len())
    }

    /// Bytes that its watched keys take, here and in their shards.
    pub fn watched_bytes(&self) -> usize {
        self.watching.as_ref().map_or(0, |watching| watching.bytes())
    }

    /// True if EXEC would do nothing because a watched key was touched, as far as is known.
    pub fn is_touched(&self) -> bool {
        self.watching.as_ref().is_some_and(|watching| watching.is_touched())
    }

    /// Watches keys of the selected database; their shards are held.
    pub fn watch<'k>(&mut self, tx: &mut Tx<'_>, keys: impl Iterator<Item = &'k [u8]>) {
        self.watching.get_or_insert_default().add(tx, keys);
    }

    /// Forgets queued commands and watched keys: the end of the connection, RESET. The caller is not inside the gate.
    pub fn leave_transaction(&mut self, worker: &mut StoreWorker) {
        self.multi = None;
        self.queued_bytes = 0;
        if let Some(watching) = self.watching.take() {
            watching.abandon(worker);
        }
    }
}
