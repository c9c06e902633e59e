//! The texts of the errors that the server's own commands reply. Errors that other commands reply too stand in
//! `varve_exec::errors`.

use varve_exec::CommandError;

/// AUTH, HELLO: user and password do not fit.
pub(crate) const WRONG_PASSWORD: CommandError =
    CommandError::new(&"WRONGPASS invalid username-password pair or user is disabled.");
/// ACL SETUSER: a name that no file could tell.
pub(crate) const USER_NAME: CommandError = CommandError::new(&"ERR Usernames can't contain spaces or null characters");
/// ACL DELUSER of the default user.
pub(crate) const DEFAULT_USER_STAYS: CommandError = CommandError::new(&"ERR The 'default' user cannot be removed");
/// ACL GENPASS: too many bits, or none.
pub(crate) const PASSWORD_BITS: CommandError = CommandError::new(
    &"ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
);
/// ACL GENPASS: the system gives no random numbers.
pub(crate) const NO_RANDOM_NUMBERS: CommandError = CommandError::new(&"ERR the system gives no random numbers");
/// HOTKEYS START: one collection at a time.
pub(crate) const HOTKEYS_UNDER_WAY: CommandError =
    CommandError::new(&"ERR hotkey tracking session already in progress");
/// HOTKEYS START without METRICS.
pub(crate) const HOTKEYS_METRICS: CommandError = CommandError::new(&"ERR METRICS parameter is required");
/// HOTKEYS START: there are two metrics.
pub(crate) const HOTKEYS_METRICS_COUNT: CommandError = CommandError::new(&"ERR METRICS count must be 1 or 2");
/// HOTKEYS START: fewer metrics than their count.
pub(crate) const HOTKEYS_METRICS_MISSING: CommandError =
    CommandError::new(&"ERR METRICS count does not match number of metric types provided");
/// HOTKEYS START: a metric twice.
pub(crate) const HOTKEYS_CPU_TWICE: CommandError = CommandError::new(&"ERR METRICS CPU given twice");
/// HOTKEYS START: a metric twice.
pub(crate) const HOTKEYS_NET_TWICE: CommandError = CommandError::new(&"ERR METRICS NET given twice");
/// HOTKEYS START: no metric that is known.
pub(crate) const HOTKEYS_METRICS_UNKNOWN: CommandError =
    CommandError::new(&"ERR METRICS no valid metrics passed. Valid are: CPU, NET");
/// HOTKEYS START, HOTKEYS TOP: the number of keys.
pub(crate) const HOTKEYS_COUNT: CommandError = CommandError::new(&"ERR COUNT must be between 1 and 64");
/// HOTKEYS START: the seconds.
pub(crate) const HOTKEYS_DURATION: CommandError = CommandError::new(&"ERR DURATION must be between 1 and 1000000000");
/// HOTKEYS START: the ratio.
pub(crate) const HOTKEYS_SAMPLE: CommandError = CommandError::new(&"ERR SAMPLE ratio must be positive");
/// HOTKEYS START: there are no slots.
pub(crate) const HOTKEYS_SLOTS: CommandError =
    CommandError::new(&"ERR SLOTS parameter cannot be used in non-cluster mode");
/// HOTKEYS RESET: the collection is to be stopped first.
pub(crate) const HOTKEYS_NOT_STOPPED: CommandError =
    CommandError::new(&"ERR hotkey tracking session in progress, stop tracking first");
/// ACL LOAD, ACL SAVE without `aclfile`.
pub(crate) const NO_ACL_FILE: CommandError = CommandError::new(
    &"ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
      command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users \
      in the Redis configuration.",
);
/// ACL SAVE: the log says why.
pub(crate) const ACL_SAVE_FAILED: CommandError = CommandError::new(
    &"ERR There was an error trying to save the ACLs. Please check the server logs for more information",
);
/// AUTH with a password alone, and none is set.
pub(crate) const NO_PASSWORD_SET: CommandError = CommandError::new(
    &"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration \
      is correct?",
);
/// HELLO of a client that is not authenticated.
pub(crate) const HELLO_UNAUTHENTICATED: CommandError = CommandError::new(
    &"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option \
      can be used to authenticate the client and select the RESP protocol version at the same time",
);
/// HELLO: the version is no number.
pub(crate) const PROTOCOL_NOT_INTEGER: CommandError =
    CommandError::new(&"ERR Protocol version is not an integer or out of range");
/// HELLO: neither 2 nor 3.
pub(crate) const NO_PROTOCOL: CommandError = CommandError::new(&"NOPROTO unsupported protocol version");
/// HELLO, CLIENT SETNAME: the name has characters that a name may not have.
pub(crate) const CLIENT_NAME: CommandError =
    CommandError::new(&"ERR Client names cannot contain spaces, newlines or special characters.");
/// CLIENT LIST ID: no number.
pub(crate) const CLIENT_ID: CommandError = CommandError::new(&"ERR Invalid client ID");
/// CLIENT KILL ID: no positive number.
pub(crate) const CLIENT_ID_POSITIVE: CommandError = CommandError::new(&"ERR client-id should be greater than 0");
/// CLIENT KILL of an address that no client has.
pub(crate) const NO_CLIENT: CommandError = CommandError::new(&"ERR No such client");
/// CLIENT UNBLOCK with another reason.
pub(crate) const UNBLOCK_REASON: CommandError =
    CommandError::new(&"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
/// CLIENT PAUSE with another mode.
pub(crate) const PAUSE_MODE: CommandError = CommandError::new(&"ERR CLIENT PAUSE mode must be WRITE or ALL");
/// CLIENT TRACKING: REDIRECT twice.
pub(crate) const REDIRECT_TWICE: CommandError =
    CommandError::new(&"ERR A client can only redirect to a single other client");
/// CLIENT TRACKING REDIRECT to nobody.
pub(crate) const REDIRECT_NO_CLIENT: CommandError =
    CommandError::new(&"ERR The client ID you want redirect to does not exist");
/// CLIENT TRACKING PREFIX without BCAST.
pub(crate) const PREFIX_NEEDS_BCAST: CommandError =
    CommandError::new(&"ERR PREFIX option requires BCAST mode to be enabled");
/// CLIENT TRACKING: BCAST is not changed while it tracks.
pub(crate) const BCAST_FIXED: CommandError = CommandError::new(
    &"ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a \
      different mode.",
);
/// CLIENT TRACKING: BCAST with OPTIN or OPTOUT.
pub(crate) const BCAST_ALONE: CommandError = CommandError::new(&"ERR OPTIN and OPTOUT are not compatible with BCAST");
/// CLIENT TRACKING: OPTIN with OPTOUT.
pub(crate) const OPT_BOTH: CommandError = CommandError::new(&"ERR You can't specify both OPTIN mode and OPTOUT mode");
/// CLIENT TRACKING: OPTIN and OPTOUT are not changed while it tracks.
pub(crate) const OPT_FIXED: CommandError = CommandError::new(
    &"ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a \
      different mode.",
);
/// CLIENT CACHING without tracking.
pub(crate) const CACHING_UNTRACKED: CommandError = CommandError::new(
    &"ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
);
/// CLIENT CACHING YES in another mode.
pub(crate) const CACHING_YES: CommandError =
    CommandError::new(&"ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
/// CLIENT CACHING NO in another mode.
pub(crate) const CACHING_NO: CommandError =
    CommandError::new(&"ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
/// REPLICAOF: no port.
pub(crate) const MASTER_PORT: CommandError = CommandError::new(&"ERR Invalid master port");
/// SYNC, PSYNC: replies are still to be sent.
pub(crate) const SYNC_BEHIND_REPLIES: CommandError =
    CommandError::new(&"ERR SYNC and PSYNC are invalid with pending output");
/// SYNC, PSYNC: the stream cannot be kept.
pub(crate) const NO_STREAM: CommandError = CommandError::new(&"ERR Can't begin the replication stream: see the log");
/// SYNC, PSYNC: this server is a replica that has no stream to hand on at present.
pub(crate) const NO_PRIMARY_LINK: CommandError =
    CommandError::new(&"NOMASTERLINK Can't SYNC while not connected with my master");
/// SYNC, PSYNC: this server is giving its place to a replica.
pub(crate) const FAILING_OVER: CommandError = CommandError::new(&"NOMASTERLINK Can't SYNC while failing over");
/// PSYNC FAILOVER: this server is a master.
pub(crate) const FAILOVER_TO_MASTER: CommandError = CommandError::new(&"ERR PSYNC FAILOVER can't be sent to a master.");
/// PSYNC FAILOVER: this server has another history.
pub(crate) const FAILOVER_OF_ANOTHER: CommandError =
    CommandError::new(&"ERR PSYNC FAILOVER replid must match my replid.");
/// The replies of another server to PSYNC FAILOVER: it is a master, or a replica of another history.
pub(crate) const TARGET_LEADS: &str = "-ERR PSYNC FAILOVER can't be sent to a master.";
pub(crate) const TARGET_OF_ANOTHER: &str = "-ERR PSYNC FAILOVER replid must match my replid.";
/// REPLICAOF: this server is giving its place to a replica.
pub(crate) const REPLICAOF_IN_FAILOVER: CommandError =
    CommandError::new(&"ERR REPLICAOF not allowed while failing over.");
/// FAILOVER ABORT: there is nothing to abort.
pub(crate) const NO_FAILOVER: CommandError = CommandError::new(&"ERR No failover in progress.");
/// FAILOVER: there is one.
pub(crate) const FAILOVER_UNDER_WAY: CommandError = CommandError::new(&"ERR FAILOVER already in progress.");
/// FAILOVER: no time.
pub(crate) const FAILOVER_TIMEOUT: CommandError = CommandError::new(&"ERR FAILOVER timeout must be greater than 0");
/// FAILOVER: this server is a replica.
pub(crate) const FAILOVER_ON_REPLICA: CommandError =
    CommandError::new(&"ERR FAILOVER is not valid when server is a replica.");
/// FAILOVER: nobody could take over.
pub(crate) const FAILOVER_ALONE: CommandError = CommandError::new(&"ERR FAILOVER requires connected replicas.");
/// FAILOVER FORCE: to whom, and when, is not said.
pub(crate) const FAILOVER_FORCE: CommandError =
    CommandError::new(&"ERR FAILOVER with force option requires both a timeout and target HOST and IP.");
/// FAILOVER TO: nobody is known there.
pub(crate) const FAILOVER_TARGET: CommandError =
    CommandError::new(&"ERR FAILOVER target HOST and PORT is not a replica.");
/// FAILOVER TO: the replica is given its data.
pub(crate) const FAILOVER_OFFLINE: CommandError = CommandError::new(&"ERR FAILOVER target replica is not online.");
/// FAILOVER: the system gives no thread.
pub(crate) const FAILOVER_THREAD: CommandError = CommandError::new(&"ERR Can't begin the failover: see the log");
/// WAIT: this server is a replica.
pub(crate) const WAIT_ON_REPLICA: CommandError = CommandError::new(
    &"ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be \
      writable (which is not the default) writes to replicas are just local and are not propagated.",
);
/// WAITAOF: this server is a replica.
pub(crate) const WAITAOF_ON_REPLICA: CommandError = CommandError::new(
    &"ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not \
      propagated.",
);
/// WAITAOF: there is one local file at most.
pub(crate) const WAITAOF_LOCAL: CommandError = CommandError::new(&"ERR value is out of range, must be between 0 and 1");
/// WAITAOF: a number of replicas below 0.
pub(crate) const NOT_POSITIVE: CommandError = CommandError::new(&"ERR value is out of range, must be positive");
/// WAITAOF: no file is kept here.
pub(crate) const WAITAOF_WITHOUT_FILE: CommandError =
    CommandError::new(&"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
/// The beginnings of a primary's errors to PING, where it wants a password first.
pub(crate) const PASSWORD_WANTED: [&str; 3] = ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"];
/// REPLICAOF: the system gives no thread.
pub(crate) fn replicaof(reason: &str) -> CommandError {
    CommandError::owned(format!("ERR Can't begin to replicate: {reason}"))
}
/// CONFIG REWRITE without a file.
pub(crate) const NO_CONFIG_FILE: CommandError = CommandError::new(&"ERR The server is running without a config file");
/// DEBUG is not enabled for this connection.
pub(crate) const DEBUG_REFUSED: CommandError = CommandError::new(
    &"ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local \
      connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);
/// MODULE LOAD and its kin are not enabled for this connection.
pub(crate) const MODULE_REFUSED: CommandError = CommandError::new(
    &"ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a local \
      connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);
/// MODULE LOAD: no module can be loaded.
pub(crate) const NO_MODULES: CommandError =
    CommandError::new(&"ERR Error loading the extension. Varve cannot load modules.");
/// MODULE UNLOAD: nothing is loaded.
pub(crate) const NO_SUCH_MODULE: CommandError =
    CommandError::new(&"ERR Error unloading module: no such module with that name");
/// DEBUG QUICKLIST-PACKED-THRESHOLD: too much, or no size.
pub(crate) const THRESHOLD: CommandError =
    CommandError::new(&"ERR argument must be a memory value bigger than 1 and smaller than 4gb");
/// CLIENT IMPORT-SOURCE: nothing is imported.
pub(crate) const NO_IMPORT_MODE: CommandError = CommandError::new(&"ERR Server is not in import mode");
/// SHUTDOWN ABORT: nothing to abort.
pub(crate) const NO_SHUTDOWN: CommandError = CommandError::new(&"ERR No shutdown in progress.");
/// COMMANDLOG: there is no such log.
pub(crate) const COMMANDLOG_TYPE: CommandError =
    CommandError::new(&"ERR type should be one of the following: slow, large-request, large-reply");
/// SLOWLOG GET, COMMANDLOG GET: the count is below -1 or no number.
pub(crate) const SLOWLOG_COUNT: CommandError = CommandError::new(&"ERR count should be greater than or equal to -1");
/// MONITOR inside EXEC.
pub(crate) const MONITOR_IN_EXEC: CommandError =
    CommandError::new(&"ERR MONITOR isn't allowed for DENY BLOCKING client");
/// SSUBSCRIBE inside EXEC.
pub(crate) const SSUBSCRIBE_IN_EXEC: CommandError =
    CommandError::new(&"ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");

/// SHUTDOWN: the save before it failed.
pub(crate) const SHUTDOWN_FAILED: CommandError = CommandError::new(&"ERR Errors trying to SHUTDOWN. Check logs.");
/// DEBUG RELOAD: another option.
pub(crate) const RELOAD_OPTION: CommandError =
    CommandError::new(&"ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
/// DEBUG RELOAD: the file could not be loaded.
pub(crate) const RELOAD_FAILED: CommandError =
    CommandError::new(&"ERR Error trying to load the RDB dump, check server logs.");
/// DEBUG LOADAOF: not inside EXEC, and not while a file is loaded.
pub(crate) const LOADAOF_NOW: CommandError = CommandError::new(&"ERR DEBUG LOADAOF does not run here");
/// DEBUG LOADAOF: there is no thread for it.
pub(crate) const LOADAOF_FAILED: CommandError =
    CommandError::new(&"ERR Error trying to load the AOF files, check server logs.");
/// SAVE, BGSAVE: one at a time.
pub(crate) const SAVE_UNDER_WAY: CommandError = CommandError::new(&"ERR Background save already in progress");
/// BGSAVE: a rewrite of the append-only file comes first.
pub(crate) const REWRITE_BEFORE_SAVE: CommandError = CommandError::new(
    &"ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a \
      BGSAVE whenever possible.",
);
/// BGREWRITEAOF: one at a time.
pub(crate) const REWRITE_UNDER_WAY: CommandError =
    CommandError::new(&"ERR Background append only file rewriting already in progress");
/// BGREWRITEAOF: the log says why.
pub(crate) const REWRITE_FAILED: CommandError = CommandError::new(
    &"ERR Can't execute an AOF background rewriting. Please check the server logs for more information.",
);
/// SAVE: the log says why.
pub(crate) const SAVE_FAILED: CommandError = CommandError::new(&"ERR");

/// The error for a connection over `maxclients`, before it is closed.
pub(crate) const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

/// The error for a connection from another machine in protected mode, before it is closed.
pub(crate) const PROTECTED_MODE: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is enabled \
and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If \
you want to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable \
protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis \
from the same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do \
so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by \
editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. \
3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Setup a \
an authentication password for the default user. NOTE: You only need to do one of the above things in order for the \
server to start accepting connections from the outside.\r\n";

fn shown(argument: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(argument)
}

/// `family`'s subcommand, as the client wrote it, has another number of arguments.
pub(crate) fn subcommand(family: &str, name: &[u8]) -> CommandError {
    let name = shown(name);
    CommandError::owned(format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try {family} HELP."))
}

/// REPLCONF ip-address: no address is as long.
pub(crate) fn long_address(bytes: usize) -> CommandError {
    CommandError::owned(format!("ERR REPLCONF ip-address provided by replica instance is too long: {bytes} bytes"))
}

/// REPLCONF: an option that is not known.
pub(crate) fn replconf_option(option: &[u8]) -> CommandError {
    CommandError::owned(format!("ERR Unrecognized REPLCONF option: {}", shown(option)))
}

/// REPLCONF rdb-filter-only: there is no such thing in a data set.
pub(crate) fn data_filter(name: &[u8]) -> CommandError {
    CommandError::owned(format!("ERR Unsupported rdb-filter-only option: {}", shown(name)))
}

/// HELLO: an option that it does not have, or without its value.
pub(crate) fn hello_option(option: &[u8]) -> CommandError {
    CommandError::owned(format!("ERR Syntax error in HELLO option '{}'", shown(option)))
}

/// CLIENT SETINFO: another option.
pub(crate) fn setinfo_option(option: &[u8]) -> CommandError {
    CommandError::owned(format!("ERR Unrecognized option '{}'", shown(option)))
}

/// CLIENT SETINFO: the value of `option` has characters that it may not have.
pub(crate) fn setinfo_value(option: &str) -> CommandError {
    CommandError::owned(format!("ERR {option} cannot contain spaces, newlines or special characters."))
}

/// ACL CAT: no such category.
pub(crate) fn no_category(name: &[u8]) -> CommandError {
    CommandError::owned(format!("ERR Unknown category '{}'", shown(name)))
}

/// ACL SETUSER, ACL LOAD: rules that are refused for this reason.
pub(crate) fn acl_rules(reason: &[u8]) -> CommandError {
    CommandError::owned([b"ERR ", reason].concat())
}

/// ACL DRYRUN: no such user.
pub(crate) fn user_not_found(name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR User '", name, b"' not found"].concat())
}

/// ACL DRYRUN: no such command.
pub(crate) fn command_not_found(name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Command '", name, b"' not found"].concat())
}

/// CLIENT LIST, CLIENT KILL: no such class of clients.
pub(crate) fn client_type(name: &[u8]) -> CommandError {
    CommandError::owned(format!("ERR Unknown client type '{}'", shown(name)))
}

/// CLIENT KILL USER: no such user.
pub(crate) fn no_user(name: &[u8]) -> CommandError {
    CommandError::owned(format!("ERR No such user '{}'", shown(name)))
}

/// CLIENT TRACKING: two prefixes of one client overlap. `which` says where the other one comes from.
pub(crate) fn prefix_overlap(new: &[u8], which: &str, other: &[u8]) -> CommandError {
    let end = b"'. Prefixes for a single client must not overlap.";
    CommandError::owned(
        [b"ERR Prefix '", new, b"' overlaps with ", which.as_bytes(), b" prefix '", other, end].concat(),
    )
}

/// CONFIG SET: no such directive.
pub(crate) fn no_directive(name: &[u8]) -> CommandError {
    let name = shown(name);
    CommandError::owned(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"))
}

/// CONFIG SET: the directive cannot have this value.
pub(crate) fn config_set(name: &[u8], reason: &str) -> CommandError {
    let name = shown(name);
    CommandError::owned(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"))
}

/// CONFIG REWRITE: the file could not be written.
pub(crate) fn config_rewrite(reason: &str) -> CommandError {
    CommandError::owned(format!("ERR Rewriting config file: {reason}"))
}

/// LATENCY GRAPH: the event has no samples.
pub(crate) fn no_samples(event: &[u8]) -> CommandError {
    CommandError::owned(format!("ERR No samples available for event '{}'", shown(event)))
}

/// CONFIG GET: more patterns than this.
pub(crate) fn too_many_patterns(most: usize) -> CommandError {
    CommandError::owned(format!("ERR at most {most} patterns may be asked for"))
}
