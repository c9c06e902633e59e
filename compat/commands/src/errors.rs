//! The texts of errors that clients get from commands, each once. Those that the executor gives too are constants of
//! [`CommandError`].

use varve_exec::CommandError;
use varve_rdb::format::TooOld;

/// SORT: the user may not read the keys that the pattern of BY may lead to.
pub(crate) const SORT_BY_DENIED: CommandError =
    CommandError::new(&"ERR BY option of SORT denied due to insufficient ACL permissions.");
/// SORT: the user may not read the keys that a pattern of GET may lead to.
pub(crate) const SORT_GET_DENIED: CommandError =
    CommandError::new(&"ERR GET option of SORT denied due to insufficient ACL permissions.");
/// XREAD: a reply in parts has a reader for each time that a stream is named.
pub(crate) const STREAMS_AGAIN: CommandError =
    CommandError::new(&"ERR XREAD of long streams names keys again more than 256 times");
/// SORT: more patterns than every change of a key can be compared with.
pub(crate) const SORT_GETS: CommandError = CommandError::new(&"ERR SORT takes at most 4096 GET options");
pub(crate) const BITOP_ONE_SOURCE: CommandError =
    CommandError::new(&"ERR BITOP NOT must be called with a single source key.");
pub(crate) const BIT_OFFSET: CommandError = CommandError::new(&"ERR bit offset is not an integer or out of range");
pub(crate) const BIT_VALUE: CommandError = CommandError::new(&"ERR bit is not an integer or out of range");
pub(crate) const BIT_WANTED: CommandError = CommandError::new(&"ERR The bit argument must be 1 or 0.");
pub(crate) const BOUNDS_ORDER: CommandError = CommandError::new(&"ERR LBOUND can't be greater than UBOUND");
pub(crate) const BOUND_NO_FLOAT: CommandError = CommandError::new(&"ERR min or max is not a float");
pub(crate) const BOUND_NO_MEMBER: CommandError = CommandError::new(&"ERR min or max not valid string range item");
pub(crate) const BUSY_KEY: CommandError = CommandError::new(&"BUSYKEY Target key name already exists.");
pub(crate) const CLUSTER_DISABLED: CommandError = CommandError::new(&"ERR This instance has cluster support disabled");
pub(crate) const COUNT_NEGATIVE: CommandError = CommandError::new(&"ERR COUNT can't be negative");
pub(crate) const COUNT_POSITIVE: CommandError = CommandError::new(&"ERR count should be greater than 0");
pub(crate) const CURSOR: CommandError = CommandError::new(&"ERR invalid cursor");
pub(crate) const DATABASE_RANGE: CommandError = CommandError::new(&"ERR Out of range database");
pub(crate) const DECREMENT_OVERFLOW: CommandError = CommandError::new(&"ERR decrement would overflow");
pub(crate) const DUMP_CHECKSUM: CommandError = CommandError::new(&"ERR DUMP payload version or checksum are wrong");
pub(crate) const DUMP_FORMAT: CommandError = CommandError::new(&"ERR Bad data format");
pub(crate) const ENTRIES_ADDED_NEGATIVE: CommandError = CommandError::new(&"ERR entries_added must be positive");
pub(crate) const ENTRIES_ADDED_SMALL: CommandError =
    CommandError::new(&"ERR The entries_added specified in XSETID is smaller than the target stream length");
pub(crate) const EXPIRE_GT_LT: CommandError =
    CommandError::new(&"ERR GT and LT options at the same time are not compatible");
pub(crate) const EXPIRE_NX: CommandError =
    CommandError::new(&"ERR NX and XX, GT or LT options at the same time are not compatible");
pub(crate) const FIELDS_NUMBER: CommandError =
    CommandError::new(&"ERR numfields should be greater than 0 and match the provided number of fields");
pub(crate) const FIELD_NO_FLOAT: CommandError = CommandError::new(&"ERR hash value is not a float");
pub(crate) const FIELD_NO_INTEGER: CommandError = CommandError::new(&"ERR hash value is not an integer");
pub(crate) const FIELD_READ_ONLY: CommandError = CommandError::new(&"ERR BITFIELD_RO only supports the GET subcommand");
pub(crate) const FIELD_TYPE: CommandError = CommandError::new(
    &"ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);
pub(crate) const FIRST_DB: CommandError = CommandError::new(&"ERR invalid first DB index");
pub(crate) const FREQUENCY_RANGE: CommandError = CommandError::new(&"ERR Invalid FREQ value, must be >= 0 and <= 255");
pub(crate) const FREQUENCY_WITHOUT_LFU: CommandError = CommandError::new(
    &"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
     between policies at runtime LRU and LFU data will take some time to adjust.",
);
pub(crate) const GEO_ANY: CommandError = CommandError::new(&"ERR the ANY argument requires COUNT argument");
pub(crate) const GEO_COUNT: CommandError = CommandError::new(&"ERR COUNT must be > 0");
pub(crate) const GEO_HEIGHT: CommandError = CommandError::new(&"ERR need numeric height");
pub(crate) const GEO_NO_MEMBER: CommandError = CommandError::new(&"ERR could not decode requested zset member");
pub(crate) const GEO_RADIUS: CommandError = CommandError::new(&"ERR need numeric radius");
pub(crate) const GEO_RADIUS_NEGATIVE: CommandError = CommandError::new(&"ERR radius cannot be negative");
pub(crate) const GEO_RADIUS_STORE_WITH: CommandError =
    CommandError::new(&"ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
pub(crate) const GEO_SIDE_NEGATIVE: CommandError = CommandError::new(&"ERR height or width cannot be negative");
pub(crate) const GEO_STORE_WITH: CommandError =
    CommandError::new(&"ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
pub(crate) const GEO_UNIT: CommandError = CommandError::new(&"ERR unsupported unit provided. please use M, KM, FT, MI");
pub(crate) const GEO_WIDTH: CommandError = CommandError::new(&"ERR need numeric width");
pub(crate) const IDLE_TIME_RANGE: CommandError = CommandError::new(&"ERR Invalid IDLETIME value, must be >= 0");
pub(crate) const IDLE_TIME_UNDER_LFU: CommandError = CommandError::new(
    &"ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
     policies at runtime LRU and LFU data will take some time to adjust.",
);
pub(crate) const INCREMENT_NOT_FINITE: CommandError = CommandError::new(&"ERR increment would produce NaN or Infinity");
pub(crate) const INCREMENT_OVERFLOW: CommandError = CommandError::new(&"ERR increment or decrement would overflow");
pub(crate) const INDEX_RANGE: CommandError = CommandError::new(&"ERR index out of range");
pub(crate) const INVALID_ARGUMENTS: CommandError = CommandError::new(&"ERR Invalid arguments specified for command");
pub(crate) const INVALID_ARITY: CommandError =
    CommandError::new(&"ERR Invalid number of arguments specified for command");
pub(crate) const INVALID_COMMAND: CommandError = CommandError::new(&"ERR Invalid command specified");
pub(crate) const LAST_BELOW_GIVEN_DELETED: CommandError =
    CommandError::new(&"ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id");
pub(crate) const LAST_BELOW_TOP: CommandError =
    CommandError::new(&"ERR The ID specified in XSETID is smaller than the target stream top item");
pub(crate) const LCS_LENGTH: CommandError = CommandError::new(&"ERR String too long for LCS");
pub(crate) const LCS_LEN_AND_IDX: CommandError =
    CommandError::new(&"ERR If you want both the length and indexes, please just use IDX.");
pub(crate) const LCS_MEMORY: CommandError =
    CommandError::new(&"ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
pub(crate) const LCS_TYPES: CommandError = CommandError::new(&"ERR The specified keys must contain string values");
pub(crate) const LIMIT_NEGATIVE: CommandError = CommandError::new(&"ERR LIMIT can't be negative");
pub(crate) const LIMIT_WITHOUT_BY: CommandError =
    CommandError::new(&"ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
pub(crate) const MAXLEN_NEGATIVE: CommandError = CommandError::new(&"ERR MAXLEN can't be negative");
pub(crate) const MIGRATE_CONNECTING: CommandError =
    CommandError::new(&"IOERR error or timeout connecting to the client");
pub(crate) const MIGRATE_KEY: CommandError =
    CommandError::new(&"ERR When using MIGRATE KEYS option, the key argument must be set to the empty string");
pub(crate) const MIGRATE_READING: CommandError =
    CommandError::new(&"IOERR error or timeout reading to target instance");
pub(crate) const MIGRATE_WRITING: CommandError =
    CommandError::new(&"IOERR error or timeout writing to target instance");
pub(crate) const MUST_BE_POSITIVE: CommandError = CommandError::new(&"ERR value is out of range, must be positive");
pub(crate) const NO_HASH_TABLE: CommandError =
    CommandError::new(&"ERR The value stored at the specified key is not represented using an hash table");
pub(crate) const NO_KEY_ARGUMENTS: CommandError = CommandError::new(&"ERR The command has no key arguments");
pub(crate) const NO_SKETCH: CommandError = CommandError::new(&"WRONGTYPE Key is not a valid HyperLogLog string value.");
pub(crate) const NO_SKETCH_KEY: CommandError = CommandError::new(&"ERR The specified key does not exist");
pub(crate) const DELEX_CONDITION: CommandError =
    CommandError::new(&"ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
pub(crate) const DELEX_TYPE: CommandError =
    CommandError::new(&"ERR Key should be of string type if conditions are specified");
pub(crate) const DIGEST_LENGTH: CommandError = CommandError::new(&"ERR must be exactly 16 hexadecimal characters");
pub(crate) const IDS_COUNT: CommandError =
    CommandError::new(&"ERR The `numids` parameter must match the number of arguments");
pub(crate) const IDS_MISSING: CommandError = CommandError::new(&"ERR IDS option is required");
pub(crate) const IDS_NUMBER: CommandError = CommandError::new(&"ERR Number of IDs must be a positive integer");
pub(crate) const NUMKEYS_INVALID: CommandError = CommandError::new(&"ERR invalid numkeys value or out of range");
pub(crate) const AUTOCLAIM_MIN_IDLE: CommandError =
    CommandError::new(&"ERR Invalid min-idle-time argument for XAUTOCLAIM");
pub(crate) const CLAIM_IDLE_NEGATIVE: CommandError = CommandError::new(&"ERR min-idle-time must be a positive integer");
pub(crate) const CLAIM_IDLE_NUMBER: CommandError = CommandError::new(&"ERR min-idle-time is not an integer");
pub(crate) const CLAIM_COUNT: CommandError = CommandError::new(&"ERR Invalid RETRYCOUNT option argument for XCLAIM");
pub(crate) const CLAIM_IDLE: CommandError = CommandError::new(&"ERR Invalid IDLE option argument for XCLAIM");
pub(crate) const CLAIM_MIN_IDLE: CommandError = CommandError::new(&"ERR Invalid min-idle-time argument for XCLAIM");
pub(crate) const CLAIM_TIME: CommandError = CommandError::new(&"ERR Invalid TIME option argument for XCLAIM");
pub(crate) const COUNT_TOO_SMALL: CommandError = CommandError::new(&"ERR COUNT must be > 0");
pub(crate) const ENTRIES_READ_NEGATIVE: CommandError =
    CommandError::new(&"ERR value for ENTRIESREAD must be positive or -1");
pub(crate) const GIVEN_ID_IN_XREAD: CommandError = CommandError::new(
    &"ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
);
pub(crate) const GROUP_EXISTS: CommandError = CommandError::new(&"BUSYGROUP Consumer Group name already exists");
pub(crate) const GROUP_GONE: CommandError =
    CommandError::new(&"NOGROUP the consumer group this client was blocked on no longer exists");
pub(crate) const GROUP_IN_XREAD: CommandError =
    CommandError::new(&"ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
pub(crate) const GROUP_MISSING: CommandError = CommandError::new(&"ERR Missing GROUP option for XREADGROUP");
pub(crate) const LAST_ID_IN_GROUP: CommandError = CommandError::new(
    &"ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
      specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
);
pub(crate) const NOACK_IN_XREAD: CommandError =
    CommandError::new(&"ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
pub(crate) const NUMKEYS_POSITIVE: CommandError = CommandError::new(&"ERR numkeys should be greater than 0");
pub(crate) const OFFSET_RANGE: CommandError = CommandError::new(&"ERR offset is out of range");
pub(crate) const OVERFLOW_TYPE: CommandError = CommandError::new(&"ERR Invalid OVERFLOW type specified");
pub(crate) const PROTOCOL_TYPE: CommandError = CommandError::new(
    &"ERR Wrong protocol type name. Please use one of the following: \
     string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);
pub(crate) const RANK_ZERO: CommandError = CommandError::new(
    &"ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start \
     from the end of the list",
);
pub(crate) const RESP3_ONLY: CommandError = CommandError::new(&"ERR RESP2 is not supported by this command");
pub(crate) const IDMP_DURATION: CommandError =
    CommandError::new(&"ERR IDMP-DURATION must be between 1 and 86400 seconds");
pub(crate) const IDMP_LONG: CommandError =
    CommandError::new(&"ERR IDMP/IDMPAUTO take producer and idempotent IDs of up to 65536 bytes");
pub(crate) const IDMP_MAXSIZE: CommandError =
    CommandError::new(&"ERR IDMP-MAXSIZE must be between 1 and 10000 entries");
pub(crate) const IDMP_NAME: CommandError = CommandError::new(&"ERR IDMP requires a non-empty idempotent ID");
pub(crate) const IDMP_NO_ENTRY: CommandError = CommandError::new(&"ERR The stream has no entry with this ID");
pub(crate) const IDMP_NOT_AUTO: CommandError =
    CommandError::new(&"ERR IDMP/IDMPAUTO can be used only with auto-generated IDs");
pub(crate) const IDMP_OTHER_ID: CommandError =
    CommandError::new(&"ERR The idempotent ID is that of another entry already");
pub(crate) const IDMP_PRODUCER: CommandError = CommandError::new(&"ERR IDMP requires a non-empty producer ID");
pub(crate) const IDMP_TWICE: CommandError = CommandError::new(&"ERR IDMP/IDMPAUTO specified multiple times");
pub(crate) const IDMPAUTO_PRODUCER: CommandError = CommandError::new(&"ERR IDMPAUTO requires a non-empty producer ID");
pub(crate) const SAME_OBJECT: CommandError = CommandError::new(&"ERR source and destination objects are the same");
pub(crate) const SCORE_NAN: CommandError = CommandError::new(&"ERR resulting score is not a number (NaN)");
pub(crate) const SECOND_DB: CommandError = CommandError::new(&"ERR invalid second DB index");
pub(crate) const SKETCH_CORRUPT: CommandError = CommandError::new(&"INVALIDOBJ Corrupted HLL object detected");
pub(crate) const SKETCH_DENSE: CommandError = CommandError::new(&"ERR HLL encoding is not sparse");
pub(crate) const SKETCH_ERROR: CommandError = CommandError::new(&"ERR TESTFAILED Too big error");
pub(crate) const SKETCH_FORMS_DIFFER: CommandError = CommandError::new(&"ERR TESTFAILED dense/sparse disagree");
pub(crate) const SORT_NO_SCORE: CommandError =
    CommandError::new(&"ERR One or more scores can't be converted into double");
pub(crate) const STREAMS_UNBALANCED: CommandError =
    CommandError::new(&"ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.");
pub(crate) const XCFGSET_NOTHING: CommandError = CommandError::new(&"ERR At least one parameter must be specified");
pub(crate) const STREAM_END: CommandError = CommandError::new(&"ERR invalid end ID for the interval");
pub(crate) const STREAM_EXHAUSTED: CommandError =
    CommandError::new(&"ERR The stream has exhausted the last possible ID, unable to add more items");
pub(crate) const STREAM_GONE: CommandError = CommandError::new(&"UNBLOCKED the stream key no longer exists");
pub(crate) const STREAM_ID: CommandError =
    CommandError::new(&"ERR Invalid stream ID specified as stream command argument");
pub(crate) const STREAM_ID_SMALL: CommandError =
    CommandError::new(&"ERR The ID specified in XADD is equal or smaller than the target stream top item");
pub(crate) const STREAM_ID_ZERO: CommandError =
    CommandError::new(&"ERR The ID specified in XADD must be greater than 0-0");
pub(crate) const STREAM_START: CommandError = CommandError::new(&"ERR invalid start ID for the interval");
pub(crate) const STREAM_TOO_LARGE: CommandError = CommandError::new(&"ERR Elements are too large to be stored");
pub(crate) const TIMEOUT_NO_FLOAT: CommandError = CommandError::new(&"ERR timeout is not a float or out of range");
pub(crate) const TOO_MANY_KEYS: CommandError =
    CommandError::new(&"ERR Number of keys can't be greater than number of args");
pub(crate) const TRIM_LIMIT: CommandError = CommandError::new(&"ERR The LIMIT argument must be >= 0.");
pub(crate) const TRIM_LIMIT_ALONE: CommandError =
    CommandError::new(&"ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
pub(crate) const TRIM_LIMIT_EXACT: CommandError =
    CommandError::new(&"ERR syntax error, LIMIT cannot be used without the special ~ option");
pub(crate) const TRIM_MAXLEN: CommandError = CommandError::new(&"ERR The MAXLEN argument must be >= 0.");
pub(crate) const TRIM_TWICE: CommandError =
    CommandError::new(&"ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
pub(crate) const TRIM_WHAT: CommandError =
    CommandError::new(&"ERR syntax error, XTRIM must be called with a trimming strategy");
pub(crate) const TOO_MANY_ELEMENTS: CommandError = CommandError::new(&"ERR more than 4294967295 elements");
pub(crate) const TOO_MANY_MEMBERS: CommandError =
    CommandError::new(&"ERR the sets have more than 4294967295 members together");
pub(crate) const TTL_NEGATIVE: CommandError = CommandError::new(&"ERR Invalid TTL value, must be >= 0");
pub(crate) const VALUE_NOT_FINITE: CommandError = CommandError::new(&"ERR value is NaN or Infinity");
pub(crate) const VALUE_RANGE: CommandError = CommandError::new(&"ERR value is out of range");
pub(crate) const WEIGHT_NO_FLOAT: CommandError = CommandError::new(&"ERR weight value is not a float");
pub(crate) const XGROUP_NO_KEY: CommandError = CommandError::new(
    &"ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option \
      to create an empty stream automatically.",
);
pub(crate) const WITHSCORES_BYLEX: CommandError =
    CommandError::new(&"ERR syntax error, WITHSCORES not supported in combination with BYLEX");
pub(crate) const ZADD_GT_LT_NX: CommandError =
    CommandError::new(&"ERR GT, LT, and/or NX options at the same time are not compatible");
pub(crate) const ZADD_NX_XX: CommandError =
    CommandError::new(&"ERR XX and NX options at the same time are not compatible");
pub(crate) const ZADD_ONE_PAIR: CommandError =
    CommandError::new(&"ERR INCR option supports a single increment-element pair");

/// A consumer reads from a group that is not there.
pub(crate) fn no_group_to_read(key: &[u8], group: &[u8]) -> CommandError {
    no_group(b"NOGROUP No such key '", key, b"' or consumer group '", group, b"' in XREADGROUP with GROUP option")
}

/// A key is not there, or has no such group.
pub(crate) fn no_key_or_group(key: &[u8], group: &[u8]) -> CommandError {
    no_group(b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'")
}

/// A stream has no such group.
pub(crate) fn no_group_of(group: &[u8], key: &[u8]) -> CommandError {
    no_group(b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'")
}

fn no_group(head: &[u8], first: &[u8], middle: &[u8], second: &[u8], tail: &[u8]) -> CommandError {
    CommandError::owned([head, shown(first), middle, shown(second), tail].concat())
}

/// XREAD or XREADGROUP would wait inside a script; `name` is the client's word for it.
pub(crate) fn blocks_in_script(name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR ", shown(name), b" command is not allowed with BLOCK option from scripts"].concat())
}

/// An option of XCLAIM that there is not.
pub(crate) fn unknown_claim_option(word: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Unrecognized XCLAIM option '", shown(word), b"'"].concat())
}

/// A text up to its first zero byte, where redis-server's texts end.
fn shown(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The operation of BITOP needs a second source.
pub(crate) fn bitop_sources(name: &str) -> CommandError {
    CommandError::owned(format!("ERR BITOP {name} must be called with at least two source keys."))
}

/// A key that was to move has been changed by a command that knows no single keys.
pub(crate) fn migrate_changed(key: &[u8]) -> CommandError {
    CommandError::owned([b"ERR '", key, b"' has changed on its way: both servers have it"].concat())
}

/// The version of RDB that is pinned has no place for a value.
pub(crate) fn rdb_version(fault: TooOld) -> CommandError {
    CommandError::owned(format!("ERR {fault}"))
}

/// The other server has answered an error, here without its `-`.
pub(crate) fn migrate_refused(answer: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Target instance replied with error: ", answer].concat())
}

/// A number is not between these two.
pub(crate) fn not_between(low: i64, high: i64) -> CommandError {
    CommandError::owned(format!("ERR value is out of range, value must between {low} and {high}"))
}

/// More elements that may repeat than are drawn at once.
pub(crate) fn too_many_at_once(most: usize) -> CommandError {
    CommandError::owned(format!("ERR value is out of range, at most {most} elements that may repeat are drawn at once"))
}

/// A search by position says neither or both of two things, as the command that was sent as `name`.
pub(crate) fn geo_exactly_one(of: &str, name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR exactly one of ", of.as_bytes(), b" can be specified for ", name].concat())
}

/// A longitude and a latitude are not on the map.
pub(crate) fn no_position(longitude: f64, latitude: f64) -> CommandError {
    CommandError::owned(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"))
}

/// The command `name` needs a key to read.
pub(crate) fn no_input_key(name: &str) -> CommandError {
    CommandError::owned(format!("ERR at least 1 input key is needed for '{name}' command"))
}

/// An option of the EXPIRE family that there is not.
pub(crate) fn unsupported_option(word: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Unsupported option ", word].concat())
}

/// A subcommand of PFDEBUG that there is not.
pub(crate) fn unknown_pfdebug(name: &[u8]) -> CommandError {
    CommandError::owned([b"ERR Unknown PFDEBUG subcommand '", name, b"'"].concat())
}

/// A subcommand of a container that there is not in this form.
pub(crate) fn wrong_subcommand(container: &str, name: &[u8]) -> CommandError {
    let head = b"ERR unknown subcommand or wrong number of arguments for '".as_slice();
    CommandError::owned([head, name, b"'. Try ", container.as_bytes(), b" HELP."].concat())
}

/// A subcommand of DEBUG that there is not, or not with this number of arguments.
pub(crate) fn unknown_debug(name: &[u8]) -> CommandError {
    let (head, tail) = (b"ERR unknown subcommand or wrong number of arguments for '", b"'. Try DEBUG HELP.");
    CommandError::owned([head.as_slice(), name, tail].concat())
}
