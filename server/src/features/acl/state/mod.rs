//! The users of the server, and the log of what was denied to them.
//!
//! ```text
//!   ACL SETUSER, DELUSER, LOAD, requirepass --change--> Users, epoch + 1
//!   each turn of each connection: its session's epoch is this one? else it takes the rights that its user has now
//! ```
//! One lock around the set, a leaf, held for as long as a name is looked up or a line is copied. Whoever changes users has
//! all workers look at their connections then (worker/ask_all_workers.rs): those whose user is gone are closed.

pub(crate) mod log;

use std::path::Path;
use std::sync::atomic::Ordering;

use parking_lot::RwLockReadGuard;
use varve_acl::{KnownCommands, RuleContext, UserLine, Users};
use varve_base::counted::{CountedGuard, CountedMutex};
use varve_base::shared::{SharedRwLock, SharedU64, SharedUsize};
use varve_exec::CommandSet;

use crate::config::{Config, UserLines};
use crate::system::error_text;
use log::AclLog;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct AccessControl {
    known: KnownCommands,
    users: SharedRwLock<Users>,
    /// The number of changes of the users, from 1.
    epoch: SharedU64,
    log: CountedMutex<AclLog>,
    /// Bytes of the users. Relaxed: a figure that no other data depends on.
    user_bytes: SharedUsize,
}

impl AccessControl {
    /// The default user of this configuration alone.
    pub(crate) fn new(commands: &CommandSet, config: &Config) -> AccessControl {
        let known = KnownCommands::new(commands.rows());
        let users =
            Users::new(&config.password.0, &RuleContext { commands: &known, all_channels: config.all_channels });
        let user_bytes = SharedUsize::new(users.memory());
        AccessControl {
            known,
            users: SharedRwLock::new(users),
            epoch: SharedU64::new(1),
            log: CountedMutex::default(),
            user_bytes,
        }
    }

    /// Takes the users that the configuration declares, or those of its file.
    ///
    /// # Errors
    /// The reason why the server cannot start.
    pub(crate) fn start(&self, declared: &[UserLine], config: &Config) -> Result<(), String> {
        let context = self.context(config);
        if config.acl_file.is_some() && !declared.is_empty() {
            return Err(
                "Users are declared in the configuration file and an ACL file is configured as well: only one of \
                        both can be used, since nobody could tell which of them counts"
                    .into(),
            );
        }
        let users = Users::configured(declared, &config.password.0, &context)
            .map_err(|error| format!("{error}. Critical error while loading ACLs. Exiting."))?;
        for user in users.iter().filter(|user| !user.is_on()) {
            let name = String::from_utf8_lossy(user.name());
            tracing::info!(
                "The user '{name}' is disabled (there is no 'on' modifier in the user description). Make sure this is not \
                 a configuration error."
            );
        }
        self.change(|all| *all = users);
        match &config.acl_file {
            Some(path) => self
                .load(path, config)
                .map_err(|errors| format!("Aborting Redis startup because of ACL errors: {errors}")),
            None => Ok(()),
        }
    }

    /// Takes the users of a file in the place of all others.
    ///
    /// # Errors
    /// The faults of the file; nothing has changed.
    pub(crate) fn load(&self, path: &Path, config: &Config) -> Result<(), String> {
        let shown = path.display().to_string();
        let text = std::fs::read(path)
            .map_err(|error| format!("Error loading ACLs, opening file '{shown}': {}", error_text(&error)))?;
        let users = self.users().from_file(&text, &shown, &self.context(config))?;
        self.change(|all| *all = users);
        Ok(())
    }

    /// The things that rules refer to.
    pub(crate) fn context(&self, config: &Config) -> RuleContext<'_> {
        RuleContext { commands: &self.known, all_channels: config.all_channels }
    }

    /// The users as they are now. The lock is a leaf, and held until this is dropped.
    pub(crate) fn users(&self) -> RwLockReadGuard<'_, Users> {
        self.users.read()
    }

    /// Changes the users: from now on each connection takes its rights anew before its next request.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Users) -> R) -> R {
        let mut users = self.users.write();
        let result = change(&mut users);
        self.user_bytes.store(users.memory(), Ordering::Relaxed);
        self.epoch.fetch_add(1, Ordering::Release);
        result
    }

    /// The number of changes of the users, from 1. Read before the users, it is never ahead of them.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The users as lines of a configuration file.
    pub(crate) fn lines(&self, config: &Config) -> UserLines {
        let users = self.users();
        if config.acl_file.is_some() {
            return UserLines::default();
        }
        let needed = !users.are_plain(&config.password.0, &self.context(config));
        UserLines { lines: users.iter().map(|user| user.line().to_vec()).collect(), needed }
    }

    /// Bytes of the users and of the log, which count against the memory limit.
    pub(crate) fn bytes(&self) -> usize {
        self.user_bytes.load(Ordering::Relaxed) + self.log.bytes()
    }

    /// The log of what was denied, locked. The lock is a leaf.
    pub(crate) fn log(&self) -> CountedGuard<'_, AclLog> {
        self.log.lock()
    }
}
