//! DEBUG, the subcommands that need only the keyspace or nothing at all.
//!
//! The server answers DEBUG: it checks `enable-debug-command`, runs what needs it (SLEEP, LOG, SET-ACTIVE-EXPIRE and
//! the like) and hands the rest to [`run`], with the gate held alone. DIGEST gives the same digests as Redis 7.0.15,
//! so that a test can compare two servers' contents in 40 letters (`digest`).

use varve_base::glob;
use varve_base::group::CELLS;
use varve_catalog::{Flags, Group, Row};
use varve_exec::{CmdResult, Command, CommandError, Exec, FileRows, WideCtx};
use varve_protocol::Resp;
use varve_store::{Effect, EventClass, StringForm, TableStats, Ttl};

use crate::digest::{self, look_at, on_key};
use crate::errors;
use crate::generic::{refcount, shares_integers};
use crate::grammar::{help, integer, shown};

/// The row of DEBUG.
pub const ROW: Row = Row::new("debug", Group::Server, -2, "1.0.0")
    .about("For tests of the server.", "")
    .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::PROTECTED])
    .system();

/// DEBUG where no server is.
pub(crate) const ROWS: FileRows = &[Command::new(Exec::Server, ROW)];

/// Bytes of a subcommand's name that its error shows.
const SHOWN_MAX: usize = 128;

/// The error of a subcommand that is not known, or not with this number of arguments.
pub fn unknown(subcommand: &[u8]) -> CommandError {
    errors::unknown_debug(shown(&subcommand[..subcommand.len().min(SHOWN_MAX)]))
}

/// Runs a DEBUG subcommand; one that is not known here fails as an unknown subcommand.
pub fn run(ctx: &mut WideCtx<'_>) -> CmdResult {
    let name = ctx.args.get(1);
    let n = ctx.args.len();
    match name.to_ascii_uppercase().as_slice() {
        b"HELP" if n == 2 => help(ctx.out, "DEBUG", HELP),
        b"DIGEST" if n == 2 => digest::all(ctx),
        b"DIGEST-VALUE" if n >= 2 => digest::values(ctx),
        b"ERROR" if n == 3 => return Err(CommandError::owned(shown(ctx.args.get(2)))),
        b"HTSTATS" if n >= 3 => return table_stats(ctx),
        b"HTSTATS-KEY" if n >= 3 => return key_table_stats(ctx),
        b"OBJECT" if n >= 3 => return object(ctx),
        b"POPULATE" if (3..=5).contains(&n) => return populate(ctx),
        b"PROTOCOL" if n == 3 => return protocol(ctx),
        b"SET-ACTIVE-EXPIRE" if n == 3 => {
            // Whatever is no number is 0, as C reads it.
            ctx.store.set_active_expire(varve_base::number::parse_i64(ctx.args.get(2)).unwrap_or(0) != 0);
            ctx.out.ok();
        }
        b"SET-SKIP-CHECKSUM-VALIDATION" if n == 3 => {
            let skipped = varve_base::number::parse_i64(ctx.args.get(2)).unwrap_or(0) != 0;
            varve_rdb::crc::compare_sums(!skipped);
            ctx.out.ok();
        }
        b"VERIFY" if n == 2 => {
            ctx.worker.park();
            ctx.store.verify();
            ctx.out.ok();
        }
        b"STRINGMATCH-LEN" if n == 4 => {
            let matched = glob::matches(ctx.args.get(2), ctx.args.get(3), false);
            ctx.out.integer(i64::from(matched));
        }
        _ => return Err(unknown(name)),
    }
    Ok(())
}

const HELP: &[&str] = &[
    "DIGEST",
    "    Tell one digest of all keys, values and expiries of all databases.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Tell a digest of the value and expiry of each key, zeros without the key.",
    "ERROR <text>",
    "    Answer this text as an error.",
    "HTSTATS <dbid>",
    "    Tell how full the index is.",
    "HTSTATS-KEY <key>",
    "    Tell how full the index of a big hash, set or sorted set is.",
    "LOG <message>",
    "    Write the message to the server's log.",
    "OBJECT <key>",
    "    Tell how the value of <key> is kept.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Make <count> strings named <prefix>:<number>, the prefix being key if not",
    "    given. Keys that exist stay as they are.",
    "PROTOCOL <type>",
    "    Answer a value of this type: string, integer, double, bignum, null, array,",
    "    set, map, attrib, push, verbatim, true or false.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Give every element of a list a node of its own from this size on; 0: none that",
    "    a node takes.",
    "RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
    "    Save, empty all databases and load what was saved. MERGE: what is there gives way",
    "    to the file; NOFLUSH: nothing is emptied; NOSAVE: nothing is saved before.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Switch the removal of expired keys that nobody asks for off or on.",
    "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
    "    Load files and payloads of DUMP whose checksums are wrong, or refuse them again.",
    "SLEEP <seconds>",
    "    Keep the server asleep, parts of a second allowed: nobody is answered.",
    "SLEEP-WORKER <seconds>",
    "    Keep this worker asleep.",
    "SMALL-BYTES <bytes>",
    "    Keep hashes, sets and sorted sets beyond the settings of small ones in their key's",
    "    object up to this size.",
    "STRINGMATCH-LEN <pattern> <text>",
    "    Tell whether the pattern matches the text.",
    "VERIFY",
    "    Check log, index, counts and wheels against each other; what is wrong ends the",
    "    server.",
];

// The rest

fn object(ctx: &mut WideCtx<'_>) -> CmdResult {
    let found = look_at(ctx, ctx.session.db(), ctx.args.get(2), |tx, key| {
        let info = tx.object(key)?;
        let shares = shares_integers(tx.store());
        let count = refcount(&info, tx.glance(key), shares);
        Some((info, count, tx.now_ms()))
    });
    let (info, count, now_ms) = found.ok_or(CommandError::NO_KEY)?;
    // Redis tells an address first; a place in the log means nothing to a client and changes under reclaim.
    let clock = (now_ms / 1000 - info.idle_s as i64) & 0xff_ffff;
    ctx.out.simple(&format!(
        "Value at:0x0 refcount:{count} encoding:{} serializedlength:{} lru:{clock} lru_seconds_idle:{}",
        info.encoding, info.serialized_bytes, info.idle_s
    ));
    Ok(())
}

fn table_stats(ctx: &mut WideCtx<'_>) -> CmdResult {
    let db = integer(ctx.args.get(2))?;
    let db = u32::try_from(db).ok().filter(|db| *db < ctx.store.databases()).ok_or(errors::DATABASE_RANGE)?;
    let text = format!("[Dictionary HT]\nHash table stats:\n number of elements: {}\n", ctx.store.len(db));
    ctx.out.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn key_table_stats(ctx: &mut WideCtx<'_>) -> CmdResult {
    let found = look_at(ctx, ctx.session.db(), ctx.args.get(2), |tx, key| tx.table_stats(key));
    let stats = found.ok_or(CommandError::NO_KEY)?.ok_or(errors::NO_HASH_TABLE)?;
    ctx.out.verbatim(*b"txt", table_text(&stats).as_bytes());
    Ok(())
}

/// In the form that Redis tells of its tables: places for entries, and a second table while the first one is left.
fn table_text(stats: &TableStats) -> String {
    let places = |buckets: u64| buckets * CELLS as u64;
    let (old, new) = (stats.old_buckets, stats.buckets);
    let first = if old > 0 { old } else { new };
    let mut text = format!(
        "Hash table 0 stats (main hash table):\n table size: {}\n number of elements: {}\n overflow buckets: {}\n",
        places(first),
        stats.entries,
        stats.overflow_buckets
    );
    if old > 0 {
        let left = old.saturating_sub(stats.moved_buckets);
        let target = format!(" table size: {}\n buckets left to move: {left}\n", places(new));
        text.push_str("Hash table 1 stats (rehashing target):\n");
        text.push_str(&target);
    }
    text
}

/// No value of `DEBUG POPULATE` is longer than the longest that a client may send by default.
const POPULATE_BYTES_MAX: usize = 512 << 20;

fn populate(ctx: &mut WideCtx<'_>) -> CmdResult {
    let positive = |text: &[u8]| {
        varve_base::number::parse_i64(text).and_then(|n| usize::try_from(n).ok()).ok_or(errors::MUST_BE_POSITIVE)
    };
    let count = positive(ctx.args.get(2))?;
    let prefix: &[u8] = if ctx.args.len() > 3 { ctx.args.get(3) } else { b"key" };
    let size = if ctx.args.len() > 4 { positive(ctx.args.get(4))? } else { 0 };
    if size > POPULATE_BYTES_MAX {
        return Err(CommandError::TOO_LONG);
    }
    for number in 0..count {
        let name = [prefix, b":", number.to_string().as_bytes()].concat();
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        on_key(ctx, ctx.session.db(), &name, |tx, key| {
            if !tx.exists(key) {
                tx.set(key, &value, Ttl::Clear, StringForm::Plain);
                // Nobody does it again: redis-server keeps it from replicas too.
                tx.did(key, Effect::covered(EventClass::String, "set", 1));
            }
        });
    }
    ctx.out.ok();
    Ok(())
}

fn protocol(ctx: &mut WideCtx<'_>) -> CmdResult {
    let resp3 = ctx.out.resp() == Resp::V3;
    let out = &mut *ctx.out;
    match ctx.args.get(2).to_ascii_lowercase().as_slice() {
        b"string" => out.bulk(b"Hello World"),
        b"integer" => out.integer(12345),
        b"double" => out.double(3141.0 / 1000.0),
        b"bignum" => out.big_number(b"1234567999999999999999999999999999999"),
        b"null" => out.null(),
        b"array" => {
            out.array(3);
            (0..3).for_each(|n| out.integer(n));
        }
        b"set" => {
            out.set(3);
            (0..3).for_each(|n| out.integer(n));
        }
        b"map" => {
            out.map(3);
            for n in 0..3 {
                out.integer(n);
                out.boolean(n == 1);
            }
        }
        b"attrib" => {
            if resp3 {
                out.attribute(1);
                out.bulk(b"key-popularity");
                out.array(2);
                out.bulk(b"key:123");
                out.integer(90);
            }
            out.bulk(b"Some real reply following the attribute");
        }
        b"push" if !resp3 => return Err(errors::RESP3_ONLY),
        b"push" => {
            out.push(2);
            out.bulk(b"server-cpu-usage");
            out.integer(42);
            out.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => out.verbatim(*b"txt", b"This is a verbatim\nstring"),
        b"true" => out.boolean(true),
        b"false" => out.boolean(false),
        _ => return Err(errors::PROTOCOL_TYPE),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{TableStats, table_text};

    #[test]
    fn a_table_that_moves_is_told_as_two() {
        let still = TableStats { entries: 500, buckets: 100, ..TableStats::default() };
        let text = table_text(&still);
        assert!(text.contains(" table size: 700\n number of elements: 500\n") && !text.contains("rehashing target"));
        let moving = TableStats { old_buckets: 80, moved_buckets: 30, ..still };
        let text = table_text(&moving);
        assert!(text.contains(" table size: 560\n") && text.contains(" buckets left to move: 50\n"));
        assert!(text.contains("(rehashing target):\n table size: 700\n"));
    }
}
